//! Functions that are known by name: `crashproof.h`, assertions, the C library, pthreads.
//!
//! What can be written in C is: see `models/`. Here is what C cannot say.

use crashproof_frontend::bitcode::ir::Type;
use crashproof_prove::term::{Binary, Term};

use crate::access::At;
use crate::instructions::number;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::{Object, ObjectId, Origin};
use crate::paths::Frame;
use crate::state::State;
use crate::value::{self, Value};

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

/// Functions whose call is a claim that is false.
pub(crate) const FAILING: &[&str] =
    &["__assert_fail", "__crashproof_assert_failed", "abort", "reach_error", "__VERIFIER_error"];

/// What a known function gives back.
pub(crate) struct Reply {
    pub(crate) value: Option<Value>,
}

impl Reply {
    pub(crate) const NONE: Reply = Reply { value: None };

    pub(crate) fn scalar(term: Term) -> Reply {
        Reply { value: Some(Value::Scalar(term)) }
    }
}

impl Machine<'_> {
    /// Carries out a call, if the function is known.
    pub(crate) fn library_call(
        &mut self,
        frame: &mut Frame,
        name: &str,
        arguments: &[Option<Value>],
        ty: &Type,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Option<Reply>> {
        match arguments {
            [Some(Value::Scalar(list))] if name.starts_with("llvm.va_start") => {
                self.start_arguments(frame, state, *list, at)?;
                return Ok(Some(Reply::NONE));
            }
            [Some(Value::Scalar(to)), Some(Value::Scalar(from))] if name.starts_with("llvm.va_copy") => {
                self.copy_arguments(state, *to, *from, at)?;
                return Ok(Some(Reply::NONE));
            }
            _ if name.starts_with("llvm.va_end") => return Ok(Some(Reply::NONE)),
            _ => {}
        }
        if let Some(reply) = self.intrinsic(name, arguments, ty, state, at)? {
            return Ok(Some(reply));
        }
        // A program's own function of that name comes first.
        let defined =
            self.module.function_named(name).is_some_and(|id| !self.module.function(id).blocks.is_empty());
        if defined {
            return Ok(None);
        }
        if let Some(reply) = self.thread_call(name, arguments, state, at)? {
            return Ok(Some(reply));
        }
        if let Some(reply) = self.model_call(frame, name, arguments, state, at)? {
            return Ok(Some(reply));
        }
        let scalar = |index: usize| match arguments.get(index) {
            Some(Some(Value::Scalar(term))) => Some(*term),
            _ => None,
        };
        let known = |machine: &Self, index: usize| number(&machine.terms, arguments.get(index)?.as_ref());
        if QUIET.contains(&name) || name.starts_with("__builtin_") {
            return Ok(Some(self.anything(ty)));
        }
        if name.starts_with("crashproof_nondet_") || name.starts_with("__VERIFIER_nondet_") {
            return Ok(Some(self.anything(ty)));
        }
        match name {
            "crashproof_crashes" => {
                let crashes = u64::from(self.who == Who::Recovery);
                Ok(Some(Reply::scalar(self.terms.number(crashes, 32))))
            }
            "crashproof_flush" => {
                let (Some(start), Some(length)) = (scalar(0), scalar(1)) else { return Ok(None) };
                self.for_lengths(state, length, "a flush", at, |machine, state, bytes| {
                    machine.flush_range(state, start, bytes, at)
                })?;
                Ok(Some(Reply::NONE))
            }
            "crashproof_root" => {
                let Some(bytes) = known(self, 0) else {
                    return Err(self.refuse(state, "the size of the root object is not known", at));
                };
                let object = self.objects.place(Origin::Root, px86::LINE_BYTES, false, || Object {
                    name: "root".into(),
                    address: 0,
                    size: bytes,
                    persistent: true,
                    internal: false,
                    initial: Vec::new(),
                    defined: true,
                    written: Vec::new(),
                    fields: Vec::new(),
                });
                if self.objects.get(object).size < bytes {
                    return Err(self.refuse(state, "the root object is asked for with another size", at));
                }
                self.find_persistent(state, object);
                let address = self.objects.get(object).address;
                Ok(Some(Reply::scalar(self.terms.number(address, 64))))
            }
            "__crashproof_file" => {
                let path = scalar(0).and_then(|path| self.text_at(path));
                let (Some(path), Some(bytes)) = (path, known(self, 1)) else {
                    return Err(self.refuse(state, "a file whose name or size is not known", at));
                };
                const LARGEST: u64 = 1 << 20;
                if bytes == 0 || bytes > LARGEST {
                    return Err(self.refuse(state, &format!("a file of {bytes} bytes"), at));
                }
                let object = self.objects.place(Origin::File(path.clone()), 4096, false, || Object {
                    name: path,
                    address: 0,
                    size: bytes,
                    persistent: true,
                    internal: false,
                    initial: Vec::new(),
                    defined: true,
                    written: Vec::new(),
                    fields: Vec::new(),
                });
                if self.objects.get(object).size < bytes {
                    return Err(self.refuse(state, "a file that is mapped with another size", at));
                }
                self.find_persistent(state, object);
                let address = self.objects.get(object).address;
                Ok(Some(Reply::scalar(self.terms.number(address, 64))))
            }
            "__crashproof_not_modelled" => {
                let what = scalar(0).and_then(|text| self.text_at(text)).unwrap_or_default();
                Err(self.refuse(state, &format!("{what} is not modelled"), at))
            }
            "crashproof_alloc" => {
                let Some(bytes) = known(self, 0) else {
                    return Err(self.refuse(state, "an allocation of a size that is not known", at));
                };
                let object = Object {
                    name: format!("object of {}:{}", at.place.file, at.place.line),
                    address: 0,
                    size: bytes.max(1).next_multiple_of(px86::LINE_BYTES),
                    persistent: true,
                    internal: false,
                    initial: Vec::new(),
                    defined: true,
                    written: Vec::new(),
                    fields: Vec::new(),
                };
                let address = self.make_object(state, frame.point, px86::LINE_BYTES, object);
                Ok(Some(Reply::scalar(self.terms.number(address, 64))))
            }
            "malloc" | "calloc" | "aligned_alloc" | "memalign" | "valloc" => {
                let (count, size, align) = match name {
                    "calloc" => (known(self, 0), known(self, 1), Some(16)),
                    "aligned_alloc" | "memalign" => (Some(1), known(self, 1), known(self, 0)),
                    _ => (Some(1), known(self, 0), Some(16)),
                };
                let (Some(count), Some(size), Some(align)) = (count, size, align) else {
                    return Err(self.refuse(state, "an allocation of a size that is not known", at));
                };
                let bytes = count.saturating_mul(size).max(1);
                let address = self.allocate(state, frame.point, bytes, align, "memory", at)?;
                let term = self.terms.number(address, 64);
                if name == "calloc" {
                    let zero = self.terms.number(0, 8);
                    self.fill_bytes(state, term, zero, bytes, at)?;
                }
                Ok(Some(Reply::scalar(term)))
            }
            "memcpy" | "memmove" | "__memcpy_chk" | "__memmove_chk" | "mempcpy" => {
                let (Some(to), Some(from), Some(length)) = (scalar(0), scalar(1), scalar(2)) else {
                    return Ok(None);
                };
                self.for_lengths(state, length, "a copy", at, |machine, state, bytes| {
                    machine.copy_bytes(state, to, from, bytes, at)
                })?;
                let end = self.terms.binary(Binary::Add, to, length);
                let result = if name == "mempcpy" { end } else { to };
                Ok(Some(Reply::scalar(result)))
            }
            "memset" | "__memset_chk" => {
                let (Some(to), Some(byte), Some(length)) = (scalar(0), scalar(1), scalar(2)) else {
                    return Ok(None);
                };
                self.for_lengths(state, length, "a fill", at, |machine, state, bytes| {
                    machine.fill_bytes(state, to, byte, bytes, at)
                })?;
                Ok(Some(Reply::scalar(to)))
            }
            "__crashproof_assume" | "__VERIFIER_assume" | "__CPROVER_assume" => {
                let Some(value) = scalar(0) else { return Ok(None) };
                let condition = self.terms.nonzero(value);
                if let Some(why) = self.why_imprecise(condition) {
                    return Err(self.refuse(state, &why, at));
                }
                if state.assume(&mut self.terms, condition) { Ok(Some(Reply::NONE)) } else { Err(Stop::Dead) }
            }
            "__VERIFIER_assert" => {
                let Some(value) = scalar(0) else { return Ok(None) };
                let condition = self.terms.nonzero(value);
                self.assert(state, condition, "the assertion holds".into(), at)?;
                Ok(Some(Reply::NONE))
            }
            "__assert_fail" | "__crashproof_assert_failed" => {
                let claim =
                    scalar(0).and_then(|text| self.text_at(text)).unwrap_or_else(|| "assertion".into());
                Err(self.fails(state, &claim, at))
            }
            "abort" | "reach_error" | "__VERIFIER_error" => {
                Err(self.fails(state, &format!("{name} is not called"), at))
            }
            "exit" | "_exit" | "_Exit" | "quick_exit" => {
                if let (Who::Recovery, Some(code)) = (self.who, scalar(0)) {
                    let zero = self.terms.number(0, self.terms.width(code));
                    let condition = self.terms.equal(code, zero);
                    self.assert(state, condition, "recovery ends with exit code 0".into(), at)?;
                }
                if name == "exit" {
                    self.end_process(std::mem::take(state), frame.point, at)?;
                }
                Err(Stop::Dead)
            }
            "atexit" => {
                let Some(function) = scalar(0) else { return Ok(None) };
                Ok(Some(self.call_at_exit(state, function, None, at)?))
            }
            "__cxa_atexit" => {
                let (Some(function), Some(argument)) = (scalar(0), scalar(1)) else { return Ok(None) };
                Ok(Some(self.call_at_exit(state, function, Some(argument), at)?))
            }
            "_setjmp" | "setjmp" | "__sigsetjmp" | "sigsetjmp" => {
                let Some(buffer) = scalar(0) else { return Ok(None) };
                self.set_jump(frame, state, buffer, at)?;
                Ok(Some(Reply::scalar(self.terms.number(0, 32))))
            }
            "longjmp" | "_longjmp" | "siglongjmp" => {
                let (Some(buffer), Some(value)) = (scalar(0), scalar(1)) else { return Ok(None) };
                self.long_jump(state, buffer, value, at)?;
                Ok(Some(Reply::NONE))
            }
            "rand" | "random" | "rand_r" => {
                let value = self.terms.symbol("input", 31);
                let bits = value::bits(ty).unwrap_or(32);
                Ok(Some(Reply::scalar(self.terms.zero_extend(value, bits))))
            }
            _ if FLOATING.contains(&name) => {
                let value = self.unmodelled(state, ty, &format!("`{name}`"), at)?;
                Ok(Some(Reply { value }))
            }
            "time" => {
                let now = self.anything(ty);
                if let (Some(place), Some(Value::Scalar(now))) = (scalar(0), &now.value)
                    && self.terms.constant(place) != Some(0)
                {
                    self.store_scalar(state, place, *now, false, at)?;
                }
                Ok(Some(now))
            }
            "realloc" => {
                let (Some(old), Some(bytes)) = (scalar(0), known(self, 1)) else {
                    return Err(self.refuse(state, "an allocation of a size that is not known", at));
                };
                let cases = self.cases(state, old);
                let before = match cases.as_deref() {
                    Some([(_, 0)]) => 0,
                    Some([(_, address)]) if let Some(object) = self.objects.at(*address) => {
                        self.objects.get(object).size
                    }
                    _ => return Err(self.refuse(state, "memory that is not known is allocated again", at)),
                };
                let address = self.allocate(state, frame.point, bytes.max(1), 16, "memory", at)?;
                let new = self.terms.number(address, 64);
                self.copy_bytes(state, new, old, before.min(bytes), at)?;
                Ok(Some(Reply::scalar(new)))
            }
            "getenv" | "secure_getenv" => Ok(Some(Reply::scalar(self.terms.number(0, 64)))),
            _ => Ok(None),
        }
    }

    /// Persistent memory as a process finds it: zero in the first run, whatever survived after a crash.
    pub(crate) fn find_persistent(&mut self, state: &mut State, object: ObjectId) {
        if state.memory.has(object) {
            return;
        }
        let mut memory = std::mem::take(&mut state.memory);
        self.add_object(&mut memory, object);
        if self.who == Who::Recovery {
            memory.forget(object);
        }
        state.memory = memory;
    }

    /// A claim that is false whenever it is reached. Ends the path.
    pub(crate) fn fails(&mut self, state: &mut State, claim: &str, at: At<'_>) -> Stop {
        let no = self.terms.truth(false);
        match self.assert(state, no, claim.to_owned(), at) {
            Err(stop) => stop,
            Ok(()) => Stop::Dead,
        }
    }

    /// Any value of a type.
    fn anything(&mut self, ty: &Type) -> Reply {
        Reply { value: value::build(ty, &mut |bits| self.terms.symbol("input", bits)).ok() }
    }

    /// A string that never changes.
    fn text_at(&self, address: Term) -> Option<String> {
        let address = self.terms.constant(address)?;
        let object = self.objects.get(self.objects.at(address)?);
        let start = (address - object.address) as usize;
        let bytes = object.initial.get(start..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}
