//! Walks a module.

use std::path::{Path, PathBuf};

use crate::llvm::{DebugKind, Linkage, Meta, Module, Opcode, Type, TypeKind, Value};
use crashproof_findings::is_of_rust;
use rustc_hash::FxHashMap;

use crate::frameworks::Apis;
use crate::program::ir::*;

pub(crate) struct Reader<'m> {
    pub(crate) program: &'m mut Program,
    pub(crate) apis: &'m Apis,
    pub(crate) module: &'m Module<'m>,
    directory: std::path::PathBuf,
    pub(crate) functions: FxHashMap<Value<'m>, FunctionId>,
    pub(crate) globals: FxHashMap<Value<'m>, GlobalId>,
    pub(crate) types: FxHashMap<Meta<'m>, TypeId>,
    pub(crate) places: FxHashMap<Meta<'m>, PlaceId>,
    place_texts: FxHashMap<String, String>,
}

/// State of the function being read. Empty while its instructions are counted.
#[derive(Default)]
pub(crate) struct Context<'m> {
    pub(crate) numbers: FxHashMap<Value<'m>, u32>,
    pub(crate) parameters: FxHashMap<Value<'m>, u32>,
    pub(crate) blocks: FxHashMap<crate::llvm::Block<'m>, u32>,
    own_place: PlaceId,
}

impl<'m> Reader<'m> {
    pub(crate) fn new(
        program: &'m mut Program,
        apis: &'m Apis,
        module: &'m Module<'m>,
        directory: PathBuf,
    ) -> Self {
        Reader {
            program,
            apis,
            module,
            directory,
            functions: FxHashMap::default(),
            globals: FxHashMap::default(),
            types: FxHashMap::default(),
            places: FxHashMap::default(),
            place_texts: FxHashMap::default(),
        }
    }

    pub(crate) fn module(mut self) {
        let copies: Vec<_> =
            self.module.aliases().into_iter().filter_map(|alias| self.declare_alias(alias)).collect();
        let functions = self.module.functions();
        for function in &functions {
            self.declare(*function);
        }
        let globals = self.module.globals();
        for global in &globals {
            self.declare_global(*global);
        }
        for global in &globals {
            self.initial_content(*global);
        }
        for function in functions {
            if !function.is_declaration() {
                self.define(function, self.functions[&function]);
            }
        }
        for (function, id) in copies {
            self.define(function, id);
        }
    }

    /// Declares an alias, as clang creates for constructors: calls by either name call the same function. If both names
    /// have already been called there are two functions, and the second is returned with its number.
    fn declare_alias(&mut self, alias: Value<'m>) -> Option<(Value<'m>, FunctionId)> {
        let target = alias.aliasee().filter(|target| target.is_function() && !alias.is_local())?;
        let undefined = |known: &FunctionId| !self.program.function(*known).is_defined();
        let known = self.program.symbols.get(&alias.name()).copied();
        if let Some(known) = known.filter(undefined) {
            let target_name = target.name();
            if target.is_local() || self.program.symbols.contains_key(&target_name) {
                return Some((target, known));
            }
            let function = &mut self.program.functions[known.0 as usize];
            function.readable = crate::llvm::demangle(&target_name);
            function.name.clone_from(&target_name);
            self.program.symbols.insert(target_name, known);
        }
        self.declare(target);
        if known.is_none() {
            self.program.symbols.insert(alias.name(), self.functions[&target]);
        }
        None
    }

    pub(crate) fn declare(&mut self, function: Value<'m>) {
        let name = function.name();
        let local = function.is_local();
        if self.functions.contains_key(&function) {
            // Under another name.
            return;
        }
        if !local && let Some(known) = self.program.symbols.get(&name) {
            let again = is_definition(function) && self.program.function(*known).is_defined();
            if !again {
                self.functions.insert(function, *known);
                return;
            }
            // Several programs at once: each has its own definition.
            self.program.defined_again.push(name.clone());
        }
        let id = FunctionId(self.program.functions.len() as u32);
        self.program.functions.push(Function {
            readable: crate::llvm::demangle(&name),
            name: name.clone(),
            external: !local,
            parameters: function.parameters().len() as u32,
            ..Function::default()
        });
        if !local {
            self.program.symbols.entry(name).or_insert(id);
        }
        self.functions.insert(function, id);
    }

    pub(crate) fn declare_global(&mut self, global: Value<'m>) {
        let name = global.name();
        let local = global.is_local();
        let defines = is_definition(global);
        let known = (!local).then(|| self.program.global_symbols.get(&name).copied()).flatten();
        let known = known.filter(|id| !(defines && self.program.globals[id.0 as usize].defined));
        let id = known.unwrap_or_else(|| {
            let id = GlobalId(self.program.globals.len() as u32);
            self.program.globals.push(Global { name: name.clone(), ..Global::default() });
            if !local {
                self.program.global_symbols.entry(name).or_insert(id);
            }
            id
        });
        self.globals.insert(global, id);
        let ty = global.global_debug_type().map(|meta| self.source_type(meta));
        let content = global.global_type();
        let bytes = if content.is_sized() { self.module.alloc_size(content) } else { 0 };
        let entry = &mut self.program.globals[id.0 as usize];
        entry.defined |= defines;
        entry.bytes = entry.bytes.max(bytes);
        entry.alignment = entry.alignment.max(u64::from(global.alignment())).max(1);
        if entry.section.is_empty() {
            entry.section = global.section();
        }
        entry.ty = entry.ty.or(ty);
    }

    pub(crate) fn initial_content(&mut self, global: Value<'m>) {
        if let Some(content) = global.initializer() {
            let mut pointers = Vec::new();
            self.pointers_in(content, content.ty(), 0, &mut pointers);
            for (offset, operand) in &pointers {
                if let Operand::Function(function) = operand {
                    self.moved_in_initially(global, *offset, *function);
                }
            }
            let id = self.globals[&global];
            self.program.globals[id.0 as usize].pointers.extend(pointers);
        }
    }

    /// Pointers inside a constant, with their offsets.
    pub(crate) fn pointers_in(
        &mut self,
        content: Value<'m>,
        ty: Type<'m>,
        at: u64,
        out: &mut Vec<(u64, Operand)>,
    ) {
        match ty.kind() {
            TypeKind::LLVMPointerTypeKind => {
                let operand = self.constant(content);
                if let Operand::Function(id) = operand {
                    self.program.functions[id.0 as usize].address_taken = true;
                }
                if matches!(operand, Operand::Function(_) | Operand::Global(..)) {
                    out.push((at, operand));
                }
            }
            TypeKind::LLVMStructTypeKind => {
                for member in 0..ty.members() {
                    if let Some(element) = content.aggregate_element(member) {
                        let offset = self.module.member_offset(ty, member);
                        self.pointers_in(element, ty.member(member), at + offset, out);
                    }
                }
            }
            TypeKind::LLVMArrayTypeKind => {
                let element_type = ty.element();
                // Strings and numeric tables are long and contain no pointers.
                if element_type.is_integer() || content.is_null_constant() {
                    return;
                }
                let bytes = self.module.alloc_size(element_type);
                for index in 0..ty.array_length() {
                    if let Some(element) = content.aggregate_element(index as u32) {
                        self.pointers_in(element, element_type, at + index * bytes, out);
                    }
                }
            }
            _ => {}
        }
    }

    pub(crate) fn define(&mut self, value: Value<'m>, id: FunctionId) {
        if self.program.function(id).is_defined() {
            // The same inline function from another module.
            return;
        }
        let own_place = value.function_location().map_or(PlaceId(0), |location| {
            let place = self.place_of(location, None);
            self.add_place(place)
        });
        let mut context = Context {
            numbers: FxHashMap::default(),
            parameters: value.parameters().into_iter().zip(0..).collect(),
            blocks: value.blocks().into_iter().zip(0..).collect(),
            own_place,
        };
        let mut count = 0;
        for block in value.blocks() {
            for instruction in block.instructions() {
                context.numbers.insert(instruction, count);
                count += self.width(instruction);
            }
        }
        let mut blocks = Vec::new();
        let mut instructions = Vec::with_capacity(count as usize);
        for block in value.blocks() {
            let start = instructions.len() as u32;
            for instruction in block.instructions() {
                let place = self.place(instruction, &context);
                debug_assert_eq!(context.numbers[&instruction] as usize, instructions.len());
                self.instruction(instruction, &context, place, &mut instructions);
            }
            blocks.push(Block { start, end: instructions.len() as u32 });
        }
        let mut variables = FxHashMap::default();
        let mut own = value.variables();
        let libraries: Vec<_> = own
            .extract_if(.., |variable| {
                let function = crate::llvm::demangle(&variable.function);
                // A lambda's `this` is its captures.
                self.apis.is_of_a_library(&function) || names_a_lambda(&function) && variable.name == "this"
            })
            .collect();
        // The program's names are preferable to a library's for the same value.
        let own = own.into_iter().map(|variable| (variable, false));
        for (variable, of_a_library) in own.chain(libraries.into_iter().map(|variable| (variable, true))) {
            let operand = self.operand(variable.value, &context);
            if matches!(operand, Operand::Instruction(_) | Operand::Parameter(_)) && !variable.name.is_empty()
            {
                let ty = variable.ty.map(|meta| self.source_type(meta));
                variables.entry(operand).or_insert(Variable {
                    name: variable.name,
                    ty,
                    is_address: variable.is_address,
                    of_a_library,
                });
            }
        }
        let homes = self.note_homes(value, &context);
        let function = &mut self.program.functions[id.0 as usize];
        function.homes = homes;
        function.blocks = blocks;
        function.instructions = instructions;
        function.place = Some(own_place);
        function.variables = variables;
        function.external = !value.is_local();
        function.returns_pointer = value.returned_type().is_pointer();
        function.parameters = value.parameters().len() as u32;
    }

    /// The number of our instructions for one of LLVM's. A call may have several effects; an invoke is a call and a
    /// jump.
    pub(crate) fn width(&mut self, instruction: Value<'m>) -> u32 {
        match instruction.opcode() {
            Opcode::LLVMCallBr => 2,
            Opcode::LLVMCall => self.call(instruction, &Context::default(), 0).len() as u32,
            Opcode::LLVMInvoke => self.call(instruction, &Context::default(), 0).len() as u32 + 1,
            _ => 1,
        }
    }

    pub(crate) fn place(&mut self, instruction: Value<'m>, context: &Context<'m>) -> PlaceId {
        match instruction.debug_location() {
            Some(meta) => self.place_of_meta(meta, context.own_place),
            None => context.own_place,
        }
    }

    pub(crate) fn place_of_meta(&mut self, meta: Meta<'m>, otherwise: PlaceId) -> PlaceId {
        if let Some(known) = self.places.get(&meta) {
            return *known;
        }
        let Some((location, outer)) = meta.location() else { return otherwise };
        let outer = outer.map(|outer| self.place_of_meta(outer, otherwise));
        // The optimizer uses line 0 for merged code.
        let id = if location.line == 0 {
            outer.unwrap_or(otherwise)
        } else {
            let place = self.place_of(location, outer);
            self.add_place(place)
        };
        self.places.insert(meta, id);
        id
    }

    pub(crate) fn place_of(&mut self, location: crate::llvm::Location, inlined_at: Option<PlaceId>) -> Place {
        // Rust's standard library is recognized by its source paths: it has no C++ namespace.
        let is_dependency = location.file.contains("/registry/src/");
        let of_a_library =
            is_of_rust(&location.file) || is_dependency || self.apis.is_of_a_library(&location.function);
        let in_lambda = names_a_lambda(&location.function);
        let directory = &self.directory;
        let file =
            self.place_texts.entry(location.file).or_insert_with_key(|file| seen_from_here(file, directory));
        Place {
            file: file.clone(),
            line: location.line,
            column: location.column,
            function: location.function,
            inlined_at,
            of_a_library,
            in_lambda,
        }
    }

    pub(crate) fn add_place(&mut self, place: Place) -> PlaceId {
        self.program.add_place(place)
    }

    pub(crate) fn source_type(&mut self, meta: Meta<'m>) -> TypeId {
        if let Some(known) = self.types.get(&meta) {
            return *known;
        }
        let id = TypeId(self.program.types.len() as u32);
        self.program.types.push(SourceType::default());
        self.types.insert(meta, id);
        let ty = meta.debug_type();
        let base = ty.base.map(|base| self.source_type(base));
        let mut members = Vec::new();
        if ty.kind == DebugKind::Structure {
            for member in meta.members() {
                let inner = member.ty.map(|inner| self.source_type(inner));
                members.push((member.offset, member.name, inner));
            }
            members.sort_by_key(|member| member.0);
        }
        // So are structures that hold others.
        let of_types =
            members.iter().filter_map(|member| member.2).chain(base.filter(|_| ty.kind == DebugKind::Array));
        let alignment =
            of_types.map(|inner| self.program.types[inner.0 as usize].alignment).fold(ty.alignment, u64::max);
        self.program.types[id.0 as usize] = SourceType {
            name: ty.name,
            bytes: ty.bytes,
            base,
            is_pointer: ty.kind == DebugKind::Pointer,
            is_array: ty.kind == DebugKind::Array,
            alignment,
            members,
        };
        id
    }

    pub(crate) fn constant(&mut self, value: Value<'m>) -> Operand {
        if let Some(number) = value.as_signed() {
            // A bit has no sign: true is not an error code.
            let is_bit = value.ty().int_bits() == 1;
            return Operand::Int(if is_bit { number & 1 } else { number });
        }
        if value.is_undefined() {
            return Operand::Undefined;
        }
        if value.is_null_constant() {
            return Operand::Int(0);
        }
        if value.is_function() {
            return self.functions.get(&value).map_or(Operand::Undefined, |id| Operand::Function(*id));
        }
        if let Some(target) = value.aliasee() {
            return self.constant(target);
        }
        if value.is_constant_expression() {
            match value.constant_opcode() {
                // The end of a global, as an integer.
                Opcode::LLVMAdd => {
                    return match (self.constant(value.operand(0)), self.constant(value.operand(1))) {
                        (Operand::Global(id, offset), Operand::Int(number)) => {
                            Operand::Global(id, offset + number)
                        }
                        _ => Operand::Undefined,
                    };
                }
                // An error code returned as a pointer.
                Opcode::LLVMIntToPtr | Opcode::LLVMPtrToInt => return self.constant(value.operand(0)),
                _ => {}
            }
        }
        match self.module.constant_base(value) {
            Some((base, offset)) if base.is_global_variable() => {
                self.globals.get(&base).map_or(Operand::Undefined, |id| Operand::Global(*id, offset))
            }
            Some((base, _)) if base.is_function() => {
                self.functions.get(&base).map_or(Operand::Undefined, |id| Operand::Function(*id))
            }
            Some((base, offset)) if base.is_null_constant() => Operand::Int(offset),
            _ => Operand::Undefined,
        }
    }

    pub(crate) fn operand(&mut self, value: Value<'m>, context: &Context<'m>) -> Operand {
        if let Some(number) = context.numbers.get(&value) {
            return Operand::Instruction(*number);
        }
        if let Some(number) = context.parameters.get(&value) {
            return Operand::Parameter(*number);
        }
        if value.is_constant() { self.constant(value) } else { Operand::Undefined }
    }

    /// An operand whose address escapes: a function there can be called from anywhere.
    pub(crate) fn escaping(&mut self, value: Value<'m>, context: &Context<'m>) -> Operand {
        let operand = self.operand(value, context);
        if let Operand::Function(id) = operand {
            self.program.functions[id.0 as usize].address_taken = true;
        }
        operand
    }

    pub(crate) fn bytes(&self, ty: Type<'m>) -> u64 {
        if ty.is_sized() { self.module.store_size(ty) } else { 8 }
    }

    pub(crate) fn not_understood(&mut self, place: PlaceId, what: &str) {
        self.program.not_understood.push((place, what.to_owned()));
    }
}

/// Whether a module defines a symbol for all others. Inline functions and templates are defined in every module that
/// uses them.
fn is_definition(symbol: Value<'_>) -> bool {
    !symbol.is_declaration() && symbol.linkage() == Linkage::LLVMExternalLinkage
}

/// A file name from a compiler that ran in `directory`, relative to the current directory.
pub fn seen_from_here(file: &str, directory: &Path) -> String {
    let full = directory.join(file);
    let here = std::env::current_dir().unwrap_or_default();
    let mut plain = std::path::PathBuf::new();
    for part in full.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain.strip_prefix(&here).unwrap_or(&plain).display().to_string()
}
