//! The C library's functions behind the interposed ones.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::session;

/// A function of the C library, found when it is first needed.
pub(super) struct Real {
    address: AtomicUsize,
    name: &'static CStr,
    version: Option<&'static CStr>,
}

impl Real {
    /// `name` ends in a zero. A `version` is given where the library has several, and the default that
    /// `dlsym` finds is not the one that programs use.
    pub(super) const fn new(name: &'static str, version: Option<&'static CStr>) -> Real {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Real { address: AtomicUsize::new(0), name, version },
            Err(_) => panic!("a name ends in a zero, and has no other"),
        }
    }

    pub(super) fn get(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            known => known,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        let name = self.name.as_ptr();
        let found = unsafe {
            match self.version {
                Some(version) => libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()),
                None => libc::dlsym(libc::RTLD_NEXT, name),
            }
        };
        if found.is_null() {
            session::give_up(&format!("the C library has no {}", self.name.to_string_lossy()));
        }
        self.address.store(found as usize, Ordering::Relaxed);
        found as usize
    }
}

/// Functions that stand before the C library's. Without the checker they go on to it; otherwise the body
/// runs, in which `$real` is the C library's function.
///
/// They may unwind: `pthread_exit` and cancellation do, through the frames of whoever calls.
macro_rules! interpose {
    ($(
        $(#[$meta:meta])*
        $(version $version:literal)?
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? |$real:ident| $body:block
    )*) => { $(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $ret)? {
            #[allow(unused_mut, unused_assignments, reason = "few functions have a version")]
            static REAL: $crate::threads::real::Real = $crate::threads::real::Real::new(
                concat!(stringify!($name), "\0"),
                { let mut version = None; $(version = Some($version);)? version },
            );
            #[allow(unused_variables, reason = "few bodies need it")]
            let $real = || -> unsafe extern "C-unwind" fn($($type),*) $(-> $ret)? {
                std::mem::transmute(REAL.get())
            };
            if !$crate::threads::managed() {
                return $real()($($arg),*);
            }
            $body
        }
    )* };
}

pub(super) use interpose;
