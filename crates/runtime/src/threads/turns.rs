//! Switches threads: switching points, waiting and waking, deadlocks.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::abi::Site;
use crashproof_protocol::exit;
use crashproof_protocol::steps::{AccessKind, kind};

use super::baton::Baton;
use super::buffers::{self, current, scheduler, some_take_effect, volatile_fence, volatile_store};
use super::decisions;
use super::exploration::{Lock, Need};
use super::scheduler::{Class, Decision, Key, Scheduler, Wait, Woken};
use super::step_notes::{self, exploring, follows_decisions};
use super::strategy::{Point, Strategy};
use super::{happens_before, locks, running, timers};
use crate::cell::{self, RunningThreadCell};
use crate::processes;
use crate::real::Real;
use crate::session;
use crate::sites;
use crate::system::{KeptErrno, own_process, own_thread, raw_syscall, write_error};

/// The kernel's id of the thread that last passed the baton on; 0 if none.
static LEAVING: RunningThreadCell<i32> = RunningThreadCell::new(0);
/// The thread that asks every other where it waits, before the process ends.
static REPORTER: RunningThreadCell<Option<u16>> = RunningThreadCell::new(None);

/// Represents communication between threads through the kernel: pipes, sockets, signals.
static KERNEL: AtomicBool = AtomicBool::new(false);
/// Base of the pseudo-addresses that represent cancellation, one per thread. No lock has such an address.
const CANCELLATION: u64 = 1 << 58;

/// Is the scheduler ready?
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Initializes the scheduler; the child has one thread.
pub(crate) fn begin() {
    let (strategy, seed, points) =
        session::control(|control| (control.strategy, control.seed, control.expected_points));
    cell::baton_received();
    buffers::begin(Scheduler::new(Strategy::new(strategy, seed, points)));
    decisions::begin(strategy);
    running::set_number(0);
    running::set_concurrent(false);
    running::set_kernel_number(own_process());
    current(|main| {
        // SAFETY: it only returns a number.
        main.handle = unsafe { libc::pthread_self() };
        main.kernel_number = own_process();
    });
    BEGUN.store(true, Relaxed);
}

/// Called once, before children are forked, so that not each of them has to register the handler.
pub(crate) fn prepare() {
    // SAFETY: the handler stays valid as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
}

/// The program forked: only the forking thread exists in the new process.
extern "C" fn after_fork() {
    if !BEGUN.load(Relaxed) {
        return;
    }
    cell::baton_abolished();
    scheduler(|scheduler| scheduler.retain_only(running::number()));
    running::set_concurrent(false);
}

/// Called before a fork: the number of the new process's thread; `None` if the process cannot be followed.
pub(crate) fn prepare_fork() -> Option<u16> {
    if running::has_threads() && !processes::several() {
        return None;
    }
    volatile_fence(std::ptr::null());
    let number = processes::prepare_fork(scheduler(|scheduler| scheduler.next_number()))?;
    running::set_concurrent(true);
    Some(number)
}

/// This is the new process, and it is followed.
pub(crate) fn begin_forked(number: u16) {
    let me = running::number();
    scheduler(|scheduler| scheduler.renumber(me, number));
    running::set_number(number);
    running::set_kernel_number(own_process());
    current(|thread| thread.kernel_number = own_process());
    timers::forget();
    cell::baton_received();
    processes::begin();
    running::set_concurrent(true);
}

/// All other forked processes have ended.
pub(crate) fn end_of_forks() {
    if processes::several()
        && scheduler(|scheduler| scheduler.alive().len() == 1)
        && processes::is_alone_again()
    {
        running::set_concurrent(false);
    }
}

pub(crate) fn wake_one(key: Key) {
    wake(key, 1, u32::MAX);
}

pub(crate) fn wake_all(key: Key) {
    wake(key, usize::MAX, u32::MAX);
}

/// Wakes at most `limit` waiting threads; returns how many.
pub(crate) fn wake(key: Key, limit: usize, bits: u32) -> usize {
    // Threads that retry after being woken are told apart by which one takes the lock, not by which one was woken.
    let matters = matches!(key.class, Class::Condition | Class::Futex);
    scheduler(|scheduler| match exploring() && matters && limit == 1 {
        true => scheduler.wake_chosen(key, limit, bits, |_, waiting| decisions::choose_woken(waiting)),
        false => scheduler.wake(key, limit, bits),
    })
}

/// Switches to the thread that should run after a point; returns when this one runs again.
fn continue_after(point: Point, gives_way: bool) {
    if exploring() {
        return;
    }
    some_take_effect();
    let me = running::number();
    let (decision, points) = scheduler(|scheduler| (scheduler.after(me, point, gives_way), scheduler.points));
    session::control(|control| control.points = points);
    match decision {
        Decision::Run(next) if next == me => {}
        Decision::Run(next) => switch_to(next),
        Decision::Endless => session::too_much_work(),
    }
}

/// A point at which threads may be switched, if there are several.
pub(super) fn point(point: Point) {
    timers::before_operation();
    if !scheduler(|scheduler| scheduler.is_atomic()) {
        continue_after(point, false);
    }
}

/// If the run follows decisions: the running thread is about to do something visible to others, with these
/// requirements. Others may step first.
pub(crate) fn step(need: Need) {
    if !exploring() || scheduler(|scheduler| scheduler.is_atomic()) || decisions::goes_on(need) {
        return;
    }
    let me = running::number();
    current(|thread| thread.progress.need = need);
    match next_to_run(me) {
        Some(next) if next == me => {}
        Some(next) => switch_to(next),
        None => deadlock(),
    }
}

/// If the run follows decisions: the running thread is about to read, with these requirements.
pub(super) fn step_to_read(need: Need, read: decisions::Read) {
    if !exploring() || scheduler(|scheduler| scheduler.is_atomic()) {
        return;
    }
    let state = scheduler(|scheduler| decisions::arrives(scheduler, read));
    step(need);
    scheduler(|scheduler| decisions::goes_to_read(scheduler, read, state));
}

/// If the run follows decisions: the running thread waits until it can have a lock. Returns whether the run does.
pub(crate) fn step_for_lock(lock: Lock) -> bool {
    if exploring() {
        step(Need::lock(lock));
        volatile_fence(std::ptr::null());
    }
    exploring()
}

/// If the run follows decisions: the running thread is about to wait, with these requirements for continuing.
pub(crate) fn needs_next(need: Need) {
    current(|thread| thread.progress.need = need);
}

/// If the run follows decisions: the running thread uses state of the runtime that other threads share.
pub(crate) fn step_for_shared(address: u64) {
    if exploring() {
        step(Need::NOTHING);
        happens_before::synchronized(address);
    }
}

/// Called before a system call through which threads may communicate. The kernel's locks act as a fence.
pub(crate) fn through_kernel() {
    if running::concurrent() {
        settle();
        happens_before::synchronized(&raw const KERNEL as u64);
    }
}

/// If the run follows decisions: the running thread waits until another one has called the kernel. `false` if none can.
pub(crate) fn wait_for_kernel() -> bool {
    scheduler(|scheduler| decisions::awaits(scheduler, &raw const KERNEL as u64));
    through_kernel();
    !current(|thread| thread.progress.retried)
}

/// The running thread cancels another one.
pub(crate) fn cancel(number: u16) {
    happens_before::synchronized(CANCELLATION + u64::from(number));
    scheduler(|scheduler| scheduler.cancel(number));
}

/// The running thread sends another one a signal, delivered when that runs next: only one runs at a time.
pub(crate) fn send_signal(number: u16, signal: i32) {
    through_kernel();
    scheduler(|scheduler| scheduler.thread(number).signals.push(signal));
}

/// The running thread receives signals sent while it did not run.
fn receive_signals() {
    for signal in current(|thread| std::mem::take(&mut thread.signals)) {
        happens_before::synchronized(&raw const KERNEL as u64);
        let to = [own_process() as usize, own_thread() as usize, signal as usize, 0, 0, 0];
        // SAFETY: the program sent it.
        unsafe { raw_syscall(libc::SYS_tgkill, to) };
    }
}

/// The thread that runs when the current step has ended. `None` means deadlock.
fn next_to_run(me: u16) -> Option<u16> {
    if exploring() {
        return decisions::next_thread(buffers::leaves);
    }
    scheduler(|scheduler| scheduler.next_to_run(me))
}

/// The process is about to end: the other threads first do everything they still can, and the process's stores take
/// effect. (If the process ends earlier, that is equivalent to a crash of all threads without the end of this one.)
pub(crate) fn end_process() {
    if exploring() {
        current(|thread| thread.progress.ends_process = true);
        step(Need::EMPTY_BUFFER);
    }
    buffers::drain_all();
}

/// Called before a function that may wait, or observe what others did: it fences, and others may run.
pub(crate) fn synchronize() {
    settle();
    others_may_run();
}

/// Called before a function that waits for a lock. If the run follows decisions, [`step_for_lock`] suffices: the
/// instruction that takes the lock fences.
pub(crate) fn synchronize_unless_exploring() {
    if !exploring() {
        synchronize();
    }
}

/// Called before a function that lets others continue: this thread's stores take effect first. Until then others may
/// run, and observe that they have not.
pub(crate) fn settle() {
    if exploring() {
        step(Need::EMPTY_BUFFER);
        volatile_fence(std::ptr::null());
    } else if running::concurrent() {
        if current(|thread| !thread.buffer.is_empty()) {
            point(Point::Memory);
        }
        volatile_fence(std::ptr::null());
    }
}

/// The same for a function that lets others continue by a store without a fence: earlier stores take effect first, but
/// write-backs are not awaited.
pub(crate) fn settle_stores() {
    if exploring() {
        step(Need::EMPTY_BUFFER);
    } else if running::concurrent() && current(|thread| !thread.buffer.is_empty()) {
        point(Point::Memory);
    }
    if session::recording() && running::concurrent() {
        buffers::drain(running::number());
    }
}

/// Called after a function that lets others continue.
pub(crate) fn others_may_run() {
    if running::concurrent() {
        point(Point::Sync);
    }
}

/// The running thread yields, if there are others.
pub(crate) fn give_way() {
    processes::give_way();
    if exploring() {
        scheduler(decisions::gives_way);
    } else if running::concurrent() {
        continue_after(Point::Sync, true);
    }
}

/// Called after a volatile access that may be part of a spin loop; the address is 0 after `pause`.
#[inline(always)]
pub(crate) fn after_volatile_access(address: u64, stored: bool, site: *const Site) {
    if exploring() {
        if stored {
            if !buffers::hidden_store(site) {
                volatile_store();
                happens_before::changed(address, site);
            }
        } else if address != 0 {
            happens_before::saw(address, site);
        }
    } else if running::concurrent() {
        if stored {
            volatile_store();
            happens_before::changed(address, site);
        } else if address != 0 {
            happens_before::saw(address, site);
        }
        point(Point::Spin);
    }
}

/// Called before an atomic or volatile access to volatile memory.
pub(crate) fn before_volatile_access(address: u64, bytes: u64, site: *const Site, accesses: VolatileAccess) {
    if !exploring() {
        return;
    }
    let read = decisions::Read { place: site as usize, address, bytes, may_wait: true };
    match accesses {
        VolatileAccess::Store => {
            if current(|thread| thread.buffer.len()) >= decisions::CAPACITY {
                step(Need::ROOM);
            }
            // SAFETY: the program is about to store there.
            if !scheduler(|scheduler| unsafe { decisions::store_begins(scheduler, address, bytes) }) {
                step(Need::NOTHING);
                scheduler(|scheduler| decisions::writes(scheduler, address, bytes, sites::number(site)));
            }
            return;
        }
        VolatileAccess::Load => step_to_read(Need::NOTHING, read),
        VolatileAccess::Exchange => step_to_read(Need::EMPTY_BUFFER, read),
    }
    let number = sites::number(site);
    scheduler(|scheduler| {
        decisions::reads(scheduler, address, bytes, number);
        if accesses == VolatileAccess::Exchange {
            // SAFETY: the program is about to access it.
            unsafe { decisions::begins_exchange(scheduler, address, bytes) };
        }
    });
}

/// The kind of access to volatile memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolatileAccess {
    Load,
    Store,
    Exchange,
}

/// Called after a locked instruction on volatile memory.
#[inline(always)]
pub(crate) fn after_volatile_exchange(address: u64, stored: bool, site: *const Site) {
    volatile_fence(site);
    if exploring() && stored {
        let number = sites::number(site);
        // SAFETY: the program has just accessed it.
        let changed = scheduler(|scheduler| unsafe { decisions::exchange_ended(scheduler, address, number) });
        if !changed {
            happens_before::saw(address, site);
            return;
        }
    } else if exploring() {
        scheduler(decisions::exchange_read);
    }
    if running::concurrent() {
        happens_before::saw(address, site);
        if stored {
            happens_before::changed(address, site);
        }
        point(Point::Spin);
    }
}

/// The runtime stored to volatile memory on the program's behalf, where compiled code reads it.
pub(crate) fn volatile_changed(address: u64, bytes: u64) {
    if exploring() {
        scheduler(|scheduler| decisions::writes(scheduler, address, bytes, 0));
    }
    if running::concurrent() {
        happens_before::changed(address, std::ptr::null());
    }
}

/// Has rebuilt code just announced a locked instruction on this volatile memory?
pub(crate) fn is_told_of_exchange(address: u64) -> bool {
    exploring() && scheduler(|scheduler| decisions::is_told_of_exchange(scheduler, address))
}

/// Called before a locked instruction on volatile memory in code that was not rebuilt; `changes` says whether it will
/// store there.
pub(crate) fn foreign_exchange(address: u64, bytes: u64, site: *const Site, changes: impl FnOnce() -> bool) {
    if !running::concurrent() {
        return volatile_fence(site);
    }
    before_volatile_access(address, bytes, site, VolatileAccess::Exchange);
    volatile_fence(site);
    let changes = changes();
    if exploring() {
        let number = sites::number(site);
        scheduler(|scheduler| {
            decisions::exchange_read(scheduler);
            if changes {
                decisions::writes(scheduler, address, bytes, number);
            }
        });
    }
    happens_before::saw(address, site);
    if changes {
        happens_before::changed(address, site);
    }
}

fn pass_to(number: u16) {
    let baton = baton_of(number);
    if follows_decisions() {
        scheduler(|scheduler| decisions::change_view(scheduler, running::number(), number));
    }
    running::set_number(number);
    baton.pass();
}

/// The baton that a thread waits on.
pub(crate) fn baton_of(number: u16) -> Arc<Baton> {
    scheduler(|scheduler| Arc::clone(&scheduler.thread(number).baton))
}

/// Lets `next` run; returns when it is this thread's turn again.
fn switch_to(next: u16) {
    let _errno = KeptErrno::new();
    let mine = baton_of(running::number());
    pass_to(next);
    wait_for_turn(&mine);
    receive_signals();
}

/// Waits for this thread's turn, and until the previous thread, if it has ended, is completely gone: the remainder of
/// its exit (freeing its stack and heap) must not depend on timing.
fn wait_for_turn(baton: &Baton) {
    let mut watch = Watch::default();
    loop {
        baton.wait(|| watch.look());
        cell::baton_received();
        let Some(reporter) = REPORTER.get() else { break };
        print_wait();
        pass_to(reporter);
    }
    running::set_kernel_number(current(|thread| thread.kernel_number));
    let leaving = LEAVING.get();
    if leaving != 0 {
        LEAVING.set(0);
        wait_until_gone(leaving);
        if let Some(number) = scheduler(|scheduler| scheduler.find_kernel_number(leaving)) {
            reap_if_detached(number);
        }
    }
}

/// Waits until the kernel has removed a thread.
fn wait_until_gone(kernel_number: i32) {
    let process = own_process() as usize;
    // SAFETY: signal 0 only checks whether the thread exists.
    unsafe {
        while raw_syscall(libc::SYS_tgkill, [process, kernel_number as usize, 0, 0, 0, 0]) == 0 {
            raw_syscall(libc::SYS_sched_yield, [0; 6]);
        }
    }
}

/// The C library's `pthread_join`.
///
/// # Safety
///
/// As for the C library's function.
pub(crate) unsafe fn real_join(handle: u64, value: *mut *mut libc::c_void) -> libc::c_int {
    static REAL: Real = Real::new("pthread_join\0", None);
    // SAFETY: the symbol has this type; the caller vouches for the arguments.
    unsafe {
        let join: unsafe extern "C-unwind" fn(u64, *mut *mut libc::c_void) -> libc::c_int =
            std::mem::transmute(REAL.get());
        join(handle, value)
    }
}

/// A thread is completely gone; if no thread will join it, frees its stack now.
pub(crate) fn reap_if_detached(number: u16) {
    let (detached, handle) = scheduler(|scheduler| {
        let thread = scheduler.thread(number);
        (thread.detached, thread.handle)
    });
    if detached {
        // SAFETY: the real thread is joinable, has ended, and no other thread joins it.
        unsafe { real_join(handle, std::ptr::null_mut()) };
        scheduler(|scheduler| scheduler.forget(number));
    }
}

/// Watches the running thread, from one that waits for its turn. A thread that blocks in the kernel, for example in
/// `read` from a pipe that another would write to, would stop all others forever.
#[derive(Default)]
struct Watch {
    points: u64,
    times: u32,
    busy: u32,
}

/// Has the running thread been asked to yield? It is busy, and has not entered the runtime for long.
static ASKED: AtomicBool = AtomicBool::new(false);

/// May the running thread be asked to yield? Not if it is single-stepped: then its waiting is detected.
fn may_be_asked() -> bool {
    !exploring() || !session::follows_volatile()
}

/// The running thread received a signal between two instructions of the program: if it was asked to yield, it does so
/// now, unless it is `elsewhere`. A thread that was not rebuilt does not announce that it waits for another one in a
/// loop.
pub(crate) fn asked_to_give_way(elsewhere: bool) -> bool {
    if !ASKED.swap(false, Relaxed) {
        return false;
    }
    if !elsewhere && own_thread() == running::kernel_number() && running::has_threads() && may_be_asked() {
        give_way();
    }
    true
}

impl Watch {
    /// How often it must be found asleep at the same place before the process ends.
    const PATIENCE: u32 = 30;
    /// How often it must be found awake there before it is asked to yield.
    const BUSY: u32 = 2;

    /// The running thread may change at any time what is read here; it only has to stay the same for long.
    fn look(&mut self) {
        let points = session::points_seen_from_aside();
        let asleep = points == self.points && sleeps(running::kernel_number());
        self.times = if asleep { self.times + 1 } else { 0 };
        self.busy = if points == self.points && !asleep { self.busy + 1 } else { 0 };
        if self.busy >= Watch::BUSY && may_be_asked() && !processes::several() {
            self.busy = 0;
            ASKED.store(true, Relaxed);
            let to =
                [own_process() as usize, running::kernel_number() as usize, libc::SIGTRAP as usize, 0, 0, 0];
            // SAFETY: the runtime handles the signal.
            unsafe { raw_syscall(libc::SYS_tgkill, to) };
        }
        self.points = points;
        if self.times >= Watch::PATIENCE {
            write_error(&format!(
                "crashproof runtime: thread {} waits in the kernel while others could run: only the waiting functions \
                 of pthreads, C11, semaphores and futexes let threads wait for each other here\n",
                running::number()
            ));
            session::end_at_once(exit::UNSUPPORTED);
        }
    }
}

/// Does the kernel say that a thread of this process sleeps?
fn sleeps(kernel_number: i32) -> bool {
    let path = format!("/proc/self/task/{kernel_number}/stat\0");
    let mut text = [0u8; 512];
    // SAFETY: the path is zero-terminated; the kernel writes only into the buffer.
    let length = unsafe {
        let file = raw_syscall(libc::SYS_open, [path.as_ptr() as usize, libc::O_RDONLY as usize, 0, 0, 0, 0]);
        if file < 0 {
            return false;
        }
        let into = [file as usize, text.as_mut_ptr() as usize, text.len(), 0, 0, 0];
        let length = raw_syscall(libc::SYS_read, into);
        raw_syscall(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
        length
    };
    // The state follows the name, which is in parentheses.
    let text = &text[..length.max(0) as usize];
    let name_end = text.iter().rposition(|&byte| byte == b')');
    name_end.is_some_and(|end| text.get(end + 2) == Some(&b'S'))
}

/// Waits until another thread wakes this one, or its timeout fires.
pub(crate) fn wait(wait: Wait) -> Woken {
    volatile_fence(std::ptr::null());
    let me = running::number();
    if exploring() && wait.key.class == Class::Sleep {
        // How long others take in the meantime is unspecified: assume no time.
        scheduler(|scheduler| scheduler.advance_to(wait.deadline.unwrap_or(0)));
        return Woken::TimedOut;
    }
    if exploring() && wait.deadline.is_some() {
        scheduler(decisions::waits_until);
    }
    if exploring() && wait.cancellable {
        // Whether it was cancelled before depends on the order.
        let object = CANCELLATION + u64::from(me);
        scheduler(|scheduler| decisions::synchronizes(scheduler, AccessKind::Sync, object));
    }
    if let Err(cancelled) = scheduler(|scheduler| scheduler.wait(me, wait)) {
        return cancelled;
    }
    let timed = exploring() && current(|thread| thread.may_time_out());
    if wait.deadline.is_some() && !timed {
        step_notes::note(kind::TIMED_OUT, wait.key.address);
    }
    match next_to_run(me) {
        Some(next) if next == me => {}
        Some(next) => switch_to(next),
        None => deadlock(),
    }
    if timed && exploring() {
        // It is ordered before or after whatever would have woken it.
        happens_before::synchronized(wait.key.address);
    }
    current(|thread| thread.woken)
}

/// A thread starts: waits for its first turn. Until then it must not look up its baton itself.
pub(crate) fn first_turn(baton: &Baton) {
    wait_for_turn(baton);
    let kernel_number = own_thread();
    current(|thread| thread.kernel_number = kernel_number);
    running::set_kernel_number(kernel_number);
    receive_signals();
}

/// The running thread was cancelled: it unwinds and ends.
pub(crate) fn end_cancelled() -> ! {
    unsafe extern "C-unwind" {
        fn pthread_exit(value: *mut libc::c_void) -> !;
    }
    const CANCELED: *mut libc::c_void = -1isize as *mut libc::c_void;
    happens_before::synchronized(CANCELLATION + u64::from(running::number()));
    current(|thread| thread.cancel.disabled = true);
    // SAFETY: all frames from the program's outwards may unwind.
    unsafe { pthread_exit(CANCELED) }
}

/// The running thread ends. Returns although others already run: the rest of its exit belongs to the C library.
pub(crate) fn leave() {
    settle();
    // When it is alone, its buffer is empty, but write-backs may be under way.
    volatile_fence(std::ptr::null());
    let me = running::number();
    for key in locks::with(|locks| locks.owner_died(me)) {
        wake_one(key);
    }
    match scheduler(|scheduler| scheduler.finish(me)) {
        0 => return,
        // If the run follows decisions, the last thread remains watched until it has joined all others.
        1 if !exploring() => {
            buffers::drain(scheduler(|scheduler| scheduler.alive()[0]));
            running::set_concurrent(false);
        }
        _ => {}
    }
    let Some(next) = next_to_run(me) else { deadlock() };
    let kernel_number = current(|thread| thread.kernel_number);
    // The first thread stays in the kernel's list until all others have ended.
    LEAVING.set(if kernel_number == own_process() { 0 } else { kernel_number });
    pass_to(next);
}

/// No thread can run. Each reports where it waits; then the process ends.
#[cold]
fn deadlock() -> ! {
    if processes::several() {
        write_error(
            "crashproof runtime: a process waits for a lock that another one holds: locks between processes that it forks are \
             not followed\n",
        );
        session::end_at_once(exit::UNSUPPORTED);
    }
    let reporter = running::number();
    write_error("crashproof: deadlock: every thread waits\n");
    REPORTER.set(Some(reporter));
    let mine = baton_of(reporter);
    for number in scheduler(|scheduler| scheduler.alive().to_vec()) {
        if number == reporter {
            print_wait();
        } else {
            pass_to(number);
            mine.wait(|| {});
            cell::baton_received();
        }
    }
    buffers::drain_all();
    if exploring() {
        // No thread can step any more, not even at the end.
        session::end_at_once(exit::DEADLOCK)
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(exit::DEADLOCK) }
}

/// Prints what the running thread waits for, and where in the source.
fn print_wait() {
    let mut text = format!("  thread {} ", running::number());
    match current(|thread| thread.waits_for()) {
        Some(key) => {
            let _ = write!(text, "waits for {}", key.describe());
            if let Some(owner) = locks::with(|locks| locks.owner(key)) {
                let _ = match owner {
                    locks::BEFORE_THE_CRASH => write!(text, ", held since before the crash"),
                    owner => write!(text, ", held by thread {owner}"),
                };
            }
        }
        None => text.push_str("has ended"),
    }
    if let Some(place) = place_in_program() {
        let _ = write!(text, ", in {place}");
    }
    text.push('\n');
    write_error(&text);
}

/// The innermost frame of the running thread within the program, with its line if known.
fn place_in_program() -> Option<String> {
    // The unwinder takes locks and maps debug information, which are not the program's actions.
    let trace = session::unfollowed(|| std::backtrace::Backtrace::force_capture().to_string());
    let mut lines = trace.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((_, function)) = line.trim().split_once(": ") else { continue };
        let place = lines.next_if(|line| line.trim_start().starts_with("at "));
        let place = place.map(|line| line.trim_start().trim_start_matches("at "));
        let ours = function.contains("crashproof_runtime::")
            || function.starts_with("std::")
            || function.starts_with("core::")
            || place.is_some_and(|place| place.contains("crates/runtime/src") || place.contains("/rustc/"));
        if !ours && function != "<unknown>" {
            return Some(match place {
                Some(place) => format!("{function} ({place})"),
                None => function.to_owned(),
            });
        }
    }
    None
}
