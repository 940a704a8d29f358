//! Identifies findings in a way that survives unrelated edits.
//!
//! A fingerprint is made of the rule, the cause, and the stores involved (the lost one and the survivor): for each the
//! file's name, the function, and the text of the line without white space. Line numbers, addresses, the crash point
//! and the number of occurrences do not count. If the source cannot be read, the message replaces the text. Findings
//! that agree in all of this are numbered in the order of their lines.

use std::collections::HashMap;
use std::hash::Hasher;
use std::path::Path;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::finding::{Finding, Role};
use crate::sources::Sources;

/// Version of the recipe; part of every fingerprint, so that a changed recipe gives different ones.
const RECIPE: u8 = 2;

/// Gives every finding its fingerprint.
pub(crate) fn set(findings: &mut [Finding], sources: &Sources) {
    let mut order: Vec<usize> = (0..findings.len()).collect();
    order.sort_by_key(|&index| (findings[index].place.line, findings[index].place.column));
    let mut met: HashMap<u128, u32> = HashMap::new();
    for index in order {
        let hash = of(&findings[index], sources);
        let times = met.entry(hash).or_default();
        *times += 1;
        let ordinal = if *times == 1 { String::new() } else { format!("-{times}") };
        findings[index].fingerprint = format!("{:016x}{ordinal}", (hash >> 64) as u64);
    }
}

fn of(finding: &Finding, sources: &Sources) -> u128 {
    let place = &finding.place;
    let mut hasher = SipHasher13::new();
    let mut add = |text: &str| {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    };
    add(finding.rule.id);
    add(finding.cause.as_ref().map_or("", |cause| cause.kind));
    let stores = finding.related.iter().filter(|it| {
        finding.cause.is_some() && it.main && matches!(it.role, Role::Lost | Role::Survived | Role::Note)
    });
    let places = std::iter::once(place).chain(stores.map(|it| &it.place).filter(|it| *it != place));
    for place in places {
        add(Path::new(&place.file).file_name().and_then(|name| name.to_str()).unwrap_or(&place.file));
        add(&place.function);
        match sources.get(&place.file).as_ref().and_then(|source| source.line(place.line)) {
            Some(line) => add(&without(line, char::is_whitespace)),
            // Digits are addresses and counts, which do not identify the finding.
            None => add(&without(&finding.message, |it| it.is_ascii_digit())),
        }
    }
    hasher.write_u8(RECIPE);
    hasher.finish128().as_u128()
}

fn without(text: &str, unwanted: impl Fn(char) -> bool) -> String {
    text.chars().filter(|it| !unwanted(*it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::rules;

    fn finding(line: u32) -> Finding {
        let place = Place { function: "insert".into(), ..Place::new("src/list.c", line, 3) };
        Finding::new(&rules::check::RECOVERY_FAILS, place, "recovery fails if this store is lost")
    }

    fn fingerprints(source: &str, lines: &[u32]) -> Vec<String> {
        let sources = Sources::default();
        sources.insert("src/list.c", source);
        let mut findings: Vec<Finding> = lines.iter().map(|&line| finding(line)).collect();
        set(&mut findings, &sources);
        findings.into_iter().map(|finding| finding.fingerprint).collect()
    }

    #[test]
    fn unrelated_edits_do_not_matter() {
        let before = fingerprints("void insert() {\n  a->next = b;\n}\n", &[2]);
        let after = fingerprints("// new\n\nvoid insert() {\n\t\ta->next  = b;\n}\n", &[4]);
        assert_eq!(before, after);
        assert_ne!(before, fingerprints("void insert() {\n  a->next = c;\n}\n", &[2]));
    }

    #[test]
    fn equal_lines_are_told_apart() {
        let two = fingerprints("x = 1;\nx = 1;\n", &[2, 1]);
        assert_eq!(two[0], format!("{}-2", two[1]));
    }

    #[test]
    fn without_a_source_the_message_stands_for_it() {
        let mut findings = [finding(1), finding(7)];
        findings[1].message.push_str("17");
        set(&mut findings, &Sources::default());
        assert_eq!(findings[1].fingerprint, format!("{}-2", findings[0].fingerprint));
    }

    /// Baselines contain fingerprints: changing the recipe would invalidate all of them.
    #[test]
    fn the_recipe_stays() {
        assert_eq!(fingerprints("x = 1;\n", &[1]), ["53a0872b68eb9560"]);
    }
}
