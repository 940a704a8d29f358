//! The programs of `check`'s robustness tests, including PSan's figures: clean after `fix`, or the reason why not.

mod bench;

use std::path::{Path, PathBuf};

use bench::Bench;
use crashproof_fix::fix;

/// Programs that no flush after a statement can fix, and what is said about them.
const REFUSED: [(&str, &str); 1] = [("fig6 -DJOINED", "does not name it")];

/// What a program's header says of one of its variants.
#[derive(Clone)]
struct Run {
    flags: Vec<String>,
    schedules: u32,
    crashes: usize,
    errors: bool,
}

/// The variants of a program, or the program itself if it has none.
fn runs(text: &str) -> Vec<Run> {
    let mut runs = vec![Run { flags: Vec::new(), schedules: 1, crashes: 1, errors: false }];
    for line in text.lines().filter_map(|line| line.strip_prefix("//@ ")) {
        if let Some((_, flags)) = line.strip_prefix("variant ").and_then(|line| line.split_once(':')) {
            runs.push(Run {
                flags: flags.split_whitespace().map(str::to_owned).collect(),
                ..runs[0].clone()
            });
            continue;
        }
        let run = runs.last_mut().expect("one");
        if let Some(flags) = line.strip_prefix("flags check: ") {
            let words: Vec<&str> = flags.split_whitespace().collect();
            for pair in words.windows(2) {
                match pair {
                    ["--schedules", many] => run.schedules = many.parse().expect("a number"),
                    ["--crashes", many] => run.crashes = many.parse().expect("a number"),
                    _ => {}
                }
            }
        }
        let found = line.strip_prefix("check: ");
        run.errors |= found.is_some_and(|found| found.contains(" window "));
    }
    if runs.len() > 1 {
        runs.remove(0);
    }
    runs
}

#[test]
fn before_and_after() {
    let directory = crashproof_toolchain::testing::scratch("fix-figures");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/robust");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(programs).expect("programs").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let (mut wrong, mut fixed) = (Vec::new(), 0);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a program");
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        for (number, run) in runs(&text).into_iter().enumerate() {
            if !run.errors {
                continue;
            }
            let source = directory.join(format!("{name}-{number}.c"));
            std::fs::write(&source, &text).expect("written");
            let mut bench = Bench::new(source, run.flags.clone());
            bench.schedules = run.schedules;
            bench.crashes = run.crashes;
            let outcome =
                fix(&mut bench, &Default::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            // A missing flush that changes nothing is a note: there is nothing to fix.
            if bench.history == [0] {
                continue;
            }
            let title = format!("{name} {}", run.flags.join(" "));
            let left: Vec<&str> = outcome.remaining.iter().map(|left| left.reason.as_str()).collect();
            let refused = REFUSED.iter().find(|(known, _)| *known == title.trim());
            let met = match refused {
                Some((_, reason)) => !left.is_empty() && left.iter().all(|left| left.contains(reason)),
                None => left.is_empty() && outcome.report.errors() == 0 && !outcome.changed.is_empty(),
            };
            fixed += usize::from(met && refused.is_none());
            if !met {
                let diff: String = outcome.changed.iter().map(|changed| changed.diff()).collect();
                wrong.push(format!("{title}: errors {:?}, left {left:?}\n{diff}", bench.history));
            }
        }
    }
    println!("{fixed} programs fixed");
    assert!(fixed >= 19, "only {fixed} programs were fixed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
