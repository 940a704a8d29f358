//! Every rule that a finding can break: the registry behind `crashproof explain` and the rule reference.
//!
//! A rule is data: an entry in the table of its engine, and a directory of `crates/findings/rules` called after it,
//! with `explain.md`, an example that breaks it and one that does not. Tests run both examples: the first
//! must be found, the second must be silent.

use crate::finding::Level;

pub mod check;
pub mod lint;
pub mod prove;

/// Which engine looks for breaches of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `crashproof check`.
    Check,
    /// `crashproof lint`.
    Lint,
    /// `crashproof prove`.
    Prove,
}

impl Engine {
    /// The command.
    pub fn command(self) -> &'static str {
        match self {
            Engine::Check => "check",
            Engine::Lint => "lint",
            Engine::Prove => "prove",
        }
    }
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name, which never changes.
    pub id: &'static str,
    /// What breaks it, in a few words.
    pub title: &'static str,
    /// How bad that is, unless somebody decides otherwise.
    pub level: Level,
    /// Who looks for it.
    pub engine: Engine,
    /// Why it is a rule, what to do, and what is deliberately not reported; Markdown.
    pub explanation: &'static str,
    /// A program that breaks it.
    pub bad: Example,
    /// The same program put right.
    pub good: Example,
}

/// A small program.
#[derive(Debug)]
pub struct Example {
    /// Name of the file.
    pub file: &'static str,
    /// Its text.
    pub source: &'static str,
    /// Further arguments of the command that looks at it.
    pub arguments: &'static [&'static str],
}

/// An entry of a table: name, engine, level, title, the file ending of its examples, further arguments.
macro_rules! rule {
    ($id:literal, $engine:ident, $level:ident, $title:literal, $ending:literal $(, $argument:literal)*) => {
        $crate::rules::Rule {
            id: $id,
            title: $title,
            level: $crate::finding::Level::$level,
            engine: $crate::rules::Engine::$engine,
            explanation: include_str!(concat!("../../rules/", $id, "/explain.md")),
            bad: $crate::rules::Example {
                file: concat!("bad.", $ending),
                source: include_str!(concat!("../../rules/", $id, "/bad.", $ending)),
                arguments: &[$($argument),*],
            },
            good: $crate::rules::Example {
                file: concat!("good.", $ending),
                source: include_str!(concat!("../../rules/", $id, "/good.", $ending)),
                arguments: &[$($argument),*],
            },
        }
    };
}
pub(crate) use rule;

/// All rules, by engine.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [check::RULES, lint::RULES, prove::RULES].into_iter().flatten().copied()
}

/// The rule of this name.
pub fn find(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id == id)
}

/// Names of rules that somebody who wrote `id` may have meant, the likeliest first.
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
