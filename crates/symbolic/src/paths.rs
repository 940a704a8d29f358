//! Walks functions with merged paths, and dispatches what they call.
//!
//! Everything is executed once per iteration of the enclosing loops: all paths that arrive there are merged first.
//! Values are kept per function call and overwritten in each iteration, which is sound because a value leaves its loop
//! only through a phi at the exit (ensured by the bitcode passes), and a phi is read when the edge is taken.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{
    BlockId, Callee, FunctionId, Instruction, Op, Operand, Place, Terminator, Type,
};
use crashproof_prove::term::Term;
use rustc_hash::{FxHashMap, FxHasher};

use crate::block_order::{Key, Order};
use crate::frame::{At, Call, Frame, Here, Step};
use crate::invocation::{Invocation, Reply};
use crate::library::is_quiet;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::function_address;
use crate::records::SHARING;
use crate::state::{self, Arrivals, Ending, State};
use crate::value::Value;

/// Maximum depth of calls; it bounds our own stack.
const DEEPEST: usize = 200;

/// An offset that separates the contexts of these calls from all others.
const BEFORE: u64 = 1 << 62;
const AFTER: u64 = 1 << 61;

impl Machine<'_> {
    /// Executes a call on all its paths; returns the merged state of those that return.
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
        if self.helpers.current.is_some() {
            self.helpers.functions.insert(function);
        }
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
                format!("`{}` is called too deep: call depth exceeds {DEEPEST}", code.name)
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

    /// Executes from an instruction on until all paths have ended or returned.
    fn blocks_from(&mut self, frame: &mut Frame, order: &Order, from: Here, state: State) -> Flow<Arrivals> {
        let module = self.module;
        let code = module.function(frame.function);
        let mut pending: BTreeMap<Key, (BlockId, Vec<u32>, Arrivals)> = BTreeMap::new();
        let mut returns: Arrivals = Vec::new();
        // The first block is not re-entered if execution continues in the middle of it.
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
                Err(Stop::Restart) => return Err(Stop::Restart),
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
                let (next, repeated) = order.step(block, &rounds, to);
                if let Some(index) = repeated
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
            let at = At { place: &instruction.place, function: frame.function };
            let mut step = Step { frame, state, at };
            let result = match &instruction.op {
                Op::Call { callee, arguments } => {
                    self.call_instruction(&mut step, callee, arguments, instruction)
                }
                _ => self.instruction(&mut step, instruction),
            };
            if let Some(value) = result? {
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
                if [yes, no].into_iter().any(|to| self.only_claims(frame.function, *to)) {
                    self.note_claim(&state);
                    if state.unfollowed {
                        self.unknown(&mut state, SHARING, place, frame.function);
                        return Ok(all);
                    }
                }
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
                // The possible values are often known, which excludes all other cases.
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
                let reason = "this is reached, although the compiler assumes that it is unreachable";
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

    fn call_instruction(
        &mut self,
        step: &mut Step<'_>,
        callee: &Callee,
        arguments: &[Operand],
        instruction: &Instruction,
    ) -> Flow<Option<Value>> {
        // Metadata arguments of intrinsics and the like are not values, and not used as such.
        let arguments: Vec<Option<Value>> =
            arguments.iter().map(|argument| self.operand(step.frame, argument).ok()).collect();
        let ty = &instruction.ty;
        match callee {
            Callee::Function(function) => self.call_function(step, *function, arguments, ty),
            Callee::Assembly(assembly) => self.assembly(assembly, arguments, ty, step.state, step.at),
            Callee::Pointer(pointer) => {
                let pointer = self.word_of(step, pointer)?;
                self.call_pointer(step, pointer, arguments, ty)
            }
        }
    }

    /// Executes a call of something known by name.
    fn call_known(
        &mut self,
        step: &mut Step<'_>,
        name: &str,
        arguments: &[Option<Value>],
        ty: &Type,
    ) -> Flow<Reply> {
        let Step { frame, state, at } = step;
        let mut call = Invocation { frame, name, arguments, ty, state, at: *at };
        if name.starts_with("llvm.") { self.intrinsic(&mut call) } else { self.library_call(&mut call) }
    }

    fn call_function(
        &mut self,
        step: &mut Step<'_>,
        function: FunctionId,
        arguments: Vec<Option<Value>>,
        ty: &Type,
    ) -> Flow<Option<Value>> {
        let module = self.module;
        let code = module.function(function);
        match self.call_known(step, &code.name, &arguments, ty)? {
            Reply::Returns(value) => return Ok(value),
            Reply::EndsProcess => {
                self.end_process(std::mem::take(step.state), step.frame.point, step.at)?;
                return Err(Stop::Dead);
            }
            Reply::Unknown => {}
        }
        let Step { frame, state, at } = step;
        let at = *at;
        if code.blocks.is_empty() {
            let reason = format!("calls `{}`, which is not defined here", code.name);
            return Err(self.refuse(state, &reason, at));
        }
        let mut values = Vec::new();
        let mut arguments = arguments;
        let more = arguments.split_off(arguments.len().min(code.parameters.len()));
        for (index, argument) in arguments.into_iter().enumerate() {
            let Some(value) = argument else {
                return Err(self.refuse(state, "an argument that is not supported", at));
            };
            let copied = code.copied.get(index).copied().flatten();
            values.push(match (copied, value) {
                (Some(bytes), Value::Scalar(from)) => {
                    let point = frame.point.wrapping_add(1 + index as u64);
                    let copy = self.allocate(state, point, bytes, 16, "argument", at)?;
                    let to = self.terms.number(copy, 64);
                    self.copy_bytes(state, to, from, bytes, at)?;
                    Value::Scalar(to)
                }
                (_, value) => value,
            });
        }
        self.calls.push((at.place.clone(), at.function));
        let called = self.call(function, values, more, std::mem::take(*state), frame.point);
        self.calls.pop();
        let (after, result) = called?;
        **state = after;
        Ok(result)
    }

    pub(crate) fn call_pointer(
        &mut self,
        step: &mut Step<'_>,
        pointer: Term,
        arguments: Vec<Option<Value>>,
        ty: &Type,
    ) -> Flow<Option<Value>> {
        let at = step.at;
        let targets = self.call_targets(step.state, pointer, &arguments, ty, at);
        let mut arrivals = Vec::new();
        let mut result_is_value = false;
        for (condition, target) in targets {
            let mut here = step.state.clone();
            if !here.assume(&mut self.terms, condition) {
                continue;
            }
            let Some(target) = target else {
                let no = self.terms.truth(false);
                let message = "the pointer that is called points to a function".to_owned();
                match self.assert(&mut here, no, message, at) {
                    Err(Stop::Restart) => return Err(Stop::Restart),
                    _ => continue,
                }
            };
            if !self.fits_call(target, &arguments, ty) {
                self.refuse(&mut here, "calls a function through a pointer of another type", at);
                continue;
            }
            let mut there = Step { frame: step.frame, state: &mut here, at };
            match self.call_function(&mut there, target, arguments.clone(), ty) {
                Ok(value) => {
                    let value = value.filter(|_| *ty != Type::Void);
                    result_is_value |= value.is_some();
                    arrivals.push((here, value.into_iter().collect()));
                }
                Err(Stop::Dead) => {}
                Err(Stop::Restart) => return Err(Stop::Restart),
            }
        }
        let (after, mut values) = state::merge(&mut self.terms, arrivals).ok_or(Stop::Dead)?;
        *step.state = after;
        Ok(if result_is_value { values.pop() } else { None })
    }

    /// The functions that a pointer may point to, with their conditions; `None` if it points to no function.
    fn call_targets(
        &mut self,
        state: &State,
        pointer: Term,
        arguments: &[Option<Value>],
        ty: &Type,
        at: At<'_>,
    ) -> Vec<(Term, Option<FunctionId>)> {
        match self.cases(state, pointer) {
            Some(cases) => {
                cases.into_iter().map(|(condition, number)| (condition, self.function_at(number))).collect()
            }
            None => {
                // It came from memory that others can write: one of these functions, or unknown.
                let mut targets = Vec::new();
                let mut neither = self.terms.truth(true);
                for function in self.address_taken(arguments, ty) {
                    let address = self.terms.number(function_address(function), 64);
                    let here = self.terms.equal(pointer, address);
                    let not_here = self.terms.not(here);
                    neither = self.terms.and(neither, not_here);
                    targets.push((here, Some(function)));
                }
                let mut rest = State { path: state.path.clone(), ..State::default() };
                if rest.assume(&mut self.terms, neither) {
                    self.refuse(&mut rest, "calls through a pointer that is not known", at);
                }
                targets
            }
        }
    }

    /// Continues from a function's landings after its other paths.
    fn come_back(&mut self, frame: &mut Frame, order: &Order, others: Flow<Arrivals>) -> Flow<Arrivals> {
        let mut returns = match others {
            Err(Stop::Dead) => Vec::new(),
            others => others?,
        };
        let module = self.module;
        let code = module.function(frame.function);
        let mut next = 0;
        while next < frame.landings.len() {
            let number = frame.landings[next].number;
            let landed = self.landed.get_mut(&number).map(std::mem::take).unwrap_or_default();
            let Some((mut state, mut values)) = state::merge(&mut self.terms, landed) else {
                next += 1;
                continue;
            };
            frame.landings[next].times += 1;
            let landing = frame.landings[next].clone();
            let block = &code.blocks[landing.here.block.0 as usize];
            let instruction = &block.instructions[landing.here.index];
            if landing.times > self.options.recursion.max(1) {
                let most = self.options.recursion.max(1);
                let reason = format!("`setjmp` returns more than {most} times (--recursion)");
                self.unknown(&mut state, &reason, &instruction.place, frame.function);
                continue;
            }
            let no = self.terms.truth(false);
            state.dirty.resize(frame.depth + landing.here.rounds.len(), no);
            frame.values = landing.values;
            frame.rounds = landing.rounds;
            frame.values[instruction.result.0 as usize] = values.pop();
            // Objects created from here on are distinct from those created the first time.
            let mut hasher = FxHasher::default();
            (landing.context, landing.number, landing.times).hash(&mut hasher);
            frame.context = hasher.finish();
            let from = Here { index: landing.here.index + 1, ..landing.here };
            match self.blocks_from(frame, order, from, state) {
                Ok(more) => returns.extend(more),
                Err(Stop::Dead) => {}
                Err(Stop::Restart) => return Err(Stop::Restart),
            }
            // Landings, including earlier ones, may have been jumped to again.
            next = 0;
        }
        for landing in &frame.landings {
            self.landed.remove(&landing.number);
        }
        Ok(returns)
    }

    /// Functions that run before `main`.
    pub(crate) fn constructors(&mut self, mut state: State, context: u64) -> Flow<State> {
        for (index, function) in self.listed("llvm.global_ctors").into_iter().enumerate() {
            let context = context | BEFORE | index as u64;
            (state, _) = self.call(function, Vec::new(), Vec::new(), state, context)?;
        }
        Ok(state)
    }

    /// Functions that run when `main` returns or `exit` is called.
    pub(crate) fn end_process(&mut self, state: State, context: u64, at: At<'_>) -> Flow<()> {
        let mut state = state;
        let destructors = self.listed("llvm.global_dtors");
        let started = matches!(self.who, Who::Thread(1..));
        let Ending(Some(calls)) = state.ending.clone() else {
            return Err(self.refuse(&mut state, "what is to be called at the end is not known", at));
        };
        if started && (self.calls_at_exit || !destructors.is_empty()) {
            return Err(self.refuse(
                &mut state,
                "a thread that ends a program with more to do at its end",
                at,
            ));
        }
        let calls =
            calls.iter().rev().copied().chain(destructors.into_iter().map(|function| (function, None)));
        for (index, (function, argument)) in calls.enumerate() {
            let code = self.module.function(function);
            if code.blocks.is_empty() {
                if is_quiet(&code.name) {
                    continue;
                }
                let reason = format!("calls `{}` at the end, which is not defined here", code.name);
                return Err(self.refuse(&mut state, &reason, at));
            }
            let context = context ^ (AFTER | index as u64);
            let arguments = argument.into_iter().map(Value::Scalar).collect();
            (state, _) = self.call(function, arguments, Vec::new(), state, context)?;
        }
        Err(Stop::Dead)
    }
}
