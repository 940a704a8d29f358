//! A run that follows the checker's decisions: the state of its threads, and which actor steps next. Plain data.
//!
//! See [`crashproof_protocol::steps`]. A thread steps from one visible operation to the next: an access to PM, an
//! atomic or volatile access to other memory, a call of a synchronization function. A store becomes visible when it
//! leaves the buffer, which is a step of its own; flushes and store fences take effect as early as possible, since
//! delaying them only makes more stores certain (see `litmus::exhaustive`).

#![forbid(unsafe_code)]

use crashproof_protocol::steps::{Access, AccessKind, Actor, thread_of};

/// How often a thread may yield in the same state, without any effect visible to others, before it is treated as
/// waiting for a change.
const REPEATED_YIELDS: u32 = 3;
/// How many consecutive steps one thread takes without decisions while others could step.
const STEPS_IN_A_ROW: u32 = 200;
/// How often a thread may return in a different state each time, as if counting its rounds: it may never stop.
const MOST_ROUNDS: u32 = 100;
/// How many places a waiting loop may read.
const MOST_READS: usize = 64;
/// How often threads that wait this way may retry although nothing changed, because no other thread can run.
const MAX_RETRIES: u64 = 20_000;

/// What a thread needs for its next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Need {
    /// Its buffer must be empty.
    pub(crate) empty_buffer: bool,
    /// Its buffer must have room.
    pub(crate) room: bool,
    /// A lock that must be available.
    pub(crate) lock: Option<Lock>,
}

impl Need {
    pub(crate) const NOTHING: Need = Need { empty_buffer: false, room: false, lock: None };
    pub(crate) const EMPTY_BUFFER: Need = Need { empty_buffer: true, room: false, lock: None };
    pub(crate) const ROOM: Need = Need { empty_buffer: false, room: true, lock: None };

    pub(crate) fn lock(lock: Lock) -> Need {
        Need { lock: Some(lock), ..Need::EMPTY_BUFFER }
    }
}

/// A lock that a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    Mutex(u64),
    /// For reading.
    Shared(u64),
    Exclusive(u64),
    Semaphore(u64),
}

/// A buffered store to volatile memory. While its thread runs, memory holds that thread's view, so plain accesses need
/// not be intercepted; otherwise memory holds what all others see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden {
    pub(crate) issued: u32,
    pub(crate) address: u64,
    pub(crate) width: u8,
    pub(crate) value: u64,
    /// The value before the store, as the thread saw it.
    pub(crate) before: u64,
}

/// The state of a thread.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) need: Need,
    /// Has its current step accessed anything?
    pub(crate) visible: bool,
    /// The number of instructions it put into its buffer.
    pub(crate) issued: u32,
    /// Its reads since it last did something visible to others.
    reads: Vec<RepeatedRead>,
    pub(crate) spins: bool,
    /// How often it has yielded since then; it then waits for any change at all.
    yields: u32,
    /// Its state when it last yielded, and how often it has yielded in other states.
    yielded: (u64, u32),
    /// Its state, and what others had done, when it last waited with a timeout.
    waited: Option<(u64, u64)>,
    /// It waits with a timeout that has already fired in the same situation: time advances only if no other thread can
    /// run.
    pub(crate) patient: bool,
    /// It waited for a change and continued without one, because no other thread could run.
    pub(crate) retried: bool,
    /// Has it woken up spuriously? Once per run suffices to expose a missing recheck.
    pub(crate) woke_up: bool,
    /// The number of its effects that others may see.
    pub(crate) changes: u64,
    /// It ends the process, and waits until no other thread can run.
    pub(crate) ends_process: bool,
    pub(crate) hidden: Vec<Hidden>,
    /// A volatile store about to happen: address, width, previous value.
    pub(crate) begun: Option<(u64, u8, u64)>,
    /// What a locked instruction on volatile memory found: address, number of bytes, value.
    pub(crate) exchanged: Option<(u64, u64, u64)>,
}

/// A read that a thread may be repeating.
struct RepeatedRead {
    /// Its place in the program.
    place: usize,
    access: Access,
    /// The thread's state just before the last repetition, if it was computed.
    state: Option<u64>,
    /// The number of repetitions.
    rounds: u32,
}

/// The result of a thread's arrival at a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    GoesOn,
    /// It has been here in the same state, and nothing it has read since has changed: it will come back here until
    /// something does.
    Waits,
    /// It comes back here repeatedly, each time in a different state.
    Counts,
}

/// Has a thread counted for so long that it is treated as waiting, though it may not be?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counts {
    No,
    ForLong,
}

impl Progress {
    /// It is about to read at this place of the program. `state` computes its state; on a first visit it is called only
    /// if `may_wait`. Returns the state as well, for [`Self::reads`].
    pub(crate) fn arrives(
        &mut self,
        place: usize,
        access: Access,
        may_wait: bool,
        state: impl FnOnce() -> u64,
    ) -> (Arrival, Option<u64>) {
        let known = self.reads.iter_mut().find(|read| (read.place, read.access) == (place, access));
        let state = (may_wait || known.is_some()).then(state);
        let Some(read) = known else { return (Arrival::GoesOn, state) };
        read.rounds += 1;
        let arrival = match read.state {
            before if before.is_some() && before == state => Arrival::Waits,
            _ if read.rounds >= MOST_ROUNDS => Arrival::Counts,
            _ => Arrival::GoesOn,
        };
        self.spins |= arrival != Arrival::GoesOn;
        (arrival, state)
    }

    /// It reads, having arrived there in this state.
    pub(crate) fn reads(&mut self, place: usize, access: Access, state: Option<u64>) {
        let known = self.reads.iter_mut().find(|read| (read.place, read.access) == (place, access));
        if let Some(read) = known {
            read.state = state;
            return;
        }
        // A waiting loop does not read that many places.
        if self.reads.len() >= MOST_READS {
            self.reads.clear();
        }
        self.reads.push(RepeatedRead { place, access, state, rounds: 1 });
    }

    /// It begins to wait with a timeout, in this state, with this many effects of others.
    pub(crate) fn waits_until(&mut self, state: u64, others: u64) {
        self.patient = self.waited == Some((state, others));
        self.waited = Some((state, others));
    }

    /// It did something visible to others.
    pub(crate) fn did_something(&mut self) {
        self.reads.clear();
        (self.spins, self.yields, self.yielded) = (false, 0, (0, 0));
    }

    /// It waits until another thread does this, or something that conflicts with it.
    pub(crate) fn awaits(&mut self, access: Access) {
        self.reads.push(RepeatedRead { place: 0, access, state: None, rounds: 1 });
        (self.spins, self.retried) = (true, false);
    }

    /// It yields in this state, as waiting loops do.
    pub(crate) fn gives_way(&mut self, state: u64) -> Counts {
        if self.yields > 0 && self.yielded.0 != state {
            self.yields = 0;
            self.yielded.1 += 1;
        }
        self.yielded.0 = state;
        self.yields += 1;
        let counts = self.yielded.1 >= MOST_ROUNDS;
        if counts {
            self.yields = REPEATED_YIELDS;
        }
        self.spins |= self.yields >= REPEATED_YIELDS;
        if counts { Counts::ForLong } else { Counts::No }
    }

    /// Something changed: if it waits for that, it continues.
    pub(crate) fn changed(&mut self, access: &Access) {
        let waits_for_anything = self.yields >= REPEATED_YIELDS;
        if waits_for_anything || self.reads.iter().any(|read| read.access.conflicts(access)) {
            self.did_something();
        }
    }
}

/// A sleeping actor, and what its next step accesses.
type Sleeper = (Actor, Vec<Access>);

/// The decisions, how many have been followed, and which actors sleep.
#[derive(Default)]
pub(crate) struct Exploration {
    decisions: Vec<Actor>,
    taken: usize,
    /// Actors that sleep from the last decision on.
    asleep_then: Vec<Sleeper>,
    sleeping: Vec<Sleeper>,
    /// What the current step has accessed so far.
    accessed: Vec<Access>,
    /// The actor of the current step.
    actor: Actor,
    retries: u64,
    /// Consecutive steps of one thread while others could step.
    in_a_row: u32,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    Step(Actor),
    /// All actors that could step are asleep.
    Redundant,
    /// The chosen actor cannot step.
    Infeasible,
}

impl Exploration {
    /// A run that follows these decisions; from the last one on, these actors sleep.
    pub(crate) fn new(decisions: Vec<Actor>, asleep_then: Vec<Sleeper>) -> Exploration {
        Exploration { decisions, asleep_then, ..Exploration::default() }
    }

    pub(crate) fn accesses(&mut self, access: Access) {
        self.accessed.push(access);
    }

    /// Ends the current step: actors whose next access conflicts with it wake up.
    fn end_step(&mut self) {
        let accessed = &self.accessed;
        let thread = thread_of(self.actor);
        // A thread and its own buffer do not conflict.
        let disturbed = |actor: Actor, theirs: &[Access]| {
            thread_of(actor) != thread
                && theirs.iter().any(|one| accessed.iter().any(|two| one.conflicts(two)))
        };
        self.sleeping.retain(|(actor, theirs)| !disturbed(*actor, theirs));
        self.accessed.clear();
    }

    /// Does a decision choose one of these for the next step?
    pub(crate) fn is_decided(&self, actors: &[Actor]) -> bool {
        self.decisions.get(self.taken).is_some_and(|actor| actors.contains(actor))
    }

    /// The actor of the next step; `enabled` is in order of preference. Actors in `only_decided` step only if a
    /// decision says so.
    pub(crate) fn choose(&mut self, enabled: &[Actor], only_decided: &[Actor]) -> Choice {
        self.end_step();
        if self.taken + 1 == self.decisions.len() {
            self.sleeping = std::mem::take(&mut self.asleep_then);
        }
        let sleeps = |actor: &Actor| self.sleeping.iter().any(|(sleeper, _)| sleeper == actor);
        let actor = match self.decisions.get(self.taken) {
            Some(actor) if enabled.contains(actor) || only_decided.contains(actor) => *actor,
            Some(_) => return Choice::Infeasible,
            None => match enabled.iter().find(|actor| !sleeps(actor)) {
                Some(actor) => *actor,
                None => return Choice::Redundant,
            },
        };
        self.taken += 1;
        // A thread that repeatedly takes and releases a lock is alone every other step.
        let alone = enabled.iter().all(|&other| thread_of(other) == thread_of(actor));
        if thread_of(actor) != thread_of(self.actor) {
            self.in_a_row = 0;
        } else if !alone {
            self.in_a_row += 1;
        }
        self.actor = actor;
        Choice::Step(actor)
    }

    /// Has a thread run for so long that others should step? It may be waiting for them in an undetected way.
    pub(crate) fn is_greedy(&self) -> bool {
        self.in_a_row > STEPS_IN_A_ROW
    }

    /// May spinning threads continue once more, since no other thread can run?
    pub(crate) fn retry(&mut self) -> bool {
        self.retries += 1;
        self.retries <= MAX_RETRIES
    }
}

/// Sorts actors by preference: the running thread's buffer, that thread itself, then others by number from the next one
/// on. So the first run is as close as possible to one without store buffers and preemption.
pub(crate) fn prefer(enabled: &mut [Actor], running: u16) {
    enabled.sort_by_key(|&actor| {
        let thread = thread_of(actor);
        (thread != running, thread < running, thread, actor >> 16 == 0, actor)
    });
}

/// An access of an object.
pub(crate) fn object(kind: AccessKind, address: u64) -> Access {
    Access::new(kind, address, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::steps::{entry, spurious, thread};

    #[test]
    fn stores_drain_first_and_the_running_thread_goes_on() {
        let mut enabled = [thread(0), thread(2), entry(2, 4), entry(1, 1), thread(1), entry(2, 3)];
        prefer(&mut enabled, 1);
        assert_eq!(enabled, [entry(1, 1), thread(1), entry(2, 3), entry(2, 4), thread(2), thread(0)]);
    }

    /// Arrives at a place and reads there, unless it waits.
    fn visit(progress: &mut Progress, access: Access, state: u64) -> Arrival {
        let (arrival, state) = progress.arrives(1, access, true, || state);
        if arrival == Arrival::GoesOn {
            progress.reads(1, access, state);
        }
        arrival
    }

    #[test]
    fn who_comes_back_in_the_same_state_waits_for_a_change() {
        let mut progress = Progress::default();
        let read = Access::new(AccessKind::Read, 8, 8);
        assert_eq!(visit(&mut progress, read, 7), Arrival::GoesOn);
        assert!(!progress.spins);
        assert_eq!(visit(&mut progress, read, 7), Arrival::Waits);
        assert!(progress.spins);
        progress.changed(&Access::new(AccessKind::Write, 16, 8));
        assert!(progress.spins);
        progress.changed(&Access::new(AccessKind::Write, 12, 4));
        assert!(!progress.spins);
        assert_eq!(visit(&mut progress, read, 7), Arrival::GoesOn);
    }

    #[test]
    fn who_counts_is_not_taken_to_wait_before_long() {
        let mut progress = Progress::default();
        let read = Access::new(AccessKind::Read, 8, 8);
        for round in 1..MOST_ROUNDS {
            assert_eq!(visit(&mut progress, read, round.into()), Arrival::GoesOn);
            assert!(!progress.spins);
        }
        assert_eq!(visit(&mut progress, read, 0), Arrival::Counts);
        assert!(progress.spins);
    }

    #[test]
    fn a_moment_that_was_waited_for_in_vain_is_not_waited_for_again() {
        let mut progress = Progress::default();
        progress.waits_until(7, 0);
        assert!(!progress.patient);
        progress.waits_until(8, 0);
        assert!(!progress.patient, "it counts");
        progress.waits_until(8, 0);
        assert!(progress.patient);
        progress.waits_until(8, 1);
        assert!(!progress.patient, "somebody did something");
    }

    #[test]
    fn decisions_are_followed_then_sleepers_are_left_alone_until_disturbed() {
        let write = Access::new(AccessKind::Write, 8, 8);
        let mut exploration = Exploration {
            decisions: vec![1, 2],
            asleep_then: vec![(1, vec![write])],
            ..Exploration::default()
        };
        assert_eq!(exploration.choose(&[1, 2], &[]), Choice::Step(1));
        assert_eq!(exploration.choose(&[1, 2], &[]), Choice::Step(2));
        assert_eq!(exploration.choose(&[1, 2], &[]), Choice::Step(2));
        assert_eq!(exploration.choose(&[1], &[]), Choice::Redundant);
        exploration.accesses(Access::new(AccessKind::Read, 8, 8));
        assert_eq!(exploration.choose(&[1], &[]), Choice::Step(1));
        exploration.decisions.push(7);
        exploration.taken = 2;
        assert_eq!(exploration.choose(&[1], &[]), Choice::Infeasible);
    }

    #[test]
    fn who_wakes_up_without_a_signal_was_decided_to() {
        let mut exploration = Exploration::new(vec![spurious(2)], Vec::new());
        assert!(exploration.is_decided(&[spurious(2)]));
        assert_eq!(exploration.choose(&[], &[spurious(2)]), Choice::Step(spurious(2)));
        assert_eq!(exploration.choose(&[1], &[spurious(3)]), Choice::Step(1));
    }
}
