//! Small programs, one for each group of functions and constructs, with the verdict they must get.
//!
//! Each file in `programs` begins with lines that say how it is compiled and what is expected of it:
//!
//! ```text
//! //! args {dir}/pool                     arguments of the program; {dir} is an empty directory, on the PM path
//! //! file old some text                  {dir}/old is there before the check and begins with this text
//! //! -DGOOD: clean                       compiled with -DGOOD it is clean
//! //! : error at LOST                     compiled as it is, a store is lost in the line with the comment LOST
//! //! : one error at LOST                 the same, and nothing else is found
//! //! -DFORK: unknown forked              nothing is found, and the reason why not all is known says "forked"
//! //! -DEARLY: refused crash              it cannot be checked, and the message says "crash"
//! //! -DSTRICT: clean                     checked in strict mode
//! //! -DEADR: clean                       checked as on a machine whose caches survive
//! ```

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crashproof_check::{Options, check};

struct Case {
    /// The line of the program that says it.
    line: String,
    flags: Vec<String>,
    expected: String,
    /// As in `3 places, 4 recoveries`.
    figures: String,
}

struct Program {
    source: PathBuf,
    text: String,
    arguments: Vec<String>,
    options: Vec<String>,
    files: Vec<(String, String)>,
    cases: Vec<Case>,
}

fn parse(source: PathBuf) -> Program {
    let text = fs::read_to_string(&source).expect("the program is there");
    let mut program =
        Program { source, text, arguments: vec![], options: vec![], files: vec![], cases: vec![] };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for line in program.text.lines().map_while(|line| line.strip_prefix("//! ")) {
        if let Some(arguments) = line.strip_prefix("args ") {
            program.arguments = words(arguments);
        } else if let Some(options) = line.strip_prefix("options ") {
            program.options = words(options);
        } else if let Some((name, content)) = line.strip_prefix("file ").and_then(|rest| rest.split_once(' '))
        {
            program.files.push((name.to_owned(), content.to_owned()));
        } else if let Some((flags, expected)) = line.split_once(": ") {
            let (expected, figures) = expected.trim().split_once(" (").unwrap_or((expected.trim(), ""));
            program.cases.push(Case {
                line: line.to_owned(),
                flags: words(flags),
                expected: expected.to_owned(),
                figures: figures.trim_end_matches(')').to_owned(),
            });
        }
    }
    assert!(!program.cases.is_empty(), "{} expects nothing", program.source.display());
    program
}

/// What came of a check, in the words of the expectations; `None` if it is as expected.
fn differs(program: &Program, case: &Case) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let executable = directory.path().join("program");
    let pool = directory.path().join("pm");
    fs::create_dir(&pool).expect("a directory");
    for (name, content) in &program.files {
        fs::write(pool.join(name), content).expect("a file");
    }
    let warnings = ["-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"];
    let flags: Vec<&str> = warnings.into_iter().chain(case.flags.iter().map(String::as_str)).collect();
    crashproof_toolchain::testing::compile(&program.source, &executable, &flags);
    let arguments = program
        .arguments
        .iter()
        .map(|argument| OsString::from(argument.replace("{dir}", &pool.display().to_string())))
        .collect();
    let mut options = Options::new(executable, arguments);
    options.pm_path = vec![pool.clone()];
    options.pm_heap = program.options.iter().any(|option| option == "pm-heap");
    options.strict = case.flags.iter().any(|flag| flag == "-DSTRICT");
    if case.flags.iter().any(|flag| flag == "-DEADR") {
        options.platform = px86::Platform::EADR;
    }
    options.max_cpu_seconds = 2;
    let report = match check(&options) {
        Ok(report) => report,
        Err(error) => {
            let error = error.to_string();
            let expected = case.expected.strip_prefix("refused ").is_some_and(|text| error.contains(text));
            return (!expected).then(|| format!("refused {error}"));
        }
    };
    let left: Vec<_> = fs::read_dir(&pool).expect("a directory").filter_map(Result::ok).collect();
    if left.len() != program.files.len() {
        return Some(format!("left behind: {left:?}"));
    }
    for (name, content) in &program.files {
        let now = fs::read(pool.join(name)).expect("the file is still there");
        if !now.starts_with(content.as_bytes()) {
            return Some(format!("{name} was changed"));
        }
    }
    let mut outcome = String::new();
    for finding in &report.findings {
        outcome += &format!(
            "error line {}: {} ({})\n",
            finding.place.line,
            finding.failure.describe(),
            finding.output
        );
    }
    for reason in &report.unknown {
        outcome += &format!("unknown {reason}\n");
    }
    let line_of = |mark: &str| {
        let at = program.text.lines().position(|line| line.contains(&format!("// {mark}")));
        at.expect("the mark is in the program") as u32 + 1
    };
    let met = match case.expected.split_once(' ') {
        None if case.expected == "clean" => outcome.is_empty(),
        Some((error @ ("error" | "one"), rest)) => {
            let rest = rest.strip_prefix("error ").unwrap_or(rest);
            let line = match rest.split_once(' ') {
                Some(("at", mark)) => line_of(mark),
                Some(("line", number)) => number.parse().expect("a line number"),
                _ => panic!("not an expectation: {}", case.expected),
            };
            let enough = error == "error" || report.findings.len() == 1;
            enough
                && report.unknown.is_empty()
                && report.findings.iter().any(|finding| finding.place.line == line)
        }
        Some(("unknown", text)) => {
            report.findings.is_empty() && report.unknown.iter().any(|reason| reason.contains(text))
        }
        _ => panic!("not an expectation: {}", case.expected),
    };
    if !met {
        return Some(if outcome.is_empty() { "clean".into() } else { outcome });
    }
    let statistics = &report.statistics;
    let figures = format!("{} places, {} recoveries", statistics.failure_points, statistics.recoveries);
    if figures == case.figures {
        return None;
    }
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        let text = fs::read_to_string(&program.source).expect("the program is there");
        let (flags, _) = case.line.split_once(": ").expect("flags");
        let line = format!("//! {flags}: {} ({figures})\n", case.expected);
        fs::write(&program.source, text.replacen(&format!("//! {}\n", case.line), &line, 1))
            .expect("it is ours");
        return None;
    }
    Some(figures)
}

#[test]
fn every_program_gets_its_verdict() {
    let only = std::env::var("PROGRAM").unwrap_or_default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut sources: Vec<PathBuf> =
        fs::read_dir(directory).expect("programs").map(|entry| entry.expect("an entry").path()).collect();
    sources.sort();
    let mut failures = String::new();
    let mut cases = 0;
    for source in sources {
        if source.extension().is_none_or(|extension| extension != "c" && extension != "cpp")
            || !source.to_string_lossy().contains(&only)
        {
            continue;
        }
        let program = parse(source);
        for case in &program.cases {
            cases += 1;
            if let Some(outcome) = differs(&program, case) {
                let name = program.source.file_name().expect("a name").to_string_lossy();
                failures += &format!(
                    "{name} {:?}\n  expected {} ({})\n  got {outcome}\n",
                    case.flags, case.expected, case.figures
                );
            }
        }
    }
    assert!(cases > 0, "there are programs");
    assert!(failures.is_empty(), "\n{failures}");
}
