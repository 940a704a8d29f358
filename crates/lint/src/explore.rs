//! Walks the paths of a function.
//!
//! Section 4.3 of the DeepMC paper enumerates traces by depth-first search. Here, paths that did the same to
//! persistent memory are one: where they meet they are joined, so only branches that decide over a store, a
//! flush or a transaction multiply, and what they decided is remembered as a fact that later branches are
//! asked against. A function that called another sees its paths as a summary in terms of parameters.
//!
//! # What is cut
//!
//! 1. A loop is left once another round changes nothing that rules look at, and after `loops` rounds anyway.
//!    It is taken to run at least once if it touches persistent memory.
//! 2. `setjmp` returns once; abort paths of transactions are not followed.
//! 3. A function with more paths than the budget is given up, by name.

use std::collections::BTreeMap;
use std::rc::Rc;

use px86::order::Class;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::api::{Apis, Effect, Returns, What};
use crate::dsa::Analysis;
use crate::event::{EMPTY, Event, Kind, Names, Site, Traces};
use crate::expression::{Address, Expression, Expressions, Form, NOTHING, Origin};
use crate::ir::{Arithmetic, Callee, Compare, Function, FunctionId, Op, Operand, PlaceId, Program};
use crate::loops::Shape;
use crate::machine::{Exit, Machine, Persistence, Surroundings};
use crate::rules::{Model, Verdicts};
use crate::span::{Length, Span};

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rounds of a loop.
    pub loops: u32,
    /// Rounds of recursion.
    pub recursion: u32,
    /// Paths that may be open at one place of a function.
    pub paths: usize,
    /// Blocks walked in one function, over all paths.
    pub steps: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { loops: 10, recursion: 5, paths: 64, steps: 6_000 }
    }
}

/// So many rounds mark a loop that has to be left.
const EXHAUSTED: u32 = u32::MAX / 4;
/// So many paths are told apart by all they did; more only by what still matters.
const TOLD_APART: usize = 8;
/// Paths a caller sees of a callee.
const MAX_PATHS: usize = 6;
/// Contents of memory a caller sees of one path.
const MAX_MEMORY: usize = 48;
/// Pointers behind pointers that are told apart.
const MAX_DEPTH: u8 = 20;
/// Events a caller sees of one path.
const MAX_EVENTS: usize = 80;

/// One way through a function, as a caller sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Way {
    events: Vec<Event>,
    result: Expression,
    facts: Vec<(Expression, bool)>,
    memory: Vec<(Address, u64, Expression)>,
    exit: bool,
}

/// All ways through a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    ways: Vec<Way>,
}

/// What memory holds, where it is known.
type Memory = BTreeMap<Address, (u64, Expression)>;

#[derive(Clone)]
struct State {
    values: Vec<Expression>,
    memory: Rc<Memory>,
    facts: Rc<BTreeMap<Expression, bool>>,
    machine: Rc<Machine>,
    trace: u32,
    from: u32,
    /// Rounds of each loop, and what it looked like at its head.
    rounds: Rc<BTreeMap<u32, (u32, Vec<u64>)>>,
}

/// Walks all functions of a program.
pub(crate) struct Explorer<'a> {
    pub(crate) program: &'a Program,
    pub(crate) apis: &'a Apis,
    pub(crate) analysis: &'a Analysis,
    pub(crate) model: Model,
    pub(crate) pedantic: bool,
    pub(crate) bounds: Bounds,
    pub(crate) expressions: Expressions,
    pub(crate) names: Names,
    pub(crate) verdicts: Verdicts,
    traces: Traces,
    summaries: FxHashMap<FunctionId, Summary>,
    /// Functions given up.
    pub(crate) given_up: Vec<FunctionId>,
    /// Functions called that nothing is known of.
    pub(crate) unresolved: FxHashSet<String>,
    /// Functions whose callers do not see all of their paths.
    pub(crate) shortened: Vec<FunctionId>,
}

impl Explorer<'_> {
    pub(crate) fn new<'a>(
        program: &'a Program,
        apis: &'a Apis,
        analysis: &'a Analysis,
        model: Model,
        pedantic: bool,
        bounds: Bounds,
    ) -> Explorer<'a> {
        Explorer {
            program,
            apis,
            analysis,
            model,
            pedantic,
            bounds,
            expressions: Expressions::new(),
            names: Names::new(),
            verdicts: Verdicts::default(),
            traces: Traces::default(),
            summaries: FxHashMap::default(),
            given_up: Vec::new(),
            unresolved: FxHashSet::default(),
            shortened: Vec::new(),
        }
    }

    /// Callees first; recursion is followed until nothing changes, or to its bound.
    pub(crate) fn run(&mut self) {
        for component in &self.analysis.order {
            let recursive = component.len() > 1 || self.analysis.calls_itself.contains(&component[0]);
            let rounds = if recursive { self.bounds.recursion.max(1) } else { 1 };
            for round in 0..rounds {
                let mut changed = false;
                for id in component {
                    if self.given_up.contains(id)
                        || self.apis.meaning(&self.program.function(*id).name).is_some()
                    {
                        continue;
                    }
                    let summary = Walk::new(self, *id).run();
                    match summary {
                        Some(summary) => {
                            changed |= self.summaries.get(id) != Some(&summary);
                            self.summaries.insert(*id, summary);
                        }
                        None => self.given_up.push(*id),
                    }
                    self.traces.clear();
                }
                if !changed || round + 1 == rounds {
                    break;
                }
            }
        }
        self.shortened.sort_unstable();
        self.shortened.dedup();
    }
}

/// The walk through one function.
struct Walk<'e, 'a> {
    all: &'e mut Explorer<'a>,
    id: FunctionId,
    function: &'a Function,
    shape: Shape,
    pending: BTreeMap<(u32, u32), Vec<State>>,
    ways: Vec<Way>,
    /// Loops that touch persistent memory.
    eventful: FxHashSet<u32>,
    is_root: bool,
    steps: usize,
    meetings: u32,
    /// Variables that hold pointers, in a fixed order.
    variables: Vec<(Operand, &'a crate::ir::Variable)>,
}

impl<'e, 'a> Walk<'e, 'a> {
    fn new(all: &'e mut Explorer<'a>, id: FunctionId) -> Self {
        let function = all.program.function(id);
        let shape = Shape::of(function);
        let is_root = !all.analysis.called.contains(&id);
        let mut walk = Walk {
            function,
            shape,
            pending: BTreeMap::new(),
            ways: Vec::new(),
            eventful: FxHashSet::default(),
            is_root,
            steps: 0,
            meetings: 0,
            variables: Vec::new(),
            all,
            id,
        };
        walk.variables = function
            .variables
            .iter()
            .filter(|(_, variable)| {
                let ty = variable.ty.map(|ty| &walk.all.program.types[ty.0 as usize]);
                !variable.is_address && ty.is_some_and(|ty| ty.is_pointer)
            })
            .map(|(operand, variable)| (*operand, variable))
            .collect();
        walk.variables.sort_by_key(|(operand, _)| *operand);
        walk.eventful = walk
            .shape
            .loops
            .iter()
            .filter(|(_, a_loop)| a_loop.blocks.iter().any(|block| walk.is_eventful(*block)))
            .map(|(header, _)| *header)
            .collect();
        walk
    }

    fn is_eventful(&self, block: u32) -> bool {
        self.function.block(block).any(|(_, instruction)| match &instruction.op {
            Op::Flush { .. } | Op::Fence { .. } => true,
            Op::Store { address, .. } | Op::Bulk { target: address, .. } => {
                let graph = &self.all.analysis.graphs[&self.id];
                graph.lookup(*address).is_some_and(|cell| graph.graph.flags(cell).persistent)
            }
            Op::Call { callee: Callee::Direct(called), .. } => {
                let name = &self.all.program.function(*called).name;
                match self.all.apis.meaning(name) {
                    Some(meaning) => !meaning.effects.is_empty(),
                    None => self
                        .all
                        .summaries
                        .get(called)
                        .is_some_and(|summary| summary.ways.iter().any(|way| !way.events.is_empty())),
                }
            }
            _ => false,
        })
    }

    fn run(mut self) -> Option<Summary> {
        let state = State {
            values: vec![NOTHING; self.function.instructions.len()],
            memory: Rc::default(),
            facts: Rc::default(),
            machine: Rc::default(),
            trace: EMPTY,
            from: u32::MAX,
            rounds: Rc::default(),
        };
        self.pending.insert((0, 0), vec![state]);
        while let Some(((_, block), states)) = self.pending.pop_first() {
            let states = self.join(block, states);
            if states.len() > self.all.bounds.paths {
                return None;
            }
            self.steps += states.len();
            if self.steps > self.all.bounds.steps {
                return None;
            }
            self.block(block, states)?;
        }
        Some(self.summary())
    }

    // ---- where paths meet

    /// Joins states that did the same.
    fn join(&mut self, block: u32, states: Vec<State>) -> Vec<State> {
        // Rounds of loops are told apart only as far as they decide: first, last, or in between.
        let turns = |state: &State| -> Vec<(u32, u32)> {
            state
                .rounds
                .iter()
                .map(|(header, (rounds, _))| (*header, (*rounds).min(2) + rounds / EXHAUSTED))
                .collect()
        };
        let joined = self
            .join_by(block, states, |state| (u64::from(state.trace), state.machine.stage(), turns(state)));
        if joined.len() <= TOLD_APART {
            return joined;
        }
        // Too many: what can no longer be told apart by a rule is one.
        self.join_by(block, joined, |state| (state.machine.signature(), state.machine.stage(), turns(state)))
    }

    fn join_by<K: PartialEq>(
        &mut self,
        block: u32,
        states: Vec<State>,
        key: impl Fn(&State) -> K,
    ) -> Vec<State> {
        let mut groups: Vec<(K, State)> = Vec::new();
        for mut state in states {
            self.phis(block, &mut state);
            let wanted = key(&state);
            match groups.iter().position(|(known, _)| *known == wanted) {
                Some(at) => self.merge(at, &mut groups, state),
                None => groups.push((wanted, state)),
            }
        }
        groups.into_iter().map(|(_, state)| state).collect()
    }

    fn merge<K>(&mut self, at: usize, groups: &mut [(K, State)], other: State) {
        self.meetings += 1;
        let target = &mut groups[at].1;
        if target.rounds != other.rounds {
            let rounds = Rc::make_mut(&mut target.rounds);
            for (header, (count, seen)) in other.rounds.iter() {
                let own = rounds.entry(*header).or_default();
                own.0 = own.0.max(*count);
                for signature in seen {
                    if !own.1.contains(signature) {
                        own.1.push(*signature);
                    }
                }
            }
        }
        for (number, value) in other.values.iter().enumerate() {
            let own = target.values[number];
            if own != *value && own != NOTHING {
                target.values[number] = if *value == NOTHING {
                    NOTHING
                } else {
                    let persistent = is_persistent_value(self.all.analysis, self.id, number as u32);
                    // What is known of the last value that was met here is not known of this one.
                    let origin =
                        self.all.expressions.origin(Origin::Meeting(self.id, number as u32, self.meetings));
                    self.all.expressions.add(Form::Opaque(origin, persistent))
                };
            }
        }
        if target.facts != other.facts {
            let facts = target.facts.iter().filter(|(fact, holds)| other.facts.get(fact) == Some(holds));
            target.facts = Rc::new(facts.map(|(fact, holds)| (*fact, *holds)).collect());
        }
        if target.memory != other.memory {
            let mut memory = Memory::new();
            for (address, (bytes, value)) in target.memory.iter() {
                match other.memory.get(address) {
                    Some((other_bytes, other_value)) if other_bytes == bytes && other_value == value => {
                        memory.insert(*address, (*bytes, *value));
                    }
                    _ => {
                        memory.insert(*address, (*bytes, NOTHING));
                    }
                }
            }
            for (address, (bytes, _)) in other.memory.iter() {
                memory.entry(*address).or_insert((*bytes, NOTHING));
            }
            target.memory = Rc::new(memory);
        }
    }

    fn phis(&mut self, block: u32, state: &mut State) {
        let mut results = Vec::new();
        for (number, instruction) in self.function.block(block) {
            let Op::Phi { incoming } = &instruction.op else { break };
            if state.from == u32::MAX {
                // Already done: the state went through a meeting.
                return;
            }
            let value = incoming.iter().find(|(from, _)| *from == state.from).map(|(_, operand)| *operand);
            let value = value.map_or(NOTHING, |operand| self.value(state, operand));
            let value = if value == NOTHING { self.opaque(state, number) } else { value };
            results.push((number, value));
        }
        for (number, value) in results {
            state.values[number as usize] = value;
        }
        state.from = u32::MAX;
    }

    // ---- values

    fn value(&mut self, state: &State, operand: Operand) -> Expression {
        let all = &mut self.all.expressions;
        match operand {
            Operand::Instruction(number) => state.values[number as usize],
            Operand::Parameter(number) => all.add(Form::Parameter(number)),
            Operand::Int(value) => all.int(value),
            Operand::Global(id, offset) => {
                let base = all.add(Form::Global(id));
                all.plus(base, offset)
            }
            Operand::Function(id) => all.add(Form::Function(id)),
            Operand::Undefined => NOTHING,
        }
    }

    fn visit(&self, state: &State) -> u32 {
        state.rounds.values().map(|(rounds, _)| (*rounds).min(1000)).sum()
    }

    fn origin(&mut self, state: &State, number: u32) -> u32 {
        let visit = self.visit(state);
        self.all.expressions.origin(Origin::Instruction(self.id, number, visit))
    }

    fn opaque(&mut self, state: &State, number: u32) -> Expression {
        let persistent = is_persistent_value(self.all.analysis, self.id, number);
        let origin = self.origin(state, number);
        self.all.expressions.add(Form::Opaque(origin, persistent))
    }

    fn persistence(&mut self, address: Expression) -> Persistence {
        if address == NOTHING {
            return Persistence::No;
        }
        self.around().persistence(address)
    }

    fn around(&mut self) -> Surroundings<'_> {
        Surroundings {
            program: self.all.program,
            apis: self.all.apis,
            expressions: &mut self.all.expressions,
            names: &self.all.names,
            verdicts: &mut self.all.verdicts,
            graph: &self.all.analysis.graphs[&self.id],
            function: self.id,
            constructed: self.all.analysis.constructors.get(&self.id).copied(),
            is_root: self.is_root,
            model: self.all.model,
            pedantic: self.all.pedantic,
        }
    }

    fn load(&mut self, state: &State, address: Expression, bytes: u64, number: Option<u32>) -> Expression {
        if address == NOTHING || self.all.expressions.depth(address) > MAX_DEPTH {
            return number.map_or(NOTHING, |number| self.opaque(state, number));
        }
        let at = self.all.expressions.address(address);
        match state.memory.get(&at) {
            Some((known, value)) if *known == bytes && *value != NOTHING => *value,
            Some(_) => number.map_or(NOTHING, |number| self.opaque(state, number)),
            None => {
                // A constant that nothing stores to.
                if let Form::Global(id) = self.all.expressions.form(at.object)
                    && at.element.is_none()
                {
                    let global = &self.all.program.globals[id.0 as usize];
                    if let Some((_, Operand::Function(function))) =
                        global.pointers.iter().find(|(offset, _)| *offset as i64 == at.offset)
                    {
                        return self.all.expressions.add(Form::Function(*function));
                    }
                }
                // Part of something that was stored as a whole.
                let inside = state.memory.range(..=at).next_back().is_some_and(|(known, (length, _))| {
                    known.object == at.object
                        && known.element == at.element
                        && known.offset + *length as i64 > at.offset
                });
                match number {
                    Some(number) if inside => self.opaque(state, number),
                    _ => self.all.expressions.add(Form::Content(address)),
                }
            }
        }
    }

    fn remember(&mut self, state: &mut State, address: Expression, bytes: u64, value: Expression) {
        if address == NOTHING {
            return;
        }
        let at = self.all.expressions.address(address);
        let memory = Rc::make_mut(&mut state.memory);
        let end = at.offset.saturating_add(bytes as i64);
        let stale: Vec<Address> = memory
            .iter()
            .filter(|(known, (length, _))| {
                known.object == at.object
                    && (known.element != at.element
                        || known.offset < end && known.offset + *length as i64 > at.offset)
            })
            .map(|(known, _)| *known)
            .collect();
        for known in stale {
            if known.element == at.element && known.offset >= at.offset {
                memory.remove(&known);
            } else if let Some(entry) = memory.get_mut(&known) {
                entry.1 = NOTHING;
            }
        }
        memory.insert(at, (bytes, value));
    }

    fn span(&mut self, address: Expression, length: Length) -> Span {
        Span { at: self.all.expressions.address(address), length }
    }

    fn length(&mut self, value: Expression) -> Length {
        match self.all.expressions.as_int(value) {
            Some(bytes) if bytes >= 0 => Length::Known(bytes as u64),
            _ if value == NOTHING => Length::Unknown,
            _ => Length::Symbol(value),
        }
    }

    // ---- events

    fn emit(&mut self, state: &mut State, kind: Kind, mut place: PlaceId) {
        // A flush or fence in an inlined helper: the place is where the helper is used.
        if matches!(kind, Kind::Flush { .. } | Kind::Queue { .. } | Kind::Fence { .. }) {
            while let Some(outer) = self.all.program.place(place).inlined_at {
                place = outer;
            }
        }
        let name = match kind.span() {
            Some(span) => {
                let text = self.describe(state, span);
                self.all.names.add(text)
            }
            None => 0,
        };
        self.emit_at(state, kind, Site { place, call: None, name });
    }

    fn emit_at(&mut self, state: &mut State, kind: Kind, site: Site) {
        let event = Event { kind, site };
        let mut machine = std::mem::take(&mut state.machine);
        Rc::make_mut(&mut machine).step(&mut self.around(), &event);
        state.machine = machine;
        state.trace = self.all.traces.push(state.trace, event);
    }

    /// What the source calls a range.
    fn describe(&mut self, state: &State, span: &Span) -> String {
        let mut best: Option<(i64, String)> = None;
        if let Form::Global(id) = self.all.expressions.form(span.at.object) {
            let global = &self.all.program.globals[id.0 as usize];
            let whole = span.length == Length::Known(global.bytes) && span.at.offset == 0;
            let field =
                global.ty.filter(|_| !whole).and_then(|ty| self.all.program.field(ty, span.at.offset as u64));
            return match field {
                Some(field) if field.starts_with('[') => format!("{}{field}", global.name),
                Some(field) => format!("{}.{field}", global.name),
                None => global.name.clone(),
            };
        }
        let variables = std::mem::take(&mut self.variables);
        for (operand, variable) in &variables {
            let value = self.value(state, *operand);
            if value == NOTHING {
                continue;
            }
            let at = self.all.expressions.address(value);
            if at.object != span.at.object || at.element != span.at.element || at.offset > span.at.offset {
                continue;
            }
            let distance = span.at.offset - at.offset;
            let Some(ty) = variable.ty else { continue };
            let ty = &self.all.program.types[ty.0 as usize];
            let Some(base) = ty.base.filter(|_| ty.is_pointer) else { continue };
            let target = &self.all.program.types[base.0 as usize];
            if target.bytes > 0 && distance >= target.bytes as i64 && !target.members.is_empty() {
                continue;
            }
            let whole = distance == 0
                && matches!(span.length, Length::Known(bytes) if bytes >= target.bytes && target.bytes > 0);
            let field = (!whole).then(|| self.all.program.field(base, distance as u64)).flatten();
            let name = match field {
                Some(field) => format!("{}->{field}", variable.name),
                None => format!("*{}", variable.name),
            };
            if best.as_ref().is_none_or(|(known, _)| distance < *known) {
                best = Some((distance, name));
            }
        }
        self.variables = variables;
        best.map(|(_, name)| name).unwrap_or_default()
    }

    // ---- walking

    fn goto(&mut self, mut state: State, from: u32, to: u32) {
        let Some(rank) = self.shape.rank[to as usize] else { return };
        let back = self.shape.rank[from as usize].is_some_and(|own| rank <= own);
        if self.shape.loops.contains_key(&to) {
            if back {
                let signature = state.machine.signature();
                let rounds = Rc::make_mut(&mut state.rounds);
                let entry = rounds.entry(to).or_default();
                if entry.0 >= EXHAUSTED {
                    // It did not leave when it had to.
                    return;
                }
                entry.0 += 1;
                let again = entry.1.contains(&signature) || entry.0 >= self.all.bounds.loops;
                entry.1.push(signature);
                if again {
                    // One more look at the head, to leave.
                    entry.0 = EXHAUSTED;
                }
            } else {
                Rc::make_mut(&mut state.rounds).insert(to, (0, Vec::new()));
            }
        }
        // Loops that are left are forgotten, so that paths can be joined again.
        let left: Vec<u32> = state
            .rounds
            .keys()
            .filter(|header| !self.shape.loops.get(header).is_some_and(|a_loop| a_loop.blocks.contains(&to)))
            .copied()
            .collect();
        if !left.is_empty() {
            let rounds = Rc::make_mut(&mut state.rounds);
            for header in left {
                rounds.remove(&header);
            }
        }
        state.from = from;
        self.pending.entry((rank, to)).or_default().push(state);
    }

    /// Walks all open paths through a block at once, so that they can be joined after each call.
    fn block(&mut self, block: u32, mut states: Vec<State>) -> Option<()> {
        if let Some(flushes) = self.shape.flush_loops.get(&block).copied() {
            for state in &mut states {
                if state.rounds.get(&block).is_some_and(|(rounds, _)| *rounds == 0) {
                    self.flush_loop(state, flushes);
                }
            }
        }
        let crate::ir::Block { start, end } = self.function.blocks[block as usize];
        for number in start..end - 1 {
            let instruction = &self.function.instructions[number as usize];
            if let Op::Call { callee, arguments } = &instruction.op {
                let mut after = Vec::new();
                for state in states {
                    after.extend(self.call(state, number, *callee, arguments, instruction.place));
                }
                states = if after.len() > 1 { self.join(block, after) } else { after };
                if states.len() > self.all.bounds.paths {
                    return None;
                }
            } else {
                for state in &mut states {
                    self.plain(state, number, &instruction.op, instruction.place);
                }
            }
        }
        for state in states {
            self.terminator(block, &self.function.terminator(block).op, state);
        }
        Some(())
    }

    fn flush_loop(&mut self, state: &mut State, flushes: crate::loops::FlushLoop) {
        let start = self.value(state, flushes.start);
        let first = self.value(state, flushes.first);
        let start = self.all.expressions.arithmetic(Arithmetic::Add, start, first);
        if start == NOTHING || self.persistence(start) == Persistence::No {
            return;
        }
        let length = match flushes.end.map(|end| self.ahead(state, end)) {
            Some(end) if end != NOTHING => {
                let from = if flushes.counts_bytes { first } else { start };
                let length = self.all.expressions.difference(end, from);
                self.length(length)
            }
            _ => Length::Unknown,
        };
        let span = self.span(start, length);
        let place = self.function.instructions[flushes.flush as usize].place;
        self.emit(state, Kind::Flush { span, class: flushes.class }, place);
    }

    /// The value of an operand that may be computed only later, from values that are there now.
    fn ahead(&mut self, state: &State, operand: Operand) -> Expression {
        let value = self.value(state, operand);
        let Operand::Instruction(number) = operand else { return value };
        if value != NOTHING {
            return value;
        }
        match &self.function.instructions[number as usize].op {
            Op::Copy { value } => self.ahead(state, *value),
            Op::Arithmetic { what, left, right } => {
                let (left, right) = (self.ahead(state, *left), self.ahead(state, *right));
                self.all.expressions.arithmetic(*what, left, right)
            }
            Op::Offset { base, offset, index } => {
                let mut address = self.ahead(state, *base);
                for (operand, scale) in index {
                    let value = self.ahead(state, *operand);
                    if address == NOTHING || value == NOTHING {
                        return NOTHING;
                    }
                    address = self.all.expressions.element(address, value, *scale);
                }
                self.all.expressions.plus(address, *offset)
            }
            _ => NOTHING,
        }
    }

    fn plain(&mut self, state: &mut State, number: u32, op: &Op, place: PlaceId) {
        let result = match op {
            // Done where the paths met.
            Op::Phi { .. } => return,
            Op::Alloca { .. } => self.all.expressions.add(Form::Local(self.id, number)),
            Op::Load { address, bytes } => {
                let address = self.value(state, *address);
                if self.all.model == Model::Strand && self.persistence(address) != Persistence::No {
                    let span = self.span(address, Length::Known(*bytes));
                    self.emit(state, Kind::Load { span }, place);
                }
                self.load(state, address, *bytes, Some(number))
            }
            Op::Store { address, value, bytes, nontemporal } => {
                let address = self.value(state, *address);
                let value = self.value(state, *value);
                self.store(state, address, value, *bytes, *nontemporal, place);
                NOTHING
            }
            Op::Locked { address, value, bytes } => {
                let address = self.value(state, *address);
                let value = self.value(state, *value);
                if self.persistence(address) != Persistence::No {
                    self.store(state, address, value, *bytes, false, place);
                    self.remember(state, address, *bytes, NOTHING);
                    self.emit(state, Kind::Locked, place);
                }
                self.opaque(state, number)
            }
            Op::Offset { base, offset, index } => {
                let mut address = self.value(state, *base);
                for (operand, scale) in index {
                    let value = self.value(state, *operand);
                    if value == NOTHING {
                        address = NOTHING;
                        break;
                    }
                    address = self.all.expressions.element(address, value, *scale);
                }
                if address == NOTHING {
                    self.opaque(state, number)
                } else {
                    self.all.expressions.plus(address, *offset)
                }
            }
            Op::Arithmetic { what, left, right } => {
                let (left, right) = (self.value(state, *left), self.value(state, *right));
                match self.all.expressions.arithmetic(*what, left, right) {
                    NOTHING => self.opaque(state, number),
                    value => value,
                }
            }
            Op::Compare { what, left, right } => {
                let (left, right) = (self.value(state, *left), self.value(state, *right));
                match self.all.expressions.comparison(*what, left, right) {
                    NOTHING => self.opaque(state, number),
                    value => value,
                }
            }
            Op::Select { condition, yes, no } => {
                let condition = self.value(state, *condition);
                let (yes, no) = (self.value(state, *yes), self.value(state, *no));
                match self.truth(state, condition) {
                    Some(true) => yes,
                    Some(false) => no,
                    None if yes == no => yes,
                    // `a && b` and `a || b`, as the optimiser writes them.
                    None if self.is_condition(yes) && self.all.expressions.as_int(no) == Some(0) => {
                        self.all.expressions.arithmetic(Arithmetic::And, condition, yes)
                    }
                    None if self.is_condition(no)
                        && self.all.expressions.as_int(yes).is_some_and(|n| n & 1 == 1) =>
                    {
                        self.all.expressions.arithmetic(Arithmetic::Or, condition, no)
                    }
                    None => self.opaque(state, number),
                }
            }
            Op::Copy { value } => match self.value(state, *value) {
                NOTHING => self.opaque(state, number),
                value => value,
            },
            Op::Extract { aggregate, index } => {
                let aggregate = self.value(state, *aggregate);
                match (self.all.expressions.form(aggregate), index) {
                    (Form::Pair(left, _), 0) if left != NOTHING => left,
                    (Form::Pair(_, right), 1) if right != NOTHING => right,
                    _ => self.opaque(state, number),
                }
            }
            Op::Insert { aggregate, value, index } => {
                let aggregate = self.value(state, *aggregate);
                let value = self.value(state, *value);
                let (left, right) = match self.all.expressions.form(aggregate) {
                    Form::Pair(left, right) => (left, right),
                    _ => (NOTHING, NOTHING),
                };
                match index {
                    0 => self.all.expressions.add(Form::Pair(value, right)),
                    1 => self.all.expressions.add(Form::Pair(left, value)),
                    _ => NOTHING,
                }
            }
            Op::Flush { address, class } => {
                let in_flush_loop = self.shape.flush_loops.values().any(|flushes| flushes.flush == number);
                let address = self.value(state, *address);
                if !in_flush_loop && self.persistence(address) != Persistence::No {
                    // The instruction takes any address of a line.
                    let span = self.span(address, Length::Known(1));
                    self.emit(state, Kind::Flush { span, class: *class }, place);
                }
                NOTHING
            }
            Op::Fence { class } => {
                self.emit(state, Kind::Fence { class: *class, drains: true }, place);
                NOTHING
            }
            Op::Bulk { target, source, value, length } => {
                let target = self.value(state, *target);
                let source = source.map(|source| self.value(state, source));
                let value = self.value(state, *value);
                let length = self.value(state, *length);
                let length = self.length(length);
                self.bulk(state, target, source, value, length, false, place);
                target
            }
            _ => self.opaque(state, number),
        };
        state.values[number as usize] = result;
    }

    fn store(
        &mut self,
        state: &mut State,
        address: Expression,
        value: Expression,
        bytes: u64,
        nontemporal: bool,
        place: PlaceId,
    ) {
        self.remember(state, address, bytes, value);
        if self.persistence(address) != Persistence::No {
            let span = self.span(address, Length::Known(bytes));
            self.emit(state, Kind::Store { span, value, nontemporal, bulk: bytes > 16 }, place);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "all of it is the one instruction")]
    fn bulk(
        &mut self,
        state: &mut State,
        target: Expression,
        source: Option<Expression>,
        value: Expression,
        length: Length,
        nontemporal: bool,
        place: PlaceId,
    ) {
        if target == NOTHING {
            return;
        }
        let is_persistent = self.persistence(target) != Persistence::No;
        if self.all.model == Model::Strand
            && let Some(source) = source
            && self.persistence(source) != Persistence::No
        {
            let span = self.span(source, length);
            self.emit(state, Kind::Load { span }, place);
        }
        match length {
            // Structures are copied word by word.
            Length::Known(bytes) if bytes <= 128 && source.is_some() => {
                let source = source.expect("just checked");
                let words: Vec<Expression> = (0..bytes / 8)
                    .map(|word| {
                        let from = self.all.expressions.plus(source, word as i64 * 8);
                        self.load(state, from, 8, None)
                    })
                    .collect();
                self.remember(state, target, bytes, NOTHING);
                for (word, value) in (0..).zip(words) {
                    let to = self.all.expressions.plus(target, word * 8);
                    self.remember(state, to, 8, value);
                }
            }
            Length::Known(bytes) => {
                self.remember(state, target, bytes, NOTHING);
            }
            _ => self.remember(state, target, 1 << 40, NOTHING),
        }
        if is_persistent && length != Length::Known(0) {
            let span = self.span(target, length);
            self.emit(state, Kind::Store { span, value, nontemporal, bulk: true }, place);
        }
    }

    // ---- branches

    /// Whether a condition is known to hold.
    fn truth(&mut self, state: &State, condition: Expression) -> Option<bool> {
        if condition == NOTHING {
            return None;
        }
        if let Some(value) = self.all.expressions.as_int(condition) {
            return Some(value & 1 != 0 || value > 1);
        }
        let (fact, holds) = self.all.expressions.fact(condition, true);
        if let Some(value) = self.all.expressions.as_int(fact) {
            return Some((value != 0) == holds);
        }
        if let Some(known) = state.facts.get(&fact) {
            return Some(*known == holds);
        }
        if self.is_condition(fact) {
            let parts = match self.all.expressions.form(fact) {
                Form::Operation(Arithmetic::And, left, right) => Some((left, right, false)),
                Form::Operation(Arithmetic::Or, left, right) => Some((left, right, true)),
                _ => None,
            };
            if let Some((left, right, decides)) = parts {
                let (left, right) = (self.truth(state, left), self.truth(state, right));
                if left == Some(decides) || right == Some(decides) {
                    return Some(decides == holds);
                }
                if left == Some(!decides) && right == Some(!decides) {
                    return Some(decides != holds);
                }
            }
        }
        // Equal to one constant is not equal to another.
        if let Form::Comparison(Compare::Eq, left, right) = self.all.expressions.form(fact)
            && self.all.expressions.as_int(right).is_some()
        {
            let other = state.facts.iter().any(|(known, truth)| {
                *truth
                    && matches!(self.all.expressions.form(*known), Form::Comparison(Compare::Eq, same, constant)
                        if same == left && constant != right && self.all.expressions.as_int(constant).is_some())
            });
            if other {
                return Some(!holds);
            }
        }
        None
    }

    fn is_condition(&self, expression: Expression) -> bool {
        match self.all.expressions.form(expression) {
            Form::Comparison(..) => true,
            Form::Operation(Arithmetic::And | Arithmetic::Or, left, right) => {
                self.is_condition(left) && self.is_condition(right)
            }
            _ => false,
        }
    }

    fn assume(&mut self, state: &mut State, condition: Expression, holds: bool) {
        if condition == NOTHING {
            return;
        }
        if self.is_condition(condition) {
            match (self.all.expressions.form(condition), holds) {
                (Form::Operation(Arithmetic::And, left, right), true)
                | (Form::Operation(Arithmetic::Or, left, right), false) => {
                    self.assume(state, left, holds);
                    self.assume(state, right, holds);
                    return;
                }
                _ => {}
            }
        }
        let (fact, holds) = self.all.expressions.fact(condition, holds);
        if self.all.expressions.as_int(fact).is_none() {
            Rc::make_mut(&mut state.facts).insert(fact, holds);
        }
    }

    /// Of the ways out of a loop's head, those that make sense: the first time in, the last time out.
    fn sensible(&self, block: u32, state: &State, to: &[u32]) -> Vec<u32> {
        let Some((header, (rounds, _))) = state.rounds.iter().find(|(header, _)| **header == block) else {
            return to.to_vec();
        };
        let inside = &self.shape.loops[header].blocks;
        let (stay, leave): (Vec<u32>, Vec<u32>) = to.iter().partition(|next| inside.contains(next));
        if stay.is_empty() || leave.is_empty() {
            return to.to_vec();
        }
        if *rounds >= EXHAUSTED {
            leave
        } else if *rounds == 0
            && self.eventful.contains(header)
            && !self.shape.flush_loops.contains_key(header)
        {
            stay
        } else {
            to.to_vec()
        }
    }

    fn terminator(&mut self, block: u32, op: &Op, state: State) {
        // A loop that is left elsewhere than at its head does not go round for ever.
        let exhausted = state.rounds.get(&block).is_some_and(|(rounds, _)| *rounds >= EXHAUSTED);
        match op {
            Op::Jump { to } => {
                if !(exhausted && self.shape.loops[&block].blocks.contains(to)) {
                    self.goto(state, block, *to);
                }
            }
            Op::Branch { condition, yes, no } => {
                let condition = self.value(&state, *condition);
                match self.truth(&state, condition) {
                    Some(true) => self.goto(state, block, *yes),
                    Some(false) => self.goto(state, block, *no),
                    None => {
                        let ways = self.sensible(block, &state, &[*yes, *no]);
                        if exhausted && ways.iter().all(|to| self.shape.loops[&block].blocks.contains(to)) {
                            return;
                        }
                        for (to, holds) in [(*yes, true), (*no, false)] {
                            if ways.contains(&to) {
                                let mut next = state.clone();
                                self.assume(&mut next, condition, holds);
                                self.goto(next, block, to);
                            }
                        }
                    }
                }
            }
            Op::Switch { value, cases, default } => {
                self.switch(block, state, *value, cases, *default, exhausted)
            }
            Op::Return { value } => self.returns(state, *value),
            _ => {}
        }
    }

    fn switch(
        &mut self,
        block: u32,
        state: State,
        value: Operand,
        cases: &[(i64, u32)],
        default: u32,
        exhausted: bool,
    ) {
        let value = self.value(&state, value);
        if let Some(constant) = self.all.expressions.as_int(value) {
            let to = cases.iter().find(|case| case.0 == constant).map_or(default, |case| case.1);
            self.goto(state, block, to);
            return;
        }
        let mut targets: Vec<u32> = cases.iter().map(|case| case.1).collect();
        targets.push(default);
        targets.sort_unstable();
        targets.dedup();
        let targets = self.sensible(block, &state, &targets);
        if exhausted && targets.iter().all(|to| self.shape.loops[&block].blocks.contains(to)) {
            return;
        }
        for to in targets {
            let mut next = state.clone();
            let own: Vec<i64> = cases.iter().filter(|case| case.1 == to).map(|case| case.0).collect();
            if value != NOTHING {
                if to == default {
                    for case in cases.iter().filter(|case| case.1 != to).take(16) {
                        let constant = self.all.expressions.int(case.0);
                        let equal = self.all.expressions.comparison(Compare::Eq, value, constant);
                        self.assume(&mut next, equal, false);
                    }
                } else if let [one] = own[..] {
                    let constant = self.all.expressions.int(one);
                    let equal = self.all.expressions.comparison(Compare::Eq, value, constant);
                    if self.truth(&next, equal) == Some(false) {
                        continue;
                    }
                    self.assume(&mut next, equal, true);
                }
            }
            self.goto(next, block, to);
        }
    }

    fn returns(&mut self, mut state: State, value: Option<Operand>) {
        let result = value.map_or(NOTHING, |value| self.value(&state, value));
        let failure = match self.all.expressions.as_int(result) {
            Some(number) if number < 0 => true,
            Some(0) => self.function.returns_pointer,
            _ => false,
        };
        let exit = if failure { Exit::Failure } else { Exit::Normal };
        if self.is_root {
            let mut machine = std::mem::take(&mut state.machine);
            Rc::make_mut(&mut machine).path_ends(&mut self.around(), exit);
            state.machine = machine;
        }
        let own = |this: &Self, object: Expression| matches!(this.all.expressions.form(object), Form::Local(function, _) if function == this.id);
        // What is nearest to the parameters matters most.
        let mut memory: Vec<(Address, u64, Expression)> = state
            .memory
            .iter()
            .filter(|(at, _)| !own(self, at.object) && !self.all.expressions.has_opaque(at.object))
            .map(|(at, (bytes, value))| (*at, *bytes, *value))
            .collect();
        memory.sort_by_key(|(at, ..)| self.all.expressions.depth(at.object));
        memory.truncate(MAX_MEMORY);
        let facts = state
            .facts
            .iter()
            .filter(|(fact, _)| self.is_about_parameters(**fact))
            .map(|(fact, holds)| (*fact, *holds))
            .collect();
        let events = self.all.traces.events(state.trace);
        self.ways.push(Way { events, result, facts, memory, exit: failure });
    }

    fn is_about_parameters(&self, expression: Expression) -> bool {
        match self.all.expressions.form(expression) {
            Form::Comparison(_, left, right) | Form::Operation(_, left, right) => {
                self.is_about_parameters(left) && self.is_about_parameters(right)
            }
            Form::Plus(inner, _) => self.is_about_parameters(inner),
            Form::Parameter(_) | Form::Int(_) => true,
            _ => false,
        }
    }

    // ---- calls

    fn call(
        &mut self,
        mut state: State,
        number: u32,
        callee: Callee,
        arguments: &[Operand],
        place: PlaceId,
    ) -> Vec<State> {
        let values: Vec<Expression> = arguments.iter().map(|operand| self.value(&state, *operand)).collect();
        let targets = match callee {
            Callee::Direct(id) => vec![id],
            Callee::Indirect(pointer) => {
                let pointer = self.value(&state, pointer);
                match self.all.expressions.form(pointer) {
                    Form::Function(id) => vec![id],
                    _ => self.all.analysis.targets.get(&(self.id, number)).cloned().unwrap_or_default(),
                }
            }
        };
        if targets.is_empty() {
            self.unknown_call(&mut state, number, &values, true, place);
            return vec![state];
        }
        let mut after = Vec::new();
        for target in &targets {
            let mut before = state.clone();
            let function = self.all.program.function(*target);
            if let Some(meaning) = self.all.apis.meaning(&function.name) {
                let (effects, returns, framework) =
                    (meaning.effects.clone(), meaning.returns, meaning.framework);
                if self.effects(&mut before, number, &values, &effects, framework, place) {
                    let result = self.result(&before, number, &values, returns);
                    before.values[number as usize] = result;
                    after.push(before);
                }
            } else if let Some(summary) = self.all.summaries.get(target).cloned() {
                after.extend(self.replay(before, number, &summary, &values, place, *target));
            } else {
                if !function.is_defined() && !function.name.is_empty() {
                    let touches = values.iter().any(|value| self.persistence(*value) != Persistence::No);
                    if touches {
                        self.all.unresolved.insert(function.readable.clone());
                    }
                }
                let recursive = function.is_defined() && !self.all.given_up.contains(target);
                if !recursive {
                    self.unknown_call(&mut before, number, &values, function.is_defined(), place);
                } else {
                    // The recursion ends here, in this round.
                    before.values[number as usize] = self.opaque(&before, number);
                }
                after.push(before);
            }
        }
        after
    }

    /// A call of something that nothing is known of. If `anything`, it may flush and fence what it was not given.
    fn unknown_call(
        &mut self,
        state: &mut State,
        number: u32,
        values: &[Expression],
        anything: bool,
        place: PlaceId,
    ) {
        let mut objects = Vec::new();
        for value in values {
            if self.persistence(*value) != Persistence::No {
                objects.push(self.all.expressions.address(*value).object);
            }
            // Variables whose address is given away may change.
            let at = self.all.expressions.address(*value);
            if matches!(self.all.expressions.form(at.object), Form::Local(..)) {
                let stale: Vec<Address> =
                    state.memory.keys().filter(|known| known.object == at.object).copied().collect();
                for known in stale {
                    Rc::make_mut(&mut state.memory).entry(known).and_modify(|entry| entry.1 = NOTHING);
                }
            }
        }
        if !objects.is_empty() || anything {
            objects.dedup();
            self.emit(state, Kind::Unknown { objects }, place);
        }
        state.values[number as usize] = self.opaque(state, number);
    }

    /// What a described function returns.
    fn result(&mut self, state: &State, number: u32, values: &[Expression], returns: Returns) -> Expression {
        match returns {
            Returns::Anything => self.opaque(state, number),
            Returns::Persistent => {
                let origin = self.origin(state, number);
                self.all.expressions.add(Form::Mapped(origin))
            }
            Returns::Fresh => {
                let origin = self.origin(state, number);
                self.all.expressions.add(Form::Fresh(origin))
            }
            Returns::FreshOid => {
                let origin = self.origin(state, number);
                let id = self.all.expressions.add(Form::FreshId(origin));
                self.all.expressions.add(Form::Pair(NOTHING, id))
            }
            Returns::Direct(first) => {
                let id = values.get(first as usize + 1).copied().unwrap_or(NOTHING);
                if id == NOTHING {
                    let origin = self.origin(state, number);
                    return self.all.expressions.add(Form::Opaque(origin, true));
                }
                self.all.expressions.add(Form::Direct(id))
            }
            Returns::Argument(argument) => values.get(argument as usize).copied().unwrap_or(NOTHING),
            Returns::Volatile => {
                let origin = self.origin(state, number);
                self.all.expressions.add(Form::Volatile(origin))
            }
            Returns::Constant(constant) => self.all.expressions.int(constant),
            Returns::Stage => {
                if state.machine.in_transaction() || self.is_root {
                    let stage = state.machine.stage();
                    self.all.expressions.int(stage)
                } else {
                    self.opaque(state, number)
                }
            }
        }
    }

    /// Carries out what a description says. False if control does not come back.
    fn effects(
        &mut self,
        state: &mut State,
        number: u32,
        values: &[Expression],
        effects: &[Effect],
        framework: usize,
        place: PlaceId,
    ) -> bool {
        let argument = |number: u32| values.get(number as usize).copied().unwrap_or(NOTHING);
        for effect in effects {
            if let Some(condition) = effect.only_if {
                let condition = argument(condition);
                let zero = self.all.expressions.int(0);
                let holds = self.all.expressions.comparison(Compare::Ne, condition, zero);
                if self.truth(state, holds) == Some(false) {
                    continue;
                }
            }
            let address = match (effect.address, effect.oid) {
                (Some(number), _) => argument(number),
                (None, Some(first)) => {
                    let id = argument(first + 1);
                    if id == NOTHING { NOTHING } else { self.all.expressions.add(Form::Direct(id)) }
                }
                (None, None) => NOTHING,
            };
            let address = match effect.offset.map(argument) {
                Some(offset) => self.all.expressions.arithmetic(Arithmetic::Add, address, offset),
                None => address,
            };
            let length = match (effect.length, effect.bytes) {
                _ if effect.line => Length::Known(1),
                (Some(number), _) => {
                    let value = argument(number);
                    self.length(value)
                }
                (None, Some(bytes)) => Length::Known(bytes),
                (None, None) => Length::Unknown,
            };
            self.effect(state, number, effect, address, length, values, framework, place);
            if effect.what == What::Leave {
                return false;
            }
        }
        true
    }

    #[allow(clippy::too_many_arguments, reason = "all of it is the one effect")]
    fn effect(
        &mut self,
        state: &mut State,
        _number: u32,
        effect: &Effect,
        address: Expression,
        length: Length,
        values: &[Expression],
        framework: usize,
        place: PlaceId,
    ) {
        let argument = |number: u32| values.get(number as usize).copied().unwrap_or(NOTHING);
        let known = address != NOTHING && self.persistence(address) != Persistence::No;
        let span = self.span(address, length);
        let kind = match effect.what {
            What::Nothing | What::Leave => return,
            What::Store | What::StoreNonTemporal | What::LogAndStore => {
                let source = effect.source.map(argument);
                let value = effect.value.map_or(NOTHING, argument);
                if effect.what == What::LogAndStore && known {
                    self.emit(state, Kind::Log { span }, place);
                }
                let nontemporal = effect.what == What::StoreNonTemporal;
                match length {
                    Length::Known(bytes) if bytes <= 8 && source.is_none() => {
                        self.store(state, address, value, bytes, nontemporal, place);
                    }
                    _ => self.bulk(state, address, source, value, length, nontemporal, place),
                }
                return;
            }
            What::Clobber => {
                if let Length::Known(bytes) = length {
                    self.remember(state, address, bytes, NOTHING);
                    // An identifier is two words.
                    let second = self.all.expressions.plus(address, 8);
                    if bytes == 16 {
                        self.remember(state, address, 8, NOTHING);
                        self.remember(state, second, 8, NOTHING);
                    }
                }
                return;
            }
            What::Flush | What::FlushOrdered | What::Queue | What::Log if length == Length::Known(0) => {
                return;
            }
            // Something is flushed, but nobody knows what.
            What::Flush | What::FlushOrdered | What::Queue | What::Log if !known => {
                Kind::Unknown { objects: Vec::new() }
            }
            What::Flush => Kind::Flush { span, class: Class::FlushOpt },
            What::FlushOrdered => Kind::Flush { span, class: Class::Flush },
            What::Queue => Kind::Queue { span },
            What::Log => Kind::Log { span },
            What::Fence => Kind::Fence { class: Class::StoreFence, drains: false },
            What::Drain => Kind::Fence { class: Class::StoreFence, drains: true },
            What::Begin => Kind::Begin { framework },
            What::Commit => Kind::Commit,
            What::Abort => Kind::Abort,
            What::Process => Kind::Process,
            What::CommitStage => Kind::CommitStage,
            What::End => Kind::End,
            What::Change => Kind::Change,
            What::EpochBegin => Kind::EpochBegin,
            What::EpochEnd => Kind::EpochEnd,
            What::StrandBegin => Kind::StrandBegin,
            What::StrandEnd => Kind::StrandEnd,
            What::StrandJoin => Kind::StrandJoin,
        };
        self.emit(state, kind, place);
    }

    /// Puts a callee's ways in the place of a call.
    fn replay(
        &mut self,
        state: State,
        number: u32,
        summary: &Summary,
        values: &[Expression],
        place: PlaceId,
        callee: FunctionId,
    ) -> Vec<State> {
        let mut after = Vec::new();
        let visit = self.visit(&state);
        for way in &summary.ways {
            let mut next = state.clone();
            let mut translated = FxHashMap::default();
            let mut possible = true;
            for (fact, holds) in &way.facts {
                let here = self.translate(&state, *fact, values, (number, visit), &mut translated);
                match self.truth(&state, here) {
                    Some(truth) => possible &= truth == *holds,
                    None => self.assume(&mut next, here, *holds),
                }
            }
            if !possible {
                continue;
            }
            // Something that only flushes and fences is a name for the instruction: the call is the place.
            let wrapper = way.events.iter().all(|event| {
                matches!(event.kind, Kind::Flush { .. } | Kind::Queue { .. } | Kind::Fence { .. })
            });
            let from = next.machine.now();
            for event in &way.events {
                let Some(kind) =
                    self.translate_event(&state, event, values, (number, visit), &mut translated)
                else {
                    continue;
                };
                // The callee's name for the memory is as good, unless the place is here.
                let name = match kind.span() {
                    Some(span) if wrapper || event.site.name == 0 => {
                        let text = self.describe(&next, span);
                        if text.is_empty() { event.site.name } else { self.all.names.add(text) }
                    }
                    _ => event.site.name,
                };
                let site = if wrapper {
                    Site { place, call: None, name }
                } else {
                    Site { place: event.site.place, call: Some(place), name }
                };
                self.emit_at(&mut next, kind, site);
            }
            if !wrapper {
                let readable = self.all.program.function(callee).readable.clone();
                let mut machine = std::mem::take(&mut next.machine);
                Rc::make_mut(&mut machine).callee_ends(&mut self.around(), from, &readable);
                next.machine = machine;
            }
            for (at, bytes, value) in &way.memory {
                let base = at.element.unwrap_or(at.object);
                let base = self.translate(&state, base, values, (number, visit), &mut translated);
                let value = self.translate(&state, *value, values, (number, visit), &mut translated);
                if base != NOTHING {
                    let address = self.all.expressions.plus(base, at.offset);
                    self.remember(&mut next, address, *bytes, value);
                }
            }
            let result = self.translate(&state, way.result, values, (number, visit), &mut translated);
            next.values[number as usize] =
                if result == NOTHING { self.opaque(&state, number) } else { result };
            after.push(next);
        }
        after
    }

    fn translate_event(
        &mut self,
        state: &State,
        event: &Event,
        values: &[Expression],
        call: (u32, u32),
        memo: &mut FxHashMap<Expression, Expression>,
    ) -> Option<Kind> {
        let mut kind = event.kind.clone();
        match &mut kind {
            Kind::Store { span, .. }
            | Kind::Load { span }
            | Kind::Flush { span, .. }
            | Kind::Queue { span }
            | Kind::Log { span } => {
                let base = span.at.element.unwrap_or(span.at.object);
                let base = self.translate(state, base, values, call, memo);
                if base == NOTHING || self.persistence(base) == Persistence::No {
                    return None;
                }
                let address = self.all.expressions.plus(base, span.at.offset);
                let length = match span.length {
                    Length::Symbol(symbol) => {
                        let here = self.translate(state, symbol, values, call, memo);
                        self.length(here)
                    }
                    known => known,
                };
                if self.persistence(address) == Persistence::No {
                    return None;
                }
                *span = self.span(address, length);
            }
            Kind::Unknown { objects } => {
                for object in objects.iter_mut() {
                    let here = self.translate(state, *object, values, call, memo);
                    *object = self.all.expressions.address(here).object;
                }
            }
            _ => {}
        }
        if let Kind::Store { value, .. } = &mut kind {
            *value = self.translate(state, *value, values, call, memo);
        }
        Some(kind)
    }

    /// A callee's expression in terms of the caller.
    fn translate(
        &mut self,
        state: &State,
        expression: Expression,
        values: &[Expression],
        call: (u32, u32),
        memo: &mut FxHashMap<Expression, Expression>,
    ) -> Expression {
        if let Some(known) = memo.get(&expression) {
            return *known;
        }
        let result = match self.all.expressions.form(expression) {
            Form::Nothing => NOTHING,
            Form::Int(_) | Form::Global(_) | Form::Function(_) => expression,
            Form::Parameter(number) => values.get(number as usize).copied().unwrap_or(NOTHING),
            Form::Plus(inner, offset) => {
                let inner = self.translate(state, inner, values, call, memo);
                self.all.expressions.plus(inner, offset)
            }
            Form::Element(base, index, scale) => {
                let base = self.translate(state, base, values, call, memo);
                let index = self.translate(state, index, values, call, memo);
                if base == NOTHING || index == NOTHING {
                    NOTHING
                } else {
                    self.all.expressions.element(base, index, scale)
                }
            }
            Form::Content(address) => {
                let address = self.translate(state, address, values, call, memo);
                self.load(state, address, 8, None)
            }
            Form::Direct(id) => match self.translate(state, id, values, call, memo) {
                NOTHING => {
                    let origin = self.through(0x8000_0000 | id_number(expression), call);
                    self.all.expressions.add(Form::Opaque(origin, true))
                }
                id => self.all.expressions.add(Form::Direct(id)),
            },
            Form::Local(..) => expression,
            Form::Volatile(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Volatile(origin))
            }
            Form::Mapped(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Mapped(origin))
            }
            Form::Fresh(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Fresh(origin))
            }
            Form::FreshId(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::FreshId(origin))
            }
            Form::Opaque(origin, persistent) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Opaque(origin, persistent))
            }
            Form::Pair(left, right) => {
                let left = self.translate(state, left, values, call, memo);
                let right = self.translate(state, right, values, call, memo);
                self.all.expressions.add(Form::Pair(left, right))
            }
            Form::Operation(what, left, right) => {
                let left = self.translate(state, left, values, call, memo);
                let right = self.translate(state, right, values, call, memo);
                self.all.expressions.arithmetic(what, left, right)
            }
            Form::Comparison(what, left, right) => {
                let left = self.translate(state, left, values, call, memo);
                let right = self.translate(state, right, values, call, memo);
                self.all.expressions.comparison(what, left, right)
            }
        };
        // Recursion makes expressions that say nothing more.
        let result = if self.all.expressions.depth(result) > MAX_DEPTH { NOTHING } else { result };
        memo.insert(expression, result);
        result
    }

    fn through(&mut self, origin: u32, call: (u32, u32)) -> u32 {
        self.all.expressions.origin(Origin::Through(origin, self.id, call.0, call.1))
    }

    // ---- the summary

    fn summary(mut self) -> Summary {
        let mut groups: Vec<Way> = Vec::new();
        let ways = std::mem::take(&mut self.ways);
        for mut way in ways {
            if way.events.len() > MAX_EVENTS {
                self.all.shortened.push(self.id);
                // Where transactions begin and end, and what they log, must not be lost.
                let excess = way.events.len() - MAX_EVENTS;
                let mut at = 0;
                way.events.retain(|event| {
                    at += 1;
                    let kept = matches!(event.kind, Kind::Log { .. }) || event.kind.span().is_none();
                    at > excess || kept && !matches!(event.kind, Kind::Unknown { .. })
                });
            }
            match groups.iter_mut().find(|known| known.events == way.events) {
                Some(known) => {
                    if known.result != way.result {
                        known.result = NOTHING;
                    }
                    known.facts.retain(|fact| way.facts.contains(fact));
                    known.exit &= way.exit;
                    for entry in &mut known.memory {
                        let same = way.memory.iter().find(|other| other.0 == entry.0);
                        if same != Some(entry) {
                            entry.2 = NOTHING;
                        }
                    }
                    for entry in &way.memory {
                        if !known.memory.iter().any(|other| other.0 == entry.0) {
                            known.memory.push((entry.0, entry.1, NOTHING));
                        }
                    }
                }
                None => groups.push(way),
            }
        }
        if groups.len() > MAX_PATHS {
            self.all.shortened.push(self.id);
            // Ways that succeed say more than ways that give up.
            groups.sort_by_key(|way| (way.exit, std::cmp::Reverse(way.events.len())));
            groups.truncate(MAX_PATHS);
        }
        Summary { ways: groups }
    }
}

fn id_number(expression: Expression) -> u32 {
    // Any number that is the same for the same expression.
    let mut hasher = rustc_hash::FxHasher::default();
    std::hash::Hash::hash(&expression, &mut hasher);
    std::hash::Hasher::finish(&hasher) as u32 & 0x7fff_ffff
}

/// Whether the graph of a function says that a value points to persistent memory, and to nothing else.
fn is_persistent_value(analysis: &Analysis, id: FunctionId, number: u32) -> bool {
    let graph = &analysis.graphs[&id];
    graph.lookup(Operand::Instruction(number)).is_some_and(|cell| {
        let flags = graph.graph.flags(cell);
        flags.persistent && !flags.volatile() && !graph.graph.is_volatile_part(cell)
    })
}
