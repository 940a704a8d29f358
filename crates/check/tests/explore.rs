//! Exploration modes other than exhausting everything by rerunning the same command: random crashes, other recovery
//! commands.

use std::path::{Path, PathBuf};

use crashproof_check::{
    FailedRecovery, Failure, Minimality, Model, Options, Random, Recover, Report, Role, Token, check, replay,
};
use num_bigint::BigUint;

/// A program of `tests/programs/search`, compiled with these flags into a directory of its own.
struct Built {
    directory: tempfile::TempDir,
    text: String,
}

impl Built {
    fn new(name: &str, flags: &[&str]) -> Built {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/search").join(name);
        let directory = tempfile::tempdir().expect("a directory");
        let all: Vec<&str> = ["-Wall", "-Wextra", "-Werror"].iter().chain(flags).copied().collect();
        crashproof_toolchain::testing::compile(&source, &directory.path().join("program"), &all);
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
        let at = self.text.lines().position(|line| line.contains(&format!("// MARK: {mark}")));
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
    let again = replay(&token, built.program(), None, None, false).expect("a replay");
    assert_eq!(again.failure.as_ref(), Some(&finding.failure));
}

/// All values that a load may read are examined, not only the one it happens to read.
#[test]
fn one_random_crash_shows_what_others_would() {
    let built = Built::new("many_lines.c", &["-DSILENT", "-DLINES=1"]);
    let line = built.line_of("LOST");
    let shown = (0..40).filter(|seed| {
        let report = randomly(built.options(), 1, *seed);
        assert!(report.violations.iter().all(|violation| violation.place.line == line));
        !report.violations.is_empty()
    });
    // Half of them see the flag; of these, half also lose the line.
    let shown = shown.count();
    assert!(shown > 15, "{shown} of 40");
    let good = Built::new("many_lines.c", &["-DSILENT", "-DGOOD", "-DLINES=3"]);
    assert!((0..10).all(|seed| randomly(good.options(), 2, seed).violations.is_empty()));
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
    let again = replay(&token, built.program(), None, None, false).expect("a replay");
    assert_eq!(again.failure.as_ref(), Some(&finding.failure));
    assert!(randomly(built.options(), 100, 3).findings.is_empty());
}

/// A program that is recovered by a command other than its own.
fn recovered_by(writer: &Built, looker: &Built, path: Option<&Path>) -> Options {
    let words = |first: &str| [Some(first.into()), path.map(|path| path.as_os_str().to_owned())];
    let mut options = writer.options();
    options.arguments = words("write").into_iter().flatten().collect();
    let arguments = words("look").into_iter().flatten().collect();
    options.recover = Some(Recover { program: looker.program(), arguments, built_from: None });
    options.pm_path = vec![writer.directory.path().to_owned()];
    options
}

/// Runs a check, and reproduces its first finding.
fn found_again(options: &Options) -> FailedRecovery {
    let report = check(options).expect("a report");
    let finding = report.findings.first().expect("a finding").clone();
    let token = Token::decode(&finding.replay).expect("a token");
    let recover = options.recover.as_ref().map(|recover| recover.program.clone());
    let again = replay(&token, options.program.clone(), recover, None, false).expect("a replay");
    assert_eq!(again.failure.as_ref(), Some(&finding.failure));
    finding
}

#[test]
fn the_same_program_recovers_with_other_arguments() {
    for flags in [&["-DGLOBAL"][..], &[]] {
        let bad = Built::new("writer.c", flags);
        let finding = found_again(&recovered_by(&bad, &bad, None));
        assert_eq!(finding.place.line, bad.line_of("LOST"));
        let good = Built::new("writer.c", &[flags, &["-DGOOD"]].concat());
        let report = check(&recovered_by(&good, &good, None)).expect("a report");
        assert!(report.findings.is_empty() && report.unknown.is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn another_program_recovers_what_is_in_files_and_in_the_root_object() {
    let (bad, good) = (Built::new("writer.c", &[]), Built::new("writer.c", &["-DGOOD"]));
    for path in [None, Some(bad.directory.path().join("pool"))] {
        let finding = found_again(&recovered_by(&bad, &good, path.as_deref()));
        assert_eq!(finding.place.line, bad.line_of("LOST"));
        assert!(path.is_none_or(|path| !path.exists()), "left behind");
    }
    let path = good.directory.path().join("pool");
    let clean = check(&recovered_by(&good, &bad, Some(&path))).expect("a report");
    assert!(clean.findings.is_empty() && clean.unknown.is_empty(), "{:?}", clean.findings);
    // The other program's own bug shows when it is itself crashed.
    let nested = Options { crashes: 2, ..recovered_by(&good, &bad, Some(&path)) };
    let finding = found_again(&nested);
    assert_eq!(finding.crashes, 2);
}

#[test]
fn another_program_does_not_know_the_globals() {
    let (writer, looker) =
        (Built::new("writer.c", &["-DGLOBAL"]), Built::new("writer.c", &["-DGLOBAL", "-DGOOD"]));
    let error = check(&recovered_by(&writer, &looker, None)).expect_err("refused").to_string();
    assert!(error.contains("stores to a persistent global"), "{error}");
}

#[test]
fn a_checksum_in_brackets_keeps_a_large_log_small() {
    let recoveries = |lines: u64| {
        let flag = format!("-DLINES={lines}");
        let built = Built::new("big_log.c", &["-DBRACKET", "-DROUNDS=1", &flag]);
        let report = check(&built.options()).expect("a report");
        assert!(report.findings.is_empty() && report.unknown.is_empty(), "{report:?}");
        assert!(report.statistics.checksummed > BigUint::from(1_000_000u32));
        assert!(report.remarks[0].contains("is trusted to refuse"), "{:?}", report.remarks);
        report.statistics.recoveries
    };
    // Every store is an instant, and may be the last of its line to survive while all others do.
    assert_eq!((recoveries(10), recoveries(20)), (2 * 80 + 2, 2 * 160 + 2));
}

#[test]
fn a_checksummed_log_that_is_used_again_is_whole_or_refused() {
    let built = Built::new("big_log.c", &["-DBRACKET", "-DROUNDS=2", "-DLINES=4"]);
    let report = check(&Options { crashes: 2, ..built.options() }).expect("a report");
    assert!(report.findings.is_empty() && report.unknown.is_empty(), "{report:?}");
}

#[test]
fn a_checksum_that_matches_torn_contents_is_not_trusted() {
    let built = Built::new("big_log.c", &["-DBRACKET", "-DWEAK", "-DROUNDS=1"]);
    // Otherwise the store whose loss makes recovery fail would be assumed to persist.
    let report = check(&Options { exhaustive: true, ..built.options() }).expect("a report");
    assert_eq!(report.findings[0].place.line, built.line_of("LOST"));
    assert!(report.remarks[0].contains("also matches torn contents"), "{:?}", report.remarks);
    assert!(!report.unknown.is_empty(), "everything cannot be followed");
}

#[test]
fn a_large_log_without_brackets_is_cut_and_said_so() {
    let built = Built::new("big_log.c", &["-DROUNDS=1"]);
    let report = check(&built.options()).expect("a report");
    assert!(report.unknown[0].contains("--max-per-crash"), "{:?}", report.unknown);
}

#[test]
fn a_finding_tells_the_least_that_must_be_lost() {
    let built = Built::new("two_losses.c", &[]);
    // Robustness files the finding under the missing flush that was seen last; there are as many.
    assert_eq!(check(&built.options()).expect("a report").findings.len(), 2);
    let report = check(&Options { robust: false, ..built.options() }).expect("a report");
    // Losing the first store together with the second is not a separate finding.
    let found: Vec<_> = report.findings.iter().map(|it| (it.place.line, it.lost, it.minimality)).collect();
    assert_eq!(
        found,
        [(built.line_of("SECOND"), 1, Minimality::Proven), (built.line_of("FIRST"), 2, Minimality::Proven)],
        "{:?}",
        report.findings
    );
    for finding in &report.findings {
        let token = Token::decode(&finding.replay).expect("a token");
        let again = replay(&token, built.program(), None, None, false).expect("a replay");
        assert_eq!(again.failure.as_ref(), Some(&finding.failure));
    }
    let candidates: Vec<u32> = report.findings[0]
        .related()
        .iter()
        .filter(|related| related.role == Role::Candidate)
        .map(|related| related.place.line)
        .collect();
    let first = built.line_of("FIRST");
    assert_eq!(
        candidates,
        [first + 3, first, first + 1, first + 2],
        "one store each, or what was there before"
    );
}

#[test]
fn what_the_first_recovery_does_not_read_matters_to_the_second() {
    let built = Built::new("second_reads.c", &[]);
    let mut options = built.options();
    options.robust = false;
    assert!(check(&options).expect("it can be checked").findings.is_empty());
    options.crashes = 2;
    assert_eq!(check(&options).expect("it can be checked").findings.len(), 1);
}

#[test]
fn recovery_that_spins_or_takes_all_memory_is_ended() {
    for flag in ["-DSPIN", "-DMEMORY"] {
        let built = Built::new("../recovery/process.c", &["-D_GNU_SOURCE", flag]);
        let report = check(&Options { max_cpu_seconds: 2, ..built.options() }).expect("a report");
        let line = built.line_of("recovery-fails-nothing-lost");
        assert!(report.findings.iter().any(|finding| finding.place.line == line), "{flag}: {report:?}");
        assert!(report.unknown.is_empty(), "{flag}: {:?}", report.unknown);
    }
}

#[test]
fn a_replay_stops_where_the_check_did() {
    let built = Built::new("much_work.c", &[]);
    let finding = found_again(&built.options());
    assert_eq!(finding.failure, Failure::Endless);
}

#[test]
fn a_replay_records_what_the_check_did() {
    let built = Built::new("strand_fails.c", &[]);
    for (model, strict) in [(Some(Model::Strand), false), (None, true)] {
        let finding = found_again(&Options { model, strict, ..built.options() });
        assert_eq!(finding.place.line, built.line_of("LOST"));
    }
}

#[test]
fn a_file_that_a_crashed_recovery_created_is_there_for_the_next() {
    let built = Built::new("recovery_creates.c", &[]);
    let path = built.directory.path().join("pool");
    let mut options = Options { crashes: 2, ..built.options() };
    options.arguments = vec![path.clone().into()];
    options.pm_path = vec![built.directory.path().to_owned()];
    let report = check(&options).expect("a report");
    assert!(report.findings.is_empty() && report.unknown.is_empty(), "{report:?}");
    assert!(!path.exists(), "left behind");
}
