//! Turns whatever `lint` is given into bitcode: sources and crates, which are compiled on the way, bitcode, and
//! compilation databases.

mod compile;
mod crates;
mod database;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crashproof_toolchain::{Compilers, FileKind};

use compile::Job;

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
    /// The name of the file does not say what it is.
    #[error(
        "{path}: what is this? Give C, C++ or Rust sources, a Cargo.toml, .bc or .ll files, or a \
         compile_commands.json"
    )]
    Ending {
        /// The file.
        path: PathBuf,
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
    /// There is no compiler, or it complained.
    #[error(transparent)]
    Toolchain(#[from] crashproof_toolchain::Error),
    /// A description of a library.
    #[error(transparent)]
    Api(#[from] crate::frameworks::Error),
}

/// A file of bitcode to read.
#[derive(Clone, Debug)]
pub struct Bitcode {
    /// Where it is.
    pub path: PathBuf,
    /// What the user named.
    pub given: PathBuf,
    /// Where the compiler ran.
    pub directory: PathBuf,
}

/// All bitcode of a program, and what did not become bitcode.
#[derive(Debug, Default)]
pub struct Collected {
    /// What was compiled or given.
    pub files: Vec<Bitcode>,
    /// Entries of a compilation database that do not compile, with what the compiler says first.
    pub failed: Vec<(PathBuf, String)>,
    /// What was left out and cannot hide anything, or was changed.
    pub notes: Vec<String>,
}

/// Turns inputs into bitcode, with compilers' output in `directory`.
pub fn bitcode(
    inputs: &[PathBuf],
    arguments: &[OsString],
    jobs: usize,
    directory: &Path,
) -> Result<Collected, Error> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut all = Collected::default();
    let mut compile: Vec<Job> = Vec::new();
    for path in inputs {
        let is_directory = match path.metadata() {
            Ok(about) => about.is_dir(),
            Err(cause) => return Err(Error::Read { path: path.clone(), cause }),
        };
        let output = directory.join(format!("{}.bc", compile.len()));
        let (given, here) = (path.clone(), here.clone());
        if is_directory && path.join("Cargo.toml").exists() {
            all.files.extend(crates::build(&path.join("Cargo.toml"), arguments, jobs, directory)?);
            continue;
        }
        if path.file_name().is_some_and(|name| name == "Cargo.toml") {
            all.files.extend(crates::build(path, arguments, jobs, directory)?);
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "json") {
            database::read(path, arguments, directory, &mut compile, &mut all.notes)?;
            continue;
        }
        match FileKind::of(path) {
            Some(FileKind::Bitcode) => {
                all.files.push(Bitcode { path: path.clone(), given, directory: here });
            }
            Some(FileKind::Rust) => compile.push(crates::single(path, arguments, &here, output)?),
            Some(FileKind::Source(language)) => {
                let mut command = Compilers::find()?.to_bitcode(language);
                command.args(arguments).arg("-o").arg(&output).arg(path);
                compile.push(Job { given, directory: here, output, command, required: true });
            }
            _ => return Err(Error::Ending { path: given }),
        }
    }
    compile::run(compile, jobs, &mut all)?;
    Ok(all)
}
