//! Single-steps threads that were not rebuilt while all their schedules are explored.
//!
//! Their accesses to persistent memory fault, the runtime implements locks, and locked instructions are breakpoints.
//! Plain accesses to volatile memory are none of these, yet threads may communicate through them. So the processor
//! stops after every instruction of the program (but not of the C library and a few other libraries), and the accesses
//! of the next one are reported to [`unseen_accesses`]. The checker then asks for instructions with unordered accesses
//! to become steps, like atomic accesses of rebuilt code: those are *watched*.
//!
//! A call out of such code ends single-stepping; a breakpoint at its return address resumes it. Callbacks from code
//! that is not followed are missed, and so are the targets of `longjmp`, until the next return.

use std::collections::HashSet;

use crashproof_protocol::abi::{Site, is_pm};

use super::instruction::{Instructed, register};
use super::{breakpoints, fences, trampoline};
use crate::cell::RunningThreadCell;
use crate::threads::running;
use crate::threads::turns::{
    VolatileAccess, after_volatile_access, after_volatile_exchange, before_volatile_access, give_way,
};
use crate::threads::unseen_accesses::{self, wanted};
use crate::{callers, fixed, raw, session, sites};

/// The processor flag for single-stepping (TF).
const STOP: i64 = 0x100;
/// The most instructions followed per run: about a second.
const MOST: u64 = 400_000;

/// A watched access that is about to happen.
#[derive(Clone, Copy)]
struct Watched {
    address: u64,
    accesses: VolatileAccess,
    site: *const Site,
}

#[derive(Clone, Default)]
struct Thread {
    followed: bool,
    begun: bool,
    watched: Option<Watched>,
    waiting: Waiting,
}

/// Detects that a thread returns to the same state without a step, and where it reads what others may store.
#[derive(Clone, Default)]
struct Waiting {
    /// Steps so far, and instructions since the last one.
    steps: usize,
    instructions: u32,
    /// The state it may return to.
    anchor: Option<(usize, u64)>,
    reads: Vec<u32>,
}

impl Waiting {
    /// Instructions without a step after which a thread is examined, and for how long.
    const LONG: u32 = 2_000;
    const LOOK: u32 = 1_000;

    /// Called before an instruction, with the number of steps so far: is the thread busy-waiting?
    fn goes_on(&mut self, at: usize, steps: usize, mut state: impl FnMut() -> u64) -> bool {
        if self.steps != steps {
            *self = Waiting { steps, ..Waiting::default() };
        }
        self.instructions += 1;
        if self.instructions < Waiting::LONG {
            return false;
        }
        match self.anchor {
            Some((there, before)) if there == at && state() == before && !self.reads.is_empty() => true,
            Some((there, _)) if there == at => {
                // It does something else each time, or counts.
                *self = Waiting { steps, ..Waiting::default() };
                false
            }
            Some(_) if self.instructions < Waiting::LONG + Waiting::LOOK => false,
            Some(_) => {
                *self = Waiting { steps, ..Waiting::default() };
                false
            }
            None => {
                self.anchor = Some((at, state()));
                false
            }
        }
    }

    /// Records an access to volatile memory outside the thread's stack.
    fn accesses(&mut self, stores: bool, site: u32) {
        if self.anchor.is_none() {
            return;
        }
        if stores {
            *self = Waiting { steps: self.steps, ..Waiting::default() };
        } else if !self.reads.contains(&site) {
            self.reads.push(site);
        }
    }
}

/// A hash of the registers and the innermost part of the stack.
///
/// # Safety
///
/// The context is that of an interrupted thread.
unsafe fn state(context: &mut libc::ucontext_t) -> u64 {
    let mut hash = 0u64;
    let mut add = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let stack = *register(context, libc::REG_RSP) as u64;
    // Up to the registers that are not the program's.
    context.uc_mcontext.gregs[..libc::REG_RIP as usize].iter().for_each(|&word| add(word as u64));
    for slot in 0..32 {
        // SAFETY: a thread's startup code has already used at least that much of its stack.
        add(unsafe { raw::peek(stack + 8 * slot, 8) });
    }
    hash
}

#[derive(Default)]
struct Tracing {
    threads: Vec<Thread>,
    /// Breakpoints at which threads return to followed code.
    returns: HashSet<usize>,
    /// Those of them to put back once the instruction has run.
    removed: Vec<usize>,
    /// Numbers of the places whose accesses are steps.
    watched: HashSet<u32>,
    count: u64,
}

static TRACING: RunningThreadCell<Option<Tracing>> = RunningThreadCell::new(None);

fn with<R>(access: impl FnOnce(&mut Tracing) -> R) -> R {
    TRACING.with(|tracing| access(tracing.get_or_insert_with(Tracing::default)))
}

fn thread<R>(access: impl FnOnce(&mut Thread) -> R) -> R {
    let number = usize::from(running::number());
    with(|tracing| {
        if tracing.threads.len() <= number {
            tracing.threads.resize_with(number + 1, Thread::default);
        }
        access(&mut tracing.threads[number])
    })
}

/// Called when a child of the checker begins.
pub(crate) fn start() {
    if !session::follows_volatile() {
        return;
    }
    let watched = session::control(|control| {
        let count = (control.watched_count as usize).min(control.watched.len());
        control.watched[..count].iter().copied().collect()
    });
    TRACING.set(Some(Tracing { watched, ..Tracing::default() }));
    unseen_accesses::register(follow_from);
}

/// Follows a thread from the point where it reaches this address.
fn follow_from(at: usize) {
    if !fences::is_traced(at) || !with(|tracing| tracing.returns.insert(at)) {
        return;
    }
    if breakpoints::is_at(at) {
        // Already a breakpoint, for a fence or a locked instruction; or a removed one.
        // SAFETY: code that is not running.
        unsafe { breakpoints::put_back(at) };
    } else if !breakpoints::set(&[at]) {
        with(|tracing| tracing.returns.remove(&at));
    }
}

/// Restores removed breakpoints, before a trap or fault is handled in any other way.
pub(crate) fn interrupted() {
    let Some(tracing) = TRACING.with(|tracing| tracing.as_mut().map(|it| std::mem::take(&mut it.removed)))
    else {
        return;
    };
    for at in tracing {
        // SAFETY: code that has run.
        unsafe { breakpoints::put_back(at) };
    }
}

/// Handles a breakpoint at which a thread returns to followed code, and follows it again. `false` if the replaced
/// instruction must still be emulated, or if the breakpoint is another one.
///
/// # Safety
///
/// The context is that of the breakpoint.
pub(crate) unsafe fn comes_back(context: &mut libc::ucontext_t) -> bool {
    let at = *register(context, libc::REG_RIP) as usize - 1;
    if !with(|tracing| tracing.returns.contains(&at)) {
        return false;
    }
    let follows = wanted();
    thread(|thread| thread.followed = follows);
    // SAFETY: code of the program.
    let is_own = unsafe { Instructed::decode(at) }.is_some_and(|it| fences::is_breakpoint(&it.decoded));
    if is_own {
        return false;
    }
    // SAFETY: the instruction is about to run.
    unsafe { breakpoints::remove(at) };
    with(|tracing| {
        if follows {
            tracing.removed.push(at);
        } else {
            tracing.returns.remove(&at);
        }
    });
    *register(context, libc::REG_RIP) = at as i64;
    true
}

/// Called after an instruction has run. `false` if no thread is followed.
pub(crate) fn has_run() -> bool {
    let (followed, watched) = thread(|thread| (thread.followed, thread.watched.take()));
    if let Some(Watched { address, accesses, site }) = watched {
        match accesses {
            VolatileAccess::Exchange => after_volatile_exchange(address, true, site),
            VolatileAccess::Load => after_volatile_access(address, false, site),
            VolatileAccess::Store => after_volatile_access(address, true, site),
        }
    }
    followed
}

/// Called before a thread continues at a context's instruction: examines that instruction, if the thread is followed.
///
/// # Safety
///
/// The context is that of a trap or a fault.
pub(crate) unsafe fn goes_on(context: &mut libc::ucontext_t) {
    if !thread(|thread| thread.followed) {
        return;
    }
    *register(context, libc::REG_EFL) &= !STOP;
    let at = *register(context, libc::REG_RIP) as usize;
    if !wanted() {
        return thread(|thread| thread.followed = false);
    }
    if trampoline::is_code(at) {
        // The program's instruction that runs there has already been reported.
        *register(context, libc::REG_EFL) |= STOP;
        return;
    }
    if fences::is_traced(at) {
        let count = with(|tracing| {
            tracing.count += 1;
            tracing.count
        });
        if count > MOST {
            if count == MOST + 1 {
                unseen_accesses::gave_up();
            }
            return thread(|thread| thread.followed = false);
        }
        // SAFETY: as for this function.
        unsafe { look(context, at) };
        *register(context, libc::REG_EFL) |= STOP;
        return;
    }
    thread(|thread| thread.followed = false);
    // It was just called, perhaps through the loader, which leaves two more words on the stack.
    let stack = *register(context, libc::REG_RSP) as u64;
    for slot in [0, 2] {
        // SAFETY: the stack of a function at its entry.
        let caller = unsafe { raw::peek(stack + 8 * slot, 8) } as usize;
        if fences::is_traced(caller) {
            return follow_from(caller);
        }
    }
}

/// Examines the instruction at an address, which is about to run.
unsafe fn look(context: &mut libc::ucontext_t, at: usize) {
    if !thread(|thread| std::mem::replace(&mut thread.begun, true)) && running::number() != 0 {
        unseen_accesses::begins_at(*register(context, libc::REG_RSP) as u64);
    }
    // SAFETY: code that is about to run.
    let Some(instruction) = (unsafe { Instructed::decode(at) }) else { return };
    let site = callers::place(at);
    let number = sites::number(site);
    let count = unseen_accesses::steps();
    let waits = thread(|thread| {
        // SAFETY: as for this function.
        thread.waiting.goes_on(at, count, || unsafe { state(context) }).then(|| thread.waiting.reads.clone())
    });
    if let Some(reads) = waits {
        thread(|thread| thread.waiting = Waiting::default());
        if session::recovering() {
            give_way();
        } else {
            unseen_accesses::spins(&reads);
        }
    }
    let mut told = instruction.is_locked() && breakpoints::is_at(at);
    if !told && with(|tracing| tracing.watched.contains(&number)) {
        // Its other stack accesses are the thread's own.
        if let Some(operand) = instruction.operand(context)
            && !is_pm(operand.address)
            && (operand.reads || operand.writes)
        {
            let (address, bytes) = (operand.address, operand.bytes);
            let accesses = match operand.writes {
                true if instruction.is_locked() => VolatileAccess::Exchange,
                true => VolatileAccess::Store,
                false => VolatileAccess::Load,
            };
            if operand.reads && accesses == VolatileAccess::Store {
                before_volatile_access(address, bytes, site, VolatileAccess::Load);
            }
            before_volatile_access(address, bytes, site, accesses);
            thread(|thread| thread.watched = Some(Watched { address, accesses, site }));
            told = true;
        }
    }
    let mut all = [(0, 0, false); 8];
    let mut count = 0;
    instruction.accesses(context, |address, bytes, stores| {
        if !is_pm(fixed::in_pool(address))
            && let Some(slot) = all.get_mut(count)
        {
            *slot = (address, bytes, stores);
            count += 1;
        }
    });
    let stack = *register(context, libc::REG_RSP) as u64;
    for &(address, bytes, stores) in &all[..count] {
        if address.wrapping_sub(stack.wrapping_sub(1 << 12)) > 1 << 16 {
            thread(|thread| thread.waiting.accesses(stores, number));
        }
        unseen_accesses::accesses(address, bytes, stores, told, number);
    }
}
