//! Litmus programs as C.

use std::fmt::Write as _;

use crashproof_litmus::{Code, Expr, LocId, Op, Rmw, Test};

use super::VALUES;

/// The C code with which a thread of a guarded program acquires and releases the lock. `{w}` is the location.
pub(crate) struct Wait {
    /// Declarations.
    declared: &'static str,
    /// Waits for the lock; or an expression that tries it. In a program with a flag: waits until the flag is set.
    take: &'static str,
    give_back: &'static str,
    /// Is `w` used as a location, which may be in persistent memory?
    is_location: bool,
}

const fn wait(declared: &'static str, take: &'static str, give_back: &'static str) -> Wait {
    Wait { declared, take, give_back, is_location: false }
}

const fn location(take: &'static str, give_back: &'static str) -> Wait {
    Wait { declared: "", take, give_back, is_location: true }
}

/// Locks whose release fences.
pub(crate) const LOCKS: &[Wait] = &[
    wait(
        "static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;",
        "pthread_mutex_lock(&lock);",
        "pthread_mutex_unlock(&lock);",
    ),
    wait(
        "static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;",
        "pthread_rwlock_wrlock(&lock);",
        "pthread_rwlock_unlock(&lock);",
    ),
    location(
        "while (!__sync_bool_compare_and_swap(&{w}, 0, 1)) {}",
        "(void)__atomic_exchange_n(&{w}, 0, __ATOMIC_SEQ_CST);",
    ),
    wait(
        "static sem_t lock; __attribute__((constructor)) static void set(void) { sem_init(&lock, 0, 1); }",
        "sem_wait(&lock);",
        "sem_post(&lock);",
    ),
];

/// Locks whose release is a plain store.
pub(crate) const SPIN_LOCKS: &[Wait] = &[
    location(
        "while (!__sync_bool_compare_and_swap(&{w}, 0, 1)) {}",
        "__atomic_store_n(&{w}, 0, __ATOMIC_RELEASE);",
    ),
    location(
        "while (__atomic_exchange_n(&{w}, 1, __ATOMIC_ACQUIRE)) while (__atomic_load_n(&{w}, __ATOMIC_RELAXED)) \
         _mm_pause();",
        "__atomic_store_n(&{w}, 0, __ATOMIC_RELEASE);",
    ),
    location("while (__atomic_exchange_n(&{w}, 1, __ATOMIC_ACQUIRE)) sched_yield();", "{w} = 0;"),
];

/// Locks that are tried once.
pub(crate) const TRIED_LOCKS: &[Wait] = &[
    wait(
        "static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;",
        "pthread_mutex_trylock(&lock) != 0",
        "pthread_mutex_unlock(&lock);",
    ),
    location(
        "!__sync_bool_compare_and_swap(&{w}, 0, 1)",
        "(void)__atomic_exchange_n(&{w}, 0, __ATOMIC_SEQ_CST);",
    ),
];

/// Ways to wait for a flag.
pub(crate) const FLAGS: &[Wait] = &[
    location("while (!__atomic_load_n(&{w}, __ATOMIC_ACQUIRE)) {}", ""),
    location("for (;;) { long seen = {w}; if (seen) break; sched_yield(); }", ""),
    location("while ({w} != 1) _mm_pause();", ""),
];

/// How a test is translated to C.
#[derive(Clone, Copy, Default)]
pub(crate) struct Form {
    /// The locations of this line are in volatile memory.
    pub(crate) volatile_line: Option<usize>,
    /// Locations have different sizes.
    pub(crate) mixed_sizes: bool,
    /// How threads wait for each other.
    pub(crate) wait: Option<&'static Wait>,
}

impl Form {
    /// Does recovery see this location?
    pub(crate) fn is_seen(&self, test: &Test, at: LocId) -> bool {
        self.volatile_line != Some(test.location(at).line)
            && (!self.waits_for(test, at) || self.is_location())
    }

    pub(crate) fn is_location(&self) -> bool {
        self.wait.is_some_and(|wait| wait.is_location)
    }

    fn waits_for(&self, test: &Test, at: LocId) -> bool {
        self.wait.is_some() && test.location(at).name == "w"
    }

    /// The code for a lock or flag operation; `None` if the operation is something else.
    fn guard(&self, test: &Test, op: &Op) -> Option<String> {
        let (Op::Rmw(_, at, _) | Op::Store(at, _) | Op::Load(_, at)) = op else { return None };
        let wait = self.wait.filter(|_| self.waits_for(test, *at))?;
        let take = wait.take.replace("{w}", &place(test, *at));
        let give_back = wait.give_back.replace("{w}", &place(test, *at));
        Some(match op {
            Op::Rmw(Some(register), ..) if take.ends_with([';', '}']) => {
                format!("{take} r[{}] = 0;", register.0)
            }
            Op::Rmw(Some(register), ..) => format!("r[{}] = {take};", register.0),
            Op::Load(register, _) => format!("{take} r[{}] = 1;", register.0),
            // The flag is set like any location.
            Op::Store(..) if give_back.is_empty() => return None,
            _ => give_back,
        })
    }
}

fn place(test: &Test, at: LocId) -> String {
    let location = test.location(at);
    format!("l{}.{}", location.line, location.name)
}

/// An instruction as C.
fn instruction(test: &Test, form: &Form, op: &Op) -> String {
    if let Some(guard) = form.guard(test, op) {
        return guard;
    }
    match op {
        Op::Assign(register, value) => format!("r[{}] = {};", register.0, expression(value)),
        Op::Load(register, at) => format!("r[{}] = {};", register.0, place(test, *at)),
        Op::Store(at, value) => format!("{} = {};", place(test, *at), expression(value)),
        Op::NonTemporal(at, value) => {
            // The barriers keep the compiler from dropping a store that the next one overwrites, or that writes back
            // the value just loaded.
            let barrier = "__asm__ volatile(\"\" ::: \"memory\");";
            let place = place(test, *at);
            format!("{barrier} _mm_stream_si64((long long *)&{place}, {}); {barrier}", expression(value))
        }
        Op::Rmw(register, at, rmw) => {
            let place = place(test, *at);
            let old = match rmw {
                Rmw::Cas(expected, new) => {
                    let (expected, new) = (expression(expected), expression(new));
                    format!("__sync_val_compare_and_swap(&{place}, {expected}, {new})")
                }
                Rmw::Faa(add) => format!("__sync_fetch_and_add(&{place}, {})", expression(add)),
                Rmw::Xchg(new) => {
                    format!("__atomic_exchange_n(&{place}, {}, __ATOMIC_SEQ_CST)", expression(new))
                }
            };
            register.map_or_else(|| format!("{old};"), |register| format!("r[{}] = {old};", register.0))
        }
        Op::Flush(at) => format!("_mm_clflush((void *)&{});", place(test, *at)),
        Op::FlushOpt(at) => {
            let place = place(test, *at);
            format!("crashproof_flush((void *)&{place}, sizeof {place});")
        }
        Op::StoreFence => "_mm_sfence();".into(),
        Op::Fence => "_mm_mfence();".into(),
        Op::JumpIfZero(condition, target) => format!("if (!({})) goto i{target};", expression(condition)),
        Op::Jump(target) => format!("goto i{target};"),
        Op::Assert(condition) => format!("crashproof_assert({});", expression(condition)),
    }
}

/// A block as C.
fn block(test: &Test, form: &Form, code: &Code) -> String {
    let instructions = &code.instructions;
    let mut text = String::new();
    for (index, one) in instructions.iter().enumerate() {
        let _ = writeln!(text, "i{index}: ; {}", instruction(test, form, &one.op));
    }
    let _ = writeln!(text, "i{}: ;", instructions.len());
    text
}

/// The type of a location: non-temporal stores have eight bytes.
fn type_of(test: &Test, form: &Form, at: LocId) -> &'static str {
    let streamed = |op: &Op| matches!(op, Op::NonTemporal(to, _) if *to == at);
    let mut instructions = test.threads.iter().flat_map(|code| &code.instructions);
    if !form.mixed_sizes || form.waits_for(test, at) || instructions.any(|one| streamed(&one.op)) {
        return "long";
    }
    let index = test.location_ids().position(|other| other == at).unwrap_or(0);
    ["int", "short", "signed char", "long"][index % 4]
}

/// The test as C. A single-threaded test creates no threads.
pub(crate) fn to_c(test: &Test, form: &Form) -> String {
    let mut text = String::from(
        "#include <crashproof.h>\n#include <immintrin.h>\n#include <pthread.h>\n#include <sched.h>\n\
         #include <semaphore.h>\n#include <stdlib.h>\n",
    );
    for line in 0..test.lines {
        let _ = writeln!(text, "struct line{line} {{");
        let mut init = Vec::new();
        for at in test.location_ids().filter(|at| test.location(*at).line == line) {
            let _ = writeln!(text, "  volatile {} {};", type_of(test, form, at), test.location(at).name);
            init.push(test.location(at).init.to_string());
        }
        let _ = writeln!(text, "}} __attribute__((aligned(64)));");
        let memory = if form.volatile_line == Some(line) { "static" } else { "PERSISTENT" };
        let _ = writeln!(text, "{memory} struct line{line} l{line} = {{ {} }};", init.join(", "));
    }
    let _ = writeln!(text, "{}", form.wait.map_or("", |wait| wait.declared));
    for (number, thread) in test.threads.iter().enumerate() {
        let _ = writeln!(text, "static void *run{number}(void *unused) {{\n  long r[8] = {{0}}; (void)r;");
        let _ = writeln!(text, "{}  return unused;\n}}", block(test, form, thread));
    }
    text.push_str("int main(void) {\n  if (!crashproof_crashes()) {\n");
    let count = test.threads.len();
    if count == 1 {
        text.push_str("    run0(0);\n");
    } else {
        let _ = writeln!(text, "    pthread_t threads[{count}];");
        for number in 0..count {
            let _ = writeln!(text, "    pthread_create(&threads[{number}], 0, run{number}, 0);");
        }
        let _ = writeln!(text, "    for (int i = 0; i < {count}; i++) pthread_join(threads[i], 0);");
    }
    text.push_str("    return 0;\n  }\n");
    if let Some(recover) = &test.recover {
        let recover = block(test, form, recover);
        let _ = writeln!(text, "  long r[8] = {{0}};\n{recover}  (void)r;\n  return 0;\n}}");
        return text;
    }
    text.push_str("  long code = 0;\n");
    for at in test.location_ids().filter(|at| form.is_seen(test, *at)) {
        let _ = writeln!(text, "  code = code * {VALUES} + {};", place(test, at));
    }
    text.push_str("  exit((int)code + 1);\n}\n");
    text
}

fn expression(expr: &Expr) -> String {
    use crashproof_litmus::{BinaryOp, UnaryOp};
    match expr {
        Expr::Int(value) => value.to_string(),
        Expr::Variable(register) => format!("r[{register}]"),
        Expr::Unary(UnaryOp::Not, inner) => format!("!{}", expression(inner)),
        Expr::Binary(operation, left, right) => {
            let operation = match operation {
                BinaryOp::Add => "+",
                BinaryOp::Equal => "==",
                BinaryOp::NotEqual => "!=",
                BinaryOp::LessEqual => "<=",
                BinaryOp::And => "&&",
                BinaryOp::Or => "||",
                other => unreachable!("random programs have no {other:?}"),
            };
            format!("({} {operation} {})", expression(left), expression(right))
        }
        other @ Expr::Unary(..) => unreachable!("random programs have no {other:?}"),
    }
}
