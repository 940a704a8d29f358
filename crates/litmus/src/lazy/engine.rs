//! The lazy engine for litmus tests: Jaaru's exploration over all schedules, PSan's intervals on top.
//!
//! With a recovery block, recovery determines what survived as it reads. The list of outcomes, as needed by litmus
//! tests, is what an observer of every location would read; if it exceeds the limit it is abandoned, and the answer
//! says so, but the assertions are still decided.

use std::collections::hash_map::Entry;

use crate::answer::{
    Answer, AssertionFailure, Assertions, Chapter, Effect, InstructionRef, LostAndSurvived, Options,
    QueryAnswer, Robust, Statistics, Step, Story, Verdict, Witness, sort_states,
};
use crate::{Location, Op, QueryKind, Test};
use px86::Line;
use px86::line::WORD_BYTES;
use px86::robust::{Intervals, Violation};
use px86::storage::Execution;
use px86::survive::{CrashStack, Source};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::lazy::explorer::{Settings, explore};
use crate::lazy::litmus_subject::{LitmusProgram, instruction};
use crate::lazy::observer::{Crash, Happened, Limit, Observer, Past, Path, What};
use crate::lazy::world::observation;

/// The engine's name.
pub const NAME: &str = "lazy";

/// Answers every question about `test`.
pub fn run(test: &Test, options: &Options) -> Answer {
    let memory: Vec<(u64, Vec<u8>)> =
        test.locations.iter().map(|at| (at.address, at.init.to_le_bytes().to_vec())).collect();
    let settings = Settings {
        crashes: options.crashes as usize,
        platform: test.platform(options.domain, Line(0)),
        states: options.limits.states as u64,
        bytes: options.limits.bytes,
        interrupt: options.limits.interrupt,
    };
    let mut watch = Watch::new(test, options);
    let figures = explore(&LitmusProgram { test }, &memory, settings, &mut watch);
    let mut incomplete = Vec::new();
    match figures.limit {
        None => {}
        Some(Limit::Interrupted(why)) => incomplete.push(why.to_owned()),
        Some(Limit::States) => incomplete.push(format!("more than {} machine states", options.limits.states)),
        Some(Limit::Bytes) => {
            incomplete.push(format!("more than {} MiB of visited states", options.limits.bytes >> 20));
        }
    }
    if watch.too_many_outcomes {
        incomplete.push(format!("outcomes: more than {} different ones", options.limits.outcomes));
    }
    let explored_all = figures.limit.is_none();
    let listed_all = explored_all && !watch.too_many_outcomes;
    let queries = watch.queries(listed_all);
    let robust = watch.robust(explored_all, listed_all);
    let assertions = watch.assertions(explored_all);
    let mut states: Vec<Vec<i64>> = watch.by_value.into_keys().collect();
    sort_states(test, &mut states);
    Answer {
        engine: NAME,
        incomplete,
        states,
        robust,
        assertions,
        queries,
        statistics: Statistics {
            explored: figures.states,
            failure_points: figures.failure_points,
            recoveries: figures.recoveries,
            eager_states: Some(figures.eager_states.to_string()),
        },
    }
}

/// A location's content and the number of the store that left it, 0 for the initial value.
type Write = (i64, u32);

/// A violation of strict robustness, an outcome that shows it, and how it arose.
struct ObservedViolation {
    violation: Violation,
    outcome: Vec<i64>,
    path: Path,
}

struct Watch<'a> {
    test: &'a Test,
    options: &'a Options,
    /// Memories that x86-TSO reaches.
    memories: FxHashSet<Vec<Write>>,
    /// Outcomes, with a way to each.
    outcomes: FxHashMap<Vec<Write>, Path>,
    /// The same by value only.
    by_value: FxHashMap<Vec<i64>, Path>,
    too_many_outcomes: bool,
    /// Crashes that leave the same choices are examined once.
    crashes_seen: FxHashSet<(usize, Vec<u8>)>,
    violation: Option<ObservedViolation>,
    failure: Option<(usize, Path)>,
}

impl<'a> Watch<'a> {
    fn new(test: &'a Test, options: &'a Options) -> Watch<'a> {
        Watch {
            test,
            options,
            memories: FxHashSet::default(),
            outcomes: FxHashMap::default(),
            by_value: FxHashMap::default(),
            too_many_outcomes: false,
            crashes_seen: FxHashSet::default(),
            violation: None,
            failure: None,
        }
    }

    fn on_line(&self, line: Line) -> impl Iterator<Item = (usize, &'a Location)> {
        self.test.locations.iter().enumerate().filter(move |(_, location)| location.cache_line() == line)
    }

    /// Adds every outcome of a first crash.
    fn list_outcomes(&mut self, stack: &mut CrashStack, path: &Path) {
        let mut outcomes: Vec<Vec<Write>> = vec![vec![(0, 0); self.test.locations.len()]];
        for line in (0..self.test.lines as u64).map(Line) {
            let states = stack.states(line).to_vec();
            let mut contents: Vec<Vec<(usize, Write)>> = Vec::new();
            for state in &states {
                let write = |at: &Location| {
                    let value = stack.value(at.address, WORD_BYTES, state) as i64;
                    let source = stack.source(at.address, state);
                    (value, source.map_or(0, |source| stack.store(at.address, source).tag + 1))
                };
                let content = self.on_line(line).map(|(index, at)| (index, write(at))).collect();
                if !contents.contains(&content) {
                    contents.push(content);
                }
            }
            if outcomes.len() * contents.len() > self.options.limits.outcomes {
                self.too_many_outcomes = true;
                return;
            }
            outcomes = outcomes
                .iter()
                .flat_map(|outcome| {
                    contents.iter().map(move |content| {
                        let mut outcome = outcome.clone();
                        content.iter().for_each(|&(index, write)| outcome[index] = write);
                        outcome
                    })
                })
                .collect();
        }
        for outcome in outcomes {
            let values: Vec<i64> = outcome.iter().map(|write| write.0).collect();
            if let Entry::Vacant(slot) = self.outcomes.entry(outcome) {
                slot.insert(path.clone());
                self.by_value.entry(values).or_insert_with(|| path.clone());
            }
        }
        self.too_many_outcomes |= self.outcomes.len() > self.options.limits.outcomes;
    }

    /// Looks for a violation that an observer of all locations would see.
    ///
    /// An interval is emptied by one load that moves its beginning and one that moves its end, so pairs of
    /// loads suffice; and the lines of the two choose what survived independently.
    fn observe_everything(&mut self, stack: &mut CrashStack, past: &[Past], path: &Path) {
        if self.violation.is_some() {
            return;
        }
        let mut reads: Vec<(Line, u64, Option<Source>)> = Vec::new();
        for location in &self.test.locations {
            for state in stack.states(location.cache_line()).to_vec() {
                let read = (location.cache_line(), location.address, stack.source(location.address, &state));
                if !reads.contains(&read) {
                    reads.push(read);
                }
            }
        }
        for &(line, address, source) in &reads {
            let mut intervals = Intervals::default();
            let first = observation(stack, past, address, source);
            if first.read.is_none() || intervals.observe(&first).is_err() {
                continue;
            }
            for &(other_line, other, other_source) in reads.iter().filter(|read| read.1 != address) {
                let together = other_line != line
                    || stack.states(line).to_vec().iter().any(|state| {
                        stack.source(address, state) == source && stack.source(other, state) == other_source
                    });
                let second = observation(stack, past, other, other_source);
                if let (true, Err(violation)) = (together, intervals.clone().observe(&second)) {
                    let mut stack = stack.clone();
                    stack.retain(line, |stack, state| stack.source(address, state) == source);
                    stack.retain(other_line, |stack, state| stack.source(other, state) == other_source);
                    let outcome = self.some_outcome(&mut stack);
                    self.violation = Some(ObservedViolation { violation, outcome, path: path.clone() });
                    return;
                }
            }
        }
    }

    /// A possible outcome with minimal losses.
    fn some_outcome(&self, stack: &mut CrashStack) -> Vec<i64> {
        let value = |location: &Location| {
            let state = stack.states(location.cache_line()).last().expect("a line has some state").clone();
            stack.value(location.address, WORD_BYTES, &state) as i64
        };
        self.test.locations.iter().map(value).collect()
    }

    fn queries(&self, complete: bool) -> Vec<QueryAnswer> {
        let answer = |query: &crate::Query| {
            // The smallest, so that the answer does not depend on the order of the search.
            let meets = self.by_value.keys().filter(|outcome| query.condition.eval(outcome) != 0).min();
            let holds = match (query.kind, meets.is_some()) {
                (QueryKind::Forbidden, true) => Some(false),
                (QueryKind::Allowed, true) => Some(true),
                (QueryKind::Forbidden, false) => complete.then_some(true),
                (QueryKind::Allowed, false) => complete.then_some(false),
            };
            let story = meets
                .filter(|_| query.kind == QueryKind::Forbidden)
                .map(|outcome| self.story(&self.by_value[outcome], outcome));
            QueryAnswer { holds, outcome: meets.cloned(), story }
        };
        self.test.queries.iter().map(answer).collect()
    }

    fn assertions(&self, complete: bool) -> Assertions {
        let asserts = |instruction: &crate::Instruction| matches!(instruction.op, Op::Assert(_));
        if !self.test.recover.as_ref().is_some_and(|code| code.instructions.iter().any(asserts)) {
            return Assertions::None;
        }
        match &self.failure {
            Some((instruction, path)) => {
                let story = self.story(path, &[]);
                let left = &story.chapters.last().expect("recovery follows a crash").outcome;
                let known = left.iter().zip(&self.test.locations);
                let outcome = known.map(|(value, location)| value.unwrap_or(location.init)).collect();
                Assertions::Fail(Box::new(AssertionFailure {
                    outcome,
                    instruction: *instruction,
                    story: Some(story),
                }))
            }
            None if complete => Assertions::Hold,
            None => Assertions::Unknown,
        }
    }

    /// What an execution of recovery read from before its start; `None` where it did not read.
    fn read_by_recovery(&self, steps: &[Step]) -> Vec<Option<i64>> {
        let mut outcome = vec![None; self.test.locations.len()];
        let recover = self.test.recover.as_ref().expect("recovery ran");
        let mut own = vec![false; outcome.len()];
        for step in steps {
            let Some(at) = recover.instructions[step.instruction.index].op.location() else { continue };
            let at = usize::from(at.0);
            match step.effect {
                Effect::Read(value) | Effect::Exchanged(value, _) if !own[at] => outcome[at] = Some(value),
                _ => {}
            }
            own[at] |= !matches!(step.effect, Effect::Flushed | Effect::Fenced);
        }
        outcome
    }

    fn robust(&self, explored_all: bool, listed_all: bool) -> Robust {
        let strict = match &self.violation {
            Some(ObservedViolation { violation, outcome, path }) => {
                let name = |tag: u32| {
                    let (thread, index) = instruction(&self.test.threads, tag);
                    InstructionRef { thread, index }
                };
                let pair = LostAndSurvived {
                    lost: name(violation.lost.tag),
                    survived: name(violation.survived.tag),
                };
                let story = self.story(path, outcome);
                Verdict::No(Box::new(Witness {
                    outcome: outcome.clone(),
                    pair: Some(pair),
                    story: Some(story),
                }))
            }
            None if explored_all => Verdict::Yes,
            None => Verdict::Unknown,
        };
        let against = |found: Option<(Vec<i64>, &Path)>| match found {
            _ if !listed_all => Verdict::Unknown,
            None => Verdict::Yes,
            Some((outcome, path)) => {
                let story = Some(self.story(path, &outcome));
                Verdict::No(Box::new(Witness { outcome, pair: None, story }))
            }
        };
        let values = |writes: &[Write]| writes.iter().map(|write| write.0).collect::<Vec<i64>>();
        let memories: FxHashSet<Vec<i64>> = self.memories.iter().map(|memory| values(memory)).collect();
        let by_write = self
            .outcomes
            .iter()
            .filter(|(outcome, _)| !self.memories.contains(*outcome))
            .min_by_key(|(outcome, _)| *outcome);
        let by_value = self
            .by_value
            .iter()
            .filter(|(outcome, _)| !memories.contains(*outcome))
            .min_by_key(|(outcome, _)| *outcome);
        Robust {
            strict,
            event: against(by_write.map(|(outcome, path)| (values(outcome), path))),
            state: against(by_value.map(|(outcome, path)| (outcome.clone(), path))),
        }
    }

    /// A path as a story. Its last crash left `outcome`, if that is not empty; what crashes left otherwise is
    /// known as far as the recovery after them read it.
    fn story(&self, path: &Path, outcome: &[i64]) -> Story {
        let mut story = Story::default();
        let mut steps = Vec::new();
        for happened in path.steps() {
            let recovery = !story.chapters.is_empty();
            if happened.what != What::Crashed {
                steps.push(self.step(&happened, recovery));
                continue;
            }
            let steps = std::mem::take(&mut steps);
            if let Some(before) = story.chapters.last_mut() {
                before.outcome = self.read_by_recovery(&steps);
            }
            story.chapters.push(Chapter { recovery, steps, written_back: Vec::new(), outcome: Vec::new() });
        }
        story.recovery = steps;
        if let Some(last) = story.chapters.last_mut() {
            last.outcome = match outcome {
                [] => self.read_by_recovery(&story.recovery),
                outcome => outcome.iter().copied().map(Some).collect(),
            };
        }
        story
    }

    fn step(&self, happened: &Happened, recovery: bool) -> Step {
        let (thread, index) = match recovery {
            true => (0, happened.site.0 as usize),
            false => instruction(&self.test.threads, happened.site.0),
        };
        let effect = match happened.what {
            What::Read(value) => Effect::Read(value as i64),
            What::Forwarded(value) => Effect::Forwarded(value as i64),
            What::Cached(value) => Effect::Cached(value as i64),
            What::Flushed => Effect::Flushed,
            What::Fenced => Effect::Fenced,
            What::Exchanged(old, new) => Effect::Exchanged(old as i64, new.map(|new| new as i64)),
            What::Failed | What::Crashed => Effect::Failed,
        };
        Step { instruction: InstructionRef { thread, index }, effect }
    }
}

impl Observer for Watch<'_> {
    fn memory(&mut self, execution: &Execution) {
        let memory = self
            .test
            .locations
            .iter()
            .map(|location| {
                let seen = execution.read(location.address, WORD_BYTES);
                match seen.tags[0] {
                    Some(tag) => (seen.value as i64, tag + 1),
                    None => (location.init, 0),
                }
            })
            .collect();
        self.memories.insert(memory);
    }

    fn crash(&mut self, crash: Crash) -> bool {
        if !self.crashes_seen.insert((crash.crashes, crash_key(crash.stack, crash.past, self.test))) {
            return false;
        }
        if crash.crashes == 1 {
            self.list_outcomes(crash.stack, crash.path);
            if self.test.recover.is_none() {
                self.observe_everything(crash.stack, crash.past, crash.path);
            }
        }
        true
    }

    fn violation(&mut self, violation: Violation, stack: &mut CrashStack, path: &Path) {
        if self.violation.is_none() {
            let outcome = self.some_outcome(stack);
            self.violation = Some(ObservedViolation { violation, outcome, path: path.clone() });
        }
    }

    fn recovered(&mut self, failed: Option<px86::Site>, path: &Path) {
        if let (Some(site), None) = (failed, &self.failure) {
            self.failure = Some((site.0 as usize, path.clone()));
        }
    }
}

/// Bytes that determine what recovery may read after a crash, and what that says about robustness.
fn crash_key(stack: &mut CrashStack, past: &[Past], test: &Test) -> Vec<u8> {
    let mut key = Vec::new();
    let stamp = |key: &mut Vec<u8>, execution: usize, tag: u32| {
        key.extend((execution as u32).to_le_bytes());
        key.extend(tag.to_le_bytes());
        if let Some(stamp) = past[execution].clocks.stamp(tag) {
            for (thread, clock) in stamp.before.entries() {
                key.extend((thread as u16).to_le_bytes());
                key.extend(clock.to_le_bytes());
            }
        }
        key.push(0xff);
    };
    for (execution, past) in past.iter().enumerate() {
        past.waiting.iter().for_each(|entry| stamp(&mut key, execution, entry.tag));
        key.push(0xfe);
    }
    for line in (0..test.lines as u64).map(Line) {
        for state in stack.states(line).to_vec() {
            for location in test.locations.iter().filter(|location| location.cache_line() == line) {
                key.extend(stack.value(location.address, WORD_BYTES, &state).to_le_bytes());
                match stack.source(location.address, &state) {
                    Some(source) => {
                        stamp(&mut key, source.execution, stack.store(location.address, source).tag)
                    }
                    None => key.push(0xfd),
                }
            }
        }
        key.push(0xfe);
    }
    key
}
