//! Robust by construction (PMVerify, section 6.2): with a flush after every access to persistent memory a C program is
//! robust, and without any it is not.

use std::ffi::OsString;

use crashproof_prove::prove::{Options, Verdict};
use crashproof_prove::robust;

const ACCESSES: &str = r#"
#include <crashproof.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#ifdef FLUSHED
#define FLUSH(place) _mm_clflush((void *)(place))
#else
#define FLUSH(place) (void)(place)
#endif
#define LINE __attribute__((aligned(64)))
struct LINE cell { atomic_long value; };
PERSISTENT struct cell a, b, c;
static long get(struct cell *cell) {
  long value = atomic_load_explicit(&cell->value, memory_order_acquire);
  FLUSH(cell);
  return value;
}
static void set(struct cell *cell, long value) {
  atomic_store_explicit(&cell->value, value, memory_order_release);
  FLUSH(cell);
}
static int swap(struct cell *cell, long old, long new) {
  int done = atomic_compare_exchange_strong(&cell->value, &old, new);
  FLUSH(cell);
  return done;
}
#define RUN(one, two)                                                                   \
  static void *first(void *unused) { one; return unused; }                              \
  static void *second(void *unused) { two; return unused; }                             \
  int main(void) {                                                                      \
    pthread_t t1, t2;                                                                   \
    pthread_create(&t1, 0, first, 0);                                                   \
    pthread_create(&t2, 0, second, 0);                                                  \
    pthread_join(t1, 0);                                                                \
    pthread_join(t2, 0);                                                                \
    return 0;                                                                           \
  }
"#;

const PROGRAMS: [(&str, &str); 4] = [
    ("message passing", "RUN(set(&a, 1); set(&b, 1), if (get(&b)) set(&c, get(&a)))"),
    ("copies", "RUN(set(&a, 1), set(&b, get(&a)); set(&c, get(&b)))"),
    ("a lock", "RUN(if (swap(&a, 0, 1)) { set(&b, 1); set(&a, 0); }, if (swap(&a, 0, 2)) set(&c, get(&b)))"),
    ("claims", "RUN(if (swap(&a, 0, 1)) set(&b, 1), if (!swap(&a, 0, 2)) set(&c, 1))"),
];

#[test]
fn a_flush_after_every_access_makes_programs_robust() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, program) in PROGRAMS {
        let file = directory.path().join("program.c");
        std::fs::write(&file, format!("{ACCESSES}\n{program}\n")).expect("written");
        for flushed in [true, false] {
            let compiler = if flushed { vec![OsString::from("-DFLUSHED")] } else { Vec::new() };
            let unrolled =
                crashproof_symbolic::program(std::slice::from_ref(&file), compiler, &Default::default());
            let report =
                robust::prove(&unrolled.expect("a program"), &Options::default()).expect("an answer");
            match report.verdict {
                Verdict::Holds => assert!(flushed, "{name}: robust without flushes"),
                Verdict::Violated(story) => assert!(!flushed, "{name}: {}", story.message),
                Verdict::Unknown(reasons) => panic!("{name}: {reasons:?}"),
            }
        }
    }
}
