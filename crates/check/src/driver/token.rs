//! Replay tokens.

use std::ffi::OsString;
use std::path::Path;

use crashproof_protocol::schedule;
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use crate::crash::{ChosenCrash, MAX_CRASHES};
use crate::driver::options::{Medium, Options};
use crate::subject::{Heap, Schedule};

/// Version of the format.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// Why a text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAToken {
    /// It is something else, or incomplete.
    #[error("this is not a replay token; copy it whole from the report of `crashproof check`")]
    Damaged,
    /// It was created by another version of crashproof.
    #[error(
        "this replay token has format {version}, and this crashproof reads format {VERSION}; run the check again"
    )]
    OtherVersion {
        /// Its format version.
        version: u32,
    },
}

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
    /// Compiler arguments added by the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cflags: Vec<String>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its working directory, if not that of the replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The recovery command, if it is different: its program and arguments.
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
    /// The actors that step, one decision after another, for a schedule of decisions; see `crashproof_protocol::steps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<u64>,
    /// Places in code that was not rebuilt whose volatile accesses are steps of the schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<u32>,
    /// Records of the run that are moved behind the first crash, although later ones precede it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<u32>,
    /// The actors that step in recoveries, if they follow decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_decisions: Option<Vec<u64>>,
    /// Directories whose files count as persistent memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pm_path: Vec<String>,
    /// The medium that files are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<Medium>,
    /// Are all files the program writes persistent?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_files: bool,
    /// The command that prepares the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// The client command for a program that waits for input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client: Vec<String>,
    /// Does a recovery count as successful once it waits for input?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_idle: bool,
    /// The command that verifies such a recovery.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recovered: Vec<String>,
    /// Is the heap persistent memory?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pm_heap: bool,
    /// Layout and fill patterns of the heap, if not the default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub heap: Heap,
    /// The environment variables that the program reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// Are caches persistent?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub eadr: bool,
    /// Were strands or epochs recorded? They add records to the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regions: bool,
    /// Was strict mode on? It adds records to the trace, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// The build of the program, identified by its code; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
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
            v: VERSION,
            program: path(options.built_from.as_ref().unwrap_or(&options.program)),
            more_sources: options.more_sources.iter().map(|source| path(source)).collect(),
            cflags: options.cflags.iter().map(text).collect(),
            arguments: options.arguments.iter().map(text).collect(),
            directory: options.directory.as_deref().map(path),
            recover: options.recover.as_ref().map_or(Vec::new(), |recover| {
                let program = path(recover.built_from.as_ref().unwrap_or(&recover.program));
                std::iter::once(program).chain(recover.arguments.iter().map(text)).collect()
            }),
            seed: schedule.seed,
            strategy: schedule.strategy,
            expected_points: schedule.expected_points,
            decisions: Vec::new(),
            watched: Vec::new(),
            moved: Vec::new(),
            recovery_decisions: None,
            pm_path: options.pm_path.iter().map(|directory| path(directory)).collect(),
            medium: options.medium,
            all_files: options.all_files,
            setup: options.setup.clone(),
            client: options.client.clone(),
            until_idle: options.until_idle,
            recovered: options.recovered.clone(),
            pm_heap: options.pm_heap,
            heap: options.heap,
            environment: options.environment.get().cloned().unwrap_or_default(),
            eadr: options.platform.every_cache_survives(),
            regions: options.model.is_some(),
            strict: options.strict,
            build: options.build_id().to_owned(),
            crashes,
        }
    }

    /// The same for a schedule of decisions. `places` gives the place in the run of each record, in crash order.
    pub(crate) fn with_decisions(mut self, decisions: &[u64], places: &[u32]) -> Token {
        self.decisions = decisions.to_vec();
        let at = self.crashes.first().map_or(0, |crash| crash.at).min(places.len());
        let mut before = places[..at].to_vec();
        before.sort_unstable();
        let last = before.last().copied().unwrap_or(0);
        self.moved = (0..last).filter(|place| before.binary_search(place).is_err()).collect();
        self
    }

    /// The schedule of the recorded run.
    pub(crate) fn schedule(&self) -> Schedule {
        Schedule { seed: self.seed, strategy: self.strategy, expected_points: self.expected_points }
    }

    /// Encodes the token as one word that survives any shell.
    pub fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("plain data always serializes");
        BASE64URL_NOPAD.encode(&json)
    }

    /// Parses the result of [`Token::encode`].
    pub fn decode(text: &str) -> Result<Token, NotAToken> {
        let json = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| NotAToken::Damaged)?;
        // The version is read first: another version may interpret the rest differently.
        let version: Version = serde_json::from_slice(&json).map_err(|_| NotAToken::Damaged)?;
        if version.v != VERSION {
            return Err(NotAToken::OtherVersion { version: version.v });
        }
        let token: Token = serde_json::from_slice(&json).map_err(|_| NotAToken::Damaged)?;
        let fits = token.crashes.len() <= MAX_CRASHES && token.strategy <= schedule::DECISIONS;
        if fits { Ok(token) } else { Err(NotAToken::Damaged) }
    }
}
