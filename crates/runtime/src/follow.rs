//! Code that was not rebuilt, followed by faults.
//!
//! The pool is mapped at its alias, where rebuilt code and the runtime read and write; its window, whose addresses
//! programs have, is inaccessible. Whatever else touches the window faults: libraries of the distribution, libc's own
//! stores, assembly that the plugin does not understand, whole programs that were never near `crashproof cc`. The handler
//! decodes the instruction, performs what it does to PM the way rebuilt code does, and lets the rest of it run:
//!
//! * most instructions run from a trampoline, on a small buffer that holds what they read; what they leave there is
//!   then stored to PM ([`trampoline`]);
//! * string instructions, flushes and jumps through PM are carried out here ([`strings`]);
//! * what is left (operands of unknown size, several of them, gathers) is let through by page, one step long, and the
//!   verdict says so.
//!
//! Fences do not fault: [`fences`] finds them beforehand and makes breakpoints of them.
//!
//! What the C library does in the runtime's name goes to the alias and is not recorded again.

mod announced;
mod breakpoints;
mod fences;
mod instruction;
mod stepping;
mod strings;
mod trampoline;

use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::{POOL_BASE, POOL_BYTES};
use iced_x86::Mnemonic;
use px86::Kind;

use crate::system::KeptErrno;
use crate::{access, assembly, callers, signals, strict};
use announced::{is_announced, place};
use instruction::{Instructed, register};

/// Called once, before children are forked.
pub(crate) fn prepare() {
    instruction::prepare();
    trampoline::prepare();
    fences::prepare();
}

/// Called when a child of the checker begins, after whatever else takes signals.
pub(crate) fn start() {
    signals::take([on_fault as *const () as usize, on_trap as *const () as usize]);
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    // SAFETY: the kernel passes both.
    unsafe {
        let address = (*info).si_addr() as u64;
        if (*info).si_code <= 0 || !(POOL_BASE..POOL_BASE + POOL_BYTES).contains(&address) {
            return signals::pass_on(signal, info, context);
        }
        let context = &mut *context.cast::<libc::ucontext_t>();
        let at = *register(context, libc::REG_RIP) as usize;
        let announced = is_announced();
        if !announced {
            fences::first_touch(at);
            if !callers::is_in_runtime(at) && assembly::site().is_none() {
                strict::touched(at, address);
            }
        }
        if !follow(context, at, announced) {
            if !announced {
                strict::report(at, address);
            }
            stepping::open(context, address, (!announced).then(|| place(at)));
        }
    }
}

/// Performs the instruction that faulted; false if it cannot be.
///
/// # Safety
///
/// The context is that of the instruction.
unsafe fn follow(context: &mut libc::ucontext_t, at: usize, announced: bool) -> bool {
    // SAFETY: code that has just run; the program would access the addresses itself.
    unsafe {
        let Some(instruction) = Instructed::decode(at) else { return false };
        let site = if announced { std::ptr::null() } else { place(at) };
        if instruction.is_string() {
            return strings::perform(context, &instruction, announced, site);
        }
        let flush = match instruction.mnemonic() {
            Mnemonic::Clflush => Some(Kind::Flush),
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
        let done = trampoline::finish(machine) || stepping::close(machine) || fences::perform(machine);
        if !done {
            signals::pass_on(signal, info, context);
        }
    }
}
