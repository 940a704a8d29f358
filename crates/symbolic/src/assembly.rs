//! Inline assembly, as the front end reads it.

use crashproof_frontend::asm::{self as asm, Address, Effect, Flush, Operand};
use crashproof_frontend::bitcode::ir::{Assembly, Type};
use crashproof_prove::term::{Binary, Term};

use crate::frame::At;
use crate::machine::{Flow, Machine};
use crate::state::State;
use crate::value::Value;

impl Machine<'_> {
    pub(crate) fn assembly(
        &mut self,
        assembly: &Assembly,
        arguments: Vec<Option<Value>>,
        ty: &Type,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Option<Value>> {
        let operands = asm::operands(&assembly.constraints);
        let sizes: Vec<Option<u32>> = operands
            .iter()
            .map(|operand| {
                let argument = operand.argument?;
                match (operand.memory, arguments.get(argument)) {
                    (true, _) => assembly.memory.get(argument).copied().flatten().map(|bytes| bytes as u32),
                    (false, Some(Some(Value::Scalar(term)))) => Some(u32::from(self.terms.width(*term)) / 8),
                    _ => None,
                }
            })
            .collect();
        let text = assembly.template.trim().replace(['\n', '\t'], " ");
        let summary = match asm::read(&assembly.template, assembly.intel, &operands, &sizes) {
            Ok(summary) => summary,
            Err(what) => {
                return Err(self.refuse(state, &format!("inline assembly with {what} is not modeled"), at));
            }
        };
        if !summary.accesses.is_empty() {
            let reason = format!("inline assembly that reads or writes memory, `{text}`, is not modeled");
            return Err(self.refuse(state, &reason, at));
        }
        for effect in summary.before.iter().chain(&summary.after) {
            match effect {
                Effect::Flush(flush, address) => {
                    let Some(address) = self.asm_address(&operands, address, &arguments) else {
                        return Err(self.refuse(state, &format!("the address in `{text}` is not known"), at));
                    };
                    self.flush(state, address, *flush != Flush::Clflush, at)?;
                }
                Effect::Sfence => self.store_fence(state, at)?,
                Effect::Mfence => self.fence(state, at)?,
                Effect::Pause => {}
            }
        }
        if *ty == Type::Void {
            return Ok(None);
        }
        // A statement without instructions passes its inputs through: a way to hide a value from the compiler.
        if text.is_empty() {
            let tied = asm::input_argument(&operands, 0);
            if let Some(value) = tied.and_then(|argument| arguments.get(argument).cloned().flatten()) {
                return Ok(Some(value));
            }
        }
        self.unmodeled(state, ty, &format!("the result of inline assembly `{text}`"), at)
    }

    fn asm_address(
        &mut self,
        operands: &[Operand],
        address: &Address,
        arguments: &[Option<Value>],
    ) -> Option<Term> {
        let value = |operand: usize| match arguments.get(asm::input_argument(operands, operand)?)? {
            Some(Value::Scalar(term)) => Some(*term),
            _ => None,
        };
        match address {
            Address::Memory { operand, displacement } => {
                let base = value(*operand)?;
                Some(self.offset(base, *displacement as u64))
            }
            Address::Computed { base, index, scale, displacement } => {
                let mut sum = self.terms.number(*displacement as u64, 64);
                if let Some(base) = base {
                    let base = value(*base)?;
                    sum = self.terms.binary(Binary::Add, base, sum);
                }
                if let Some(index) = index {
                    let index = value(*index)?;
                    let scale = self.terms.number((*scale).into(), 64);
                    let scaled = self.terms.binary(Binary::Mul, index, scale);
                    sum = self.terms.binary(Binary::Add, sum, scaled);
                }
                Some(sum)
            }
        }
    }
}
