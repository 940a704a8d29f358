//! What is treated as persistent memory, and why: the first line of a report.
//!
//! In this order: what is declared (library functions, persistent variables and types, `--pm-alloc`), shared file
//! mappings, and only without either, what the program flushes.

use crashproof_findings::plain_function;
use crashproof_frontend::frameworks::{Apis, Returns, What};
use crashproof_frontend::program::ir::{Callee, FunctionId, Op, PlaceId, Program};

use crate::mapping;

/// The number of sources of persistent memory listed in the line.
const SHOWN: usize = 3;

/// One entry for each source of persistent memory.
pub(crate) fn of(program: &Program, apis: &Apis) -> Vec<String> {
    let mut all = declared(program, apis);
    for (function, number) in mapping::all(program, apis) {
        all.push(call(program, function, number));
    }
    if all.is_empty() {
        all.extend(flushed(program, apis).map(|at| format!("what is flushed at {}", shown(program, at))));
    }
    let mut seen = rustc_hash::FxHashSet::default();
    all.retain(|entry| seen.insert(entry.clone()));
    all
}

/// The first line of the report; empty if there is nothing to say.
pub(crate) fn line(all: &[String]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let more = all.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!("; {more} more") } else { String::new() };
    format!("pool: {}{rest}", all[..all.len() - more].join("; "))
}

fn declared(program: &Program, apis: &Apis) -> Vec<String> {
    let mut all: Vec<String> = program
        .globals
        .iter()
        .filter(|global| apis.sections.contains(&global.section))
        .map(|global| format!("variable `{}`", crashproof_frontend::llvm::demangle(&global.name)))
        .collect();
    for id in program.defined() {
        for (number, instruction) in (0..).zip(&program.function(id).instructions) {
            let Op::Call { callee: Callee::Direct(called), .. } = &instruction.op else { continue };
            let meaning = apis.meaning(&program.function(*called).name);
            if meaning.is_some_and(|meaning| {
                matches!(
                    meaning.returns,
                    Returns::Persistent | Returns::Fresh | Returns::FreshOid | Returns::Found
                )
            }) {
                all.push(call(program, id, number));
            }
        }
    }
    all
}

/// The first flush of the program.
fn flushed(program: &Program, apis: &Apis) -> Option<PlaceId> {
    program.defined().flat_map(|id| &program.function(id).instructions).find_map(|instruction| {
        let flushes = match &instruction.op {
            Op::Flush { .. } => true,
            Op::Call { callee: Callee::Direct(called), .. } => {
                apis.meaning(&program.function(*called).name).is_some_and(|meaning| {
                    let marks = [
                        What::Flush,
                        What::FlushOrdered,
                        What::FlushPages,
                        What::Queue,
                        What::Log,
                        What::LogAndStore,
                    ];
                    meaning.effects.iter().any(|effect| marks.contains(&effect.what))
                })
            }
            _ => false,
        };
        flushes.then_some(instruction.place)
    })
}

/// "mmap in open_pool, kv.c:21".
fn call(program: &Program, function: FunctionId, number: u32) -> String {
    let instruction = &program.function(function).instructions[number as usize];
    let name = match &instruction.op {
        Op::Call { callee: Callee::Direct(called), .. } => program.function(*called).readable.as_str(),
        _ => "",
    };
    let place = program.place(instruction.place);
    let inside = match place.function.as_str() {
        "" => program.function(function).readable.as_str(),
        inside => inside,
    };
    format!("{name} in {}, {}", plain_function(inside), shown(program, instruction.place))
}

fn shown(program: &Program, place: PlaceId) -> String {
    let place = program.place(place);
    format!("{}:{}", place.file, place.line)
}
