//! Proofs and counterexamples for people.

use std::fmt::Write as _;

use crashproof_prove::program::Site;
use crashproof_prove::prove::{Report, Verdict};
use crashproof_prove::story::{Counterexample, Effect, Step};

use crate::style::{BAD, FAINT, GOOD, STRONG, UNSURE, paint};

/// What was asked of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Do its assertions hold?
    Invariants,
    /// Is it robust (PMVerify)?
    Robustness,
}

/// The report on one program. `loud` adds figures.
pub fn report(name: &str, question: Question, report: &Report, loud: bool) -> String {
    let mut text = String::new();
    if let Verdict::Violated(counterexample) = &report.verdict {
        story(&mut text, name, question, counterexample);
    }
    let verdict = match (&report.verdict, question) {
        (Verdict::Holds, Question::Invariants) if report.statistics.claims == 0 => {
            paint(GOOD, "holds") + ": nothing it claims can be false"
        }
        (Verdict::Holds, Question::Invariants) => paint(GOOD, "holds"),
        (Verdict::Holds, Question::Robustness) => paint(GOOD, "robust"),
        (Verdict::Violated(_), Question::Invariants) => paint(BAD, "violated"),
        (Verdict::Violated(_), Question::Robustness) => paint(BAD, "not robust"),
        (Verdict::Unknown(_), _) => paint(UNSURE, "unknown"),
    };
    let _ = writeln!(text, "{}: {verdict}{}", paint(STRONG, name), within(report));
    if let Verdict::Unknown(reasons) = &report.verdict {
        for reason in reasons {
            let at = reason.site.as_ref().map(|site| place(name, site) + ": ").unwrap_or_default();
            let _ = writeln!(text, "  {} {at}{}", paint(UNSURE, "!"), reason.text);
        }
    }
    let figures = &report.statistics;
    if loud {
        let solver = &figures.solver;
        let line = format!(
            "{} events, {} in order; {} variables, {} clauses, {} order atoms; {} conflicts ({} by the order), {} \
             propagations ({} by the order); {:.2} s to encode, {:.2} s to solve",
            figures.events,
            figures.ordered,
            solver.variables,
            solver.clauses,
            solver.atoms,
            solver.conflicts,
            solver.cycles,
            solver.propagations,
            solver.forced,
            figures.encoding.as_secs_f64(),
            figures.solving.as_secs_f64(),
        );
        let _ = writeln!(text, "  {}", paint(FAINT, line));
    }
    text
}

/// The bounds of the verdict. One number says it for most programs.
fn within(report: &Report) -> String {
    let values: Vec<u64> = report.bounds.iter().map(|bound| bound.value).collect();
    let Some(&first) = values.first() else { return String::new() };
    let bound = if values.iter().all(|&value| value == first) {
        let rounds = if first == 1 { "round" } else { "rounds" };
        let loops = if values.len() == 1 { "one loop" } else { &format!("{} loops", values.len()) };
        format!("{first} {rounds} of {loops}")
    } else {
        let each: Vec<String> =
            report.bounds.iter().map(|bound| format!("{} {}", bound.what, bound.value)).collect();
        each.join(", ")
    };
    match &report.verdict {
        Verdict::Holds => format!(" within {bound}; nothing goes further"),
        _ => format!(" within {bound}"),
    }
}

fn place(name: &str, site: &Site) -> String {
    let file = if site.file.is_empty() { name } else { &site.file };
    match site.line {
        0 => file.to_owned(),
        line => format!("{file}:{line}"),
    }
}

fn story(text: &mut String, name: &str, question: Question, counterexample: &Counterexample) {
    if question == Question::Invariants {
        let whose = counterexample.thread.as_deref().unwrap_or("recovery");
        let _ = writeln!(
            text,
            "{}: {}: {} {}",
            paint(BAD, "error"),
            place(name, &counterexample.site),
            if counterexample.message.starts_with("an access") { "" } else { "false:" },
            counterexample.message,
        );
        let _ = writeln!(text, "  {}", paint(FAINT, format!("in {whose}")));
    } else {
        let _ = writeln!(text, "{}: {}", paint(BAD, "error"), counterexample.message);
    }
    if !counterexample.steps.is_empty() {
        let _ = writeln!(text, "  what took effect before the crash, in this order:");
    }
    for step in &counterexample.steps {
        let fate = match step.persisted {
            Some(true) => paint(GOOD, "  persisted"),
            Some(false) => paint(BAD, "  lost"),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "    {:<12} {:<24} {}{fate}",
            step.thread_name,
            place(name, &step.site),
            effect(step)
        );
    }
    if !counterexample.memory.is_empty() {
        let _ = writeln!(text, "  what the crash left:");
    }
    for remains in &counterexample.memory {
        let from = match remains.from {
            None => "as at the start".to_owned(),
            Some(step) => format!("from {}", place(name, &counterexample.steps[step].site)),
        };
        let lost: Vec<String> =
            remains.lost.iter().map(|&step| place(name, &counterexample.steps[step].site)).collect();
        let lost = if lost.is_empty() { String::new() } else { format!(", lost {}", lost.join(", ")) };
        let _ = writeln!(
            text,
            "    {} = {}  {}",
            remains.place,
            number(remains.value),
            paint(FAINT, format!("{from}{lost}"))
        );
    }
    if !counterexample.recovery.is_empty() {
        let _ = writeln!(text, "  what recovery read:");
    }
    for read in &counterexample.recovery {
        let _ = writeln!(text, "    {:<24} {} = {}", place(name, &read.site), read.place, number(read.value));
    }
}

/// Small numbers as such, addresses and masks in hexadecimal.
fn number(value: u64) -> String {
    match value as i64 {
        small @ -4096..4096 => small.to_string(),
        _ => format!("{value:#x}"),
    }
}

fn effect(step: &Step) -> String {
    let at = &step.place;
    match step.effect {
        Effect::Read(value) => format!("reads {at} = {}", number(value)),
        Effect::Wrote(value) => format!("{at} := {}", number(value)),
        Effect::WroteNonTemporal(value) => format!("{at} := {}, non-temporal", number(value)),
        Effect::Exchanged(old, Some(new)) => {
            format!("{at}: {} becomes {}, locked", number(old), number(new))
        }
        Effect::Exchanged(old, None) => format!("{at}: stays {}, locked", number(old)),
        Effect::Flushed => format!("clflush {at}"),
        Effect::FlushedOpt => format!("clwb {at}"),
        Effect::StoreFence => "sfence".to_owned(),
        Effect::Fence => "mfence".to_owned(),
        Effect::Started => "starts a thread".to_owned(),
        Effect::Joined => "has waited for a thread".to_owned(),
    }
}

/// The event graph in Graphviz's language.
pub fn dot(name: &str, counterexample: &Counterexample) -> String {
    use crashproof_prove::story::EdgeKind;
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text =
        String::from("digraph execution {\n  rankdir=TB; node [shape=box, fontname=\"monospace\"];\n");
    let mut threads: Vec<usize> = counterexample.steps.iter().map(|step| step.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    for thread in threads {
        let _ = writeln!(text, "  subgraph cluster_{thread} {{");
        for (index, step) in counterexample.steps.iter().enumerate().filter(|(_, step)| step.thread == thread)
        {
            let _ = writeln!(text, "    label=\"{}\";", quote(&step.thread_name));
            let colour = match step.persisted {
                Some(true) => ", color=darkgreen",
                Some(false) => ", color=red",
                None => "",
            };
            let label = format!("{}\\n{}", quote(&effect(step)), quote(&place(name, &step.site)));
            let _ = writeln!(text, "    s{index} [label=\"{label}\"{colour}];");
        }
        text.push_str("  }\n");
    }
    text.push_str("  subgraph cluster_memory {\n    label=\"after the crash\";\n");
    for (index, remains) in counterexample.memory.iter().enumerate() {
        let label = quote(&format!("{} = {}", remains.place, number(remains.value)));
        let _ = writeln!(text, "    m{index} [label=\"{label}\", shape=ellipse];");
    }
    text.push_str("  }\n");
    for edge in &counterexample.edges {
        let (to, style) = match edge.kind {
            EdgeKind::ProgramOrder => ('s', "color=gray"),
            EdgeKind::ReadsFrom => ('s', "color=darkgreen"),
            EdgeKind::Coherence => ('s', "color=brown"),
            EdgeKind::FlushBefore => ('m', "color=blue, style=dashed"),
            EdgeKind::Survives => ('m', "color=darkgreen, style=bold"),
        };
        let _ =
            writeln!(text, "  s{} -> {to}{} [label=\"{}\", {style}];", edge.from, edge.to, edge.kind.name());
    }
    text.push_str("}\n");
    text
}
