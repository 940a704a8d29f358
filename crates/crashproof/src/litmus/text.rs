//! Litmus answers as text.
//!
//! A test takes a few lines: its outcomes as a table, each question with its verdict, robustness. A failure is shown as
//! a story with one lane per cache line: what reached the cache in which order, when each line was last written back,
//! what the crash left, and what recovery did with it.

use std::fmt::Write as _;

use crashproof_litmus::answer::{
    Answer, Assertions, Chapter, Effect, InstructionRef, Step, Story, Verdict, Witness,
};
use crashproof_litmus::{LocId, Op, QueryKind, Test};
use crashproof_report::grid::{Align, Grid};
use crashproof_report::style::{BAD, FAINT, GOOD, STRONG, UNSURE, mark, paint};

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Only what fails.
    Quiet,
    /// Everything, long tables cut.
    Normal,
    /// Everything in full, and how robustness violations arise.
    Verbose,
}

/// Outcomes shown before the table is cut.
const OUTCOMES_SHOWN: usize = 16;

/// The most locations that a table of outcomes can show.
const COLUMNS: usize = 14;

/// The answer about one test.
pub(crate) fn test(file: &str, test: &Test, answer: &Answer, detail: Detail) -> String {
    let mut text = String::new();
    let view = View { test, detail };
    let _ = writeln!(text, "{}  {}", paint(STRONG, &test.name), paint(FAINT, file));
    view.outcomes(&mut text, answer);
    view.queries(&mut text, answer);
    view.assertions(&mut text, answer);
    view.robust(&mut text, answer);
    for reason in &answer.incomplete {
        let _ = writeln!(text, "  {} incomplete: {reason}", paint(UNSURE, "!"));
    }
    view.statistics(&mut text, answer);
    text
}

struct View<'a> {
    test: &'a Test,
    detail: Detail,
}

impl View<'_> {
    fn outcomes(&self, text: &mut String, answer: &Answer) {
        let count = answer.states.len();
        let at_least = if answer.complete() { "" } else { "at least " };
        let plural = if count == 1 { "" } else { "s" };
        let _ = writeln!(text, "  {at_least}{count} outcome{plural} of a crash");
        let order = self.test.locations_by_name();
        if order.is_empty() {
            return;
        }
        let cell = |id: &LocId, state: &[i64]| state[usize::from(id.0)];
        let mut grid = Grid::default();
        if order.len() <= COLUMNS {
            grid.row(order.iter().map(|&id| paint(STRONG, self.name(id))));
            for state in answer.states.iter().take(self.shown()) {
                grid.row(order.iter().map(|id| cell(id, state).to_string()));
            }
            text.push_str(&grid.lines(4, "  ", Align::Right));
        } else {
            // Too wide for a table: shows only what differs from the initial state.
            for state in answer.states.iter().take(self.shown()) {
                let changed = order.iter().filter(|id| cell(id, state) != self.test.location(**id).init);
                let cells: Vec<String> =
                    changed.map(|id| format!("{}={}", self.name(*id), cell(id, state))).collect();
                grid.row([if cells.is_empty() { "as at the start".into() } else { cells.join(" ") }]);
            }
            text.push_str(&grid.lines(4, "", Align::Left));
        }
        if count > self.shown() {
            let _ = writeln!(text, "    {}", paint(FAINT, format!("… and {} more", count - self.shown())));
        }
    }

    fn shown(&self) -> usize {
        if self.detail == Detail::Verbose { usize::MAX } else { OUTCOMES_SHOWN }
    }

    fn name(&self, id: LocId) -> &str {
        &self.test.location(id).name
    }

    fn queries(&self, text: &mut String, answer: &Answer) {
        for (query, answer) in self.test.queries.iter().zip(&answer.queries) {
            let kind = query.kind.name();
            let _ = writeln!(text, "  {} {kind:<9} {}", mark(answer.holds), query.text);
            if answer.holds == Some(false) && query.kind == QueryKind::Allowed {
                let _ = writeln!(text, "    no outcome satisfies it");
            }
            if let Some(story) = &answer.story {
                self.story(text, story, "It happens like this:");
            }
        }
    }

    fn assertions(&self, text: &mut String, answer: &Answer) {
        match &answer.assertions {
            Assertions::None => {}
            Assertions::Hold => {
                let _ = writeln!(text, "  {} recovery's assertions hold", mark(Some(true)));
            }
            Assertions::Unknown => {
                let _ = writeln!(text, "  {} recovery's assertions: not decided", mark(None));
            }
            Assertions::Fail(failure) => {
                let recover = self.test.recover.as_ref().expect("recovery ran");
                let instruction = &recover.instructions[failure.instruction];
                let line = self.test.line_number(instruction.span);
                let _ = writeln!(
                    text,
                    "  {} recovery fails at line {line}: {}",
                    mark(Some(false)),
                    self.test.text(instruction)
                );
                if let Some(story) = &failure.story {
                    self.story(text, story, "It happens like this:");
                }
            }
        }
    }

    fn robust(&self, text: &mut String, answer: &Answer) {
        let robust = &answer.robust;
        let senses = [("strict", &robust.strict), ("event", &robust.event), ("state", &robust.state)];
        let verdicts: Vec<String> =
            senses.iter().map(|(sense, verdict)| format!("{sense} {}", mark(verdict.known()))).collect();
        let _ = writeln!(text, "  robust    {}", verdicts.join("  "));
        if let Verdict::No(witness) = &robust.strict {
            self.witness(text, witness);
        }
    }

    fn witness(&self, text: &mut String, witness: &Witness) {
        if let Some(pair) = witness.pair {
            let _ = writeln!(
                text,
                "    {} can be lost, while {}, which comes after it, survives",
                self.place(pair.lost),
                self.place(pair.survived),
            );
        }
        if self.detail == Detail::Verbose
            && let Some(story) = &witness.story
        {
            self.story(text, story, "For example:");
        }
    }

    fn place(&self, at: InstructionRef) -> String {
        let instruction = &self.test.threads[at.thread].instructions[at.index];
        let line = self.test.line_number(instruction.span);
        let place = paint(FAINT, format!("(thread {}, line {line})", at.thread));
        format!("`{}` {place}", self.test.text(instruction))
    }

    fn statistics(&self, text: &mut String, answer: &Answer) {
        let figures = &answer.statistics;
        let mut line = format!("{}: {}", answer.engine, counted(figures.explored, "machine state"));
        if figures.failure_points > 0 {
            let _ = write!(line, ", {}", counted(figures.failure_points, "failure point"));
        }
        if figures.recoveries > 0 {
            let recoveries = if figures.recoveries == 1 { "recovery" } else { "recoveries" };
            let _ = write!(line, ", {} {recoveries}", grouped(&figures.recoveries.to_string()));
        }
        if let Some(eager) = &figures.eager_states {
            let _ = write!(line, " (an eager checker: {})", grouped(eager));
        }
        let _ = writeln!(text, "  {}", paint(FAINT, line));
    }

    fn story(&self, text: &mut String, story: &Story, title: &str) {
        let _ = writeln!(text, "\n    {title}\n");
        let mut lanes = Lanes::new(self);
        for chapter in &story.chapters {
            lanes.chapter(chapter);
        }
        for step in &story.recovery {
            lanes.recovery(step);
        }
        text.push_str(&lanes.grid.lines(6, " │ ", Align::Left));
        text.push('\n');
    }
}

/// A story as a table: a row per step, a lane per cache line.
struct Lanes<'a> {
    view: &'a View<'a>,
    grid: Grid,
}

impl<'a> Lanes<'a> {
    fn new(view: &'a View<'a>) -> Lanes<'a> {
        let mut grid = Grid::default();
        let mut header = vec![String::new()];
        for line in 0..view.test.lines {
            let names: Vec<&str> =
                view.test.locations.iter().filter(|at| at.line == line).map(|at| at.name.as_str()).collect();
            header.push(paint(FAINT, format!("line {{ {} }}", names.join(", "))));
        }
        grid.row(header);
        Lanes { view, grid }
    }

    fn row(&mut self, label: String, lane: Option<(usize, String)>) {
        let mut cells = vec![label];
        cells.resize(self.view.test.lines + 1, String::new());
        if let Some((line, text)) = lane {
            cells[line + 1] = text;
        }
        self.grid.row(cells);
    }

    fn chapter(&mut self, chapter: &Chapter) {
        let test = self.view.test;
        for (index, step) in chapter.steps.iter().enumerate() {
            let code = if chapter.recovery {
                test.recover.as_ref().expect("recovery ran")
            } else {
                &test.threads[step.instruction.thread]
            };
            let instruction = &code.instructions[step.instruction.index];
            let who = match chapter.recovery {
                true => "recovery".to_owned(),
                false => format!("thread {}", step.instruction.thread),
            };
            let label = format!("{}  {}", paint(FAINT, who), test.text(instruction));
            let location = instruction.op.location().map(|at| test.location(at));
            // Known exactly only for engines that report when each line was last written back.
            let fate = |line: usize| match chapter.written_back.get(line) {
                Some(&last) if index < last => paint(GOOD, " kept"),
                Some(_) => paint(BAD, " lost"),
                None => String::new(),
            };
            let stored = |line: usize, value: i64| {
                let name = location.map_or("", |at| at.name.as_str());
                format!("{name} = {value}{}", fate(line))
            };
            let lane = location.map(|at| {
                let line = at.line;
                let text = match step.effect {
                    Effect::Read(value) => paint(FAINT, format!("{} reads {value}", at.name)),
                    Effect::Forwarded(value) => {
                        paint(FAINT, format!("{} reads {value} (own buffer)", at.name))
                    }
                    Effect::Cached(value) | Effect::Exchanged(_, Some(value)) => stored(line, value),
                    Effect::Exchanged(old, None) => paint(FAINT, format!("{} reads {old}", at.name)),
                    Effect::Flushed => flushed(&instruction.op),
                    Effect::Fenced | Effect::Failed => String::new(),
                };
                (line, text)
            });
            self.row(label, lane);
        }
        self.crash(chapter);
    }

    fn crash(&mut self, chapter: &Chapter) {
        let test = self.view.test;
        let mut cells = vec![paint(BAD, "crash, leaving")];
        for line in 0..test.lines {
            let left: Vec<String> = test
                .locations
                .iter()
                .zip(&chapter.outcome)
                .filter(|(location, _)| location.line == line)
                .filter_map(|(location, value)| Some(format!("{} = {}", location.name, (*value)?)))
                .collect();
            cells.push(paint(STRONG, left.join(", ")));
        }
        self.grid.row(cells);
    }

    fn recovery(&mut self, step: &Step) {
        let test = self.view.test;
        let recover = test.recover.as_ref().expect("recovery ran");
        let instruction = &recover.instructions[step.instruction.index];
        let label = format!("{}  {}", paint(FAINT, "recovery"), test.text(instruction));
        let lane = instruction.op.location().map(|at| {
            let at = test.location(at);
            let text = match step.effect {
                Effect::Read(value) | Effect::Forwarded(value) | Effect::Exchanged(value, None) => {
                    format!("{} reads {value}", at.name)
                }
                Effect::Cached(value) | Effect::Exchanged(_, Some(value)) => format!("{} = {value}", at.name),
                Effect::Flushed => flushed(&instruction.op),
                Effect::Fenced | Effect::Failed => String::new(),
            };
            (at.line, text)
        });
        let label = match step.effect {
            Effect::Failed => format!("{label}  {}", paint(BAD, "fails")),
            _ => label,
        };
        self.row(label, lane);
    }
}

/// The effect of a flush: `clflush` completes at once, the others with the next fence.
fn flushed(op: &Op) -> String {
    paint(FAINT, if matches!(op, Op::Flush(_)) { "written back" } else { "write-back begins" })
}

/// A number and what it counts.
fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(&number.to_string()))
}

/// Digits in groups of three.
fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The last lines of a run with several tests.
pub(crate) fn summary(passed: usize, failed: usize, unknown: usize, invalid: usize) -> String {
    let mut parts = vec![format!("{passed} passed"), format!("{failed} failed")];
    if unknown > 0 {
        parts.push(format!("{unknown} incomplete"));
    }
    if invalid > 0 {
        parts.push(format!("{invalid} invalid"));
    }
    parts.join(", ")
}
