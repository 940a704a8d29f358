//! Inlines the code of C++ libraries.
//!
//! `*node = value` may expand to a dozen template calls, down to the one that logs, and a transaction is a lambda in a
//! `std::function`. Individually, such functions are passed all kinds of memory and do not know the surrounding
//! transaction. So library code, recognized by its namespace, is inlined into the function that uses it. Functions of
//! the program are kept, except lambdas, which belong to their function anyway. Paths that end with an exception remain
//! calls: building its message takes more code than everything else, and persists nothing.

use crate::llvm::{Block, File, Linkage, Opcode, Value, demangle};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::frameworks::{Apis, Returns};
use crate::program::ir::names_a_lambda;

/// The passes that prepare a module with such code. They also resolve pointers to functions, including those in memory.
pub(crate) const PASSES: &str = "always-inline,\
    cgscc(devirt<4>(inline,function(sroa,gvn<no-pre;no-load-pre>,sccp,simplifycfg,instsimplify))),globaldce";

/// Functions that would exceed this size, including everything they call, are inlined only if LLVM would inline them.
const LARGEST: usize = 2000;

/// Whether a function's result is described, so that its calls must be kept.
pub(crate) fn is_described(apis: &Apis, function: Value<'_>) -> bool {
    apis.meaning(&function.name()).is_some_and(|meaning| meaning.returns != Returns::Anything)
}

/// Marks functions to be inlined or kept. `false` if there are none to inline.
pub(crate) fn libraries(file: &File, apis: &Apis) -> bool {
    let module = file.module();
    let defined = module.functions().into_iter().filter(|function| !function.is_declaration());
    let (inlined, kept): (Vec<Value<'_>>, Vec<Value<'_>>) =
        defined.partition(|function| is_part(apis, *function));
    if inlined.is_empty() {
        return false;
    }
    let badly = inlined.iter().chain(&kept).map(|function| (*function, ending_badly(*function))).collect();
    let mut sizes = Sizes { parts: inlined.iter().copied().collect(), badly, known: FxHashMap::default() };
    for function in inlined {
        if sizes.is_inlined(function) {
            module.add_function_attribute(function, "alwaysinline");
        }
    }
    for function in kept {
        if !function.has_function_attribute("alwaysinline") {
            module.add_function_attribute(function, "noinline");
        }
    }
    let blocks = sizes.badly.into_values().flatten();
    for call in blocks.flat_map(Block::instructions).filter(|instruction| is_call(*instruction)) {
        module.add_call_attribute(call, "noinline");
    }
    true
}

fn is_part(apis: &Apis, function: Value<'_>) -> bool {
    let discardable =
        matches!(function.linkage(), Linkage::LLVMLinkOnceODRLinkage | Linkage::LLVMInternalLinkage);
    let name = function.name();
    if !discardable || !name.starts_with("_Z") || apis.meaning(&name).is_some() {
        return false;
    }
    let readable = demangle(&name);
    apis.is_of_a_library(&readable) || names_a_lambda(&readable)
}

fn is_call(instruction: Value<'_>) -> bool {
    matches!(instruction.opcode(), Opcode::LLVMCall | Opcode::LLVMInvoke)
}

/// The number of instructions of functions after inlining.
struct Sizes<'m> {
    parts: FxHashSet<Value<'m>>,
    /// Blocks that do not count.
    badly: FxHashMap<Value<'m>, FxHashSet<Block<'m>>>,
    /// `None` while being counted, because recursion has no end.
    known: FxHashMap<Value<'m>, Option<usize>>,
}

impl<'m> Sizes<'m> {
    fn is_inlined(&mut self, function: Value<'m>) -> bool {
        self.parts.contains(&function)
            && !function.has_function_attribute("noinline")
            && self.of(function).is_some_and(|size| size <= LARGEST)
    }

    fn of(&mut self, function: Value<'m>) -> Option<usize> {
        if let Some(known) = self.known.get(&function) {
            return *known;
        }
        self.known.insert(function, None);
        let mut total = 0;
        let blocks = function.blocks().into_iter();
        for block in blocks.filter(|block| !self.badly[&function].contains(block)).collect::<Vec<_>>() {
            for instruction in block.instructions() {
                let callee = is_call(instruction).then(|| instruction.callee());
                let callee = callee.filter(|callee| self.is_inlined(*callee));
                total += callee.and_then(|callee| self.of(callee)).unwrap_or(1);
            }
        }
        self.known.insert(function, Some(total));
        Some(total)
    }
}

/// The blocks from which every path ends with an exception or ends the program.
fn ending_badly<'m>(function: Value<'m>) -> FxHashSet<Block<'m>> {
    let blocks = function.blocks();
    let mut badly = FxHashSet::default();
    loop {
        let before = badly.len();
        for &block in &blocks {
            let Some(&last) = block.instructions().last() else { continue };
            let ends = match last.opcode() {
                Opcode::LLVMUnreachable | Opcode::LLVMResume => true,
                Opcode::LLVMRet => false,
                _ => {
                    let next = last.successors();
                    !next.is_empty() && next.iter().all(|next| badly.contains(next))
                }
            };
            if ends {
                badly.insert(block);
            }
        }
        if badly.len() == before {
            return badly;
        }
    }
}
