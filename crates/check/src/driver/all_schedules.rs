//! All schedules of a program, up to equivalence, and all crashes of each.
//!
//! Runs each Mazurkiewicz trace once (see `schedules`), by passing decisions to the parked process. It is crashed at
//! every cut that no earlier schedule had; recoveries share one tree across all schedules, so a schedule whose crash
//! states add nothing costs no recovery.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crashproof_protocol::steps::{Note, is_spurious, kind};
use crashproof_protocol::{MAX_NOTES, MAX_WATCHED, exit, schedule};

use crate::driver::check::Check;
use crate::driver::options::Budget;
use crate::driver::recording::{Recorded, record_run};
use crate::schedules::{Explorer, Linearized, Plan, Seen, Steps, linearize, unordered};
use crate::search::{self, Incomplete, Recording, Worker};
use crate::subject::{Ending, Error, Schedule, Subject, in_user_code};

/// The most steps a run may have for its schedules to be explored.
const MAX_STEPS: usize = 10_000;
/// The most events, over all orders of one run's records, in which it is crashed.
const MAX_REORDERED: u64 = 20_000_000;
/// The most events of the schedules sampled if not all can be explored.
const MAX_SAMPLED_EVENTS: u64 = 200_000;

/// Time limit for runs that follow volatile accesses, unless some turn out to matter.
const MOST_FOLLOWED: Duration = Duration::from_secs(15);

/// The result of running a schedule of decisions.
enum Ran {
    Recorded(Recorded),
    /// It turned out to be equivalent to an earlier one, or its decisions could not be followed.
    Cut,
    /// It failed without a crash; the judge was notified.
    Failed,
}

/// Progress of exploring all schedules.
struct Explored {
    explorer: Explorer,
    seen: Mutex<Seen>,
    /// Cuts that were prefixes of orders of records already crashed.
    looked: Seen,
    /// Have all other schedules been explored, so that those with spurious wakeups are next?
    wake_ups: bool,
    /// Did a thread wait for a condition variable?
    waits: bool,
    /// Schedules run, including redundant ones.
    runs: u64,
    /// The remaining budget of events.
    events_left: u64,
    /// Were crashes of a schedule left out?
    cut: bool,
    /// The number of the next schedule; each order of a run's records has its own.
    next_number: u32,
    /// Where code that was not rebuilt accesses volatile memory in an order that matters: such accesses are steps.
    watched: Vec<u32>,
    /// New places have been added, so exploration starts over.
    anew: bool,
    /// How long the runs took whose volatile accesses were followed; `None` once following has stopped.
    followed: Option<Duration>,
}

impl Explored {
    fn new(budget: Budget, watched: Vec<u32>, rebuilt: bool) -> Explored {
        Explored {
            explorer: Explorer::bounded(budget.max_preemptions),
            seen: Mutex::default(),
            looked: Seen::default(),
            wake_ups: false,
            waits: false,
            runs: 0,
            events_left: budget.max_events.unwrap_or(u64::MAX),
            cut: false,
            next_number: 1,
            watched,
            anew: false,
            followed: (!rebuilt).then_some(Duration::ZERO),
        }
    }
}

impl Check<'_> {
    /// Runs the program once without decisions. If it has threads, explores all schedules within a budget, and samples
    /// some more if the budget does not suffice.
    pub(super) fn systematically<S: Subject>(
        &mut self,
        budget: Budget,
        subject: &mut S,
        mut recovering: Option<&mut S>,
    ) -> Result<(), Error> {
        let first = self.options.strategy.schedule(0, 0);
        if self.schedule(first, subject, recovering.as_deref_mut())?.is_break() {
            return Ok(());
        }
        subject.rewind();
        let recovers_with_threads = self.search.shared().recovery_has_threads;
        if self.threads < 2 {
            return self.all_recoveries(budget, first, subject, recovering);
        }
        if recovers_with_threads {
            self.begin_recovery_schedules(budget);
        }
        // It will be explored again, with decisions.
        self.count(|statistics| statistics.schedules = 0);
        let events = std::mem::take(&mut self.search.shared().statistics.events);
        let mut explored = Explored::new(budget, Vec::new(), subject.is_rebuilt());
        // One thread runs at a time, and each run is crashed before the next one starts.
        subject.pin(true);
        let all = loop {
            let watched = explored.followed.map(|_| &explored.watched[..]);
            subject.follow_volatile(watched);
            if let Some(recovering) = recovering.as_deref_mut() {
                recovering.follow_volatile(watched);
            }
            self.judging.set_watched(&explored.watched);
            let all = self.all_schedules(budget, &mut explored, subject, recovering.as_deref_mut())?;
            if all && explored.waits && !self.search.shared().stopped {
                explored.wake_ups = true;
                explored.explorer = Explorer::bounded(budget.max_preemptions).with_wake_ups();
                self.all_schedules(budget, &mut explored, subject, recovering.as_deref_mut())?;
            }
            if !explored.anew {
                break all;
            }
            self.count(|statistics| (statistics.schedules, statistics.redundant_schedules) = (0, 0));
            self.search.shared().statistics.events = 0;
            explored = Explored::new(budget, explored.watched, subject.is_rebuilt());
        };
        subject.pin(false);
        subject.follow_volatile(None);
        self.count(|statistics| statistics.all_schedules = all);
        if recovers_with_threads {
            self.end_recovery_schedules();
        } else if self.search.shared().recovery_has_threads {
            self.judging.note(
                "recovery creates threads after some schedules only, and ran under one schedule of them"
                    .into(),
            );
        }
        if !all && !self.search.shared().stopped {
            let most = (MAX_SAMPLED_EVENTS / events.max(1)).max(1).min(budget.samples.into()) as u32;
            self.sample(explored.next_number, most, subject, recovering)?;
        }
        Ok(())
    }

    /// Explores all schedules within a budget; returns whether that covered all of them.
    fn all_schedules<S: Subject>(
        &mut self,
        budget: Budget,
        explored: &mut Explored,
        subject: &mut S,
        mut recovering: Option<&mut S>,
    ) -> Result<bool, Error> {
        while let Some(plan) = explored.explorer.next() {
            if self.search.within_time().is_err() {
                self.note_rest(explored);
                return Ok(false);
            }
            let enough = budget.max_schedules.is_some_and(|most| explored.runs >= most);
            if enough || explored.events_left == 0 {
                self.note_rest(explored);
                return Ok(false);
            }
            let number = explored.next_number;
            let started = Instant::now();
            let Some((ran, steps)) = self.run_plan(&plan, number, subject)? else { return Ok(false) };
            explored.runs += 1;
            explored.followed = explored.followed.map(|followed| followed + started.elapsed());
            if self.watch_more(&steps, explored) {
                subject.rewind();
                return Ok(false);
            }
            if explored.followed.is_some_and(|time| time > MOST_FOLLOWED) && explored.watched.is_empty() {
                explored.followed = None;
                subject.follow_volatile(None);
                self.judging.note(format!(
                    "the program was not rebuilt: what its threads do to volatile memory by plain loads and stores was followed \
                     in {} schedules only (build it with CC=\"crashproof cc\")",
                    explored.runs
                ));
            }
            if steps.cut_off {
                self.judging.note(format!(
                    "a schedule has more than {MAX_STEPS} steps, too many for all schedules to be explored (--schedules N \
                     tries N of them)"
                ));
                return Ok(false);
            }
            explored.events_left = explored.events_left.saturating_sub(steps.steps.len() as u64);
            explored.waits |= steps.steps.iter().any(|step| step.enabled.iter().any(|&it| is_spurious(it)));
            // Without such a wakeup it was explored before.
            let known = explored.wake_ups && !steps.steps.iter().any(|step| is_spurious(step.actor));
            match ran {
                _ if known => subject.rewind(),
                Ran::Recorded(recorded) => {
                    self.count(|statistics| statistics.schedules += u32::from(!explored.wake_ups));
                    if recorded.touches_persistent_memory() {
                        self.vacuous = false;
                        self.look_at(number, &recorded);
                        let started = Instant::now();
                        let recovering = recovering.as_deref_mut();
                        self.recovering_with(subject, recovering, &recorded, |check, subject| {
                            check.crash_cuts(&steps, &recorded, explored, subject)
                        })?;
                        self.count(|statistics| statistics.exploring += started.elapsed());
                    }
                    subject.rewind();
                }
                Ran::Failed => {
                    self.count(|statistics| statistics.schedules += u32::from(!explored.wake_ups));
                    explored.next_number += 1;
                }
                Ran::Cut => {
                    self.count(|statistics| statistics.redundant_schedules += u64::from(!explored.wake_ups))
                }
            }
            if self.search.shared().stopped {
                return Ok(false);
            }
            self.note_limits(steps.timed_out, steps.counted, steps.retried);
            if explored.explorer.learn(steps.steps).is_err() {
                self.judging.note(
                    "the program behaved differently when run again under the same schedule: not all schedules were explored"
                        .into(),
                );
                return Ok(false);
            }
        }
        if let Some(most) = budget.max_preemptions.filter(|_| explored.explorer.left_out) {
            self.judging.note(format!(
                "schedules with more than {most} preemptions were not explored (--preemptions)"
            ));
        }
        if explored.cut {
            self.judging.note(
                "schedules have more crash points than the default budget covers: not all were tried (--schedules all tries more)".into(),
            );
        }
        // Unless some run finished, nothing was explored.
        Ok(!explored.explorer.left_out && !explored.cut && explored.runs > 0)
    }

    /// Are there unordered volatile accesses that can become steps? Then exploration starts over.
    fn watch_more(&self, steps: &Steps, explored: &mut Explored) -> bool {
        if steps.unfollowed {
            self.judging.note(
                "the program was not rebuilt, and its threads run too long for all that they do to volatile memory by plain \
                 loads and stores to be followed: only schedules of the rest were explored (build it with \
                 CC=\"crashproof cc\")"
                    .into(),
            );
        }
        let before = explored.watched.clone();
        for &site in &steps.spins {
            if !explored.watched.contains(&site) && explored.watched.len() < MAX_WATCHED {
                explored.watched.push(site);
                explored.anew = true;
            }
        }
        for unseen in unordered(&steps.steps, &steps.unseen) {
            for site in unseen.sites {
                if !explored.watched.contains(&site) && explored.watched.len() < MAX_WATCHED {
                    explored.watched.push(site);
                }
            }
            let more =
                unseen.sites.iter().any(|site| !before.contains(site) && explored.watched.contains(site));
            explored.anew |= more;
            if !more {
                let place = |site: u32| in_user_code(self.judging.sites.recorded.get(site));
                let [one, other] = unseen.sites.map(place);
                self.judging.note(format!(
                    "{}:{} and {}:{} access the same volatile memory in two threads of a program that was not rebuilt: not all \
                     orders were explored (build it with crashproof cc)",
                    one.file, one.line, other.file, other.line
                ));
            }
        }
        explored.anew
    }

    /// Samples this many PCT schedules, and states their guarantee.
    fn sample<S: Subject>(
        &mut self,
        first_seed: u32,
        most: u32,
        subject: &mut S,
        mut recovering: Option<&mut S>,
    ) -> Result<(), Error> {
        let mut tried = 0;
        self.sampling = true;
        while tried < most {
            let schedule = Schedule {
                seed: first_seed + tried,
                strategy: schedule::PCT,
                expected_points: self.switch_points,
            };
            tried += 1;
            if self.schedule(schedule, subject, recovering.as_deref_mut())?.is_break() {
                break;
            }
            subject.rewind();
        }
        let guarantee = search::Strategy::pct_guarantee(tried as usize, self.threads, self.switch_points);
        guarantee.iter().for_each(|guarantee| self.judging.remark(guarantee));
        Ok(())
    }

    /// Runs the program according to a plan; `None` if the check should end.
    fn run_plan<S: Subject>(
        &mut self,
        plan: &Plan,
        number: u32,
        subject: &mut S,
    ) -> Result<Option<(Ran, Steps)>, Error> {
        subject.decide(&plan.decisions, &plan.sleepers());
        self.judging.begin_schedule();
        let started = Instant::now();
        let (schedule, limits) = (decided(number), self.options.run_limits());
        let recorded = record_run(subject, self.options.model.is_some(), schedule, limits);
        self.count(|statistics| statistics.recording += started.elapsed());
        let platform = &self.options.platform;
        let notes = subject.notes();
        // A run that is too long is not examined further.
        let begins = |note: &&Note| note.kind == kind::STEP;
        let begun = notes.iter().filter(begins).take(MAX_STEPS + 1).count();
        let cut_off = begun > MAX_STEPS
            || notes.len() as u64 >= MAX_NOTES.min(1 << 22)
            || subject.last_ending() == Some(Ending::Exit(exit::TOO_MANY_STEPS));
        let mut steps = match &recorded {
            _ if cut_off => Steps::default(),
            Ok(recorded) => Steps::read(notes, &recorded.records, platform),
            Err(_) => Steps::read(notes, subject.records(), platform),
        };
        steps.cut_off = cut_off;
        let ran = match recorded {
            Ok(recorded) => Ran::Recorded(recorded),
            Err(Error::FailsAlone { failure, output, .. }) => match subject.last_ending() {
                Some(Ending::Exit(exit::REDUNDANT | exit::INFEASIBLE | exit::TOO_MANY_STEPS)) => Ran::Cut,
                Some(Ending::Exit(exit::UNSUPPORTED)) => {
                    self.judging.note(format!("a schedule did something that cannot be followed: {output}"));
                    Ran::Failed
                }
                // The program finished before, so it is the schedule that makes it fail.
                _ => {
                    self.judging.set_decisions(steps.decisions(), Vec::new());
                    let (records, notes) = (subject.records(), subject.notes());
                    self.judging.fails_without_crash(records, notes, schedule, failure, output);
                    Ran::Failed
                }
            },
            Err(Error::Interrupted) => {
                self.search.stop(Incomplete::Interrupted);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(Some((ran, steps)))
    }

    /// Crashes a run at every cut at which none was crashed before.
    fn crash_cuts<S: Subject>(
        &self,
        steps: &Steps,
        recorded: &Recorded,
        explored: &mut Explored,
        subject: &mut S,
    ) -> Result<(), Error> {
        let most = explored.events_left.min(MAX_REORDERED);
        let (orders, all) = linearize(steps, &recorded.records, &mut explored.looked, most as usize);
        explored.cut |= !all;
        for Linearized { records, places, cuts } in orders {
            explored.events_left = explored.events_left.saturating_sub(records.len() as u64);
            self.judging.set_decisions(steps.decisions(), places);
            let history = &self.search.history(&records);
            let recording = Recording { records: &records, history, schedule: decided(explored.next_number) };
            explored.next_number += 1;
            self.explore_by(&search::Plan::Unseen(&cuts, &explored.seen), subject, recording)?;
            self.judging.minimize(Worker::new(self.search, subject, recording))?;
            subject.rewind();
            if self.search.shared().stopped {
                break;
            }
        }
        self.judging.end_schedule();
        Ok(())
    }

    /// What the schedules of a run do not show.
    pub(super) fn note_limits(&self, timed_out: bool, counted: bool, retried: bool) {
        if timed_out {
            self.judging.note(
                "a thread joins another one with a timeout: that the timeout expires was not explored".into(),
            );
        }
        if counted {
            self.judging.note(
                "a thread polls and counts its attempts: not every number of attempts was explored".into(),
            );
        }
        if retried {
            self.judging.remark(
                "a thread that repeats a read in the same state is assumed to wait for another thread",
            );
        }
    }

    /// Notes that not all schedules were explored.
    fn note_rest(&self, explored: &Explored) {
        if self.search.shared().stopped {
            return;
        }
        let runs = explored.runs;
        let part = explored.explorer.explored().max(f64::MIN_POSITIVE);
        let rest = (runs as f64 / part - runs as f64).max(1.0);
        let rest = match rest {
            few if few < 1e6 => format!("{few:.0}"),
            many => format!("{many:.1e}"),
        };
        if explored.wake_ups {
            self.judging.remark(
                "not all schedules were explored in which a thread wakes up from a condition variable without a signal",
            );
            return;
        }
        self.judging.note(format!(
            "explored {runs} schedules, about {rest} remain (--schedules all or --max-schedules N explores more)"
        ));
    }
}

/// The decision schedule with this number.
fn decided(number: u32) -> Schedule {
    Schedule { seed: number, strategy: schedule::DECISIONS, expected_points: 0 }
}
