//! pthreads: creating and joining. Locks are in `locks.rs`.

use crashproof_frontend::bitcode::ir::{FunctionId, Place};
use crashproof_prove::program::{Action, ThreadId};
use crashproof_prove::term::Term;

use crate::frame::At;
use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::{Handover, Object, ObjectId, Origin};
use crate::records::{Argument, Footprint, SHARING, Spawn};
use crate::state::State;
use crate::value::Value;

/// More threads are not supported.
const MOST_THREADS: usize = 60;

/// Handles of recovery's threads start here.
const FIRST_HELPER: u64 = 1 << 20;

pub(crate) const HANDLERS: &[Handler] = &[
    (&["pthread_create"], 4, create),
    (&["pthread_join"], 1, join),
    (&["pthread_exit"], 1, exit),
    (&["pthread_self"], 0, own_handle),
];

fn create(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    if machine.who == Who::Recovery {
        let (handle, start, argument) = (call.word(0), call.word(2), call.word(3));
        machine.run_helper(call, handle, start, argument)?;
        return Ok(Reply::scalar(machine.terms.number(0, 32)));
    }
    machine.create(call.word(0), call.word(2), call.word(3), call.state, call.at)?;
    Ok(Reply::scalar(machine.terms.number(0, 32)))
}

fn join(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    if machine.who == Who::Recovery {
        machine.join_helper(call.word(0), call.scalar(1), call.state, call.at)?;
        return Ok(Reply::scalar(machine.terms.number(0, 32)));
    }
    machine.join(call.word(0), call.scalar(1), call.state, call.at)?;
    Ok(Reply::scalar(machine.terms.number(0, 32)))
}

fn exit(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    if machine.helpers.current.is_some() {
        let reason = "a thread of recovery that ends by `pthread_exit` is not modeled";
        return Err(machine.refuse(call.state, reason, call.at));
    }
    machine.hand_over_result(call.state, call.word(0), call.at)?;
    machine.hand_over_end(call.state, call.at)?;
    Err(Stop::Dead)
}

fn own_handle(machine: &mut Machine<'_>, _: &mut Invocation<'_>) -> Flow<Reply> {
    let thread = match machine.who {
        Who::Thread(thread) => u64::from(thread) + 1,
        Who::Recovery => 1,
    };
    Ok(Reply::scalar(machine.terms.number(thread, 64)))
}

impl Machine<'_> {
    fn create(
        &mut self,
        handle: Term,
        start: Term,
        argument: Term,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<()> {
        if self.threads.len() >= MOST_THREADS {
            return Err(self.refuse(state, &format!("there are more than {MOST_THREADS} threads"), at));
        }
        let function = self.terms.constant(start).and_then(|address| self.function_at(address));
        let Some(function) = function else {
            return Err(self.refuse(state, "the function of the new thread is not known", at));
        };
        let name = self.module.function(function).name.clone();
        let id = self.add_thread(format!("thread {} ({name})", self.threads.len()));
        let thread = id.0 as u32;
        if self.who == Who::Thread(0) {
            self.started_by_first |= 1 << thread.min(63);
        }
        let number = self.terms.number(u64::from(thread) + 1, 64);
        self.store_scalar(state, handle, number, false, at)?;
        let argument = match self.terms.constant(argument) {
            Some(known) => {
                // Both threads can reach whatever it points to; recorded uses reveal sharing.
                Argument::Known(known)
            }
            None => {
                let object = self.handover(thread, Handover::Argument);
                let address = self.terms.number(self.objects.get(object).address, 64);
                self.store_scalar(state, address, argument, false, at)?;
                Argument::Handed(self.objects.get(object).address)
            }
        };
        if !self.several {
            self.publish(state, at)?;
            self.several = true;
        }
        self.emit(state, Action::Create(id), at.place, at.function)?;
        let yes = self.terms.truth(true);
        state.mark_dirty(&mut self.terms, yes);
        let place = self.module.function(function).place.clone();
        let memory = state.memory.clone();
        self.spawned.push_back(Spawn { thread, function, argument, memory, place });
        Ok(())
    }

    /// Runs a recovery thread immediately and to its end. That is equivalent to any schedule if it shares nothing that
    /// it or others write, which is checked as long as it may be running.
    fn run_helper(
        &mut self,
        call: &mut Invocation<'_>,
        handle: Term,
        start: Term,
        argument: Term,
    ) -> Flow<()> {
        let at = call.at;
        let function = self.terms.constant(start).and_then(|address| self.function_at(address));
        let Some(function) = function else {
            return Err(self.refuse(call.state, "the function of the new thread is not known", at));
        };
        if self.helpers.current.is_some() {
            let reason = "a thread of recovery that starts threads is not modeled";
            return Err(self.refuse(call.state, reason, at));
        }
        let number = self.helpers.started;
        self.helpers.started += 1;
        let written = self.terms.number(FIRST_HELPER + number, 64);
        self.store_scalar(call.state, handle, written, false, at)?;
        self.helpers.current = Some(Footprint::default());
        let arguments = vec![Value::Scalar(argument)];
        let context = call.frame.point;
        let called = self.call(function, arguments, Vec::new(), std::mem::take(call.state), context);
        let footprint = self.helpers.current.take().unwrap_or_default();
        let (after, result) = called?;
        *call.state = after;
        let result = match result {
            Some(Value::Scalar(result)) => Some(result),
            _ => None,
        };
        self.helpers.results.resize(self.helpers.started as usize, None);
        self.helpers.results[number as usize] = result;
        let written = footprint.ranges.iter().filter(|range| range.2).map(|range| range.0);
        self.helpers.written.extend(written);
        let shares = self.helpers.running.iter().any(|(_, other)| other.conflicts(&footprint));
        self.helpers.running.push((number, footprint));
        if shares { self.stop_following(call.state, at) } else { Ok(()) }
    }

    /// A thread of recovery waits where the condition holds. Others could go on meanwhile, which is not followed.
    pub(crate) fn waits_for_others(
        &mut self,
        state: &State,
        condition: Term,
        place: &Place,
        function: FunctionId,
    ) {
        let mut waiting = state.clone();
        if waiting.assume(&mut self.terms, condition) {
            self.unknown(&mut waiting, SHARING, place, function);
        }
    }

    fn join_helper(&mut self, handle: Term, result: Option<Term>, state: &mut State, at: At<'_>) -> Flow<()> {
        let cases = self.cases(state, handle);
        let number = match cases.as_deref() {
            Some([(_, number)]) => number.checked_sub(FIRST_HELPER),
            _ => None,
        };
        let Some(number) = number.filter(|number| *number < self.helpers.started) else {
            return Err(self.refuse(state, "joins a thread that is not known", at));
        };
        self.helpers.running.retain(|(running, _)| *running != number);
        if let Some(place) = result.filter(|place| self.terms.constant(*place) != Some(0)) {
            let Some(value) = self.helpers.results.get(number as usize).copied().flatten() else {
                return Err(self.refuse(state, "what a thread of recovery ends with is not known", at));
            };
            self.store_scalar(state, place, value, false, at)?;
        }
        Ok(())
    }

    /// The object through which a thread's argument or result is passed.
    fn handover(&mut self, thread: u32, what: Handover) -> ObjectId {
        let word = match what {
            Handover::Argument => "argument",
            Handover::Result => "result",
            Handover::End => "end",
        };
        let object = self.objects.place(Origin::Handover(thread, what), 8, false, || {
            Object::zeroed(format!("{word} of thread {thread}"), 8)
        });
        self.objects.expose(object);
        object
    }

    /// The effects of the first thread on shared memory while it was alone become visible to the others.
    fn publish(&mut self, state: &mut State, at: At<'_>) -> Flow<()> {
        if !*self.fold {
            return Ok(());
        }
        let shared: Vec<ObjectId> = self
            .objects
            .ids()
            .filter(|id| self.objects.is_concurrent(*id) && state.memory.has(*id))
            .collect();
        if !shared.is_empty() && !state.path.is_empty() {
            // On other paths it may never be alone, or have done something else.
            *self.fold = false;
            return Err(Stop::Restart);
        }
        let mut stores = Vec::new();
        for object in shared {
            let values = state.memory.values(&mut self.terms, object);
            let (base, size) = (self.objects.get(object).address, self.objects.get(object).size);
            let mut initial = vec![0; size as usize];
            let mut written = vec![false; size as usize];
            for (offset, value) in values {
                let bytes = usize::from(self.terms.width(value) / 8);
                let start = offset as usize;
                written[start..start + bytes].fill(true);
                match self.terms.constant(value) {
                    Some(number) => {
                        initial[start..start + bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
                    }
                    None => stores.push((base + offset, value)),
                }
            }
            let info = self.objects.get_mut(object);
            (info.initial, info.written) = (initial, written);
        }
        // From here on these are events.
        self.several = true;
        for (address, value) in stores {
            let address = self.terms.number(address, 64);
            self.store_scalar(state, address, value, false, at)?;
        }
        Ok(())
    }

    fn join(&mut self, handle: Term, result: Option<Term>, state: &mut State, at: At<'_>) -> Flow<()> {
        let cases = self.cases(state, handle);
        let Some([(_, number)]) = cases.as_deref() else {
            return Err(self.refuse(state, "joins a thread that is not known", at));
        };
        let thread = (*number as usize).wrapping_sub(1);
        if thread == 0 || thread >= self.threads.len() {
            return Err(self.refuse(state, "joins something that is no thread", at));
        }
        if self.objects.may_not_end.contains(&(thread as u32)) {
            let object = self.handover(thread as u32, Handover::End);
            let address = self.terms.number(self.objects.get(object).address, 64);
            let ended = self.load_scalar(state, address, 64, at)?;
            let one = self.terms.number(1, 64);
            let ended = self.terms.equal(ended, one);
            if !state.assume(&mut self.terms, ended) {
                return Err(Stop::Dead);
            }
        }
        self.joined.insert(thread as u32);
        self.emit(state, Action::Join(ThreadId(thread)), at.place, at.function)?;
        let yes = self.terms.truth(true);
        state.mark_dirty(&mut self.terms, yes);
        if let Some(result) = result.filter(|result| self.terms.constant(*result) != Some(0)) {
            let object = self.handover(thread as u32, Handover::Result);
            let address = self.terms.number(self.objects.get(object).address, 64);
            let value = self.load_scalar(state, address, 64, at)?;
            self.store_scalar(state, result, value, false, at)?;
        }
        Ok(())
    }

    /// Stores a thread's result for a join, if there is one.
    pub(crate) fn hand_over_result(&mut self, state: &mut State, result: Term, at: At<'_>) -> Flow<()> {
        let Who::Thread(thread) = self.who else { return Ok(()) };
        let Some(object) = self.objects.find(&Origin::Handover(thread, Handover::Result)) else {
            return Ok(());
        };
        let address = self.terms.number(self.objects.get(object).address, 64);
        self.store_scalar(state, address, result, false, at)
    }

    /// Signals that a thread has ended, if a join checks that.
    pub(crate) fn hand_over_end(&mut self, state: &mut State, at: At<'_>) -> Flow<()> {
        let Who::Thread(thread) = self.who else { return Ok(()) };
        if !self.objects.may_not_end.contains(&thread) {
            return Ok(());
        }
        let object = self.handover(thread, Handover::End);
        let address = self.terms.number(self.objects.get(object).address, 64);
        let one = self.terms.number(1, 64);
        self.store_scalar(state, address, one, false, at)
    }
}
