//! What the verdict does not cover, and why.

use std::collections::BTreeSet;

use crashproof_findings::no_persistent_memory;
use crashproof_frontend::frameworks::Returns;
use crashproof_frontend::program::ir::{Callee, FunctionId, Op, Operand, PlaceId, Program};

use crate::dsa::Analysis;
use crate::explore::{Cut, Explorer};
use crate::gap::Gap;

/// What counts as persistent memory.
const WHAT_COUNTS: &str = "memory that a library maps or allocates (pmem_map_file, pmem2_map_new, pmemobj_open and others: see \
    --explain-api, describe yours with --api FILE), variables that are PERSISTENT and memory from crashproof_alloc \
    (crashproof.h), and memory that the program flushes or logs, unless it is from malloc, the stack or an ordinary variable";

/// Everything that keeps the verdict from being about the whole program.
pub(crate) fn incomplete(program: &Program, explorer: &Explorer, is_part: bool) -> Vec<String> {
    let mut all = Vec::new();
    for (id, cuts) in explorer.cuts.iter() {
        // Nobody sees what callers would see of a function that has none.
        let is_called = explorer.analysis.called.contains(&id);
        let reasons: Vec<String> = cuts
            .iter()
            .filter(|cut: &&Cut| cut.is_inside() || is_called)
            .map(|cut| cut.describe(&explorer.bounds))
            .collect();
        if !reasons.is_empty() {
            all.push(format!("`{}`: {}", program.function(id).readable, reasons.join("; ")));
        }
    }
    for id in &explorer.analysis.too_large {
        let name = &program.function(*id).readable;
        all.push(format!("`{name}`: it calls more code than its graph of pointers can hold"));
    }
    let mut not_understood: Vec<String> = program
        .not_understood
        .iter()
        .map(|(place, what)| format!("{}: {what}", shown(program, *place)))
        .collect();
    let mut seen = BTreeSet::new();
    not_understood.retain(|reason| seen.insert(reason.clone()));
    all.extend(not_understood);
    if is_part {
        return all;
    }
    all.extend(explorer.verdicts.gaps.describe(program));
    if !has_persistent(program, explorer) {
        all.push(no_persistent_memory(WHAT_COUNTS, &[]));
    }
    all
}

/// What a reader should know, and what keeps no verdict from being clean.
pub(crate) fn notes(program: &Program) -> Vec<String> {
    let mut all = Vec::new();
    if !program.defined_again.is_empty() {
        let mut names = program.defined_again.clone();
        names.sort();
        names.dedup();
        all.push(format!(
            "defined by several modules, each of which is taken to use its own: {}",
            names.join(", ")
        ));
    }
    if !program.without_debug_info.is_empty() {
        all.push(format!(
            "without debug information, places are only as good as names of functions: {}",
            program.without_debug_info.join(", ")
        ));
    }
    all
}

fn shown(program: &Program, place: PlaceId) -> String {
    let place = program.place(place);
    format!("{}:{}", place.file, place.line)
}

fn has_persistent(program: &Program, explorer: &Explorer) -> bool {
    explorer.analysis.graphs.values().any(|graph| graph.graph.has_persistent())
        || program.globals.iter().any(|global| explorer.apis.sections.contains(&global.section))
}

/// Notes files that are mapped to be written although nothing shows that they are persistent memory. Whoever forgot all
/// flushes of a pool has nothing that would.
pub(crate) fn mappings(explorer: &mut Explorer) {
    let program = explorer.program;
    for id in program.defined() {
        for (number, instruction) in (0..).zip(&program.function(id).instructions) {
            let Op::Call { callee: Callee::Direct(called), arguments } = &instruction.op else { continue };
            let meaning = explorer.apis.meaning(&program.function(*called).name);
            let maps = meaning.is_some_and(|meaning| meaning.returns == Returns::Mapping);
            if maps
                && is_writable_file(arguments)
                && !is_recognized(program, explorer.analysis, id, number, &mut BTreeSet::new())
            {
                explorer.verdicts.gaps.add(Gap::Mapping, instruction.place);
            }
        }
    }
}

/// Whether the arguments of `mmap` are of a file that is shared and written, as far as they are constants.
fn is_writable_file(arguments: &[Operand]) -> bool {
    const PROT_WRITE: i64 = 2;
    const MAP_PRIVATE: i64 = 2;
    const MAP_ANONYMOUS: i64 = 0x20;
    match arguments {
        [_, _, protection, flags, file, ..] => {
            !matches!(protection, Operand::Int(bits) if bits & PROT_WRITE == 0)
                && !matches!(flags, Operand::Int(bits) if bits & 3 == MAP_PRIVATE || bits & MAP_ANONYMOUS != 0)
                && *file != Operand::Int(-1)
        }
        _ => true,
    }
}

/// Whether memory that a call returns is taken for persistent: where it is called, or by whoever it is returned to.
fn is_recognized(
    program: &Program,
    analysis: &Analysis,
    function: FunctionId,
    call: u32,
    seen: &mut BTreeSet<FunctionId>,
) -> bool {
    let graph = &analysis.graphs[&function];
    let Some(cell) = graph.lookup(Operand::Instruction(call)) else { return false };
    if graph.graph.flags(cell).persistent {
        return true;
    }
    let is_returned =
        graph.result.is_some_and(|result| graph.graph.find(result).node == graph.graph.find(cell).node);
    if !is_returned || !seen.insert(function) {
        return false;
    }
    program.defined().any(|caller| {
        (0..).zip(&program.function(caller).instructions).any(|(number, instruction)| {
            matches!(&instruction.op, Op::Call { callee: Callee::Direct(called), .. } if *called == function)
                && is_recognized(program, analysis, caller, number, seen)
        })
    })
}
