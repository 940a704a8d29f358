//! `crashproof lint` and `crashproof cc --lint` as projects use them: every kind of input, accepted findings, and
//! invalid input.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// One finding, at `late`.
const BAD: &str = "\
#include <immintrin.h>

struct pair {
  long first;
  char pad[56];
  long late;
};

void set(struct pair *pair) {
  pair->first = 1;
  _mm_clwb(&pair->first);
  _mm_sfence();
  pair->late = 2;
}
";

fn command(directory: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include());
    command
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn run(directory: &Path, arguments: &[&str], code: i32) -> String {
    let output =
        command(directory, env!("CARGO_BIN_EXE_crashproof")).args(arguments).output().expect("it runs");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{text}");
    text
}

fn project(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, content) in files {
        write(directory.path(), name, content);
    }
    directory
}

fn write(directory: &Path, name: &str, content: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(path, content).expect("written");
}

fn contains(text: &str, all: &[&str]) {
    for expected in all {
        assert!(text.contains(expected), "no `{expected}` in:\n{text}");
    }
}

/// Compiles with the tool's own clang, without the tool.
fn clang(directory: &Path, arguments: &[&str]) {
    let clang = crashproof_toolchain::toolchain::find_clang().expect("clang");
    let output =
        command(directory, clang.to_str().expect("a name")).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn cxx_with_exceptions_templates_and_virtual_functions() {
    let source = "\
#include <immintrin.h>
#include <memory>
#include <stdexcept>

struct Node { long key; char pad[120]; Node *next; };

template <typename T> void persist(const T &what) { _mm_clwb((void *)&what); _mm_sfence(); }

struct Policy {
  virtual ~Policy() = default;
  virtual void made(Node *node) = 0;
};

struct Careful final : Policy {
  void made(Node *node) override { persist(node->next); }
};

struct Store {
  std::unique_ptr<Policy> policy = std::make_unique<Careful>();
  void put(Node *node, long key) {
    if (key < 0) throw std::invalid_argument(\"key\");
    node->key = key;
    persist(node->key);
    node->next = node + 1;
    policy->made(node);
  }
  void forget(Node *node) {
    node->key = 0;
    persist(node->key);
    node->next = nullptr;
  }
};

void use(Store &store, Node *node) { store.put(node, 1); store.forget(node); }
";
    let project = project(&[("store.cpp", source)]);
    let text = run(project.path(), &["lint", "store.cpp"], 1);
    // The virtual function writes back what `put` stored; nothing writes back what `forget` stored.
    contains(&text, &["`node->next` is stored to, but never written back", "store.cpp:30:5", "1 error"]);
}

#[test]
fn rust_alone_and_as_a_crate_with_a_dependency() {
    let flush = "\
use std::arch::x86_64::{_mm_clflush, _mm_sfence};
pub fn persist<T>(what: &T) {
    unsafe { _mm_clflush((&raw const *what).cast()); _mm_sfence(); }
}
";
    let user = "\
#[repr(C)]
pub struct Pair { pub first: u64, pub pad: [u64; 15], pub late: u64 }
pub struct Pool<'a> { pub pair: &'a mut Pair }
impl Pool<'_> {
    pub fn set(&mut self, value: u64) {
        self.pair.first = value;
        persist(&self.pair.first);
        self.pair.late = value;
    }
    pub fn both(&mut self, value: u64) {
        self.pair.late = value;
        persist(&self.pair.late);
    }
}
";
    let alone = format!("{flush}{user}");
    let manifest = "[package]\nname = 'user'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\nflush = { path = 'flush' }\n";
    let dependency = "[package]\nname = 'flush'\nversion = '0.1.0'\nedition = '2024'\n";
    let project = project(&[
        ("alone.rs", &alone),
        ("Cargo.toml", manifest),
        ("flush/Cargo.toml", dependency),
        ("flush/src/lib.rs", flush),
        ("src/lib.rs", &format!("use flush::persist;\n{user}")),
    ]);
    let expected = "`self.pair.late` is stored to, but never written back";
    let text = run(project.path(), &["lint", "alone.rs"], 1);
    contains(&text, &[expected, "alone.rs:12:9", "1 error"]);
    let text = run(project.path(), &["lint", "Cargo.toml"], 1);
    contains(&text, &[expected, "src/lib.rs:9:9", "1 error"]);
    let text = run(project.path(), &["lint", ".", "--", "--no-such-option"], 2);
    contains(&text, &["does not compile", "--no-such-option"]);
    write(project.path(), "src/lib.rs", "pub fn broken( {");
    contains(&run(project.path(), &["lint", "."], 2), &["Cargo.toml does not compile", "src/lib.rs:1"]);
}

#[test]
fn bitcode_with_and_without_places() {
    let project = project(&[("bad.c", BAD)]);
    let at = project.path();
    clang(at, &["-c", "-emit-llvm", "-mclwb", "-O2", "-g", "bad.c", "-o", "with.bc"]);
    clang(at, &["-S", "-emit-llvm", "-mclwb", "-O0", "bad.c", "-o", "without.ll"]);
    contains(&run(at, &["lint", "with.bc"], 1), &["bad.c:13"]);
    let text = run(at, &["lint", "without.ll"], 1);
    contains(&text, &["stored to, but never written back", "without debug information", "without.ll"]);
}

#[test]
fn bitcode_that_cannot_be_read_is_named() {
    let project =
        project(&[("bad.c", BAD), ("later.ll", "define void @f() { something.new }\n"), ("no.bc", "BC")]);
    let at = project.path();
    contains(&run(at, &["lint", "later.ll"], 2), &["later.ll cannot be read as bitcode of LLVM 22", "1:20"]);
    contains(&run(at, &["lint", "no.bc"], 2), &["no.bc cannot be read as bitcode of LLVM 22"]);
    clang(at, &["-c", "-emit-llvm", "-mclwb", "bad.c", "-o", "whole.bc"]);
    let whole = std::fs::read(at.join("whole.bc")).expect("bitcode");
    std::fs::write(at.join("part.bc"), &whole[..whole.len() / 2]).expect("written");
    contains(&run(at, &["lint", "part.bc"], 2), &["part.bc cannot be read"]);
    contains(&run(at, &["lint", "absent.c"], 2), &["cannot read absent.c"]);
    contains(&run(at, &["lint", "."], 2), &["what is this?"]);
}

#[test]
fn several_sources_are_one_program() {
    let flush = "#include <immintrin.h>\nvoid write_back(void *line) { _mm_clwb(line); _mm_sfence(); }\n";
    let caller = "\
struct pair { long first; char pad[56]; long late; };
void write_back(void *line);
void set(struct pair *pair) { pair->first = 1; write_back(&pair->first); }
void half(struct pair *pair) { pair->first = 1; write_back(&pair->first); pair->late = 1; }
";
    let unknown = BAD.replace("pair->late = 2;", "pair->late = 2; write_back(&pair->late);");
    let unknown = format!("void write_back(void *line);\n{unknown}");
    let project = project(&[("flush.c", flush), ("caller.c", caller), ("unknown.c", &unknown)]);
    let text = run(project.path(), &["lint", "flush.c", "caller.c"], 1);
    contains(&text, &["`pair->late` is stored to", "caller.c:4:75", "1 error"]);
    // Alone, the other function's use of its arguments is unknown.
    let text = run(project.path(), &["lint", "unknown.c"], 3);
    contains(&text, &["PM passed to the unknown function `write_back`", "(unknown.c:"]);
}

#[test]
fn a_constructor_of_another_source_is_known_by_each_of_its_names() {
    let header =
        "struct Log { long first; char pad[56]; long late; Log(); };\nstruct Child : Log { Child(); };\n";
    let log = "\
#include \"log.h\"
#include <immintrin.h>
Log::Log() { first = 1; _mm_clwb(&first); _mm_sfence(); late = 2; }
";
    let child = "#include \"log.h\"\nChild::Child() : Log() {}\n";
    let user = "\
#include \"log.h\"
#include <new>
void open(char *pool) { new (pool) Log; }
";
    let sources = [("log.h", header), ("log.cc", log), ("child.cc", child), ("user.cc", user)];
    let project = project(&sources);
    // In every order: a source that calls it by one or both names may precede the one that defines it.
    for order in [
        ["log.cc", "child.cc", "user.cc"],
        ["user.cc", "log.cc", "child.cc"],
        ["child.cc", "user.cc", "log.cc"],
    ] {
        let arguments: Vec<&str> = ["lint", "--cflags", "-mclwb"].into_iter().chain(order).collect();
        let text = run(project.path(), &arguments, 1);
        contains(&text, &["late` is stored to", "log.cc:3:"]);
        assert!(!text.contains("unknown function"), "{order:?}: {text}");
    }
}

#[test]
fn programs_that_define_the_same_are_kept_apart() {
    let program =
        |late: &str| format!("{BAD}int main(void) {{ static struct pair p; set(&p); {late} return 0; }}\n");
    let project = project(&[("one.c", &program("")), ("two.c", &program("p.late = 3;"))]);
    let text = run(project.path(), &["lint", "one.c", "two.c"], 3);
    contains(&text, &["defined by several modules, each of which is taken to use its own: main, set"]);
    // An ordinary variable is volatile, even if flushed.
    contains(&text, &["no persistent memory found"]);
}

#[test]
fn a_compilation_database_in_all_its_forms() {
    let assembly = "nop\n";
    let project = project(&[
        ("src/a.c", BAD),
        ("src/b.cc", &BAD.replace("void set", "void set_again").replace("pair->late = 2;", "")),
        ("src/c.c", "#include \"defined.h\"\nint c = DEFINED;\n"),
        ("src/broken.c", "int f( {\n"),
        ("src/start.S", assembly),
        ("include/defined.h", "#define DEFINED 1\n"),
        ("build/options.rsp", "-O3 -o b.o -mclwb @more.rsp"),
        ("build/more.rsp", "'-DSPACES=\"a b\"' -MD -MF b.d"),
    ]);
    let at = project.path();
    let source = |name: &str| at.join("src").join(name).display().to_string();
    let database = serde_json::json!([
        { "directory": ".", "file": "../src/a.c",
          "command": "ccache gcc-12 -Wall -Werror -O2 -fconserve-stack -mclwb -DX='a b' -c ../src/a.c -o a.o -MMD -MF a.d" },
        { "directory": at.join("build"), "file": source("b.cc"),
          "arguments": ["/usr/bin/g++", "@options.rsp", "-c", source("b.cc")] },
        { "directory": "../src", "file": "c.c", "arguments": ["clang", "-I", "../include", "-c", "c.c"] },
        { "directory": "../src", "file": "broken.c", "command": "cc -c broken.c" },
        { "directory": "../src", "file": "start.S", "command": "cc -c start.S" },
    ]);
    write(at, "build/compile_commands.json", &database.to_string());
    let text = run(at, &["lint", "build/compile_commands.json"], 1);
    contains(
        &text,
        &["src/a.c:13", "1 error", "src/broken.c does not compile", "expected parameter declarator"],
    );
    contains(&text, &["clang does not know were left out: -fconserve-stack", "not read: start.S"]);
    // The build directory belongs to the user's build.
    let mut left: Vec<_> = std::fs::read_dir(at.join("build"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    left.sort();
    assert_eq!(left, ["compile_commands.json", "more.rsp", "options.rsp"]);
    // Without findings, a source that does not compile still prevents a clean verdict.
    write(at, "src/a.c", "int nothing;\n");
    run(at, &["lint", "build/compile_commands.json"], 3);
}

#[test]
fn a_compilation_database_that_is_none() {
    let project = project(&[
        ("compile_commands.json", "{}"),
        ("x.json", "[{\"directory\": \".\", \"file\": \"a.c\"}]"),
        ("e.json", "[]"),
    ]);
    let at = project.path();
    contains(
        &run(at, &["lint", "compile_commands.json"], 2),
        &["this is not a compilation database", "line 1"],
    );
    contains(
        &run(at, &["lint", "x.json"], 2),
        &["the entry of a.c: it has neither `arguments` nor `command`"],
    );
    contains(&run(at, &["lint", "e.json"], 2), &["it has no entries"]);
}

#[test]
fn while_compiling_findings_are_warnings() {
    let project = project(&[("bad.c", BAD), ("broken.c", "int f( {\n")]);
    let at = project.path();
    let text = run(at, &["cc", "--lint", "-O2", "-mclwb", "-c", "bad.c", "-o", "bad.o"], 0);
    contains(
        &text,
        &["bad.c:13:14: warning: `pair->late` is stored to, but never written back [unflushed-write]"],
    );
    assert!(at.join("bad.o").exists());
    let text = run(at, &["cc", "--lint-deny", "-mclwb", "-c", "bad.c", "-o", "bad.o"], 1);
    contains(&text, &["bad.c:13:14: error: "]);
    // clang reports its own errors.
    contains(&run(at, &["cc", "--lint", "-c", "broken.c"], 1), &["broken.c:1:8: error: "]);
    // Accepted findings are those of the project.
    write(at, "crashproof.toml", "[[suppress]]\nrule = 'unflushed-write'\nreason = 'known'\n");
    assert_eq!(run(at, &["cc", "--lint-deny", "-mclwb", "-c", "bad.c", "-o", "bad.o"], 0), "");
}

#[test]
fn make_with_several_jobs_and_cmake() {
    let makefile = "all: a.o b.o c.o d.o\n%.o: %.c\n\t$(CC) -O2 -mclwb -c $< -o $@\n";
    let cmake = "cmake_minimum_required(VERSION 3.13)\nproject(x C)\nadd_compile_options(-mclwb)\nadd_library(x STATIC a.c b.c)\n";
    let file = |name: &str| BAD.replace("void set", &format!("void set_{name}"));
    let project = project(&[
        ("a.c", &file("a")),
        ("b.c", &file("b")),
        ("c.c", &file("c")),
        ("d.c", &file("d")),
        ("Makefile", makefile),
        ("CMakeLists.txt", cmake),
    ]);
    let at = project.path();
    let compiler = format!("{} cc --lint", env!("CARGO_BIN_EXE_crashproof"));
    let made = command(at, "make").args(["-j4", &format!("CC={compiler}")]).output().expect("make");
    assert!(made.status.success(), "{}", text(&made));
    for name in ["a", "b", "c", "d"] {
        contains(&text(&made), &[&format!("{name}.c:13:14: warning: `pair->late`")]);
    }
    let configured = command(at, "cmake")
        .args(["-B", "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"])
        .env("CC", compiler)
        .output()
        .expect("cmake");
    assert!(configured.status.success(), "{}", text(&configured));
    let built = command(at, "cmake").args(["--build", "build"]).output().expect("cmake");
    assert!(built.status.success(), "{}", text(&built));
    contains(&text(&built), &["a.c:13:14: warning: ", "b.c:13:14: warning: "]);
    let text = run(at, &["lint", "build/compile_commands.json"], 1);
    contains(&text, &["a.c:13:3", "b.c:13:3", "2 errors"]);
}

#[test]
fn what_is_suppressed_or_known_does_not_count() {
    let project = project(&[("src/bad.c", BAD)]);
    let at = project.path();
    let text = run(at, &["lint", "src/bad.c", "--format", "json", "--", "-mclwb"], 1);
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let fingerprint = report["findings"][0]["fingerprint"].as_str().expect("a fingerprint").to_owned();
    for selector in [
        "rule = 'unflushed-write'",
        "path = 'src/*.c'",
        "function = 'se*'",
        &format!("fingerprint = '{fingerprint}'"),
    ] {
        write(at, "crashproof.toml", &format!("[[suppress]]\n{selector}\nreason = 'ticket 7'\n"));
        contains(&run(at, &["lint", "src/bad.c"], 0), &["1 finding suppressed"]);
        contains(&run(at, &["lint", "-v", "src/bad.c"], 0), &["(suppressed: ticket 7) src/bad.c:"]);
    }
    let other = "[[suppress]]\nrule = 'unflushed-write'\nfunction = 'other'\nreason = 'gone'\n";
    write(at, "crashproof.toml", other);
    contains(&run(at, &["lint", "src/bad.c"], 1), &["crashproof.toml:1: unused suppression (reason: gone)"]);
    std::fs::remove_file(at.join("crashproof.toml")).expect("removed");
    run(at, &["lint", "src/bad.c", "--write-baseline", "known.json"], 0);
    contains(
        &run(at, &["lint", "src/bad.c", "--baseline", "known.json"], 0),
        &["1 finding known from the baseline"],
    );
    // Lines may move; a new store is a new finding.
    write(at, "src/bad.c", &format!("// moved\n\n{BAD}"));
    run(at, &["lint", "src/bad.c", "--baseline", "known.json"], 0);
    write(at, "src/bad.c", &BAD.replace("pair->late = 2;", "pair->pad[50] = 2;"));
    contains(
        &run(at, &["lint", "src/bad.c", "--baseline", "known.json"], 1),
        &["one finding of the baseline no longer occurs"],
    );
}

#[test]
fn an_enormous_function_is_unknown_by_name() {
    let mut body = String::new();
    for number in 0..40 {
        body.push_str(&format!("  if (c[{number}]) p[{}] = 1;\n", number * 8));
        body.push_str(&format!("  if (c[{}]) _mm_clwb(&p[{}]);\n", number + 40, number * 8));
    }
    let source = format!(
        "#include <immintrin.h>\nvoid enormous(long *p, const int *c) {{\n{body}  _mm_sfence();\n}}\n"
    );
    let clean = format!(
        "{}void small(long *p) {{ *p = 1; _mm_clwb(p); _mm_sfence(); }}\n",
        source.replace("if (c[0]) p[0] = 1;", "")
    );
    let project = project(&[("enormous.c", &clean)]);
    let output = command(project.path(), env!("CARGO_BIN_EXE_crashproof"))
        .args(["lint", "enormous.c", "--paths", "16", "--steps", "500"])
        .output()
        .expect("it runs");
    contains(&text(&output), &["not covered: `enormous`: ", "16 paths", "500 steps"]);
    // Findings on walked paths count; paths that were not walked never count as passed.
    assert!(matches!(output.status.code(), Some(1 | 3)), "{}", text(&output));
}

#[test]
fn a_verdict_about_nothing_is_unknown() {
    let pool = "\
#include <fcntl.h>
#include <sys/mman.h>
int main(void) {
  long *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(\"pool\", O_RDWR), 0);
  pool[0] = 1;
  return 0;
}
";
    let project =
        project(&[("none.c", "static int x;\nint main(void) { x = 1; return 0; }\n"), ("pool.c", pool)]);
    let at = project.path();
    contains(
        &run(at, &["lint", "none.c"], 3),
        &["no persistent memory found: ", "pmem_map_file", "--api FILE"],
    );
    // A file mapped shared is persistent, and the report states the evidence.
    contains(&run(at, &["lint", "pool.c"], 1), &["pool: mmap in main, pool.c:4", "unflushed-write"]);
    let text = run(at, &["lint", "none.c", "--format", "json"], 3);
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["verdict"], "unknown");
}

#[test]
fn descriptions_of_libraries() {
    let source = "\
void my_sync(const void *start, unsigned long bytes);
struct pair { long first; char pad[120]; long late; };
void set(struct pair *pair) { pair->first = 1; my_sync(&pair->first, 8); pair->late = 1; }
";
    let api = "framework = 'mine'\nabout = 'ours'\n\n[[function]]\nnames = ['my_sync']\n\
               effects = [{ do = 'flush', address = 0, length = 1 }, { do = 'fence' }]\n";
    let project =
        project(&[("a.c", source), ("mine.toml", api), ("broken.toml", &api.replace("'flush'", "'flash'"))]);
    let at = project.path();
    contains(&run(at, &["lint", "a.c", "--api", "mine.toml"], 1), &["`pair->late` is stored to", "1 error"]);
    contains(
        &run(at, &["lint", "--explain-api", "--api", "mine.toml"], 0),
        &["mine: ours", "my_sync: flushes"],
    );
    let text = run(at, &["lint", "a.c", "--api", "broken.toml"], 2);
    contains(&text, &["broken.toml:6: ", "unknown variant `flash`"]);
    contains(&run(at, &["lint", "a.c", "--api", "absent.toml"], 2), &["cannot read absent.toml"]);
}
