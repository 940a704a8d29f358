//! Recoveries that cope with torn state: they read something stale, but leave the same state as if it had been lost or
//! had survived as a whole.
//!
//! For a record with a checksum, or the copy of two whose version does not match, recovery notices and overwrites it.
//! PSan calls that a violation, since a machine without caches could not have left what was read. But if recovery
//! prints, stores and leaves in persistent memory exactly what it would have after a crash that such a machine could
//! have left, the difference can never be observed (as in the state robustness of PMVerify). Recovery is compared with
//! two crashes of that kind: as much as possible lost, and nothing lost.
//!
//! Recoveries that are crashed in turn, have threads, store to many lines or print much count as not coping. Not
//! considered: what they write to files outside persistent memory.

use px86::Line;
use rustc_hash::FxHashSet;

use crate::crash::{Content, CrashState, Revealed};
use crate::search::corners::Corner;
use crate::search::shared_state::Stop;
use crate::search::tree::Outcome;
use crate::search::worker::{PlainEnd, Worker};
use crate::subject::{Bytes, Ending, Subject};

/// A content without the bytes that recovery overwrites.
fn left_of(content: &Content, stored: u64) -> Bytes {
    let mut left = content.bytes;
    left.iter_mut().enumerate().filter(|(at, _)| stored >> at & 1 != 0).for_each(|(_, byte)| *byte = 0);
    left
}

impl<S: Subject> Worker<'_, S> {
    /// Does a recovery that read something stale leave the same state as it would have otherwise?
    pub(crate) fn copes(
        &mut self,
        state: &CrashState,
        revealed: &Revealed,
        outcome: &Outcome,
    ) -> Result<bool, Stop> {
        let known = outcome.effects.as_ref().is_none_or(|effects| effects.is_known());
        if !state.later.is_empty() || outcome.ending != Ending::Exit(0) || !known || outcome.threads {
            return Ok(false);
        }
        if self.plain_ends.as_ref().is_none_or(|(at, _)| *at != state.first.at) {
            let ends = self.keeping_contents(|worker| worker.find_plain_ends(state))?;
            self.plain_ends = Some((state.first.at, ends));
        }
        let (_, ends) = self.plain_ends.as_ref().expect("just found");
        Ok(ends.iter().any(|end| {
            end.outcome.effects == outcome.effects && self.is_left_alike(state, revealed, end, outcome)
        }))
    }

    fn find_plain_ends(&mut self, state: &CrashState) -> Result<Vec<PlainEnd>, Stop> {
        let mut ends = Vec::new();
        if state.first.overtakes() {
            return Ok(ends);
        }
        // Where the youngest store that has certainly persisted is younger than one that may be lost, such a machine
        // has lost at most what came after it.
        let lost =
            if state.may_lose_all() { Corner::Lost } else { Corner::Until(state.first.certain_until()) };
        for corner in [lost, Corner::Kept] {
            let chosen = |worker: &Self, line: Line| worker.in_corner(state, line, corner);
            let Some(followed) = self.follow_chosen(state, &chosen)? else { continue };
            let outcome = self.outcome(followed.outcome);
            if outcome.ending == Ending::Exit(0) && !outcome.threads {
                ends.push(PlainEnd { revealed: followed.revealed, outcome });
            }
        }
        Ok(ends)
    }

    /// Was everything overwritten in which the lines differed between the two crashes?
    fn is_left_alike(
        &self,
        state: &CrashState,
        revealed: &Revealed,
        end: &PlainEnd,
        outcome: &Outcome,
    ) -> bool {
        state.open_lines().into_iter().all(|line| {
            let here = self.contents(state, line, revealed);
            let there = self.contents(state, line, &end.revealed);
            let stored = outcome.effects.as_ref().map_or(0, |effects| effects.stored(line));
            // A counter's line has thousands of contents.
            let there: FxHashSet<Bytes> = there.iter().map(|content| left_of(content, stored)).collect();
            here.iter().all(|content| there.contains(&left_of(content, stored)))
        })
    }
}
