//! Exchanges whose result is not used: what C and C++ compilers make of a sequentially consistent atomic store.
//!
//! Such an exchange does not read: recovery that overwrites a value depends on it no more than with a plain store.
//! Rebuilt code says so itself. Here the code after the instruction decides: the result is unused if the register is
//! overwritten before anything reads it, as far as the code goes straight on.

use iced_x86::{Code, FlowControl, Mnemonic, OpAccess, OpKind, Register};

use super::instruction::{Instructed, with_info};

/// How far to look.
const MOST: usize = 24;

/// What one instruction does to a register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Nothing,
    Reads,
    Overwrites,
}

/// Is this an exchange with memory whose result nothing reads? If in doubt, `false`.
///
/// # Safety
///
/// The instruction is code of the program, and so is what follows it.
pub(crate) unsafe fn is_unused(instruction: &Instructed) -> bool {
    if instruction.mnemonic() != Mnemonic::Xchg {
        return false;
    }
    let decoded = &instruction.decoded;
    let operand =
        |index| Some(decoded.op_register(index)).filter(|_| decoded.op_kind(index) == OpKind::Register);
    let Some(result) = operand(0).or_else(|| operand(1)) else { return false };
    let mut at = instruction.end();
    for _ in 0..MOST {
        // SAFETY: the program would run this next.
        let Some(next) = (unsafe { Instructed::decode(at) }) else { return false };
        match usage(&next, result) {
            Use::Reads => return false,
            Use::Overwrites => return true,
            Use::Nothing => {}
        }
        at = match next.decoded.flow_control() {
            FlowControl::Next => next.end(),
            FlowControl::UnconditionalBranch => next.decoded.near_branch_target() as usize,
            // Functions of the usual calling convention do not get it, nor leave it to their callers.
            FlowControl::Call | FlowControl::IndirectCall => return result.full_register() == Register::RAX,
            FlowControl::Return => return is_scratch(result.full_register()),
            _ => return false,
        };
    }
    false
}

/// Does a function return without meaning anything by this register?
fn is_scratch(register: Register) -> bool {
    matches!(
        register,
        Register::RCX
            | Register::RSI
            | Register::RDI
            | Register::R8
            | Register::R9
            | Register::R10
            | Register::R11
    )
}

fn usage(instruction: &Instructed, wanted: Register) -> Use {
    // `call` does not use arguments itself; `syscall` reads registers that the decoder does not name.
    if instruction.decoded.code() == Code::Syscall {
        return Use::Reads;
    }
    let mut usage = Use::Nothing;
    let known = with_info(&instruction.decoded, |info| {
        for used in info.used_registers() {
            if used.register().full_register() != wanted.full_register() {
                continue;
            }
            // Writing 32 bits clears the rest.
            let whole = used.register() == wanted || used.register().size() >= 4;
            match used.access() {
                OpAccess::Write if whole && usage != Use::Reads => usage = Use::Overwrites,
                OpAccess::Write | OpAccess::CondWrite | OpAccess::None | OpAccess::NoMemAccess => {}
                _ => usage = Use::Reads,
            }
        }
    });
    if known { usage } else { Use::Reads }
}

#[cfg(test)]
mod tests {
    use super::super::instruction::prepare;
    use super::*;

    fn unused(code: &[u8]) -> bool {
        prepare();
        // Room behind it, so that decoding stays within the array.
        let mut room = [0x90; 64];
        room[..code.len()].copy_from_slice(code);
        // SAFETY: the room is longer than any instruction.
        unsafe {
            let instruction = Instructed::decode(room.as_ptr() as usize).expect("an instruction");
            is_unused(&instruction)
        }
    }

    #[test]
    fn results_are_unused_once_overwritten() {
        // xchg [rdx], eax; mov eax, 0
        assert!(unused(&[0x87, 0x02, 0xb8, 0, 0, 0, 0]));
        // xchg [rdx], al; mov [rcx], edi; mov al, 1
        assert!(unused(&[0x86, 0x02, 0x89, 0x39, 0xb0, 1]));
        // xchg [rdi], rsi; ret
        assert!(unused(&[0x48, 0x87, 0x37, 0xc3]));
        // xchg [rdx], eax; call
        assert!(unused(&[0x87, 0x02, 0xe8, 0, 0, 0, 0]));
    }

    #[test]
    fn results_may_be_used() {
        // xchg [rdx], eax; ret
        assert!(!unused(&[0x87, 0x02, 0xc3]));
        // xchg [rdx], eax; test eax, eax
        assert!(!unused(&[0x87, 0x02, 0x85, 0xc0]));
        // xchg [rdx], eax; mov al, 0; ret
        assert!(!unused(&[0x87, 0x02, 0xb0, 0, 0xc3]));
        // xchg [rdx], eax; je
        assert!(!unused(&[0x87, 0x02, 0x74, 0, 0xb8, 0, 0, 0, 0]));
        // xchg [rdx], edi; call
        assert!(!unused(&[0x87, 0x3a, 0xe8, 0, 0, 0, 0]));
        // lock xadd [rdx], eax; mov eax, 0
        assert!(!unused(&[0xf0, 0x0f, 0xc1, 0x02, 0xb8, 0, 0, 0, 0]));
    }
}
