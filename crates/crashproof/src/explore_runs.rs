//! Uses runs of the program to answer what the prover leaves open.
//!
//! The prover follows all executions at once, which is more than some programs need: one thread with one input has one
//! run, and recovery can distinguish only a few of its crash states. `check` explores those exhaustively, often in a
//! second, even if the formula is too large or contains something not modeled. So if the prover has no answer, or takes
//! long, the program is explored as by `check`, over the same executions: same arguments, same claims, all schedules.
//!
//! A claim that fails in a run is refuted. The absence of failing runs is a proof only if all were explored; the report
//! marks proofs of this kind, and lists what `check` assumes beyond the prover.

use std::sync::Arc;

use crashproof_check::{Budget, FailedRecovery, Failure, Medium, Monitor, Report};
use crashproof_findings::Finding;
use crashproof_findings::rules::prove::{ACCESS_OUTSIDE, CLAIM_VIOLATED};

use crate::replay_counterexample::Replay;

/// The assumption about runs with threads.
const PLAIN: &str = "that threads do not race on plain variables in volatile memory";

/// The answer given by runs.
pub(crate) enum Explored {
    /// A claim fails in one of them.
    Fails(Box<Finding>),
    /// All were explored, and none fails: how many, and the assumptions.
    Holds(Holds),
    /// No general answer; if they were explored, the reason.
    Open(Option<String>),
}

/// No run fails.
pub(crate) struct Holds {
    /// How much was explored, as text.
    pub(crate) explored: String,
    pub(crate) assumptions: Vec<String>,
}

impl Replay<'_> {
    /// Explores all runs of the program, all crash points, and everything recovery can distinguish.
    pub(crate) fn explore(&self, monitor: &Arc<Monitor>) -> Explored {
        let built = match self.build(&[]) {
            Ok(built) => built,
            Err(why) => return Explored::Open(Some(why)),
        };
        let mut options = self.options(&built);
        options.all_schedules = Some(Budget { max_events: None, samples: 0, ..Budget::all() });
        options.monitor = Arc::clone(monitor);
        let mut explored = crashproof_check::check(&options);
        // Its files may not be the given ones: whatever it maps shared counts, as for `check`.
        if explored.as_ref().is_ok_and(|report| report.statistics.events == 0) && !monitor.cancelled() {
            options.pm_path.clear();
            // On a disk, different states survive than the prover assumes.
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

/// Is it a failed claim? Termination with exit code 0 is claimed only of recovery.
fn is_claim(found: &FailedRecovery) -> bool {
    match found.failure {
        Failure::Exit(_) | Failure::Endless | Failure::Deadlock => found.crashes > 0,
        Failure::Signal(_) | Failure::Assertion | Failure::Sanitizer | Failure::Corrupted => true,
    }
}

/// The failure as a prover finding, in `check`'s words.
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
    finding.evidence.push("reproduced by a run of the program".to_owned());
    finding
}
