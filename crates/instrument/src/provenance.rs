//! Which pointers cannot point to PM.
//!
//! Instrumentation costs time on every access it cannot rule out, so this is the main lever on the speed
//! of volatile code. It is sound under LLVM's own rule that a pointer derived from an object by
//! arithmetic points into that object: the optimizer relies on the same rule when it reorders accesses.

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

/// Takes off any pointer arithmetic. A loop, not a recursion: chains are long in unoptimized code.
fn base_of<'m>(pointer: Value<'m>) -> Value<'m> {
    let mut base = pointer;
    while base.is_instruction() && base.opcode() == Opcode::LLVMGetElementPtr {
        base = base.operand(0);
    }
    base
}

/// The pointer that decides for another whether it points to PM: no object reaches from volatile memory into PM, so the
/// one it was made from by arithmetic does.
///
/// In a loop over an array that is the array, made before the loop, so that nothing is computed in the loop but a compare
/// and a branch. Wide offsets that come from memory are left alone although LLVM's rule covers them, too: programs keep
/// relative pointers, and one that was copied to volatile memory leads from there to PM, against the rule.
pub(crate) fn decisive<'m>(pointer: Value<'m>) -> Value<'m> {
    let mut found = pointer.strip_constant_offsets();
    // Code that is never reached may go in circles.
    for _ in 0..1 << DEPTH {
        if !found.is_instruction() {
            break;
        }
        let further = match found.opcode() {
            // An address computed from null is not in any object.
            Opcode::LLVMGetElementPtr if is_counted(found) && !found.operand(0).is_null_constant() => {
                found.operand(0)
            }
            Opcode::LLVMPHI => match start_of_walk(found) {
                Some(start) => start,
                None => return found,
            },
            _ => return found,
        };
        found = further.strip_constant_offsets();
    }
    found
}

/// Bits of an offset that leads nowhere near PM from volatile memory: the system keeps them further apart.
const NEAR: u32 = 36;

/// Whether all offsets of this arithmetic are counted, by a loop or by the program, or small.
fn is_counted(arithmetic: Value<'_>) -> bool {
    let scalar = arithmetic.ty().is_pointer() && arithmetic.operand(0).ty().is_pointer();
    scalar && (1..arithmetic.operand_count()).all(|index| counts(arithmetic.operand(index), DEPTH))
}

fn counts(number: Value<'_>, depth: u32) -> bool {
    if number.is_constant() {
        return true;
    }
    if depth == 0 || !number.is_instruction() {
        return false;
    }
    let below = |side: u32, most: u64| number.operand(side).as_number().is_some_and(|it| it < most);
    let counted = |side: u32| counts(number.operand(side), depth - 1);
    match number.opcode() {
        Opcode::LLVMPHI => {
            is_counter(number) || number.incoming().into_iter().all(|incoming| counts(incoming, depth - 1))
        }
        Opcode::LLVMAdd | Opcode::LLVMSub | Opcode::LLVMMul | Opcode::LLVMOr | Opcode::LLVMXor => {
            counted(0) && counted(1)
        }
        Opcode::LLVMAnd => below(1, 1 << NEAR) || counted(0),
        Opcode::LLVMURem => below(1, 1 << NEAR),
        Opcode::LLVMLShr => number.operand(1).as_number().is_some_and(|by| by >= u64::from(64 - NEAR)),
        Opcode::LLVMZExt | Opcode::LLVMSExt => true,
        Opcode::LLVMShl | Opcode::LLVMTrunc | Opcode::LLVMFreeze => counted(0),
        _ => false,
    }
}

/// Whether a number goes on from itself: a loop counts it.
fn is_counter(phi: Value<'_>) -> bool {
    phi.incoming().into_iter().any(|incoming| {
        let steps = [Opcode::LLVMAdd, Opcode::LLVMSub];
        incoming.is_instruction() && steps.contains(&incoming.opcode()) && incoming.operand(0) == phi
    })
}

/// Where a pointer that walks through an object began. It dominates the walk: every other way to its phi comes from there.
fn start_of_walk<'m>(phi: Value<'m>) -> Option<Value<'m>> {
    let mut start = None;
    for incoming in phi.incoming() {
        let mut base = incoming;
        for _ in 0..1 << DEPTH {
            if !base.is_instruction() || base.opcode() != Opcode::LLVMGetElementPtr || !is_counted(base) {
                break;
            }
            base = base.operand(0);
        }
        if base == phi {
            continue;
        }
        if start.is_some_and(|known| known != incoming) {
            return None;
        }
        start = Some(incoming);
    }
    start
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
