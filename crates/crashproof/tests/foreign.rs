//! Code that was not rebuilt: libraries and programs built by a plain compiler, interpreters, static programs. Their
//! effects on persistent memory are followed, and judged as if they had been rebuilt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_toolchain::testing;

struct Place {
    directory: tempfile::TempDir,
}

/// The result of a check.
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

/// The marked line of a source.
fn marked(source: &str) -> usize {
    source.lines().position(|line| line.contains("// MARK")).expect("a mark") + 1
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

/// libpmem is the runtime, wherever a link line names it, installed or not.
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

/// A library built with plain gcc stores, copies with `rep movsb`, flushes and fences.
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
    // Without symbols the result is the same, except that the place has no line.
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

/// A program never compiled with `crashproof cc` gets the verdict and the lines of the rebuilt one.
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

const RAW_WRITE: &str = r#"
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
struct pool { long data; char pad[56]; long ready; };
int main(void) {
  int fd = open("pool", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096))
    return 9;
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert(!pool->ready || pool->data == 42);
  long value = 42, result;
  register long offset __asm__("r10") = 0;
  __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_pwrite64), "D"(fd), "S"(&value), "d"(8L), "r"(offset)
                   : "rcx", "r11", "memory");
  if (result != 8)
    return 8;
  pool->ready = 1;
  _mm_clflush(&pool->ready);
  _mm_sfence();
  return 0;
}
"#;

/// A file written by raw system calls is not followed: no bug is reported because of what that leaves.
#[test]
fn raw_writes() {
    let place = Place::new();
    place.write("raw.c", RAW_WRITE);
    place.run("gcc", &["-g", "raw.c", "-o", "raw"]);
    place.check(&["--pm-path", ".", "./raw"]).is(3, "written by system calls of its own");
}

const HEAP: &str = r#"
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct node { struct node *next; long value; char *name; };
struct root { struct node *first; };
static void persist(const void *p, size_t n) {
  for (unsigned long at = (unsigned long)p & ~63ul; at < (unsigned long)p + n; at += 64)
    _mm_clflush((void *)at);
  _mm_sfence();
}
int main(void) {
  int fd = open("pool", O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 4096))
    return 9;
  struct root *root = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (struct node *node = root->first; node; node = node->next)
    assert(node->value == 5 && !strcmp(node->name, "five"));
  struct node *node = malloc(sizeof *node);
  node->name = strdup("five");
  persist(node->name, 5);
  node->next = root->first;
  node->value = 5; // MARK
#ifndef BAD
  persist(node, sizeof *node);
#endif
  root->first = node;
  persist(&root->first, 8);
}
"#;

/// With `--pm-heap`, what a program allocates is persistent whether or not it was rebuilt.
#[test]
fn a_persistent_heap() {
    let place = Place::new();
    place.write("heap.c", HEAP);
    let check = |program: &str| place.check(&["--pm-heap", "--pm-path", ".", program]);
    place.run("gcc", &["-g", "heap.c", "-o", "good"]);
    check("./good").is(0, "clean");
    place.run("gcc", &["-g", "-DBAD", "heap.c", "-o", "bad"]);
    place.cc(&["-g", "-DBAD", "heap.c", "-o", "rebuilt"]);
    let marked = format!("heap.c:{}", marked(HEAP));
    check("./bad").is(1, &marked);
    check("./rebuilt").is(1, &marked);
}

/// A static program is rejected before it runs: it would change the real file.
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
/// `memcpy` that takes precedence over the runtime's.
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

/// libstdc++ keeps thread state in persistent memory, too: it sees other threads' stores under every schedule.
#[test]
fn threads_of_libstdcxx_in_a_persistent_heap() {
    let place = Place::new();
    place.write("threads.cpp", THREADS);
    let outcome = place.check(&["--pm-heap", "threads.cpp"]);
    assert_eq!(outcome.code, 0, "{}", outcome.text);
    let outcome = place.check(&["--pm-heap", "--schedules", "20", "threads.cpp"]);
    assert_eq!(outcome.code, 0, "{}", outcome.text);
}

const RAW_CALLS: &str = r#"
#include <assert.h>
#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
struct pool { char text[64]; uint64_t valid; };
static void persist(void *p) { _mm_clflush(p); _mm_sfence(); }
static long raw(long n, long a, long b, long c) {
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return r;
}
int main(void) {
  int f = open("pool", O_RDWR | O_CREAT, 0600);
  if (f < 0 || ftruncate(f, 4096))
    return 9;
  struct pool *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
  if (p->valid) {
    assert(!strcmp(p->text, "hello"));
    return 0;
  }
#ifdef OTHER
  if (raw(SYS_readlink, (long)"/proc/self/exe", (long)p->text, 40) < 0)
    return 7;
  strcpy(p->text, "hello");
#else
  int text = open("text", O_RDONLY);
  if (raw(SYS_read, text, (long)p->text, 6) != 6) // MARK
    return 7;
#endif
#ifndef BAD
  persist(p->text);
#endif
  p->valid = 1;
  persist(&p->valid);
  return 0;
}
"#;

/// Raw system calls: handled if the runtime knows them, otherwise reported.
#[test]
fn raw_system_calls() {
    let place = Place::new();
    place.write("program.c", RAW_CALLS);
    place.write("text", "hello\0");
    place.run("gcc", &["-g", "program.c", "-o", "good"]);
    place.check(&["--pm-path", ".", "./good"]).is(0, "clean");
    place.run("gcc", &["-g", "-DBAD", "program.c", "-o", "bad"]);
    place.check(&["--pm-path", ".", "./bad"]).is(1, "program.c:32");
    place.run("gcc", &["-g", "-DOTHER", "program.c", "-o", "other"]);
    let other = place.check(&["--pm-path", ".", "./other"]);
    other.is(3, "in a system call of its own");
    assert!(other.text.contains("program.c:1"), "{}", other.text);
}

const FENCES: &str = r#"
#include <emmintrin.h>
#include <stdint.h>
void put(uint64_t *p, uint64_t v) { *p = v; }
uint64_t get(uint64_t *p) { return *p; }
void flush(void *p) { __asm__ volatile("clflushopt (%0)" ::"r"(p) : "memory"); }
#ifdef LOCKED
static int word;
void drain(void) { __asm__ volatile("lock addl $0, %0" : "+m"(word)::"memory"); }
#elif defined(HIDDEN)
// Data that is no code, then a function that no table knows.
__asm__(".text\n.byte 0x06, 0x06, 0x06\n.globl drain\n.type drain, @function\ndrain: sfence\n ret\n");
#else
void drain(void) { _mm_sfence(); }
#endif
"#;

const USES_FENCES: &str = r#"
#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { uint64_t data; char pad[56]; uint64_t valid; };
int main(int argc, char **argv) {
  int f = open("pool", O_RDWR | O_CREAT, 0600);
  if (f < 0 || ftruncate(f, 4096))
    return 9;
  struct pool *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
  void (*put)(uint64_t *, uint64_t);
  uint64_t (*get)(uint64_t *);
  void (*flush)(void *);
  void (*drain)(void);
  if (!strcmp(argv[1], "made")) {
    char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put = memcpy(code, "\x48\x89\x37\xc3", 4);
    get = memcpy(code + 16, "\x48\x8b\x07\xc3", 4);
    flush = memcpy(code + 32, "\x66\x0f\xae\x3f\xc3", 5);
    drain = memcpy(code + 48, "\x0f\xae\xf8\xc3", 4);
  } else {
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library)
      return 8;
    put = dlsym(library, "put");
    get = dlsym(library, "get");
    flush = dlsym(library, "flush");
    drain = dlsym(library, "drain");
  }
  if (get(&p->valid)) {
    assert(get(&p->data) == 42);
    return 0;
  }
  put(&p->data, 42);
  flush(&p->data);
  if (argc < 3)
    drain();
  put(&p->valid, 1);
  flush(&p->valid);
  drain();
  return 0;
}
"#;

/// Fences are found in stripped libraries without unwind tables, too. If they cannot be found, the verdict is UNKNOWN.
#[test]
fn fences_that_no_table_knows() {
    let place = Place::new();
    place.write("library.c", FENCES);
    place.write("program.c", USES_FENCES);
    place.run("gcc", &["-g", "program.c", "-o", "program"]);
    let check = |library: &str, more: &[&str]| {
        place.check(&[&["--pm-path", ".", "./program", "--", library], more].concat())
    };
    let bare = ["-O2", "-s", "-shared", "-fPIC", "-fno-asynchronous-unwind-tables", "library.c", "-o"];
    for fence in ["-DSTORE", "-DLOCKED"] {
        place.run("gcc", &[&bare[..], &["library.so", fence]].concat());
        check("./library.so", &[]).is(0, "clean");
        check("./library.so", &["bad"]).is(1, "not fenced");
    }
    place.run("gcc", &[&bare[..], &["library.so", "-nostdlib", "-Wl,--no-eh-frame-hdr"]].concat());
    check("./library.so", &[]).is(0, "clean");
    place.run("gcc", &[&bare[..], &["library.so", "-DHIDDEN"]].concat());
    check("./library.so", &[]).is(3, "library.so");
    check("made", &[]).is(3, "code of no module");
}

const PMEMOBJ_LIST: &str = r#"
#include <assert.h>
#include <libpmemobj.h>
#include <stdio.h>
#include <unistd.h>
POBJ_LAYOUT_BEGIN(list);
POBJ_LAYOUT_ROOT(list, struct root);
POBJ_LAYOUT_TOID(list, struct node);
POBJ_LAYOUT_END(list);
struct node { TOID(struct node) next; long value; };
struct root { TOID(struct node) head; long count; char pad[64]; long checked; };
int main(void) {
  PMEMobjpool *pool = pmemobj_open("pool", POBJ_LAYOUT_NAME(list));
  if (!pool) {
    unlink("pool"); // its creation was interrupted
    pool = pmemobj_create("pool", POBJ_LAYOUT_NAME(list), PMEMOBJ_MIN_POOL, 0666);
  }
  if (!pool) {
    fprintf(stderr, "%s\n", pmemobj_errormsg());
    return 1;
  }
  TOID(struct root) root = POBJ_ROOT(pool, struct root);
  long count = 0;
  for (TOID(struct node) at = D_RO(root)->head; !TOID_IS_NULL(at); at = D_RO(at)->next, count++)
    assert(D_RO(at)->value > 0);
  assert(count == D_RO(root)->count);
  assert(D_RO(root)->checked <= count);
  if (count == 0) {
    TX_BEGIN(pool) {
      TOID(struct node) node = TX_NEW(struct node);
      D_RW(node)->value = 1;
      D_RW(node)->next = D_RO(root)->head;
      TX_ADD_FIELD(root, head);
      D_RW(root)->head = node;
#ifndef NOT_ADDED
      TX_ADD_FIELD(root, count);
#endif
      D_RW(root)->count = 1; // MARK
    } TX_END
  }
  D_RW(root)->checked = D_RO(root)->count;
  pmemobj_persist(pool, &D_RW(root)->checked, sizeof(long));
  pmemobj_close(pool);
  return 0;
}
"#;

/// The distribution's libpmemobj, used by a plain and by a rebuilt program: it creates its pool, and recovers.
#[test]
fn libpmemobj_of_the_distribution() {
    if !Path::new("/usr/include/libpmemobj.h").exists() {
        eprintln!("libpmemobj-dev is not installed; scripts/setup test installs it");
        return;
    }
    let place = Place::new();
    place.write("list.c", PMEMOBJ_LIST);
    place.run("gcc", &["-g", "list.c", "-o", "good", "-lpmemobj"]);
    let good = place.check(&["--pm-path", ".", "./good"]);
    good.is(0, "clean");
    assert!(!good.text.contains("not covered"), "{}", good.text);
    place.cc(&["-g", "-DNOT_ADDED", "list.c", "-o", "bad", "-lpmemobj"]);
    let bad = place.check(&["--pm-path", ".", "./bad"]);
    bad.is(1, "list.c:38");
}

const FIXED: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define BASE ((void *)0x600000000000)
struct node { struct node *next; char text[56]; };
struct pool { struct node *head; char pad[56]; struct node nodes[8]; };
static void persist(void *p) { _mm_clflush(p); _mm_sfence(); }
int main(void) {
  int fd = open("pool.list", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096))
    return 9;
  struct pool *pool = mmap(BASE, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  for (struct node *node = pool->head; node; node = node->next)
    if (memcmp(node->text, "text", 5))
      return 1;
  for (int i = 0; i < 3; i++) {
    struct node *node = &pool->nodes[i];
    strcpy(node->text, "text"); // MARK
    node->next = pool->head;
#ifndef BAD
    persist(node);
#endif
    pool->head = node;
    persist(&pool->head);
  }
  return write(fd, pool->nodes[0].text, 0) != 0;
}
"#;

/// A pool at an address chosen by the program, with internal pointers, named by a pattern.
#[test]
fn pools_at_fixed_addresses() {
    let place = Place::new();
    place.write("fixed.c", FIXED);
    for optimization in ["-O0", "-O2"] {
        place.run("gcc", &["-g", optimization, "fixed.c", "-o", "good"]);
        place.check(&["--pm-path", "pool*", "./good"]).is(0, "no errors");
        place.run("gcc", &["-g", optimization, "-DBAD", "fixed.c", "-o", "bad"]);
        let bad = place.check(&["--pm-path", "pool*", "./bad"]);
        bad.is(1, &format!("fixed.c:{}", marked(FIXED)));
    }
}

const CHILD: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
struct pool { long data; char pad[56]; long ready; };
static void persist(void *p) { _mm_clflush(p); _mm_sfence(); }
int main(void) {
  int fd = open("pool", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096))
    return 9;
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool->ready && pool->data != 42)
    return 1;
  if (fork() == 0) {
    pool->data = 42; // MARK
#ifndef BAD
    persist(&pool->data);
#endif
    _exit(0);
  }
  wait(0);
  pool->ready = 1;
  persist(&pool->ready);
  return 0;
}
"#;

/// The stores of a forked child are followed, rebuilt or not.
#[test]
fn forked_children() {
    let place = Place::new();
    place.write("child.c", CHILD);
    place.run("gcc", &["-g", "child.c", "-o", "child"]);
    place.check(&["--pm-path", ".", "./child"]).is(0, "clean");
    place.run("gcc", &["-g", "-DBAD", "child.c", "-o", "bad"]);
    place.check(&["--pm-path", ".", "./bad"]).is(1, &format!("child.c:{}", marked(CHILD)));
}

const TIMER: &str = r#"
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { long data; char pad[56]; long ready; };
static void persist(void *p) { _mm_clflush(p); _mm_sfence(); }
static volatile sig_atomic_t came;
static void handler(int number) { came += number == SIGALRM; }
int main(void) {
  int fd = open("pool", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096))
    return 9;
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert(!pool->ready || pool->data == 42);
  signal(SIGALRM, handler);
  alarm(1);
  while (!came) // nothing here that the runtime could see
    ;
  pool->data = 42; // MARK
#ifndef BAD
  persist(&pool->data);
#endif
  pool->ready = 1;
  persist(&pool->ready);
  return 0;
}
"#;

/// A timer's signal also reaches a program that waits for it in its own loop.
#[test]
fn timers() {
    let place = Place::new();
    place.write("timer.c", TIMER);
    place.run("gcc", &["-g", "-O1", "timer.c", "-o", "good"]);
    place.check(&["--pm-path", ".", "./good"]).is(0, "clean");
    place.run("gcc", &["-g", "-O1", "-DBAD", "timer.c", "-o", "bad"]);
    place.check(&["--pm-path", ".", "./bad"]).is(1, &format!("timer.c:{}", marked(TIMER)));
}

const STREAM: &str = r#"
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
int main() {
  std::string line;
  if (std::filesystem::exists("settings")) {
    std::ifstream in("settings");
    return !std::getline(in, line) || line != "a=1";
  }
  { std::ofstream out("settings.new"); out << "a=" << 1 << "\n"; } // MARK
#ifndef BAD
  int file = open("settings.new", O_RDONLY);
  fsync(file);
#endif
  std::filesystem::rename("settings.new", "settings");
  int directory = open(".", O_RDONLY);
  return fsync(directory);
}
"#;

const SORTED: &str = r#"
#include "pool.h"
#include <algorithm>
#include <new>
#include <string>
struct s { long sorted[8]; long values[64]; alignas(64) char name[sizeof(std::string)]; };
int main() {
  s *p = static_cast<s *>(pool(4096));
  std::string *name = reinterpret_cast<std::string *>(p->name), wanted(40, 'n');
  if (p->sorted[0]) {
    for (int i = 0; i < 64; i++)
      if (p->values[i] != i + 1)
        return 1;
#ifdef NAME
    return *name != wanted;
#endif
    return 0;
  }
  for (int i = 0; i < 64; i++)
    p->values[i] = i * 27 % 64 + 1;
  persist(p->values, sizeof p->values);
  std::sort(p->values, p->values + 64); // SORT
#ifndef BAD
  persist(p->values, sizeof p->values);
#endif
#ifdef NAME
  new (name) std::string(wanted); // NAME
  persist(name, sizeof *name);
#endif
  p->sorted[0] = 1;
  persist(p->sorted, 8);
}
"#;

/// Findings in a template that was not inlined, and in a library without debug information, are reported where the program
/// calls it.
#[test]
fn findings_in_templates_are_told_where_they_are_called() {
    let place = Place::new();
    place.write("sorted.cpp", SORTED);
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../tests/plain");
    let line = |mark: &str| {
        let at = SORTED.lines().position(|line| line.ends_with(mark)).expect("a mark");
        format!("sorted.cpp:{}", at + 1)
    };
    for optimization in ["-O0", "-O2"] {
        place.run("g++", &["-g", optimization, include, "sorted.cpp", "-o", "good"]);
        place.check(&["--pm-path", ".", "./good"]).is(0, "clean");
        place.run("g++", &["-g", optimization, include, "-DBAD", "sorted.cpp", "-o", "bad"]);
        let bad = place.check(&["--pm-path", ".", "./bad"]);
        bad.is(1, "never flushed");
        assert!(place_of(&bad).contains(&line("// SORT")), "{}", bad.text);
        place.run("g++", &["-g", optimization, include, "-DNAME", "sorted.cpp", "-o", "name"]);
        let name = place.check(&["--pm-path", ".", "./name"]);
        name.is(1, "volatile-pointer");
        assert!(place_of(&name).contains(&line("// NAME")), "{}", name.text);
    }
}

/// Findings in a library without debug information are reported where the program calls it.
#[test]
fn findings_in_libraries_are_told_where_they_are_called() {
    let place = Place::new();
    place.write("stream.cpp", STREAM);
    place.run("g++", &["-g", "stream.cpp", "-o", "good"]);
    place.check(&["--medium", "disk", "./good"]).is(0, "clean");
    place.run("g++", &["-g", "-DBAD", "stream.cpp", "-o", "bad"]);
    let bad = place.check(&["--medium", "disk", "./bad"]);
    bad.is(1, "never synced");
    assert!(place_of(&bad).contains(&format!("stream.cpp:{}", marked(STREAM))), "{}", bad.text);
}

/// Typical programs get the verdict and the line of the rebuilt program, optimized or not.
#[test]
fn plain_programs_are_judged_as_rebuilt_ones() {
    let place = Place::new();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/plain");
    let mut sources: Vec<PathBuf> =
        fs::read_dir(&programs).expect("programs").map(|entry| entry.expect("an entry").path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension != "h"));
    sources.sort();
    assert!(sources.len() >= 20);
    let include = format!("-I{}", programs.display());
    let line = |outcome: &Outcome| place_of(outcome).rsplit_once(':').map(|(line, _)| line.to_owned());
    for (number, path) in sources.iter().enumerate() {
        let source = path.file_name().and_then(|name| name.to_str()).expect("a name");
        fs::copy(path, place.path(source)).expect("a copy");
        let cpp = source.ends_with(".cpp");
        // Both ways of compiling, each for every second program.
        let optimization = ["-O0", "-O2"][number % 2];
        let common = ["-g", optimization, &include, "-mcx16", "-mclflushopt", source, "-lpthread", "-o"];
        let compiler = if cpp { "g++" } else { "gcc" };
        place.run(compiler, &[&common[..], &["good"]].concat());
        let good = place.check(&["--pm-path", ".", "./good"]);
        assert_eq!(good.code, 0, "{source}: {}", good.text);
        place.run(compiler, &[&common[..], &["bad", "-DBAD"]].concat());
        let driver = testing::tools().join(if cpp { "crashproof-c++" } else { "crashproof-cc" });
        place.run(driver.to_str().expect("a path"), &[&common[..], &["rebuilt", "-DBAD"]].concat());
        let (bad, rebuilt) =
            (place.check(&["--pm-path", ".", "./bad"]), place.check(&["--pm-path", ".", "./rebuilt"]));
        assert_eq!((bad.code, rebuilt.code), (1, 1), "{source}: {}\n{}", bad.text, rebuilt.text);
        assert_eq!(line(&bad), line(&rebuilt), "{source}: {}\n{}", bad.text, rebuilt.text);
    }
}

const FLAG: &str = r#"
#include "pool.h"
#include <pthread.h>
#include <stdatomic.h>
struct s { long data[8], commit[8], begun[8]; };
static struct s *s;
static atomic_int flag;
static void *commit(void *unused) {
  if (atomic_load_explicit(&flag, memory_order_acquire)) {
    s->commit[0] = 1;
    persist(&s->commit[0], 8);
  }
  return unused;
}
static void *store(void *unused) {
  s->data[0] = 9;
  CORRECT(persist(&s->data[0], 8));
  atomic_store_explicit(&flag, 1, memory_order_release);
  persist(&s->data[0], 8);
  return unused;
}
int main(void) {
  s = pool(4096);
  assert(!s->commit[0] || s->data[0] == 9);
  if (s->begun[0])
    return 0;
  s->begun[0] = 1;
  persist(&s->begun[0], 8);
  pthread_t t[2];
  pthread_create(&t[0], 0, commit, 0);
  pthread_create(&t[1], 0, store, 0);
  pthread_join(t[0], 0);
  pthread_join(t[1], 0);
}
"#;

/// Results that each thread leaves for the joining one, and a list behind a lock: communication whose order does not
/// matter.
const LOCKED: &str = r#"
#include "pool.h"
#include <pthread.h>
struct s { long count[8], sum[8], begun[8]; };
static struct s *s;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct node { long value; struct node *next; } *head;
static long total, results[2];
static void *work(void *number) {
  struct node *node = malloc(sizeof *node);
  node->value = (long)number + 1;
  pthread_mutex_lock(&mutex);
  node->next = head;
  head = node;
  total += node->value;
  s->sum[0] = total;
  CORRECT(persist(&s->sum[0], 8));
  s->count[0]++;
  persist(&s->count[0], 8);
  pthread_mutex_unlock(&mutex);
  results[(long)number] = node->value;
  return 0;
}
int main(void) {
  s = pool(4096);
  assert(s->count[0] < 1 || s->sum[0] > 0);
  if (s->begun[0])
    return 0;
  s->begun[0] = 1;
  persist(&s->begun[0], 8);
  pthread_t t[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&t[i], 0, work, (void *)i);
  for (long i = 0; i < 2; i++)
    pthread_join(t[i], 0);
  assert(results[0] + results[1] == 3);
}
"#;

/// Threads that were not rebuilt communicate through a flag with plain loads and stores: both orders are explored.
/// Threads that protect shared data with locks need no additional schedules.
#[test]
fn plain_accesses_of_volatile_memory_are_explored() {
    let place = Place::new();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../tests/plain");
    for (name, text) in [("flag", FLAG), ("locked", LOCKED)] {
        place.write(&format!("{name}.c"), text);
        for level in ["-O0", "-O2"] {
            let source = format!("{name}.c");
            let build = |more: &[&str]| {
                let options = ["-g", level, include, "-mclflushopt", &source, "-lpthread", "-o", name];
                place.run("gcc", &[&options[..], more].concat());
            };
            build(&[]);
            place.check(&["--pm-path", ".", &format!("./{name}")]).is(0, ": all 2 schedules,");
            build(&["-DBAD"]);
            place.check(&["--pm-path", ".", &format!("./{name}")]).is(1, "can be lost");
        }
    }
}

const STARTS_ITSELF: &str = r#"
#include "pool.h"
#include <spawn.h>
#include <sys/wait.h>
extern char **environ;
int main(int count, char **words) {
  long *s = pool(4096);
  if (count > 1) {
    s[0] = 5;
    persist(s, 8);
    return 0;
  }
  if (s[8])
    return s[0] != 5;
  pid_t child;
  char *arguments[] = {words[0], "child", 0};
  if (posix_spawn(&child, "/proc/self/exe", 0, 0, arguments, environ))
    return 9;
  int status;
  waitpid(child, &status, 0);
  s[8] = 1;
  persist(&s[8], 8);
}
"#;

/// A program that starts itself again shares its files with the new process: those stores are not seen, and no error.
#[test]
fn a_program_that_starts_itself() {
    let place = Place::new();
    place.write("itself.c", STARTS_ITSELF);
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../tests/plain");
    place.run("gcc", &["-g", "-O1", include, "-mclflushopt", "itself.c", "-o", "itself"]);
    place.check(&["--pm-path", ".", "./itself"]).is(3, "started");
}
