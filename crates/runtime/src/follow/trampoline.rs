//! Runs instructions with one PM operand elsewhere, on a buffer that holds the operand.
//!
//! The instruction is copied, addressing its operand through a register that it does not otherwise use. After it the
//! register is restored and the program continues. If the instruction stores, a breakpoint comes first, at which the
//! buffer's content is stored to PM. One thread runs at a time, and no switch happens in between.

use std::ffi::c_int;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::abi::Site;
use iced_x86::Mnemonic;
use px86::Kind;

use super::instruction::{Instructed, LONGEST, Operand, register};
use super::unused_result;
use crate::cell::RunningThreadCell;
use crate::{access, raw};

/// Executable code, and its data.
#[repr(C, align(64))]
struct Slot {
    code: [u8; 64],
    saved: u64,
    next: u64,
    _unused: [u64; 6],
    /// Room for a 64-byte operand at any offset in a line.
    buffer: [u8; 128],
}

/// Several, so that a program's signal handler that interrupts one does not reuse it.
const SLOTS: usize = 64;

/// What remains to do after a storing instruction.
#[derive(Clone, Copy)]
struct Store {
    /// Address of the breakpoint.
    trap: usize,
    buffer: usize,
    next: usize,
    free: c_int,
    saved: i64,
    address: u64,
    bytes: u64,
    before: [u8; 64],
    conditional: bool,
    compares: bool,
    locked: bool,
    blind: bool,
    kind: Kind,
    site: *const Site,
    blocked: libc::sigset_t,
}

struct State {
    next_slot: usize,
    pending: Option<Store>,
}

static SLOT_MEMORY: AtomicUsize = AtomicUsize::new(0);
static STATE: RunningThreadCell<State> = RunningThreadCell::new(State { next_slot: 0, pending: None });

pub(crate) fn prepare() {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), SLOTS * size_of::<Slot>(), rights, flags, -1, 0) };
    if memory != libc::MAP_FAILED {
        SLOT_MEMORY.store(memory as usize, Relaxed);
    }
}

/// Is an address within a trampoline?
pub(crate) fn is_code(at: usize) -> bool {
    let memory = SLOT_MEMORY.load(Relaxed);
    memory != 0 && (memory..memory + SLOTS * size_of::<Slot>()).contains(&at)
}

fn next_slot() -> Option<&'static mut Slot> {
    let memory = SLOT_MEMORY.load(Relaxed);
    if memory == 0 {
        return None;
    }
    let index = STATE.with(|state| {
        state.next_slot = (state.next_slot + 1) % SLOTS;
        state.next_slot
    });
    // SAFETY: one of the slots; no other reference to it exists.
    Some(unsafe { &mut *(memory as *mut Slot).add(index) })
}

/// Encodes `jmp [rip + offset]` and `mov register, [rip + offset]`.
fn relative(at: usize, length: usize, field: usize) -> [u8; 4] {
    ((field - at - length) as i32).to_le_bytes()
}

impl Slot {
    /// Writes the instruction, then either a breakpoint, whose address it returns, or the jump back.
    fn write(&mut self, instruction: &Instructed, base: u8, stops: bool) -> Option<usize> {
        const SAVED: usize = std::mem::offset_of!(Slot, saved);
        const NEXT: usize = std::mem::offset_of!(Slot, next);
        let mut at = instruction.moved_to(base, &mut self.code[..LONGEST])?;
        let trap = &raw const self.code as usize + at;
        if stops {
            self.code[at] = 0xcc;
            return Some(trap);
        }
        self.code[at..at + 3].copy_from_slice(&[0x48, 0x8b, 0x05 | base << 3]);
        self.code[at + 3..at + 7].copy_from_slice(&relative(at, 7, SAVED));
        at += 7;
        self.code[at..at + 2].copy_from_slice(&[0xff, 0x25]);
        self.code[at + 2..at + 6].copy_from_slice(&relative(at, 6, NEXT));
        Some(trap)
    }
}

/// Runs an instruction unchanged, except that its operand is at another address.
///
/// # Safety
///
/// The context is that of the instruction, and the program itself would access the address.
pub(crate) unsafe fn run_at(context: &mut libc::ucontext_t, instruction: &Instructed, address: u64) -> bool {
    let Some((base, free)) = instruction.free_register() else { return false };
    let Some(slot) = next_slot() else { return false };
    if slot.write(instruction, base, false).is_none() {
        return false;
    }
    slot.saved = *register(context, free) as u64;
    slot.next = instruction.end() as u64;
    *register(context, free) = address as i64;
    *register(context, libc::REG_RIP) = slot.code.as_ptr() as i64;
    true
}

/// Performs an instruction with one PM operand; `false` if it cannot be performed.
///
/// # Safety
///
/// As for [`run_at`].
pub(crate) unsafe fn perform(
    context: &mut libc::ucontext_t,
    instruction: &Instructed,
    operand: &Operand,
    announced: bool,
    site: *const Site,
) -> bool {
    let &Operand { address, bytes, reads, writes, conditional } = operand;
    // SAFETY: the program itself would access the addresses.
    unsafe {
        if announced || !reads && !writes {
            return run_at(context, instruction, raw::reachable(address));
        }
        if bytes == 0 || bytes > 64 {
            return false;
        }
        let Some((base, free)) = instruction.free_register() else { return false };
        let locked = instruction.is_locked();
        // No thread that spins: schedules must not depend on whether a store changes the value.
        let blind = locked && unused_result::is_unused(instruction);
        let reads = reads && !blind;
        if locked {
            access::begin_exchange();
        }
        let mut before = [0u8; 64];
        if reads && bytes <= 8 {
            before[..8].copy_from_slice(&access::load(address, bytes, site).to_le_bytes());
        } else if reads || conditional {
            // A masked store does not read the bytes it leaves alone, so copying them is not recorded.
            if reads {
                access::load_range(before.as_mut_ptr(), address, bytes, site);
            } else {
                raw::copy(before.as_mut_ptr(), address as *const u8, bytes as usize);
            }
        }
        // No other thread runs from here on.
        let slot = next_slot();
        let Some((slot, trap)) = slot
            .and_then(|slot| Some((slot.write(instruction, base, writes)?, slot)))
            .map(|(trap, slot)| (slot, trap))
        else {
            if locked {
                access::end_exchange(true);
            }
            return false;
        };
        let buffer = slot.buffer.as_mut_ptr().add((address % 64) as usize);
        raw::copy(buffer, before.as_ptr(), bytes as usize);
        let saved = *register(context, free);
        let next = instruction.end();
        (slot.saved, slot.next) = (saved as u64, next as u64);
        *register(context, free) = buffer as i64;
        *register(context, libc::REG_RIP) = slot.code.as_ptr() as i64;
        if writes {
            let kind = if instruction.is_non_temporal() { Kind::NonTemporalStore } else { Kind::Store };
            let compares = matches!(
                instruction.mnemonic(),
                Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b
            );
            let pending = Store {
                trap,
                buffer: buffer as usize,
                next,
                free,
                saved,
                address,
                bytes,
                before,
                conditional,
                compares,
                locked,
                blind,
                kind,
                site,
                blocked: context.uc_sigmask,
            };
            STATE.with(|state| state.pending = Some(pending));
            // The program's signal handlers wait until it is done.
            libc::sigfillset(&raw mut context.uc_sigmask);
            for signal in [libc::SIGSEGV, libc::SIGTRAP, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
                libc::sigdelset(&raw mut context.uc_sigmask, signal);
            }
        }
        true
    }
}

/// Handles the breakpoint after a storing instruction: stores its result to PM. `false` if it is another breakpoint.
///
/// # Safety
///
/// The context is that of the breakpoint.
pub(crate) unsafe fn finish(context: &mut libc::ucontext_t) -> bool {
    const ZERO: i64 = 0x40;
    let trap = *register(context, libc::REG_RIP) as usize - 1;
    let taken = STATE.with(|state| state.pending.take_if(|pending| pending.trap == trap));
    let Some(store) = taken else { return false };
    *register(context, libc::REG_RIP) = store.next as i64;
    *register(context, store.free) = store.saved;
    context.uc_sigmask = store.blocked;
    let width = store.bytes as usize;
    let mut after = [0u8; 64];
    let Store { address, bytes, site, before, conditional, compares, locked, blind, kind, .. } = store;
    // SAFETY: the buffer is a slot's; the program itself would access the addresses.
    unsafe {
        raw::copy(after.as_mut_ptr(), store.buffer as *const u8, width);
        let stored =
            Stored { address, bytes, before, after, conditional, compares, locked, blind, kind, site };
        complete(&stored, *register(context, libc::REG_EFL) & ZERO == 0);
    }
    true
}

/// What an instruction stored to the buffer in place of its operand.
pub(crate) struct Stored {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) before: [u8; 64],
    pub(crate) after: [u8; 64],
    /// May have been written only in part.
    pub(crate) conditional: bool,
    pub(crate) compares: bool,
    pub(crate) locked: bool,
    /// Stored without a look at what was there: `before` is not known.
    pub(crate) blind: bool,
    pub(crate) kind: Kind,
    pub(crate) site: *const Site,
}

/// Stores it to PM; `unequal` is the outcome of a comparison.
///
/// # Safety
///
/// The program itself would access the address.
pub(crate) unsafe fn complete(stored: &Stored, unequal: bool) {
    let &Stored { address, bytes, before, after, kind, site, .. } = stored;
    let width = bytes as usize;
    let word =
        |bytes: &[u8; 64], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let failed = stored.compares && unequal;
    // SAFETY: as for this function.
    unsafe {
        if stored.locked {
            match (failed, bytes) {
                (true, _) => access::failed_exchange(address, bytes.min(8), word(&before, 0), site),
                (_, 16) => {
                    access::store(Kind::Rmw, address, 8, word(&after, 0), site);
                    access::store(Kind::Store, address + 8, 8, word(&after, 8), site);
                }
                _ => access::store(Kind::Rmw, address, bytes, word(&after, 0), site),
            }
            access::end_exchange(failed || !stored.blind && after == before);
        } else if stored.conditional {
            let changed = |at: &usize| after[*at] != before[*at];
            let mut at = 0;
            while at < width && !failed {
                let run = (at..width).take_while(changed).count();
                if run > 0 {
                    let from = after.as_ptr().add(at);
                    access::store_range(kind, address + at as u64, from, run as u64, site);
                }
                at += run + 1;
            }
        } else if bytes <= 8 {
            let value = word(&after, 0) & u64::MAX >> (64 - 8 * bytes);
            access::store(kind, address, bytes, value, site);
        } else {
            access::store_range(kind, address, after.as_ptr(), bytes, site);
        }
    }
}
