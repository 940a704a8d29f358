//! Reads and writes memory: worked out here where nobody else can see it, an event otherwise.

use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{FunctionId, Place, Type};
use crashproof_prove::program::Action;
use crashproof_prove::term::{Binary, Node, Term, Terms};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Flushes;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::memory::Memory;
use crate::objects::{Object, ObjectId, Origin};
use crate::state::State;
use crate::value::{self, Value};

/// More possible values of an address than this are not told apart.
const MOST_CASES: usize = 128;

/// Values with the conditions for each, by term; none where they are many or not known.
type Cases = FxHashMap<Term, Option<Vec<(Term, u64)>>>;

/// Where an instruction stands: source and function.
#[derive(Clone, Copy)]
pub(crate) struct At<'p> {
    pub(crate) place: &'p Place,
    pub(crate) function: FunctionId,
}

/// One thing an address may be.
struct Case {
    condition: Term,
    /// Object and offset, if the access is within one whose content is kept.
    inside: Option<(ObjectId, u64)>,
    /// Others can see the access.
    event: bool,
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

    /// Says that something is not known here, and ends the path.
    pub(crate) fn refuse(&mut self, state: &mut State, reason: &str, at: At<'_>) -> Stop {
        self.unknown(state, reason, at.place, at.function);
        Stop::Dead
    }

    pub(crate) fn offset(&mut self, address: Term, by: u64) -> Term {
        let by = self.terms.number(by, 64);
        self.terms.binary(Binary::Add, address, by)
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

    /// How an access is cut into what the machine does in one step: offsets and sizes.
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
                return Err(Stop::Again);
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

    /// A load that is an event, unless recovery has just loaded the same.
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

    /// Is who is executing the only one there is? Then memory holds what it has put there itself, also where
    /// others will see it later.
    pub(crate) fn is_sequential(&self) -> bool {
        match self.who {
            Who::Thread(thread) => thread == 0 && !self.several,
            Who::Recovery => true,
        }
    }

    fn load_inside(&mut self, state: &mut State, object: ObjectId, offset: u64, bytes: u64) -> Term {
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

    /// The flush that follows every access, if that was asked for. Recovery needs none.
    fn flush_access(
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

    /// Notes in memory what a store does to it.
    fn keep(&mut self, state: &mut State, case: &Case, value: Term) {
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

    fn store_inside(
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

    /// A locked read-modify-write of 1, 2, 4 or 8 bytes; `compute` gives the new value and whether it is stored.
    pub(crate) fn rmw(
        &mut self,
        state: &mut State,
        address: Term,
        bits: u8,
        compute: &mut dyn FnMut(&mut Terms, Term) -> (Term, Term),
        at: At<'_>,
    ) -> Flow<Term> {
        let bytes = u64::from(bits) / 8;
        if !matches!(bits, 8 | 16 | 32 | 64) {
            return Err(self.refuse(state, &format!("an atomic access of {bits} bits is not supported"), at));
        }
        let cases = self.resolve(state, address, bytes, true)?;
        let events = cases.iter().filter(|case| case.event).count();
        if events != 0 && events != cases.len() {
            return Err(self.refuse(state, "an atomic access to shared or to private memory", at));
        }
        if events != 0 {
            let old = self.read_symbol(bits);
            let (new, stores) = compute(&mut self.terms, old);
            self.expose_mentioned(new)?;
            let action = Action::Rmw { address, old, new, stores };
            self.emit(state, action, at.place, at.function)?;
            let changes = self.changes(state, &cases, old, new, stores);
            self.mark_fenced(state, changes);
            let yes = self.terms.truth(true);
            self.flush_access(state, yes, address, bytes, at)?;
            // Where the old value is known, what is left behind is known too.
            let known = match cases.as_slice() {
                [Case { inside: Some((object, offset)), .. }]
                    if self.is_sequential() && state.memory.is_known(*object, *offset, bytes) =>
                {
                    Some(self.load_inside(state, *object, *offset, bytes))
                }
                _ => None,
            };
            let found = known.unwrap_or(old);
            let (new, stores) = compute(&mut self.terms, found);
            let left = self.terms.choose(stores, new, found);
            for case in &cases {
                self.keep(state, case, left);
            }
            return Ok(found);
        }
        let mut old: Option<Term> = None;
        for case in &cases {
            let Some((object, offset)) = case.inside else { continue };
            let value = self.load_inside(state, object, offset, bytes);
            if self.is_foreign(value) && self.objects.make_concurrent(object) {
                return Err(Stop::Again);
            }
            old = Some(match old {
                None => value,
                Some(other) => self.terms.choose(case.condition, value, other),
            });
        }
        let old = old.expect("an address is at least one thing");
        let (new, stores) = compute(&mut self.terms, old);
        for case in &cases {
            let Some((object, offset)) = case.inside else { continue };
            let condition = self.terms.and(case.condition, stores);
            self.store_inside(state, object, offset, new, condition);
        }
        self.fence(state, at)?;
        Ok(old)
    }

    /// Whether an RMW leaves something else behind than it found, where that is plain: an attempt at a lock which is
    /// taken stores what was there. Robustness tells stores of the same value apart.
    fn changes(&mut self, state: &State, cases: &[Case], old: Term, new: Term, stores: Term) -> Term {
        let persistent =
            |case: &Case| case.inside.is_none_or(|(object, _)| self.objects.get(object).persistent);
        let by_event = self.options.no_recovery && cases.iter().any(persistent);
        // What was computed from the old value is rarely the same, and hard to tell.
        let plain = self.terms.is_true(stores) && self.terms.constant(new).is_some();
        if state.dirty.is_empty() || by_event || !plain {
            return stores;
        }
        let same = self.terms.equal(old, new);
        self.terms.not(same)
    }

    /// A full fence.
    pub(crate) fn fence(&mut self, state: &mut State, at: At<'_>) -> Flow<()> {
        self.emit(state, Action::Fence, at.place, at.function)?;
        let no = self.terms.truth(false);
        self.mark_fenced(state, no);
        Ok(())
    }

    /// A fence or flush does something in the first round of a loop. If a whole round does nothing but flush, fence and
    /// read, others cannot tell how often that was done, and after a crash less can be left for it, not more.
    pub(crate) fn mark_fenced(&mut self, state: &mut State, stores: Term) {
        let yes = self.terms.truth(true);
        for (flag, round) in state.dirty.iter_mut().zip(&self.loops) {
            let condition = if *round == 0 { yes } else { stores };
            *flag = self.terms.or(*flag, condition);
        }
    }

    /// A flush of the line of an address. Lines of memory that nobody else sees need none.
    pub(crate) fn flush(
        &mut self,
        state: &mut State,
        address: Term,
        optimised: bool,
        at: At<'_>,
    ) -> Flow<()> {
        if self.options.flushes == Flushes::None {
            return Ok(());
        }
        let mut events = self.terms.truth(false);
        match self.cases(state, address) {
            Some(cases) => {
                for (condition, number) in cases {
                    let volatile = self.objects.at(number).is_some_and(|id| !self.objects.get(id).persistent);
                    if !volatile {
                        events = self.terms.or(events, condition);
                    }
                }
            }
            None => events = self.terms.truth(true),
        }
        let action = if optimised { Action::FlushOpt { address } } else { Action::Flush { address } };
        self.emit_under(state, events, action, at)?;
        if !self.terms.is_false(events) {
            let no = self.terms.truth(false);
            self.mark_fenced(state, no);
        }
        Ok(())
    }

    /// Flushes of all lines of a range. Where the address is not known, the range may begin anywhere in a line.
    pub(crate) fn flush_range(&mut self, state: &mut State, start: Term, bytes: u64, at: At<'_>) -> Flow<()> {
        self.flush_lines(state, start, bytes, true, at)
    }

    fn flush_lines(
        &mut self,
        state: &mut State,
        start: Term,
        bytes: u64,
        optimised: bool,
        at: At<'_>,
    ) -> Flow<()> {
        let line = px86::LINE_BYTES;
        if let Some(number) = self.terms.constant(start) {
            let first = number / line * line;
            for address in (first..number + bytes).step_by(line as usize) {
                let address = self.terms.number(address.max(number), 64);
                self.flush(state, address, optimised, at)?;
            }
            return Ok(());
        }
        for offset in (0..bytes).step_by(line as usize) {
            let address = self.offset(start, offset);
            self.flush(state, address, optimised, at)?;
        }
        // The end may lie in one line more.
        let whole = (bytes.max(1) - 1) / line * line;
        let within = self.terms.number(line - 1, 64);
        let within = self.terms.and(start, within);
        let room = self.terms.number(line - (bytes.max(1) - whole), 64);
        let spills = self.terms.binary(Binary::LessUnsigned, room, within);
        if !self.terms.is_false(spills) && bytes > 1 {
            let last = self.offset(start, bytes - 1);
            let mut there = State { path: state.path.clone(), ..State::default() };
            if there.assume(&mut self.terms, spills) {
                self.flush(&mut there, last, optimised, at)?;
            }
        }
        Ok(())
    }

    /// Adds an event that happens only where the condition holds as well.
    fn emit_under(&mut self, state: &mut State, condition: Term, action: Action, at: At<'_>) -> Flow<()> {
        let mut here = State { path: state.path.clone(), ..State::default() };
        if !here.assume(&mut self.terms, condition) {
            return Ok(());
        }
        let result = self.emit(&mut here, action, at.place, at.function);
        if result.is_err() && here.path != state.path {
            // The path ends as a whole, so that is what must be said.
            self.unknown(state, "this goes on only where something is not modelled", at.place, at.function);
        }
        result
    }

    /// What an address may be, here.
    fn resolve(&mut self, state: &State, address: Term, bytes: u64, write: bool) -> Flow<Vec<Case>> {
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
                // A constant is in nobody's memory, and needs to be in none.
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

    /// Whether accesses to an object are events, for who is executing.
    fn needs_events(&self, object: ObjectId) -> bool {
        let alone = self.who == Who::Thread(0) && !self.several && *self.fold;
        self.objects.is_exposed(object) || self.objects.is_concurrent(object) && !alone
    }

    /// Every object whose address is part of a term can be reached by who gets the term: it needs events.
    pub(crate) fn expose_mentioned(&mut self, term: Term) -> Flow<()> {
        let mut seen = FxHashSet::default();
        let mut stack = vec![term];
        let mut news = false;
        while let Some(term) = stack.pop() {
            if !seen.insert(term) {
                continue;
            }
            if let Some(number) = self.terms.constant(term)
                && let Some(object) = self.objects.at(number)
            {
                news |= self.objects.expose(object);
            }
            stack.extend(self.terms.operands(term));
        }
        if news { Err(Stop::Again) } else { Ok(()) }
    }

    /// The values a term may have, with the conditions for each, if they are few and known.
    pub(crate) fn cases(&mut self, state: &State, term: Term) -> Option<Vec<(Term, u64)>> {
        let yes = self.terms.truth(true);
        // Terms share parts, so what was found out about one is kept.
        let mut all = self.all_cases(state, term, &mut FxHashMap::default())?;
        if all.len() == 1 {
            all[0].0 = yes;
        }
        Some(all)
    }

    fn all_cases(&mut self, state: &State, term: Term, kept: &mut Cases) -> Option<Vec<(Term, u64)>> {
        if let Some(known) = kept.get(&term) {
            return known.clone();
        }
        let found = self.new_cases(state, term, kept);
        kept.insert(term, found.clone());
        found
    }

    fn new_cases(&mut self, state: &State, term: Term, kept: &mut Cases) -> Option<Vec<(Term, u64)>> {
        let width = self.terms.width(term);
        let yes = self.terms.truth(true);
        let mut found: Vec<(Term, u64)> = Vec::new();
        let mut add = |terms: &mut Terms, condition: Term, number: u64| {
            if terms.is_false(condition) {
                return;
            }
            match found.iter_mut().find(|(_, known)| *known == number) {
                Some((known, _)) => *known = terms.or(*known, condition),
                None => found.push((condition, number)),
            }
        };
        match self.terms.node(term) {
            Node::Constant(number) => return Some(vec![(yes, number)]),
            Node::Symbol(_) => {
                return match state.known(&self.terms, term) {
                    Some(known) if width == 1 => Some(vec![(yes, known.into())]),
                    _ => None,
                };
            }
            Node::Choose(condition, a, b) => match state.known(&self.terms, condition) {
                Some(true) => return self.all_cases(state, a, kept),
                Some(false) => return self.all_cases(state, b, kept),
                None => {
                    let not = self.terms.not(condition);
                    for (branch, choice) in [(condition, a), (not, b)] {
                        for (inner, number) in self.all_cases(state, choice, kept)? {
                            let both = self.terms.and(branch, inner);
                            add(&mut self.terms, both, number);
                        }
                    }
                }
            },
            Node::Not(a) | Node::Extract(a, _) | Node::ZeroExtend(a) | Node::SignExtend(a) => {
                for (condition, number) in self.all_cases(state, a, kept)? {
                    let result = self.terms.apply(term, |_| number, |_| 0);
                    add(&mut self.terms, condition, result);
                }
            }
            Node::Binary(_, a, b) | Node::Concat(a, b) => {
                let (left, right) = (self.all_cases(state, a, kept)?, self.all_cases(state, b, kept)?);
                if left.len() * right.len() > MOST_CASES {
                    return None;
                }
                for (on_left, x) in &left {
                    for (on_right, y) in &right {
                        let result =
                            self.terms.apply(term, |operand| if operand == a { *x } else { *y }, |_| 0);
                        let both = self.terms.and(*on_left, *on_right);
                        add(&mut self.terms, both, result);
                    }
                }
            }
        }
        (found.len() <= MOST_CASES && !found.is_empty()).then_some(found)
    }

    /// A new object; the same one whenever this point is reached again.
    pub(crate) fn make_object(&mut self, state: &mut State, point: u64, align: u64, object: Object) -> u64 {
        self.make_object_behind(state, point, align, 0, object)
    }

    /// The same, beginning some bytes behind an aligned address.
    pub(crate) fn make_object_behind(
        &mut self,
        state: &mut State,
        point: u64,
        align: u64,
        lead: u64,
        object: Object,
    ) -> u64 {
        let id = self.objects.place_behind(Origin::Made(point, object.size), align, lead, || object);
        let info = self.objects.get_mut(id);
        // An earlier execution may have left something.
        info.initial.clear();
        info.written.clear();
        if !self.objects.is_exposed(id) || self.is_sequential() {
            let mut memory: Memory = std::mem::take(&mut state.memory);
            self.add_object(&mut memory, id);
            state.memory = memory;
        }
        self.objects.get(id).address
    }
}

/// Cuts a size into powers of two, largest first.
fn powers(mut offset: u64, mut bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|size| *size <= bytes)?;
        let piece = (offset, size);
        offset += size;
        bytes -= size;
        Some(piece)
    })
}
