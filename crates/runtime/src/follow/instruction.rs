//! Decodes instructions, and describes their memory accesses.

use std::ffi::c_int;

use crashproof_protocol::abi::is_pm;
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use super::breakpoints;
use crate::cell::RunningThreadCell;
use crate::fixed;

/// A register of the interrupted program.
pub(crate) fn register(context: &mut libc::ucontext_t, which: c_int) -> &mut i64 {
    &mut context.uc_mcontext.gregs[which as usize]
}

/// The index of a general-purpose register in a signal context.
pub(crate) fn index_of(register: Register) -> Option<c_int> {
    Some(match register {
        Register::RAX => libc::REG_RAX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RBX => libc::REG_RBX,
        Register::RSP => libc::REG_RSP,
        Register::RBP => libc::REG_RBP,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        _ => return None,
    })
}

/// Kept because creating one allocates; created before the program runs.
static FACTORY: RunningThreadCell<Option<InstructionInfoFactory>> = RunningThreadCell::new(None);

pub(crate) fn prepare() {
    FACTORY.set(Some(InstructionInfoFactory::new()));
    // The first use of the decoder builds its tables.
    Instructed::of(&[0x90], 0);
}

/// Passes what is known about an instruction to `examine`; `false` if that is not available.
pub(crate) fn with_info(instruction: &Instruction, examine: impl FnOnce(&InstructionInfo)) -> bool {
    FACTORY.with(|factory| factory.as_mut().map(|factory| examine(factory.info(instruction))).is_some())
}

/// The longest x86 instruction.
pub(crate) const LONGEST: usize = 15;

/// A memory operand in PM, or the operand of a locked instruction.
pub(crate) struct Operand {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// May be written only in part.
    pub(crate) conditional: bool,
}

pub(crate) struct Instructed {
    pub(crate) decoded: Instruction,
    pub(crate) bytes: [u8; LONGEST],
    at: usize,
}

impl Instructed {
    /// Decodes the instruction at an address, looking through breakpoints of ours.
    ///
    /// # Safety
    ///
    /// There is code at the address.
    pub(crate) unsafe fn decode(at: usize) -> Option<Instructed> {
        let mut bytes = [0; LONGEST];
        let on_page = 4096 - at % 4096;
        // SAFETY: reads up to the end of the page, and beyond only if the instruction continues there.
        unsafe {
            let read = |bytes: &mut [u8]| {
                for (offset, byte) in bytes.iter_mut().enumerate() {
                    *byte = ((at + offset) as *const u8).read_volatile();
                }
            };
            read(&mut bytes[..on_page.min(LONGEST)]);
            breakpoints::restore(at, &mut bytes);
            if let Some(instruction) = Instructed::of(&bytes[..on_page.min(LONGEST)], at) {
                return Some(Instructed { bytes, ..instruction });
            }
            if on_page >= LONGEST {
                return None;
            }
            read(&mut bytes);
            breakpoints::restore(at, &mut bytes);
        }
        Instructed::of(&bytes, at)
    }

    fn of(code: &[u8], at: usize) -> Option<Instructed> {
        let mut decoded = Instruction::default();
        Decoder::with_ip(64, code, at as u64, DecoderOptions::NONE).decode_out(&mut decoded);
        if decoded.is_invalid() {
            return None;
        }
        let mut bytes = [0; LONGEST];
        bytes[..code.len()].copy_from_slice(code);
        Some(Instructed { decoded, bytes, at })
    }

    pub(crate) fn mnemonic(&self) -> Mnemonic {
        self.decoded.mnemonic()
    }

    pub(crate) fn end(&self) -> usize {
        self.at + self.decoded.len()
    }

    pub(crate) fn is_string(&self) -> bool {
        self.decoded.is_string_instruction()
    }

    /// The number of bytes before the opcode, without the prefix that extends registers.
    fn prefixes(&self) -> usize {
        let is_prefix = |byte: &&u8| {
            matches!(**byte, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65)
        };
        self.bytes[..self.decoded.len()].iter().take_while(is_prefix).count()
    }

    /// Does it jump to an address in memory?
    pub(crate) fn jumps(&self) -> bool {
        matches!(self.mnemonic(), Mnemonic::Call | Mnemonic::Jmp)
    }

    /// Is it a locked instruction? An exchange with memory always is.
    pub(crate) fn is_locked(&self) -> bool {
        self.decoded.has_lock_prefix() || self.mnemonic() == Mnemonic::Xchg && self.has_memory()
    }

    fn has_memory(&self) -> bool {
        (0..self.decoded.op_count()).any(|operand| self.decoded.op_kind(operand) == OpKind::Memory)
    }

    pub(crate) fn is_non_temporal(&self) -> bool {
        use Mnemonic::*;
        matches!(
            self.mnemonic(),
            Movnti
                | Movntq
                | Movntdq
                | Movntps
                | Movntpd
                | Movntss
                | Movntsd
                | Vmovntdq
                | Vmovntps
                | Vmovntpd
                | Movdiri
                | Movdir64b
        )
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// How the instruction accesses its explicit memory operand, wherever that is.
    pub(crate) fn shape(&self) -> Option<Operand> {
        // SAFETY: all-zero bytes are a valid value of this plain data.
        let mut nowhere: libc::ucontext_t = unsafe { std::mem::zeroed() };
        self.operand(&mut nowhere)
    }

    /// Offset of a displacement relative to the instruction, before or after [`Self::moved_to`].
    pub(crate) fn displacement(&self) -> Option<usize> {
        self.operation().map(|(_, form)| form + 1)
    }

    /// `lea rcx, [operand]`.
    pub(crate) fn address_to_rcx(&self, code: &mut [u8]) -> Option<usize> {
        let (start, form) = self.operation()?;
        let bytes = &self.bytes[..self.decoded.len()];
        // Bits that extend index and base.
        let extends = match bytes[start] {
            // VEX and EVEX prefixes have them inverted.
            0xc5 => 0,
            0xc4 | 0x62 => !(bytes[start + 1] >> 5) & 3,
            byte if (0x40..0x50).contains(&byte) => byte & 3,
            _ => 0,
        };
        let (mode, operand) = (bytes[form] >> 6, bytes[form] & 7);
        // Displacements of 64-byte vectors count in units of the vector size.
        let scaled = bytes[start] == 0x62 && mode == 1;
        let indexed = usize::from(operand == 4);
        let wide = mode == 2 || mode == 0 && (operand == 4 && bytes[form + 1] & 7 == 5);
        let mut length = 0;
        let mut put = |byte: u8| {
            *code.get_mut(length)? = byte;
            length += 1;
            Some(())
        };
        put(0x48 | extends)?;
        put(0x8d)?;
        let mode = if scaled { 2 } else { mode };
        put(mode << 6 | 1 << 3 | operand)?;
        if indexed == 1 {
            put(bytes[form + 1])?;
        }
        if scaled || wide {
            let displacement = self.decoded.memory_displacement32();
            for byte in displacement.to_le_bytes() {
                put(byte)?;
            }
        } else if mode == 1 {
            put(bytes[form + 1 + indexed])?;
        }
        Some(length)
    }

    /// The explicit memory operand, if it is the only one in PM and its size is known.
    pub(crate) fn operand(&self, context: &mut libc::ucontext_t) -> Option<Operand> {
        let decoded = &self.decoded;
        // 32-bit addressing.
        let narrow = self.bytes[..self.prefixes()].contains(&0x67);
        if !self.has_memory() || decoded.is_vsib() || narrow {
            return None;
        }
        if matches!(decoded.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        let registers = context.uc_mcontext.gregs;
        let value = |register: Register| match index_of(register) {
            Some(index) => Some(registers[index as usize] as u64),
            None => Some(0),
        };
        FACTORY.with(|factory| {
            let info = factory.as_mut()?.info(decoded);
            let mut found = None;
            for memory in info.used_memory() {
                let address = memory.virtual_address(0, |register, _, _| value(register))?;
                let bytes = memory.memory_size().size() as u64;
                // The decoder already resolves addresses relative to the instruction.
                let base = Some(decoded.memory_base()).filter(|_| !decoded.is_ip_rel_memory_operand());
                let explicit = memory.base() == base.unwrap_or(Register::None)
                    && memory.index() == decoded.memory_index()
                    && memory.displacement() == decoded.memory_displacement64();
                if !explicit {
                    // The stack is in PM.
                    if is_pm(address) {
                        return None;
                    }
                    continue;
                }
                // The decoder treats some masked stores as whole ones.
                let masked = decoded.op_mask() != Register::None
                    || matches!(
                        decoded.mnemonic(),
                        Mnemonic::Vmaskmovps
                            | Mnemonic::Vmaskmovpd
                            | Mnemonic::Vpmaskmovd
                            | Mnemonic::Vpmaskmovq
                    );
                let (reads, writes, conditional) = match memory.access() {
                    OpAccess::Read | OpAccess::CondRead => (true, false, false),
                    OpAccess::Write => (false, true, masked),
                    OpAccess::CondWrite => (false, true, true),
                    OpAccess::ReadWrite => (true, true, false),
                    OpAccess::ReadCondWrite => (true, true, true),
                    _ => (false, false, false),
                };
                let address = fixed::in_pool(address);
                found = Some(Operand { address, bytes, reads, writes, conditional });
            }
            found
        })
    }

    /// Calls `each` for every memory access of the instruction except thread-local ones: address, bytes, and whether it
    /// is a store.
    pub(crate) fn accesses(&self, context: &mut libc::ucontext_t, mut each: impl FnMut(u64, u64, bool)) {
        let registers = context.uc_mcontext.gregs;
        let value = |register: Register| match index_of(register.full_register()) {
            Some(index) => Some(registers[index as usize] as u64),
            None => Some(0),
        };
        FACTORY.with(|factory| {
            let Some(factory) = factory.as_mut() else { return };
            for memory in factory.info(&self.decoded).used_memory() {
                let local = matches!(memory.segment(), Register::FS | Register::GS);
                let stores = match memory.access() {
                    OpAccess::Read | OpAccess::CondRead => false,
                    OpAccess::None | OpAccess::NoMemAccess => continue,
                    _ => true,
                };
                let address = memory.virtual_address(0, |register, _, _| value(register));
                if let Some(address) = address.filter(|_| !local) {
                    each(address, memory.memory_size().size() as u64, stores);
                }
            }
        });
    }

    /// A register the instruction neither reads nor writes, among those usable as a base without a further prefix: its
    /// number in encodings, and in contexts.
    pub(crate) fn free_register(&self) -> Option<(u8, c_int)> {
        const CANDIDATES: [(u8, Register); 6] = [
            (0, Register::RAX),
            (1, Register::RCX),
            (2, Register::RDX),
            (3, Register::RBX),
            (6, Register::RSI),
            (7, Register::RDI),
        ];
        FACTORY.with(|factory| {
            let info = factory.as_mut()?.info(&self.decoded);
            let used = info.used_registers();
            let free =
                |register: Register| used.iter().all(|used| used.register().full_register() != register);
            let (number, register) = CANDIDATES.into_iter().find(|(_, register)| free(*register))?;
            Some((number, index_of(register)?))
        })
    }

    /// The offset of the opcode, including the prefix that extends registers, and the offset of the ModRM byte.
    fn operation(&self) -> Option<(usize, usize)> {
        let bytes = &self.bytes[..self.decoded.len()];
        let prefixes = self.prefixes();
        let first = *bytes.get(prefixes)?;
        let form = match first {
            0xc5 => prefixes + 3,
            0xc4 => prefixes + 4,
            0x62 => prefixes + 5,
            _ => {
                let at = prefixes + usize::from((0x40..0x50).contains(&first));
                match (bytes.get(at)?, bytes.get(at + 1)) {
                    (0x0f, Some(0x38 | 0x3a)) => at + 3,
                    (0x0f, Some(0x0f)) => return None,
                    (0x0f, _) => at + 2,
                    // An absolute address instead of a ModRM operand.
                    (0xa0..=0xa3, _) => return None,
                    _ => at + 1,
                }
            }
        };
        (form < bytes.len()).then_some((prefixes, form))
    }

    /// The same instruction with its memory operand at the address in a register. Number 5 makes it relative to the
    /// instruction, with the four-byte displacement still to be filled in.
    pub(crate) fn moved_to(&self, base: u8, code: &mut [u8]) -> Option<usize> {
        let bytes = &self.bytes[..self.decoded.len()];
        let mut start = bytes.to_owned_array();
        let (prefixes, modrm) = self.operation()?;
        match start[prefixes] {
            // The bits that extend base and index are inverted, and the index is no longer used.
            0xc4 | 0x62 => start[prefixes + 1] |= 0x60,
            0x40..=0x4f => start[prefixes] &= !3,
            _ => {}
        }
        let form = *bytes.get(modrm)?;
        let (mode, operand) = (form >> 6, form & 7);
        if mode == 3 {
            return None;
        }
        let mut tail = modrm + 1;
        let mut wide = mode == 0 && operand == 5;
        if operand == 4 {
            wide |= mode == 0 && bytes.get(tail)? & 7 == 5;
            tail += 1;
        }
        tail += match mode {
            1 => 1,
            2 => 4,
            _ if wide => 4,
            _ => 0,
        };
        start[modrm] = form & 0x38 | base;
        let rest = bytes.get(tail..)?;
        let length = modrm + 1 + rest.len();
        code.get_mut(..modrm + 1)?.copy_from_slice(&start[..modrm + 1]);
        code.get_mut(modrm + 1..length)?.copy_from_slice(rest);
        Some(length)
    }
}

/// A copy of a few bytes.
trait Owned {
    fn to_owned_array(&self) -> [u8; LONGEST];
}

impl Owned for [u8] {
    fn to_owned_array(&self) -> [u8; LONGEST] {
        let mut array = [0; LONGEST];
        array[..self.len()].copy_from_slice(self);
        array
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(code: &[u8], base: u8) -> Option<Vec<u8>> {
        prepare();
        let mut room = [0; 32];
        let length = Instructed::of(code, 0x1000)?.moved_to(base, &mut room)?;
        Some(room[..length].to_vec())
    }

    #[test]
    fn operands_move_and_everything_else_stays() {
        // mov [rdi + rcx*8 + 0x10], rax -> mov [rdx], rax
        assert_eq!(moved(&[0x48, 0x89, 0x44, 0xcf, 0x10], 2), Some(vec![0x48, 0x89, 0x02]));
        // mov dword ptr [r12], 7 -> mov dword ptr [rax], 7
        assert_eq!(moved(&[0x41, 0xc7, 0x04, 0x24, 7, 0, 0, 0], 0), Some(vec![0x40, 0xc7, 0x00, 7, 0, 0, 0]));
        // lock cmpxchg [rip + 8], ecx -> lock cmpxchg [rsi], ecx
        assert_eq!(moved(&[0xf0, 0x0f, 0xb1, 0x0d, 8, 0, 0, 0], 6), Some(vec![0xf0, 0x0f, 0xb1, 0x0e]));
        // movups [rbp - 0x20], xmm9 -> movups [rbx], xmm9
        assert_eq!(moved(&[0x44, 0x0f, 0x11, 0x4d, 0xe0], 3), Some(vec![0x44, 0x0f, 0x11, 0x0b]));
        // vmovdqu [r8], ymm1 -> vmovdqu [rcx], ymm1
        assert_eq!(moved(&[0xc4, 0xc1, 0x7e, 0x7f, 0x08], 1), Some(vec![0xc4, 0xe1, 0x7e, 0x7f, 0x09]));
        // mov rax, rcx has none.
        assert_eq!(moved(&[0x48, 0x89, 0xc8], 2), None);
    }

    #[test]
    fn addresses_are_computed_as_the_instruction_would() {
        prepare();
        let address = |code: &[u8]| {
            let mut room = [0; 32];
            let length = Instructed::of(code, 0x1000)?.address_to_rcx(&mut room)?;
            Some(room[..length].to_vec())
        };
        // mov [rdi + rcx*8 + 0x10], rax -> lea rcx, [rdi + rcx*8 + 0x10]
        assert_eq!(address(&[0x48, 0x89, 0x44, 0xcf, 0x10]), Some(vec![0x48, 0x8d, 0x4c, 0xcf, 0x10]));
        // mov dword ptr [r12], 7 -> lea rcx, [r12]
        assert_eq!(address(&[0x41, 0xc7, 0x04, 0x24, 7, 0, 0, 0]), Some(vec![0x49, 0x8d, 0x0c, 0x24]));
        // movups [rbp - 0x20], xmm9 -> lea rcx, [rbp - 0x20]
        assert_eq!(address(&[0x44, 0x0f, 0x11, 0x4d, 0xe0]), Some(vec![0x48, 0x8d, 0x4d, 0xe0]));
        // vmovdqu [r8], ymm1 -> lea rcx, [r8]
        assert_eq!(address(&[0xc4, 0xc1, 0x7e, 0x7f, 0x08]), Some(vec![0x49, 0x8d, 0x08]));
        // mov rax, [rbx + 0x12345678] -> lea rcx, [rbx + 0x12345678]
        let wide = address(&[0x48, 0x8b, 0x83, 0x78, 0x56, 0x34, 0x12]);
        assert_eq!(wide, Some(vec![0x48, 0x8d, 0x8b, 0x78, 0x56, 0x34, 0x12]));
        // vmovdqu64 [rax + 64], zmm1, whose displacement counts vectors -> lea rcx, [rax + 64]
        let scaled = address(&[0x62, 0xf1, 0xfe, 0x48, 0x7f, 0x48, 0x01]);
        assert_eq!(scaled, Some(vec![0x48, 0x8d, 0x88, 64, 0, 0, 0]));
    }

    #[test]
    fn free_registers_are_not_used() {
        prepare();
        // cmpxchg16b [rsi] uses all but rdi.
        let instruction = Instructed::of(&[0xf0, 0x48, 0x0f, 0xc7, 0x0e], 0).expect("an instruction");
        assert_eq!(instruction.free_register().map(|(number, _)| number), Some(7));
        assert!(instruction.is_locked());
    }
}
