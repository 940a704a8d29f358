//! Locks in PM, stored to as glibc does.
//!
//! The state of a lock in this run is kept outside its bytes (see `threads::locks`), as for all locks. But a lock in PM
//! also survives a crash: if it was held, its bytes still say so, and no thread will ever release it. So taking and
//! releasing one are stores, and a lock that this run has not yet taken or initialized is in the state its bytes
//! describe. Offsets are those of glibc on x86-64.
//!
//! # Safety
//!
//! The program vouches that its pointers refer to such objects.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::is_pm;
use px86::Kind;

use crate::access;
use crate::c_library::memory::write;
use crate::callers::call_site;
use crate::cell::RunningThreadCell;
use crate::threads::locks::{Access, Mutex, MutexKind, Release, RwLock};
use crate::threads::memory::Atomic;
use crate::threads::running;

/// Locks in PM whose state this run knows, because it has taken or initialized them.
static KNOWN: RunningThreadCell<BTreeSet<u64>> = RunningThreadCell::new(BTreeSet::new());

fn is_known(address: u64) -> bool {
    KNOWN.with(|known| known.contains(&address))
}

fn set_known(address: u64) {
    KNOWN.with(|known| known.insert(address));
}

/// Begins the step that examines a lock's bytes and takes it, if there are several threads and the lock is in PM; in
/// volatile memory that is one step, too. The stores that follow are the thread's own steps: no other thread can have
/// the lock in the meantime.
pub(super) fn one_step(address: u64) -> Option<Atomic> {
    (is_pm(address) && running::concurrent()).then(Atomic::begin)
}

/// The owner that glibc stores in a lock: the thread id, as the program sees it.
fn owner() -> u32 {
    4242 + u32::from(running::number())
}

fn load(address: u64, offset: u64) -> u32 {
    // SAFETY: within the object.
    unsafe { access::load(address + offset, 4, call_site()) as u32 }
}

fn store(address: u64, offset: u64, value: u32) {
    // SAFETY: within the object.
    unsafe { access::store(Kind::Store, address + offset, 4, value.into(), call_site()) };
}

/// A locked instruction on one word of a lock.
fn exchange(address: u64, offset: u64, change: impl Fn(u32) -> u32) {
    // SAFETY: within the object.
    unsafe { access::exchange(address + offset, 4, call_site(), |old| Some(change(old as u32).into())) };
}

/// Initializes an object in PM: `init` is the C library's function, which touches the first `N` bytes.
pub(super) fn initialize<const N: usize>(
    object: *mut c_void,
    init: impl FnOnce(*mut c_void) -> c_int,
) -> c_int {
    // With the largest alignment among them.
    let mut words = [[0u64; 8]; 1];
    let here = words.as_mut_ptr().cast::<c_void>();
    const { assert!(N <= 64) };
    let result = init(here);
    // SAFETY: the caller vouches for the object, which is that large.
    unsafe { write(object, here, N, call_site()) };
    set_known(object as u64);
    result
}

const LOCK: u64 = 0;
const COUNT: u64 = 4;
const OWNER: u64 = 8;
const USERS: u64 = 12;
const KIND: u64 = 16;
const ROBUST: u32 = 16;

/// The state of a mutex not seen before, from its bytes.
pub(super) fn mutex(address: u64) -> Mutex {
    let kind = load(address, KIND);
    let mutex = Mutex::new(MutexKind::of((kind & 3) as c_int), kind & ROBUST != 0);
    if is_known(address) || load(address, LOCK) == 0 { mutex } else { mutex.held_before_the_crash() }
}

/// Stores to a mutex in PM that it was taken.
pub(super) fn mutex_taken(address: u64) {
    set_known(address);
    let kind = load(address, KIND);
    let held = if kind & ROBUST != 0 { owner() } else { 1 };
    exchange(address, LOCK, |_| held);
    store(address, OWNER, owner());
    if kind & 3 == libc::PTHREAD_MUTEX_RECURSIVE as u32 {
        store(address, COUNT, 1);
    }
    let users = load(address, USERS);
    store(address, USERS, users.wrapping_add(1));
}

/// Stores to a mutex in PM that its holder took it again.
pub(super) fn mutex_nested(address: u64) {
    let count = load(address, COUNT);
    store(address, COUNT, count.wrapping_add(1));
}

/// Stores to a mutex in PM that it is released.
pub(super) fn mutex_released(address: u64, release: Release) {
    set_known(address);
    if load(address, KIND) & 3 == libc::PTHREAD_MUTEX_RECURSIVE as u32 {
        let count = load(address, COUNT);
        store(address, COUNT, count.saturating_sub(1));
    }
    if release != Release::Nested {
        store(address, OWNER, 0);
        let users = load(address, USERS);
        store(address, USERS, users.saturating_sub(1));
        exchange(address, LOCK, |_| 0);
    }
}

const READERS: u64 = 0;
const WRITER: u64 = 24;
/// Bits of the first word of a read-write lock; the number of readers is above them.
const WRITE_PHASE: u32 = 1;
const WRITE_LOCKED: u32 = 2;
const ONE_READER: u32 = 8;
/// The value of a free spin lock.
const FREE: u32 = 1;

/// The state of a read-write lock or spin lock not seen before, from its bytes.
pub(super) fn rw_lock(address: u64, is_spin_lock: bool) -> RwLock {
    if !is_pm(address) || is_known(address) {
        return RwLock::default();
    }
    let word = load(address, READERS);
    let held = if is_spin_lock { word != FREE } else { word & WRITE_LOCKED != 0 };
    let readers = if is_spin_lock { 0 } else { word / ONE_READER };
    RwLock::held_before_the_crash(held, readers)
}

pub(super) fn rw_taken(address: u64, is_spin_lock: bool, access: Access) {
    set_known(address);
    match access {
        _ if is_spin_lock => exchange(address, READERS, |_| FREE - 1),
        Access::Read => exchange(address, READERS, |word| (word & !WRITE_PHASE).wrapping_add(ONE_READER)),
        Access::Write => {
            exchange(address, READERS, |_| WRITE_PHASE | WRITE_LOCKED);
            store(address, WRITER, owner());
        }
    }
}

pub(super) fn rw_released(address: u64, is_spin_lock: bool) {
    set_known(address);
    if is_spin_lock {
        return store(address, READERS, FREE);
    }
    if load(address, READERS) & WRITE_LOCKED != 0 {
        store(address, WRITER, 0);
        exchange(address, READERS, |word| word & !WRITE_LOCKED);
    } else {
        exchange(address, READERS, |word| word.saturating_sub(ONE_READER));
    }
}

/// The value of a semaphore not seen before.
pub(super) fn semaphore(address: u64) -> u32 {
    load(address, 0)
}

/// Stores the new value of a semaphore in PM.
pub(super) fn set_semaphore(address: u64, value: impl Fn() -> u32) {
    set_known(address);
    exchange(address, 0, |_| value());
}

const WANTED: u64 = 8;

/// The number of threads a barrier waits for and the number that have arrived, from its bytes.
pub(super) fn barrier(address: u64) -> (u32, u32) {
    (load(address, WANTED), if is_known(address) { 0 } else { load(address, 0) })
}

/// Stores arrivals at a barrier in PM, or that it opened.
pub(super) fn set_barrier(address: u64, came: impl Fn() -> u32) {
    set_known(address);
    exchange(address, 0, |_| came());
}

/// The values glibc stores in a `pthread_once_t` while its function runs, and when it is done.
const ONCE_RUNNING: u32 = 1;
pub(super) const ONCE_DONE: u32 = 2;

/// Does a `pthread_once_t` say that its function has run?
pub(super) fn once_is_done(address: u64) -> bool {
    load(address, 0) == ONCE_DONE
}

/// Was its function running at the crash?
pub(super) fn once_was_running(address: u64) -> bool {
    !is_known(address) && load(address, 0) & ONCE_RUNNING != 0
}

pub(super) fn set_once(address: u64, running: bool, done: bool) {
    set_known(address);
    let word = if done { ONCE_DONE } else { u32::from(running) * ONCE_RUNNING };
    exchange(address, 0, |_| word);
}

/// The clock for the deadlines of a condition variable.
pub(super) fn condition_flags(address: u64) -> u32 {
    load(address, 36)
}
