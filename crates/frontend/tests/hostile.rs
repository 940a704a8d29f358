//! Damaged bitcode is reported as an error, and never takes down the process that reads it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_frontend::bitcode;
use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::inputs::Bitcode;
use crashproof_frontend::program::read;

const SOURCE: &str = r#"
#include <string.h>
struct node { struct node *next; long value; char text[24]; };
struct node *push(struct node *head, struct node *n, long v) {
  n->next = head; n->value = v; strcpy(n->text, "a node");
  __atomic_store_n(&n->value, v + 1, __ATOMIC_SEQ_CST);
  return n;
}
int length(struct node *n) { int all = 0; while (n) { all++; n = n->next; } return all; }
int choose(int a) { switch (a) { case 1: return 10; case 5: return 11; default: return a * 3; } }
"#;

fn compiled(directory: &Path) -> Vec<u8> {
    let (source, output) = (directory.join("seed.c"), directory.join("seed.bc"));
    std::fs::write(&source, SOURCE).expect("a source");
    let done = Command::new("clang-22")
        .args([
            "-c",
            "-emit-llvm",
            "-g",
            "-O1",
            "-Xclang",
            "-disable-llvm-passes",
            "-fdebug-compilation-dir=.",
        ])
        .args(["-o", "seed.bc", "seed.c"])
        // File names must not depend on the run, so that the same bits are flipped every time.
        .current_dir(directory)
        .status();
    assert!(done.expect("clang-22").success());
    std::fs::read(output).expect("bitcode")
}

fn lint_reads(path: &Path) -> Result<(), String> {
    let file = Bitcode { path: path.to_owned(), given: path.to_owned(), directory: PathBuf::from("/") };
    read::read(&[file], &Apis::built_in()).map(drop).map_err(|error| error.to_string())
}

fn prove_reads(path: &Path, bytes: &[u8]) -> Result<(), String> {
    bitcode::read(&[(path.to_owned(), bytes.to_owned())]).map(drop).map_err(|error| error.to_string())
}

/// A generator without dependencies (Marsaglia, *Xorshift RNGs*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn flipped_bits_are_errors_at_worst() {
    let directory = tempfile::tempdir().expect("a directory");
    let seed = compiled(directory.path());
    let path = directory.path().join("damaged.bc");
    std::fs::write(&path, &seed).expect("a file");
    assert_eq!(lint_reads(&path), Ok(()));
    assert_eq!(prove_reads(&path, &seed), Ok(()));
    // `make soak` tries more of them, and others.
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (number("PROPTEST_RNG_SEED").unwrap_or(1) << 8));
    let rounds = number("CRASHPROOF_INPUTS").unwrap_or(3000).div_ceil(10);
    let (mut refused, mut died) = (0, 0);
    for round in 0..rounds {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        if round % 5 == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        std::fs::write(&path, &bytes).expect("a file");
        for answer in [lint_reads(&path), prove_reads(&path, &bytes)] {
            if let Err(why) = answer {
                assert!(why.contains("damaged.bc"), "{why}");
                refused += 1;
                died += usize::from(why.contains("LLVM crashes") || why.contains("LLVM gives up"));
            }
        }
    }
    println!(
        "tried | damaged bitcode | {} | {refused} refused, {died} of them killed LLVM in its process |",
        2 * rounds
    );
    assert!(refused > rounds / 3, "damage is noticed");
}

#[test]
fn endless_files_are_bounded() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("zero.bc");
    std::os::unix::fs::symlink("/dev/zero", &path).expect("a link");
    let why = lint_reads(&path).expect_err("no bitcode");
    assert!(why.contains("zero.bc") && why.contains("larger than"), "{why}");
}

#[test]
fn deep_recursion_ends_the_child_alone() {
    // LLVM's type parser recurses as deeply as its input.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("deep.ll");
    let depth = 400_000;
    let text = format!("@g = external global {}i8{}\n", "[1 x ".repeat(depth), "]".repeat(depth));
    std::fs::write(&path, &text).expect("a file");
    for answer in [lint_reads(&path), prove_reads(&path, text.as_bytes())] {
        let why = answer.expect_err("a stack has an end");
        assert!(why.contains("deep.ll") && why.contains("signal 11"), "{why}");
    }
}
