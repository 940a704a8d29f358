//! Every program below `tests/lint`: what it says at its lines is found, and nothing else.
//!
//! `//~ rule` at the end of a line expects a finding of that rule there, `//! --model strict` gives options. A
//! file called `.bad.c` expects something, a `.good.c` nothing. With names in `CRASHPROOF_LINT_TESTS`, only
//! files whose path contains one of them are looked at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crashproof_lint::{Model, Options, lint};

fn files(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the tests") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|ending| ending != "h") {
            all.push(path);
        }
    }
}

fn options(path: &Path, text: &str, include: &Path) -> Options {
    let mut options = Options {
        inputs: vec![path.to_owned()],
        arguments: vec!["-I".into(), include.into()],
        jobs: 1,
        ..Options::default()
    };
    let words: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("//! ")).flat_map(str::split_whitespace).collect();
    for word in words.iter() {
        match *word {
            "--pedantic" => options.pedantic = true,
            "--model" => {}
            "strict" => options.model = Model::Strict,
            "epoch" => options.model = Model::Epoch,
            "strand" => options.model = Model::Strand,
            other => panic!("{}: unknown option {other}", path.display()),
        }
    }
    if path.extension().is_some_and(|ending| ending == "rs") {
        options.arguments.clear();
    }
    options
}

#[test]
fn every_program_is_judged_as_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lint");
    let mut all = Vec::new();
    files(&root, &mut all);
    all.sort();
    assert!(all.len() > 40, "where are the tests?");
    let wanted = std::env::var("CRASHPROOF_LINT_TESTS").unwrap_or_default();
    let mut wrong = String::new();
    for path in
        all.iter().filter(|path| wanted.split(' ').any(|part| path.display().to_string().contains(part)))
    {
        let text = std::fs::read_to_string(path).expect("a test");
        let expected: BTreeSet<(u32, String)> = (1..)
            .zip(text.lines())
            .filter_map(|(line, text)| text.split_once("//~ ").map(|(_, rules)| (line, rules)))
            .flat_map(|(line, rules)| rules.split_whitespace().map(move |rule| (line, rule.to_owned())))
            .collect();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(name.contains(".bad."), !expected.is_empty(), "{name}");
        let report = match lint(&options(path, &text, &root.join("include"))) {
            Ok(report) => report,
            Err(error) => panic!("{name}: {error}"),
        };
        let found: BTreeSet<(u32, String)> =
            report.findings.iter().map(|finding| (finding.place.line, finding.rule.id.to_owned())).collect();
        if found != expected || !report.incomplete.is_empty() {
            wrong += &format!("{}\n", path.strip_prefix(&root).expect("below").display());
            for (line, rule) in expected.difference(&found) {
                wrong += &format!("  missing {line}: {rule}\n");
            }
            for finding in &report.findings {
                if !expected.contains(&(finding.place.line, finding.rule.id.to_owned())) {
                    wrong += &format!(
                        "  too much {}: {}: {}\n",
                        finding.place.line, finding.rule.id, finding.message
                    );
                }
            }
            for reason in &report.incomplete {
                wrong += &format!("  incomplete: {reason}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
