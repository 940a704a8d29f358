//! Intrinsics of LLVM.
//!
//! A name in the table covers itself and every extension after a dot: `llvm.memcpy` covers `llvm.memcpy.p0.p0.i64`. The
//! longest match wins. A star matches any suffix.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::effect::Effect::{Copy, Fill, Flush as Flushes, Lanes as Vector, Load, Read, Store, Write};
use super::effect::{Effect, Extent, Fence, Flush, Lanes, LanesAt, Length, Manner, Mask};

/// What an intrinsic means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// No effect visible to a program: hints, debug information, the function's own frame and registers. A result, if
    /// there is one, may be anything.
    Nothing,
    /// Computes a value from its arguments and touches no memory.
    Value(Operation),
    /// Accesses memory or orders accesses, in this order.
    Effects(&'static [Effect]),
    /// The condition in the first argument holds.
    Assume,
    /// Ends the program.
    Trap,
    /// A short wait for other threads.
    Pause,
    /// Returns the processor's clock, and its number if `processor`.
    Clock {
        /// The result is a structure with the clock and the processor's number.
        processor: bool,
    },
    /// Returns a random number and whether one was available.
    Random,
    /// Makes a `va_list` of the arguments of the function.
    ListStart,
    /// Copies a `va_list`.
    ListCopy,
    /// Ends a `va_list`.
    ListEnd,
    /// Not listed. If LLVM declares that it does not access memory, it is still an arbitrary value.
    NotUnderstood,
}

/// A computation. `Anything` is a value that no engine models, such as the result of floating-point arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named after the intrinsics")]
pub enum Operation {
    /// The first argument.
    Same,
    /// The first argument, with some bits of the address cleared.
    MaskPointer,
    False,
    ObjectSize,
    UnsignedMax,
    UnsignedMin,
    SignedMax,
    SignedMin,
    Absolute,
    ByteSwap,
    CountOnes,
    LeadingZeros,
    TrailingZeros,
    FunnelShiftLeft,
    FunnelShiftRight,
    UnsignedAddOverflow,
    SignedAddOverflow,
    UnsignedSubOverflow,
    SignedSubOverflow,
    UnsignedMulOverflow,
    SignedMulOverflow,
    UnsignedAddSaturating,
    SignedAddSaturating,
    UnsignedSubSaturating,
    SignedSubSaturating,
    Anything,
}

const fn exactly(bytes: u64) -> Extent {
    Extent::Exactly(Length::Constant(bytes))
}

const BY_ARGUMENT: Extent = Extent::Exactly(Length::Argument(2, 1));

const fn vector_load(at: LanesAt) -> Effect {
    let mask = Mask::Bits(1);
    Vector(Lanes { address: 0, at, value: None, otherwise: Some(2), mask, manner: Manner::Plain })
}

const fn vector_store(at: LanesAt) -> Effect {
    let mask = Mask::Bits(2);
    Vector(Lanes { address: 1, at, value: Some(0), otherwise: None, mask, manner: Manner::Plain })
}

const AVX_LOAD: Effect = Vector(Lanes {
    address: 0,
    at: LanesAt::Contiguous,
    value: None,
    otherwise: None,
    mask: Mask::Signs(1),
    manner: Manner::Plain,
});

const AVX_STORE: Effect = Vector(Lanes {
    address: 0,
    at: LanesAt::Contiguous,
    value: Some(2),
    otherwise: None,
    mask: Mask::Signs(1),
    manner: Manner::Plain,
});

const AVX_GATHER: Effect = Vector(Lanes {
    address: 1,
    at: LanesAt::Indexed { index: 2, scale: 4 },
    value: None,
    otherwise: Some(0),
    mask: Mask::Signs(3),
    manner: Manner::Plain,
});

const AVX512_GATHER: Effect = Vector(Lanes {
    address: 1,
    at: LanesAt::Indexed { index: 2, scale: 4 },
    value: None,
    otherwise: Some(0),
    mask: Mask::Bits(3),
    manner: Manner::Plain,
});

const AVX512_SCATTER: Effect = Vector(Lanes {
    address: 0,
    at: LanesAt::Indexed { index: 2, scale: 4 },
    value: Some(3),
    otherwise: None,
    mask: Mask::Bits(1),
    manner: Manner::Plain,
});

/// `maskmovdqu` and `maskmovq` are non-temporal.
const MASKED_BYTES: Effect = Vector(Lanes {
    address: 2,
    at: LanesAt::Contiguous,
    value: Some(0),
    otherwise: None,
    mask: Mask::Signs(1),
    manner: Manner::NonTemporal,
});

/// `movdiri` is as weakly ordered as a non-temporal store.
const DIRECT_STORE: Effect = Store { to: 0, value: 1, manner: Manner::NonTemporal };
const DIRECT_STORE_LINE: Effect = Copy { to: 0, from: 1, extent: exactly(64), manner: Manner::NonTemporal };
const BLOCK_COPY: Effect = Copy { to: 0, from: 1, extent: BY_ARGUMENT, manner: Manner::Plain };
const BLOCK_FILL: Effect = Fill { to: 0, value: Some(1), extent: BY_ARGUMENT };
const SAVED_STATE: Effect = Write { to: 0, extent: Extent::Unknown };

use Meaning::{Effects, Nothing, Value};
use Operation as Op;

const TABLE: &[(&str, Meaning)] = &[
    // Flushes and fences.
    ("llvm.x86.sse2.clflush", Effects(&[Flushes { at: 0, flush: Flush::Clflush }])),
    ("llvm.x86.clflushopt", Effects(&[Flushes { at: 0, flush: Flush::Clflushopt }])),
    ("llvm.x86.clwb", Effects(&[Flushes { at: 0, flush: Flush::Clwb }])),
    ("llvm.x86.sse.sfence", Effects(&[Effect::Fence(Fence::Store)])),
    ("llvm.x86.sse2.mfence", Effects(&[Effect::Fence(Fence::Full)])),
    ("llvm.x86.sse2.lfence", Nothing),
    ("llvm.x86.sse2.pause", Meaning::Pause),
    ("llvm.x86.cldemote", Nothing),
    ("llvm.prefetch", Nothing),
    ("llvm.x86.prefetch*", Nothing),
    // Blocks. The variants with atomic elements take the same arguments first.
    ("llvm.memcpy", Effects(&[BLOCK_COPY])),
    ("llvm.memmove", Effects(&[BLOCK_COPY])),
    ("llvm.memset", Effects(&[BLOCK_FILL])),
    // Accesses of x86.
    ("llvm.x86.directstore32", Effects(&[DIRECT_STORE])),
    ("llvm.x86.directstore64", Effects(&[DIRECT_STORE])),
    ("llvm.x86.movdir64b", Effects(&[DIRECT_STORE_LINE])),
    ("llvm.x86.sse3.ldu.dq", Effects(&[Load { from: 0 }])),
    ("llvm.x86.avx.ldu.dq.256", Effects(&[Load { from: 0 }])),
    ("llvm.x86.movrs*", Effects(&[Load { from: 0 }])),
    ("llvm.x86.avx10.vmovrs*", Effects(&[Load { from: 0 }])),
    ("llvm.x86.sse.stmxcsr", Effects(&[Write { to: 0, extent: exactly(4) }])),
    ("llvm.x86.sse.ldmxcsr", Effects(&[Read { from: 0, extent: exactly(4) }])),
    ("llvm.x86.fxsave*", Effects(&[Write { to: 0, extent: exactly(512) }])),
    ("llvm.x86.fxrstor*", Effects(&[Read { from: 0, extent: exactly(512) }])),
    ("llvm.x86.xsave*", Effects(&[SAVED_STATE])),
    ("llvm.x86.xrstor*", Effects(&[Read { from: 0, extent: Extent::Unknown }])),
    // Vectors.
    ("llvm.masked.load", Effects(&[vector_load(LanesAt::Contiguous)])),
    ("llvm.masked.expandload", Effects(&[vector_load(LanesAt::Compressed)])),
    ("llvm.masked.gather", Effects(&[vector_load(LanesAt::Scattered)])),
    ("llvm.masked.store", Effects(&[vector_store(LanesAt::Contiguous)])),
    ("llvm.masked.compressstore", Effects(&[vector_store(LanesAt::Compressed)])),
    ("llvm.masked.scatter", Effects(&[vector_store(LanesAt::Scattered)])),
    ("llvm.x86.avx.maskload", Effects(&[AVX_LOAD])),
    ("llvm.x86.avx2.maskload", Effects(&[AVX_LOAD])),
    ("llvm.x86.avx.maskstore", Effects(&[AVX_STORE])),
    ("llvm.x86.avx2.maskstore", Effects(&[AVX_STORE])),
    ("llvm.x86.avx2.gather", Effects(&[AVX_GATHER])),
    ("llvm.x86.avx512.mask.gather*", Effects(&[AVX512_GATHER])),
    ("llvm.x86.avx512.mask.scatter*", Effects(&[AVX512_SCATTER])),
    ("llvm.x86.sse2.maskmov.dqu", Effects(&[MASKED_BYTES])),
    ("llvm.x86.mmx.maskmovq", Effects(&[MASKED_BYTES])),
    // Nondeterministic values.
    ("llvm.x86.rdtsc", Meaning::Clock { processor: false }),
    ("llvm.readcyclecounter", Meaning::Clock { processor: false }),
    ("llvm.x86.rdtscp", Meaning::Clock { processor: true }),
    ("llvm.x86.rdrand", Meaning::Random),
    ("llvm.x86.rdseed", Meaning::Random),
    // Variable arguments.
    ("llvm.va_start", Meaning::ListStart),
    ("llvm.va_copy", Meaning::ListCopy),
    ("llvm.va_end", Meaning::ListEnd),
    // Control.
    ("llvm.assume", Meaning::Assume),
    ("llvm.trap", Meaning::Trap),
    ("llvm.debugtrap", Meaning::Trap),
    ("llvm.ubsantrap", Meaning::Trap),
    // Values.
    ("llvm.expect", Value(Op::Same)),
    ("llvm.launder", Value(Op::Same)),
    ("llvm.strip", Value(Op::Same)),
    ("llvm.threadlocal.address", Value(Op::Same)),
    ("llvm.ssa.copy", Value(Op::Same)),
    ("llvm.ptr.annotation", Value(Op::Same)),
    ("llvm.annotation", Value(Op::Same)),
    ("llvm.ptrmask", Value(Op::MaskPointer)),
    ("llvm.is.constant", Value(Op::False)),
    ("llvm.objectsize", Value(Op::ObjectSize)),
    ("llvm.umax", Value(Op::UnsignedMax)),
    ("llvm.umin", Value(Op::UnsignedMin)),
    ("llvm.smax", Value(Op::SignedMax)),
    ("llvm.smin", Value(Op::SignedMin)),
    ("llvm.abs", Value(Op::Absolute)),
    ("llvm.bswap", Value(Op::ByteSwap)),
    ("llvm.ctpop", Value(Op::CountOnes)),
    ("llvm.ctlz", Value(Op::LeadingZeros)),
    ("llvm.cttz", Value(Op::TrailingZeros)),
    ("llvm.fshl", Value(Op::FunnelShiftLeft)),
    ("llvm.fshr", Value(Op::FunnelShiftRight)),
    ("llvm.uadd.with.overflow", Value(Op::UnsignedAddOverflow)),
    ("llvm.sadd.with.overflow", Value(Op::SignedAddOverflow)),
    ("llvm.usub.with.overflow", Value(Op::UnsignedSubOverflow)),
    ("llvm.ssub.with.overflow", Value(Op::SignedSubOverflow)),
    ("llvm.umul.with.overflow", Value(Op::UnsignedMulOverflow)),
    ("llvm.smul.with.overflow", Value(Op::SignedMulOverflow)),
    ("llvm.uadd.sat", Value(Op::UnsignedAddSaturating)),
    ("llvm.sadd.sat", Value(Op::SignedAddSaturating)),
    ("llvm.usub.sat", Value(Op::UnsignedSubSaturating)),
    ("llvm.ssub.sat", Value(Op::SignedSubSaturating)),
    ("llvm.type.test", Value(Op::Anything)),
    ("llvm.type.checked.load", Value(Op::Anything)),
    ("llvm.public.type.test", Value(Op::Anything)),
    ("llvm.eh.typeid.for", Value(Op::Anything)),
    ("llvm.frameaddress", Value(Op::Anything)),
    ("llvm.returnaddress", Value(Op::Anything)),
    ("llvm.addressofreturnaddress", Value(Op::Anything)),
    ("llvm.sponentry", Value(Op::Anything)),
    ("llvm.stackguard", Value(Op::Anything)),
    ("llvm.stacksave", Value(Op::Anything)),
    ("llvm.read_register", Value(Op::Anything)),
    ("llvm.read_volatile_register", Value(Op::Anything)),
    // LLVM treats rounding modes and exceptions as memory.
    ("llvm.experimental.constrained", Value(Op::Anything)),
    ("llvm.get.rounding", Value(Op::Anything)),
    ("llvm.get.fpmode", Value(Op::Anything)),
    ("llvm.get.fpenv", Value(Op::Anything)),
    ("llvm.x86.rdpid", Value(Op::Anything)),
    ("llvm.x86.rdpmc", Value(Op::Anything)),
    ("llvm.x86.rdpkru", Value(Op::Anything)),
    ("llvm.x86.rdfsbase", Value(Op::Anything)),
    ("llvm.x86.rdgsbase", Value(Op::Anything)),
    ("llvm.x86.xgetbv", Value(Op::Anything)),
    ("llvm.x86.flags.read", Value(Op::Anything)),
    ("llvm.readsteadycounter", Value(Op::Anything)),
    // Unrelated to the program's memory.
    ("llvm.set.rounding", Nothing),
    ("llvm.set.fpmode", Nothing),
    ("llvm.set.fpenv", Nothing),
    ("llvm.reset.fpmode", Nothing),
    ("llvm.reset.fpenv", Nothing),
    ("llvm.x86.flags.write", Nothing),
    ("llvm.x86.wrpkru", Nothing),
    ("llvm.lifetime", Nothing),
    ("llvm.invariant", Nothing),
    ("llvm.dbg", Nothing),
    ("llvm.stackrestore", Nothing),
    ("llvm.stackprotector", Nothing),
    ("llvm.eh", Nothing),
    ("llvm.seh", Nothing),
    ("llvm.var.annotation", Nothing),
    ("llvm.codeview", Nothing),
    ("llvm.experimental.noalias.scope.decl", Nothing),
    ("llvm.experimental.guard", Nothing),
    ("llvm.experimental.widenable", Nothing),
    ("llvm.coro", Nothing),
    ("llvm.gc*", Nothing),
    ("llvm.local*", Nothing),
    ("llvm.write_register", Nothing),
    ("llvm.instrprof", Nothing),
    ("llvm.pseudoprobe", Nothing),
    ("llvm.clear_cache", Nothing),
    ("llvm.fake.use", Nothing),
    ("llvm.donothing", Nothing),
    ("llvm.sideeffect", Nothing),
    ("llvm.allow", Nothing),
    ("llvm.x86.sse3.monitor", Nothing),
    ("llvm.x86.sse3.mwait", Nothing),
    ("llvm.x86.monitorx", Nothing),
    ("llvm.x86.mwaitx", Nothing),
    ("llvm.x86.umonitor", Nothing),
    ("llvm.x86.umwait", Nothing),
    ("llvm.x86.tpause", Nothing),
    ("llvm.x86.avx.vzeroupper", Nothing),
    ("llvm.x86.avx.vzeroall", Nothing),
    ("llvm.x86.mmx.emms", Nothing),
];

/// What an intrinsic means, by its full name.
#[must_use]
pub fn intrinsic(name: &str) -> Meaning {
    type Index = (FxHashMap<&'static str, Meaning>, Vec<(&'static str, Meaning)>);
    static INDEX: OnceLock<Index> = OnceLock::new();
    let (exact, prefixes) = INDEX.get_or_init(|| {
        let (starred, plain): (Vec<_>, Vec<_>) =
            TABLE.iter().copied().partition(|(name, _)| name.ends_with('*'));
        (
            plain.into_iter().collect(),
            starred.into_iter().map(|(name, it)| (name.trim_end_matches('*'), it)).collect(),
        )
    });
    let mut rest = name;
    loop {
        if let Some(meaning) = exact.get(rest) {
            return *meaning;
        }
        match rest.rsplit_once('.') {
            Some((shorter, _)) => rest = shorter,
            None => break,
        }
    }
    let starred = prefixes.iter().find(|(prefix, _)| name.starts_with(prefix));
    starred.map_or(Meaning::NotUnderstood, |(_, meaning)| *meaning)
}

/// All names, so that a test can check that no entry hides another.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}
