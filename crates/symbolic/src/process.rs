//! What a process does before `main` and after it: constructors, `atexit`, destructors.

use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{Constant, FunctionId, Initial};
use crashproof_prove::term::Term;

use crate::access::At;
use crate::library::Reply;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::state::State;
use crate::value::Value;

/// A call at the end, with its argument if it has one.
type LastCall = (FunctionId, Option<Term>);

/// What is to be called at the end, last first; none where paths with different such lists met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending(Option<Rc<Vec<LastCall>>>);

impl Default for Ending {
    fn default() -> Self {
        Ending(Some(Rc::default()))
    }
}

impl Ending {
    pub(crate) fn merge(&self, other: &Ending) -> Ending {
        if self == other { self.clone() } else { Ending(None) }
    }
}

/// Contexts of these calls are far from those of all others.
const BEFORE: u64 = 1 << 62;
const AFTER: u64 = 1 << 61;

impl Machine<'_> {
    /// What runs before `main`.
    pub(crate) fn constructors(&mut self, mut state: State, context: u64) -> Flow<State> {
        for (index, function) in self.listed("llvm.global_ctors").into_iter().enumerate() {
            let context = context | BEFORE | index as u64;
            (state, _) = self.call(function, Vec::new(), Vec::new(), state, context)?;
        }
        Ok(state)
    }

    /// The functions of a list of LLVM's, by priority.
    fn listed(&self, name: &str) -> Vec<FunctionId> {
        const ENTRY: u64 = 24;
        const FUNCTION: u64 = 8;
        let Some(global) = self.module.globals.iter().find(|global| global.name == name) else {
            return Vec::new();
        };
        let pieces = global.initial.as_deref().unwrap_or_default();
        let priority = |entry: u64| {
            let found = pieces.iter().find(|(offset, _)| *offset == entry * ENTRY);
            match found {
                Some((_, Initial::Bytes(bytes))) if bytes.len() >= 4 => {
                    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
                }
                _ => 0,
            }
        };
        let mut all: Vec<(u32, FunctionId)> = pieces
            .iter()
            .filter_map(|(offset, piece)| match piece {
                Initial::Address(Constant::Function(function)) if offset % ENTRY == FUNCTION => {
                    Some((priority(offset / ENTRY), *function))
                }
                _ => None,
            })
            .collect();
        all.sort_by_key(|(priority, _)| *priority);
        all.into_iter().map(|(_, function)| function).collect()
    }

    /// `atexit`, or `__cxa_atexit` with its argument.
    pub(crate) fn call_at_exit(
        &mut self,
        state: &mut State,
        function: Term,
        argument: Option<Term>,
        at: At<'_>,
    ) -> Flow<Reply> {
        let known = self.terms.constant(function).and_then(|address| self.function_at(address));
        let Some(function) = known else {
            return Err(self.refuse(state, "what is to be called at the end is not known", at));
        };
        if self.several {
            return Err(self.refuse(state, "asks for a call at the end while there are threads", at));
        }
        self.calls_at_exit = true;
        if let Ending(Some(calls)) = &mut state.ending {
            Rc::make_mut(calls).push((function, argument));
        }
        Ok(Reply::scalar(self.terms.number(0, 32)))
    }

    /// What runs when `main` has returned, or `exit` is called.
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
            let context = context ^ (AFTER | index as u64);
            let arguments = argument.into_iter().map(Value::Scalar).collect();
            (state, _) = self.call(function, arguments, Vec::new(), state, context)?;
        }
        Err(Stop::Dead)
    }
}
