//! Code that was not rebuilt: libraries and programs that a plain compiler built, interpreters, static programs. What
//! they do to persistent memory is followed, and judged as if they had been rebuilt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_toolchain::testing;

struct Place {
    directory: tempfile::TempDir,
}

/// What came of a check.
struct Outcome {
    code: i32,
    text: String,
}

impl Outcome {
    #[track_caller]
    fn is(&self, code: i32, part: &str) {
        assert_eq!(self.code, code, "{}", self.text);
        assert!(self.text.contains(part), "no {part:?} in:\n{}", self.text);
    }
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program).args(arguments).current_dir(self.directory.path()).output();
        let output = output.expect("the compiler runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs the driver, as a build system would.
    #[track_caller]
    fn cc(&self, arguments: &[&str]) {
        let driver = testing::tools().join("crashproof-cc");
        let mut all = vec!["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../../include")];
        all.extend(arguments);
        self.run(driver.to_str().expect("a path"), &all);
    }

    fn check(&self, arguments: &[&str]) -> Outcome {
        let output = Command::new(testing::tools().join("crashproof"))
            .arg("check")
            .args(arguments)
            .current_dir(self.directory.path())
            .env("TMPDIR", self.directory.path())
            .output()
            .expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Outcome { code: output.status.code().expect("it ends on its own"), text: text.concat() }
    }
}

/// The first place that a report names.
fn place_of(outcome: &Outcome) -> String {
    let line = outcome.text.lines().find(|line| line.contains("-->")).unwrap_or_default();
    line.trim().to_owned()
}

const LOG: &str = r#"
#include <crashproof.h>
#include <string.h>
#include <sys/types.h>
// As libpmem.h has them; it need not be installed.
enum { PMEM_FILE_CREATE = 1 };
void *pmem_map_file(const char *, size_t, int, mode_t, size_t *, int *);
void *pmem_memcpy_persist(void *, const void *, size_t);
void pmem_persist(const void *, size_t);
struct log { long length; char pad[56]; char text[64]; };
int main(void) {
  struct log *log = pmem_map_file("log", sizeof(struct log), PMEM_FILE_CREATE, 0644, 0, 0);
  if (log == 0)
    return 9;
  if (log->length) {
    crashproof_assert(memcmp(log->text, "entry 1.", 8) == 0);
    return 0;
  }
  pmem_memcpy_persist(log->text, "entry 1.", 8);
  log->length = 8;
  pmem_persist(&log->length, sizeof log->length);
  return 0;
}
"#;

/// libpmem is the runtime, wherever and however a link line names it, installed or not.
#[test]
fn libpmem_in_any_order() {
    let place = Place::new();
    place.write("log.c", LOG);
    place.write("libs.rsp", "-lpmem");
    for line in [
        &["-lpmem", "log.c"][..],
        &["log.c", "-lpmem"],
        &["log.c", "-lpmem2", "-lpmem"],
        &["log.c", "-l:libpmem.so.1"],
        &["log.c", "-Wl,--as-needed,-lpmem"],
        &["log.c", "/no/such/place/libpmem.a"],
        &["log.c", "@libs.rsp"],
    ] {
        place.cc(&[line, &["-o", "log-program"]].concat());
        let outcome = place.check(&["./log-program"]);
        assert_eq!(outcome.code, 0, "{line:?}: {}", outcome.text);
        assert!(outcome.text.contains("clean"), "{line:?}: {}", outcome.text);
    }
}

const LIBRARY: &str = r#"
#include <stdint.h>
#include <emmintrin.h>
void put(uint64_t *p, uint64_t v) { *p = v; } // MARK
uint64_t get(uint64_t *p) { return *p; }
void persist(void *p) { __asm__ volatile("clflush (%0)" :: "r"(p) : "memory"); _mm_sfence(); }
void copy(void *to, const void *from, unsigned long n) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) :: "memory");
}
"#;

const LOADS_LIBRARY: &str = r#"
#include <crashproof.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
struct s { uint64_t data; char pad[56]; uint64_t flag; char pad2[56]; char text[64]; };
int main(void) {
  struct s *s = crashproof_root(sizeof *s);
  void *library = dlopen("./libplain.so", RTLD_NOW);
  if (!library)
    return 9;
  void (*put)(uint64_t *, uint64_t) = dlsym(library, "put");
  uint64_t (*get)(uint64_t *) = dlsym(library, "get");
  void (*persist)(void *) = dlsym(library, "persist");
  void (*copy)(void *, const void *, unsigned long) = dlsym(library, "copy");
  if (crashproof_crashes()) {
    if (get(&s->flag))
      crashproof_assert(get(&s->data) == 42 && !strcmp(s->text, "hello, world"));
    return 0;
  }
  put(&s->data, 42);
  copy(s->text, "hello, world", 13);
#ifndef BAD
  persist(&s->data);
#endif
  persist(s->text);
  put(&s->flag, 1);
  persist(&s->flag);
  return 0;
}
"#;

/// A library that plain gcc built stores, copies with `rep movsb`, flushes and fences.
#[test]
fn a_plain_library() {
    let place = Place::new();
    place.write("plain.c", LIBRARY);
    place.write("program.c", LOADS_LIBRARY);
    place.run("gcc", &["-O2", "-g", "-shared", "-fPIC", "plain.c", "-o", "libplain.so"]);
    place.cc(&["program.c", "-o", "good"]);
    place.check(&["./good"]).is(0, "clean");
    place.cc(&["-DBAD", "program.c", "-o", "bad"]);
    let bad = place.check(&["./bad"]);
    bad.is(1, "plain.c:4");
    // Without symbols it is the same, but the place has no line.
    place.run("gcc", &["-O2", "-s", "-shared", "-fPIC", "plain.c", "-o", "libplain.so"]);
    place.check(&["./good"]).is(0, "clean");
    place.check(&["./bad"]).is(1, "");
}

const MAPS_FILE: &str = r#"
#include <assert.h>
#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { uint64_t data; char pad[56]; uint64_t valid; };
static void persist(void *p) {
  _mm_clflush(p);
  _mm_sfence();
}
int main(void) {
  int f = open("pool", O_RDWR | O_CREAT, 0600);
  if (f < 0 || ftruncate(f, 4096))
    return 9;
  struct pool *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
  if (p->valid) {
    assert(p->data == 42);
    return 0;
  }
  p->data = 42;
#ifndef BAD
  persist(&p->data);
#endif
  p->valid = 1;
  persist(&p->valid);
  return 0;
}
"#;

/// A program that was never near `crashproof cc` gets the verdict and the lines of the rebuilt one.
#[test]
fn a_plain_program() {
    let place = Place::new();
    place.write("program.c", MAPS_FILE);
    for optimization in ["-O0", "-O2"] {
        place.run("gcc", &["-g", optimization, "program.c", "-o", "good"]);
        place.check(&["--pm-path", ".", "./good"]).is(0, "clean");
        place.run("gcc", &["-g", optimization, "-DBAD", "program.c", "-o", "bad"]);
        place.cc(&["-g", optimization, "-DBAD", "program.c", "-o", "rebuilt"]);
        let (plain, rebuilt) =
            (place.check(&["--pm-path", ".", "./bad"]), place.check(&["--pm-path", ".", "./rebuilt"]));
        plain.is(1, "program.c:23");
        rebuilt.is(1, "program.c:23");
        let line = |outcome: &Outcome| place_of(outcome).rsplit_once(':').map(|(line, _)| line.to_owned());
        assert_eq!(line(&plain), line(&rebuilt), "{}\n{}", plain.text, rebuilt.text);
        assert!(!place.path("pool").exists(), "nothing is left behind");
    }
}

/// A static program is refused before it runs: it would change the real file.
#[test]
fn a_static_program() {
    let place = Place::new();
    place.write("program.c", MAPS_FILE);
    place.run("gcc", &["-g", "-static", "program.c", "-o", "static"]);
    place.check(&["--pm-path", ".", "./static"]).is(2, "without -static");
    assert!(!place.path("pool").exists(), "it did not run");
}

const SCRIPT: &str = r#"
import mmap, os, sys
f = os.open("pool", os.O_RDWR | os.O_CREAT)
os.ftruncate(f, 8192)
m = mmap.mmap(f, 8192)
if m[4096] == 1:
    assert m[0:5] == b"hello", m[0:5]
    sys.exit(0)
m[0:5] = b"hello"
if sys.argv[1] == "good":
    m.flush(0, 4096)
m[4096] = 1
m.flush(4096, 4096)
"#;

/// An interpreter that maps a file.
#[test]
fn a_python_script() {
    let place = Place::new();
    place.write("script.py", SCRIPT);
    place.check(&["--pm-path", ".", "python3", "--", "script.py", "good"]).is(0, "clean");
    place.check(&["--pm-path", ".", "python3", "--", "script.py", "bad"]).is(1, "");
    let script = place.check(&["script.py"]);
    script.is(2, "crashproof check python3 -- script.py");
    assert!(Path::new("/usr/bin/python3").exists());
}

const OTHER_WAYS: &str = r#"
#include <crashproof.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
struct s { char text[64]; uint64_t flag; };
static void put(void *to, const void *from, unsigned long n) {
#if defined(VM)
  struct iovec here = {(void *)from, n}, there = {to, n};
  if (process_vm_writev(getpid(), &here, 1, &there, 1, 0) != (long)n)
    _exit(9);
#elif defined(REP)
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
#else
  memcpy(to, from, n);
#endif
}
int main(void) {
  struct s *s = crashproof_root(sizeof *s);
  if (crashproof_crashes()) {
    if (s->flag)
      crashproof_assert(!strcmp(s->text, "hello, world"));
    return 0;
  }
  volatile unsigned long n = 13;
  put(s->text, "hello, world", n);
#ifndef BAD
  __asm__ volatile("clflush %0" : : "m"(s->text[0]) : "memory");
#endif
  __asm__ volatile("movq $1, (%0)\n clflush (%0)\n sfence" : : "r"(&s->flag) : "memory");
  return 0;
}
"#;

/// Stores that the compiler does not see: assembly that stores, flushes and fences in one statement, the kernel, a
/// `memcpy` that comes before the runtime's.
#[test]
fn stores_by_other_ways() {
    let place = Place::new();
    place.write("program.c", OTHER_WAYS);
    for way in ["-DVM", "-DREP", "-DPLAIN"] {
        place.cc(&["-O1", "-D_GNU_SOURCE", way, "program.c", "-o", "good"]);
        place.check(&["./good"]).is(0, "clean");
        place.cc(&["-O1", "-D_GNU_SOURCE", way, "-DBAD", "program.c", "-o", "bad"]);
        place.check(&["./bad"]).is(1, "program.c");
    }
}

const THREADS: &str = r#"
#include <crashproof.h>
#include <thread>
#include <vector>
struct cell { long value; char pad[56]; };
static cell *cells;
static void persist(void *p) {
  __builtin_ia32_clflush(p);
  __builtin_ia32_sfence();
}
int main() {
  cells = static_cast<cell *>(crashproof_root(4 * sizeof(cell)));
  if (crashproof_crashes())
    return 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++)
    threads.emplace_back([i] {
      cells[i].value = i + 1;
      persist(&cells[i]);
    });
  for (auto &thread : threads)
    thread.join();
  return 0;
}
"#;

/// libstdc++ keeps its threads in memory that is persistent, too: it sees what other threads stored, under any schedule.
#[test]
fn threads_of_libstdcxx_in_a_persistent_heap() {
    let place = Place::new();
    place.write("threads.cpp", THREADS);
    let outcome = place.check(&["--pm-heap", "threads.cpp"]);
    assert_eq!(outcome.code, 0, "{}", outcome.text);
    let outcome = place.check(&["--pm-heap", "--schedules", "20", "threads.cpp"]);
    assert_eq!(outcome.code, 0, "{}", outcome.text);
}
