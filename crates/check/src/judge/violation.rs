//! Missing flushes: robustness violations with their places in the source, and where the flush belongs (PSan, section
//! 5.2).

use crashproof_findings::Place;
use crashproof_findings::story::Story;
use crashproof_protocol::{Record, record, sync};
use px86::{Kind, Line};

use crate::crash::{CrashState, History};
use crate::judge::access::Access;
use crate::judge::facts::Facts;
use crate::judge::robustness::TraceViolation;
use crate::judge::words::Words;
use crate::subject::{AllSites, Schedule, Sites};

/// How the loads of recovery reveal it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saw {
    /// The last load read a store that is too old (Figure 11).
    TooOld,
    /// The last load read a store that is too new (Figure 12).
    TooNew,
}

/// What the program does about the lost store's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Nothing.
    Never,
    /// The line is flushed in time, but not fenced before the other store.
    Unfenced(Place),
    /// The line is flushed, but only after the other store.
    Late(Place),
}

/// Where a thread can flush the lost store so that it persists before the survivor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The thread.
    pub thread: u16,
    /// Is it the thread that made the lost store?
    pub primary: bool,
    /// After this: the lost store, or the load through which this thread saw it.
    pub after: Place,
    /// Before this store.
    pub before: Place,
    /// Is `after` an access to the lost store's line?
    pub same_line: bool,
}

/// A store was lost although it happened before one that survived: a flush is missing.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The lost store; the first of them if several stores to one line were lost.
    pub place: Place,
    /// The last store to that line before the survivor: a flush after it saves them all. Violations are distinguished
    /// by this place.
    pub last: Place,
    /// The address of the first lost store.
    pub address: u64,
    /// Its size in bytes.
    pub width: u8,
    /// The address of the survivor.
    pub survivor_address: u64,
    /// The survivor.
    pub survived: Place,
    /// How recovery revealed it.
    pub saw: Saw,
    /// Are all values that recovery read those it would have read if nothing had been lost? Then it has no consequences
    /// as long as the program stores the same values.
    pub same_value: bool,
    /// Did a recovery that read it fail? Then another finding reports the failure.
    pub failed: bool,
    /// What the program does about the lost store's line.
    pub flushed: Flushed,
    /// The flush windows, preferred one first. That is the window of the lost store's own thread unless it is empty
    /// (Figure 7): then a thread that read the store must flush it.
    pub windows: Vec<Window>,
    /// The layout that would make the flush unnecessary, if known.
    pub layout: Option<String>,
    /// What happened, event by event.
    pub story: Option<Story>,
    /// The stores, loads and crashes that are part of it.
    pub(crate) facts: Facts,
    /// Its description; set when everything is known.
    pub(crate) words: Words,
    /// How often it was met.
    pub count: u64,
    /// How often recovery left the same state as if nothing had been torn.
    pub coped_with: u64,
    /// How many consecutive crashes it takes.
    pub crashes: usize,
    /// The schedule under which it was met.
    pub seed: u32,
    pub(crate) schedule: Schedule,
}

impl Violation {
    /// Is it without consequences: do all values read stay the same, or did every recovery that met it cope?
    pub fn is_harmless(&self) -> bool {
        self.same_value || !self.failed && self.count == self.coped_with
    }
}

/// Of several ways to meet one violation, the smallest is reported.
pub(crate) type Rank = (bool, usize, u32, std::cmp::Reverse<usize>, usize);

impl TraceViolation {
    pub(crate) fn rank(&self, state: &CrashState, seed: u32) -> Rank {
        let lost = std::cmp::Reverse(self.lost.len());
        (self.same_value, state.crashes(), seed, lost, state.first.at)
    }

    /// The execution and the site of one of its stores.
    pub(crate) fn site(&self, state: &CrashState, store: u32) -> (usize, u32) {
        (self.level, state.history(self.level).records[store as usize].site)
    }

    /// Adds its places in the source; the description is added later.
    pub(crate) fn locate(&self, sites: &AllSites, state: &CrashState, seed: u32) -> Violation {
        let history = state.history(self.level);
        let record = |store: u32| &history.records[store as usize];
        let stored = sites.of(self.level);
        let place = |store: u32| stored.get(record(store).site).clone();
        let (mut windows, primary_end) = windows(history, stored, self.flush_after, self.survived);
        windows.sort_by_key(|window| !window.primary);
        let first = record(self.lost[0]);
        Violation {
            place: place(self.lost[0]),
            last: place(self.flush_after),
            address: first.address(),
            width: first.width(),
            survivor_address: record(self.survived).address(),
            survived: place(self.survived),
            saw: if self.too_old { Saw::TooOld } else { Saw::TooNew },
            same_value: self.same_value,
            failed: false,
            flushed: flushed(history, stored, self.flush_after, primary_end),
            windows,
            layout: None,
            story: None,
            facts: Facts::default(),
            words: Words::default(),
            count: 1,
            coped_with: 0,
            crashes: state.crashes(),
            seed,
            schedule: Schedule::default(),
        }
    }
}

/// For every thread, what it issued between the lost store and the survivor; and the store at which the window of the
/// lost store's own thread ends, if it is not empty.
fn windows(history: &History, sites: &Sites, lost: u32, survived: u32) -> (Vec<Window>, Option<u32>) {
    let (earlier, later) = (history.issued(lost), history.issued(survived));
    let threads = history.order.threads().max(earlier.thread + 1).max(later.thread + 1);
    let mut windows = Vec::new();
    let mut primary_end = None;
    for thread in 0..threads {
        let Some(from) = history.order.first_after(thread, earlier) else { continue };
        let until = history.order.last_before(thread, later);
        // The last action of the thread that must come after the flush: a store, or the action through which another
        // thread learned of it, such as releasing a lock.
        let ends = |at: u32| {
            let record = &history.records[at as usize];
            let issued = history.issued(at).at;
            let stores = record.event_kind().is_some_and(Kind::stores) && (from..until).contains(&issued);
            let publishes = record.kind() == record::SYNC && record.value & sync::CHANGED != 0;
            record.thread() == thread && (stores || publishes && (from..=until).contains(&at))
        };
        let range = from..(survived + 1).max(until + 1).min(history.records.len() as u32);
        let Some(before) = range.filter(|at| ends(*at)).max_by_key(|at| history.issued(*at).at) else {
            continue;
        };
        let primary = thread == earlier.thread;
        if primary {
            primary_end = Some(before);
        }
        let place = |record: &Record| sites.get(record.site).clone();
        // How the thread learned of it; its creation has no place of its own.
        let mut later = history.records[from as usize..].iter();
        let mut learned = || later.find(|record| record.thread() == thread && record.site != 0);
        let lost = &history.records[lost as usize];
        let after = if primary { Some(lost) } else { learned() };
        let same_line =
            after.is_some_and(|after| Line::containing(after.address()) == Line::containing(lost.address()));
        let after = after.map(place).unwrap_or_default();
        // A lock has no place of its own.
        let before = Some(&history.records[before as usize]).filter(|record| record.site != 0);
        let before = place(before.unwrap_or(&history.records[survived as usize]));
        windows.push(Window { thread, primary, after, before, same_line });
    }
    (windows, primary_end)
}

/// Whether the lost store's line is flushed after it, before the end of its thread's window or later.
fn flushed(history: &History, sites: &Sites, lost: u32, end: Option<u32>) -> Flushed {
    let line = Line::containing(history.records[lost as usize].address());
    let flush = history.records[lost as usize..].iter().enumerate().find(|(_, record)| {
        matches!(record.event_kind(), Some(Kind::Flush | Kind::FlushOpt))
            && Line::containing(record.address()) == line
    });
    match flush {
        None => Flushed::Never,
        Some((after, record)) => {
            let place = sites.get(record.site).clone();
            let (flush, store) = (lost as usize + after, &history.records[lost as usize]);
            let store = Access::of_record(0, lost as usize, store);
            match end.map(|end| end as usize) {
                Some(end) if flush < end => Flushed::Unfenced(place),
                Some(end) if store.is_overwritten(history.records, end..flush) => Flushed::Never,
                _ => Flushed::Late(place),
            }
        }
    }
}
