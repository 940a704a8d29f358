//! Mutation of the corpus: each flush and fence of each structure is removed or weakened in turn, and some engine must
//! report it. This measures detection on bugs that were not hand-picked.
//!
//! A mutant whose run has exactly as many events as the original flushes the same lines in this run, so it is
//! equivalent. A mutant that no engine reports is either explained in `corpus/mutants.txt` or fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::corpus;
use crate::engines::Answer;
use crate::header::{Engine, Program, Variant};

/// Functions that write lines back, wait for that, or do both; for the last kind, the counterpart without the wait.
const FLUSHES: [&str; 4] = ["flush", "pmem_flush", "pmemobj_flush", "clwb_range"];
const FENCES: [&str; 3] = ["fence", "pmem_drain", "pmemobj_drain"];
const PERSISTS: [(&str, &str); 3] =
    [("persist", "flush"), ("pmem_persist", "pmem_flush"), ("pmemobj_persist", "pmemobj_flush")];

/// Options of a second attempt, for bugs that only a crash of recovery reveals.
const AGAIN: [&str; 6] = ["--crashes", "2", "--max-recoveries", "3000", "--max-per-crash", "100"];

/// One change to a program.
struct Mutant {
    kind: &'static str,
    /// The statement, and its index among those of its kind in the file.
    statement: String,
    text: String,
}

/// The results of the mutants of one program.
#[derive(Default)]
struct Fates {
    count: BTreeMap<&'static str, usize>,
    survivors: Vec<String>,
}

/// Which lines are compiled if no bug is enabled.
fn compiled(text: &str) -> Vec<bool> {
    // For each open condition: whether the current branch is compiled, and whether an earlier one was.
    let mut open: Vec<(bool, bool)> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        // Without bugs, `ifdef BUG_X` and `if defined BUG_X` are false.
        let about_bugs = line.contains("BUG_") || line.contains("SILENT");
        let holds = !about_bugs || line.contains("ifndef") || line.contains("!defined");
        if line.starts_with("#if") {
            open.push((holds, holds));
        } else if line.starts_with("#elif") {
            if let Some((counts, done)) = open.last_mut() {
                *counts = holds && !*done;
                *done |= holds;
            }
        } else if line.starts_with("#else") {
            if let Some((counts, done)) = open.last_mut() {
                *counts = !*done;
            }
        } else if line.starts_with("#endif") {
            open.pop();
        }
        lines.push(!line.starts_with('#') && open.iter().all(|(counts, _)| *counts));
    }
    lines
}

/// Function and arguments of a line that consists of a single call.
fn call(line: &str) -> Option<(&str, Vec<String>)> {
    let code = line.split("//").next()?.split("/*").next()?.trim();
    let code = code.strip_prefix("unsafe { ").and_then(|code| code.strip_suffix(" }")).unwrap_or(code);
    let (function, rest) = code.trim_end_matches(';').split_once('(')?;
    let inside = rest.strip_suffix(')')?;
    let word = |text: &str| text.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    if function.is_empty() || !word(function) || !code.ends_with(';') {
        return None;
    }
    let (mut arguments, mut depth) = (vec![String::new()], 0);
    for letter in inside.chars() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().expect("there is one").push(letter);
    }
    Some((function, arguments))
}

fn mutants(program: &Program) -> Vec<Mutant> {
    let lines: Vec<&str> = program.text.lines().collect();
    let compiled = compiled(&program.text);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut mutants = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(index, _)| compiled[*index]) {
        let Some((function, arguments)) = call(line) else { continue };
        let persists = PERSISTS.iter().find(|(name, _)| *name == function);
        if persists.is_none() && !FLUSHES.contains(&function) && !FENCES.contains(&function) {
            continue;
        }
        let code = line.split("//").next().unwrap_or_default().trim();
        let times = seen.entry(code.to_owned()).or_default();
        *times += 1;
        let statement = if *times > 1 { format!("{code} ({times})") } else { code.to_owned() };
        let mut add = |kind: &'static str, changes: &[(usize, String)]| {
            let mut text = String::new();
            for (at, line) in lines.iter().enumerate() {
                let changed = changes.iter().find(|(changed, _)| *changed == at);
                text += changed.map_or(*line, |(_, changed)| changed);
                text.push('\n');
            }
            mutants.push(Mutant { kind, statement: statement.clone(), text });
        };
        add("removed", &[(index, line.replace(code, ";"))]);
        if !FENCES.contains(&function) {
            let mut first = arguments.clone();
            *first.last_mut().expect("there is one") = " 1".into();
            let changed = line.replace(code, &format!("{function}({});", first.join(",")));
            add("first line only", &[(index, changed)]);
        }
        if let Some((name, flush)) = persists {
            add("unfenced", &[(index, line.replacen(&format!("{name}("), &format!("{flush}("), 1))]);
        }
        // Moves the next store first, if both are separate statements.
        let next = (index + 1..lines.len()).find(|next| compiled[*next] && !lines[*next].trim().is_empty());
        let before = (0..index).rev().find(|before| compiled[*before] && !lines[*before].trim().is_empty());
        let code_of = |at: usize| lines[at].split("//").next().unwrap_or_default().trim_end();
        let simple = next.is_some_and(|next| code_of(next).ends_with(';') && code_of(next).contains('='));
        let apart = before.is_some_and(|before| code_of(before).ends_with([';', '{', '}']));
        let declares = |at: usize| {
            let trimmed = code_of(at).trim_start();
            ["struct ", "uint", "int ", "let ", "return", "const ", "auto ", "for "]
                .iter()
                .any(|word| trimmed.starts_with(word))
        };
        if let Some(next) = next.filter(|next| simple && apart && !declares(*next)) {
            add("after the next store", &[(index, lines[next].to_owned()), (next, (*line).to_owned())]);
        }
    }
    mutants
}

/// The same program with another text, in a separate directory.
fn with_text(program: &Program, text: &str, directory: &Path) -> Program {
    let group = directory.join("corpus");
    std::fs::create_dir_all(&group).expect("a directory");
    let include = program.path.ancestors().nth(2).expect("tests/programs").join("include");
    let _ = std::os::unix::fs::symlink(include, directory.join("include"));
    let path = group.join(program.path.file_name().expect("a name"));
    std::fs::write(&path, text).expect("a file");
    Program { path, name: program.name.clone(), text: text.to_owned(), variants: Vec::new() }
}

fn errors(answer: &Answer) -> BTreeSet<(String, String)> {
    let errors = answer.findings.iter().filter(|finding| finding.level == "error");
    // Lines move and messages mention them, so only rule and function are compared.
    errors.map(|finding| (finding.rule.clone(), finding.line.to_string())).collect()
}

/// Judges all mutants of a structure's correct variant.
pub(crate) fn trial(program: &Program) -> Result<(), String> {
    let Some(variant) = program.variants.iter().find(|variant| variant.bug.is_none()) else {
        return Err("no variant is correct".into());
    };
    if variant.expected.get(&Engine::Check).is_some_and(|expected| expected.kind() == "skipped") {
        println!("{}: not mutated: check does not judge it", program.name);
        return Ok(());
    }
    let original = corpus::ask(Engine::Check, program, variant).unwrap_or_default();
    let lint = corpus::ask(Engine::Lint, program, variant).unwrap_or_default();
    let explained = std::fs::read_to_string(program.path.with_file_name("mutants.txt")).unwrap_or_default();
    let name = program.name.trim_start_matches("corpus/");
    let mut fates = Fates::default();
    for mutant in mutants(program) {
        let scratch = tempfile::tempdir().expect("a directory");
        let changed = with_text(program, &mutant.text, scratch.path());
        let fate = fate(&changed, variant, &original, &lint);
        let key = format!("{name}: {}: {}", mutant.kind, mutant.statement);
        let known = explained
            .lines()
            .any(|line| line.strip_prefix(&key).is_some_and(|rest| rest.starts_with(" -- ")));
        let fate = match fate {
            "survives" if known => "explained",
            "survives" => {
                fates.survivors.push(key);
                "survives"
            }
            fate if known => {
                fates.survivors.push(format!("{key}: {fate}, though mutants.txt explains why not"));
                fate
            }
            fate => fate,
        };
        *fates.count.entry(fate).or_default() += 1;
    }
    let counts: Vec<String> = fates.count.iter().map(|(fate, count)| format!("{count} {fate}")).collect();
    println!("{name}: {}", counts.join(", "));
    if fates.survivors.is_empty() { Ok(()) } else { Err(fates.survivors.join("\n")) }
}

fn fate(program: &Program, variant: &Variant, original: &Answer, lint: &Answer) -> &'static str {
    let check = corpus::ask(Engine::Check, program, variant).unwrap_or_default();
    if check.refused.is_some() {
        return "does not compile";
    }
    if !errors(&check).is_subset(&errors(original)) {
        let failed = check.findings.iter().any(|it| it.level == "error" && it.rule != "missing-flush");
        return if failed { "caught by a recovery" } else { "caught by robustness" };
    }
    if check.events == original.events {
        return "equivalent in this run";
    }
    if check.findings.iter().any(|finding| finding.rule == "missing-flush") {
        return "noted by robustness";
    }
    let linted = corpus::ask(Engine::Lint, program, variant).unwrap_or_default();
    if !errors(&linted).is_subset(&errors(lint)) {
        return "caught by lint";
    }
    let mut again = variant.clone();
    again.flags.entry(Engine::Check).or_default().extend(AGAIN.map(str::to_owned));
    let check = corpus::ask(Engine::Check, program, &again).unwrap_or_default();
    if !errors(&check).is_subset(&errors(original)) {
        return "caught by a second crash";
    }
    "survives"
}
