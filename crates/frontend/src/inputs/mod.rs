//! What is analysed: sources and crates, which are compiled on the way, bitcode, and compilation databases.

mod compile;
mod crates;
mod database;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_toolchain::toolchain;

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
    /// Nothing is known of files with this ending.
    #[error(
        "{path}: what is this? Give C, C++ or Rust sources, a Cargo.toml, .bc or .ll files, or a \
         compile_commands.json"
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
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        if is_directory && path.join("Cargo.toml").exists() {
            all.files.extend(crates::build(&path.join("Cargo.toml"), arguments, jobs, directory)?);
        } else if path.file_name().is_some_and(|name| name == "Cargo.toml") {
            all.files.extend(crates::build(path, arguments, jobs, directory)?);
        } else if matches!(ending, "bc" | "ll") {
            all.files.push(Bitcode { path: path.clone(), given: path.clone(), directory: here.clone() });
        } else if ending == "json" {
            database::read(path, arguments, directory, &mut compile, &mut all.notes)?;
        } else if ending == "rs" {
            compile.push(crates::single(path, arguments, &here, output)?);
        } else if let Some(is_cxx) = language(ending) {
            let mut command = Command::new(clang(is_cxx)?);
            common(&mut command)?;
            command.args(["-mclwb", "-mclflushopt"]).args(arguments).arg("-o").arg(&output).arg(path);
            let (given, directory) = (path.clone(), here.clone());
            compile.push(Job { given, directory, output, command, required: true });
        } else {
            return Err(Error::Ending { path: path.clone() });
        }
    }
    compile::run(compile, jobs, &mut all)?;
    Ok(all)
}

/// Whether a source with this ending is C++, if it is C or C++ at all.
fn language(ending: &str) -> Option<bool> {
    match ending {
        "c" | "i" => Some(false),
        "cc" | "cp" | "cpp" | "cxx" | "c++" | "C" | "CPP" | "ii" => Some(true),
        _ => None,
    }
}

/// clang or clang++.
fn clang(is_cxx: bool) -> Result<PathBuf, Error> {
    let clang = toolchain::find_clang()?;
    if !is_cxx {
        return Ok(clang);
    }
    let name = clang.file_name().unwrap_or_default().to_string_lossy().replacen("clang", "clang++", 1);
    Ok(clang.with_file_name(name))
}

/// What the analysis wants of clang: types and variables as the source has them, before the optimiser.
fn common(command: &mut Command) -> Result<(), Error> {
    command.args(["-c", "-emit-llvm", "-O1", "-Xclang", "-disable-llvm-passes", "-g", "-w"]);
    command.args(["-Qunused-arguments", "-U_FORTIFY_SOURCE", "-fno-stack-protector"]);
    if let Some(include) = toolchain::find_include()? {
        command.arg("-isystem").arg(include);
    }
    Ok(())
}
