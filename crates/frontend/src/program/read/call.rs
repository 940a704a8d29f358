//! Calls of functions and intrinsics, translated according to the table of meaning.

use super::effects::lower;
use super::reader::{Context, Reader};
use crate::llvm::{CallClass, Value};
use crate::meaning::{self, Meaning, Operation, Returns};
use crate::program::ir::*;

impl<'m> Reader<'m> {
    /// The instructions for a call, numbered from `first`.
    pub(crate) fn call(&mut self, call: Value<'m>, context: &Context<'m>, first: u32) -> Vec<Op> {
        match call.call_class() {
            CallClass::Asm => self.asm_call(call, context, first),
            CallClass::Intrinsic => self.intrinsic(call, context, first),
            CallClass::Function => self.function_call(call, context, first),
        }
    }

    fn function_call(&mut self, call: Value<'m>, context: &Context<'m>, first: u32) -> Vec<Op> {
        let arguments: Vec<Operand> =
            (0..call.argument_count()).map(|number| self.escaping(call.operand(number), context)).collect();
        let callee = match self.operand(call.callee(), context) {
            Operand::Function(id) => Callee::Direct(id),
            other => return vec![Op::Call { callee: Callee::Indirect(other), arguments }],
        };
        let Callee::Direct(id) = callee else { unreachable!("decided above") };
        let name = self.program.function(id).name.clone();
        // A function defined by the program is never the C library's, whatever its name.
        let library = if call.callee().is_declaration() { meaning::library(&name) } else { None };
        match library {
            // Functions that only read may still be described for their result.
            Some(function) if function.writes() || self.apis.meaning(&name).is_none() => {
                let meaning = (function.effects, function.returns);
                lower(self.module, call, &name, &arguments, first, meaning)
            }
            _ => vec![Op::Call { callee, arguments }],
        }
    }

    fn intrinsic(&mut self, call: Value<'m>, context: &Context<'m>, first: u32) -> Vec<Op> {
        let name = call.callee().name();
        let arguments: Vec<Operand> =
            (0..call.argument_count()).map(|number| self.operand(call.operand(number), context)).collect();
        // `simplifycfg` turns switches over flags into this.
        let count = |what| Op::Arithmetic { what, left: arguments[0], right: Operand::Int(0) };
        let op = match meaning::intrinsic(&name) {
            Meaning::Effects(effects) => {
                return lower(self.module, call, &name, &arguments, first, (effects, Returns::Anything));
            }
            Meaning::Value(Operation::Same | Operation::MaskPointer) => Op::Copy { value: arguments[0] },
            Meaning::Value(Operation::CountOnes) if call.ty().is_integer() => count(Arithmetic::Ones),
            Meaning::Value(Operation::TrailingZeros) if call.ty().is_integer() => count(Arithmetic::Zeros),
            Meaning::NotUnderstood if call.touches_memory() => {
                let is_pointer = |number: &u32| call.operand(*number).ty().is_pointer();
                let pointers = (0..call.argument_count()).filter(is_pointer);
                let pointers = pointers.map(|number| arguments[number as usize]).collect();
                Op::NotUnderstood { what: name, pointers }
            }
            // Hints, irrelevant values, and intrinsics that LLVM declares not to access memory.
            _ => Op::Other,
        };
        vec![op]
    }
}
