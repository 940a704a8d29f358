//! The end of a process: `exit`, `atexit`, and LLVM's lists of constructors and destructors.

use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{Constant, FunctionId, Initial};

use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Stop, Who};
use crate::state::Ending;

pub(crate) const HANDLERS: &[Handler] = &[
    (&["exit", "_exit", "_Exit", "quick_exit"], 0, exit),
    (&["atexit"], 1, |machine, call| call_at_exit(machine, call, false)),
    (&["__cxa_atexit"], 2, |machine, call| call_at_exit(machine, call, true)),
];

fn exit(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    if let (Who::Recovery, Some(code)) = (machine.who, call.scalar(0)) {
        let zero = machine.terms.number(0, machine.terms.width(code));
        let condition = machine.terms.equal(code, zero);
        if machine.terms.constant(code) != Some(0) {
            machine.claims_reached = true;
            machine.assert(call.state, condition, "recovery ends with exit code 0".into(), call.at)?;
        }
    }
    if call.name == "exit" { Ok(Reply::EndsProcess) } else { Err(Stop::Dead) }
}

/// `atexit`, or `__cxa_atexit` with its argument.
fn call_at_exit(machine: &mut Machine<'_>, call: &mut Invocation<'_>, with_argument: bool) -> Flow<Reply> {
    let known = call.known(&machine.terms, 0).and_then(|address| machine.function_at(address));
    let Some(function) = known else {
        return Err(machine.refuse(call.state, "what is to be called at the end is not known", call.at));
    };
    if machine.several {
        let reason = "asks for a call at the end while there are threads";
        return Err(machine.refuse(call.state, reason, call.at));
    }
    machine.calls_at_exit = true;
    let argument = with_argument.then(|| call.word(1));
    if let Ending(Some(calls)) = &mut call.state.ending {
        Rc::make_mut(calls).push((function, argument));
    }
    Ok(Reply::scalar(machine.terms.number(0, 32)))
}

impl Machine<'_> {
    /// The functions in one of LLVM's lists, by priority.
    pub(crate) fn listed(&self, name: &str) -> Vec<FunctionId> {
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
}
