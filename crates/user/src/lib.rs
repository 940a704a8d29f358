//! For tests of programs on persistent memory: `cargo test` runs them, `crashproof cargo test` crashes each of them
//! wherever it matters and recovers it from every state that may survive.
//!
//! ```
//! use crashproof::{Root, assert_recovered, persist, persistent};
//!
//! persistent! {
//!     /// A value, and whether it is there; each on a cache line of its own.
//!     struct Slot {
//!         value: u64,
//!         apart: [u64; 7],
//!         full: u64,
//!     }
//! }
//!
//! fn store(slot: &mut Slot, value: u64) {
//!     slot.value = value;
//!     persist(&slot.value);
//!     slot.full = 1;
//!     persist(&slot.full);
//! }
//!
//! fn recover() {
//!     let slot = Root::<Slot>::open();
//!     if slot.full == 1 {
//!         assert_recovered!(slot.value == 42);
//!     }
//! }
//!
//! #[crashproof::test(recover = recover)]
//! fn a_full_slot_has_its_value() {
//!     store(&mut Root::<Slot>::open(), 42);
//! }
//! # store(&mut Root::<Slot>::open(), 42); recover();
//! ```
//!
//! Without the checker persistent memory is ordinary memory, a root object per thread: every test passes or fails as
//! it is. Users of this crate need no unsafe code.

#![allow(unsafe_code, reason = "calls of the runtime, and memory that it gives; see each block")]

mod memory;
mod runtime;

/// A test. After every crash the function of `recover = path` is called instead of it; without one the test is run again.
///
/// ```
/// fn check() { /* look at what is there */ }
///
/// #[crashproof::test(recover = check)]
/// fn a_test() { /* stores */ }
///
/// #[crashproof::test]
/// #[should_panic]
/// fn another() { panic!() }
/// ```
///
/// Attributes of the test go below this one. A test that returns a `Result` has a recovery that returns the same.
pub use crashproof_test_attribute::test;
pub use memory::{Persistent, Root};

use std::arch::x86_64::{_mm_clflush, _mm_sfence};

/// How many crashes the program has been through: 0 in the run that is crashed, and without the checker.
#[must_use]
pub fn crashes() -> u32 {
    runtime::crashes()
}

/// Writes the cache lines of a value back; they are persistent after the next fence ([`drain`]).
pub fn flush<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>() as usize;
    let end = start + size_of_val(value);
    for line in (start & !63..end).step_by(64) {
        // SAFETY: the line holds a part of the value, which is borrowed; flushing changes nothing.
        unsafe { _mm_clflush(line as *const u8) };
    }
}

/// Waits until everything that was flushed is persistent.
pub fn drain() {
    // SAFETY: every x86-64 processor has it.
    unsafe { _mm_sfence() };
}

/// Makes a value persistent: flushes its cache lines and waits for them.
pub fn persist<T: ?Sized>(value: &T) {
    flush(value);
    drain();
}

/// Reads data that a checksum protects. The closure reads the data and gives a result, and whether the checksum matched:
/// of the many torn contents that it refuses, one is tried.
pub fn checksum<R>(read: impl FnOnce() -> (R, bool)) -> R {
    runtime::call("crashproof_checksum_begin\0");
    let (result, matched) = read();
    runtime::checksum_end(matched);
    result
}

/// Runs code whose loads may see stale values: missing flushes that only show here are not reported.
pub fn tolerate<R>(read: impl FnOnce() -> R) -> R {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            runtime::call("crashproof_tolerate_end\0");
        }
    }
    runtime::call("crashproof_tolerate_begin\0");
    let _end = End;
    read()
}

/// Asserts something about what recovery found; without a crash before, it is an assertion like any other.
#[macro_export]
macro_rules! assert_recovered {
    ($condition:expr $(,)?) => {
        assert!($condition, "after {} crash(es): {}", $crate::crashes(), stringify!($condition))
    };
    ($condition:expr, $($message:tt)+) => {
        assert!($condition, "after {} crash(es): {}", $crate::crashes(), format_args!($($message)+))
    };
}

/// Types that can live in persistent memory, and variables there.
///
/// A `struct` gets the layout of C and [`Persistent`]; all its fields must be [`Persistent`]. A `static` must be able to
/// change while it is shared: atomics. Its initial value is there before the first run.
#[macro_export]
macro_rules! persistent {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident {
        $($(#[$of_field:meta])* $field_visible:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$attribute])*
        #[repr(C)]
        $visible struct $name { $($(#[$of_field])* $field_visible $field: $type),* }

        // SAFETY: all fields are, and padding is never read.
        unsafe impl $crate::Persistent for $name where $($type: $crate::Persistent),* {}
    };
    ($(#[$attribute:meta])* $visible:vis static $name:ident: $type:ty = $value:expr;) => {
        $(#[$attribute])*
        #[used]
        #[unsafe(link_section = "crashproof_pm")]
        $visible static $name: $type = {
            const fn changes<T: $crate::Persistent + Sync>(value: T) -> T { value }
            changes::<$type>($value)
        };
    };
}
