//! Programs with missing flushes, and what must be found in each.
//!
//! Every program in `tests/robust` says in lines `// run: FLAGS schedules=N crashes=N suppress=MARK` how it is built
//! and checked; the lines that follow say what must be found, no more and no less:
//!
//! ```text
//! // none
//! // error lost=MARK survived=MARK window=MARK..MARK primary new never
//! ```
//!
//! A mark is a comment at the end of a line of the program. A finding is an `error` or a `note`; `fails` if recovery
//! failed on it. The window is the one to use: the lost store's own thread's (`primary`), or a `reader`'s. `old` and
//! `new` are the two cases of PSan's section 5.2; the last word is what becomes of the lost line: `never` flushed,
//! `late=MARK`, `unfenced=MARK`. Words that are not given are not compared.

use std::path::{Path, PathBuf};

use crashproof_check::{Extent, Flushed, Options, Place, Report, Saw, Suppression, Violation, check};

struct Run {
    words: Vec<String>,
    expected: Vec<String>,
}

fn runs(source: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for line in source.lines().map_while(|line| line.strip_prefix("//")) {
        let line = line.trim();
        if let Some(words) = line.strip_prefix("run:") {
            runs.push(Run { words: words.split_whitespace().map(str::to_owned).collect(), expected: vec![] });
        } else if let Some(run) = runs.last_mut() {
            run.expected.push(line.to_owned());
        }
    }
    runs
}

/// The line with the comment `mark`.
fn line_of(source: &str, mark: &str) -> u32 {
    let at = source.lines().position(|line| line.trim_end().ends_with(&format!("// {mark}")));
    at.unwrap_or_else(|| panic!("no line is marked {mark}")) as u32 + 1
}

/// What is said of a violation that the expectation does not agree with.
fn differs(source: &str, expected: &str, violation: &Violation, fails: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut agree = |word: &str, found: &Place| {
        let (what, mark) = word.split_once('=').unwrap_or(("window", word));
        if found.line != line_of(source, mark) {
            wrong.push(format!("{what} is line {}, not {mark}", found.line));
        }
    };
    let mut claims: Vec<(String, bool)> = vec![("fails".into(), fails)];
    for word in expected.split_whitespace() {
        let window = violation.windows.first();
        match word.split_once('=') {
            Some(("lost", _)) => agree(word, &violation.place),
            Some(("survived", _)) => agree(word, &violation.survived),
            Some(("window", range)) => {
                let (after, before) = range.split_once("..").expect("a window has two ends");
                let window = window.expect("a window");
                agree(after, &window.after);
                agree(before, &window.before);
            }
            Some(("late", _)) => match &violation.flushed {
                Flushed::Late(place) => agree(word, place),
                _ => claims.push((word.into(), false)),
            },
            Some(("unfenced", _)) => match &violation.flushed {
                Flushed::Unfenced(place) => agree(word, place),
                _ => claims.push((word.into(), false)),
            },
            Some(("layout", text)) => {
                let said = violation.layout.as_ref().is_some_and(|layout| layout.contains(text));
                claims.push((word.into(), said));
            }
            _ => claims.push((
                word.into(),
                match word {
                    "error" => !violation.same_value,
                    "note" => violation.same_value,
                    "fails" => fails,
                    "primary" => window.is_some_and(|window| window.primary),
                    "reader" => window.is_some_and(|window| !window.primary),
                    "old" => violation.saw == Saw::TooOld,
                    "new" => violation.saw == Saw::TooNew,
                    "never" => violation.flushed == Flushed::Never,
                    _ => panic!("not an expectation: {word}"),
                },
            )),
        }
    }
    let fails_expected = expected.split_whitespace().any(|word| word == "fails");
    claims.retain(|(claim, _)| claim != "fails");
    claims.push(("fails".into(), fails == fails_expected));
    wrong.extend(claims.into_iter().filter(|(_, met)| !met).map(|(claim, _)| format!("not {claim}")));
    wrong
}

fn violations(report: &Report) -> Vec<(&Violation, bool)> {
    let causes = report.findings.iter().map(|finding| {
        (finding.cause.as_deref().unwrap_or_else(|| panic!("a failure without a cause: {finding:?}")), true)
    });
    causes.chain(report.violations.iter().map(|violation| (violation, false))).collect()
}

fn tried(file: &Path, source: &str, run: &Run, program: &Path) -> Option<String> {
    let flags: Vec<&str> =
        run.words.iter().map(String::as_str).filter(|word| word.starts_with('-')).collect();
    crashproof_toolchain::testing::compile(file, program, &[&["-Wall", "-Werror"], &flags[..]].concat());
    let mut options = Options::new(program.to_owned(), Vec::new());
    for word in run.words.iter().filter(|word| !word.starts_with('-')) {
        match word.split_once('=').expect("what=how many") {
            ("schedules", many) => options.schedules = many.parse().expect("a number"),
            ("crashes", many) => options.crashes = many.parse().expect("a number"),
            ("suppress", mark) => {
                let line = line_of(source, mark);
                let file = file.file_name().expect("a name").to_string_lossy().into_owned();
                options.suppress.push(Suppression { file, part: Extent::Lines(line, line) });
            }
            _ => panic!("not an option: {word}"),
        }
    }
    options.robust = run.expected != ["off"];
    let report = check(&options).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert!(report.unknown.is_empty(), "{:?}", report.unknown);
    assert!(report.unused_suppressions.is_empty(), "{:?}", report.unused_suppressions);
    let found = violations(&report);
    let expected: Vec<&String> =
        run.expected.iter().filter(|text| *text != "none" && *text != "off").collect();
    let mut unmet: Vec<String> = Vec::new();
    for text in &expected {
        let each = found.iter().map(|(violation, fails)| differs(source, text, violation, *fails));
        match each.min_by_key(Vec::len) {
            Some(wrong) if wrong.is_empty() => {}
            Some(wrong) => unmet.push(format!("  {text}\n    closest: {}", wrong.join(", "))),
            None => unmet.push(format!("  {text}")),
        }
    }
    if unmet.is_empty() && found.len() == expected.len() {
        return None;
    }
    let found: Vec<String> = found
        .iter()
        .map(|(violation, fails)| {
            let windows = violation.windows.iter().map(|window| {
                let who = if window.primary { "primary" } else { "reader" };
                format!("{}..{} {who}", window.after.line, window.before.line)
            });
            format!(
                "  lost {} survived {} windows {:?} {:?} {:?} same={} fails={fails} layout={:?}",
                violation.place.line,
                violation.survived.line,
                windows.collect::<Vec<_>>(),
                violation.saw,
                violation.flushed,
                violation.same_value,
                violation.layout
            )
        })
        .collect();
    Some(format!("expected:\n{}\nfound {}:\n{}", unmet.join("\n"), found.len(), found.join("\n")))
}

#[test]
fn every_missing_flush_is_found_and_nothing_else() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(programs).expect("programs").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let directory = crashproof_toolchain::testing::scratch("robust");
    let only = std::env::var("CRASHPROOF_ONLY").ok();
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let source = std::fs::read_to_string(&file).expect("a program");
        let runs = runs(&source);
        assert!(!runs.is_empty(), "{name} does not say what is expected of it");
        for (index, run) in runs.iter().enumerate() {
            let program = directory.join(format!("{name}-{index}"));
            if let Some(difference) = tried(&file, &source, run, &program) {
                wrong.push(format!("{name} {}\n{difference}", run.words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}
