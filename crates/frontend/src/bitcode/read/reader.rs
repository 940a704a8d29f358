//! Walks a module.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::bitcode::ir::{Function, FunctionId, GlobalId, Module, Place};
use crate::llvm::{self, Value};

pub(crate) struct Reader<'m> {
    pub(crate) module: &'m llvm::Module<'m>,
    pub(crate) functions: FxHashMap<Value<'m>, FunctionId>,
    pub(crate) globals: FxHashMap<Value<'m>, GlobalId>,
    files: FxHashMap<String, Rc<str>>,
}

impl<'m> Reader<'m> {
    pub(crate) fn new(module: &'m llvm::Module<'m>) -> Self {
        let functions = module.functions().into_iter().zip((0..).map(FunctionId)).collect();
        let globals = module.globals().into_iter().zip((0..).map(GlobalId)).collect();
        Reader { module, functions, globals, files: FxHashMap::default() }
    }

    pub(crate) fn module(mut self) -> Module {
        let globals = self.module.globals().into_iter().map(|global| self.global(global)).collect();
        let functions: Vec<Function> =
            self.module.functions().into_iter().map(|function| self.function(function)).collect();
        Module { functions, globals, assembly: self.module.file_scope_assembly() }
    }

    /// Where an instruction, function or global stands.
    pub(crate) fn place(&mut self, value: Value<'m>) -> Place {
        let (name, line, column) = value.source_place();
        let file = self.files.entry(name).or_insert_with_key(|name| Rc::from(name.as_str())).clone();
        Place { file, line, column }
    }
}
