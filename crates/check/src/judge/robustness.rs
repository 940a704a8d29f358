//! Could a machine without caches have left what recovery read? (PSan, sections 4 and 5.)
//!
//! Whenever a recovery ends, run or reused, its reads are examined: every store that a read may have come from, and
//! every store that it would have come from had that persisted. A store of the second kind that happened before one of
//! the first, on another line, is a violation: what survives of two lines is independent, so some crash leads to both
//! reads. The *values* read do not matter; stores with equal values are distinguished here, although the search does
//! not distinguish them.
//!
//! This costs next to nothing if nothing is wrong: a violation requires a store that may be lost and whose read was
//! stale, and a younger store that persisted.
//!
//! Not considered: stores still in a buffer at the crash. They are lost, too, but a later crash of the same run, once
//! they have reached the cache, shows the same violation.

use crashproof_protocol::{FACTS, Record};
use px86::LINE_BYTES;
use px86::Line;
use px86::storage::CachedStore;
use rustc_hash::{FxHashMap, FxHashSet};

use px86::robust::{Candidate, Survivors};

use crate::crash::{CrashState, MAX_CRASHES, Read, Revealed, apply, bits, group};
use crate::search::Recovered;
use crate::subject::{AllSites, Bytes, NameVersions};

/// A robustness violation, its stores by their positions in the trace.
#[derive(Clone, Debug)]
pub(crate) struct TraceViolation {
    /// The execution that made the stores: the number of crashes before it.
    pub(crate) level: usize,
    /// Stores to one line that a single flush would have saved, oldest first, by their places in the trace.
    pub(crate) lost: Vec<u32>,
    /// The last store to the line, in the same function as the last of them, that must persist before the survivor: a
    /// flush after it saves them all.
    pub(crate) flush_after: u32,
    /// The store that survived although the lost ones happened before it.
    pub(crate) survived: u32,
    /// The loads that reveal it, in order.
    pub(crate) reads: [Read; 2],
    /// Was the lost store missed after the survivor had been seen (section 5.2, Figure 11), rather than before (Figure
    /// 12)?
    pub(crate) too_old: bool,
    /// The number of reads before the last of the two.
    pub(crate) seen_at: usize,
    /// Would the loads have read the same values if nothing had been lost?
    pub(crate) same_value: bool,
}

/// A possible survival of a line: for each execution that crashed, how many of its open stores survived.
type Survival = [u32; MAX_CRASHES];

/// A line that may lose stores, with its open stores by execution.
struct OpenLine {
    stores: Vec<Vec<CachedStore>>,
    survivals: Vec<Survival>,
}

/// A store that a read would have come from had it persisted.
struct Loss {
    level: usize,
    store: CachedStore,
    line: Line,
    /// The read, by number.
    read: usize,
}

struct Judge<'a> {
    recovered: &'a Recovered<'a>,
    sites: &'a AllSites,
    names: &'a NameVersions,
    state: &'a CrashState<'a>,
    /// What was read after each crash, with the number of crashes before it.
    reads: Vec<(usize, Read)>,
    lines: FxHashMap<Line, OpenLine>,
}

/// All violations that recovery's reads show, or could show.
pub(crate) fn violations(
    recovered: &Recovered,
    sites: &AllSites,
    names: &NameVersions,
) -> Vec<TraceViolation> {
    let state = recovered.state;
    if state.is_obviously_robust() {
        return Vec::new();
    }
    let earlier = state.later.iter().enumerate();
    let mut all: Vec<(usize, Read)> =
        earlier.flat_map(|(index, later)| later.reads.iter().map(move |read| (index + 1, *read))).collect();
    if !recovered.reads.iter().chain(all.iter().map(|(_, read)| read)).any(|read| read.open) {
        return Vec::new();
    }
    let counts = |index: usize| recovered.outcome.ignored.binary_search(&(index as u32)).is_err();
    let numbered = recovered.reads.iter().enumerate().filter(|(index, _)| counts(*index));
    all.extend(numbered.map(|(_, read)| (state.crashes(), *read)));
    Judge { recovered, sites, names, state, reads: all, lines: FxHashMap::default() }.judge()
}

/// Calls `judge` for each value that a read of this recovery could also have had, so that all of them are examined
/// although only one path was followed. Reads protected by a checksum (`checksummed`, by number) are left out.
pub(crate) fn with_other_reads(
    recovered: &Recovered,
    checksummed: &[u32],
    mut judge: impl FnMut(&Recovered),
) {
    let ignored = &recovered.outcome.ignored;
    let mut revealed = Revealed::default();
    for (number, read) in recovered.reads.iter().enumerate().filter(|(_, read)| read.open) {
        let line = Line::containing(read.address);
        let all = recovered.state.contents_given(line, &revealed, recovered.certain);
        for (value, contents) in group(&all, read.address, read.width) {
            if value == read.value {
                revealed.insert(line, contents);
            } else if !checksummed.contains(&(number as u32))
                && ignored.binary_search(&(number as u32)).is_err()
            {
                let before = revealed.insert(line, contents);
                let mut reads = recovered.reads[..number].to_vec();
                reads.push(Read { value, ..*read });
                judge(&Recovered { revealed: &revealed, reads: &reads, ..*recovered });
                match before {
                    Some(contents) => revealed.insert(line, contents),
                    None => revealed.remove(&line),
                };
            }
        }
    }
}

impl Judge<'_> {
    fn judge(mut self) -> Vec<TraceViolation> {
        for (_, read) in &self.reads {
            // Lines closed when an earlier recovery read them may be open now, and vice versa.
            let line = Line::containing(read.address);
            let overtaken = || self.state.timelines().any(|timeline| !timeline.overtaken(line).is_empty());
            let known = read.address == 0 || self.lines.contains_key(&line);
            if !known && (self.state.is_open(line) || overtaken()) {
                self.lines.insert(line, self.open_line(line));
            }
        }
        let losses = self.losses();
        if losses.is_empty() {
            return Vec::new();
        }
        let mut met = Vec::new();
        for level in 0..self.state.crashes() {
            let losses: Vec<&Loss> = losses.iter().filter(|loss| loss.level == level).collect();
            if !losses.is_empty() {
                self.pairs(level, &losses, &mut met);
            }
        }
        met
    }

    fn open_line(&self, line: Line) -> OpenLine {
        let mut stores: Vec<Vec<CachedStore>> =
            self.state.timelines().map(|timeline| timeline.stores(line)).collect();
        let all = (self.recovered.certain)(line);
        let mut none: Survival = [0; MAX_CRASHES];
        none[0] = self.state.first.assumed(line) as u32;
        let mut survivals: Vec<(Survival, Bytes)> = vec![(none, all)];
        for (level, open) in stores.iter().enumerate() {
            let open = &open[none[level] as usize..];
            if let Some(later) = level.checked_sub(1).map(|before| &self.state.later[before]) {
                retain(&mut survivals, later.revealed, line);
                for store in later.persisted.get(&line).into_iter().flatten() {
                    survivals.iter_mut().for_each(|(_, bytes)| apply(line, bytes, store));
                }
            }
            let mut longer = Vec::with_capacity(survivals.len() * (open.len() + 1));
            for (mut survival, mut bytes) in survivals {
                longer.push((survival, bytes));
                for store in open {
                    apply(line, &mut bytes, store);
                    survival[level] += 1;
                    longer.push((survival, bytes));
                }
            }
            survivals = longer;
        }
        retain(&mut survivals, self.recovered.revealed, line);
        // These are lost in any case.
        for (stores, timeline) in stores.iter_mut().zip(self.state.timelines()) {
            stores.extend(timeline.overtaken(line));
        }
        OpenLine { stores, survivals: survivals.into_iter().map(|(survival, _)| survival).collect() }
    }

    /// The stores that some read would have come from had they persisted.
    fn losses(&self) -> Vec<Loss> {
        let mut losses: Vec<Loss> = Vec::new();
        for (number, (crashes, read)) in self.reads.iter().enumerate() {
            let line = Line::containing(read.address);
            let Some(open) = self.lines.get(&line).filter(|_| read.address != 0) else { continue };
            let wanted = bits(read.address, read.width);
            for level in 0..*crashes {
                let overlaps = |store: &CachedStore| bits_of(line, store) & wanted != 0;
                if !open.stores[level].iter().any(overlaps) {
                    continue;
                }
                // The fewest surviving stores, by the bytes that later executions overwrote.
                let mut least: FxHashMap<u64, u32> = FxHashMap::default();
                for survival in &open.survivals {
                    let covered = self.covered(line, open, survival, level + 1..*crashes);
                    let kept = least.entry(covered & wanted).or_insert(u32::MAX);
                    *kept = (*kept).min(survival[level]);
                }
                for (index, store) in open.stores[level].iter().enumerate() {
                    let bytes = bits_of(line, store) & wanted;
                    let lost = |(covered, kept): (&u64, &u32)| index as u32 >= *kept && bytes & !covered != 0;
                    if bytes != 0
                        && least.iter().any(lost)
                        && !self.is_tolerated(level, store.tag)
                        && self.sees_names(*crashes, read, store)
                    {
                        losses.push(Loss { level, store: *store, line, read: number });
                    }
                }
            }
        }
        losses
    }

    /// The bytes of a line that these executions certainly overwrote.
    fn covered(
        &self,
        line: Line,
        open: &OpenLine,
        survival: &Survival,
        levels: std::ops::Range<usize>,
    ) -> u64 {
        let mut covered = 0;
        for level in levels {
            let certain = self.state.later[level - 1].persisted.get(&line).into_iter().flatten();
            let kept = open.stores[level][..survival[level] as usize].iter();
            certain.chain(kept).for_each(|store| covered |= bits_of(line, store));
        }
        covered
    }

    /// Would the read have returned something else had this store persisted, as far as recovery can tell? A directory's
    /// names are one word, of which it looks up some.
    fn sees_names(&self, crashes: usize, read: &Read, store: &CachedStore) -> bool {
        let (read, stored) = (read.value, store.event.value);
        crashes < self.state.crashes()
            || !FACTS.contains(store.event.address)
            || !(self.names.has(read) || self.names.has(stored))
            || self.names.differ(read, stored, &self.recovered.outcome.names)
    }

    /// Replaces a change of a directory's names that recovery cannot tell by the latest one before it that it can.
    fn latest_seen(&self, level: usize, crashes: usize, store: u32) -> Option<u32> {
        let records = self.state.records(level);
        let change = &records[store as usize];
        if crashes < self.state.crashes()
            || !FACTS.contains(change.address())
            || !self.names.has(change.value)
        {
            return Some(store);
        }
        let version = self.names.latest_seen(change.value, &self.recovered.outcome.names)?;
        let makes = |record: &Record| record.address() == change.address() && record.value == version;
        let earlier = records[..=store as usize].iter().rposition(makes)?;
        Some(earlier as u32)
    }

    fn is_tolerated(&self, level: usize, store: u32) -> bool {
        self.state.history(level).is_tolerated(store)
    }

    /// The stores of an execution that a read may have come from.
    fn sources(&self, level: usize, crashes: usize, read: &Read, found: &mut Stores) {
        let line = Line::containing(read.address);
        let wanted = bits(read.address, read.width);
        found.clear();
        let Some(open) = self.lines.get(&line) else {
            if level == 0 {
                let before = self.state.first.at as u32;
                self.state
                    .history
                    .last_writers(line, wanted, before)
                    .into_iter()
                    .for_each(|store| found.add(store));
            }
            return;
        };
        if level >= crashes {
            return;
        }
        let stores = &open.stores[level];
        let of_read = stores.iter().enumerate().map(|(index, store)| (index, bits_of(line, store) & wanted));
        let overlapping: Vec<(usize, u64)> = of_read.filter(|(_, bytes)| *bytes != 0).collect();
        let certain = level.checked_sub(1).map(|before| &self.state.later[before]);
        let certain = certain.and_then(|later| later.persisted.get(&line)).map_or(&[][..], Vec::as_slice);
        // The bytes that come from before the open stores, no matter which survived.
        let mut below = 0;
        let mut before = None;
        for survival in &open.survivals {
            let mut left = wanted & !self.covered(line, open, survival, level + 1..crashes);
            let kept = overlapping.partition_point(|(index, _)| *index < survival[level] as usize);
            // A counter's line may survive in thousands of ways, of which a read can tell few.
            if before.replace((kept, left)) == Some((kept, left)) {
                continue;
            }
            let kept = overlapping[..kept].iter().rev().map(|&(index, bytes)| (stores[index].tag, bytes));
            let certain = certain.iter().rev().map(|store| (store.tag, bits_of(line, store)));
            for (tag, bytes) in kept.chain(certain) {
                if left & bytes != 0 {
                    found.add(tag);
                }
                left &= !bytes;
                if left == 0 {
                    break;
                }
            }
            below |= left;
        }
        if level == 0 && below != 0 {
            let oldest = open.stores[0].first().map_or(u32::MAX, |store| store.tag);
            let before = oldest.min(self.state.first.at as u32);
            self.state
                .history
                .last_writers(line, below, before)
                .into_iter()
                .for_each(|store| found.add(store));
        }
    }

    /// The stores of an execution that reads may have come from and that are younger than some loss, each with the
    /// number of the read.
    fn survivors(&self, level: usize, oldest_loss: u32) -> Vec<(u32, Line, usize)> {
        let mut survivors: Vec<(u32, Line, usize)> = Vec::new();
        let mut found = Stores::default();
        let certain = self.state.first.certain_until() > oldest_loss;
        for (number, (crashes, read)) in self.reads.iter().enumerate() {
            if read.address == 0 {
                continue;
            }
            let line = Line::containing(read.address);
            if !self.lines.contains_key(&line) {
                let last = || self.state.history.last_store(line, self.state.first.at as u32);
                if level > 0 || !certain || last().is_none_or(|store| store <= oldest_loss) {
                    continue;
                }
            }
            self.sources(level, *crashes, read, &mut found);
            let seen = found.in_order.iter().filter_map(|store| self.latest_seen(level, *crashes, *store));
            survivors.extend(seen.map(|store| (store, line, number)));
        }
        survivors
    }

    fn pairs(&self, level: usize, losses: &[&Loss], met: &mut Vec<TraceViolation>) {
        let history = self.state.history(level);
        let candidate = |store: u32, line: Line, name: usize| Candidate {
            store: history.issued(store),
            line: self.state.first.unit(line).0,
            name,
        };
        let oldest = losses.iter().map(|loss| history.issued(loss.store.tag).at).min().unwrap_or(0);
        let read = self.survivors(level, oldest);
        let named = read.iter().enumerate().map(|(name, (store, line, _))| candidate(*store, *line, name));
        let survivors = Survivors::new(named);
        // Grouped by survivor and line of the losses: one flush before the survivor saves the group.
        let mut groups: FxHashMap<(usize, Line), Vec<&Loss>> = FxHashMap::default();
        let mut order: Vec<(usize, Line)> = Vec::new();
        for loss in losses {
            let lost = candidate(loss.store.tag, loss.line, 0);
            for survivor in survivors.after(&history.order, &lost) {
                let key = (survivor.name, loss.line);
                groups.entry(key).or_insert_with(|| {
                    order.push(key);
                    Vec::new()
                });
                groups.get_mut(&key).expect("just added").push(loss);
            }
        }
        for key in order {
            let (survived, _, survivor_read) = read[key.0];
            let mut losses = groups.remove(&key).expect("each once");
            losses.sort_by_key(|loss| loss.store.at);
            met.push(self.met(level, &losses, survived, survivor_read));
        }
    }

    fn flush_after(&self, level: usize, last: &Loss, survived: u32) -> u32 {
        let history = self.state.history(level);
        let (from, before) = (history.issued(last.store.tag), history.issued(survived));
        let function = |store: &CachedStore| &self.sites.of(level).get(store.event.site.0).function;
        let same_place = |store: &CachedStore| {
            let issued = history.issued(store.tag);
            issued.thread == from.thread
                && issued.at >= from.at
                && history.order.before(issued, before)
                && function(store) == function(&last.store)
        };
        let stores = self.lines[&last.line].stores[level].iter();
        let all = stores.filter(|store| same_place(store)).max_by_key(|store| history.issued(store.tag).at);
        all.map_or(last.store.tag, |store| store.tag)
    }

    /// `losses` are in the order they reached the cache; a store appears once per read that missed it.
    fn met(&self, level: usize, losses: &[&Loss], survived: u32, survivor_read: usize) -> TraceViolation {
        // Bytes overwritten by a later one of them would not have been read anyway.
        let mut overwritten = 0;
        let mut lost: Vec<(u32, bool)> = Vec::new();
        let mut matters: Option<&Loss> = None;
        let last = losses.last().expect("at least one");
        for loss in losses.iter().rev() {
            let read = &self.reads[loss.read].1;
            let bytes = bits(loss.store.event.address, loss.store.event.width);
            if lost.last().is_none_or(|(store, _)| *store != loss.store.tag) {
                if bytes & !overwritten == 0 {
                    continue;
                }
                lost.push((loss.store.tag, false));
            }
            if !same_value(&loss.store, read) {
                matters = Some(loss);
                lost.last_mut().expect("just added").1 = true;
            }
            overwritten |= bytes;
        }
        // Stores that did not change the value are not worth reporting, unless there are no others.
        lost.retain(|(_, differs)| *differs || matters.is_none());
        let lost = lost.into_iter().rev().map(|(store, _)| store).collect();
        let shown = matters.unwrap_or(last);
        let too_old = shown.read > survivor_read;
        let mut reads = [self.reads[survivor_read].1, self.reads[shown.read].1];
        if !too_old {
            reads.reverse();
        }
        let seen_at = shown.read.max(survivor_read);
        let flush_after = self.flush_after(level, last, survived);
        TraceViolation {
            level,
            lost,
            flush_after,
            survived,
            reads,
            too_old,
            seen_at,
            same_value: matters.is_none(),
        }
    }
}

/// The bytes of a line that a store covers.
fn bits_of(line: Line, store: &CachedStore) -> u64 {
    if Line::containing(store.event.address) == line {
        bits(store.event.address, store.event.width)
    } else {
        0
    }
}

/// Retains what is consistent with what was revealed about the line.
fn retain(survivals: &mut Vec<(Survival, Bytes)>, revealed: &Revealed, line: Line) {
    if let Some(contents) = revealed.get(&line) {
        let contents: FxHashSet<&Bytes> = contents.iter().map(|content| &content.bytes).collect();
        survivals.retain(|(_, bytes)| contents.contains(bytes));
    }
}

/// Stores by their places in the trace, each once, in the order they were found.
#[derive(Default)]
struct Stores {
    in_order: Vec<u32>,
    known: FxHashSet<u32>,
}

impl Stores {
    fn add(&mut self, store: u32) {
        if self.known.insert(store) {
            self.in_order.push(store);
        }
    }

    fn clear(&mut self) {
        self.in_order.clear();
        self.known.clear();
    }
}

/// Would the read have returned the same value if the store had persisted?
fn same_value(store: &CachedStore, read: &Read) -> bool {
    let (stored, seen) = (store.event.value.to_le_bytes(), read.value.to_le_bytes());
    let byte = |address: u64| {
        let within = |start: u64, width: u8| {
            let at = address.checked_sub(start).filter(|at| *at < u64::from(width));
            at.map(|at| at as usize)
        };
        match (within(store.event.address, store.event.width), within(read.address, read.width)) {
            (Some(at), Some(there)) => stored[at] == seen[there],
            _ => true,
        }
    };
    let start = Line::containing(read.address).start();
    (start..start + LINE_BYTES).all(byte)
}
