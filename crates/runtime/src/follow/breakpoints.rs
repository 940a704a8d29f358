//! Instructions replaced by breakpoints, and their original bytes.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::settled;
use crate::system::raw_syscall;

const PAGE: usize = 4096;

/// Slots of the table, which is indexed by address and holds the address and the original byte.
const PLACES: usize = 1 << 16;
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// Allocates the table; `false` if there is no memory.
pub(crate) fn prepare() -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping of zeros, which is an empty table.
    unsafe {
        let table = libc::mmap(std::ptr::null_mut(), PLACES * size_of::<Place>(), rights, flags, -1, 0);
        if table == libc::MAP_FAILED {
            return false;
        }
        TABLE.store(table as usize, Relaxed);
    }
    true
}

/// Most of what it will hold is there: children are not to inherit it page by page.
pub(crate) fn settle() {
    let table = TABLE.load(Relaxed);
    if table != 0 {
        // SAFETY: the whole table, which has no other user now.
        unsafe { settled::settle(table, PLACES * size_of::<Place>()) };
    }
}

#[repr(C)]
struct Place {
    address: usize,
    original: usize,
}

fn place(address: usize) -> Option<&'static mut Place> {
    let table = TABLE.load(Relaxed) as *mut Place;
    if table.is_null() {
        return None;
    }
    let first = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    for at in first..first + PLACES {
        // SAFETY: within the table; only the running thread uses it.
        let place = unsafe { &mut *table.add(at % PLACES) };
        if place.address == address || place.address == 0 {
            return Some(place);
        }
    }
    None
}

/// Restores the original bytes in a copy of code.
pub(crate) fn restore(at: usize, code: &mut [u8]) {
    for (offset, byte) in code.iter_mut().enumerate().filter(|(_, byte)| **byte == 0xcc) {
        if let Some(place) = place(at + offset).filter(|place| place.address == at + offset) {
            *byte = place.original as u8;
        }
    }
}

/// Is there a breakpoint of ours at this address?
pub(crate) fn is_at(address: usize) -> bool {
    place(address).is_some_and(|place| place.address == address)
}

/// Makes a module's code one mapping that stays one when some of its pages change. A mapping that once was writable
/// counts its memory for the rest of its life, and is not joined with one that does not; each fork copies each of them.
pub(crate) fn keep_whole(begin: usize, end: usize) {
    let (page, end) = (begin / PAGE * PAGE, end.next_multiple_of(PAGE));
    let run = libc::PROT_READ | libc::PROT_EXEC;
    for rights in [run | libc::PROT_WRITE, run] {
        // SAFETY: code, which stays executable throughout. If that is not permitted it stays as it is.
        unsafe { raw_syscall(libc::SYS_mprotect, [page, end - page, rights as usize, 0, 0, 0]) };
    }
}

/// Replaces instructions by breakpoints; the addresses are sorted.
pub(crate) fn set(addresses: &[usize]) -> bool {
    for address in addresses {
        let Some(place) = place(*address) else { return false };
        if place.address == *address {
            continue;
        }
        let page = address / PAGE * PAGE;
        // SAFETY: code, which stays executable throughout; only this thread runs.
        unsafe {
            let write = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            if libc::syscall(libc::SYS_mprotect, page, PAGE, write) != 0 {
                return false;
            }
            let code = *address as *mut u8;
            *place = Place { address: *address, original: code.read() as usize };
            code.write_volatile(0xcc);
            libc::syscall(libc::SYS_mprotect, page, PAGE, libc::PROT_READ | libc::PROT_EXEC);
        }
    }
    true
}

/// Restores the instruction, which then runs unseen.
pub(crate) unsafe fn remove(at: usize) {
    let Some(place) = place(at) else { return };
    // SAFETY: as for this function.
    unsafe { write(at, place.original as u8) };
}

/// Restores a removed breakpoint.
pub(crate) unsafe fn put_back(at: usize) {
    if is_at(at) {
        // SAFETY: as for this function.
        unsafe { write(at, 0xcc) };
    }
}

unsafe fn write(at: usize, byte: u8) {
    let page = at / PAGE * PAGE;
    // SAFETY: code that is running.
    unsafe {
        let write = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        libc::syscall(libc::SYS_mprotect, page, PAGE, write);
        (at as *mut u8).write_volatile(byte);
        libc::syscall(libc::SYS_mprotect, page, PAGE, libc::PROT_READ | libc::PROT_EXEC);
    }
}
