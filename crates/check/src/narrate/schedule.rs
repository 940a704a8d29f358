//! The actions of the threads in order, for failures caused by the schedule.
//!
//! Most actions of the threads are irrelevant. Those shown conflict with the adjacent access of another thread to the
//! same word: the schedule determines their order.

use crashproof_findings::{Related, Role, is_of_others};
use crashproof_protocol::abi::is_pm;
use crashproof_protocol::steps::{Actor, Note, is_entry, kind, thread_of};
use rustc_hash::FxHashMap;

use super::names::Names;
use crate::subject::{AllSites, in_user_code};

/// The number of steps shown; the last ones matter most.
const MOST: usize = 8;

/// An access by a thread, or a buffered store of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Access {
    thread: u16,
    address: u64,
    site: u32,
    does: Does,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Read,
    /// A locked instruction, or another read-modify-write.
    Change,
    Store,
    /// The store enters the buffer of its thread.
    Issue,
    /// The store takes effect, after other threads have acted.
    Drain,
}

/// The actions of the threads in a run with these notes, in order.
pub(crate) fn steps(notes: &[Note], sites: &AllSites, names: &Names) -> Vec<Related> {
    let mut told: Vec<Related> = Vec::new();
    let mut accesses = conflicting(&accesses(notes));
    // A library's internal actions, without the program's code on the call stack, explain nothing.
    let place = |access: &Access| in_user_code(sites.of(0).get(access.site));
    accesses.retain(|access| !is_of_others(&place(access).file));
    let first = accesses.len().saturating_sub(MOST);
    for access in &accesses[first..] {
        let Access { thread, address, site, does } = access;
        let stores = !matches!(does, Does::Read);
        let name =
            names.object(sites, 0, *site, (*address, 1), stores).map(|name| format!("`{}`", name.text));
        let what = name.unwrap_or_else(|| {
            if is_pm(*address) { "persistent memory" } else { "shared memory" }.to_owned()
        });
        let number = told.len() + 1;
        let message = match does {
            Does::Read => format!("{number}: thread {thread} reads {what}"),
            Does::Change => format!("{number}: thread {thread} changes {what}"),
            Does::Store => format!("{number}: thread {thread} stores to {what}"),
            Does::Issue => format!("{number}: thread {thread} stores to {what}; no other thread sees it yet"),
            Does::Drain => {
                format!("{number}: the store of thread {thread} to {what} leaves its store buffer")
            }
        };
        told.push(Related::new(Role::Note, place(access), message));
    }
    told
}

/// Accesses with a place. A store is one access, or two if another thread acted between its issue and its effect.
fn accesses(notes: &[Note]) -> Vec<Access> {
    let mut issued: FxHashMap<Actor, usize> = FxHashMap::default();
    let mut all: Vec<Access> = Vec::new();
    for note in notes {
        let thread = thread_of(note.actor);
        match note.kind {
            kind::ISSUED => {
                issued.insert(note.address, all.len());
            }
            kind::READ if note.site != 0 => {
                all.push(Access { thread, address: note.address, site: note.site, does: Does::Read });
            }
            kind::WRITE if note.site != 0 => {
                let access = Access { thread, address: note.address, site: note.site, does: Does::Store };
                let waited = is_entry(note.actor).then(|| issued.get(&note.actor).copied()).flatten();
                let read = Access { does: Does::Read, ..access };
                if let Some(at) = waited.filter(|&at| at < all.len()) {
                    all.insert(at, Access { does: Does::Issue, ..access });
                    issued.values_mut().filter(|issued| **issued > at).for_each(|issued| *issued += 1);
                    all.push(Access { does: Does::Drain, ..access });
                } else if waited.is_none() && all.last() == Some(&read) {
                    all.pop();
                    all.push(Access { does: Does::Change, ..access });
                } else {
                    all.push(access);
                }
            }
            _ => {}
        }
    }
    all.dedup();
    all
}

/// The accesses that conflict with the adjacent access of another thread to the same word.
fn conflicting(all: &[Access]) -> Vec<Access> {
    let mut keeps = vec![false; all.len()];
    let mut last: FxHashMap<u64, usize> = FxHashMap::default();
    for (index, access) in all.iter().enumerate().filter(|(_, access)| access.does != Does::Issue) {
        let before = last.insert(access.address / 8, index);
        let Some(before) = before.filter(|&before| all[before].thread != access.thread) else { continue };
        if access.does != Does::Read || all[before].does != Does::Read {
            (keeps[before], keeps[index]) = (true, true);
        }
    }
    // A store is shown completely.
    for index in 0..all.len() {
        if all[index].does == Does::Drain && keeps[index] {
            let issue = Access { does: Does::Issue, ..all[index] };
            if let Some(at) = all[..index].iter().rposition(|access| *access == issue) {
                keeps[at] = true;
            }
        }
    }
    all.iter().zip(keeps).filter(|(_, keeps)| *keeps).map(|(access, _)| *access).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::steps::{entry, thread};

    fn read(by: u16, address: u64, site: u32) -> Note {
        Note::new(kind::READ, thread(by), address, 8, 0).at(site)
    }

    fn does(notes: &[Note]) -> Vec<(u16, u32, Does)> {
        conflicting(&accesses(notes)).iter().map(|it| (it.thread, it.site, it.does)).collect()
    }

    #[test]
    fn only_what_conflicts_is_told() {
        let write = Note::new(kind::WRITE, thread(2), 8, 8, 0).at(4);
        let notes = [read(1, 8, 1), read(1, 64, 2), read(2, 8, 3), write, read(1, 8, 1)];
        assert_eq!(does(&notes), [(2, 4, Does::Store), (1, 1, Does::Read)]);
        let changes = [read(1, 8, 1), read(2, 8, 4), write];
        assert_eq!(does(&changes), [(1, 1, Does::Read), (2, 4, Does::Change)]);
    }

    #[test]
    fn a_store_that_waits_is_told_twice() {
        let issue = |by| Note::new(kind::ISSUED, thread(by), entry(by, 1), 0, 0);
        let drain = |by, address, site| Note::new(kind::WRITE, entry(by, 1), address, 8, 0).at(site);
        let notes = [issue(1), read(1, 64, 2), issue(2), read(2, 8, 3), drain(1, 8, 1), drain(2, 64, 4)];
        let told = [
            (1, 1, Does::Issue),
            (1, 2, Does::Read),
            (2, 4, Does::Issue),
            (2, 3, Does::Read),
            (1, 1, Does::Drain),
            (2, 4, Does::Drain),
        ];
        assert_eq!(does(&notes), told);
        let at_once = [issue(1), drain(1, 8, 1), read(2, 8, 3)];
        assert_eq!(does(&at_once), [(1, 1, Does::Store), (2, 3, Does::Read)]);
    }
}
