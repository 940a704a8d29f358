//! Flushes and fences of a recorded run that did nothing.

use std::collections::BTreeMap;

use crashproof_protocol::Record;
use px86::{Kind, Line};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::sites::{Sites, Source};

/// In which way an instruction was wasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WasteKind {
    /// A flush of a line that was not stored to since it was last written back.
    CleanFlush,
    /// A second flush of a line before any new store to it, the first not yet fenced.
    RepeatedFlush,
    /// A fence with nothing to wait for.
    EmptyFence,
}

/// A place where instructions were wasted.
#[derive(Clone, Debug)]
pub struct Waste {
    /// In which way.
    pub kind: WasteKind,
    /// Where.
    pub place: Source,
    /// How often it was wasted.
    pub wasted: u64,
    /// How often it ran.
    pub total: u64,
}

/// A place at which every execution was wasted tells of needless work; one that was useful now and then
/// may have to be there. Both are listed; the counts tell them apart.
pub(crate) fn wasted(records: &[Record], sites: &Sites) -> Vec<Waste> {
    /// What a line's last store and flushes mean for the next flush.
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Dirty,
        /// Flushed, not fenced yet.
        Flushed,
    }
    let mut lines: FxHashMap<Line, State> = FxHashMap::default();
    // Per thread: lines flushed, and whether a non-temporal store waits, since the last fence.
    let mut pending: FxHashMap<u16, FxHashSet<Line>> = FxHashMap::default();
    let mut waiting: FxHashSet<u16> = FxHashSet::default();
    let mut found: BTreeMap<(u32, WasteKind), u64> = BTreeMap::new();
    let mut totals: FxHashMap<u32, u64> = FxHashMap::default();
    for record in records {
        let Some(kind) = record.event_kind() else { continue };
        if kind == Kind::FlushOpt && record.width != 0 {
            // Part of an msync or fsync: the program did not choose the lines.
            if lines.get(&Line::containing(record.address)) == Some(&State::Dirty) {
                lines.insert(Line::containing(record.address), State::Flushed);
                pending.entry(record.thread).or_default().insert(Line::containing(record.address));
                waiting.insert(record.thread);
            }
            continue;
        }
        let line = Line::containing(record.address);
        *totals.entry(record.site).or_default() += 1;
        let mut waste = |kind| *found.entry((record.site, kind)).or_default() += 1;
        match kind {
            Kind::Store | Kind::Rmw => {
                lines.insert(line, State::Dirty);
            }
            Kind::NonTemporalStore => {
                waiting.insert(record.thread);
                pending.entry(record.thread).or_default().insert(line);
                lines.insert(line, State::Flushed);
            }
            Kind::Flush => match lines.remove(&line) {
                Some(State::Dirty) => {}
                Some(State::Flushed) => waste(WasteKind::RepeatedFlush),
                None => waste(WasteKind::CleanFlush),
            },
            Kind::FlushOpt => match lines.insert(line, State::Flushed) {
                Some(State::Dirty) => {
                    pending.entry(record.thread).or_default().insert(line);
                    waiting.insert(record.thread);
                }
                Some(State::Flushed) => waste(WasteKind::RepeatedFlush),
                None => {
                    lines.remove(&line);
                    waste(WasteKind::CleanFlush);
                }
            },
            _ => {}
        }
        if matches!(kind, Kind::StoreFence | Kind::Fence | Kind::Rmw | Kind::FailedRmw) {
            if !waiting.remove(&record.thread) && kind == Kind::StoreFence {
                waste(WasteKind::EmptyFence);
            }
            for line in pending.remove(&record.thread).unwrap_or_default() {
                if lines.get(&line) == Some(&State::Flushed) {
                    lines.remove(&line);
                }
            }
        }
    }
    found
        .into_iter()
        .map(|((site, kind), wasted)| Waste {
            kind,
            place: sites.get(site).clone(),
            wasted,
            total: totals[&site],
        })
        .collect()
}
