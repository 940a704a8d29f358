//! Proves with few loop iterations first, and unrolls more only if that leaves the answer open.
//!
//! A counterexample is valid however little was unrolled; and if nothing that was cut off is reachable, a proof with
//! few iterations holds for any number. So small bounds come first: they usually suffice, and are much cheaper.

use crashproof_frontend::bitcode::ir::Module;
use crashproof_prove::program::Program;
use crashproof_prove::prove::{self, Report, Verdict};
use crashproof_prove::question::Question;

use crate::driver;
use crate::options::{Error, LoopBound, LoopName, Options};
use crate::rounds;

/// What to prove, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What is asked.
    pub question: Question,
    /// The prover's options. Its limits apply to unrolling as well.
    pub prover: prove::Options,
    /// Maximum number of iterations per loop. If not given: [`Options::unwind`], and more as long as the program stays
    /// small.
    pub unwind: Option<u32>,
}

/// The current activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Unrolling loops this many times.
    Unrolling(u32),
    /// Proving a program of this many events.
    Proving(u64),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no program to prove anything about.
    #[error(transparent)]
    Program(#[from] Error),
    /// The prover failed.
    #[error(transparent)]
    Prover(#[from] prove::Error),
}

/// If no bound is given, a truncated loop is unrolled up to this many iterations,
const MOST_ROUNDS: u32 = 64;
/// as long as the program has no more events than this.
const DEEPENED_EVENTS: u64 = 6000;

/// The prover starts with this many iterations of each loop.
const FIRST_UNWIND: u32 = 2;

/// Answers a question about a program; `options` bounds everything except the iterations of loops.
///
/// # Errors
///
/// If the program cannot be started, or the prover fails.
pub fn prove(
    module: &Module,
    options: &Options,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Failure> {
    let limits = request.prover.limits;
    let unroll = |unwind: u32, deeper: &[LoopBound], approximate: bool| {
        let no_recovery = request.question == Question::Robustness;
        let (domain, crashes) = (request.prover.settings.domain, request.prover.settings.crashes);
        let mut given = options.clone();
        given.loops.extend_from_slice(deeper);
        driver::run(module, &Options { unwind, approximate, no_recovery, domain, crashes, limits, ..given })
    };
    let ask = |program: &Program, tentative: bool| {
        request.question.ask(program, &prove::Options { tentative, ..request.prover })
    };
    let is_open = |report: &Report| matches!(report.verdict, Verdict::Unknown(_)) && limits.hit().is_none();
    let mut unwind = FIRST_UNWIND.min(request.unwind.unwrap_or(FIRST_UNWIND));
    // Larger bounds for loops that turned out to be truncated.
    let mut deeper: Vec<LoopBound> = Vec::new();
    let report = loop {
        progress(Progress::Unrolling(unwind));
        let program = unroll(unwind, &deeper, false)?;
        let more = match request.unwind {
            Some(most) => (unwind < most).then_some(unwind + 1),
            None => more_rounds(unwind, options.unwind, program.events()),
        };
        let may_deepen = request.unwind.is_none() && program.events() <= DEEPENED_EVENTS;
        // If no bound cut anything off, more iterations make no difference.
        let more = more.filter(|_| program.cut);
        progress(Progress::Proving(program.events()));
        let tentative = more.is_some() || may_deepen && program.cut;
        let report = ask(&program, tentative)?;
        if !is_open(&report) {
            break report;
        }
        match more {
            Some(more) => unwind = more,
            None if may_deepen && deepen(&report, unwind, options, &mut deeper) => {}
            // This is the last attempt, so report everything now.
            None if tentative => break ask(&program, false)?,
            None => break report,
        }
    };
    if !is_open(&report) {
        return Ok(report);
    }
    // What holds for every possible value of what is not modeled does hold.
    progress(Progress::Unrolling(unwind));
    let program = unroll(unwind, &deeper, true)?;
    progress(Progress::Proving(program.events()));
    let second = ask(&program, false)?;
    Ok(match second.verdict {
        Verdict::Holds => second,
        Verdict::Violated(candidate) => Report { candidate: Some(candidate), ..report },
        Verdict::Unknown(_) => report,
    })
}

/// Raises the bounds of the loops that an answer says were truncated; returns whether there are any.
fn deepen(report: &Report, unwind: u32, options: &Options, deeper: &mut Vec<LoopBound>) -> bool {
    let Verdict::Unknown(reasons) = &report.verdict else { return false };
    let mut any = false;
    for (file, line) in reasons.iter().filter_map(|reason| rounds::cut_loop(&reason.text)) {
        let which = LoopName::Line { file: file.to_owned(), line };
        if options.loops.iter().any(|bound| bound.which == which) {
            continue;
        }
        match deeper.iter_mut().find(|bound| bound.which == which) {
            Some(known) if known.bound < MOST_ROUNDS => {
                known.bound = (known.bound * 2).min(MOST_ROUNDS);
                any = true;
            }
            Some(_) => {}
            None if unwind < MOST_ROUNDS => {
                deeper.push(LoopBound { which, bound: unwind * 2 });
                any = true;
            }
            None => {}
        }
    }
    any
}

/// The number of iterations to try next, if no bound was given: some in any case, and more if they are cheap.
fn more_rounds(unwind: u32, usual: u32, events: u64) -> Option<u32> {
    const SMALL: u64 = 300;
    match unwind {
        _ if unwind < usual => Some(unwind + 1),
        ..64 if events <= SMALL => Some((unwind + unwind / 2).min(64)),
        _ => None,
    }
}
