//! What operands are, and which values are known how well.

use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{Block, Constant, FunctionId, Initial, Operand};
use crashproof_prove::term::{Node, Term};
use rustc_hash::FxHashSet;

use crate::machine::Machine;
use crate::paths::Frame;
use crate::value::{self, Value};

/// Functions are told apart by addresses in a region of their own.
const FUNCTION_BASE: u64 = 1 << 22;
const FUNCTION_STEP: u64 = 16;

impl Machine<'_> {
    /// The value of an operand; the error says what is not supported.
    pub(crate) fn operand(&mut self, frame: &Frame, operand: &Operand) -> Result<Value, String> {
        match operand {
            Operand::Local(id) => {
                frame.values[id.0 as usize].clone().ok_or_else(|| "a value that was never made".to_owned())
            }
            Operand::Constant(constant) => self.constant(constant),
        }
    }

    pub(crate) fn scalar(&mut self, frame: &Frame, operand: &Operand) -> Result<Term, String> {
        match self.operand(frame, operand)? {
            Value::Scalar(term) => Ok(term),
            Value::Members(_) => Err("a structure where a number is expected".into()),
        }
    }

    pub(crate) fn constant(&mut self, constant: &Constant) -> Result<Value, String> {
        let term = match constant {
            Constant::Int { bits, value } | Constant::Float { bits, value } => {
                self.terms.number(*value, *bits as u8)
            }
            Constant::Null => self.terms.number(0, 64),
            Constant::Zero(ty) => return value::build(ty, &mut |bits| self.terms.number(0, bits)),
            Constant::Undefined(ty) => {
                return value::build(ty, &mut |bits| self.terms.symbol("undefined", bits));
            }
            Constant::Global(id, distance) => {
                let global = self.module.global(*id);
                if global.size == 0 && global.initial.is_none() {
                    return Err(format!("global `{}`, which is not defined here", global.name));
                }
                let object = self.global(*id);
                let address = self.objects.get(object).address.wrapping_add_signed(*distance);
                self.terms.number(address, 64)
            }
            Constant::Function(function) => self.terms.number(function_address(*function), 64),
            Constant::Aggregate(_, members) => {
                let members = members.iter().map(|member| self.constant(member));
                return Ok(Value::Members(members.collect::<Result<_, _>>()?));
            }
            Constant::Unsupported(what) => return Err(format!("{what} is not supported")),
        };
        Ok(Value::Scalar(term))
    }

    /// The function at an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<FunctionId> {
        let distance = address.checked_sub(FUNCTION_BASE)?;
        let index = distance / FUNCTION_STEP;
        (distance % FUNCTION_STEP == 0 && index < self.module.functions.len() as u64)
            .then_some(FunctionId(index as u32))
    }

    /// Functions whose address is used other than to call them, with so many parameters.
    pub(crate) fn address_taken(&self, parameters: usize) -> Vec<FunctionId> {
        let mut found = FxHashSet::default();
        let mut note = |constant: &Constant| {
            if let Constant::Function(function) = constant {
                found.insert(*function);
            }
        };
        for global in &self.module.globals {
            for (_, piece) in global.initial.iter().flatten() {
                if let Initial::Address(constant) = piece {
                    note(constant);
                }
            }
        }
        for function in &self.module.functions {
            for operand in function.blocks.iter().flat_map(Block::operands) {
                if let Operand::Constant(constant) = operand {
                    note(constant);
                }
            }
        }
        let mut found: Vec<FunctionId> =
            found.into_iter().filter(|id| self.module.function(*id).parameters.len() == parameters).collect();
        found.sort();
        found
    }

    /// The address of a function.
    pub(crate) fn function_term(&mut self, function: FunctionId) -> Term {
        self.terms.number(function_address(function), 64)
    }

    /// A value that is not known because something is not modelled. It matters only where it is used.
    pub(crate) fn imprecise(&mut self, bits: u8, why: &str) -> Term {
        if self.options.approximate {
            return self.terms.symbol("input", bits);
        }
        let symbol = self.terms.symbol("not modelled", bits);
        self.imprecise.insert(symbol, why.into());
        symbol
    }

    /// Why a term depends on something that is not modelled, if it does.
    pub(crate) fn why_imprecise(&mut self, term: Term) -> Option<Rc<str>> {
        if self.imprecise.is_empty() {
            return None;
        }
        let mut stack = vec![term];
        while let Some(&top) = stack.last() {
            if self.checked.contains_key(&top) {
                stack.pop();
                continue;
            }
            let own = self.imprecise.get(&top).cloned();
            let operands: Vec<Term> = self.terms.operands(top).collect();
            let open: Vec<Term> =
                operands.iter().copied().filter(|t| !self.checked.contains_key(t)).collect();
            if open.is_empty() {
                let inherited = operands.iter().find_map(|t| self.checked[t].clone());
                self.checked.insert(top, own.or(inherited));
                stack.pop();
            } else {
                stack.extend(open);
            }
        }
        self.checked[&term].clone()
    }

    /// A fresh symbol for what an event reads.
    pub(crate) fn read_symbol(&mut self, bits: u8) -> Term {
        let symbol = self.terms.symbol("read", bits);
        self.readers.insert(symbol, self.who);
        symbol
    }

    /// Whether a term uses something that another thread read.
    pub(crate) fn is_foreign(&self, term: Term) -> bool {
        let mut seen = FxHashSet::default();
        let mut stack = vec![term];
        while let Some(term) = stack.pop() {
            if !seen.insert(term) {
                continue;
            }
            if matches!(self.terms.node(term), Node::Symbol(_))
                && self.readers.get(&term).is_some_and(|reader| *reader != self.who)
            {
                return true;
            }
            stack.extend(self.terms.operands(term));
        }
        false
    }
}

/// Where a function is.
pub(crate) fn function_address(function: FunctionId) -> u64 {
    FUNCTION_BASE + u64::from(function.0) * FUNCTION_STEP
}
