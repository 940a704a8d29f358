//! Replay tokens.

use std::ffi::OsString;
use std::path::Path;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use crate::crash::ChosenCrash;
use crate::driver::options::Options;
use crate::subject::Schedule;

/// What `crashproof replay` needs to reproduce a failure.
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
    /// Points at which threads can be switched in the run of seed 0.
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
    /// Were strands or epochs recorded? They add records to the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regions: bool,
    /// Was whatever touched persistent memory unseen to be named? That adds records, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// The crashes, first to last.
    pub crashes: Vec<ChosenCrash>,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl Token {
    /// A token for crashes of a program under a schedule.
    pub(crate) fn new(options: &Options, schedule: Schedule, crashes: Vec<ChosenCrash>) -> Token {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let path = |path: &Path| path.to_string_lossy().into_owned();
        Token {
            v: 1,
            program: path(options.built_from.as_ref().unwrap_or(&options.program)),
            more_sources: options.more_sources.iter().map(|source| path(source)).collect(),
            cflags: options.cflags.iter().map(text).collect(),
            arguments: options.arguments.iter().map(text).collect(),
            recover: options.recover.as_ref().map_or(Vec::new(), |recover| {
                let program = path(recover.built_from.as_ref().unwrap_or(&recover.program));
                std::iter::once(program).chain(recover.arguments.iter().map(text)).collect()
            }),
            seed: schedule.seed,
            strategy: schedule.strategy,
            expected_points: schedule.expected_points,
            pm_path: options.pm_path.iter().map(|directory| path(directory)).collect(),
            pm_heap: options.pm_heap,
            eadr: options.platform.every_cache_survives(),
            regions: options.model.is_some(),
            strict: options.strict,
            crashes,
        }
    }

    /// The schedule of the recorded run.
    pub(crate) fn schedule(&self) -> Schedule {
        Schedule { seed: self.seed, strategy: self.strategy, expected_points: self.expected_points }
    }

    /// As one word that survives any shell.
    pub fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("plain data always serializes");
        BASE64URL_NOPAD.encode(&json)
    }

    /// Reads what [`Token::encode`] wrote.
    pub fn decode(text: &str) -> Option<Token> {
        let json = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        serde_json::from_slice(&json).ok()
    }
}
