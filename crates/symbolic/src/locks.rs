//! Locks: mutexes, spin locks, readers-writer locks, condition variables, semaphores.
//!
//! A lock is a word that is 0 when free. Acquiring it is an RMW after which the thread continues only if the lock was
//! free: a thread that finds it taken waits, and its RMW is the one that finds the lock free. The word is the first of
//! the pthread object, as in glibc.
//!
//! Most mutexes are of the default kind. Others (recursive, error checking) store their owner and count, but only once
//! a program is known to use one: the fewer values a word has, the better for the prover.
//!
//! A thread that waits when no other thread is left to wake it waits forever. That is claimed not to happen in
//! recovery, and while the first thread is alone; among several threads it is not checked.

use crashproof_prove::term::{Binary, Term, Terms};

use crate::atomics::Update;
use crate::frame::At;
use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Stop, Who};
use crate::state::{Held, State};

/// Where glibc stores the kind of a mutex, and the values of the kinds.
const KIND: u64 = 16;
const RECURSIVE: u64 = 1;
const ERROR_CHECKING: u64 = 2;

/// A readers-writer lock holds the number of its readers, or this value.
const WRITER: u64 = 1 << 31;

/// Error numbers.
const EPERM: u64 = 1;
const EBUSY: u64 = 16;
const EDEADLK: u64 = 35;
const ETIMEDOUT: u64 = 110;

/// What happens to a thread that finds a lock taken.
#[derive(Clone, Copy)]
enum Taken {
    Waits,
    /// Continues, with this error.
    Fails(u64),
}

pub(crate) const HANDLERS: &[Handler] = &[
    (&["pthread_mutex_lock"], 1, |m, call| mutex(m, call, Taken::Waits)),
    (&["pthread_mutex_trylock"], 1, |m, call| mutex(m, call, Taken::Fails(EBUSY))),
    (&["pthread_mutex_timedlock"], 1, |m, call| mutex(m, call, Taken::Fails(ETIMEDOUT))),
    (&["pthread_mutex_unlock"], 1, mutex_unlock),
    (&["pthread_mutex_init"], 1, mutex_init),
    (&["pthread_mutexattr_init"], 1, |m, call| mutex_kind(m, call, None)),
    (&["pthread_mutexattr_settype"], 1, set_mutex_kind),
    (&["pthread_spin_init", "pthread_rwlock_init"], 1, init_word),
    (&["pthread_spin_lock"], 1, |m, call| take(m, call, Taken::Waits, 1)),
    (&["pthread_spin_trylock"], 1, |m, call| take(m, call, Taken::Fails(EBUSY), 1)),
    (&["pthread_spin_unlock"], 1, spin_unlock),
    (&["pthread_rwlock_wrlock"], 1, |m, call| take(m, call, Taken::Waits, WRITER)),
    (&["pthread_rwlock_trywrlock"], 1, |m, call| take(m, call, Taken::Fails(EBUSY), WRITER)),
    (&["pthread_rwlock_timedwrlock"], 1, |m, call| take(m, call, Taken::Fails(ETIMEDOUT), WRITER)),
    (&["pthread_rwlock_rdlock"], 1, |m, call| read(m, call, Taken::Waits)),
    (&["pthread_rwlock_tryrdlock"], 1, |m, call| read(m, call, Taken::Fails(EBUSY))),
    (&["pthread_rwlock_timedrdlock"], 1, |m, call| read(m, call, Taken::Fails(ETIMEDOUT))),
    (&["pthread_rwlock_unlock"], 1, rwlock_unlock),
    (&["pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"], 2, wait_for_signal),
    (&["__crashproof_semaphore_down"], 2, semaphore_down),
];

fn mutex(machine: &mut Machine<'_>, call: &mut Invocation<'_>, taken: Taken) -> Flow<Reply> {
    machine.lock_mutex(call.word(0), taken, call.state, call.at).map(Reply::scalar)
}

fn mutex_unlock(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.unlock_mutex(call.word(0), call.state, call.at).map(Reply::scalar)
}

fn mutex_init(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.start_mutex(call.word(0), call.scalar(1), call.state, call.at).map(Reply::scalar)
}

/// Stores the kind of a mutex in its attributes.
fn mutex_kind(machine: &mut Machine<'_>, call: &mut Invocation<'_>, kind: Option<Term>) -> Flow<Reply> {
    let kind = kind.unwrap_or_else(|| machine.terms.number(0, 32));
    machine.store_scalar(call.state, call.word(0), kind, false, call.at)?;
    Ok(Reply::scalar(machine.terms.number(0, 32)))
}

fn set_mutex_kind(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.learn_kinds()?;
    mutex_kind(machine, call, call.scalar(1))
}

fn init_word(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    mutex_kind(machine, call, None)
}

fn take(machine: &mut Machine<'_>, call: &mut Invocation<'_>, taken: Taken, to: u64) -> Flow<Reply> {
    machine.take(call.word(0), taken, &mut from_free_to(to), call.state, call.at).map(Reply::scalar)
}

fn read(machine: &mut Machine<'_>, call: &mut Invocation<'_>, taken: Taken) -> Flow<Reply> {
    machine.take(call.word(0), taken, &mut one_reader_more, call.state, call.at).map(Reply::scalar)
}

/// A plain store, as in glibc.
fn spin_unlock(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let (lock, at) = (call.word(0), call.at);
    let zero = machine.terms.number(0, 32);
    machine.without_trace(call.state, |machine, state| machine.store_scalar(state, lock, zero, false, at))?;
    machine.note_held(call.state, |held| held.release(lock));
    Ok(Reply::scalar(zero))
}

fn rwlock_unlock(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let leave = &mut |terms: &mut Terms, old: Term| {
        let (zero, one) = (terms.number(0, 32), terms.number(1, 32));
        let writer = terms.number(WRITER, 32);
        let written = terms.equal(old, writer);
        let fewer = terms.binary(Binary::Sub, old, one);
        (terms.choose(written, zero, fewer), terms.truth(true))
    };
    machine.release(call.word(0), leave, call.state, call.at)?;
    Ok(Reply::scalar(machine.terms.number(0, 32)))
}

/// Spurious wakeups are allowed, so there is nothing to wait for but the lock.
fn wait_for_signal(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.wait_for_signal(call.word(1), call.state, call.at)?;
    let woken = machine.terms.number(0, 32);
    if call.name == "pthread_cond_wait" {
        return Ok(Reply::scalar(woken));
    }
    let timed_out = machine.terms.symbol("input", 1);
    let error = machine.terms.number(ETIMEDOUT, 32);
    Ok(Reply::scalar(machine.terms.choose(timed_out, error, woken)))
}

fn semaphore_down(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let Some(waits) = call.known(&machine.terms, 1) else { return Ok(Reply::Unknown) };
    let taken = if waits == 0 { Taken::Fails(1) } else { Taken::Waits };
    let down = &mut |terms: &mut Terms, old: Term| {
        let one = terms.number(1, 32);
        (terms.binary(Binary::Sub, old, one), terms.nonzero(old))
    };
    let old = machine.rmw(call.state, call.word(0), 32, down, call.at)?;
    let free = machine.terms.nonzero(old);
    machine.outcome(free, taken, call.state, call.at).map(Reply::scalar)
}

impl Machine<'_> {
    /// Acquires a lock of which only the word matters; returns the error number, or 0.
    fn take(
        &mut self,
        lock: Term,
        taken: Taken,
        compute: Update<'_>,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Term> {
        self.learn_tries(taken)?;
        let old = self.without_trace(state, |machine, state| machine.rmw(state, lock, 32, compute, at))?;
        let (_, free) = compute(&mut self.terms, old);
        let result = self.outcome(free, taken, state, at)?;
        self.note_held(state, |held| held.take(lock));
        Ok(result)
    }

    /// Continues where the lock was free, and elsewhere, too, if that is an error; returns the error number, or 0.
    fn outcome(&mut self, free: Term, taken: Taken, state: &mut State, at: At<'_>) -> Flow<Term> {
        let zero = self.terms.number(0, 32);
        match taken {
            Taken::Fails(error) => {
                let error = self.terms.number(error, 32);
                Ok(self.terms.choose(free, zero, error))
            }
            Taken::Waits => {
                if self.helpers.current.is_some() {
                    let waits = self.terms.not(free);
                    self.waits_for_others(state, waits, at.place, at.function);
                } else if self.is_sequential() {
                    let who = if self.who == Who::Recovery { "recovery" } else { "the program" };
                    self.assert(state, free, format!("{who} does not wait forever"), at)?;
                }
                if state.assume(&mut self.terms, free) { Ok(zero) } else { Err(Stop::Dead) }
            }
        }
    }

    fn release(&mut self, lock: Term, compute: Update<'_>, state: &mut State, at: At<'_>) -> Flow<Term> {
        let old = self.without_trace(state, |machine, state| machine.rmw(state, lock, 32, compute, at))?;
        self.note_held(state, |held| held.release(lock));
        Ok(old)
    }

    /// Held locks matter only if acquiring them leaves no other trace.
    fn note_held(&self, state: &mut State, note: impl FnOnce(&mut Held)) {
        if !self.objects.tries_locks {
            note(&mut state.held);
        }
    }

    /// An iteration of a loop that acquires and releases a lock has done nothing observable, except to threads that try
    /// the lock, which wait a little longer. The locks held at the end of the iteration are compared anyway. The first
    /// iteration counts, as for any fence.
    fn without_trace<T>(
        &mut self,
        state: &mut State,
        act: impl FnOnce(&mut Self, &mut State) -> Flow<T>,
    ) -> Flow<T> {
        let before = state.dirty.clone();
        let result = act(self, state)?;
        if !self.objects.tries_locks {
            let yes = self.terms.truth(true);
            let flags = before.into_iter().zip(&self.loops);
            state.dirty = flags.map(|(flag, round)| if *round == 0 { yes } else { flag }).collect();
        }
        Ok(result)
    }

    fn lock_mutex(&mut self, lock: Term, taken: Taken, state: &mut State, at: At<'_>) -> Flow<Term> {
        let Some(kind) = self.mutex_kind(lock, state, at)? else {
            return self.take(lock, taken, &mut from_free_to(1), state, at);
        };
        // The other half holds the owner and the count; a thread may retake its own lock, or gets an error.
        let me = self.own_number();
        let (recursive, checking) = self.kinds(kind);
        let retake = &mut |terms: &mut Terms, old: Term| {
            let mine = is_mine(terms, old, me);
            let (first, more) = (terms.number(me | 1 << 8, 32), terms.number(1 << 8, 32));
            let more = terms.binary(Binary::Add, old, more);
            let zero = terms.number(0, 32);
            let free = terms.equal(old, zero);
            let deeper = terms.and(mine, recursive);
            (terms.choose(mine, more, first), terms.or(free, deeper))
        };
        self.learn_tries(taken)?;
        let old = self.rmw(state, lock, 32, retake, at)?;
        let (_, free) = retake(&mut self.terms, old);
        let mine = is_mine(&mut self.terms, old, me);
        let refused = self.terms.and(mine, checking);
        let (deadlock, busy) = (self.terms.number(EDEADLK, 32), self.terms.number(EBUSY, 32));
        let proceeds = self.terms.or(free, refused);
        let result = self.outcome(proceeds, taken, state, at)?;
        let error = if matches!(taken, Taken::Fails(EBUSY)) { busy } else { deadlock };
        Ok(self.terms.choose(refused, error, result))
    }

    fn unlock_mutex(&mut self, lock: Term, state: &mut State, at: At<'_>) -> Flow<Term> {
        let zero = self.terms.number(0, 32);
        let Some(kind) = self.mutex_kind(lock, state, at)? else {
            self.release(lock, &mut |terms, _| (zero, terms.truth(true)), state, at)?;
            return Ok(zero);
        };
        let me = self.own_number();
        let (recursive, checking) = self.kinds(kind);
        let minds = self.terms.or(recursive, checking);
        let leave = &mut |terms: &mut Terms, old: Term| {
            let once = terms.number(me | 1 << 8, 32);
            let last = terms.equal(old, once);
            let careless = terms.not(minds);
            let free = terms.or(last, careless);
            let one = terms.number(1 << 8, 32);
            let fewer = terms.binary(Binary::Sub, old, one);
            let mine = is_mine(terms, old, me);
            (terms.choose(free, zero, fewer), terms.or(mine, careless))
        };
        let old = self.rmw(state, lock, 32, leave, at)?;
        let (_, done) = leave(&mut self.terms, old);
        let error = self.terms.number(EPERM, 32);
        Ok(self.terms.choose(done, zero, error))
    }

    fn start_mutex(
        &mut self,
        lock: Term,
        attributes: Option<Term>,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Term> {
        let zero = self.terms.number(0, 32);
        self.store_scalar(state, lock, zero, false, at)?;
        if self.objects.mutex_kinds {
            let kind = match attributes.filter(|attributes| self.terms.constant(*attributes) != Some(0)) {
                Some(attributes) => self.load_scalar(state, attributes, 32, at)?,
                None => zero,
            };
            let place = self.offset(lock, KIND);
            self.store_scalar(state, place, kind, false, at)?;
        }
        Ok(zero)
    }

    /// Releases the lock and acquires it again. It must have been held once, or the thread would wait forever.
    fn wait_for_signal(&mut self, lock: Term, state: &mut State, at: At<'_>) -> Flow<()> {
        let held = state.held.clone();
        self.unlock_mutex(lock, state, at)?;
        self.lock_mutex(lock, Taken::Waits, state, at)?;
        state.held = held;
        Ok(())
    }

    /// The kind of a mutex, if the program uses kinds.
    fn mutex_kind(&mut self, lock: Term, state: &mut State, at: At<'_>) -> Flow<Option<Term>> {
        if let Some(number) = self.terms.constant(lock)
            && let Some(object) = self.objects.at(number)
        {
            let object = self.objects.get(object);
            let at = (number - object.address + KIND) as usize;
            if object.initial.get(at).is_some_and(|kind| *kind != 0) {
                self.learn_kinds()?;
            }
        }
        if !self.objects.mutex_kinds {
            return Ok(None);
        }
        let place = self.offset(lock, KIND);
        self.load_scalar(state, place, 32, at).map(Some)
    }

    fn kinds(&mut self, kind: Term) -> (Term, Term) {
        let (recursive, checking) = (self.terms.number(RECURSIVE, 32), self.terms.number(ERROR_CHECKING, 32));
        (self.terms.equal(kind, recursive), self.terms.equal(kind, checking))
    }

    /// Identifies the current thread in the word of a mutex; not 0.
    fn own_number(&self) -> u64 {
        match self.who {
            Who::Thread(thread) => u64::from(thread) + 1,
            Who::Recovery => 0xff,
        }
    }

    fn learn_kinds(&mut self) -> Flow<()> {
        if std::mem::replace(&mut self.objects.mutex_kinds, true) { Ok(()) } else { Err(Stop::Restart) }
    }

    fn learn_tries(&mut self, taken: Taken) -> Flow<()> {
        let tries = matches!(taken, Taken::Fails(_));
        let new = tries && !std::mem::replace(&mut self.objects.tries_locks, true);
        if new { Err(Stop::Restart) } else { Ok(()) }
    }
}

fn is_mine(terms: &mut Terms, word: Term, me: u64) -> Term {
    let low = terms.extract(word, 0, 8);
    let me = terms.number(me, 8);
    terms.equal(low, me)
}

/// Sets a word that is 0.
fn from_free_to(value: u64) -> impl FnMut(&mut Terms, Term) -> (Term, Term) {
    move |terms, old| {
        let (zero, value) = (terms.number(0, 32), terms.number(value, 32));
        (value, terms.equal(old, zero))
    }
}

/// Adds a reader, unless there is a writer.
fn one_reader_more(terms: &mut Terms, old: Term) -> (Term, Term) {
    let (one, writer) = (terms.number(1, 32), terms.number(WRITER, 32));
    let written = terms.equal(old, writer);
    (terms.binary(Binary::Add, old, one), terms.not(written))
}
