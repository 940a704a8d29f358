//! Replays a counterexample of `crashproof prove` in runs of the real program before it is reported.
//!
//! The sources are instrumented and built with a `main` around theirs that calls `recover` after a crash, as the prover
//! does, reads the same standard input, and keeps its files in a separate directory. The runtime then searches for a
//! crash after which the same claim fails: under the first schedule, then under all of them if there are threads. So
//! the failure is found unless it needs an input other than 0, or more schedules than can be explored. The report
//! describes what was observed; the resulting token contains the schedule's decisions, which `crashproof replay`
//! follows.
//!
//! This is part of the command line because it needs both the checker and the toolchain, on which no prover library may
//! depend.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crashproof_check::{Budget, Error, FailedRecovery, Failure, Options};
use crashproof_findings::Finding;
use crashproof_prove::story::Counterexample;
use crashproof_toolchain::{Compilers, FileKind, Language, Toolchain, output};
use px86::Platform;

use crate::signals::Scratch;

/// Replaces `main`, through the linker's `--wrap`.
const AROUND: &str = "\
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>
uint32_t crashproof_crashes(void);
int __real_main(int, char **, char **);
#ifdef RECOVER
void crashproof_recover_of_program(void) __asm__(RECOVER);
#endif
int __wrap_main(int argc, char **argv, char **environment) {
#ifdef CRASHPROOF_STDIN
  int input = open(CRASHPROOF_STDIN, O_RDONLY);
  if (input < 0 || dup2(input, 0) != 0)
    return 125;
#endif
  if (chdir(CRASHPROOF_DIRECTORY) != 0)
    return 125;
#ifdef RECOVER
  if (crashproof_crashes()) {
    crashproof_recover_of_program();
    return 0;
  }
#endif
  return __real_main(argc, argv, environment);
}
";

const LONGEST: Duration = Duration::from_secs(60);

/// The result of a replay.
pub(crate) enum Replayed {
    /// A run fails.
    Met(Met),
    /// Runs that could have failed end well: what was run, and why not more of them, if not all were.
    NotMet(String),
    /// It could not be tried: why.
    NotTried(String),
}

/// A failure observed in runs of the program.
pub(crate) struct Met {
    /// A description, as a sentence.
    pub(crate) sentence: String,
    /// Replays the run; empty if it needs no crash.
    pub(crate) token: String,
    /// Is it the failure of the counterexample, rather than a different one?
    pub(crate) exact: bool,
    /// The same failure as reported by `check`.
    pub(crate) told: Option<Box<Finding>>,
}

/// What to run, under the same conditions as the proof.
pub(crate) struct Replay<'a> {
    pub(crate) sources: &'a [PathBuf],
    pub(crate) compiler: Vec<OsString>,
    /// Arguments for the program's `main`.
    pub(crate) arguments: &'a [String],
    /// The program's standard input; empty if not given.
    pub(crate) stdin: Option<&'a Path>,
    pub(crate) platform: Platform,
    /// The number of crashes.
    pub(crate) crashes: usize,
    /// The symbol of the recovery function; `None` if `main` recovers.
    pub(crate) recovery: Option<&'a str>,
    /// Does the program have inputs, which are 0 in runs?
    pub(crate) has_inputs: bool,
    /// When to give up.
    pub(crate) deadline: Option<Instant>,
    /// Where to leave the instrumented program, if requested.
    pub(crate) program: Option<&'a Path>,
}

/// A built program, and the directory for its files.
pub(crate) struct Built {
    program: PathBuf,
    files: PathBuf,
    _directory: Scratch,
}

impl Replay<'_> {
    /// Searches runs of the program for the failure of a counterexample.
    pub(crate) fn run(&self, counterexample: &Counterexample) -> Replayed {
        let runs = match self.build(&[]) {
            Ok(built) => self.look_for(&built, counterexample),
            Err(why) => return Replayed::NotTried(why),
        };
        let Replayed::NotMet(tried) = runs else { return runs };
        // The prover follows the source, in which a compiler may join several stores into one.
        match self.build(&["-O0"]).map(|built| self.look_for(&built, counterexample)) {
            Ok(Replayed::Met(met)) if met.exact => Replayed::Met(Met {
                sentence: format!("{}, built without optimization", met.sentence),
                ..met
            }),
            _ => Replayed::NotMet(tried),
        }
    }

    fn look_for(&self, built: &Built, counterexample: &Counterexample) -> Replayed {
        let wanted = Wanted::new(counterexample);
        let mut elsewhere = None;
        let mut tried = String::new();
        let mut unknown = None;
        for all_schedules in [None, Some(Budget::all())] {
            let options = Options { all_schedules, ..self.options(built) };
            let report = match crashproof_check::check(&options) {
                Ok(report) => report,
                Err(Error::FailsAlone { output, .. }) if wanted.is_in(&output) => {
                    let sentence = format!("replayed: without a crash, the program fails at {}", wanted.at());
                    return Replayed::Met(Met { sentence, token: String::new(), exact: true, told: None });
                }
                Err(error) => {
                    let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                    return Replayed::NotTried(first);
                }
            };
            if let Some(finding) = report.findings.iter().find(|finding| wanted.is(finding)) {
                let who = if finding.crashes == 0 { "without a crash, the program" } else { "recovery" };
                let how = finding.failure.describe_with(&finding.output);
                let sentence = format!("replayed: {who} {how} at {}", wanted.at());
                let told = Some(Box::new(finding.in_common_form())).filter(|_| finding.crashes > 0);
                return Replayed::Met(Met { sentence, token: finding.replay.clone(), exact: true, told });
            }
            elsewhere = elsewhere.or(report.findings.into_iter().next());
            let tried_schedules = report.statistics.schedules;
            tried = format!(
                "{} recoveries under {tried_schedules} schedule{} end well",
                report.statistics.recoveries,
                if tried_schedules == 1 { "" } else { "s" }
            );
            unknown = report.unknown.into_iter().next();
        }
        match (elsewhere, unknown) {
            (Some(finding), _) => Replayed::Met(Met {
                sentence: format!(
                    "not replayed to this place, but recovery {} in runs, too",
                    finding.failure.describe_with(&finding.output)
                ),
                token: finding.replay,
                exact: false,
                told: None,
            }),
            (None, _) if self.has_inputs => {
                Replayed::NotTried(format!("{tried}, and runs have but one input, which is 0"))
            }
            (None, Some(why)) => Replayed::NotMet(format!("{tried}; {why}")),
            (None, None) => Replayed::NotMet(tried),
        }
    }

    /// How to run it.
    pub(crate) fn options(&self, built: &Built) -> Options {
        let arguments = self.arguments.iter().map(|argument| in_directory(argument, &built.files));
        let mut options = Options::new(built.program.clone(), arguments.collect());
        options.crashes = self.crashes;
        options.pm_path = vec![built.files.clone()];
        options.platform = self.platform.clone();
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        options.max_time = Some(left.map_or(LONGEST, |left| left.min(LONGEST)));
        options
    }

    /// Builds the program, with more arguments for the compiler.
    pub(crate) fn build(&self, more: &[&str]) -> Result<Built, String> {
        if let Some(other) = self.sources.iter().find(|source| !is_source(source)) {
            return Err(format!("{} is not a C or C++ source", other.display()));
        }
        let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
        let cannot = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
        let directory =
            Scratch::new().map_err(|error| cannot("create a directory for the program", error))?;
        let files = directory.path().join("pm");
        std::fs::create_dir(&files).map_err(|error| cannot("create a directory for its files", error))?;
        let around = self.around(&toolchain.compilers, directory.path(), &files)?;
        let mut arguments = self.compiler.clone();
        arguments.extend(["-Wl,--wrap=main".into(), around.into()]);
        arguments.extend(more.iter().map(OsString::from));
        let program = self.program.map_or_else(|| directory.path().join("program"), Path::to_owned);
        let plan = toolchain.to_program(self.sources, &arguments, &program);
        run(plan.map_err(|error| error.to_string())?.command)?;
        let program = program.canonicalize().map_err(|_| "the program is gone".to_owned())?;
        Ok(Built { program, files, _directory: directory })
    }

    /// Compiles the replacement for `main`.
    fn around(&self, compilers: &Compilers, directory: &Path, files: &Path) -> Result<PathBuf, String> {
        let (source, object) = (directory.join("around.c"), directory.join("around.o"));
        std::fs::write(&source, AROUND)
            .map_err(|error| format!("cannot write {}: {error}", source.display()))?;
        let mut command = Command::new(compilers.driver(Language::C));
        command.arg("-c").arg(&source).arg("-o").arg(&object);
        command.arg(format!("-DCRASHPROOF_DIRECTORY={:?}", files.to_str().unwrap_or_default()));
        if let Some(symbol) = self.recovery {
            command.arg(format!("-DRECOVER={symbol:?}"));
        }
        if let Some(stdin) = self.stdin {
            let stdin =
                stdin.canonicalize().map_err(|error| format!("cannot read {}: {error}", stdin.display()))?;
            let text = stdin.to_str().ok_or("the path of standard input is not UTF-8")?;
            command.arg(format!("-DCRASHPROOF_STDIN={text:?}"));
        }
        run(command)?;
        Ok(object)
    }
}

/// The failure to search for.
struct Wanted {
    /// As printed by assertions.
    place: String,
    /// A failure without a location: an access out of bounds, a call of `abort`, an exit code.
    silent: bool,
}

impl Wanted {
    fn new(counterexample: &Counterexample) -> Wanted {
        let file = Path::new(&counterexample.site.file).file_name().unwrap_or_default().to_string_lossy();
        let message = counterexample.message.as_str();
        let says_nothing = ["exit code 0", "is not called", "divisor", "quotient", "trap"];
        let silent = counterexample.outside || says_nothing.iter().any(|claim| message.contains(claim));
        Wanted { place: format!("{file}:{}:", counterexample.site.line), silent }
    }

    fn at(&self) -> &str {
        self.place.trim_end_matches(':')
    }

    fn is_in(&self, output: &str) -> bool {
        output.contains(&self.place)
    }

    fn is(&self, finding: &FailedRecovery) -> bool {
        let fault = matches!(finding.failure, Failure::Signal(_) | Failure::Sanitizer | Failure::Exit(_));
        self.is_in(&finding.output) || self.silent && fault
    }
}

/// Redirects files named by the program to a separate directory: a proof leaves nothing behind, and changes nothing.
fn in_directory(argument: &str, files: &Path) -> OsString {
    let path = Path::new(argument);
    match path.file_name() {
        Some(name) if path.is_absolute() => files.join(name).into(),
        _ => argument.into(),
    }
}

fn is_source(path: &Path) -> bool {
    matches!(FileKind::of(path), Some(FileKind::Source(_)))
}

fn run(mut command: Command) -> Result<(), String> {
    let answer = output(&mut command)
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().to_string_lossy()))?;
    if answer.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&answer.stderr);
    let error = messages.lines().find(|line| line.contains("error")).unwrap_or_default();
    Err(format!("the program cannot be built for running: {error}"))
}
