//! `crashproof cargo test` and `crashproof cargo run`: builds and checks a crate's tests, or one of its programs.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, Parser};
use crashproof_fix::Failed;

use crate::build;
use crate::exit::{self, Exit};
use crate::fix::{self, Fixing};
use crate::suite::options::{Checking, Running};
use crate::suite::runner;
use crate::suite::rust::{self, Selection};
use crashproof_toolchain::standard_output;

/// Build the tests of Rust crates and check each that touches persistent memory
///
/// After every crash a test is run again to recover: it should accept whatever its earlier run may have left.
/// `#[crashproof::test(recover = path)]` of the crate `crashproof-test` names another function for that.
#[derive(Parser)]
#[command(name = "crashproof cargo test", bin_name = "crashproof cargo test", max_term_width = 100, after_help = exit::HELP)]
struct Test {
    /// Check only tests whose names contain one of these
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,

    #[command(flatten)]
    running: Running,
    #[command(flatten)]
    checking: Checking,
    #[command(flatten)]
    cargo: Cargo,
    #[command(flatten)]
    fixing: Fixing,

    /// Build the tests, but do not check them
    #[arg(long, help_heading = "cargo")]
    no_run: bool,

    /// Further names, and arguments for the test binaries
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

/// Build a program of a Rust crate and check it
#[derive(Parser)]
#[command(name = "crashproof cargo run", bin_name = "crashproof cargo run", max_term_width = 100, after_help = exit::HELP)]
struct Run {
    #[command(flatten)]
    checking: Checking,
    #[command(flatten)]
    cargo: Cargo,

    /// Output format, as for `crashproof check`
    #[arg(long, value_name = "FORMAT[=FILE]")]
    format: Vec<OsString>,

    /// Arguments for the program
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

/// Options passed to cargo.
#[derive(Args)]
#[command(next_help_heading = "cargo")]
struct Cargo {
    /// Packages; may be repeated
    #[arg(short, long, value_name = "SPEC")]
    package: Vec<OsString>,
    /// Packages to leave out; may be repeated
    #[arg(long, value_name = "SPEC")]
    exclude: Vec<OsString>,
    /// Binaries; may be repeated
    #[arg(long, value_name = "NAME")]
    bin: Vec<OsString>,
    /// Integration tests; may be repeated
    #[arg(long, value_name = "NAME")]
    test: Vec<OsString>,
    /// Examples; may be repeated
    #[arg(long, value_name = "NAME")]
    example: Vec<OsString>,
    /// Benchmarks; may be repeated
    #[arg(long, value_name = "NAME")]
    bench: Vec<OsString>,
    /// Features, separated by commas; may be repeated
    #[arg(short = 'F', long, value_name = "FEATURES")]
    features: Vec<OsString>,
    /// Profile
    #[arg(long, visible_alias = "cargo-profile", value_name = "NAME")]
    profile: Option<OsString>,
    /// The Cargo.toml to use
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// Overrides cargo's settings; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<OsString>,
    /// Build for release
    #[arg(short, long)]
    release: bool,
    #[arg(long, alias = "all", hide_short_help = true)]
    workspace: bool,
    #[arg(long, hide_short_help = true)]
    lib: bool,
    #[arg(long, hide_short_help = true)]
    bins: bool,
    #[arg(long, hide_short_help = true)]
    tests: bool,
    #[arg(long, hide_short_help = true)]
    examples: bool,
    #[arg(long, hide_short_help = true)]
    benches: bool,
    #[arg(long, hide_short_help = true)]
    all_targets: bool,
    #[arg(long, hide_short_help = true)]
    all_features: bool,
    #[arg(long, hide_short_help = true)]
    no_default_features: bool,
    #[arg(long, hide_short_help = true)]
    locked: bool,
    #[arg(long, hide_short_help = true)]
    offline: bool,
    #[arg(long, hide_short_help = true)]
    frozen: bool,
    /// Documentation tests cannot be checked
    #[arg(long, hide = true)]
    doc: bool,
}

impl Cargo {
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let lists = [
            ("--package", &self.package),
            ("--exclude", &self.exclude),
            ("--bin", &self.bin),
            ("--test", &self.test),
            ("--example", &self.example),
            ("--bench", &self.bench),
            ("--features", &self.features),
            ("--config", &self.config),
        ];
        for (name, values) in lists {
            values.iter().for_each(|value| words.extend([name.into(), value.clone()]));
        }
        self.profile.iter().for_each(|profile| words.extend(["--profile".into(), profile.clone()]));
        let manifest = self.manifest_path.iter();
        manifest.for_each(|path| words.extend(["--manifest-path".into(), path.into()]));
        let flags = [
            ("--release", self.release),
            ("--workspace", self.workspace),
            ("--lib", self.lib),
            ("--bins", self.bins),
            ("--tests", self.tests),
            ("--examples", self.examples),
            ("--benches", self.benches),
            ("--all-targets", self.all_targets),
            ("--all-features", self.all_features),
            ("--no-default-features", self.no_default_features),
            ("--locked", self.locked),
            ("--offline", self.offline),
            ("--frozen", self.frozen),
        ];
        words.extend(flags.iter().filter(|flag| flag.1).map(|flag| flag.0.into()));
        words
    }
}

/// The commands of cargo that check what they build.
pub(crate) fn requested(arguments: &[OsString]) -> Option<ExitCode> {
    let (first, rest) = arguments.split_first()?;
    if first != "cargo" {
        return None;
    }
    let (toolchain, rest) = build::split_toolchain(rest);
    let (command, rest) = rest.split_first()?;
    let words = std::iter::once(OsString::from("crashproof")).chain(rest.iter().cloned());
    let result = match command.to_str()? {
        "test" | "t" => Test::try_parse_from(words).map(|test| run_tests(toolchain, test)),
        "run" | "r" => Run::try_parse_from(words).map(|run| run_program(toolchain, &run)),
        _ => return None,
    };
    Some(match result {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(error)) => {
            anstream::eprintln!("crashproof: {error}");
            Exit::Usage.into()
        }
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { Exit::Usage.into() } else { Exit::Clean.into() }
        }
    })
}

/// cargo, or why it cannot be run.
pub(crate) fn cargo(toolchain: Option<&std::ffi::OsStr>) -> Result<Command, Exit> {
    build::cargo_command(toolchain).map_err(|error| {
        anstream::eprintln!("crashproof: {error}");
        Exit::Usage
    })
}

fn run_tests(toolchain: Option<&std::ffi::OsStr>, mut test: Test) -> io::Result<Exit> {
    if test.cargo.doc {
        anstream::eprintln!(
            "crashproof: documentation tests cannot be checked: rustdoc builds each anew\n\
             move what is to be checked into a test; `cargo test --doc` runs them as they are"
        );
        return Ok(Exit::Usage);
    }
    if test.fixing.fix {
        return fix_tests(toolchain, test);
    }
    let cargo = match cargo(toolchain) {
        Ok(cargo) => cargo,
        Err(exit) => return Ok(exit),
    };
    let mut words = vec!["test".into(), "--no-run".into()];
    words.extend(test.cargo.words());
    let Some(artifacts) = rust::build(cargo, &words)? else { return Ok(Exit::Usage) };
    if test.no_run {
        return Ok(Exit::Clean);
    }
    let selection = Selection::read(&test.filters, &test.arguments, &mut test.running.run_ignored);
    let cases = rust::cases(&artifacts, &selection, test.running.run_ignored)?;
    runner::run(cases, &test.running, &test.checking)
}

/// Fixes what the tests reveal, in the workspace's directory, so that files shared by its crates are found.
fn fix_tests(toolchain: Option<&std::ffi::OsStr>, mut test: Test) -> io::Result<Exit> {
    let located = |whole: bool| -> io::Result<Option<PathBuf>> {
        let mut cargo = Command::new(build::cargo_program());
        cargo.args(toolchain).args(["locate-project", "--message-format=plain"]);
        cargo.args(whole.then_some("--workspace"));
        test.cargo.manifest_path.iter().for_each(|path| {
            cargo.arg("--manifest-path").arg(path);
        });
        let output = standard_output(&mut cargo)?;
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(output.status.success().then(|| PathBuf::from(path)))
    };
    let (Some(workspace), Some(member)) = (located(true)?, located(false)?) else { return Ok(Exit::Usage) };
    let root = workspace.parent().unwrap_or(Path::new("/"));
    std::env::set_current_dir(root)?;
    test.cargo.manifest_path = Some(member.strip_prefix(root).unwrap_or(&member).to_owned());
    let selection = Selection::read(&test.filters, &test.arguments, &mut test.running.run_ignored);
    let mut words: Vec<OsString> = vec!["test".into(), "--no-run".into()];
    words.extend(test.cargo.words());
    fix::suite(&test.fixing, &test.checking, |root| {
        let unable = |error: io::Error| Failed::Check(error.to_string());
        let mut cargo = build::cargo_command(toolchain).map_err(|error| Failed::Check(error.to_string()))?;
        cargo.current_dir(root).arg("--quiet");
        let artifacts = rust::build(cargo, &words).map_err(unable)?;
        let artifacts = artifacts.ok_or_else(|| Failed::Build("the tests do not build".into()))?;
        Ok(rust::cases(&artifacts, &selection, test.running.run_ignored).map_err(unable)?.all)
    })
}

fn run_program(toolchain: Option<&std::ffi::OsStr>, run: &Run) -> io::Result<Exit> {
    let cargo = match cargo(toolchain) {
        Ok(cargo) => cargo,
        Err(exit) => return Ok(exit),
    };
    let mut words = vec!["build".into()];
    words.extend(run.cargo.words());
    let Some(artifacts) = rust::build(cargo, &words)? else { return Ok(Exit::Usage) };
    let programs: Vec<_> = artifacts.iter().filter(|artifact| artifact.is_program()).collect();
    let usage = |message: String| {
        anstream::eprintln!("crashproof: {message}");
        Ok(Exit::Usage)
    };
    let program = match &programs[..] {
        [one] => one.program.clone().unwrap_or_default(),
        [] => {
            return usage("the package has no program; check its tests with `crashproof cargo test`".into());
        }
        several => {
            let names: Vec<&str> = several.iter().map(|artifact| artifact.name()).collect();
            return usage(format!("several programs: choose one with --bin ({})", names.join(", ")));
        }
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("check").arg(runner::shown(&program)).args(run.checking.words());
    run.format.iter().for_each(|format| {
        command.arg("--format").arg(format);
    });
    let status = command.arg("--").args(&run.arguments).status()?;
    Ok(match status.code() {
        Some(0) => Exit::Clean,
        Some(1) => Exit::Findings,
        Some(2) => Exit::Usage,
        Some(3) => Exit::Incomplete,
        _ => Exit::Internal,
    })
}
