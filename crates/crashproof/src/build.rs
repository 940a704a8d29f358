//! `crashproof cc`, `crashproof c++` and `crashproof cargo`, and building programs for `check` from their sources.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crashproof_toolchain::{FileKind, Language, Toolchain, cargo, driver};

use crate::llvm::Engines;
use crate::signals::Scratch;

/// The commands that pass all arguments to the compiler or to cargo, including `--help`.
pub(crate) fn pass_through(arguments: &[OsString], engines: &Engines) -> Option<ExitCode> {
    // cargo calls this program as a wrapper around rustc.
    if cargo::is_wrapper_call(arguments) {
        return Some(cargo::wrap_rustc(arguments));
    }
    let (command, rest) = arguments.split_first()?;
    match command.to_str()? {
        "cc" => Some(compile(Language::C, rest, engines)),
        "c++" => Some(compile(Language::Cxx, rest, engines)),
        "cargo" => Some(run_cargo(rest)),
        _ => None,
    }
}

/// Compiles; with `--lint` among the arguments, also analyzes the result.
fn compile(language: Language, arguments: &[OsString], engines: &Engines) -> ExitCode {
    match crate::cc_lint::CompileAndLint::requested(arguments) {
        Some(lint) => (engines.compile_and_lint)(lint, language),
        None => driver::main(language, arguments),
    }
}

/// cargo with the instrumenting compiler. `toolchain` is rustup's, such as `+1.95`.
pub(crate) fn cargo_command(toolchain: Option<&OsStr>) -> Result<Command, crashproof_toolchain::Error> {
    let found = Toolchain::find()?;
    cargo::require_llvm(toolchain)?;
    let this = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("crashproof"));
    let driver = |name: &str| Some(this.with_file_name(name)).filter(|path| path.exists());
    let (c, cxx) = (driver("crashproof-cc"), driver("crashproof-c++"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let drivers = c.as_deref().zip(cxx.as_deref());
    let environment = cargo::environment(&found, &this, drivers, &target.join("crashproof"))?;
    let mut command = Command::new(cargo_program());
    command.args(toolchain).envs(environment);
    Ok(command)
}

/// cargo itself.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// rustup's toolchain selection, and the other arguments.
pub(crate) fn split_toolchain(arguments: &[OsString]) -> (Option<&OsStr>, &[OsString]) {
    match arguments.split_first() {
        Some((first, rest)) if first.to_string_lossy().starts_with('+') => (Some(first), rest),
        _ => (None, arguments),
    }
}

fn run_cargo(arguments: &[OsString]) -> ExitCode {
    let (toolchain, arguments) = split_toolchain(arguments);
    let mut command = match cargo_command(toolchain) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("crashproof: error: {error}");
            return ExitCode::from(2);
        }
    };
    match command.args(arguments).status() {
        Ok(status) => ExitCode::from(status.code().unwrap_or(101) as u8),
        Err(error) => {
            eprintln!("crashproof: cannot run {}: {error}", cargo_program().to_string_lossy());
            ExitCode::from(2)
        }
    }
}

/// A given program, or one built from the given sources.
pub(crate) struct Built {
    pub(crate) path: PathBuf,
    /// The first source.
    pub(crate) source: Option<PathBuf>,
    /// The build directory, removed when dropped.
    _directory: Option<Scratch>,
}

impl Built {
    /// From a program or its sources, each relative to a directory if it exists there.
    fn new(given: &[PathBuf], root: &Path, cflags: &[OsString]) -> Result<Built, String> {
        let found = |given: &PathBuf| Some(root.join(given)).filter(|path| path.exists());
        let paths: Vec<PathBuf> =
            given.iter().map(|given| found(given).unwrap_or_else(|| given.clone())).collect();
        if paths.iter().all(|path| is_source(path)) {
            for path in &paths {
                std::fs::File::open(path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            }
            return build(&paths, cflags);
        }
        match &paths[..] {
            [path] => match FileKind::of(path) {
                Some(kind) => Err(format!("{}: {}", path.display(), no_program(kind))),
                None => match next_command(path) {
                    Some(advice) => Err(format!("{}: {advice}", path.display())),
                    None => Ok(Built { path: in_search_path(path), source: None, _directory: None }),
                },
            },
            [first, ..] if !is_source(first) && !in_search_path(first).exists() => {
                Err(format!("there is no {}; build it first", first.display()))
            }
            all => {
                let other = all.iter().find(|path| !is_source(path)).unwrap_or(&all[0]);
                Err(format!("{} is not a source file; a program's arguments go after `--`", other.display()))
            }
        }
    }
}

/// A name without a directory is the file here, or else found through PATH like a shell does, skipping scripts that
/// only start the program of the same name, as version managers install them.
fn in_search_path(program: &Path) -> PathBuf {
    let bare = program.components().count() == 1;
    if bare && program.exists() {
        return Path::new(".").join(program);
    }
    let path = std::env::var_os("PATH").filter(|_| bare).unwrap_or_default();
    let found: Vec<PathBuf> = std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .filter(|path| path.is_file())
        .collect();
    let is_binary = |path: &&PathBuf| {
        let mut start = [0; 4];
        let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, &mut start));
        read.is_ok() && start == *b"\x7fELF"
    };
    found.iter().find(is_binary).or(found.first()).cloned().unwrap_or_else(|| program.to_owned())
}

/// The command to use for a file that is not a program but belongs to a build.
fn next_command(path: &Path) -> Option<String> {
    if path.is_dir() && path.join("Cargo.toml").exists()
        || path.file_name().is_some_and(|name| name == "Cargo.toml")
    {
        return Some(
            "check its tests with `crashproof cargo test`, or build it with `crashproof cargo build` and check what it \
             built: `crashproof check target/crashproof/x86_64-unknown-linux-gnu/debug/NAME`"
                .into(),
        );
    }
    let mut start = [0; 256];
    let read = std::io::Read::read(&mut std::fs::File::open(path).ok()?, &mut start).ok()?;
    let first = String::from_utf8_lossy(&start[..read]).lines().next().unwrap_or_default().to_owned();
    let script = path.display();
    let interpreter = match first.strip_prefix("#!") {
        Some(line) => line.split_whitespace().rfind(|word| !word.starts_with('-'))?.to_owned(),
        None if path.extension().is_some_and(|extension| extension == "py") => "python3".into(),
        None if path.extension().is_some_and(|extension| extension == "sh") => "sh".into(),
        None => return None,
    };
    let interpreter = Path::new(&interpreter).file_name()?.to_string_lossy().into_owned();
    Some(format!("this is a script; check its interpreter: `crashproof check {interpreter} -- {script}`"))
}

/// Why a file that can be neither built nor run is not a program.
fn no_program(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Bitcode => "bitcode is not run: check its source, or a program that `crashproof cc` built",
        FileKind::Assembly => "assembly is not instrumented, so it cannot be checked",
        _ => "this is no program: give the source that includes it",
    }
}

/// The program to check, and the one that recovers if it is different.
pub(crate) struct Programs {
    pub(crate) program: Built,
    /// `Some(None)`: the same program.
    recover: Option<Option<Built>>,
}

impl Programs {
    /// From a program, or the sources of one.
    pub(crate) fn new(
        given: &[PathBuf],
        recover: Option<&Path>,
        cflags: &[OsString],
    ) -> Result<Programs, String> {
        Programs::below(Path::new(""), given, recover, cflags)
    }

    /// From files relative to a directory, if they exist there.
    pub(crate) fn below(
        root: &Path,
        given: &[PathBuf],
        recover: Option<&Path>,
        cflags: &[OsString],
    ) -> Result<Programs, String> {
        let built = |given: &[PathBuf]| Built::new(given, root, cflags);
        let other = |path: &Path| match given {
            [program] if program == path => Ok(None),
            _ => built(&[path.to_owned()]).map(Some),
        };
        Ok(Programs { recover: recover.map(other).transpose()?, program: built(given)? })
    }

    fn recover(&self) -> Option<&Built> {
        Some(self.recover.as_ref()?.as_ref().unwrap_or(&self.program))
    }

    /// The program that recovers, if one was named.
    pub(crate) fn recovery(&self) -> Option<&Path> {
        self.recover().map(|built| built.path.as_path())
    }

    /// A warning if the program relies on `assert` and was built without it, so that recovery would not notice
    /// failures.
    pub(crate) fn warn_about_ndebug(&self, cflags: &[OsString]) -> Option<String> {
        let given = cflags.iter().any(|flag| flag.to_string_lossy().starts_with("-DNDEBUG"));
        let source = self.program.source.as_ref()?;
        let text = std::fs::read_to_string(source).ok()?;
        let defined = text.lines().any(|line| line.trim_start().starts_with("#define NDEBUG"));
        let asserts = text.contains("assert(") && text.contains("assert.h");
        ((given || defined) && asserts).then(|| {
            "NDEBUG removes assert(), so recovery does not check what it asserts; build without it, or use \
             crashproof_assert"
                .into()
        })
    }

    /// A note if the program was built from a source and got arguments that look like the compiler's: `lint` and `prove`
    /// pass what follows `--` to the compiler, so the wrong variant of a program is easily checked.
    pub(crate) fn note_compiler_arguments(&self, given: &[OsString]) -> Option<String> {
        let is_compilers = |argument: &&OsString| {
            let text = argument.to_string_lossy();
            let named = |start: &str| text.strip_prefix(start).is_some_and(|rest| !rest.is_empty());
            named("-D") || named("-I") || named("-std=")
        };
        let first = given.iter().find(is_compilers).filter(|_| self.program.source.is_some())?;
        let first = first.to_string_lossy();
        Some(format!("{first} went to the program; arguments for the compiler go into --cflags=\"{first}\""))
    }

    /// Its source, if it was built from one.
    pub(crate) fn recovery_source(&self) -> Option<&Path> {
        self.recover()?.source.as_deref()
    }
}

/// Whether a file is compiled rather than run.
pub(crate) fn is_source(path: &Path) -> bool {
    matches!(FileKind::of(path), Some(FileKind::Source(_) | FileKind::Rust))
}

/// Builds a program from its sources with debug information and light optimization.
fn build(sources: &[PathBuf], cflags: &[OsString]) -> Result<Built, String> {
    let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
    let directory =
        Scratch::new().map_err(|error| format!("cannot create a directory for the program: {error}"))?;
    let path = directory.path().join(sources[0].file_stem().unwrap_or_default());
    let plan = toolchain.to_program(sources, cflags, &path).map_err(|error| error.to_string())?;
    plan.warnings.iter().for_each(|warning| eprintln!("crashproof: warning: {warning}"));
    let mut command = plan.command;
    match command.status() {
        Ok(status) if status.success() => {
            Ok(Built { path, source: Some(sources[0].clone()), _directory: Some(directory) })
        }
        Ok(_) => {
            let names: Vec<String> = sources.iter().map(|source| source.display().to_string()).collect();
            let verb = if names.len() == 1 { "does" } else { "do" };
            Err(format!("{} {verb} not compile; --cflags passes arguments to the compiler", names.join(", ")))
        }
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().to_string_lossy())),
    }
}
