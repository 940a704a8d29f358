//! The cost of following code that was not rebuilt, as ratios of processor time measured in one run:
//!
//! - an access that faults, against a bare SIGSEGV whose handler only skips the instruction;
//! - an access that is patched, against the same in rebuilt code;
//! - work on volatile memory, against the same program without the checker;
//! - a whole check of a list, against the same program rebuilt.
//!
//! A missed promise is reported, and fails the bench.

#![allow(unsafe_code, reason = "measures a signal handler")]

use std::ffi::{OsString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_check::{Options, check, record};
use crashproof_toolchain::testing;

/// The number of storing instructions in the program, and how often each runs: a third time it would be patched.
const PLACES: f64 = 4096.0;
const TIMES: u64 = 2;
const STORES: u64 = 2_000_000;
const ROUNDS: u64 = 200_000_000;
const NODES: &str = "60";

/// Processor time in seconds of this process and its awaited children so far.
fn used() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().fold(0.0, |sum, who| {
        // SAFETY: plain data, which the kernel fills in.
        let used = unsafe {
            let mut used: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut used);
            used
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        sum + seconds(used.ru_utime) + seconds(used.ru_stime)
    })
}

/// The minimum processor time of several runs.
fn least(mut what: impl FnMut()) -> f64 {
    let one = |_| {
        let before = used();
        what();
        used() - before
    };
    (0..5).map(one).fold(f64::MAX, f64::min)
}

/// Bytes of `mov dword ptr [rdi], eax`.
const INSTRUCTION: i64 = 2;

extern "C" fn skip(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of the instruction.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] += INSTRUCTION };
}

/// Seconds per bare fault: the kernel, an empty handler, and back.
fn bare_fault() -> f64 {
    const COUNT: u32 = 20_000;
    // SAFETY: the page is used only here; the handler skips the one instruction that touches it.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = skip as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before);
        let all = least(|| {
            for _ in 0..COUNT {
                std::arch::asm!(".byte 0x89, 0x07", in("rdi") page, in("eax") 1);
            }
        });
        libc::sigaction(libc::SIGSEGV, &raw const before, std::ptr::null_mut());
        all / f64::from(COUNT)
    }
}

struct Bench {
    directory: PathBuf,
    missed: Vec<String>,
}

impl Bench {
    fn promise(&mut self, what: &str, figure: f64, most: f64) {
        let kept = figure <= most;
        println!("{what:<62} {figure:>8.2} x {} {most}", if kept { "<=" } else { "MISSED, promised" });
        if !kept {
            self.missed.push(what.to_owned());
        }
    }

    /// A program of the bench, built by gcc or rebuilt.
    fn build(&self, name: &str, rebuilt: bool) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs").join(name);
        let kind = if rebuilt { "rebuilt" } else { "plain" };
        let program = self.directory.join(name).with_extension(kind);
        if rebuilt {
            testing::compile(&source, &program, &["-O1"]);
        } else {
            let status =
                Command::new("gcc").args(["-g", "-O1"]).arg(&source).arg("-o").arg(&program).status();
            assert!(status.expect("gcc runs").success());
        }
        program
    }

    fn options(&self, program: &Path, words: &[&str]) -> Options {
        let pool = self.directory.join("pool").into_os_string();
        let words = words.iter().map(OsString::from).chain([pool]).collect();
        let mut options = Options::new(program.to_owned(), words);
        options.pm_path = vec![self.directory.clone()];
        options.jobs = 1;
        options
    }

    /// Seconds that a recorded run takes.
    fn run(&self, program: &Path, words: &[&str]) -> f64 {
        let options = self.options(program, words);
        least(|| drop(record(&options, 0).expect("a run")))
    }
}

fn main() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-bench");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory under target/");
    crashproof_check::use_runtime(testing::tools().join("libcrashproof_runtime.so"));
    let mut bench = Bench { directory, missed: Vec::new() };
    let (plain, rebuilt) = (bench.build("foreign.c", false), bench.build("foreign.c", true));

    let nothing = bench.run(&plain, &["faults", "0"]);
    let faulting = (bench.run(&plain, &["faults", &TIMES.to_string()]) - nothing) / (PLACES * TIMES as f64);
    let bare = bare_fault();
    println!("an access that faults: {:.2} us, a bare fault: {:.2} us", faulting * 1e6, bare * 1e6);
    bench.promise("an access that faults, against a bare fault", faulting / bare, 1.5);

    let stores = STORES.to_string();
    let patched = bench.run(&plain, &["stores", &stores]) - nothing;
    let same = bench.run(&rebuilt, &["stores", &stores]) - bench.run(&rebuilt, &["stores", "0"]);
    println!(
        "a store that is patched: {:.0} ns, rebuilt: {:.0} ns",
        patched * 1e9 / STORES as f64,
        same * 1e9 / STORES as f64
    );
    bench.promise("an access that is patched, against a rebuilt one", patched / same, 8.0);

    let rounds = ROUNDS.to_string();
    let volatile = bench.run(&plain, &["volatile", &rounds]) - nothing;
    let pool = bench.directory.join("pool");
    let native = least(|| {
        let status = Command::new(&plain).args(["volatile", &rounds]).arg(&pool).status();
        assert!(status.expect("it runs").success());
        std::fs::remove_file(&pool).expect("it made a file");
    });
    bench.promise("work on volatile memory, against no checker", volatile / native, 1.1);

    let (plain, rebuilt) = (bench.build("foreign_list.c", false), bench.build("foreign_list.c", true));
    let whole = |program: &Path| {
        let options = bench.options(program, &[NODES]);
        least(|| {
            let report = check(&options).expect("a program that can be checked");
            assert!(report.findings.is_empty() && report.unknown.is_empty(), "{report:?}");
        })
    };
    let (plain, rebuilt) = (whole(&plain), whole(&rebuilt));
    println!("a check of a list: {:.2} s of processor time, rebuilt {:.2} s", plain, rebuilt);
    bench.promise("a check of a list, against the same program rebuilt", plain / rebuilt, 10.0);

    assert!(bench.missed.is_empty(), "missed: {}", bench.missed.join(", "));
}
