//! `setjmp` and `longjmp`.
//!
//! A call of `setjmp` notes where it stands and what is known there: a landing. `longjmp` ends its path, and leaves its
//! state at the landing that the buffer names. Once the function that called `setjmp` has been executed on all its
//! other paths, it goes on from there with what has landed, as often as something does. Local variables that are
//! values, not memory, then are what they were when `setjmp` was called; C says no more about them.

use std::hash::{Hash, Hasher};

use crashproof_prove::term::Term;
use rustc_hash::{FxHashMap, FxHasher};

use crate::access::At;
use crate::machine::{Flow, Machine, Stop};
use crate::order::Order;
use crate::paths::{Frame, Here, Round};
use crate::state::{self, Arrivals, State};
use crate::value::Value;

/// Where a `setjmp` was called.
#[derive(Clone)]
pub(crate) struct Landing {
    number: u64,
    here: Here,
    values: Vec<Option<Value>>,
    rounds: FxHashMap<usize, Round>,
    context: u64,
    /// How often something has landed.
    times: u32,
}

impl Machine<'_> {
    /// A call of `setjmp` that returns for the first time.
    pub(crate) fn set_jump(
        &mut self,
        frame: &mut Frame,
        state: &mut State,
        buffer: Term,
        at: At<'_>,
    ) -> Flow<()> {
        self.jumps += 1;
        let number = self.jumps;
        let word = self.terms.number(number, 64);
        self.store_scalar(state, buffer, word, false, at)?;
        self.landed.insert(number, Vec::new());
        frame.landings.push(Landing {
            number,
            here: frame.here.clone(),
            values: frame.values.clone(),
            rounds: frame.rounds.clone(),
            context: frame.context,
            times: 0,
        });
        Ok(())
    }

    /// Goes back to where a buffer was set. Ends the path.
    pub(crate) fn long_jump(&mut self, state: &mut State, buffer: Term, value: Term, at: At<'_>) -> Flow<()> {
        let number = self.load_scalar(state, buffer, 64, at)?;
        let Some(cases) = self.cases(state, number) else {
            return Err(self.refuse(state, "jumps to a place that is not known", at));
        };
        let zero = self.terms.number(0, self.terms.width(value));
        let one = self.terms.number(1, self.terms.width(value));
        let is_zero = self.terms.equal(value, zero);
        let value = self.terms.choose(is_zero, one, value);
        for (condition, number) in cases {
            let mut here = state.clone();
            if !here.assume(&mut self.terms, condition) {
                continue;
            }
            match self.landed.get_mut(&number) {
                Some(landed) => landed.push((here, vec![Value::Scalar(value)])),
                None => {
                    self.refuse(&mut here, "jumps into a function that has returned", at);
                }
            }
        }
        Err(Stop::Dead)
    }

    /// Goes on from the landings of a function, after its other paths.
    pub(crate) fn come_back(
        &mut self,
        frame: &mut Frame,
        order: &Order,
        others: Flow<Arrivals>,
    ) -> Flow<Arrivals> {
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
            // What is made from here on is not what was made the first time.
            let mut hasher = FxHasher::default();
            (landing.context, landing.number, landing.times).hash(&mut hasher);
            frame.context = hasher.finish();
            let from = Here { index: landing.here.index + 1, ..landing.here };
            match self.blocks_from(frame, order, from, state) {
                Ok(more) => returns.extend(more),
                Err(Stop::Dead) => {}
                Err(Stop::Again) => return Err(Stop::Again),
            }
            // Landings may have been jumped to again, also earlier ones.
            next = 0;
        }
        for landing in &frame.landings {
            self.landed.remove(&landing.number);
        }
        Ok(returns)
    }
}
