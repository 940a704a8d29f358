//! Schedules of real programs: the classic families have the number of traces that theory predicts.

use std::path::PathBuf;

use crashproof_check::{Budget, Options, Report, check};

/// The common header of all programs. Their threads share atomics in volatile memory, so crashes add nothing.
const HEAD: &str = "#include <crashproof.h>\n#include <pthread.h>\n#include <stdatomic.h>\n#define RELAXED \
     memory_order_relaxed\nPERSISTENT long result;\n_Atomic long x, array[16];\n";

fn explored(name: &str, code: &str, threads: usize) -> Report {
    let directory = crashproof_toolchain::testing::scratch("schedules");
    let (source, binary): (PathBuf, PathBuf) = (directory.join(format!("{name}.c")), directory.join(name));
    let main = format!(
        "int main(void) {{\n  if (crashproof_crashes()) return result > 1;\n  pthread_t threads[{threads}];\n  \
         for (long i = 0; i < {threads}; i++) pthread_create(&threads[i], 0, run, (void *)i);\n  \
         for (int i = 0; i < {threads}; i++) pthread_join(threads[i], 0);\n  \
         result = 1; crashproof_persist(&result, sizeof result);\n  return 0;\n}}\n"
    );
    std::fs::write(&source, format!("{HEAD}{code}{main}")).expect("written");
    crashproof_toolchain::testing::compile(&source, &binary, &[]);
    let mut options = Options::new(binary, Vec::new());
    options.all_schedules = Some(Budget::default());
    let report = check(&options).expect("a report");
    assert!(report.unknown.is_empty() && report.findings.is_empty(), "{name}: {report:?}");
    assert!(report.statistics.all_schedules);
    let (schedules, redundant) = (report.statistics.schedules, report.statistics.redundant_schedules);
    println!("{name}, {threads} threads: {schedules} schedules, {redundant} more were redundant");
    report
}

#[test]
fn writers_of_one_variable() {
    let code = "static void *run(void *i) { atomic_store_explicit(&x, (long)i, RELAXED); return 0; }\n";
    for (threads, orders) in [(2, 2), (3, 6), (4, 24)] {
        assert_eq!(explored("writers", code, threads).statistics.schedules, orders, "n!");
    }
}

#[test]
fn readers_and_a_writer() {
    let code = "static void *run(void *i) {\n  if (i) return (void *)atomic_load_explicit(&x, RELAXED);\n  \
         atomic_store_explicit(&x, 1, RELAXED); return 0;\n}\n";
    for readers in 1..6 {
        assert_eq!(explored("readers", code, readers + 1).statistics.schedules, 1 << readers, "2^n");
    }
}

#[test]
fn lastzero() {
    let code = "static void *run(void *number) {\n  long i = (long)number, n = THREADS - 1;\n  if (i == 0) {\n    \
         long at = n; while (at > 0 && atomic_load_explicit(&array[at], RELAXED)) at--;\n    \
         if (at == 0) (void)atomic_load_explicit(&array[0], RELAXED);\n  } else {\n    \
         long before = atomic_load_explicit(&array[i - 1], RELAXED);\n    \
         atomic_store_explicit(&array[i], before + 1, RELAXED);\n  }\n  return 0;\n}\n";
    for (n, traces) in [(3, 12), (5, 64)] {
        let code = format!("#define THREADS {}\n{code}", n + 1);
        assert_eq!(explored("lastzero", &code, n + 1).statistics.schedules, traces, "(n + 3) 2^(n - 2)");
    }
}

/// Flanagan and Godefroid, POPL 2005: a hash table in which the messages of up to 11 threads do not collide.
#[test]
fn indexer() {
    let code = "static _Atomic int table[128];\nstatic void *run(void *number) {\n  int thread = (int)(long)number;\n  \
         for (int m = 1; m <= 4; m++) {\n    int message = m * 11 + thread, hash = message * 7 % 128, empty = 0;\n    \
         while (!atomic_compare_exchange_strong(&table[hash], &empty, message)) { hash = (hash + 1) % 128; empty = 0; }\n  \
         }\n  return 0;\n}\n";
    for (threads, traces) in [(11, 1), (12, 8)] {
        assert_eq!(explored("indexer", code, threads).statistics.schedules, traces, "8^(n - 11)");
    }
}

/// The same authors' file system: the blocks of up to 13 inodes do not collide.
#[test]
fn file_system() {
    let code = "static pthread_mutex_t inodes[32], blocks[26];\nstatic int inode[32], busy[26];\n\
         static void *run(void *number) {\n  int i = (int)(long)number % 32;\n  pthread_mutex_lock(&inodes[i]);\n  \
         if (inode[i] == 0) for (int b = i * 2 % 26;; b = (b + 1) % 26) {\n    pthread_mutex_lock(&blocks[b]);\n    \
         int found = !busy[b];\n    if (found) { busy[b] = 1; inode[i] = b + 1; }\n    \
         pthread_mutex_unlock(&blocks[b]);\n    if (found) break;\n  }\n  \
         pthread_mutex_unlock(&inodes[i]);\n  return 0;\n}\n";
    for (threads, traces) in [(13, 1), (14, 2), (15, 4)] {
        assert_eq!(explored("file-system", code, threads).statistics.schedules, traces, "2^(n - 13)");
    }
}

#[test]
fn a_lock_is_taken_in_every_order() {
    let code = "static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;\nstatic long plain;\nstatic void *run(void *i) {\n  \
         pthread_mutex_lock(&mutex); plain++; pthread_mutex_unlock(&mutex);\n  return i;\n}\n";
    for (threads, orders) in [(2, 2), (3, 6)] {
        assert_eq!(explored("locks", code, threads).statistics.schedules, orders, "n!");
    }
}

#[test]
fn what_is_independent_has_one_schedule() {
    let code =
        "static void *run(void *i) { atomic_store_explicit(&array[(long)i], 1, RELAXED); return 0; }\n";
    assert_eq!(explored("independent", code, 4).statistics.schedules, 1);
}

#[test]
fn who_spins_waits() {
    let code = "static void *run(void *i) {\n  if (i) { while (!atomic_load_explicit(&x, memory_order_acquire)) ; }\n  \
         else atomic_store_explicit(&x, 1, memory_order_release);\n  return 0;\n}\n";
    let schedules = explored("spins", code, 2).statistics.schedules;
    assert!(schedules <= 4, "{schedules} schedules of a loop that waits");
}

/// The durable queue, the FliT register and the link-free set of the prove benchmarks: with a flush left out, check
/// finds a failing recovery exactly where prove has a counterexample.
#[test]
fn flushes_left_out_are_found_where_prove_refutes() {
    let directory = crashproof_toolchain::testing::scratch("schedules-clients");
    let clients = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/prove");
    for client in ["queue/e+d", "queue/ee+dw", "flit/u+u-w", "flit/w+rw-w", "set/irw"] {
        let source = clients.join(format!("{client}.c"));
        let text = std::fs::read_to_string(&source).expect("a client");
        let refuted =
            text.lines().find_map(|line| line.strip_prefix("//! refuted ")).expect("what is refuted");
        let refuted: Vec<u32> = refuted.split(' ').filter_map(|number| number.parse().ok()).collect();
        for left_out in 0..=10 {
            let binary = directory.join("client");
            crashproof_toolchain::testing::compile(&source, &binary, &[&format!("-DNO_FLUSH={left_out}")]);
            let mut options = Options::new(binary, Vec::new());
            options.all_schedules = Some(Budget::default());
            options.robust = false;
            let report = check(&options).expect("a report");
            assert!(report.unknown.is_empty(), "{client}: {:?}", report.unknown);
            let fails = !report.findings.is_empty();
            assert_eq!(fails, refuted.contains(&left_out), "{client} without flush {left_out}: {refuted:?}");
        }
    }
}
