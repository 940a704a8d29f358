//! Turns the verdicts of paths into findings, each reported once.

use crashproof_findings::{Finding, Fix, Frame, Level, Place, Related, Role};
use crashproof_frontend::program::ir::{PlaceId, Program};

use crate::explore::Explorer;
use crate::rules::{Rule, Verdict};
use crate::uses::Needless;

/// The findings, and the number of additional ones located only in libraries.
pub(crate) fn findings(program: &Program, explorer: &Explorer) -> (Vec<Finding>, usize) {
    let verdicts = &explorer.verdicts;
    let (mut all, mut in_libraries) = (Vec::new(), 0);
    for ((rule, place), verdict) in &verdicts.violations {
        let sometimes = verdicts.satisfied.get(&(*rule, *place)).is_some_and(|paths| *paths > 0);
        let unknown = explorer.cuts.is_inside(verdict.by);
        let deliberate = verdicts.is_deliberate(*rule, verdict) && !explorer.pedantic;
        let stands = verdict.stands(&explorer.guards, &explorer.names);
        let sweeps = verdicts.is_sweep(*rule, *place) && !explorer.pedantic;
        if !stands || !rule.is_reported(sometimes, unknown) || sweeps || deliberate {
            continue;
        }
        // A store that is never written back is one finding, even if something points to it.
        let lost = verdict.related.iter().find(|related| related.role == "lost");
        let same = |rule: Rule, place: PlaceId| {
            let other = verdicts.violations.get(&(rule, place));
            other.is_some_and(|other| other.stands(&explorer.guards, &explorer.names))
        };
        // The library's own line, not the program's.
        if program.place(*place).of_a_library {
            in_libraries += 1;
            continue;
        }
        // The program cannot omit what a library logs on every assignment.
        if verdict.site.by_library && matches!(rule, Rule::RepeatedPersist | Rule::LogUnmodified) {
            continue;
        }
        // One finding per store.
        if *rule == Rule::UnflushedWrite && same(Rule::UnloggedWrite, *place) {
            continue;
        }
        // One finding per flush: what is always wrong, or else the whole flush.
        let always = |rule: Rule| same(rule, *place) && !verdicts.satisfied.contains_key(&(rule, *place));
        let of_the_whole = always(Rule::RedundantFlush) || !always(Rule::FlushUnmodified);
        if *rule == Rule::FlushUnmodified && same(Rule::RedundantFlush, *place) && of_the_whole
            || *rule == Rule::RedundantFlush && !of_the_whole
        {
            continue;
        }
        if *rule == Rule::PublishBeforePersist
            && (same(Rule::UnloggedWrite, *place)
                || same(Rule::UnflushedWrite, *place)
                || lost.is_some_and(|lost| same(Rule::UnflushedWrite, lost.place)))
        {
            continue;
        }
        let mut found = finding(program, *rule, verdict, sometimes);
        if matches!(rule, Rule::UnflushedWrite | Rule::PublishBeforePersist)
            && !explorer.pedantic
            && let Some(why) = explorer.uses.needless(program, *place, |place| {
                let key = (Rule::UnflushedWrite, place);
                verdicts.satisfied.contains_key(&key) && !verdicts.violations.contains_key(&key)
            })
        {
            found.level = if why == Needless::OnlyCounted { Level::Warning } else { Level::Note };
            found.message.push_str(&format!("; {}", why.describe()));
        }
        all.push(found);
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
    // A flush that the hardware keeps in order is late, but nothing is lost.
    if rule == Rule::MissingBarrier && verdict.ordered {
        finding.level = Level::Note;
    }
    for related in &verdict.related {
        let place = place(program, related.place);
        match related.role {
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
                finding.related.push(Related::new(role, place, related.message.clone()));
            }
        }
    }
    finding.fix = Some(Fix::advice(verdict.advice.as_deref().unwrap_or(rule.advice())));
    finding.count = u64::from(verdict.paths);
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
