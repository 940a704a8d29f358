//! Failures as they are met, each kind once: of several ways to the same failure the simplest is told.

use crashproof_protocol::exit;

use crate::common;
use crate::crash::{CrashState, Revealed};
use crate::drawn;
use crate::failure::{Failure, Finding, Least, TokenCrash};
use crate::judge;
use crate::session::Ending;
use crate::told::{Reads, Told};
use crate::tree::Outcome;
use crate::violation::Violation;
use crate::worker::Worker;

/// What is wrong: the failure, and the first lost store, by its execution and site.
pub(crate) type Key = (String, (usize, u32));

/// A failure that was met.
#[derive(Clone)]
pub(crate) struct Met {
    pub(crate) finding: Finding,
    /// How it comes about.
    pub(crate) crashes: Vec<TokenCrash>,
}

impl Met {
    /// What makes it simpler than another one.
    pub(crate) fn rank(&self) -> (usize, usize, u32, usize) {
        let at = self.crashes.first().map_or(0, |crash| crash.at);
        (self.finding.crashes, self.finding.lost, self.finding.seed, at)
    }
}

/// A failure, before it is told at length.
pub(crate) struct Judged<'a> {
    pub(crate) key: Key,
    failure: Failure,
    output: String,
    told: Told<'a>,
    /// The flush whose absence led here, if one did.
    cause: Option<Box<Violation>>,
}

impl<'a> Worker<'a> {
    /// Recovery ended; if it failed, that is a finding.
    pub(crate) fn leaf(&mut self, state: &CrashState, outcome: usize, revealed: &Revealed, reads: &Reads) {
        let violations = self.violations(state, outcome, revealed, reads);
        if !violations.is_empty() {
            self.note_violations(&mut self.check.common(), state, &violations, revealed, reads);
        }
        let Some(judged) = self.judge(state, outcome, revealed, &violations) else { return };
        let mut common = self.check.common();
        if state.crashes() == 1 {
            let Judged { output, key, told, .. } = &judged;
            if common.hopeless.met(state.first.at, told.lost, output, key) {
                self.hopeless_at = Some(state.first.at);
            }
        }
        let known = common.findings.get_mut(&judged.key);
        let count = known.as_ref().map_or(0, |known| known.finding.count) + 1;
        let rank = (state.crashes(), judged.told.lost, self.schedule.seed, state.first.at);
        if let Some(known) = known.filter(|known| known.rank() <= rank) {
            known.finding.count = count;
            return;
        }
        let key = judged.key.clone();
        let mut met = self.tell(judged, state, revealed, reads);
        met.finding.count = count;
        if count == 1 {
            self.check.options.monitor.found(|| common::finding(&met.finding));
        }
        common.findings.insert(key, met);
    }

    /// What is wrong, if recovery failed.
    pub(crate) fn judge(
        &self,
        state: &CrashState,
        outcome: usize,
        revealed: &Revealed,
        violations: &[judge::Met],
    ) -> Option<Judged<'a>> {
        let (ending, failure, output) = {
            let common = self.check.common();
            let Outcome { ending, output, .. } = &common.tree.outcomes[outcome];
            (*ending, Failure::of(*ending)?, output.clone())
        };
        if ending == Ending::Exit(exit::UNSUPPORTED) {
            self.check.note(format!("recovery did something that cannot be followed: {output}"));
            return None;
        }
        let mut told = Told::new(&self.check.sites);
        let mut crash_site = (0, 0);
        for (level, timeline) in state.timelines().enumerate() {
            // What the recovery after it read says most about what an execution lost.
            let revealed = state.later.get(level).map_or(revealed, |later| later.revealed);
            crash_site = told.execution(level, timeline, revealed);
        }
        // Of several flushes that are missing, what was read last led here.
        let cause = violations.iter().filter(|met| !met.same_value).max_by_key(|met| met.seen_at);
        let lost = cause.map(|met| met.site(state, met.lost[0]));
        let first = lost.or(told.first_lost).unwrap_or(crash_site);
        let cause = cause.map(|met| Box::new(met.tell(&self.check.sites, state, self.schedule.seed)));
        Some(Judged { key: (failure.kind(&output), first), failure, output, told, cause })
    }

    /// Tells a failure at length.
    pub(crate) fn tell(&self, judged: Judged, state: &CrashState, revealed: &Revealed, reads: &Reads) -> Met {
        let Judged { key, failure, output, mut told, cause } = judged;
        told.reads(state, |line| self.session.image_line(line), revealed, reads);
        let finding = Finding {
            failure,
            place: told.place(key.1).clone(),
            lost: told.lost,
            least: Least::Unfinished,
            crashes: state.crashes(),
            related: told.places,
            output,
            replay: self.check.token(self.schedule, told.crashes.clone()).encode(),
            count: 1,
            seed: self.schedule.seed,
            cause,
            story: Some(drawn::story(&self.check.sites, state, self.records, revealed, reads)),
        };
        Met { finding, crashes: told.crashes }
    }
}
