//! What a rule is.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Data can be lost: exit code 1.
    Error,
    /// Work is redundant, or something is doubtful; counts only with `--deny warnings`.
    Warning,
    /// Worth knowing.
    Note,
}

impl Level {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

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
    /// The default level.
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
        $crate::rules::rule::Rule {
            id: $id,
            title: $title,
            level: $crate::rules::rule::Level::$level,
            engine: $crate::rules::rule::Engine::$engine,
            explanation: include_str!(concat!("../../rules/", $id, "/explain.md")),
            bad: $crate::rules::rule::Example {
                file: concat!("bad.", $ending),
                source: include_str!(concat!("../../rules/", $id, "/bad.", $ending)),
                arguments: &[$($argument),*],
            },
            good: $crate::rules::rule::Example {
                file: concat!("good.", $ending),
                source: include_str!(concat!("../../rules/", $id, "/good.", $ending)),
                arguments: &[$($argument),*],
            },
        }
    };
}
pub(crate) use rule;
