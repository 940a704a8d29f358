//! Brings small library functions into their callers when the optimizer does not.
//!
//! A report should name the user's line. `x.store(1)` on a `std::atomic`, or `ptr::write` in Rust, accesses
//! memory inside the library; optimized builds inline that, and the site then knows the user's call. Without
//! optimization it would name a line of the library only. So functions of the C++ and Rust standard
//! libraries that are small and lead to an access are marked for inlining, which even `-O0` heeds.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::provenance::is_volatile_memory;
use crashproof_frontend::llvm::{CallClass, Linkage, Module, Opcode, Value};

/// Instructions, as clang and rustc emit them without optimization.
const SMALL: usize = 48;

/// Marks library functions. To be called before inlining, for unoptimized code.
pub(crate) fn inline_small_functions(module: &Module<'_>) {
    let candidates: Vec<Value<'_>> =
        module.functions().into_iter().filter(|function| is_small_library_function(*function)).collect();
    let apart = of_other_processors(module);
    let mut chosen: FxHashSet<Value<'_>> = FxHashSet::default();
    loop {
        let before = chosen.len();
        for function in &candidates {
            if !chosen.contains(function)
                && !apart.contains(function)
                && leads_to_access(module, *function, &chosen)
            {
                chosen.insert(*function);
            }
        }
        if chosen.len() == before {
            break;
        }
    }
    for function in chosen {
        for attribute in ["optnone", "noinline"] {
            function.remove_function_attribute(attribute);
        }
        module.add_function_attribute(function, "alwaysinline");
    }
}

/// What every processor of the target can do.
const BASELINE: [&str; 7] = ["+cmov", "+cx8", "+fxsr", "+mmx", "+sse", "+sse2", "+x87"];

/// Functions that are called by some that may run on processors which cannot do what they do: the code generator has no
/// instructions for them there.
fn of_other_processors<'m>(module: &Module<'m>) -> FxHashSet<Value<'m>> {
    let features: FxHashMap<Value<'m>, String> = module
        .functions()
        .into_iter()
        .filter_map(|function| Some((function, function.text_attribute("target-features")?)))
        .collect();
    let mut apart = FxHashSet::default();
    for caller in module.functions() {
        let there = features.get(&caller);
        for call in caller.blocks().into_iter().flat_map(|block| block.instructions()) {
            if !matches!(call.opcode(), Opcode::LLVMCall | Opcode::LLVMInvoke) {
                continue;
            }
            let needed = features.get(&call.callee());
            if needed != there && !lacking(needed, there).is_empty() {
                apart.insert(call.callee());
            }
        }
    }
    apart
}

/// Which of the features of one list are not in another.
fn lacking<'a>(needed: Option<&'a String>, there: Option<&String>) -> Vec<&'a str> {
    let there: FxHashSet<&str> = there.map(|all| all.split(',').collect()).unwrap_or_default();
    let needed = needed.into_iter().flat_map(|all| all.split(','));
    needed.filter(|name| name.starts_with('+') && !BASELINE.contains(name) && !there.contains(name)).collect()
}

fn is_small_library_function(function: Value<'_>) -> bool {
    // What may be called from elsewhere is kept by the linker under its own name anyway, so only code
    // that each module has its own copy of is considered.
    let own_copy = function.has_hidden_visibility()
        || matches!(
            function.linkage(),
            Linkage::LLVMLinkOnceODRLinkage | Linkage::LLVMLinkOnceAnyLinkage | Linkage::LLVMInternalLinkage
        );
    if function.is_declaration() || !own_copy {
        return false;
    }
    let in_library = function.function_location().is_some_and(|location| {
        let file = &location.file;
        file.contains("/include/c++/")
            || file.starts_with("/rustc/")
            || ["core", "alloc", "std"].iter().any(|name| file.starts_with(&format!("library/{name}/")))
    });
    in_library && function.blocks().iter().map(|block| block.instructions().len()).sum::<usize>() <= SMALL
}

fn leads_to_access(module: &Module<'_>, function: Value<'_>, chosen: &FxHashSet<Value<'_>>) -> bool {
    let instructions = function.blocks().into_iter().flat_map(|block| block.instructions());
    instructions.into_iter().any(|instruction| match instruction.opcode() {
        Opcode::LLVMLoad => !is_volatile_memory(module, instruction.operand(0)),
        Opcode::LLVMStore => !is_volatile_memory(module, instruction.operand(1)),
        Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg | Opcode::LLVMFence => true,
        Opcode::LLVMCall | Opcode::LLVMInvoke => match instruction.call_class() {
            CallClass::Asm => true,
            CallClass::Intrinsic => instruction.touches_memory(),
            CallClass::Function => chosen.contains(&instruction.callee()),
        },
        _ => false,
    })
}
