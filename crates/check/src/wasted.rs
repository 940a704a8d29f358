//! Flushes and fences of a recorded run that did nothing.

use std::collections::BTreeMap;

use crashproof_protocol::Record;
use px86::buffer::Entry;
use px86::work::{Observer, Work};
use px86::{Kind, Platform};
use rustc_hash::FxHashMap;

use crate::sites::{Sites, Source};
use crate::timeline::Moments;

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
    // As on machines whose caches do not survive: code that runs on both must flush.
    let mut observer = Observer::new(Platform::Adr);
    let mut moments = Moments::default();
    let mut found: BTreeMap<(u32, WasteKind), u64> = BTreeMap::new();
    let mut totals: FxHashMap<u32, u64> = FxHashMap::default();
    for (at, record) in records.iter().enumerate() {
        if let Some(event) = record.event() {
            let issued = moments.at(event.value).filter(|_| event.kind == Kind::FlushOpt);
            // Part of an msync or fsync has a width: the program did not choose the lines.
            let chosen = event.kind != Kind::FlushOpt || event.width == 0;
            let issued = issued.unwrap_or(observer.now());
            let work = observer.commit(&Entry { event, issued, tag: 0 });
            *totals.entry(record.site).or_default() += u64::from(chosen);
            let waste = match work {
                _ if !chosen => None,
                Some(Work::Clean) => Some(WasteKind::CleanFlush),
                Some(Work::Repeated) => Some(WasteKind::RepeatedFlush),
                // Other fences may be there for what other threads see.
                Some(Work::Idle) if event.kind == Kind::StoreFence => Some(WasteKind::EmptyFence),
                Some(Work::Useful | Work::Idle) | None => None,
            };
            if let Some(kind) = waste {
                *found.entry((record.site, kind)).or_default() += 1;
            }
        }
        moments.after(at + 1, record, observer.now());
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
