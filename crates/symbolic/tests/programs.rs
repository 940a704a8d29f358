//! C programs with what is expected of them: `//!` lines say the verdict, the line it is about and words of the
//! message; `options` sets bounds and asks for robustness, `arguments` and `stdin` are what the program is given.

use std::path::{Path, PathBuf};

use crashproof_prove::encode::{CrashEncoding, Settings};
use crashproof_prove::prove::{self, Verdict};
use crashproof_symbolic::{Flushes, Options, Pool};
use px86::Domain;

struct Expected {
    verdict: String,
    line: u32,
    words: String,
    options: Options,
    robust: bool,
}

fn expected(text: &str) -> Expected {
    let options = Options::default();
    let mut expected =
        Expected { verdict: String::new(), line: 0, words: String::new(), options, robust: false };
    for line in text.lines().filter_map(|line| line.strip_prefix("//! ")) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "options" {
            for option in rest.split_whitespace() {
                let (name, value) = option.split_once('=').expect("name=value");
                let value: u32 = value.parse().expect("a number");
                match name {
                    "unwind" => expected.options.unwind = value,
                    "recursion" => expected.options.recursion = value,
                    "robust" => expected.robust = value == 1,
                    "eadr" => expected.options.domain = Domain::Eadr,
                    "flush_every_access" => expected.options.flushes = Flushes::EveryAccess,
                    "no_flushes" => expected.options.flushes = Flushes::None,
                    "approximate" => expected.options.approximate = value == 1,
                    "pool_created" => expected.options.pool = Pool::Created,
                    other => panic!("option `{other}`"),
                }
            }
            continue;
        }
        match word {
            "arguments" => expected.options.arguments = rest.split(' ').map(str::to_owned).collect(),
            "stdin" => expected.options.stdin = Some(rest.replace("\\n", "\n").into_bytes()),
            _ => {}
        }
        if matches!(word, "arguments" | "stdin") {
            continue;
        }
        expected.verdict = word.to_owned();
        let (line, words) = rest.split_once(' ').unwrap_or(("0", ""));
        expected.line = line.parse().expect("a line");
        expected.words = words.to_owned();
    }
    expected
}

/// What is wrong with the answer for a file, if something is.
fn complaint(file: &Path, options: &prove::Options) -> Option<String> {
    let text = std::fs::read_to_string(file).expect("readable");
    let expected = expected(&text);
    let program = match crashproof_symbolic::program(&[file.to_owned()], Vec::new(), &expected.options) {
        Ok(program) => program,
        Err(error) => return Some(error.to_string()),
    };
    let settings = Settings { domain: expected.options.domain, ..options.settings };
    let options = &prove::Options { settings, ..*options };
    let report = if expected.robust {
        crashproof_prove::robust::prove(&program, options)
    } else {
        prove::prove(&program, options)
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => return Some(error.to_string()),
    };
    let (verdict, line, words) = match &report.verdict {
        Verdict::Holds => ("holds", 0, String::new()),
        Verdict::Violated(counterexample) => {
            ("refuted", counterexample.site.line, counterexample.message.clone())
        }
        Verdict::Unknown(reasons) => {
            let reason = &reasons[0];
            ("unknown", reason.site.as_ref().map_or(0, |site| site.line), reason.text.clone())
        }
    };
    // Of several claims that can fail, which one is found is settled only for those who take them in order.
    let place = options.look == 0 || line == expected.line && words.contains(&expected.words);
    let fits = verdict == expected.verdict && place;
    (!fits).then(|| format!("{verdict} {line} {words}"))
}

#[test]
fn programs_are_answered_as_they_say() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    assert!(files.len() > 20, "{} programs", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        // All claims at once, then, with no patience for that, one by one and by several.
        let at_once = prove::Options::default();
        let partial = Settings { crash: CrashEncoding::Partial, ..Settings::default() };
        for (name, options) in [
            ("full", at_once),
            ("partial", prove::Options { settings: partial, ..at_once }),
            ("one by one", prove::Options { look: 0, ..at_once }),
            ("by three", prove::Options { look: 0, helpers: 2, ..at_once }),
        ] {
            if let Some(complaint) = complaint(file, &options) {
                wrong.push(format!("{} ({name}): {complaint}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

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
        assert!(error.to_string().contains("is no LLVM 22 bitcode"), "{name}: {error}");
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

/// C++ has other names, calls that may throw, and memory from `new`.
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
