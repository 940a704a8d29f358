//! Reports where the program crashes when a signal ends a process.
//!
//! The parent does not learn from a signal where it happened. So the runtime handles the signals that indicate a bug,
//! unless the program or a sanitizer does, and prints the location for the checker: the site of the innermost call from
//! rebuilt code, or from any code if there is none. Then the signal takes its normal course.

use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr};

use crashproof_protocol::abi::Site;
use crashproof_protocol::fault;

use crate::real::Real;
use crate::session::recording;
use crate::system::{KeptErrno, own_process, own_thread, raw_syscall, write_error};
use crate::{callers, raw, sites, stacks};

/// `SIGABRT` is not among them: whatever aborts says why.
const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

const STACK: usize = 64 << 10;

/// Fixed-size text: signal handlers must not allocate.
struct Line {
    bytes: [u8; 160],
    length: usize,
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// Called before the program is parked: the first backtrace loads a library, which a signal handler must not do.
pub(crate) fn prepare() {
    let mut nothing = [null_mut(); 1];
    // SAFETY: the buffer has room for one frame.
    unsafe { libc::backtrace(nothing.as_mut_ptr(), 1) };
}

/// Called once, when no code of the program runs any more before the first child: children inherit it all, and need not
/// write to what it is kept in.
pub(crate) fn handle_signals() {
    // SAFETY: the handler is for these signals; the stack stays as long as the process.
    unsafe {
        give_alternate_stack();
        for signal in SIGNALS {
            let mut before: libc::sigaction = std::mem::zeroed();
            act(signal, std::ptr::null(), &raw mut before);
            if before.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            handle(signal);
        }
    }
}

/// Installs the handler.
fn handle(signal: c_int) {
    // SAFETY: the handler is for these signals.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        // Resets itself, so that the second signal ends the process.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        act(signal, &raw const action, null_mut());
    }
}

/// Is a signal on its way that [`send`] sent?
static SENT: AtomicBool = AtomicBool::new(false);

/// The place of the access for which a signal was sent, while it is delivered.
static PLACE_SENT: AtomicPtr<Site> = AtomicPtr::new(null_mut());

/// The place of the access for which the runtime sent the signal that is being delivered.
fn place_sent() -> Option<*const Site> {
    let place = PLACE_SENT.load(Relaxed).cast_const();
    (!place.is_null()).then_some(place)
}

/// Must the handler pass on this signal, because the runtime sent it for an access that is not permitted?
pub(crate) fn has_sent() -> bool {
    SENT.swap(false, Relaxed)
}

/// Sends the calling thread a signal as if an instruction had faulted.
pub(crate) fn send(signal: c_int, address: u64, site: *const Site) {
    /// The code of a fault at an address where nothing is.
    const NOTHING_THERE: c_int = 1;
    const ADDRESS: usize = 16;
    force(signal);
    // SAFETY: all-zero bytes are valid; the address is where the kernel puts it for these signals.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (info.si_signo, info.si_code) = (signal, NOTHING_THERE);
        (&raw mut info).byte_add(ADDRESS).cast::<u64>().write(address);
        SENT.store(signal == libc::SIGSEGV, Relaxed);
        PLACE_SENT.store(site.cast_mut(), Relaxed);
        let target =
            [own_process() as usize, own_thread() as usize, signal as usize, &raw const info as usize, 0, 0];
        raw_syscall(libc::SYS_rt_tgsigqueueinfo, target);
        PLACE_SENT.store(null_mut(), Relaxed);
    }
}

/// A fault is about to be sent. As in the kernel, it ends the program if that blocks or ignores it.
fn force(signal: c_int) {
    // SAFETY: asks for the mask and the disposition; all-zero bytes are valid plain data.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        let into = &raw mut blocked as usize;
        let size = size_of::<u64>();
        raw_syscall(libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as usize, 0, into, size, 0, 0]);
        let mut action: libc::sigaction = std::mem::zeroed();
        act(signal, std::ptr::null(), &raw mut action);
        let is_blocked = libc::sigismember(&raw const blocked, signal) == 1;
        if !is_blocked && action.sa_sigaction != libc::SIG_IGN {
            return;
        }
        handle(signal);
        let mut alone: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut alone, signal);
        let alone = &raw const alone as usize;
        raw_syscall(libc::SYS_rt_sigprocmask, [libc::SIG_UNBLOCK as usize, alone, 0, size, 0, 0]);
    }
}

/// Gives the calling thread an alternate signal stack, if it has none.
pub(crate) fn give_alternate_stack() {
    // SAFETY: the stack stays as long as the process.
    unsafe {
        let mut before: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut before);
        if before.ss_flags & libc::SS_DISABLE != 0 {
            // Not cleared: few processes need its pages, and each costs a fault.
            let memory = Vec::<u8>::with_capacity(STACK).leak().as_mut_ptr();
            let stack = libc::stack_t { ss_sp: memory.cast(), ss_flags: 0, ss_size: STACK };
            libc::sigaltstack(&raw const stack, null_mut());
        }
    }
}

unsafe fn act(signal: c_int, action: *const libc::sigaction, before: *mut libc::sigaction) {
    static REAL: Real = Real::new("sigaction\0", None);
    // SAFETY: that is the real function's type.
    unsafe {
        let set: unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int =
            std::mem::transmute(REAL.get());
        set(signal, action, before);
    }
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    // SAFETY: the kernel passes both.
    let (address, code, instruction, stack) = unsafe {
        let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let register = |which: c_int| registers[which as usize] as usize;
        (
            raw::original((*info).si_addr() as u64) as usize,
            (*info).si_code,
            register(libc::REG_RIP),
            register(libc::REG_RSP),
        )
    };
    // Sent by a process, not raised by an instruction.
    if code <= 0 {
        // SAFETY: redelivers the signal to the program.
        unsafe { libc::raise(signal) };
        return;
    }
    if recording() {
        let mut line = Line { bytes: [0; 160], length: 0 };
        let site = match place_sent() {
            Some(site) => sites::number(site),
            None => place(instruction, address, stack),
        };
        let _ = writeln!(line, "{}{signal} {address:x} {site}", fault::LINE);
        write_error(std::str::from_utf8(&line.bytes[..line.length]).unwrap_or_default());
        stacks::note_end();
    }
    // The instruction runs again, and ends the process.
}

/// The site of the innermost call from rebuilt code; 0 if unknown.
fn place(instruction: usize, address: usize, stack: usize) -> u32 {
    let number = |site: *const Site| callers::number(site as usize);
    if callers::is_instrumented(instruction) {
        return number(callers::place(instruction)).unwrap_or(0);
    }
    if instruction == address {
        // A call through a bad pointer: the return address was just pushed.
        // SAFETY: the previous instruction wrote to the stack.
        let caller = unsafe { raw::peek(stack as u64, 8) } as usize;
        return number(callers::site(caller)).unwrap_or(0);
    }
    let mut frames = [null_mut(); 64];
    // SAFETY: the buffer has room for that many frames.
    let depth = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) }.max(0) as usize;
    let frames = frames[..depth].iter().map(|frame| *frame as usize);
    let mut frames = frames.skip_while(|frame| *frame != instruction).skip(1);
    let found = frames.find(|frame| callers::is_instrumented(*frame));
    found.and_then(|frame| number(callers::site(frame))).or(number(callers::place(instruction))).unwrap_or(0)
}
