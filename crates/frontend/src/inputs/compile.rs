//! Runs compilers, several at a time.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crashproof_toolchain::compile;

/// A file of bitcode to read.
#[derive(Clone, Debug)]
pub struct Bitcode {
    /// Where it is.
    pub path: PathBuf,
    /// The input named by the user.
    pub given: PathBuf,
    /// Where the compiler ran.
    pub directory: PathBuf,
}

/// All bitcode of a program, and the inputs that could not be compiled.
#[derive(Debug, Default)]
pub struct Collected {
    /// What was compiled or given.
    pub files: Vec<Bitcode>,
    /// Entries of a compilation database that do not compile, with the compiler's first message.
    pub failed: Vec<(PathBuf, String)>,
    /// What was changed, or left out without hiding anything.
    pub notes: Vec<String>,
}

/// A compiler to run.
pub(crate) struct Job {
    pub(crate) given: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) command: Command,
    /// The user named this very file: if it is the only one and does not compile, there is no point in continuing.
    pub(crate) required: bool,
}

/// The result of a job: options that had to be left out, or why there is no bitcode.
type Outcome = Result<Vec<String>, crashproof_toolchain::Error>;

/// Runs all jobs; those that fail and are not required are listed.
pub(crate) fn run(
    jobs: Vec<Job>,
    workers: usize,
    all: &mut Collected,
) -> Result<(), crashproof_toolchain::Error> {
    let next = AtomicUsize::new(0);
    let count = jobs.len();
    let jobs: Vec<Mutex<(Job, Option<Outcome>)>> =
        jobs.into_iter().map(|job| Mutex::new((job, None))).collect();
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (job, outcome) = &mut *job.lock().expect("no worker panics with a job");
            *outcome = Some(one(job));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers.clamp(1, count.max(1)) {
            // Works without helpers if the machine has no room for them.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut left_out: Vec<String> = Vec::new();
    for done in jobs {
        let (job, outcome) = done.into_inner().expect("no worker panicked");
        match outcome.expect("every job was taken") {
            Ok(options) => {
                left_out.extend(options);
                let Job { given, directory, output, .. } = job;
                all.files.push(Bitcode { path: output, given, directory });
            }
            Err(crashproof_toolchain::Error::Compile { source_file, messages })
                if !job.required || count > 1 =>
            {
                let first = messages.lines().find(|line| line.contains("error:"));
                all.failed
                    .push((source_file, first.or(messages.lines().next()).unwrap_or("").trim().to_owned()));
            }
            Err(error) => return Err(error),
        }
    }
    if !left_out.is_empty() {
        left_out.sort();
        left_out.dedup();
        all.notes.push(format!("options that clang does not know were left out: {}", left_out.join(" ")));
    }
    Ok(())
}

/// Runs one job. Options of other compilers that clang does not know are left out, and listed.
fn one(job: &mut Job) -> Outcome {
    let mut left_out: Vec<String> = Vec::new();
    loop {
        let error = match compile::run(&mut job.command, &job.given) {
            Ok(()) => return Ok(left_out),
            Err(error) => error,
        };
        let unknown = match &error {
            crashproof_toolchain::Error::Compile { messages, .. } => unknown_options(messages),
            _ => Vec::new(),
        };
        if job.required || unknown.is_empty() || unknown.iter().any(|option| left_out.contains(option)) {
            return Err(error);
        }
        job.command = without(&job.command, &unknown);
        left_out.extend(unknown);
    }
}

/// The options that clang reports as unknown.
fn unknown_options(messages: &str) -> Vec<String> {
    messages
        .lines()
        .filter_map(|line| {
            let rest = line.split_once("unknown argument")?.1.trim_start_matches([':', ' ']);
            Some(rest.strip_prefix('\'')?.split_once('\'')?.0.to_owned())
        })
        .collect()
}

fn without(command: &Command, options: &[String]) -> Command {
    let mut fewer = Command::new(command.get_program());
    fewer.args(
        command.get_args().filter(|argument| !options.iter().any(|option| *argument == option.as_str())),
    );
    if let Some(directory) = command.get_current_dir() {
        fewer.current_dir(directory);
    }
    fewer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_other_compilers_are_recognised() {
        let messages = "clang: error: unknown argument: '-fconserve-stack'\n\
                        clang: error: unknown argument '-mfoo', did you mean '-mfog'?\nx.c:1: error: bad\n";
        assert_eq!(unknown_options(messages), ["-fconserve-stack", "-mfoo"]);
    }
}
