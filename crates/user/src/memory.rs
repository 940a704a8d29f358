//! Persistent memory as safe Rust sees it: one root object.

use std::alloc::{Layout, alloc_zeroed};
use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use crate::runtime;

/// Types whose every pattern of bits is a value, zero included, and that hold no addresses: what a crash leaves of one
/// is one. [`crate::persistent!`] makes a struct such a type.
///
/// # Safety
///
/// Every pattern of bits must be a value of the type, and no value may point anywhere.
pub unsafe trait Persistent: 'static {}

macro_rules! plain {
    ($($type:ty)*) => { $(
        // SAFETY: a number, plain or atomic.
        unsafe impl Persistent for $type {}
    )* };
}
plain! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }
plain! { AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicUsize AtomicI64 }
// SAFETY: its elements are.
unsafe impl<T: Persistent, const N: usize> Persistent for [T; N] {}

/// The root object of persistent memory: zero at first, then what the last run left. There is one at a time.
pub struct Root<T: Persistent> {
    object: *mut T,
    own: PhantomData<T>,
}

/// Is a root object in use? Under the checker all threads share it.
static IN_USE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Without the checker: the root objects of this thread by type, and whether each is in use. Tests have a thread each.
    static ROOTS: RefCell<HashMap<TypeId, (usize, bool)>> = RefCell::new(HashMap::new());
}

impl<T: Persistent> Root<T> {
    /// The root object.
    ///
    /// # Panics
    ///
    /// If it is in use, if there is no room, or if the type needs more alignment than a cache line has.
    #[must_use]
    pub fn open() -> Root<T> {
        assert!(align_of::<T>() <= 64, "the root object begins at a cache line");
        let object = match runtime::root(size_of::<T>()) {
            Some(object) => {
                assert!(!IN_USE.swap(true, Ordering::Acquire), "the root object is in use");
                object.cast()
            }
            None => ROOTS.with_borrow_mut(|roots| {
                let root = roots.entry(TypeId::of::<T>()).or_insert_with(|| (fresh::<T>() as usize, false));
                assert!(!std::mem::replace(&mut root.1, true), "the root object is in use");
                root.0 as *mut T
            }),
        };
        Root { object, own: PhantomData }
    }
}

/// Zeroed memory, which is never freed: a run without the checker leaves its persistent memory to the next one.
fn fresh<T>() -> *mut T {
    let layout = Layout::from_size_align(size_of::<T>().max(1), 64).expect("a size");
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    assert!(!memory.is_null(), "no memory");
    memory.cast()
}

impl<T: Persistent> Deref for Root<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: memory of this size and alignment for good, of which any content is a value; this is its only user.
        unsafe { &*self.object }
    }
}

impl<T: Persistent> DerefMut for Root<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.object }
    }
}

impl<T: Persistent> Drop for Root<T> {
    fn drop(&mut self) {
        IN_USE.store(false, Ordering::Release);
        ROOTS.with_borrow_mut(|roots| {
            if let Some(root) = roots.get_mut(&TypeId::of::<T>()) {
                root.1 = false;
            }
        });
    }
}
