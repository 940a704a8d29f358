//! Functions known by name: `crashproof.h`, assertions, the C library, pthreads, and functions used by the models.
//!
//! Whatever can be written in C is in `models/`; this module has the rest. To add a function, add a row to the table of
//! its family.

use crashproof_frontend::bitcode::ir::Type;
use crashproof_frontend::meaning;

use crate::frame::Step;
use crate::invocation::{Handler, Invocation, Reply, find};
use crate::machine::{Flow, Machine};
use crate::records::{is_library_assertion, is_panic};
use crate::value::{self, Value};
use crate::{claims, heap, jumps, locks, persistent, pool, process, threads};

/// Linked to every program. All symbols are weak: a program's own functions take precedence.
pub(crate) const MODELS: &[(&str, &str)] = &[
    ("libc.c", include_str!("../models/libc.c")),
    ("stdio.c", include_str!("../models/stdio.c")),
    ("threads.c", include_str!("../models/threads.c")),
    ("print.c", include_str!("../models/print.c")),
    ("system.c", include_str!("../models/system.c")),
    ("getopt.c", include_str!("../models/getopt.c")),
    ("cpp.c", include_str!("../models/cpp.c")),
    ("libpmem.c", include_str!("../../../frameworks/libpmem/libpmem.c")),
    ("pool.h", include_str!("../../../frameworks/libpmemobj/pool.h")),
    ("libpmemobj.c", include_str!("../../../frameworks/libpmemobj/libpmemobj.c")),
    ("libpmemobj_tx.c", include_str!("../../../frameworks/libpmemobj/libpmemobj_tx.c")),
    ("libpmemobj_lists.c", include_str!("../../../frameworks/libpmemobj/libpmemobj_lists.c")),
    ("libpmemobj_actions.c", include_str!("../../../frameworks/libpmemobj/libpmemobj_actions.c")),
];

/// Functions without effects visible to the program; the result may be anything.
const QUIET: &[&str] = &[
    "printf",
    "fprintf",
    "vprintf",
    "vfprintf",
    "puts",
    "fputs",
    "putchar",
    "fputc",
    "putc",
    "putchar_unlocked",
    "perror",
    "fwrite",
    "setbuf",
    "sleep",
    "__printf_chk",
    "__fprintf_chk",
    "srand",
    "srandom",
    "clock",
    "getpid",
    "gettid",
    "signal",
    "setlocale",
    "syslog",
    "free",
    "crashproof_free",
    "crashproof_checksum_begin",
    "crashproof_checksum_end",
    "isatty",
    "fileno",
    "umask",
];

/// Functions that succeed, with no visible effects beyond those in the table of meaning.
const SUCCEEDING: &[&str] = &[
    "close",
    "fclose",
    "fdatasync",
    "fflush",
    "flock",
    "fsync",
    "lockf",
    "madvise",
    "mlock",
    "munlock",
    "munmap",
    "nanosleep",
    "posix_fadvise",
    "posix_madvise",
    "pthread_attr_destroy",
    "pthread_attr_init",
    "pthread_attr_setdetachstate",
    "pthread_attr_setstacksize",
    "pthread_barrier_destroy",
    "pthread_cond_broadcast",
    "pthread_cond_destroy",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_condattr_destroy",
    "pthread_condattr_init",
    "pthread_condattr_setclock",
    "pthread_detach",
    "pthread_mutex_destroy",
    "pthread_mutexattr_destroy",
    "pthread_mutexattr_setpshared",
    "pthread_rwlock_destroy",
    "pthread_rwlockattr_destroy",
    "pthread_rwlockattr_init",
    "pthread_rwlockattr_setkind_np",
    "pthread_setname_np",
    "pthread_spin_destroy",
    "sched_yield",
    "sem_destroy",
    "setvbuf",
    "usleep",
];

/// Functions that compute with floating-point numbers and do not access memory.
const FLOATING: &[&str] = &[
    "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "exp", "exp2", "fabs", "floor", "fmax", "fmin",
    "fmod", "log", "log10", "log2", "pow", "powl", "round", "sin", "sinh", "sqrt", "sqrtl", "tan", "tanh",
    "trunc",
];

/// All functions known by name, by family.
const TABLES: &[&[Handler]] = &[
    threads::HANDLERS,
    locks::HANDLERS,
    pool::HANDLERS,
    persistent::HANDLERS,
    heap::HANDLERS,
    claims::HANDLERS,
    process::HANDLERS,
    jumps::HANDLERS,
    INPUTS,
];

/// Functions whose result comes from outside the program.
const INPUTS: &[Handler] = &[
    (&["rand", "random"], 0, random),
    (&["rand_r"], 1, random_with_seed),
    (&["time"], 1, time),
    (&["getenv", "secure_getenv"], 0, |machine, _| Ok(Reply::scalar(machine.terms.number(0, 64)))),
];

/// C++ output: operators and manipulators of `std::ostream`, which return the stream. Their templates are compiled with
/// the program, but their effects on a stream are invisible.
const STREAMS: &[&str] =
    &["_ZNSolsE", "_ZStlsI", "_ZSt4endlI", "_ZSt5flushI", "_ZNSo3putE", "_ZNSo5flushE", "_ZNSo9_M_insertI"];

/// Other C++ functions without visible effects.
const QUIET_CPP: &[&str] = &["_ZNSt8ios_base4InitC", "_ZNSt8ios_base4InitD", "_ZNSt6chrono3_V2"];

/// Does the function have no effects visible to the program?
pub(crate) fn is_quiet(name: &str) -> bool {
    QUIET.contains(&name) || begins(name, QUIET_CPP)
}

fn begins(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

impl Machine<'_> {
    /// Executes a call, if the function is known.
    pub(crate) fn library_call(&mut self, call: &mut Invocation<'_>) -> Flow<Reply> {
        let name = call.name;
        if begins(name, STREAMS)
            && let Some(stream) = call.scalar(0)
        {
            return Ok(Reply::scalar(stream));
        }
        if is_library_assertion(name) {
            return Err(self.fails(call.state, "what the C++ library asserts holds", call.at));
        }
        if name.starts_with("_R")
            && let Some(reply) = self.rust_call(call)?
        {
            return Ok(reply);
        }
        // A program's own function of that name takes precedence.
        let defined =
            self.module.function_named(name).is_some_and(|id| !self.module.function(id).blocks.is_empty());
        if defined {
            return Ok(Reply::Unknown);
        }
        for table in TABLES {
            if let Some(handle) = find(table, call) {
                return handle(self, call);
            }
        }
        let any = ["crashproof_nondet_", "__VERIFIER_nondet_"];
        if is_quiet(name) || any.iter().any(|prefix| name.starts_with(prefix)) {
            return Ok(Reply::Returns(self.anything(call.ty)));
        }
        if SUCCEEDING.contains(&name) {
            let function = meaning::library(name);
            for effect in function.iter().flat_map(|function| function.effects) {
                self.effect_of_success(effect, call)?;
            }
            let zero = value::build(call.ty, &mut |bits| self.terms.number(0, bits)).ok();
            return Ok(Reply::Returns(zero));
        }
        if FLOATING.contains(&name) {
            let value = self.unmodeled(call.state, call.ty, &format!("`{name}`"), call.at)?;
            return Ok(Reply::Returns(value));
        }
        match meaning::library(name) {
            Some(function) => self.described_function(&function, call),
            None => Ok(Reply::Unknown),
        }
    }
}

/// The offset of the called function in the vtable of a `dyn Fn`.
const FN_CALL: u64 = 40;

impl Machine<'_> {
    /// Functions of Rust's standard library, for which no bitcode exists: program startup and panics.
    fn rust_call(&mut self, call: &mut Invocation<'_>) -> Flow<Option<Reply>> {
        if is_panic(call.name) {
            return Err(self.fails(call.state, "no panic", call.at));
        }
        if call.name.contains("3std2io5stdio") {
            return Ok(Some(Reply::Returns(self.anything(call.ty))));
        }
        if !call.name.ends_with("2rt19lang_start_internal") {
            return Ok(None);
        }
        let (Some(data), Some(table)) = (call.scalar(0), call.scalar(1)) else { return Ok(None) };
        let place = self.offset(table, FN_CALL);
        let function = self.load_scalar(call.state, place, 64, call.at)?;
        let mut step = Step { frame: call.frame, state: call.state, at: call.at };
        let result =
            self.call_pointer(&mut step, function, vec![Some(Value::Scalar(data))], &Type::Int(32))?;
        let code = match result {
            Some(Value::Scalar(code)) => self.terms.sign_extend(code, 64),
            _ => self.terms.number(0, 64),
        };
        Ok(Some(Reply::scalar(code)))
    }
}

fn random(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let value = machine.terms.symbol("input", 31);
    let bits = value::bits(call.ty).unwrap_or(32);
    Ok(Reply::scalar(machine.terms.zero_extend(value, bits)))
}

/// The next seed may be anything, too.
fn random_with_seed(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let seed = machine.terms.symbol("input", 32);
    machine.store_scalar(call.state, call.word(0), seed, false, call.at)?;
    random(machine, call)
}

fn time(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let now = machine.anything(call.ty);
    let place = call.word(0);
    if let Some(Value::Scalar(now)) = &now
        && machine.terms.constant(place) != Some(0)
    {
        machine.store_scalar(call.state, place, *now, false, call.at)?;
    }
    Ok(Reply::Returns(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_to_do_nothing_writes_no_memory() {
        for name in QUIET.iter().chain(FLOATING) {
            assert!(!meaning::library(name).is_some_and(|function| function.writes()), "{name}");
        }
    }
}
