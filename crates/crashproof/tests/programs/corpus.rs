//! The corpus: structures of a few hundred lines below `tests/programs/corpus`, correct by default, with seeded bugs.
//!
//! A variant states its bug (`//@ bug: CLASS at MARK`), or nothing if it is correct. Three engines judge it: `check`;
//! `robust`, which is check on a build whose recovery verifies nothing (`-DSILENT`), so that bugs are found without a
//! failing recovery; and `lint`. Their answers for each variant are recorded in `corpus/expected`. In addition,
//! regardless of the record, some engine must find a bug in a marked line, and a variant without a bug must have no
//! findings. Exceptions are stated in the variant: `//@ wrong ENGINE: reason`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::engines::{self, Answer, Finding};
use crate::header::{Bug, Engine, Program, Variant, mark_of};
use crate::papers;

/// The answers of the three engines for one variant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) said: BTreeMap<Engine, String>,
    /// Those for the correct variant, as far as known.
    correct: BTreeMap<Engine, String>,
    /// check names the class of the bug.
    classed: bool,
    recoveries: u64,
    seconds: f64,
}

const ENGINES: [Engine; 3] = [Engine::Check, Engine::Robust, Engine::Lint];

/// Classes that a correctly placed flush or fence would fix.
const FLUSHES: [&str; 6] = [
    "never-flushed",
    "flushed-too-late",
    "wrong-order",
    "flushed-not-fenced",
    "flush-covers-too-little",
    "wrong-address-flushed",
];

pub(crate) fn is_corpus(program: &Program) -> bool {
    program.name.starts_with("corpus/")
}

/// Asks an engine; `Robust` is check without recovery's own checks.
pub(crate) fn ask(engine: Engine, program: &Program, variant: &Variant) -> Option<Answer> {
    let asked = if engine == Engine::Robust { Engine::Check } else { engine };
    let skipped = |engine| variant.expected.get(&engine).is_some_and(|expected| expected.kind() == "skipped");
    if skipped(asked) || skipped(engine) {
        return None;
    }
    if engine != Engine::Robust {
        return Some(engines::ask(engine, program, variant));
    }
    let mut silent = variant.clone();
    let rust = program.path.extension().is_some_and(|ending| ending == "rs");
    silent.compiler.extend(if rust {
        vec!["--cfg".into(), "silent".into()]
    } else {
        vec!["-DSILENT".into()]
    });
    // A recovery that trusts what it reads can fail in many ways; the first thousand suffice.
    let limit = ["--max-recoveries", "1000"].map(str::to_owned);
    silent.flags.entry(Engine::Check).or_default().extend(limit);
    Some(engines::ask(Engine::Check, program, &silent))
}

/// A line by its mark or its code: line numbers change with every expectation.
fn place(program: &Program, finding: &Finding) -> String {
    let file = std::path::Path::new(&finding.file).file_name().unwrap_or_default();
    if Some(file) != program.path.file_name() {
        return file.to_string_lossy().into_owned();
    }
    let text = program.text.lines().nth((finding.line as usize).saturating_sub(1)).unwrap_or_default();
    let code = || text.split("//").next().unwrap_or_default().trim().replace(['|', ','], ";");
    mark_of(text).map_or_else(|| format!("`{}`", code()), str::to_owned)
}

/// The findings of an engine that count for the corpus.
fn counted(engine: Engine, answer: &Answer, redundant: bool) -> Vec<&Finding> {
    let robust = |finding: &&Finding| engine != Engine::Robust || finding.rule == "missing-flush";
    let level = |finding: &&Finding| finding.level == "error" || engine == Engine::Robust || redundant;
    answer.findings.iter().filter(robust).filter(level).collect()
}

/// Has the engines judge a variant.
pub(crate) fn judge(program: &Program, variant: &Variant) -> Row {
    let mut row = Row { correct: correct(program), ..Row::default() };
    let redundant = variant.bug.as_ref().is_some_and(|bug| bug.class == "redundant");
    for engine in ENGINES {
        let before = processor_seconds();
        // A bug that no flush fixes is out of scope for robustness; a variant without one must have no findings.
        let flush = |bug: &Bug| bug.class.split('|').any(|class| FLUSHES.contains(&class));
        let curable = variant.name != "all" && variant.bug.as_ref().is_none_or(flush);
        let answer = if engine != Engine::Robust || curable { ask(engine, program, variant) } else { None };
        let Some(answer) = answer else {
            row.said.insert(engine, "-".into());
            continue;
        };
        row.seconds += processor_seconds() - before;
        let mut said: Vec<String> = Vec::new();
        for finding in counted(engine, &answer, redundant) {
            let at = |mark: &str| program.is_at(mark, &finding.file, finding.line);
            match variant.bug.as_ref().filter(|bug| at(&bug.at)) {
                Some(bug) => row.classed |= engine == Engine::Check && is_class(&bug.class, &finding.cause),
                None if redundant => continue,
                None => {}
            }
            let level = if finding.level == "error" { String::new() } else { format!("{} ", finding.level) };
            said.push(format!("{level}{} at {}", finding.rule, place(program, finding)));
        }
        said.sort();
        said.dedup();
        if let Some(refused) = &answer.refused {
            said.push(format!("refused: {}", refused.lines().next().unwrap_or_default()));
        }
        if engine == Engine::Check && !answer.unknown.is_empty() {
            said.push("incomplete".into());
        }
        if answer.vacuous {
            said.push("vacuous".into());
        }
        if engine == Engine::Check {
            row.recoveries = answer.recoveries;
        }
        row.said.insert(engine, if said.is_empty() { "clean".into() } else { said.join(", ") });
    }
    row
}

/// Whether an engine names a line of the bug, and does not report the same for the correct variant.
fn finds(said: &str, correct: &str, variant: &Variant) -> bool {
    let before: Vec<&str> = correct.split(", ").collect();
    let new = said.split(", ").filter(|finding| !before.contains(finding));
    let mut places = new.filter_map(|finding| Some(finding.split_once(" at ")?.1));
    variant.bug.as_ref().is_some_and(|bug| places.any(|place| place == bug.at))
}

/// Whether an engine reports an error.
fn accuses(said: &str) -> bool {
    let milder = |finding: &str| finding.starts_with("note ") || finding.starts_with("warning ");
    said.split(", ").any(|finding| finding.contains(" at ") && !milder(finding))
}

/// Whether a cause matches the class of a bug. A line that is deliberately never flushed may accidentally be flushed
/// late, by code that flushes another part of it.
fn is_class(class: &str, cause: &str) -> bool {
    let late = ["flushed-too-late", "wrong-order"].contains(&cause);
    class.split('|').any(|class| class == cause || late && FLUSHES.contains(&class))
}

/// Processor time of all processes that have ended and were waited for; useful if one engine runs at a time.
pub(crate) fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    (ticks(13) + ticks(14)) / 100.0
}

impl Row {
    /// The line to record.
    fn line(&self, variant: &Variant) -> String {
        let mut line = variant.name.clone();
        for engine in ENGINES {
            let _ = write!(line, " | {engine}: {}", self.said[&engine]);
        }
        let cause = if self.classed { "cause right" } else { "" };
        let _ = write!(line, " | {cause} | {} recoveries | {:.1} CPU s", self.recoveries, self.seconds);
        line
    }

    /// The record of a variant.
    fn kept(program: &Program, variant: &Variant) -> Option<Row> {
        let text = std::fs::read_to_string(kept_in(program)).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(&format!("{} |", variant.name)))?;
        let fields: Vec<&str> = line.split(" | ").collect();
        let mut row = Row::default();
        for (engine, field) in ENGINES.iter().zip(&fields[1..]) {
            row.said.insert(*engine, field.split_once(": ")?.1.to_owned());
        }
        if variant.bug.is_some() {
            row.correct = correct(program);
        }
        row.classed = *fields.get(4)? == "cause right";
        row.recoveries = fields.get(5)?.split(' ').next()?.parse().ok()?;
        row.seconds = fields.get(6)?.split(' ').next()?.parse().ok()?;
        Some(row)
    }

    fn found(&self, variant: &Variant) -> Vec<Engine> {
        let correct = |engine: &Engine| self.correct.get(engine).map_or("", String::as_str);
        let found = self.said.iter().filter(|(engine, said)| finds(said, correct(engine), variant));
        found.map(|(engine, _)| *engine).collect()
    }

    fn accused(&self) -> Vec<Engine> {
        self.said.iter().filter(|(_, said)| accuses(said)).map(|(engine, _)| *engine).collect()
    }

    /// Requirements regardless of the record: bugs are found, correct variants have no findings.
    fn complaints(&self, variant: &Variant) -> Vec<String> {
        let mut complaints = Vec::new();
        match &variant.bug {
            Some(bug) => {
                let wrong = !variant.wrong.is_empty();
                if self.found(variant).is_empty() && !wrong {
                    complaints.push(format!("no engine finds the bug at {}", bug.at));
                }
                if !self.found(variant).is_empty() && wrong {
                    complaints.push("found now; remove `//@ wrong ENGINE`".into());
                }
            }
            None if variant.name == "all" => {
                if self.accused().is_empty() {
                    complaints.push("no engine finds any of all the bugs".into());
                }
            }
            None => {
                for engine in ENGINES {
                    match (self.accused().contains(&engine), variant.wrong.contains_key(&engine)) {
                        (true, false) => complaints.push(format!("{engine} accuses a correct variant")),
                        (false, true) => complaints.push(format!("silent now; remove `//@ wrong {engine}`")),
                        _ => {}
                    }
                }
            }
        }
        complaints
    }
}

/// The record of the variant without a bug.
fn correct(program: &Program) -> BTreeMap<Engine, String> {
    let variant = program.variants.iter().find(|variant| variant.bug.is_none() && variant.name != "all");
    variant.and_then(|variant| Row::kept(program, variant)).unwrap_or_default().said
}

fn kept_in(program: &Program) -> PathBuf {
    let name = program.path.file_name().expect("a name").to_string_lossy();
    program.path.with_file_name("expected").join(format!("{name}.txt"))
}

/// A line without the parts that differ between runs.
fn untimed(line: &str) -> &str {
    line.rsplit_once(" | ").map_or(line, |(line, _)| line)
}

/// Compares one variant with its record, or records it.
pub(crate) fn trial(program: &Program, variant: &Variant) -> Result<(), String> {
    let row = judge(program, variant);
    let line = row.line(variant);
    let kept = std::fs::read_to_string(kept_in(program)).unwrap_or_default();
    let mut wrong = row.complaints(variant);
    let prefix = format!("{} |", variant.name);
    match kept.lines().find(|kept| kept.starts_with(&prefix)) {
        Some(kept) if untimed(kept) == untimed(&line) => {}
        Some(kept) => wrong.push(format!("expected {kept}\nanswered {line}")),
        None => wrong.push(format!("nothing is kept of it\nanswered {line}")),
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Records the engines' current answers for all variants, or for those selected by `BLESS_TIER` (`quick` or `slow`);
/// the records of the others remain. Written after each variant, so that an interrupted run loses nothing.
pub(crate) fn bless(program: &Program) {
    let tier = std::env::var("BLESS_TIER").unwrap_or_default();
    let path = kept_in(program);
    std::fs::create_dir_all(path.parent().expect("below the corpus")).expect("a directory");
    for chosen in &program.variants {
        if tier == "quick" && chosen.slow || tier == "slow" && !chosen.slow {
            continue;
        }
        let row = judge(program, chosen);
        for complaint in row.complaints(chosen) {
            eprintln!("{} {}: {complaint}", program.name, chosen.name);
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let mut text = String::new();
        for variant in &program.variants {
            let before = kept.lines().find(|line| line.starts_with(&format!("{} |", variant.name)));
            if variant.name == chosen.name {
                let _ = writeln!(text, "{}", row.line(chosen));
            } else if let Some(line) = before {
                let _ = writeln!(text, "{line}");
            }
        }
        std::fs::write(&path, text).expect("a file that can be written");
    }
}

/// The records of all variants of the corpus.
pub(crate) struct Table {
    rows: Vec<(String, Variant, Row)>,
}

impl Table {
    pub(crate) fn kept(programs: &[Arc<Program>]) -> Table {
        let mut rows = Vec::new();
        for program in programs {
            for variant in &program.variants {
                if let Some(row) = Row::kept(program, variant) {
                    rows.push((program.name.clone(), variant.clone(), row));
                }
            }
        }
        Table { rows }
    }

    /// How many bugs of some classes an engine found, of those it judged; without an engine, any of them.
    fn share(
        &self,
        all: impl Fn(&str) -> bool,
        by: Option<Engine>,
        found: impl Fn(&Row, &Variant) -> bool,
    ) -> (usize, usize) {
        let judged = |row: &Row| by.is_none_or(|engine| row.said[&engine] != "-");
        let bugs = self.rows.iter().filter(|(_, variant, row)| {
            variant.bug.as_ref().is_some_and(|bug| all(&bug.class)) && judged(row)
        });
        let found: Vec<bool> = bugs.map(|(_, variant, row)| found(row, variant)).collect();
        (found.iter().filter(|found| **found).count(), found.len())
    }

    /// The shares of bugs found, as a table.
    fn shares(&self) -> String {
        let mut text = String::new();
        let flush = |class: &str| class.split('|').any(|class| FLUSHES.contains(&class));
        let any = |_: &str| true;
        let by = |engine: Engine| move |row: &Row, variant: &Variant| row.found(variant).contains(&engine);
        let (check, robust, lint) = (Engine::Check, Engine::Robust, Engine::Lint);
        let some = |row: &Row, variant: &Variant| !row.found(variant).is_empty();
        let shares = [
            ("found by some engine at its line", self.share(any, None, some)),
            ("found by check at its line", self.share(any, Some(check), by(check))),
            ("check names the cause", self.share(any, Some(check), |row, _| row.classed)),
            ("missing flushes found without a failing recovery", self.share(flush, Some(robust), by(robust))),
            ("found by lint at its line, without running the program", self.share(any, Some(lint), by(lint))),
        ];
        let right = self.rows.iter().filter(|(_, variant, _)| variant.bug.is_none() && variant.name != "all");
        let right: Vec<bool> = right.map(|(_, _, row)| row.accused().is_empty()).collect();
        text.push_str("| seeded bugs | | |\n|---|---:|---:|\n");
        for (what, (found, of)) in shares {
            let _ = writeln!(
                text,
                "| {what} | {found} of {of} | {:.0}% |",
                100.0 * found as f64 / of.max(1) as f64
            );
        }
        let silent = right.iter().filter(|silent| **silent).count();
        let _ = writeln!(
            text,
            "| correct variants that no engine accuses | {silent} of {} | {:.0}% |",
            right.len(),
            100.0 * silent as f64 / right.len().max(1) as f64
        );
        text
    }

    /// The table as a chapter of the book.
    pub(crate) fn chapter(&self) -> String {
        let mut text = String::from(HEAD) + &self.shares() + "\n";
        let mut program = "";
        for (name, variant, row) in &self.rows {
            if name != program {
                let _ = writeln!(text, "\n## {}\n", name.trim_start_matches("corpus/"));
                text.push_str("| variant | class | check | robust | lint | cause | recoveries | CPU s |\n");
                text.push_str("|---|---|---|---|---|---|---:|---:|\n");
                program = name;
            }
            let cell =
                |engine: Engine| match (row.said[&engine].as_str(), row.found(variant).contains(&engine)) {
                    ("-", _) => "-",
                    (_, true) => "found",
                    ("clean", _) if variant.bug.is_some() => "",
                    ("clean", _) => "silent",
                    _ if variant.bug.is_some() => "elsewhere",
                    _ if row.accused().contains(&engine) => {
                        if variant.name == "all" {
                            "errors"
                        } else {
                            "**accuses**"
                        }
                    }
                    _ => "silent",
                };
            let class = variant.bug.as_ref().map_or("", |bug| bug.class.as_str()).replace('|', ", ");
            let _ = writeln!(
                text,
                "| {} | {class} | {} | {} | {} | {} | {} | {:.1} |",
                variant.name,
                cell(Engine::Check),
                cell(Engine::Robust),
                cell(Engine::Lint),
                if row.classed { "right" } else { "" },
                row.recoveries,
                row.seconds
            );
        }
        let wrong = self.rows.iter().filter(|(_, variant, _)| !variant.wrong.is_empty());
        let wrong: Vec<String> = wrong
            .flat_map(|(name, variant, _)| {
                let name = name.trim_start_matches("corpus/");
                let line = move |(engine, reason): (&Engine, &String)| {
                    format!("- {name}, {}, {engine}: {reason}\n", variant.name)
                };
                variant.wrong.iter().map(line).collect::<Vec<_>>()
            })
            .collect();
        if !wrong.is_empty() {
            let _ = write!(text, "\n## Known to be wrong\n\n{}", wrong.concat());
        }
        let found = self.rows.iter().map(|(name, variant, row)| {
            let by: Vec<&str> = row.found(variant).iter().map(|engine| engine.name()).collect();
            (name.trim_start_matches("corpus/"), variant, by.join(", "))
        });
        text + &papers::section(found)
    }

    /// The shares and their base, as in README.
    pub(crate) fn short(&self) -> String {
        let mut text = self.shares();
        let structures: std::collections::BTreeSet<&str> =
            self.rows.iter().map(|(name, ..)| name.as_str()).collect();
        let _ = writeln!(
            text,
            "\n{} structures; every bug, engine, and time is in [the table](docs/src/corpus.md) that `make corpus` makes.",
            structures.len()
        );
        text
    }
}

const HEAD: &str = "# The corpus\n\n\
Structures from the literature, written for this repository, right as they are, each with seeded bugs behind `-DBUG_...`. \
`make corpus` has every engine judge every variant and makes this page. \"check\" runs the program and its recovery; \
\"robust\" is check on a build whose recovery verifies nothing, so that what it finds needs no failing recovery; \"lint\" \
runs nothing. \"found\" is an error in the line of the bug, \"elsewhere\" one in another line, \"-\" not judged; the shares are of what an engine judged. Seeds that turned out to be no bugs (a later flush \
of the same line covers the store) are not listed. The sources are in \
`tests/programs/corpus`.\n\n";
