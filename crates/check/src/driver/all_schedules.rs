//! All schedules of a program, up to equivalence, and all crashes of each.
//!
//! One run for each Mazurkiewicz trace (see `schedules`), driven by decisions from the parked process. Every cut of it
//! that no earlier schedule had is crashed at; recoveries share one tree over all schedules, so a schedule whose crash
//! states add nothing costs no recovery.

use std::sync::Mutex;
use std::time::Instant;

use crashproof_protocol::steps::{Note, kind};
use crashproof_protocol::{exit, schedule};

use crate::driver::check::Check;
use crate::driver::options::Budget;
use crate::driver::recording::{Recorded, record_run};
use crate::schedules::{Explorer, Linearized, Plan, Seen, Steps, linearize};
use crate::search::{self, Incomplete, Recording, Worker};
use crate::subject::{Ending, Error, Schedule, Subject};

/// Steps that a run may have for its schedules to be explored.
const MAX_STEPS: usize = 20_000;

/// How a schedule of decisions ended.
enum Ran {
    Recorded(Recorded),
    /// It turned out to be equivalent to one before, or could not be decided so.
    Cut,
    /// It failed without any crash; the judge was told.
    Failed,
}

impl Check<'_> {
    /// Explores all schedules within a budget.
    pub(super) fn all_schedules<S: Subject>(
        &mut self,
        budget: Budget,
        subject: &mut S,
        mut recovering: Option<&mut S>,
    ) -> Result<(), Error> {
        let mut explorer = Explorer::bounded(budget.max_preemptions);
        let seen = Mutex::new(Seen::default());
        let mut next_number = 0;
        let mut runs = 0;
        let mut all = true;
        while let Some(plan) = explorer.next() {
            all = false;
            if self.search.within_time().is_err() {
                break;
            }
            if budget.max_schedules.is_some_and(|most| runs >= most) {
                self.note_rest(&explorer, runs);
                break;
            }
            let number = next_number;
            let Some((ran, steps)) = self.run_plan(&plan, number, subject)? else { break };
            runs += 1;
            match ran {
                Ran::Recorded(recorded) if recorded.threads == 1 => {
                    self.count(|statistics| statistics.schedules += 1);
                    // As without decisions.
                    self.crash_recorded(number, &recorded, subject, recovering, Schedule::default())?;
                    self.note_recovery_threads();
                    return Ok(());
                }
                Ran::Recorded(recorded) => {
                    self.count(|statistics| statistics.schedules += 1);
                    if recorded.touches_persistent_memory() {
                        self.vacuous = false;
                        self.look_at(number, &recorded);
                        let started = Instant::now();
                        let recovering = recovering.as_deref_mut();
                        self.recovering_with(subject, recovering, &recorded, |check, subject| {
                            check.crash_cuts(&steps, &recorded, &seen, &mut next_number, subject)
                        })?;
                        self.count(|statistics| statistics.exploring += started.elapsed());
                    }
                    subject.rewind();
                }
                Ran::Failed => {
                    self.count(|statistics| statistics.schedules += 1);
                    next_number += 1;
                }
                Ran::Cut => self.count(|statistics| statistics.redundant_schedules += 1),
            }
            if self.search.shared().stopped {
                break;
            }
            self.note_limits(&steps);
            if steps.steps.len() > MAX_STEPS {
                self.judging.note(format!(
                    "the run has {} steps, more than the {MAX_STEPS} whose schedules can be explored; \
                     try --schedules N",
                    steps.steps.len()
                ));
                break;
            }
            if explorer.learn(steps.steps).is_err() {
                self.judging.note(
                    "the program did not do the same again under the same schedule: not all schedules were explored"
                        .into(),
                );
                break;
            }
            all = true;
        }
        let all = all && !explorer.left_out;
        self.count(|statistics| statistics.all_schedules = all);
        self.note_recovery_threads();
        if let Some(most) = budget.max_preemptions.filter(|_| explorer.left_out) {
            self.judging.note(format!(
                "schedules with more than {most} preemptions were not explored (--preemptions)"
            ));
        }
        Ok(())
    }

    /// Runs the program as planned; none if the check is to end.
    fn run_plan<S: Subject>(
        &mut self,
        plan: &Plan,
        number: u32,
        subject: &mut S,
    ) -> Result<Option<(Ran, Steps)>, Error> {
        subject.decide(&plan.decisions, &notes_of(plan));
        self.judging.begin_schedule();
        let started = Instant::now();
        let (schedule, limits) = (decided(number), self.options.run_limits());
        let recorded = record_run(subject, self.options.model.is_some(), schedule, limits);
        self.count(|statistics| statistics.recording += started.elapsed());
        let platform = &self.options.platform;
        let steps = match &recorded {
            Ok(recorded) => Steps::read(subject.notes(), &recorded.records, platform),
            Err(_) => Steps::read(subject.notes(), subject.records(), platform),
        };
        let ran = match recorded {
            Ok(recorded) => Ran::Recorded(recorded),
            Err(Error::FailsAlone { failure, output, .. }) => match subject.last_ending() {
                Some(Ending::Exit(exit::REDUNDANT | exit::INFEASIBLE)) => Ran::Cut,
                Some(Ending::Exit(exit::UNSUPPORTED)) if number > 0 || !plan.decisions.is_empty() => {
                    self.judging.note(format!("a schedule did something that cannot be followed: {output}"));
                    Ran::Failed
                }
                // The program got through before: it is the schedule that makes it fail.
                _ if !plan.decisions.is_empty() => {
                    self.judging.set_decisions(steps.decisions(), Vec::new());
                    self.judging.fails_without_crash(subject.records(), schedule, failure, output);
                    Ran::Failed
                }
                _ => {
                    let how = format!("it {}", failure.describe());
                    return Err(Error::FailsAlone { how, failure, output });
                }
            },
            Err(Error::Interrupted) if !plan.decisions.is_empty() => {
                self.search.stop(Incomplete::Interrupted);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(Some((ran, steps)))
    }

    /// Crashes a run at every cut that was not crashed at before.
    fn crash_cuts<S: Subject>(
        &self,
        steps: &Steps,
        recorded: &Recorded,
        seen: &Mutex<Seen>,
        number: &mut u32,
        subject: &mut S,
    ) -> Result<(), Error> {
        let (orders, all) = {
            let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            linearize(steps, &recorded.records, &mut seen)
        };
        if !all {
            self.judging.note("a schedule has more cuts than can be crashed at: not all were".into());
        }
        for Linearized { records, places, cuts } in orders {
            self.judging.set_decisions(steps.decisions(), places);
            let history = &self.search.history(&records);
            let recording = Recording { records: &records, history, schedule: decided(*number) };
            *number += 1;
            self.explore_by(&search::Plan::Unseen(&cuts, seen), subject, recording)?;
            self.judging.minimize(Worker::new(self.search, subject, recording))?;
            subject.rewind();
            if self.search.shared().stopped {
                break;
            }
        }
        self.judging.end_schedule();
        Ok(())
    }

    /// Recoveries run under one schedule.
    fn note_recovery_threads(&self) {
        if self.search.shared().recovery_has_threads {
            self.judging.note(
                "recovery creates threads, and ran under one schedule of them (--schedules N tries more)"
                    .into(),
            );
        }
    }

    /// What the schedules of a run do not show.
    fn note_limits(&self, steps: &Steps) {
        if steps.timed_out {
            self.judging.remark("timeouts fire only when no other thread can run");
        }
        if steps.retried {
            self.judging
                .remark("a thread that reads the same value 3 times in a row is taken to wait for another");
        }
    }

    /// Not all schedules were explored.
    fn note_rest(&self, explorer: &Explorer, runs: u64) {
        let explored = explorer.explored().max(f64::MIN_POSITIVE);
        let rest = runs as f64 / explored - runs as f64;
        let rest = match rest {
            few if few < 1e6 => format!("{few:.0}"),
            many => format!("{many:.1e}"),
        };
        self.judging.note(format!(
            "explored {runs} schedules, about {rest} remain (--schedules all explores them all, --max-schedules N more)"
        ));
    }
}

/// The schedule of decisions with a number.
fn decided(number: u32) -> Schedule {
    Schedule { seed: number, strategy: schedule::DECISIONS, expected_points: 0 }
}

/// Who sleeps, as the runtime wants it: each sleeper, then what its step accessed.
fn notes_of(plan: &Plan) -> Vec<Note> {
    let mut notes = Vec::new();
    for (actor, accesses) in &plan.sleeping {
        notes.push(Note::new(kind::STEP, *actor, 0, 0, 0));
        notes.extend(accesses.iter().map(|access| Note::of(*actor, access)));
    }
    notes
}
