//! Persistent structures with a flush left out, and fixed: the program is clean after the first edit.
//!
//! The variants of the programs say which flushes can be left out, with `-DBUG=1` and so on; with `-DBUG=0` it is clean.

mod bench;

use std::path::{Path, PathBuf};

use bench::Bench;
use crashproof_fix::fix;

fn number(text: &str, what: &str) -> Option<u32> {
    let mut last = text.lines().filter_map(|line| line.split_once(what)?.1.trim().parse().ok());
    last.next_back()
}

#[test]
fn seeded_bugs_are_fixed_at_the_first_try() {
    let directory = crashproof_toolchain::testing::scratch("fix-structures");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/structures");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(programs).expect("programs").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 5);
    let (mut seeded, mut fixed, mut told) = (0, 0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a program");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let schedules = number(&text, "//@ flags check: --schedules ").unwrap_or(1);
        for bug in 0..=number(&text, ": -DBUG=").expect("how many bugs there are") {
            let source = directory.join(format!("{bug}-{name}"));
            std::fs::write(&source, &text).expect("written");
            let mut bench = Bench::new(source, vec![format!("-DBUG={bug}")]);
            bench.schedules = schedules;
            let outcome =
                fix(&mut bench, &Default::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            if bug == 0 {
                let left: Vec<_> = outcome.report.violations.iter().map(|found| found.place.line).collect();
                assert_eq!(outcome.errors, 0, "{name} has nothing to fix: {left:?} {:?}", outcome.changed);
                assert_eq!(outcome.report.errors(), 0, "{name} is right");
                continue;
            }
            assert!(outcome.errors > 0, "{name}: bug {bug} is not found");
            seeded += 1;
            let clean = outcome.report.errors() == 0 && outcome.remaining.is_empty();
            let first_try = clean && bench.history.len() == 2;
            fixed += usize::from(first_try);
            let left: Vec<_> =
                outcome.remaining.iter().map(|left| (&left.violation.place.line, &left.reason)).collect();
            let edits: String = outcome.changed.iter().map(|changed| changed.diff()).collect();
            let state = if first_try {
                "fixed at once"
            } else if clean {
                "fixed later"
            } else {
                "NOT FIXED"
            };
            told.push(format!("{name} bug {bug}: {state}, errors {:?} {left:?}\n{edits}", bench.history));
        }
    }
    println!("{fixed} of {seeded} seeded bugs fixed at the first try\n{}", told.join("\n"));
    assert!(seeded >= 10 && fixed * 10 >= seeded * 9, "{fixed} of {seeded}\n{}", told.join("\n"));
}
