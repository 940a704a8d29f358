//! The graph of one function, with what its values point to.

use rustc_hash::FxHashMap;

use super::graph::{Cell, Flags, Graph};
use crate::expression::{Expression, Expressions, Form};
use crashproof_frontend::program::ir::{FunctionId, Operand};

/// The graph of one function.
#[derive(Default, Debug)]
pub(crate) struct FunctionGraph {
    pub(crate) graph: Graph,
    /// What each value points to, if it was used as a pointer.
    pub(crate) values: FxHashMap<Operand, Cell>,
    /// What a returned pointer points to.
    pub(crate) result: Option<Cell>,
}

impl FunctionGraph {
    /// What a value points to, created if necessary.
    pub(crate) fn value(&mut self, operand: Operand) -> Cell {
        if let Some(known) = self.lookup(operand) {
            return known;
        }
        let cell = match operand {
            Operand::Global(id, offset) => {
                let cell = self.graph.global(id, Flags::default());
                return Cell { node: cell.node, offset: cell.offset + offset };
            }
            _ => self.graph.node(Flags::default()),
        };
        if let Operand::Function(id) = operand {
            self.graph.add_function(cell, id);
        }
        self.values.insert(operand, cell);
        cell
    }

    /// What a value points to, if known.
    pub(crate) fn lookup(&self, operand: Operand) -> Option<Cell> {
        match operand {
            Operand::Global(id, offset) => {
                let cell = self.graph.global_cell(id)?;
                Some(Cell { node: cell.node, offset: cell.offset + offset })
            }
            _ => self.values.get(&operand).copied(),
        }
    }

    /// The cell that contains an address, expressed in terms of function `id`, whose graph this is.
    pub(crate) fn cell(&self, all: &Expressions, id: FunctionId, address: Expression) -> Option<Cell> {
        match all.form(address) {
            Form::Parameter(number) => self.lookup(Operand::Parameter(number)),
            Form::Global(id) => self.lookup(Operand::Global(id, 0)),
            Form::Local(function, number) if function == id => self.lookup(Operand::Instruction(number)),
            Form::Plus(inner, offset) => {
                let cell = self.cell(all, id, inner)?;
                Some(Cell { node: cell.node, offset: cell.offset + offset })
            }
            Form::Element(inner, ..) => self.cell(all, id, inner),
            Form::Content(address) => self.graph.edge(self.cell(all, id, address)?),
            _ => None,
        }
    }

    /// Pairs a call's arguments and result with the callee's parameters and result.
    pub(super) fn pairs(
        &mut self,
        callee: &FunctionGraph,
        call: u32,
        arguments: &[Operand],
    ) -> Vec<(Cell, Cell)> {
        let mut pairs = Vec::new();
        for (parameter, argument) in (0..).zip(arguments) {
            if matches!(argument, Operand::Int(_) | Operand::Undefined) {
                continue;
            }
            if let Some(theirs) = callee.values.get(&Operand::Parameter(parameter)) {
                pairs.push((self.value(*argument), *theirs));
            }
        }
        if let Some(theirs) = callee.result {
            pairs.push((self.value(Operand::Instruction(call)), theirs));
        }
        for (id, theirs) in callee.graph.globals() {
            let flags = callee.graph.flags(theirs);
            pairs.push((self.graph.global(id, flags), theirs));
        }
        pairs
    }
}
