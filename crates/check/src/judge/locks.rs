//! Words of PM that are locks: a locked instruction takes them, and the thread gives them back the value they had.
//!
//! A lock is no data. That it is lost is what one would wish; that it survives while it is held keeps recovery waiting, and
//! no flush helps against that.

use crashproof_protocol::Record;
use px86::Kind;

/// Records searched for the store before and the store after.
const MOST_SEARCHED: usize = 100_000;
/// Stores of one function of a library to a lock: how far apart they are, in records and in bytes.
const NEAR: usize = 8;
const OBJECT_BYTES: u64 = 64;

fn stores(record: &Record) -> bool {
    record.event_kind().is_some_and(Kind::stores)
}

fn same_word(one: &Record, other: &Record) -> bool {
    stores(other) && (one.address(), one.width()) == (other.address(), other.width())
}

/// What a store that covers the word of another one puts there.
fn value_at(word: &Record, store: &Record) -> Option<u64> {
    let offset = word.address().checked_sub(store.address())?;
    let covers = stores(store) && offset + u64::from(word.width()) <= u64::from(store.width());
    let mask = u64::MAX >> (64 - 8 * u32::from(word.width().clamp(1, 8)));
    covers.then(|| store.value >> (8 * offset) & mask)
}

/// Where the lock is given back that the record takes; none if it takes none.
pub(crate) fn released_at(records: &[Record], taken: usize) -> Option<usize> {
    let take = records.get(taken).filter(|it| it.event_kind() == Some(Kind::Rmw))?;
    let before = records[..taken].iter().rev().take(MOST_SEARCHED).find_map(|it| value_at(take, it));
    let free = before.unwrap_or(0);
    let after = records.iter().enumerate().skip(taken + 1).take(MOST_SEARCHED);
    let (next, release) = after.into_iter().find(|(_, it)| same_word(take, it))?;
    // Some locks leave a mark of their own in the word; but it only loses bits.
    let gives_back = release.value == free || release.value & !take.value == 0 && release.value != take.value;
    (take.value != free && gives_back && release.thread() == take.thread()).then_some(next)
}

/// Does the store take a lock or give it back?
pub(crate) fn is_of_lock(records: &[Record], index: usize) -> bool {
    let gives_back = |index: usize| {
        let release = &records[index];
        let before = (0..index).rev().take(MOST_SEARCHED).find(|&at| same_word(release, &records[at]));
        before.is_some_and(|taken| released_at(records, taken) == Some(index))
    };
    let decides = |index: usize| released_at(records, index).is_some() || gives_back(index);
    let Some(store) = records.get(index).filter(|it| stores(it)) else { return false };
    // Functions of the C library keep more in a lock than the word that decides.
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
        // A counter goes on.
        let counter = [take, record(Kind::Rmw, 0, 2, 1, 7)];
        assert!(!is_of_lock(&counter, 0) && !is_of_lock(&counter, 1));
        // Initialized with more around it, and taken by subtraction.
        let init = Record::new(Kind::Store as u8, ARENA.base, 8, 1, 1, 6);
        let semaphore = [init, record(Kind::Rmw, 0, 0, 1, 7), record(Kind::Rmw, 0, 1, 1, 9)];
        assert_eq!(released_at(&semaphore, 1), Some(2));
        // Another thread's store is no release.
        assert_eq!(released_at(&[take, record(Kind::Store, 0, 0, 2, 9)], 0), None);
    }

    #[test]
    fn a_mutex_has_more_than_one_word() {
        let owner = record(Kind::Store, 8, 42, 1, 7);
        let records = [record(Kind::Rmw, 0, 1, 1, 7), owner, record(Kind::Rmw, 0, 0, 1, 9)];
        assert!(is_of_lock(&records, 1));
    }
}
