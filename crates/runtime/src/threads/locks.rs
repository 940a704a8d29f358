//! The state of synchronization objects: plain data by address, outside the program's bytes.
//!
//! Idle objects are forgotten, so that reusing their memory for something else carries no stale state over. How objects
//! were initialized, and the state a crash left those in PM in, is read from their bytes by the functions of
//! `pthreads`.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;

use super::exploration::Lock;
use super::scheduler::{Class, Key};
use crate::cell::RunningThreadCell;

static LOCKS: RunningThreadCell<Locks> = RunningThreadCell::new(Locks::new());

/// Gives access to the state of all objects; must not be held across a switch.
pub(crate) fn with<R>(access: impl FnOnce(&mut Locks) -> R) -> R {
    LOCKS.with(access)
}

/// The owner of a lock that was held at the crash: no thread of this run.
pub(crate) const BEFORE_THE_CRASH: u16 = u16::MAX;

/// All objects with state.
pub(crate) struct Locks {
    mutexes: BTreeMap<u64, Mutex>,
    rw_locks: BTreeMap<u64, RwLock>,
    barriers: BTreeMap<u64, Barrier>,
    onces: BTreeMap<u64, Once>,
    semaphores: BTreeMap<u64, u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MutexKind {
    Normal,
    Recursive,
    ErrorCheck,
}

impl MutexKind {
    pub(crate) fn of(kind: c_int) -> MutexKind {
        match kind {
            libc::PTHREAD_MUTEX_RECURSIVE => MutexKind::Recursive,
            libc::PTHREAD_MUTEX_ERRORCHECK => MutexKind::ErrorCheck,
            _ => MutexKind::Normal,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Mutex {
    kind: MutexKind,
    robust: bool,
    owner: Option<u16>,
    depth: u32,
    health: Health,
}

/// Robust mutexes remember that an owner died.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Consistent,
    OwnerDied,
    /// The new owner knows, and has not repaired it yet.
    Inconsistent,
    NotRecoverable,
}

/// The result of trying to take a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// The thread now holds it; the result to return.
    Taken(c_int),
    /// The thread already held it.
    Nested,
    /// Held by another thread, or by the thread itself where that is an error.
    Busy,
    /// Waiting would not help.
    Refused(c_int),
}

/// The result of releasing a mutex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// The thread still holds it.
    Nested,
    /// It is free: one of the waiting threads may have it.
    Free,
    /// It can never be taken again: all waiting threads must learn that.
    Lost,
}

impl Mutex {
    pub(crate) fn new(kind: MutexKind, robust: bool) -> Mutex {
        Mutex { kind, robust, owner: None, depth: 0, health: Health::Consistent }
    }

    /// A mutex that no thread will ever release: the kernel frees even robust ones only while it runs.
    pub(crate) fn held_before_the_crash(self) -> Mutex {
        Mutex { owner: Some(BEFORE_THE_CRASH), depth: 1, ..self }
    }

    fn take(&mut self, me: u16) -> Attempt {
        match self.owner {
            Some(owner) if owner == me && self.kind == MutexKind::Recursive => {
                self.depth += 1;
                return Attempt::Nested;
            }
            Some(_) => return Attempt::Busy,
            None if self.health == Health::NotRecoverable => {
                return Attempt::Refused(libc::ENOTRECOVERABLE);
            }
            None => {}
        }
        self.owner = Some(me);
        self.depth = 1;
        if self.health == Health::OwnerDied {
            self.health = Health::Inconsistent;
            return Attempt::Taken(libc::EOWNERDEAD);
        }
        Attempt::Taken(0)
    }

    /// Would waiting for it wait forever, and must the thread be notified?
    fn deadlocks(&self, me: u16) -> bool {
        self.owner == Some(me) && self.kind == MutexKind::ErrorCheck
    }

    fn release(&mut self, me: u16) -> Result<Release, c_int> {
        let checked = self.kind != MutexKind::Normal || self.robust;
        if checked && self.owner != Some(me) {
            return Err(libc::EPERM);
        }
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 {
            return Ok(Release::Nested);
        }
        self.owner = None;
        if self.health == Health::Inconsistent {
            self.health = Health::NotRecoverable;
            return Ok(Release::Lost);
        }
        Ok(Release::Free)
    }
}

/// A read-write lock. A spin lock is one without readers.
#[derive(Clone, Copy, Default)]
pub(crate) struct RwLock {
    writer: Option<u16>,
    readers: u32,
}

impl RwLock {
    /// The state a crash left it in.
    pub(crate) fn held_before_the_crash(written: bool, readers: u32) -> RwLock {
        RwLock { writer: written.then_some(BEFORE_THE_CRASH), readers }
    }
}

/// How to take a read-write lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A barrier: required threads, arrived threads, number of openings.
#[derive(Clone, Copy)]
struct Barrier {
    wanted: u32,
    came: u32,
    opened: u64,
}

/// A `pthread_once` in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Once {
    Running,
}

impl Locks {
    const fn new() -> Locks {
        Locks {
            mutexes: BTreeMap::new(),
            rw_locks: BTreeMap::new(),
            barriers: BTreeMap::new(),
            onces: BTreeMap::new(),
            semaphores: BTreeMap::new(),
        }
    }

    /// Has the mutex been seen in this run?
    pub(crate) fn knows_mutex(&self, address: u64) -> bool {
        self.mutexes.contains_key(&address)
    }

    /// What releasing a mutex would do, if its state is known.
    pub(crate) fn mutex_release(&self, address: u64, me: u16) -> Option<Result<Release, c_int>> {
        self.mutexes.get(&address).map(|mutex| {
            let mut copy = *mutex;
            copy.release(me)
        })
    }

    pub(crate) fn forget_mutex(&mut self, address: u64) {
        self.mutexes.remove(&address);
    }

    pub(crate) fn destroy_mutex(&mut self, address: u64) -> c_int {
        if self.mutexes.get(&address).is_some_and(|mutex| mutex.owner.is_some()) {
            return libc::EBUSY;
        }
        self.forget_mutex(address);
        0
    }

    /// Tries to take a mutex; `fresh` is its initial state if it has not been seen.
    pub(crate) fn take_mutex(&mut self, address: u64, me: u16, fresh: impl FnOnce() -> Mutex) -> Attempt {
        self.mutexes.entry(address).or_insert_with(fresh).take(me)
    }

    /// Does the thread hold it already, and does its kind detect that?
    pub(crate) fn mutex_deadlocks(&self, address: u64, me: u16) -> bool {
        self.mutexes.get(&address).is_some_and(|mutex| mutex.deadlocks(me))
    }

    /// Releases a mutex, and forgets it if it is idle.
    pub(crate) fn release_mutex(
        &mut self,
        address: u64,
        me: u16,
        fresh: impl FnOnce() -> Mutex,
    ) -> Result<Release, c_int> {
        let mutex = self.mutexes.entry(address).or_insert_with(fresh);
        let release = mutex.release(me)?;
        if release == Release::Free && mutex.health == Health::Consistent {
            self.forget_mutex(address);
        }
        Ok(release)
    }

    /// `pthread_mutex_consistent`.
    pub(crate) fn make_consistent(&mut self, address: u64) -> c_int {
        match self.mutexes.get_mut(&address) {
            Some(mutex) if mutex.health == Health::Inconsistent => {
                mutex.health = Health::Consistent;
                0
            }
            _ => libc::EINVAL,
        }
    }

    /// A thread ends: robust mutexes it holds become available, others are lost forever. Returns the former.
    pub(crate) fn owner_died(&mut self, thread: u16) -> Vec<Key> {
        let held = |mutex: &&mut Mutex| mutex.owner == Some(thread) && mutex.robust;
        let held = self
            .mutexes
            .iter_mut()
            .map(|(&address, mutex)| (address, mutex))
            .filter(|(_, mutex)| held(mutex));
        held.map(|(address, mutex)| {
            (mutex.owner, mutex.depth, mutex.health) = (None, 0, Health::OwnerDied);
            Key { class: Class::Mutex, address }
        })
        .collect()
    }

    /// Could a thread take it now, or find out that it never can?
    pub(crate) fn is_available(&self, lock: Lock, me: u16) -> bool {
        match lock {
            Lock::Mutex(address) => self.mutexes.get(&address).is_none_or(|mutex| {
                mutex.owner.is_none() || mutex.owner == Some(me) && mutex.kind != MutexKind::Normal
            }),
            Lock::Shared(address) => {
                self.rw_locks.get(&address).is_none_or(|lock| lock.writer.is_none_or(|writer| writer == me))
            }
            Lock::Exclusive(address) => self
                .rw_locks
                .get(&address)
                .is_none_or(|lock| lock.readers == 0 && lock.writer.is_none_or(|writer| writer == me)),
            Lock::Semaphore(address) => self.semaphores.get(&address).is_none_or(|value| *value > 0),
        }
    }

    /// The owner, if known.
    pub(crate) fn owner(&self, key: Key) -> Option<u16> {
        match key.class {
            Class::Mutex => self.mutexes.get(&key.address)?.owner,
            Class::RwLock | Class::SpinLock => self.rw_locks.get(&key.address)?.writer,
            _ => None,
        }
    }

    pub(crate) fn forget_rw(&mut self, address: u64) {
        self.rw_locks.remove(&address);
    }

    pub(crate) fn rw_is_held(&self, address: u64) -> bool {
        self.rw_locks.contains_key(&address)
    }

    /// Has the read-write lock or spin lock been seen in this run?
    pub(crate) fn knows_rw(&self, address: u64) -> bool {
        self.rw_locks.contains_key(&address)
    }

    /// Tries to take a read-write lock; `fresh` is its initial state if it has not been seen.
    pub(crate) fn take_rw(&mut self, address: u64, me: u16, access: Access, fresh: RwLock) -> Attempt {
        let lock = self.rw_locks.entry(address).or_insert(fresh);
        match access {
            _ if lock.writer.is_some() => return Attempt::Busy,
            Access::Read => lock.readers += 1,
            Access::Write if lock.readers > 0 => return Attempt::Busy,
            Access::Write => lock.writer = Some(me),
        }
        Attempt::Taken(0)
    }

    /// Releases a read-write lock; `None` if it was not held, otherwise whether it is now free.
    pub(crate) fn release_rw(&mut self, address: u64) -> Option<bool> {
        let lock = self.rw_locks.get_mut(&address)?;
        if lock.writer.take().is_none() {
            lock.readers = lock.readers.saturating_sub(1);
        }
        let free = lock.readers == 0;
        if free {
            self.forget_rw(address);
        }
        Some(free)
    }

    pub(crate) fn set_barrier(&mut self, address: u64, wanted: u32) {
        self.barriers.insert(address, Barrier { wanted, came: 0, opened: 0 });
    }

    pub(crate) fn destroy_barrier(&mut self, address: u64) -> c_int {
        if self.barriers.get(&address).is_some_and(|barrier| barrier.came > 0) {
            return libc::EBUSY;
        }
        self.barriers.remove(&address);
        0
    }

    /// A thread arrives at a barrier: `None` if that opens it, otherwise the round whose end it must wait for.
    pub(crate) fn arrive(&mut self, address: u64, fresh: impl FnOnce() -> (u32, u32)) -> Option<u64> {
        let barrier = self.barriers.entry(address).or_insert_with(|| {
            let (wanted, came) = fresh();
            Barrier { wanted: wanted.max(1), came, opened: 0 }
        });
        barrier.came += 1;
        if barrier.came < barrier.wanted {
            return Some(barrier.opened);
        }
        barrier.came = 0;
        barrier.opened += 1;
        None
    }

    /// The number of threads that have arrived at a barrier since it last opened.
    pub(crate) fn came(&self, address: u64) -> u32 {
        self.barriers.get(&address).map_or(0, |barrier| barrier.came)
    }

    pub(crate) fn knows_barrier(&self, address: u64) -> bool {
        self.barriers.contains_key(&address)
    }

    pub(crate) fn is_closed(&self, address: u64, round: u64) -> bool {
        self.barriers.get(&address).is_some_and(|barrier| barrier.opened == round)
    }

    pub(crate) fn once(&self, address: u64) -> Option<Once> {
        self.onces.get(&address).copied()
    }

    pub(crate) fn set_once(&mut self, address: u64, once: Option<Once>) {
        match once {
            Some(once) => self.onces.insert(address, once),
            None => self.onces.remove(&address),
        };
    }

    pub(crate) fn knows_semaphore(&self, address: u64) -> bool {
        self.semaphores.contains_key(&address)
    }

    pub(crate) fn set_semaphore(&mut self, address: u64, value: u32) {
        self.semaphores.insert(address, value);
    }

    pub(crate) fn forget_semaphore(&mut self, address: u64) {
        self.semaphores.remove(&address);
    }

    /// The value of a semaphore; `fresh` is its initial value if it has not been seen.
    pub(crate) fn semaphore(&mut self, address: u64, fresh: impl FnOnce() -> u32) -> &mut u32 {
        self.semaphores.entry(address).or_insert_with(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal() -> Mutex {
        Mutex::new(MutexKind::Normal, false)
    }

    #[test]
    fn a_mutex_has_one_owner() {
        let mut locks = Locks::new();
        assert_eq!(locks.take_mutex(8, 1, normal), Attempt::Taken(0));
        assert_eq!(locks.take_mutex(8, 2, normal), Attempt::Busy);
        assert_eq!(locks.take_mutex(8, 1, normal), Attempt::Busy);
        assert_eq!(locks.owner(Key { class: Class::Mutex, address: 8 }), Some(1));
        assert_eq!(locks.destroy_mutex(8), libc::EBUSY);
        assert_eq!(locks.release_mutex(8, 1, normal), Ok(Release::Free));
        assert!(locks.mutexes.is_empty(), "one that rests is forgotten");
    }

    #[test]
    fn kinds_of_mutexes() {
        let mut locks = Locks::new();
        locks.mutexes.insert(8, Mutex::new(MutexKind::Recursive, false));
        assert_eq!(locks.take_mutex(8, 1, normal), Attempt::Taken(0));
        assert_eq!(locks.take_mutex(8, 1, normal), Attempt::Nested);
        assert_eq!(locks.release_mutex(8, 2, normal), Err(libc::EPERM));
        assert_eq!(locks.release_mutex(8, 1, normal), Ok(Release::Nested));
        assert_eq!(locks.release_mutex(8, 1, normal), Ok(Release::Free));
        locks.mutexes.insert(8, Mutex::new(MutexKind::ErrorCheck, false));
        assert_eq!(locks.take_mutex(8, 1, normal), Attempt::Taken(0));
        assert!(locks.mutex_deadlocks(8, 1) && !locks.mutex_deadlocks(8, 2));
    }

    #[test]
    fn robust_mutexes_survive_their_owner() {
        let mut locks = Locks::new();
        locks.mutexes.insert(8, Mutex::new(MutexKind::Normal, true));
        locks.take_mutex(8, 1, normal);
        locks.take_mutex(16, 1, normal);
        assert_eq!(locks.owner_died(1), [Key { class: Class::Mutex, address: 8 }]);
        assert_eq!(locks.take_mutex(8, 2, normal), Attempt::Taken(libc::EOWNERDEAD));
        assert_eq!(locks.make_consistent(8), 0);
        assert_eq!(locks.make_consistent(8), libc::EINVAL);
        locks.owner_died(2);
        locks.take_mutex(8, 3, normal);
        assert_eq!(locks.release_mutex(8, 3, normal), Ok(Release::Lost));
        assert_eq!(locks.take_mutex(8, 3, normal), Attempt::Refused(libc::ENOTRECOVERABLE));
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut locks = Locks::new();
        assert_eq!(locks.take_rw(8, 1, Access::Read, RwLock::default()), Attempt::Taken(0));
        assert_eq!(locks.take_rw(8, 2, Access::Read, RwLock::default()), Attempt::Taken(0));
        assert_eq!(locks.take_rw(8, 3, Access::Write, RwLock::default()), Attempt::Busy);
        assert_eq!(locks.release_rw(8), Some(false));
        assert_eq!(locks.release_rw(8), Some(true));
        assert_eq!(locks.release_rw(8), None);
        assert_eq!(locks.take_rw(8, 3, Access::Write, RwLock::default()), Attempt::Taken(0));
        assert_eq!(locks.take_rw(8, 1, Access::Read, RwLock::default()), Attempt::Busy);
        assert!(locks.rw_is_held(8));
    }

    #[test]
    fn barriers_open_for_the_last() {
        let mut locks = Locks::new();
        locks.set_barrier(8, 2);
        assert_eq!(locks.arrive(8, || (9, 0)), Some(0));
        assert!(locks.is_closed(8, 0));
        assert_eq!(locks.destroy_barrier(8), libc::EBUSY);
        assert_eq!(locks.arrive(8, || (9, 0)), None);
        assert!(!locks.is_closed(8, 0));
        assert_eq!(locks.arrive(16, || (0, 0)), None, "one that wants nobody");
    }
}
