//! Calls: of functions, of intrinsics, and inline assembly.

use crate::asm::{self, Address, Effect, Flush};
use crate::llvm::{CallClass, Value};
use crashproof_protocol::abi::asm::{LOCKED, NONTEMPORAL, WRITE};
use px86::order::Class;

use super::{Context, Reader};
use crate::program::ir::*;

impl Reader<'_> {
    pub(super) fn call(
        &mut self,
        call: Value,
        context: &Context,
        place: PlaceId,
        out: &mut Vec<Instruction>,
    ) {
        let op = match call.call_class() {
            CallClass::Asm => {
                self.asm_call(call, context, place, out);
                return;
            }
            CallClass::Intrinsic => self.intrinsic(call, context, place),
            CallClass::Function => {
                let arguments: Vec<Operand> = (0..call.argument_count())
                    .map(|number| self.escaping(call.operand(number), context))
                    .collect();
                let callee = match self.operand(call.callee(), context) {
                    Operand::Function(id) => Callee::Direct(id),
                    other => Callee::Indirect(other),
                };
                self.library(callee, &arguments).unwrap_or(Op::Call { callee, arguments })
            }
        };
        out.push(Instruction { op, place });
    }

    /// Functions of the C library that fill memory, as the instructions they stand for.
    pub(super) fn library(&self, callee: Callee, arguments: &[Operand]) -> Option<Op> {
        let Callee::Direct(id) = callee else { return None };
        let name = self.program.function(id).name.as_str();
        let bulk = |source: Option<usize>, value: Operand, length: Operand| Op::Bulk {
            target: arguments[0],
            source: source.map(|number| arguments[number]),
            value,
            length,
        };
        Some(match (name, arguments.len()) {
            (
                "memcpy" | "memmove" | "__memcpy" | "__memmove" | "__memcpy_chk" | "__memmove_chk"
                | "strncpy" | "__strncpy_chk",
                3..,
            ) => bulk(Some(1), Operand::Undefined, arguments[2]),
            ("memset" | "__memset" | "__memset_chk", 3..) => bulk(None, arguments[1], arguments[2]),
            ("strcpy" | "__strcpy_chk" | "stpcpy", 2..) => {
                bulk(Some(1), Operand::Undefined, Operand::Undefined)
            }
            ("bzero", 2..) => bulk(None, Operand::Int(0), arguments[1]),
            _ => return None,
        })
    }

    pub(super) fn intrinsic(&mut self, call: Value, context: &Context, place: PlaceId) -> Op {
        let name = call.callee().name();
        let mut argument = |number: u32| self.operand(call.operand(number), context);
        match name.as_str() {
            "llvm.x86.sse2.clflush" => Op::Flush { address: argument(0), class: Class::Flush },
            "llvm.x86.clflushopt" | "llvm.x86.clwb" => {
                Op::Flush { address: argument(0), class: Class::FlushOpt }
            }
            "llvm.x86.sse.sfence" => Op::Fence { class: Class::StoreFence },
            "llvm.x86.sse2.mfence" => Op::Fence { class: Class::Fence },
            "llvm.x86.directstore32" | "llvm.x86.directstore64" => Op::Store {
                address: argument(0),
                value: argument(1),
                bytes: if name.ends_with("64") { 8 } else { 4 },
                nontemporal: true,
            },
            "llvm.x86.movdir64b" => {
                Op::Store { address: argument(0), value: Operand::Undefined, bytes: 64, nontemporal: true }
            }
            _ if name.starts_with("llvm.memcpy") || name.starts_with("llvm.memmove") => Op::Bulk {
                target: argument(0),
                source: Some(argument(1)),
                value: Operand::Undefined,
                length: argument(2),
            },
            _ if name.starts_with("llvm.memset") => {
                Op::Bulk { target: argument(0), source: None, value: argument(1), length: argument(2) }
            }
            // How a switch over flags is written after `simplifycfg`.
            _ if name.starts_with("llvm.ctpop.i") => {
                Op::Arithmetic { what: Arithmetic::Ones, left: argument(0), right: Operand::Int(0) }
            }
            _ if name.starts_with("llvm.cttz.i") => {
                Op::Arithmetic { what: Arithmetic::Zeros, left: argument(0), right: Operand::Int(0) }
            }
            _ if name.starts_with("llvm.launder.")
                || name.starts_with("llvm.strip.")
                || name.starts_with("llvm.ptrmask.")
                || name.starts_with("llvm.threadlocal.address")
                || name.starts_with("llvm.expect")
                || name.starts_with("llvm.ptr.annotation") =>
            {
                Op::Copy { value: argument(0) }
            }
            _ if name.starts_with("llvm.masked.store") || name.starts_with("llvm.masked.scatter") => {
                self.not_understood(place, "a masked store");
                Op::Other
            }
            _ => Op::Other,
        }
    }

    pub(super) fn asm_call(
        &mut self,
        call: Value,
        context: &Context,
        place: PlaceId,
        out: &mut Vec<Instruction>,
    ) {
        let summary = match self.assembly(call) {
            Ok(summary) => summary,
            Err(why) => {
                let text = call.asm_text().template.split_whitespace().collect::<Vec<_>>().join(" ");
                self.not_understood(place, &format!("inline assembly ({why}): `{text}`"));
                return;
            }
        };
        let operands = asm::operands(&call.asm_text().constraints);
        let address = |this: &mut Self, address: &Address| {
            let number = match address {
                Address::Memory { operand, displacement: 0 } => *operand,
                Address::Computed { base: Some(base), index: None, displacement: 0, .. } => *base,
                _ => return Operand::Undefined,
            };
            match asm::input_argument(&operands, number) {
                Some(argument) => this.operand(call.operand(argument as u32), context),
                None => Operand::Undefined,
            }
        };
        let effect = |this: &mut Self, effect: &Effect| match effect {
            Effect::Flush(Flush::Clflush, at) => {
                Op::Flush { address: address(this, at), class: Class::Flush }
            }
            Effect::Flush(_, at) => Op::Flush { address: address(this, at), class: Class::FlushOpt },
            Effect::Sfence => Op::Fence { class: Class::StoreFence },
            Effect::Mfence => Op::Fence { class: Class::Fence },
            Effect::Pause => Op::Other,
        };
        for one in &summary.before {
            let op = effect(self, one);
            out.push(Instruction { op, place });
        }
        for access in &summary.accesses {
            let number = match access.address {
                Address::Memory { operand, .. } => Some(operand),
                Address::Computed { base, .. } => base,
            };
            let argument = number.and_then(|number| asm::input_argument(&operands, number));
            let address = argument
                .map_or(Operand::Undefined, |argument| self.operand(call.operand(argument as u32), context));
            let bytes = u64::from(access.bytes.unwrap_or(8));
            let op = if access.flags & LOCKED != 0 {
                Op::Locked { address, value: Operand::Undefined, bytes }
            } else if access.flags & WRITE != 0 {
                let nontemporal = access.flags & NONTEMPORAL != 0;
                Op::Store { address, value: Operand::Undefined, bytes, nontemporal }
            } else {
                Op::Other
            };
            out.push(Instruction { op, place });
        }
        for one in &summary.after {
            let op = effect(self, one);
            out.push(Instruction { op, place });
        }
    }

    pub(super) fn assembly(&self, call: Value) -> Result<asm::Summary, String> {
        let text = call.asm_text();
        let operands = asm::operands(&text.constraints);
        let sizes: Vec<Option<u32>> = operands
            .iter()
            .map(|operand| {
                let argument = operand.argument? as u32;
                let ty = if operand.memory {
                    call.argument_type_attribute(argument, "elementtype")?
                } else {
                    call.operand(argument).ty()
                };
                ty.is_sized().then(|| self.module.store_size(ty) as u32)
            })
            .collect();
        asm::read(&text.template, text.intel, &operands, &sizes)
    }
}
