//! Rows of the papers' tables of bugs, and the seeded bugs that correspond to them (`//@ like:`).

use std::fmt::Write as _;

use crate::header::Variant;

/// Rows by table: Jaaru's Figures 12 (PMDK) and 13 (RECIPE), PSan's Table 2, the categories of DeepMC's Table 1.
const TABLES: [(&str, &str, usize); 4] = [
    ("Jaaru 12", "Jaaru, Figure 12", 7),
    ("Jaaru 13", "Jaaru, Figure 13", 18),
    ("PSan", "PSan, Table 2", 35),
    ("DeepMC", "DeepMC, Table 1", 9),
];

/// Rows without a seeded bug, and why.
const WITHOUT: [(&str, &str); 1] =
    [("DeepMC.4", "epochs within epochs are PMFS's; `tests/programs/lint/epochs.bad.c` has them")];

fn reason(row: &str) -> Option<&'static str> {
    WITHOUT.iter().find(|(without, _)| *without == row).map(|(_, reason)| *reason)
}

/// Rows with neither a seeded bug nor a reason, and names of nonexistent rows.
pub(crate) fn missing<'a>(variants: impl Iterator<Item = &'a Variant> + Clone) -> Vec<String> {
    let all: Vec<String> = TABLES
        .iter()
        .flat_map(|(short, _, rows)| (1..=*rows).map(move |row| format!("{short}.{row}")))
        .collect();
    let like = |row: &str| variants.clone().any(|variant| variant.like.iter().any(|like| like == row));
    let mut wrong: Vec<String> = all
        .iter()
        .filter(|row| !like(row) && reason(row).is_none())
        .map(|row| format!("no seed is like {row}"))
        .collect();
    let unknown = variants.clone().flat_map(|variant| &variant.like).filter(|row| !all.contains(row));
    wrong.extend(unknown.map(|row| format!("no such row: {row}")));
    wrong
}

/// The section of the chapter.
pub(crate) fn section<'a>(variants: impl Iterator<Item = (&'a str, &'a Variant, String)> + Clone) -> String {
    let mut text = String::from(
        "\n## The papers' bugs\n\nRows of the papers' tables of bugs, and the seeds that are their counterparts.\n\n\
         | row | counterpart | found by |\n|---|---|---|\n",
    );
    for (short, long, rows) in TABLES {
        for row in 1..=rows {
            let name = format!("{short}.{row}");
            for (program, variant, found) in
                variants.clone().filter(|(_, variant, _)| variant.like.contains(&name))
            {
                let _ = writeln!(text, "| {long}, #{row} | {program}, {} | {found} |", variant.name);
            }
            if let Some(reason) = reason(&name) {
                let _ = writeln!(text, "| {long}, #{row} | none: {reason} | |");
            }
        }
    }
    text
}
