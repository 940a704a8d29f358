//! Operands of instructions, and functions as values.

use crashproof_frontend::bitcode::ir::{Block, Constant, FunctionId, Initial, Operand, Type};
use crashproof_prove::term::Term;
use rustc_hash::FxHashSet;

use crate::frame::{Frame, Step};
use crate::machine::{Flow, Machine};
use crate::objects::{self, function_address};
use crate::value::{self, Value};

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

    /// The value of an operand of the current instruction; if it is not supported, the path ends.
    pub(crate) fn value_of(&mut self, step: &mut Step<'_>, operand: &Operand) -> Flow<Value> {
        self.operand(step.frame, operand).map_err(|what| self.refuse(step.state, &what, step.at))
    }

    /// The same for an operand that must be a number or an address.
    pub(crate) fn word_of(&mut self, step: &mut Step<'_>, operand: &Operand) -> Flow<Term> {
        self.scalar(step.frame, operand).map_err(|what| self.refuse(step.state, &what, step.at))
    }

    /// The function at an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<FunctionId> {
        objects::function_at(address).filter(|id| (id.0 as usize) < self.module.functions.len())
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

    /// Whether a function can be called with these arguments for a result of this type. A call through a pointer of a
    /// different type is undefined, and its values would have the wrong widths.
    pub(crate) fn fits_call(&self, function: FunctionId, arguments: &[Option<Value>], result: &Type) -> bool {
        let code = self.module.function(function);
        let fits = |(argument, (_, ty)): (&Option<Value>, &(_, Type))| match argument {
            Some(Value::Scalar(term)) => value::bits(ty) == Some(self.terms.width(*term)),
            Some(Value::Members(_)) => value::members(ty).is_some(),
            None => true,
        };
        (*result == Type::Void || code.result == *result)
            && code.parameters.len() <= arguments.len()
            && arguments.iter().zip(&code.parameters).all(fits)
    }

    /// Functions whose address is taken, and which can be called this way.
    pub(crate) fn address_taken(&self, arguments: &[Option<Value>], result: &Type) -> Vec<FunctionId> {
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
        let fits = |id: &FunctionId| {
            self.module.function(*id).parameters.len() == arguments.len()
                && self.fits_call(*id, arguments, result)
        };
        let mut found: Vec<FunctionId> = found.into_iter().filter(fits).collect();
        found.sort();
        found
    }
}
