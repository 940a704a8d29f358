//! Calls into the runtime, declared on first use from the list in `crashproof_protocol::abi`.

use crashproof_protocol::abi::{FUNCTIONS, Type as AbiType};
use rustc_hash::FxHashMap;

use crashproof_frontend::llvm::{Builder, Module, Type, Value};

/// Declarations of runtime functions in one module.
pub(crate) struct Runtime<'m> {
    module: &'m Module<'m>,
    declared: FxHashMap<&'static str, (Type<'m>, Value<'m>)>,
}

/// Functions called on the way of volatile code; all others are reached only with PM in hand.
const USUAL: [&str; 5] = [
    "__crashproof_sfence",
    "__crashproof_mfence",
    "__crashproof_before",
    "__crashproof_locked",
    "__crashproof_sync",
];

impl<'m> Runtime<'m> {
    pub(crate) fn new(module: &'m Module<'m>) -> Self {
        Runtime { module, declared: FxHashMap::default() }
    }

    /// Calls `__crashproof_<name>`.
    pub(crate) fn call(&mut self, builder: &Builder<'m>, name: &str, arguments: &[Value<'m>]) -> Value<'m> {
        let (ty, function) = self.function(name);
        builder.call(ty, function, arguments)
    }

    fn function(&mut self, short: &str) -> (Type<'m>, Value<'m>) {
        let described = FUNCTIONS
            .iter()
            .find(|f| f.name.strip_prefix("__crashproof_") == Some(short))
            .unwrap_or_else(|| unreachable!("{short} is not in the interface"));
        if let Some(known) = self.declared.get(described.name) {
            return *known;
        }
        let lower = |ty| match ty {
            AbiType::Void => self.module.void,
            AbiType::U32 => self.module.i32,
            AbiType::U64 => self.module.i64,
            AbiType::Pointer => self.module.ptr,
        };
        let params: Vec<Type<'m>> = described.params.iter().map(|(_, ty)| lower(*ty)).collect();
        let ty = self.module.function_type(lower(described.result), &params);
        let function = self
            .module
            .function_named(described.name)
            .unwrap_or_else(|| self.module.add_function(described.name, ty));
        self.module.add_function_attribute(function, "nounwind");
        // Straight through the global offset table: the call is frequent in programs that use PM.
        self.module.add_function_attribute(function, "nonlazybind");
        if !USUAL.contains(&described.name) {
            // Keeps the registers and the layout of the volatile path undisturbed.
            self.module.add_function_attribute(function, "cold");
        }
        self.declared.insert(described.name, (ty, function));
        (ty, function)
    }
}
