//! Instructions with one operand in PM run elsewhere: on a buffer that holds what they read.
//!
//! The instruction is copied with its operand at the address in a register that it does not use otherwise. Behind it the
//! register is restored and the program goes on; if it stores, a breakpoint comes first, at which what it left in the
//! buffer is stored to PM. One thread runs at a time, and none is switched between the two.

use std::ffi::c_int;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::abi::Site;
use iced_x86::Mnemonic;
use px86::Kind;

use super::instruction::{Instructed, LONGEST, Operand, register};
use crate::cell::RunningThreadCell;
use crate::{access, raw};

/// Code that is executed, and its data.
#[repr(C, align(64))]
struct Slot {
    code: [u8; 64],
    saved: u64,
    next: u64,
    _unused: [u64; 6],
    /// Room for an operand of 64 bytes at any place in a line.
    buffer: [u8; 128],
}

/// So that a handler of the program's that interrupts one does not find it in use.
const SLOTS: usize = 64;

/// What is to be done when a storing instruction has run.
#[derive(Clone, Copy)]
struct Store {
    /// Of the breakpoint.
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
    // SAFETY: new memory.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), SLOTS * size_of::<Slot>(), rights, flags, -1, 0) };
    if memory != libc::MAP_FAILED {
        SLOT_MEMORY.store(memory as usize, Relaxed);
    }
}

/// Is an address in what is written here?
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
    // SAFETY: one of the slots, which nobody else refers to.
    Some(unsafe { &mut *(memory as *mut Slot).add(index) })
}

/// Code: `jmp [rip + offset]` and `mov register, [rip + offset]`.
fn relative(at: usize, length: usize, field: usize) -> [u8; 4] {
    ((field - at - length) as i32).to_le_bytes()
}

impl Slot {
    /// Writes the instruction, then either a breakpoint, whose address it gives, or the way back.
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

/// Lets an instruction run with its operand at another address, as it is.
///
/// # Safety
///
/// The context is that of the instruction, and the program would access the address itself.
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

/// Performs an instruction with one operand in PM; false if it cannot be.
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
    // SAFETY: the program would access the addresses itself.
    unsafe {
        if announced || !reads && !writes {
            return run_at(context, instruction, raw::reachable(address));
        }
        if bytes == 0 || bytes > 64 {
            return false;
        }
        let Some((base, free)) = instruction.free_register() else { return false };
        let locked = instruction.is_locked();
        if locked {
            access::begin_exchange();
        }
        let mut before = [0u8; 64];
        if reads && bytes <= 8 {
            before[..8].copy_from_slice(&access::load(address, bytes, site).to_le_bytes());
        } else if reads || conditional {
            // What a masked store leaves alone it does not read; nobody learns of what is copied here.
            if reads {
                access::load_range(before.as_mut_ptr(), address, bytes, site);
            } else {
                raw::copy(before.as_mut_ptr(), address as *const u8, bytes as usize);
            }
        }
        // From here on no other thread runs.
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
                kind,
                site,
                blocked: context.uc_sigmask,
            };
            STATE.with(|state| state.pending = Some(pending));
            // Handlers of the program's wait until it is done.
            libc::sigfillset(&raw mut context.uc_sigmask);
            for signal in [libc::SIGSEGV, libc::SIGTRAP, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
                libc::sigdelset(&raw mut context.uc_sigmask, signal);
            }
        }
        true
    }
}

/// A breakpoint behind a storing instruction: what it stored goes to PM. False if it is another one.
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
    let Store { address, bytes, site, before, conditional, compares, locked, kind, .. } = store;
    // SAFETY: the buffer is a slot's; the program would access the addresses itself.
    unsafe {
        raw::copy(after.as_mut_ptr(), store.buffer as *const u8, width);
        let stored = Stored { address, bytes, before, after, conditional, compares, locked, kind, site };
        complete(&stored, *register(context, libc::REG_EFL) & ZERO == 0);
    }
    true
}

/// What an instruction has stored to the buffer that stands for its operand.
pub(crate) struct Stored {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) before: [u8; 64],
    pub(crate) after: [u8; 64],
    /// Perhaps not all of it was written.
    pub(crate) conditional: bool,
    pub(crate) compares: bool,
    pub(crate) locked: bool,
    pub(crate) kind: Kind,
    pub(crate) site: *const Site,
}

/// Stores it to PM; `unequal` is how a comparison ended.
///
/// # Safety
///
/// The program would access the address itself.
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
            access::end_exchange(failed || after == before);
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
