//! Converts any input of `lint` to bitcode: sources and crates, which are compiled, bitcode, and compilation databases.

mod compile;
mod crates;
mod database;
mod error;
mod harmless;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crashproof_toolchain::{Compilers, FileKind};

pub use compile::{Bitcode, Collected};
pub use database::compilations;
pub use error::Error;

use compile::Job;

/// Converts inputs to bitcode, with compiler output in `directory`. Arguments from a compilation database are passed on
/// unchanged only with `trust`.
pub fn bitcode(
    inputs: &[PathBuf],
    arguments: &[OsString],
    jobs: usize,
    directory: &Path,
    trust: bool,
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
            database::read(path, arguments, directory, trust, &mut compile, &mut all.notes)?;
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
