//! Persistent globals: each gets a place in the pool by its name, the same in every run.

use std::collections::BTreeMap;
use std::ffi::CStr;

use crashproof_protocol::GLOBALS;
use crashproof_protocol::abi::{PmFixup, PmGlobal};

use crate::session;

static mut PLACES: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
static mut NEXT: u64 = GLOBALS.base;

pub(crate) unsafe fn register(
    begin: *const *mut PmGlobal,
    end: *const *mut PmGlobal,
    fixups: *const PmFixup,
    fixups_end: *const PmFixup,
) {
    let mut at = begin;
    while at < end {
        place(*at);
        at = at.add(1);
    }
    let mut fixup = fixups;
    while fixup < fixups_end {
        let place_of = place((*fixup).target);
        ((*fixup).place as *mut u64).write_unaligned(place_of.wrapping_add_signed((*fixup).addend));
        fixup = fixup.add(1);
    }
}

/// The address of a global; gives it one, and its initial content, if it has none yet.
unsafe fn place(global: *mut PmGlobal) -> u64 {
    let descriptor = &mut *global;
    if !descriptor.address.is_null() {
        return descriptor.address as u64;
    }
    let name = CStr::from_ptr(descriptor.name).to_bytes().to_vec();
    if let Some(&known) = PLACES.get(&name) {
        descriptor.address = known as *mut _;
        return known;
    }
    let address = NEXT.next_multiple_of(descriptor.align.max(1));
    NEXT = address + descriptor.size.max(1);
    if NEXT > GLOBALS.end() {
        session::give_up("persistent globals of more than 1 GiB");
    }
    PLACES.insert(name, address);
    descriptor.address = address as *mut _;
    if descriptor.init.is_null() {
        return address;
    }
    let init = std::slice::from_raw_parts(descriptor.init.cast::<u8>(), descriptor.size as usize);
    session::set_durable(address, init);
    for index in 0..descriptor.fixup_count as usize {
        let fixup = &*descriptor.fixups.add(index);
        let target = place(fixup.target).wrapping_add_signed(fixup.addend);
        session::set_durable(address + fixup.place, &target.to_le_bytes());
    }
    address
}

/// Where they end.
pub(crate) fn end() -> u64 {
    unsafe { NEXT }
}

/// Are there any?
pub(crate) fn any() -> bool {
    unsafe { NEXT > GLOBALS.base }
}
