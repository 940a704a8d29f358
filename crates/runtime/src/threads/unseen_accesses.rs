//! Volatile accesses by threads that were not rebuilt, which the exploration of schedules does not see.
//!
//! That loses nothing as long as they are ordered by what it does see (locks, locked instructions, persistent memory):
//! then every schedule is equivalent to an explored one. So each access is compared with the last ones of other threads
//! to the same bytes. If one of the two is a store, both are noted with the steps they lie between, and the checker
//! determines whether those steps are ordered. After FastTrack (Flanagan and Freund, PLDI 2009), with steps for epochs.
//!
//! The instruction follower (`follow`) reports accesses here, and registers a function that starts following at an
//! address.

#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::exit;
use crashproof_protocol::steps::{self, kind};

use super::running;
use super::state::current;
use super::step_notes::{self, exploring};
use crate::cell::RunningThreadCell;
use crate::session;

/// The maximum number of pairs noted: the checker asks for more once it has handled these.
const MOST_PAIRS: usize = 4096;

/// An access to a word, or to some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) thread: u16,
    /// The first of its thread's steps that it precedes; it also precedes instructions issued after that many.
    pub(crate) before_step: u32,
    pub(crate) issued: u32,
    /// The bytes of the word.
    pub(crate) mask: u8,
    pub(crate) stores: bool,
    /// Is the access visible to the exploration?
    pub(crate) told: bool,
    pub(crate) site: u32,
}

impl Access {
    fn conflicts(&self, other: &Access) -> bool {
        self.thread != other.thread
            && self.mask & other.mask != 0
            && (self.stores || other.stores)
            && !(self.told && other.told)
    }
}

/// The last accesses to each word.
#[derive(Default)]
struct Words(HashMap<u64, Vec<Access>>);

impl Words {
    /// Adds an access; calls `found` with every earlier one that it conflicts with.
    fn add(&mut self, word: u64, access: Access, mut found: impl FnMut(&Access)) {
        let accesses = self.0.entry(word).or_default();
        accesses.iter().filter(|earlier| earlier.conflicts(&access)).for_each(&mut found);
        // What was compared with a store need not be compared with what follows it; and a thread's last access subsumes
        // its earlier ones.
        let covers = |earlier: &Access| {
            earlier.mask & !access.mask == 0
                && (access.stores || earlier.thread == access.thread && !earlier.stores)
        };
        accesses.retain(|earlier| !covers(earlier));
        accesses.push(access);
    }

    fn forget(&mut self, words: std::ops::Range<u64>) {
        self.0.retain(|word, _| !words.contains(word));
    }
}

/// Two accesses: their places in the program, and the steps.
type Pair = (u32, u32, u32, u32);

#[derive(Default)]
struct Unseen {
    words: Words,
    noted: HashSet<Pair>,
}

static UNSEEN: RunningThreadCell<Option<Unseen>> = RunningThreadCell::new(None);

/// Follows the running thread once it reaches an address.
static FOLLOWER: RunningThreadCell<Option<fn(usize)>> = RunningThreadCell::new(None);
/// The number of steps so far.
static STEPS: AtomicUsize = AtomicUsize::new(0);

/// Registers the instruction follower.
pub(crate) fn register(follower: fn(usize)) {
    FOLLOWER.set(Some(follower));
}

/// Should volatile accesses be followed at the moment?
pub(crate) fn wanted() -> bool {
    exploring() && session::recording() && session::follows_volatile()
}

/// Follows threads from the point where they reach an address.
pub(crate) fn follow_from(address: usize) {
    if wanted()
        && let Some(follower) = FOLLOWER.get()
    {
        follower(address);
    }
}

/// A step begins.
pub(super) fn step_begins() {
    STEPS.fetch_add(1, Relaxed);
}

/// The running thread accesses volatile memory. With `told`, the exploration knows of the access.
pub(crate) fn accesses(address: u64, bytes: u64, stores: bool, told: bool, site: u32) {
    let count = STEPS.load(Relaxed) as u32;
    let thread = running::number();
    let (visible, issued) = current(|thread| (thread.progress.visible, thread.progress.issued));
    // An access the exploration knows of belongs to its own step.
    let before_step = if visible && !told { count } else { count.saturating_sub(1) };
    let mut found = Vec::new();
    UNSEEN.with(|unseen| {
        let unseen = unseen.get_or_insert_default();
        let (first, end) = (address, address.saturating_add(bytes.clamp(1, 64)));
        for word in first / 8..end.div_ceil(8) {
            let bytes = (0..8).filter(|byte| (first..end).contains(&(word * 8 + byte)));
            let mask = bytes.fold(0, |mask, byte| mask | 1 << byte);
            let access = Access { thread, before_step, issued, mask, stores, told, site };
            unseen.words.add(word, access, |earlier| {
                let pair = (earlier.site, site, earlier.before_step, count);
                if unseen.noted.len() < MOST_PAIRS && unseen.noted.insert(pair) {
                    found.push(*earlier);
                }
            });
        }
    });
    for earlier in found {
        let (actor, issued) = (steps::thread(earlier.thread), earlier.issued.into());
        step_notes::write_at(kind::UNSEEN_FIRST, actor, issued, earlier.before_step, earlier.site);
        let after = u32::from(visible || told);
        step_notes::write_at(kind::UNSEEN_SECOND, steps::thread(thread), address, after, site);
    }
}

/// A thread starts, with the top of its stack there: a stack previously at the same place belonged to another thread.
pub(crate) fn begins_at(stack: u64) {
    UNSEEN.with(|unseen| {
        let words = stack.saturating_sub(256 << 10) / 8..(stack + (64 << 10)) / 8;
        unseen.get_or_insert_default().words.forget(words);
    });
}

/// The number of steps so far: a thread that continues without any does nothing visible to others.
pub(crate) fn steps() -> usize {
    STEPS.load(Relaxed)
}

/// The running thread only reads volatile memory at these sites. What it waits for comes from other threads, so the
/// checker must know of these sites, and starts over.
pub(crate) fn spins(sites: &[u32]) -> ! {
    for site in sites {
        step_notes::write_at(kind::SPINS, steps::thread(running::number()), 0, 0, *site);
    }
    session::end_at_once(exit::REDUNDANT)
}

/// Records that there were too many instructions to follow.
pub(crate) fn gave_up() {
    step_notes::write_at(kind::UNFOLLOWED, steps::thread(running::number()), 0, 0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(thread: u16, mask: u8, stores: bool, told: bool) -> Access {
        Access { thread, before_step: 0, issued: 0, mask, stores, told, site: 0 }
    }

    fn conflicts(words: &mut Words, access: Access) -> usize {
        let mut count = 0;
        words.add(0, access, |_| count += 1);
        count
    }

    #[test]
    fn only_stores_of_others_conflict() {
        let mut words = Words::default();
        assert_eq!(conflicts(&mut words, access(1, 0xff, true, false)), 0);
        assert_eq!(conflicts(&mut words, access(1, 0xff, false, false)), 0, "its own");
        assert_eq!(conflicts(&mut words, access(2, 0x0f, false, false)), 1);
        assert_eq!(conflicts(&mut words, access(3, 0xf0, false, false)), 1, "two that read");
        assert_eq!(conflicts(&mut words, access(3, 0x0f, true, false)), 3, "a store, and two that read");
    }

    #[test]
    fn what_the_exploration_knows_of_is_its_own_business() {
        let mut words = Words::default();
        conflicts(&mut words, access(1, 0xff, true, true));
        assert_eq!(conflicts(&mut words, access(2, 0xff, true, true)), 0);
        assert_eq!(conflicts(&mut words, access(1, 0xff, false, false)), 1);
    }

    #[test]
    fn other_bytes_and_what_is_forgotten_do_not_conflict() {
        let mut words = Words::default();
        conflicts(&mut words, access(1, 0x01, true, false));
        assert_eq!(conflicts(&mut words, access(2, 0x02, true, false)), 0);
        words.forget(0..1);
        assert_eq!(conflicts(&mut words, access(3, 0xff, true, false)), 0);
    }
}
