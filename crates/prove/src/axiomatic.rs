//! The axiomatic engine of `crashproof litmus`: finds every outcome by querying the formula repeatedly.
//!
//! # Robustness
//!
//! - `state` and `event`: the outcomes are compared with the memories of x86-TSO, which are the outcomes of the same
//!   formula with persistent caches, that is, with one time P for all lines. Compared by value, or by the store each
//!   value comes from.
//! - `strict` (PSan, Definitions 1 to 3): is there an execution in which a lost store happened before a survivor?
//!   Happened-before is program order and reads-from; the question is a formula over the same execution.

use crashproof_litmus::answer::{
    Answer, AssertionFailure, Assertions, Chapter, Effect, InstructionRef, Interrupt, LostAndSurvived,
    Options, QueryAnswer, Robust, Statistics, Step, Story, Verdict, Witness, sort_states,
};
use crashproof_litmus::{Op, QueryKind, Test};
use crashproof_ordersat::limited::Limited;
use crashproof_ordersat::{Limits, Lit, Outcome, SolverKind};
use px86::{Domain, Line};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::encode::strict::Loss;
use crate::encode::{CrashEncoding, Encoder, Settings};
use crate::program::Program;
use crate::values::Analysis;
use crate::{litmus, story};

/// The engine's name.
pub const NAME: &str = "axiomatic";

/// Choices in how the engine works. All of them give the same answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices {
    /// How a crash is encoded.
    pub crash: CrashEncoding,
    /// The solver.
    pub solver: SolverKind,
}

/// Answers every question about `test`.
pub fn run(test: &Test, options: &Options) -> Answer {
    run_with(test, options, Choices::default())
}

/// Answers every question about `test`, in a chosen way.
pub fn run_with(test: &Test, options: &Options, choices: Choices) -> Answer {
    Run { test, options, choices, incomplete: Vec::new(), explored: 0 }.answer()
}

/// The content of each location, by value and by writer: 0 for the initial value, otherwise the event's number plus 1.
type Writers = Vec<u32>;

/// The outcomes of a crash at any point of a program.
struct Outcomes {
    /// Distinct values, in the order found.
    states: Vec<Vec<i64>>,
    /// Distinct values with writers; only if requested.
    writers: FxHashSet<(Vec<i64>, Writers)>,
    complete: bool,
}

struct Run<'a> {
    test: &'a Test,
    options: &'a Options,
    choices: Choices,
    incomplete: Vec<String>,
    explored: u64,
}

impl Run<'_> {
    fn answer(mut self) -> Answer {
        let program = litmus::program(self.test);
        let outcomes = self.outcomes(&program, self.options.domain, false, "outcomes");
        let queries = self.queries(&program, &outcomes);
        let assertions = self.assertions(&program, &outcomes);
        let robust = self.robust(&program, &outcomes);
        let mut states = outcomes.states;
        sort_states(self.test, &mut states);
        Answer {
            engine: NAME,
            incomplete: self.incomplete,
            states,
            robust,
            assertions,
            queries,
            statistics: Statistics { explored: self.explored, ..Statistics::default() },
        }
    }

    fn settings(&self, domain: Domain) -> Settings {
        Settings {
            crash: self.choices.crash,
            domain,
            solver: self.choices.solver,
            observe_all: true,
            ..Settings::default()
        }
    }

    /// A limit on states for the machines is a limit on conflicts here.
    fn limits(&self) -> Limits {
        Limits {
            conflicts: Some(self.options.limits.states as u64),
            interrupt: self.options.limits.interrupt.map(Interrupt::flag),
            ..Limits::default()
        }
    }

    /// The formula of a program, if the limits permit building it.
    fn encoder<'a>(&self, program: &'a Program, analysis: &'a Analysis, settings: Settings) -> Encoder<'a> {
        let solver = settings.solver.make().expect("the engine is asked only with solvers that are built in");
        let solver = Limited::new(solver, self.limits());
        Encoder::for_solver(program, analysis, settings, Box::new(solver))
    }

    fn gave_up(&mut self, what: &str) {
        let why = match self.options.limits.interrupted() {
            Some(why) => why.to_owned(),
            None => format!("more than {} conflicts", self.options.limits.states),
        };
        self.incomplete.push(format!("{what}: {why}"));
    }

    /// All outcomes, each once: each one found is excluded, and the formula solved again.
    fn outcomes(&mut self, program: &Program, domain: Domain, by_writer: bool, what: &str) -> Outcomes {
        let mut outcomes = Outcomes { states: Vec::new(), writers: FxHashSet::default(), complete: false };
        if self.options.limits.interrupted().is_some() {
            self.gave_up(what);
            return outcomes;
        }
        // Recovery and its loads are irrelevant here.
        let program = Program { recovery: None, ..program.clone() };
        let analysis = Analysis::new(&program);
        let mut encoder = self.encoder(&program, &analysis, self.settings(domain));
        encoder.finish();
        let observed = Observed::new(self.test, &encoder);
        let mut seen: FxHashSet<Vec<i64>> = FxHashSet::default();
        loop {
            match encoder.gates.solver.solve(&[], &self.limits()) {
                Outcome::Unsatisfiable => {
                    outcomes.complete = true;
                    break;
                }
                Outcome::Unknown(_) => {
                    self.gave_up(what);
                    break;
                }
                Outcome::Satisfiable => {}
            }
            debug_assert_eq!(objection(&encoder), None, "px86 permits every model of the formula");
            let state = observed.state(self.test, &encoder);
            let mut different = observed.values_differ(&encoder);
            if by_writer {
                different.extend(observed.writers_differ(&encoder));
                outcomes.writers.insert((state.clone(), observed.writers(&encoder)));
            }
            if seen.insert(state.clone()) {
                outcomes.states.push(state);
            }
            if outcomes.states.len().max(outcomes.writers.len()) > self.options.limits.outcomes {
                let limit = self.options.limits.outcomes;
                self.incomplete.push(format!("{what}: more than {limit} different ones"));
                outcomes.states.truncate(limit);
                break;
            }
            encoder.gates.solver.clause(&different);
        }
        self.explored += encoder.gates.solver.statistics().conflicts + outcomes.states.len() as u64;
        outcomes
    }

    /// How an outcome arises: solves for an execution that leads to it.
    fn story(&self, program: &Program, outcome: &[i64]) -> Option<Story> {
        let program = Program { recovery: None, ..program.clone() };
        let analysis = Analysis::new(&program);
        let mut encoder = self.encoder(&program, &analysis, self.settings(self.options.domain));
        encoder.finish();
        let observed = Observed::new(self.test, &encoder);
        let wanted = observed.values_are(&encoder, outcome);
        if encoder.gates.solver.solve(&wanted, &self.limits()) != Outcome::Satisfiable {
            return None;
        }
        let chapter = self.chapter(&program, &encoder)?;
        Some(Story { chapters: vec![chapter], recovery: Vec::new() })
    }

    /// The execution of the last model.
    fn chapter(&self, program: &Program, encoder: &Encoder) -> Option<Chapter> {
        let narrative = encoder.execution_story().ok()?;
        let step = |step: &crate::story::Step| Step {
            instruction: InstructionRef { thread: step.thread, index: step.site.column as usize },
            effect: match step.effect {
                story::Effect::Read(value) if step.forwarded => Effect::Forwarded(value as i64),
                story::Effect::Read(value) => Effect::Read(value as i64),
                story::Effect::Wrote(value) | story::Effect::WroteNonTemporal(value) => {
                    Effect::Cached(value as i64)
                }
                story::Effect::Exchanged(old, new) => {
                    Effect::Exchanged(old as i64, new.map(|new| new as i64))
                }
                story::Effect::Flushed | story::Effect::FlushedOpt => Effect::Flushed,
                story::Effect::StoreFence
                | story::Effect::Fence
                | story::Effect::Started
                | story::Effect::Joined => Effect::Fenced,
            },
        };
        let mut written_back = vec![narrative.steps.len(); self.test.lines];
        for (index, location) in self.test.locations.iter().enumerate() {
            let line = Line::containing(litmus::address(self.test, index));
            if let Some(&(_, steps)) = narrative.written_back.iter().find(|(moment, _)| *moment == line) {
                written_back[location.line] = steps;
            }
        }
        let outcome = Observed::new(self.test, encoder).state(self.test, encoder);
        debug_assert_eq!(program.threads.len(), self.test.threads.len());
        Some(Chapter {
            recovery: false,
            steps: narrative.steps.iter().map(step).collect(),
            written_back,
            outcome: outcome.into_iter().map(Some).collect(),
        })
    }

    fn queries(&self, program: &Program, outcomes: &Outcomes) -> Vec<QueryAnswer> {
        let answer = |query: &crashproof_litmus::Query| {
            let meets = outcomes.states.iter().find(|outcome| query.condition.eval(outcome) != 0);
            let holds = match (query.kind, meets.is_some()) {
                (QueryKind::Forbidden, true) => Some(false),
                (QueryKind::Allowed, true) => Some(true),
                (QueryKind::Forbidden, false) => outcomes.complete.then_some(true),
                (QueryKind::Allowed, false) => outcomes.complete.then_some(false),
            };
            let offends = meets.filter(|_| query.kind == QueryKind::Forbidden);
            let story = offends.and_then(|outcome| self.story(program, outcome));
            QueryAnswer { holds, outcome: meets.cloned(), story }
        };
        self.test.queries.iter().map(answer).collect()
    }

    /// Recovery's assertions, from every outcome and, if recovery crashes, too, from every outcome of that.
    fn assertions(&mut self, program: &Program, outcomes: &Outcomes) -> Assertions {
        let Some(code) = &self.test.recover else { return Assertions::None };
        if !code.instructions.iter().any(|instruction| matches!(instruction.op, Op::Assert(_))) {
            return Assertions::None;
        }
        let mut complete = outcomes.complete;
        let mut known: FxHashSet<Vec<i64>> = outcomes.states.iter().cloned().collect();
        let mut round = outcomes.states.clone();
        for crash in 1..=self.options.crashes {
            let mut next = Vec::new();
            for outcome in &round {
                let (failed, left) = self.recover(outcome, crash < self.options.crashes, &mut complete);
                if let Some(instruction) = failed {
                    return Assertions::Fail(Box::new(AssertionFailure {
                        outcome: outcome.clone(),
                        instruction,
                        // For a crash in recovery only the outcome is reported.
                        story: (crash == 1).then(|| self.story(program, outcome)).flatten(),
                    }));
                }
                next.extend(left.into_iter().filter(|outcome| known.insert(outcome.clone())));
                if known.len() > self.options.limits.outcomes {
                    let limit = self.options.limits.outcomes;
                    self.incomplete.push(format!("crashes in recovery: more than {limit} outcomes"));
                    return Assertions::Unknown;
                }
            }
            round = next;
        }
        if complete { Assertions::Hold } else { Assertions::Unknown }
    }

    /// Recovery from one outcome: the assertion that fails, if any, and the outcomes of a crash in it.
    fn recover(
        &mut self,
        outcome: &[i64],
        crashes: bool,
        complete: &mut bool,
    ) -> (Option<usize>, Vec<Vec<i64>>) {
        let mut test = self.test.clone();
        for (location, &value) in test.locations.iter_mut().zip(outcome) {
            location.init = value;
        }
        // Recovery runs alone.
        let mut alone = test.clone();
        alone.threads.clear();
        let program = litmus::program(&alone);
        let analysis = Analysis::new(&program);
        let settings = Settings { observe_all: false, ..self.settings(self.options.domain) };
        let mut encoder = self.encoder(&program, &analysis, settings);
        let wrong: Vec<Lit> = encoder.violations.iter().map(|violation| violation.lit).collect();
        encoder.gates.clause(&wrong);
        encoder.finish();
        let mut failed = None;
        match encoder.gates.solver.solve(&[], &self.limits()) {
            Outcome::Satisfiable => {
                failed = encoder
                    .violations
                    .iter()
                    .find(|violation| encoder.gates.solver.value(violation.lit))
                    .map(|violation| litmus::instruction_of(&program, violation.site));
            }
            Outcome::Unsatisfiable => {}
            Outcome::Unknown(_) => {
                self.gave_up("recovery");
                *complete = false;
            }
        }
        if failed.is_some() || !crashes {
            return (failed, Vec::new());
        }
        let code = test.recover.take().expect("there is a recovery");
        test.threads = vec![code];
        let program = litmus::program(&test);
        let left = self.outcomes(&program, self.options.domain, false, "crashes in recovery");
        *complete &= left.complete;
        (None, left.states)
    }

    fn robust(&mut self, program: &Program, outcomes: &Outcomes) -> Robust {
        let memories =
            self.outcomes(&program.with_surviving_caches(), Domain::Eadr, false, "robust by state");
        let known: FxHashSet<&Vec<i64>> = memories.states.iter().collect();
        let witness = |outcome: &Vec<i64>| {
            let story = self.story(program, outcome);
            Verdict::No(Box::new(Witness { outcome: outcome.clone(), pair: None, story }))
        };
        let state = match outcomes.states.iter().find(|outcome| !known.contains(outcome)) {
            _ if !outcomes.complete || !memories.complete => Verdict::Unknown,
            Some(outcome) => witness(outcome),
            None => Verdict::Yes,
        };
        let event = match &state {
            Verdict::No(witness) => Verdict::No(witness.clone()),
            _ => self.robust_by_writer(program),
        };
        let strict = self.robust_strictly(program);
        Robust { strict, event, state }
    }

    fn robust_by_writer(&mut self, program: &Program) -> Verdict {
        let memories = self.outcomes(&program.with_surviving_caches(), Domain::Eadr, true, "robust by event");
        let outcomes = self.outcomes(program, self.options.domain, true, "robust by event");
        if !memories.complete || !outcomes.complete {
            return Verdict::Unknown;
        }
        let mut unreachable: Vec<&(Vec<i64>, Writers)> =
            outcomes.writers.iter().filter(|outcome| !memories.writers.contains(*outcome)).collect();
        unreachable.sort();
        match unreachable.first() {
            None => Verdict::Yes,
            Some((outcome, _)) => {
                Verdict::No(Box::new(Witness { outcome: outcome.clone(), pair: None, story: None }))
            }
        }
    }

    fn robust_strictly(&mut self, program: &Program) -> Verdict {
        let analysis = Analysis::new(program);
        let settings = Settings {
            crash: CrashEncoding::Full,
            keep_all_reads: true,
            ..self.settings(self.options.domain)
        };
        let mut encoder = self.encoder(program, &analysis, settings);
        let losses = encoder.losses();
        let lits: Vec<Lit> = losses.iter().map(|loss| loss.lit).collect();
        encoder.gates.clause(&lits);
        encoder.finish();
        let outcome = encoder.gates.solver.solve(&[], &self.limits());
        self.explored += encoder.gates.solver.statistics().conflicts;
        match outcome {
            Outcome::Unsatisfiable => Verdict::Yes,
            Outcome::Unknown(_) => {
                self.gave_up("strict robustness");
                Verdict::Unknown
            }
            Outcome::Satisfiable => {
                let outcome = Observed::new(self.test, &encoder).state(self.test, &encoder);
                let pair = lost_and_survived(program, &encoder, &losses);
                let chapter = self.chapter(program, &encoder);
                let story = chapter.map(|chapter| Story { chapters: vec![chapter], recovery: Vec::new() });
                Verdict::No(Box::new(Witness { outcome, pair, story }))
            }
        }
    }
}

/// Names the lost store and the survivor that it happened before, in the last model.
fn lost_and_survived(program: &Program, encoder: &Encoder, losses: &[Loss]) -> Option<LostAndSurvived> {
    let holds = |lit: Lit| encoder.gates.solver.value(lit);
    let lost = losses.iter().find(|loss| holds(loss.lit))?.store;
    let mut survivors = FxHashSet::default();
    for survivor in &encoder.survivors {
        let from = survivor.from.iter().filter(|&&(_, lit)| holds(lit));
        survivors.extend(from.filter_map(|(writer, _)| writer.map(|(event, _)| event)));
    }
    let mut reached = vec![false; encoder.events.len()];
    let mut queue = std::collections::VecDeque::from([lost]);
    let name = |event: usize| {
        let at = encoder.events[event].event;
        let thread = at.thread.unwrap_or(0);
        let site = program.threads[thread].events[at.index].site;
        InstructionRef { thread, index: litmus::instruction_of(program, site) }
    };
    while let Some(event) = queue.pop_front() {
        if std::mem::replace(&mut reached[event], true) {
            continue;
        }
        if event != lost && survivors.contains(&event) {
            return Some(LostAndSurvived { lost: name(lost), survived: name(event) });
        }
        let thread = encoder.events[event].event.thread;
        let later = (event + 1..encoder.events.len())
            .take_while(|&other| encoder.events[other].event.thread == thread)
            .filter(|&other| holds(encoder.events[other].live));
        queue.extend(later);
        let reads = encoder.reads_from.iter();
        let readers = reads.filter(|reads| reads.writer.is_some_and(|(writer, _)| writer == event));
        queue.extend(readers.filter(|reads| holds(reads.lit)).map(|reads| reads.reader));
    }
    None
}

/// Where the formula defines the content of each location after the crash.
struct Observed {
    /// By location, an index into `Encoder::survivors`; `None` if nothing stores there.
    survivors: Vec<Option<usize>>,
}

impl Observed {
    fn new(test: &Test, encoder: &Encoder) -> Observed {
        let by_address: FxHashMap<u64, usize> = encoder
            .survivors
            .iter()
            .enumerate()
            .map(|(index, survivor)| (encoder.memory.cells()[survivor.cell].address, index))
            .collect();
        let survivors = (0..test.locations.len())
            .map(|location| by_address.get(&litmus::address(test, location)).copied())
            .collect();
        Observed { survivors }
    }

    /// The outcome of the last model.
    fn state(&self, test: &Test, encoder: &Encoder) -> Vec<i64> {
        self.survivors
            .iter()
            .enumerate()
            .map(|(location, survivor)| match survivor {
                None => test.locations[location].init,
                Some(survivor) => {
                    let bits = &encoder.survivors[*survivor].bits;
                    let value = bits.iter().enumerate().fold(0u64, |value, (bit, &lit)| {
                        value | u64::from(encoder.gates.solver.value(lit)) << bit
                    });
                    value as i64
                }
            })
            .collect()
    }

    /// Literals that are all true only for this outcome.
    fn values_are(&self, encoder: &Encoder, outcome: &[i64]) -> Vec<Lit> {
        let locations = self.survivors.iter().zip(outcome);
        let bits = locations.filter_map(|(survivor, &value)| survivor.map(|at| (at, value as u64)));
        bits.flat_map(|(at, value)| {
            let lits = encoder.survivors[at].bits.iter().enumerate();
            lits.map(move |(bit, &lit)| if value >> bit & 1 == 1 { lit } else { !lit })
        })
        .collect()
    }

    /// Literals of which at least one is true for every other outcome.
    fn values_differ(&self, encoder: &Encoder) -> Vec<Lit> {
        let bits = self.survivors.iter().flatten().flat_map(|&at| &encoder.survivors[at].bits);
        let fixed = [encoder.gates.yes(), encoder.gates.no()];
        bits.filter(|lit| !fixed.contains(lit))
            .map(|&lit| if encoder.gates.solver.value(lit) { !lit } else { lit })
            .collect()
    }

    /// The store from which each location's content comes.
    fn writers(&self, encoder: &Encoder) -> Writers {
        self.survivors
            .iter()
            .map(|survivor| {
                let Some(survivor) = survivor else { return 0 };
                let from = &encoder.survivors[*survivor].from;
                let (writer, _) = from
                    .iter()
                    .find(|(_, lit)| encoder.gates.solver.value(*lit))
                    .expect("every cell survives somehow");
                writer.map_or(0, |(event, _)| event as u32 + 1)
            })
            .collect()
    }

    fn writers_differ(&self, encoder: &Encoder) -> Vec<Lit> {
        let from = self.survivors.iter().flatten().flat_map(|&at| &encoder.survivors[at].from);
        from.filter(|(_, lit)| encoder.gates.solver.value(*lit)).map(|&(_, lit)| !lit).collect()
    }
}

/// Why px86 does not allow the execution of the last model; `None` if it does.
fn objection(encoder: &Encoder<'_>) -> Option<String> {
    let story = match encoder.execution_story() {
        Ok(story) => story,
        Err(error) => return Some(format!("{error:?}")),
    };
    crate::confirm::confirm(encoder.program, &encoder.platform, &story).err().map(|it| format!("{it:?}"))
}
