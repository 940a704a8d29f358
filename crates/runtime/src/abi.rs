//! The functions that instrumented code calls. `crates/instrument/abi/crashproof_abi.h` says when.

use std::ffi::c_void;

use crashproof_protocol::abi::{PmFixup, PmGlobal, Site, VERSION, asm, is_pm, kind, rmw, signature};
use crashproof_protocol::record;
use px86::Kind;

use crate::{access, determinism, globals, parallel, raw, server, session, sites, threads};

/// Makes the compiler compare a definition with the interface.
macro_rules! conforms {
    ($($name:ident),* $(,)?) => { $(const _: signature::$name = $name;)* };
}

conforms!(
    __crashproof_register_module,
    __crashproof_register_globals,
    __crashproof_registered,
    __crashproof_load1,
    __crashproof_load2,
    __crashproof_load4,
    __crashproof_load8,
    __crashproof_load_n,
    __crashproof_store1,
    __crashproof_store2,
    __crashproof_store4,
    __crashproof_store8,
    __crashproof_store_n,
    __crashproof_nt_store4,
    __crashproof_nt_store8,
    __crashproof_nt_store_n,
    __crashproof_rmw,
    __crashproof_rmw16,
    __crashproof_cas,
    __crashproof_cas16,
    __crashproof_memcpy,
    __crashproof_memmove,
    __crashproof_memset,
    __crashproof_gather,
    __crashproof_scatter,
    __crashproof_clflush,
    __crashproof_clflushopt,
    __crashproof_clwb,
    __crashproof_sfence,
    __crashproof_mfence,
    __crashproof_locked,
    __crashproof_sync,
    __crashproof_cycles,
    __crashproof_random,
    __crashproof_asm_before,
    __crashproof_asm_after,
    __crashproof_unknown,
);

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_register_module(version: u32, begin: *const Site, end: *const Site) {
    session::start();
    if version != VERSION {
        session::give_up("a module was built with another version of crashproof; build everything again");
    }
    sites::register(begin, end);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_register_globals(
    begin: *const *mut PmGlobal,
    end: *const *mut PmGlobal,
    fixups: *const PmFixup,
    fixups_end: *const PmFixup,
) {
    session::start();
    globals::register(begin, end, fixups, fixups_end);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_registered(module: *const c_void) {
    server::registered(module);
}

macro_rules! loads {
    ($($name:ident $width:literal),*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(address: *const c_void, site: *const Site) -> u64 {
            access::load(address as u64, $width, site)
        }
    )* };
}
loads!(__crashproof_load1 1, __crashproof_load2 2, __crashproof_load4 4, __crashproof_load8 8);

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_load_n(
    destination: *mut c_void,
    address: *const c_void,
    bytes: u64,
    site: *const Site,
) {
    access::load_range(destination.cast(), address as u64, bytes, site);
}

macro_rules! stores {
    ($($name:ident $kind:ident $width:literal),*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(address: *mut c_void, value: u64, site: *const Site) {
            let value = value & (u64::MAX >> (64 - 8 * $width));
            access::store(Kind::$kind, address as u64, $width, value, site);
        }
    )* };
}
stores!(
    __crashproof_store1 Store 1,
    __crashproof_store2 Store 2,
    __crashproof_store4 Store 4,
    __crashproof_store8 Store 8,
    __crashproof_nt_store4 NonTemporalStore 4,
    __crashproof_nt_store8 NonTemporalStore 8
);

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_store_n(
    address: *mut c_void,
    source: *const c_void,
    bytes: u64,
    site: *const Site,
) {
    access::store_range(Kind::Store, address as u64, source.cast(), bytes, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_nt_store_n(
    address: *mut c_void,
    source: *const c_void,
    bytes: u64,
    site: *const Site,
) {
    access::store_range(Kind::NonTemporalStore, address as u64, source.cast(), bytes, site);
}

fn modify(operation: u32, old: u64, operand: u64) -> u64 {
    match operation {
        rmw::XCHG => operand,
        rmw::ADD => old.wrapping_add(operand),
        rmw::SUB => old.wrapping_sub(operand),
        rmw::AND => old & operand,
        rmw::OR => old | operand,
        rmw::XOR => old ^ operand,
        _ => session::give_up("a read-modify-write operation this runtime does not know"),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_rmw(
    address: *mut c_void,
    bytes: u32,
    operation: u32,
    operand: u64,
    site: *const Site,
) -> u64 {
    let (address, bytes) = (address as u64, u64::from(bytes));
    if operation == rmw::SET {
        access::overwrite(address, bytes, operand, site);
        return 0;
    }
    access::exchange(address, bytes, site, |old| Some(modify(operation, old, operand)))
}

unsafe fn wide(address: u64, site: *const Site) -> u128 {
    let low = access::load(address, 8, site);
    let high = access::load(address + 8, 8, site);
    u128::from(high) << 64 | u128::from(low)
}

/// Sixteen bytes are stored as two words: the hardware promises to persist only eight at once.
unsafe fn store_wide(address: u64, value: u128, site: *const Site) {
    access::store(Kind::Rmw, address, 8, value as u64, site);
    access::store(Kind::Store, address + 8, 8, (value >> 64) as u64, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_rmw16(
    address: *mut c_void,
    operation: u32,
    operand: *const c_void,
    old: *mut c_void,
    site: *const Site,
) {
    let operand = operand.cast::<u128>().read_unaligned();
    let change = |before: u128| match operation {
        rmw::XCHG | rmw::SET => operand,
        rmw::ADD => before.wrapping_add(operand),
        rmw::SUB => before.wrapping_sub(operand),
        rmw::AND => before & operand,
        rmw::OR => before | operand,
        rmw::XOR => before ^ operand,
        _ => session::give_up("a read-modify-write operation this runtime does not know"),
    };
    if !access::recording() {
        let before = parallel::exchange_wide(address as u64, |before| Some(change(before)));
        old.cast::<u128>().write_unaligned(before);
        return;
    }
    access::begin_exchange(site);
    if operation == rmw::SET {
        store_wide(address as u64, operand, site);
        access::end_exchange(false);
        return;
    }
    let before = wide(address as u64, site);
    let after = change(before);
    store_wide(address as u64, after, site);
    access::end_exchange(before == after);
    old.cast::<u128>().write_unaligned(before);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_cas(
    address: *mut c_void,
    bytes: u32,
    expected: u64,
    desired: u64,
    site: *const Site,
) -> u64 {
    access::exchange(address as u64, u64::from(bytes), site, |old| (old == expected).then_some(desired))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_cas16(
    address: *mut c_void,
    expected: *const c_void,
    desired: *const c_void,
    old: *mut c_void,
    site: *const Site,
) -> u32 {
    let expected = expected.cast::<u128>().read_unaligned();
    if !access::recording() {
        let desired = desired.cast::<u128>().read_unaligned();
        let before = parallel::exchange_wide(address as u64, |old| (old == expected).then_some(desired));
        old.cast::<u128>().write_unaligned(before);
        return u32::from(before == expected);
    }
    access::begin_exchange(site);
    let before = wide(address as u64, site);
    let matches = before == expected;
    if matches {
        store_wide(address as u64, desired.cast::<u128>().read_unaligned(), site);
    } else {
        access::failed_exchange(address as u64, 8, before as u64, site);
    }
    access::end_exchange(!matches);
    old.cast::<u128>().write_unaligned(before);
    u32::from(matches)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_memcpy(
    destination: *mut c_void,
    source: *const c_void,
    bytes: u64,
    site: *const Site,
) {
    copy(destination, source, bytes, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_memmove(
    destination: *mut c_void,
    source: *const c_void,
    bytes: u64,
    site: *const Site,
) {
    copy(destination, source, bytes, site);
}

pub(crate) unsafe fn copy(destination: *mut c_void, source: *const c_void, bytes: u64, site: *const Site) {
    match (is_pm(destination as u64), is_pm(source as u64)) {
        (false, false) => raw::copy(destination.cast(), source.cast(), bytes as usize),
        (false, true) => access::load_range(destination.cast(), source as u64, bytes, site),
        (true, reads) => {
            if reads {
                access::before_read_range(source as u64, bytes, site);
            }
            access::store_range(Kind::Store, destination as u64, source.cast(), bytes, site);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_memset(destination: *mut c_void, byte: u32, bytes: u64, site: *const Site) {
    access::fill(destination as u64, byte as u8, bytes, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_gather(
    destination: *mut c_void,
    addresses: *const *const c_void,
    mask: *const u8,
    lane_bytes: u32,
    lanes: u32,
    site: *const Site,
) {
    for lane in (0..lanes as usize).filter(|&lane| *mask.add(lane) != 0) {
        let at = *addresses.add(lane);
        let to = destination.cast::<u8>().add(lane * lane_bytes as usize);
        copy(to.cast(), at, u64::from(lane_bytes), site);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_scatter(
    addresses: *const *mut c_void,
    source: *const c_void,
    mask: *const u8,
    lane_bytes: u32,
    lanes: u32,
    site: *const Site,
) {
    for lane in (0..lanes as usize).filter(|&lane| *mask.add(lane) != 0) {
        let from = source.cast::<u8>().add(lane * lane_bytes as usize);
        copy(*addresses.add(lane), from.cast(), u64::from(lane_bytes), site);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_clflush(address: *const c_void, site: *const Site) {
    access::flush(Kind::Flush, address as u64, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_clflushopt(address: *const c_void, site: *const Site) {
    access::flush(Kind::FlushOpt, address as u64, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_clwb(address: *const c_void, site: *const Site) {
    access::flush(Kind::FlushOpt, address as u64, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_sfence(site: *const Site) {
    access::fence(Kind::StoreFence, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_mfence(site: *const Site) {
    access::fence(Kind::Fence, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_locked(address: *const c_void, stored: u32, site: *const Site) {
    threads::locked(address as u64, stored != 0, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_sync(address: *const c_void, site: *const Site) {
    let stored = !matches!((*site).kind(), Some(kind::LOAD | kind::PAUSE));
    threads::sync(address as u64, stored, site);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_cycles() -> u64 {
    determinism::cycles()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_random() -> u64 {
    determinism::random()
}

/// What a range held before the assembly that is running; assembly does not nest within a thread.
const SNAPSHOT_BYTES: usize = 4096;
static mut SNAPSHOT: [u8; SNAPSHOT_BYTES] = [0; SNAPSHOT_BYTES];
static mut SNAPSHOTS: [(u64, u64, usize); 8] = [(0, 0, 0); 8];
static mut SNAPSHOT_COUNT: usize = 0;
static mut SNAPSHOT_USED: usize = 0;
/// Ranges of the assembly that is running: from the first to the last nobody else runs.
static mut ASM_RANGES: u32 = 0;

/// Does assembly run that was announced?
pub(crate) unsafe fn in_announced_assembly() -> bool {
    ASM_RANGES > 0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_asm_before(
    address: *mut c_void,
    bytes: u64,
    flags: u32,
    site: *const Site,
) {
    if !access::recording() {
        return;
    }
    if ASM_RANGES == 0 {
        access::begin_exchange(site);
    }
    ASM_RANGES += 1;
    if flags & asm::READ != 0 {
        access::before_read_range(address as u64, bytes, site);
    }
    if flags & asm::WRITE == 0 {
        return;
    }
    if SNAPSHOT_COUNT == SNAPSHOTS.len() || SNAPSHOT_USED + bytes as usize > SNAPSHOT_BYTES {
        access::note(record::UNKNOWN, address as u64, 0, site);
        return;
    }
    let place = SNAPSHOT.as_mut_ptr().add(SNAPSHOT_USED);
    raw::copy(place, address.cast(), bytes as usize);
    SNAPSHOTS[SNAPSHOT_COUNT] = (address as u64, bytes, SNAPSHOT_USED);
    SNAPSHOT_COUNT += 1;
    SNAPSHOT_USED += bytes as usize;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_asm_after(address: *mut c_void, bytes: u64, flags: u32, site: *const Site) {
    if !access::recording() {
        return;
    }
    if flags & asm::WRITE != 0 {
        record_changes(address, bytes, flags, site);
    }
    ASM_RANGES = ASM_RANGES.saturating_sub(1);
    if ASM_RANGES == 0 {
        access::end_exchange(false);
    }
}

/// Assembly ran; what differs now in a range is what it stored there.
unsafe fn record_changes(address: *mut c_void, bytes: u64, flags: u32, site: *const Site) {
    let kind = match flags {
        flags if flags & asm::LOCKED != 0 => Kind::Rmw,
        flags if flags & asm::NONTEMPORAL != 0 => Kind::NonTemporalStore,
        _ => Kind::Store,
    };
    let known =
        SNAPSHOTS[..SNAPSHOT_COUNT].iter().find(|known| known.0 == address as u64 && known.1 == bytes);
    if let Some(&(_, _, at)) = known {
        let before = SNAPSHOT.as_ptr().add(at);
        let mut done = 0;
        let mut stored = false;
        while done < bytes {
            let width = (8 - (address as u64 + done) % 8).min(bytes - done);
            let now = std::slice::from_raw_parts(address.cast::<u8>().add(done as usize), width as usize);
            let then = std::slice::from_raw_parts(before.add(done as usize), width as usize);
            if now != then || kind == Kind::Rmw && !stored {
                let kind = if stored && kind == Kind::Rmw { Kind::Store } else { kind };
                access::store_range(kind, address as u64 + done, now.as_ptr(), width, site);
                stored = true;
            } else if flags & asm::READ == 0 {
                // It stored what was there already, or nothing: that depends on what was there, so it counts as read.
                access::before_read_range(address as u64 + done, width, site);
            }
            done += width;
        }
    }
    // The last range ends the statement.
    if SNAPSHOTS[..SNAPSHOT_COUNT].last().is_some_and(|last| last.0 == address as u64) {
        SNAPSHOT_COUNT = 0;
        SNAPSHOT_USED = 0;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_unknown(address: *const c_void, site: *const Site) {
    access::note(record::UNKNOWN, address as u64, 0, site);
}
