//! Every rule that a finding can break: the registry behind `crashproof explain` and the rule reference.
//!
//! A rule is data: an entry in the table of its engine, and a directory of `crates/findings/rules` called after it,
//! with `explain.md`, an example that breaks it and one that does not. Tests run both examples: the first
//! must be found, the second must be silent.

pub mod check;
pub mod lint;
pub mod prove;
mod rule;

pub use rule::{Engine, Example, Level, Rule};

/// All rules, by engine.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [check::RULES, lint::RULES, prove::RULES].into_iter().flatten().copied()
}

/// The rule of this name.
pub fn find(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id == id)
}

/// Names of rules similar to `id`, most similar first.
pub fn similar(id: &str) -> Vec<&'static str> {
    let words: Vec<&str> = id.split('-').filter(|word| word.len() > 2).collect();
    let likeness = |rule: &Rule| words.iter().filter(|word| rule.id.contains(**word)).count();
    let mut alike: Vec<_> = all().map(|rule| (likeness(rule), rule.id)).filter(|it| it.0 > 0).collect();
    alike.sort_by_key(|it| std::cmp::Reverse(it.0));
    alike.into_iter().map(|it| it.1).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let names: Vec<&str> = all().map(|rule| rule.id).collect();
        let different: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len());
        for name in names {
            assert!(name.chars().all(|it| it.is_ascii_lowercase() || it == '-'), "{name}");
        }
    }

    #[test]
    fn every_directory_is_a_rule() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules");
        for entry in std::fs::read_dir(directory).expect("the rules") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            assert!(find(&name).is_some(), "no rule called {name}");
        }
    }
}
