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

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAToken {
    /// It is something else, or incomplete.
    #[error("this is not a replay token; copy it whole from the report of `crashproof check`")]
    Damaged,
    /// Another version of crashproof made it.
    #[error(
        "this replay token has format {version}, and this crashproof reads format {VERSION}; run the check again"
    )]
    OtherVersion {
        /// The format it has.
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
    /// What the user added to the arguments of the compiler that built it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cflags: Vec<String>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs, if not where the replay is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
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
    /// Who steps, one decision after the other, if the schedule is one of decisions; see `crashproof_protocol::steps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<u64>,
    /// Places in code that was not rebuilt whose accesses of volatile memory are steps of the schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<u32>,
    /// Records of the run that come after the first crash, although others that come before it are recorded later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<u32>,
    /// Who steps in recoveries, if they follow decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_decisions: Option<Vec<u64>>,
    /// Where files count as persistent memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pm_path: Vec<String>,
    /// What files are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<Medium>,
    /// Is every file persistent that the program writes?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_files: bool,
    /// What prepares the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// What talks to the program once it waits for input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client: Vec<String>,
    /// Has a recovery that waits for input recovered?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_idle: bool,
    /// What asks it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recovered: Vec<String>,
    /// Is the heap persistent memory?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pm_heap: bool,
    /// How the heap lies, and what it holds, if that is not as usual.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub heap: Heap,
    /// The variables of the environment that the program asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// Do caches survive?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub eadr: bool,
    /// Were strands or epochs recorded? They add records to the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regions: bool,
    /// Was whatever touched persistent memory unseen to be named? That adds records, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Which build of the program it is for, by its code; empty if not known.
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

    /// The same under a schedule of decisions. `places` says where each record, in the order of the crash, is in the run.
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

    /// As one word that survives any shell.
    pub fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("plain data always serializes");
        BASE64URL_NOPAD.encode(&json)
    }

    /// Reads what [`Token::encode`] wrote.
    pub fn decode(text: &str) -> Result<Token, NotAToken> {
        let json = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| NotAToken::Damaged)?;
        // The version comes first: what another one means by the rest is not known.
        let version: Version = serde_json::from_slice(&json).map_err(|_| NotAToken::Damaged)?;
        if version.v != VERSION {
            return Err(NotAToken::OtherVersion { version: version.v });
        }
        let token: Token = serde_json::from_slice(&json).map_err(|_| NotAToken::Damaged)?;
        let fits = token.crashes.len() <= MAX_CRASHES && token.strategy <= schedule::DECISIONS;
        if fits { Ok(token) } else { Err(NotAToken::Damaged) }
    }
}
