//! Redundant flushes and fences of recorded runs: those that persist and order nothing.
//!
//! What an instruction did is px86's to say ([`px86::work`]); here it is counted by place, over all schedules.

use std::collections::BTreeMap;

use crashproof_findings::{Place, is_of_others};
use crashproof_protocol::{Record, record};
use px86::buffer::Entry;
use px86::work::{Observer, Work};
use px86::{Event, Kind, Line, Platform};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::crash::Moments;
use crate::judge::races::Ordered;
use crate::subject::Sites;

/// In which way an instruction was redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RedundantKind {
    /// A flush of a line that was not stored to since it was last written back.
    CleanFlush,
    /// A second flush of a line before any new store to it, the first not yet fenced.
    RepeatedFlush,
    /// A fence with nothing pending.
    EmptyFence,
}

/// A place with redundant instructions.
#[derive(Clone, Debug)]
pub struct Redundant {
    /// In which way.
    pub kind: RedundantKind,
    /// Where.
    pub place: Place,
    /// How often it was redundant.
    pub redundant: u64,
    /// How often it ran.
    pub total: u64,
    /// Is it part of an idiom that costs nothing measurable: an `sfence` after `clflush`?
    pub idiom: bool,
}

/// What other threads write back. In another schedule of the same kind they may do so later, so that makes a flush
/// redundant only if it happened before.
struct OtherThreads<'a> {
    ordered: Ordered<'a>,
    /// Who flushed each line last, and who completed that, and when.
    flushed: FxHashMap<Line, u16>,
    completed: FxHashMap<Line, (u16, u32)>,
    pending: FxHashMap<u16, Vec<Line>>,
    /// Threads whose next fence completes a flush that is not redundant after all.
    needs_fence: FxHashSet<u16>,
}

impl<'a> OtherThreads<'a> {
    fn new(records: &[Record], sites: &'a Sites) -> Option<OtherThreads<'a>> {
        let spawns = records.iter().any(|record| record.kind() == record::SPAWN);
        spawns.then(|| OtherThreads {
            ordered: Ordered::new(sites),
            flushed: FxHashMap::default(),
            completed: FxHashMap::default(),
            pending: FxHashMap::default(),
            needs_fence: FxHashSet::default(),
        })
    }

    /// What an instruction did, whatever other threads did at the same time.
    fn or_useful(&mut self, record: &Record, event: &Event, work: Work) -> Work {
        let thread = record.thread();
        let mut work = work;
        if matches!(event.kind, Kind::Flush | Kind::FlushOpt) {
            let line = Line::containing(event.address);
            let others = match work {
                Work::Clean => {
                    let completed = self.completed.get(&line).copied();
                    completed.is_some_and(|completed| !self.ordered.is_before(completed, thread))
                }
                Work::Repeated => self.flushed.get(&line).is_some_and(|&flushed| flushed != thread),
                Work::Useful | Work::Idle => false,
            };
            if others {
                work = Work::Useful;
                self.needs_fence.insert(thread);
            } else if work != Work::Clean {
                self.flushed.insert(line, thread);
                match event.kind {
                    Kind::Flush => self.complete(line, thread),
                    _ => self.pending.entry(thread).or_default().push(line),
                }
            }
        } else if event.kind.fences() {
            for line in self.pending.remove(&thread).unwrap_or_default() {
                self.complete(line, thread);
            }
            if self.needs_fence.remove(&thread) {
                work = Work::Useful;
            }
        }
        work
    }

    fn complete(&mut self, line: Line, thread: u16) {
        let now = self.ordered.now(thread);
        self.completed.insert(line, (thread, now));
    }
}

/// The redundant work of the runs looked at so far.
///
/// A place at which every execution was redundant is needless; one that was useful now and then may have to be there.
/// Both are listed; the counts tell them apart.
#[derive(Default)]
pub(crate) struct RedundantWork {
    redundant: BTreeMap<(u32, RedundantKind), u64>,
    totals: FxHashMap<u32, u64>,
    /// How often an empty fence came after a `clflush` of its thread, with no other fence between.
    after_flush: FxHashMap<u32, u64>,
}

impl RedundantWork {
    /// Looks at a run. What one schedule has no use for another may need.
    pub(crate) fn look_at(&mut self, records: &[Record], sites: &Sites) {
        let mut others = OtherThreads::new(records, sites);
        // As on machines whose caches do not survive: code that runs on both must flush.
        let mut observer = Observer::new(Platform::ADR);
        let mut moments = Moments::default();
        // Threads that executed a clflush since their last fence.
        let mut flushed: FxHashSet<u16> = FxHashSet::default();
        for (at, record) in records.iter().enumerate() {
            if let Some(event) = record.event() {
                let issued = moments.at(event.value).filter(|_| event.kind == Kind::FlushOpt);
                // Part of an msync or fsync has a width: the program did not choose the lines.
                let chosen = event.kind != Kind::FlushOpt || event.width == 0;
                let issued = issued.unwrap_or(observer.now());
                let work = observer.commit(&Entry { event, issued, tag: 0 });
                let work = match &mut others {
                    Some(others) => work.map(|work| others.or_useful(record, &event, work)),
                    None => work,
                };
                if let Some(work) = work.filter(|_| chosen) {
                    self.count(record.site, event.kind, work);
                    if work == Work::Idle
                        && event.kind == Kind::StoreFence
                        && flushed.contains(&record.thread())
                    {
                        *self.after_flush.entry(record.site).or_default() += 1;
                    }
                }
                match event.kind {
                    Kind::Flush => drop(flushed.insert(record.thread())),
                    kind if kind.fences() => drop(flushed.remove(&record.thread())),
                    _ => {}
                }
            }
            if let Some(others) = &mut others {
                others.ordered.step(record);
            }
            moments.after(at + 1, record, observer.now());
        }
    }

    fn count(&mut self, site: u32, instruction: Kind, work: Work) {
        *self.totals.entry(site).or_default() += 1;
        let kind = match work {
            Work::Clean => RedundantKind::CleanFlush,
            Work::Repeated => RedundantKind::RepeatedFlush,
            // Other fences may be there for what other threads see.
            Work::Idle if instruction == Kind::StoreFence => RedundantKind::EmptyFence,
            Work::Useful | Work::Idle => return,
        };
        *self.redundant.entry((site, kind)).or_default() += 1;
    }

    /// The redundant instructions by place, those that always were first.
    pub(crate) fn into_places(self, sites: &Sites) -> Vec<Redundant> {
        let redundant = |((site, kind), redundant): ((u32, RedundantKind), u64)| Redundant {
            kind,
            place: sites.get(site).clone(),
            redundant,
            total: self.totals[&site],
            idiom: kind == RedundantKind::EmptyFence && self.after_flush.get(&site) == Some(&redundant),
        };
        let mut all: Vec<Redundant> = self.redundant.into_iter().map(redundant).collect();
        // Nobody changes a library of the distribution for it.
        all.retain(|found| found.place.is_known() || !is_of_others(&found.place.file));
        all.sort_by_key(|redundant| redundant.redundant < redundant.total);
        all
    }
}
