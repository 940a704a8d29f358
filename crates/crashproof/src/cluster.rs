//! `crashproof check --on slurm`: the check submits itself as an array of shards, waits for them, and merges them.
//!
//! A shard that was lost or did not complete is submitted once more and resumes; the merge names what is still missing
//! then, and the verdict is UNKNOWN.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use crashproof_check::Manifest;

use crate::exit::Exit;
use crate::merge;

/// Where shards can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cluster {
    /// A Slurm cluster, by `sbatch`.
    Slurm,
}

/// How often a shard is submitted at most.
const ATTEMPTS: u32 = 2;

/// Options of the command that do not apply to its shards; each has a value.
const OWN: [&str; 4] = ["--on", "--shards", "--checkpoint", "--shard"];

/// The directory of a shard.
fn shard_directory(directory: &Path, shard: u32) -> PathBuf {
    directory.join(format!("shard-{shard}"))
}

/// The script for an array of shards; the system provides the shard number.
fn script(program: &Path, command: &[String], directory: &Path, shards: u32) -> String {
    let (options, arguments) = merge::without(command, &OWN);
    let words = std::iter::once(program.to_string_lossy().into_owned()).chain(options);
    let directory = shell_words::quote(&directory.to_string_lossy()).into_owned();
    format!(
        "#!/bin/sh\nexec {} --shard \"$SLURM_ARRAY_TASK_ID/{shards}\" \
         --checkpoint {directory}/shard-\"$SLURM_ARRAY_TASK_ID\" {}\n",
        shell_words::join(words),
        shell_words::join(arguments)
    )
}

/// The shards that have not completed.
fn missing(directory: &Path, shards: u32) -> Vec<u32> {
    let ended = |shard: &u32| {
        let manifest = Manifest::read(&shard_directory(directory, *shard));
        manifest.is_ok_and(|manifest| manifest.is_some_and(|manifest| manifest.complete))
    };
    (1..=shards).filter(|shard| !ended(shard)).collect()
}

/// Submits shards and waits until all have ended, successfully or not. `false` if that is impossible.
fn submit(script: &Path, directory: &Path, shards: &[u32]) -> io::Result<bool> {
    let list: Vec<String> = shards.iter().map(u32::to_string).collect();
    let status = Command::new("sbatch")
        .arg("--wait")
        .arg(format!("--array={}", list.join(",")))
        .arg(format!("--output={}", directory.join("shard-%a.log").display()))
        .arg(script)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    // The exit code is that of the worst shard, and findings are not a failure; a signal or 255 is.
    Ok(status.code().is_some_and(|code| code < 128))
}

/// Runs the check that the command line asks for on a cluster.
pub(crate) fn run(cluster: Cluster, shards: u32, directory: &Path, command: &[String]) -> io::Result<Exit> {
    let Cluster::Slurm = cluster;
    std::fs::create_dir_all(directory)?;
    let directory = std::path::absolute(directory)?;
    let file = directory.join("shards.sh");
    std::fs::write(&file, script(&std::env::current_exe()?, command, &directory, shards))?;
    for _ in 0..ATTEMPTS {
        let left = missing(&directory, shards);
        if left.is_empty() {
            break;
        }
        match submit(&file, &directory, &left) {
            Ok(true) => {}
            Ok(false) => {
                anstream::eprintln!("crashproof: sbatch could not run the shards; see above");
                return Ok(Exit::Incomplete);
            }
            Err(error) => {
                anstream::eprintln!("crashproof: cannot run sbatch: {error}");
                return Ok(Exit::Usage);
            }
        }
    }
    let all: Vec<PathBuf> = (1..=shards).map(|shard| shard_directory(&directory, shard)).collect();
    merge::check_with(&merge::without(command, &OWN), &std::env::current_dir()?, &all, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_the_same_command_with_its_part() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command = words("check a.c --on slurm --shards 4 --checkpoint out -j1 -- 20");
        assert_eq!(
            script(Path::new("/bin/crashproof"), &command, Path::new("/my dir"), 4),
            "#!/bin/sh\nexec /bin/crashproof check a.c -j1 --shard \"$SLURM_ARRAY_TASK_ID/4\" \
             --checkpoint '/my dir'/shard-\"$SLURM_ARRAY_TASK_ID\" -- 20\n"
        );
    }
}
