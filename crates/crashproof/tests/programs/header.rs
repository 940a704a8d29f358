//! Parses the `//@` lines of a program and compares an engine's answer with them. `main.rs` documents the format.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::engines::{Answer, Finding};

/// An engine that judges programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    Check,
    Lint,
    Prove,
    Robust,
}

impl Engine {
    pub(crate) const ALL: [Engine; 4] = [Engine::Check, Engine::Lint, Engine::Prove, Engine::Robust];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Check => "check",
            Engine::Lint => "lint",
            Engine::Prove => "prove",
            Engine::Robust => "robust",
        }
    }

    /// Whether every program must state this engine's answer.
    pub(crate) fn required(self) -> bool {
        self != Engine::Robust
    }

    fn named(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One expectation: `WHAT [at MARK][, CLAUSE]... [(TEXT)]...`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectation {
    what: String,
    at: Option<String>,
    clauses: Vec<String>,
    texts: Vec<String>,
}

impl Expectation {
    fn parse(line: &str, known_wrong: &mut Option<String>) -> Expectation {
        let (claims, texts) = line.split_once(" (").unwrap_or((line, ""));
        let mut expectation = Expectation::default();
        for text in texts.split(" (").filter(|text| !text.is_empty()) {
            let text = text.trim_end().strip_suffix(')').unwrap_or(text);
            match text.strip_prefix("known wrong: ") {
                Some(reason) => *known_wrong = Some(reason.to_owned()),
                None => expectation.texts.push(text.to_owned()),
            }
        }
        let mut clauses = claims.split(", ").map(|clause| clause.trim().to_owned());
        let first = clauses.next().unwrap_or_default();
        let (what, at) = match first.split_once(" at ") {
            Some((what, at)) => (what.to_owned(), Some(at.to_owned())),
            None => (first, None),
        };
        Expectation { what, at, clauses: clauses.collect(), ..expectation }
    }

    /// All marks it names.
    fn marks(&self) -> impl Iterator<Item = &str> {
        let clauses = self.clauses.iter().filter(|clause| *clause != "no warnings");
        let named =
            clauses.filter_map(|clause| clause.split_once(' ')).flat_map(|(_, marks)| marks.split(".."));
        self.at.as_deref().into_iter().chain(named)
    }

    fn is_finding(&self) -> bool {
        !["clean", "proved", "unknown", "vacuous", "refused", "skip"].contains(&self.what.as_str())
    }

    /// Whether a finding matches this expectation.
    fn met_by(&self, program: &Program, finding: &Finding) -> bool {
        let rule = match self.what.as_str() {
            "fails" | "refuted" => finding.level == "error",
            rule => finding.rule == rule,
        };
        let at = |mark: &str, file: &str, line: u32| program.is_at(mark, file, line);
        let clause = |clause: &String| match clause.split_once(' ') {
            Some(("window", range)) => range.split_once("..").is_some_and(|(from, to)| {
                finding.window.is_some_and(|(first, last)| {
                    at(from, &finding.file, first) && at(to, &finding.file, last)
                })
            }),
            Some((role, mark)) => {
                finding.related.iter().any(|(of, file, line)| of == role && at(mark, file, *line))
            }
            None if clause == "primary" => finding.primary == Some(true),
            None if clause == "reader" => finding.primary == Some(false),
            None => clause == "no warnings",
        };
        rule && self.at.as_ref().is_none_or(|mark| at(mark, &finding.file, finding.line))
            && self.texts.iter().all(|text| finding.text.contains(text))
            && self.clauses.iter().all(clause)
    }
}

/// The expected answer of one engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) lines: Vec<Expectation>,
    pub(crate) known_wrong: Option<String>,
}

impl Expected {
    fn says(&self, what: &str) -> Option<&Expectation> {
        self.lines.iter().find(|line| line.what == what)
    }

    /// Whether the place of some finding is unconstrained.
    pub(crate) fn is_loose(&self) -> bool {
        self.lines.iter().any(|line| line.is_finding() && line.at.is_none() && line.texts.is_empty())
    }

    /// For the statistics.
    pub(crate) fn kind(&self) -> &'static str {
        match self.lines[0].what.as_str() {
            "skip" => "skipped",
            "unknown" => "unknown",
            _ => "judged",
        }
    }

    /// How an answer differs from this; `None` if it does not.
    pub(crate) fn differs(
        &self,
        program: &Program,
        variant: &Variant,
        engine: Engine,
        answer: &Answer,
    ) -> Option<String> {
        let wrong = self.verdict_differs(program, engine, answer).or_else(|| {
            let expected = variant.figures.as_ref().filter(|_| engine == Engine::Check)?;
            (*expected != answer.figures).then(|| format!("expected {expected}"))
        })?;
        Some(format!("{wrong}\n  answered {}", answer.describe().replace('\n', "\n  ")))
    }

    fn verdict_differs(&self, program: &Program, engine: Engine, answer: &Answer) -> Option<String> {
        if let Some(refused) = self.says("refused") {
            let met = answer
                .refused
                .as_ref()
                .is_some_and(|text| refused.texts.iter().all(|part| text.contains(part)));
            return (!met).then(|| format!("expected to be refused: {:?}", refused.texts));
        }
        if answer.refused.is_some() {
            return Some("refused".into());
        }
        if self.says("vacuous").is_some() != answer.vacuous {
            return Some("vacuous, or expected to be".into());
        }
        if let Some(unknown) = self.says("unknown") {
            let met = |reason: &String| {
                unknown.texts.iter().all(|part| reason.contains(part))
                    && unknown.at.as_ref().is_none_or(|mark| program.mentions(mark, reason))
            };
            if !answer.unknown.iter().any(met) {
                return Some(format!("expected to be unknown: {:?}", unknown.texts));
            }
        } else if !answer.unknown.is_empty() {
            return Some("unknown, at least in part".into());
        }
        let findings: Vec<&Expectation> = self.lines.iter().filter(|line| line.is_finding()).collect();
        for expected in &findings {
            if !answer.findings.iter().any(|finding| expected.met_by(program, finding)) {
                return Some(format!("not found: {expected:?}"));
            }
        }
        let met = |finding: &&Finding| findings.iter().any(|expected| expected.met_by(program, finding));
        let all = engine == Engine::Lint && !findings.is_empty()
            || self.lines.iter().any(|line| line.clauses.iter().any(|clause| clause == "no warnings"))
            || answer.findings.iter().any(|finding| finding.level != "error" && met(&finding));
        let unexpected =
            answer.findings.iter().find(|finding| (all || finding.level == "error") && !met(finding));
        unexpected.map(|finding| format!("not expected: {}", finding.describe()))
    }
}

/// One way to compile a program, with its expectations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) compiler: Vec<String>,
    pub(crate) arguments: Vec<String>,
    pub(crate) stdin: Option<String>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) flags: BTreeMap<Engine, Vec<String>>,
    pub(crate) expected: BTreeMap<Engine, Expected>,
    pub(crate) figures: Option<String>,
    /// Its bug, in the corpus of structures.
    pub(crate) bug: Option<Bug>,
    /// Why an engine's answer for a variant of the corpus is wrong.
    pub(crate) wrong: BTreeMap<Engine, String>,
    /// Judged only by `make corpus`.
    pub(crate) slow: bool,
    /// The corresponding rows of the papers' tables of bugs, such as `Jaaru 13.1`.
    pub(crate) like: Vec<String>,
}

/// A seeded bug: its class and the mark of its lines, any of which will do.
#[derive(Clone, Debug)]
pub(crate) struct Bug {
    pub(crate) class: String,
    pub(crate) at: String,
}

/// A file below `tests/programs`.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Such as `flush/missing.c`.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) variants: Vec<Variant>,
}

fn words(text: &str) -> Vec<String> {
    shell_words::split(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A `//@` line as key and value.
pub(crate) fn directive(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("//@ ")?.trim_end();
    let (key, value) = line.split_once(':').unwrap_or((line, ""));
    Some((key.trim(), value.trim()))
}

impl Program {
    pub(crate) fn read(root: &Path, path: &Path) -> Result<Program, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let name = path.strip_prefix(root).expect("below").display().to_string();
        let mut program = Program { path: path.to_owned(), name, text, variants: Vec::new() };
        // The part common to all variants; then each variant's own part.
        let mut sections = vec![Variant::default()];
        for (key, value) in program.text.lines().filter_map(directive) {
            if let Some(name) = key.strip_prefix("variant ") {
                sections.push(Variant {
                    name: name.to_owned(),
                    compiler: words(value),
                    ..Variant::default()
                });
                continue;
            }
            program.set(sections.last_mut().expect("the common one"), key, value)?;
        }
        let common = sections.remove(0);
        let replaced = |engine: &&Engine| {
            !sections.is_empty() && sections.iter().all(|own| own.expected.contains_key(engine))
        };
        if let Some(engine) = common.expected.keys().find(replaced) {
            return Err(format!(
                "{engine}: every variant replaces what is common to all, so nothing is judged by it"
            ));
        }
        program.variants = match sections.is_empty() {
            true => vec![common],
            false => sections.into_iter().map(|own| combined(&common, own)).collect(),
        };
        Ok(program)
    }

    fn set(&self, section: &mut Variant, key: &str, value: &str) -> Result<(), String> {
        match key.split_once(' ').unwrap_or((key, "")) {
            ("cflags", "") => section.compiler.extend(words(value)),
            ("args", "") => section.arguments = words(value),
            ("stdin", "") => section.stdin = Some(value.replace("\\n", "\n")),
            ("figures", "") => section.figures = Some(value.to_owned()),
            ("tier", "") if value == "slow" => section.slow = true,
            ("like", "") => section.like.extend(value.split(", ").map(str::to_owned)),
            ("bug", "") => {
                let (class, at) =
                    value.split_once(" at ").ok_or_else(|| format!("bug: CLASS at MARK, not {value}"))?;
                if self.lines_of(at).is_empty() {
                    return Err(format!("no line is marked {at}"));
                }
                section.bug = Some(Bug { class: class.to_owned(), at: at.to_owned() });
            }
            ("wrong", name) => {
                let engine = Engine::named(name).ok_or_else(|| format!("no engine: {name}"))?;
                section.wrong.insert(engine, value.to_owned());
            }
            ("file", name) => section.files.push((name.to_owned(), value.to_owned())),
            ("flags", name) => {
                let engine = Engine::named(name).ok_or_else(|| format!("no engine: {name}"))?;
                section.flags.entry(engine).or_default().extend(words(value));
            }
            (name, "") => {
                let engine =
                    Engine::named(name).ok_or_else(|| format!("not understood: //@ {key}: {value}"))?;
                let expected = section.expected.entry(engine).or_default();
                let line = Expectation::parse(value, &mut expected.known_wrong);
                let unmarked = |mark: &&str| !mark.contains('.') && self.lines_of(mark).is_empty();
                if let Some(mark) = line.marks().find(unmarked) {
                    return Err(format!("no line is marked {mark}"));
                }
                if line.what == "skip" && line.texts.is_empty() {
                    return Err(format!("{name}: skip (why?)"));
                }
                expected.lines.push(line);
            }
            _ => return Err(format!("not understood: //@ {key}: {value}")),
        }
        Ok(())
    }

    /// The lines with a mark.
    pub(crate) fn lines_of(&self, mark: &str) -> Vec<u32> {
        let marked = (1..).zip(self.text.lines());
        marked.filter(|(_, text)| mark_of(text) == Some(mark)).map(|(line, _)| line).collect()
    }

    /// Replaces `{MARK}` in options by the number of the marked line.
    pub(crate) fn with_lines(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for mark in self.text.lines().filter_map(mark_of) {
            filled = filled.replace(&format!("{{{mark}}}"), &self.lines_of(mark)[0].to_string());
        }
        filled
    }

    /// Whether a place is at this mark, or in the file of this name.
    pub(crate) fn is_at(&self, mark: &str, file: &str, line: u32) -> bool {
        let name = Path::new(file).file_name();
        if mark.contains('.') {
            return name.is_some_and(|name| name == mark);
        }
        name == self.path.file_name() && self.lines_of(mark).contains(&line)
    }

    /// Whether a text names the marked line.
    fn mentions(&self, mark: &str, text: &str) -> bool {
        let file = self.path.file_name().expect("a name").to_string_lossy();
        self.lines_of(mark).iter().any(|line| text.contains(&format!("{file}:{line}:")))
    }

    /// Whether it defines its own `recover`.
    pub(crate) fn recovers(&self) -> bool {
        self.text.lines().any(|line| line.starts_with("void recover("))
    }
}

/// The name of the mark in a line.
pub(crate) fn mark_of(line: &str) -> Option<&str> {
    line.split_once("MARK: ")?.1.split_whitespace().next()
}

fn combined(common: &Variant, own: Variant) -> Variant {
    let mut all = common.clone();
    all.name = own.name;
    all.compiler.extend(own.compiler);
    all.files.extend(own.files);
    if !own.arguments.is_empty() {
        all.arguments = own.arguments;
    }
    all.stdin = own.stdin.or(all.stdin);
    all.figures = own.figures.or(all.figures);
    all.bug = own.bug;
    all.wrong.extend(own.wrong);
    all.slow = own.slow;
    all.like = own.like;
    for (engine, flags) in own.flags {
        let known = all.flags.entry(engine).or_default();
        // A variant's schedules replace those given for all.
        let schedules = |flag: &String| flag == "--schedules";
        if flags.iter().any(schedules)
            && let Some(at) = known.iter().position(schedules)
        {
            known.drain(at..at + 2);
        }
        known.extend(flags);
    }
    all.expected.extend(own.expected);
    all
}
