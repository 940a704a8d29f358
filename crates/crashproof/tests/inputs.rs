//! The command line's parsers on damaged inputs: they accept or reject, and never panic. Damaged bitcode is covered by
//! `crates/frontend/tests/hostile.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crashproof_check::{Suppression, Token};
use crashproof_findings::baseline::Baseline;
use crashproof_findings::config::Config;
use crashproof_findings::suppress::Suppressions;
use crashproof_frontend::asm;
use crashproof_frontend::frameworks::Apis;
use crashproof_toolchain::testing;

use crate::mutation::{Random, damaged, number, try_all};

mod mutation;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_below(directory: &Path, ending: &str, found: &mut Vec<Vec<u8>>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(std::fs::read(path).expect("a file"));
        }
    }
}

/// The same seeds as `make fuzz`.
fn seeds(parser: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    files_below(&repository().join("fuzz/seeds").join(parser), "", &mut found);
    found
}

/// For readers that take a path.
fn with_file(name: &str, inputs: &[Vec<u8>], read: &dyn Fn(&Path) -> bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("input.toml");
    try_all(name, inputs, 1000, &|bytes| {
        std::fs::write(&file, bytes).expect("a file");
        read(&file)
    });
}

#[test]
fn litmus_tests() {
    let mut inputs = Vec::new();
    files_below(&repository().join("litmus"), ".litmus", &mut inputs);
    try_all("litmus", &inputs, 3000, &|bytes| {
        let text = String::from_utf8_lossy(bytes);
        crashproof_litmus::parse(&text).map_err(|error| error.position(&text)).is_ok()
    });
}

#[test]
fn settings() {
    with_file("settings", &seeds("settings"), &|file| Config::read(file).is_ok());
}

#[test]
fn suppressions() {
    with_file("suppressions", &seeds("suppressions"), &|file| Suppressions::default().read(file).is_ok());
    let places: Vec<Vec<u8>> =
        ["list.c:12", "src/list.c:12-40", "list.c:push", "a:7"].map(|place| place.into()).into();
    try_all("places", &places, 3000, &|bytes| String::from_utf8_lossy(bytes).parse::<Suppression>().is_ok());
}

#[test]
fn baselines() {
    with_file("baselines", &seeds("baselines"), &|file| Baseline::read(file).is_ok());
}

#[test]
fn descriptions() {
    let mut inputs = Vec::new();
    files_below(&repository().join("frameworks"), "lint.toml", &mut inputs);
    try_all("descriptions", &inputs, 600, &|bytes| {
        Apis::built_in().add_text("damaged.toml", &String::from_utf8_lossy(bytes)).is_ok()
    });
}

#[test]
fn assembly() {
    // Template and constraints, as stored by LLVM.
    try_all("assembly", &seeds("assembly"), 5000, &|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let (template, constraints) = text.split_once('|').unwrap_or((&text, ""));
        let operands = asm::operands(constraints);
        let sizes: Vec<Option<u32>> =
            (0..operands.len()).map(|index| [Some(8), None, Some(4)][index % 3]).collect();
        let _ = asm::has_instructions(template);
        [false, true].into_iter().any(|intel| {
            let _ = asm::nondeterminism(template, intel, &operands);
            asm::read(template, intel, &operands, &sizes).is_ok()
        })
    });
}

const BUGGY: &str = "#include <crashproof.h>\n\
    struct pair { _Alignas(64) long data; _Alignas(64) long flag; };\n\
    int main(void) {\n  struct pair *p = crashproof_root(sizeof *p);\n\
    if (crashproof_crashes()) return p->flag && !p->data;\n\
    p->data = 1;\n  p->flag = 1;\n  crashproof_persist(&p->flag, 8);\n}\n";

/// A program with one bug, in a separate directory.
struct Subject {
    directory: tempfile::TempDir,
}

impl Subject {
    fn new() -> Subject {
        let directory = tempfile::tempdir().expect("a directory");
        let source = directory.path().join("pair.c");
        std::fs::write(&source, BUGGY).expect("a source");
        testing::compile(&source, &directory.path().join("pair"), &["-g"]);
        Subject { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crashproof"));
        command.current_dir(self.directory.path()).env("HOME", self.directory.path()).args(arguments);
        command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME").output().expect("it runs")
    }

    /// The exit code of a command, which must be a documented one.
    fn code(&self, arguments: &[&str]) -> i32 {
        let output = self.run(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(code @ 0..=3) if !told.contains("panicked") => code,
            code => panic!("{arguments:?}: {code:?}\n{told}"),
        }
    }
}

#[test]
fn tokens() {
    let subject = Subject::new();
    assert_eq!(subject.code(&["check", "./pair"]), 1);
    let kept = std::fs::read_dir(subject.path(".crashproof/replay"))
        .expect("tokens")
        .next()
        .expect("one")
        .expect("a file");
    let id = kept.path().file_stem().expect("a name").to_string_lossy().into_owned();
    let token = subject.run(&["replay", "--token-only", &id]).stdout;
    let token = String::from_utf8(token).expect("text").trim().to_owned();
    let json = data_encoding::BASE64URL_NOPAD.decode(token.as_bytes()).expect("a token");
    try_all("tokens", &[token.into()], 3000, &|bytes| Token::decode(&String::from_utf8_lossy(bytes)).is_ok());
    // Damaged before encoding: otherwise hardly any input would reach the parser of the fields.
    try_all("token fields", std::slice::from_ref(&json), 3000, &|bytes| {
        Token::decode(&data_encoding::BASE64URL_NOPAD.encode(bytes)).is_ok()
    });
    // Those that are still valid tokens are replayed.
    let mut random = Random::new(number("PROPTEST_RNG_SEED", 1));
    let rounds = number("CRASHPROOF_INPUTS", 1000).div_ceil(50);
    let mut left = rounds;
    while left > 0 {
        let encoded =
            data_encoding::BASE64URL_NOPAD.encode(&damaged(&mut random, std::slice::from_ref(&json)));
        if Token::decode(&encoded).is_ok() && !encoded.starts_with('-') {
            subject.code(&["replay", "--trust", &encoded]);
            left -= 1;
        }
    }
    println!("tried | damaged tokens, replayed | {rounds} | documented exit codes |");
}

#[test]
fn compilation_databases() {
    let subject = Subject::new();
    let include = testing::include();
    let entry = |options: &str| {
        serde_json::json!({ "directory": subject.directory.path(), "file": "pair.c",
            "command": format!("ccache clang -I{} {options} -c pair.c -o pair.o", include.display()) })
    };
    let text =
        serde_json::json!([entry("-O1 -DNAME='\"a b\"'"), entry("-std=c11 -fplugin=./evil.so")]).to_string();
    let file = subject.path("compile_commands.json");
    let mut random = Random::new(number("PROPTEST_RNG_SEED", 1));
    let rounds = number("CRASHPROOF_INPUTS", 1000).div_ceil(50);
    for _ in 0..rounds {
        std::fs::write(&file, damaged(&mut random, &[text.clone().into()])).expect("a file");
        subject.code(&["lint", "compile_commands.json"]);
    }
    println!("tried | damaged compilation databases | {rounds} | documented exit codes |");
}

/// A damaged checkpoint or shard is used or rejected; it never hides a bug.
#[test]
fn checkpoints_and_shards() {
    let subject = Subject::new();
    for shard in ["1/2", "2/2"] {
        let kept = format!("kept-{}", &shard[..1]);
        subject.code(&["check", "./pair", "-j", "1", "--shard", shard, "--checkpoint", &kept]);
    }
    subject.code(&["check", "./pair", "-j", "1", "--checkpoint", "kept"]);
    assert_eq!(subject.code(&["merge", "kept-1", "kept-2"]), 1);
    let files: Vec<PathBuf> = ["kept", "kept-1", "kept-2"]
        .iter()
        .flat_map(|kept| std::fs::read_dir(subject.path(kept)).expect("a checkpoint"))
        .map(|entry| entry.expect("a file").path())
        .collect();
    let whole: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).expect("a file")).collect();
    let mut random = Random::new(number("PROPTEST_RNG_SEED", 1));
    let rounds = number("CRASHPROOF_INPUTS", 1000).div_ceil(50);
    for round in 0..rounds {
        for (file, bytes) in files.iter().zip(&whole) {
            let bytes = if random.below(2) == 0 {
                damaged(&mut random, std::slice::from_ref(bytes))
            } else {
                bytes.clone()
            };
            std::fs::write(file, bytes).expect("a file");
        }
        for arguments in [
            &["merge", "--trust", "kept-1", "kept-2"][..],
            &["check", "./pair", "-j", "1", "--checkpoint", "kept"],
        ] {
            assert_ne!(subject.code(arguments), 0, "round {round}: the bug is gone: {arguments:?}");
        }
    }
    println!(
        "tried | damaged checkpoints and shards, resumed and merged | {rounds} | the bug is never hidden |"
    );
}
