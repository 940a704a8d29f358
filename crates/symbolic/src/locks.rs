//! Locks: mutexes, spin locks, readers-writer locks, condition variables, semaphores.
//!
//! A lock is a word that is 0 when free. Taking it is an RMW after which the thread goes on only if the lock was
//! free: a thread that finds it taken waits, and the RMW of a thread that has waited is the one that finds it
//! free. The word is the first of the pthread object, which is where glibc has it too.
//!
//! Most mutexes are of the default kind. Others (recursive, error checking) keep who holds them and how often, but only
//! once a program was seen to ask for one: the fewer values a word has, the better for the prover.
//!
//! Who waits where nobody is left to wake it waits for ever. That is claimed not to happen in recovery, and while the
//! first thread is alone; among threads it is not asked.

use std::rc::Rc;

use crashproof_prove::term::{Binary, Term, Terms};

use crate::access::At;
use crate::library::Reply;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::state::State;
use crate::value::Value;

/// The locks that a thread holds; none where paths with different ones met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held(Option<Rc<Vec<Term>>>);

impl Default for Held {
    fn default() -> Self {
        Held(Some(Rc::default()))
    }
}

impl Held {
    pub(crate) fn merge(&self, other: &Held) -> Held {
        if self == other { self.clone() } else { Held(None) }
    }

    /// Whether these are known to be the same locks as those.
    pub(crate) fn same_as(&self, other: &Held) -> bool {
        self.0.is_some() && self == other
    }

    fn take(&mut self, lock: Term) {
        if let Some(locks) = &mut self.0 {
            Rc::make_mut(locks).push(lock);
        }
    }

    fn release(&mut self, lock: Term) {
        let Some(locks) = &mut self.0 else { return };
        match locks.iter().rposition(|held| *held == lock) {
            Some(index) => {
                Rc::make_mut(locks).remove(index);
            }
            None => self.0 = None,
        }
    }
}

/// Where glibc keeps the kind of a mutex, and what the kinds are called.
const KIND: u64 = 16;
const RECURSIVE: u64 = 1;
const ERROR_CHECKING: u64 = 2;

/// A readers-writer lock holds the number of its readers, or this.
const WRITER: u64 = 1 << 31;

/// Numbers of errors.
const EPERM: u64 = 1;
const EBUSY: u64 = 16;
const EDEADLK: u64 = 35;
const ETIMEDOUT: u64 = 110;

/// What becomes of a thread that finds a lock taken.
#[derive(Clone, Copy)]
enum Taken {
    Waits,
    /// Goes on, with this error.
    Fails(u64),
}

/// How a lock is taken: the word afterwards, and whether that is possible.
type Take<'t> = &'t mut dyn FnMut(&mut Terms, Term) -> (Term, Term);

impl Machine<'_> {
    /// Carries out a call that has to do with locks, if it is one.
    pub(crate) fn lock_call(
        &mut self,
        name: &str,
        arguments: &[Option<Value>],
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Option<Reply>> {
        let scalar = |index: usize| match arguments.get(index) {
            Some(Some(Value::Scalar(term))) => Some(*term),
            _ => None,
        };
        let Some(lock) = scalar(0) else { return Ok(None) };
        let result = match name {
            "pthread_mutex_lock" => self.lock_mutex(lock, Taken::Waits, state, at)?,
            "pthread_mutex_trylock" => self.lock_mutex(lock, Taken::Fails(EBUSY), state, at)?,
            "pthread_mutex_timedlock" => self.lock_mutex(lock, Taken::Fails(ETIMEDOUT), state, at)?,
            "pthread_mutex_unlock" => self.unlock_mutex(lock, state, at)?,
            "pthread_mutex_init" => self.start_mutex(lock, scalar(1), state, at)?,
            "pthread_mutexattr_init" | "pthread_mutexattr_settype" => {
                if name == "pthread_mutexattr_settype" {
                    self.learn_kinds()?;
                }
                let kind = if name == "pthread_mutexattr_init" { None } else { scalar(1) };
                let kind = kind.unwrap_or_else(|| self.terms.number(0, 32));
                self.store_scalar(state, lock, kind, false, at)?;
                self.terms.number(0, 32)
            }
            "pthread_spin_lock" => self.take(lock, Taken::Waits, &mut from_free_to(1), state, at)?,
            "pthread_spin_trylock" => {
                self.take(lock, Taken::Fails(EBUSY), &mut from_free_to(1), state, at)?
            }
            "pthread_spin_init" | "pthread_rwlock_init" => {
                let zero = self.terms.number(0, 32);
                self.store_scalar(state, lock, zero, false, at)?;
                zero
            }
            // A plain store, as glibc does it.
            "pthread_spin_unlock" => {
                let zero = self.terms.number(0, 32);
                self.without_trace(state, |machine, state| {
                    machine.store_scalar(state, lock, zero, false, at)
                })?;
                self.note_held(state, |held| held.release(lock));
                zero
            }
            "pthread_rwlock_wrlock" => self.take(lock, Taken::Waits, &mut from_free_to(WRITER), state, at)?,
            "pthread_rwlock_trywrlock" => {
                self.take(lock, Taken::Fails(EBUSY), &mut from_free_to(WRITER), state, at)?
            }
            "pthread_rwlock_timedwrlock" => {
                self.take(lock, Taken::Fails(ETIMEDOUT), &mut from_free_to(WRITER), state, at)?
            }
            "pthread_rwlock_rdlock" => self.take(lock, Taken::Waits, &mut one_reader_more, state, at)?,
            "pthread_rwlock_tryrdlock" => {
                self.take(lock, Taken::Fails(EBUSY), &mut one_reader_more, state, at)?
            }
            "pthread_rwlock_timedrdlock" => {
                self.take(lock, Taken::Fails(ETIMEDOUT), &mut one_reader_more, state, at)?
            }
            "pthread_rwlock_unlock" => {
                let leave = &mut |terms: &mut Terms, old: Term| {
                    let (zero, one) = (terms.number(0, 32), terms.number(1, 32));
                    let writer = terms.number(WRITER, 32);
                    let written = terms.equal(old, writer);
                    let fewer = terms.binary(Binary::Sub, old, one);
                    (terms.choose(written, zero, fewer), terms.truth(true))
                };
                self.release(lock, leave, state, at)?;
                self.terms.number(0, 32)
            }
            // Waking up without a signal is allowed, so there is nothing to wait for but the lock.
            "pthread_cond_wait" | "pthread_cond_timedwait" | "pthread_cond_clockwait" => {
                let Some(lock) = scalar(1) else { return Ok(None) };
                self.wait_for_signal(lock, state, at)?;
                let woken = self.terms.number(0, 32);
                if name == "pthread_cond_wait" {
                    woken
                } else {
                    let timed_out = self.terms.symbol("input", 1);
                    let error = self.terms.number(ETIMEDOUT, 32);
                    self.terms.choose(timed_out, error, woken)
                }
            }
            "__crashproof_semaphore_down" => {
                let Some(waits) = scalar(1).and_then(|waits| self.terms.constant(waits)) else {
                    return Ok(None);
                };
                let taken = if waits == 0 { Taken::Fails(1) } else { Taken::Waits };
                let down = &mut |terms: &mut Terms, old: Term| {
                    let one = terms.number(1, 32);
                    (terms.binary(Binary::Sub, old, one), terms.nonzero(old))
                };
                let old = self.rmw(state, lock, 32, down, at)?;
                let free = self.terms.nonzero(old);
                self.outcome(free, taken, state, at)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Reply::scalar(result)))
    }

    /// Takes a lock of which only the word counts; gives the number of the error, or 0.
    fn take(
        &mut self,
        lock: Term,
        taken: Taken,
        compute: Take<'_>,
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

    /// Goes on where the lock was free, and elsewhere too if that is an error; gives its number, or 0.
    fn outcome(&mut self, free: Term, taken: Taken, state: &mut State, at: At<'_>) -> Flow<Term> {
        let zero = self.terms.number(0, 32);
        match taken {
            Taken::Fails(error) => {
                let error = self.terms.number(error, 32);
                Ok(self.terms.choose(free, zero, error))
            }
            Taken::Waits => {
                if self.is_sequential() {
                    let who = if self.who == Who::Recovery { "recovery" } else { "the program" };
                    self.assert(state, free, format!("{who} does not wait for ever"), at)?;
                }
                if state.assume(&mut self.terms, free) { Ok(zero) } else { Err(Stop::Dead) }
            }
        }
    }

    fn release(&mut self, lock: Term, compute: Take<'_>, state: &mut State, at: At<'_>) -> Flow<Term> {
        let old = self.without_trace(state, |machine, state| machine.rmw(state, lock, 32, compute, at))?;
        self.note_held(state, |held| held.release(lock));
        Ok(old)
    }

    /// What is held matters only where taking it leaves no other trace.
    fn note_held(&self, state: &mut State, note: impl FnOnce(&mut Held)) {
        if !self.objects.tries_locks {
            note(&mut state.held);
        }
    }

    /// A round of a loop that takes a lock and gives it back has done nothing that others could tell, unless they try for
    /// the lock: they wait a little longer. What is held when the round ends is compared anyway. The first round
    /// counts, as for any fence.
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
        // Another holder is who and how often; what this thread holds it may take again, or is told.
        let me = self.own_number();
        let (recursive, checking) = self.kinds(kind);
        let again = &mut |terms: &mut Terms, old: Term| {
            let mine = is_mine(terms, old, me);
            let (first, more) = (terms.number(me | 1 << 8, 32), terms.number(1 << 8, 32));
            let more = terms.binary(Binary::Add, old, more);
            let zero = terms.number(0, 32);
            let free = terms.equal(old, zero);
            let deeper = terms.and(mine, recursive);
            (terms.choose(mine, more, first), terms.or(free, deeper))
        };
        self.learn_tries(taken)?;
        let old = self.rmw(state, lock, 32, again, at)?;
        let (_, free) = again(&mut self.terms, old);
        let mine = is_mine(&mut self.terms, old, me);
        let refused = self.terms.and(mine, checking);
        let (deadlock, busy) = (self.terms.number(EDEADLK, 32), self.terms.number(EBUSY, 32));
        let proceeds = self.terms.or(free, refused);
        let result = self.outcome(proceeds, taken, state, at)?;
        let told = if matches!(taken, Taken::Fails(EBUSY)) { busy } else { deadlock };
        Ok(self.terms.choose(refused, told, result))
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

    /// Gives the lock back and takes it again. It was held once, or the thread would wait for ever.
    fn wait_for_signal(&mut self, lock: Term, state: &mut State, at: At<'_>) -> Flow<()> {
        let held = state.held.clone();
        self.unlock_mutex(lock, state, at)?;
        self.lock_mutex(lock, Taken::Waits, state, at)?;
        state.held = held;
        Ok(())
    }

    /// What kind of mutex it is, if there are kinds in this program.
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

    /// Names who is executing in the word of a mutex; not 0.
    fn own_number(&self) -> u64 {
        match self.who {
            Who::Thread(thread) => u64::from(thread) + 1,
            Who::Recovery => 0xff,
        }
    }

    fn learn_kinds(&mut self) -> Flow<()> {
        if std::mem::replace(&mut self.objects.mutex_kinds, true) { Ok(()) } else { Err(Stop::Again) }
    }

    fn learn_tries(&mut self, taken: Taken) -> Flow<()> {
        let tries = matches!(taken, Taken::Fails(_));
        let new = tries && !std::mem::replace(&mut self.objects.tries_locks, true);
        if new { Err(Stop::Again) } else { Ok(()) }
    }
}

fn is_mine(terms: &mut Terms, word: Term, me: u64) -> Term {
    let low = terms.extract(word, 0, 8);
    let me = terms.number(me, 8);
    terms.equal(low, me)
}

/// A word that is 0 is set.
fn from_free_to(value: u64) -> impl FnMut(&mut Terms, Term) -> (Term, Term) {
    move |terms, old| {
        let (zero, value) = (terms.number(0, 32), terms.number(value, 32));
        (value, terms.equal(old, zero))
    }
}

/// One reader more, unless there is a writer.
fn one_reader_more(terms: &mut Terms, old: Term) -> (Term, Term) {
    let (one, writer) = (terms.number(1, 32), terms.number(WRITER, 32));
    let written = terms.equal(old, writer);
    (terms.binary(Binary::Add, old, one), terms.not(written))
}
