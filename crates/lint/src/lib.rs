//! `crashproof lint`: checks a program against a persistency model without running it, and finds redundant flushes. It
//! does not know recovery, so it cannot tell whether a missing flush matters.
//!
//! Follows DeepMC (Reidys and Huang, PPoPP 2022), but tracks cache lines and whole paths.
//!
//! | module | what it does |
//! |---|---|
//!  [`inputs`] | compiles sources, bitcode and compilation databases to bitcode (frontend) |
//!  [`crashproof_frontend::program`] | converts bitcode to a program without LLVM, linked by symbol (frontend) |
//! | [`crashproof_frontend::frameworks`] | what library functions mean, as data (frontend) |
//! | `dsa` | which memory is persistent: local, bottom-up, top-down |
//! | `expression`, `span`, `extent` | symbolic addresses; bytes, words and cache lines; arrays |
//! | `loops`, `explore` | paths through a function, callees as summaries |
//!  `event`, `machine` | the effects of a path on persistent memory, and the rules judged on them |
//!  `guards`, `uses` | what makes memory count: members that guard others, and members that are never read after a crash |
//!  `gap`, `coverage` | what is not understood, and hence what the verdict does not cover |
//!  [`rules`], `findings` | the rules by name; how they are reported |
//!
//! # What it cannot see
//!
//! Ordered by how likely each is to make it miss a bug:
//!
//! 1. Two pointers computed in different ways are assumed to be different, unless one of them could be anything.
//! 2. Other threads.
//! 3. Paths on which a transaction does not begin or aborts, or an exception is thrown.
//! 4. A flush without a fence on some paths, if the hardware keeps it in order (`clflush`) and others wait for it.
//!
//! Anything it does not understand that may affect persistent memory makes the verdict UNKNOWN (`gap`, `coverage`).

mod coverage;
mod dsa;
mod event;
mod evidence;
mod explore;
mod expression;
mod extent;
mod findings;
mod gap;
mod guards;
mod loops;
mod machine;
mod mapping;
mod returned;
mod rounding;
pub mod rules;
mod span;
mod uses;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crashproof_findings::Report;
use crashproof_frontend::inputs;
use crashproof_frontend::program::read;
use serde_json::json;

use crate::dsa::Analysis;
use crate::explore::Explorer;
use crashproof_frontend::frameworks::Apis;

pub use crashproof_frontend::inputs::Error;
pub use explore::Bounds;
pub use rules::Model;

/// Functions that allocate from the heap: their memory is persistent if the whole heap is.
pub const HEAP: [&str; 11] = [
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "memalign",
    "valloc",
    "strdup",
    "_Znwm",
    "_Znam",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
];

/// What to analyze, and how.
#[derive(Debug, Default)]
pub struct Options {
    /// Sources, bitcode, compilation databases: one program.
    pub inputs: Vec<PathBuf>,
    /// Arguments for the compilers.
    pub arguments: Vec<OsString>,
    /// Pass the arguments of a compilation database on unchanged, even those that load code.
    pub trust: bool,
    /// Library descriptions in addition to the built-in ones.
    pub apis: Vec<PathBuf>,
    /// Functions that return persistent memory.
    pub allocators: Vec<String>,
    /// The model the program is checked against.
    pub model: Model,
    /// Apply the paper's rules literally.
    pub pedantic: bool,
    /// Bounds of the exploration.
    pub bounds: Bounds,
    /// Number of compilers to run in parallel.
    pub jobs: usize,
    /// The inputs are only part of a program, as seen by a compiler: functions of other modules are not missing, and
    /// there may be no persistent memory.
    pub is_part: bool,
}

/// Reads descriptions of libraries: the built-in ones, then those of files.
///
/// # Errors
///
/// Returns the line and the reason if a description is invalid.
pub fn apis(files: &[PathBuf]) -> Result<Apis, crashproof_frontend::frameworks::Error> {
    let mut apis = Apis::built_in();
    for file in files {
        apis.add_file(file)?;
    }
    Ok(apis)
}

/// Analyzes a program.
///
/// # Errors
///
/// If the inputs cannot be read.
pub fn lint(options: &Options) -> Result<Report, Error> {
    let begin = Instant::now();
    let mut apis = apis(&options.apis)?;
    if !options.allocators.is_empty() {
        let names = json!(options.allocators);
        let text = format!(
            "framework = \"command line\"\nabout = \"--pm-alloc\"\n[[function]]\nnames = {names}\nreturns = \"fresh\"\n"
        );
        apis.add_text("--pm-alloc", &text)?;
    }
    let directory = tempfile::tempdir().map_err(|cause| Error::Read { path: std::env::temp_dir(), cause })?;
    let inputs =
        inputs::bitcode(&options.inputs, &options.arguments, options.jobs, directory.path(), options.trust)?;
    let files = &inputs.files;
    if let Some((path, messages)) = inputs.failed.first().filter(|_| files.is_empty()) {
        let (source_file, messages) = (path.clone(), messages.clone());
        return Err(crashproof_toolchain::Error::Compile { source_file, messages }.into());
    }
    let compiled = begin.elapsed();
    let mut program = read::read(files, &apis)?;
    // A function defined by the program is never the C library's, whatever its name.
    let own: Vec<String> = program.defined().map(|id| program.function(id).name.clone()).collect();
    apis.forget_library_functions(&own);
    returned::declare(&mut program, &apis);
    let read = begin.elapsed();
    let analysis = Analysis::run(&program, &apis);
    let analyzed = begin.elapsed();
    let mut explorer =
        Explorer::new(&program, &apis, &analysis, options.model, options.pedantic, options.bounds);
    explorer.run();
    let subject = options.inputs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let mut report = Report::new("lint", subject);
    let in_libraries;
    (report.findings, in_libraries) = findings::findings(&program, &explorer);
    if in_libraries > 0 {
        let namespaces = apis.namespaces.join(", ");
        let findings = if in_libraries == 1 { "finding" } else { "findings" };
        report.notes.push(format!("not shown: {in_libraries} {findings} inside library code ({namespaces})"));
    }
    for (path, message) in &inputs.failed {
        let path = read::seen_from_here(&path.display().to_string(), Path::new(""));
        report.incomplete.push(format!("{path} does not compile: {message}"));
    }
    report.notes.extend(inputs.notes.iter().cloned());
    report.incomplete.extend(coverage::incomplete(&program, &explorer, options.is_part));
    report.notes.extend(coverage::notes(&program));
    let evidence = evidence::of(&program, &apis);
    report.premise = evidence::line(&evidence);
    report.bounds.insert("persistent".into(), json!(evidence));
    let instructions: usize = program.functions.iter().map(|function| function.instructions.len()).sum();
    let functions = program.defined().count();
    report.bounds.insert("incomplete".into(), json!(report.incomplete));
    report.bounds.insert("loops".into(), json!(options.bounds.loops));
    report.bounds.insert("recursion".into(), json!(options.bounds.recursion));
    report.bounds.insert("paths".into(), json!(options.bounds.paths));
    report.bounds.insert("steps".into(), json!(options.bounds.steps));
    report.bounds.insert("model".into(), json!(model_name(options.model)));
    let seconds = begin.elapsed().as_secs_f64();
    for (name, value) in [
        ("modules", json!(files.len())),
        ("functions", json!(functions)),
        ("instructions", json!(instructions)),
        ("expressions", json!(explorer.expressions.len())),
        ("seconds", json!(seconds)),
        ("compiling_seconds", json!(compiled.as_secs_f64())),
        ("reading_seconds", json!((read - compiled).as_secs_f64())),
        ("graph_seconds", json!((analyzed - read).as_secs_f64())),
    ] {
        report.stats.insert(name.into(), value);
    }
    let open = match report.incomplete.len() {
        0 => String::new(),
        1 => "; 1 part not covered".to_owned(),
        parts => format!("; {parts} parts not covered"),
    };
    report.summary = format!(
        "{} persistency, {functions} function{}; loops up to {} rounds, recursion up to {}{open}",
        model_name(options.model),
        if functions == 1 { "" } else { "s" },
        options.bounds.loops,
        options.bounds.recursion
    );
    Ok(report)
}

fn model_name(model: Model) -> &'static str {
    match model {
        Model::Strict => "strict",
        Model::Epoch => "epoch",
        Model::Strand => "strand",
    }
}
