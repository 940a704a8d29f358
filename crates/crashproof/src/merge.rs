//! `crashproof merge`: joins the shards of a check into one report.
//!
//! A shard saves the recoveries that it ran. Merging runs the complete check once more with all of them known: no
//! recovery is left to run, and the result is the report of a check that was never divided.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use crashproof_check::Manifest;

use crate::exit::Exit;
use crate::trust;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Directories that `crashproof check --shard I/N --checkpoint DIR` wrote
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,

    /// Further options of `crashproof check`, after `--`, such as `-- --format sarif=report.sarif`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

/// The options that turn a check into a shard.
const OF_SHARDS: [&str; 2] = ["--shard", "--checkpoint"];

/// The entry for a checkpoint's command in the list of checkpoints that this user's own checks wrote.
fn mark(manifest: &Manifest) -> String {
    format!("checkpoint {} {}", manifest.directory.display(), shell_words::join(&manifest.command))
        .replace('\n', " ")
}

/// Records that this user's own check wrote a checkpoint.
pub(crate) fn remember(directory: &Path) {
    if let Ok(Some(manifest)) = Manifest::read(directory) {
        trust::remember(std::iter::once(mark(&manifest).as_str()));
    }
}

/// A command without some options, each of which has a value: the words before the program's arguments, and those
/// arguments.
pub(crate) fn without(command: &[String], left_out: &[&str]) -> (Vec<String>, Vec<String>) {
    let (options, arguments) = match command.iter().position(|word| word == "--") {
        Some(at) => command.split_at(at),
        None => (command, &[][..]),
    };
    let mut kept = Vec::new();
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if !left_out.contains(&name) {
            kept.push(word.clone());
        } else if name == word {
            words.next();
        }
    }
    (kept, arguments.to_vec())
}

pub(crate) fn run(arguments: &Arguments, trusted: bool) -> io::Result<Exit> {
    let usage = |message: String| {
        anstream::eprintln!("crashproof: {message}");
        Ok(Exit::Usage)
    };
    let first = &arguments.directories[0];
    let manifest = match Manifest::read(first) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return usage(format!("{} is not a checkpoint of `crashproof check`", first.display())),
        Err(error) => return usage(error.to_string()),
    };
    if !(trusted || trust::is_own(&mark(&manifest)) || trust::is_below_trusted(first)) {
        return usage(format!(
            "none of your own checks wrote {}; merging would run\n    crashproof {}\nto run it, add --trust",
            first.display(),
            shell_words::join(manifest.command.iter().map(|word| word.escape_debug().to_string()))
        ));
    }
    let command = without(&manifest.command, &OF_SHARDS);
    check_with(&command, &manifest.directory, &arguments.directories, &arguments.options)
}

/// Runs a check with the recoveries of its shards known.
pub(crate) fn check_with(
    (options, arguments): &(Vec<String>, Vec<String>),
    directory: &Path,
    shards: &[PathBuf],
    further: &[OsString],
) -> io::Result<Exit> {
    let mut command = Command::new(std::env::current_exe()?);
    command.current_dir(directory).args(options);
    for shard in shards {
        command.arg("--merged").arg(std::path::absolute(shard)?);
    }
    let status = command.args(further).args(arguments).status()?;
    Ok(match status.code() {
        Some(0) => Exit::Clean,
        Some(1) => Exit::Findings,
        Some(2) => Exit::Usage,
        Some(3) => Exit::Incomplete,
        _ => Exit::Internal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_shard_are_left_out() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command = words("check --shard 1/2 a.c --checkpoint=out -j1 --shard=1/2 -- --shard 3");
        assert_eq!(without(&command, &OF_SHARDS), (words("check a.c -j1"), words("-- --shard 3")));
        assert_eq!(without(&words("check a.c"), &OF_SHARDS), (words("check a.c"), Vec::new()));
    }
}
