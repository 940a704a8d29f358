//! Loads, stores and atomic instructions.

use crashproof_protocol::abi::{FLAG_ATOMIC, FLAG_VOLATILE, kind, rmw};

use crate::instrument::{Instrumenter, Purpose};
use crate::provenance;
use crate::sites::What;
use crashproof_frontend::llvm::{Opcode, RmwOp, Type, Value};
use crashproof_frontend::meaning::Manner;

/// The kind of a site where memory is stored to in this manner.
fn kind_of(manner: Manner) -> u8 {
    match manner {
        Manner::Plain => kind::STORE,
        Manner::NonTemporal => kind::NT_STORE,
        Manner::Exchange => kind::RMW,
    }
}

impl<'m> Instrumenter<'m> {
    pub(crate) fn load(&mut self, load: Value<'m>) {
        self.load_from(load, load.operand(0), Self::access_flags(load));
    }

    /// Plain accesses to one object, next to each other: one check for all.
    pub(crate) fn group(&mut self, members: &[Value<'m>]) {
        let first = members[0];
        let sites: Vec<Value<'m>> = members.iter().map(|member| self.plain_site(*member)).collect();
        let is_load = |member: Value<'m>| member.opcode() == Opcode::LLVMLoad;
        let pointer = first.operand(if is_load(first) { 0 } else { 1 });
        let pm = self.is_pm(pointer, first);
        let (rare, usual) = first.split(pm);
        self.builder.before(rare);
        let mut results = Vec::new();
        for (member, site) in members.iter().zip(sites) {
            self.builder.locate(member.debug_location());
            results.push(if is_load(*member) {
                Some(self.load_from_runtime(*member, member.ty(), member.operand(0), site))
            } else {
                let (value, pointer) = (member.operand(0), member.operand(1));
                self.store_by_runtime(*member, value, pointer, site, self.module.store_manner(*member));
                None
            });
        }
        // All joins first: the members may have computations between them by now.
        for (member, result) in members.iter().zip(results) {
            self.join(first, *member, result, rare, usual);
        }
        members.iter().for_each(|member| member.move_before(usual));
    }

    fn plain_site(&mut self, access: Value<'m>) -> Value<'m> {
        let (kind, ty) = if access.opcode() == Opcode::LLVMLoad {
            (kind::LOAD, access.ty())
        } else {
            (kind_of(self.module.store_manner(access)), access.operand(0).ty())
        };
        let size = self.module.store_size(ty);
        self.sites.of(access, What { kind, size, ..What::default() })
    }

    /// A load, or an intrinsic that is one.
    pub(crate) fn load_from(&mut self, load: Value<'m>, pointer: Value<'m>, flags: u32) {
        let ty = load.ty();
        if self.is_volatile_memory(pointer) {
            self.synchronize_after(load, pointer, ty, flags);
            return;
        }
        let size = self.module.store_size(ty);
        let site = self.sites.of(load, What { kind: kind::LOAD, flags, size, text: None });
        let pm = self.is_pm(pointer, load);
        let usual = self.divert(load, pm, |this| Some(this.load_from_runtime(load, ty, pointer, site)));
        if flags != 0 {
            self.announce(load, pointer, size, site);
            self.builder.before(usual);
            self.runtime.call(&self.builder, "sync", &[pointer, site]);
        }
    }

    /// Announces an atomic or volatile access to volatile memory to the runtime.
    fn announce(&mut self, access: Value<'m>, pointer: Value<'m>, bytes: u64, site: Value<'m>) {
        self.builder.before(access);
        self.builder.locate(access.debug_location());
        let bytes = self.module.i64.number(bytes);
        self.runtime.call(&self.builder, "before", &[pointer, bytes, site]);
    }

    fn load_from_runtime(
        &mut self,
        at: Value<'m>,
        ty: Type<'m>,
        pointer: Value<'m>,
        site: Value<'m>,
    ) -> Value<'m> {
        if let Some(bytes) = self.register_size(ty) {
            let bits = self.runtime.call(&self.builder, &format!("load{bytes}"), &[pointer, site]);
            return self.value_of_bits(bits, ty);
        }
        let bytes = self.module.store_size(ty);
        let scratch = self.scratch(Purpose::Value, self.module.alloc_size(ty), at);
        let arguments = [scratch, pointer, self.module.i64.number(bytes), site];
        self.runtime.call(&self.builder, "load_n", &arguments);
        self.builder.load(ty, scratch, 16)
    }

    pub(crate) fn store(&mut self, store: Value<'m>) {
        let (value, pointer) = (store.operand(0), store.operand(1));
        let flags = Self::access_flags(store);
        self.store_to(store, value, pointer, flags, self.module.store_manner(store));
    }

    /// `movdir64b`: reads a line from any memory and stores it non-temporally.
    pub(crate) fn direct_copy(&mut self, call: Value<'m>, to: Value<'m>, from: Value<'m>, bytes: u64) {
        self.unknown_if_pm(call, &[from], "movdir64b from PM", true);
        if self.is_volatile_memory(to) {
            return;
        }
        let site = self.sites.of(call, What { kind: kind::NT_STORE, size: bytes, ..What::default() });
        let pm = self.is_pm(to, call);
        self.divert(call, pm, |this| {
            let bytes = this.module.i64.number(bytes);
            this.runtime.call(&this.builder, "nt_store_n", &[to, from, bytes, site]);
            None
        });
    }

    pub(crate) fn store_to(
        &mut self,
        store: Value<'m>,
        value: Value<'m>,
        pointer: Value<'m>,
        flags: u32,
        manner: Manner,
    ) {
        if self.is_volatile_memory(pointer) {
            match manner {
                Manner::Exchange => self.locked_after(store, pointer, value.ty(), kind::RMW, flags),
                _ => self.synchronize_after(store, pointer, value.ty(), flags),
            }
            return;
        }
        let size = self.module.store_size(value.ty());
        let site = self.sites.of(store, What { kind: kind_of(manner), flags, size, text: None });
        let pm = self.is_pm(pointer, store);
        let usual = self.divert(store, pm, |this| {
            this.store_by_runtime(store, value, pointer, site, manner);
            None
        });
        if manner == Manner::Exchange || flags != 0 {
            self.announce(store, pointer, size, site);
        }
        self.builder.before(usual);
        if manner == Manner::Exchange {
            self.locked(store, pointer, site);
        } else if flags != 0 {
            self.runtime.call(&self.builder, "sync", &[pointer, site]);
        }
    }

    fn store_by_runtime(
        &mut self,
        at: Value<'m>,
        value: Value<'m>,
        pointer: Value<'m>,
        site: Value<'m>,
        manner: Manner,
    ) {
        let ty = value.ty();
        let (i32, i64) = (self.module.i32, self.module.i64);
        if let Some(bytes) = self.register_size(ty) {
            let bits = self.to_bits(value);
            match manner {
                Manner::Exchange => {
                    let operation = i32.number(rmw::SET.into());
                    let arguments = [pointer, i32.number(bytes), operation, bits, site];
                    self.runtime.call(&self.builder, "rmw", &arguments);
                }
                Manner::NonTemporal => {
                    self.runtime.call(&self.builder, &format!("nt_store{bytes}"), &[pointer, bits, site]);
                }
                Manner::Plain => {
                    self.runtime.call(&self.builder, &format!("store{bytes}"), &[pointer, bits, site]);
                }
            }
            return;
        }
        let scratch = self.spill(Purpose::Value, value, at);
        if manner == Manner::Exchange {
            let operation = i32.number(rmw::SET.into());
            let old = self.scratch(Purpose::Expected, 16, at);
            self.runtime.call(&self.builder, "rmw16", &[pointer, operation, scratch, old, site]);
            return;
        }
        let name = if manner == Manner::NonTemporal { "nt_store_n" } else { "store_n" };
        let bytes = i64.number(self.module.store_size(ty));
        self.runtime.call(&self.builder, name, &[pointer, scratch, bytes, site]);
    }

    /// Puts a value into scratch memory. Bytes beyond it are zero rather than leftovers: runs must be repeatable.
    pub(crate) fn spill(&mut self, purpose: Purpose, value: Value<'m>, at: Value<'m>) -> Value<'m> {
        let ty = value.ty();
        let bytes = self.module.alloc_size(ty);
        let scratch = self.scratch(purpose, bytes, at);
        if self.module.bits(ty) != bytes * 8 || !ty.is_fixed_vector() && !ty.is_integer() {
            let zero = self.module.i8.array_of(bytes).null();
            self.builder.store(zero, scratch, 16);
        }
        self.builder.store(value, scratch, 16);
        scratch
    }

    pub(crate) fn read_modify_write(&mut self, instruction: Value<'m>) {
        let (pointer, operand) = (instruction.operand(0), instruction.operand(1));
        let flags = FLAG_ATOMIC | Self::access_flags(instruction);
        if self.is_volatile_memory(pointer) {
            self.locked_after(instruction, pointer, operand.ty(), kind::RMW, flags);
            return;
        }
        let operation = match instruction.rmw_operation() {
            RmwOp::LLVMAtomicRMWBinOpAdd => rmw::ADD,
            RmwOp::LLVMAtomicRMWBinOpSub => rmw::SUB,
            RmwOp::LLVMAtomicRMWBinOpAnd => rmw::AND,
            RmwOp::LLVMAtomicRMWBinOpOr => rmw::OR,
            RmwOp::LLVMAtomicRMWBinOpXor => rmw::XOR,
            // All others were expanded before.
            _ if instruction.has_uses() => rmw::XCHG,
            _ => rmw::SET,
        };
        let size = self.module.store_size(operand.ty());
        let site = self.sites.of(instruction, What { kind: kind::RMW, flags, size, text: None });
        let pm = self.is_pm(pointer, instruction);
        let usual = self.divert(instruction, pm, |this| {
            let (i32, ty) = (this.module.i32, operand.ty());
            let operation = i32.number(operation.into());
            if let Some(bytes) = this.register_size(ty) {
                let bits = this.to_bits(operand);
                let arguments = [pointer, i32.number(bytes), operation, bits, site];
                let old = this.runtime.call(&this.builder, "rmw", &arguments);
                return Some(this.value_of_bits(old, ty));
            }
            let operand = this.spill(Purpose::Value, operand, instruction);
            let old = this.scratch(Purpose::Expected, 16, instruction);
            this.runtime.call(&this.builder, "rmw16", &[pointer, operation, operand, old, site]);
            Some(this.builder.load(ty, old, 16))
        });
        self.announce(instruction, pointer, size, site);
        self.builder.before(usual);
        self.locked(instruction, pointer, site);
    }

    pub(crate) fn compare_exchange(&mut self, instruction: Value<'m>) {
        let pointer = instruction.operand(0);
        let (expected, desired) = (instruction.operand(1), instruction.operand(2));
        let volatile = if instruction.is_volatile() { FLAG_VOLATILE } else { 0 };
        let flags = FLAG_ATOMIC | volatile;
        if self.is_volatile_memory(pointer) {
            self.locked_after(instruction, pointer, expected.ty(), kind::CAS, flags);
            return;
        }
        let ty = expected.ty();
        let size = self.module.store_size(ty);
        let site = self.sites.of(instruction, What { kind: kind::CAS, flags, size, text: None });
        let pm = self.is_pm(pointer, instruction);
        let usual = self.divert(instruction, pm, |this| {
            let (i32, i1) = (this.module.i32, this.module.i1);
            let (old, success) = if let Some(bytes) = this.register_size(ty) {
                let expected = this.to_bits(expected);
                let desired = this.to_bits(desired);
                let arguments = [pointer, i32.number(bytes), expected, desired, site];
                let old = this.runtime.call(&this.builder, "cas", &arguments);
                (this.value_of_bits(old, ty), this.builder.equal(old, expected))
            } else {
                let expected = this.spill(Purpose::Expected, expected, instruction);
                let desired = this.spill(Purpose::Value, desired, instruction);
                let old = this.scratch(Purpose::Addresses, 16, instruction);
                let stored =
                    this.runtime.call(&this.builder, "cas16", &[pointer, expected, desired, old, site]);
                (this.builder.load(ty, old, 16), this.builder.resize(stored, i1))
            };
            let empty = this.builder.insert_field(instruction.ty().null(), old, 0);
            Some(this.builder.insert_field(empty, success, 1))
        });
        self.announce(instruction, pointer, size, site);
        self.builder.before(usual);
        self.locked(instruction, pointer, site);
    }

    /// Atomic and volatile accesses of volatile memory are where programs wait for other threads.
    fn synchronize_after(&mut self, instruction: Value<'m>, pointer: Value<'m>, ty: Type<'m>, flags: u32) {
        if flags == 0 || provenance::is_local_variable(pointer) {
            return;
        }
        let is_load = !instruction.ty().is_void();
        let kind = if is_load { kind::LOAD } else { kind::STORE };
        let size = self.module.store_size(ty);
        self.after(instruction, What { kind, flags, ..What::default() }, |this, site| {
            this.runtime.call(&this.builder, "sync", &[pointer, site]);
            this.announce(instruction, pointer, size, site);
        });
    }

    fn locked_after(
        &mut self,
        instruction: Value<'m>,
        pointer: Value<'m>,
        ty: Type<'m>,
        kind: u8,
        flags: u32,
    ) {
        let size = self.module.store_size(ty);
        self.after(instruction, What { kind, flags, ..What::default() }, |this, site| {
            this.locked(instruction, pointer, site);
            this.announce(instruction, pointer, size, site);
        });
    }

    /// Announces a locked instruction on volatile memory to the runtime, at the builder's position.
    fn locked(&mut self, instruction: Value<'m>, pointer: Value<'m>, site: Value<'m>) {
        let i32 = self.module.i32;
        // A compare-and-swap returns whether it stored.
        let stored = if instruction.ty().is_struct() {
            let success = self.builder.extract_field(instruction, 1);
            self.builder.resize(success, i32)
        } else {
            i32.number(1)
        };
        self.runtime.call(&self.builder, "locked", &[pointer, stored, site]);
    }

    /// Inserts something after an instruction.
    pub(crate) fn after(
        &mut self,
        instruction: Value<'m>,
        what: What<'_>,
        put: impl FnOnce(&mut Self, Value<'m>),
    ) {
        let Some(next) = instruction.next() else { return };
        let site = self.sites.of(instruction, what);
        self.builder.before(next);
        self.builder.locate(instruction.debug_location());
        put(self, site);
    }
}
