//! Applies the results of the assembly reader: inline assembly becomes runtime calls, or is surrounded by them.

use crashproof_frontend::asm::{self as asm, Access, Address, Effect, Operand, Summary};
use crashproof_protocol::abi::asm::LOCKED;
use crashproof_protocol::abi::kind;

use crate::instrument::Instrumenter;
use crate::order::flush_call;
use crate::sites::What;
use crashproof_frontend::llvm::{Opcode, Value};

impl<'m> Instrumenter<'m> {
    pub(crate) fn assembly(&mut self, call: Value<'m>) {
        let text = call.asm_text();
        let operands = asm::operands(&text.constraints);
        match asm::nondeterminism(&text.template, text.intel, &operands) {
            Some(Ok(given)) if call.opcode() == Opcode::LLVMCall => self.use_repeatable(call, &given),
            Some(_) => self.warn(
                call,
                &format!(
                    "inline assembly reads what differs from run to run; checks may not be repeatable: `{}`",
                    one_line(&text.template)
                ),
            ),
            None => {}
        }
        let sizes: Vec<Option<u32>> =
            (0..operands.len()).map(|n| self.operand_bytes(call, &operands, n)).collect();
        match asm::read(&text.template, text.intel, &operands, &sizes) {
            Ok(summary)
                if summary.before.is_empty() && summary.accesses.is_empty() && summary.after.is_empty() => {}
            Ok(summary) if summary.only_effects && !call.has_uses() && call.opcode() == Opcode::LLVMCall => {
                self.effects_only(call, &operands, &summary, &text.template);
            }
            Ok(_) if call.opcode() != Opcode::LLVMCall => {
                self.not_understood(call, "inline assembly that may jump or throw", &text.template);
            }
            Ok(summary) => self.surround(call, &operands, &summary, &text.template),
            Err(why) => self.not_understood(call, &why, &text.template),
        }
    }

    /// Assembly that the reader does not understand is followed by the runtime: accesses to PM fault, and fences are
    /// found in the finished code. The runtime does not see locked instructions on volatile memory, which also fence,
    /// nor the kernel's accesses.
    fn not_understood(&mut self, call: Value<'m>, why: &str, template: &str) {
        let text = template.to_lowercase();
        if !["lock", "xchg", "syscall", "int ", "int\t", "sysenter"].iter().any(|part| text.contains(part)) {
            return;
        }
        let note = format!("{why}: {}", one_line(template));
        let site = self.sites.of(call, What { kind: kind::UNKNOWN, text: Some(&note), ..What::default() });
        self.warn(
            call,
            &format!(
                "inline assembly is not understood ({why}); once it runs the verdict is UNKNOWN: `{}`",
                one_line(template)
            ),
        );
        self.builder.before(call);
        self.builder.locate(call.debug_location());
        let nowhere = self.module.ptr.null();
        self.runtime.call(&self.builder, "unknown", &[nowhere, site]);
    }

    /// Flushes and fences alone. On PM the assembly does not run at all: the machine need not have the
    /// instruction.
    fn effects_only(&mut self, call: Value<'m>, operands: &[Operand], summary: &Summary, template: &str) {
        let mut pm = None;
        for effect in &summary.before {
            let Effect::Flush(_, address) = effect else { continue };
            let Some(pointer) = self.address(call, operands, address) else {
                self.not_understood(call, "an address that is no input", template);
                return;
            };
            if !self.is_volatile_memory(pointer) {
                let this = self.is_pm(pointer, call);
                pm = Some(pm.map_or(this, |other| self.builder.or(other, this)));
            }
        }
        let fences = |effect: &&Effect| !matches!(effect, Effect::Flush(..));
        let Some(pm) = pm else {
            self.builder.before(call);
            self.builder.locate(call.debug_location());
            let all_fences = summary.before.iter().all(|effect| fences(&effect));
            for effect in summary.before.iter().filter(fences) {
                self.effect(call, operands, effect);
            }
            // A pause is kept: the hardware benefits from it.
            if all_fences && !summary.before.contains(&Effect::Pause) {
                self.erase(call);
            }
            return;
        };
        let usual = self.divert(call, pm, |this| {
            for effect in &summary.before {
                this.effect(call, operands, effect);
            }
            None
        });
        self.builder.before(usual);
        for effect in summary.before.iter().filter(fences) {
            self.effect(call, operands, effect);
        }
    }

    /// Assembly that accesses memory is kept, between calls to the runtime.
    fn surround(&mut self, call: Value<'m>, operands: &[Operand], summary: &Summary, template: &str) {
        let mut ranges = Vec::new();
        for access in &summary.accesses {
            let Some(pointer) = self.address(call, operands, &access.address) else {
                self.not_understood(call, "an address that is no input", template);
                return;
            };
            let bytes = access.bytes.max(self.memory_bytes(call, operands, access));
            let Some(bytes) = bytes else {
                self.not_understood(call, "an access of unknown size", template);
                return;
            };
            ranges.push((pointer, bytes, access.flags));
        }
        let Some(next) = call.next() else { return };
        let text = one_line(template);
        let site = self.sites.of(call, What { kind: kind::ASM, text: Some(&text), ..What::default() });
        self.builder.before(call);
        self.builder.locate(call.debug_location());
        for effect in &summary.before {
            self.effect(call, operands, effect);
        }
        let mut locked_elsewhere = None;
        for (pointer, bytes, flags) in ranges {
            if self.is_volatile_memory(pointer) {
                if flags & LOCKED != 0 {
                    locked_elsewhere = Some((self.module.i1.number(1), pointer));
                }
                continue;
            }
            let pm = self.is_pm(pointer, call);
            let arguments = |this: &Self| {
                [pointer, this.module.i64.number(bytes.into()), this.module.i32.number(flags.into()), site]
            };
            for (place, name) in [(call, "asm_before"), (next, "asm_after")] {
                let rare = place.split_then(pm);
                self.builder.before(rare);
                self.builder.locate(call.debug_location());
                let arguments = arguments(self);
                self.runtime.call(&self.builder, name, &arguments);
            }
            if flags & LOCKED != 0 {
                self.builder.before(next);
                locked_elsewhere = Some((self.builder.equal(pm, self.module.i1.number(0)), pointer));
            }
        }
        self.builder.locate(call.debug_location());
        if let Some((elsewhere, pointer)) = locked_elsewhere {
            let branch = next.split_then(elsewhere);
            self.builder.before(branch);
            let stored = self.module.i32.number(1);
            self.runtime.call(&self.builder, "locked", &[pointer, stored, site]);
        }
        self.builder.before(next);
        for effect in &summary.after {
            self.effect(call, operands, effect);
        }
    }

    /// Calls the runtime for a flush or fence, at the builder's position.
    fn effect(&mut self, call: Value<'m>, operands: &[Operand], effect: &Effect) {
        let (name, kind) = match effect {
            Effect::Flush(flush, _) => flush_call(*flush),
            Effect::Sfence => ("sfence", kind::SFENCE),
            Effect::Mfence => ("mfence", kind::MFENCE),
            Effect::Pause => ("sync", kind::PAUSE),
        };
        let site = self.sites.of(call, What { kind, ..What::default() });
        let mut arguments = vec![site];
        if let Effect::Flush(_, address) = effect
            && let Some(pointer) = self.address_here(call, operands, address)
        {
            arguments.insert(0, pointer);
        } else if *effect == Effect::Pause {
            arguments.insert(0, self.module.ptr.null());
        }
        self.runtime.call(&self.builder, name, &arguments);
    }

    /// The pointer an address stands for, computed before the assembly.
    fn address(&mut self, call: Value<'m>, operands: &[Operand], address: &Address) -> Option<Value<'m>> {
        self.builder.before(call);
        self.builder.locate(call.debug_location());
        self.address_here(call, operands, address)
    }

    fn address_here(
        &mut self,
        call: Value<'m>,
        operands: &[Operand],
        address: &Address,
    ) -> Option<Value<'m>> {
        let (i8, i64, ptr) = (self.module.i8, self.module.i64, self.module.ptr);
        let value = |operand| Some(call.operand(asm::input_argument(operands, operand)? as u32));
        match *address {
            Address::Memory { operand, displacement: 0 } => value(operand),
            Address::Memory { operand, displacement } => {
                Some(self.builder.offset(i8, value(operand)?, i64.number(displacement as u64)))
            }
            Address::Computed { base: Some(base), index: None, displacement: 0, .. }
                if value(base)?.ty().is_pointer() =>
            {
                value(base)
            }
            Address::Computed { base, index, scale, displacement } => {
                let mut sum = i64.number(displacement as u64);
                for (operand, factor) in [(base, 1), (index, u64::from(scale))] {
                    let Some(operand) = operand else { continue };
                    let value = value(operand)?;
                    let number = if value.ty().is_pointer() {
                        self.builder.ptr_to_int(value, i64)
                    } else if value.ty().is_integer() && value.ty().int_bits() == 64 {
                        value
                    } else {
                        return None;
                    };
                    let scaled = self.builder.multiply(number, i64.number(factor));
                    sum = self.builder.add(sum, scaled);
                }
                Some(self.builder.int_to_ptr(sum, ptr))
            }
        }
    }

    /// Bytes of the value of an operand that is not memory.
    fn operand_bytes(&self, call: Value<'m>, operands: &[Operand], number: usize) -> Option<u32> {
        let operand = &operands[number];
        if operand.memory {
            return None;
        }
        let ty = match asm::input_argument(operands, number) {
            Some(argument) => call.operand(argument as u32).ty(),
            None => call.ty(),
        };
        let scalar = ty.is_integer() || ty.is_pointer() || ty.is_fixed_vector();
        scalar.then(|| self.module.store_size(ty) as u32)
    }

    /// Bytes of a memory operand.
    fn memory_bytes(&self, call: Value<'m>, operands: &[Operand], access: &Access) -> Option<u32> {
        let Address::Memory { operand, displacement: 0 } = access.address else { return None };
        let argument = operands[operand].argument? as u32;
        let ty = call.argument_type_attribute(argument, "elementtype")?;
        ty.is_sized().then(|| self.module.store_size(ty) as u32)
    }
}

fn one_line(template: &str) -> String {
    template.split_whitespace().collect::<Vec<_>>().join(" ")
}
