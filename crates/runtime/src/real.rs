//! The C library's own functions, behind the ones that the runtime puts in their place.
//!
//! The runtime is a shared library before the C library in the order of lookup, so a function it exports
//! under a name of the C library's is called instead, by the program and by every library in it. What it
//! stands before is found with `dlsym(RTLD_NEXT)`, once.
//!
//! [`interpose`] makes such functions. Each has two halves. The first, in assembly, decides whether an
//! argument is in PM; if none is it jumps on to the real function, so that volatile memory costs a few
//! instructions. The second is ordinary code; it gets the return address of the call as one argument
//! more, from which it knows where the program called (see `callers`).

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{session, sites};

/// Where a real function is. The address comes first: assembly reads it.
#[repr(C)]
pub(crate) struct Slot {
    address: AtomicUsize,
    name: &'static CStr,
}

impl Slot {
    pub(crate) const fn new(name: &'static str) -> Slot {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Slot { address: AtomicUsize::new(0), name },
            Err(_) => panic!("a name ends in a zero, and has no other"),
        }
    }

    /// The function; ends the process if there is none.
    #[inline]
    pub(crate) fn get(&self) -> *const c_void {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            known => known as *const c_void,
        }
    }

    #[cold]
    fn find(&self) -> *const c_void {
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            session::give_up(&format!("the C library has no {}", self.name.to_string_lossy()));
        }
        self.address.store(found as usize, Ordering::Relaxed);
        found
    }
}

/// How a function goes on to its second half, with the return address in a register or, if all are taken,
/// on the stack.
macro_rules! enter {
    (stack) => {
        "push qword ptr [rsp]\ncall {body}\nadd rsp, 8\nret"
    };
    ($register:ident) => {
        concat!("mov ", stringify!($register), ", [rsp]\njmp {body}")
    };
}

/// Functions that stand before the C library's.
///
/// `pm(...)` names the arguments that may be in PM with the registers they come in, `caller(...)` the
/// register that the return address goes to: the first that the function's own arguments leave free. The
/// body runs only if one of them is in PM and somebody records; it may call `real` with the same arguments.
macro_rules! interpose {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?,
            pm($($pm:ident = $register:literal),*), caller($caller:ident)
        |$site:ident| $body:block
    )*) => { $(
        const _: () = {
            static REAL: $crate::real::Slot = $crate::real::Slot::new(concat!(stringify!($name), "\0"));

            #[inline(always)]
            #[allow(dead_code, reason = "some bodies do without")]
            unsafe fn real($($arg: $ty),*) $(-> $ret)? {
                let function: unsafe extern "C" fn($($ty),*) $(-> $ret)? = std::mem::transmute(REAL.get());
                // What the C library does to PM now, it does in the runtime's name.
                let _open = $crate::strict::Opened::new();
                function($($arg),*)
            }

            unsafe extern "C" fn body($($arg: $ty,)* caller: usize) $(-> $ret)? {
                let in_pm = false $(|| crashproof_protocol::abi::is_pm($pm as u64))*;
                if !in_pm || !$crate::access::recording() {
                    return real($($arg),*);
                }
                #[allow(unused_variables, reason = "some only pass on")]
                let $site = $crate::callers::site(caller);
                $body
            }

            $(#[$meta])*
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                std::arch::naked_asm!(
                    $(concat!("mov rax, ", $register), "shr rax, 44", "cmp rax, 1", "je 2f",)*
                    "mov rax, [rip + {real}]",
                    "test rax, rax",
                    "je 2f",
                    "jmp rax",
                    "2:",
                    $crate::real::enter!($caller),
                    real = sym REAL,
                    body = sym body,
                )
            }
        };
    )* };
}

/// Functions that stand before the C library's whatever their arguments: those that take descriptors,
/// sizes or pointers to pointers. The body runs if somebody records.
macro_rules! replace {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?, caller($caller:ident)
        |$site:ident| $body:block
    )*) => { $(
        const _: () = {
            static REAL: $crate::real::Slot = $crate::real::Slot::new(concat!(stringify!($name), "\0"));

            #[inline(always)]
            #[allow(dead_code, reason = "some bodies do without")]
            unsafe fn real($($arg: $ty),*) $(-> $ret)? {
                let function: unsafe extern "C" fn($($ty),*) $(-> $ret)? = std::mem::transmute(REAL.get());
                // What the C library does to PM now, it does in the runtime's name.
                let _open = $crate::strict::Opened::new();
                function($($arg),*)
            }

            unsafe extern "C" fn body($($arg: $ty,)* caller: usize) $(-> $ret)? {
                if !$crate::access::recording() {
                    return real($($arg),*);
                }
                #[allow(unused_variables, reason = "some only pass on")]
                let $site = $crate::callers::site(caller);
                $body
            }

            $(#[$meta])*
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                std::arch::naked_asm!(
                    $crate::real::enter!($caller),
                    body = sym body,
                )
            }
        };
    )* };
}

/// Where another provider of a function is: a library that the program brings along, built with crashproof.
pub(crate) struct Other {
    /// 0: not looked for yet; 1: there is none; else its address.
    address: AtomicUsize,
    name: &'static CStr,
}

impl Other {
    pub(crate) const fn new(name: &'static str) -> Other {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Other { address: AtomicUsize::new(0), name },
            Err(_) => panic!("a name ends in a zero, and has no other"),
        }
    }

    /// The function, if there is another one. Only instrumented libraries count: of what others do to PM
    /// nothing would be seen.
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
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let usable = !found.is_null() && unsafe { sites::is_instrumented(found) };
        self.address.store(if usable { found as usize } else { 1 }, Ordering::Relaxed);
        usable.then_some(found.cast_const())
    }
}

/// Functions of libraries that the runtime provides. If the program brings its own, that is called, in
/// whatever order the two are linked: a library's functions must not be mixed with another's.
macro_rules! provide {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?, caller($caller:ident)
        |$site:ident| $body:block
    )*) => { $(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            std::arch::naked_asm!($crate::real::enter!($caller), body = sym $name::body)
        }

        mod $name {
            #[allow(unused_imports, reason = "what the bodies use")]
            use super::*;

            pub(super) unsafe extern "C" fn body($($arg: $ty,)* caller: usize) $(-> $ret)? {
                static OTHER: $crate::real::Other = $crate::real::Other::new(concat!(stringify!($name), "\0"));
                if let Some(other) = OTHER.get() {
                    let other: unsafe extern "C" fn($($ty),*) $(-> $ret)? = std::mem::transmute(other);
                    return other($($arg),*);
                }
                #[allow(unused_variables, reason = "some only compute")]
                let $site = $crate::callers::site(caller);
                $body
            }
        }
    )* };
}

pub(crate) use {enter, interpose, provide, replace};
