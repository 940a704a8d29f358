//! Puts the runtime's functions in front of those of libraries: one macro for each way.
//!
//! | macro | the body runs |
//! |---|---|
//! | [`interpose`] | if an argument is in PM and the process records |
//! | [`replace`] | if the process records: for functions of descriptors, sizes, pointers to pointers |
//! | [`schedule`], [`schedule_at`] | if the process records; may unwind, as `pthread_exit` and cancellation do |
//! | [`provide`] | unless the program brings a library of its own that provides the function |
//!
//! Otherwise the real function runs. Functions of the first two kinds start in assembly: for volatile memory they cost
//! a few instructions, and the body gets the call's return address as an additional argument, which identifies the
//! place of the call (see `callers`). In a body `real` is the interposed function.
//!
//! Functions with several names and one body are written `[name another] { (arguments) .. }`.
//!
//! Bodies are unsafe code as a whole: they use the program's pointers as the real function would, and the program
//! vouches for them.

/// How a function continues to its second half, with the return address in a register or, if all are taken, on the
/// stack.
macro_rules! enter {
    (stack) => {
        "push qword ptr [rsp]\ncall {body}\nadd rsp, 8\nret"
    };
    ($register:ident) => {
        concat!("mov ", stringify!($register), ", [rsp]\njmp {body}")
    };
}

/// The real function, with the same arguments.
macro_rules! real_function {
    ($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?) => {
        static REAL: $crate::real::Real = $crate::real::Real::new(concat!(stringify!($name), "\0"), None);

        #[inline(always)]
        #[allow(dead_code, reason = "some bodies do without")]
        unsafe fn real($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: that is its type; the program vouches for the arguments.
            unsafe {
                let function: unsafe extern "C" fn($($ty),*) $(-> $ret)? = std::mem::transmute(REAL.get());
                // What the C library does to PM now, it does on the runtime's behalf.
                let _open = $crate::protection::Opened::new();
                // The kernel cannot access the window, and following the C library is slow.
                #[allow(unused_imports, reason = "not every function has pointers and numbers")]
                use $crate::raw::{Argument, LeavesArgument as _, MovesPointer as _};
                let result = function($((&Argument($arg)).there()),*);
                (&Argument(result)).back()
            }
        }
    };
}

/// Functions interposed only if an argument is in PM. The body works on the pool, wherever the program mapped it.
///
/// `pm(...)` names the arguments that may be in PM with the registers they come in, `caller(...)` the
/// register that the return address goes to: the first that the function's own arguments leave free.
macro_rules! interpose {
    ([$($name:ident)+] $rest:tt) => { $($crate::interpose::interpose! { @same $name $rest })+ };
    (@same $name:ident { $($rest:tt)* }) => { $crate::interpose::interpose! { fn $name $($rest)* } };
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?,
            pm($($pm:ident = $register:literal),*), caller($caller:ident)
        |$site:ident| $body:block
    )*) => { $(
        const _: () = {
            $crate::interpose::real_function!($name($($arg: $ty),*) $(-> $ret)?);

            unsafe extern "C" fn body($($arg: $ty,)* caller: usize) $(-> $ret)? {
                // SAFETY: the program vouches for its pointers; see the macro's module.
                unsafe {
                    let in_pm = false $(|| $crate::fixed::is_persistent($pm as u64))*;
                    if !in_pm {
                        return real($($arg),*);
                    }
                    if !$crate::session::recording() {
                        $crate::session::note_unrecorded();
                        return real($($arg),*);
                    }
                    #[allow(unused_variables, reason = "some only pass on")]
                    let $site = $crate::callers::site(caller);
                    #[allow(unused_imports, reason = "not every function has pointers and numbers")]
                    use $crate::raw::{Argument, LeavesArgument as _, MovesPointer as _};
                    let _call = $crate::fixed::Call::with(&[$($pm as u64),*]);
                    $(let $pm = Argument($pm).in_pool();)*
                    let run = || $(-> $ret)? { $body };
                    (&Argument(run())).in_program()
                }
            }

            $(#[$meta])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                std::arch::naked_asm!(
                    $(concat!("mov rax, ", $register), "shr rax, 44", "cmp rax, 1", "je 2f",)*
                    "cmp qword ptr [rip + {fixed}], 0",
                    "jne 2f",
                    "mov rax, [rip + {real}]",
                    "test rax, rax",
                    "je 2f",
                    "jmp rax",
                    "2:",
                    $crate::interpose::enter!($caller),
                    fixed = sym $crate::fixed::COUNT,
                    real = sym REAL,
                    body = sym body,
                )
            }
        };
    )* };
}

/// Functions interposed regardless of their arguments.
macro_rules! replace {
    ([$($name:ident)+] $rest:tt) => { $($crate::interpose::replace! { @same $name $rest })+ };
    (@same $name:ident { $($rest:tt)* }) => { $crate::interpose::replace! { fn $name $($rest)* } };
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?, caller($caller:ident)
        |$site:ident| $body:block
    )*) => { $(
        const _: () = {
            $crate::interpose::real_function!($name($($arg: $ty),*) $(-> $ret)?);

            unsafe extern "C" fn body($($arg: $ty,)* caller: usize) $(-> $ret)? {
                // SAFETY: the program vouches for its pointers; see the macro's module.
                #[allow(unused_unsafe, reason = "some bodies only compute")]
                unsafe {
                    if !$crate::session::recording() {
                        return real($($arg),*);
                    }
                    #[allow(unused_variables, reason = "some only pass on")]
                    let $site = $crate::callers::site(caller);
                    $body
                }
            }

            $(#[$meta])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                std::arch::naked_asm!($crate::interpose::enter!($caller), body = sym body)
            }
        };
    )* };
}

/// Functions of the scheduler. They may unwind through the frames of their caller.
macro_rules! schedule {
    ($(
        $(#[$meta:meta])*
        $(version $version:literal)?
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? |$real:ident| $body:block
    )*) => { $(
        $(#[$meta])*
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $ret)? {
            #[allow(unused_mut, unused_assignments, reason = "few functions have a version")]
            static REAL: $crate::real::Real = $crate::real::Real::new(
                concat!(stringify!($name), "\0"),
                { let mut version = None; $(version = Some($version);)? version },
            );
            let $real = || -> unsafe extern "C-unwind" fn($($type),*) $(-> $ret)? {
                // SAFETY: the symbol has this type.
                unsafe { std::mem::transmute(REAL.get()) }
            };
            // SAFETY: the program vouches for its pointers; see the macro's module.
            unsafe {
                if !$crate::session::recording() {
                    return $real()($($arg),*);
                }
                $body
            }
        }
    )* };
}

/// The same for functions that store to objects in PM: the register that receives the return address is given, and
/// `callers::call_site` is the site of the call.
macro_rules! schedule_at {
    ($(
        $(#[$meta:meta])*
        $(version $version:literal)?
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?, caller($caller:ident) |$real:ident| $body:block
    )*) => { $(
        const _: () = {
            unsafe extern "C-unwind" fn body($($arg: $type,)* caller: usize) $(-> $ret)? {
                #[allow(unused_mut, unused_assignments, reason = "few functions have a version")]
                static REAL: $crate::real::Real = $crate::real::Real::new(
                    concat!(stringify!($name), "\0"),
                    { let mut version = None; $(version = Some($version);)? version },
                );
                #[allow(unused_variables, reason = "some do without")]
                let $real = || -> unsafe extern "C-unwind" fn($($type),*) $(-> $ret)? {
                    // SAFETY: the symbol has this type.
                    unsafe { std::mem::transmute(REAL.get()) }
                };
                // SAFETY: the program vouches for its pointers; see the macro's module.
                unsafe {
                    if !$crate::session::recording() {
                        return $real()($($arg),*);
                    }
                    let _call = $crate::callers::Call::new(caller);
                    $body
                }
            }

            $(#[$meta])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
                std::arch::naked_asm!($crate::interpose::enter!($caller), body = sym body)
            }
        };
    )* };
}

/// Library functions that the runtime provides. If the program brings its own library, that is called regardless of
/// link order: functions of two implementations must not be mixed.
macro_rules! provide {
    ([$($name:ident)+] $rest:tt) => { $($crate::interpose::provide! { @same $name $rest })+ };
    (@same $name:ident { $($rest:tt)* }) => { $crate::interpose::provide! { fn $name $($rest)* } };
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?, caller($caller:ident)
        |$site:ident| $body:block
    )*) => { $(
        $(#[$meta])*
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            std::arch::naked_asm!($crate::interpose::enter!($caller), body = sym $name::body)
        }

        mod $name {
            #[allow(unused_imports, reason = "what the bodies use")]
            use super::*;

            pub(super) unsafe extern "C" fn body($($arg: $ty,)* caller: usize) $(-> $ret)? {
                static OTHER: $crate::real::Other = $crate::real::Other::new(concat!(stringify!($name), "\0"));
                // SAFETY: the program vouches for its pointers, and the other function has the same type.
                #[allow(unused_unsafe, reason = "some bodies only compute")]
                unsafe {
                    if let Some(other) = OTHER.get() {
                        let other: unsafe extern "C" fn($($ty),*) $(-> $ret)? = std::mem::transmute(other);
                        return other($($arg),*);
                    }
                    #[allow(unused_variables, reason = "some only compute")]
                    let $site = $crate::callers::site(caller);
                    $body
                }
            }
        }
    )* };
}

pub(crate) use {enter, interpose, provide, real_function, replace, schedule, schedule_at};
