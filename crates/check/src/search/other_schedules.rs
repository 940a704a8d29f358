//! Follows recoveries that have threads into all their schedules.
//!
//! Under another schedule recovery may read what it did not read under the first. Which content a line has is decided by the
//! crash, before any schedule: so where a run reads something that may have several values, the crash states are told apart by
//! it, and each of the parts is explored anew. What is left are cases in which every run knows what it reads.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use crashproof_protocol::steps::{Actor, kind};
use crashproof_protocol::{Record, exit};
use px86::{Kind, Line};
use rustc_hash::{FxHashSet, FxHasher};

use crate::crash::{Content, CrashState, Read, RecordKinds, Revealed, group};
use crate::schedules::{Explorer, Plan, Steps};
use crate::search::observer::Incomplete;
use crate::search::path::Path;
use crate::search::recovery_schedules::{Case, MAX_STEPS, Way};
use crate::search::shared_state::Stop;
use crate::search::tree::{Diverged, Outcome};
use crate::search::worker::{Walk, Worker};
use crate::subject::{Ended, Ending, Failure, Schedule, Subject};

/// What came of exploring all schedules.
enum Came {
    Explored(Case),
    /// They read what may have several values: the contents with each.
    Apart(Line, Vec<Vec<Content>>),
    /// Not all could be explored.
    Cut,
}

/// A run under one schedule.
struct Ran {
    records: Vec<Record>,
    steps: Steps,
    outcome: Outcome,
    /// It turned out to be equivalent to one before, or could not be decided so.
    redundant: bool,
}

impl<S: Subject> Worker<'_, S> {
    /// Follows a recovery that has threads, and ended like this under the first schedule, into all others.
    pub(crate) fn other_schedules(
        &mut self,
        state: &CrashState,
        walk: &Walk,
        first: &Outcome,
    ) -> Result<(), Stop> {
        let reads = walk.path.reads();
        let mut hasher = FxHasher::default();
        reads.iter().for_each(|read| (read.address, read.width, read.value).hash(&mut hasher));
        let key = hasher.finish();
        let mut parts = vec![walk.revealed.clone()];
        while let Some(revealed) = parts.pop() {
            let known = self.search.shared().recovery_schedules.cases(key);
            let case = match known.into_iter().find(|case| self.is_case(state, &revealed, case)) {
                Some(case) => {
                    self.search.shared().statistics.recoveries_saved += case.schedules;
                    case
                }
                None if self.only_known.is_some() => return Err(Stop::NotKnown),
                None => match self.explore_schedules(state, &revealed)? {
                    Came::Explored(case) => {
                        let case = Arc::new(case);
                        self.search.shared().recovery_schedules.add(key, Arc::clone(&case));
                        case
                    }
                    Came::Apart(line, contents) => {
                        parts.extend(contents.into_iter().map(|contents| {
                            let mut part = revealed.clone();
                            part.insert(line, contents);
                            part
                        }));
                        continue;
                    }
                    Came::Cut => {
                        self.last.uneventful = false;
                        continue;
                    }
                },
            };
            for &(address, ..) in &case.values {
                self.unchanged.looked_at(Line::containing(address));
            }
            let same = |way: &&Way| way.outcome.as_ref() == first && is_same(&way.reads, &reads);
            for way in case.ways.iter().filter(|way| !same(way)) {
                self.judge_way(state, way)?;
            }
        }
        Ok(())
    }

    /// Has all that recovery reads in a case these values here, and no other?
    fn is_case(&self, state: &CrashState, revealed: &Revealed, case: &Case) -> bool {
        case.values.iter().all(|&(address, width, value)| {
            matches!(self.values(state, revealed, address, width)[..], [(only, _)] if only == value)
        })
    }

    /// The values that a read may have, with the contents that show each; of what is certain, no contents.
    fn values(
        &self,
        state: &CrashState,
        revealed: &Revealed,
        address: u64,
        width: u8,
    ) -> Vec<(u64, Vec<Content>)> {
        match self.certain(state, address, width) {
            Some(value) => vec![(value, Vec::new())],
            None => group(&self.contents(state, Line::containing(address), revealed), address, width),
        }
    }

    fn explore_schedules(&mut self, state: &CrashState, revealed: &Revealed) -> Result<Came, Stop> {
        let mut explorer = Explorer::default();
        let (mut case, mut known) = (Case::default(), FxHashSet::default());
        let mut again = 3;
        while let Some(plan) = explorer.next() {
            if !self.search.shared().recovery_schedules.take_run() {
                return Ok(Came::Cut);
            }
            let Some(ran) = self.run_schedule(state, revealed, &plan)? else { return Ok(Came::Cut) };
            let mut reads = Vec::new();
            for load in ran.records.iter().filter(|record| record.kind() == Kind::Load as u8) {
                let (address, width, value) = (load.address(), load.width(), load.value);
                let mut values = self.values(state, revealed, address, width);
                if values.len() > 1 {
                    let contents = values.drain(..).map(|(_, contents)| contents).collect();
                    return Ok(Came::Apart(Line::containing(address), contents));
                }
                if known.insert((address, width)) {
                    case.values.push((address, width, value));
                }
                reads.push(Read { site: load.site, address, width, value, open: false });
            }
            if !ran.redundant {
                case.schedules += 1;
                let is_new = |way: &Way| way.outcome.as_ref() != &ran.outcome || !is_same(&way.reads, &reads);
                if case.ways.iter().all(is_new) {
                    let decisions: Arc<[Actor]> = ran.steps.decisions().into();
                    case.ways.push(Way { decisions, reads: reads.into(), outcome: Arc::new(ran.outcome) });
                }
            }
            let diverged = explorer.learn(ran.steps.steps).is_err();
            // Code followed by faults may have been patched in the meantime, and then does the same in other steps.
            if diverged && !self.subject.is_rebuilt() && again > 0 {
                again -= 1;
                (explorer, case) = Default::default();
                known.clear();
                continue;
            }
            if diverged {
                let diverged = Diverged { expected: None, found: None };
                self.search.observer.incomplete(Incomplete::Diverged(diverged));
                return Ok(Came::Cut);
            }
        }
        Ok(Came::Explored(case))
    }

    /// Runs recovery as planned; none if it is too long.
    fn run_schedule(
        &mut self,
        state: &CrashState,
        revealed: &Revealed,
        plan: &Plan,
    ) -> Result<Option<Ran>, Stop> {
        // They are not behaviors of the crash: only the limit of all recoveries counts.
        self.search.within_limits(0)?;
        let patches = self.most_kept(state, revealed);
        self.subject.decide(&plan.decisions, &plan.sleepers());
        let run = self.recovery_run(state, Schedule::DECIDED);
        let started = Instant::now();
        let Ended { ending, waits_for, .. } = self.run_once(&run, &patches)?;
        let begun = self.subject.notes().iter().filter(|note| note.kind == kind::STEP).take(MAX_STEPS + 1);
        let too_long = ending == Ending::Exit(exit::TOO_MANY_STEPS) || begun.count() > MAX_STEPS;
        if too_long {
            self.search.shared().recovery_schedules.too_long = true;
            return Ok(None);
        }
        let steps = Steps::read(self.subject.notes(), self.subject.records(), &self.search.settings.platform);
        let redundant = matches!(ending, Ending::Exit(exit::REDUNDANT | exit::INFEASIBLE));
        {
            let shared = &mut *self.search.shared();
            shared.took(ending, started.elapsed(), self.subject.records().len());
            shared.statistics.recoveries += u64::from(!redundant);
            let schedules = &mut shared.recovery_schedules;
            schedules.timed_out |= steps.timed_out;
            schedules.counted |= steps.counted;
            schedules.retried |= steps.retried;
        }
        if let Ending::Limit(limit) = ending {
            self.search.observer.incomplete(Incomplete::Run(limit));
        }
        let is_judged = !redundant && (ending != Ending::Exit(0) || self.search.settings.history);
        let output = if is_judged { self.subject.output(ending) } else { String::new() };
        let endless = Failure::of(ending) == Some(Failure::Endless);
        let waits_for = if endless { waits_for } else { Vec::new() };
        let records = self.subject.records().to_vec();
        let behaviors = self.search.shared().tree.behaviors();
        let kinds = RecordKinds::of(&records);
        self.search.observer.ran(&records, kinds, behaviors);
        let outcome = self.search.outcome(&records, kinds, ending, output, waits_for);
        Ok(Some(Ran { records, steps, outcome, redundant }))
    }

    /// Judges what recovery did under one of its schedules.
    fn judge_way(&mut self, state: &CrashState, way: &Way) -> Result<(), Stop> {
        let (mut revealed, mut path) = (Revealed::default(), Path::default());
        for read in way.reads.iter() {
            let open = self.certain(state, read.address, read.width).is_none();
            if open {
                let line = Line::containing(read.address);
                let values = self.values(state, &revealed, read.address, read.width);
                if values.len() > 1
                    && let Some((_, contents)) = values.into_iter().find(|(value, _)| *value == read.value)
                {
                    revealed.insert(line, contents);
                }
            }
            path.push(Read { open, ..*read });
        }
        if self.only_known.is_some() {
            return Ok(());
        }
        self.search.observer.recovery_follows(&way.decisions);
        let judged = self.leaf(state, &revealed, &path, &way.outcome);
        self.search.observer.recovery_follows(&[]);
        judged
    }
}

/// Do two runs read the same in the same order?
fn is_same(one: &[Read], other: &[Read]) -> bool {
    let key = |read: &Read| (read.address, read.width, read.value, read.site);
    one.iter().map(key).eq(other.iter().map(key))
}
