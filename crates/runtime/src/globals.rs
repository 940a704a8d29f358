//! Persistent globals: each gets a place in the pool by its name, the same in every run.

use std::collections::BTreeMap;
use std::ffi::CStr;

use crashproof_protocol::GLOBALS;
use crashproof_protocol::abi::{PmFixup, PmGlobal};

use crate::cell::RunningThreadCell;
use crate::session;
use crate::system::give_up;

struct Globals {
    places: BTreeMap<Vec<u8>, u64>,
    end: u64,
}

static PLACED: RunningThreadCell<Globals> =
    RunningThreadCell::new(Globals { places: BTreeMap::new(), end: GLOBALS.base });

impl Globals {
    /// The place of a global, and whether it was just assigned. `None` if there is no room.
    fn place(&mut self, name: &[u8], size: u64, align: u64) -> Option<(u64, bool)> {
        if let Some(&known) = self.places.get(name) {
            return Some((known, false));
        }
        let address = self.end.checked_next_multiple_of(align.max(1))?;
        let end = address.checked_add(size.max(1))?;
        if end > GLOBALS.end() {
            return None;
        }
        self.end = end;
        self.places.insert(name.to_vec(), address);
        Some((address, true))
    }
}

/// Registers a module's globals, and the volatile pointers that hold their addresses.
///
/// # Safety
///
/// The arrays were emitted by the plugin.
pub(crate) unsafe fn register(
    begin: *const *mut PmGlobal,
    end: *const *mut PmGlobal,
    fixups: *const PmFixup,
    fixups_end: *const PmFixup,
) {
    // SAFETY: the arrays run from their begin to their end, which may coincide; fixups name volatile memory of the size
    // of a pointer.
    unsafe {
        for global in array(begin, end) {
            place(*global);
        }
        for fixup in array(fixups, fixups_end) {
            let target = place(fixup.target).wrapping_add_signed(fixup.addend);
            (fixup.place as *mut u64).write_unaligned(target);
        }
    }
}

/// An array emitted by the plugin. A module without one passes null.
///
/// # Safety
///
/// The array exists, and never changes.
unsafe fn array<T>(begin: *const T, end: *const T) -> &'static [T] {
    if begin == end {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin)) }
}

/// The address of a global; assigns one, with its initial content, if it has none yet.
///
/// # Safety
///
/// The descriptor was emitted by the plugin.
unsafe fn place(global: *mut PmGlobal) -> u64 {
    // SAFETY: no other code accesses descriptors while modules register; names end in zero, and initial content has the
    // global's size.
    unsafe {
        let descriptor = &mut *global;
        if !descriptor.address.is_null() {
            return descriptor.address as u64;
        }
        let name = CStr::from_ptr(descriptor.name).to_bytes();
        let (size, align) = (descriptor.size, descriptor.align);
        let Some((address, fresh)) = PLACED.with(|globals| globals.place(name, size, align)) else {
            give_up("persistent globals of more than 1 GiB");
        };
        descriptor.address = address as *mut _;
        if fresh && !descriptor.init.is_null() {
            let init = std::slice::from_raw_parts(descriptor.init.cast::<u8>(), size as usize);
            session::set_durable(address, init);
            for index in 0..descriptor.fixup_count as usize {
                let fixup = &*descriptor.fixups.add(index);
                let target = place(fixup.target).wrapping_add_signed(fixup.addend);
                session::set_durable(address + fixup.place, &target.to_le_bytes());
            }
        }
        address
    }
}

/// The end of all globals.
pub(crate) fn end() -> u64 {
    PLACED.with(|globals| globals.end)
}

pub(crate) fn any() -> bool {
    end() > GLOBALS.base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_place() {
        let mut globals = Globals { places: BTreeMap::new(), end: GLOBALS.base };
        let (one, fresh) = globals.place(b"one", 10, 8).expect("room");
        assert!(fresh && one == GLOBALS.base);
        let (other, _) = globals.place(b"other", 0, 64).expect("room");
        assert!(other.is_multiple_of(64) && other >= one + 10);
        assert_eq!(globals.place(b"one", 99, 1), Some((one, false)));
        assert_eq!(globals.place(b"huge", GLOBALS.bytes, 1), None);
    }
}
