//! A check's report in the form that all engines share.

use crashproof_findings::rules::check as rules;
use crashproof_findings::story::{Event, Fate, Kind, Story};
use crashproof_findings::{Finding, Level, Place, Related, Role, Rule};
use num_bigint::BigUint;
use serde_json::json;

use crate::judge::{
    Conflict, Dependence, FailedRecovery, Minimality, Model, Redundant, RedundantKind, Report,
};
use crate::narrate::missing_flush;
use crate::subject::Failure;

/// A number that may be too long to read: its size, if it is.
pub fn readable(number: &BigUint) -> String {
    let digits = number.to_string();
    match digits.len() {
        0..=15 => digits,
        length => format!("{}.{}e{}", &digits[..1], &digits[1..3], length - 1),
    }
}

impl Report {
    /// The report as all commands give it; `subject` is what to call the program.
    pub fn in_common_form(&self, subject: &str) -> crashproof_findings::Report {
        let figures = &self.statistics;
        let mut report = crashproof_findings::Report::new("check", subject);
        let dependences = self.dependences.iter().map(dependence);
        let redundant = self.redundant.iter().map(redundant);
        let violations = self.violations.iter().map(missing_flush::finding);
        let failures = self.findings.iter().map(failure);
        report.findings = failures.chain(violations).chain(dependences).chain(redundant).collect();
        report.notes.clone_from(&self.remarks);
        let unused = self.unused_suppressions.iter();
        report.notes.extend(unused.map(|suppression| format!("suppresses nothing: {suppression}")));
        report.incomplete.clone_from(&self.unknown);
        let seconds = (figures.recording + figures.exploring).as_secs_f64();
        let mut add = |name: &str, value| report.bounds.insert(name.into(), value);
        add("incomplete", json!(self.unknown));
        add("remarks", json!(self.remarks));
        add("crashes", json!(self.crashes));
        add("schedules", json!(figures.schedules));
        let mut add = |name: &str, value| report.stats.insert(name.into(), value);
        add("events", json!(figures.events));
        add("failure_points", json!(figures.failure_points));
        add("recoveries", json!(figures.recoveries));
        add("recoveries_saved", json!(figures.recoveries_saved));
        add("behaviours", json!(figures.behaviours));
        add("eager_states", json!(figures.eager_states.to_string()));
        add("checksummed_states", json!(figures.checksummed.to_string()));
        add("seconds", json!(seconds));
        add("recording_seconds", json!(figures.recording.as_secs_f64()));
        report.summary = format!(
            "{} of {} PM events, crashed at {}, {}",
            match figures.schedules {
                0 | 1 => "one run".into(),
                many => format!("{many} schedules"),
            },
            figures.events,
            counted(figures.failure_points, "place"),
            match self.crashes {
                1 => "one crash a run".into(),
                more => format!("up to {more} crashes in a row"),
            }
        );
        report.figures = format!(
            "{} recoveries run, {} saved, {} behaviours; an eager checker: {}",
            figures.recoveries,
            figures.recoveries_saved,
            figures.behaviours,
            readable(&figures.eager_states),
        );
        // Nobody wonders about less than a second.
        if seconds >= 1.0 {
            report.figures += &format!("; {seconds:.1} s");
        }
        report
    }
}

/// A failure as a finding.
pub(crate) fn failure(found: &FailedRecovery) -> Finding {
    let (rule, label): (&'static Rule, _) = match found.lost {
        _ if found.crashes == 0 => (&rules::FAILS_UNDER_SCHEDULE, "the last access to persistent memory"),
        0 => (&rules::RECOVERY_FAILS_NOTHING_LOST, "crash here"),
        _ => (&rules::RECOVERY_FAILS, "lost"),
    };
    let mut finding = Finding::new(rule, found.place.clone(), message(found));
    finding.label = label.into();
    finding.related.clone_from(&found.related);
    for step in finding.related.iter_mut().filter(|step| step.role == Role::Lost) {
        if let Some(flushed) = found.story.as_ref().and_then(|story| flushed(story, &step.place)) {
            step.message += &flushed;
        }
    }
    finding.evidence = evidence(found);
    if let Some(cause) = &found.cause {
        finding.evidence.insert(0, format!("the cause: {}", cause.message()));
        finding.evidence.extend(cause.layout.iter().map(|layout| format!("or: {layout}")));
        let fixes = cause.related.iter().filter(|related| related.role == Role::Fix);
        finding.related.extend(fixes.cloned());
        finding.fix = missing_flush::fix(cause);
    }
    finding.output.clone_from(&found.output);
    finding.replay.clone_from(&found.replay);
    finding.count = found.count;
    finding.story.clone_from(&found.story);
    finding.extra.insert("lost".into(), json!(found.lost));
    finding.extra.insert("least".into(), json!(found.minimality));
    finding
}

/// What was done to make a lost store persistent, in words.
fn flushed(story: &Story, place: &Place) -> Option<String> {
    let here = |event: &&Event| {
        let at = &story.places[event.place];
        event.fate == Fate::Lost && (&at.file, at.line, at.column) == (&place.file, place.line, place.column)
    };
    let execution = story.executions.iter().find(|execution| execution.events.iter().any(|it| here(&it)))?;
    let store = execution.events.iter().find(here)?;
    let later =
        execution.events.iter().filter(|event| event.number > store.number && event.lane == store.lane);
    let flush = later.into_iter().find(|event| matches!(event.kind, Kind::Flush | Kind::FlushOpt));
    Some(match flush.map(|event| &story.places[event.place]) {
        Some(at) => format!(", flushed at {}:{}, but no fence had waited for it", at.file, at.line),
        None => ", not flushed before the crash".into(),
    })
}

fn message(found: &FailedRecovery) -> String {
    let how = found.failure.describe();
    match found.lost {
        _ if found.crashes == 0 => {
            format!("the program {how} without any crash if its threads run in another order")
        }
        0 => format!("recovery {how} after a crash here, although nothing stored so far is lost"),
        1 => format!("recovery {how} if this store is lost"),
        more => format!("recovery {how} if this store and {} more are lost", more - 1),
    }
}

/// What shows that it is so, beyond the places.
fn evidence(found: &FailedRecovery) -> Vec<String> {
    let mut evidence = Vec::new();
    if found.crashes > 1 {
        evidence.push(format!("it takes {} crashes in a row", found.crashes));
    }
    if found.seed > 0 {
        evidence.push(format!("threads ran in the order of seed {}", found.seed));
    }
    if found.lost == 0 && found.crashes == 1 {
        evidence.push(
            "the program cannot go on from what it leaves here, whatever else is lost; if it was still creating \
             its pool or file, check it on one that is there already"
                .into(),
        );
    }
    match found.minimality {
        Minimality::Proven => {}
        Minimality::Local => {
            evidence.push("not everything was explored: elsewhere fewer stores lost may do".into());
        }
        Minimality::Unfinished => {
            evidence.push("fewer stores lost may do: looking for them ended early".into());
        }
    }
    if found.failure == Failure::Endless {
        evidence.push("recovery was stopped when it had done far more than the recorded run".into());
    }
    evidence
}

fn redundant(found: &Redundant) -> Finding {
    let (rule, what): (&'static Rule, _) = match found.kind {
        RedundantKind::CleanFlush => {
            (&rules::FLUSH_CLEAN_LINE, "flushes a line that was not stored to since it was last written back")
        }
        RedundantKind::RepeatedFlush => {
            (&rules::FLUSH_REPEATED, "flushes a line again before anything new was stored to it")
        }
        RedundantKind::EmptyFence => (&rules::FENCE_NOTHING_PENDING, "fences with nothing to wait for"),
    };
    let message = format!("{what}, {} of {} times", found.redundant, found.total);
    let mut finding = Finding::new(rule, found.place.clone(), message);
    finding.label = "wasted".into();
    // What is useful now and then may have to be there.
    if found.redundant < found.total {
        finding.level = Level::Note;
    }
    finding.count = found.redundant;
    finding
}

fn dependence(found: &Dependence) -> Finding {
    let region = found.model.region();
    let (rule, message): (&'static Rule, _) = match (found.conflict, found.model) {
        (Conflict::NoBarrier, _) => (
            &rules::MISSING_BARRIER_BETWEEN_EPOCHS,
            "an epoch begins here, and nothing makes what the one before stored persist first".to_owned(),
        ),
        (conflict, model) => {
            let does = if conflict == Conflict::WriteAfterWrite { "writes" } else { "reads" };
            let rule = match model {
                Model::Strand => &rules::DEPENDENT_STRANDS,
                Model::Epoch => &rules::DEPENDENT_EPOCHS,
            };
            (rule, format!("{does} what another {region} wrote that may persist at the same time"))
        }
    };
    let mut finding = Finding::new(rule, found.second.clone(), message);
    finding.label = "here".into();
    let note = |place: &Place, message: &str| Related {
        role: Role::Note,
        place: place.clone(),
        message: message.into(),
    };
    finding.related = vec![
        note(&found.begins[0], &format!("the other {region} begins here")),
        note(&found.first, "and writes it here"),
    ];
    finding.count = found.count;
    finding
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("one {what}") } else { format!("{number} {what}s") }
}
