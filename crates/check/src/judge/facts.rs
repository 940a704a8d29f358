//! The facts of a finding as data: the lost stores, the survivor, the crash, what recovery read.
//!
//! `narrate` puts them into words when everything is known, including call stacks.

use std::collections::BTreeMap;

use px86::storage::CachedStore;
use px86::{Kind, Line};
use rustc_hash::FxHashSet;

use crashproof_protocol::Record;

use crate::crash::{ChosenCrash, Content, CrashState, Read, Revealed, Timeline, agree, group, value};
use crate::judge::access::Access;
use crate::judge::cause::Cause;
use crate::judge::robustness::TraceViolation;
use crate::search::Recovered;

/// The most accesses of one role to keep; all of them are counted.
const MOST: usize = 32;
/// The most records after the crash searched for what had not been stored yet.
const MOST_SEARCHED: usize = 200_000;

/// One crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) level: usize,
    /// The number of records that had taken effect.
    pub(crate) at: usize,
    /// The site of the next record, or of the last one.
    pub(crate) site: u32,
    /// Was it at the end of the run?
    pub(crate) at_end: bool,
}

/// A read by recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadFact {
    pub(crate) site: u32,
    /// Its number among recovery's reads of pre-crash content.
    pub(crate) number: usize,
    pub(crate) address: u64,
    pub(crate) width: u8,
    pub(crate) value: u64,
    /// The values it could also have read.
    pub(crate) others: Vec<u64>,
    /// The stores it may have read from, if there are several; pre-run content is not listed.
    pub(crate) candidates: Vec<Access>,
    /// Does it involve what was lost, or what had not been stored yet?
    pub(crate) notices: bool,
}

/// The facts of a finding.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The stores that were lost, oldest first.
    pub(crate) lost: Vec<Access>,
    /// How many more were lost.
    pub(crate) lost_more: usize,
    /// How many stores were lost in total.
    pub(crate) lost_stores: usize,
    /// Is the first of them ever flushed, possibly after the crash?
    pub(crate) flushed: bool,
    /// The store that survived, or the last one before the crash if nothing is lost.
    pub(crate) survived: Option<Access>,
    /// The sites whose stores survived on the lines that matter, by execution.
    pub(crate) kept: FxHashSet<(usize, u32)>,
    /// If nothing is lost: the first later store to what recovery read.
    pub(crate) not_yet: Option<Access>,
    pub(crate) crashes: Vec<Crash>,
    /// The crashes in the form a replay needs.
    pub(crate) chosen: Vec<ChosenCrash>,
    pub(crate) reads: Vec<ReadFact>,
    pub(crate) cause: Cause,
}

impl Facts {
    /// What was lost and what survived; with `violation`, from the perspective of that missing flush.
    /// [`Facts::complete`] adds the rest.
    pub(crate) fn of(recovered: &Recovered, violation: Option<&TraceViolation>) -> Facts {
        let Recovered { state, revealed, .. } = *recovered;
        let mut facts = Facts::default();
        let read = ReadBytes::of(recovered.reads);
        let mut lost: Vec<Access> = Vec::new();
        let mut survived: Option<Access> = None;
        for (level, timeline) in state.timelines().enumerate() {
            let seen = state.revealed(level, revealed);
            let (gone, last, kept) = fate(level, seen, timeline, &read, &mut facts.kept);
            lost.extend(gone);
            survived = last.or(survived);
            let (site, at_end) = timeline.next_site();
            facts.crashes.push(Crash { level, at: timeline.at, site, at_end });
            facts.chosen.push(ChosenCrash { at: timeline.at, kept });
        }
        facts.lost_stores = lost.len();
        match violation {
            Some(met) => {
                let records = state.records(met.level);
                let access =
                    |store: u32| Access::of_record(met.level, store as usize, &records[store as usize]);
                // What the missing flush would have saved comes first; the rest is lost, too.
                let mut own: Vec<Access> = met.lost.iter().map(|store| access(*store)).collect();
                lost.retain(|it| !own.iter().any(|one| (one.level, one.index) == (it.level, it.index)));
                // All lost parts of a copy within the line, not only its first bytes.
                let copy = |it: &Access| (it.level, it.site, Line::containing(it.address));
                let first = own.first().map(copy);
                let (more, others): (Vec<Access>, Vec<Access>) =
                    lost.into_iter().partition(|it| Some(copy(it)) == first);
                lost = others;
                own.extend(more);
                own.sort_by_key(|it| it.index);
                facts.lost = joined(own);
                facts.lost_more = joined(lost).len();
                facts.survived = Some(access(met.survived));
            }
            None => {
                // Lost stores that are not read are irrelevant, unless none of the lost stores is read.
                let is_read = |it: &Access| read.meets(it.address, it.bytes);
                let (own, others): (Vec<Access>, Vec<Access>) = joined(lost).into_iter().partition(is_read);
                (facts.lost, facts.lost_more) =
                    if own.is_empty() { (others, 0) } else { (own, others.len()) };
                facts.survived = survived;
            }
        }
        let more = facts.lost.len().saturating_sub(MOST);
        facts.lost_more += more;
        facts.lost.truncate(MOST);
        if facts.lost.is_empty() {
            facts.survived = facts.last_store(state, &read);
        }
        facts
    }

    /// The last store before the crash, preferably to something that recovery read.
    fn last_store(&self, state: &CrashState, read: &ReadBytes) -> Option<Access> {
        let crash = self.crashes.last()?;
        let records = state.records(crash.level);
        let before = records[..crash.at.min(records.len())].iter().enumerate().rev().take(MOST_SEARCHED);
        let before: Vec<_> = before.filter(|(_, record)| is_store(record)).take(64).collect();
        let last = before.iter().find(|(_, record)| read.meets_record(record)).or(before.first())?;
        Some(Access::of_record(crash.level, last.0, last.1))
    }

    /// The first store after the crash to something that recovery read.
    pub(crate) fn next_store(&self, state: &CrashState, reads: &[Read]) -> Option<Access> {
        let crash = self.crashes.last()?;
        let records = state.records(crash.level);
        let read = ReadBytes::of(reads);
        let after = records.iter().enumerate().skip(crash.at).take(MOST_SEARCHED);
        let mut after = after.filter(|(_, record)| is_store(record) && read.meets_record(record));
        after.next().map(|(index, record)| Access::of_record(crash.level, index, record))
    }

    /// Is the only lost store one of a later value to what the survivor wrote, with nothing after it that recovery read?
    /// Then memory is as a crash between the two leaves it, and nothing needs to be lost for that.
    pub(crate) fn is_between_values(&self, state: &CrashState, reads: &[Read]) -> bool {
        let (Some(survived), [lost]) = (&self.survived, &self.lost[..]) else { return false };
        let Some(crash) = self.crashes.last().filter(|crash| crash.level == lost.level) else { return false };
        let same = |access: &Access| (access.level, access.thread, access.address, access.bytes);
        if self.lost_more > 0 || same(lost) != same(survived) || lost.index < survived.index {
            return false;
        }
        let records = state.records(lost.level);
        let read = ReadBytes::of(reads);
        let mut after = records[..crash.at.min(records.len())].iter().skip(lost.index + 1);
        !after.any(|record| is_store(record) && read.meets_record(record))
    }

    /// Tells the same state as that of a crash before the lost store, at which nothing is lost.
    pub(crate) fn crash_before_lost(&mut self) {
        self.not_yet = self.lost.pop();
        self.lost_stores = 0;
        if let (Some(crash), Some(next)) = (self.crashes.last_mut(), &self.not_yet) {
            (crash.at, crash.site, crash.at_end) = (next.index, next.site, false);
        }
    }

    /// Facts that only mark these events of the recorded run as relevant.
    pub(crate) fn about_events(events: &[usize]) -> Facts {
        let lost = events.iter().map(|index| Access { index: *index, ..Access::default() }).collect();
        Facts { lost, ..Facts::default() }
    }

    /// The named events of the recorded run, by index.
    pub(crate) fn events(&self) -> Vec<u64> {
        let accesses = self.lost.iter().chain(&self.survived).chain(&self.not_yet);
        let stores = accesses.filter(|it| it.level == 0).map(|it| it.index);
        let crashes = self.crashes.iter().filter(|it| it.level == 0).map(|it| it.at);
        let flushes = self.cause.flushes().filter(|it| it.level == 0).map(|it| it.index);
        stores.chain(crashes).chain(flushes).map(|index| index as u64).collect()
    }

    /// The store or crash under which a finding is filed: its execution and site. For a crash without any store before
    /// it, that is only its location.
    pub(crate) fn key(&self) -> (usize, u32) {
        let first = self.lost.first().or(self.survived.as_ref());
        let crash = || self.crashes.last().map_or((0, 0), |crash| (crash.level, crash.site));
        first.map_or_else(crash, |access| (access.level, access.site))
    }
}

fn is_store(record: &Record) -> bool {
    record.event_kind().is_some_and(Kind::stores)
}

/// The bytes that recovery read, indexed because there may be many reads, and many queries.
struct ReadBytes<'a> {
    reads: &'a [Read],
    words: FxHashSet<u64>,
}

/// The words that a range overlaps.
fn words(address: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
    address / 8..=(address + bytes.max(1) - 1) / 8
}

impl ReadBytes<'_> {
    fn of(reads: &[Read]) -> ReadBytes<'_> {
        ReadBytes { reads, words: reads.iter().flat_map(|it| words(it.address, it.width.into())).collect() }
    }

    /// Did recovery read a byte of the range?
    fn meets(&self, address: u64, bytes: u64) -> bool {
        let meets = |it: &Read| it.address < address + bytes && address < it.address + u64::from(it.width);
        words(address, bytes).any(|word| self.words.contains(&word)) && self.reads.iter().any(meets)
    }

    fn meets_record(&self, record: &Record) -> bool {
        self.meets(record.address(), record.width().into())
    }
}

/// Merges stores of one instruction to consecutive bytes into one access.
fn joined(accesses: Vec<Access>) -> Vec<Access> {
    let mut all: Vec<Access> = Vec::new();
    for access in accesses {
        if !all.last_mut().is_some_and(|last| last.continued_by(&access)) {
            all.push(access);
        }
    }
    all
}

/// The lost stores of an execution, oldest first, the last one that survived, and how much of each line did. Survivors
/// that were not read are irrelevant: a later store to the same line may belong to something else.
fn fate(
    level: usize,
    revealed: &Revealed,
    timeline: &Timeline,
    read: &ReadBytes,
    sites: &mut FxHashSet<(usize, u32)>,
) -> (Vec<Access>, Option<Access>, Vec<(u64, usize)>) {
    let (mut lost, mut survived, mut partly) = (Vec::new(), Vec::new(), Vec::new());
    for (&line, contents) in revealed {
        let stores = timeline.stores(line);
        let mut contents = contents.clone();
        agree(&mut contents, line, &timeline.together(line), revealed);
        let kept = (Content::most_kept(&contents).kept[level] as usize).min(stores.len());
        survived.extend_from_slice(&stores[..kept]);
        lost.extend_from_slice(&stores[kept..]);
        if kept < stores.len() {
            partly.push((timeline.unit(line).0, kept));
        }
    }
    lost.sort_by_key(|store| store.at);
    lost.dedup_by_key(|store| store.at);
    partly.sort_unstable();
    partly.dedup();
    survived.sort_by_key(|store| std::cmp::Reverse(store.at));
    sites.extend(survived.iter().take(MOST).map(|store| (level, store.event.site.0)));
    let was_read = |store: &&CachedStore| read.meets(store.event.address, store.event.width.into());
    let last = survived.iter().find(was_read).or(survived.first());
    let last = last.map(|store| Access::of_store(level, store));
    (lost.iter().map(|store| Access::of_store(level, store)).collect(), last, partly)
}

/// Recovery's reads that could have had other values, its reads of the stores that matter, and its last reads (Jaaru's
/// debugging support).
pub(crate) fn reads(recovered: &Recovered, facts: &Facts) -> Vec<ReadFact> {
    let Recovered { state, reads, .. } = *recovered;
    // What the reads so far reveal about each line.
    let mut narrowed = Revealed::default();
    let mut all = Vec::new();
    for (number, read) in reads.iter().enumerate() {
        let line = Line::containing(read.address);
        let mut groups = Vec::new();
        let matters = facts.lost.iter().chain(&facts.not_yet);
        let notices = matters.into_iter().any(|it| it.meets(read.address, u64::from(read.width)));
        if recovered.revealed.contains_key(&line) {
            let contents =
                narrowed.entry(line).or_insert_with(|| state.contents(line, (recovered.certain)(line)));
            groups = group(contents, read.address, read.width);
            contents.retain(|content| value(&content.bytes, read.address, read.width) == read.value);
        } else if number + 1 < reads.len() && !notices {
            continue;
        }
        let open = groups.len() > 1;
        let candidates = if open { candidates(state, read, &groups) } else { Vec::new() };
        let others = groups.iter().map(|other| other.0).filter(|other| *other != read.value).collect();
        let Read { site, address, width, value, .. } = *read;
        all.push(ReadFact { site, number, address, width, value, others, candidates, notices });
    }
    all
}

/// The stores from which a load may have read (Jaaru's debugging support).
fn candidates(state: &CrashState, read: &Read, groups: &[(u64, Vec<Content>)]) -> Vec<Access> {
    let line = Line::containing(read.address);
    let meets = |store: &CachedStore| {
        let event = &store.event;
        event.address < read.address + u64::from(read.width)
            && read.address < event.address + u64::from(event.width)
    };
    let mut stores: BTreeMap<(usize, u64), CachedStore> = BTreeMap::new();
    for content in groups.iter().flat_map(|(_, contents)| contents) {
        // The last surviving store, of the last execution that has one.
        let executions: Vec<_> = state.timelines().enumerate().collect();
        for (level, timeline) in executions.into_iter().rev() {
            let open = timeline.stores(line);
            let kept = (content.kept[level] as usize).min(open.len());
            let certain = level.checked_sub(1).and_then(|later| state.later[later].persisted.get(&line));
            let certain = certain.map_or(&[][..], Vec::as_slice);
            if let Some(store) = open[..kept].iter().rev().chain(certain.iter().rev()).find(|it| meets(it)) {
                stores.insert((level, store.at), *store);
                break;
            }
        }
    }
    stores.iter().map(|((level, _), store)| Access::of_store(*level, store)).collect()
}
