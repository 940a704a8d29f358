//! Statements as persistent-memory code writes them.

use crashproof_protocol::abi::asm::{LOCKED, NONTEMPORAL, READ, WRITE};

use super::*;

fn att(template: &str, constraints: &str, sizes: &[Option<u32>]) -> Result<Summary, String> {
    read(template, false, &operands(constraints), sizes)
}

fn intel(template: &str, constraints: &str, sizes: &[Option<u32>]) -> Result<Summary, String> {
    read(template, true, &operands(constraints), sizes)
}

fn memory(operand: usize) -> Address {
    Address::Memory { operand, displacement: 0 }
}

fn register(operand: usize, displacement: i64) -> Address {
    Address::Computed { base: Some(operand), index: None, scale: 1, displacement }
}

#[test]
fn flushes_in_every_spelling() {
    let cases = [
        ("clflush $0", Flush::Clflush),
        (".byte 0x66; clflush $0", Flush::Clflushopt),
        (".byte 0x66\n\tclflush $0", Flush::Clflushopt),
        ("clflushopt $0", Flush::Clflushopt),
        ("data16 clflush $0", Flush::Clflushopt),
        (".byte 0x66; xsaveopt $0", Flush::Clwb),
        ("clwb $0", Flush::Clwb),
    ];
    for (template, flush) in cases {
        let summary = att(template, "=*m,*m,~{dirflag}", &[Some(1)]).unwrap();
        assert_eq!(summary.before, [Effect::Flush(flush, memory(0))], "{template}");
        assert!(summary.only_effects);
    }
    let summary = att("clflush ($0)", "r,~{memory}", &[Some(8)]).unwrap();
    assert_eq!(summary.before, [Effect::Flush(Flush::Clflush, register(0, 0))]);
    let summary = att("clwb 64(%rax)", "{ax}", &[Some(8)]).unwrap();
    assert_eq!(summary.before, [Effect::Flush(Flush::Clwb, register(0, 64))]);
    let summary = intel("clwb [${0:q}]", "r,~{memory}", &[Some(8)]).unwrap();
    assert_eq!(summary.before, [Effect::Flush(Flush::Clwb, register(0, 0))]);
}

#[test]
fn fences() {
    assert_eq!(att("sfence", "~{memory}", &[]).unwrap().before, [Effect::Sfence]);
    assert_eq!(att("mfence\n\t", "~{memory}", &[]).unwrap().before, [Effect::Mfence]);
    assert_eq!(att("", "~{memory}", &[]).unwrap(), Summary { only_effects: true, ..Summary::default() });
    assert_eq!(att("rep; nop", "", &[]).unwrap().before, [Effect::Pause]);
    let stack = att("lock; addl $$0,0(%rsp)", "~{memory}", &[]).unwrap();
    assert_eq!(stack.before, [Effect::Mfence]);
    assert!(!stack.only_effects);
}

#[test]
fn locked_instructions() {
    let summary =
        att("lock; xaddq $0,$1", "=r,=*m,0,*m,~{memory}", &[Some(8), Some(8), Some(8), Some(8)]).unwrap();
    let flags = READ | WRITE | LOCKED;
    assert_eq!(summary.accesses, [Access { address: memory(1), bytes: Some(8), flags }]);
    let summary = att("xchgl $0,$1", "=r,=*m,0,*m", &[Some(4); 4]).unwrap();
    assert_eq!(summary.accesses, [Access { address: memory(1), bytes: Some(4), flags }]);
    let summary = intel("lock xadd qword ptr [${1:q}], ${0:q}", "=&r,r,0", &[Some(8); 3]).unwrap();
    assert_eq!(summary.accesses, [Access { address: register(1, 0), bytes: Some(8), flags }]);
    let summary = att("lock; cmpxchg16b $1; setz $0", "=q,=*m,*m", &[Some(1), Some(16), Some(16)]).unwrap();
    assert_eq!(summary.accesses, [Access { address: memory(1), bytes: Some(16), flags }]);
}

#[test]
fn stores_through_registers() {
    let summary = att("movnti $0,($1)", "r,r,~{memory}", &[Some(8), Some(8)]).unwrap();
    let nt = Access { address: register(1, 0), bytes: Some(8), flags: WRITE | NONTEMPORAL };
    assert_eq!(summary.accesses, [nt]);
    assert_eq!(intel("movnti [${0:q}], ${1:q}", "r,r", &[Some(8); 2]).unwrap().accesses.len(), 1);
    let summary = intel("mov ${0:k}, [${1:q} + 8]", "=&r,r", &[Some(4), Some(8)]).unwrap();
    let load = Access { address: register(1, 8), bytes: Some(4), flags: READ };
    assert_eq!(summary.accesses, [load]);
    let summary = att("movq $0,(%rdi,%rsi,8)", "r,{di},{si}", &[Some(8); 3]).unwrap();
    let address = Address::Computed { base: Some(1), index: Some(2), scale: 8, displacement: 0 };
    assert_eq!(summary.accesses, [Access { address, bytes: Some(8), flags: WRITE }]);
    let summary = att("movntdq %xmm0,16($0)", "r", &[Some(8)]).unwrap();
    let wide = Access { address: register(0, 16), bytes: Some(16), flags: WRITE | NONTEMPORAL };
    assert_eq!(summary.accesses, [wide]);
}

#[test]
fn dialect_alternatives() {
    let template = "$(movq $$5,$0$|mov $0,5$)";
    assert_eq!(att(template, "=*m", &[Some(8)]).unwrap().accesses[0].flags, WRITE);
    assert_eq!(intel(template, "=*m", &[Some(8)]).unwrap().accesses[0].flags, WRITE);
}

#[test]
fn fences_around_accesses_keep_their_order() {
    let summary = att("sfence; movq $1,$0; mfence", "=*m,r", &[Some(8); 2]).unwrap();
    assert_eq!(summary.before, [Effect::Sfence]);
    assert_eq!(summary.after, [Effect::Mfence]);
    assert!(att("movq $1,$0; sfence; movq $1,$0", "=*m,r", &[Some(8); 2]).is_err());
}

#[test]
fn register_only_code_is_harmless() {
    for template in ["cpuid", "rdtsc", "bsfq $1,$0", "mov %rsp,$0", "movq %fs:0x28,$0", "lea 8($1),$0"] {
        let summary = att(template, "=r,r", &[Some(8); 2]).unwrap();
        assert!(summary.before.is_empty() && summary.accesses.is_empty(), "{template}");
    }
}

#[test]
fn what_differs_from_run_to_run_is_followed_to_the_outputs() {
    use Given::{Clock, High, Low, Processor, Random, Success};
    let cases: [(&str, &str, &[Given]); 9] = [
        ("rdtsc", "={ax},={dx}", &[Low, High]),
        ("rdtscp", "={ax},={dx},={cx}", &[Low, High, Processor]),
        ("lfence; rdtsc; lfence", "={ax},={dx},~{memory}", &[Low, High]),
        ("rdtsc; shlq $$32, %rdx; orq %rdx, %rax", "={ax},~{rdx}", &[Clock]),
        ("rdtsc; shl $$32, %rdx; or %rdx, $0", "={ax},~{rdx}", &[Clock]),
        ("cpuid; rdtsc; mov %edx, $0; mov %eax, $1", "=r,=r,~{rax},~{rbx},~{rcx},~{rdx}", &[High, Low]),
        ("rdrand $0; setc $1", "=r,=q", &[Random, Success]),
        ("rdrandq $0", "=r,={@ccc}", &[Random, Success]),
        ("cpuid\n\trdtsc", "={ax},={dx},{ax},~{bx}", &[Low, High]),
    ];
    for (template, constraints, expected) in cases {
        let found = nondeterminism(template, false, &operands(constraints));
        assert_eq!(found, Some(Ok(expected.to_vec())), "{template}");
    }
    let intel = nondeterminism("rdtsc\nshl rdx, 32\nor rax, rdx", true, &operands("={ax},~{rdx}"));
    assert_eq!(intel, Some(Ok(vec![Clock])));
    assert_eq!(nondeterminism("cpuid", false, &operands("={ax},{ax}")), None);
    for template in ["rdtsc; imul $$3, %rax", "rdtsc; mov %eax, ($1)", "rdtsc; shl $$16, %rdx"] {
        assert!(matches!(nondeterminism(template, false, &operands("={ax},r")), Some(Err(_))), "{template}");
    }
}

#[test]
fn what_is_not_understood_is_named() {
    let cases = [
        (".byte 0x66, 0x0f, 0xae, 0xf8", "raw bytes"),
        ("rep movsb", "rep movsb"),
        ("syscall", "syscall"),
        ("call foo", "call foo"),
        ("xsaveopt $0", "xsaveopt"),
        ("movq (%rbx),%rax", "which is no operand"),
        ("add $$8,$1; clwb ($1)", "computed on the way"),
        ("1: clwb ($1); jne 1b", "jumped over"),
        ("frob $1", "instruction `frob"),
        ("fldt ($1)", "how much memory"),
        ("lock; btsq $1,$0", "bit string"),
    ];
    for (template, expected) in cases {
        let why = att(template, "=*m,r", &[Some(8); 2]).unwrap_err();
        assert!(why.contains(expected), "{template}: {why}");
    }
}

#[test]
fn file_scope_assembly() {
    assert!(!has_instructions(".symver foo_old,foo@V1\n.globl x\n x = 5\nlabel:"));
    assert!(has_instructions("f:\n ret"));
}
