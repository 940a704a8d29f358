//! Hot spots: an instruction that faults repeatedly is replaced by a jump to code that checks its operand first.
//!
//! The jump takes five bytes, so a few neighboring instructions move along (the *window*). Each that accesses memory
//! checks whether its operand is in PM. If not, it runs unchanged; if so, it runs on a buffer, as in a trampoline but
//! without signals. Then the program continues after the window.
//!
//! Patches miss nothing: code that was not moved still faults, and so does code that was moved without a check. But no
//! jump may land inside a window. Targets of direct jumps and calls are known for the whole module; functions that jump
//! through tables, and windows that contain calls, are left alone.
//!
//! Children report their patches to the parent, so that later children inherit them.

use crashproof_protocol::flag;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use super::asking::{Writer, ask, tell, write_asking, write_moved, write_operand};
use super::breakpoints;
use super::fences::{self, Module};
use super::instruction::{Instructed, LONGEST, register};
use super::moved::{self, Head, MOST, Zone};
use crate::cell::RunningThreadCell;
use crate::learned::Learned;
use crate::system::raw_syscall;
use crate::threads::running;
use crate::{assembly, callers, endless, raw, session};

/// The number of faults that make an instruction hot.
const HOT: u32 = 3;
/// Size of the table of fault counters.
const COUNTED: usize = 4096;
/// Size of a jump instruction.
const JUMP: usize = 5;
/// Size of the code and data of one module's patches.
const ZONE_BYTES: usize = 1 << 20;
const PAGE: usize = 4096;

/// Fault counters, with the address each belongs to.
static COUNTS: RunningThreadCell<[(usize, u32); COUNTED]> = RunningThreadCell::new([(0, 0); COUNTED]);

/// Instructions that children have patched, for their parent.
static LEARNED: Learned = Learned::new();

/// Called once, before children are forked.
pub(crate) fn prepare() {
    if can_save() {
        LEARNED.prepare();
    }
}

/// Can the processor save its vector registers the way `ask` needs?
fn can_save() -> bool {
    std::is_x86_feature_detected!("xsavec")
}

/// Applies the children's patches in the parent.
pub(crate) fn patch_what_children_patched() {
    let places = LEARNED.take();
    if places.is_empty() {
        return;
    }
    endless::note_followed();
    for at in places {
        if let Some(module) = fences::module_of(at) {
            fences::sweep_locked_of(at);
            if !moved::is_moved(at) {
                // SAFETY: code of a module that this process is not executing.
                unsafe { patch(&module, at) };
            }
        }
    }
}

/// Restores the original code, for a run that examines every instruction.
pub(crate) fn undo() {
    moved::each_replaced(|at, original| {
        // SAFETY: code of a module, none of which runs yet.
        unsafe { write_code(at, original) };
    });
}

/// Counts a fault of an instruction that was not rebuilt. If it is hot it is patched, and its new address is returned.
///
/// # Safety
///
/// This thread is about to execute the instruction.
pub(crate) unsafe fn heat(at: usize) -> Option<usize> {
    endless::note_followed();
    if !LEARNED.is_there() {
        return None;
    }
    let hot = COUNTS.with(|counts| {
        let first = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        for index in first..first + 8 {
            let (place, count) = &mut counts[index % COUNTED];
            if *place == at || *count == 0 {
                *place = at;
                *count = count.saturating_add(1);
                return *count == HOT;
            }
        }
        false
    });
    // Other threads may be anywhere in the code, strict mode must see every access, and patches cannot be unwound.
    if !hot
        || session::follows_volatile()
        || session::wants_stacks()
        || running::concurrent()
        || assembly::site().is_some()
        || callers::is_instrumented(at)
        || session::has_flag(flag::STRICT)
    {
        return None;
    }
    let module = fences::module_of(at)?;
    // SAFETY: as for this function.
    let there = unsafe { patch(&module, at) }?;
    LEARNED.push(at);
    Some(there)
}

/// The zone of a module, created if it has none.
fn zone_of(module: &Module) -> Option<Zone> {
    moved::zone(module.begin).or_else(|| {
        let begin = memory_near(module)?;
        let zone = Zone { module: module.begin, begin, used: 0, targets: find_targets(module)? };
        moved::add_zone(zone).then_some(zone)
    })
}

fn map(address: usize, bytes: usize, rights: i32, fixed: i32) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: a fresh mapping that replaces nothing.
    let result = unsafe {
        raw_syscall(libc::SYS_mmap, [address, bytes, rights as usize, flags as usize, usize::MAX, 0])
    };
    (!(-4095..0).contains(&result)).then_some(result as usize)
}

/// Handles a jump into the remains of a window: continues at the moved instruction. `false` if the trap is not one of
/// those.
pub(crate) fn go_to_moved(context: &mut libc::ucontext_t) -> bool {
    let at = *register(context, libc::REG_RIP) as usize - 1;
    let Some(there) = moved::from(at) else { return false };
    *register(context, libc::REG_RIP) = there as i64;
    true
}

/// Allocates memory that jumps from the module can reach.
fn memory_near(module: &Module) -> Option<usize> {
    const STEP: usize = 16 << 20;
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let below = (1..64).map(|step| (module.begin & !(PAGE - 1)).checked_sub(step * STEP));
    let above = (1..64).map(|step| module.end.next_multiple_of(PAGE).checked_add(step * STEP));
    let mut places = below.chain(above).flatten().filter(|place| *place > 1 << 20);
    places.find_map(|place| map(place, ZONE_BYTES, rights, libc::MAP_FIXED_NOREPLACE))
}

/// Finds the targets of the module's direct jumps and calls, and the starts of its functions.
fn find_targets(module: &Module) -> Option<usize> {
    let bytes = (module.end - module.begin).div_ceil(8).next_multiple_of(PAGE);
    let bits = map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
    let set = |target: u64| {
        if (module.begin as u64..module.end as u64).contains(&target) {
            let offset = target as usize - module.begin;
            // SAFETY: there is a bit for each byte of the module.
            unsafe { *((bits + offset / 8) as *mut u8) |= 1 << (offset % 8) };
        }
    };
    fences::each_function(module, |begin, end| {
        set(begin as u64);
        let mut decoder = decoder(begin, end);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            fences::decode_next(&mut decoder, begin, end, &mut instruction);
            if instruction.is_invalid() {
                return;
            }
            set(instruction.near_branch_target());
        }
    });
    Some(bits)
}

fn decoder(begin: usize, end: usize) -> Decoder<'static> {
    Decoder::with_ip(64, fences::code(begin, end), begin as u64, DecoderOptions::NONE)
}

/// Consecutive instructions.
struct Window {
    at: [usize; MOST],
    count: usize,
    end: usize,
}

/// May an instruction be moved, either as the last of a window or before it?
fn moves(instruction: &Instruction, last: bool) -> bool {
    match instruction.flow_control() {
        FlowControl::Next => true,
        FlowControl::ConditionalBranch => last && instruction.is_jcc_short_or_near(),
        FlowControl::UnconditionalBranch => last && instruction.is_jmp_short_or_near(),
        _ => false,
    }
}

/// The instructions that must move along if the one at this address does.
fn window(module: &Module, targets: usize, hot: usize) -> Option<Window> {
    let (begin, end) = fences::function_around(module, hot);
    let is_target = |at: usize| {
        let offset = at - module.begin;
        // SAFETY: there is a bit for each byte of the module.
        unsafe { *((targets + offset / 8) as *const u8) & 1 << (offset % 8) != 0 }
    };
    let mut decoder = decoder(begin, end);
    let mut instruction = Instruction::default();
    // Instructions from a few before the hot one to a few after: address, and whether it may move, also as the last.
    let mut near = [(0, 0, false, false); 2 * MOST];
    let (mut count, mut behind, mut jumps_through_table) = (0, 0, false);
    while decoder.can_decode() {
        fences::decode_next(&mut decoder, begin, end, &mut instruction);
        if instruction.is_invalid() {
            // Its target is unknown.
            jumps_through_table = true;
            break;
        }
        jumps_through_table |= instruction.flow_control() == FlowControl::IndirectBranch;
        let at = instruction.ip() as usize;
        if behind == MOST {
            continue;
        }
        if count == near.len() || at <= hot && count == MOST {
            near.copy_within(1.., 0);
            count -= 1;
        }
        let ours = (at..at + instruction.len()).any(breakpoints::is_at);
        near[count] =
            (at, instruction.len(), !ours && moves(&instruction, false), !ours && moves(&instruction, true));
        count += 1;
        behind += usize::from(at >= hot);
    }
    let near = &near[..count];
    let hot = near.iter().position(|(at, ..)| *at == hot)?;
    (hot.saturating_sub(MOST - 2)..=hot).rev().find_map(|first| {
        let mut window = Window { at: [0; MOST], count: 0, end: near[first].0 };
        for (index, (at, bytes, inner, last)) in near.iter().enumerate().skip(first) {
            if window.count == MOST || index > first && (is_target(*at) || jumps_through_table) {
                return None;
            }
            window.at[window.count] = *at;
            window.count += 1;
            window.end = at + bytes;
            let enough = window.end - near[first].0 >= JUMP && index >= hot;
            match (enough, inner, last) {
                (true, _, true) => return Some(window),
                (false, true, _) => {}
                _ => return None,
            }
        }
        None
    })
}

/// Moves the instruction at an address and its window; returns the new address.
///
/// # Safety
///
/// No other thread is in the code, and this thread is at most at that instruction.
unsafe fn patch(module: &Module, at: usize) -> Option<usize> {
    let Zone { begin, used, targets, .. } = zone_of(module)?;
    let window = window(module, targets, at)?;
    let mut writer = Writer { at: begin + used, end: begin + ZONE_BYTES };
    let head = writer.at;
    if head + size_of::<Head>() > writer.end {
        return None;
    }
    writer.at += size_of::<Head>();
    let mut asking = [None; MOST];
    for (asking, here) in asking.iter_mut().zip(&window.at[..window.count]) {
        // SAFETY: code of the module.
        let instruction = unsafe { Instructed::decode(*here) }?;
        *asking = write_operand(&instruction, &mut writer)?;
    }
    let entry = writer.at;
    let mut moved = [(0, 0); MOST];
    for index in 0..window.count {
        let here = window.at[index];
        // SAFETY: code of the module.
        let instruction = unsafe { Instructed::decode(here) }?;
        moved[index] = (here, writer.at);
        match asking[index] {
            Some(operand) => write_asking(&mut writer, &instruction, head, operand)?,
            None => write_moved(&mut writer, &instruction)?,
        }
    }
    writer.relative(&[0xe9], window.end)?;
    writer.skip_to(64);
    let there = moved[..window.count].iter().find(|(here, _)| *here == at)?.1;
    let first = window.at[0];
    let replaced = window.end - first;
    let mut original = [0; MOST * LONGEST];
    original[..replaced].copy_from_slice(fences::code(first, window.end));
    // SAFETY: within the zone; the window is overwritten from its first byte on, and no thread is inside it.
    unsafe {
        (head as *mut Head).write(Head {
            bytes: writer.at - head,
            count: window.count,
            moved,
            original,
            replaced,
            ask: ask as *const () as usize,
            tell: tell as *const () as usize,
        });
        let offset = i32::try_from((entry as i64).wrapping_sub((first + JUMP) as i64)).ok()?;
        // The rest of the window traps: see `moved::from`.
        let mut jump = [0xcc; MOST * LONGEST];
        jump[0] = 0xe9;
        jump[1..JUMP].copy_from_slice(&offset.to_le_bytes());
        write_code(first, &jump[..window.end - first])?;
    }
    moved::set_used(begin, writer.at - begin);
    Some(there)
}

/// Overwrites code, which stays executable throughout.
///
/// # Safety
///
/// No thread is about to execute any of it except its first instruction.
unsafe fn write_code(at: usize, bytes: &[u8]) -> Option<()> {
    let page = at & !(PAGE - 1);
    let length = (at + bytes.len()).next_multiple_of(PAGE) - page;
    let protect = |rights: i32| {
        // SAFETY: code, which stays readable and executable.
        unsafe { raw_syscall(libc::SYS_mprotect, [page, length, rights as usize, 0, 0, 0]) == 0 }
    };
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    if !protect(rights | libc::PROT_WRITE) {
        return None;
    }
    // SAFETY: the pages are writable now.
    unsafe { raw::copy(at as *mut u8, bytes.as_ptr(), bytes.len()) };
    protect(rights).then_some(())
}
