//! What is known of instructions by their names: what they do not tell, which way they move data, how much.

use crashproof_protocol::abi::asm::{READ, WRITE};

use crate::asm::parts::Part;

/// Instructions that touch memory in ways the text does not show, or leave the statement.
pub(crate) fn is_opaque(mnemonic: &str, operand_count: usize, repeat: bool) -> bool {
    let string_operation = ["movs", "stos", "lods", "scas", "cmps", "ins", "outs"].iter().any(|s| {
        mnemonic.strip_prefix(s).is_some_and(|size| matches!(size, "" | "b" | "w" | "l" | "d" | "q"))
    });
    if string_operation && (operand_count == 0 || repeat) {
        return true;
    }
    let prefixes = [
        "call",
        "syscall",
        "sysenter",
        "sysret",
        "ret",
        "iret",
        "xsave",
        "xrstor",
        "fxsave",
        "fxrstor",
        "xbegin",
        "xend",
        "xabort",
        "maskmov",
        "vmaskmovdqu",
        "clzero",
        "movdir64b",
        "enqcmd",
        "gather",
        "vgather",
        "vpgather",
        "vscatter",
        "vpscatter",
        "vpcompress",
        "vcompress",
        "vpexpand",
        "vexpand",
        "xlat",
    ];
    mnemonic == "int" || prefixes.iter().any(|prefix| mnemonic.starts_with(prefix))
}

pub(crate) fn direction(mnemonic: &str, is_destination: bool, alone: bool) -> u32 {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| mnemonic.starts_with(p));
    if starts(&["cmpxchg"]) {
        return READ | WRITE;
    }
    if starts(&[
        "cmp", "test", "ucomi", "comi", "vucomi", "vcomi", "ptest", "vptest", "ldmxcsr", "fld", "fild",
    ]) || mnemonic == "bt"
    {
        return READ;
    }
    if !is_destination && !alone {
        return READ;
    }
    if starts(&["mov", "vmov", "set", "stmxcsr", "fst", "fist", "pop", "pextr", "vpextr", "vextract"]) {
        return WRITE;
    }
    if starts(&["push", "mul", "div", "idiv"]) {
        return READ;
    }
    READ | WRITE
}

/// Bytes of memory an instruction touches, from its name and its other operands.
pub(crate) fn access_bytes(mnemonic: &str, parts: &[Part], intel: bool) -> Option<u32> {
    match mnemonic {
        "cmpxchg8b" | "movhps" | "movlps" | "movhpd" | "movlpd" => return Some(8),
        "cmpxchg16b" => return Some(16),
        "movss" | "vmovss" | "movd" | "vmovd" | "ldmxcsr" | "stmxcsr" => return Some(4),
        "vmovsd" => return Some(8),
        "movsd" if parts.len() == 2 => return Some(8),
        "vmovq" => return Some(8),
        "movq" => return Some(8),
        _ => {}
    }
    if mnemonic.starts_with("set") {
        return Some(1);
    }
    let wide = [
        "movdqa", "movdqu", "movaps", "movups", "movapd", "movupd", "movntdq", "movntps", "movntpd", "lddqu",
    ];
    if wide.iter().any(|w| mnemonic.starts_with(w)) {
        return Some(16);
    }
    let register = parts.iter().find_map(|part| match part {
        Part::Register(_, bytes) | Part::Value(_, bytes) => *bytes,
        _ => None,
    });
    if mnemonic.strip_prefix('v').is_some_and(|rest| wide.iter().any(|w| rest.starts_with(w))) {
        return register.filter(|bytes| matches!(bytes, 16 | 32 | 64));
    }
    let general = [
        "mov", "movnti", "add", "sub", "and", "or", "xor", "adc", "sbb", "xadd", "xchg", "cmpxchg", "inc",
        "dec", "neg", "not", "cmp", "test", "bt", "bts", "btr", "btc", "shl", "shr", "sar", "rol", "ror",
    ];
    if general.contains(&mnemonic) {
        return register.filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8));
    }
    if intel {
        return None;
    }
    let suffix = match mnemonic.chars().last()? {
        'b' => 1,
        'w' => 2,
        'l' => 4,
        'q' => 8,
        _ => return None,
    };
    general.contains(&&mnemonic[..mnemonic.len() - 1]).then_some(suffix)
}

pub(crate) fn intel_size(text: &str) -> Option<u32> {
    let word = text.split_whitespace().next()?;
    text.contains("ptr").then_some(())?;
    Some(match word {
        "byte" => 1,
        "word" => 2,
        "dword" => 4,
        "qword" => 8,
        "xmmword" | "oword" => 16,
        "ymmword" => 32,
        "zmmword" => 64,
        _ => return None,
    })
}

/// The 64-bit name of a general register, others unchanged.
pub(crate) fn full_register(name: &str) -> &str {
    match name {
        "a" | "al" | "ah" | "ax" | "eax" | "rax" => "rax",
        "b" | "bl" | "bh" | "bx" | "ebx" | "rbx" => "rbx",
        "c" | "cl" | "ch" | "cx" | "ecx" | "rcx" => "rcx",
        "d" | "dl" | "dh" | "dx" | "edx" | "rdx" => "rdx",
        "si" | "sil" | "esi" | "rsi" => "rsi",
        "di" | "dil" | "edi" | "rdi" => "rdi",
        "bp" | "bpl" | "ebp" | "rbp" => "rbp",
        "sp" | "spl" | "esp" | "rsp" => "rsp",
        _ if name.starts_with('r') => name.trim_end_matches(['b', 'w', 'd']),
        _ => name,
    }
}

pub(crate) fn register_bytes(name: &str) -> Option<u32> {
    if name.starts_with("xmm") {
        return Some(16);
    }
    if name.starts_with("ymm") {
        return Some(32);
    }
    if name.starts_with("zmm") {
        return Some(64);
    }
    if let Some(rest) = name.strip_prefix('r')
        && rest.starts_with(|c: char| c.is_ascii_digit())
    {
        return Some(match rest.chars().last()? {
            'b' => 1,
            'w' => 2,
            'd' => 4,
            _ => 8,
        });
    }
    Some(match name {
        "al" | "ah" | "bl" | "bh" | "cl" | "ch" | "dl" | "dh" | "sil" | "dil" | "bpl" | "spl" => 1,
        "ax" | "bx" | "cx" | "dx" | "si" | "di" | "bp" | "sp" => 2,
        "eax" | "ebx" | "ecx" | "edx" | "esi" | "edi" | "ebp" | "esp" => 4,
        "rax" | "rbx" | "rcx" | "rdx" | "rsi" | "rdi" | "rbp" | "rsp" => 8,
        _ => return None,
    })
}
