//! A check's report in the form shared by all engines.

use crashproof_findings::rules::check as rules;
use crashproof_findings::{Cause, Finding, Fix, Level, Place, Related, Role, Rule, Sources};
use num_bigint::BigUint;
use serde_json::json;

use crate::judge::{
    Conflict, DataRace, Dependence, FailedRecovery, Minimality, Model, PersistencyRace, Redundant,
    RedundantKind, Report, Words,
};
use crate::narrate::missing_flush;
use crate::narrate::stacks::panic_place;
use crate::narrate::words::main_place;
use crate::subject::Failure;

/// A number, abbreviated to its order of magnitude if it is very long.
pub fn readable(number: &BigUint) -> String {
    let digits = number.to_string();
    match digits.len() {
        0..=15 => digits,
        length => format!("{}.{}e{}", &digits[..1], &digits[1..3], length - 1),
    }
}

impl Report {
    /// The number of errors in its report; failures with one cause count once.
    pub fn errors(&self) -> usize {
        let mut report = self.in_common_form("");
        report.finish(&Sources::default());
        report.findings.iter().filter(|finding| finding.level == Level::Error).count()
    }

    /// The report in the form shared by all commands; `subject` is the name of the program.
    pub fn in_common_form(&self, subject: &str) -> crashproof_findings::Report {
        let figures = &self.statistics;
        let mut report = crashproof_findings::Report::new("check", subject);
        let dependences = self.dependences.iter().map(dependence);
        let redundant = self.redundant.iter().map(redundant);
        let violations = self.violations.iter().map(missing_flush::finding);
        let failures = self.findings.iter().map(failure);
        let races = self.races.iter().map(race).chain(self.persistency_races.iter().map(persistency_race));
        report.findings =
            failures.chain(violations).chain(dependences).chain(races).chain(redundant).collect();
        report.notes.clone_from(&self.remarks);
        let unused = self.unused_suppressions.iter();
        report.notes.extend(unused.map(|suppression| {
            format!(
                "unused suppression: {suppression} (--suppress excuses missing flushes on which no recovery failed; \
                 for other findings, use [[suppress]] in crashproof.toml or an ignore comment)"
            )
        }));
        report.incomplete.clone_from(&self.unknown);
        let seconds = (figures.recording + figures.exploring).as_secs_f64();
        let mut add = |name: &str, value| report.bounds.insert(name.into(), value);
        add("incomplete", json!(self.unknown));
        add("remarks", json!(self.remarks));
        add("crashes", json!(self.crashes));
        add("schedules", json!(figures.schedules));
        add("all_schedules", json!(figures.all_schedules));
        let mut add = |name: &str, value| report.stats.insert(name.into(), value);
        add("events", json!(figures.events));
        add("failure_points", json!(figures.failure_points));
        add("recoveries", json!(figures.recoveries));
        add("recoveries_saved", json!(figures.recoveries_saved));
        add("behaviours", json!(figures.behaviors));
        add("eager_states", json!(figures.eager_states.to_string()));
        add("checksummed_states", json!(figures.checksummed.to_string()));
        add("seconds", json!(seconds));
        add("recording_seconds", json!(figures.recording.as_secs_f64()));
        report.summary = format!(
            "{}, {}, {}, {}",
            match figures.schedules {
                0 | 1 if figures.threads < 2 && !figures.all_schedules => "1 run".into(),
                1 if figures.all_schedules => "the only schedule".into(),
                many if figures.all_schedules => format!("all {many} schedules"),
                // A verdict about some schedules must not read like one about all.
                some => format!("{some} of many schedules"),
            },
            counted(figures.events, "PM event"),
            counted(figures.failure_points, "crash point"),
            match self.crashes {
                1 => "1 crash per run".into(),
                more => format!("up to {more} crashes per run"),
            }
        );
        report.figures = format!(
            "{} run, {} skipped as equivalent, {} explored",
            counted_as(figures.recoveries, "recovery", "recoveries"),
            figures.recoveries_saved,
            counted(figures.behaviors, "distinct behavior"),
        );
        // Brute force is only counted for one schedule.
        if figures.schedules <= 1 && figures.threads < 2 {
            report.figures += &format!(" (brute force: {})", readable(&figures.eager_states));
        }
        // Times below a second are not worth mentioning.
        if seconds >= 1.0 {
            report.figures += &format!("; {seconds:.1} s");
        }
        report
    }
}

impl FailedRecovery {
    /// The failure in the form shared by all engines.
    pub fn in_common_form(&self) -> Finding {
        failure(self)
    }
}

/// The rule violated by a program that fails under some schedule. A thread that waits for a condition variable when no
/// thread can continue has missed the signal, or none was ever sent.
fn under_schedule(found: &FailedRecovery) -> &'static Rule {
    let waits_for_signal = found.output.contains("waits for a condition variable");
    match found.failure {
        Failure::Deadlock if waits_for_signal => &rules::LOST_WAKEUP,
        Failure::Deadlock => &rules::DEADLOCK,
        _ => &rules::FAILS_UNDER_SCHEDULE,
    }
}

/// A failure as a finding.
pub(crate) fn failure(found: &FailedRecovery) -> Finding {
    let (rule, label): (&'static Rule, _) = match found.lost {
        _ if found.crashes == 0 && found.seed == 0 => (&rules::FAILS_WITHOUT_CRASH, "here"),
        _ if found.crashes == 0 && panic_place(&found.output).is_some() => {
            (under_schedule(found), "panics here")
        }
        _ if found.crashes == 0 => (under_schedule(found), "the last access to persistent memory"),
        _ if found.volatile.is_some() => (&rules::VOLATILE_POINTER, "stored here"),
        0 => (&rules::RECOVERY_FAILS_NOTHING_LOST, "persists"),
        _ => (&rules::RECOVERY_FAILS, "lost"),
    };
    let words = &found.words;
    let mut finding = Finding::new(rule, main_place(words, &found.place), words.title.clone());
    finding.label = label.into();
    finding.related.clone_from(&words.related);
    finding.cause.clone_from(&words.cause);
    finding.failed_at.clone_from(&words.failed_at);
    finding.evidence = evidence(found);
    match &found.cause {
        Some(missing) => {
            finding.evidence.extend(missing.layout.iter().map(|layout| format!("or: {layout}")));
            finding.fix = missing_flush::fix(missing, &words.advice);
        }
        None => finding.fix = words.advice.first().map(Fix::advice),
    }
    finding.output.clone_from(&found.output);
    finding.replay.clone_from(&found.replay);
    finding.count = found.count;
    finding.story.clone_from(&found.story);
    finding.extra.insert("lost".into(), json!(found.lost));
    finding.extra.insert("least".into(), json!(found.minimality));
    finding
        .extra
        .insert("failure".into(), json!(format!("recovery {}", found.failure.describe_with(&found.output))));
    finding
}

/// The text for a volatile pointer that recovery followed: no flush helps, so it does not mention what is lost.
pub(crate) fn volatile_pointer(words: Words, object: &str, failed: &FailedRecovery) -> Words {
    let title = format!(
        "{object} keeps a pointer to volatile memory; after a crash that memory is gone, and recovery {}",
        failed.failure.describe_with(&failed.output)
    );
    let advice = "keep an offset or an index, or set the pointer anew in every run before it is used";
    let cause = Cause {
        kind: "recovery-trusts-volatile-state",
        message: "the pointer was valid before the crash; memory that is not persistent is gone".into(),
    };
    Words { title, cause: Some(cause), advice: vec![advice.into()], ..words }
}

/// Evidence beyond the places.
fn evidence(found: &FailedRecovery) -> Vec<String> {
    let mut evidence = Vec::new();
    if found.crashes > 1 {
        evidence.push(format!("it takes {} crashes in a row", found.crashes));
    }
    if found.seed > 0 {
        evidence.push(format!("found under schedule {}", found.seed));
    }
    if let Some(pointer) = &found.volatile {
        let Place { file, line, .. } = &pointer.read;
        evidence.push(format!("recovery reads {:#x} at {file}:{line} and follows it", pointer.value));
        return evidence;
    }
    if found.lost == 0
        && found.crashes == 1
        && found.words.cause.as_ref().is_some_and(|it| it.kind == "stored-after-commit")
    {
        evidence.push(
            "if this crash came while the pool or file was being created, create it before the check with --setup"
                .into(),
        );
    }
    match found.minimality {
        Minimality::Proven => {}
        Minimality::Local => {
            evidence.push("not everything was explored: fewer lost stores may suffice elsewhere".into());
        }
        Minimality::Unfinished => {
            evidence.push("fewer lost stores may suffice: minimization ended early".into());
        }
    }
    if found.failure == Failure::Endless {
        evidence.push("recovery was stopped after doing far more work than the recorded run".into());
    }
    evidence
}

fn redundant(found: &Redundant) -> Finding {
    let (rule, what): (&'static Rule, _) = match found.kind {
        RedundantKind::CleanFlush => (
            &rules::FLUSH_CLEAN_LINE,
            "redundant flush: nothing was stored to the line since it was last written back",
        ),
        RedundantKind::RepeatedFlush => (
            &rules::FLUSH_REPEATED,
            "redundant flush: the line is already being written back, with nothing new in it",
        ),
        RedundantKind::EmptyFence => {
            (&rules::FENCE_NOTHING_PENDING, "redundant fence: no flush or store is pending here")
        }
    };
    let executions = if found.total == 1 { "execution" } else { "executions" };
    let message = format!("{what} ({} of {} {executions})", found.redundant, found.total);
    let mut finding = Finding::new(rule, found.place.clone(), message);
    finding.label = "redundant".into();
    // Work that is useful at times may be needed; an idiom without measurable cost is not worth a warning.
    if found.redundant < found.total || found.idiom {
        finding.level = Level::Note;
    }
    finding.count = found.redundant;
    finding.extra.insert("executed".into(), json!(found.total));
    finding.extra.insert("redundant".into(), json!(found.redundant));
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
    let note = |place: &Place, message: &str| Related::new(Role::Note, place.clone(), message);
    finding.related = vec![
        note(&found.begins[0], &format!("the other {region} begins here")),
        note(&found.first, "and writes it here"),
    ];
    finding.count = found.count;
    finding
}

fn race(found: &DataRace) -> Finding {
    let does = |stores: bool| if stores { "stores to" } else { "reads" };
    let message = format!(
        "data race: thread {} {} persistent memory that thread {} {}, and nothing orders the two",
        found.threads[1],
        does(found.stores[1]),
        found.threads[0],
        if found.stores[0] { "stores to" } else { "reads" },
    );
    let mut finding = Finding::new(&rules::DATA_RACE, found.second.clone(), message);
    finding.label = "here".into();
    let note = format!("thread {} {} it here", found.threads[0], does(found.stores[0]));
    finding.related = vec![Related::new(Role::Note, found.first.clone(), &note)];
    finding.count = found.count;
    finding
}

fn persistency_race(found: &PersistencyRace) -> Finding {
    let Place { file, line, .. } = &found.load;
    let message = format!(
        "persistency race: recovery may read this plain store ({file}:{line}) before it is surely written back; a compiler may \
         split it"
    );
    let mut finding = Finding::new(&rules::PERSISTENCY_RACE, found.store.clone(), message);
    finding.label = "stored here".into();
    finding.related = vec![Related::new(Role::Note, found.load.clone(), "recovery reads it here")];
    finding.fix = Some(Fix::advice("make the store atomic (relaxed is enough)"));
    finding.count = found.count;
    finding
}

fn counted(number: u64, what: &str) -> String {
    counted_as(number, what, &format!("{what}s"))
}

fn counted_as(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}
