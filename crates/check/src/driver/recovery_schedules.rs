//! Explores a run once per schedule of its multithreaded recoveries (see `search::recovery_schedules`).

use crate::driver::check::Check;
use crate::driver::recording::record_run;
use crate::subject::{Error, Schedule, Subject};

/// Maximum number of recovery schedules explored. A count: the verdict must not depend on the speed of the machine.
const MAX_PLANS: usize = 200;

impl Check<'_> {
    /// Recoveries follow decisions from here on.
    pub(super) fn begin_recovery_schedules(&self) {
        let mut shared = self.search.shared();
        shared.forget_scheduled_recoveries();
        shared.recovery_schedules.begin();
    }

    /// Explores the crashes of a single-threaded run under all schedules of its recoveries.
    pub(super) fn all_recoveries<S: Subject>(
        &mut self,
        schedule: Schedule,
        subject: &mut S,
        mut recovering: Option<&mut S>,
    ) -> Result<(), Error> {
        self.begin_recovery_schedules();
        let limits = self.options.run_limits();
        let recorded = record_run(subject, self.options.model.is_some(), schedule, limits)?;
        let counted = self.search.shared().statistics.clone();
        let mut plan = 0;
        while self.follow_recovery_schedule(plan) {
            subject.rewind();
            let recovering = recovering.as_deref_mut();
            self.crash_recorded(schedule.seed, &recorded, subject, recovering, schedule)?;
            // Each repetition has the same crash points.
            self.count(|now| {
                now.events = counted.events;
                now.failure_points = counted.failure_points;
                now.eager_states.clone_from(&counted.eager_states);
            });
            plan += 1;
        }
        self.end_recovery_schedules(1);
        Ok(())
    }

    /// Recoveries follow this schedule from here on; `false` if there is none, or no more should be explored.
    pub(super) fn follow_recovery_schedule(&self, plan: usize) -> bool {
        let decisions = {
            let shared = &mut *self.search.shared();
            if shared.stopped || plan >= shared.recovery_schedules.count().min(MAX_PLANS) {
                return false;
            }
            shared.recovery_schedules.follow(plan, &mut shared.tree);
            shared.recoveries_crashed.clear();
            shared.recovery_schedules.plan()
        };
        self.judging.set_recovery(decisions.map(|decisions| decisions.to_vec()));
        true
    }

    /// Notes how far the schedules of recoveries were explored; `after_first` were known after the first schedule.
    pub(super) fn end_recovery_schedules(&self, after_first: usize) {
        self.follow_recovery_schedule(0);
        let (count, too_long) = {
            let shared = self.search.shared();
            (shared.recovery_schedules.count(), shared.recovery_schedules.too_long)
        };
        if count > MAX_PLANS {
            self.judging.note(format!(
                "recovery has threads and at least {count} schedules, of which {MAX_PLANS} were explored"
            ));
        } else if too_long {
            self.judging
                .note("recovery has threads, and too many steps for its schedules to be explored".into());
        } else if self.options.crashes > 1 {
            self.judging.note("recovery has threads: it was crashed only in the order of its run".into());
        } else if count > after_first && self.threads > 1 {
            self.judging.note(format!(
                "recovery has threads: {} of its {count} schedules were not explored after every schedule of the program",
                count - after_first
            ));
        } else {
            self.judging.remark(&match count {
                1 => String::from("recovery has threads; all its schedules are equivalent"),
                many => format!("recovery has threads; {many} schedules cover all that differ"),
            });
        }
    }
}
