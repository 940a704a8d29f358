//! The prover: does everything a program claims hold, in every schedule, from every crash?

use std::time::{Duration, Instant};

use crashproof_ordersat::limited::Limited;
use crashproof_ordersat::portfolio::Portfolio;
use crashproof_ordersat::preprocess::Preprocessed;
use crashproof_ordersat::solver::Stop;
use crashproof_ordersat::{Limits, Lit, Outcome, Question, Survey};

use crate::confirm::{Disagreement, confirm};
use crate::encode::{Encoder, EventRef, Settings, Violation};
use crate::program::{Action, Bound, Claims, Object, Program, Site};
use crate::story::{Counterexample, NoExecution};
use crate::values::Analysis;

/// How to go about it.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What to encode, and how.
    pub settings: Settings,
    /// When to give up.
    pub limits: Limits,
    /// If the answer is unknown, will the program be tried again with larger bounds? Then limits are checked first, and
    /// violations are searched for only as long as that is cheap.
    pub tentative: bool,
    /// The number of additional solvers that may run in parallel.
    pub helpers: usize,
    /// The number of conflicts after which claims are no longer checked together, but one by one.
    pub look: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            settings: Settings::default(),
            limits: Limits::default(),
            tentative: false,
            helpers: 0,
            look: 1000,
        }
    }
}

/// The result of a proof.
#[derive(Clone, Debug)]
pub struct Report {
    /// The answer.
    pub verdict: Verdict,
    /// The bounds within which it holds.
    pub bounds: Vec<Bound>,
    /// The assumptions.
    pub assumptions: Vec<String>,
    /// Why the answer is vacuous, if it is.
    pub vacuous: Option<Vacuous>,
    /// If the answer is unknown: what would be a counterexample if values that are not modeled could be arbitrary.
    pub candidate: Option<Box<Counterexample>>,
    /// Statistics.
    pub statistics: Statistics,
}

impl Report {
    /// The answer if there is nothing to reason about yet.
    pub fn unknown(reason: Reason) -> Report {
        Report {
            verdict: Verdict::Unknown(vec![reason]),
            bounds: Vec::new(),
            assumptions: Vec::new(),
            vacuous: None,
            candidate: None,
            statistics: Statistics::default(),
        }
    }
}

/// The answer.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// All claims hold, within the bounds.
    Holds,
    /// Some claim fails, as shown by a counterexample.
    Violated(Box<Counterexample>),
    /// Unknown, with the reasons.
    Unknown(Vec<Reason>),
}

/// Why a verdict is vacuous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacuous {
    /// None of the program's own memory survives a crash.
    NoPersistentMemory,
    /// The program claims nothing.
    NoClaim,
    /// The program makes claims, but only in code that never runs.
    ClaimsNotReached,
    /// Nothing is ever stored to memory that survives a crash.
    NoPersistentStore,
    /// Recovery makes claims, but no crash leads it there.
    RecoveryClaimsNotReached,
}

/// Why a proof about a program would be vacuous, if so.
pub(crate) fn vacuous(program: &Program, analysis: &Analysis) -> Option<Vacuous> {
    if !program.is_persistent() {
        return Some(Vacuous::NoPersistentMemory);
    }
    if !stores_persistently(program, analysis) {
        return Some(Vacuous::NoPersistentStore);
    }
    match program.claims {
        Claims::Reached => None,
        Claims::NotReached => Some(Vacuous::ClaimsNotReached),
        Claims::None => Some(Vacuous::NoClaim),
    }
}

/// May a run store to memory of the program's own that survives?
fn stores_persistently(program: &Program, analysis: &Analysis) -> bool {
    let survives = |at: u64| {
        let inside =
            |object: &&Object| at.checked_sub(object.address).is_some_and(|o| o < object.initial.len());
        program.objects.iter().find(inside).is_some_and(|object| object.persistent && !object.internal)
    };
    program.threads.iter().flat_map(|thread| &thread.events).any(|event| {
        let (address, value) = match event.action {
            Action::Store { address, value, .. } => (address, value),
            Action::Rmw { address, new, .. } => (address, new),
            _ => return false,
        };
        let bytes = program.terms.width(value) / 8;
        analysis.get(event.guard).contains(1)
            && (analysis.goes_anywhere(address, bytes)
                || analysis.places(address, bytes).into_iter().any(survives))
    })
}

/// Why something is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// As a sentence.
    pub text: String,
    /// The place, if there is one.
    pub site: Option<Site>,
}

/// Figures about the work done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Events of the program as given, recovery's included.
    pub events: u64,
    /// Events that take part in the order.
    pub ordered: u64,
    /// Claims that the encoder could not decide.
    pub claims: u64,
    /// Candidate robustness violations examined; 0 unless robustness was requested.
    pub candidates: u64,
    /// The solver's statistics.
    pub solver: crashproof_ordersat::Statistics,
    /// Time to make the formula.
    pub encoding: Duration,
    /// Time to solve it.
    pub solving: Duration,
}

/// An error that is not the program's fault.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The requested solver is not available.
    #[error("this crashproof was built without the solver {0}")]
    NoSolver(&'static str),
    /// A bug.
    #[error(transparent)]
    NoExecution(#[from] NoExecution),
    /// A bug: the prover and px86 disagree on a counterexample.
    #[error(transparent)]
    Disagreement(#[from] Box<Disagreement>),
}

/// The number of reasons for an unknown verdict to list.
pub(crate) const MOST_REASONS: usize = 8;

/// Proves or refutes what a program asserts.
///
/// # Errors
///
/// If the solver asked for is not built in, or something is wrong with crashproof.
pub fn prove(program: &Program, options: &Options) -> Result<Report, Error> {
    if let Some(report) = given_up(program) {
        return Ok(report);
    }
    let start = Instant::now();
    let analysis = Analysis::with_crashes(program, options.settings.crashes);
    let portfolio = Portfolio::new(options.settings.solver, options.helpers)
        .ok_or(Error::NoSolver(options.settings.solver.name()))?;
    let solver = Limited::new(Box::new(Preprocessed::new(Box::new(portfolio))), options.limits);
    let mut encoder = Encoder::for_solver(program, &analysis, options.settings, Box::new(solver));
    let wrong: Vec<Lit> = encoder.violations.iter().map(|violation| violation.lit).collect();
    let mut asked = wrong.clone();
    let wrong = encoder.gates.any(&wrong);
    let too_far: Vec<Lit> = encoder.limits.iter().map(|limit| limit.lit).collect();
    asked.extend(&too_far);
    let too_far = encoder.gates.any(&too_far);
    let reached = encoder.recovery_claims();
    asked.extend([wrong, too_far, reached]);
    for lit in asked {
        encoder.gates.solver.keep(lit);
    }
    encoder.finish();
    let encoded = Instant::now();
    let verdict = decide(&mut encoder, wrong, too_far, options)?;
    let statistics =
        Statistics { encoding: encoded - start, solving: encoded.elapsed(), ..statistics(&encoder) };
    let (bounds, assumptions) = (program.bounds.clone(), program.assumptions.clone());
    let mut vacuous = vacuous(program, &analysis);
    if vacuous.is_none() && matches!(verdict, Verdict::Holds) && reached != encoder.gates.yes() {
        // Finding one crash after which recovery reaches a claim is easy; if it is not, the question remains open.
        let look = Limits { conflicts: Some(options.look), ..options.limits };
        if encoder.gates.solver.solve(&[reached], &look) == Outcome::Unsatisfiable {
            vacuous = Some(Vacuous::RecoveryClaimsNotReached);
        }
    }
    Ok(Report { verdict, bounds, assumptions, vacuous, candidate: None, statistics })
}

/// The answer for a program that was too large to unroll.
pub(crate) fn given_up(program: &Program) -> Option<Report> {
    let (text, site) = program.given_up.clone()?;
    let reason = Reason { text, site: program.sites.get(site.0 as usize).cloned() };
    let events = program.threads.iter().chain(&program.recovery).flat_map(|thread| &thread.events);
    let claims = events.filter(|event| matches!(event.action, Action::Assert { .. })).count();
    Some(Report {
        bounds: program.bounds.clone(),
        statistics: Statistics { events: program.events(), claims: claims as u64, ..Statistics::default() },
        ..Report::unknown(reason)
    })
}

/// The statistics of an encoded program, without times.
pub(crate) fn statistics(encoder: &Encoder) -> Statistics {
    Statistics {
        events: encoder.program.events(),
        ordered: encoder.events.len() as u64,
        claims: encoder.violations.len() as u64,
        solver: encoder.gates.solver.statistics(),
        ..Statistics::default()
    }
}

/// The conflicts that a tentative search for a violation may cost.
pub(crate) const TENTATIVE_CONFLICTS: u64 = 2000;

fn decide(encoder: &mut Encoder, wrong: Lit, too_far: Lit, options: &Options) -> Result<Verdict, Error> {
    let limits = &options.limits;
    let look = Limits { conflicts: Some(options.look), ..*limits };
    let mut patience = look;
    let mut reasons = None;
    if options.tentative {
        // If it is not cheap to determine which limits are reached, that is left to the survey.
        if encoder.gates.solver.solve(&[too_far], &look) != Outcome::Unknown(Stop::Conflicts) {
            let found = reached_limits(encoder, too_far, limits, 1)?;
            if !found.is_empty() {
                patience.conflicts = Some(TENTATIVE_CONFLICTS);
            }
            reasons = Some(found);
        }
    }
    let reasons = match (encoder.gates.solver.solve(&[wrong], &patience), reasons) {
        (Outcome::Satisfiable, _) => return violated(encoder),
        // Only a tentative search stops here, and it will be repeated with larger bounds.
        (Outcome::Unknown(Stop::Conflicts), Some(reasons)) if !reasons.is_empty() => reasons,
        (Outcome::Unknown(Stop::Conflicts), reasons) => {
            match encoder.gates.solver.survey(&one_by_one(encoder, reasons.is_none()), limits) {
                Survey::Found(_) => return violated(encoder),
                Survey::Unknown(stop) => return Ok(Verdict::Unknown(vec![stopped(stop)])),
                Survey::Through(possible) if possible.is_empty() => Vec::new(),
                Survey::Through(_) => reached_limits(encoder, too_far, limits, MOST_REASONS)?,
            }
        }
        (Outcome::Unknown(stop), _) => return Ok(Verdict::Unknown(vec![stopped(stop)])),
        (Outcome::Unsatisfiable, Some(reasons)) => reasons,
        (Outcome::Unsatisfiable, None) => reached_limits(encoder, too_far, limits, MOST_REASONS)?,
    };
    Ok(if reasons.is_empty() { Verdict::Holds } else { Verdict::Unknown(reasons) })
}

/// All possible violations, and with `limits` all limits, as separate questions.
///
/// Proving a claim makes later ones easier: that pointers are valid in the first iteration of a loop is half the reason
/// for the second. So claims early in their thread come first, and recovery, which depends on all threads, comes last.
/// The claims of one thread form a group, because its orders decide them.
fn one_by_one(encoder: &Encoder, limits: bool) -> Vec<Question> {
    let place = |event: EventRef| (event.thread.is_none(), event.index, event.thread);
    let violations = encoder.violations.iter().map(|found| (place(found.event), found.lit, true));
    let limits = encoder.limits.iter().filter(|_| limits).map(|found| (place(found.event), found.lit, false));
    let mut all: Vec<_> = violations.chain(limits).collect();
    all.sort_by_key(|&(place, ..)| place);
    let threads = encoder.program.threads.len();
    let group = |(_, index, thread): (bool, usize, Option<usize>)| thread.unwrap_or(threads + index);
    all.into_iter().map(|(place, lit, ends)| Question { lit, ends, group: group(place) }).collect()
}

/// The violation in the last model: if several claims fail there, the first in program order, threads before recovery.
fn violated(encoder: &mut Encoder) -> Result<Verdict, Error> {
    let fails = |violation: &&Violation| encoder.gates.solver.value(violation.lit);
    let failed = encoder.violations.iter().find(fails).cloned().ok_or(NoExecution)?;
    let counterexample = encoder.counterexample(&failed)?;
    confirm(encoder.program, &encoder.platform, &counterexample)?;
    Ok(Verdict::Violated(Box::new(counterexample)))
}

/// Reachable places where the program was cut off or is not understood.
pub(crate) fn reached_limits(
    encoder: &mut Encoder,
    too_far: Lit,
    limits: &Limits,
    most: usize,
) -> Result<Vec<Reason>, Error> {
    let mut reasons: Vec<Reason> = Vec::new();
    let mut assumptions = vec![too_far];
    while reasons.len() < most {
        match encoder.gates.solver.solve(&assumptions, limits) {
            Outcome::Unsatisfiable => break,
            Outcome::Unknown(stop) => {
                reasons.push(stopped(stop));
                break;
            }
            Outcome::Satisfiable => {}
        }
        let before = reasons.len();
        for limit in encoder.limits.clone() {
            if encoder.gates.solver.value(limit.lit) {
                let site = encoder.program.sites.get(limit.site.0 as usize).cloned();
                let reason = Reason { text: limit.reason, site };
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
                assumptions.push(!limit.lit);
            }
        }
        if reasons.len() == before && assumptions.len() == 1 {
            return Err(NoExecution.into());
        }
    }
    reasons.truncate(most);
    Ok(reasons)
}

/// The reason if a limit was hit.
pub fn stopped(stop: Stop) -> Reason {
    let text = match stop {
        Stop::Time => "out of time (--timeout)",
        Stop::Memory => "out of memory (--memory)",
        Stop::Conflicts => "out of conflicts",
        Stop::Interrupted => "interrupted",
    };
    Reason { text: text.to_owned(), site: None }
}
