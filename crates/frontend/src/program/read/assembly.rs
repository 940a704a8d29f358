//! Inline assembly, as the assembly reader understands it.

use super::reader::{Context, Reader};
use crate::asm::{self, Access, Address, Effect};
use crate::llvm::Value;
use crate::program::ir::*;
use crashproof_protocol::abi::asm::{LOCKED, NONTEMPORAL, WRITE};
use px86::order::Class;

/// A statement being translated.
struct Statement<'r, 'm> {
    reader: &'r mut Reader<'m>,
    call: Value<'m>,
    context: &'r Context<'m>,
    operands: Vec<asm::Operand>,
    /// Bytes of each operand, where known.
    sizes: Vec<Option<u32>>,
    /// The number of the first instruction.
    first: u32,
    ops: Vec<Op>,
}

impl<'m> Reader<'m> {
    /// The instructions for a statement, numbered from `first`. The first one is its result, if it has one.
    pub(crate) fn asm_call(&mut self, call: Value<'m>, context: &Context<'m>, first: u32) -> Vec<Op> {
        let text = call.asm_text();
        let operands = asm::operands(&text.constraints);
        let sizes: Vec<Option<u32>> =
            operands.iter().map(|operand| self.operand_bytes(call, operand)).collect();
        let read = asm::read(&text.template, text.intel, &operands, &sizes);
        let mut statement =
            Statement { reader: self, call, context, operands, sizes, first, ops: Vec::new() };
        if !call.ty().is_void() {
            statement.ops.push(Op::Other);
        }
        let done = read.and_then(|summary| statement.summary(&summary));
        let mut ops = statement.ops;
        if let Err(why) = done {
            let text = text.template.split_whitespace().collect::<Vec<_>>().join(" ");
            let what = format!("inline assembly ({why}): `{text}`");
            ops.push(Op::NotUnderstood { what, pointers: Vec::new() });
        }
        if ops.is_empty() {
            ops.push(Op::Other);
        }
        ops
    }

    fn operand_bytes(&self, call: Value<'m>, operand: &asm::Operand) -> Option<u32> {
        let argument = operand.argument? as u32;
        let ty = if operand.memory {
            call.argument_type_attribute(argument, "elementtype")?
        } else {
            call.operand(argument).ty()
        };
        ty.is_sized().then(|| self.module.store_size(ty) as u32)
    }
}

impl Statement<'_, '_> {
    fn summary(&mut self, summary: &asm::Summary) -> Result<(), String> {
        summary.before.iter().try_for_each(|effect| self.effect(effect))?;
        summary.accesses.iter().try_for_each(|access| self.access(access))?;
        summary.after.iter().try_for_each(|effect| self.effect(effect))
    }

    fn effect(&mut self, effect: &Effect) -> Result<(), String> {
        let op = match effect {
            Effect::Flush(flush, at) => Op::Flush { address: self.address(at)?, class: flush.class() },
            Effect::Sfence => Op::Fence { class: Class::StoreFence },
            Effect::Mfence => Op::Fence { class: Class::Fence },
            Effect::Pause => return Ok(()),
        };
        self.ops.push(op);
        Ok(())
    }

    fn access(&mut self, access: &Access) -> Result<(), String> {
        let whole = match access.address {
            Address::Memory { operand, displacement: 0 } => self.sizes[operand],
            _ => None,
        };
        let bytes = access.bytes.max(whole).ok_or("an access of unknown size")?.into();
        let (address, value) = (self.address(&access.address)?, Operand::Undefined);
        self.ops.push(if access.flags & LOCKED != 0 {
            Op::Locked { address, value, bytes, expected: None }
        } else if access.flags & WRITE != 0 {
            Op::Store { address, value, bytes, nontemporal: access.flags & NONTEMPORAL != 0 }
        } else {
            Op::Load { address, bytes }
        });
        Ok(())
    }

    /// The value of an operand before the statement runs.
    fn input(&mut self, operand: usize) -> Result<Operand, String> {
        let argument = asm::input_argument(&self.operands, operand).ok_or("an address that is no input")?;
        Ok(self.reader.operand(self.call.operand(argument as u32), self.context))
    }

    /// An address: base, displacement and scaled index.
    fn address(&mut self, address: &Address) -> Result<Operand, String> {
        let (base, index, displacement) = match *address {
            Address::Memory { operand, displacement } => (Some(operand), None, displacement),
            // An unscaled index is equivalent to a base.
            Address::Computed { base: None, index: Some(index), scale: 1, displacement } => {
                (Some(index), None, displacement)
            }
            Address::Computed { base, index, scale, displacement } => {
                (base, index.map(|index| (index, scale)), displacement)
            }
        };
        let base = self.input(base.ok_or("an address without a base")?)?;
        if index.is_none() && displacement == 0 {
            return Ok(base);
        }
        let index = match index {
            Some((index, scale)) => vec![(self.input(index)?, i64::from(scale))],
            None => Vec::new(),
        };
        self.ops.push(Op::Offset { base, offset: displacement, index, within: None });
        Ok(Operand::Instruction(self.first + self.ops.len() as u32 - 1))
    }
}
