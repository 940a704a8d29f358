//! How lint's reader translates code: the table of meaning, as instructions.

use std::path::PathBuf;
use std::process::Command;

use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::inputs::Bitcode;
use crashproof_frontend::program::ir::{Op, Operand, Program};
use crashproof_frontend::program::read;
use px86::order::Class;

/// The instructions of function `f`, without allocas and the return.
fn ops(source: &str) -> Vec<Op> {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, output) = (directory.path().join("test.c"), directory.path().join("test.bc"));
    let headers = "#define _GNU_SOURCE\n#include <immintrin.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
                   #include <string.h>\n#include <wchar.h>\n";
    std::fs::write(&path, format!("{headers}{source}")).expect("a source");
    let done = Command::new("clang-22")
        .args(["-c", "-emit-llvm", "-g", "-O1", "-Xclang", "-disable-llvm-passes", "-U_FORTIFY_SOURCE"])
        .args(["-mavx2", "-mavx512f", "-mclwb", "-fno-builtin", "-o"])
        .arg(&output)
        .arg(&path)
        .status();
    assert!(done.expect("clang-22").success());
    let file = Bitcode { path: output.clone(), given: output, directory: PathBuf::from("/") };
    let program: Program = read::read(&[file], &Apis::built_in()).expect("bitcode");
    assert!(program.not_understood.is_empty(), "{:?}", program.not_understood);
    let function = program.functions.iter().find(|function| function.name == "f").expect("f");
    let all = function.instructions.iter().map(|instruction| instruction.op.clone());
    all.filter(|op| !matches!(op, Op::Alloca { .. } | Op::Return { .. })).collect()
}

#[test]
fn narrow_non_temporal_stores_are_plain() {
    for (ty, expected) in
        [("char", false), ("short", false), ("int", true), ("long", true), ("double", false)]
    {
        let ops = ops(&format!("void f({ty} *p, {ty} v) {{ __builtin_nontemporal_store(v, p); }}"));
        assert!(
            matches!(ops[..], [Op::Store { nontemporal, .. }] if nontemporal == expected),
            "{ty}: {ops:?}"
        );
    }
}

#[test]
fn sequentially_consistent_stores_are_locked() {
    let ops = ops(
        "void f(int *p) { __atomic_store_n(p, 1, __ATOMIC_RELEASE); __atomic_store_n(p, 2, __ATOMIC_SEQ_CST); }",
    );
    assert!(
        matches!(
            ops[..],
            [Op::Store { nontemporal: false, .. }, Op::Locked { value: Operand::Int(2), bytes: 4, .. }]
        ),
        "{ops:?}"
    );
}

#[test]
fn weak_fences_are_nothing() {
    let ops = ops(
        "void f(void) { __atomic_thread_fence(__ATOMIC_ACQ_REL); __atomic_signal_fence(__ATOMIC_SEQ_CST);\
                   __atomic_thread_fence(__ATOMIC_SEQ_CST); }",
    );
    assert!(matches!(ops[..], [Op::Other, Op::Other, Op::Fence { class: Class::Fence }]), "{ops:?}");
}

#[test]
fn masked_stores_are_stores() {
    let ops = ops("void f(long long *p, __m256i m, __m256i v) { _mm256_maskstore_epi64(p, m, v); }");
    assert!(
        ops.iter().any(|op| matches!(op, Op::Store { address: Operand::Parameter(0), bytes: 32, .. })),
        "{ops:?}"
    );
    let scattered =
        self::ops("void f(int *p, __m512i i, __m512i v) { _mm512_i32scatter_epi32(p, i, v, 4); }");
    assert!(
        scattered.iter().any(
            |op| matches!(op, Op::NotUnderstood { pointers, .. } if pointers[..] == [Operand::Parameter(0)])
        ),
        "{scattered:?}"
    );
}

#[test]
fn library_functions_write() {
    let target = Operand::Parameter(0);
    let unknown = Operand::Undefined;
    for (call, length) in [
        ("sprintf(p, \"%d\", 1)", unknown),
        ("snprintf(p, 8, \"%d\", 1)", unknown),
        ("qsort(p, 4, 2, (int (*)(const void *, const void *))q)", Operand::Int(8)),
        ("mempcpy(p, q, 5)", Operand::Int(5)),
        ("memccpy(p, q, 0, 5)", unknown),
        ("stpncpy(p, q, 6)", Operand::Int(6)),
        ("strcat(p, q)", unknown),
        ("fread(p, 2, 3, stdin)", unknown),
        ("bzero(p, 7)", Operand::Int(7)),
        ("wmemcpy((wchar_t *)p, (wchar_t *)q, 3)", Operand::Int(12)),
    ] {
        let ops = ops(&format!("void f(char *p, char *q) {{ {call}; }}"));
        let product = |number: u32| match ops[number as usize] {
            Op::Arithmetic { left: Operand::Int(a), right: Operand::Int(b), .. } => Operand::Int(a * b),
            _ => unknown,
        };
        let found = ops.iter().find_map(|op| match op {
            Op::Bulk { target, length: Operand::Instruction(number), .. } => {
                Some((*target, product(*number)))
            }
            Op::Bulk { target, length, .. } => Some((*target, *length)),
            _ => None,
        });
        assert_eq!(found, Some((target, length)), "{call}: {ops:?}");
    }
}

#[test]
fn what_is_returned_is_known() {
    let ops = ops("char *f(char *p, char *q) { return mempcpy(p, q, 5); }");
    assert!(
        matches!(&ops[0], Op::Offset { base: Operand::Parameter(0), offset: 0, index, .. } if index[..] == [(Operand::Int(5), 1)]),
        "{ops:?}"
    );
}

#[test]
fn addresses_of_assembly_are_whole() {
    let ops = ops("void f(char *p, long i) {\
        __asm__ volatile(\"clwb 64(%0)\" :: \"r\"(p) : \"memory\");\
        __asm__ volatile(\"movq %2, -8(%0,%1,4)\" :: \"r\"(p), \"r\"(i), \"r\"(1L) : \"memory\");\
        __asm__ volatile(\"lock; incl %0\" : \"+m\"(*(int *)p)); }");
    let [
        Op::Offset { base, offset: 64, index, .. },
        Op::Flush { address, class: Class::FlushOpt },
        rest @ ..,
    ] = &ops[..]
    else {
        panic!("{ops:?}")
    };
    assert_eq!((*base, index.len(), *address), (Operand::Parameter(0), 0, Operand::Instruction(0)));
    let [Op::Offset { base, offset: -8, index, .. }, Op::Store { address, bytes: 8, .. }, rest @ ..] = rest
    else {
        panic!("{ops:?}")
    };
    assert_eq!((*base, *address), (Operand::Parameter(0), Operand::Instruction(2)));
    assert_eq!(index[..], [(Operand::Parameter(1), 4)]);
    assert!(
        rest.iter().all(|op| matches!(op, Op::Locked { address: Operand::Parameter(0), bytes: 4, .. })),
        "{ops:?}"
    );
    assert!(!rest.is_empty(), "{ops:?}");
}

#[test]
fn unknown_intrinsics_and_assembly_are_not_understood() {
    let assembly = ops("void f(char *p) { __asm__ volatile(\"clzero\" :: \"a\"(p) : \"memory\"); }");
    assert!(
        matches!(&assembly[..], [Op::NotUnderstood { pointers, .. }] if pointers.is_empty()),
        "{assembly:?}"
    );
    let intrinsic = ops("void f(char *p, __m128i v) { _mm_maskmoveu_si128(v, v, p); }");
    assert!(
        intrinsic.iter().any(
            |op| matches!(op, Op::NotUnderstood { pointers, .. } if pointers[..] == [Operand::Parameter(0)])
        ),
        "{intrinsic:?}"
    );
}
