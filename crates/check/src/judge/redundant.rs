//! Redundant flushes and fences of recorded runs: those that persist and order nothing.
//!
//! px86 determines what an instruction did ([`px86::work`]); this module counts it by place, over all schedules.

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

/// Why an instruction was redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RedundantKind {
    /// A flush of a line that has not been stored to since its last write-back.
    CleanFlush,
    /// A second flush of a line with no new store to it, the first not fenced yet.
    RepeatedFlush,
    /// A fence with nothing pending.
    EmptyFence,
}

/// A place with redundant instructions.
#[derive(Clone, Debug)]
pub struct Redundant {
    /// Why they are redundant.
    pub kind: RedundantKind,
    /// Their place in the source.
    pub place: Place,
    /// How often they were redundant.
    pub redundant: u64,
    /// How often they ran.
    pub total: u64,
    /// Is it part of an idiom without measurable cost: an `sfence` after `clflush`?
    pub idiom: bool,
}

/// Write-backs by other threads. In an equivalent schedule these may come later, so they make a flush redundant only if
/// they happened before it.
struct OtherThreads<'a> {
    ordered: Ordered<'a>,
    /// The thread that flushed each line last, the thread that completed that, and when.
    flushed: FxHashMap<Line, u16>,
    completed: FxHashMap<Line, (u16, u32)>,
    pending: FxHashMap<u16, Vec<Line>>,
    /// Threads whose next fence completes a flush that turned out to be useful.
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

    /// The work of an instruction regardless of what other threads did concurrently.
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

/// The redundant work of the runs examined so far.
///
/// A place that was redundant in every execution is unnecessary; one that was useful at times may be needed. Both are
/// listed; the counts tell them apart.
#[derive(Default)]
pub(crate) struct RedundantWork {
    redundant: BTreeMap<(u32, RedundantKind), u64>,
    totals: FxHashMap<u32, u64>,
    /// How often an empty fence followed a `clflush` of its thread without another fence in between.
    after_flush: FxHashMap<u32, u64>,
    runs: usize,
    /// The flushes and fences of the first run: place in the trace, and what was redundant. `None` if there are too
    /// many.
    events: Vec<Executed>,
    too_many: bool,
}

/// A flush or fence of a run.
#[derive(Clone, Copy, Debug)]
struct Executed {
    index: usize,
    site: u32,
    kind: Option<RedundantKind>,
    idiom: bool,
}

/// The most flushes and fences whose callers are requested.
const MOST_EVENTS: usize = crashproof_protocol::MAX_STACKS;

impl RedundantWork {
    /// Examines a run. What is useless in one schedule may be needed in another.
    pub(crate) fn look_at(&mut self, records: &[Record], sites: &Sites) {
        let mut others = OtherThreads::new(records, sites);
        // As on machines without persistent caches: portable code must flush.
        let mut observer = Observer::new(Platform::ADR);
        let mut moments = Moments::default();
        // Requested flushes of a whole range have a width: the program did not choose the lines.
        let mut flushed: FxHashSet<u16> = FxHashSet::default();
        self.runs += 1;
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
                    let kind = self.count(record.site, event.kind, work);
                    let idiom = work == Work::Idle
                        && event.kind == Kind::StoreFence
                        && flushed.contains(&record.thread());
                    if idiom {
                        *self.after_flush.entry(record.site).or_default() += 1;
                    }
                    self.too_many |= self.events.len() == MOST_EVENTS;
                    if self.runs == 1 && !self.too_many {
                        self.events.push(Executed { index: at, site: record.site, kind, idiom });
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

    fn count(&mut self, site: u32, instruction: Kind, work: Work) -> Option<RedundantKind> {
        *self.totals.entry(site).or_default() += 1;
        let kind = match work {
            Work::Clean => RedundantKind::CleanFlush,
            Work::Repeated => RedundantKind::RepeatedFlush,
            // Other fences may exist for what other threads see.
            Work::Idle if instruction == Kind::StoreFence => RedundantKind::EmptyFence,
            Work::Useful | Work::Idle => return None,
        };
        *self.redundant.entry((site, kind)).or_default() += 1;
        Some(kind)
    }

    /// The flushes and fences whose callers [`RedundantWork::into_places`] needs: those in helpers that are useful to
    /// only some of their callers.
    pub(crate) fn wanted(&self, sites: &Sites) -> Vec<usize> {
        if self.runs != 1 || self.too_many {
            return Vec::new();
        }
        let now_and_then: FxHashSet<u32> = self
            .redundant
            .iter()
            .filter(|((site, _), redundant)| **redundant < self.totals[site] && sites.is_in_helper(*site))
            .map(|((site, _), _)| *site)
            .collect();
        let wanted = self.events.iter().filter(|event| now_and_then.contains(&event.site));
        wanted.map(|event| event.index).collect()
    }

    /// Counts helpers' work by caller; `place` gives a caller's place.
    fn by_caller(&mut self, place: &dyn Fn(usize, u32) -> Option<Place>) -> Vec<Redundant> {
        type Counts = (BTreeMap<RedundantKind, (u64, bool)>, u64, Place);
        let mut callers: BTreeMap<(u32, String, u32, u32), Counts> = BTreeMap::new();
        let mut known: FxHashMap<u32, bool> = FxHashMap::default();
        for event in &self.events {
            let Some(at) = place(event.index, event.site) else {
                known.insert(event.site, false);
                continue;
            };
            known.entry(event.site).or_insert(true);
            let key = (event.site, at.file.clone(), at.line, at.column);
            let (kinds, total, _) = callers.entry(key).or_insert_with(|| (BTreeMap::new(), 0, at));
            *total += 1;
            if let Some(kind) = event.kind {
                let (redundant, idiom) = kinds.entry(kind).or_insert((0, true));
                *redundant += 1;
                *idiom &= event.idiom;
            }
        }
        let mut all = Vec::new();
        for ((site, ..), (kinds, total, place)) in callers {
            if known.get(&site) != Some(&true) {
                continue;
            }
            self.redundant.retain(|(other, _), _| *other != site);
            all.extend(kinds.into_iter().map(|(kind, (redundant, idiom))| Redundant {
                kind,
                place: place.clone(),
                redundant,
                total,
                idiom: kind == RedundantKind::EmptyFence && idiom,
            }));
        }
        all
    }

    /// The redundant instructions by place, always redundant ones first; `place` gives the caller of a helper, if
    /// known.
    pub(crate) fn into_places(
        mut self,
        sites: &Sites,
        place: &dyn Fn(usize, u32) -> Option<Place>,
    ) -> Vec<Redundant> {
        let of_callers = self.by_caller(place);
        let redundant = |((site, kind), redundant): ((u32, RedundantKind), u64)| Redundant {
            kind,
            place: sites.get(site).clone(),
            redundant,
            total: self.totals[&site],
            idiom: kind == RedundantKind::EmptyFence && self.after_flush.get(&site) == Some(&redundant),
        };
        let mut all: Vec<Redundant> = self.redundant.into_iter().map(redundant).collect();
        all.extend(of_callers);
        // No one would change a distribution's library for it.
        all.retain(|found| found.place.is_known() || !is_of_others(&found.place.file));
        all.sort_by_key(|redundant| redundant.redundant < redundant.total);
        all
    }
}
