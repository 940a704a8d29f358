//! LLVM's intrinsics, by family. Names are prefixes: most end in the types they are for.

use crashproof_frontend::bitcode::ir::Predicate;
use crashproof_prove::term::{Binary, Term};

use crate::invocation::{Handler, Invocation, Reply, find};
use crate::machine::{Flow, Machine, Stop};
use crate::value::{self, Value};

/// Those that touch or order memory.
const MEMORY: &[Handler] = &[
    Handler { names: &["memcpy.", "memmove.", "memcpy.inline."], arity: 3, handle: copy },
    Handler { names: &["memset.", "memset.inline."], arity: 3, handle: fill },
    Handler { names: &["x86.sse2.mfence"], arity: 0, handle: mfence },
    Handler { names: &["x86.sse.sfence"], arity: 0, handle: sfence },
    Handler { names: &["x86.sse2.clflush"], arity: 1, handle: clflush },
    Handler { names: &["x86.clflushopt", "x86.clwb"], arity: 1, handle: clwb },
    Handler { names: &["va_start"], arity: 1, handle: va_start },
    Handler { names: &["va_copy"], arity: 2, handle: va_copy },
];

/// Those that do nothing a program could see.
const NOTHING: &[Handler] = &[Handler {
    names: &[
        "lifetime.",
        "dbg.",
        "invariant.",
        "donothing",
        "stackrestore",
        "prefetch",
        "experimental.noalias",
        "x86.sse2.pause",
        "x86.sse2.lfence",
        "fake.use",
        "var.annotation",
        "va_end",
    ],
    arity: 0,
    handle: |_, _| Ok(Reply::NONE),
}];

/// Those that decide whether a path goes on.
const CONTROL: &[Handler] = &[
    Handler { names: &["assume"], arity: 1, handle: assume },
    Handler { names: &["trap", "debugtrap", "ubsantrap"], arity: 0, handle: trap },
];

/// Those that compute.
const VALUES: &[Handler] = &[
    Handler {
        names: &["expect.", "launder.", "strip.", "threadlocal.address", "ssa.copy"],
        arity: 1,
        handle: |_, call| Ok(Reply::scalar(call.word(0))),
    },
    Handler {
        names: &["is.constant"],
        arity: 1,
        handle: |machine, _| Ok(Reply::scalar(machine.terms.truth(false))),
    },
    Handler {
        names: &["stacksave"],
        arity: 0,
        handle: |machine, _| Ok(Reply::scalar(machine.terms.number(0, 64))),
    },
    Handler { names: &["objectsize."], arity: 2, handle: object_size },
    Handler { names: &["umax."], arity: 2, handle: |m, call| extreme(m, call, Predicate::UnsignedGreater) },
    Handler { names: &["umin."], arity: 2, handle: |m, call| extreme(m, call, Predicate::UnsignedLess) },
    Handler { names: &["smax."], arity: 2, handle: |m, call| extreme(m, call, Predicate::SignedGreater) },
    Handler { names: &["smin."], arity: 2, handle: |m, call| extreme(m, call, Predicate::SignedLess) },
    Handler { names: &["abs."], arity: 2, handle: absolute },
    Handler { names: &["bswap."], arity: 1, handle: byte_swap },
    Handler {
        names: &["ctpop."],
        arity: 1,
        handle: |machine, call| Ok(Reply::scalar(machine.count_ones(call.word(0)))),
    },
    Handler {
        names: &["ctlz."],
        arity: 2,
        handle: |machine, call| Ok(Reply::scalar(machine.count_zeros(call.word(0), true))),
    },
    Handler {
        names: &["cttz."],
        arity: 2,
        handle: |machine, call| Ok(Reply::scalar(machine.count_zeros(call.word(0), false))),
    },
    Handler { names: &["fshl."], arity: 3, handle: |machine, call| rotate(machine, call, true) },
    Handler { names: &["fshr."], arity: 3, handle: |machine, call| rotate(machine, call, false) },
    Handler {
        names: &["uadd.with.overflow."],
        arity: 2,
        handle: |m, call| overflowing(m, call, unsigned_sum),
    },
    Handler {
        names: &["usub.with.overflow."],
        arity: 2,
        handle: |m, call| overflowing(m, call, unsigned_difference),
    },
    Handler { names: &["sadd.with.overflow."], arity: 2, handle: |m, call| overflowing(m, call, signed_sum) },
    Handler {
        names: &["ssub.with.overflow."],
        arity: 2,
        handle: |m, call| overflowing(m, call, signed_difference),
    },
    Handler {
        names: &["umul.with.overflow."],
        arity: 2,
        handle: |m, call| overflowing(m, call, |m, a, b| m.product(a, b, false)),
    },
    Handler {
        names: &["smul.with.overflow."],
        arity: 2,
        handle: |m, call| overflowing(m, call, |m, a, b| m.product(a, b, true)),
    },
    Handler {
        names: &["uadd.sat."],
        arity: 2,
        handle: |m, call| saturating(m, call, unsigned_sum, u64::MAX),
    },
    Handler {
        names: &["usub.sat."],
        arity: 2,
        handle: |m, call| saturating(m, call, unsigned_difference, 0),
    },
];

impl Machine<'_> {
    /// Carries out an intrinsic, if it is one. The result of one that is not known is unknown; where it has none, it may
    /// have done anything.
    pub(crate) fn intrinsic(&mut self, call: &mut Invocation<'_>) -> Flow<Reply> {
        let Some(name) = call.name.strip_prefix("llvm.") else { return Ok(Reply::Unknown) };
        for table in [NOTHING, MEMORY, CONTROL, VALUES] {
            if let Some(handler) = find(table, call, |prefix| name.starts_with(prefix)) {
                match (handler.handle)(self, call)? {
                    Reply::Unknown => {}
                    reply => return Ok(reply),
                }
            }
        }
        let what = format!("intrinsic `{}`", call.name);
        self.unmodelled(call.state, call.ty, &what, call.at).map(Reply::Returns)
    }
}

fn copy(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let (to, from, length, at) = (call.word(0), call.word(1), call.word(2), call.at);
    machine.for_lengths(call.state, length, "a copy", at, |machine, state, bytes| {
        machine.copy_bytes(state, to, from, bytes, at)
    })?;
    Ok(Reply::NONE)
}

fn fill(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let (to, byte, length, at) = (call.word(0), call.word(1), call.word(2), call.at);
    machine.for_lengths(call.state, length, "a fill", at, |machine, state, bytes| {
        machine.fill_bytes(state, to, byte, bytes, at)
    })?;
    Ok(Reply::NONE)
}

fn mfence(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.fence(call.state, call.at)?;
    Ok(Reply::NONE)
}

fn sfence(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.store_fence(call.state, call.at)?;
    Ok(Reply::NONE)
}

fn clflush(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.flush(call.state, call.word(0), false, call.at)?;
    Ok(Reply::NONE)
}

fn clwb(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.flush(call.state, call.word(0), true, call.at)?;
    Ok(Reply::NONE)
}

fn va_start(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.start_arguments(call.frame, call.state, call.word(0), call.at)?;
    Ok(Reply::NONE)
}

fn va_copy(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.copy_arguments(call.state, call.word(0), call.word(1), call.at)?;
    Ok(Reply::NONE)
}

fn assume(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    if call.state.assume(&mut machine.terms, call.word(0)) { Ok(Reply::NONE) } else { Err(Stop::Dead) }
}

fn trap(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    Err(machine.fails(call.state, "trap", call.at))
}

/// The compiler's answer where it does not know better.
fn object_size(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let bits = value::bits(call.ty).unwrap_or(64);
    let unknown = if machine.terms.constant(call.word(1)) == Some(1) { 0 } else { u64::MAX };
    Ok(Reply::scalar(machine.terms.number(unknown, bits)))
}

fn extreme(machine: &mut Machine<'_>, call: &mut Invocation<'_>, predicate: Predicate) -> Flow<Reply> {
    Ok(Reply::scalar(machine.extreme(predicate, call.word(0), call.word(1))))
}

fn absolute(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let negative = machine.terms.negate(call.word(0));
    Ok(Reply::scalar(machine.extreme(Predicate::SignedGreater, call.word(0), negative)))
}

fn byte_swap(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let word = call.word(0);
    let mut result = machine.terms.extract(word, 0, 8);
    for index in 1..machine.terms.width(word) / 8 {
        let byte = machine.terms.extract(word, index * 8, 8);
        result = machine.terms.concat(result, byte);
    }
    Ok(Reply::scalar(result))
}

/// Shifts of two words that are the same; others are not known.
fn rotate(machine: &mut Machine<'_>, call: &mut Invocation<'_>, left: bool) -> Flow<Reply> {
    if call.word(0) != call.word(1) {
        return Ok(Reply::Unknown);
    }
    Ok(Reply::scalar(machine.rotate(call.word(0), call.word(2), left)))
}

/// An operation that gives its result and whether that does not fit.
type Checked = fn(&mut Machine<'_>, Term, Term) -> (Term, Term);

fn overflowing(machine: &mut Machine<'_>, call: &mut Invocation<'_>, operation: Checked) -> Flow<Reply> {
    let (value, overflow) = operation(machine, call.word(0), call.word(1));
    Ok(Reply::Returns(Some(Value::Members(vec![Value::Scalar(value), Value::Scalar(overflow)]))))
}

fn saturating(
    machine: &mut Machine<'_>,
    call: &mut Invocation<'_>,
    operation: Checked,
    limit: u64,
) -> Flow<Reply> {
    let (value, overflow) = operation(machine, call.word(0), call.word(1));
    let limit = machine.terms.number(limit, machine.terms.width(value));
    Ok(Reply::scalar(machine.terms.choose(overflow, limit, value)))
}

fn unsigned_sum(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let sum = machine.terms.binary(Binary::Add, a, b);
    (sum, machine.terms.binary(Binary::LessUnsigned, sum, a))
}

fn unsigned_difference(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let difference = machine.terms.binary(Binary::Sub, a, b);
    (difference, machine.terms.binary(Binary::LessUnsigned, a, b))
}

/// Overflows if both have the other sign than the sum.
fn signed_sum(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let sum = machine.terms.binary(Binary::Add, a, b);
    let (left, right) =
        (machine.terms.binary(Binary::Xor, a, sum), machine.terms.binary(Binary::Xor, b, sum));
    (sum, machine.both_negative(left, right))
}

fn signed_difference(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let difference = machine.terms.binary(Binary::Sub, a, b);
    let (left, right) =
        (machine.terms.binary(Binary::Xor, a, b), machine.terms.binary(Binary::Xor, a, difference));
    (difference, machine.both_negative(left, right))
}
