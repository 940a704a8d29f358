//! Writes the engines' current answers into a program where they differ from its expectations.

use std::path::Path;

use crate::engines::{self, Answer, Finding};
use crate::header::{Engine, Program, Variant, directive, mark_of};

/// A line, and its original index.
type Line = (Option<usize>, String);

/// Rewrites the unmet expectations of a program, except those known to be wrong.
pub(crate) fn bless(program: &Program) {
    let mut lines: Vec<Line> =
        program.text.lines().enumerate().map(|(number, text)| (Some(number), text.to_owned())).collect();
    for engine in Engine::ALL {
        let said: Vec<Option<Vec<String>>> =
            program.variants.iter().map(|variant| answered(program, variant, engine, &mut lines)).collect();
        // An answer common to all variants and stated by none is stated once.
        let silent = program.variants.iter().all(|variant| !variant.expected.contains_key(&engine));
        let alone = program.variants.len() == 1 && program.variants[0].name.is_empty();
        if (silent || alone) && said.iter().all(|each| *each == said[0]) {
            if let Some(said) = said.into_iter().next().flatten() {
                replace(&mut lines, None, engine, said);
            }
            continue;
        }
        for (index, said) in said.into_iter().enumerate() {
            if let Some(said) = said {
                replace(&mut lines, Some(index), engine, said);
            }
        }
    }
    let text: String = lines.iter().flat_map(|(_, line)| [line.as_str(), "\n"]).collect();
    if text != program.text {
        std::fs::write(&program.path, text).expect("a program that can be written");
    }
}

/// The new expectation of one variant for an engine; `None` if it is already right.
fn answered(program: &Program, variant: &Variant, engine: Engine, lines: &mut [Line]) -> Option<Vec<String>> {
    let expected = variant.expected.get(&engine);
    let skipped = expected.is_some_and(|expected| expected.kind() == "skipped");
    if skipped || expected.is_none() && !engine.required() {
        return None;
    }
    let answer = engines::ask(engine, program, variant);
    if let Some(expected) = expected.filter(|expected| expected.known_wrong.is_some()) {
        if expected.differs(program, variant, engine, &answer).is_none() {
            eprintln!("{} {}: {engine} is right now; remove `known wrong`", program.name, variant.name);
        }
        return None;
    }
    let right = expected.is_some_and(|expected| {
        !expected.is_loose() && expected.differs(program, variant, engine, &answer).is_none()
    });
    (!right).then(|| replacement(program, variant, engine, &answer, lines))
}

/// The lines that expect this answer; adds missing marks.
fn replacement(
    program: &Program,
    variant: &Variant,
    engine: Engine,
    answer: &Answer,
    lines: &mut [Line],
) -> Vec<String> {
    let mut said = Vec::new();
    let proves = matches!(engine, Engine::Prove | Engine::Robust);
    if let Some(refused) = &answer.refused {
        said.push(format!("//@ {engine}: refused ({})", bare(refused)));
    }
    if let Some(reason) = answer.unknown.first().filter(|_| !answer.vacuous) {
        said.push(format!("//@ {engine}: unknown ({})", bare(reason)));
    }
    for finding in &answer.findings {
        if engine != Engine::Lint && finding.level != "error" {
            continue;
        }
        let what = if proves { "refuted" } else { finding.rule.as_str() };
        let line = match mark(program, finding, lines) {
            Some(mark) => format!("//@ {engine}: {what} at {mark}"),
            // For example a deadlock, which has no particular place.
            None => {
                format!("//@ {engine}: {what} ({})", bare(finding.text.lines().next().unwrap_or_default()))
            }
        };
        if !said.contains(&line) {
            said.push(line);
        }
    }
    if said.is_empty() {
        said.push(match engine {
            _ if answer.vacuous => format!("//@ {engine}: vacuous"),
            Engine::Prove | Engine::Robust => format!("//@ {engine}: proved"),
            Engine::Lint => format!("//@ {engine}: clean, no warnings"),
            Engine::Check => format!("//@ {engine}: clean"),
        });
    }
    if engine == Engine::Check && variant.figures.is_some() {
        said.push(format!("//@ figures: {}", answer.figures));
    }
    said
}

/// The part of a reason without places and without characters reserved by the syntax of expectations.
fn bare(reason: &str) -> String {
    let line = reason.trim().lines().next().unwrap_or_default();
    let mut parts = vec![String::new()];
    for word in line.split_whitespace() {
        // Paths differ between machines, and line numbers change.
        if word.contains('/') || word.starts_with('(') {
            parts.push(String::new());
            continue;
        }
        let part = parts.last_mut().expect("there is one");
        if !part.is_empty() {
            part.push(' ');
        }
        part.push_str(word);
    }
    let longest = parts.into_iter().max_by_key(String::len).unwrap_or_default();
    longest.trim_end_matches([')', ',']).to_owned()
}

/// The mark of a finding's line, added if missing; `None` if the finding has no place.
fn mark(program: &Program, finding: &Finding, lines: &mut [Line]) -> Option<String> {
    let name = Path::new(&finding.file).file_name();
    let number = usize::try_from(finding.line).ok()?.checked_sub(1)?;
    if name != program.path.file_name() {
        return Some(name?.to_string_lossy().into_owned());
    }
    let at = lines.iter().position(|(original, _)| *original == Some(number))?;
    if let Some(mark) = mark_of(&lines[at].1) {
        return Some(mark.to_owned());
    }
    let taken = |name: &str| lines.iter().any(|(_, text)| mark_of(text) == Some(name));
    let names = (1..).map(|number| match number {
        1 => finding.rule.clone(),
        _ => format!("{}-{number}", finding.rule),
    });
    let name = names.into_iter().find(|name| !taken(name))?;
    let text = &mut lines[at].1;
    *text = match text.strip_suffix('\\') {
        Some(text) => format!("{text}/* MARK: {name} */ \\"),
        None => format!("{text} // MARK: {name}"),
    };
    Some(name)
}

/// Replaces the lines about an engine, in the section of a variant or the common one.
fn replace(lines: &mut Vec<Line>, variant: Option<usize>, engine: Engine, said: Vec<String>) {
    let section = variant.map_or(0, |index| index + 1);
    let figures = said.iter().any(|line| line.starts_with("//@ figures:"));
    let mut current = 0;
    let mut at = None;
    // After the program's other directives.
    let mut end = lines.iter().take_while(|(_, line)| line.starts_with("// ")).count();
    let mut kept = Vec::new();
    for line in lines.drain(..) {
        if let Some((key, _)) = directive(&line.1) {
            current += usize::from(key.starts_with("variant "));
            if current == section {
                let gone = key == engine.name() || figures && key == "figures";
                if gone {
                    at.get_or_insert(kept.len());
                    continue;
                }
            }
            if current <= section {
                end = kept.len() + 1;
            }
        }
        kept.push(line);
    }
    let at = at.unwrap_or(end);
    kept.splice(at..at, said.into_iter().map(|line| (None, line)));
    *lines = kept;
}
