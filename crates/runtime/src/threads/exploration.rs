//! A run that follows the checker's decisions: what is known of its threads, and who steps next. Plain data.
//!
//! See [`crashproof_protocol::steps`]. A thread steps from one visible operation to the next: an access to PM, an atomic or
//! volatile access to other memory, a call of a synchronization function. A store is visible when it leaves the buffer,
//! which is a step of its own; flushes and store fences take effect as soon as they may, since that only makes less
//! certain (see `litmus::exhaustive`).

#![forbid(unsafe_code)]

use crashproof_protocol::steps::{Access, AccessKind, Actor, thread_of};

/// How often a thread may let others run in the same state, doing nothing that others could see, before it is taken to wait
/// for a change.
const REPEATED_YIELDS: u32 = 3;
/// How many steps one thread takes, if nothing is decided, while others could.
const STEPS_IN_A_ROW: u32 = 200;
/// How often it may do so with another state each time, as one that counts its rounds: there may be no end to it.
const MOST_ROUNDS: u32 = 100;
/// How many places it may read in a loop that waits.
const MOST_READS: usize = 64;
/// How often threads that wait like that may go on although nothing changed, because nobody else can run.
const MAX_RETRIES: u64 = 20_000;

/// What a thread needs for its next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Need {
    /// Nothing waits in its buffer.
    pub(crate) empty_buffer: bool,
    /// Its buffer is not full.
    pub(crate) room: bool,
    /// A lock that it can have then.
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
    /// To read under.
    Shared(u64),
    Exclusive(u64),
    Semaphore(u64),
}

/// A store to volatile memory that waits in the buffer of a thread. While the thread runs, memory holds what it sees,
/// so plain accesses need not be intercepted; while it does not, memory holds what all others see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden {
    pub(crate) issued: u32,
    pub(crate) address: u64,
    pub(crate) width: u8,
    pub(crate) value: u64,
    /// What was there before, as the thread saw it.
    pub(crate) before: u64,
}

/// What is known of a thread.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) need: Need,
    /// Has its present step accessed anything?
    pub(crate) visible: bool,
    /// Instructions that it gave to its buffer.
    pub(crate) issued: u32,
    /// What it read since it last did something that others can see.
    reads: Vec<RepeatedRead>,
    pub(crate) spins: bool,
    /// How often it let others run since then; it then waits for anything at all to change.
    yields: u32,
    /// Its state when it last let others run, and how often it did so with other states.
    yielded: (u64, u32),
    /// Its state and what others had done when it last waited for a moment at most.
    waited: Option<(u64, u64)>,
    /// It waits for a moment at most, and whatever can become of that did before: time passes only if nobody else can run.
    pub(crate) patient: bool,
    /// It waited for a change, and went on without one: nobody else could run.
    pub(crate) retried: bool,
    /// Has it woken up without a signal? Once per run is enough to show who does not look again.
    pub(crate) woke_up: bool,
    /// What it did that others may see.
    pub(crate) changes: u64,
    /// It ends the process, and waits until nobody else can run.
    pub(crate) ends_process: bool,
    pub(crate) hidden: Vec<Hidden>,
    /// A store to volatile memory that is about to happen: where, how wide, what is there.
    pub(crate) begun: Option<(u64, u8, u64)>,
    /// What a locked instruction on volatile memory found: where, how many bytes, what.
    pub(crate) exchanged: Option<(u64, u64, u64)>,
}

/// Something that a thread read, perhaps again and again.
struct RepeatedRead {
    /// Where in the program.
    place: usize,
    access: Access,
    /// The thread's state just before it last did, if that was asked for.
    state: Option<u64>,
    /// How often it did.
    rounds: u32,
}

/// A thread is about to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    GoesOn,
    /// It has been here in the same state, and nothing that it has read since has changed: it will come here again, until
    /// something does.
    Waits,
    /// It comes here again and again, each time in another state.
    Counts,
}

/// Whether a thread has gone on counting for so long that it is taken to wait, which it need not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counts {
    No,
    ForLong,
}

impl Progress {
    /// It is about to read at this place of the program; `state` gives its state, and is asked at its first visit only if
    /// `may_wait`. Gives the state, too, for [`Self::reads`].
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
        // A loop that waits does not read that much.
        if self.reads.len() >= MOST_READS {
            self.reads.clear();
        }
        self.reads.push(RepeatedRead { place, access, state, rounds: 1 });
    }

    /// It begins to wait for a moment at most, in this state, when others had done so much.
    pub(crate) fn waits_until(&mut self, state: u64, others: u64) {
        self.patient = self.waited == Some((state, others));
        self.waited = Some((state, others));
    }

    /// It did something that others can see.
    pub(crate) fn did_something(&mut self) {
        self.reads.clear();
        (self.spins, self.yields, self.yielded) = (false, 0, (0, 0));
    }

    /// It waits until another thread does this, or something that conflicts with it.
    pub(crate) fn awaits(&mut self, access: Access) {
        self.reads.push(RepeatedRead { place: 0, access, state: None, rounds: 1 });
        (self.spins, self.retried) = (true, false);
    }

    /// It lets others run, in this state, as loops do that wait.
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

    /// Something changed: if it waits for that, it goes on.
    pub(crate) fn changed(&mut self, access: &Access) {
        let waits_for_anything = self.yields >= REPEATED_YIELDS;
        if waits_for_anything || self.reads.iter().any(|read| read.access.conflicts(access)) {
            self.did_something();
        }
    }
}

/// An actor that sleeps, and what its next step accesses.
type Sleeper = (Actor, Vec<Access>);

/// The decisions, how far they were followed, and who sleeps.
#[derive(Default)]
pub(crate) struct Exploration {
    decisions: Vec<Actor>,
    taken: usize,
    /// Sleepers from the last decision on.
    asleep_then: Vec<Sleeper>,
    sleeping: Vec<Sleeper>,
    /// What the present step accessed so far.
    accessed: Vec<Access>,
    /// Whose step it is.
    actor: Actor,
    retries: u64,
    /// Steps in a row that one thread took while others could.
    in_a_row: u32,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    Step(Actor),
    /// Everybody who could step sleeps.
    Redundant,
    /// Whoever was decided on cannot step.
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

    /// The present step ends: whoever it disturbed sleeps no longer.
    fn end_step(&mut self) {
        let accessed = &self.accessed;
        let thread = thread_of(self.actor);
        // A thread and its buffer do not disturb each other.
        let disturbed = |actor: Actor, theirs: &[Access]| {
            thread_of(actor) != thread
                && theirs.iter().any(|one| accessed.iter().any(|two| one.conflicts(two)))
        };
        self.sleeping.retain(|(actor, theirs)| !disturbed(*actor, theirs));
        self.accessed.clear();
    }

    /// Is one of these decided on for the next step?
    pub(crate) fn is_decided(&self, actors: &[Actor]) -> bool {
        self.decisions.get(self.taken).is_some_and(|actor| actors.contains(actor))
    }

    /// Who steps next, of those who can; `enabled` is in the order of preference. Those in `only_decided` can, too, but do
    /// only if that was decided.
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
        // Who takes a lock and gives it back again and again is alone every other step.
        let alone = enabled.iter().all(|&other| thread_of(other) == thread_of(actor));
        if thread_of(actor) != thread_of(self.actor) {
            self.in_a_row = 0;
        } else if !alone {
            self.in_a_row += 1;
        }
        self.actor = actor;
        Choice::Step(actor)
    }

    /// Has a thread gone on for so long that others had better step? It may wait for them in a way that is not seen.
    pub(crate) fn is_greedy(&self) -> bool {
        self.in_a_row > STEPS_IN_A_ROW
    }

    /// May threads that spin go on once more, since nobody else can run?
    pub(crate) fn retry(&mut self) -> bool {
        self.retries += 1;
        self.retries <= MAX_RETRIES
    }
}

/// Actors in the order of preference: what the running thread stored, that thread itself, then others by number from the
/// next one on, so that the first run is as near as possible to one without store buffers and without preemption.
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

    /// Comes to a place and reads there, unless it waits.
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
