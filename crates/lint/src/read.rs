//! LLVM bitcode into [`Program`].
//!
//! The best input is what clang makes before its optimiser ran, with debug information: types and
//! variables are still what the source says. A few passes then remove what would only be in the way:
//! variables become values, constants are propagated so that dead flush branches go, and functions that
//! must be inlined are.

use std::path::Path;

use crashproof_abi::asm::{LOCKED, NONTEMPORAL, WRITE};
use crashproof_llvm::asm::{self, Address, Effect, Flush};
use crashproof_llvm::{
    CallClass, DebugKind, File, Meta, Module, Opcode, Ordering, Predicate, Type, TypeKind, Value,
};
use px86::order::Class;
use rustc_hash::FxHashMap;

use crate::ir::*;

/// What prepares a module. Helpers inside the headers of compilers and libraries vanish, so that places
/// are those of the code that uses them.
const PASSES: &str = "always-inline,function(sroa,sccp,simplifycfg,instsimplify)";

/// Reads a file of bitcode or IR text into a program. `directory` is where the compiler ran.
///
/// # Errors
///
/// What LLVM says about the file.
pub fn read(program: &mut Program, path: &Path, directory: &Path) -> Result<(), String> {
    let file = File::read(path)?;
    for function in file.module().functions() {
        // Unoptimised code forbids every pass.
        function.remove_function_attribute("optnone");
    }
    file.run_passes(PASSES)?;
    let module = file.module();
    let has_places = module.functions().iter().any(|f| f.has_debug_info());
    if !has_places && module.functions().iter().any(|f| !f.is_declaration()) {
        program.without_debug_info.push(path.display().to_string());
    }
    Reader {
        program,
        module,
        directory: directory.to_owned(),
        functions: FxHashMap::default(),
        globals: FxHashMap::default(),
        types: FxHashMap::default(),
        places: FxHashMap::default(),
        place_texts: FxHashMap::default(),
    }
    .module();
    Ok(())
}

struct Reader<'a> {
    program: &'a mut Program,
    module: &'a Module,
    directory: std::path::PathBuf,
    functions: FxHashMap<Value, FunctionId>,
    globals: FxHashMap<Value, GlobalId>,
    types: FxHashMap<Meta, TypeId>,
    places: FxHashMap<Meta, PlaceId>,
    place_texts: FxHashMap<String, String>,
}

/// What is known while a function is read.
struct Context {
    numbers: FxHashMap<Value, u32>,
    parameters: FxHashMap<Value, u32>,
    blocks: FxHashMap<crashproof_llvm::Block, u32>,
    own_place: PlaceId,
}

impl Reader<'_> {
    fn module(mut self) {
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
                self.define(function);
            }
        }
    }

    fn declare(&mut self, function: Value) {
        let name = function.name();
        let local = function.is_local();
        if !local && let Some(known) = self.program.symbols.get(&name) {
            self.functions.insert(function, *known);
            return;
        }
        let id = FunctionId(self.program.functions.len() as u32);
        self.program.functions.push(Function {
            readable: crashproof_llvm::demangle(&name),
            name: name.clone(),
            external: !local,
            parameters: function.parameters().len() as u32,
            ..Function::default()
        });
        if !local {
            self.program.symbols.insert(name, id);
        }
        self.functions.insert(function, id);
    }

    fn declare_global(&mut self, global: Value) {
        let name = global.name();
        let local = global.is_local();
        let known = (!local).then(|| self.program.global_symbols.get(&name).copied()).flatten();
        let id = known.unwrap_or_else(|| {
            let id = GlobalId(self.program.globals.len() as u32);
            self.program.globals.push(Global { name: name.clone(), ..Global::default() });
            if !local {
                self.program.global_symbols.insert(name, id);
            }
            id
        });
        self.globals.insert(global, id);
        let ty = global.global_debug_type().map(|meta| self.source_type(meta));
        let content = global.global_type();
        let bytes = if content.is_sized() { self.module.alloc_size(content) } else { 0 };
        let entry = &mut self.program.globals[id.0 as usize];
        entry.bytes = entry.bytes.max(bytes);
        entry.alignment = entry.alignment.max(u64::from(global.alignment())).max(1);
        if entry.section.is_empty() {
            entry.section = global.section();
        }
        entry.ty = entry.ty.or(ty);
    }

    fn initial_content(&mut self, global: Value) {
        if let Some(content) = global.initializer() {
            let mut pointers = Vec::new();
            self.pointers_in(content, content.ty(), 0, &mut pointers);
            let id = self.globals[&global];
            self.program.globals[id.0 as usize].pointers.extend(pointers);
        }
    }

    /// Pointers inside a constant, with their offsets.
    fn pointers_in(&mut self, content: Value, ty: Type, at: u64, out: &mut Vec<(u64, Operand)>) {
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
                // Strings and tables of numbers are long and hold no pointers.
                if element_type.is_integer() {
                    return;
                }
                let bytes = self.module.alloc_size(element_type);
                for index in 0..ty.array_length().min(4096) {
                    if let Some(element) = content.aggregate_element(index as u32) {
                        self.pointers_in(element, element_type, at + index * bytes, out);
                    }
                }
            }
            _ => {}
        }
    }

    fn define(&mut self, value: Value) {
        let id = self.functions[&value];
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
                let width = self.width(instruction) as usize;
                let before = instructions.len();
                self.instruction(instruction, &context, place, &mut instructions);
                while instructions.len() < before + width {
                    instructions.push(Instruction { op: Op::Other, place });
                }
                debug_assert_eq!(instructions.len(), before + width);
            }
            blocks.push(Block { start, end: instructions.len() as u32 });
        }
        let mut variables = FxHashMap::default();
        for variable in value.variables() {
            let operand = self.operand(variable.value, &context);
            if matches!(operand, Operand::Instruction(_) | Operand::Parameter(_)) && !variable.name.is_empty()
            {
                let ty = variable.ty.map(|meta| self.source_type(meta));
                variables.entry(operand).or_insert(Variable {
                    name: variable.name,
                    ty,
                    is_address: variable.is_address,
                });
            }
        }
        let function = &mut self.program.functions[id.0 as usize];
        function.blocks = blocks;
        function.instructions = instructions;
        function.place = Some(own_place);
        function.variables = variables;
        function.external = !value.is_local();
        function.returns_pointer = value.returned_type().is_pointer();
        function.parameters = value.parameters().len() as u32;
    }

    /// How many of our instructions one of LLVM's becomes. An invoke is a call and a branch; assembly may do
    /// several things.
    fn width(&self, instruction: Value) -> u32 {
        match instruction.opcode() {
            Opcode::LLVMInvoke | Opcode::LLVMCallBr => 2,
            Opcode::LLVMCall if instruction.call_class() == CallClass::Asm => self
                .assembly(instruction)
                .map_or(1, |summary| {
                    (summary.before.len() + summary.accesses.len() + summary.after.len()) as u32
                })
                .max(1),
            _ => 1,
        }
    }

    fn assembly(&self, call: Value) -> Result<asm::Summary, String> {
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

    fn place(&mut self, instruction: Value, context: &Context) -> PlaceId {
        match instruction.debug_location() {
            Some(meta) => self.place_of_meta(meta, context.own_place),
            None => context.own_place,
        }
    }

    fn place_of_meta(&mut self, meta: Meta, otherwise: PlaceId) -> PlaceId {
        if let Some(known) = self.places.get(&meta) {
            return *known;
        }
        let Some((location, outer)) = meta.location() else { return otherwise };
        let outer = outer.map(|outer| self.place_of_meta(outer, otherwise));
        // The optimiser writes line 0 where it merged code.
        let id = if location.line == 0 {
            outer.unwrap_or(otherwise)
        } else {
            let place = self.place_of(location, outer);
            self.add_place(place)
        };
        self.places.insert(meta, id);
        id
    }

    fn place_of(&mut self, location: crashproof_llvm::Location, inlined_at: Option<PlaceId>) -> Place {
        let directory = &self.directory;
        let file =
            self.place_texts.entry(location.file).or_insert_with_key(|file| seen_from_here(file, directory));
        Place {
            file: file.clone(),
            line: location.line,
            column: location.column,
            function: location.function,
            inlined_at,
        }
    }

    fn add_place(&mut self, place: Place) -> PlaceId {
        self.program.places.push(place);
        PlaceId(self.program.places.len() as u32 - 1)
    }

    fn source_type(&mut self, meta: Meta) -> TypeId {
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
        self.program.types[id.0 as usize] = SourceType {
            name: ty.name,
            bytes: ty.bytes,
            base,
            is_pointer: ty.kind == DebugKind::Pointer,
            is_array: ty.kind == DebugKind::Array,
            members,
        };
        id
    }

    fn constant(&mut self, value: Value) -> Operand {
        if let Some(number) = value.as_signed() {
            return Operand::Int(number);
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
        if value.is_constant_expression() && value.constant_opcode() == Opcode::LLVMAdd {
            // The end of a global, as an integer.
            return match (self.constant(value.operand(0)), self.constant(value.operand(1))) {
                (Operand::Global(id, offset), Operand::Int(number)) => Operand::Global(id, offset + number),
                _ => Operand::Undefined,
            };
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

    fn operand(&mut self, value: Value, context: &Context) -> Operand {
        if let Some(number) = context.numbers.get(&value) {
            return Operand::Instruction(*number);
        }
        if let Some(number) = context.parameters.get(&value) {
            return Operand::Parameter(*number);
        }
        if value.is_constant() { self.constant(value) } else { Operand::Undefined }
    }

    /// An operand whose address leaves: a function there can be called from anywhere.
    fn escaping(&mut self, value: Value, context: &Context) -> Operand {
        let operand = self.operand(value, context);
        if let Operand::Function(id) = operand {
            self.program.functions[id.0 as usize].address_taken = true;
        }
        operand
    }

    fn bytes(&self, ty: Type) -> u64 {
        if ty.is_sized() { self.module.store_size(ty) } else { 8 }
    }

    fn instruction(&mut self, value: Value, context: &Context, place: PlaceId, out: &mut Vec<Instruction>) {
        let block = |block: crashproof_llvm::Block| context.blocks[&block];
        let op = match value.opcode() {
            Opcode::LLVMAlloca => {
                let ty = value.allocated_type();
                let count = value.operand(0).as_number();
                let one = if ty.is_sized() { self.module.alloc_size(ty) } else { 0 };
                Op::Alloca { bytes: count.map_or(0, |count| count.saturating_mul(one)) }
            }
            Opcode::LLVMLoad => {
                Op::Load { address: self.operand(value.operand(0), context), bytes: self.bytes(value.ty()) }
            }
            Opcode::LLVMStore => Op::Store {
                address: self.operand(value.operand(1), context),
                value: self.escaping(value.operand(0), context),
                bytes: self.bytes(value.operand(0).ty()),
                nontemporal: value.has_metadata("nontemporal"),
            },
            Opcode::LLVMAtomicRMW => Op::Locked {
                address: self.operand(value.operand(0), context),
                value: Operand::Undefined,
                bytes: self.bytes(value.operand(1).ty()),
            },
            Opcode::LLVMAtomicCmpXchg => Op::Locked {
                address: self.operand(value.operand(0), context),
                value: self.escaping(value.operand(2), context),
                bytes: self.bytes(value.operand(2).ty()),
            },
            Opcode::LLVMGetElementPtr => self.address(value, context),
            Opcode::LLVMPHI => Op::Phi {
                incoming: value
                    .incoming_pairs()
                    .into_iter()
                    .map(|(incoming, from)| (block(from), self.escaping(incoming, context)))
                    .collect(),
            },
            Opcode::LLVMSelect => Op::Select {
                condition: self.operand(value.operand(0), context),
                yes: self.escaping(value.operand(1), context),
                no: self.escaping(value.operand(2), context),
            },
            Opcode::LLVMBitCast
            | Opcode::LLVMPtrToInt
            | Opcode::LLVMIntToPtr
            | Opcode::LLVMZExt
            | Opcode::LLVMSExt
            | Opcode::LLVMTrunc
            | Opcode::LLVMFreeze
            | Opcode::LLVMAddrSpaceCast => Op::Copy { value: self.escaping(value.operand(0), context) },
            Opcode::LLVMICmp => Op::Compare {
                what: match value.predicate() {
                    Predicate::LLVMIntEQ => Compare::Eq,
                    Predicate::LLVMIntNE => Compare::Ne,
                    Predicate::LLVMIntULT | Predicate::LLVMIntSLT => Compare::Lt,
                    Predicate::LLVMIntULE | Predicate::LLVMIntSLE => Compare::Le,
                    Predicate::LLVMIntUGT | Predicate::LLVMIntSGT => Compare::Gt,
                    Predicate::LLVMIntUGE | Predicate::LLVMIntSGE => Compare::Ge,
                },
                left: self.operand(value.operand(0), context),
                right: self.operand(value.operand(1), context),
            },
            Opcode::LLVMExtractValue => {
                let indices = value.indices();
                let aggregate = self.operand(value.operand(0), context);
                // One level is what calling conventions make; deeper ones say nothing.
                if indices.len() == 1 { Op::Extract { aggregate, index: indices[0] } } else { Op::Other }
            }
            Opcode::LLVMInsertValue => {
                let indices = value.indices();
                let aggregate = self.operand(value.operand(0), context);
                let inner = self.escaping(value.operand(1), context);
                if indices.len() == 1 {
                    Op::Insert { aggregate, value: inner, index: indices[0] }
                } else {
                    Op::Other
                }
            }
            Opcode::LLVMFence if value.is_single_thread() => Op::Other,
            Opcode::LLVMFence => match value.ordering() {
                // Anything weaker is no instruction on x86.
                Ordering::LLVMAtomicOrderingSequentiallyConsistent => Op::Fence { class: Class::Fence },
                _ => Op::Other,
            },
            Opcode::LLVMCall => {
                self.call(value, context, place, out);
                return;
            }
            Opcode::LLVMInvoke => {
                self.call(value, context, place, out);
                out.push(Instruction { op: Op::Jump { to: block(value.normal_destination()) }, place });
                return;
            }
            Opcode::LLVMBr => match value.condition() {
                Some(condition) => {
                    let to = value.successors();
                    let condition = self.operand(condition, context);
                    Op::Branch { condition, yes: block(to[0]), no: block(to[1]) }
                }
                None => Op::Jump { to: block(value.successors()[0]) },
            },
            Opcode::LLVMSwitch => {
                let to = value.successors();
                let mut cases = Vec::new();
                for (number, case) in to.iter().enumerate().skip(1) {
                    if let Some(constant) = value.case_value(number as u32).as_signed() {
                        cases.push((constant, block(*case)));
                    }
                }
                let switched = self.operand(value.operand(0), context);
                Op::Switch { value: switched, cases, default: block(to[0]) }
            }
            Opcode::LLVMRet => {
                let result = (value.operand_count() > 0).then(|| self.escaping(value.operand(0), context));
                Op::Return { value: result }
            }
            Opcode::LLVMUnreachable | Opcode::LLVMResume => Op::Unreachable,
            Opcode::LLVMIndirectBr | Opcode::LLVMCallBr => {
                self.not_understood(place, "a jump that is not followed");
                if value.opcode() == Opcode::LLVMCallBr {
                    out.push(Instruction { op: Op::Other, place });
                }
                match value.successors().first() {
                    Some(first) => Op::Jump { to: block(*first) },
                    None => Op::Unreachable,
                }
            }
            other => match arithmetic(other) {
                Some(what) => Op::Arithmetic {
                    what,
                    left: self.operand(value.operand(0), context),
                    right: self.operand(value.operand(1), context),
                },
                None => Op::Other,
            },
        };
        out.push(Instruction { op, place });
    }

    fn address(&mut self, value: Value, context: &Context) -> Op {
        let base = self.escaping(value.operand(0), context);
        let mut ty = value.gep_source_type();
        let (mut offset, mut index) = (0_i64, Vec::new());
        for position in 1..value.operand_count() {
            let operand = value.operand(position);
            let scale = if position == 1 {
                self.module.alloc_size(ty)
            } else if ty.kind() == TypeKind::LLVMStructTypeKind {
                let member = operand.as_number().unwrap_or(0) as u32;
                offset += self.module.member_offset(ty, member) as i64;
                ty = ty.member(member);
                continue;
            } else {
                ty = ty.element();
                self.module.alloc_size(ty)
            };
            match operand.as_signed() {
                Some(number) => offset += number * scale as i64,
                None => index.push((self.operand(operand, context), scale as i64)),
            }
        }
        Op::Offset { base, offset, index }
    }

    fn not_understood(&mut self, place: PlaceId, what: &str) {
        self.program.not_understood.push((place, what.to_owned()));
    }

    fn call(&mut self, call: Value, context: &Context, place: PlaceId, out: &mut Vec<Instruction>) {
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
    fn library(&self, callee: Callee, arguments: &[Operand]) -> Option<Op> {
        let Callee::Direct(id) = callee else { return None };
        let name = self.program.function(id).name.as_str();
        let bulk = |source: Option<usize>, value: Operand, length: Operand| Op::Bulk {
            target: arguments[0],
            source: source.map(|number| arguments[number]),
            value,
            length,
        };
        Some(match (name, arguments.len()) {
            ("memcpy" | "memmove" | "__memcpy_chk" | "__memmove_chk" | "strncpy" | "__strncpy_chk", 3..) => {
                bulk(Some(1), Operand::Undefined, arguments[2])
            }
            ("memset" | "__memset_chk", 3..) => bulk(None, arguments[1], arguments[2]),
            ("strcpy" | "__strcpy_chk" | "stpcpy", 2..) => {
                bulk(Some(1), Operand::Undefined, Operand::Undefined)
            }
            ("bzero", 2..) => bulk(None, Operand::Int(0), arguments[1]),
            _ => return None,
        })
    }

    fn intrinsic(&mut self, call: Value, context: &Context, place: PlaceId) -> Op {
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

    fn asm_call(&mut self, call: Value, context: &Context, place: PlaceId, out: &mut Vec<Instruction>) {
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
}

fn arithmetic(opcode: Opcode) -> Option<Arithmetic> {
    Some(match opcode {
        Opcode::LLVMAdd => Arithmetic::Add,
        Opcode::LLVMSub => Arithmetic::Sub,
        Opcode::LLVMMul => Arithmetic::Mul,
        Opcode::LLVMAnd => Arithmetic::And,
        Opcode::LLVMOr => Arithmetic::Or,
        Opcode::LLVMXor => Arithmetic::Xor,
        Opcode::LLVMShl => Arithmetic::Shl,
        Opcode::LLVMLShr | Opcode::LLVMAShr => Arithmetic::Shr,
        Opcode::LLVMUDiv | Opcode::LLVMSDiv => Arithmetic::Div,
        Opcode::LLVMURem | Opcode::LLVMSRem => Arithmetic::Rem,
        _ => return None,
    })
}

/// A file named by a compiler that ran in `directory`, as seen from the current directory.
fn seen_from_here(file: &str, directory: &Path) -> String {
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
