//! Something that is wrong.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::graph::EventGraph;
use crate::place::Place;
use crate::rules::{Level, Rule};
use crate::story::Story;

/// What a related place has to do with a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A store that was lost.
    Lost,
    /// A store that survived.
    Survived,
    /// A load of recovery that met one of them.
    Read,
    /// A store that the load named before it could also have read from.
    Candidate,
    /// Where the crash came.
    Crash,
    /// Where something has to be changed.
    Fix,
    /// Something else; the message says what.
    Note,
}

impl Role {
    /// The word for it, as in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            Role::Lost => "lost",
            Role::Survived => "survived",
            Role::Read => "read",
            Role::Candidate => "candidate",
            Role::Crash => "crash",
            Role::Fix => "fix",
            Role::Note => "note",
        }
    }
}

/// A place that helps to understand a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// What it has to do with it.
    pub role: Role,
    /// Where it is.
    pub place: Place,
    /// What happened there.
    pub message: String,
    /// Addresses and bytes, for those who want them; may be empty.
    pub detail: String,
    /// Is it one of the few places that one needs to see?
    pub main: bool,
}

impl Related {
    /// A place that one needs to see, without details.
    pub fn new(role: Role, place: Place, message: impl Into<String>) -> Related {
        Related { role, place, message: message.into(), detail: String::new(), main: true }
    }
}

/// Why a finding is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The name of the cause, for programs: `never-flushed`, `torn-update`, ...
    pub kind: &'static str,
    /// In words.
    pub message: String,
}

/// A change of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// What the change does, as a command: "flush `child->data` before the commit".
    pub message: String,
    /// What to change; none if only the words are known.
    pub edits: Vec<Edit>,
    /// If instructions are to be inserted, which ones and where.
    #[serde(flatten)]
    pub insertion: Option<Insertion>,
}

/// Instructions to be inserted, for programs that read the JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Insertion {
    /// Which ones.
    pub kind: Inserted,
    /// The file.
    pub file: String,
    /// The line of the statement after which they go.
    pub line: u32,
    /// Its column.
    pub column: u32,
    /// The thread that was there.
    pub thread: u16,
    /// Is this where they belong? If not, it is another place that would do.
    pub primary: bool,
    /// Between which statements they may go.
    pub window: Window,
    /// How to do without, by moving fields to one cache line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_line: Option<String>,
    /// Other places that would do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Insertion>,
}

/// Instructions to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inserted {
    /// A flush, and a fence after it.
    InsertFlushFence,
    /// A fence: the flush is there.
    InsertFence,
}

/// From the line of one statement to that of another, which may be in another file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// The first line.
    pub from: u32,
    /// The last line.
    pub to: u32,
    /// The file of the last line.
    pub to_file: String,
}

impl Fix {
    /// What to do, in words only.
    pub fn advice(message: impl Into<String>) -> Fix {
        Fix { message: message.into(), edits: Vec::new(), insertion: None }
    }
}

/// Text that replaces a part of a file. Lines and columns from 1; the end is exclusive, and equal to the start
/// if text is only inserted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The file.
    pub file: String,
    /// First line.
    pub line: u32,
    /// First column, in bytes.
    pub column: u32,
    /// Line of the end.
    pub end_line: u32,
    /// Column of the end.
    pub end_column: u32,
    /// What stands there afterwards.
    pub text: String,
}

/// Another way in which the same cause shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Also {
    /// What goes wrong.
    pub message: String,
    /// How to see it again; empty if it cannot be.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replay: String,
    /// How often it was met.
    pub count: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule it breaks.
    pub rule: &'static Rule,
    /// How bad it is; the rule's, unless somebody decided otherwise.
    pub level: Level,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where; for a missing flush, the store that can be lost.
    pub place: Place,
    /// A few words to write at the place.
    pub label: String,
    /// Other places that are part of it, in the order things happened.
    pub related: Vec<Related>,
    /// Why it is so.
    pub cause: Option<Cause>,
    /// What shows that it is so, a sentence each.
    pub evidence: Vec<String>,
    /// The execution that shows it, step by step.
    pub trace: Vec<String>,
    /// Where the failing run failed, with the calls that led there.
    pub failed_at: Option<Place>,
    /// The end of what the failing run printed.
    pub output: String,
    /// What to do about it.
    pub fix: Option<Fix>,
    /// For `crashproof replay`; empty if there is nothing to replay.
    pub replay: String,
    /// Tells findings apart, also after unrelated edits; set by [`crate::Report::finish`].
    pub fingerprint: String,
    /// How often it was met.
    pub count: u64,
    /// Other things the same cause leads to.
    pub also: Vec<Also>,
    /// What else the engine says about it; further fields of the JSON.
    pub extra: Map<String, Value>,
    /// The events around the crash, for drawing.
    pub story: Option<Story>,
    /// The counterexample, for drawing.
    pub graph: Option<EventGraph>,
}

impl Finding {
    /// A finding of which nothing is known but the rule, the place and what is wrong.
    pub fn new(rule: &'static Rule, place: Place, message: impl Into<String>) -> Finding {
        Finding {
            rule,
            level: rule.level,
            message: message.into(),
            place,
            label: String::new(),
            related: Vec::new(),
            cause: None,
            evidence: Vec::new(),
            trace: Vec::new(),
            failed_at: None,
            output: String::new(),
            fix: None,
            replay: String::new(),
            fingerprint: String::new(),
            count: 1,
            also: Vec::new(),
            extra: Map::new(),
            story: None,
            graph: None,
        }
    }
}
