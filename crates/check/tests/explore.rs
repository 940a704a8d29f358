//! Ways to explore other than exhausting everything: random crashes.

use std::path::{Path, PathBuf};

use crashproof_check::{Options, Random, Report, Token, check, replay};

/// A program of `tests/explore`, compiled with these flags into a directory of its own.
struct Built {
    directory: tempfile::TempDir,
    text: String,
}

impl Built {
    fn new(name: &str, flags: &[&str]) -> Built {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explore").join(name);
        let directory = tempfile::tempdir().expect("a directory");
        let all: Vec<&str> = ["-Wall", "-Wextra", "-Werror"].iter().chain(flags).copied().collect();
        crashproof_testkit::compile(&source, &directory.path().join("program"), &all);
        Built { directory, text: std::fs::read_to_string(source).expect("the program is there") }
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    fn options(&self) -> Options {
        Options::new(self.program(), Vec::new())
    }

    /// The line with a comment.
    fn line_of(&self, mark: &str) -> u32 {
        let at = self.text.lines().position(|line| line.contains(&format!("// {mark}")));
        at.expect("the mark is in the program") as u32 + 1
    }
}

fn tokens(report: &Report) -> Vec<String> {
    report.findings.iter().map(|finding| finding.replay.clone()).collect()
}

fn randomly(options: Options, crashes: u64, seed: u64) -> Report {
    check(&Options { random: Some(Random { crashes, seed }), ..options }).expect("a report")
}

#[test]
fn random_crashes_find_what_cannot_be_exhausted_and_repeat() {
    let built = Built::new("many_lines.c", &[]);
    let report = randomly(built.options(), 50, 7);
    let finding = report.findings.first().expect("half of the lines are lost");
    assert_eq!(finding.place.line, built.line_of("LOST"));
    assert!(
        report.unknown[0].starts_with("50 random crashes (--random, --seed 7) of "),
        "{:?}",
        report.unknown
    );
    assert_eq!(tokens(&report), tokens(&randomly(built.options(), 50, 7)));
    let token = Token::decode(&finding.replay).expect("a token");
    let again = replay(&token, built.program(), None).expect("a replay");
    assert_eq!(again.failure.as_ref(), Some(&finding.failure));
}

#[test]
fn random_crashes_may_show_everything() {
    let built = Built::new("many_lines.c", &["-DGOOD", "-DLINES=3"]);
    let whole = check(&built.options()).expect("a report");
    assert!(whole.findings.is_empty() && whole.unknown.is_empty());
    let report = randomly(built.options(), 300, 1);
    assert!(report.unknown.is_empty(), "{:?}", report.unknown);
    assert_eq!(report.remarks, ["300 random crashes showed all that recovery can do"]);
    assert_eq!(report.statistics.failure_points, whole.statistics.failure_points);
    assert_eq!(report.statistics.eager_states, whole.statistics.eager_states);
    let one = randomly(built.options(), 1, 1);
    assert!(one.findings.is_empty() && !one.unknown.is_empty());
}

#[test]
fn random_crashes_crash_recovery_too() {
    let built = Built::new("fails_second.c", &[]);
    let report = randomly(Options { crashes: 2, ..built.options() }, 100, 3);
    let finding = report.findings.first().expect("the second crash is found");
    assert_eq!(finding.crashes, 2);
    let token = Token::decode(&finding.replay).expect("a token");
    let again = replay(&token, built.program(), None).expect("a replay");
    assert_eq!(again.failure.as_ref(), Some(&finding.failure));
    assert!(randomly(built.options(), 100, 3).findings.is_empty());
}
