//! Programs as the explorer sees them: threads that ask for memory operations one at a time.
//!
//! A subject computes without holding memory. It says what each thread wants to do next, receives the values of loads,
//! and can be copied, so that a choice can be tried both ways. A front end for real processes implements copying by
//! forking, or by running again with the same answers.

use px86::{Event, Site};

/// What a thread wants to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it has ended.
    Done,
    /// The program's own check failed at this site; the whole program stops.
    Failed(Site),
    /// Load `width` bytes, one line at most.
    Load {
        /// Where.
        address: u64,
        /// How much, 1 to 8 bytes.
        width: u8,
        /// By which instruction.
        site: Site,
    },
    /// A store, flush or fence. The tag names stores uniquely within the execution.
    Act {
        /// What to do.
        event: Event,
        /// The store's name.
        tag: u32,
    },
    /// A locked instruction: load and, perhaps, store in one step. See [`Subject::exchange`].
    Exchange {
        /// Where.
        address: u64,
        /// How much, 1 to 8 bytes.
        width: u8,
        /// By which instruction.
        site: Site,
        /// The store's name.
        tag: u32,
    },
}

/// A running program.
pub trait Subject: Clone {
    /// How many threads there are; they are numbered from 0.
    fn threads(&self) -> usize;

    /// What `thread` wants to do next. Asking changes nothing.
    fn next(&self, thread: usize) -> Next;

    /// What the next locked instruction stores, given the old value; `None` if it stores nothing.
    fn exchange(&self, thread: usize, old: u64) -> Option<u64>;

    /// Goes past what was next. `loaded` is the value loaded, for loads and locked instructions.
    fn advance(&mut self, thread: usize, loaded: u64);

    /// Appends bytes that determine everything the program may still do, so that the explorer can tell
    /// when it has been here before. False if there are none: then every schedule is explored for itself.
    fn key(&self, out: &mut Vec<u8>) -> bool;
}

/// Something that can be started, and started again after a crash.
pub trait Program {
    /// It, running.
    type Subject: Subject;

    /// Starts it after this many crashes: 0 is the first run, from 1 on it recovers. None if there is no recovery to
    /// run.
    fn start(&self, crashes: usize) -> Option<Self::Subject>;
}
