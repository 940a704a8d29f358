//! The programs of `check`'s robustness tests, PSan's figures among them: clean after `fix`, or the reason why not.

mod bench;

use std::path::{Path, PathBuf};

use bench::Bench;
use crashproof_fix::fix;

/// Programs that no flush after a statement can fix, and what is said about them.
const REFUSED: [(&str, &str); 1] = [("fig6 -DJOINED", "does not name it")];

#[test]
fn before_and_after() {
    let directory = crashproof_toolchain::testing::scratch("fix-figures");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../check/tests/robust");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(programs).expect("programs").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let (mut wrong, mut fixed) = (Vec::new(), 0);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a program");
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let lines: Vec<&str> =
            text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim).collect();
        let runs = lines.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("run:")?, pair[1])));
        for (number, (words, expected)) in runs.enumerate() {
            if !expected.starts_with("error") {
                continue;
            }
            let source = directory.join(format!("{name}-{number}.c"));
            std::fs::write(&source, &text).expect("written");
            let (flags, options): (Vec<&str>, Vec<&str>) =
                words.split_whitespace().partition(|word| word.starts_with('-'));
            let mut bench = Bench::new(source, flags.iter().map(|flag| flag.to_string()).collect());
            for option in options {
                match option.split_once('=').expect("what=how many") {
                    ("schedules", many) => bench.schedules = many.parse().expect("a number"),
                    ("crashes", many) => bench.crashes = many.parse().expect("a number"),
                    _ => {}
                }
            }
            let outcome =
                fix(&mut bench, &Default::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let title = format!("{name} {}", flags.join(" "));
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
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
