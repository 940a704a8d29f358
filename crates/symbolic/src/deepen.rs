//! Proves with loops unrolled a little, and more only if that leaves the answer open.
//!
//! A counterexample is one however little was unrolled; and if nothing that was cut off can be reached, a proof with few
//! rounds is a proof with many. So small bounds come first: they are usually enough, and much cheaper.

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
    /// How the prover goes about it. Its limits hold for unrolling as well.
    pub prover: prove::Options,
    /// How often each loop goes round at most. If not given: as often as [`Options::unwind`] says, and more while that
    /// makes a small program.
    pub unwind: Option<u32>,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Loops are unrolled so many times.
    Unrolling(u32),
    /// A program of so many events is proved.
    Proving(u64),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no program to prove anything about.
    #[error(transparent)]
    Program(#[from] Error),
    /// Something went wrong in the prover.
    #[error(transparent)]
    Prover(#[from] prove::Error),
}

/// A loop that is cut off goes round up to so many times, if nobody said how many there may be,
const MOST_ROUNDS: u32 = 64;
/// as long as the program has no more events than this.
const DEEPENED_EVENTS: u64 = 6000;

/// With so many rounds of each loop the prover begins.
const FIRST_UNWIND: u32 = 2;

/// Answers a question about a program; `options` bounds everything but the rounds of loops.
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
    // Loops that go round more often than others: those that were seen to be cut off.
    let mut deeper: Vec<LoopBound> = Vec::new();
    let report = loop {
        progress(Progress::Unrolling(unwind));
        let program = unroll(unwind, &deeper, false)?;
        let more = match request.unwind {
            Some(most) => (unwind < most).then_some(unwind + 1),
            None => more_rounds(unwind, options.unwind, program.events()),
        };
        let may_deepen = request.unwind.is_none() && program.events() <= DEEPENED_EVENTS;
        // If no bound cut anything off, more rounds change nothing.
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
            // It will not be given again: all there is to say of it is to be said now.
            None if tentative => break ask(&program, false)?,
            None => break report,
        }
    };
    if !is_open(&report) {
        return Ok(report);
    }
    // What holds whatever a value that is not modeled may be does hold.
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

/// Lets the loops go round more often that an answer says were cut off; tells whether there are any.
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

/// How many rounds to try next, if nobody said how many there may be: some in any case, and more where they cost little.
fn more_rounds(unwind: u32, usual: u32, events: u64) -> Option<u32> {
    const SMALL: u64 = 300;
    match unwind {
        _ if unwind < usual => Some(unwind + 1),
        ..64 if events <= SMALL => Some((unwind + unwind / 2).min(64)),
        _ => None,
    }
}
