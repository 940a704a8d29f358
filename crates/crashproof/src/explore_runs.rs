//! Answers by runs what the prover leaves open.
//!
//! The prover follows all executions at once, which is more than some programs need: one thread with one input has one run,
//! and recovery can tell only a few of its crash states apart. `check` explores those to the end, often in a second, where the
//! formula is too large, or holds something that is not modeled. So where the prover does not know, or takes long, the
//! program is explored as `check` does it, over the same executions: same arguments, same claims, all schedules.
//!
//! A claim that fails in a run fails. That no run fails is a proof only if all were explored; the report says that it is one
//! of this kind, and what `check` takes for granted beyond the prover.

use std::sync::Arc;

use crashproof_check::{Budget, FailedRecovery, Failure, Medium, Monitor, Report};
use crashproof_findings::Finding;
use crashproof_findings::rules::prove::{ACCESS_OUTSIDE, CLAIM_VIOLATED};

use crate::replay_counterexample::Replay;

/// What runs with threads take for granted.
const PLAIN: &str = "that threads do not race on plain variables in volatile memory";

/// What runs say.
pub(crate) enum Explored {
    /// A claim is false in one.
    Fails(Box<Finding>),
    /// All were explored, and none fails: how many, and what was taken for granted.
    Holds(Holds),
    /// Nothing that holds for all: why, if they were explored.
    Open(Option<String>),
}

/// That no run fails.
pub(crate) struct Holds {
    /// How much was explored, in words.
    pub(crate) explored: String,
    pub(crate) assumptions: Vec<String>,
}

impl Replay<'_> {
    /// Explores all runs of the program, all crash points, and all that recovery can tell apart.
    pub(crate) fn explore(&self, monitor: &Arc<Monitor>) -> Explored {
        let built = match self.build(&[]) {
            Ok(built) => built,
            Err(why) => return Explored::Open(Some(why)),
        };
        let mut options = self.options(&built);
        options.all_schedules = Some(Budget { max_events: None, samples: 0, ..Budget::all() });
        options.monitor = Arc::clone(monitor);
        let mut explored = crashproof_check::check(&options);
        // Its files may be elsewhere than the ones that it was given: whatever it maps shared counts, as for `check`.
        if explored.as_ref().is_ok_and(|report| report.statistics.events == 0) && !monitor.cancelled() {
            options.pm_path.clear();
            // On a disk other things survive than the prover thinks of.
            options.set_medium(Medium::Dax);
            explored = crashproof_check::check(&options);
        }
        match explored {
            Ok(report) => self.judge(&report, monitor),
            Err(error) => Explored::Open(error.to_string().lines().next().map(str::to_owned)),
        }
    }

    fn judge(&self, report: &Report, monitor: &Monitor) -> Explored {
        if let Some(failed) = report.findings.iter().find(|found| is_claim(found)) {
            return Explored::Fails(Box::new(finding(failed)));
        }
        let figures = &report.statistics;
        let why = match (report.findings.first(), report.unknown.first()) {
            _ if monitor.cancelled() => return Explored::Open(None),
            (Some(found), _) => Some(format!("recovery {}", found.failure.describe_with(&found.output))),
            (_, Some(unknown)) => Some(unknown.clone()),
            _ if self.has_inputs => Some("the program asks for values that runs cannot all have".to_owned()),
            _ if figures.recoveries == 0 => Some("nothing was recovered".to_owned()),
            _ => None,
        };
        if why.is_some() {
            return Explored::Open(why);
        }
        let schedules = match figures.schedules {
            _ if figures.threads < 2 => "its one run".to_owned(),
            1 => "the only schedule".to_owned(),
            many => format!("all {many} schedules"),
        };
        let explored = format!(
            "all claims hold in every schedule and crash; established by running the program: {schedules}, {} crash points, {} recoveries",
            figures.failure_points, figures.recoveries
        );
        let threads = (figures.threads > 1).then(|| PLAIN.to_owned());
        let trusted = report.remarks.iter().filter(|remark| remark.contains("is trusted")).cloned();
        Explored::Holds(Holds { explored, assumptions: threads.into_iter().chain(trusted).collect() })
    }
}

/// Is it a claim that fails? That the program ends, and with exit code 0, is claimed of recovery alone.
fn is_claim(found: &FailedRecovery) -> bool {
    match found.failure {
        Failure::Exit(_) | Failure::Endless | Failure::Deadlock => found.crashes > 0,
        Failure::Signal(_) | Failure::Assertion | Failure::Sanitizer | Failure::Corrupted => true,
    }
}

/// The failure as the prover reports one, in `check`'s words.
fn finding(failed: &FailedRecovery) -> Finding {
    let told = failed.in_common_form();
    let outside = matches!(failed.failure, Failure::Signal(libc::SIGSEGV | libc::SIGBUS));
    let (rule, label) =
        if outside { (&ACCESS_OUTSIDE, "outside of every object") } else { (&CLAIM_VIOLATED, "false here") };
    let (place, label) = match &told.failed_at {
        Some(place) => (place.clone(), label.to_owned()),
        None => (told.place.clone(), told.label.clone()),
    };
    let mut finding = Finding { rule, level: rule.level, place, label, replay: String::new(), ..told };
    finding.message = format!("not always true: {}", finding.message);
    finding.evidence.push("reproduced by a run of the program".to_owned());
    finding
}
