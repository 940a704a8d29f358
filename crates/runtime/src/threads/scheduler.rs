//! The threads, and whose turn it is.
//!
//! Only the thread whose turn it is touches any of this, so nothing is locked. References into the state
//! must not live across a switch: whoever runs in between changes it.

use std::fmt::Write as _;

use crashproof_protocol::abi::Site;
use crashproof_protocol::{exit, reason, record};
use px86::buffer::StoreBuffer;

use super::baton::{Baton, raw_syscall};
use super::strategy::{Candidate, Point, Strategy, Verdict};
use super::{memory, objects, order, time};
use crate::{access, session};

/// Is more than one thread alive? The one branch that programs with a single thread pay for.
pub(crate) static mut CONCURRENT: bool = false;
/// The number of the thread whose turn it is.
pub(crate) static mut CURRENT: u16 = 0;

static mut SCHEDULER: Option<Scheduler> = None;

/// Places to spin that a thread may pass before it must let others run.
const SPINS: u32 = 200;
/// Of those, how many count as places where the run could have gone another way.
const COUNTED_SPINS: u32 = 4;
/// Turns in a row that end in spinning, with nothing done in between, before the program counts as endless.
const IDLE_TURNS: u64 = 200_000;
/// After so many of them whoever waits for a moment gets it, however far away it is.
const IDLE_TURNS_TO_DEADLINE: u64 = 1_000;
/// How far the program's clock moves when a thread has spun for long.
const SPIN_NANOSECONDS: u64 = 100_000;

/// What a thread waits for: the kind of thing, and its address or number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) class: Class,
    pub(super) address: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Mutex,
    RwLock,
    Condition,
    SpinLock,
    Barrier,
    Once,
    Semaphore,
    Futex,
    Thread,
    Sleep,
}

/// Why a thread runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// Somebody woke it.
    Called,
    /// Its time was up.
    TimedOut,
    /// It is to end.
    Cancelled,
}

#[derive(Clone, Copy)]
struct Wait {
    key: Key,
    deadline: Option<u64>,
    /// Orders those who wait for the same.
    since: u64,
    cancellable: bool,
    /// For futexes: which wakers are meant.
    bits: u32,
}

#[derive(Clone, Copy)]
enum State {
    Ready,
    Waiting(Wait),
    Finished,
    /// Finished, and nobody can ask for it any more.
    Gone,
}

pub(super) struct Thread {
    state: State,
    baton: Baton,
    woken: Woken,
    priority: i64,
    spins: u32,
    pub(super) handle: libc::pthread_t,
    /// The kernel's number; 0 until the thread ran.
    tid: i32,
    pub(super) detached: bool,
    /// How often the destructor of the exit key has run.
    pub(super) exit_rounds: u32,
    pub(super) cancel: Cancel,
    pub(super) buffer: StoreBuffer,
    /// Are there write-backs that a fence would complete?
    pub(super) unfenced: bool,
    /// Where in PM it last read something that loops wait for.
    pub(super) last_read: u64,
}

/// Deferred cancellation.
#[derive(Clone, Copy, Default)]
pub(super) struct Cancel {
    pub(super) requested: bool,
    pub(super) disabled: bool,
}

impl Thread {
    fn new(priority: i64) -> Thread {
        Thread {
            state: State::Ready,
            baton: Baton::new(),
            woken: Woken::Called,
            priority,
            spins: 0,
            handle: 0,
            tid: 0,
            detached: false,
            exit_rounds: 0,
            cancel: Cancel::default(),
            buffer: StoreBuffer::default(),
            unfenced: false,
            last_read: 0,
        }
    }
}

pub(super) struct Scheduler {
    /// By number.
    #[expect(clippy::vec_box, reason = "real threads wait at their batons while the list grows")]
    threads: Vec<Box<Thread>>,
    /// Threads that have not ended, by number.
    alive: Vec<u16>,
    pub(super) strategy: Strategy,
    /// The kernel's number of the thread that passed the baton on for the last time; 0 if none.
    leaving: i32,
    waits: u64,
    idle_turns: u64,
    /// Who asks every thread where it waits, before the process ends.
    reporter: Option<u16>,
    candidates: Vec<Candidate>,
    /// How deep in operations that nobody may interrupt.
    atomic: u32,
}

/// Makes the scheduler ready; the child has one thread.
pub(crate) unsafe fn begin() {
    let control = &*session::CONTROL;
    let mut strategy = Strategy::new(control.strategy, control.seed, control.expected_points);
    let mut main = Box::new(Thread::new(strategy.priority()));
    main.handle = libc::pthread_self();
    main.tid = own_process();
    SCHEDULER = Some(Scheduler {
        threads: vec![main],
        alive: vec![0],
        strategy,
        leaving: 0,
        waits: 0,
        idle_turns: 0,
        reporter: None,
        candidates: Vec::new(),
        atomic: 0,
    });
    CURRENT = 0;
    CONCURRENT = false;
    libc::pthread_atfork(None, None, Some(after_fork));
    if EARLY_THREADS {
        unsupported(reason::EARLY_THREADS);
    }
}

/// Were threads created before `main`? Children do not have them.
pub(super) static mut EARLY_THREADS: bool = false;

/// The program forked: in the new process only the thread that did so exists.
unsafe extern "C" fn after_fork() {
    if let Some(scheduler) = &mut SCHEDULER {
        scheduler.alive.retain(|&number| number == CURRENT);
        CONCURRENT = false;
    }
}

/// The scheduler's state. Do not keep the reference across a switch.
pub(super) unsafe fn scheduler() -> &'static mut Scheduler {
    match &mut SCHEDULER {
        Some(scheduler) => scheduler,
        None => session::give_up("threads before main"),
    }
}

/// The running thread. Do not keep the reference across a switch.
pub(super) unsafe fn current() -> &'static mut Thread {
    scheduler().thread(CURRENT)
}

impl Scheduler {
    pub(super) fn thread(&mut self, number: u16) -> &mut Thread {
        &mut self.threads[usize::from(number)]
    }

    pub(super) fn thread_ref(&self, number: u16) -> &Thread {
        &self.threads[usize::from(number)]
    }

    /// Threads that have not ended.
    pub(super) fn alive(&self) -> &[u16] {
        &self.alive
    }

    /// The thread that a handle means.
    pub(super) fn find(&self, handle: libc::pthread_t) -> Option<u16> {
        let known = |thread: &Thread| thread.handle == handle && !matches!(thread.state, State::Gone);
        self.threads.iter().position(|thread| known(thread)).map(|index| index as u16)
    }

    pub(super) fn has_ended(&self, number: u16) -> bool {
        matches!(self.threads[usize::from(number)].state, State::Finished | State::Gone)
    }

    /// Nobody can ask for the thread any more.
    pub(super) fn forget(&mut self, number: u16) {
        self.thread(number).state = State::Gone;
    }

    pub(super) fn is_atomic(&self) -> bool {
        self.atomic > 0
    }

    /// Something happened that is progress.
    pub(super) fn progress(&mut self) {
        self.idle_turns = 0;
    }

    /// Registers a thread that is about to be created.
    pub(super) fn add(&mut self) -> Option<u16> {
        let number = u16::try_from(self.threads.len()).ok()?;
        let priority = self.strategy.priority();
        self.threads.push(Box::new(Thread::new(priority)));
        self.alive.push(number);
        self.progress();
        Some(number)
    }

    /// It could not be created after all.
    pub(super) fn undo_add(&mut self) {
        self.threads.pop();
        self.alive.pop();
    }

    fn collect_ready(&mut self, except: Option<u16>) {
        self.candidates.clear();
        for &number in self.alive.iter().filter(|&&number| Some(number) != except) {
            let thread = &self.threads[usize::from(number)];
            if matches!(thread.state, State::Ready) {
                self.candidates.push(Candidate { number, priority: thread.priority });
            }
        }
    }

    /// Wakes those whose time is up.
    unsafe fn fire_timeouts(&mut self) {
        let now = time::now();
        let mut idle_turns = self.idle_turns;
        for &number in &self.alive {
            let thread = &mut self.threads[usize::from(number)];
            if matches!(&thread.state, State::Waiting(wait) if wait.deadline.is_some_and(|at| at <= now)) {
                thread.state = State::Ready;
                thread.woken = Woken::TimedOut;
                idle_turns = 0;
            }
        }
        self.idle_turns = idle_turns;
    }

    fn next_deadline(&self) -> Option<u64> {
        let deadline = |&number: &u16| match &self.threads[usize::from(number)].state {
            State::Waiting(wait) => wait.deadline,
            _ => None,
        };
        self.alive.iter().filter_map(deadline).min()
    }

    /// The thread to run when the current one cannot go on; lets time pass if all wait.
    unsafe fn next_to_run(&mut self, current: u16) -> Option<u16> {
        self.collect_ready(None);
        if self.candidates.is_empty() {
            time::advance_to(self.next_deadline()?);
            self.fire_timeouts();
            self.collect_ready(None);
        }
        Some(self.strategy.choose(&self.candidates, current))
    }

    /// Whose turn it is after this place.
    unsafe fn after(&mut self, point: Point, gives_way: bool) -> u16 {
        let current = CURRENT;
        let thread = &mut self.threads[usize::from(current)];
        let mut spun = gives_way;
        if point == Point::Spin {
            thread.spins += 1;
            if thread.spins >= SPINS {
                thread.spins = 0;
                spun = true;
                self.idle_turns += 1;
            }
        }
        // Of a spin loop only the first rounds count: how many there are says nothing about the run.
        let points = &mut (*session::CONTROL).points;
        if point != Point::Spin || self.threads[usize::from(current)].spins <= COUNTED_SPINS {
            *points += 1;
        }
        if spun {
            if self.idle_turns > IDLE_TURNS {
                session::too_much_work();
            }
            time::advance(SPIN_NANOSECONDS);
            if self.idle_turns > IDLE_TURNS_TO_DEADLINE {
                self.next_deadline().into_iter().for_each(|moment| time::advance_to(moment));
            }
            self.fire_timeouts();
        }
        let thread = &mut self.threads[usize::from(current)];
        let except = match self.strategy.verdict(point, *points, spun, &mut thread.priority) {
            Verdict::Stay => return current,
            Verdict::Choose => None,
            Verdict::Yield => Some(current),
        };
        self.collect_ready(except);
        if self.candidates.is_empty() { current } else { self.strategy.choose(&self.candidates, current) }
    }

    /// Those who wait for `key`, longest waiting first.
    fn waiting(&self, key: Key, bits: u32) -> Vec<u16> {
        let mut waiting: Vec<(u64, u16)> = self
            .alive
            .iter()
            .filter_map(|&number| match &self.threads[usize::from(number)].state {
                State::Waiting(wait) if wait.key == key && wait.bits & bits != 0 => {
                    Some((wait.since, number))
                }
                _ => None,
            })
            .collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, number)| number).collect()
    }

    fn call(&mut self, number: u16, why: Woken) {
        let thread = self.thread(number);
        thread.state = State::Ready;
        thread.woken = why;
        self.idle_turns = 0;
    }

    /// Wakes at most so many of those who wait for `key`; gives how many.
    pub(super) fn wake(&mut self, key: Key, most: usize, bits: u32) -> usize {
        let mut waiting = self.waiting(key, bits);
        let mut woken = 0;
        while woken < most && !waiting.is_empty() {
            let chosen = self.strategy.wake(waiting.len());
            let number = waiting.remove(chosen);
            self.call(number, Woken::Called);
            woken += 1;
        }
        woken
    }

    /// Lets those who wait for `from` wait for `to` instead; at most so many.
    pub(super) fn requeue(&mut self, from: Key, to: Key, most: usize) -> usize {
        let waiting = self.waiting(from, u32::MAX);
        let moved = waiting.len().min(most);
        for &number in &waiting[..moved] {
            if let State::Waiting(wait) = &mut self.thread(number).state {
                wait.key = to;
            }
        }
        moved
    }

    /// Wakes a thread that is to end, if it waits where that is possible.
    pub(super) fn wake_cancelled(&mut self, number: u16) {
        if matches!(&self.thread(number).state, State::Waiting(wait) if wait.cancellable) {
            self.call(number, Woken::Cancelled);
        }
    }
}

pub(super) unsafe fn wake_one(key: Key) {
    scheduler().wake(key, 1, u32::MAX);
}

pub(super) unsafe fn wake_all(key: Key) {
    scheduler().wake(key, usize::MAX, u32::MAX);
}

/// A place where threads may be switched. Only while [`CONCURRENT`].
pub(super) unsafe fn point(point: Point) {
    let scheduler = scheduler();
    if scheduler.is_atomic() {
        return;
    }
    memory::some_take_effect();
    let next = scheduler.after(point, false);
    if next != CURRENT {
        switch_to(next);
    }
}

/// Before a function that may wait, or look at what others did: it fences, and others may run.
pub(super) unsafe fn synchronise() {
    settle();
    others_may_run();
}

/// Before a function that lets others go on: what this thread stored takes effect first. Others may run
/// until then, and see that it has not.
pub(super) unsafe fn settle() {
    if CONCURRENT {
        if !current().buffer.is_empty() {
            point(Point::Memory);
        }
        memory::volatile_fence(std::ptr::null());
    }
}

/// After a function that let others go on.
pub(super) unsafe fn others_may_run() {
    if CONCURRENT {
        point(Point::Sync);
    }
}

/// The running thread lets others run, if there are any.
pub(super) unsafe fn give_way() {
    if CONCURRENT {
        memory::some_take_effect();
        let next = scheduler().after(Point::Sync, true);
        if next != CURRENT {
            switch_to(next);
        }
    }
}

/// After an access of volatile memory that may be part of a spin loop; nowhere if it is only said that it spins.
#[inline(always)]
pub(crate) unsafe fn sync(address: u64, stored: bool, site: *const Site) {
    if CONCURRENT {
        if stored {
            memory::volatile_store();
            order::changed(address, site);
        } else if address != 0 {
            order::saw(address, site);
        }
        point(Point::Spin);
    }
}

/// After a locked instruction on volatile memory.
#[inline(always)]
pub(crate) unsafe fn locked(address: u64, stored: bool, site: *const Site) {
    memory::volatile_fence(site);
    if CONCURRENT {
        order::saw(address, site);
        if stored {
            order::changed(address, site);
        }
        point(Point::Spin);
    }
}

/// Until [`end_atomic`] no other thread runs, and stores take effect at once. Nests.
pub(super) unsafe fn begin_atomic() {
    scheduler().atomic += 1;
}

pub(super) unsafe fn end_atomic() {
    scheduler().atomic -= 1;
}

/// Lets `next` run; returns when it is this thread's turn again.
unsafe fn switch_to(next: u16) {
    let error = *libc::__errno_location();
    let mine: *const Baton = &raw const current().baton;
    CURRENT = next;
    current().baton.pass();
    wait_for_turn(&*mine);
    *libc::__errno_location() = error;
}

/// Waits until it is this thread's turn, and until the one before it, if it has ended, is really gone: what
/// it still does on its way out (giving back its stack and its heap) must not depend on chance.
unsafe fn wait_for_turn(baton: &Baton) {
    let mut watch = Watch::default();
    loop {
        baton.wait(|| watch.look());
        let Some(reporter) = scheduler().reporter else { break };
        print_wait();
        CURRENT = reporter;
        current().baton.pass();
    }
    let leaving = std::mem::take(&mut scheduler().leaving);
    if leaving != 0 {
        let process = own_process() as usize;
        while raw_syscall(libc::SYS_tgkill, [process, leaving as usize, 0, 0, 0, 0]) == 0 {
            raw_syscall(libc::SYS_sched_yield, [0; 6]);
        }
        let gone = scheduler().threads.iter().position(|thread| thread.tid == leaving);
        if let Some(number) = gone.map(|index| index as u16) {
            super::create::reap_if_detached(number);
        }
    }
}

/// Looks after the thread whose turn it is, from one that waits for its own. A thread that blocks in the
/// kernel, in `read` from a pipe that another is to write, say, keeps all others from running, for ever.
#[derive(Default)]
struct Watch {
    points: u64,
    times: u32,
}

impl Watch {
    /// Times to find it asleep at the same place before the process ends.
    const PATIENCE: u32 = 3;

    fn look(&mut self) {
        unsafe {
            // Whoever runs may change these at any time; they only have to be the same for long.
            let points = (&raw const (*session::CONTROL).points).read_volatile();
            let number = (&raw const CURRENT).read_volatile();
            let tid = scheduler().thread_ref(number).tid;
            self.times = if points == self.points && sleeps(tid) { self.times + 1 } else { 0 };
            self.points = points;
            if self.times >= Watch::PATIENCE {
                session::give_up(&format!(
                    "thread {number} waits in the kernel while others could run: only the waiting functions of \
                     pthreads, C11, semaphores and futexes let threads wait for each other here"
                ));
            }
        }
    }
}

/// Does the kernel say that a thread of this process sleeps?
unsafe fn sleeps(tid: i32) -> bool {
    let path = format!("/proc/self/task/{tid}/stat\0");
    let mut text = [0u8; 512];
    let file = raw_syscall(libc::SYS_open, [path.as_ptr() as usize, libc::O_RDONLY as usize, 0, 0, 0, 0]);
    if file < 0 {
        return false;
    }
    let length =
        raw_syscall(libc::SYS_read, [file as usize, text.as_mut_ptr() as usize, text.len(), 0, 0, 0]);
    raw_syscall(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
    // The state comes after the name, which is in parentheses.
    let text = &text[..length.max(0) as usize];
    let name_end = text.iter().rposition(|&byte| byte == b')');
    name_end.is_some_and(|end| text.get(end + 2) == Some(&b'S'))
}

/// Waits until somebody wakes the thread, or its time is up.
pub(super) unsafe fn block(key: Key, deadline: Option<u64>) -> Woken {
    wait(key, deadline, false, u32::MAX)
}

/// As [`block`], where the thread may also be cancelled.
pub(super) unsafe fn block_cancellable(key: Key, deadline: Option<u64>) -> Woken {
    wait(key, deadline, true, u32::MAX)
}

pub(super) unsafe fn wait(key: Key, deadline: Option<u64>, cancellable: bool, bits: u32) -> Woken {
    memory::volatile_fence(std::ptr::null());
    let scheduler = scheduler();
    scheduler.waits += 1;
    let since = scheduler.waits;
    let me = CURRENT;
    let thread = scheduler.thread(me);
    if cancellable && thread.cancel.requested && !thread.cancel.disabled {
        return Woken::Cancelled;
    }
    thread.state = State::Waiting(Wait { key, deadline, since, cancellable, bits });
    thread.spins = 0;
    match scheduler.next_to_run(me) {
        Some(next) if next == me => {}
        Some(next) => switch_to(next),
        None => deadlock(),
    }
    current().woken
}

/// The number the kernel knows the process by; the program is told another (see `determinism`).
unsafe fn own_process() -> i32 {
    raw_syscall(libc::SYS_getpid, [0; 6]) as i32
}

/// A thread begins: waits for its first turn.
pub(super) unsafe fn first_turn(number: u16) {
    // The list of threads may grow meanwhile, but the thread itself stays where it is.
    let baton: *const Baton = &raw const scheduler().thread(number).baton;
    wait_for_turn(&*baton);
    current().tid = raw_syscall(libc::SYS_gettid, [0; 6]) as i32;
}

/// The running thread ends. Returns although others run by then: the rest of its way out is the C library's.
pub(super) unsafe fn leave() {
    settle();
    // Alone, it has nothing in its buffer, but write-backs may be under way.
    memory::volatile_fence(std::ptr::null());
    let me = CURRENT;
    objects::owner_died(me);
    let scheduler = scheduler();
    scheduler.progress();
    scheduler.thread(me).state = State::Finished;
    scheduler.alive.retain(|&number| number != me);
    wake_all(Key { class: Class::Thread, address: u64::from(me) });
    match scheduler.alive[..] {
        // The C library ends the process now; handlers may still run.
        [] => {
            scheduler.alive.push(me);
            scheduler.thread(me).state = State::Ready;
            return;
        }
        [last] => {
            memory::drain(last);
            CONCURRENT = false;
        }
        _ => {}
    }
    let Some(next) = scheduler.next_to_run(me) else { deadlock() };
    let tid = scheduler.thread(me).tid;
    // The first thread stays in the kernel's list until all others have ended.
    scheduler.leaving = if tid == own_process() { 0 } else { tid };
    CURRENT = next;
    scheduler.thread(next).baton.pass();
}

/// Nobody can run. Everybody says where it waits; then the process ends.
#[cold]
unsafe fn deadlock() -> ! {
    let scheduler = scheduler();
    let reporter = CURRENT;
    say("crashproof: deadlock: every thread waits\n");
    scheduler.reporter = Some(reporter);
    let mine: *const Baton = &raw const scheduler.thread(reporter).baton;
    for number in scheduler.alive.clone() {
        if number == reporter {
            print_wait();
        } else {
            CURRENT = number;
            scheduler.thread(number).baton.pass();
            (*mine).wait(|| {});
        }
    }
    memory::drain_all();
    libc::_exit(exit::DEADLOCK);
}

fn say(text: &str) {
    unsafe { raw_syscall(libc::SYS_write, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
}

/// Prints for what, and where in the source, the running thread waits.
unsafe fn print_wait() {
    let mut text = format!("  thread {CURRENT} ");
    match &current().state {
        State::Waiting(wait) => {
            let what = match wait.key.class {
                Class::Mutex => "a mutex",
                Class::RwLock => "a read-write lock",
                Class::Condition => "a condition variable",
                Class::SpinLock => "a spin lock",
                Class::Barrier => "a barrier",
                Class::Once => "a pthread_once",
                Class::Semaphore => "a semaphore",
                Class::Futex => "a futex",
                Class::Thread => "a thread",
                Class::Sleep => "the clock",
            };
            let _ = match wait.key.class {
                Class::Thread => write!(text, "waits for thread {} to end", wait.key.address),
                _ => write!(text, "waits for {what} at {:#x}", wait.key.address),
            };
            if let Some(owner) = objects::owner(wait.key) {
                let _ = write!(text, ", held by thread {owner}");
            }
        }
        _ => text.push_str("has ended"),
    }
    if let Some(place) = place_in_program() {
        let _ = write!(text, ", in {place}");
    }
    text.push('\n');
    say(&text);
}

/// The innermost frame of the running thread that is the program's own, with its line if that is known.
fn place_in_program() -> Option<String> {
    let trace = std::backtrace::Backtrace::force_capture().to_string();
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

/// Something the scheduler cannot follow happened; the verdict will be UNKNOWN.
pub(super) unsafe fn unsupported(why: u64) {
    debug_assert!(reason::text(why).is_some());
    access::note(record::UNKNOWN, 0, why, std::ptr::null());
}
