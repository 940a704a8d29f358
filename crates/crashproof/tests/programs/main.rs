//! The one tree of test programs: every program below `tests/programs` is judged by every engine.
//!
//! A program says in its `//@` lines what each engine must answer, and names the lines it speaks of by marks:
//! `// MARK: lost` or `/* MARK: lost */`. An engine that does not judge a program is skipped with a reason.
//!
//! ```text
//! //@ check: missing-flush at lost     a finding of that rule in the marked line; `fails` stands for any error
//! //@ check: fails at lost, survived committed, window lost..committed, primary (part of the message)
//! //@ lint: clean, no warnings         without `no warnings` they are allowed
//! //@ prove: proved | refuted at claim (part of the message)
//! //@ check: vacuous                   the program has no persistent memory to judge, or claims nothing of it
//! //@ prove: unknown at call (part of the reason)
//! //@ check: refused (part of the message)         exit code 2: it cannot be judged at all
//! //@ lint: skip (why this engine does not judge this program)
//! //@ lint: clean (known wrong: why)   the right answer, which the engine does not give yet
//! //@ robust: proved                   optional: `prove --robust`
//! //@ figures: 2 crash points, 2 recoveries        optional: how much work `check` is
//!
//! //@ cflags: -O2 -DDIR="{dir}"        for the compiler, all engines
//! //@ flags prove: --unwind 8          more options of one engine; {lost} is the number of the line marked lost
//! //@ args: {dir}/pool                 arguments of the program; {dir} is an empty directory of persistent memory
//! //@ stdin: 12 words\n                what the program reads from its standard input
//! //@ file old: some text              {dir}/old begins with this text before the run, and is there afterwards
//! //@ variant good: -DGOOD             what follows, up to the next variant, is for the program compiled like this
//! //@ tier: slow                       in the corpus: this variant is judged by `make corpus` alone
//! //@ like: Jaaru 13.1, PSan.6         in the corpus: rows of the papers' tables that this bug is like
//! ```
//!
//! `corpus.rs` says what the programs below `corpus` have instead of expectations, `mutate.rs` what `make mutate` does,
//! `compare.rs` what is measured as in the papers, `papers.rs` which of their bugs must have a counterpart.
//!
//! Every error must be listed, by as many lines as there are; lint must list its warnings, too, and check or prove
//! if they list one. Clauses behind `at`: `survived`, `read`, `crash`, `note`, `candidate` or `fix` with a mark (a
//! related place of that role is there), `window FROM..TO` and `primary` or `reader` (where the flush belongs, and
//! in whose thread). `at NAME.h` is any line of that file. What stands above the first variant is for all of them,
//! unless they say something of their own.
//!
//! A program that defines `void recover(void)` is recovered by it after a crash, in `check` as in `prove`. Without,
//! its `main` runs again.
//!
//! `cargo test -p crashproof --test programs -- NAME` runs some of them. `BLESS=1` (or `SNAPSHOTS=overwrite`, as
//! `make bless` says) writes what the engines answer now into the programs: read the diff, and mark what is wrong.
//! A `known wrong` answer that has become right fails the test, so that the words are removed.

mod bless;
mod compare;
mod corpus;
mod engines;
mod header;
mod mutate;
mod papers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use header::{Engine, Program};
use libtest_mimic::{Arguments, Failed, Trial};

/// Around the table of README that is made here.
const SHORT_BEGINS: &str = "<!-- made by `make corpus` -->\n";
const SHORT_ENDS: &str = "<!-- end -->\n";

/// How many expectations of one engine are of each kind.
type Tally = BTreeMap<(Engine, &'static str), usize>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs").canonicalize().expect("tests/programs")
}

fn collect(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory of programs") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, all);
        } else if path
            .extension()
            .is_some_and(|ending| ["c", "cpp", "rs"].iter().any(|known| ending == *known))
        {
            all.push(path);
        }
    }
}

/// Judges one variant by every engine; what differs from its expectations.
fn judge(program: &Program, variant: usize, tally: &Mutex<Tally>) -> Result<(), Failed> {
    let variant = &program.variants[variant];
    let mut wrong = Vec::new();
    for engine in Engine::ALL {
        let Some(expected) = variant.expected.get(&engine) else {
            if engine.required() {
                wrong.push(format!("{engine}: the program does not say what it must answer"));
            }
            continue;
        };
        let mut kind = expected.kind();
        if kind != "skipped" {
            let answer = engines::ask(engine, program, variant);
            let differs = expected.differs(program, variant, engine, &answer);
            match (&expected.known_wrong, differs) {
                (None, Some(difference)) => wrong.push(format!("{engine}: {difference}")),
                (None, None) => {}
                (Some(_), Some(_)) => kind = "known wrong",
                (Some(reason), None) => {
                    wrong.push(format!("{engine}: right now; remove `known wrong: {reason}`"));
                }
            }
        }
        *tally.lock().expect("no panic").entry((engine, kind)).or_default() += 1;
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn main() {
    let arguments = Arguments::from_args();
    let root = root();
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "there are programs");
    let tally = Arc::new(Mutex::new(Tally::new()));
    let blessing = std::env::var_os("BLESS").is_some_and(|value| value == "1")
        || std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite");
    let mode = std::env::var("CRASHPROOF_CORPUS").ok();
    let mode = mode.as_deref();
    let mut structures = Vec::new();
    let mut trials = Vec::new();
    for path in paths {
        let program = match Program::read(&root, &path) {
            Ok(program) => Arc::new(program),
            Err(error) => {
                let name = path.strip_prefix(&root).expect("below").display().to_string();
                trials.push(Trial::test(name, move || Err(error.into())));
                continue;
            }
        };
        let structure = corpus::is_corpus(&program);
        if structure {
            structures.push(program.clone());
        }
        if mode == Some("mutate") {
            if structure {
                let (name, program) = (program.name.clone(), program.clone());
                trials.push(Trial::test(name, move || Ok(mutate::trial(&program)?)));
            }
            continue;
        }
        if mode == Some("corpus") && !structure {
            continue;
        }
        if blessing && structure {
            let name = program.name.clone();
            trials.push(Trial::test(name, move || {
                corpus::bless(&program);
                Ok(())
            }));
            continue;
        }
        if blessing {
            let name = program.name.clone();
            trials.push(Trial::test(name, move || {
                bless::bless(&program);
                Ok(())
            }));
            continue;
        }
        for (index, variant) in program.variants.iter().enumerate() {
            let name = match variant.name.as_str() {
                "" => program.name.clone(),
                variant => format!("{}:{variant}", program.name),
            };
            if structure {
                if mode.is_some() || !variant.slow {
                    let program = program.clone();
                    let judge = move || corpus::trial(&program, &program.variants[index]);
                    trials.push(Trial::test(name, move || Ok(judge()?)));
                }
                continue;
            }
            let (program, tally) = (program.clone(), tally.clone());
            trials.push(Trial::test(name, move || judge(&program, index, &tally)));
        }
    }
    if mode == Some("corpus") {
        let (root, structures) = (root.clone(), structures.clone());
        trials.push(Trial::test("corpus/comparisons", move || {
            Ok(compare::trial(&root, &structures, blessing)?)
        }));
    }
    if mode != Some("mutate") && !blessing {
        let structures = structures.clone();
        trials.push(Trial::test("corpus/papers", move || {
            let missing = papers::missing(structures.iter().flat_map(|program| &program.variants));
            if missing.is_empty() { Ok(()) } else { Err(missing.join("\n").into()) }
        }));
    }
    if !arguments.list {
        crashproof_toolchain::testing::tools();
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for engine in Engine::ALL {
        let tally = tally.lock().expect("no panic");
        let kinds = tally.iter().filter(|((of, _), _)| *of == engine);
        let kinds: Vec<String> = kinds.map(|((_, kind), count)| format!("{count} {kind}")).collect();
        if !kinds.is_empty() {
            println!("{engine}: {}", kinds.join(", "));
        }
    }
    if mode == Some("corpus") {
        let table = corpus::Table::kept(&structures);
        let chapter = table.chapter() + &compare::sections(&root);
        println!("{chapter}");
        if let Some(book) = std::env::var_os("CRASHPROOF_CORPUS_BOOK").map(PathBuf::from) {
            let picture = book.with_file_name("corpus-growth.svg");
            std::fs::write(picture, compare::picture(&root)).expect("a picture that can be written");
            std::fs::write(book, chapter).expect("a chapter that can be written");
        }
        if let Some(readme) = std::env::var_os("CRASHPROOF_CORPUS_README") {
            let text = std::fs::read_to_string(&readme).expect("README.md");
            let (head, rest) = text.split_once(SHORT_BEGINS).expect("where the short table begins");
            let (_, tail) = rest.split_once(SHORT_ENDS).expect("where the short table ends");
            let text = format!("{head}{SHORT_BEGINS}{}{SHORT_ENDS}{tail}", table.short());
            std::fs::write(readme, text).expect("a file that can be written");
        }
    }
    conclusion.exit();
}
