//! Fences, and intrinsics by what the table of meaning says of them: flushes, block and vector accesses, and what is not
//! understood.

use crashproof_frontend::asm::Given;
use crashproof_frontend::llvm::Value;
use crashproof_frontend::meaning::{
    self, Effect, Extent, Fence, Flush, Lanes, LanesAt, Length, Manner, Mask, Meaning,
};
use crashproof_protocol::abi::kind;

use crate::instrument::Instrumenter;
use crate::lanes::Place;
use crate::sites::What;

/// The function of the runtime that a flush becomes, and the kind of its site.
pub(crate) fn flush_call(flush: Flush) -> (&'static str, u8) {
    match flush {
        Flush::Clflush => ("clflush", kind::CLFLUSH),
        Flush::Clflushopt => ("clflushopt", kind::CLFLUSHOPT),
        Flush::Clwb => ("clwb", kind::CLWB),
    }
}

impl<'m> Instrumenter<'m> {
    /// A fence of the language.
    pub(crate) fn fence(&mut self, fence: Value<'m>) {
        if meaning::fence(fence.ordering(), fence.scope()).is_some() {
            self.replace_by_call(fence, "mfence", kind::MFENCE);
        }
    }

    fn replace_by_call(&mut self, instruction: Value<'m>, name: &str, kind: u8) {
        let site = self.sites.of(instruction, What { kind, ..What::default() });
        self.builder.before(instruction);
        self.builder.locate(instruction.debug_location());
        self.runtime.call(&self.builder, name, &[site]);
        self.erase(instruction);
    }

    fn flush(&mut self, call: Value<'m>, pointer: Value<'m>, flush: Flush) {
        if self.is_volatile_memory(pointer) {
            return;
        }
        let (name, kind) = flush_call(flush);
        let site = self.sites.of(call, What { kind, ..What::default() });
        let pm = self.is_pm(pointer, call);
        self.divert(call, pm, |this| {
            this.runtime.call(&this.builder, name, &[pointer, site]);
            None
        });
    }

    /// Carries out what the table of meaning says of an intrinsic.
    pub(crate) fn intrinsic(&mut self, call: Value<'m>) {
        let name = self.module.intrinsic_name(call);
        match meaning::intrinsic(&name) {
            Meaning::Nothing | Meaning::Value(_) | Meaning::Assume | Meaning::Trap => {}
            Meaning::Effects(effects) => {
                for effect in effects {
                    self.intrinsic_effect(call, &name, *effect);
                }
            }
            Meaning::Pause => {
                self.after(call, What { kind: kind::PAUSE, ..What::default() }, |this, site| {
                    let nowhere = this.module.ptr.null();
                    this.runtime.call(&this.builder, "sync", &[nowhere, site]);
                });
            }
            Meaning::Clock { processor: false } => self.make_repeatable(call, &[Given::Clock]),
            Meaning::Clock { processor: true } => {
                self.make_repeatable(call, &[Given::Clock, Given::Processor]);
            }
            Meaning::Random => self.make_repeatable(call, &[Given::Random, Given::Success]),
            // Programs do not keep a va_list in PM, so this is checked but not worth a warning.
            Meaning::ListStart | Meaning::ListCopy | Meaning::ListEnd => {
                self.other_intrinsic(call, &name, true);
            }
            Meaning::NotUnderstood => self.other_intrinsic(call, &name, false),
        }
    }

    fn intrinsic_effect(&mut self, call: Value<'m>, name: &str, effect: Effect) {
        let argument = |number: u8| call.operand(number.into());
        match effect {
            Effect::Flush { at, flush } => self.flush(call, argument(at), flush),
            Effect::Fence(Fence::Store) => self.replace_by_call(call, "sfence", kind::SFENCE),
            Effect::Fence(Fence::Full) => self.replace_by_call(call, "mfence", kind::MFENCE),
            Effect::Load { from } => self.load_from(call, argument(from), 0),
            Effect::Store { to, value, manner } => {
                self.store_to(call, argument(value), argument(to), 0, manner);
            }
            Effect::Copy { to, from, manner: Manner::NonTemporal, extent } => match extent {
                Extent::Exactly(Length::Constant(bytes)) => {
                    self.direct_copy(call, argument(to), argument(from), bytes);
                }
                _ => self.other_intrinsic(call, name, false),
            },
            Effect::Copy { .. } => {
                let is_move = name.starts_with("llvm.memmove.");
                self.block_copy(call, if is_move { kind::MEMMOVE } else { kind::MEMCPY });
            }
            Effect::Fill { .. } => self.block_fill(call),
            Effect::Lanes(lanes) => self.vector_access(call, name, lanes),
            // Programs do not keep such things in PM: the state of the processor, for instance.
            Effect::Read { .. }
            | Effect::Write { .. }
            | Effect::WriteThrough { .. }
            | Effect::WriteAnywhere
            | Effect::Append { .. } => {
                self.other_intrinsic(call, name, false);
            }
        }
    }

    fn vector_access(&mut self, call: Value<'m>, name: &str, access: Lanes) {
        let argument = |number: u8| call.operand(number.into());
        let address = argument(access.address);
        let place = match (access.at, access.value, access.mask) {
            (LanesAt::Contiguous, ..) => Place::Contiguous(address),
            (LanesAt::Compressed, ..) => Place::Compressed(address),
            (LanesAt::Scattered, ..) => Place::Scattered(address),
            (LanesAt::Indexed { .. }, None, Mask::Signs(_)) => return self.gather_indexed(call),
            (LanesAt::Indexed { .. }, ..) => return self.other_intrinsic(call, name, false),
        };
        if access.manner == Manner::NonTemporal {
            return self.other_intrinsic(call, name, false);
        }
        let mask = match access.mask {
            Mask::Bits(mask) => argument(mask),
            Mask::Signs(mask) => self.sign_mask(call, argument(mask)),
        };
        match access.value {
            Some(value) => self.scatter(call, argument(value), place, mask),
            None => {
                let otherwise = access.otherwise.map_or_else(|| call.ty().null(), argument);
                self.gather(call, place, mask, otherwise);
            }
        }
    }

    /// An intrinsic nothing is known about: harmless if it touches no memory or is given none in PM.
    fn other_intrinsic(&mut self, call: Value<'m>, name: &str, quiet: bool) {
        if !call.touches_memory() {
            return;
        }
        let pointers: Vec<Value<'m>> =
            (0..call.argument_count()).map(|i| call.operand(i)).filter(|v| v.ty().is_pointer()).collect();
        if !pointers.is_empty() {
            self.unknown_if_pm(call, &pointers, name, quiet);
        }
    }

    /// Tells the runtime if an instruction that is not understood is given PM. Without pointers it is
    /// told in any case.
    pub(crate) fn unknown_if_pm(
        &mut self,
        instruction: Value<'m>,
        pointers: &[Value<'m>],
        name: &str,
        quiet: bool,
    ) {
        let suspects: Vec<Value<'m>> =
            pointers.iter().copied().filter(|p| !self.is_volatile_memory(*p)).collect();
        if suspects.is_empty() && !pointers.is_empty() {
            return;
        }
        let what = What { kind: kind::UNKNOWN, text: Some(name), ..What::default() };
        let site = self.sites.of(instruction, what);
        if !quiet {
            let message = format!("{name} is not understood; on PM it makes the verdict UNKNOWN");
            self.warn(instruction, &message);
        }
        if suspects.is_empty() {
            self.builder.before(instruction);
            self.builder.locate(instruction.debug_location());
            let nowhere = self.module.ptr.null();
            self.runtime.call(&self.builder, "unknown", &[nowhere, site]);
        }
        for pointer in suspects {
            let pm = self.is_pm(pointer, instruction);
            let rare = instruction.split_then(pm);
            self.builder.before(rare);
            self.builder.locate(instruction.debug_location());
            self.runtime.call(&self.builder, "unknown", &[pointer, site]);
        }
    }
}
