//! What locks in PM hold: the words that glibc keeps in them, stored as it stores them.
//!
//! What is known of a lock in this run is beside its bytes (see `threads::locks`), as for all locks. But a lock in PM is
//! also what a crash leaves: the bytes of one that was held say that it is held, and nobody will ever let it go. So
//! taking one and letting it go are stores, and a lock that this run has not taken or initialized yet is what its
//! bytes say. Offsets are those of glibc on x86-64.
//!
//! # Safety
//!
//! The program says that there are such objects where it points to.

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

/// Locks in PM whose state this run knows, since it has taken or initialized them.
static KNOWN: RunningThreadCell<BTreeSet<u64>> = RunningThreadCell::new(BTreeSet::new());

fn is_known(address: u64) -> bool {
    KNOWN.with(|known| known.contains(&address))
}

fn set_known(address: u64) {
    KNOWN.with(|known| known.insert(address));
}

/// Looking at the bytes of a lock and taking it is one step, as it is for one in volatile memory: begins it, if there are
/// several threads and the lock is in PM. What taking it stores comes after: those are the thread's own steps, and nobody
/// else can have the lock meanwhile.
pub(super) fn one_step(address: u64) -> Option<Atomic> {
    (is_pm(address) && running::concurrent()).then(Atomic::begin)
}

/// What glibc puts where the owner of a lock is said: the number of the thread, as the program sees it.
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

/// A locked instruction on one word.
fn exchange(address: u64, offset: u64, change: impl Fn(u32) -> u32) {
    // SAFETY: within the object.
    unsafe { access::exchange(address + offset, 4, call_site(), |old| Some(change(old as u32).into())) };
}

/// An object in PM is initialized: `init` is what the C library does to it, and `bytes` how much of it that touches.
pub(super) fn initialize<const N: usize>(
    object: *mut c_void,
    init: impl FnOnce(*mut c_void) -> c_int,
) -> c_int {
    // Aligned as the largest of them.
    let mut words = [[0u64; 8]; 1];
    let here = words.as_mut_ptr().cast::<c_void>();
    const { assert!(N <= 64) };
    let result = init(here);
    // SAFETY: there is an object, which is that large.
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

/// A mutex of which nothing is known in this run, by its bytes.
pub(super) fn mutex(address: u64) -> Mutex {
    let kind = load(address, KIND);
    let mutex = Mutex::new(MutexKind::of((kind & 3) as c_int), kind & ROBUST != 0);
    if is_known(address) || load(address, LOCK) == 0 { mutex } else { mutex.held_before_the_crash() }
}

/// A mutex in PM was taken.
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

/// A mutex in PM was taken once more by the thread that holds it.
pub(super) fn mutex_nested(address: u64) {
    let count = load(address, COUNT);
    store(address, COUNT, count.wrapping_add(1));
}

/// A mutex in PM is let go.
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
/// What a spin lock holds when it is free.
const FREE: u32 = 1;

/// A read-write lock, or a spin lock, of which nothing is known in this run, by its bytes.
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

/// The value of a semaphore of which nothing is known in this run.
pub(super) fn semaphore(address: u64) -> u32 {
    load(address, 0)
}

/// A semaphore in PM has another value.
pub(super) fn set_semaphore(address: u64, value: impl Fn() -> u32) {
    set_known(address);
    exchange(address, 0, |_| value());
}

const WANTED: u64 = 8;

/// How many a barrier wants, and how many came, by its bytes.
pub(super) fn barrier(address: u64) -> (u32, u32) {
    (load(address, WANTED), if is_known(address) { 0 } else { load(address, 0) })
}

/// Threads came to a barrier in PM, or it opened.
pub(super) fn set_barrier(address: u64, came: impl Fn() -> u32) {
    set_known(address);
    exchange(address, 0, |_| came());
}

/// What glibc writes into a `pthread_once_t` while its function runs, and when it is done.
const ONCE_RUNNING: u32 = 1;
pub(super) const ONCE_DONE: u32 = 2;

/// Does a `pthread_once_t` say that its function has run?
pub(super) fn once_is_done(address: u64) -> bool {
    load(address, 0) == ONCE_DONE
}

/// Was its function running when the power failed?
pub(super) fn once_was_running(address: u64) -> bool {
    !is_known(address) && load(address, 0) & ONCE_RUNNING != 0
}

pub(super) fn set_once(address: u64, running: bool, done: bool) {
    set_known(address);
    let word = if done { ONCE_DONE } else { u32::from(running) * ONCE_RUNNING };
    exchange(address, 0, |_| word);
}

/// By which clock the deadlines of a condition variable go.
pub(super) fn condition_flags(address: u64) -> u32 {
    load(address, 36)
}
