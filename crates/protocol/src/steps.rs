//! What a schedule is made of: the decisions that a run follows, and what each of its steps did.
//!
//! With [`schedule::DECISIONS`](crate::schedule::DECISIONS) the checker says which actor steps next, as far as its list
//! goes. An *actor* is a thread, or one store that waits in a thread's buffer: draining it is a step of its own. After the
//! list the run goes on by itself, but takes no step of an actor that sleeps: one whose next step was explored before and
//! has not been disturbed since (sleep sets; Godefroid). The run notes every step and what it accessed, good enough to
//! tell which steps depend on each other.

/// An actor: a thread (low 16 bits), or with a number above that, counted from 1, an instruction that it issued and that
/// waits in its store buffer. Two more are chosen only if that was decided: which of several waiting threads a thread wakes,
/// and that a thread wakes up without a signal.
pub type Actor = u64;

const CHOICE: Actor = 1 << 63;
const SPURIOUS: Actor = 1 << 62;

/// A thread wakes this one of several that wait for the same.
pub const fn choice(number: u16, woken: u16) -> Actor {
    CHOICE | (woken as Actor) << 16 | number as Actor
}

/// Is it a choice of who is woken?
pub const fn is_choice(actor: Actor) -> bool {
    actor & CHOICE != 0
}

/// Whom a choice wakes.
pub const fn woken_by(choice: Actor) -> u16 {
    (choice >> 16) as u16
}

/// A thread that waits for a condition wakes up spuriously.
pub const fn spurious(number: u16) -> Actor {
    SPURIOUS | number as Actor
}

/// Is it a thread that wakes up without a signal?
pub const fn is_spurious(actor: Actor) -> bool {
    actor & SPURIOUS != 0
}

/// A thread as an actor.
pub const fn thread(number: u16) -> Actor {
    number as Actor
}

/// An instruction in a thread's buffer as an actor.
pub const fn entry(number: u16, issued: u64) -> Actor {
    number as Actor | issued << 16
}

/// The thread that an actor belongs to.
pub const fn thread_of(actor: Actor) -> u16 {
    actor as u16
}

/// Is it a waiting instruction rather than a thread?
pub const fn is_entry(actor: Actor) -> bool {
    actor >> 16 != 0 && actor & (CHOICE | SPURIOUS) == 0
}

/// Kinds of [`Note`].
pub mod kind {
    /// A step of `actor` begins.
    pub const STEP: u32 = 0;
    /// When the step began, this actor could have stepped as well.
    pub const ENABLED: u32 = 1;
    /// `bytes` at `address` are read.
    pub const READ: u32 = 2;
    /// They are written.
    pub const WRITE: u32 = 3;
    /// A write-back of the line at `address` takes effect: which stores it covers depends on the order.
    pub const FLUSH: u32 = 4;
    /// An unspecified operation on the object at `address`: conflicts with every other one.
    pub const SYNC: u32 = 5;
    /// The lock at `address` is taken by one that waited until it could be.
    pub const ACQUIRE: u32 = 6;
    /// The lock at `address` is given back.
    pub const RELEASE: u32 = 7;
    /// The thread issued an instruction that waits: `address` is the actor.
    pub const ISSUED: u32 = 8;
    /// An instruction that waited takes effect: `address` is the actor, `record` the index of its record.
    pub const EFFECT: u32 = 9;
    /// The thread `address` can run from here on: it was created, or had waited for this.
    pub const ENABLES: u32 = 10;
    /// Everything that the thread had issued has taken effect.
    pub const FENCED: u32 = 11;
    /// The thread found that the thread `address` has ended.
    pub const JOINED: u32 = 12;
    /// The thread continued spinning although nothing it had read has changed: no other thread could run.
    pub const RETRIED: u32 = 13;
    /// A timeout fired because no other thread could run.
    pub const TIMED_OUT: u32 = 14;
    /// A thread accessed volatile memory unseen by the exploration, at the site, before the first of its steps from the one
    /// numbered `bytes` on, and before every instruction that it issued after the one numbered `address`. The next note
    /// says who accessed the same.
    pub const UNSEEN_FIRST: u32 = 15;
    /// This thread did so in the present step, at the site: after what the step accesses if `bytes` is 1. One of the two
    /// stores.
    pub const UNSEEN_SECOND: u32 = 16;
    /// The thread comes back to the same state again and again and reads volatile memory at the site, unseen by the
    /// exploration: it waits for another one. The run ends.
    pub const SPINS: u32 = 18;
    /// From here on, accesses of volatile memory are not followed: there were too many.
    pub const UNFOLLOWED: u32 = 17;
}

/// Something that a run notes about its steps, or the checker about a step that sleeps.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// See [`kind`].
    pub address: u64,
    /// Who did it.
    pub actor: Actor,
    /// How many bytes, for accesses.
    pub bytes: u32,
    /// Length of the trace at that moment.
    pub record: u32,
    /// See [`kind`].
    pub kind: u32,
    /// The site of an access; 0 if that is not known.
    pub site: u32,
}

impl Note {
    /// A note.
    pub const fn new(kind: u32, actor: Actor, address: u64, bytes: u32, record: u32) -> Note {
        Note { address, actor, bytes, record, kind, site: 0 }
    }

    /// The same, of an access at this site.
    pub const fn at(self, site: u32) -> Note {
        Note { site, ..self }
    }

    /// A note of an access.
    pub const fn of(actor: Actor, access: &Access) -> Note {
        let kind = match access.kind {
            AccessKind::Read => kind::READ,
            AccessKind::Write => kind::WRITE,
            AccessKind::Flush => kind::FLUSH,
            AccessKind::Sync => kind::SYNC,
            AccessKind::Acquire => kind::ACQUIRE,
            AccessKind::Release => kind::RELEASE,
        };
        Note::new(kind, actor, access.address, access.bytes, 0)
    }

    /// The access that it describes, if any.
    pub fn access(&self) -> Option<Access> {
        let kind = match self.kind {
            kind::READ => AccessKind::Read,
            kind::WRITE => AccessKind::Write,
            kind::FLUSH => AccessKind::Flush,
            kind::SYNC => AccessKind::Sync,
            kind::ACQUIRE => AccessKind::Acquire,
            kind::RELEASE => AccessKind::Release,
            _ => return None,
        };
        Some(Access { kind, address: self.address, bytes: self.bytes })
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Writes a line back.
    Flush,
    /// Does something to an object.
    Sync,
    /// Takes a lock.
    Acquire,
    /// Gives a lock back.
    Release,
}

/// What a step did to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// What.
    pub kind: AccessKind,
    /// First byte, or the object.
    pub address: u64,
    /// How many bytes; 0 for objects.
    pub bytes: u32,
}

impl Access {
    /// An access of bytes.
    pub const fn new(kind: AccessKind, address: u64, bytes: u32) -> Access {
        Access { kind, address, bytes }
    }

    /// Does the order of the two matter?
    pub fn conflicts(&self, other: &Access) -> bool {
        use AccessKind::{Acquire, Flush, Read, Release, Sync, Write};
        let objects = |kind| matches!(kind, Sync | Acquire | Release);
        match (self.kind, other.kind) {
            (Read | Flush, Read | Flush) => false,
            (one, two) if objects(one) != objects(two) => false,
            (one, _) if objects(one) => self.address == other.address,
            // One of them writes.
            _ => {
                debug_assert!(self.kind == Write || other.kind == Write);
                self.address < other.address + u64::from(other.bytes)
                    && other.address < self.address + u64::from(self.bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_of_the_same_bytes_conflict() {
        let read = Access::new(AccessKind::Read, 8, 8);
        let write = |address| Access::new(AccessKind::Write, address, 4);
        assert!(read.conflicts(&write(12)) && write(8).conflicts(&write(10)));
        assert!(!read.conflicts(&read) && !read.conflicts(&write(16)) && !read.conflicts(&write(4)));
        let flush = Access::new(AccessKind::Flush, 0, 64);
        assert!(flush.conflicts(&write(60)) && !flush.conflicts(&read) && !flush.conflicts(&flush));
    }

    #[test]
    fn objects_conflict_with_objects() {
        let lock = Access::new(AccessKind::Acquire, 8, 0);
        assert!(lock.conflicts(&lock) && lock.conflicts(&Access::new(AccessKind::Release, 8, 0)));
        assert!(lock.conflicts(&Access::new(AccessKind::Sync, 8, 0)));
        assert!(!lock.conflicts(&Access::new(AccessKind::Write, 8, 8)));
    }

    #[test]
    fn actors_are_threads_and_what_they_issued() {
        assert!(!is_entry(thread(7)) && is_entry(entry(7, 1)));
        assert_eq!(thread_of(entry(7, 300)), 7);
        let (woken, alone) = (choice(7, 3), spurious(7));
        assert!(is_choice(woken) && !is_choice(alone) && is_spurious(alone) && !is_spurious(woken));
        assert!(!is_entry(woken) && !is_entry(alone) && !is_choice(entry(7, 300)));
        assert_eq!((thread_of(woken), woken_by(woken), thread_of(alone)), (7, 3, 7));
    }
}
