//! Reads and writes of memory: evaluated here if no other thread can see them, otherwise an event.

use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{Callee, FunctionId, Op, Type};
use crashproof_prove::program::Action;
use crashproof_prove::term::Term;
use rustc_hash::FxHashSet;

use crate::frame::At;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::ObjectId;
use crate::options::Flushes;
use crate::records::{Footprint, SHARING, UNFOLLOWED, is_claim};
use crate::state::State;
use crate::value::{self, Value};

/// One possible target of an address.
pub(crate) struct Case {
    pub(crate) condition: Term,
    /// Object and offset, if the access is within an object whose content is tracked.
    pub(crate) inside: Option<(ObjectId, u64)>,
    /// Other threads can see the access.
    pub(crate) event: bool,
}

impl Machine<'_> {
    /// Loads a value of a type.
    pub(crate) fn load(&mut self, state: &mut State, address: Term, ty: &Type, at: At<'_>) -> Flow<Value> {
        if let Some(bits) = value::bits(ty) {
            return Ok(Value::Scalar(self.load_scalar(state, address, bits, at)?));
        }
        let Some(parts) = value::members(ty) else {
            let Err(what) = value::build(ty, &mut |_| unreachable!("no scalar")) else {
                unreachable!("only scalars and aggregates can be built")
            };
            return Err(self.refuse(state, &format!("loads {what}, which is not supported"), at));
        };
        let mut members = Vec::new();
        for (offset, member) in &parts {
            let address = self.offset(address, *offset);
            members.push(self.load(state, address, member, at)?);
        }
        Ok(Value::Members(members))
    }

    /// Stores a value of a type.
    pub(crate) fn store(
        &mut self,
        state: &mut State,
        address: Term,
        value: &Value,
        ty: &Type,
        nontemporal: bool,
        at: At<'_>,
    ) -> Flow<()> {
        match (value, value::members(ty)) {
            (Value::Scalar(term), _) => self.store_scalar(state, address, *term, nontemporal, at),
            (Value::Members(values), Some(members)) => {
                for ((offset, ty), value) in members.iter().zip(values) {
                    let address = self.offset(address, *offset);
                    self.store(state, address, value, ty, nontemporal, at)?;
                }
                Ok(())
            }
            _ => Err(self.refuse(state, "stores a value of another type", at)),
        }
    }

    pub(crate) fn load_scalar(
        &mut self,
        state: &mut State,
        address: Term,
        bits: u8,
        at: At<'_>,
    ) -> Flow<Term> {
        let mut whole: Option<Term> = None;
        for (offset, bytes) in self.pieces(address, u64::from(bits).div_ceil(8)) {
            let address = self.offset(address, offset);
            let part = self.load_piece(state, address, bytes, at)?;
            whole = Some(match whole {
                None => part,
                Some(low) => self.terms.concat(part, low),
            });
        }
        let whole = whole.expect("a value has at least one byte");
        Ok(self.terms.extract(whole, 0, bits))
    }

    pub(crate) fn store_scalar(
        &mut self,
        state: &mut State,
        address: Term,
        value: Term,
        nontemporal: bool,
        at: At<'_>,
    ) -> Flow<()> {
        let bytes = u64::from(self.terms.width(value)).div_ceil(8);
        let value = self.terms.zero_extend(value, bytes as u8 * 8);
        for (offset, bytes) in self.pieces(address, bytes) {
            let address = self.offset(address, offset);
            let part = self.terms.extract(value, offset as u8 * 8, bytes as u8 * 8);
            self.store_piece(state, address, part, nontemporal, at)?;
        }
        Ok(())
    }

    /// The pieces of an access that the machine performs in one step each: offsets and sizes.
    fn pieces(&self, address: Term, bytes: u64) -> Vec<(u64, u64)> {
        if let Some(address) = self.terms.constant(address) {
            return px86::line::pieces(address, bytes)
                .flat_map(|piece| powers(piece.offset, piece.width.into()))
                .collect();
        }
        powers(0, bytes).collect()
    }

    fn load_piece(&mut self, state: &mut State, address: Term, bytes: u64, at: At<'_>) -> Flow<Term> {
        let mut result: Option<Term> = None;
        let mut events = self.terms.truth(false);
        let mut cached = None;
        self.note_helper_access(state, address, bytes, false, at)?;
        for case in self.resolve(state, address, bytes, false)? {
            let known = case.inside.filter(|(object, offset)| {
                !case.event || self.is_sequential() && state.memory.is_known(*object, *offset, bytes)
            });
            let Some((object, offset)) = known else {
                events = self.terms.or(events, case.condition);
                cached = case.inside.filter(|_| self.is_sequential() && self.terms.is_true(case.condition));
                continue;
            };
            let value = self.load_inside(state, object, offset, bytes);
            if self.is_foreign(value) && self.objects.make_concurrent(object) {
                return Err(Stop::Restart);
            }
            result = Some(match result {
                None => value,
                Some(other) => self.terms.choose(case.condition, value, other),
            });
        }
        if !self.terms.is_false(events) {
            let symbol = self.load_event(state, address, bytes, events, at)?;
            if let Some((object, offset)) = cached {
                state.memory.store(&self.terms, object, offset, symbol);
            }
            result = Some(match result {
                None => symbol,
                Some(other) => self.terms.choose(events, symbol, other),
            });
        }
        Ok(result.expect("an address is at least one thing"))
    }

    /// A load event, unless recovery has just loaded the same location.
    fn load_event(
        &mut self,
        state: &mut State,
        address: Term,
        bytes: u64,
        condition: Term,
        at: At<'_>,
    ) -> Flow<Term> {
        let remembers = self.is_sequential() && self.terms.is_true(condition);
        if remembers && let Some(known) = state.loaded.get(&(address, bytes)) {
            return Ok(*known);
        }
        let symbol = self.read_symbol(bytes as u8 * 8);
        let action = Action::Load { address, result: symbol };
        self.emit_under(state, condition, action, at)?;
        self.flush_access(state, condition, address, bytes, at)?;
        if remembers {
            Rc::make_mut(&mut state.loaded).insert((address, bytes), symbol);
        }
        Ok(symbol)
    }

    pub(crate) fn load_inside(
        &mut self,
        state: &mut State,
        object: ObjectId,
        offset: u64,
        bytes: u64,
    ) -> Term {
        if state.memory.has(object) {
            return state.memory.load(&mut self.terms, object, offset, bytes);
        }
        // A constant.
        let initial = &self.objects.get(object).initial;
        let mut number = 0;
        for index in (0..bytes).rev() {
            let byte = initial.get((offset + index) as usize).copied().unwrap_or(0);
            number = number << 8 | u64::from(byte);
        }
        self.terms.number(number, bytes as u8 * 8)
    }

    fn store_piece(
        &mut self,
        state: &mut State,
        address: Term,
        value: Term,
        nontemporal: bool,
        at: At<'_>,
    ) -> Flow<()> {
        let bytes = u64::from(self.terms.width(value) / 8);
        let mut events = self.terms.truth(false);
        self.note_helper_access(state, address, bytes, true, at)?;
        for case in self.resolve(state, address, bytes, true)? {
            if case.event {
                events = self.terms.or(events, case.condition);
            }
            self.keep(state, &case, value);
        }
        if self.terms.is_false(events) {
            return Ok(());
        }
        self.expose_mentioned(value)?;
        let non_temporal = nontemporal && self.options.flushes != Flushes::None;
        let action = Action::Store { address, value, non_temporal };
        self.emit_under(state, events, action, at)?;
        state.mark_dirty(&mut self.terms, events);
        self.flush_access(state, events, address, bytes, at)
    }

    /// The flush after every access, if requested. Recovery needs none.
    pub(crate) fn flush_access(
        &mut self,
        state: &mut State,
        condition: Term,
        address: Term,
        bytes: u64,
        at: At<'_>,
    ) -> Flow<()> {
        if self.options.flushes != Flushes::EveryAccess || self.who == Who::Recovery {
            return Ok(());
        }
        let mut there = State { path: state.path.clone(), dirty: state.dirty.clone(), ..State::default() };
        if there.assume(&mut self.terms, condition) {
            self.flush_lines(&mut there, address, bytes, false, at)?;
            state.dirty = there.dirty;
        }
        Ok(())
    }

    /// Applies a store to tracked memory.
    pub(crate) fn keep(&mut self, state: &mut State, case: &Case, value: Term) {
        let bytes = u64::from(self.terms.width(value) / 8);
        if case.event {
            Rc::make_mut(&mut state.loaded).clear();
        }
        match case.inside {
            Some((object, offset)) if !case.event => {
                self.store_inside(state, object, offset, value, case.condition);
            }
            Some((object, offset)) if self.is_sequential() && state.memory.has(object) => {
                if self.terms.is_true(case.condition) || state.memory.is_known(object, offset, bytes) {
                    self.store_inside(state, object, offset, value, case.condition);
                } else {
                    state.memory.forget_range(object, offset, bytes);
                }
            }
            None if case.event && self.is_sequential() => {
                state.memory.forget_exposed();
            }
            _ => {}
        }
    }

    pub(crate) fn store_inside(
        &mut self,
        state: &mut State,
        object: ObjectId,
        offset: u64,
        value: Term,
        condition: Term,
    ) {
        let bytes = u64::from(self.terms.width(value) / 8);
        let value = if self.terms.is_true(condition) {
            value
        } else {
            let old = self.load_inside(state, object, offset, bytes);
            self.terms.choose(condition, value, old)
        };
        state.memory.store(&self.terms, object, offset, value);
    }

    /// Records an access of recovery while it has threads. If its timing matters, the path ends.
    pub(crate) fn note_helper_access(
        &mut self,
        state: &mut State,
        address: Term,
        bytes: u64,
        write: bool,
        at: At<'_>,
    ) -> Flow<()> {
        let alone = self.helpers.current.is_none() && self.helpers.running.is_empty();
        if self.who != Who::Recovery || alone {
            return Ok(());
        }
        let mut here = Footprint::default();
        match self.cases(state, address) {
            Some(cases) => {
                cases.iter().for_each(|&(_, number)| here.note(number, number + bytes, write));
                // Each thread would have its own copy.
                here.anywhere = write && cases.iter().any(|&(_, number)| self.is_thread_local(number));
            }
            None => here.anywhere = true,
        }
        if let Some(footprint) = &mut self.helpers.current {
            footprint.add(here);
            return Ok(());
        }
        if self.helpers.running.iter().any(|(_, other)| other.conflicts(&here)) {
            return self.stop_following(state, at);
        }
        Ok(())
    }

    /// From here on the actions of recovery's threads depend on their schedule, which is not followed. That is harmless
    /// as long as nothing more is claimed; any later claim is unknown.
    pub(crate) fn stop_following(&mut self, state: &mut State, at: At<'_>) -> Flow<()> {
        if state.unfollowed {
            return Ok(());
        }
        let may_crash = self.options.crashes > 1;
        if may_crash || self.helpers.functions.iter().any(|function| self.claims_something(*function)) {
            return Err(self.refuse(state, SHARING, at));
        }
        self.assumed.insert(UNFOLLOWED);
        state.unfollowed = true;
        Rc::make_mut(&mut state.loaded).clear();
        state.memory.forget_exposed();
        let written = self.helpers.written.clone();
        for object in written.into_iter().filter_map(|address| self.objects.at(address)) {
            state.memory.forget(object);
        }
        Ok(())
    }

    /// Whether a function, or one it calls, makes a claim.
    fn claims_something(&self, function: FunctionId) -> bool {
        let mut seen = FxHashSet::default();
        let mut stack = vec![function];
        while let Some(function) = stack.pop() {
            if !seen.insert(function) {
                continue;
            }
            let code = self.module.function(function);
            // Paths that throw are not followed anyway.
            if ["__clang_call_terminate", "_ZSt9terminatev"].contains(&code.name.as_str()) {
                continue;
            }
            if is_claim(&code.name) {
                return true;
            }
            let instructions = code.blocks.iter().flat_map(|block| &block.instructions);
            stack.extend(instructions.filter_map(|instruction| match &instruction.op {
                Op::Call { callee: Callee::Function(called), .. } => Some(*called),
                _ => None,
            }));
        }
        false
    }

    fn is_thread_local(&self, address: u64) -> bool {
        let object = self.objects.at(address);
        let mut globals = self.module.globals.iter().zip(&self.globals);
        globals.any(|(global, [_, own])| global.thread_local && Some(*own) == object)
    }

    /// The possible targets of an address at this point.
    pub(crate) fn resolve(
        &mut self,
        state: &State,
        address: Term,
        bytes: u64,
        write: bool,
    ) -> Flow<Vec<Case>> {
        let Some(cases) = self.cases(state, address) else {
            self.expose_mentioned(address)?;
            return Ok(vec![Case { condition: self.terms.truth(true), inside: None, event: true }]);
        };
        let mut resolved = Vec::new();
        for (condition, number) in cases {
            let mut case = Case { condition, inside: None, event: true };
            if let Some(object) = self.objects.at(number) {
                let info = self.objects.get(object);
                let offset = number - info.address;
                let fits = offset + bytes <= info.size;
                if !info.persistent {
                    self.note_use(object, write);
                }
                // A constant is in no thread's memory, and does not need to be.
                let constant = !write && self.objects.get(object).defined && !self.objects.is_exposed(object);
                if fits && (state.memory.has(object) || constant) {
                    case.inside = Some((object, offset));
                    case.event = self.needs_events(object);
                }
            }
            resolved.push(case);
        }
        Ok(resolved)
    }

    /// Whether accesses to an object are events, for the current thread.
    fn needs_events(&self, object: ObjectId) -> bool {
        let alone = self.who == Who::Thread(0) && !self.several && *self.fold;
        self.objects.is_exposed(object) || self.objects.is_concurrent(object) && !alone
    }

    /// Every object whose address is part of a term is reachable by whichever thread gets the term, so it needs events.
    pub(crate) fn expose_mentioned(&mut self, term: Term) -> Flow<()> {
        let mut seen = FxHashSet::default();
        let mut stack = vec![term];
        let mut news = false;
        while let Some(term) = stack.pop() {
            if !seen.insert(term) {
                continue;
            }
            if let Some(number) = self.terms.constant(term)
                && let Some(object) = self.objects.near(number)
            {
                news |= self.objects.expose(object);
            }
            stack.extend(self.terms.operands(term));
        }
        if news { Err(Stop::Restart) } else { Ok(()) }
    }
}

/// Splits a size into powers of two, largest first.
fn powers(mut offset: u64, mut bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|size| *size <= bytes)?;
        let piece = (offset, size);
        offset += size;
        bytes -= size;
        Some(piece)
    })
}
