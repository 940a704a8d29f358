//! Block copies and fills, and structures passed by value.

use crashproof_protocol::abi::kind;

use crate::instrument::Instrumenter;
use crate::sites::What;
use crashproof_frontend::llvm::Value;

impl<'m> Instrumenter<'m> {
    /// `llvm.memcpy`, `llvm.memmove` and their variants.
    pub(crate) fn block_copy(&mut self, call: Value<'m>, kind: u8) {
        let (to, from, length) = (call.operand(0), call.operand(1), call.operand(2));
        let size = length.as_number().unwrap_or(0);
        let Some((pm, site)) = self.any_in_pm(call, &[to, from], What { kind, size, ..What::default() })
        else {
            return;
        };
        let name = if kind == kind::MEMMOVE { "memmove" } else { "memcpy" };
        self.divert(call, pm, |this| {
            let bytes = this.builder.resize(length, this.module.i64);
            this.runtime.call(&this.builder, name, &[to, from, bytes, site]);
            None
        });
    }

    /// `llvm.memset` and its variants.
    pub(crate) fn block_fill(&mut self, call: Value<'m>) {
        let (to, byte, length) = (call.operand(0), call.operand(1), call.operand(2));
        let size = length.as_number().unwrap_or(0);
        let what = What { kind: kind::MEMSET, size, ..What::default() };
        let Some((pm, site)) = self.any_in_pm(call, &[to], what) else { return };
        self.divert(call, pm, |this| {
            let byte = this.builder.resize(byte, this.module.i32);
            let bytes = this.builder.resize(length, this.module.i64);
            this.runtime.call(&this.builder, "memset", &[to, byte, bytes, site]);
            None
        });
    }

    /// The check that one of several pointers is in PM, and a site; `None` if none can be.
    fn any_in_pm(
        &mut self,
        call: Value<'m>,
        pointers: &[Value<'m>],
        what: What<'_>,
    ) -> Option<(Value<'m>, Value<'m>)> {
        let mut pm = None;
        for pointer in pointers {
            if self.is_volatile_memory(*pointer) {
                continue;
            }
            let this = self.is_pm(*pointer, call);
            pm = Some(pm.map_or(this, |other| self.builder.or(other, this)));
        }
        Some((pm?, self.sites.of(call, what)))
    }

    /// The code generator replaces some functions: it turns a `memcmp` of a few bytes into loads, long after
    /// instrumentation. The runtime interposes these functions, so the calls must remain.
    pub(crate) fn stays_a_call(&mut self, call: Value<'m>) {
        let name = call.callee().name();
        let expanded = matches!(
            name.as_str(),
            "memcmp" | "bcmp" | "mempcpy" | "memchr" | "strcmp" | "strcpy" | "stpcpy" | "strlen" | "strnlen"
        ) || name.starts_with("__") && name.ends_with("_chk");
        let arguments = (0..call.argument_count()).map(|index| call.operand(index));
        if expanded
            && arguments.filter(|it| it.ty().is_pointer()).any(|pointer| !self.is_volatile_memory(pointer))
        {
            self.module.add_call_attribute(call, "nobuiltin");
        }
    }

    /// A call that must be a tail call passes on memory of its caller, where there is no room for a copy.
    fn by_value_in_tail_call(&mut self, call: Value<'m>) {
        let pointers: Vec<Value<'m>> = (0..call.argument_count())
            .filter(|&index| call.argument_type_attribute(index, "byval").is_some())
            .map(|index| call.operand(index))
            .filter(|&pointer| !self.is_volatile_memory(pointer))
            .collect();
        if !pointers.is_empty() {
            self.unknown_if_pm(call, &pointers, "structure passed by value in a tail call", false);
        }
    }

    /// A structure passed by value is copied by the caller: the code generator reads it from wherever the
    /// pointer points. From PM the runtime copies it first.
    pub(crate) fn by_value_arguments(&mut self, call: Value<'m>) {
        if call.is_must_tail() {
            return self.by_value_in_tail_call(call);
        }
        for index in 0..call.argument_count() {
            let Some(ty) = call.argument_type_attribute(index, "byval") else { continue };
            let pointer = call.operand(index);
            if self.is_volatile_memory(pointer) {
                continue;
            }
            let size = self.module.alloc_size(ty);
            let align = call.argument_alignment(index).max(self.module.abi_alignment(ty));
            let site = self.sites.of(call, What { kind: kind::MEMCPY, size, ..What::default() });
            let allocas = self.module.builder();
            allocas.before(call.function().blocks()[0].first());
            let copy = allocas.alloca(ty, align);
            let pm = self.is_pm(pointer, call);
            let head = call.block();
            let rare = call.split_then(pm);
            self.builder.before(rare);
            self.builder.locate(call.debug_location());
            let bytes = self.module.i64.number(size);
            self.runtime.call(&self.builder, "memcpy", &[copy, pointer, bytes, site]);
            self.builder.before(call);
            let chosen = self.builder.phi(self.module.ptr);
            chosen.add_incoming(copy, rare.block());
            chosen.add_incoming(pointer, head);
            call.set_operand(index, chosen);
            call.clear_tail();
        }
    }
}
