//! Rust: a single source, or a crate with its dependencies.
//!
//! rustc emits bitcode in addition to its usual output, with its optimizer disabled like clang's. The standard library
//! is precompiled: its generic and inlined parts are compiled into the crates, the rest is unknown code.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_toolchain::cargo::TARGET;
use crashproof_toolchain::compile;

use super::compile::{Bitcode, Job};
use super::error::Error;

/// The rustc options that the analysis needs. Overflow checks would only add branches that are never taken.
const OPTIONS: [&str; 8] = [
    "-Cdebuginfo=2",
    "-Copt-level=1",
    "-Cno-prepopulate-passes",
    "-Ccodegen-units=1",
    "-Cpanic=abort",
    "-Coverflow-checks=off",
    "-Cdebug-assertions=off",
    "-Awarnings",
];

fn program(variable: &str, usual: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| usual.into())
}

/// A standalone source.
pub(crate) fn single(
    path: &Path,
    arguments: &[OsString],
    directory: &Path,
    output: PathBuf,
) -> Result<Job, Error> {
    let text = std::fs::read_to_string(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    let given =
        |option: &str| arguments.iter().any(|argument| argument.to_string_lossy().starts_with(option));
    let mut command = Command::new(program("RUSTC", "rustc"));
    // Unused functions are analyzed as well.
    command.args(["--emit=llvm-bc", "-Clink-dead-code"]).args(OPTIONS);
    if !given("--edition") {
        command.args(["--edition", "2024"]);
    }
    if !given("--crate-type") {
        let is_program = text.lines().any(|line| line.trim_start().starts_with("fn main"));
        command.args(["--crate-type", if is_program { "bin" } else { "lib" }]);
    }
    // A file name need not be a valid crate name.
    if !given("--crate-name") && !text.contains("crate_name") {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        command.args(["--crate-name", &stem.replace(|c: char| !c.is_alphanumeric(), "_")]);
    }
    command.args(arguments).arg("-o").arg(&output).arg(path);
    Ok(Job { given: path.to_owned(), directory: directory.to_owned(), output, command, required: true })
}

/// A crate, by its manifest; `arguments` are for `cargo build`. Build scripts and procedural macros run during the
/// build, but are not part of the program.
pub(crate) fn build(
    manifest: &Path,
    arguments: &[OsString],
    jobs: usize,
    directory: &Path,
) -> Result<Vec<Bitcode>, Error> {
    let target = directory.join("cargo");
    let mut flags = vec!["--emit=llvm-bc"];
    flags.extend(OPTIONS);
    let mut command = Command::new(program("CARGO", "cargo"));
    command.args(["build", "--quiet", "--target", TARGET, "--manifest-path"]).arg(manifest);
    command.arg("--jobs").arg(jobs.max(1).to_string()).args(arguments);
    command.env("CARGO_TARGET_DIR", &target).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // Incremental compilation would leave bitcode of the parts behind.
    command.env("CARGO_INCREMENTAL", "0");
    // Another tool's wrapper would see options not meant for it.
    command.env_remove("RUSTC_WRAPPER").env_remove("RUSTC_WORKSPACE_WRAPPER");
    compile::run(&mut command, manifest)?;
    let manifest = std::path::absolute(manifest).unwrap_or_default();
    let mut files = Vec::new();
    find(&target.join(TARGET), &mut files);
    files.sort();
    Ok(files
        .into_iter()
        .map(|path| Bitcode {
            given: path.file_name().map(PathBuf::from).unwrap_or_default(),
            path,
            directory: workspace(manifest.parent().unwrap_or(Path::new("/"))),
        })
        .collect())
}

/// The directory in which cargo runs rustc: the root of the workspace.
fn workspace(directory: &Path) -> PathBuf {
    let is_root = |above: &&Path| {
        std::fs::read_to_string(above.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]"))
    };
    directory.ancestors().find(is_root).unwrap_or(directory).to_owned()
}

/// All bitcode below a directory.
fn find(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension() == Some(OsStr::new("bc")) {
            files.push(path);
        }
    }
}
