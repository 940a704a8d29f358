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

/// What was wasted in the runs looked at so far.
///
/// A place at which every execution was wasted tells of needless work; one that was useful now and then may have to
/// be there. Both are listed; the counts tell them apart.
#[derive(Default)]
pub(crate) struct Wasted {
    found: BTreeMap<(u32, WasteKind), u64>,
    totals: FxHashMap<u32, u64>,
}

impl Wasted {
    /// Looks at a run. What one schedule has no use for another may need.
    pub(crate) fn look_at(&mut self, records: &[Record]) {
        // As on machines whose caches do not survive: code that runs on both must flush.
        let mut observer = Observer::new(Platform::ADR);
        let mut moments = Moments::default();
        for (at, record) in records.iter().enumerate() {
            if let Some(event) = record.event() {
                let issued = moments.at(event.value).filter(|_| event.kind == Kind::FlushOpt);
                // Part of an msync or fsync has a width: the program did not choose the lines.
                let chosen = event.kind != Kind::FlushOpt || event.width == 0;
                let issued = issued.unwrap_or(observer.now());
                let work = observer.commit(&Entry { event, issued, tag: 0 });
                if let Some(work) = work.filter(|_| chosen) {
                    self.count(record.site, event.kind, work);
                }
            }
            moments.after(at + 1, record, observer.now());
        }
    }

    fn count(&mut self, site: u32, kind: Kind, work: Work) {
        *self.totals.entry(site).or_default() += 1;
        let waste = match work {
            Work::Clean => WasteKind::CleanFlush,
            Work::Repeated => WasteKind::RepeatedFlush,
            // Other fences may be there for what other threads see.
            Work::Idle if kind == Kind::StoreFence => WasteKind::EmptyFence,
            Work::Useful | Work::Idle => return,
        };
        *self.found.entry((site, waste)).or_default() += 1;
    }

    /// What was wasted where.
    pub(crate) fn told(self, sites: &Sites) -> Vec<Waste> {
        let waste = |((site, kind), wasted): ((u32, WasteKind), u64)| Waste {
            kind,
            place: sites.get(site).clone(),
            wasted,
            total: self.totals[&site],
        };
        let mut all: Vec<Waste> = self.found.into_iter().map(waste).collect();
        all.sort_by_key(|waste| waste.wasted < waste.total);
        all
    }
}
