//! Recoveries that have threads, under all their schedules (see `search::other_schedules`).

use crate::driver::check::Check;
use crate::driver::options::Budget;
use crate::driver::recording::record_run;
use crate::subject::{Error, Schedule, Subject};

impl Check<'_> {
    /// Recoveries follow decisions from here on.
    pub(super) fn begin_recovery_schedules(&self, budget: Budget) {
        let mut shared = self.search.shared();
        shared.forget_scheduled_recoveries();
        shared.recovery_schedules.begin(budget.max_schedules.unwrap_or(u64::MAX));
        drop(shared);
        self.judging.set_recovery(Some(Vec::new()));
    }

    /// Explores the crashes of a single-threaded run under all schedules of its recoveries.
    pub(super) fn all_recoveries<S: Subject>(
        &mut self,
        budget: Budget,
        schedule: Schedule,
        subject: &mut S,
        recovering: Option<&mut S>,
    ) -> Result<(), Error> {
        self.begin_recovery_schedules(budget);
        let limits = self.options.run_limits();
        let recorded = record_run(subject, self.options.model.is_some(), schedule, limits)?;
        let counted = self.search.shared().statistics.clone();
        subject.rewind();
        self.crash_recorded(schedule.seed, &recorded, subject, recovering, schedule)?;
        // They are the same crash points.
        self.count(|now| {
            now.events = counted.events;
            now.failure_points = counted.failure_points;
            now.eager_states.clone_from(&counted.eager_states);
        });
        self.end_recovery_schedules();
        Ok(())
    }

    /// Says how far the schedules of recoveries were explored.
    pub(super) fn end_recovery_schedules(&self) {
        let (most, cut, too_long) = {
            let shared = self.search.shared();
            let schedules = &shared.recovery_schedules;
            (schedules.most, schedules.cut, schedules.too_long)
        };
        let [timed_out, counted, retried] = {
            let shared = self.search.shared();
            let schedules = &shared.recovery_schedules;
            [schedules.timed_out, schedules.counted, schedules.retried]
        };
        self.note_limits(timed_out, counted, retried);
        if cut {
            self.judging.note(
                "recovery has threads, and more schedules than were explored (--schedules all or --max-schedules N explores \
                 more)"
                    .into(),
            );
        } else if too_long {
            self.judging
                .note("recovery has threads, and too many steps for its schedules to be explored".into());
        } else if self.options.crashes > 1 {
            self.judging.note("recovery has threads: it was crashed only in the order of its run".into());
        } else {
            self.judging.remark(&match most {
                0 | 1 => String::from("recovery has threads, and only one schedule"),
                many => format!("recovery has threads: up to {many} schedules of it stand for all others"),
            });
        }
    }
}
