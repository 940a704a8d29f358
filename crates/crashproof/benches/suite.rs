//! The cost of checking a test suite, compared with the plain compiler and runner:
//!
//! - compilation with `crashproof cc` and `crashproof cargo build`, at most 1.3 times;
//! - the text of the programs, at most 3 times;
//! - code that never touches persistent memory, at most 1.2 times on average;
//! - a crate with 100 small tests, 40 of them on persistent memory: at most 3 times `cargo test`, without compilation.
//!
//! Plain and instrumented commands alternate, and the best of several rounds counts. A missed promise is reported, and
//! fails the bench.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crashproof_toolchain::testing;

const ROUNDS: usize = 5;
/// Programs that touch no persistent memory.
const PROGRAMS: [&str; 5] = ["sort", "hash", "matrix", "parser", "interpreter"];

struct Bench {
    missed: Vec<String>,
}

impl Bench {
    fn promise(&mut self, what: &str, figure: f64, most: f64) {
        let kept = figure <= most;
        println!("{what:<64} {figure:>6.2}x {} {most}", if kept { "<=" } else { "MISSED, promised" });
        if !kept {
            self.missed.push(what.to_owned());
        }
    }
}

fn crashproof() -> PathBuf {
    testing::tools().join("crashproof")
}

/// A command without the variables that cargo sets for this process.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER"] {
        command.env_remove(name);
    }
    command.env("CRASHPROOF_INCLUDE", testing::include()).stdin(Stdio::null());
    command
}

fn quietly(command: &mut Command) {
    let output = command.output().expect("a command that runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{}{text}", String::from_utf8_lossy(&output.stdout));
}

/// The best times of two things measured alternately.
fn best(mut one: impl FnMut() -> Duration, mut other: impl FnMut() -> Duration) -> [f64; 2] {
    let mut times = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        times[0] = times[0].min(one().as_secs_f64());
        times[1] = times[1].min(other().as_secs_f64());
    }
    times
}

fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    quietly(command);
    began.elapsed()
}

/// Bytes of code, as `size` counts them.
fn text_size(object: &Path) -> u64 {
    let output = Command::new("size").arg(object).output().expect("size runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = text.lines().nth(1).expect("a row");
    row.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
}

/// A module over persistent memory: structures, helpers, loops, copies.
fn module() -> String {
    let mut text = String::from(
        "#include <immintrin.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n",
    );
    text.push_str(
        "static void persist(const void *at, size_t n) {\n  for (const char *c = at; c < (const char *)at + n; c += 64)\n    \
         _mm_clflush((void *)c);\n  _mm_sfence();\n}\n",
    );
    for n in 0..100 {
        let _ = write!(
            text,
            "struct node{n} {{ long key; long value; char data[64]; struct node{n} *next; long count; }};\n\
             int put{n}(struct node{n} *list, long key, const char *data, size_t length) {{\n\
             \x20 for (; list && list->key != key; list = list->next) {{}}\n  if (!list) return -1;\n\
             \x20 if (length > sizeof(list->data)) {{ printf(\"too long: %zu\\n\", length); return -2; }}\n\
             \x20 memcpy(list->data, data, length);\n  persist(list->data, length);\n\
             \x20 list->value = key * {n};\n  list->count++;\n  persist(&list->value, sizeof(*list));\n  return 0;\n}}\n",
        );
    }
    text
}

fn compilation(bench: &mut Bench, work: &Path) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instrument/benches/programs");
    let module_source = work.join("module.c");
    std::fs::write(&module_source, module()).expect("written");
    let mut sources: Vec<PathBuf> = PROGRAMS.iter().map(|name| programs.join(format!("{name}.c"))).collect();
    sources.push(module_source);
    let plain = testing::toolchain().compilers.clang;
    let (mut times, mut sizes) = ([0.0; 2], [0; 2]);
    println!(
        "{:<14} {:>10} {:>12} {:>7}   {:>8} {:>8} {:>7}",
        "C", "plain", "crashproof", "ratio", "text", "", "ratio"
    );
    for source in &sources {
        let name = source.file_stem().expect("a name").to_string_lossy().into_owned();
        let objects = ["plain.o", "built.o"].map(|end| work.join(format!("{name}.{end}")));
        let compiled = |mut command: Command, object: &Path| {
            timed(command.args(["-O2", "-g", "-c"]).arg(source).arg("-o").arg(object))
        };
        let pair = best(
            || compiled(command(&plain), &objects[0]),
            || compiled(command(&testing::tools().join("crashproof-cc")), &objects[1]),
        );
        let size = [text_size(&objects[0]), text_size(&objects[1])];
        println!(
            "{name:<14} {:>7.1} ms {:>9.1} ms {:>6.2}x   {:>8} {:>8} {:>6.2}x",
            pair[0] * 1e3,
            pair[1] * 1e3,
            pair[1] / pair[0],
            size[0],
            size[1],
            size[1] as f64 / size[0] as f64
        );
        for side in 0..2 {
            times[side] += pair[side];
            sizes[side] += size[side];
        }
    }
    bench.promise("compilation with crashproof cc, against clang -O2 -g", times[1] / times[0], 1.3);
    bench.promise("text of the objects", sizes[1] as f64 / sizes[0] as f64, 3.0);
}

/// The time in seconds that the program measures itself, and its result.
fn run(program: &Path) -> (f64, String) {
    let output = command(program).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (seconds, result) = text.trim().split_once(' ').expect("seconds and a result");
    (seconds.parse().expect("seconds"), result.to_owned())
}

fn volatile(bench: &mut Bench, work: &Path) {
    let plain = testing::toolchain().compilers.clang;
    let mut sum = 0.0;
    println!("{:<14} {:>10} {:>12} {:>7}", "volatile", "plain", "crashproof", "ratio");
    for name in PROGRAMS {
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../instrument/benches/programs/{name}.c"));
        let programs = ["plain", "built"].map(|end| work.join(format!("{name}.{end}")));
        let built = |mut command: Command, program: &Path| {
            quietly(command.args(["-O2", "-g"]).arg(&source).arg("-o").arg(program));
        };
        built(command(&plain), &programs[0]);
        built(command(&testing::tools().join("crashproof-cc")), &programs[1]);
        let mut times = [f64::MAX; 2];
        let mut results = [String::new(), String::new()];
        for _ in 0..ROUNDS {
            for side in 0..2 {
                let (seconds, result) = run(&programs[side]);
                times[side] = times[side].min(seconds);
                results[side] = result;
            }
        }
        assert_eq!(results[0], results[1], "{name} computes something else when instrumented");
        let ratio = times[1] / times[0];
        println!("{name:<14} {:>7.2} ms {:>9.2} ms {ratio:>6.2}x", times[0] * 1e3, times[1] * 1e3);
        sum += ratio;
    }
    bench.promise("code that touches no persistent memory, on average", sum / PROGRAMS.len() as f64, 1.2);
}

const LIBRARY: &str = r#"//! Slots in a file that is mapped.
use std::os::fd::AsRawFd;

unsafe extern "C" {
    fn mmap(at: *mut u8, length: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
}

pub struct Slots(&'static mut [[u64; 8]]);

impl Slots {
    pub fn open(name: &str) -> Slots {
        let directory = std::env::var("SLOTS").unwrap_or_else(|_| ".".into());
        let path = std::path::Path::new(&directory).join(name);
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(4096).unwrap();
        Slots(unsafe { std::slice::from_raw_parts_mut(mmap(std::ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0).cast(), 64) })
    }

    fn persist(&self, slot: usize) {
        unsafe {
            std::arch::x86_64::_mm_clflush(self.0[slot].as_ptr().cast());
            std::arch::x86_64::_mm_sfence();
        }
    }

    pub fn add(&mut self, value: u64) {
        let number = self.0[0][0] as usize;
        self.0[number + 1][0] = value;
        self.persist(number + 1);
        self.0[0][0] += 1;
        self.persist(0);
    }

    pub fn values(&self) -> impl Iterator<Item = u64> {
        self.0[1..=self.0[0][0] as usize].iter().map(|slot| slot[0])
    }
}
"#;

/// A crate of 100 tests, 40 of them on persistent memory.
fn make_crate(at: &Path) {
    std::fs::create_dir_all(at.join("src")).expect("a directory");
    std::fs::create_dir_all(at.join("tests")).expect("a directory");
    std::fs::create_dir_all(at.join("pools")).expect("a directory");
    let manifest = "[package]\nname = \"slots\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ndoctest = false\n[workspace]\n";
    std::fs::write(at.join("Cargo.toml"), manifest).expect("written");
    std::fs::write(at.join("src/lib.rs"), LIBRARY).expect("written");
    let mut tests = String::new();
    for n in 0..40 {
        let _ = writeln!(
            tests,
            "#[test]\nfn slots_{n}() {{\n    let mut slots = slots::Slots::open(\"pool{n}\");\n    \
             assert!(slots.values().all(|value| value > 0));\n    \
             if slots.values().count() < 3 {{\n        for value in 1..4 {{ slots.add(value); }}\n    }}\n}}"
        );
    }
    for n in 0..60 {
        let _ = writeln!(
            tests,
            "#[test]\nfn plain_{n}() {{\n    let mut words: Vec<u64> = (0..1000).map(|it| it * {n} % 997).collect();\n    \
             words.sort();\n    assert!(words.is_sorted());\n}}"
        );
    }
    std::fs::write(at.join("tests/all.rs"), tests).expect("written");
}

fn suite(bench: &mut Bench, work: &Path) {
    let at = work.join("slots");
    make_crate(&at);
    let pools = at.join("pools");
    let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let plain = |words: &[&str]| {
        let mut command = command(&cargo);
        command.args(words).arg("--offline").current_dir(&at).env("SLOTS", &pools);
        command
    };
    let built = |words: &[&str]| {
        let mut command = command(&crashproof());
        command.arg("cargo").args(words).arg("--offline").current_dir(&at).env("SLOTS", &pools);
        command
    };
    let emptied = || {
        let _ = std::fs::remove_dir_all(&pools);
        std::fs::create_dir_all(&pools).expect("a directory");
    };
    let touched = || std::fs::write(at.join("src/lib.rs"), LIBRARY).expect("written");
    quietly(&mut plain(&["build"]));
    quietly(&mut built(&["build"]));
    let compile = best(
        || {
            touched();
            timed(&mut plain(&["build"]))
        },
        || {
            touched();
            timed(&mut built(&["build"]))
        },
    );
    println!("{:<14} {:>7.0} ms {:>9.0} ms", "cargo build", compile[0] * 1e3, compile[1] * 1e3);
    bench.promise("compilation with crashproof cargo build", compile[1] / compile[0], 1.3);
    let paths = ["test", "--pm-path", pools.to_str().expect("a name")];
    quietly(&mut plain(&["test"]));
    quietly(&mut built(&paths));
    let run = best(
        || {
            emptied();
            timed(&mut plain(&["test"]))
        },
        || {
            emptied();
            timed(&mut built(&paths))
        },
    );
    println!("{:<14} {:>7.0} ms {:>9.0} ms", "100 tests", run[0] * 1e3, run[1] * 1e3);
    bench.promise("100 tests, 40 of them on persistent memory", run[1] / run[0], 3.0);
}

fn main() {
    let work = testing::scratch("suite");
    let mut bench = Bench { missed: Vec::new() };
    compilation(&mut bench, &work);
    volatile(&mut bench, &work);
    suite(&mut bench, &work);
    assert!(bench.missed.is_empty(), "missed: {}", bench.missed.join("; "));
}
