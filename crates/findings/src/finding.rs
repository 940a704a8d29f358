//! A finding.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::graph::EventGraph;
use crate::place::Place;
use crate::rules::{Level, Rule};
use crate::story::Story;

/// The role of a related place in a finding.
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
    /// The word for it in JSON.
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
    /// Its role.
    pub role: Role,
    /// Where it is.
    pub place: Place,
    /// What happened there.
    pub message: String,
    /// Addresses and bytes, for verbose reports; may be empty.
    pub detail: String,
    /// Is it one of the few essential places?
    pub main: bool,
}

impl Related {
    /// An essential place without details.
    pub fn new(role: Role, place: Place, message: impl Into<String>) -> Related {
        Related { role, place, message: message.into(), detail: String::new(), main: true }
    }
}

/// Why a finding is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The identifier of the cause: `never-flushed`, `torn-update`, ...
    pub kind: &'static str,
    /// As text.
    pub message: String,
}

/// A change to the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// The change as a command: "flush `child->data` before the commit".
    pub message: String,
    /// The edits; `None` if there is only the text.
    pub edits: Vec<Edit>,
    /// The instructions to insert, if any, and where.
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
    /// Is this the preferred place, rather than an alternative?
    pub primary: bool,
    /// The statements between which they may be inserted.
    pub window: Window,
    /// The alternative of moving fields to one cache line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_line: Option<String>,
    /// Alternative places.
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

/// Another symptom of the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Also {
    /// What goes wrong.
    pub message: String,
    /// The token to reproduce it; empty if it cannot be reproduced.
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
    /// Its level: the rule's, unless overridden.
    pub level: Level,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where; for a missing flush, the store that can be lost.
    pub place: Place,
    /// A few words to write at the place.
    pub label: String,
    /// Other places that are part of it, in the order things happened.
    pub related: Vec<Related>,
    /// Its cause.
    pub cause: Option<Cause>,
    /// Evidence, one sentence each.
    pub evidence: Vec<String>,
    /// The execution that shows it, step by step.
    pub trace: Vec<String>,
    /// Where the failing run failed, with the call stack.
    pub failed_at: Option<Place>,
    /// The end of what the failing run printed.
    pub output: String,
    /// What to do about it.
    pub fix: Option<Fix>,
    /// For `crashproof replay`; empty if there is nothing to replay.
    pub replay: String,
    /// Distinguishes findings, even after unrelated edits; set by [`crate::Report::finish`].
    pub fingerprint: String,
    /// How often it was met.
    pub count: u64,
    /// Other symptoms of the same cause.
    pub also: Vec<Also>,
    /// Additional fields of the JSON, specific to the engine.
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
