//! Registers and sizes as the text of an instruction names them.

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
