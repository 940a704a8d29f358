//! What went wrong, what must be lost for it, and how to see it again.

use crashproof_findings::story::Story;
use crashproof_protocol::{Record, exit};
use data_encoding::BASE64URL_NOPAD;
use px86::storage::CachedStore;
use serde::{Deserialize, Serialize};

use crate::panic;
use crate::session::Ending;
use crate::sites::Source;
use crate::violation::Violation;

/// In which way recovery failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Killed by this signal.
    Signal(i32),
    /// Ended with this code.
    Exit(i32),
    /// A `crashproof_assert` was false.
    Assertion,
    /// It did not come to an end within the work it is allowed.
    Endless,
    /// All its threads waited for each other.
    Deadlock,
    /// A sanitizer that it was built with found something.
    Sanitizer,
}

impl Failure {
    /// The failure that an ending is; none if it is none.
    pub(crate) fn of(ending: Ending) -> Option<Failure> {
        Some(match ending {
            Ending::Exit(0) => return None,
            Ending::Exit(exit::ASSERT) => Failure::Assertion,
            Ending::Exit(exit::TOO_MUCH_WORK) | Ending::Signal(libc::SIGXCPU | libc::SIGKILL) => {
                Failure::Endless
            }
            Ending::Exit(exit::DEADLOCK) => Failure::Deadlock,
            Ending::Exit(exit::SANITIZER) => Failure::Sanitizer,
            Ending::Exit(code) => Failure::Exit(code),
            Ending::Signal(signal) => Failure::Signal(signal),
        })
    }

    /// What tells it from other failures. Assertions and sanitizers say last which they are, panics first; two of
    /// them are two failures.
    pub(crate) fn kind(&self, output: &str) -> String {
        if let Some(place) = panic::place(output) {
            return format!("{self:?} {place}");
        }
        let said = output.lines().last().unwrap_or_default();
        let speaks = match self {
            Failure::Assertion | Failure::Sanitizer => true,
            // The C library's `assert`.
            Failure::Signal(libc::SIGABRT) => said.contains(": Assertion `"),
            _ => false,
        };
        if speaks { format!("{self:?} {said}") } else { format!("{self:?}") }
    }

    /// As the end of the sentence "recovery …".
    pub fn describe(&self) -> String {
        match self {
            Failure::Signal(libc::SIGSEGV) => "crashes with a segmentation fault".into(),
            Failure::Signal(libc::SIGBUS) => "crashes with a bus error".into(),
            Failure::Signal(libc::SIGFPE) => "crashes with an arithmetic error".into(),
            Failure::Signal(libc::SIGILL | libc::SIGTRAP) => "hits an illegal instruction".into(),
            Failure::Signal(libc::SIGABRT) => "aborts".into(),
            Failure::Signal(signal) => format!("is killed by signal {signal}"),
            Failure::Exit(code) => format!("ends with exit code {code}"),
            Failure::Assertion => "fails an assertion".into(),
            Failure::Endless => "does not come to an end".into(),
            Failure::Deadlock => "deadlocks".into(),
            Failure::Sanitizer => "is stopped by a sanitizer".into(),
        }
    }
}

/// Whether fewer stores than a finding tells of may have to be lost for its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Least {
    /// No: everything was explored.
    Proven,
    /// None of them can be kept, but not everything was explored: elsewhere fewer may do.
    Local,
    /// Perhaps: looking for less ended early.
    Unfinished,
}

/// A place in the source, in a finding.
pub type Place = Source;

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
    /// A store that the load told of before it might have read from.
    Candidate,
    /// Where the crash came.
    Crash,
    /// Where something can be done about it.
    Fix,
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
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How recovery failed.
    pub failure: Failure,
    /// The store that was lost first, or where the crash came if nothing need be lost.
    pub place: Place,
    /// How many stores must be lost for it.
    pub lost: usize,
    /// Whether fewer might do.
    pub least: Least,
    /// How many crashes in a row it takes; 0 if the program fails under its schedule without any.
    pub crashes: usize,
    /// The stores, loads and crashes that are part of it, in the order they happened.
    pub related: Vec<Related>,
    /// The end of what recovery printed.
    pub output: String,
    /// For `crashproof replay`.
    pub replay: String,
    /// At how many crash points it was met.
    pub count: u64,
    /// The schedule under which it was met.
    pub seed: u32,
    /// The missing flush behind it, if robustness tells.
    pub cause: Option<Box<Violation>>,
    /// The events around the crash, for drawing.
    pub story: Option<Story>,
}

/// What `crashproof replay` needs to see a failure again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Version of this format.
    pub v: u32,
    /// The program.
    pub program: String,
    /// The other sources it is built from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_sources: Vec<String>,
    /// What the user added to the arguments of the compiler that built it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cflags: Vec<String>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The command that recovers, if it is another: its program and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recover: Vec<String>,
    /// Seed of the schedule.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seed: u32,
    /// How the schedule is made from the seed; see `crashproof_protocol::schedule`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strategy: u32,
    /// Places to switch in the run of seed 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expected_points: u64,
    /// Where files count as persistent memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pm_path: Vec<String>,
    /// Is the heap persistent memory?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pm_heap: bool,
    /// Do caches survive?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub eadr: bool,
    /// The crashes, first to last.
    pub crashes: Vec<TokenCrash>,
}

/// One crash of a [`Token`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCrash {
    /// How many records had taken effect when it came.
    pub at: usize,
    /// Lines of which stores were lost: number, and how many of its open stores were kept.
    pub kept: Vec<(u64, usize)>,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl Token {
    /// As one word that survives any shell.
    pub fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("plain data always serialises");
        BASE64URL_NOPAD.encode(&json)
    }

    /// Reads what [`Token::encode`] wrote.
    pub fn decode(text: &str) -> Option<Token> {
        let json = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        serde_json::from_slice(&json).ok()
    }
}

/// How a store is told of.
pub(crate) fn store_text(store: &CachedStore) -> String {
    stored(store.event.width, store.event.address, store.event.value)
}

/// How a recorded store is told of.
pub(crate) fn record_text(store: &Record) -> String {
    stored(store.width(), store.address(), store.value)
}

fn stored(width: u8, address: u64, value: u64) -> String {
    format!("{width} byte{} at {address:#x} := {value:#x}", if width == 1 { "" } else { "s" })
}
