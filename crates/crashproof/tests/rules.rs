//! Verifies the examples of the rules: the bad one has the finding, the good one has none.
//!
//! The same for `crashproof explain` and the book's rule reference, which show them.

use std::path::Path;
use std::process::Command;

use crashproof_findings::rules::{self, Example, Rule};
use serde_json::Value;

/// The findings that a rule's command reports for an example.
fn findings(rule: &Rule, example: &Example, directory: &Path) -> Vec<String> {
    let source = directory.join(format!("{}-{}", rule.id, example.file));
    std::fs::write(&source, example.source).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_crashproof"))
        .args([rule.engine.command(), "--format", "json"])
        .args(example.arguments)
        .arg(&source)
        .current_dir(directory)
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include())
        .output()
        .expect("crashproof runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{} of {}: {error}\n{said}", example.file, rule.id));
    let list = report["findings"].as_array().expect("findings");
    list.iter().map(|finding| finding["rule"].as_str().expect("a rule").to_owned()).collect()
}

#[test]
fn the_bad_example_is_found_and_the_good_one_is_silent() {
    let directory = crashproof_toolchain::testing::scratch("rules");
    for rule in rules::all() {
        let bad = findings(rule, &rule.bad, &directory);
        assert!(bad.iter().any(|found| found == rule.id), "{} is not found in its example: {bad:?}", rule.id);
        let good = findings(rule, &rule.good, &directory);
        assert!(good.is_empty(), "the good example of {} is not silent: {good:?}", rule.id);
    }
}

/// The chapter of the book that lists all rules.
fn reference() -> String {
    let mut text = String::from(
        "# Rules\n\nWhat a finding can be about. `crashproof explain RULE` shows the same. This chapter is made from the \
         registry of rules\n(`make bless`), and tests run every example: the first is found, the second is silent.\n\n\
         | rule | level | found by | what breaks it |\n|---|---|---|---|\n",
    );
    for rule in rules::all() {
        let Rule { id, level, engine, title, .. } = rule;
        text += &format!("| [{id}](#{id}) | {} | {} | {title} |\n", level.word(), engine.command());
    }
    for rule in rules::all() {
        let command = [&[rule.engine.command()], rule.bad.arguments].concat().join(" ");
        text += &format!("\n## {}\n\n*{}, found by `crashproof {command}`*\n\n", rule.id, rule.level.word());
        text += &format!("{}\nThis breaks it:\n\n```c\n{}```\n\n", rule.explanation, rule.bad.source);
        text += &format!("This does not:\n\n```c\n{}```\n", rule.good.source);
    }
    text
}

#[test]
fn the_rule_reference_is_made_from_the_registry() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/rules.md");
    if std::env::var_os("SNAPSHOTS").is_some_and(|what| what == "overwrite") {
        std::fs::write(&file, reference()).expect("written");
    }
    let written = std::fs::read_to_string(&file).expect("docs/src/rules.md");
    assert!(
        written == reference(),
        "docs/src/rules.md is not what the registry says; `make bless` makes it anew"
    );
}
