//! `check --model`: strands and epochs of real programs.

use std::path::Path;

use crashproof_check::{Conflict, Model, Options, Report, check};

fn run(name: &str, flags: &[&str], model: Model, schedules: u32) -> Report {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regions").join(name);
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    crashproof_toolchain::testing::compile(&source, &program, flags);
    let mut options = Options::new(program, Vec::new());
    options.model = Some(model);
    options.schedules = schedules;
    check(&options).expect("it can be checked")
}

/// Every dependence, with the comments of the two lines.
fn dependences(name: &str, flags: &[&str], model: Model, schedules: u32) -> Vec<(Conflict, String, String)> {
    let report = run(name, flags, model, schedules);
    assert_eq!(report.unknown, [] as [String; 0]);
    let text = std::fs::read_to_string(
        report.dependences.first().map_or_else(String::new, |first| first.first.file.clone()),
    )
    .unwrap_or_default();
    let comment = |line: u32| {
        let line = text.lines().nth(line as usize - 1).unwrap_or_default();
        line.split_once("// ").map_or_else(String::new, |(_, comment)| comment.to_owned())
    };
    let dependences = report.dependences.iter();
    dependences.map(|found| (found.conflict, comment(found.first.line), comment(found.second.line))).collect()
}

fn expect(found: &[(Conflict, String, String)], expected: &[(Conflict, &str, &str)]) {
    let found: Vec<_> =
        found.iter().map(|(conflict, first, second)| (*conflict, first.as_str(), second.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_strand_that_reads_what_another_wrote() {
    let strands = |flags: &[&str]| dependences("strands.c", flags, Model::Strand, 1);
    expect(&strands(&[]), &[(Conflict::ReadAfterWrite, "ADD", "READ")]);
    expect(&strands(&["-DJOIN"]), &[]);
    expect(&strands(&["-DAPART"]), &[]);
}

#[test]
fn strands_of_several_threads() {
    for schedules in [1, 8] {
        let strands = |flags: &[&str]| dependences("threads.c", flags, Model::Strand, schedules);
        expect(&strands(&["-DFENCED"]), &[]);
        expect(&strands(&[]), &[]);
        let both =
            [(Conflict::WriteAfterWrite, "COUNT", "COUNT"), (Conflict::ReadAfterWrite, "COUNT", "COUNT")];
        expect(&strands(&["-DUNLOCKED"]), &both);
    }
}

#[test]
fn epochs_without_a_barrier() {
    let epochs = |flags: &[&str]| dependences("epochs.c", flags, Model::Epoch, 1);
    expect(&epochs(&[]), &[(Conflict::NoBarrier, "RECORD", "SECOND")]);
    expect(&epochs(&["-DBARRIER"]), &[]);
}

#[test]
fn a_program_without_markers_is_not_called_sound() {
    let report = run("epochs.c", &[], Model::Strand, 1);
    assert!(report.dependences.is_empty());
    assert!(report.unknown[0].contains("no strand is marked"), "{:?}", report.unknown);
}
