//! The prover's answer in the report form shared by all commands.

use crashproof_findings::graph::{self, EventGraph, Fate, GraphEdge, GraphEvent};
use crashproof_findings::rules::prove::{ACCESS_OUTSIDE, CLAIM_VIOLATED, NOT_ROBUST};
use crashproof_findings::{Finding, Place, Related, Role, no_persistent_memory};
use serde_json::{Map, Value, json};

use crate::joined::joined;
use crate::program::Site;
use crate::prove::{Report, Statistics, Vacuous, Verdict};
use crate::question::Question;
use crate::story::{Counterexample, EdgeKind, Step};

/// What the prover treats as persistent memory.
const WHAT_COUNTS: &str = "PERSISTENT globals, crashproof_root and crashproof_alloc of crashproof.h, what libpmem, \
                           libpmem2 or mmap maps of a file, and pools of libpmemobj";

/// What the prover treats as a claim.
const A_CLAIM: &str = "an assertion, a call of abort, or an exit code of recovery other than 0";

/// The report on a program called `name`.
pub fn report(name: &str, question: Question, answer: &Report) -> crashproof_findings::Report {
    let mut report = crashproof_findings::Report::new("prove", name);
    match &answer.verdict {
        Verdict::Holds => match answer.vacuous {
            Some(Vacuous::NoPersistentMemory) => {
                report.incomplete.push(no_persistent_memory(WHAT_COUNTS, &[]))
            }
            Some(Vacuous::NoClaim) if question == Question::Invariants => {
                report
                    .incomplete
                    .push(format!("vacuous: the program claims nothing; what counts is {A_CLAIM}"));
            }
            Some(Vacuous::NoPersistentStore) => {
                report.incomplete.push("vacuous: no run stores to persistent memory".to_owned());
            }
            Some(Vacuous::RecoveryClaimsNotReached) if question == Question::Invariants => {
                report.incomplete.push("vacuous: no recovery ever reaches its claims".to_owned());
            }
            Some(Vacuous::ClaimsNotReached) if question == Question::Invariants => {
                report.incomplete.push("vacuous: no claim is ever reached".to_owned());
            }
            _ => {}
        },
        Verdict::Unknown(reasons) => {
            report.incomplete = reasons
                .iter()
                .map(|reason| match &reason.site {
                    Some(site) => format!("{}: {}", place(name, site), reason.text),
                    None => reason.text.clone(),
                })
                .collect();
        }
        Verdict::Violated(counterexample) => {
            report.findings.push(finding(name, question, &joined(counterexample)));
        }
    }
    for bound in &answer.bounds {
        report.bounds.insert(bound.what.clone(), bound.value.into());
    }
    report.bounds.insert("incomplete".to_owned(), report.incomplete.clone().into());
    if !answer.assumptions.is_empty() {
        report.bounds.insert("assumptions".to_owned(), answer.assumptions.clone().into());
    }
    report.stats = figures(&answer.statistics);
    report.summary = summary(question, answer);
    report.figures = figures_in_words(&answer.statistics);
    report
}

/// The scope of the verdict, with its bounds and assumptions.
fn summary(question: Question, answer: &Report) -> String {
    let about = bounded(question, answer);
    match (&answer.verdict, answer.assumptions.as_slice()) {
        (Verdict::Holds, [_, ..]) => format!("{about}; assuming {}", answer.assumptions.join(", and ")),
        _ => about,
    }
}

fn bounded(question: Question, answer: &Report) -> String {
    let about = match (question, answer.statistics.claims) {
        (Question::Robustness, _) => "robustness, in every schedule and crash".to_owned(),
        (Question::Invariants, 0) if matches!(answer.verdict, Verdict::Unknown(_)) => {
            "what it claims, in every schedule and crash".to_owned()
        }
        (Question::Invariants, 0) => "nothing it claims could be false".to_owned(),
        (Question::Invariants, 1) => "one claim in every schedule and crash".to_owned(),
        (Question::Invariants, many) => format!("{many} claims in every schedule and crash"),
    };
    // A counterexample is valid regardless of the bounds.
    if matches!(answer.verdict, Verdict::Violated(_)) {
        return about.replacen(" in every", " checked in every", 1);
    }
    let values: Vec<u64> = answer.bounds.iter().map(|bound| bound.value).collect();
    let Some(&first) = values.first() else { return about };
    let loops_only = answer.bounds.iter().all(|bound| bound.what.starts_with("loop "));
    let bound = if loops_only && values.iter().all(|&value| value == first) {
        let rounds = if first == 1 { "round" } else { "rounds" };
        let loops = if values.len() == 1 { "one loop".to_owned() } else { format!("{} loops", values.len()) };
        format!("{first} {rounds} of {loops}")
    } else {
        // Loops in models of library functions are not listed individually.
        let (library, own): (Vec<_>, Vec<_>) =
            answer.bounds.iter().partition(|bound| bound.what.contains("<crashproof>"));
        let each = own.iter().map(|bound| format!("{} {}", bound.what, bound.value));
        let most = library.iter().map(|bound| bound.value).max();
        let inside = most.map(|most| format!("loops of library functions {most}"));
        each.chain(inside).collect::<Vec<String>>().join(", ")
    };
    match &answer.verdict {
        Verdict::Holds => format!("{about}, within {bound}, and nothing goes further"),
        _ => format!("{about}, within {bound}"),
    }
}

fn figures(statistics: &Statistics) -> Map<String, Value> {
    let solver = &statistics.solver;
    let figures = json!({
        "events": statistics.events,
        "ordered_events": statistics.ordered,
        "claims": statistics.claims,
        "candidates": statistics.candidates,
        "variables": solver.variables,
        "clauses": solver.clauses,
        "order_atoms": solver.atoms,
        "conflicts": solver.conflicts,
        "order_conflicts": solver.cycles,
        "propagations": solver.propagations,
        "order_propagations": solver.forced,
        "encoding_seconds": statistics.encoding.as_secs_f64(),
        "solving_seconds": statistics.solving.as_secs_f64(),
        "seconds": (statistics.encoding + statistics.solving).as_secs_f64(),
    });
    match figures {
        Value::Object(figures) => figures,
        _ => Map::new(),
    }
}

fn figures_in_words(statistics: &Statistics) -> String {
    let solver = &statistics.solver;
    let mut text = format!(
        "{} events, {} in order; {} variables, {} clauses, {} order atoms; {} conflicts ({} by the order), \
         {} propagations ({} by the order)",
        statistics.events,
        statistics.ordered,
        solver.variables,
        solver.clauses,
        solver.atoms,
        solver.conflicts,
        solver.cycles,
        solver.propagations,
        solver.forced,
    );
    let seconds = (statistics.encoding + statistics.solving).as_secs_f64();
    // Times below a second are not worth mentioning.
    if seconds >= 1.0 {
        text += &format!("; {seconds:.1} s");
    }
    text
}

/// Litmus sites have no file, and number instructions instead of columns.
fn place(name: &str, site: &Site) -> Place {
    let mut place = if site.file.is_empty() {
        Place::new(name, site.line, 0)
    } else {
        Place::new(site.file.clone(), site.line, site.column)
    };
    place.function.clone_from(&site.function);
    place
}

fn finding(name: &str, question: Question, counterexample: &Counterexample) -> Finding {
    let rule = match question {
        Question::Robustness => &NOT_ROBUST,
        Question::Invariants if counterexample.outside => &ACCESS_OUTSIDE,
        Question::Invariants => &CLAIM_VIOLATED,
    };
    let message = match question {
        Question::Invariants if !counterexample.outside => {
            format!("claim can fail: {}", counterexample.message)
        }
        _ => counterexample.message.clone(),
    };
    let mut finding = Finding::new(rule, place(name, &counterexample.site), message);
    finding.label = match (question, counterexample.outside) {
        (Question::Robustness, _) => "lost",
        (_, true) => "outside of every object",
        (_, false) => "false here",
    }
    .to_owned();
    finding.related = related(name, counterexample);
    finding.trace = trace(name, counterexample);
    finding.graph = Some(event_graph(name, counterexample));
    finding
}

/// Lost and surviving stores, and what recovery read, each once.
fn related(name: &str, counterexample: &Counterexample) -> Vec<Related> {
    let mut all: Vec<Related> = Vec::new();
    let mut add = |role: Role, site: &Site, message: String| {
        let related = Related::new(role, place(name, site), message);
        if !all.contains(&related) {
            all.push(related);
        }
    };
    for remains in &counterexample.memory {
        for &lost in &remains.lost {
            let step = &counterexample.steps[lost];
            add(Role::Lost, &step.site, step.what());
        }
        if let Some(from) = remains.from {
            let message = format!("{} = {}", remains.place, remains.shown);
            add(Role::Survived, &counterexample.steps[from].site, message);
        }
    }
    for read in &counterexample.recovery {
        add(Role::Read, &read.site, format!("{} = {}", read.place, read.shown));
    }
    all
}

/// The execution in the order of effects, and the crash state.
fn trace(name: &str, counterexample: &Counterexample) -> Vec<String> {
    let at = |site: &Site| place(name, site).to_string();
    let step = |step: &Step| {
        let fate = match step.persisted {
            Some(true) => ", persisted",
            Some(false) => ", lost",
            None => "",
        };
        format!("{}: {}: {}{fate}", step.thread_name, at(&step.site), step.what())
    };
    let mut lines: Vec<String> = counterexample.steps.iter().map(step).collect();
    let read = |place: &str| counterexample.recovery.iter().any(|read| read.place == place);
    for remains in &counterexample.memory {
        // Cells that were never written are worth a line only if they were read.
        if remains.from.is_none() && remains.lost.is_empty() && !read(&remains.place) {
            continue;
        }
        let from = match remains.from {
            None => "as at the start".to_owned(),
            Some(from) => format!("from {}", at(&counterexample.steps[from].site)),
        };
        lines.push(format!("after the crash: {} = {}, {from}", remains.place, remains.shown));
    }
    for (number, left) in counterexample.left.iter().enumerate() {
        let changed: Vec<String> = left.iter().map(|(place, value)| format!("{place} = {value}")).collect();
        let changed = if changed.is_empty() { "nothing else".to_owned() } else { changed.join(", ") };
        lines.push(format!("crash {} interrupts recovery, which has made persistent: {changed}", number + 2));
    }
    lines
}

fn event_graph(name: &str, counterexample: &Counterexample) -> EventGraph {
    let mut graph = EventGraph { caption: counterexample.message.clone(), ..EventGraph::default() };
    // Steps thread by thread, in program order.
    let mut order: Vec<usize> = (0..counterexample.steps.len()).collect();
    order.sort_by_key(|&at| (counterexample.steps[at].thread, counterexample.steps[at].position));
    let mut columns: Vec<usize> = Vec::new();
    let mut event_of = vec![0; order.len()];
    for at in order {
        let step = &counterexample.steps[at];
        let column = columns.iter().position(|&thread| thread == step.thread).unwrap_or_else(|| {
            columns.push(step.thread);
            graph.threads.push(step.thread_name.clone());
            columns.len() - 1
        });
        event_of[at] = graph.events.len();
        let survives = counterexample.memory.iter().any(|remains| remains.from == Some(at));
        graph.events.push(GraphEvent {
            thread: Some(column),
            text: step.what(),
            place: place(name, &step.site),
            fate: match step.persisted {
                Some(false) => Fate::Lost,
                Some(true) if survives => Fate::Survived,
                Some(true) => Fate::Certain,
                None => Fate::Plain,
            },
        });
    }
    for edge in &counterexample.edges {
        let (to, kind) = match edge.kind {
            EdgeKind::ProgramOrder => (Some(edge.to), graph::EdgeKind::Po),
            EdgeKind::ReadsFrom => (Some(edge.to), graph::EdgeKind::Rf),
            EdgeKind::Coherence => (Some(edge.to), graph::EdgeKind::Co),
            // A flush is drawn as an edge to the store that it persists.
            EdgeKind::FlushBefore => (counterexample.memory[edge.to].from, graph::EdgeKind::Flush),
            EdgeKind::Survives => (None, graph::EdgeKind::Rf),
        };
        if let Some(to) = to {
            graph.edges.push(GraphEdge { from: event_of[edge.from], to: event_of[to], kind });
        }
    }
    if counterexample.recovery.is_empty() {
        return graph;
    }
    let column = graph.threads.len();
    graph.threads.push("recovery".to_owned());
    let mut before = None;
    for read in &counterexample.recovery {
        let event = graph.events.len();
        graph.events.push(GraphEvent {
            thread: Some(column),
            text: format!("reads {} = {}", read.place, read.shown),
            place: place(name, &read.site),
            fate: Fate::Plain,
        });
        if let Some(from) = before.replace(event) {
            graph.edges.push(GraphEdge { from, to: event, kind: graph::EdgeKind::Po });
        }
        let from = counterexample.memory.iter().find(|remains| remains.place == read.place);
        if let Some(from) = from.and_then(|remains| remains.from) {
            graph.edges.push(GraphEdge { from: event_of[from], to: event, kind: graph::EdgeKind::Rf });
        }
    }
    graph
}
