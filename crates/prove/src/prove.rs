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
    /// Will the program be given again, cut off later, if the answer is unknown? Then what is cut off is asked for first,
    /// and a violation is looked for only as long as that is cheap.
    pub tentative: bool,
    /// How many solvers more than one may work at the same time.
    pub helpers: usize,
    /// Conflicts after which one stops asking for all claims at once, and takes them one by one.
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

/// What was found out.
#[derive(Clone, Debug)]
pub struct Report {
    /// The answer.
    pub verdict: Verdict,
    /// Within these bounds.
    pub bounds: Vec<Bound>,
    /// Given this.
    pub assumptions: Vec<String>,
    /// Why the answer says nothing, if it does not.
    pub vacuous: Option<Vacuous>,
    /// If the answer is not known: what would be a counterexample if values that are not modeled could be any.
    pub candidate: Option<Box<Counterexample>>,
    /// Figures.
    pub statistics: Statistics,
}

impl Report {
    /// The answer where there was nothing to reason about yet.
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
    /// Everything holds, within the bounds.
    Holds,
    /// Something does not, and this shows it.
    Violated(Box<Counterexample>),
    /// It is not known, and why.
    Unknown(Vec<Reason>),
}

/// Why a verdict is about nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacuous {
    /// The program has no memory of its own that would survive a crash.
    NoPersistentMemory,
    /// The program claims nothing.
    NoClaim,
    /// The program claims something, in code that never runs.
    ClaimsNotReached,
    /// Nothing is ever stored to memory that would survive a crash.
    NoPersistentStore,
    /// Recovery claims something, and no crash makes it get there.
    RecoveryClaimsNotReached,
}

/// Why a proof about a program says nothing, if it does not.
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

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// As a sentence.
    pub text: String,
    /// The place, if it is about one.
    pub site: Option<Site>,
}

/// Figures about the work done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Events of the program as given, recovery's included.
    pub events: u64,
    /// Events that take part in the order.
    pub ordered: u64,
    /// Claims that could be false for all the encoder knew.
    pub claims: u64,
    /// Candidates for being not robust that were looked at; 0 unless robustness was asked for.
    pub candidates: u64,
    /// What the solver did.
    pub solver: crashproof_ordersat::Statistics,
    /// Time to make the formula.
    pub encoding: Duration,
    /// Time to solve it.
    pub solving: Duration,
}

/// Something went wrong that is not the program's fault.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The solver asked for is not there.
    #[error("this crashproof was built without the solver {0}")]
    NoSolver(&'static str),
    /// A bug.
    #[error(transparent)]
    NoExecution(#[from] NoExecution),
    /// A bug: the prover and px86 disagree about a counterexample.
    #[error(transparent)]
    Disagreement(#[from] Box<Disagreement>),
}

/// How many places at which a verdict is unknown are named.
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
        // To find one crash after which recovery gets there is easy; where it is not, nobody claims that there is none.
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

/// What there is to say of an encoded program, times left out.
pub(crate) fn statistics(encoder: &Encoder) -> Statistics {
    Statistics {
        events: encoder.program.events(),
        ordered: encoder.events.len() as u64,
        claims: encoder.violations.len() as u64,
        solver: encoder.gates.solver.statistics(),
        ..Statistics::default()
    }
}

/// Conflicts that a tentative look for a violation may cost.
pub(crate) const TENTATIVE_CONFLICTS: u64 = 2000;

fn decide(encoder: &mut Encoder, wrong: Lit, too_far: Lit, options: &Options) -> Result<Verdict, Error> {
    let limits = &options.limits;
    let look = Limits { conflicts: Some(options.look), ..*limits };
    let mut patience = look;
    let mut reasons = None;
    if options.tentative {
        // Where it is not cheap to tell what was cut off, that is left to the survey.
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
        // Only a tentative look stops so, and will be taken again from further away.
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

/// Everything that may be wrong, and with `limits` what may be too far, as questions of their own.
///
/// That a claim holds makes those behind it easier: pointers that lead somewhere in the first round of a loop are half of why
/// they do in the second. So what stands early in its thread comes first, and recovery, which sees what the threads left,
/// comes last. Claims of one thread are a group: its orders decide them.
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

/// Something is wrong in the last model: of several claims that fail there the first in program order, threads before recovery.
fn violated(encoder: &mut Encoder) -> Result<Verdict, Error> {
    let fails = |violation: &&Violation| encoder.gates.solver.value(violation.lit);
    let failed = encoder.violations.iter().find(fails).cloned().ok_or(NoExecution)?;
    let counterexample = encoder.counterexample(&failed)?;
    confirm(encoder.program, &encoder.platform, &counterexample)?;
    Ok(Verdict::Violated(Box::new(counterexample)))
}

/// What is not known because the program was cut off, or is not understood, at places that can be reached.
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

/// Why nothing is known if a limit was hit.
pub fn stopped(stop: Stop) -> Reason {
    let text = match stop {
        Stop::Time => "out of time (--timeout)",
        Stop::Memory => "out of memory (--memory)",
        Stop::Conflicts => "out of conflicts",
        Stop::Interrupted => "interrupted",
    };
    Reason { text: text.to_owned(), site: None }
}
