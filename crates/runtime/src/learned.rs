//! Addresses that children report to their parent, so that later children need not rediscover them.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// Layout of the memory that children share with their parent.
struct Addresses {
    count: AtomicUsize,
    all: [AtomicUsize; 1024],
}

/// A list of addresses; those that do not fit are dropped.
pub(crate) struct Learned(AtomicPtr<Addresses>);

impl Learned {
    pub(crate) const fn new() -> Learned {
        Learned(AtomicPtr::new(null_mut()))
    }

    /// Maps the memory; called once, before children are forked.
    pub(crate) fn prepare(&self) {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping of zeros, which is an empty list.
        let shared = unsafe { libc::mmap(null_mut(), size_of::<Addresses>(), rights, flags, -1, 0) };
        if shared != libc::MAP_FAILED {
            self.0.store(shared.cast(), Relaxed);
        }
    }

    fn addresses(&self) -> Option<&'static Addresses> {
        // SAFETY: null, or shared memory that is never unmapped.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.addresses().is_some()
    }

    /// In a child: adds an address.
    pub(crate) fn push(&self, address: usize) {
        if let Some(addresses) = self.addresses()
            && let Some(slot) = addresses.all.get(addresses.count.fetch_add(1, Relaxed))
        {
            slot.store(address, Relaxed);
        }
    }

    /// In the parent: takes the addresses so far.
    pub(crate) fn take(&self) -> Vec<usize> {
        let Some(addresses) = self.addresses() else { return Vec::new() };
        let count = addresses.count.swap(0, Relaxed).min(addresses.all.len());
        addresses.all[..count].iter().map(|address| address.swap(0, Relaxed)).collect()
    }
}
