//! The examples of the rule reference: each bad one violates its rule, each good one violates none.

use crashproof_findings::Example;
use crashproof_findings::rules::lint::RULES;
use crashproof_lint::{Model, Options, lint};

fn found(example: &Example) -> Vec<&'static str> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(example.file);
    std::fs::write(&path, example.source).expect("room for it");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");
    let mut options = Options {
        inputs: vec![path],
        arguments: vec!["-I".into(), include.into()],
        jobs: 1,
        ..Options::default()
    };
    match example.arguments {
        [] => {}
        ["--model", "strict"] => options.model = Model::Strict,
        ["--model", "strand"] => options.model = Model::Strand,
        other => panic!("{other:?}"),
    }
    let report = lint(&options).unwrap_or_else(|error| panic!("{error}"));
    // One mistake may lose several stores, each of which is a finding.
    let mut rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule.id).collect();
    rules.dedup();
    rules
}

#[test]
fn examples_are_what_they_say() {
    for rule in RULES {
        assert_eq!(found(&rule.bad), [rule.id], "the bad example of {}", rule.id);
        assert_eq!(found(&rule.good), [""; 0], "the good example of {}", rule.id);
    }
}
