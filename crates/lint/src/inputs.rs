//! What is analysed: sources, which are compiled on the way, bitcode, and compilation databases.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crashproof_cc::toolchain;
use serde::Deserialize;

/// What keeps inputs from being read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file, or it cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// Nothing is known of files with this ending.
    #[error(
        "{path}: what is this? Give C, C++ or Rust sources, .bc or .ll files, or a compile_commands.json"
    )]
    Ending {
        /// The file.
        path: PathBuf,
    },
    /// A compiler complained.
    #[error("{path} does not compile:\n{messages}")]
    Compile {
        /// The source.
        path: PathBuf,
        /// What the compiler said.
        messages: String,
    },
    /// LLVM does not like a file.
    #[error("{path} cannot be read as bitcode of LLVM 22: {reason}")]
    Bitcode {
        /// The file.
        path: PathBuf,
        /// What LLVM says.
        reason: String,
    },
    /// A compilation database is not one.
    #[error("{path}: {reason}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No compiler.
    #[error(transparent)]
    Toolchain(#[from] crashproof_cc::Error),
    /// A description of a library.
    #[error(transparent)]
    Api(#[from] crate::api::Error),
}

/// A file of bitcode to read.
#[derive(Clone, Debug)]
pub(crate) struct Bitcode {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What the user named.
    pub(crate) given: PathBuf,
    /// Where the compiler ran.
    pub(crate) directory: PathBuf,
}

/// A compiler to run.
struct Job {
    given: PathBuf,
    directory: PathBuf,
    output: PathBuf,
    command: Command,
}

#[derive(Deserialize)]
struct Entry {
    directory: PathBuf,
    file: PathBuf,
    command: Option<String>,
    arguments: Option<Vec<String>>,
}

/// Turns inputs into bitcode, with compilers' output in `directory`.
pub(crate) fn bitcode(
    inputs: &[PathBuf],
    arguments: &[OsString],
    jobs: usize,
    directory: &Path,
) -> Result<Vec<Bitcode>, Error> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut ready = Vec::new();
    let mut compile = Vec::new();
    for path in inputs {
        if !path.exists() {
            let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::Read { path: path.clone(), cause });
        }
        let output = |at: usize| directory.join(format!("{at}.bc"));
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("bc" | "ll") => {
                ready.push(Bitcode { path: path.clone(), given: path.clone(), directory: here.clone() });
            }
            Some("json") => {
                for entry in database(path)? {
                    if let Some(job) = from_database(entry, &output(compile.len()))? {
                        compile.push(job);
                    }
                }
            }
            Some("c" | "cc" | "cpp" | "cxx" | "C") => {
                let output = output(compile.len());
                let mut command = Command::new(compiler(path)?);
                common(&mut command)?;
                command.args(["-mclwb", "-mclflushopt"]).args(arguments).arg("-o").arg(&output).arg(path);
                compile.push(Job { given: path.clone(), directory: here.clone(), output, command });
            }
            Some("rs") => {
                let output = output(compile.len());
                let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
                let text = std::fs::read_to_string(path)
                    .map_err(|cause| Error::Read { path: path.clone(), cause })?;
                let kind = if text.contains("fn main") { "bin" } else { "lib" };
                command.args(["--edition", "2024", "--emit=llvm-bc", "-Cdebuginfo=2", "-Copt-level=1"]);
                command.args(["-Cno-prepopulate-passes", "-Ccodegen-units=1", "-Awarnings", "-Cpanic=abort"]);
                command.args(["--crate-type", kind]).args(arguments).arg("-o").arg(&output).arg(path);
                compile.push(Job { given: path.clone(), directory: here.clone(), output, command });
            }
            _ => return Err(Error::Ending { path: path.clone() }),
        }
    }
    ready.extend(run(compile, jobs)?);
    Ok(ready)
}

/// clang or clang++, by the ending of the source.
fn compiler(path: &Path) -> Result<PathBuf, Error> {
    let clang = toolchain::find_clang()?;
    if path.extension().is_some_and(|ending| ending == "c") {
        return Ok(clang);
    }
    let name = clang.file_name().unwrap_or_default().to_string_lossy().replacen("clang", "clang++", 1);
    Ok(clang.with_file_name(name))
}

/// What the analysis wants of clang: types and variables as the source has them, before the optimiser.
fn common(command: &mut Command) -> Result<(), Error> {
    command.args(["-c", "-emit-llvm", "-O1", "-Xclang", "-disable-llvm-passes", "-g", "-w"]);
    command.args(["-Qunused-arguments", "-U_FORTIFY_SOURCE", "-fno-stack-protector", "-fno-exceptions"]);
    if let Some(include) = toolchain::find_include()? {
        command.arg("-isystem").arg(include);
    }
    Ok(())
}

fn database(path: &Path) -> Result<Vec<Entry>, Error> {
    let text = std::fs::read_to_string(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    serde_json::from_str(&text)
        .map_err(|error| Error::Database { path: path.to_owned(), reason: error.to_string() })
}

/// The command of a compilation database, with the output and the optimiser replaced.
fn from_database(entry: Entry, output: &Path) -> Result<Option<Job>, Error> {
    let words = match (entry.arguments, entry.command) {
        (Some(words), _) => words,
        (None, Some(command)) => shell_words::split(&command)
            .map_err(|error| Error::Database { path: entry.file.clone(), reason: error.to_string() })?,
        (None, None) => {
            let reason = "an entry has neither `arguments` nor `command`".into();
            return Err(Error::Database { path: entry.file, reason });
        }
    };
    let ending = entry.file.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if !matches!(ending, "c" | "cc" | "cpp" | "cxx" | "C") {
        // Assembly and the like: nothing to read.
        return Ok(None);
    }
    let mut command = Command::new(compiler(&entry.file)?);
    command.current_dir(&entry.directory);
    let mut words = words.into_iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-o" | "-MF" | "-MT" | "-MQ" => {
                words.next();
            }
            "-c" | "-S" | "-E" | "-MD" | "-MMD" | "-MP" | "-MM" | "-M" => {}
            _ if word.starts_with("-O") || word.starts_with("-g") || word.starts_with("-flto") => {}
            _ if word.starts_with("-W") && !word.starts_with("-Wp,") => {}
            _ => {
                command.arg(word);
            }
        }
    }
    common(&mut command)?;
    command.arg("-o").arg(output);
    let given = entry.directory.join(&entry.file);
    Ok(Some(Job { given, directory: entry.directory, output: output.to_owned(), command }))
}

fn run(jobs: Vec<Job>, workers: usize) -> Result<Vec<Bitcode>, Error> {
    let next = AtomicUsize::new(0);
    let count = jobs.len();
    let jobs: Vec<Mutex<Job>> = jobs.into_iter().map(Mutex::new).collect();
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    let mut job = job.lock().expect("no worker panics with a job");
                    let error = match job.command.output() {
                        Ok(output) if output.status.success() => continue,
                        Ok(output) => Error::Compile {
                            path: job.given.clone(),
                            messages: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
                        },
                        Err(cause) => {
                            let program = PathBuf::from(job.command.get_program());
                            Error::Toolchain(crashproof_cc::Error::Run { program, cause })
                        }
                    };
                    let mut failed = failed.lock().expect("no worker panics with it");
                    // The first in order is told, however the workers raced.
                    if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                        *failed = Some((at, error));
                    }
                    break;
                }
            });
        }
    });
    if let Some((_, error)) = failed.into_inner().expect("no worker panicked") {
        return Err(error);
    }
    Ok(jobs
        .into_iter()
        .map(|job| job.into_inner().expect("no worker panicked"))
        .map(|job| Bitcode { path: job.output, given: job.given, directory: job.directory })
        .collect())
}
