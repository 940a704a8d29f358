//! What the verdict does not cover, and why.

use std::collections::BTreeSet;

use crashproof_findings::no_persistent_memory;
use crashproof_frontend::program::ir::{PlaceId, Program};

use crate::explore::{Cut, Explorer};

/// What counts as persistent memory.
const WHAT_COUNTS: &str = "memory that a library maps or allocates (pmem_map_file, pmem2_map_new, pmemobj_open and others: see \
    --explain-api, describe yours with --api FILE), variables that are PERSISTENT and memory from crashproof_alloc \
    (crashproof.h), and memory that the program flushes or logs, unless it is from malloc, the stack or an ordinary variable";

/// Everything that keeps the verdict from covering the whole program.
pub(crate) fn incomplete(program: &Program, explorer: &Explorer, is_part: bool) -> Vec<String> {
    let mut all = Vec::new();
    for (id, cuts) in explorer.cuts.iter() {
        // An uncalled function has no callers that could see its paths.
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

/// What a reader should know although it does not affect the verdict.
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
