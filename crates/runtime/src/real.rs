//! Finds the real functions behind those that the runtime interposes.
//!
//! The runtime is a shared library that precedes the C library in lookup order, so its exports shadow C library
//! functions of the same name, for the program and every library in it. `dlsym(RTLD_NEXT)` finds the real function,
//! once.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::modules;
use crate::system::give_up;

/// A zero-terminated name made by `concat!`.
const fn c_string(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends in a zero, and has no other"),
    }
}

/// A function of the C library, looked up on first use. The address is the first field: assembly reads it.
#[repr(C)]
pub(crate) struct Real {
    address: AtomicPtr<c_void>,
    name: &'static CStr,
    version: Option<&'static CStr>,
}

impl Real {
    /// `name` is zero-terminated. A `version` is given if the library has several and programs do not use the default
    /// that `dlsym` finds.
    pub(crate) const fn new(name: &'static str, version: Option<&'static CStr>) -> Real {
        Real { address: AtomicPtr::new(null_mut()), name: c_string(name), version }
    }

    /// The function; ends the process if it does not exist.
    #[inline]
    pub(crate) fn get(&self) -> *const c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.find() } else { known }
    }

    #[cold]
    fn find(&self) -> *const c_void {
        let name = self.name.as_ptr();
        // SAFETY: names are zero-terminated.
        let found = unsafe {
            match self.version {
                Some(version) => libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()),
                None => libc::dlsym(libc::RTLD_NEXT, name),
            }
        };
        if found.is_null() {
            give_up(&format!("the C library has no {}", self.name.to_string_lossy()));
        }
        self.address.store(found, Ordering::Relaxed);
        learn(self);
        found
    }
}

/// Functions that children have looked up: their parent looks them up, too, so that later children need not. Shared
/// with the children.
struct Learned {
    count: AtomicUsize,
    functions: [AtomicPtr<Real>; 64],
}

static LEARNED: AtomicPtr<Learned> = AtomicPtr::new(null_mut());

/// Called once in the parent, before it has children.
pub(crate) fn share_what_is_found() {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping of zeros, which is a valid empty state.
    let shared = unsafe { libc::mmap(null_mut(), size_of::<Learned>(), rights, flags, -1, 0) };
    if shared != libc::MAP_FAILED {
        LEARNED.store(shared.cast(), Ordering::Relaxed);
    }
}

fn learned() -> Option<&'static Learned> {
    // SAFETY: null, or shared memory that is never unmapped.
    unsafe { LEARNED.load(Ordering::Relaxed).as_ref() }
}

/// Records a function a child has found.
fn learn(real: &Real) {
    if let Some(learned) = learned()
        && let Some(slot) = learned.functions.get(learned.count.fetch_add(1, Ordering::Relaxed))
    {
        slot.store((&raw const *real).cast_mut(), Ordering::Relaxed);
    }
}

/// Looks up in the parent what children have found.
pub(crate) fn find_what_children_found() {
    let Some(learned) = learned().filter(|learned| learned.count.load(Ordering::Relaxed) > 0) else { return };
    let count = learned.count.swap(0, Ordering::Relaxed).min(learned.functions.len());
    for slot in &learned.functions[..count] {
        let real = slot.swap(null_mut(), Ordering::Relaxed);
        // A program with wild stores may corrupt this list; statics of the runtime are close to each other.
        let close = (real as usize).abs_diff(&raw const LEARNED as usize) < 16 << 20;
        if close && (real as usize).is_multiple_of(align_of::<Real>()) {
            // SAFETY: children have the same statics at the same addresses.
            let real = unsafe { &*real };
            let known = real.address.load(Ordering::Relaxed);
            if known.is_null() {
                real.find();
            }
        }
    }
    learned.count.store(0, Ordering::Relaxed);
}

/// Another provider of a function: a library built with crashproof that the program brings along.
pub(crate) struct Other {
    /// 0: not looked up yet; 1: none; otherwise its address.
    address: AtomicUsize,
    name: &'static CStr,
}

impl Other {
    pub(crate) const fn new(name: &'static str) -> Other {
        Other { address: AtomicUsize::new(0), name: c_string(name) }
    }

    /// The function, if there is another provider. Only instrumented libraries count: PM accesses by others would go
    /// unseen.
    #[inline]
    pub(crate) fn get(&self) -> Option<*const c_void> {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            1 => None,
            known => Some(known as *const c_void),
        }
    }

    #[cold]
    fn find(&self) -> Option<*const c_void> {
        // SAFETY: the name is zero-terminated.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let usable = !found.is_null() && modules::is_instrumented(found);
        self.address.store(if usable { found as usize } else { 1 }, Ordering::Relaxed);
        usable.then_some(found.cast_const())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_once() {
        static GETPID: Real = Real::new("getpid\0", None);
        let address = GETPID.get();
        assert!(!address.is_null());
        assert_eq!(GETPID.get(), address);
        static NOBODY: Other = Other::new("crashproof_no_such_function\0");
        assert_eq!((NOBODY.get(), NOBODY.get()), (None, None));
    }
}
