//! Proofs and counterexamples as JSON, in the form all checking commands share.

use crashproof_prove::program::Site;
use crashproof_prove::prove::{Report, Verdict};
use crashproof_prove::story::{Counterexample, Effect};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::prove_text::Question;

#[derive(Serialize)]
struct Object<'a> {
    tool: &'static str,
    version: &'static str,
    command: &'static str,
    file: &'a str,
    question: &'static str,
    verdict: &'static str,
    bounds: Value,
    stats: Value,
    findings: Vec<Value>,
}

/// The report as one JSON object.
pub fn object(name: &str, question: Question, report: &Report) -> String {
    let mut bounds = Map::new();
    let reasons: Vec<Value> = match &report.verdict {
        Verdict::Unknown(reasons) => reasons
            .iter()
            .map(|reason| match &reason.site {
                Some(site) => json!({"reason": reason.text, "file": file(name, site), "line": site.line}),
                None => json!({"reason": reason.text}),
            })
            .collect(),
        _ => Vec::new(),
    };
    bounds.insert("incomplete".to_owned(), Value::Array(reasons));
    for bound in &report.bounds {
        bounds.insert(bound.what.clone(), bound.value.into());
    }
    let figures = &report.statistics;
    let stats = json!({
        "events": figures.events,
        "ordered_events": figures.ordered,
        "claims": figures.claims,
        "candidates": figures.candidates,
        "variables": figures.solver.variables,
        "clauses": figures.solver.clauses,
        "order_atoms": figures.solver.atoms,
        "conflicts": figures.solver.conflicts,
        "order_conflicts": figures.solver.cycles,
        "propagations": figures.solver.propagations,
        "order_propagations": figures.solver.forced,
        "encoding_seconds": figures.encoding.as_secs_f64(),
        "solving_seconds": figures.solving.as_secs_f64(),
        "seconds": (figures.encoding + figures.solving).as_secs_f64(),
    });
    let (verdict, findings) = match &report.verdict {
        Verdict::Holds => ("clean", Vec::new()),
        Verdict::Unknown(_) => ("unknown", Vec::new()),
        Verdict::Violated(counterexample) => ("findings", vec![finding(name, question, counterexample)]),
    };
    let question = match question {
        Question::Invariants => "invariants",
        Question::Robustness => "robustness",
    };
    let object = Object {
        tool: "crashproof",
        version: env!("CARGO_PKG_VERSION"),
        command: "prove",
        file: name,
        question,
        verdict,
        bounds: Value::Object(bounds),
        stats,
        findings,
    };
    serde_json::to_string(&object).expect("plain data always serialises")
}

fn file<'a>(name: &'a str, site: &'a Site) -> &'a str {
    if site.file.is_empty() { name } else { &site.file }
}

fn finding(name: &str, question: Question, counterexample: &Counterexample) -> Value {
    let site = &counterexample.site;
    let related = |role: &str, site: &Site, message: String| {
        json!({
            "role": role,
            "file": file(name, site),
            "line": site.line,
            "column": site.column,
            "message": message,
        })
    };
    let mut all = Vec::new();
    for remains in &counterexample.memory {
        let steps = &counterexample.steps;
        for &lost in &remains.lost {
            all.push(related("lost", &steps[lost].site, remains.place.clone()));
        }
        if let Some(from) = remains.from {
            let message = format!("{} = {}", remains.place, remains.value);
            all.push(related("survived", &steps[from].site, message));
        }
    }
    for read in &counterexample.recovery {
        all.push(related("read", &read.site, format!("{} = {}", read.place, read.value)));
    }
    let rule = match question {
        Question::Invariants => "violated-claim",
        Question::Robustness => "not-robust",
    };
    json!({
        "rule": rule,
        "level": "error",
        "message": counterexample.message,
        "file": file(name, site),
        "line": site.line,
        "column": site.column,
        "function": site.function,
        "related": all,
        "execution": execution(name, counterexample),
    })
}

/// The event graph as data: steps in the order they took effect, memory after the crash, recovery's reads, edges.
fn execution(name: &str, counterexample: &Counterexample) -> Value {
    let steps: Vec<Value> = counterexample
        .steps
        .iter()
        .map(|step| {
            let (kind, read, written) = match step.effect {
                Effect::Read(value) => ("load", Some(value), None),
                Effect::Wrote(value) => ("store", None, Some(value)),
                Effect::WroteNonTemporal(value) => ("non-temporal store", None, Some(value)),
                Effect::Exchanged(old, new) => ("rmw", Some(old), new),
                Effect::Flushed => ("clflush", None, None),
                Effect::FlushedOpt => ("clflushopt", None, None),
                Effect::StoreFence => ("sfence", None, None),
                Effect::Fence => ("mfence", None, None),
                Effect::Started => ("create", None, None),
                Effect::Joined => ("join", None, None),
            };
            json!({
                "thread": step.thread,
                "thread_name": step.thread_name,
                "file": file(name, &step.site),
                "line": step.site.line,
                "column": step.site.column,
                "text": step.site.text,
                "kind": kind,
                "place": step.place,
                "read": read,
                "written": written,
                "persisted": step.persisted,
            })
        })
        .collect();
    let memory: Vec<Value> = counterexample
        .memory
        .iter()
        .map(|remains| {
            json!({
                "place": remains.place,
                "address": remains.address,
                "value": remains.value,
                "from": remains.from,
                "lost": remains.lost,
            })
        })
        .collect();
    let recovery: Vec<Value> = counterexample
        .recovery
        .iter()
        .map(|read| {
            json!({"file": file(name, &read.site), "line": read.site.line, "place": read.place, "value": read.value})
        })
        .collect();
    let edges: Vec<Value> = counterexample
        .edges
        .iter()
        .map(|edge| json!({"kind": edge.kind.name(), "from": edge.from, "to": edge.to}))
        .collect();
    json!({"steps": steps, "memory": memory, "recovery": recovery, "edges": edges})
}
