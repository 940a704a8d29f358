//! Recognizes PM words that are locks: a locked instruction takes one, and the same thread restores its value.
//!
//! A lock is not data. Losing it is desirable; if it survives while held, recovery waits forever, and no flush helps.

use crashproof_protocol::Record;
use px86::Kind;

/// The most records searched for the preceding and the following store.
const MOST_SEARCHED: usize = 100_000;
/// How far apart a library function's stores to a lock may be, in records and in bytes.
const NEAR: usize = 8;
const OBJECT_BYTES: u64 = 64;

fn stores(record: &Record) -> bool {
    record.event_kind().is_some_and(Kind::stores)
}

fn same_word(one: &Record, other: &Record) -> bool {
    stores(other) && (one.address(), one.width()) == (other.address(), other.width())
}

/// The value that a store which covers another store's word writes to that word.
fn value_at(word: &Record, store: &Record) -> Option<u64> {
    let offset = word.address().checked_sub(store.address())?;
    let covers = stores(store) && offset + u64::from(word.width()) <= u64::from(store.width());
    let mask = u64::MAX >> (64 - 8 * u32::from(word.width().clamp(1, 8)));
    covers.then(|| store.value >> (8 * offset) & mask)
}

/// Where the lock that the record takes is released; `None` if it takes none.
pub(crate) fn released_at(records: &[Record], taken: usize) -> Option<usize> {
    let take = records.get(taken).filter(|it| it.event_kind() == Some(Kind::Rmw))?;
    let before = records[..taken].iter().rev().take(MOST_SEARCHED).find_map(|it| value_at(take, it));
    let free = before.unwrap_or(0);
    let after = records.iter().enumerate().skip(taken + 1).take(MOST_SEARCHED);
    let (next, release) = after.into_iter().find(|(_, it)| same_word(take, it))?;
    // Some locks leave a mark in the word, but that only clears bits.
    let gives_back = release.value == free || release.value & !take.value == 0 && release.value != take.value;
    (take.value != free && gives_back && release.thread() == take.thread()).then_some(next)
}

/// Does the store take or release a lock?
pub(crate) fn is_of_lock(records: &[Record], index: usize) -> bool {
    let gives_back = |index: usize| {
        let release = &records[index];
        let before = (0..index).rev().take(MOST_SEARCHED).find(|&at| same_word(release, &records[at]));
        before.is_some_and(|taken| released_at(records, taken) == Some(index))
    };
    let decides = |index: usize| released_at(records, index).is_some() || gives_back(index);
    let Some(store) = records.get(index).filter(|it| stores(it)) else { return false };
    // C library functions keep more in a lock than the deciding word.
    let near = index.saturating_sub(NEAR)..(index + NEAR + 1).min(records.len());
    let beside = |at: usize| {
        let other = &records[at];
        at != index
            && stores(other)
            && (other.site, other.thread()) == (store.site, store.thread())
            && other.address().abs_diff(store.address()) < OBJECT_BYTES
            && decides(at)
    };
    decides(index) || near.into_iter().any(beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::ARENA;

    fn record(kind: Kind, offset: u64, value: u64, thread: u16, site: u32) -> Record {
        Record::new(kind as u8, ARENA.base + offset, 4, value, thread, site)
    }

    #[test]
    fn a_lock_gets_back_what_it_held() {
        let take = record(Kind::Rmw, 0, 1, 1, 7);
        let data = record(Kind::Store, 64, 5, 1, 8);
        let give = record(Kind::Store, 0, 0, 1, 9);
        let records = [take, data, give];
        assert_eq!(released_at(&records, 0), Some(2));
        assert!(is_of_lock(&records, 0) && is_of_lock(&records, 2) && !is_of_lock(&records, 1));
        // A counter keeps increasing.
        let counter = [take, record(Kind::Rmw, 0, 2, 1, 7)];
        assert!(!is_of_lock(&counter, 0) && !is_of_lock(&counter, 1));
        // Initialized by a wider store, and taken by subtraction.
        let init = Record::new(Kind::Store as u8, ARENA.base, 8, 1, 1, 6);
        let semaphore = [init, record(Kind::Rmw, 0, 0, 1, 7), record(Kind::Rmw, 0, 1, 1, 9)];
        assert_eq!(released_at(&semaphore, 1), Some(2));
        // Another thread's store is not a release.
        assert_eq!(released_at(&[take, record(Kind::Store, 0, 0, 2, 9)], 0), None);
    }

    #[test]
    fn a_mutex_has_more_than_one_word() {
        let owner = record(Kind::Store, 8, 42, 1, 7);
        let records = [record(Kind::Rmw, 0, 1, 1, 7), owner, record(Kind::Rmw, 0, 0, 1, 9)];
        assert!(is_of_lock(&records, 1));
    }
}
