//! Which pointers cannot point to PM.
//!
//! Instrumentation costs time on every access it cannot rule out, so this is the main lever on the speed
//! of volatile code. It is sound under LLVM's own rule that a pointer derived from an object by
//! arithmetic points into that object: the optimiser relies on the same rule when it reorders accesses.

use crashproof_frontend::llvm::{Module, Opcode, Value};

/// How many steps to look back through selects and phis.
const DEPTH: u32 = 6;

/// Whether a pointer surely does not point to PM.
pub(crate) fn is_volatile_memory(module: &Module<'_>, pointer: Value<'_>) -> bool {
    let ty = pointer.ty();
    if ty.is_pointer() && ty.address_space() != 0 {
        // Relative to fs or gs.
        return true;
    }
    surely_volatile(module, pointer, DEPTH)
}

/// Whether a pointer is to a local variable, which no other thread spins on.
pub(crate) fn is_local_variable(pointer: Value<'_>) -> bool {
    let mut pointer = pointer;
    while pointer.is_instruction() {
        match pointer.opcode() {
            Opcode::LLVMAlloca => return true,
            Opcode::LLVMGetElementPtr => pointer = pointer.operand(0),
            _ => return false,
        }
    }
    false
}

fn surely_volatile(module: &Module<'_>, pointer: Value<'_>, depth: u32) -> bool {
    if depth == 0 {
        return false;
    }
    if pointer.is_constant() {
        return constant(module, pointer);
    }
    if pointer.is_argument() {
        return is_copy_of_argument(pointer);
    }
    if !pointer.is_instruction() {
        return false;
    }
    match pointer.opcode() {
        Opcode::LLVMAlloca => true,
        Opcode::LLVMGetElementPtr => {
            pointer.ty().is_pointer() && surely_volatile(module, base_of(pointer), depth)
        }
        Opcode::LLVMFreeze => surely_volatile(module, pointer.operand(0), depth - 1),
        Opcode::LLVMSelect => (1..3).all(|i| surely_volatile(module, pointer.operand(i), depth - 1)),
        Opcode::LLVMPHI => {
            let incoming = pointer.incoming();
            incoming.len() <= 4
                && incoming.iter().all(|value| {
                    // A pointer that walks through an object comes back to its phi.
                    base_of(*value) == pointer || surely_volatile(module, *value, depth - 1)
                })
        }
        Opcode::LLVMCall => module.intrinsic_name(pointer).starts_with("llvm.threadlocal.address"),
        _ => false,
    }
}

/// Takes off any pointer arithmetic. A loop, not a recursion: chains are long in unoptimised code.
fn base_of<'m>(pointer: Value<'m>) -> Value<'m> {
    let mut base = pointer;
    while base.is_instruction() && base.opcode() == Opcode::LLVMGetElementPtr {
        base = base.operand(0);
    }
    base
}

fn constant(module: &Module<'_>, pointer: Value<'_>) -> bool {
    if pointer.is_null_constant() || pointer.is_undefined() {
        return true;
    }
    let base = module.constant_base(pointer).map_or(pointer, |(base, _)| base);
    if base.is_global() {
        // Persistent globals were replaced by loads of their address before; see `globals.rs`.
        return true;
    }
    if base.is_constant_expression() && base.constant_opcode() == Opcode::LLVMIntToPtr {
        let number = base.operand(0).as_number();
        return number.is_some_and(|address| !crashproof_protocol::abi::is_pm(address));
    }
    false
}

/// `byval` arguments are copies on the stack.
fn is_copy_of_argument(argument: Value<'_>) -> bool {
    let function = argument.argument_function();
    let position = function.parameters().iter().position(|p| *p == argument);
    position.is_some_and(|index| function.has_parameter_attribute(index as u32, "byval"))
}
