//! The table is consistent, and matches the processor.

use std::collections::HashSet;

use super::*;

#[test]
fn no_name_is_listed_twice() {
    let mut seen = HashSet::new();
    for name in intrinsics::names().chain(library::names()) {
        assert!(seen.insert(name), "{name} is listed twice");
    }
}

#[test]
fn nothing_stands_for_all_intrinsics_of_a_target() {
    for name in intrinsics::names() {
        let stem = name.trim_end_matches('*');
        assert!(
            !["llvm", "llvm.x86", "llvm.experimental", "llvm.vp", "llvm.vector"].contains(&stem),
            "{name}"
        );
    }
}

#[test]
fn what_is_not_listed_is_not_understood() {
    for name in [
        "llvm.x86.wbinvd",
        "llvm.x86.enqcmd",
        "llvm.vp.store.v4i32.p0",
        "llvm.x86.xbegin",
        "llvm.new",
        "memcpy",
    ] {
        assert_eq!(intrinsic(name), Meaning::NotUnderstood, "{name}");
    }
    assert_eq!(library("frobnicate"), None);
    for mnemonic in
        ["clzero", "wbinvd", "enqcmd", "xsave", "call", "syscall", "int", "in", "rep", "movdir64b", "frob"]
    {
        assert_eq!(instruction(mnemonic, Prefixes::default(), 1), Instruction::NotUnderstood, "{mnemonic}");
    }
}

#[test]
fn types_at_the_end_of_a_name_do_not_matter() {
    let memcpy = intrinsic("llvm.memcpy");
    assert!(matches!(memcpy, Meaning::Effects([Effect::Copy { to: 0, from: 1, .. }])));
    assert_eq!(intrinsic("llvm.memcpy.p0.p0.i64"), memcpy);
    assert_eq!(intrinsic("llvm.memcpy.inline.p0.p0.i64"), memcpy);
    assert_eq!(intrinsic("llvm.eh.typeid.for.p0"), Meaning::Value(Operation::Anything));
    assert_eq!(intrinsic("llvm.eh.recoverfp"), Meaning::Nothing);
    let masked = intrinsic("llvm.x86.avx2.maskstore.q.256");
    assert!(matches!(masked, Meaning::Effects([Effect::Lanes(Lanes { address: 0, value: Some(2), .. })])));
    assert!(matches!(intrinsic("llvm.x86.movrsqi"), Meaning::Effects([Effect::Load { from: 0 }])));
}

#[test]
fn narrow_non_temporal_stores_are_plain() {
    use Stored::*;
    let manner = |stored, bytes| store(Ordering::NotAtomic, Scope::System, true, stored, bytes);
    for (stored, bytes) in
        [(General, 1), (General, 2), (Float, 4), (Float, 8), (Vector, 8), (Aggregate, 16), (General, 3)]
    {
        assert_eq!(manner(stored, bytes), Manner::Plain, "{stored:?} of {bytes} bytes");
    }
    for (stored, bytes) in
        [(General, 4), (General, 8), (General, 16), (FloatConstant, 8), (Vector, 16), (Vector, 32)]
    {
        assert_eq!(manner(stored, bytes), Manner::NonTemporal, "{stored:?} of {bytes} bytes");
    }
    assert_eq!(store(Ordering::NotAtomic, Scope::System, false, General, 8), Manner::Plain);
}

#[test]
fn only_sequentially_consistent_operations_for_other_threads_order() {
    use Ordering::*;
    for ordering in [NotAtomic, Weak, SequentiallyConsistent] {
        for scope in [Scope::System, Scope::SingleThread] {
            let orders = ordering == SequentiallyConsistent && scope == Scope::System;
            assert_eq!(fence(ordering, scope).is_some(), orders);
            let manner = store(ordering, scope, false, Stored::General, 8);
            assert_eq!(manner == Manner::Exchange, orders);
        }
    }
}

/// Checks that every function interposed by the runtime is also known to the other engines.
#[test]
fn every_function_that_the_runtime_follows_is_listed() {
    let family = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/c_library");
    let mut checked = 0;
    for part in ["memory", "strings", "wide", "format"] {
        let text =
            std::fs::read_to_string(family.join(part).with_extension("rs")).expect("a family of functions");
        for line in text.lines() {
            let names = match line.split_once("! { [") {
                // One body with several names.
                Some((_, rest)) => rest.split(']').next().unwrap_or(""),
                None => line.strip_prefix("    fn ").and_then(|rest| rest.split('(').next()).unwrap_or(""),
            };
            // Methods of the runtime look similar.
            if line.contains("self") {
                continue;
            }
            for name in names.split([',', ' ']).filter(|name| !name.is_empty()) {
                assert!(library(name).is_some(), "{name} is not listed");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "only {checked} functions found: the runtime's sources look different now");
}
