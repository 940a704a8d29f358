//! Proves within milliseconds that a recovery never ends: its state repeats.
//!
//! A child that has run for a few milliseconds is examined: it is single-stepped until registers, volatile memory and
//! its effects on persistent memory repeat an earlier state twice. One thread, the same state and no system call in
//! between: it will do the same forever. A loop that counts, or is too long to step through, is not recognized here;
//! the limits on work and time end it.
//!
//! What is compared, and why it suffices: the registers, at the same instruction of the program; every resident page of
//! private memory, including the runtime's own (its clock, for one) but without the counters that bound a run; and the
//! records of the two rounds, which must match and store the same values, so that persistent memory is the same after
//! each.

use std::ffi::{c_int, c_void};
use std::ptr::{addr_of, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64};

use crashproof_protocol::{ALIAS_OFFSET, POOL_BASE, POOL_BYTES, Record, flag, mode};
use px86::Kind;

use crate::cell::RunningThreadCell;
use crate::proc_self::Descriptor;
use crate::session::{self, current_mode};
use crate::system::{KeptErrno, raw_syscall};
use crate::threads::running;
use crate::{callers, prefault, signals};

/// Processor time in microseconds after which a child is first examined, unless children are known to take longer. It
/// doubles each time.
const FIRST_LOOK: i64 = 2_000;
/// The longest time that a terminating child took. Examining takes far longer than most recoveries run, so a child is
/// not suspected before it takes twice that. Written in the parent only.
static LONGEST: AtomicI64 = AtomicI64::new(0);
/// The same with the time that the kernel took for it.
static LONGEST_IN_ALL: AtomicI64 = AtomicI64::new(0);
/// A recovery that takes this many times as long as the recorded run, and as every recovery that ended, does not end.
const FAR_MORE: i64 = 1000;
/// Less than this proves nothing, in seconds.
const AT_LEAST: u64 = 2;
/// Instructions a child is stepped through per look.
const STEPS: u32 = 20_000;
/// Total number of looks; whatever has not repeated by then is left to the limits.
const LOOKS: u32 = 6;
/// Memory comparisons per look and kind of anchor.
const COMPARISONS: u32 = 6;
/// With more bytes of private memory than this, comparing takes longer than it saves.
const MOST_MEMORY: u64 = 512 << 20;
/// The processor flag for single-stepping (TF).
const STEP: i64 = 0x100;
/// Flags that single-stepping itself modifies.
const STEP_FLAGS: i64 = STEP | 0x10000;

/// The program's registers at one instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Registers {
    general: [i64; 17],
    vector: u64,
}

/// A state that the child may reach again.
#[derive(Clone, Copy)]
struct Anchor {
    /// Where it was first seen.
    registers: Option<Registers>,
    /// Hash of memory and number of records at each recurrence.
    seen: [(u64, u64); 2],
    rounds: u32,
}

/// One examination of the child.
struct Look {
    looks: u32,
    steps: u32,
    /// Was the previous instruction part of the runtime?
    in_runtime: bool,
    /// At an instruction of the program, compared with all registers.
    anywhere: Anchor,
    /// At a call into the runtime, compared only with arguments and callee-saved registers.
    at_call: Anchor,
}

const NOWHERE: Anchor = Anchor { registers: None, seen: [(0, 0); 2], rounds: 0 };
const IDLE: Look = Look { looks: 0, steps: 0, in_runtime: true, anywhere: NOWHERE, at_call: NOWHERE };

static LOOK: RunningThreadCell<Look> = RunningThreadCell::new(IDLE);

/// Is code followed that was not rebuilt? It enters the runtime between any two instructions, so every register may
/// matter, not only callee-saved ones.
static FOLLOWED: AtomicBool = AtomicBool::new(false);

/// Records that code that was not rebuilt touches persistent memory.
pub(crate) fn note_followed() {
    FOLLOWED.store(true, Relaxed);
}

/// Called once, before children are forked: they inherit the handlers.
pub(crate) fn prepare() {
    callers::note_runtime();
    for (signal, handler) in
        [(libc::SIGVTALRM, on_timer as *const () as usize), (libc::SIGTRAP, on_step as *const () as usize)]
    {
        // SAFETY: plain data; the handlers are for these signals, and the program has not started.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            signals::set_action(signal, &raw const action, null_mut());
        }
    }
}

/// Called when a child of the checker begins.
pub(crate) fn start() {
    // Under a debugger a run has no time limit.
    let bounded = session::control(|control| control.max_cpu_seconds > 0);
    if bounded && current_mode() == mode::RECOVER && !session::has_flag(flag::STRICT) {
        arm(first_look());
    }
}

/// Seconds of processor time after which the next child counts as one that does not end, of `most` at most.
pub(crate) fn seconds_to_end(most: u32) -> u64 {
    let recovers = session::control(|control| control.mode) == mode::RECOVER;
    let longest = LONGEST_IN_ALL.load(Relaxed);
    if recovers { far_more_than(longest, most) } else { most.into() }
}

fn far_more_than(longest: i64, most: u32) -> u64 {
    let most = u64::from(most);
    match longest.saturating_mul(FAR_MORE).cast_unsigned().div_ceil(1_000_000) {
        0 => most,
        far_more => far_more.max(AT_LEAST).min(most),
    }
}

/// A child came to an end by itself, having used this much.
pub(crate) fn note_ended(used: &libc::rusage) {
    // Learning takes several times as long as a short recovery.
    if prefault::child_learns() {
        return;
    }
    let microseconds = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    let took = microseconds(used.ru_utime);
    let in_all = took + microseconds(used.ru_stime);
    if in_all > LONGEST_IN_ALL.load(Relaxed) {
        LONGEST_IN_ALL.store(in_all, Relaxed);
    }
    // Written to only if need be: the page would be copied.
    if took > LONGEST.load(Relaxed) {
        LONGEST.store(took, Relaxed);
    }
}

fn first_look() -> i64 {
    FIRST_LOOK.max(2 * LONGEST.load(Relaxed))
}

/// Sets the child's timer, which counts only the program's own processor time.
fn arm(microseconds: i64) {
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let (tv_sec, tv_usec) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let timer = [never, libc::timeval { tv_sec, tv_usec }];
    // SAFETY: the kernel only reads the timer.
    unsafe {
        raw_syscall(
            libc::SYS_setitimer,
            [libc::ITIMER_VIRTUAL as usize, timer.as_ptr() as usize, 0, 0, 0, 0],
        );
    }
}

/// The timer expired: examines the child.
unsafe extern "C" fn on_timer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes the context.
    unsafe {
        if running::concurrent() || current_mode() != mode::RECOVER || !steps_are_ours(&(*context).uc_sigmask)
        {
            return;
        }
        LOOK.with(|look| *look = Look { looks: look.looks + 1, ..IDLE });
        session::watch_reads(true);
        (*context).uc_mcontext.gregs[libc::REG_EFL as usize] |= STEP;
    }
}

/// Will single steps reach [`on_step`]? The program may use the signal itself.
fn steps_are_ours(blocked: &libc::sigset_t) -> bool {
    // SAFETY: asks only.
    unsafe {
        signals::comes_to(libc::SIGTRAP, on_step as *const () as usize)
            && libc::sigismember(blocked, libc::SIGTRAP) == 0
    }
}

unsafe extern "C" fn on_step(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes both.
    unsafe {
        let general = &mut (*context).uc_mcontext.gregs;
        if general[libc::REG_EFL as usize] & STEP == 0 || (*info).si_code <= 0 {
            // A breakpoint of the program's own: restore what would have happened.
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            signals::set_action(libc::SIGTRAP, &raw const action, null_mut());
            libc::raise(libc::SIGTRAP);
            return;
        }
        if LOOK.with(|look| look.step(&(*context).uc_mcontext)) {
            return;
        }
        general[libc::REG_EFL as usize] &= !STEP;
    }
    session::watch_reads(false);
    let looks = LOOK.with(|look| look.looks);
    if looks < LOOKS {
        arm(first_look() << looks);
    }
}

impl Look {
    /// Called before each instruction; returns whether to continue. Ends the process if its state repeats.
    fn step(&mut self, context: &libc::mcontext_t) -> bool {
        self.steps += 1;
        let at = context.gregs[libc::REG_RIP as usize] as usize;
        if self.steps > STEPS || running::concurrent() || is_unpredictable(at, context) {
            return false;
        }
        let before = std::mem::replace(&mut self.in_runtime, callers::is_in_runtime(at));
        if !self.in_runtime {
            session::keep_watching();
        }
        match (before, self.in_runtime) {
            (false, true) if FOLLOWED.load(Relaxed) => true,
            (false, true) => self.at_call.pass(context, at_call),
            (_, false) => self.anywhere.pass(context, anywhere),
            (true, true) => true,
        }
    }
}

impl Anchor {
    /// Compares the state at an instruction of the program; returns whether to continue.
    fn pass(&mut self, context: &libc::mcontext_t, registers: fn(&libc::mcontext_t) -> Registers) -> bool {
        let Some(anchor) = &self.registers else {
            self.registers = Some(registers(context));
            self.seen[1].1 = session::control(|control| control.records);
            return true;
        };
        let at = context.gregs[libc::REG_RIP as usize];
        if anchor.general[libc::REG_RIP as usize] != at || *anchor != registers(context) {
            return true;
        }
        let stack = context.gregs[libc::REG_RSP as usize] as u64;
        let Some(memory) = volatile_memory(stack) else { return false };
        self.rounds += 1;
        let records = session::control(|control| control.records);
        let before = self.seen;
        self.seen = [before[1], (memory, records)];
        if self.rounds >= 2 && before[1].0 == memory && same_effect(before[0].1, before[1].1, records) {
            session::never_ends();
        }
        self.rounds < COMPARISONS
    }
}

/// Did two rounds, given by the record counts at their ends, affect persistent memory alike and read nothing new?
fn same_effect(start: u64, middle: u64, end: u64) -> bool {
    let recorded = session::recorded();
    let (Some(one), Some(other)) =
        (recorded.get(start as usize..middle as usize), recorded.get(middle as usize..end as usize))
    else {
        return false;
    };
    let alike = |(one, other): (&Record, &Record)| {
        let flushes = matches!(one.event_kind(), Some(Kind::Flush | Kind::FlushOpt));
        let what = |record: &Record| (record.kind(), record.address(), record.width(), record.site);
        // A flush's value is the time it was issued.
        what(one) == what(other) && (flushes || one.value == other.value)
    };
    let reads = |record: &Record| record.event_kind().is_none_or(|kind| kind == Kind::Load);
    one.len() == other.len() && one.iter().zip(other).all(alike) && !other.iter().any(reads)
}

/// Does the instruction depend on the outside: a system call, a clock, random numbers?
fn is_unpredictable(at: usize, context: &libc::mcontext_t) -> bool {
    // SAFETY: the instruction is about to run, and code does not end right after an instruction.
    let byte = |offset: usize| unsafe { *((at + offset) as *const u8) };
    let mut offset = 0;
    while offset < 4 && matches!(byte(offset), 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f) {
        offset += 1;
    }
    match (byte(offset), byte(offset + 1)) {
        (0x0f, 0x05) => context.gregs[libc::REG_RAX as usize] != libc::SYS_sched_yield,
        (0x0f, 0x31) | (0xcd, 0x80) => true,
        (0x0f, 0x01) => byte(offset + 2) == 0xf9,
        (0x0f, 0xc7) => byte(offset + 2) >= 0xf0,
        _ => false,
    }
}

/// The registers that a callee can read or must preserve; the others hold leftovers. Arguments beyond the second show
/// in the records that the call leaves.
fn at_call(context: &libc::mcontext_t) -> Registers {
    let mut general = [0; 17];
    for register in [
        libc::REG_RIP,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RBX,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
        libc::REG_RDI,
        libc::REG_RSI,
    ] {
        general[register as usize] = context.gregs[register as usize];
    }
    Registers { general, vector: 0 }
}

/// All registers that a program can use.
fn anywhere(context: &libc::mcontext_t) -> Registers {
    let mut general = [0; 17];
    general.copy_from_slice(&context.gregs[..17]);
    let flags = context.gregs[libc::REG_EFL as usize] & !STEP_FLAGS;
    let mut hash = Hash(flags as u64);
    // SAFETY: the kernel saved the vector state there; its first 512 bytes always exist and say how many more follow.
    unsafe {
        const MAGIC: u32 = 0x4650_5853;
        let saved = context.fpregs.cast::<u8>();
        if !saved.is_null() {
            let extended = saved.add(464).cast::<u32>();
            let bytes = if *extended == MAGIC { *extended.add(4) as usize } else { 0 };
            // The part in between describes the state itself, and never changes.
            hash.add(std::slice::from_raw_parts(saved.cast(), 416 / 8));
            hash.add(std::slice::from_raw_parts(saved.add(512).cast(), bytes.saturating_sub(512 + 8) / 8));
        }
    }
    Registers { general, vector: hash.0 }
}

struct Hash(u64);

impl Hash {
    fn add(&mut self, words: &[u64]) {
        for word in words {
            self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
}

/// A hash of all writable private memory, of the stack only from `stack` upwards; `None` if there is too much or it
/// cannot be read.
fn volatile_memory(stack: u64) -> Option<u64> {
    // Leaf functions also use the red zone below the stack pointer.
    let stack = (stack - 128) & !7;
    let left_out = [
        (POOL_BASE + ALIAS_OFFSET, POOL_BASE + ALIAS_OFFSET + POOL_BYTES),
        session::shadow_range(),
        session::counters_range(),
        (addr_of!(LOOK) as u64, addr_of!(LOOK) as u64 + size_of_val(&LOOK) as u64),
    ];
    let (maps, pages) = (Descriptor::open(c"/proc/self/maps")?, Descriptor::open(c"/proc/self/pagemap")?);
    let mut hash = Hash(0);
    let mut bytes = 0;
    maps.lines(|line| {
        let Some((start, end)) = writable_private(line) else { return true };
        let start = if (start..end).contains(&stack) { stack } else { start };
        if left_out[..2].iter().any(|(from, to)| (*from..*to).contains(&start)) {
            return true;
        }
        bytes += end - start;
        bytes <= MOST_MEMORY
            && pages.present(start, end, |from, to| hash_without(&mut hash, from, to, &left_out[2..]))
    })?;
    Some(hash.0)
}

/// Hashes a range of memory, leaving out some small ranges.
fn hash_without(hash: &mut Hash, mut from: u64, to: u64, left_out: &[(u64, u64)]) {
    while from < to {
        let next = left_out.iter().filter(|(_, end)| *end > from).min().copied().unwrap_or((to, to));
        let until = next.0.clamp(from, to);
        // SAFETY: the pages are resident, and only this thread runs. Volatile, because the program is interrupted
        // midway.
        let words = unsafe { std::slice::from_raw_parts(from as *const u64, ((until - from) / 8) as usize) };
        hash.add(words);
        from = if until == to { to } else { next.1.next_multiple_of(8).max(until + 8) };
    }
}

/// The range of a line of `/proc/self/maps`, if it is private and writable.
fn writable_private(line: &[u8]) -> Option<(u64, u64)> {
    let mut words = line.split(|byte| *byte == b' ');
    let (range, rights) = (words.next()?, words.next()?);
    if rights.first() != Some(&b'r') || rights.get(1) != Some(&b'w') || rights.get(3) != Some(&b'p') {
        return None;
    }
    let mut ends = range.split(|byte| *byte == b'-').map(|digits| {
        digits
            .iter()
            .try_fold(0_u64, |number, digit| Some(number << 4 | u64::from((*digit as char).to_digit(16)?)))
    });
    Some((ends.next()??, ends.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_more_work_than_any_recovery_that_ended() {
        assert_eq!(far_more_than(0, 10), 10, "none has ended");
        assert_eq!(far_more_than(300, 10), 2);
        assert_eq!(far_more_than(2_500, 10), 3);
        assert_eq!(far_more_than(1_000_000, 10), 10);
        assert_eq!(far_more_than(300, 0), 0, "not bounded");
    }
}
