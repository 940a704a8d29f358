//! What the processor gives that differs from run to run, its clock and random numbers, comes from the runtime instead.

use crashproof_frontend::asm::Given;
use crashproof_frontend::llvm::{Type, Value};

use crate::instrument::Instrumenter;

impl<'m> Instrumenter<'m> {
    /// An intrinsic that returns this.
    pub(crate) fn make_repeatable(&mut self, call: Value<'m>, given: &[Given]) {
        self.use_repeatable(call, given);
        self.erase(call);
    }

    /// Such a call gets a reproducible result; the call itself stays, but its result is unused.
    pub(crate) fn use_repeatable(&mut self, call: Value<'m>, given: &[Given]) {
        if !call.has_uses() {
            return;
        }
        let Some(next) = call.next() else { return };
        self.builder.before(next);
        self.builder.locate(call.debug_location());
        let source = if given.contains(&Given::Random) { "random" } else { "cycles" };
        let word = self.runtime.call(&self.builder, source, &[]);
        let whole = call.ty();
        let value = match given {
            [given] => self.given(*given, word, whole),
            _ => given.iter().zip(0..).fold(whole.null(), |made, (given, index)| {
                let field = self.given(*given, word, whole.member(index));
                self.builder.insert_field(made, field, index)
            }),
        };
        call.replace_uses_with(value);
    }

    fn given(&self, given: Given, word: Value<'m>, ty: Type<'m>) -> Value<'m> {
        let i64 = self.module.i64;
        let bits = match given {
            Given::Clock | Given::Random => word,
            Given::Low => self.builder.and(word, i64.number(u32::MAX.into())),
            Given::High | Given::Raised => self.builder.shift_right(word, i64.number(32)),
            Given::Processor => i64.number(0),
            Given::Success => i64.number(1),
        };
        self.builder.resize(bits, ty)
    }
}
