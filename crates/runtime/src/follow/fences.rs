//! Fences do not fault, so they become breakpoints.
//!
//! A fence orders everything before it, no matter which module issued that. So `sfence` and `mfence` are searched for
//! in every module when it is loaded, but locked instructions only in modules that touch PM: other volatile code runs
//! unchanged, and the runtime handles pthreads anyway. Function boundaries come from unwind tables, which even stripped
//! libraries have, so bytes that merely look like a fence are recognized as not starting an instruction. Code without
//! unwind tables is decoded from the end of the previous function.
//!
//! Code that cannot be decoded (data among code) and code outside any module may hide fences. Then the verdict says so,
//! and flushes by such code count as complete at once: otherwise the checker would report a missing fence that exists.
//!
//! Modules loaded later are found at the breakpoint that the loader provides for debuggers.
//!
//! Threads also communicate through locked instructions on volatile memory, so these become steps of the exploration.
//! Rust programs contain functions of their standard library that were not rebuilt ([`standard_library`]).

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::{reason, record};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use px86::Kind;

use super::announced::is_announced;
use super::instruction::{Instructed, register};
use super::{breakpoints, moved, standard_library, trampoline};
use crate::cell::RunningThreadCell;
use crate::recorder::{note, unknown};
use crate::threads::buffers::current;
use crate::threads::turns::{foreign_exchange, is_told_of_exchange};
use crate::{access, callers, modules, raw};

const MODULES: usize = 128;

#[derive(Clone, Copy)]
pub(crate) struct Module {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// The function table for unwinding.
    functions: usize,
    /// Are its locked instructions searched for once it touches PM?
    locked: bool,
    /// Is it the program itself, or a module that calls back into it? Then its threads are followed.
    traced: bool,
    /// Address of a possible fence in code that cannot be decoded; 0 if there is none.
    uncertain: usize,
}

const NO_MODULE: Module =
    Module { begin: 0, end: 0, functions: 0, locked: false, traced: false, uncertain: 0 };

struct Modules {
    known: [Module; MODULES],
    count: usize,
}

static KNOWN: RunningThreadCell<Modules> =
    RunningThreadCell::new(Modules { known: [NO_MODULE; MODULES], count: 0 });

/// Has it been reported that code outside any module touches PM?
static SAID_NO_MODULE: AtomicBool = AtomicBool::new(false);

/// Where the loader stops for debuggers.
static LOADER_STOP: AtomicUsize = AtomicUsize::new(0);

/// Called once, before children are forked.
pub(crate) fn prepare() {
    if !breakpoints::prepare() {
        return;
    }
    look_for_modules();
    stop_loader();
}

/// The loader's list of modules, in the debugger interface.
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const c_void,
    stop: usize,
}

fn stop_loader() {
    // SAFETY: the loader exports this structure; the function it names does nothing.
    unsafe {
        let debug = libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()).cast::<Debug>();
        if debug.is_null() || (*debug).stop == 0 {
            return;
        }
        let stop = (*debug).stop;
        if breakpoints::set(&[stop]) {
            LOADER_STOP.store(stop, Relaxed);
        }
    }
}

fn look_for_modules() {
    // SAFETY: visits the modules; the callback ignores the pointer.
    unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::null_mut()) };
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description with a name and that many headers.
    let (info, headers, name) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        (info, headers, CStr::from_ptr(info.dlpi_name).to_bytes())
    };
    const GNU_EH_FRAME: u32 = 0x6474_e550;
    let base = info.dlpi_addr as usize;
    let (mut begin, mut end, mut functions) = (usize::MAX, 0, 0);
    for header in headers {
        let start = base + header.p_vaddr as usize;
        match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_X != 0 => {
                begin = begin.min(start);
                end = end.max(start + header.p_memsz as usize);
            }
            GNU_EH_FRAME => functions = start,
            _ => {}
        }
    }
    let known = KNOWN.with(|known| known.known[..known.count].iter().any(|known| known.begin == begin));
    let contains = |part: &[u8]| name.windows(part.len()).any(|it| it == part);
    let own = (begin..end).contains(&(visit as *const () as usize));
    if known || begin >= end || own {
        return 0;
    }
    // The loader itself and the vDSO do not touch PM for the program.
    let ignored = contains(b"vdso") || contains(b"/ld-linux");
    let locked = !ignored && !contains(b"/libc.so") && !modules::is_instrumented(begin as *const c_void);
    // Of the distribution's libraries, the ones that run the program's threads; the others lock their shared data.
    const THREADS: [&[u8]; 5] = [b"/libstdc++", b"/libgomp", b"/libgcc_s", b"/libc++", b"/libomp"];
    let system = [&b"/lib/"[..], b"/lib64/", b"/usr/lib"].iter().any(|directory| name.starts_with(directory));
    let traced = locked && (!system || THREADS.iter().any(|part| contains(part)));
    let mut module = Module { begin, end, functions, locked, traced, uncertain: 0 };
    if !contains(b"vdso") {
        keep_code_whole(base, headers);
    }
    if !ignored {
        module.uncertain = sweep_fences(&module);
        say_uncertain(&module);
    }
    if !ignored && !locked {
        let mut batch = Batch::new();
        standard_library::each_function(base, name, |begin, end| {
            if module.begin <= begin && end <= module.end {
                sweep(begin, end, is_locked, &mut batch);
            }
        });
        batch.flush();
    }
    KNOWN.with(|known| {
        let count = known.count;
        if let Some(slot) = known.known.get_mut(count) {
            *slot = module;
            known.count += 1;
        }
    });
    0
}

/// Prepares a module's code for breakpoints here and there.
fn keep_code_whole(base: usize, headers: &[libc::Elf64_Phdr]) {
    let is_code = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags == libc::PF_R | libc::PF_X
    };
    for header in headers.iter().filter(is_code) {
        let begin = base + header.p_vaddr as usize;
        breakpoints::keep_whole(begin, begin + header.p_memsz as usize);
    }
}

/// Called when a child of the checker starts: fences its modules may hide affect the verdict.
pub(crate) fn start() {
    let count = KNOWN.with(|known| known.count);
    for index in 0..count {
        say_uncertain(&KNOWN.with(|known| known.known[index]));
    }
}

fn say_uncertain(module: &Module) {
    if module.uncertain != 0 {
        unknown(reason::FENCES, callers::place(module.uncertain));
    }
}

/// The function around an address, according to the unwind tables: from its start to the start of the next. Code before
/// the first function counts as one, and so does a module without tables.
pub(crate) fn function_around(module: &Module, address: usize) -> (usize, usize) {
    let Some((table, count)) = table_of(module) else { return (module.begin, module.end) };
    // SAFETY: the table has that many entries.
    let start = |index: usize| unsafe { start_of(module, table, index) };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if start(middle) <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let begin = low.checked_sub(1).map_or(module.begin, start).max(module.begin);
    let end = if low < count { start(low) } else { module.end };
    (begin, end.min(module.end))
}

/// The sorted table that follows the header of the unwind tables, in the only encoding that linkers emit.
fn table_of(module: &Module) -> Option<(usize, usize)> {
    if module.functions == 0 {
        return None;
    }
    let header = module.functions as *const u8;
    // SAFETY: the module header guarantees that it is there.
    unsafe {
        let kinds = [header.read(), header.add(2).read(), header.add(3).read()];
        // The pointer before the count has four bytes.
        let narrow = matches!(header.add(1).read() & 0x0f, 0x03 | 0x0b);
        (kinds == [1, 0x03, 0x3b] && narrow)
            .then(|| (module.functions + 12, header.add(8).cast::<u32>().read_unaligned() as usize))
    }
}

unsafe fn start_of(module: &Module, table: usize, index: usize) -> usize {
    // SAFETY: the caller vouches for the entry: two offsets from the header.
    let offset = unsafe { ((table + 8 * index) as *const i32).read_unaligned() };
    module.functions.wrapping_add_signed(offset as isize)
}

/// The code of a module.
pub(crate) fn code(begin: usize, end: usize) -> &'static [u8] {
    // SAFETY: the module is loaded; if it is unloaded, its code is not read again.
    unsafe { std::slice::from_raw_parts(begin as *const u8, end - begin) }
}

fn is_fence(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Sfence | Mnemonic::Mfence)
}

fn is_locked(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    // No other thread accesses thread-local memory.
    let local = matches!(instruction.memory_segment(), Register::FS | Register::GS);
    (instruction.has_lock_prefix() || exchanges) && !local
}

/// A small batch of addresses, without allocation.
struct Batch {
    addresses: [usize; 256],
    count: usize,
}

impl Batch {
    const fn new() -> Batch {
        Batch { addresses: [0; 256], count: 0 }
    }

    fn add(&mut self, address: usize) {
        self.addresses[self.count] = address;
        self.count += 1;
        if self.count == self.addresses.len() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        breakpoints::set(&self.addresses[..self.count]);
        self.count = 0;
    }
}

/// Replaces the wanted instructions of a function by breakpoints. Returns the address up to which it could be decoded.
fn sweep(begin: usize, end: usize, wanted: impl Fn(&Instruction) -> bool, batch: &mut Batch) -> usize {
    let mut decoder = Decoder::with_ip(64, code(begin, end), begin as u64, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decode_next(&mut decoder, begin, end, &mut instruction);
        if instruction.is_invalid() {
            // Data, or an instruction the decoder does not know: the rest is uncertain.
            return instruction.ip() as usize;
        }
        let at = instruction.ip() as usize;
        if wanted(&instruction) && !breakpoints::is_at(at) {
            batch.add(at);
        }
    }
    end
}

/// Decodes the next instruction of the code from `begin` to `end`, also where a breakpoint has replaced its first byte: the
/// others are still there and mean something else. What remains of an `mfence` is the lock prefix of what follows.
pub(crate) fn decode_next(decoder: &mut Decoder, begin: usize, end: usize, instruction: &mut Instruction) {
    const BREAKPOINT: u8 = 0xcc;
    const LONGEST: usize = 15;
    let at = decoder.ip() as usize;
    if code(at, end)[0] != BREAKPOINT || !breakpoints::is_at(at) {
        decoder.decode_out(instruction);
        return;
    }
    let mut bytes = [0; LONGEST];
    let bytes = &mut bytes[..LONGEST.min(end - at)];
    bytes.copy_from_slice(code(at, at + bytes.len()));
    breakpoints::restore(at, bytes);
    Decoder::with_ip(64, bytes, at as u64, DecoderOptions::NONE).decode_out(instruction);
    decoder.set_ip(instruction.next_ip());
    let _ = decoder.set_position(instruction.next_ip() as usize - begin);
}

/// Where the bytes of a fence are, be it one or not. Every start of every program looks through all of its code, so those
/// pieces are skipped first that do not even have the rarest of its bytes.
fn possible_fences(bytes: &[u8]) -> impl Iterator<Item = usize> {
    const PIECE: usize = 64;
    const SECOND: u8 = 0xae;
    let pieces = bytes.chunks(PIECE).enumerate().filter(|(_, piece)| piece.contains(&SECOND));
    pieces.flat_map(move |(number, piece)| {
        let seconds = (number * PIECE..).zip(piece).filter(|(_, byte)| **byte == SECOND).map(|(at, _)| at);
        let is_fence = |at: usize| bytes[at - 1] == 0x0f && matches!(bytes.get(at + 1), Some(0xf0..=0xff));
        seconds.filter(move |at| *at > 0 && is_fence(*at)).map(|at| at - 1)
    })
}

/// Replaces a module's fences by breakpoints. Returns the address of a possible fence that could not be decoded; 0 if
/// there is none.
fn sweep_fences(module: &Module) -> usize {
    let bytes = code(module.begin, module.end);
    let mut batch = Batch::new();
    let (mut swept, mut decoded, mut uncertain) = (0, 0, 0);
    for offset in possible_fences(bytes) {
        let at = module.begin + offset;
        if at >= swept {
            let (start, end) = function_around(module, at);
            decoded = sweep(start, end, is_fence, &mut batch);
            swept = end;
        }
        if at >= decoded && uncertain == 0 {
            uncertain = at;
        }
    }
    batch.flush();
    uncertain
}

/// Whether the fences of code that touches PM are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fences {
    /// All are breakpoints.
    Found,
    /// Some may be missing.
    Uncertain,
}

/// Code at this address touches PM; the first time, its module's locked instructions are searched for.
pub(crate) fn first_touch(at: usize, address: u64) -> Fences {
    let module = KNOWN.with(|known| {
        let count = known.count;
        let found = known.known[..count].iter_mut().find(|module| (module.begin..module.end).contains(&at));
        found.map(|module| (std::mem::take(&mut module.locked), *module))
    });
    let Some((sweeps, module)) = module else {
        // Not in the list: the runtime's own code, the trampolines it writes, and rebuilt code that announces its
        // fences.
        if callers::is_in_runtime(at)
            || callers::is_instrumented(at)
            || trampoline::is_code(at)
            || moved::original(at) != at
        {
            return Fences::Found;
        }
        if !SAID_NO_MODULE.swap(true, Relaxed) {
            note(record::UNKNOWN, address, reason::CODE_OF_NO_MODULE, std::ptr::null());
        }
        return Fences::Uncertain;
    };
    if sweeps && let Some(undecoded) = sweep_locked(&module) {
        unknown(reason::FENCES, callers::place(undecoded));
        KNOWN.with(|known| {
            let count = known.count;
            let known = known.known[..count].iter_mut().find(|known| known.begin == module.begin);
            known.map(|known| known.uncertain = undecoded)
        });
        return Fences::Uncertain;
    }
    if module.uncertain != 0 { Fences::Uncertain } else { Fences::Found }
}

/// Is the code at this address single-stepped while schedules are explored?
pub(crate) fn is_traced(at: usize) -> bool {
    module_of(at).is_some_and(|module| module.traced)
}

/// Should an instruction become a breakpoint?
pub(crate) fn is_breakpoint(instruction: &Instruction) -> bool {
    is_fence(instruction) || is_locked(instruction)
}

/// The module that contains an address.
pub(crate) fn module_of(at: usize) -> Option<Module> {
    KNOWN.with(|known| {
        let count = known.count;
        known.known[..count].iter().find(|module| (module.begin..module.end).contains(&at)).copied()
    })
}

/// Searches for locked instructions as if the code at this address had touched PM.
pub(crate) fn sweep_locked_of(at: usize) {
    let module = KNOWN.with(|known| {
        let count = known.count;
        let found =
            known.known[..count].iter_mut().find(|module| (module.begin..module.end).contains(&at))?;
        std::mem::take(&mut found.locked).then_some(*found)
    });
    if let Some(undecoded) = module.and_then(|module| sweep_locked(&module)) {
        KNOWN.with(|known| {
            let count = known.count;
            let found =
                known.known[..count].iter_mut().find(|module| (module.begin..module.end).contains(&at));
            found.map(|found| found.uncertain = undecoded)
        });
    }
}

/// Visits a module's functions, and the code between them.
pub(crate) fn each_function(module: &Module, mut visit: impl FnMut(usize, usize)) {
    let mut at = module.begin;
    while at < module.end {
        let (_, end) = function_around(module, at);
        visit(at, end);
        at = end.max(at + 1);
    }
}

/// Replaces a module's locked instructions by breakpoints. Returns the address from which it cannot be decoded, if any.
fn sweep_locked(module: &Module) -> Option<usize> {
    let mut batch = Batch::new();
    let mut undecoded = None;
    each_function(module, |begin, end| {
        let decoded = sweep(begin, end, is_locked, &mut batch);
        // Nothing is missed if the rest has no lock prefix.
        if decoded < end && code(decoded, end).iter().any(|byte| matches!(byte, 0xf0 | 0x86 | 0x87)) {
            undecoded = undecoded.or(Some(decoded));
        }
    });
    batch.flush();
    undecoded
}

/// Emulates the instruction a breakpoint replaced. `false` if the breakpoint is not ours.
///
/// # Safety
///
/// The context is that of the breakpoint.
pub(crate) unsafe fn perform(context: &mut libc::ucontext_t) -> bool {
    let at = *register(context, libc::REG_RIP) as usize - 1;
    if !breakpoints::is_at(at) {
        return false;
    }
    // SAFETY: code that is running; the program itself would access its operands.
    unsafe {
        if at == LOADER_STOP.load(Relaxed) {
            // Learns the places of new modules first.
            callers::look_again();
            look_for_modules();
            // The function does nothing but return.
            let stack = *register(context, libc::REG_RSP);
            *register(context, libc::REG_RIP) = raw::peek(stack as u64, 8) as i64;
            *register(context, libc::REG_RSP) = stack + 8;
            return true;
        }
        let Some(instruction) = Instructed::decode(at) else { return false };
        let announced = is_announced();
        let site = callers::place(at);
        let kind = match instruction.mnemonic() {
            Mnemonic::Sfence => Some(Kind::StoreFence),
            Mnemonic::Mfence => Some(Kind::Fence),
            _ => None,
        };
        if let Some(kind) = kind {
            // Rebuilt code announces the fences in assembly that the plugin understands; only unannounced ones leave
            // anything pending.
            let told = callers::is_instrumented(at) && !current(|thread| thread.unfenced);
            if !announced && !told {
                access::fence(kind, site);
            }
            *register(context, libc::REG_RIP) = instruction.end() as i64;
            return true;
        }
        let done = match instruction.operand(context) {
            None => false,
            Some(operand) if is_pm(operand.address) => {
                trampoline::perform(context, &instruction, &operand, announced, site)
            }
            Some(operand) => {
                if !announced && is_told_of_exchange(operand.address) {
                    // Rebuilt code within a standard-library function: it announces its own accesses.
                    breakpoints::remove(at);
                    *register(context, libc::REG_RIP) = at as i64;
                    return true;
                }
                if !announced {
                    let compared = *register(context, libc::REG_RAX) as u64;
                    let changes = || match instruction.mnemonic() {
                        Mnemonic::Cmpxchg => {
                            let mask = u64::MAX >> (64 - 8 * operand.bytes.clamp(1, 8));
                            raw::peek(operand.address, operand.bytes.clamp(1, 8)) == compared & mask
                        }
                        _ => true,
                    };
                    foreign_exchange(operand.address, operand.bytes, site, changes);
                }
                trampoline::run_at(context, &instruction, operand.address)
            }
        };
        if !done {
            unknown(reason::UNSEEN, site);
            breakpoints::remove(at);
            *register(context, libc::REG_RIP) = at as i64;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_found_wherever_they_are() {
        let fences = [[0x0f, 0xae, 0xf8], [0x0f, 0xae, 0xf0], [0x0f, 0xae, 0xff]];
        for at in 0..130 {
            let mut code = vec![0x90; 133];
            code[at..at + 3].copy_from_slice(&fences[at % 3]);
            assert_eq!(possible_fences(&code).collect::<Vec<_>>(), [at]);
            code[at] = 0x0e;
            assert_eq!(possible_fences(&code).count(), 0);
            code[at..at + 3].copy_from_slice(&[0x0f, 0xae, 0xe8]);
            assert_eq!(possible_fences(&code).count(), 0, "another instruction");
        }
        assert_eq!(possible_fences(&[0xae, 0xf8]).count() + possible_fences(&[0x0f, 0xae]).count(), 0);
    }
}
