//! The functions that instrumented code calls. `crates/instrument/abi/crashproof_abi.h` is their specification.

use std::ffi::c_void;

use crashproof_protocol::abi::{PmFixup, PmGlobal, Site, VERSION, is_pm, kind, rmw, signature};
use crashproof_protocol::record;
use px86::Kind;

use crate::c_library::determinism;
use crate::recorder::note;
use crate::session::{self, recording};
use crate::system::give_up;
use crate::threads::turns::{self, VolatileAccess};
use crate::{access, assembly, globals, modules, parallel, raw, server};

type Pointer = *const c_void;
type PointerMut = *mut c_void;
type SitePointer = *const Site;

/// Defines functions of the interface; the compiler checks each against its declaration.
macro_rules! implement {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => { $(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            // SAFETY: instrumented code passes what the replaced instruction would access.
            #[allow(unused_unsafe, reason = "some access nothing")]
            unsafe { $body }
        }
        const _: signature::$name = $name;
    )* };
}

/// Loads of 1, 2, 4 and 8 bytes.
macro_rules! loads {
    ($($name:ident $width:literal),*) => { implement! { $(
        fn $name(address: Pointer, site: SitePointer) -> u64 { access::load(address as u64, $width, site) }
    )* } };
}

/// Stores of 1, 2, 4 and 8 bytes.
macro_rules! stores {
    ($($name:ident $kind:ident $width:literal),*) => { implement! { $(
        fn $name(address: PointerMut, value: u64, site: SitePointer) {
            let value = value & (u64::MAX >> (64 - 8 * $width));
            access::store(Kind::$kind, address as u64, $width, value, site);
        }
    )* } };
}

loads!(__crashproof_load1 1, __crashproof_load2 2, __crashproof_load4 4, __crashproof_load8 8);
stores!(
    __crashproof_store1 Store 1,
    __crashproof_store2 Store 2,
    __crashproof_store4 Store 4,
    __crashproof_store8 Store 8,
    __crashproof_nt_store4 NonTemporalStore 4,
    __crashproof_nt_store8 NonTemporalStore 8
);

/// The new value of a read-modify-write; only the low bits matter for operands narrower than 128 bits.
fn modify(operation: u32, old: u128, operand: u128) -> u128 {
    match operation {
        rmw::XCHG | rmw::SET => operand,
        rmw::ADD => old.wrapping_add(operand),
        rmw::SUB => old.wrapping_sub(operand),
        rmw::AND => old & operand,
        rmw::OR => old | operand,
        rmw::XOR => old ^ operand,
        _ => give_up("a read-modify-write operation this runtime does not know"),
    }
}

/// A locked 16-byte instruction. `change` returns the new value, or `None` to store nothing.
///
/// # Safety
///
/// The program itself would access the address.
unsafe fn exchange_wide(address: u64, site: SitePointer, change: impl Fn(u128) -> Option<u128>) -> u128 {
    // SAFETY: as for this function.
    unsafe {
        if !recording() {
            return parallel::exchange_wide(address, change);
        }
        access::begin_exchange_of(address, 16, site);
        let low = access::load(address, 8, site);
        let old = u128::from(access::load(address + 8, 8, site)) << 64 | u128::from(low);
        let new = change(old);
        match new {
            Some(new) => store_wide(address, new, site),
            None => access::failed_exchange(address, 8, low, site),
        }
        access::end_exchange(new.is_none_or(|new| new == old));
        old
    }
}

/// Stores 16 bytes as two words: the hardware guarantees atomic persistence of only eight bytes.
unsafe fn store_wide(address: u64, value: u128, site: SitePointer) {
    // SAFETY: the program would access the address itself.
    unsafe {
        access::store(Kind::Rmw, address, 8, value as u64, site);
        access::store(Kind::Store, address + 8, 8, (value >> 64) as u64, site);
    }
}

unsafe fn copy(to: PointerMut, from: Pointer, bytes: u64, site: SitePointer) {
    // SAFETY: the program itself would access both.
    unsafe {
        match (is_pm(to as u64), is_pm(from as u64)) {
            (false, false) => raw::copy(to.cast(), from.cast(), bytes as usize),
            (false, true) => access::load_range(to.cast(), from as u64, bytes, site),
            (true, reads) => {
                if reads {
                    access::before_read_range(from as u64, bytes, site);
                }
                access::store_range(Kind::Store, to as u64, from.cast(), bytes, site);
            }
        }
    }
}

/// The lanes whose mask byte is not 0.
unsafe fn enabled(mask: *const u8, lanes: u32) -> impl Iterator<Item = usize> {
    // SAFETY: there is a byte per lane.
    (0..lanes as usize).filter(move |&lane| unsafe { *mask.add(lane) } != 0)
}

implement! {
    fn __crashproof_register_module(version: u32, begin: SitePointer, end: SitePointer) {
        session::start();
        if version != VERSION {
            give_up("a module was built with another version of crashproof; build everything again");
        }
        modules::register(begin, end);
    }

    fn __crashproof_register_globals(
        begin: *const *mut PmGlobal,
        end: *const *mut PmGlobal,
        fixups: *const PmFixup,
        fixups_end: *const PmFixup,
    ) {
        session::start();
        globals::register(begin, end, fixups, fixups_end);
    }

    fn __crashproof_registered(module: Pointer) { server::registered(module); }

    fn __crashproof_load_n(to: PointerMut, address: Pointer, bytes: u64, site: SitePointer) {
        access::load_range(to.cast(), address as u64, bytes, site);
    }

    fn __crashproof_store_n(address: PointerMut, from: Pointer, bytes: u64, site: SitePointer) {
        access::store_range(Kind::Store, address as u64, from.cast(), bytes, site);
    }

    fn __crashproof_nt_store_n(address: PointerMut, from: Pointer, bytes: u64, site: SitePointer) {
        access::store_range(Kind::NonTemporalStore, address as u64, from.cast(), bytes, site);
    }

    fn __crashproof_rmw(address: PointerMut, bytes: u32, operation: u32, operand: u64, site: SitePointer) -> u64 {
        let (address, bytes) = (address as u64, u64::from(bytes));
        if operation == rmw::SET {
            access::overwrite(address, bytes, operand, site);
            return 0;
        }
        let change = |old: u64| Some(modify(operation, old.into(), operand.into()) as u64);
        access::exchange(address, bytes, site, change)
    }

    fn __crashproof_rmw16(
        address: PointerMut,
        operation: u32,
        operand: Pointer,
        old: PointerMut,
        site: SitePointer,
    ) {
        let operand = operand.cast::<u128>().read_unaligned();
        if operation == rmw::SET && recording() {
            access::begin_exchange();
            store_wide(address as u64, operand, site);
            access::end_exchange(false);
            return;
        }
        let before = exchange_wide(address as u64, site, |old| Some(modify(operation, old, operand)));
        old.cast::<u128>().write_unaligned(before);
    }

    fn __crashproof_cas(address: PointerMut, bytes: u32, expected: u64, desired: u64, site: SitePointer) -> u64 {
        let change = |old| (old == expected).then_some(desired);
        access::exchange(address as u64, u64::from(bytes), site, change)
    }

    fn __crashproof_cas16(
        address: PointerMut,
        expected: Pointer,
        desired: Pointer,
        old: PointerMut,
        site: SitePointer,
    ) -> u32 {
        let expected = expected.cast::<u128>().read_unaligned();
        let desired = desired.cast::<u128>().read_unaligned();
        let before = exchange_wide(address as u64, site, |old| (old == expected).then_some(desired));
        old.cast::<u128>().write_unaligned(before);
        u32::from(before == expected)
    }

    fn __crashproof_memcpy(to: PointerMut, from: Pointer, bytes: u64, site: SitePointer) {
        copy(to, from, bytes, site);
    }

    fn __crashproof_memmove(to: PointerMut, from: Pointer, bytes: u64, site: SitePointer) {
        copy(to, from, bytes, site);
    }

    fn __crashproof_memset(to: PointerMut, byte: u32, bytes: u64, site: SitePointer) {
        access::fill(to as u64, byte as u8, bytes, site);
    }

    fn __crashproof_gather(
        to: PointerMut,
        addresses: *const Pointer,
        mask: *const u8,
        lane_bytes: u32,
        lanes: u32,
        site: SitePointer,
    ) {
        for lane in enabled(mask, lanes) {
            copy(to.byte_add(lane * lane_bytes as usize), *addresses.add(lane), lane_bytes.into(), site);
        }
    }

    fn __crashproof_scatter(
        addresses: *const PointerMut,
        from: Pointer,
        mask: *const u8,
        lane_bytes: u32,
        lanes: u32,
        site: SitePointer,
    ) {
        for lane in enabled(mask, lanes) {
            copy(*addresses.add(lane), from.byte_add(lane * lane_bytes as usize), lane_bytes.into(), site);
        }
    }

    fn __crashproof_clflush(address: Pointer, site: SitePointer) { access::flush(Kind::Flush, address as u64, site); }

    fn __crashproof_clflushopt(address: Pointer, site: SitePointer) {
        access::flush(Kind::FlushOpt, address as u64, site);
    }

    fn __crashproof_clwb(address: Pointer, site: SitePointer) { access::flush(Kind::FlushOpt, address as u64, site); }

    fn __crashproof_sfence(site: SitePointer) { access::fence(Kind::StoreFence, site); }

    fn __crashproof_mfence(site: SitePointer) { access::fence(Kind::Fence, site); }

    fn __crashproof_before(address: Pointer, bytes: u64, site: SitePointer) {
        let accesses = match (*site).kind() {
            Some(kind::LOAD) => VolatileAccess::Load,
            Some(kind::STORE | kind::NT_STORE) => VolatileAccess::Store,
            _ => VolatileAccess::Exchange,
        };
        turns::before_volatile_access(address as u64, bytes, site, accesses);
    }

    fn __crashproof_locked(address: Pointer, stored: u32, site: SitePointer) {
        turns::after_volatile_exchange(address as u64, stored != 0, site);
    }

    fn __crashproof_sync(address: Pointer, site: SitePointer) {
        let stored = !matches!((*site).kind(), Some(kind::LOAD | kind::PAUSE));
        turns::after_volatile_access(address as u64, stored, site);
    }

    fn __crashproof_cycles() -> u64 { determinism::cycles() }

    fn __crashproof_random() -> u64 { determinism::random() }

    fn __crashproof_asm_before(_address: PointerMut, _bytes: u64, _flags: u32, site: SitePointer) {
        assembly::before(site);
    }

    fn __crashproof_asm_after(_address: PointerMut, _bytes: u64, _flags: u32, _site: SitePointer) {
        assembly::after();
    }

    fn __crashproof_unknown(address: Pointer, site: SitePointer) { note(record::UNKNOWN, address as u64, 0, site); }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_modify_write() {
        assert_eq!(modify(rmw::XCHG, 1, 2), 2);
        assert_eq!(modify(rmw::SET, 1, 2), 2);
        assert_eq!(modify(rmw::ADD, 0xff, 1) as u8, 0, "of one byte");
        assert_eq!(modify(rmw::SUB, 0, 1), u128::MAX);
        assert_eq!((modify(rmw::AND, 6, 3), modify(rmw::OR, 6, 3), modify(rmw::XOR, 6, 3)), (2, 7, 5));
    }
}
