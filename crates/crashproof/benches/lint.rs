//! What `crashproof cc --lint` adds to a compilation: at most 30% of what clang takes for it at -O2.
//!
//! Without arguments it uses a generated program, some thousand lines that allocate, log, flush and fence in helpers
//! and loops; with `CRASHPROOF_BENCH_SOURCES` all C files in that directory, compiled with `CRASHPROOF_BENCH_FLAGS`.
//! Compilers run one after another; the best of several rounds counts. A missed promise is reported, and fails the
//! bench.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const MOST: f64 = 30.0;

/// A module with many small structures and functions on them, in the style of persistent data structures.
fn made_up() -> String {
    let mut text = String::from(
        "#include <immintrin.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n",
    );
    text.push_str(
        "static void persist(const void *at, size_t n) {\n  for (const char *c = at; c < (const char *)at + n; c += 64)\n    \
         _mm_clwb((void *)c);\n  _mm_sfence();\n}\n",
    );
    for n in 0..150 {
        let _ = write!(
            text,
            "struct node{n} {{ long key; long value; char data[{size}]; struct node{n} *next; long count; }};\n\
             static int find{n}(struct node{n} *list, long key, struct node{n} **out) {{\n\
             \x20 for (; list; list = list->next)\n    if (list->key == key) {{ *out = list; return 1; }}\n  return 0;\n}}\n\
             int put{n}(struct node{n} *list, long key, const char *data, size_t length) {{\n\
             \x20 struct node{n} *node;\n  if (!find{n}(list, key, &node)) return -1;\n\
             \x20 if (length > sizeof(node->data)) {{ printf(\"too long: %zu\\n\", length); return -2; }}\n\
             \x20 memcpy(node->data, data, length);\n  persist(node->data, length);\n\
             \x20 node->value = key * {n};\n  persist(&node->value, sizeof(node->value));\n\
             \x20 for (int i = 0; i < 4; i++) {{ list->count++; persist(&list->count, sizeof(list->count)); }}\n\
             \x20 return 0;\n}}\n",
            size = 64 + n % 7 * 8,
        );
    }
    text
}

fn sources(made: &Path) -> Vec<PathBuf> {
    let Some(directory) = std::env::var_os("CRASHPROOF_BENCH_SOURCES") else { return vec![made.to_owned()] };
    let mut all: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory of CRASHPROOF_BENCH_SOURCES")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "c"))
        .collect();
    all.sort();
    all
}

/// The best of several rounds over all sources.
fn measure(program: &Path, first: &[&str], sources: &[PathBuf], flags: &[String]) -> Duration {
    let round = || {
        let begin = Instant::now();
        for source in sources {
            let status = Command::new(program)
                .args(first)
                .args(["-O2", "-w", "-c", "-o", "/dev/null"])
                .args(flags)
                .arg(source)
                .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
                .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
                .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include())
                .stderr(Stdio::null())
                .status()
                .expect("a compiler");
            assert!(status.success(), "{} does not compile", source.display());
        }
        begin.elapsed()
    };
    (0..ROUNDS).map(|_| round()).min().expect("some rounds")
}

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = directory.path().join("made.c");
    std::fs::write(&made, made_up()).expect("written");
    let sources = sources(&made);
    let mut flags = vec!["-mclwb".to_owned()];
    if let Ok(more) = std::env::var("CRASHPROOF_BENCH_FLAGS") {
        flags.extend(more.split_whitespace().map(str::to_owned));
    }
    let clang = crashproof_toolchain::toolchain::find_clang().expect("clang");
    let own = Path::new(env!("CARGO_BIN_EXE_crashproof"));
    // Built before anything is measured.
    measure(own, &["cc", "--lint"], &sources[..1], &flags);
    let plain = measure(&clang, &[], &sources, &flags).as_secs_f64();
    let checked = measure(own, &["cc"], &sources, &flags).as_secs_f64();
    let linted = measure(own, &["cc", "--lint"], &sources, &flags).as_secs_f64();
    let added = (linted - checked) / plain * 100.0;
    println!("{} modules, best of {ROUNDS} rounds", sources.len());
    println!("clang -O2                              {plain:>8.3} s");
    println!("crashproof cc -O2 (instrumented)       {checked:>8.3} s");
    println!("crashproof cc --lint -O2               {linted:>8.3} s");
    let kept = added <= MOST;
    println!(
        "added by --lint                        {added:>8.1} % of clang -O2 {} {MOST} %",
        if kept { "<=" } else { "MISSED, promised" }
    );
    if !kept {
        std::process::exit(1);
    }
}
