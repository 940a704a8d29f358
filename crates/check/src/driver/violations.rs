//! Missing flushes as the exploration meets them, on the way to whatever else it finds.

use std::sync::Arc;

use crashproof_protocol::{Record, record};
use px86::{Kind, Line};
use rustc_hash::FxHashMap;

use crate::crash::{CrashState, Revealed};
use crate::drawn;
use crate::explore::Common;
use crate::judge::{Met, judge, nothing_to_see};
use crate::missing_flush;
use crate::sites::Source;
use crate::suppress::Suppression;
use crate::told::{Read, Reads};
use crate::worker::{Followed, Worker, group};

impl Worker<'_> {
    /// The violations that a recovery shows, without those that somebody knows to be harmless.
    pub(crate) fn violations(
        &self,
        state: &CrashState,
        outcome: usize,
        revealed: &Revealed,
        reads: &Reads,
    ) -> Vec<Met> {
        if !self.check.options.robust {
            return Vec::new();
        }
        let ignored = Arc::clone(&self.check.common().tree.outcomes[outcome].ignored);
        self.violations_of(state, revealed, reads, &ignored)
    }

    /// The same of reads of which these, by number, do not count.
    fn violations_of(
        &self,
        state: &CrashState,
        revealed: &Revealed,
        reads: &Reads,
        ignored: &[u32],
    ) -> Vec<Met> {
        if nothing_to_see(state) {
            return Vec::new();
        }
        let mut violations = judge(&self.session, &self.check.sites, state, revealed, reads, ignored);
        violations.retain(|met| !self.is_suppressed(state, met));
        violations
    }

    /// Notes the violations that a recovery would show if it read something else than it did, once: whatever any of
    /// its reads may read is looked at, although only one of all was followed.
    pub(crate) fn note_other_reads(&self, state: &CrashState, followed: &Followed) {
        let ignored = {
            let common = self.check.common();
            if !self.check.options.robust || common.recovery_has_threads {
                return;
            }
            Arc::clone(&common.tree.outcomes[followed.outcome].ignored)
        };
        let mut revealed = Revealed::default();
        for (number, read) in followed.reads.iter().enumerate().filter(|(_, read)| read.open) {
            let line = Line::containing(read.address);
            let all = self.contents(state, line, &revealed);
            for (value, contents) in group(&all, read.address, read.width) {
                if value == read.value {
                    revealed.insert(line, contents);
                } else if !followed.checksummed.contains(&(number as u32))
                    && ignored.binary_search(&(number as u32)).is_err()
                {
                    let before = revealed.insert(line, contents);
                    let mut reads: Reads = followed.reads[..number].to_vec();
                    reads.push(Read { value, ..*read });
                    let violations = self.violations_of(state, &revealed, &reads, &ignored);
                    self.note_violations(&mut self.check.common(), state, &violations, &revealed, &reads);
                    match before {
                        Some(contents) => revealed.insert(line, contents),
                        None => revealed.remove(&line),
                    };
                }
            }
        }
    }

    /// Is the violation known to be harmless where it was lost or seen?
    fn is_suppressed(&self, state: &CrashState, met: &Met) -> bool {
        let missing = &met.reads[usize::from(met.too_old)];
        if let Some(why) = self.check.harmless.why(self.check.sites.of_recovery().get(missing.site)) {
            self.check.remark(why);
            return true;
        }
        let suppress = &self.check.options.suppress;
        if suppress.is_empty() {
            return false;
        }
        let records = state.history(met.level).records;
        let sites = &self.check.sites;
        let lost = met.lost.iter().map(|store| sites.of(met.level).get(records[*store as usize].site));
        let sites: Vec<&Source> =
            lost.chain(met.reads.map(|read| sites.of_recovery().get(read.site))).collect();
        let covers = |suppression: &Suppression| sites.iter().any(|site| suppression.covers(site));
        let Some(number) = suppress.iter().position(covers) else { return false };
        self.check.common().suppressions_used.insert(number);
        true
    }

    /// Adds violations to those that were met before.
    pub(crate) fn note_violations(
        &self,
        common: &mut Common,
        state: &CrashState,
        violations: &[Met],
        revealed: &Revealed,
        reads: &Reads,
    ) {
        for met in violations {
            let site = met.site(state, met.flush_after);
            let rank = met.rank(state, self.schedule.seed);
            let mut count = 1;
            if let Some((known, known_rank)) = common.violations.get_mut(&site) {
                known.count += 1;
                count = known.count;
                if *known_rank <= rank {
                    continue;
                }
            }
            let mut violation = met.tell(&self.check.sites, state, self.schedule.seed);
            violation.count = count;
            // Where no value shows what was lost, the picture would not either.
            if !met.same_value {
                violation.story = Some(drawn::story(&self.check.sites, state, self.records, revealed, reads));
            }
            if count == 1 {
                self.check.options.monitor.found(|| missing_flush::finding(&violation));
            }
            common.violations.insert(site, (violation, rank));
        }
    }
}

/// Which of a recovery's reads do not count for robustness: those under a checksum that did not match, and those
/// that the program says it tolerates anything of.
pub(crate) fn ignored(records: &[Record]) -> Vec<u32> {
    let mut ignored = Vec::new();
    let mut number = 0;
    // For each thread, the brackets it is in, with the reads since each began.
    let mut open: FxHashMap<u16, Vec<Vec<u32>>> = FxHashMap::default();
    for next in records {
        match next.kind() {
            record::CHECKSUM_BEGIN | record::TOLERATE_BEGIN => {
                open.entry(next.thread()).or_default().push(Vec::new());
            }
            record::CHECKSUM_END | record::TOLERATE_END => {
                let matched = next.kind() == record::CHECKSUM_END && next.address() != 0;
                let brackets = open.entry(next.thread()).or_default();
                let reads = brackets.pop().unwrap_or_default();
                match brackets.last_mut() {
                    // It is up to the bracket around it.
                    Some(outer) if matched => outer.extend(reads),
                    None if matched => {}
                    _ => ignored.extend(reads),
                }
            }
            _ if next.kind() == Kind::Load as u8 => {
                if let Some(reads) = open.get_mut(&next.thread()).and_then(|brackets| brackets.last_mut()) {
                    reads.push(number);
                }
                number += 1;
            }
            _ => {}
        }
    }
    // A checksum that never came to be compared.
    ignored.extend(open.into_values().flatten().flatten());
    ignored.sort_unstable();
    ignored
}

/// What a recovery that crashed after these records had read, as far as that counts for robustness. `reads` is all
/// it would have read.
pub(crate) fn had_read(records: &[Record], reads: &Reads, ignored: &[u32]) -> Reads {
    let loads = records.iter().filter(|record| record.kind() == Kind::Load as u8).count();
    let counts = |(index, _): &(usize, &Read)| ignored.binary_search(&(*index as u32)).is_err();
    reads.iter().take(loads).enumerate().filter(counts).map(|(_, read)| *read).collect()
}
