//! Programs that overwrite memory shared with the checker: control block, trace, image and tables, at random offsets
//! with random values, in recoveries and in the recorded run. None of it is trusted: the checker ends with a documented
//! exit code, never with a panic, a signal or a hang.
//!
//! `CRASHPROOF_SCRIBBLES` sets the number of programs; `make soak` tries more.

use std::path::Path;
use std::process::{Command, Stdio};

use crashproof_toolchain::testing;

const SOURCE: &str = r#"
#include <crashproof.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct pair { _Alignas(64) long data; _Alignas(64) long flag; };
static uint64_t state;
static uint64_t next(void) {
  state ^= state >> 12; state ^= state << 25; state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dull >> 20;
}
/* Mostly where something lies: the block, the tables behind it, the first records. */
static const uint64_t tables[] = { 0, 64 << 10, 512 << 10, 800 << 10, 1 << 20, 1ull << 30, 3ull << 29, 2ull << 30 };
static const uint64_t values[] = { 0, 1, 2, 63, 64, 255, 65536, 1ull << 31, 1ull << 32, 1ull << 44, ~0ull, ~0ull >> 1, (1ull << 44) + (4ull << 30) };
static void scribble(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  char *control = 0, *trace = 0, *image = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    char *start = (char *)strtoull(line, 0, 16);
    if (!strstr(line, "rw-s")) continue;
    if (!control && strstr(line, "crashproof-control")) control = start;
    if (!trace && strstr(line, "crashproof-trace")) trace = start;
    if (!image && strstr(line, "crashproof-image")) image = start;
  }
  int count = 1 + next() % 12;
  for (int i = 0; i < count; i++) {
    uint64_t value = next() % 3 ? values[next() % (sizeof values / 8)] : next();
    char *at = 0;
    switch (next() % 8) {
    case 0: case 1: case 2: at = control ? control + next() % 1024 : 0; break;
    case 3: at = control ? control + next() % 8192 : 0; break;
    case 4: at = control ? control + tables[next() % 8] + next() % 4096 : 0; break;
    case 5: case 6: at = trace ? trace + next() % 256 : 0; break;
    case 7: at = image ? image + (1ull << 30) + next() % 256 : 0; break;
    }
    if (at) memcpy(at, &value, 1 + next() % 8);
  }
}
int main(int argc, char **argv) {
  struct pair *pair = crashproof_root(sizeof *pair);
  int recovers = crashproof_crashes() > 0;
  state = (uint64_t)atoll(argv[1]) * 0x9e3779b97f4a7c15ull | 1;
  int when = next() % 8;
  if (recovers) {
    long flag = pair->flag, data = pair->data;
    if (argc > 1 && when) scribble();
    if (flag && !data) _exit(1);
    return 0;
  }
  for (long i = 1; i < 4; i++) {
    pair->data = i;
    pair->flag = i;
    crashproof_persist(&pair->flag, sizeof pair->flag);
  }
  if (when == 0) scribble();
  return 0;
}
"#;

#[test]
fn nothing_that_a_program_scribbles_is_believed() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("scribble.c");
    let program = directory.path().join("scribble");
    std::fs::write(&source, SOURCE).expect("a source");
    testing::compile(&source, &program, &["-g"]);
    let count = std::env::var("CRASHPROOF_SCRIBBLES").map_or(12, |text| text.parse().expect("a number"));
    let first: u64 = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut codes = [0; 4];
    for seed in first..first + count {
        let (code, text) = check(&program, seed);
        match code {
            Some(code @ 0..=3) => codes[code as usize] += 1,
            code => panic!("seed {seed}: {code:?}\n{text}"),
        }
    }
    println!(
        "tried | programs that overwrite what they share with the checker | {count} | exit codes 0 to 3: {codes:?} |"
    );
}

fn check(program: &Path, seed: u64) -> (Option<i32>, String) {
    // A safety net against hangs, not a measurement.
    let output = Command::new("timeout")
        .args(["--kill-after=5", "300", env!("CARGO_BIN_EXE_crashproof"), "check", "-j", "1"])
        .arg(program)
        .args(["--", &seed.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), text.concat())
}
