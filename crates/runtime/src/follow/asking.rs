//! Code generated for moved instructions: it checks whether their operand is in PM, and calls the runtime if so.

use crashproof_protocol::abi::Site;
use iced_x86::{FlowControl, Mnemonic, Register};
use px86::Kind;

use super::announced::is_announced;
use super::instruction::{Instructed, LONGEST};
use super::moved::Head;
use super::trampoline::{Stored, complete};
use crate::{access, callers, raw};

/// Data of a checking instruction: what it does, and a buffer for its operand, which it addresses relative to itself.
#[repr(C, align(64))]
struct Asking {
    buffer: [u8; 64],
    before: [u8; 64],
    address: u64,
    bytes: u64,
    site: *const Site,
    reads: bool,
    writes: bool,
    conditional: bool,
    compares: bool,
    flush: Option<Kind>,
    kind: Kind,
}

/// Emits code.
pub(crate) struct Writer {
    pub(crate) at: usize,
    pub(crate) end: usize,
}

impl Writer {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        if self.at + bytes.len() > self.end {
            return None;
        }
        // SAFETY: within the zone, which no thread runs yet.
        unsafe { raw::copy(self.at as *mut u8, bytes.as_ptr(), bytes.len()) };
        self.at += bytes.len();
        Some(())
    }

    /// Emits an instruction that ends in an address relative to its end.
    pub(crate) fn relative(&mut self, bytes: &[u8], target: usize) -> Option<()> {
        let offset = (target as i64).wrapping_sub((self.at + bytes.len() + 4) as i64);
        self.bytes(bytes)?;
        self.bytes(&i32::try_from(offset).ok()?.to_le_bytes())
    }

    pub(crate) fn skip_to(&mut self, alignment: usize) {
        self.at = self.at.next_multiple_of(alignment);
    }
}

/// Saves what the code below uses, beyond the red zone: `rax`, the flags, `rcx`.
const SAVE: &[u8] = &[0x48, 0x8d, 0x64, 0x24, 0x80, 0x50, 0x9f, 0x0f, 0x90, 0xc0, 0x50, 0x51];
/// Restores it.
const RESTORE: &[u8] = &[0x59, 0x58, 0x04, 0x7f, 0x9e, 0x58, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00];
/// `mov rax, [rsp + 16]`: the saved value of `rax`.
const RELOAD: &[u8] = &[0x48, 0x8b, 0x44, 0x24, 0x10];
/// `mov rax, rcx; shr rax, 44; cmp eax, 1`, then `je`.
const IN_WINDOW: &[u8] = &[0x48, 0x89, 0xc8, 0x48, 0xc1, 0xe8, 0x2c, 0x83, 0xf8, 0x01, 0x0f, 0x84];

/// Emits the data an instruction needs for its check, and returns its address; an inner `None` if the instruction
/// cannot touch PM or must fault.
pub(crate) fn write_operand(instruction: &Instructed, writer: &mut Writer) -> Option<Option<usize>> {
    let Some(operand) = instruction.shape() else { return Some(None) };
    let flush = match instruction.mnemonic() {
        Mnemonic::Clflush => Some(Kind::Flush),
        Mnemonic::Clflushopt | Mnemonic::Clwb => Some(Kind::FlushOpt),
        _ => None,
    };
    let plain = operand.bytes > 0 && operand.bytes <= 64 && (operand.reads || operand.writes);
    let uses_stack = [instruction.decoded.memory_base(), instruction.decoded.memory_index()]
        .into_iter()
        .any(|register| matches!(register, Register::RSP | Register::RIP | Register::EIP));
    let moves = instruction.moved_to(5, &mut [0; 2 * LONGEST]).is_some();
    if !(plain || flush.is_some())
        || uses_stack
        || !moves
        || instruction.is_locked()
        || instruction.is_string()
        || instruction.jumps()
    {
        return Some(None);
    }
    writer.skip_to(64);
    let at = writer.at;
    if at + size_of::<Asking>() > writer.end {
        return None;
    }
    writer.at += size_of::<Asking>();
    let asking = Asking {
        buffer: [0; 64],
        before: [0; 64],
        address: 0,
        bytes: operand.bytes,
        site: callers::place(instruction.at()),
        reads: operand.reads,
        writes: operand.writes,
        conditional: operand.conditional,
        compares: matches!(
            instruction.mnemonic(),
            Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b
        ),
        flush,
        kind: if instruction.is_non_temporal() { Kind::NonTemporalStore } else { Kind::Store },
    };
    // SAFETY: within the zone, and aligned.
    unsafe { (at as *mut Asking).write(asking) };
    Some(Some(at))
}

/// Emits an instruction unchanged, except that it still addresses the same memory relative to itself.
pub(crate) fn write_moved(writer: &mut Writer, instruction: &Instructed) -> Option<()> {
    let decoded = &instruction.decoded;
    let code = &instruction.bytes[..decoded.len()];
    match decoded.flow_control() {
        FlowControl::ConditionalBranch => {
            let condition = code.iter().find_map(|byte| match byte {
                0x70..=0x8f => Some(byte & 0x0f),
                _ => None,
            })?;
            writer.relative(&[0x0f, 0x80 | condition], decoded.near_branch_target() as usize)
        }
        FlowControl::UnconditionalBranch => writer.relative(&[0xe9], decoded.near_branch_target() as usize),
        _ if decoded.is_ip_rel_memory_operand() => {
            let mut moved = instruction.bytes;
            let place = instruction.displacement()?;
            let target = decoded.ip_rel_memory_address() as i64;
            let offset = target.wrapping_sub((writer.at + decoded.len()) as i64);
            moved[place..place + 4].copy_from_slice(&i32::try_from(offset).ok()?.to_le_bytes());
            writer.bytes(&moved[..decoded.len()])
        }
        _ => writer.bytes(code),
    }
}

/// Emits an instruction that first checks whether its operand is in PM.
pub(crate) fn write_asking(
    writer: &mut Writer,
    instruction: &Instructed,
    head: usize,
    operand: usize,
) -> Option<()> {
    let field = |offset: usize| operand + offset;
    // SAFETY: written by `write_operand`.
    let asking = unsafe { &*(operand as *const Asking) };
    let function = |offset: usize| head + offset;
    let asks = asking.reads || asking.conditional || asking.flush.is_some();
    writer.bytes(SAVE)?;
    writer.bytes(RELOAD)?;
    let mut address = [0; 2 * LONGEST];
    let length = instruction.address_to_rcx(&mut address)?;
    writer.bytes(&address[..length])?;
    // Comes after the path for an operand elsewhere, which is short.
    let mut moved = [0; 2 * LONGEST];
    let moved_length = instruction.decoded.len();
    let slow = writer.at + IN_WINDOW.len() + 4 + RESTORE.len() + moved_length + 5;
    writer.relative(IN_WINDOW, slow)?;
    writer.bytes(RESTORE)?;
    write_moved(writer, instruction)?;
    let around = writer.at;
    writer.relative(&[0xe9], around)?;
    debug_assert_eq!(writer.at, slow, "the way of an operand elsewhere");
    if asks {
        writer.relative(&[0x48, 0x8d, 0x05], operand)?;
        writer.relative(&[0xff, 0x15], function(std::mem::offset_of!(Head, ask)))?;
    } else {
        writer.relative(&[0x48, 0x89, 0x0d], field(std::mem::offset_of!(Asking, address)))?;
    }
    writer.bytes(RESTORE)?;
    if asking.flush.is_none() {
        let length = instruction.moved_to(5, &mut moved)?;
        let place = instruction.displacement()?;
        let offset = (operand as i64).wrapping_sub((writer.at + length + 4) as i64);
        writer.bytes(&moved[..place])?;
        writer.bytes(&i32::try_from(offset).ok()?.to_le_bytes())?;
        writer.bytes(&moved[place..length])?;
    }
    if asking.writes && asking.flush.is_none() {
        writer.bytes(SAVE)?;
        writer.relative(&[0x48, 0x8d, 0x05], operand)?;
        writer.relative(&[0xff, 0x15], function(std::mem::offset_of!(Head, tell)))?;
        writer.bytes(RESTORE)?;
    }
    // The path for an operand elsewhere continues here.
    let here = writer.at;
    let mut back = Writer { at: around, end: around + 5 };
    back.relative(&[0xe9], here)
}

/// Saves everything a function may change, aligns the stack, and calls it with the values of `rax` and `rcx`, or with
/// the saved flags.
macro_rules! call_from_patch {
    ($name:ident, $function:ident, $second:literal) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "push rdx",
                "push rsi",
                "push rdi",
                "push r8",
                "push r9",
                "push r10",
                "push r11",
                "push rbp",
                "mov rbp, rsp",
                "mov rdi, rax",
                $second,
                "sub rsp, 3072",
                "and rsp, -64",
                // The header must be zero except for what is saved.
                "xor eax, eax",
                "mov [rsp + 512], rax",
                "mov [rsp + 520], rax",
                "mov [rsp + 528], rax",
                "mov [rsp + 536], rax",
                "mov [rsp + 544], rax",
                "mov [rsp + 552], rax",
                "mov [rsp + 560], rax",
                "mov [rsp + 568], rax",
                "mov eax, 0xe7",
                "xor edx, edx",
                "xsavec64 [rsp]",
                "cld",
                "call {function}",
                "mov eax, 0xe7",
                "xor edx, edx",
                "xrstor64 [rsp]",
                "mov rsp, rbp",
                "pop rbp",
                "pop r11",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "ret",
                function = sym $function,
            )
        }
    };
}

call_from_patch!(ask, ask_about, "mov rsi, rcx");
// Above the registers and the return address are `rcx` and the flags.
call_from_patch!(tell, tell_of, "mov rsi, [rbp + 80]");

/// Called before an instruction whose operand is in PM: loads the operand into its buffer.
unsafe extern "C" fn ask_about(asking: *mut Asking, address: u64) {
    // SAFETY: code in the zone passes its own data; the program itself would access the operand.
    unsafe {
        let Asking { bytes, site, reads, flush, .. } = *asking;
        let announced = is_announced();
        if let Some(kind) = flush {
            if !announced {
                access::flush(kind, address, site);
            }
            return;
        }
        // Until this returns another thread may run, and use the same data.
        if reads && !announced && bytes <= 8 {
            let value = access::load(address, bytes, site);
            raw::poke(&raw const (*asking).before as u64, 8, value);
        } else {
            if reads && !announced {
                access::before_read_range(address, bytes, site);
            }
            raw::copy((&raw mut (*asking).before).cast(), address as *const u8, bytes as usize);
        }
        (*asking).address = address;
        raw::copy((&raw mut (*asking).buffer).cast(), (&raw const (*asking).before).cast(), bytes as usize);
    }
}

/// Called after a storing instruction: stores the content of its buffer to PM.
unsafe extern "C" fn tell_of(asking: *const Asking, flags: u64) {
    // Position of the zero flag in `ah` after `lahf`.
    const ZERO: u64 = 0x4000;
    // SAFETY: code in the zone passes its own data; the program itself would access the operand.
    unsafe {
        let Asking { buffer, before, address, bytes, site, conditional, compares, kind, .. } = *asking;
        if is_announced() {
            raw::copy(address as *mut u8, buffer.as_ptr(), bytes as usize);
            return;
        }
        let stored = Stored {
            address,
            bytes,
            before,
            after: buffer,
            conditional,
            compares,
            blind: false,
            locked: false,
            kind,
            site,
        };
        complete(&stored, flags & ZERO == 0);
    }
}
