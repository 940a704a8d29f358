//! `crashproof lint`: persistency models checked without running the program, and flushes that are wasted.
//!
//! After DeepMC (Reidys and Huang, PPoPP 2022), with the precision of cache lines and of whole paths.
//!
//! | module | what it does |
//! |---|---|
//! | [`inputs`] | sources, bitcode, compilation databases: all become bitcode (frontend) |
//! | [`crashproof_frontend::program`] | bitcode becomes a program without LLVM in it, linked by symbol (frontend) |
//! | [`crashproof_frontend::frameworks`] | what library functions mean, as data (frontend) |
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
//! 4. Paths on which a transaction does not begin or aborts, or an exception is thrown.
//! 5. A flush without a fence on some paths, if the hardware keeps it in order (`clflush`) and others wait for it.

mod dsa;
mod event;
mod explore;
mod expression;
mod loops;
mod machine;
pub mod rules;
mod span;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crashproof_findings::{Finding, Fix, Frame, Place, Related, Report, Role};
use crashproof_frontend::inputs;
use crashproof_frontend::program::read;
use serde_json::json;

use crate::dsa::Analysis;
use crate::explore::{Cut, Explorer};
use crate::rules::{Rule, Verdict};
use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::program::ir::{PlaceId, Program};

pub use crashproof_frontend::inputs::Error;
pub use explore::Bounds;
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
pub fn apis(files: &[PathBuf]) -> Result<Apis, crashproof_frontend::frameworks::Error> {
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
    let inputs = inputs::bitcode(&options.inputs, &options.arguments, options.jobs, directory.path())?;
    let files = &inputs.files;
    if let Some((path, messages)) = inputs.failed.first().filter(|_| files.is_empty()) {
        let (source_file, messages) = (path.clone(), messages.clone());
        return Err(crashproof_toolchain::Error::Compile { source_file, messages }.into());
    }
    let compiled = begin.elapsed();
    let program = read::read(files, &apis)?;
    let read = begin.elapsed();
    let analysis = Analysis::run(&program, &apis);
    let analysed = begin.elapsed();
    let mut explorer =
        Explorer::new(&program, &apis, &analysis, options.model, options.pedantic, options.bounds);
    explorer.run();
    let subject = options.inputs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let mut report = Report::new("lint", subject);
    let in_libraries;
    (report.findings, in_libraries) = findings(&program, &explorer);
    if in_libraries > 0 {
        let namespaces = apis.namespaces.join(", ");
        report.notes.push(format!(
            "inside of libraries ({namespaces}) {in_libraries} more that no line of the program shows"
        ));
    }
    for (path, message) in &inputs.failed {
        let path = read::seen_from_here(&path.display().to_string(), Path::new(""));
        report.incomplete.push(format!("{path} does not compile: {message}"));
    }
    report.notes.extend(inputs.notes.iter().cloned());
    incomplete(&mut report, &program, &explorer);
    let instructions: usize = program.functions.iter().map(|function| function.instructions.len()).sum();
    let functions = program.defined().count();
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
    let mut seen_in_part: BTreeMap<Cut, Vec<&str>> = BTreeMap::new();
    for (id, cuts) in explorer.cuts.iter() {
        let name = &program.function(id).readable;
        let (inside, outside): (Vec<Cut>, Vec<Cut>) = cuts.iter().partition(|cut| cut.is_inside());
        if !inside.is_empty() {
            let reasons: Vec<String> = inside.iter().map(|cut| cut.describe(&explorer.bounds)).collect();
            report.incomplete.push(format!("`{name}`: {}", reasons.join("; ")));
        }
        // Its own paths were all walked; only what they mean to callers is not known in full.
        for cut in outside {
            seen_in_part.entry(cut).or_default().push(name);
        }
    }
    for (cut, names) in seen_in_part {
        report.notes.push(format!("{}: {}", cut.describe(&explorer.bounds), names.join(", ")));
    }
    for id in &explorer.analysis.too_large {
        let name = &program.function(*id).readable;
        report.incomplete.push(format!("`{name}`: it calls more code than its graph of pointers can hold"));
    }
    for (place, what) in program.not_understood.iter().chain(&explorer.not_understood) {
        report.incomplete.push(format!("{}: {what}", shown(program, *place)));
    }
    let mut unresolved: Vec<&str> = explorer.unresolved.iter().map(String::as_str).collect();
    unresolved.sort_unstable();
    if !unresolved.is_empty() {
        report.notes.push(format!(
            "persistent memory is given to functions that nothing is known of: {}",
            unresolved.join(", ")
        ));
    }
    let mut too_many: Vec<String> =
        explorer.analysis.too_many.iter().map(|place| shown(program, *place)).collect();
    if !too_many.is_empty() {
        too_many.sort();
        too_many.dedup();
        report.notes.push(format!(
            "calls through pointers that could be of too many functions: {}",
            too_many.join(", ")
        ));
    }
    if !program.defined_again.is_empty() {
        let mut names = program.defined_again.clone();
        names.sort();
        names.dedup();
        report.notes.push(format!(
            "defined by several modules, each of which is taken to use its own: {}",
            names.join(", ")
        ));
    }
    if !program.without_debug_info.is_empty() {
        report.notes.push(format!(
            "without debug information, places are only as good as names of functions: {}",
            program.without_debug_info.join(", ")
        ));
    }
}

fn shown(program: &Program, place: PlaceId) -> String {
    let place = program.place(place);
    format!("{}:{}", place.file, place.line)
}

/// What is worth a report, and how many there would be of libraries alone.
fn findings(program: &Program, explorer: &Explorer) -> (Vec<Finding>, usize) {
    let verdicts = &explorer.verdicts;
    let (mut all, mut in_libraries) = (Vec::new(), 0);
    for ((rule, place), verdict) in &verdicts.bad {
        let sometimes = verdicts.good.get(&(*rule, *place)).is_some_and(|good| *good > 0);
        let unknown = explorer.cuts.is_inside(verdict.by);
        let thought_of = verdicts.is_thought_of(*rule, verdict) && !explorer.pedantic;
        if !rule.is_reported(sometimes, unknown) || verdicts.is_sweep(*rule, *place) || thought_of {
            continue;
        }
        // A store that is never written back is one finding, also if something points to it.
        let lost = verdict.beside.iter().find(|beside| beside.role == "lost");
        let same = |rule: Rule, place: PlaceId| verdicts.bad.contains_key(&(rule, place));
        // Nothing of the program is to blame.
        if program.place(*place).of_a_library {
            in_libraries += 1;
            continue;
        }
        // What a library logs on every assignment is not the program's to leave out.
        if verdict.site.by_library && matches!(rule, Rule::RepeatedPersist | Rule::LogUnmodified) {
            continue;
        }
        // One store, one finding.
        if *rule == Rule::UnflushedWrite && same(Rule::UnloggedWrite, *place) {
            continue;
        }
        // One flush, one finding: of what is always wrong, or else of the whole flush.
        let always = |rule: Rule| same(rule, *place) && !verdicts.good.contains_key(&(rule, *place));
        let of_the_whole = always(Rule::RedundantFlush) || !always(Rule::FlushUnmodified);
        if *rule == Rule::FlushUnmodified && same(Rule::RedundantFlush, *place) && of_the_whole
            || *rule == Rule::RedundantFlush && !of_the_whole
        {
            continue;
        }
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
    (all, in_libraries)
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
                    _ => Role::Note,
                };
                finding.related.push(Related { role, place, message: beside.message.clone() });
            }
        }
    }
    finding.fix = Some(Fix::advice(verdict.advice.as_deref().unwrap_or(rule.advice())));
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
