//! The call stacks of the events a report names: each run that matters is repeated once, and the runtime records the
//! stacks.
//!
//! Nothing depends on them: if a repetition differs from the recorded run, the stacks are left out.

use std::collections::BTreeMap;

use crashproof_protocol::{MAX_STACKS, Stack, schedule};

use crate::driver::options::Options;
use crate::driver::prepare::start;
use crate::driver::recording::record_run;
use crate::driver::replay::through_crashes;
use crate::driver::token::Token;
use crate::judge::Facts;
use crate::narrate::Stacks;
use crate::schedules::rearranged;
use crate::subject::{Error, Process, Subject};

/// The most recoveries repeated to see where they fail.
const MOST_RECOVERIES: usize = 200;

/// A finding whose call stacks are requested.
pub(crate) struct Sought<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) token: Token,
    /// Is the stack at the end of recovery requested?
    pub(crate) ends: bool,
}

/// The call stacks of one finding.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) stacks: Stacks,
    /// The stack at the end of recovery, innermost first.
    pub(crate) end: Vec<u32>,
}

/// The call stacks of these findings, in the same order.
pub(crate) fn collect(options: &Options, sought: &[Sought]) -> Vec<Calls> {
    let mut all: Vec<Calls> = sought.iter().map(|_| Calls::default()).collect();
    let mut by_schedule: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (number, finding) in sought.iter().enumerate() {
        by_schedule.entry((finding.token.seed, finding.token.strategy)).or_default().push(number);
    }
    for numbers in by_schedule.values() {
        // Runs that cannot be repeated have no call stacks.
        let _ = of_schedule(options, sought, numbers, &mut all);
    }
    all
}

fn of_schedule(
    options: &Options,
    sought: &[Sought],
    numbers: &[usize],
    all: &mut [Calls],
) -> Result<(), Error> {
    let Some(&first) = numbers.first() else { return Ok(()) };
    let token = &sought[first].token;
    let decided = token.strategy == schedule::DECISIONS;
    if decided && token.decisions.is_empty() {
        return Ok(());
    }
    let mut process = start(options, options.launch())?;
    let mut wanted: Vec<u64> = numbers.iter().flat_map(|&number| sought[number].facts.events()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted.truncate(MAX_STACKS);
    if decided {
        // Events are numbered in the order of that crash, which is not the order of the run.
        wanted.clear();
    }
    process.decide(&token.decisions, &[]);
    process.follow_volatile((!token.watched.is_empty()).then_some(&token.watched[..]));
    process.want_stacks(&wanted);
    let recorded = record_run(&mut process, options.model.is_some(), token.schedule(), options.run_limits())?;
    let found = process.stacks();
    for &number in numbers {
        for (index, callers) in &found {
            all[number].stacks.insert(0, *index as usize, callers.clone());
        }
    }
    let mut process = if options.recover.is_some() {
        let mut recovering = Process::start(options.launch_recovery())?;
        recovering.adopt_files(&process);
        recovering
    } else {
        process
    };
    let limits = options.run_limits().recovery(recorded.records.len());
    for &number in numbers.iter().filter(|&&number| sought[number].ends).take(MOST_RECOVERIES) {
        process.want_stacks(&[]);
        let token = &sought[number].token;
        let records = &recorded.records;
        let mut records = if decided { rearranged(records, &token.moved) } else { records.to_vec() };
        through_crashes(&mut process, options, token, &mut records, limits, |process| {
            process.want_stacks(&[Stack::END]);
            Ok(())
        })?;
        all[number].end = process.stacks().into_iter().next().map(|(_, callers)| callers).unwrap_or_default();
    }
    Ok(())
}
