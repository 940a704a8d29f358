//! The walk over a module, and the tools all kinds of accesses share: the inline check, scratch memory,
//! values passed as integers.

use crashproof_frontend::asm;
use crashproof_protocol::abi::{FLAG_ATOMIC, FLAG_VOLATILE, PM_SHIFT, PM_WINDOW, VERSION, kind};
use rustc_hash::FxHashMap;

use crate::groups::{self, Unit};
use crate::provenance;
use crate::runtime::Runtime;
use crate::sites::{Sites, What};
use crate::warn::{self, Warnings};
use crashproof_frontend::llvm::{Builder, CallClass, Linkage, Module, Opcode, RmwOp, Type, TypeKind, Value};
use crashproof_frontend::meaning::Ordering;

const INSTRUMENTED: &str = "crashproof.instrumented";

/// Before every other constructor, so that the runtime knows the module before any of its code runs.
const PRIORITY: i32 = 0;
/// After the registrations of all modules of a program, persistent globals included, and before its own constructors.
const REGISTERED_PRIORITY: i32 = 2;

/// What instrumentation carries through a module.
pub(crate) struct Instrumenter<'m> {
    pub(crate) module: &'m Module<'m>,
    pub(crate) builder: Builder<'m>,
    pub(crate) runtime: Runtime<'m>,
    pub(crate) sites: Sites<'m>,
    warnings: Warnings,
    /// Per function: pointers and their upper bits, computed where the pointer is made.
    windows: FxHashMap<Value<'m>, Value<'m>>,
    /// Per function: stack memory by purpose and size.
    scratch: FxHashMap<(Purpose, u64), Value<'m>>,
}

/// What scratch memory is for. Memory of different purposes may be in use at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Purpose {
    Value,
    Expected,
    Addresses,
    Mask,
}

/// Instruments a module. Does nothing the second time.
pub(crate) fn run(module: &Module<'_>) {
    if module.has_mark(INSTRUMENTED) {
        return;
    }
    module.mark(INSTRUMENTED);
    if !module.target().starts_with("x86_64") {
        warn::fatal(&format!("target {} is not supported, only x86-64 is", module.target()));
    }
    let mut instrumenter = Instrumenter {
        module,
        builder: module.builder(),
        runtime: Runtime::new(module),
        sites: Sites::new(module),
        warnings: Warnings::default(),
        windows: FxHashMap::default(),
        scratch: FxHashMap::default(),
    };
    instrumenter.file_scope_assembly();
    for function in module.functions() {
        instrumenter.function(function);
    }
    instrumenter.warnings.print();
    module.forget_memory_attributes();
    instrumenter.register();
}

impl<'m> Instrumenter<'m> {
    fn function(&mut self, function: Value<'m>) {
        // Bodies that are not emitted need nothing.
        let elsewhere = function.linkage() == Linkage::LLVMAvailableExternallyLinkage;
        let own = function.name().starts_with("__crashproof.");
        if function.is_declaration() || elsewhere || own {
            return;
        }
        self.windows.clear();
        self.scratch.clear();
        if function.has_function_attribute("naked") {
            self.naked(function);
            return;
        }
        self.expand_read_modify_write(function);
        for block in function.blocks() {
            // Backwards: each split moves the rest of the block, and going this way it moves it once.
            for unit in groups::units(self.module, block).into_iter().rev() {
                match unit {
                    Unit::Single(instruction) => self.instruction(instruction),
                    Unit::Group(members) => self.group(&members),
                }
            }
        }
    }

    /// The code generator makes loops of compare-exchange out of most atomicrmw operations; doing so
    /// before shows the runtime what the processor will do.
    fn expand_read_modify_write(&self, function: Value<'m>) {
        let all = function.blocks().into_iter().flat_map(|block| block.instructions());
        let exotic: Vec<Value<'m>> = all
            .filter(|instruction| {
                instruction.opcode() == Opcode::LLVMAtomicRMW
                    && !matches!(
                        instruction.rmw_operation(),
                        RmwOp::LLVMAtomicRMWBinOpXchg
                            | RmwOp::LLVMAtomicRMWBinOpAdd
                            | RmwOp::LLVMAtomicRMWBinOpSub
                            | RmwOp::LLVMAtomicRMWBinOpAnd
                            | RmwOp::LLVMAtomicRMWBinOpOr
                            | RmwOp::LLVMAtomicRMWBinOpXor
                    )
            })
            .collect();
        for instruction in exotic {
            // SAFETY: nothing is remembered of the function yet.
            #[allow(unsafe_code, reason = "see above")]
            unsafe {
                instruction.expand_rmw();
            }
        }
    }

    fn instruction(&mut self, instruction: Value<'m>) {
        match instruction.opcode() {
            Opcode::LLVMLoad => self.load(instruction),
            Opcode::LLVMStore => self.store(instruction),
            Opcode::LLVMAtomicRMW => self.read_modify_write(instruction),
            Opcode::LLVMAtomicCmpXchg => self.compare_exchange(instruction),
            Opcode::LLVMFence => self.fence(instruction),
            Opcode::LLVMVAArg => self.unknown_if_pm(instruction, &[instruction.operand(0)], "va_arg", true),
            Opcode::LLVMCall | Opcode::LLVMInvoke | Opcode::LLVMCallBr => match instruction.call_class() {
                CallClass::Asm => self.assembly(instruction),
                CallClass::Intrinsic => self.intrinsic(instruction),
                CallClass::Function => {
                    self.stays_a_call(instruction);
                    self.by_value_arguments(instruction);
                }
            },
            _ => {}
        }
    }

    /// A function without prologue consists of assembly that cannot be surrounded by anything.
    fn naked(&mut self, function: Value<'m>) {
        let first = function.after_allocas();
        let text = "naked function";
        self.sites.of(first, What { kind: kind::UNKNOWN, text: Some(text), ..What::default() });
        let place = self.sites.location(first);
        self.warnings.add(&place, "a naked function is not instrumented; what it does to PM is not seen");
    }

    fn file_scope_assembly(&mut self) {
        if asm::has_instructions(&self.module.file_scope_assembly()) {
            let text = "assembly at file scope";
            self.sites.of_file(What { kind: kind::UNKNOWN, text: Some(text), ..What::default() });
            let place =
                crashproof_frontend::llvm::Location { file: self.module.source_file(), ..Default::default() };
            let message = "assembly at file scope is not instrumented; what it does to PM is not seen";
            self.warnings.add(&place, message);
        }
    }

    fn register(self) {
        let Instrumenter { module, builder, mut runtime, sites, .. } = self;
        let table = sites.finish();
        builder.locate(None);
        let mut constructor = |name: &str, priority, arguments: &dyn Fn(Value<'m>) -> Vec<Value<'m>>| {
            let ty = module.function_type(module.void, &[]);
            let own = module.add_function(&format!("__crashproof.{name}"), ty);
            own.set_linkage(Linkage::LLVMInternalLinkage);
            builder.at_end(module.append_block(own));
            runtime.call(&builder, name, &arguments(own));
            builder.return_void();
            module.append_constructor(own, priority);
        };
        let version = module.i32.number(VERSION.into());
        constructor("register_module", PRIORITY, &|_| vec![version, table.begin, table.end]);
        constructor("registered", REGISTERED_PRIORITY, &|own| vec![own]);
    }

    /// Whether a pointer needs no check.
    pub(crate) fn is_volatile_memory(&self, pointer: Value<'m>) -> bool {
        provenance::is_volatile_memory(self.module, pointer)
    }

    /// The inline check: `(pointer >> 44) == 1`.
    ///
    /// Most offsets do not matter to it, see [`provenance::decisive`]. So all accesses to one object share the shift, done
    /// where its pointer is made; each needs only a compare and a branch.
    pub(crate) fn is_pm(&mut self, pointer: Value<'m>, at: Value<'m>) -> Value<'m> {
        let base = provenance::decisive(pointer);
        let window = match self.windows.get(&base) {
            Some(window) => *window,
            None => self.window(base, at),
        };
        self.builder.before(at);
        self.builder.locate(at.debug_location());
        self.builder.equal(window, self.module.i64.number(PM_WINDOW))
    }

    fn window(&mut self, base: Value<'m>, at: Value<'m>) -> Value<'m> {
        let made_at = if base.is_instruction() {
            base.after_definition()
        } else {
            // Arguments and constants.
            Some(at.function().after_allocas())
        };
        self.builder.before(made_at.unwrap_or(at));
        self.builder.locate(None);
        let address = self.builder.ptr_to_int(base, self.module.i64);
        let window = self.builder.shift_right(address, self.module.i64.number(PM_SHIFT.into()));
        if made_at.is_some() {
            self.windows.insert(base, window);
        }
        window
    }

    /// Splits at an instruction: PM takes the first arm, everything else the second, in which the
    /// instruction itself now stands. `slow` makes the code of the first arm and returns what the
    /// instruction would have returned.
    pub(crate) fn divert(
        &mut self,
        instruction: Value<'m>,
        pm: Value<'m>,
        slow: impl FnOnce(&mut Self) -> Option<Value<'m>>,
    ) -> Value<'m> {
        let (rare, usual) = instruction.split(pm);
        self.builder.before(rare);
        self.builder.locate(instruction.debug_location());
        let from_runtime = slow(self);
        self.join(instruction, instruction, from_runtime, rare, usual);
        instruction.move_before(usual);
        usual
    }

    /// Joins the result of an instruction, about to move to the usual arm of a split, with that of the
    /// other arm. `place` is where the arms meet.
    pub(crate) fn join(
        &self,
        place: Value<'m>,
        instruction: Value<'m>,
        other: Option<Value<'m>>,
        rare: Value<'m>,
        usual: Value<'m>,
    ) {
        if let Some(value) = other.filter(|_| instruction.has_uses()) {
            self.builder.before(place);
            let phi = self.builder.phi(instruction.ty());
            instruction.replace_uses_with(phi);
            phi.add_incoming(value, rare.block());
            phi.add_incoming(instruction, usual.block());
        }
    }

    /// Flags of a site that come from the source language.
    pub(crate) fn access_flags(instruction: Value<'m>) -> u32 {
        let atomic = instruction.ordering() != Ordering::NotAtomic;
        let volatile = instruction.is_volatile();
        (if atomic { FLAG_ATOMIC } else { 0 }) | (if volatile { FLAG_VOLATILE } else { 0 })
    }

    /// Stack memory of the current function, aligned to 16 bytes. The function is that of `at`.
    pub(crate) fn scratch(&mut self, purpose: Purpose, bytes: u64, at: Value<'m>) -> Value<'m> {
        let bytes = bytes.next_multiple_of(16);
        if let Some(known) = self.scratch.get(&(purpose, bytes)) {
            return *known;
        }
        let entry = at.function().blocks()[0].first();
        let builder = self.module.builder();
        builder.before(entry);
        let memory = builder.alloca(self.module.i8.array_of(bytes), 16);
        self.scratch.insert((purpose, bytes), memory);
        memory
    }

    /// Whether values of a type travel to the runtime in a register: their bytes, if so.
    pub(crate) fn register_size(&self, ty: Type<'m>) -> Option<u64> {
        let bytes = self.module.store_size(ty);
        let simple = match ty.kind() {
            TypeKind::LLVMIntegerTypeKind | TypeKind::LLVMPointerTypeKind => true,
            TypeKind::LLVMHalfTypeKind
            | TypeKind::LLVMBFloatTypeKind
            | TypeKind::LLVMFloatTypeKind
            | TypeKind::LLVMDoubleTypeKind => true,
            TypeKind::LLVMVectorTypeKind => !ty.element().is_pointer() && self.module.bits(ty) == bytes * 8,
            _ => false,
        };
        (simple && matches!(bytes, 1 | 2 | 4 | 8)).then_some(bytes)
    }

    /// A value of a [`Self::register_size`] type as 64 bits.
    pub(crate) fn to_bits(&self, value: Value<'m>) -> Value<'m> {
        let Module { i64, .. } = *self.module;
        let ty = value.ty();
        if ty.is_pointer() {
            return self.builder.ptr_to_int(value, i64);
        }
        let integer = if ty.is_integer() {
            value
        } else {
            self.builder.bit_cast(value, self.module.int(self.module.bits(ty) as u32))
        };
        self.builder.resize(integer, i64)
    }

    /// The inverse of [`Self::to_bits`].
    pub(crate) fn value_of_bits(&self, bits: Value<'m>, ty: Type<'m>) -> Value<'m> {
        if ty.is_pointer() {
            return self.builder.int_to_ptr(bits, ty);
        }
        if ty.is_integer() {
            return self.builder.resize(bits, ty);
        }
        let integer = self.builder.resize(bits, self.module.int(self.module.bits(ty) as u32));
        self.builder.bit_cast(integer, ty)
    }

    /// Forgets what was remembered about an instruction, and erases it. Its caller is done with it: an instruction is
    /// visited once, and units that are still to come do not name it.
    pub(crate) fn erase(&mut self, instruction: Value<'m>) {
        self.windows.remove(&instruction);
        // SAFETY: see above.
        #[allow(unsafe_code, reason = "see above")]
        unsafe {
            instruction.erase();
        }
    }

    /// A warning about an instruction.
    pub(crate) fn warn(&mut self, instruction: Value<'m>, message: &str) {
        let place = self.sites.location(instruction);
        self.warnings.add(&place, message);
    }
}
