//! Assembly instructions, by mnemonic.
//!
//! A name in the table covers every mnemonic that starts with it; the longest match wins, so exceptions can be listed
//! next to their family. Size suffixes of AT&T syntax (`movq`) and variants (`addsd`) need no rows of their own.

use super::effect::{Fence, Flush};

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// Writes back the line of its operand.
    Flush(Flush),
    /// A fence.
    Fence(Fence),
    /// A short wait for other threads.
    Pause,
    /// No effect on memory operands and no result: `lfence`, `nop`, prefetches.
    Nothing,
    /// Computes with its operand's address, not its content.
    Address,
    /// Jumps within the statement.
    Jump,
    /// Reads its source operands, and does this to the destination.
    Compute(Compute),
    /// Accesses memory that is not an operand, leaves the statement, or is not listed.
    NotUnderstood,
}

/// An instruction that only affects its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compute {
    /// How it accesses memory as its destination or only operand.
    pub destination: Use,
    /// All operands are destinations: `xchg`, `xadd`.
    pub exchanges: bool,
    /// Locked without a prefix, if an operand is memory.
    pub locked: bool,
    /// Its stores bypass the cache.
    pub nontemporal: bool,
}

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are what they do")]
pub enum Use {
    Read,
    Write,
    ReadWrite,
}

/// Prefixes of an instruction that change what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Prefixes {
    /// `data16`, or the byte 0x66.
    pub operand_size: bool,
    /// `rep` and the like.
    pub repeat: bool,
}

use Instruction::{Address, Jump, NotUnderstood, Nothing, Pause};

const fn works(destination: Use) -> Instruction {
    Instruction::Compute(Compute { destination, exchanges: false, locked: false, nontemporal: false })
}
const READS: Instruction = works(Use::Read);
const WRITES: Instruction = works(Use::Write);
const CHANGES: Instruction = works(Use::ReadWrite);
const STREAMS: Instruction = Instruction::Compute(Compute {
    destination: Use::Write,
    exchanges: false,
    locked: false,
    nontemporal: true,
});
const XADD: Instruction = Instruction::Compute(Compute {
    destination: Use::ReadWrite,
    exchanges: true,
    locked: false,
    nontemporal: false,
});
const XCHG: Instruction = Instruction::Compute(Compute {
    destination: Use::ReadWrite,
    exchanges: true,
    locked: true,
    nontemporal: false,
});

type Row = (Instruction, &'static [&'static str]);

const TABLE: &[Row] = &[
    (Instruction::Flush(Flush::Clflush), &["clflush"]),
    (Instruction::Flush(Flush::Clflushopt), &["clflushopt"]),
    (Instruction::Flush(Flush::Clwb), &["clwb"]),
    (Instruction::Fence(Fence::Store), &["sfence"]),
    (Instruction::Fence(Fence::Full), &["mfence"]),
    (Pause, &["pause"]),
    (Nothing, &["lfence"]),
    (Address, &["lea", "nop", "prefetch", "endbr", "cldemote"]),
    (Jump, &["j", "loop"]),
    // General registers.
    (WRITES, &["mov", "set", "pop"]),
    (XCHG, &["xchg"]),
    (XADD, &["xadd"]),
    (
        CHANGES,
        &[
            "adc", "add", "and", "btc", "btr", "bts", "cmpxchg", "dec", "inc", "neg", "not", "or", "rcl",
            "rcr", "rol", "ror", "sal", "sar", "sbb", "shl", "shr", "sub", "xor",
        ],
    ),
    (
        READS,
        &[
            "andn", "bextr", "bls", "bsf", "bsr", "bswap", "bt", "bzhi", "cmov", "cmp", "crc32", "div",
            "idiv", "imul", "lzcnt", "mul", "pdep", "pext", "popcnt", "push", "rorx", "sarx", "shlx", "shrx",
            "test", "tzcnt",
        ],
    ),
    // No memory operands.
    (
        READS,
        &[
            "cbw", "cbtw", "cdq", "cdqe", "clc", "cld", "cltd", "cltq", "cmc", "cpuid", "cqo", "cqto", "cwd",
            "cwtd", "cwtl", "lahf", "rdfsbase", "rdgsbase", "rdpid", "rdpkru", "rdpmc", "rdrand", "rdseed",
            "rdtsc", "sahf", "stc", "std", "ud2", "wrfsbase", "wrgsbase", "wrpkru", "xgetbv", "xtest",
        ],
    ),
    // Vectors and floating-point numbers. A leading `v` is taken off first.
    (STREAMS, &["movnt"]),
    (WRITES, &["extract", "fist", "fnst", "fst", "kmov", "pextr", "stmxcsr"]),
    (CHANGES, &["maskmov", "pmaskmov"]),
    (
        READS,
        &[
            "addsub",
            "aes",
            "blend",
            "broadcast",
            "comi",
            "cvt",
            "dpp",
            "emms",
            "fabs",
            "fadd",
            "fchs",
            "fcom",
            "fcos",
            "fdiv",
            "fild",
            "finit",
            "fld",
            "fm",
            "fmul",
            "fnclex",
            "fninit",
            "fnm",
            "frndint",
            "fscale",
            "fsin",
            "fsqrt",
            "fsub",
            "fucom",
            "fwait",
            "fxch",
            "hadd",
            "hsub",
            "insert",
            "kadd",
            "kand",
            "knot",
            "kor",
            "kshift",
            "ktest",
            "kunpck",
            "kxnor",
            "kxor",
            "lddqu",
            "ldmxcsr",
            "max",
            "min",
            "mpsadbw",
            "pabs",
            "pack",
            "padd",
            "palign",
            "pand",
            "pavg",
            "pblend",
            "pbroadcast",
            "pclmul",
            "pcmp",
            "perm",
            "phadd",
            "phmin",
            "phsub",
            "pinsr",
            "pmadd",
            "pmax",
            "pmin",
            "pmov",
            "pmul",
            "por",
            "psad",
            "pshuf",
            "psign",
            "psll",
            "psra",
            "psrl",
            "psub",
            "pternlog",
            "ptest",
            "punpck",
            "pxor",
            "rcp",
            "round",
            "rsqrt",
            "sha",
            "shuf",
            "sqrt",
            "ucomi",
            "unpck",
            "zeroall",
            "zeroupper",
        ],
    ),
    // Exceptions to the families above.
    (NotUnderstood, &["movdir64b", "maskmovdqu", "maskmovq", "pushf", "popf"]),
];

const STRING_OPERATIONS: [&str; 7] = ["movs", "stos", "lods", "scas", "cmps", "ins", "outs"];

/// The effect of an instruction, given its lower-case mnemonic, its prefixes, and the number of explicit operands.
#[must_use]
pub fn instruction(mnemonic: &str, prefixes: Prefixes, operands: usize) -> Instruction {
    // Prefix bytes, which old assemblers require.
    match mnemonic {
        "clflush" if prefixes.operand_size => return Instruction::Flush(Flush::Clflushopt),
        "xsaveopt" if prefixes.operand_size => return Instruction::Flush(Flush::Clwb),
        "nop" if prefixes.repeat => return Pause,
        _ => {}
    }
    let is_string_operation = STRING_OPERATIONS.iter().any(|stem| {
        mnemonic.strip_prefix(stem).is_some_and(|size| matches!(size, "" | "b" | "w" | "l" | "d" | "q"))
    });
    // `movsd` and `cmpsd` also exist for vector registers, with operands.
    if is_string_operation && (operands == 0 || prefixes.repeat) {
        return NotUnderstood;
    }
    let stem = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
    let fits = TABLE.iter().flat_map(|(meaning, names)| names.iter().map(move |name| (name, *meaning)));
    let longest = fits.filter(|(name, _)| stem.starts_with(**name)).max_by_key(|(name, _)| name.len());
    match longest {
        // These have no variants: `sfencex` is not understood.
        Some((name, Instruction::Flush(_) | Instruction::Fence(_) | Pause | Nothing))
            if *name != mnemonic =>
        {
            NotUnderstood
        }
        Some((_, meaning)) => meaning,
        None => NotUnderstood,
    }
}

/// The number of bytes of memory an instruction accesses, derived from its name and the size of a register operand.
#[must_use]
pub fn access_bytes(mnemonic: &str, register: Option<u32>, operands: usize, intel: bool) -> Option<u32> {
    match mnemonic {
        "cmpxchg8b" | "movhps" | "movlps" | "movhpd" | "movlpd" | "vmovsd" | "vmovq" | "movq" => {
            return Some(8);
        }
        "movsd" if operands == 2 => return Some(8),
        "cmpxchg16b" => return Some(16),
        "movss" | "vmovss" | "movd" | "vmovd" | "ldmxcsr" | "stmxcsr" => return Some(4),
        _ if mnemonic.starts_with("set") => return Some(1),
        _ => {}
    }
    let wide = |name: &str| {
        ["movdqa", "movdqu", "movaps", "movups", "movapd", "movupd", "movntdq", "movntps", "movntpd", "lddqu"]
            .iter()
            .any(|wide| name.starts_with(wide))
    };
    if wide(mnemonic) {
        return Some(16);
    }
    let masked = |name: &str| ["maskmovp", "pmaskmov"].iter().any(|masked| name.starts_with(masked));
    if mnemonic.strip_prefix('v').is_some_and(|rest| wide(rest) || masked(rest)) {
        return register.filter(|bytes| matches!(bytes, 16 | 32 | 64));
    }
    const GENERAL: [&str; 27] = [
        "mov", "movnti", "add", "sub", "and", "or", "xor", "adc", "sbb", "xadd", "xchg", "cmpxchg", "inc",
        "dec", "neg", "not", "cmp", "test", "bt", "bts", "btr", "btc", "shl", "shr", "sar", "rol", "ror",
    ];
    if GENERAL.contains(&mnemonic) {
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
    GENERAL.contains(&&mnemonic[..mnemonic.len() - 1]).then_some(suffix)
}
