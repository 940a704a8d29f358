//! Follows code that was not rebuilt, by means of faults.
//!
//! The pool is mapped at its alias, where rebuilt code and the runtime read and write; its window, whose addresses
//! programs have, is inaccessible. All other accesses to the window fault: those of the distribution's libraries,
//! libc's own stores, assembly the plugin does not understand, and entire programs never compiled with `crashproof cc`.
//! The handler decodes the instruction, performs its PM accesses the way rebuilt code does, and lets the rest of it
//! run:
//!
//! * most instructions run from a trampoline, on a small buffer that holds their operand; what they leave there is then
//!   stored to PM ([`trampoline`]);
//! * those that fault often are replaced by code that checks their operand first ([`patches`]);
//! * string instructions, flushes and jumps through PM are emulated here ([`strings`]);
//! * for the rest (operands of unknown size, several PM operands, gathers) the page is made accessible for one single
//!   step, and the verdict says so.
//!
//! Fences do not fault: [`fences`] finds them beforehand and replaces them by breakpoints. Nor does the kernel: a
//! seccomp filter stops system calls with PM arguments ([`system_calls`]).
//!
//! What the C library does on the runtime's behalf goes to the alias and is not recorded again.

mod announced;
mod asking;
mod breakpoints;
mod fences;
mod instruction;
mod moved;
mod patches;
mod standard_library;
mod stepping;
mod strings;
mod system_calls;
mod tracing;
mod trampoline;
mod unused_result;

use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::{POOL_BASE, POOL_BYTES, reason};
use iced_x86::Mnemonic;
use px86::Kind;

use crate::recorder::unknown;
use crate::system::KeptErrno;
use crate::threads::running;
use crate::threads::turns::asked_to_give_way;
use crate::{access, assembly, callers, faults, fixed, mapped, session, signals, strict};
use announced::{is_announced, place};
use fences::Fences;
use instruction::{Instructed, register};

/// Called once, before children are forked.
pub(crate) fn prepare() {
    instruction::prepare();
    trampoline::prepare();
    fences::prepare();
    system_calls::prepare();
    patches::prepare();
    breakpoints::settle();
}

/// Called once, after all other signal setup: children inherit it.
pub(crate) fn take_signals() {
    signals::take([
        on_fault as *const () as usize,
        on_trap as *const () as usize,
        system_calls::on_call as *const () as usize,
    ]);
}

/// Called in the parent before each fork of a child.
pub(crate) fn prepare_child() {
    patches::patch_what_children_patched();
}

/// Called when a child of the checker starts.
pub(crate) fn start() {
    fences::start();
    tracing::start();
    if session::follows_volatile() || session::wants_stacks() {
        patches::undo();
    }
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    // SAFETY: the kernel passes both.
    unsafe {
        if running::has_threads() {
            tracing::interrupted();
        }
        handle_fault(signal, info, context);
        if running::has_threads() {
            tracing::goes_on(&mut *context.cast::<libc::ucontext_t>());
        }
    }
}

unsafe fn handle_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both.
    unsafe {
        let touched = (*info).si_addr() as u64;
        let address = fixed::in_pool(touched);
        if faults::has_sent()
            || (*info).si_code <= 0
            || !(POOL_BASE..POOL_BASE + POOL_BYTES).contains(&address)
        {
            return signals::pass_on(signal, info, context);
        }
        let context = &mut *context.cast::<libc::ucontext_t>();
        let at = *register(context, libc::REG_RIP) as usize;
        let announced = is_announced();
        const WRITES: i64 = 2;
        let writes = *register(context, libc::REG_ERR) & WRITES != 0;
        let access = if writes { mapped::Access::Write } else { mapped::Access::Read };
        if !announced {
            if mapped::look_up(address, access) == Some(libc::SIGSEGV) {
                return signals::pass_on(signal, info, context as *mut libc::ucontext_t as *mut c_void);
            }
            mapped::check(address, access, place(at));
        }
        if !session::recording() {
            session::note_unrecorded();
        }
        let mut fences = Fences::Found;
        if !announced {
            fences = fences::first_touch(at, address);
            if !callers::is_in_runtime(at) && assembly::site().is_none() {
                strict::touched(at, address);
            }
        }
        // Where fences may hide, flushes count as complete, which moved code does not know. Nor does it know mappings
        // at addresses the program chose.
        if !announced
            && touched == address
            && fences == Fences::Found
            && let Some(moved) = patches::heat(at)
        {
            *register(context, libc::REG_RIP) = moved as i64;
            return;
        }
        if !follow(context, at, announced, fences) {
            if !announced {
                strict::report(at, address);
            }
            if touched != address {
                unknown(reason::SECOND_PLACE, place(at));
                return signals::pass_on(signal, info, context as *mut libc::ucontext_t as *mut c_void);
            }
            stepping::open(context, address, (!announced).then(|| place(at)));
        }
    }
}

/// Performs the instruction that faulted; `false` if it cannot be performed.
///
/// # Safety
///
/// The context is that of the instruction.
unsafe fn follow(context: &mut libc::ucontext_t, at: usize, announced: bool, fences: Fences) -> bool {
    // SAFETY: code that has just run; the program itself would access the addresses.
    unsafe {
        let Some(instruction) = Instructed::decode(at) else { return false };
        let site = if announced { std::ptr::null() } else { place(at) };
        if instruction.is_string() {
            return strings::perform(context, &instruction, announced, site);
        }
        let flush = match instruction.mnemonic() {
            Mnemonic::Clflush => Some(Kind::Flush),
            // Its fence may go unseen; that must not be reported as missing.
            Mnemonic::Clflushopt | Mnemonic::Clwb if fences == Fences::Uncertain => Some(Kind::Flush),
            Mnemonic::Clflushopt | Mnemonic::Clwb => Some(Kind::FlushOpt),
            _ => None,
        };
        let Some(operand) = instruction.operand(context) else { return false };
        if let Some(kind) = flush {
            if !announced {
                access::flush(kind, operand.address, site);
            }
            *register(context, libc::REG_RIP) = instruction.end() as i64;
            return true;
        }
        if instruction.jumps() {
            let next = instruction.end() as u64;
            let stack = *register(context, libc::REG_RSP) as u64;
            let calls = instruction.mnemonic() == Mnemonic::Call;
            if operand.bytes != 8 || calls && is_pm(stack - 8) {
                return false;
            }
            let target = if announced {
                crate::raw::peek(operand.address, 8)
            } else {
                access::load(operand.address, 8, site)
            };
            if calls {
                ((stack - 8) as *mut u64).write(next);
                *register(context, libc::REG_RSP) = (stack - 8) as i64;
            }
            *register(context, libc::REG_RIP) = target as i64;
            return true;
        }
        trampoline::perform(context, &instruction, &operand, announced, site)
    }
}

unsafe extern "C" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    // SAFETY: the kernel passes both.
    unsafe {
        let machine = &mut *context.cast::<libc::ucontext_t>();
        if (*info).si_code <= 0 {
            let at = *register(machine, libc::REG_RIP) as usize;
            if !asked_to_give_way(is_announced() || !fences::is_traced(at)) {
                signals::pass_on(signal, info, context);
            }
            return;
        }
        tracing::interrupted();
        // A trap after an instruction, or a breakpoint.
        let done = if (*info).si_code == libc::TRAP_TRACE {
            let closed = stepping::close(machine);
            tracing::has_run() || closed
        } else {
            tracing::comes_back(machine)
                || trampoline::finish(machine)
                || fences::perform(machine)
                || patches::go_to_moved(machine)
        };
        if !done {
            signals::pass_on(signal, info, context);
        }
        tracing::goes_on(machine);
    }
}
