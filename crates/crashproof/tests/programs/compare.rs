//! The corpus's correct structures in the terms of the papers: Jaaru's Figure 14 (executions, time, failure points, and
//! what an eager checker would run), PSan's Table 3 (time of an execution with and without robustness) and redundant
//! flushes, and how these grow with the number of operations.
//!
//! Measurements are recorded in `corpus/expected/comparisons.txt` and `growth.txt`; everything except times must be
//! reproduced exactly. The book's chapter and its picture are generated from the records.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::corpus::{self, processor_seconds};
use crate::engines::Answer;
use crate::header::{Engine, Program, Variant};

/// Structures whose pools can hold any number of operations (`-DSTEPS=N` of `driver.h`).
const GROWING: [&str; 4] = ["bwtree.cpp", "clht_lock.c", "durable_set.c", "masstree.cpp"];
const OPERATIONS: [u64; 4] = [1, 10, 100, 1000];

fn kept_in(root: &Path, name: &str) -> PathBuf {
    root.join("corpus/expected").join(format!("{name}.txt"))
}

fn correct(program: &Program) -> Option<Variant> {
    let right = program.variants.iter().find(|variant| variant.bug.is_none() && variant.name != "all")?;
    let judged = right.expected.get(&Engine::Check).is_none_or(|expected| expected.kind() != "skipped");
    judged.then(|| right.clone())
}

fn timed(program: &Program, variant: &Variant) -> (Answer, f64) {
    let before = processor_seconds();
    let answer = corpus::ask(Engine::Check, program, variant).unwrap_or_default();
    (answer, processor_seconds() - before)
}

/// Redundant executions of `places`, as counted in the report.
fn redundant(answer: &Answer, rule: &str) -> u64 {
    let of =
        answer.findings.iter().filter(|finding| finding.rule == rule && !finding.file.contains("libpmem"));
    let times =
        of.filter_map(|finding| finding.text.rsplit_once('(')?.1.split(' ').next()?.parse::<u64>().ok());
    times.sum()
}

fn comparison(program: &Program) -> Option<String> {
    let variant = correct(program)?;
    let mut plain = variant.clone();
    plain.flags.entry(Engine::Check).or_default().push("--no-robust".into());
    let (answer, seconds) = timed(program, &variant);
    let (without, seconds_without) = timed(program, &plain);
    let each = |seconds: f64, answer: &Answer| 1000.0 * seconds / (answer.recoveries + 1) as f64;
    Some(format!(
        "{} | {} | {} | {} | {} | {} | {seconds:.2} | {:.2} | {:.2}",
        program.name.trim_start_matches("corpus/"),
        answer.recoveries + 1,
        answer.crash_points,
        answer.eager,
        redundant(&answer, "flush-clean-line"),
        redundant(&answer, "fence-nothing-pending"),
        each(seconds, &answer),
        each(seconds_without, &without),
    ))
}

fn growth(program: &Program) -> Vec<String> {
    let name = program.name.trim_start_matches("corpus/");
    let Some(variant) = correct(program).filter(|_| GROWING.contains(&name)) else { return Vec::new() };
    let mut lines = Vec::new();
    for operations in OPERATIONS {
        let mut longer = variant.clone();
        longer.compiler.push(format!("-DSTEPS={operations}"));
        let (answer, seconds) = timed(program, &longer);
        let (points, executions) = (answer.crash_points, answer.recoveries + 1);
        lines.push(format!(
            "{name} | {operations} | {executions} | {points} | {} | {seconds:.2}",
            answer.eager
        ));
    }
    lines
}

/// Measures everything, and records it or compares it with the record.
pub(crate) fn trial(root: &Path, programs: &[Arc<Program>], blessing: bool) -> Result<(), String> {
    let comparisons: Vec<String> = programs.iter().filter_map(|program| comparison(program)).collect();
    let growth: Vec<String> = programs.iter().flat_map(|program| growth(program)).collect();
    let mut wrong = Vec::new();
    for (name, lines, untimed) in [("comparisons", comparisons, 6), ("growth", growth, 5)] {
        let path = kept_in(root, name);
        if blessing {
            std::fs::write(path, lines.join("\n") + "\n").expect("a file that can be written");
            continue;
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        let cut = |line: &str| line.split(" | ").take(untimed).collect::<Vec<_>>().join(" | ");
        let before: Vec<String> = kept.lines().map(cut).collect();
        for line in lines.iter().filter(|line| !before.contains(&cut(line))) {
            wrong.push(format!("{name}: not kept: {line}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn rows(root: &Path, name: &str) -> Vec<Vec<String>> {
    let kept = std::fs::read_to_string(kept_in(root, name)).unwrap_or_default();
    kept.lines().map(|line| line.split(" | ").map(str::to_owned).collect()).collect()
}

/// The sections of the chapter.
pub(crate) fn sections(root: &Path) -> String {
    let mut text = String::from(
        "\n## In the columns of the papers\n\n\
         The correct variants: executions are the run and its recoveries; \"eager\" is how many states a checker would run \
         that tries each state that a crash may leave, as Yat does (Jaaru, Figure 14). Time per execution is with \
         robustness and without it (PSan, Table 3), processor time with process start and reports. Redundant flushes and \
         fences count executions.\n\n\
         | structure | executions | failure points | eager | CPU s | ms per execution | without robustness | \
         redundant flushes | redundant fences |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows(root, "comparisons").iter().filter(|row| row.len() == 9) {
        let [name, executions, points, eager, flushes, fences, seconds, with, without] = &row[..] else {
            continue;
        };
        let _ = writeln!(
            text,
            "| {name} | {executions} | {points} | {eager} | {seconds} | {with} | {without} | {flushes} | {fences} |"
        );
    }
    text.push_str(
        "\n## Growth with the number of operations\n\n\
         Insertions, updates and deletions, then updates; a recovery verifies everything and goes on for four operations.\n\n\
         ![executions and processor time by number of operations](corpus-growth.svg)\n\n\
         | structure | operations | executions | failure points | eager | CPU s |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for row in rows(root, "growth") {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Both axes are logarithmic; solid lines are executions, dashed ones milliseconds.
pub(crate) fn picture(root: &Path) -> String {
    const COLORS: [&str; 4] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"];
    let rows = rows(root, "growth");
    let x = |operations: f64| 60.0 + 130.0 * operations.log10();
    let y = |value: f64| 300.0 - 55.0 * value.max(1.0).log10();
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 350\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"640\" height=\"350\" fill=\"white\"/>\n",
    );
    for power in 0..=5 {
        let value = 10f64.powi(power);
        let _ = writeln!(
            svg,
            "<line x1=\"60\" x2=\"450\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#ddd\"/>\
             <text x=\"54\" y=\"{1:.1}\" text-anchor=\"end\">{value}</text>",
            y(value),
            y(value) + 4.0
        );
    }
    for operations in OPERATIONS {
        let at = x(operations as f64);
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"320\" text-anchor=\"middle\">{operations}</text>");
    }
    svg.push_str("<text x=\"255\" y=\"340\" text-anchor=\"middle\">operations</text>\n");
    for (index, (name, color)) in GROWING.iter().zip(COLORS).enumerate() {
        let of = || rows.iter().filter(|row| row.len() == 6 && row[0] == *name);
        for (column, factor, dash) in [(2, 1.0, ""), (5, 1000.0, " stroke-dasharray=\"4 3\"")] {
            let number = |text: &String| text.parse::<f64>().unwrap_or_default();
            let point = |row: &Vec<String>| {
                format!("{:.1},{:.1}", x(number(&row[1])), y(factor * number(&row[column])))
            };
            let points: Vec<String> = of().map(point).collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dash} points=\"{}\"/>",
                points.join(" ")
            );
        }
        let at = 60 + 22 * index;
        let _ = writeln!(
            svg,
            "<line x1=\"475\" x2=\"500\" y1=\"{0}\" y2=\"{0}\" stroke=\"{color}\" stroke-width=\"2\"/>\
             <text x=\"508\" y=\"{1}\">{name}</text>",
            at,
            at + 4
        );
    }
    svg.push_str(
        "<text x=\"475\" y=\"160\">solid: executions</text>\n\
         <text x=\"475\" y=\"178\">dashed: CPU milliseconds</text>\n</svg>\n",
    );
    svg
}
