//! Inputs that are not programs, and what is reported about a program besides its verdict. Verdicts are in
//! `tests/programs` at the root.

use crashproof_prove::prove::{self, Verdict};
use crashproof_symbolic::Options;

#[test]
fn what_is_no_bitcode_is_said_to_be_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = directory.path().join("good.c");
    std::fs::write(&good, "int main(void) { return 0; }").expect("written");
    for (name, content) in [
        ("text.ll", b"define i32 @main( {".to_vec()),
        ("magic.bc", b"BC\xc0\xde\x01\x02\x03\x04garbage that is not a bit stream".to_vec()),
        ("type.ll", b"define i32 @main() { ret i64 0 }".to_vec()),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, content).expect("written");
        let error = crashproof_symbolic::program(&[file], Vec::new(), &Options::default()).expect_err(name);
        assert!(error.to_string().contains("is not LLVM 22 bitcode"), "{name}: {error}");
    }
    let empty = directory.path().join("empty.bc");
    std::fs::write(&empty, "").expect("written");
    let error = crashproof_symbolic::program(&[empty], Vec::new(), &Options::default());
    assert_eq!(error.expect_err("empty").to_string(), "there is no function main");
    let error = crashproof_symbolic::program(&[good.clone(), good], Vec::new(), &Options::default());
    assert!(error.expect_err("two mains").to_string().contains("cannot be linked"));
}

#[test]
fn a_program_that_does_not_compile_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("broken.c");
    std::fs::write(&file, "int main(void) { return }").expect("written");
    let error = crashproof_symbolic::program(&[file], Vec::new(), &Options::default()).expect_err("broken");
    let text = error.to_string();
    assert!(text.contains("broken.c") && text.contains("error:"), "{text}");
}

#[test]
fn what_is_assumed_about_places_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    for (globals, assumed) in [
        ("PERSISTENT long a, b;", Some("that `a` begins a cache line")),
        ("PERSISTENT struct { long x, y; } pair;", Some("that `pair` begins a cache line")),
        ("PERSISTENT long a, b __attribute__((aligned(64)));", None),
        ("PERSISTENT long a;", None),
    ] {
        let file = directory.path().join("placed.c");
        let text = format!("#include <crashproof.h>\n{globals}\nint main(void) {{ return 0; }}");
        std::fs::write(&file, text).expect("written");
        let program =
            crashproof_symbolic::program(&[file], Vec::new(), &Options::default()).expect("a program");
        match assumed {
            Some(assumed) => assert!(program.assumptions[0].contains(assumed), "{:?}", program.assumptions),
            None => assert!(program.assumptions.is_empty(), "{globals}: {:?}", program.assumptions),
        }
    }
}

#[test]
fn what_is_no_source_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("main.rs");
    std::fs::write(&file, "fn main() {}").expect("written");
    let error = crashproof_symbolic::program(&[file], Vec::new(), &Options::default()).expect_err("Rust");
    assert!(error.to_string().contains("main.rs is neither C or C++"), "{error}");
}

/// C++ has mangled names, calls that may throw, and memory from `new`.
#[test]
fn plain_programs_in_cpp_are_proved() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("list.cpp");
    let text = r#"
#include <atomic>
#include <crashproof.h>
struct Node { long value; Node *next; };
PERSISTENT std::atomic<Node *> head;
struct Counter { long *count = new long(0); ~Counter() { delete count; } };
template <typename Value> static void put(Value value, Counter &counter) {
  Node *node = static_cast<Node *>(crashproof_alloc(sizeof(Node)));
  node->value = value;
  node->next = head.load();
  FLUSH;
  head.store(node, std::memory_order_release);
  ++*counter.count;
}
int main() {
  Counter counter;
  put(4L, counter);
  put(5, counter);
  crashproof_assert(*counter.count == 2);
}
void recover() {
  for (Node *node = head; node; node = node->next)
    crashproof_assert(node->value >= 4);
}
"#;
    std::fs::write(&file, text).expect("written");
    for (flush, holds) in [("crashproof_persist(node,sizeof*node)", true), ("(void)0", false)] {
        let define = vec![format!("-DFLUSH={flush}").into()];
        let program = crashproof_symbolic::program(std::slice::from_ref(&file), define, &Options::default());
        let report =
            prove::prove(&program.expect("a program"), &prove::Options::default()).expect("a report");
        match report.verdict {
            Verdict::Holds => assert!(holds, "{flush}"),
            Verdict::Violated(_) => assert!(!holds, "{flush}"),
            Verdict::Unknown(reasons) => panic!("{flush}: {reasons:?}"),
        }
    }
}

#[test]
fn parts_of_globals_are_called_by_their_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("names.c");
    let text = r#"
#include <crashproof.h>
typedef struct { int key; unsigned low : 3, high : 5; union { long a, b; } both; } entry;
PERSISTENT struct { const volatile entry entries[2][3]; _Atomic long used; char text[5]; } table;
int main() { return (int)table.used; }
"#;
    std::fs::write(&file, text).expect("written");
    let options = Options { no_recovery: true, ..Options::default() };
    let program = crashproof_symbolic::program(&[file], Vec::new(), &options).expect("a program");
    let table = program.objects.iter().find(|object| object.name == "table").expect("the global");
    for (offset, name) in [
        (0, "table.entries[0][0].key"),
        (4, "table+4"),
        (8, "table.entries[0][0].both"),
        (4 * 16 + 12, "table.entries[1][1].both+4"),
        (6 * 16, "table.used"),
        (6 * 16 + 10, "table.text[2]"),
    ] {
        assert_eq!(program.name_of(table.address + offset), name);
    }
}
