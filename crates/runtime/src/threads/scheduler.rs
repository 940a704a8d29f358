//! The threads, what they wait for, and which runs next: plain data, and decisions over it.
//!
//! `turns` passes the turn, and `buffers` holds the store buffers.

#![forbid(unsafe_code)]

use std::sync::Arc;

use crashproof_protocol::steps::kind;
use px86::buffer::StoreBuffer;

use super::baton::Baton;
use super::exploration::{Lock, Progress};
use super::step_notes::note;
use super::strategy::{Candidate, Point, Strategy, Verdict};

/// How many spin points a thread may pass before it must yield.
const SPINS: u32 = 200;
/// After this many calls of synchronization functions it must yield, too: it may be polling data behind a lock.
const SYNCHRONIZATIONS: u32 = 10_000;
/// How many of its spin points count as points where the run could have gone another way.
const COUNTED_SPINS: u32 = 4;
/// Consecutive turns that end in spinning, with nothing done in between, after which the program counts as endless.
const IDLE_TURNS: u64 = 200_000;
/// After this many of them, pending timeouts fire, however far away they are.
const IDLE_TURNS_TO_DEADLINE: u64 = 1_000;
/// How far the program's clock advances when a thread has spun for long.
const SPIN_NANOSECONDS: u64 = 100_000;

/// What a thread waits for: the class of object, and its address or number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) class: Class,
    pub(crate) address: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
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

impl Key {
    pub(crate) fn thread(number: u16) -> Key {
        Key { class: Class::Thread, address: number.into() }
    }

    fn lock(lock: Lock) -> Key {
        let (class, address) = match lock {
            Lock::Mutex(address) => (Class::Mutex, address),
            Lock::Shared(address) | Lock::Exclusive(address) => (Class::RwLock, address),
            Lock::Semaphore(address) => (Class::Semaphore, address),
        };
        Key { class, address }
    }

    /// A description of what a thread waits for.
    pub(crate) fn describe(self) -> String {
        let what = match self.class {
            Class::Mutex => "a mutex",
            Class::RwLock => "a read-write lock",
            Class::Condition => "a condition variable",
            Class::SpinLock => "a spin lock",
            Class::Barrier => "a barrier",
            Class::Once => "a pthread_once",
            Class::Semaphore => "a semaphore",
            Class::Futex => "a futex",
            Class::Thread => return format!("thread {} to end", self.address),
            Class::Sleep => "the clock",
        };
        format!("{what} at {:#x}", self.address)
    }
}

/// Why a thread runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// Another thread woke it.
    Called,
    /// Its timeout fired.
    TimedOut,
    /// It was cancelled.
    Cancelled,
}

/// A waiting thread.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) key: Key,
    pub(crate) deadline: Option<u64>,
    pub(crate) cancellable: bool,
    /// For futexes: the bitset of matching wakers.
    pub(crate) bits: u32,
}

impl Wait {
    pub(crate) fn new(key: Key, deadline: Option<u64>) -> Wait {
        Wait { key, deadline, cancellable: false, bits: u32::MAX }
    }

    pub(crate) fn cancellable(self) -> Wait {
        Wait { cancellable: true, ..self }
    }
}

#[derive(Clone, Copy)]
enum State {
    Ready,
    /// The number orders threads that wait for the same thing.
    Waiting(Wait, u64),
    Finished,
    /// Finished, and joined or detached: its handle is no longer valid.
    Gone,
}

pub(crate) struct Thread {
    state: State,
    pub(crate) baton: Arc<Baton>,
    pub(crate) woken: Woken,
    priority: i64,
    spins: u32,
    synchronizations: u32,
    /// The C library's handle.
    pub(crate) handle: u64,
    /// The kernel's thread id; 0 until the thread has run.
    pub(crate) kernel_number: i32,
    pub(crate) detached: bool,
    /// How often the destructor of the exit key has run.
    pub(crate) exit_rounds: u32,
    pub(crate) cancel: Cancel,
    /// Signals from other threads, delivered when it runs next.
    pub(crate) signals: Vec<i32>,
    pub(crate) buffer: StoreBuffer,
    /// Are there write-backs that a fence would complete?
    pub(crate) unfenced: bool,
    /// The last PM address it read in a way that loops use to wait.
    pub(crate) last_read: u64,
    /// Used if the run follows decisions.
    pub(crate) progress: Progress,
}

/// Deferred cancellation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cancel {
    pub(crate) requested: bool,
    pub(crate) disabled: bool,
}

impl Cancel {
    pub(crate) fn is_due(self) -> bool {
        self.requested && !self.disabled
    }
}

impl Thread {
    fn new(priority: i64) -> Thread {
        Thread {
            state: State::Ready,
            baton: Arc::new(Baton::new()),
            woken: Woken::Called,
            priority,
            spins: 0,
            synchronizations: 0,
            handle: 0,
            kernel_number: 0,
            detached: false,
            exit_rounds: 0,
            cancel: Cancel::default(),
            signals: Vec::new(),
            buffer: StoreBuffer::default(),
            unfenced: false,
            last_read: 0,
            progress: Progress::default(),
        }
    }

    /// What it waits for, if it waits.
    pub(crate) fn waits_for(&self) -> Option<Key> {
        match self.state {
            State::Waiting(wait, _) => Some(wait.key),
            _ => self.progress.need.lock.map(Key::lock),
        }
    }

    /// Can it run, as far as waiting functions are concerned?
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// Was it joined, or detached and has ended?
    fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Will it never run again?
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, State::Finished | State::Gone)
    }

    /// Does it wait with a timeout, so that it may continue without being woken? Joining does not count: nothing the
    /// other thread does at its end could be ordered before or after it.
    pub(crate) fn may_time_out(&self) -> bool {
        let joins = matches!(self.state, State::Waiting(wait, _) if wait.key.class == Class::Thread);
        self.deadline().is_some() && !joins
    }

    fn deadline(&self) -> Option<u64> {
        match self.state {
            State::Waiting(wait, _) => wait.deadline,
            _ => None,
        }
    }
}

/// What is decided at a point where the running thread could continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    Run(u16),
    /// All threads only spin, forever.
    Endless,
}

pub(crate) struct Scheduler {
    /// By number.
    threads: Vec<Thread>,
    /// Threads that have not ended, by number.
    alive: Vec<u16>,
    pub(crate) strategy: Strategy,
    /// Nanoseconds since the child started, by the program's clock.
    pub(crate) now: u64,
    /// Points at which threads might have been switched.
    pub(crate) points: u64,
    waits: u64,
    idle_turns: u64,
    candidates: Vec<Candidate>,
    /// Nesting depth of operations that no other thread may interrupt.
    atomic: u32,
}

impl Scheduler {
    /// A scheduler with one thread, number 0.
    pub(crate) fn new(mut strategy: Strategy) -> Scheduler {
        Scheduler {
            threads: vec![Thread::new(strategy.priority())],
            alive: vec![0],
            strategy,
            now: 0,
            points: 0,
            waits: 0,
            idle_turns: 0,
            candidates: Vec::new(),
            atomic: 0,
        }
    }

    pub(crate) fn thread(&mut self, number: u16) -> &mut Thread {
        &mut self.threads[usize::from(number)]
    }

    pub(crate) fn alive(&self) -> &[u16] {
        &self.alive
    }

    /// Only this thread remains: the program forked.
    pub(crate) fn retain_only(&mut self, number: u16) {
        self.alive.retain(|&other| other == number);
    }

    /// The thread with this handle.
    pub(crate) fn find(&self, handle: u64) -> Option<u16> {
        let known = |thread: &Thread| thread.handle == handle && !matches!(thread.state, State::Gone);
        self.threads.iter().position(known).map(|index| index as u16)
    }

    /// The thread with this kernel id.
    pub(crate) fn find_kernel_number(&self, number: i32) -> Option<u16> {
        self.threads.iter().position(|thread| thread.kernel_number == number).map(|index| index as u16)
    }

    /// A thread was joined, or was detached and has ended.
    pub(crate) fn forget(&mut self, number: u16) {
        self.thread(number).state = State::Gone;
    }

    /// Until [`Self::end_atomic`] no other thread runs, and stores take effect at once. Nests.
    pub(crate) fn begin_atomic(&mut self) {
        self.atomic += 1;
    }

    pub(crate) fn end_atomic(&mut self) {
        self.atomic -= 1;
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic > 0
    }

    /// Something happened that counts as progress.
    pub(crate) fn progress(&mut self) {
        self.idle_turns = 0;
    }

    /// Registers a thread that is about to be created; `None` if there are too many.
    pub(crate) fn add(&mut self) -> Option<u16> {
        let number = u16::try_from(self.threads.len()).ok()?;
        let priority = self.strategy.priority();
        self.threads.push(Thread::new(priority));
        self.alive.push(number);
        self.progress();
        Some(number)
    }

    /// A process was forked: the forking thread continues there alone, under another number.
    pub(crate) fn renumber(&mut self, old: u16, new: u16) {
        while self.threads.len() <= usize::from(new) {
            let priority = self.strategy.priority();
            self.threads.push(Thread::new(priority));
        }
        self.threads.swap(usize::from(old), usize::from(new));
        self.alive = vec![new];
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if number != usize::from(new) {
                thread.state = State::Gone;
            }
        }
    }

    /// The first number that no thread has had.
    pub(crate) fn next_number(&self) -> u16 {
        self.threads.len() as u16
    }

    /// The thread could not be created after all.
    pub(crate) fn undo_add(&mut self) {
        self.threads.pop();
        self.alive.pop();
    }

    /// Ends a thread; returns how many are left. The last one keeps its state: the C library then ends the process, and
    /// handlers may still run.
    pub(crate) fn finish(&mut self, number: u16) -> usize {
        self.progress();
        let others = self.alive.len() - 1;
        self.wake(Key::thread(number), usize::MAX, u32::MAX);
        if others > 0 {
            self.thread(number).state = State::Finished;
            self.alive.retain(|&other| other != number);
        }
        others
    }

    pub(crate) fn advance_to(&mut self, moment: u64) {
        self.now = self.now.max(moment);
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

    /// Wakes threads whose timeout has passed.
    fn fire_timeouts(&mut self) {
        for index in 0..self.alive.len() {
            let number = self.alive[index];
            if self.thread(number).deadline().is_some_and(|moment| moment <= self.now) {
                self.call(number, Woken::TimedOut);
            }
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        self.alive.iter().filter_map(|&number| self.threads[usize::from(number)].deadline()).min()
    }

    /// Is only one thread left, ordered after everything any other ever did?
    pub(crate) fn all_joined(&self) -> bool {
        self.alive.len() == 1 && self.threads.iter().filter(|thread| !thread.is_gone()).count() == 1
    }

    /// Advances time while threads spin.
    pub(crate) fn time_passes(&mut self) {
        self.now += SPIN_NANOSECONDS;
        self.fire_timeouts();
    }

    /// A thread steps: if it waits with a timeout, that has passed.
    pub(crate) fn time_out(&mut self, number: u16) {
        let Some(moment) = self.thread(number).deadline() else { return };
        self.advance_to(moment);
        self.call(number, Woken::TimedOut);
    }

    /// Advances time to the next timeout; returns whether there was one.
    pub(crate) fn next_timeout(&mut self) -> bool {
        let Some(moment) = self.next_deadline() else { return false };
        self.advance_to(moment);
        self.fire_timeouts();
        true
    }

    /// The thread to run when the current one cannot continue; advances time if all wait. `None` means deadlock.
    pub(crate) fn next_to_run(&mut self, current: u16) -> Option<u16> {
        self.collect_ready(None);
        if self.candidates.is_empty() {
            self.advance_to(self.next_deadline()?);
            self.fire_timeouts();
            self.collect_ready(None);
        }
        Some(self.strategy.choose(&self.candidates, current))
    }

    /// The thread whose turn it is after this point.
    pub(crate) fn after(&mut self, current: u16, point: Point, gives_way: bool) -> Decision {
        let mut spun = gives_way;
        let thread = self.thread(current);
        if point == Point::Spin {
            thread.spins += 1;
            if thread.spins >= SPINS {
                thread.spins = 0;
                spun = true;
                self.idle_turns += 1;
            }
        }
        if point == Point::Sync {
            let thread = self.thread(current);
            thread.synchronizations += 1;
            if thread.synchronizations >= SYNCHRONIZATIONS {
                thread.synchronizations = 0;
                spun = true;
            }
        }
        // Only the first rounds of a spin loop count: their number says nothing about the run.
        if point != Point::Spin || self.thread(current).spins <= COUNTED_SPINS {
            self.points += 1;
        }
        if spun {
            if self.idle_turns > IDLE_TURNS {
                return Decision::Endless;
            }
            self.now += SPIN_NANOSECONDS;
            if self.idle_turns > IDLE_TURNS_TO_DEADLINE
                && let Some(moment) = self.next_deadline()
            {
                self.advance_to(moment);
            }
            self.fire_timeouts();
        }
        let priority = &mut self.threads[usize::from(current)].priority;
        let except = match self.strategy.verdict(point, self.points, spun, priority) {
            Verdict::Stay => return Decision::Run(current),
            Verdict::Choose => None,
            Verdict::Yield => Some(current),
        };
        self.collect_ready(except);
        let alone = self.candidates.is_empty();
        Decision::Run(if alone { current } else { self.strategy.choose(&self.candidates, current) })
    }

    /// Makes a thread wait, unless it is to be cancelled.
    pub(crate) fn wait(&mut self, number: u16, wait: Wait) -> Result<(), Woken> {
        self.waits += 1;
        let since = self.waits;
        let thread = self.thread(number);
        if wait.cancellable && thread.cancel.is_due() {
            return Err(Woken::Cancelled);
        }
        thread.state = State::Waiting(wait, since);
        thread.spins = 0;
        Ok(())
    }

    /// The threads that wait for `key`, longest waiting first.
    fn waiting(&self, key: Key, bits: u32) -> Vec<u16> {
        let since = |&number: &u16| match self.threads[usize::from(number)].state {
            State::Waiting(wait, since) if wait.key == key && wait.bits & bits != 0 => Some((since, number)),
            _ => None,
        };
        let mut waiting: Vec<(u64, u16)> = self.alive.iter().filter_map(since).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, number)| number).collect()
    }

    /// The condition variable that a thread waits for without a timeout.
    pub(crate) fn waits_for_condition(&self, number: u16) -> Option<u64> {
        match self.threads[usize::from(number)].state {
            State::Waiting(wait, _) if wait.key.class == Class::Condition && wait.deadline.is_none() => {
                Some(wait.key.address)
            }
            _ => None,
        }
    }

    /// A waiting thread wakes up spuriously.
    pub(crate) fn wake_up(&mut self, number: u16) {
        self.call(number, Woken::Called);
    }

    fn call(&mut self, number: u16, why: Woken) {
        let thread = self.thread(number);
        // A thread that waits with a timeout could have continued before.
        let could_run = thread.may_time_out();
        thread.state = State::Ready;
        thread.woken = why;
        if !could_run {
            note(kind::ENABLES, number.into());
        }
        self.progress();
    }

    /// Wakes at most `limit` of the threads that wait for `key`; returns how many.
    pub(crate) fn wake(&mut self, key: Key, limit: usize, bits: u32) -> usize {
        self.wake_chosen(key, limit, bits, |scheduler, waiting| scheduler.strategy.wake(waiting.len()))
    }

    /// The same; `choose` picks the next of several, longest waiting first.
    pub(crate) fn wake_chosen(
        &mut self,
        key: Key,
        limit: usize,
        bits: u32,
        choose: impl Fn(&mut Scheduler, &[u16]) -> usize,
    ) -> usize {
        let mut waiting = self.waiting(key, bits);
        let mut woken = 0;
        while woken < limit && !waiting.is_empty() {
            let chosen = if waiting.len() > 1 { choose(self, &waiting) } else { 0 };
            let number = waiting.remove(chosen);
            self.call(number, Woken::Called);
            woken += 1;
        }
        woken
    }

    /// Moves at most `limit` of the threads that wait for `from` to `to`; returns how many.
    pub(crate) fn requeue(&mut self, from: Key, to: Key, limit: usize) -> usize {
        let waiting = self.waiting(from, u32::MAX);
        let moved = waiting.len().min(limit);
        for &number in &waiting[..moved] {
            if let State::Waiting(wait, _) = &mut self.thread(number).state {
                wait.key = to;
            }
        }
        moved
    }

    /// Cancels a thread, waking it if it waits at a cancellation point.
    pub(crate) fn cancel(&mut self, number: u16) {
        let thread = self.thread(number);
        thread.cancel.requested = true;
        let waits = matches!(thread.state, State::Waiting(wait, _) if wait.cancellable);
        if thread.cancel.is_due() && waits {
            self.call(number, Woken::Cancelled);
        }
    }

    /// The hardware's freedom to drain store buffers: a thread whose buffer drains one instruction now.
    pub(crate) fn buffer_to_drain(&mut self) -> Option<u16> {
        let leaving = self.strategy.leaving?;
        if !self.strategy.random.chance(leaving) {
            return None;
        }
        // A random one whose buffer is not empty.
        let count = self.alive.len();
        let start = self.strategy.random.below(count);
        let numbers = (start..start + count).map(|index| self.alive[index % count]);
        numbers.into_iter().find(|&number| !self.threads[usize::from(number)].buffer.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crashproof_protocol::schedule;

    use super::*;

    const LOCK: Key = Key { class: Class::Mutex, address: 64 };

    fn scheduler(threads: u16) -> Scheduler {
        let mut scheduler = Scheduler::new(Strategy::new(schedule::ROUND_ROBIN, 0, 0));
        (1..threads).for_each(|number| assert_eq!(scheduler.add(), Some(number)));
        scheduler
    }

    #[test]
    fn whoever_waits_longest_is_woken_first() {
        let mut scheduler = scheduler(3);
        for number in [2, 1] {
            scheduler.wait(number, Wait::new(LOCK, None)).expect("it waits");
        }
        assert_eq!(scheduler.next_to_run(2), Some(0));
        assert_eq!(scheduler.wake(LOCK, 1, u32::MAX), 1);
        assert_eq!(scheduler.next_to_run(0), Some(2));
        assert_eq!(scheduler.thread(1).waits_for(), Some(LOCK));
        assert_eq!(scheduler.wake(LOCK, 9, u32::MAX), 1);
        assert_eq!(scheduler.wake(LOCK, 9, u32::MAX), 0);
    }

    #[test]
    fn time_passes_when_everybody_waits() {
        let mut scheduler = scheduler(2);
        scheduler.wait(0, Wait::new(LOCK, Some(500))).expect("it waits");
        scheduler.wait(1, Wait::new(LOCK, Some(300))).expect("it waits");
        assert_eq!((scheduler.next_to_run(1), scheduler.now), (Some(1), 300));
        assert_eq!(scheduler.thread(1).woken, Woken::TimedOut);
        scheduler.wait(1, Wait::new(LOCK, None)).expect("it waits");
        assert_eq!((scheduler.next_to_run(1), scheduler.now), (Some(0), 500));
        scheduler.wait(0, Wait::new(LOCK, None)).expect("it waits");
        assert_eq!(scheduler.next_to_run(0), None, "a deadlock");
    }

    #[test]
    fn who_spins_gives_way_and_spins_for_ever_in_the_end() {
        let mut scheduler = scheduler(2);
        let switched = (0..1000).position(|_| scheduler.after(0, Point::Spin, false) == Decision::Run(1));
        assert_eq!(switched, Some(SPINS as usize - 1));
        assert_eq!(scheduler.points, u64::from(COUNTED_SPINS) + 1, "of a loop only the first rounds count");
        assert_eq!(scheduler.after(1, Point::Memory, false), Decision::Run(1));
        scheduler.idle_turns = IDLE_TURNS;
        let endless = (0..SPINS).position(|_| scheduler.after(0, Point::Spin, false) == Decision::Endless);
        assert_eq!(endless, Some(SPINS as usize - 1));
    }

    #[test]
    fn who_takes_locks_for_long_gives_way_and_may_do_so_for_ever() {
        let mut scheduler = scheduler(2);
        let rounds = 3 * SYNCHRONIZATIONS as usize;
        let switched = (0..rounds).filter(|_| scheduler.after(0, Point::Sync, false) == Decision::Run(1));
        assert_eq!(switched.count(), 3);
        assert_eq!(scheduler.idle_turns, 0);
    }

    #[test]
    fn cancelling_wakes_only_who_can_be_cancelled() {
        let mut scheduler = scheduler(3);
        scheduler.wait(1, Wait::new(LOCK, None)).expect("it waits");
        scheduler.wait(2, Wait::new(LOCK, None).cancellable()).expect("it waits");
        scheduler.cancel(1);
        scheduler.cancel(2);
        assert_eq!(scheduler.thread(1).waits_for(), Some(LOCK));
        assert_eq!((scheduler.thread(2).waits_for(), scheduler.thread(2).woken), (None, Woken::Cancelled));
        assert_eq!(scheduler.wait(2, Wait::new(LOCK, None).cancellable()), Err(Woken::Cancelled));
    }

    #[test]
    fn the_end_of_a_thread_wakes_who_joins_it() {
        let mut scheduler = scheduler(2);
        scheduler.thread(1).handle = 77;
        assert_eq!(scheduler.find(77), Some(1));
        scheduler.wait(0, Wait::new(Key::thread(1), None)).expect("it waits");
        assert_eq!(scheduler.finish(1), 1);
        assert!(scheduler.thread(1).has_ended());
        assert_eq!(scheduler.next_to_run(1), Some(0));
        scheduler.forget(1);
        assert_eq!(scheduler.find(77), None);
        assert_eq!(scheduler.finish(0), 0);
        assert!(!scheduler.thread(0).has_ended(), "exit handlers may still run");
    }

    #[test]
    fn futexes_are_requeued_and_woken_by_bits() {
        let mut scheduler = scheduler(3);
        let futex = |address| Key { class: Class::Futex, address };
        scheduler.wait(1, Wait { bits: 1, ..Wait::new(futex(4), None) }).expect("it waits");
        scheduler.wait(2, Wait { bits: 2, ..Wait::new(futex(4), None) }).expect("it waits");
        assert_eq!(scheduler.wake(futex(4), 9, 4), 0);
        assert_eq!(scheduler.requeue(futex(4), futex(8), 1), 1);
        assert_eq!(scheduler.thread(1).waits_for(), Some(futex(8)));
        assert_eq!(scheduler.wake(futex(4), 9, 2), 1);
    }
}
