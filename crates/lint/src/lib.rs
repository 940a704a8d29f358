//! `crashproof lint`: persistency models checked without running the program, and flushes that are wasted.
//!
//! After DeepMC (Reidys and Huang, PPoPP 2022), with the precision of cache lines and of whole paths.
//!
//! | module | what it does |
//! |---|---|
//! | `inputs` | sources, bitcode, compilation databases: all become bitcode |
//! | [`ir`], [`read`] | bitcode becomes a program without LLVM in it, linked by symbol |
//! | [`api`] | what library functions mean, as data |
//! | `dsa` | which memory is persistent: local, bottom-up, top-down |
//! | `expression`, `span` | symbolic addresses; bytes, words and cache lines |
//! | `loops`, `explore` | paths through a function, callees as summaries |
//! | `event`, `machine` | what a path did to persistent memory, and the rules judged on it |
//! | [`rules`] | the rules by name |
//!
//! # What it cannot see
//!
//! Ordered by what could make it miss a bug:
//!
//! 1. Two pointers that are computed in different ways are taken to be different, unless one of them could be
//!    anything.
//! 2. Functions whose code is not given and that no description covers: what they are given is no longer
//!    known afterwards. They are listed.
//! 3. Other threads.
//! 4. Paths on which a transaction aborts.

pub mod api;
mod dsa;
mod event;
mod explore;
mod expression;
mod inputs;
pub mod ir;
mod loops;
mod machine;
pub mod read;
pub mod rules;
mod span;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use crashproof_findings::{Finding, Fix, Frame, Place, Related, Report, Role};
use serde_json::json;

use crate::api::Apis;
use crate::dsa::Analysis;
use crate::explore::Explorer;
use crate::ir::{PlaceId, Program};
use crate::rules::{Rule, Verdict};

pub use explore::Bounds;
pub use inputs::Error;
pub use rules::Model;

/// What to analyse, and how.
#[derive(Debug, Default)]
pub struct Options {
    /// Sources, bitcode, compilation databases: one program.
    pub inputs: Vec<PathBuf>,
    /// For the compilers.
    pub arguments: Vec<OsString>,
    /// Descriptions of libraries beside the built-in ones.
    pub apis: Vec<PathBuf>,
    /// The model the program is held against.
    pub model: Model,
    /// The paper's rules to the letter.
    pub pedantic: bool,
    /// How far to go.
    pub bounds: Bounds,
    /// Compilers that may run at the same time.
    pub jobs: usize,
}

/// Reads descriptions of libraries: the built-in ones, then those of files.
///
/// # Errors
///
/// With the line and the reason.
pub fn apis(files: &[PathBuf]) -> Result<Apis, api::Error> {
    let mut apis = Apis::built_in();
    for file in files {
        apis.add_file(file)?;
    }
    Ok(apis)
}

/// Analyses a program.
///
/// # Errors
///
/// If the inputs cannot be read.
pub fn lint(options: &Options) -> Result<Report, Error> {
    let begin = Instant::now();
    let apis = apis(&options.apis)?;
    let directory = tempfile::tempdir().map_err(|cause| Error::Read { path: std::env::temp_dir(), cause })?;
    let files = inputs::bitcode(&options.inputs, &options.arguments, options.jobs, directory.path())?;
    let compiled = begin.elapsed();
    let mut program = Program::new();
    for file in &files {
        read::read(&mut program, &file.path, &file.directory)
            .map_err(|reason| Error::Bitcode { path: file.given.clone(), reason })?;
    }
    let read = begin.elapsed();
    let analysis = Analysis::run(&program, &apis);
    let analysed = begin.elapsed();
    let mut explorer =
        Explorer::new(&program, &apis, &analysis, options.model, options.pedantic, options.bounds);
    explorer.run();
    let subject = options.inputs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let mut report = Report::new("lint", subject);
    report.findings = findings(&program, &explorer);
    incomplete(&mut report, &program, &explorer);
    let instructions: usize = program.functions.iter().map(|function| function.instructions.len()).sum();
    let functions = program.defined().count();
    report.bounds.insert("loops".into(), json!(options.bounds.loops));
    report.bounds.insert("recursion".into(), json!(options.bounds.recursion));
    report.bounds.insert("paths".into(), json!(options.bounds.paths));
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
        ("graph_seconds", json!((analysed - read).as_secs_f64())),
    ] {
        report.stats.insert(name.into(), value);
    }
    report.summary = format!(
        "{} persistency, {functions} functions; loops up to {} rounds, recursion up to {}",
        model_name(options.model),
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

/// What was not looked at, by name.
fn incomplete(report: &mut Report, program: &Program, explorer: &Explorer) {
    for id in &explorer.given_up {
        let name = &program.function(*id).readable;
        report.incomplete.push(format!("`{name}` has more paths than the budget allows"));
    }
    for (place, what) in &program.not_understood {
        let place = program.place(*place);
        report.incomplete.push(format!("{}:{}: {what}", place.file, place.line));
    }
    let mut unresolved: Vec<&str> = explorer.unresolved.iter().map(String::as_str).collect();
    unresolved.sort_unstable();
    if !unresolved.is_empty() {
        report.notes.push(format!(
            "persistent memory is given to functions that nothing is known of: {}",
            unresolved.join(", ")
        ));
    }
    if !explorer.shortened.is_empty() {
        let names: Vec<&str> =
            explorer.shortened.iter().map(|id| program.function(*id).readable.as_str()).collect();
        report.notes.push(format!("callers see only some of the paths of: {}", names.join(", ")));
    }
    if !program.without_debug_info.is_empty() {
        report.notes.push(format!(
            "without debug information, places are only as good as names of functions: {}",
            program.without_debug_info.join(", ")
        ));
    }
}

fn findings(program: &Program, explorer: &Explorer) -> Vec<Finding> {
    let verdicts = &explorer.verdicts;
    let mut all = Vec::new();
    for ((rule, place), verdict) in &verdicts.bad {
        let sometimes = verdicts.good.get(&(*rule, *place)).is_some_and(|good| *good > 0);
        if !rule.is_reported(sometimes) {
            continue;
        }
        // A store that is never written back is one finding, also if something points to it.
        let lost = verdict.beside.iter().find(|beside| beside.role == "lost");
        let same = |rule: Rule, place: PlaceId| verdicts.bad.contains_key(&(rule, place));
        if *rule == Rule::PublishBeforePersist
            && (same(Rule::UnloggedWrite, *place)
                || lost.is_some_and(|lost| same(Rule::UnflushedWrite, lost.place)))
        {
            continue;
        }
        all.push(finding(program, *rule, verdict, sometimes));
    }
    all.sort_by(|left, right| {
        let key = |finding: &Finding| {
            let Place { file, line, column, .. } = &finding.place;
            (finding.level, file.clone(), *line, *column, finding.rule.id)
        };
        key(left).cmp(&key(right))
    });
    all
}

fn finding(program: &Program, rule: Rule, verdict: &Verdict, sometimes: bool) -> Finding {
    let mut message = verdict.message.clone();
    if sometimes {
        message.push_str(", on some paths");
    }
    let mut finding = Finding::new(rule.registered(), place(program, verdict.site.place), message);
    for beside in &verdict.beside {
        let place = place(program, beside.place);
        match beside.role {
            "call" => finding.place.frames.push(Frame {
                file: place.file,
                line: place.line,
                column: place.column,
                function: place.function,
                inlined: false,
            }),
            role => {
                let role = match role {
                    "lost" => Role::Lost,
                    "transaction" => Role::Fix,
                    _ => Role::Survived,
                };
                finding.related.push(Related { role, place, message: beside.message.clone() });
            }
        }
    }
    finding.fix = Some(Fix::advice(rule.advice()));
    finding.count = u64::from(verdict.bad);
    finding
}

fn place(program: &Program, id: PlaceId) -> Place {
    let place = program.place(id);
    let mut frames = Vec::new();
    let mut outer = place.inlined_at;
    while let Some(id) = outer {
        let at = program.place(id);
        frames.push(Frame {
            file: at.file.clone(),
            line: at.line,
            column: at.column,
            function: at.function.clone(),
            inlined: true,
        });
        outer = at.inlined_at;
    }
    Place {
        file: place.file.clone(),
        line: place.line,
        column: place.column,
        function: place.function.clone(),
        frames,
    }
}
