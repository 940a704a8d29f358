//! `crashproof cc`, `crashproof c++`, `crashproof cargo`, and the building of a single source for `check`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crashproof_toolchain::{Language, Toolchain, cargo, driver};

use crate::signals::Scratch;

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
        "cc" => Some(compile(Language::C, rest)),
        "c++" => Some(compile(Language::Cxx, rest)),
        "cargo" => Some(run_cargo(rest)),
        _ => None,
    }
}

/// Compiles; with `--lint` among the arguments, also analyses what was compiled.
fn compile(language: Language, arguments: &[OsString]) -> ExitCode {
    match crate::while_compiling::WhileCompiling::asked_for(arguments) {
        Some(lint) => lint.run(language),
        None => driver::main(language, arguments),
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

/// A program that was given, or built from the source that was given.
pub(crate) struct Built {
    pub(crate) path: PathBuf,
    /// The source.
    pub(crate) source: Option<PathBuf>,
    /// Where it was built; gone when dropped.
    _directory: Option<Scratch>,
}

impl Built {
    /// From what is given, below a directory if it is there; with more arguments for the compiler, if there is
    /// something to compile.
    fn new(given: &Path, root: &Path, extra: &[OsString]) -> Result<Built, String> {
        let there = Some(root.join(given)).filter(|path| path.exists());
        let path = there.unwrap_or_else(|| given.to_owned());
        match language(given) {
            Some(language) => build(&path, language, extra),
            None => Ok(Built { path, source: None, _directory: None }),
        }
    }
}

/// The program to check, and the one that recovers if it is another.
pub(crate) struct Programs {
    pub(crate) program: Built,
    /// None in it if it is the same one.
    recover: Option<Option<Built>>,
}

impl Programs {
    pub(crate) fn new(program: &Path, recover: Option<&Path>) -> Result<Programs, String> {
        Programs::below(Path::new(""), program, recover, &[])
    }

    /// Below a directory, and with more arguments for the compiler, if there is something to compile.
    pub(crate) fn below(
        root: &Path,
        program: &Path,
        recover: Option<&Path>,
        extra: &[OsString],
    ) -> Result<Programs, String> {
        let built = |given: &Path| Built::new(given, root, extra);
        let other = |given: &Path| if given == program { Ok(None) } else { built(given).map(Some) };
        Ok(Programs { recover: recover.map(other).transpose()?, program: built(program)? })
    }

    fn recover(&self) -> Option<&Built> {
        Some(self.recover.as_ref()?.as_ref().unwrap_or(&self.program))
    }

    /// The program that recovers, if one was named.
    pub(crate) fn recovery(&self) -> Option<&Path> {
        self.recover().map(|built| built.path.as_path())
    }

    /// Its source, if it was built from one.
    pub(crate) fn recovery_source(&self) -> Option<&Path> {
        self.recover()?.source.as_deref()
    }
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
    let directory =
        Scratch::new().map_err(|error| format!("cannot create a directory for the program: {error}"))?;
    let path = directory.path().join(source.file_stem().unwrap_or_default());
    let built = Built { path, source: Some(source.to_owned()), _directory: Some(directory) };
    let mut arguments: Vec<OsString> = vec![
        "-O1".into(),
        "-g".into(),
        "-pthread".into(),
        source.into(),
        "-o".into(),
        built.path.clone().into(),
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
