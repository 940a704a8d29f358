//! Functions to which a library returns pointers, as `pmem2_get_persist_fn` does. No module declares them, so they are
//! declared here under the names of their descriptions, and calls through the pointers are followed like any other.

use crashproof_frontend::frameworks::{Apis, Returns};
use crashproof_frontend::program::ir::{Function, FunctionId, Program};

/// The number of parameters of a function that no module declares.
const UNDECLARED: u32 = u32::MAX;

/// Declares the functions to which the program's described functions return pointers.
pub(crate) fn declare(program: &mut Program, apis: &Apis) {
    for at in 0..program.functions.len() {
        let Some(Returns::Function(number)) =
            apis.meaning(&program.functions[at].name).map(|meaning| meaning.returns)
        else {
            continue;
        };
        let name = &apis.returned[number as usize];
        if !program.symbols.contains_key(name) {
            let id = FunctionId(program.functions.len() as u32);
            program.functions.push(Function {
                name: name.clone(),
                readable: name.clone(),
                parameters: UNDECLARED,
                ..Function::default()
            });
            program.symbols.insert(name.clone(), id);
        }
    }
}

/// The function to which a described one returns a pointer.
pub(crate) fn function(program: &Program, apis: &Apis, returns: Returns) -> Option<FunctionId> {
    let Returns::Function(number) = returns else { return None };
    program.symbols.get(&apis.returned[number as usize]).copied()
}

/// Whether a function can be called with this number of arguments.
pub(crate) fn takes(program: &Program, id: FunctionId, arguments: usize) -> bool {
    let parameters = program.function(id).parameters;
    parameters == UNDECLARED || parameters as usize == arguments
}
