//! A call of a function known by name, and the handler that executes it: a row of a table.

use crashproof_frontend::bitcode::ir::Type;
use crashproof_prove::term::{Term, Terms};

use crate::frame::{At, Frame};
use crate::machine::{Flow, Machine};
use crate::state::State;
use crate::value::Value;

/// A call of a known function.
pub(crate) struct Invocation<'c> {
    pub(crate) frame: &'c mut Frame,
    pub(crate) name: &'c str,
    /// `None` for an argument that is not supported.
    pub(crate) arguments: &'c [Option<Value>],
    /// The return type.
    pub(crate) ty: &'c Type,
    pub(crate) state: &'c mut State,
    pub(crate) at: At<'c>,
}

impl Invocation<'_> {
    /// An argument that is a number or an address.
    pub(crate) fn scalar(&self, index: usize) -> Option<Term> {
        match self.arguments.get(index) {
            Some(Some(Value::Scalar(term))) => Some(*term),
            _ => None,
        }
    }

    /// An argument guaranteed by the handler's arity.
    pub(crate) fn word(&self, index: usize) -> Term {
        self.scalar(index).expect("handlers are called with as many words as their arity says")
    }

    /// An argument whose value is known.
    pub(crate) fn known(&self, terms: &Terms, index: usize) -> Option<u64> {
        terms.constant(self.scalar(index)?)
    }
}

/// The outcome of a known function.
pub(crate) enum Reply {
    /// Returns, with a value if it has one.
    Returns(Option<Value>),
    /// It is not a known function with these arguments.
    Unknown,
    /// Ends the process, after running exit handlers.
    EndsProcess,
}

impl Reply {
    pub(crate) const NONE: Reply = Reply::Returns(None);

    pub(crate) fn scalar(term: Term) -> Reply {
        Reply::Returns(Some(Value::Scalar(term)))
    }
}

/// Executes a call.
pub(crate) type Handle = for<'m, 'c> fn(&mut Machine<'m>, &mut Invocation<'c>) -> Flow<Reply>;

/// A row of a table: the functions' names, the number of leading arguments that must be numbers or addresses (with
/// fewer the function is unknown), and the handler.
pub(crate) type Handler = (&'static [&'static str], usize, Handle);

/// Finds the handler for a call in a table.
pub(crate) fn find(table: &[Handler], call: &Invocation<'_>) -> Option<Handle> {
    let fits = |(names, arity, _): &&Handler| {
        names.contains(&call.name) && (0..*arity).all(|index| call.scalar(index).is_some())
    };
    table.iter().find(fits).map(|(_, _, handle)| *handle)
}
