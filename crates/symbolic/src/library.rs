//! Functions that are known by name: `crashproof.h`, assertions, the C library, pthreads, and what models ask for.
//!
//! What can be written in C is: see `models/`. Here is what C cannot say. To add a function, add a row to the table of its
//! family.

use crashproof_frontend::meaning;

use crate::invocation::{Handler, Invocation, Reply, find};
use crate::machine::{Flow, Machine};
use crate::value::{self, Value};
use crate::{claims, heap, jumps, locks, persistent, pool, process, threads};

/// Linked to every program. All symbols are weak: a program's own functions come first.
pub(crate) const MODELS: &[(&str, &str)] = &[
    ("libc.c", include_str!("../models/libc.c")),
    ("stdio.c", include_str!("../models/stdio.c")),
    ("threads.c", include_str!("../models/threads.c")),
    ("print.c", include_str!("../models/print.c")),
    ("system.c", include_str!("../models/system.c")),
    ("getopt.c", include_str!("../models/getopt.c")),
    ("libpmem.c", include_str!("../../../frameworks/libpmem/libpmem.c")),
    ("pool.h", include_str!("../../../frameworks/libpmemobj/pool.h")),
    ("libpmemobj.c", include_str!("../../../frameworks/libpmemobj/libpmemobj.c")),
    ("libpmemobj_tx.c", include_str!("../../../frameworks/libpmemobj/libpmemobj_tx.c")),
    ("libpmemobj_lists.c", include_str!("../../../frameworks/libpmemobj/libpmemobj_lists.c")),
    ("libpmemobj_actions.c", include_str!("../../../frameworks/libpmemobj/libpmemobj_actions.c")),
];

/// Functions whose effects the program cannot see; the result may be anything.
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
    "fflush",
    "fwrite",
    "setvbuf",
    "setbuf",
    "write",
    "usleep",
    "sleep",
    "nanosleep",
    "sched_yield",
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
    "pthread_detach",
    "pthread_attr_init",
    "pthread_attr_destroy",
    "pthread_attr_setstacksize",
    "pthread_attr_setdetachstate",
    "pthread_mutexattr_destroy",
    "pthread_mutexattr_setpshared",
    "pthread_condattr_init",
    "pthread_condattr_destroy",
    "pthread_condattr_setclock",
    "pthread_rwlockattr_init",
    "pthread_rwlockattr_destroy",
    "pthread_rwlockattr_setkind_np",
    "pthread_barrier_destroy",
    "sem_destroy",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "pthread_cond_init",
    "pthread_cond_destroy",
    "pthread_mutex_destroy",
    "pthread_spin_destroy",
    "pthread_rwlock_destroy",
    "free",
    "crashproof_free",
    "crashproof_checksum_begin",
    "crashproof_checksum_end",
    "isatty",
    "fileno",
    "munmap",
    "umask",
    "close",
    "fclose",
    "unlink",
    "remove",
    "fsync",
    "fdatasync",
    "pthread_setname_np",
];

/// Functions that compute with floating-point numbers and touch no memory.
const FLOATING: &[&str] = &[
    "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "exp", "exp2", "fabs", "floor", "fmax", "fmin",
    "fmod", "log", "log10", "log2", "pow", "powl", "round", "sin", "sinh", "sqrt", "sqrtl", "tan", "tanh",
    "trunc",
];

/// Every function that is known by name, by family.
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

/// Functions whose result comes from outside.
const INPUTS: &[Handler] = &[
    (&["rand", "random"], 0, random),
    (&["rand_r"], 1, random_with_seed),
    (&["time"], 1, time),
    (&["getenv", "secure_getenv"], 0, |machine, _| Ok(Reply::scalar(machine.terms.number(0, 64)))),
];

impl Machine<'_> {
    /// Carries out a call, if the function is known.
    pub(crate) fn library_call(&mut self, call: &mut Invocation<'_>) -> Flow<Reply> {
        let name = call.name;
        // A program's own function of that name comes first.
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
        if QUIET.contains(&name) || any.iter().any(|prefix| name.starts_with(prefix)) {
            return Ok(Reply::Returns(self.anything(call.ty)));
        }
        if FLOATING.contains(&name) {
            let value = self.unmodelled(call.state, call.ty, &format!("`{name}`"), call.at)?;
            return Ok(Reply::Returns(value));
        }
        match meaning::library(name) {
            Some(function) => self.described_function(&function, call),
            None => Ok(Reply::Unknown),
        }
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
