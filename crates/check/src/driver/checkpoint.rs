//! Resumable checks, and checks shared by several machines.
//!
//! A checkpoint is a directory: a manifest that says what was checked, how, and which part of it; and the recoveries
//! that were run (`search::Journal`). Resuming one, or merging several, requires the same program and the same options.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::driver::options::Options;
use crate::search::{Journal, Search, Shards, read_journal};
use crate::subject::Error;

const MANIFEST: &str = "manifest.json";
/// Version of the format.
const FORMAT: u32 = 1;

/// What a checkpoint belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// Identifies the program and everything its recoveries depend on.
    subject: BTreeMap<String, String>,
    /// How it is explored.
    settings: BTreeMap<String, String>,
    /// The shard and the number of shards, counted from 1.
    pub shard: (u32, u32),
    /// The arguments of the command that created it.
    pub command: Vec<String>,
    /// The directory in which [`Manifest::command`] ran.
    pub directory: PathBuf,
    /// Did the check complete?
    pub complete: bool,
}

impl Manifest {
    fn of(options: &Options) -> Manifest {
        let mut subject: BTreeMap<String, String> = BTreeMap::new();
        let mut add = |name: &str, value: String| drop(subject.insert(name.into(), value));
        add("the program", options.build_id().to_owned());
        add("its arguments", format!("{:?}", options.arguments));
        if let Some(recover) = &options.recover {
            add(
                "the program of --recover",
                Options::new(recover.program.clone(), Vec::new()).build_id().to_owned(),
            );
            add("the arguments of --recover", format!("{:?}", recover.arguments));
        }
        add("--pm-path", format!("{:?}", options.pm_path));
        add("--pm-heap", format!("{:?} {:?}", options.pm_heap, options.heap));
        add("--strict", options.strict.to_string());
        add("the version of crashproof", env!("CARGO_PKG_VERSION").to_owned());
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        let mut add = |name: &str, value: String| drop(settings.insert(name.into(), value));
        add("--eadr", format!("{:?}", options.platform));
        add("--crashes", options.crashes.to_string());
        add(
            "--schedules",
            format!("{} {:?} {:?}", options.schedules, options.all_schedules, options.strategy),
        );
        add("--model", format!("{:?}", options.model));
        add("--no-robust", (!options.robust).to_string());
        add("--suppress", format!("{:?}", options.suppress));
        add("--random", format!("{:?}", options.random));
        add("--max-per-crash", format!("{:?}", options.max_per_crash));
        add("--exhaustive", options.exhaustive.to_string());
        let shard = options.shards.as_ref().and_then(|it| Some((*it.taken.first()?, it.of)));
        Manifest {
            format: FORMAT,
            subject,
            settings,
            shard: shard.unwrap_or((1, 1)),
            command: options.command.clone(),
            directory: std::env::current_dir().unwrap_or_default(),
            complete: false,
        }
    }

    /// The manifest of a checkpoint; `None` if there is none yet.
    pub fn read(directory: &Path) -> Result<Option<Manifest>, Error> {
        let unusable = |why: String| Error::Checkpoint { directory: directory.to_owned(), why };
        let bytes = match std::fs::read(directory.join(MANIFEST)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        };
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| unusable(format!("{MANIFEST}: {error}")))?;
        if manifest.format != FORMAT {
            return Err(unusable(format!(
                "it has format {}, and this crashproof reads format {FORMAT}",
                manifest.format
            )));
        }
        Ok(Some(manifest))
    }

    /// Replaces the file atomically.
    fn write(&self, directory: &Path) -> io::Result<()> {
        let fresh = directory.join(format!("{MANIFEST}.new"));
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        file.sync_data()?;
        std::fs::rename(fresh, directory.join(MANIFEST))
    }

    /// A description of how two checks differ.
    fn difference(&self, other: &Manifest) -> Option<String> {
        let differs = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            names.into_iter().find(|name| one.get(*name) != other.get(*name)).cloned()
        };
        differs(&self.subject, &other.subject).or_else(|| differs(&self.settings, &other.settings))
    }
}

/// A checkpoint that a check writes.
pub(crate) struct Checkpoint {
    directory: PathBuf,
    manifest: Manifest,
}

impl Checkpoint {
    /// Creates or resumes a checkpoint: the search learns the results of earlier recoveries.
    pub(crate) fn open(options: &Options, search: &mut Search) -> Result<Option<Checkpoint>, Error> {
        let Some(directory) = &options.checkpoint else { return Ok(None) };
        let failed =
            |error: io::Error| Error::Checkpoint { directory: directory.clone(), why: error.to_string() };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let manifest = Manifest::of(options);
        if let Some(known) = Manifest::read(directory)? {
            let other = known.difference(&manifest).map(|name| format!("changed since it began: {name}"));
            let shard = || {
                let differs = known.shard != manifest.shard;
                differs.then(|| format!("it is of shard {} of {}", known.shard.0, known.shard.1))
            };
            if let Some(why) = other.or_else(shard) {
                return Err(Error::Checkpoint { directory: directory.clone(), why });
            }
        } else if directory.join(crate::search::JOURNAL_FILE).exists() {
            let why = "its manifest is missing, so the check that it belongs to is unknown".into();
            return Err(Error::Checkpoint { directory: directory.clone(), why });
        }
        manifest.write(directory).map_err(failed)?;
        let journal = Journal::open(directory, |recovery| search.learn(recovery)).map_err(failed)?;
        search.journal = Some(journal);
        Ok(Some(Checkpoint { directory: directory.clone(), manifest }))
    }

    /// The check has ended.
    pub(crate) fn finish(mut self, search: &Search, ended: bool) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Checkpoint {
            directory: self.directory.clone(),
            why: error.to_string(),
        };
        if let Some(journal) = &search.journal {
            journal.finish().map_err(failed)?;
        }
        self.manifest.complete = ended;
        self.manifest.write(&self.directory).map_err(failed)
    }
}

/// Of these checkpoints, those that are compatible shards of the check, which then takes only their crash points; and
/// the reasons why they are not a complete check.
pub(crate) fn fitting(
    options: &mut Options,
    directories: Vec<PathBuf>,
) -> Result<(Vec<PathBuf>, Vec<String>), Error> {
    let mut reasons = Vec::new();
    let wanted = Manifest::of(options);
    let mut of = None;
    let mut taken: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for directory in directories {
        let shown = directory.display();
        let Some(manifest) = Manifest::read(&directory)? else {
            reasons.push(format!("{shown} is no checkpoint"));
            continue;
        };
        let (shard, shards) = manifest.shard;
        if let Some(name) = manifest.difference(&wanted) {
            reasons.push(format!("{shown} is of another check: {name} differs"));
        } else if *of.get_or_insert(shards) != shards {
            reasons.push(format!("{shown} is one of {shards} shards, the others are of {}", of.unwrap_or(1)));
        } else if let Some(known) = taken.get(&shard) {
            reasons.push(format!("shard {shard} is there twice, in {} and {shown}", known.display()));
        } else if !manifest.complete {
            reasons
                .push(format!("shard {shard} of {shards} in {shown} did not finish: run its command again"));
        } else {
            taken.insert(shard, directory);
        }
    }
    let of = of.unwrap_or(1);
    let absent: Vec<String> =
        (1..=of).filter(|shard| !taken.contains_key(shard)).map(|shard| shard.to_string()).collect();
    if !absent.is_empty() {
        reasons.push(format!("of {of} shards, these are missing: {}", absent.join(", ")));
    }
    options.shards = Some(Shards { of, taken: taken.keys().copied().collect() });
    Ok((taken.into_values().collect(), reasons))
}

/// Lets a search learn the recoveries of a checkpoint.
pub(crate) fn learn(search: &Search, directory: &Path) -> Result<(), Error> {
    read_journal(directory, |recovery| search.learn(recovery))
        .map_err(|error| Error::Checkpoint { directory: directory.to_owned(), why: error.to_string() })
}
