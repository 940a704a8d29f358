//! `crashproof cc`, `crashproof c++`, `crashproof cargo`, and the building of a single source for `check`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crashproof_cc::{Language, Toolchain, cargo, driver};

/// The commands whose arguments all go to the compiler or to cargo, `--help` included.
pub(crate) fn pass_through(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    // cargo calls this program back as a wrapper around rustc.
    let arguments: Vec<OsString> = std::iter::from_fn(|| arguments.next()).collect();
    let is_rustc = |path: &OsString| {
        Path::new(path).file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("rustc"))
    };
    if std::env::var_os(cargo::WRAPPER_VARIABLE).is_some() && arguments.first().is_some_and(is_rustc) {
        return Some(cargo::wrap_rustc(&arguments));
    }
    let (command, rest) = arguments.split_first()?;
    match command.to_str()? {
        "cc" => Some(driver::main(Language::C, rest)),
        "c++" => Some(driver::main(Language::Cxx, rest)),
        "cargo" => Some(run_cargo(rest)),
        _ => None,
    }
}

fn run_cargo(arguments: &[OsString]) -> ExitCode {
    let prepared = Toolchain::find().and_then(|toolchain| {
        let this = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("crashproof"));
        let driver = |name: &str| Some(this.with_file_name(name)).filter(|path| path.exists());
        let (c, cxx) = (driver("crashproof-cc"), driver("crashproof-c++"));
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        cargo::environment(&toolchain, &this, c.as_deref().zip(cxx.as_deref()), &target.join("crashproof"))
    });
    let environment = match prepared {
        Ok(environment) => environment,
        Err(error) => {
            eprintln!("crashproof: error: {error}");
            return ExitCode::from(2);
        }
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    match Command::new(&cargo).args(arguments).envs(environment).status() {
        Ok(status) => ExitCode::from(status.code().unwrap_or(101) as u8),
        Err(error) => {
            eprintln!("crashproof: cannot run {}: {error}", cargo.to_string_lossy());
            ExitCode::from(2)
        }
    }
}

/// A program built from one source, gone when dropped.
pub(crate) struct Built {
    directory: PathBuf,
    pub(crate) program: PathBuf,
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Builds `path` if it is a source file.
pub(crate) fn if_source(path: &Path) -> Result<Option<Built>, String> {
    if_source_with(path, &[])
}

/// Builds `path` if it is a source file, with more arguments for the compiler.
pub(crate) fn if_source_with(path: &Path, extra: &[OsString]) -> Result<Option<Built>, String> {
    language(path).map(|language| build(path, language, extra)).transpose()
}

/// The language of a source file, by its ending.
pub(crate) fn language(path: &Path) -> Option<Language> {
    match path.extension()?.to_str()? {
        "c" => Some(Language::C),
        "cc" | "cpp" | "cxx" | "C" => Some(Language::Cxx),
        _ => None,
    }
}

/// Builds a program from one source with debug information and light optimisation.
fn build(source: &Path, language: Language, extra: &[OsString]) -> Result<Built, String> {
    let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
    let directory = std::env::temp_dir().join(format!("crashproof-{}", std::process::id()));
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    let program = directory.join(source.file_stem().unwrap_or_default());
    let built = Built { directory, program };
    let mut arguments: Vec<OsString> = vec![
        "-O1".into(),
        "-g".into(),
        "-pthread".into(),
        source.into(),
        "-o".into(),
        built.program.clone().into(),
    ];
    arguments.extend(extra.iter().cloned());
    let plan = driver::plan(language, &arguments, &toolchain).map_err(|error| error.to_string())?;
    plan.warnings.iter().for_each(|warning| eprintln!("crashproof: warning: {warning}"));
    let mut command = plan.command;
    match command.status() {
        Ok(status) if status.success() => Ok(built),
        Ok(_) => Err(format!("{} does not compile", source.display())),
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().to_string_lossy())),
    }
}
