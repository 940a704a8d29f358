//! Persistent globals: variables with `section("crashproof_pm")`.
//!
//! # Mechanism
//!
//! A linker cannot place a variable at an address 16 TiB away from code that reaches it relative to the
//! program counter, let alone in several shared libraries. So a persistent global `g` becomes
//!
//! * a descriptor `__crashproof_pm.g` (`PmGlobal` of the interface) with the linkage, visibility and
//!   comdat of `g`, which the linker resolves across translation units and shared libraries as it would
//!   have resolved `g`;
//! * a private copy of its initial content, used by the runtime only when the pool is new;
//! * in each function that uses it, one load of the address from the descriptor.
//!
//! A constructor hands the descriptors a module defines to the runtime, together with all places in
//! volatile initializers that hold the address of a persistent global (`int *p = &g;`). Initial content of
//! persistent globals may hold such addresses too (`struct list head = {&head, &head};`).
//!
//! This happens before the optimizer runs: it must never learn the initial value of a persistent global,
//! which in a run after a crash is wrong, nor find that a global only ever written needs no stores.
//!
//! # Limits
//!
//! * Every declaration must carry the attribute; a plain `extern int g;` elsewhere does not link.
//! * `dlsym("g")` and assembly do not find `g`.
//! * Thread-local persistent globals make no sense and are left volatile, with a warning.
//! * C++ constructors of persistent globals run on every start, as the language says.

use crashproof_protocol::abi::PM_SECTION;

use crate::warn::{self, Warnings};
use crashproof_frontend::llvm::{Builder, Linkage, Location, Module, Opcode, Type, TypeKind, Value};

const PREPARED: &str = "crashproof.prepared";

/// Runs right after register_module, before every other constructor.
const PRIORITY: i32 = 1;

/// A persistent global and what replaces it.
struct Replaced<'m> {
    global: Value<'m>,
    descriptor: Value<'m>,
}

/// Places that hold the address of a persistent global.
struct Fixup<'m> {
    offset: u64,
    target: Value<'m>,
    addend: i64,
}

struct Rewriter<'m> {
    module: &'m Module<'m>,
    descriptor_type: Type<'m>,
    fixup_type: Type<'m>,
    replaced: Vec<Replaced<'m>>,
}

/// Replaces the persistent globals of a module. Does nothing the second time.
pub(crate) fn replace(module: &Module<'_>) {
    if module.has_mark(PREPARED) {
        return;
    }
    module.mark(PREPARED);
    let Module { i64, ptr, .. } = *module;
    let mut rewriter = Rewriter {
        module,
        descriptor_type: module.structure(&[ptr, i64, i64, ptr, ptr, ptr, i64]),
        fixup_type: module.structure(&[i64, ptr, i64]),
        replaced: Vec::new(),
    };
    rewriter.find();
    if !rewriter.replaced.is_empty() {
        rewriter.run();
    }
}

impl<'m> Rewriter<'m> {
    fn find(&mut self) {
        for global in self.module.globals() {
            if global.section() != PM_SECTION {
                continue;
            }
            if global.is_thread_local() {
                let place = Location { file: self.module.source_file(), ..Location::default() };
                let mut warnings = Warnings::default();
                warnings.add(&place, &format!("thread-local `{}` is not persistent", global.name()));
                warnings.print();
                global.set_section("");
                continue;
            }
            let name = format!("__crashproof_pm.{}", global.name());
            let descriptor = self.module.add_global(&name, self.descriptor_type);
            descriptor.take_linkage_of(global);
            descriptor.set_externally_initialized();
            descriptor.set_alignment(8);
            self.replaced.push(Replaced { global, descriptor });
        }
    }

    fn run(&self) {
        let volatile_fixups = self.volatile_fixups();
        let mut defined = Vec::new();
        for replaced in &self.replaced {
            if self.define(replaced) {
                defined.push(replaced.descriptor);
            }
        }
        for Replaced { global, descriptor } in &self.replaced {
            self.rewrite_uses(*global, *descriptor);
        }
        for Replaced { global, descriptor } in &self.replaced {
            // What is left are initializers, which fixups overwrite, and lists such as llvm.used.
            global.replace_uses_with(*descriptor);
            // SAFETY: all uses are replaced, and this is the last time the global is named.
            #[allow(unsafe_code, reason = "see above")]
            unsafe {
                global.delete_global();
            }
        }
        self.register(&defined, &volatile_fixups);
    }

    /// Writes the descriptor of a global defined in this module; false if it is defined elsewhere.
    fn define(&self, Replaced { global, descriptor }: &Replaced<'m>) -> bool {
        let elsewhere = global.linkage() == Linkage::LLVMAvailableExternallyLinkage;
        let Some(content) = global.initializer().filter(|_| !elsewhere) else {
            if elsewhere {
                descriptor.set_linkage(Linkage::LLVMExternalLinkage);
            }
            return false;
        };
        let Module { i64, ptr, .. } = *self.module;
        let ty = global.global_type();
        let fixups = self.fixups_in(content, *global);
        let rows: Vec<Value<'m>> = fixups.iter().map(|f| self.row(i64.number(f.offset), f)).collect();
        let init = if content.is_null_constant() || content.is_undefined() {
            ptr.null()
        } else {
            let init = self.private("__crashproof_pm_init", ty);
            init.set_initializer(content);
            init
        };
        let mut name = global.name();
        if global.is_local() {
            name = format!("{}:{name}", self.module.source_file());
        }
        let align = u64::from(global.alignment().max(self.module.abi_alignment(ty)));
        let fields = [
            ptr.null(),
            i64.number(self.module.alloc_size(ty)),
            i64.number(align),
            init,
            self.module.string(&name),
            self.array("__crashproof_pm_fixups", self.fixup_type, &rows),
            i64.number(rows.len() as u64),
        ];
        descriptor.set_initializer(self.descriptor_type.const_struct(&fields));
        true
    }

    /// Fixups in volatile globals, with absolute places.
    fn volatile_fixups(&self) -> Vec<Value<'m>> {
        let mut rows = Vec::new();
        for holder in self.module.globals() {
            let own = |r: &Replaced| r.global == holder || r.descriptor == holder;
            if self.replaced.iter().any(own) || holder.name().starts_with("llvm.") {
                continue;
            }
            let Some(content) = holder.initializer() else { continue };
            let fixups = self.fixups_in(content, holder);
            if fixups.is_empty() {
                continue;
            }
            holder.set_global_constant(false);
            holder.set_externally_initialized();
            for fixup in fixups {
                let place = self.module.element_address(holder, self.module.i8, fixup.offset);
                rows.push(self.row(self.module.constant_address(place), &fixup));
            }
        }
        rows
    }

    fn fixups_in(&self, content: Value<'m>, holder: Value<'m>) -> Vec<Fixup<'m>> {
        let mut found = Vec::new();
        self.walk(content, 0, holder, &mut found);
        found
    }

    fn walk(&self, content: Value<'m>, offset: u64, holder: Value<'m>, found: &mut Vec<Fixup<'m>>) {
        let ty = content.ty();
        match ty.kind() {
            _ if content.operand_count() == 0 && !content.is_global() => {}
            TypeKind::LLVMStructTypeKind => {
                for member in 0..ty.members() {
                    let inner = offset + self.module.member_offset(ty, member);
                    self.walk(content.operand(member), inner, holder, found);
                }
            }
            TypeKind::LLVMArrayTypeKind => {
                let step = self.module.alloc_size(ty.element());
                for index in 0..content.operand_count() {
                    self.walk(content.operand(index), offset + u64::from(index) * step, holder, found);
                }
            }
            _ => self.leaf(content, offset, holder, found),
        }
    }

    fn leaf(&self, content: Value<'m>, offset: u64, holder: Value<'m>, found: &mut Vec<Fixup<'m>>) {
        let base = self.module.constant_base(content);
        let replaced = |global: Value<'m>| self.replaced.iter().find(|r| r.global == global);
        if let Some((base, addend)) = base
            && let Some(target) = replaced(base)
            && self.module.store_size(content.ty()) == 8
        {
            found.push(Fixup { offset, target: target.descriptor, addend });
            return;
        }
        if self.mentions(content) {
            // A difference or a truncated address cannot be expressed to the runtime, and a wrong
            // constant in the program would be worse than no program.
            warn::fatal(&format!(
                "{}: the initial value of `{}` computes with the address of a persistent global; \
                 assign it at run time instead",
                self.module.source_file(),
                holder.name()
            ));
        }
    }

    fn mentions(&self, content: Value<'m>) -> bool {
        if self.replaced.iter().any(|r| r.global == content) {
            return true;
        }
        !content.is_global()
            && content.is_constant()
            && (0..content.operand_count()).any(|i| self.mentions(content.operand(i)))
    }

    fn rewrite_uses(&self, global: Value<'m>, descriptor: Value<'m>) {
        global.constant_users_to_instructions();
        let builder = self.module.builder();
        let mut loads: Vec<(Value<'m>, Value<'m>)> = Vec::new();
        for user in global.users() {
            if !user.is_instruction() {
                continue;
            }
            let function = user.function();
            let address = match loads.iter().find(|(f, _)| *f == function) {
                Some((_, address)) => *address,
                None => {
                    let address = self.load_address(&builder, function, descriptor);
                    loads.push((function, address));
                    address
                }
            };
            for index in 0..user.operand_count() {
                if user.operand(index) == global {
                    user.set_operand(index, address);
                }
            }
        }
    }

    fn load_address(&self, builder: &Builder<'m>, function: Value<'m>, descriptor: Value<'m>) -> Value<'m> {
        builder.before(function.after_allocas());
        builder.locate(None);
        let address = builder.load(self.module.ptr, descriptor, 8);
        debug_assert_eq!(address.opcode(), Opcode::LLVMLoad);
        self.module.mark_invariant(address);
        address
    }

    fn register(&self, defined: &[Value<'m>], volatile_fixups: &[Value<'m>]) {
        if defined.is_empty() && volatile_fixups.is_empty() {
            return;
        }
        let Module { void, ptr, .. } = *self.module;
        let list = self.array("__crashproof_pm_globals", ptr, defined);
        let fixups = self.array("__crashproof_pm_fixups", self.fixup_type, volatile_fixups);
        let end = |start: Value<'m>, ty: Type<'m>, length: usize| {
            if length == 0 { start } else { self.module.element_address(start, ty, length as u64) }
        };
        let constructor =
            self.module.add_function("__crashproof.register_globals", self.module.function_type(void, &[]));
        constructor.set_linkage(Linkage::LLVMInternalLinkage);
        let builder = self.module.builder();
        builder.at_end(self.module.append_block(constructor));
        let arguments = [
            list,
            end(list, ptr, defined.len()),
            fixups,
            end(fixups, self.fixup_type, volatile_fixups.len()),
        ];
        crate::runtime::Runtime::new(self.module).call(&builder, "register_globals", &arguments);
        builder.return_void();
        self.module.append_constructor(constructor, PRIORITY);
    }

    fn row(&self, place: Value<'m>, fixup: &Fixup<'m>) -> Value<'m> {
        let addend = self.module.i64.number(fixup.addend as u64);
        self.fixup_type.const_struct(&[place, fixup.target, addend])
    }

    fn private(&self, name: &str, ty: Type<'m>) -> Value<'m> {
        let global = self.module.add_global(name, ty);
        global.set_linkage(Linkage::LLVMPrivateLinkage);
        global.set_alignment(16);
        global
    }

    /// A private array, or null if it would be empty.
    fn array(&self, name: &str, element: Type<'m>, rows: &[Value<'m>]) -> Value<'m> {
        if rows.is_empty() {
            return self.module.ptr.null();
        }
        let content = element.const_array(rows);
        let global = self.private(name, content.ty());
        global.set_initializer(content);
        global
    }
}
