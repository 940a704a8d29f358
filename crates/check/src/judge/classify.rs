//! Determines the cause of a failure or missing flush from the recorded run.
//!
//! A cause is named only if the trace shows it. px86 has established that the lost store may be lost; here the
//! program's flushes and fences show what its author missed.

use crashproof_protocol::Record;
use px86::{Kind, LINE_BYTES, Line};

use crate::crash::{CrashState, Read};
use crate::judge::access::Access;
use crate::judge::cause::{Cause, Instruction, Volatile};
use crate::judge::facts::{Facts, reads};
use crate::judge::locks::released_at;
use crate::search::Recovered;
use crate::subject::{AllSites, Failure, same_place};

/// The most records searched for flushes, from the lost store on.
const MOST_SEARCHED: usize = 1_000_000;
/// The number of recovery's last reads searched for the lock it waits for.
const LAST_READS: usize = 16;

impl Facts {
    /// Adds what recovery read, and the cause.
    pub(crate) fn complete(
        mut self,
        recovered: &Recovered,
        failure: Option<&Failure>,
        sites: &AllSites,
    ) -> Facts {
        if self.lost.is_empty() {
            self.not_yet = self.next_store(recovered.state, recovered.reads);
        } else if self.is_between_values(recovered.state, recovered.reads) {
            self.crash_before_lost();
        }
        self.reads = reads(recovered, &self);
        self.cause = of(recovered.state, &self, recovered.reads, failure, sites);
        if let Cause::LockHeld { taken, released } = &self.cause {
            (self.survived, self.not_yet) = (Some(taken.clone()), Some(released.clone()));
        }
        self.flushed = self.lost.first().is_some_and(|lost| {
            let line = Line::containing(lost.address);
            let later = recovered.state.records(lost.level).iter().skip(lost.index).take(MOST_SEARCHED);
            later.into_iter().any(|it| is_flush(it) && Line::containing(it.address()) == line)
        });
        self
    }
}

/// The cause that these facts show; `reads` is everything recovery read.
fn of(
    state: &CrashState,
    facts: &Facts,
    reads: &[Read],
    failure: Option<&Failure>,
    sites: &AllSites,
) -> Cause {
    if let Some(volatile) = failure.and_then(|failure| volatile_state(failure, facts, reads)) {
        return Cause::VolatileState(volatile);
    }
    if let Some(Failure::Endless | Failure::Deadlock) = failure
        && let Some((taken, released)) = held_lock(state, facts, reads)
    {
        return Cause::LockHeld { taken, released };
    }
    let Some(lost) = facts.lost.first() else {
        return match (&facts.not_yet, &facts.survived) {
            (Some(next), Some(last)) => Cause::StoredAfterCommit { begun: begun(state, last, next) },
            (Some(_), None) => Cause::Unknown,
            (None, _) => Cause::RecoveryWrong,
        };
    };
    let Some(survived) = &facts.survived else { return Cause::Unknown };
    if survived.level != lost.level {
        return Cause::Unknown;
    }
    let records = state.records(lost.level);
    // Compilers split one copy into several instructions.
    let sites = sites.of(lost.level);
    let alike = |one: u32, other: u32| one == other || same_place(sites.get(one), sites.get(other));
    let whole = instance(records, lost, &alike);
    if alike(whole.site, survived.site) && whole.thread == survived.thread && whole.meets(survived.address, 1)
    {
        return Cause::Torn { one_access: true };
    }
    if lost.index > survived.index {
        return Cause::Torn { one_access: false };
    }
    missing_flush(records, lost, &whole, survived)
}

/// The lock that recovery found held and read near its end: where it was taken, and where it would have been released
/// if the crash had not come first or undone that.
fn held_lock(state: &CrashState, facts: &Facts, reads: &[Read]) -> Option<(Access, Access)> {
    let crash = facts.crashes.last()?;
    let records = state.records(crash.level);
    let before = crash.at.min(records.len());
    let holds = |read: &Read| {
        let found = |record: &Record| {
            record.address() == read.address
                && record.width() == read.width
                && record.value == read.value
                && record.event_kind() == Some(Kind::Rmw)
        };
        let taken = records[..before].iter().rposition(found)?;
        let released = released_at(records, taken)?;
        let access = |index: usize| Access::of_record(crash.level, index, &records[index]);
        let gone = |index: usize| facts.lost.iter().any(|it| (it.level, it.index) == (crash.level, index));
        (released >= before || gone(released)).then(|| (access(taken), access(released)))
    };
    reads.iter().rev().take(LAST_READS).find_map(holds)
}

/// Does recovery rely on volatile state that the crash destroyed?
fn volatile_state(failure: &Failure, facts: &Facts, reads: &[Read]) -> Option<Volatile> {
    match failure {
        Failure::Signal(libc::SIGSEGV | libc::SIGBUS) => {
            // It followed the last value it read; user-space mappings end at 2^47.
            let last = reads.last().filter(|read| read.width == 8)?;
            let lost = facts.lost.iter().any(|it| it.meets(last.address, 8));
            let pointer = (1 << 20..1 << 47).contains(&last.value) && last.value % 2 == 0;
            let volatile = pointer && !crashproof_protocol::abi::is_pm(last.value);
            (volatile && !lost && last.value > 1 << 32)
                .then_some(Volatile { address: last.address, site: last.site })
        }
        _ => None,
    }
}

/// Where the flag that is cleared next was set, before the last store.
fn begun(state: &CrashState, last: &Access, next: &Access) -> Option<Access> {
    if next.level != last.level || next.data.iter().any(|byte| *byte != 0) {
        return None;
    }
    let records = state.records(next.level);
    let stores = |record: &Record| {
        record.event_kind().is_some_and(Kind::stores)
            && (record.address(), u64::from(record.width())) == (next.address, next.bytes)
    };
    let before = records[..last.index.min(records.len())].iter().rposition(stores)?;
    let set = records[before].value != 0;
    set.then(|| Access::of_record(next.level, before, &records[before]))
}

/// Everything stored by one execution of a statement, found in the trace around one of its stores; `alike` tells
/// whether two sites are one statement.
fn instance(records: &[Record], store: &Access, alike: &dyn Fn(u32, u32) -> bool) -> Access {
    let mut whole = store.clone();
    let same = |record: &&Record| {
        record.event_kind().is_some_and(Kind::stores)
            && record.thread() == store.thread
            && alike(record.site, store.site)
    };
    let at = store.index.min(records.len());
    let before = records[..at].iter().rev().take_while(same);
    let after = records[at..].iter().take_while(same);
    let mut ranges: Vec<(u64, u64)> =
        before.chain(after).map(|it| (it.address(), it.address() + u64::from(it.width()))).collect();
    ranges.sort_unstable();
    let (mut start, mut end) = (whole.address, whole.end());
    for (from, to) in &ranges {
        if *from <= end && *to > end {
            end = *to;
        }
    }
    for (from, to) in ranges.iter().rev() {
        if *to >= start && *from < start {
            start = *from;
        }
    }
    (whole.address, whole.bytes) = (start, end - start);
    whole
}

fn is_flush(record: &Record) -> bool {
    matches!(record.event_kind(), Some(Kind::Flush | Kind::FlushOpt))
}

/// What the program does about the lost store's line, before and after the survivor.
fn missing_flush(records: &[Record], lost: &Access, whole: &Access, survived: &Access) -> Cause {
    let line = Line::containing(lost.address);
    let instruction = |index: usize| Instruction {
        level: lost.level,
        index,
        site: records[index].site,
        address: records[index].address(),
    };
    // The last store to the line that precedes the survivor: a flush before it cannot save it.
    let last = (lost.index..survived.index.min(records.len()))
        .rev()
        .find(|&at| {
            let record = &records[at];
            record.event_kind().is_some_and(Kind::stores) && Line::containing(record.address()) == line
        })
        .unwrap_or(lost.index);
    let end = records.len().min(last + MOST_SEARCHED);
    let flush_of = |line: Line, from: usize, to: usize| {
        (from.min(to)..to)
            .find(|&at| is_flush(&records[at]) && Line::containing(records[at].address()) == line)
    };
    if let Some(flush) = flush_of(line, last, survived.index.min(end)) {
        return Cause::NotFenced(instruction(flush));
    }
    let later = flush_of(line, survived.index, end);
    let in_order = |flush: usize| {
        let other = Line::containing(survived.address);
        let fenced = |from: usize, to: usize| {
            records[from..to]
                .iter()
                .any(|it| it.thread() == survived.thread && it.event_kind().is_some_and(Kind::fences))
        };
        flush_of(other, survived.index, flush).is_some_and(|first| fenced(first + 1, flush))
    };
    if let Some(flush) = later.filter(|&flush| !in_order(flush)) {
        return Cause::FlushedLate(instruction(flush));
    }
    // The line is not flushed before the survivor is durable: was something else flushed in its place? A much later
    // flush may well belong to another object on the line.
    let window = last + 1..survived.index.min(end);
    let flushes: Vec<usize> =
        window.clone().filter(|&at| is_flush(&records[at]) && records[at].thread() == lost.thread).collect();
    let covered = |at: &usize| {
        let start = Line::containing(records[*at].address()).start();
        let (from, to) = (whole.address.max(start), whole.end().min(start + LINE_BYTES));
        to.saturating_sub(from)
    };
    let partly: u64 = flushes.iter().map(covered).sum();
    if let Some(flush) = flushes.iter().find(|at| covered(at) > 0) {
        let covered = partly.min(whole.bytes);
        return Cause::PartialFlush { flush: instruction(*flush), covered, total: whole.bytes };
    }
    let neighbor = flushes.iter().find_map(|&at| neighbor(records, at, whole).map(|store| (at, store)));
    let neighbor =
        neighbor.map(|(at, store)| (instruction(at), Access::of_record(lost.level, store, &records[store])));
    if let Some(flush) = later.filter(|&flush| !lost.is_overwritten(records, survived.index..flush)) {
        return Cause::WrongOrder { flush: instruction(flush), neighbor };
    }
    if neighbor.is_some() {
        return Cause::NeverFlushed { neighbor };
    }
    match flushes.iter().find(|&&at| is_clean(records, at)) {
        Some(flush) if flushes.len() == 1 => Cause::WrongAddress(instruction(*flush)),
        _ => Cause::NeverFlushed { neighbor: None },
    }
}

/// The last store to the flushed line, if that line is just before the lost store's and was stored to before the flush.
fn neighbor(records: &[Record], flush: usize, whole: &Access) -> Option<usize> {
    let line = Line::containing(records[flush].address());
    // A flush that covers too little stops too early; one of the following line has another purpose.
    if line.start() + LINE_BYTES != Line::containing(whole.address).start() {
        return None;
    }
    for at in (0..flush).rev().take(10_000) {
        if Line::containing(records[at].address()) != line {
            continue;
        }
        if is_flush(&records[at]) {
            return None;
        }
        if records[at].event_kind().is_some_and(Kind::stores) {
            return Some(at);
        }
    }
    None
}

/// Has nothing been stored to the line of a flush since it was last flushed?
fn is_clean(records: &[Record], flush: usize) -> bool {
    let line = Line::containing(records[flush].address());
    let on_line = |at: &usize| {
        let record = &records[*at];
        (is_flush(record) || record.event_kind().is_some_and(Kind::stores))
            && Line::containing(record.address()) == line
    };
    (0..flush).rev().take(MOST_SEARCHED).find(on_line).is_none_or(|at| is_flush(&records[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::ARENA;

    fn event(kind: Kind, line: u64, offset: u64, width: u8, site: u32) -> Record {
        Record::new(kind as u8, ARENA.base + line * 64 + offset, width, 1, 0, site)
    }

    fn decide(records: &[Record], lost: usize, survived: usize) -> Cause {
        let lost = Access::of_record(0, lost, &records[lost]);
        let survived = Access::of_record(0, survived, &records[survived]);
        missing_flush(records, &lost, &instance(records, &lost, &|one, other| one == other), &survived)
    }

    const DATA: Kind = Kind::Store;

    #[test]
    fn what_the_program_does_about_the_line() {
        let store = |line| event(DATA, line, 0, 8, line as u32 + 1);
        let flush = |line| event(Kind::Flush, line, 0, 0, 90 + line as u32);
        let fence = || event(Kind::StoreFence, 0, 0, 0, 99);
        let never = [store(0), store(4), flush(4)];
        assert_eq!(decide(&never, 0, 1), Cause::NeverFlushed { neighbor: None });
        let late = [store(0), store(4), flush(0), flush(4), fence()];
        assert!(matches!(decide(&late, 0, 1), Cause::FlushedLate(flush) if flush.index == 2));
        let order = [store(0), store(4), flush(4), fence(), flush(0), fence()];
        assert!(matches!(decide(&order, 0, 1), Cause::WrongOrder { flush, .. } if flush.index == 4));
        // The later flush is for another update of the same bytes.
        let again = [store(0), store(4), flush(4), fence(), store(0), flush(0), fence()];
        assert_eq!(decide(&again, 0, 1), Cause::NeverFlushed { neighbor: None });
        let unfenced = [store(0), flush(0), store(4), flush(4), fence()];
        assert!(matches!(decide(&unfenced, 0, 2), Cause::NotFenced(flush) if flush.index == 1));
        let wrong = [store(0), flush(7), fence(), store(4), flush(4), fence()];
        assert!(matches!(decide(&wrong, 0, 3), Cause::WrongAddress(flush) if flush.index == 1));
    }

    #[test]
    fn a_flush_that_covers_too_little() {
        // A 16-byte copy across two lines, only the first of which is flushed.
        let records = [
            event(DATA, 0, 56, 8, 1),
            event(DATA, 1, 0, 8, 1),
            event(Kind::Flush, 0, 0, 0, 2),
            event(Kind::StoreFence, 0, 0, 0, 3),
            event(DATA, 4, 0, 8, 4),
        ];
        let Cause::PartialFlush { flush, covered, total } = decide(&records, 1, 4) else { panic!() };
        assert_eq!((flush.index, covered, total), (2, 8, 16));
        // Two members of one object.
        let records = [
            event(DATA, 0, 0, 8, 1),
            event(DATA, 1, 0, 8, 2),
            event(Kind::Flush, 0, 0, 0, 3),
            event(DATA, 4, 0, 8, 4),
        ];
        assert!(
            matches!(decide(&records, 1, 3), Cause::NeverFlushed { neighbor: Some((_, store)) } if store.index == 0)
        );
    }

    #[test]
    fn a_flush_for_the_next_object_on_the_line_is_not_a_late_one() {
        let (store, flush) = (|line| event(DATA, line, 0, 8, 1), |line| event(Kind::Flush, line, 0, 0, 2));
        let fence = event(Kind::StoreFence, 0, 0, 0, 3);
        let first = [store(0), store(1), flush(0), fence, store(4), flush(4), fence];
        let second = [event(DATA, 1, 32, 8, 1), flush(1), fence];
        let records = [&first[..], &second[..]].concat();
        let Cause::WrongOrder { neighbor: Some((flush, store)), .. } = decide(&records, 1, 4) else {
            panic!()
        };
        assert_eq!((flush.index, store.index), (2, 0));
    }
}
