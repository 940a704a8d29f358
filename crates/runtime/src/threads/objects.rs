//! What synchronisation objects hold.
//!
//! The state is kept beside the program's bytes, by address: objects may lie in PM, whose bytes are recorded
//! and come back after a crash, while locks do not. An object in PM that was not initialised in this run is
//! as good as new. Objects in volatile memory that rest are forgotten, so that memory which is used again
//! for something else brings no old state along; how they were initialised is read from their bytes.

use std::collections::BTreeMap;
use std::ffi::c_int;

use super::order;

use super::scheduler::{CURRENT, Class, Key, Woken, block, wake_all, wake_one};

/// All objects that hold something, or that were initialised in PM.
static mut MUTEXES: BTreeMap<u64, Mutex> = BTreeMap::new();
static mut RW_LOCKS: BTreeMap<u64, RwLock> = BTreeMap::new();
static mut CLOCKS: BTreeMap<u64, c_int> = BTreeMap::new();

fn is_volatile(address: u64) -> bool {
    !crashproof_protocol::abi::is_pm(address)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MutexKind {
    Normal,
    Recursive,
    ErrorCheck,
}

impl MutexKind {
    pub(super) fn of(kind: c_int) -> MutexKind {
        match kind {
            libc::PTHREAD_MUTEX_RECURSIVE => MutexKind::Recursive,
            libc::PTHREAD_MUTEX_ERRORCHECK => MutexKind::ErrorCheck,
            _ => MutexKind::Normal,
        }
    }
}

#[derive(Clone, Copy)]
struct Mutex {
    kind: MutexKind,
    robust: bool,
    owner: Option<u16>,
    depth: u32,
    state: Health,
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

impl Mutex {
    fn new(kind: MutexKind, robust: bool) -> Mutex {
        Mutex { kind, robust, owner: None, depth: 0, state: Health::Consistent }
    }

    /// A mutex as its bytes say it was initialised: glibc keeps the kind at offset 16.
    unsafe fn from_bytes(address: u64) -> Mutex {
        const ROBUST: u32 = 16;
        let kind = ((address + 16) as *const u32).read_unaligned();
        Mutex::new(MutexKind::of((kind & 3) as c_int), kind & ROBUST != 0)
    }
}

unsafe fn mutex(address: u64) -> &'static mut Mutex {
    MUTEXES.entry(address).or_insert_with(|| {
        if is_volatile(address) { Mutex::from_bytes(address) } else { Mutex::new(MutexKind::Normal, false) }
    })
}

fn mutex_key(address: u64) -> Key {
    Key { class: Class::Mutex, address }
}

/// `pthread_mutex_init`.
pub(super) unsafe fn mutex_init(address: u64, kind: MutexKind, robust: bool) {
    if is_volatile(address) {
        MUTEXES.remove(&address);
    } else {
        MUTEXES.insert(address, Mutex::new(kind, robust));
    }
}

pub(super) unsafe fn mutex_destroy(address: u64) -> c_int {
    match MUTEXES.get(&address) {
        Some(mutex) if mutex.owner.is_some() => libc::EBUSY,
        _ => {
            MUTEXES.remove(&address);
            0
        }
    }
}

/// Takes the mutex if it is free; `EBUSY` if not.
pub(super) unsafe fn mutex_try(address: u64) -> c_int {
    let me = CURRENT;
    let mutex = mutex(address);
    match mutex.owner {
        None => match mutex.state {
            Health::NotRecoverable => libc::ENOTRECOVERABLE,
            Health::Consistent | Health::Inconsistent => {
                mutex.owner = Some(me);
                mutex.depth = 1;
                order::synchronised(address);
                0
            }
            Health::OwnerDied => {
                mutex.owner = Some(me);
                mutex.depth = 1;
                mutex.state = Health::Inconsistent;
                order::synchronised(address);
                libc::EOWNERDEAD
            }
        },
        Some(owner) if owner == me && mutex.kind == MutexKind::Recursive => {
            mutex.depth += 1;
            0
        }
        Some(_) => libc::EBUSY,
    }
}

/// Takes the mutex, waits for it if need be.
pub(super) unsafe fn mutex_lock(address: u64, deadline: Option<u64>) -> c_int {
    loop {
        let result = mutex_try(address);
        if result != libc::EBUSY {
            return result;
        }
        let mutex = mutex(address);
        if mutex.owner == Some(CURRENT) && mutex.kind == MutexKind::ErrorCheck {
            return libc::EDEADLK;
        }
        if block(mutex_key(address), deadline) == Woken::TimedOut {
            return libc::ETIMEDOUT;
        }
    }
}

pub(super) unsafe fn mutex_unlock(address: u64) -> c_int {
    let mutex = mutex(address);
    let checked = mutex.kind != MutexKind::Normal || mutex.robust;
    if checked && mutex.owner != Some(CURRENT) {
        return libc::EPERM;
    }
    mutex.depth = mutex.depth.saturating_sub(1);
    if mutex.depth > 0 {
        return 0;
    }
    mutex.owner = None;
    order::synchronised(address);
    if mutex.state == Health::Inconsistent {
        mutex.state = Health::NotRecoverable;
        wake_all(mutex_key(address));
        return 0;
    }
    if is_volatile(address) && mutex.state == Health::Consistent {
        MUTEXES.remove(&address);
    }
    wake_one(mutex_key(address));
    0
}

/// `pthread_mutex_consistent`.
pub(super) unsafe fn mutex_consistent(address: u64) -> c_int {
    let mutex = mutex(address);
    if mutex.state != Health::Inconsistent {
        return libc::EINVAL;
    }
    mutex.state = Health::Consistent;
    0
}

/// A thread ends: robust mutexes it holds can be had, others are lost for ever.
pub(super) unsafe fn owner_died(thread: u16) {
    for (&address, mutex) in &mut MUTEXES {
        if mutex.owner == Some(thread) && mutex.robust {
            mutex.owner = None;
            mutex.depth = 0;
            mutex.state = Health::OwnerDied;
            wake_one(mutex_key(address));
        }
    }
}

/// Who holds it, if that can be said.
pub(super) unsafe fn owner(key: Key) -> Option<u16> {
    match key.class {
        Class::Mutex => MUTEXES.get(&key.address)?.owner,
        Class::RwLock | Class::SpinLock => RW_LOCKS.get(&key.address)?.writer,
        _ => None,
    }
}

/// A read-write lock; a spin lock is one that nobody reads under.
#[derive(Clone, Copy, Default)]
struct RwLock {
    writer: Option<u16>,
    readers: u32,
}

/// How to take a read-write lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

pub(super) unsafe fn rw_init(address: u64) {
    RW_LOCKS.remove(&address);
}

pub(super) unsafe fn rw_destroy(address: u64) -> c_int {
    if RW_LOCKS.contains_key(&address) { libc::EBUSY } else { 0 }
}

pub(super) unsafe fn rw_try(address: u64, access: Access) -> c_int {
    let lock = RW_LOCKS.entry(address).or_default();
    match access {
        _ if lock.writer.is_some() => libc::EBUSY,
        Access::Read => {
            lock.readers += 1;
            order::synchronised(address);
            0
        }
        Access::Write if lock.readers > 0 => libc::EBUSY,
        Access::Write => {
            lock.writer = Some(CURRENT);
            order::synchronised(address);
            0
        }
    }
}

pub(super) unsafe fn rw_lock(address: u64, access: Access, deadline: Option<u64>, class: Class) -> c_int {
    loop {
        let result = rw_try(address, access);
        if result != libc::EBUSY {
            return result;
        }
        let mine = RW_LOCKS.get(&address).is_some_and(|lock| lock.writer == Some(CURRENT));
        if mine && class == Class::RwLock {
            return libc::EDEADLK;
        }
        if block(Key { class, address }, deadline) == Woken::TimedOut {
            return libc::ETIMEDOUT;
        }
    }
}

pub(super) unsafe fn rw_unlock(address: u64, class: Class) {
    if let Some(lock) = RW_LOCKS.get_mut(&address) {
        order::synchronised(address);
        if lock.writer.take().is_none() {
            lock.readers -= 1;
        }
        if lock.readers == 0 {
            RW_LOCKS.remove(&address);
            wake_all(Key { class, address });
        }
    }
}

/// By which clock a condition variable's deadlines go: glibc keeps that at offset 36.
pub(super) unsafe fn condition_clock(address: u64) -> c_int {
    const MONOTONIC: u32 = 2;
    if is_volatile(address) {
        let flags = ((address + 36) as *const u32).read_unaligned();
        return if flags & MONOTONIC != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME };
    }
    CLOCKS.get(&address).copied().unwrap_or(libc::CLOCK_REALTIME)
}

pub(super) unsafe fn condition_init(address: u64, clock: c_int) {
    if !is_volatile(address) {
        CLOCKS.insert(address, clock);
    }
}
