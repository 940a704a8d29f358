//! Walks functions with merged paths.
//!
//! Everything is executed once for each round of the loops around it: all paths that arrive there are merged
//! first. Values are kept by function call and overwritten from round to round, which is sound because no
//! value leaves its loop but through a phi at the exit (bitcode's passes see to that), and a phi is read when
//! the edge is taken.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crashproof_frontend::bitcode::MODEL_DIRECTORY;
use crashproof_frontend::bitcode::ir::{BlockId, Callee, FunctionId, Op, Operand, Place, Terminator};
use crashproof_ordersat::solver::Stop as Limit;
use crashproof_prove::program::Action;
use crashproof_prove::term::Term;
use rustc_hash::{FxHashMap, FxHasher};

use crate::LoopName;
use crate::jumps::Landing;
use crate::library;
use crate::locks::Held;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::memory::Memory;
use crate::order::{Key, Order};
use crate::state::{self, Arrivals, State};
use crate::value::{self, Value};

/// Rounds of a loop that must be taken are not bounded by the user, but by this.
const MOST_ROUNDS: u32 = 10_000;

/// Calls inside of each other; it keeps our own stack in bounds.
const DEEPEST: usize = 200;

/// Loops of models, such as that of `strlen`, end with the object they go through. They are not the user's to bound,
/// and go round more often.
const MOST_MODEL_ROUNDS: u32 = 64;

/// A function that has not returned yet.
pub(crate) struct Call {
    function: FunctionId,
    /// The conditions under which it was called. If it calls itself under the same ones, that must be.
    path: Vec<Term>,
    /// How often it has called itself and need not have.
    uncertain: u32,
}

/// A function call in progress.
pub(crate) struct Frame {
    pub(crate) function: FunctionId,
    pub(crate) values: Vec<Option<Value>>,
    /// Names this call, among all calls.
    pub(crate) context: u64,
    /// Names the instruction being executed, among all executions of instructions.
    pub(crate) point: u64,
    /// How many loops there are around the call.
    pub(crate) depth: usize,
    /// For each loop being executed: what was there when its round began.
    pub(crate) rounds: FxHashMap<usize, Round>,
    /// The instruction being executed: its block, the rounds of the loops around it, and its place in the block.
    pub(crate) here: Here,
    /// Arguments beyond the parameters; none where one is not supported.
    pub(crate) more: Vec<Option<Value>>,
    /// Where `longjmp` may come back to.
    pub(crate) landings: Vec<Landing>,
}

/// An instruction of a function, in a round of each loop around it.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) block: BlockId,
    pub(crate) rounds: Vec<u32>,
    pub(crate) index: usize,
}

/// What was there when a round of a loop began.
#[derive(Clone)]
pub(crate) struct Round {
    memory: Memory,
    phis: Vec<Value>,
    held: Held,
    /// Can the loop be left in this round? Then the next need not be taken.
    left: bool,
    /// Rounds that need not have been taken.
    uncertain: u32,
}

impl Machine<'_> {
    /// Executes a call, on all its paths; gives the merged end of those that return.
    pub(crate) fn call(
        &mut self,
        function: FunctionId,
        arguments: Vec<Value>,
        more: Vec<Option<Value>>,
        mut state: State,
        context: u64,
    ) -> Flow<(State, Option<Value>)> {
        let module = self.module;
        let code = module.function(function);
        let uncertain = match self.stack.iter().rev().find(|call| call.function == function) {
            Some(call) => call.uncertain + u32::from(call.path != state.path),
            None => 0,
        };
        if uncertain > 0 {
            self.bounds.insert(format!("recursion of {}", code.name), self.options.recursion.into());
        }
        let too_deep = self.stack.len() > DEEPEST;
        if uncertain > self.options.recursion || too_deep {
            self.cut = true;
            let reason = if too_deep {
                format!("`{}` is the last of more than {DEEPEST} calls, each in the one before", code.name)
            } else {
                format!(
                    "`{}` calls itself more than {} times (--recursion)",
                    code.name, self.options.recursion
                )
            };
            let place = code.place.clone();
            self.unknown(&mut state, &reason, &place, function);
            return Err(Stop::Dead);
        }
        let order = match self.orders.get(&function) {
            Some(order) => order.clone(),
            None => {
                let order = Rc::new(Order::of(code));
                self.orders.insert(function, order.clone());
                order
            }
        };
        let mut frame = Frame {
            function,
            values: vec![None; code.values as usize],
            context,
            point: context,
            depth: state.dirty.len(),
            rounds: FxHashMap::default(),
            here: Here { block: BlockId(0), rounds: Vec::new(), index: 0 },
            more,
            landings: Vec::new(),
        };
        for ((id, _), argument) in code.parameters.iter().zip(arguments) {
            frame.values[id.0 as usize] = Some(argument);
        }
        self.stack.push(Call { function, path: state.path.clone(), uncertain });
        let mut result = self.blocks(&mut frame, &order, state);
        if !frame.landings.is_empty() {
            result = self.come_back(&mut frame, &order, result);
        }
        self.stack.pop();
        self.loops.truncate(frame.depth);
        let mut returns = result?;
        for (state, _) in &mut returns {
            state.dirty.truncate(frame.depth);
        }
        let (state, mut values) = state::merge(&mut self.terms, returns).ok_or(Stop::Dead)?;
        Ok((state, values.pop()))
    }

    fn blocks(&mut self, frame: &mut Frame, order: &Order, state: State) -> Flow<Arrivals> {
        let (entry, _) = order.step(BlockId(0), &vec![0; order.nest(BlockId(0)).loops.len()], BlockId(0));
        let entry = Here { block: BlockId(0), rounds: vec![0; entry.len()], index: 0 };
        self.blocks_from(frame, order, entry, state)
    }

    /// Executes from an instruction on, until all paths have ended or returned.
    pub(crate) fn blocks_from(
        &mut self,
        frame: &mut Frame,
        order: &Order,
        from: Here,
        state: State,
    ) -> Flow<Arrivals> {
        let module = self.module;
        let code = module.function(frame.function);
        let mut pending: BTreeMap<Key, (BlockId, Vec<u32>, Arrivals)> = BTreeMap::new();
        let mut returns: Arrivals = Vec::new();
        // The first block is not entered anew if execution goes on in the middle of it.
        let mut resumed = (from.index > 0).then_some(from.index);
        let first = (from.block, from.rounds.clone(), vec![(state, Vec::new())]);
        pending.insert(order.key(from.block, &from.rounds), first);
        while let Some((_, (block, rounds, arrivals))) = pending.pop_first() {
            let Some((mut state, phis)) = state::merge(&mut self.terms, arrivals) else { continue };
            if let Some(limit) = self.limit_hit() {
                let place = &code.blocks[block.0 as usize].place;
                self.give_up(&mut state, limit, place, frame.function);
                continue;
            }
            let index = match resumed.take() {
                Some(index) => {
                    self.loops.truncate(frame.depth);
                    self.loops.extend(&rounds);
                    index
                }
                None => {
                    self.enter(frame, order, block, &rounds, &mut state, phis);
                    0
                }
            };
            match self.block(frame, Here { block, rounds: rounds.clone(), index }, &mut state) {
                Ok(()) => {}
                Err(Stop::Dead) => continue,
                Err(Stop::Again) => return Err(Stop::Again),
            }
            let code = &code.blocks[block.0 as usize];
            if let Terminator::Return(value) = &code.terminator {
                self.leave(frame, order, block, &[]);
                let values = match value {
                    Some(value) => match self.operand(frame, value) {
                        Ok(value) => vec![value],
                        Err(what) => {
                            self.unknown(&mut state, &what, &code.place, frame.function);
                            continue;
                        }
                    },
                    None => Vec::new(),
                };
                returns.push((state, values));
                continue;
            }
            for (to, mut state) in self.successors(frame, &code.terminator, state, &code.place)? {
                let phis = match self.phi_values(frame, block, to) {
                    Ok(phis) => phis,
                    Err(what) => {
                        self.unknown(&mut state, &what, &code.place, frame.function);
                        continue;
                    }
                };
                if !self.only_fails(frame.function, to) {
                    self.leave(frame, order, block, &order.nest(to).loops);
                }
                let (next, again) = order.step(block, &rounds, to);
                if let Some(index) = again
                    && !self.next_round(frame, order, index, *next.last().unwrap_or(&0), &mut state, &phis)
                {
                    continue;
                }
                let key = order.key(to, &next);
                pending.entry(key).or_insert_with(|| (to, next, Vec::new())).2.push((state, phis));
            }
        }
        Ok(returns)
    }

    /// The limit that execution has run into, as a sentence.
    fn limit_hit(&mut self) -> Option<&'static str> {
        // To ask takes a system call.
        const SELDOM: u32 = 256;
        self.blocks_executed = self.blocks_executed.wrapping_add(1);
        if self.limit.is_none() && self.blocks_executed.is_multiple_of(SELDOM) {
            self.limit = self.options.limits.hit();
        }
        self.limit.map(|limit| match limit {
            Limit::Memory => "there was not enough memory to unroll the program further (--memory)",
            Limit::Time | Limit::Conflicts => "there was no time to unroll the program further (--timeout)",
        })
    }

    /// Sets what depends on where control came from.
    fn enter(
        &mut self,
        frame: &mut Frame,
        order: &Order,
        block: BlockId,
        rounds: &[u32],
        state: &mut State,
        phis: Vec<Value>,
    ) {
        let no = self.terms.truth(false);
        state.dirty.resize(frame.depth + rounds.len(), no);
        self.loops.truncate(frame.depth);
        self.loops.extend(rounds);
        let code = &self.module.function(frame.function).blocks[block.0 as usize];
        for (phi, value) in code.phis.iter().zip(&phis) {
            frame.values[phi.result.0 as usize] = Some(value.clone());
        }
        let Some(&inner) = order.nest(block).loops.last() else { return };
        if order.loops[inner].header != block {
            return;
        }
        let before = frame.rounds.remove(&inner);
        let uncertain = match before {
            Some(round) if rounds.last() != Some(&0) => round.uncertain + u32::from(round.left),
            _ => 0,
        };
        if let Some(flag) = state.dirty.last_mut() {
            *flag = no;
        }
        let (memory, held) = (state.memory.clone(), state.held.clone());
        let round = Round { memory, phis, held, left: false, uncertain };
        frame.rounds.insert(inner, round);
    }

    /// Notes which loops can be left here.
    fn leave(&self, frame: &mut Frame, order: &Order, from: BlockId, stays: &[usize]) {
        for index in order.nest(from).loops.iter().filter(|index| !stays.contains(index)) {
            if let Some(round) = frame.rounds.get_mut(index) {
                round.left = true;
            }
        }
    }

    /// Prepares to go round once more; tells whether there is anything to go on with.
    fn next_round(
        &mut self,
        frame: &mut Frame,
        order: &Order,
        index: usize,
        next: u32,
        state: &mut State,
        phis: &[Value],
    ) -> bool {
        let Some(round) = frame.rounds.get_mut(&index) else { return true };
        let head = &order.loops[index];
        // A round that changed nothing and leaves nothing different behind is waiting: the next would be the
        // same, so it is enough to think of the last one.
        let level = frame.depth + order.nest(head.header).loops.len() - 1;
        let mut goes_nowhere = false;
        if !state.memory.differs(&round.memory) && state.held.same_as(&round.held) {
            let mut changed = state.dirty[level];
            goes_nowhere = round.phis == phis;
            for (old, new) in round.phis.iter().zip(phis) {
                let same = value::equal(&mut self.terms, old, new);
                let different = self.terms.not(same);
                changed = self.terms.or(changed, different);
            }
            if self.who == Who::Recovery {
                // Nobody is there to wait for.
                let message = "recovery does not go round for ever".to_owned();
                let action = Action::Assert { condition: changed, message };
                let place = head.place.clone();
                if self.emit(state, action, &place, frame.function).is_err() {
                    return false;
                }
            }
            if !state.assume(&mut self.terms, changed) {
                return false;
            }
        }
        let code = self.module.function(frame.function);
        let bound = self
            .options
            .loops
            .iter()
            .find(|bound| match &bound.which {
                LoopName::Line { file, line } => {
                    head.place.line == *line && head.place.file.ends_with(file.as_str())
                }
                LoopName::Index { function, index: number } => code.name == *function && index == *number,
            })
            .map_or_else(|| self.usual_bound(&head.place), |bound| bound.bound);
        // A loop that cannot be left and gets nowhere is endless; there is no point in going round as often as it would.
        round.left |= goes_nowhere;
        let uncertain = round.uncertain + u32::from(round.left);
        let what = format!("loop at {}:{}", head.place.file, head.place.line);
        if uncertain > 0 {
            self.bounds.insert(what.clone(), bound.into());
        }
        if uncertain > bound || next > MOST_ROUNDS {
            let rounds = if uncertain > bound { bound } else { MOST_ROUNDS };
            self.cut = true;
            let reason = format!("the {what} goes round more than {rounds} times (--unwind)");
            let place = head.place.clone();
            self.unknown(state, &reason, &place, frame.function);
            return false;
        }
        true
    }

    /// How often a loop goes round if nothing else is said about it.
    fn usual_bound(&self, place: &Place) -> u32 {
        let unwind = self.options.unwind;
        if place.file.starts_with(MODEL_DIRECTORY) {
            unwind.max(MOST_MODEL_ROUNDS.min(2 << unwind.min(8)))
        } else {
            unwind
        }
    }

    /// Whether a block does nothing but fail: going there is not leaving the loops around, because nothing comes after it.
    fn only_fails(&self, function: FunctionId, block: BlockId) -> bool {
        let block = &self.module.function(function).blocks[block.0 as usize];
        matches!(block.terminator, Terminator::Unreachable)
            && block.instructions.iter().any(|instruction| match &instruction.op {
                Op::Call { callee: Callee::Function(called), .. } => {
                    library::FAILING.contains(&self.module.function(*called).name.as_str())
                }
                _ => false,
            })
    }

    fn block(&mut self, frame: &mut Frame, from: Here, state: &mut State) -> Flow<()> {
        let module = self.module;
        let code = &module.function(frame.function).blocks[from.block.0 as usize];
        let first = from.index;
        frame.here = from;
        for (index, instruction) in code.instructions.iter().enumerate().skip(first) {
            let mut hasher = FxHasher::default();
            (frame.context, frame.here.block, &frame.here.rounds[..], index).hash(&mut hasher);
            frame.point = hasher.finish();
            frame.here.index = index;
            if let Some(value) = self.instruction(frame, instruction, state)? {
                frame.values[instruction.result.0 as usize] = Some(value);
            }
        }
        Ok(())
    }

    fn successors(
        &mut self,
        frame: &Frame,
        terminator: &Terminator,
        mut state: State,
        place: &Place,
    ) -> Flow<Vec<(BlockId, State)>> {
        let condition = |machine: &mut Self, state: &mut State, operand: &Operand| {
            match machine.scalar(frame, operand) {
                Ok(term) => match machine.why_imprecise(term) {
                    None => return Some(term),
                    Some(why) => machine.unknown(state, &why, place, frame.function),
                },
                Err(what) => machine.unknown(state, &what, place, frame.function),
            }
            None
        };
        let mut all = Vec::new();
        match terminator {
            Terminator::Jump(to) => all.push((*to, state)),
            Terminator::Branch(operand, yes, no) => {
                let Some(taken) = condition(self, &mut state, operand) else { return Ok(all) };
                let not_taken = self.terms.not(taken);
                let mut other = state.clone();
                if state.assume(&mut self.terms, taken) {
                    all.push((*yes, state));
                }
                if other.assume(&mut self.terms, not_taken) {
                    all.push((*no, other));
                }
            }
            Terminator::Switch(operand, default, cases) => {
                let Some(value) = condition(self, &mut state, operand) else { return Ok(all) };
                // Which values there are is often known: no other case can be taken then.
                let possible = self.cases(&state, value);
                let width = self.terms.width(value);
                let mut rest = possible.clone();
                for (number, to) in cases {
                    let here = match &possible {
                        Some(possible) => {
                            if let Some(rest) = &mut rest {
                                rest.retain(|(_, other)| other != number);
                            }
                            let found = possible.iter().find(|(_, other)| other == number);
                            found.map_or_else(|| self.terms.truth(false), |(condition, _)| *condition)
                        }
                        None => {
                            let number = self.terms.number(*number, width);
                            self.terms.equal(value, number)
                        }
                    };
                    let mut taken = state.clone();
                    if taken.assume(&mut self.terms, here) {
                        all.push((*to, taken));
                    }
                    let elsewhere = self.terms.not(here);
                    if !state.assume(&mut self.terms, elsewhere) {
                        return Ok(all);
                    }
                }
                if rest.is_none_or(|rest| !rest.is_empty()) {
                    all.push((*default, state));
                }
            }
            Terminator::Unreachable => {
                let reason = "this is reached, although the compiler takes it to be unreachable";
                self.unknown(&mut state, reason, place, frame.function);
            }
            Terminator::Unsupported(what) => {
                self.unknown(&mut state, &format!("`{what}` is not supported"), place, frame.function);
            }
            Terminator::Return(_) => {}
        }
        Ok(all)
    }

    fn phi_values(&mut self, frame: &Frame, from: BlockId, to: BlockId) -> Result<Vec<Value>, String> {
        let module = self.module;
        let phis = &module.function(frame.function).blocks[to.0 as usize].phis;
        phis.iter()
            .map(|phi| {
                let (_, operand) = phi
                    .incoming
                    .iter()
                    .find(|(block, _)| *block == from)
                    .ok_or("a phi without a value for an edge")?;
                self.operand(frame, operand)
            })
            .collect()
    }
}
