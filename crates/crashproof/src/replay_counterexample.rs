//! Replays a counterexample of `crashproof prove` in runs of the real program: `prove --replay PROGRAM`.
//!
//! The sources are built with instrumentation, with a `main` around theirs that calls `recover` after a crash, as the
//! prover does, and reads the same standard input. The runtime then looks for a crash, and among several schedules if there
//! are threads, from which the same claim is false. One thread is explored exhaustively, so the failure is met unless it
//! needs an input other than 0; with threads it may take a schedule that is not among those tried. What is said is what was
//! seen.
//!
//! This is part of the command line because it needs both the checker and the toolchain, which no library of the prover may
//! depend on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashproof_check::{Error, Options};
use crashproof_prove::story::Counterexample;
use crashproof_toolchain::{Language, Toolchain, driver};
use px86::Platform;

use crate::build::language;
use crate::signals::Scratch;

/// What the sources' own `main` is called meanwhile.
const RENAMED: &str = "-Dmain=crashproof_main_of_program";

const AROUND: &str = "\
#include <crashproof.h>
#include <fcntl.h>
#include <unistd.h>
int crashproof_main_of_program(int, char **, char **);
__attribute__((weak)) void recover(void);
int main(int argc, char **argv, char **environment) {
#ifdef CRASHPROOF_STDIN
  int input = open(CRASHPROOF_STDIN, O_RDONLY);
  if (input < 0 || dup2(input, 0) != 0)
    return 125;
#endif
  if (crashproof_crashes() == 0 || !recover)
    return crashproof_main_of_program(argc, argv, environment);
  recover();
  return 0;
}
";

/// Schedules that are tried, a few first.
const SCHEDULES: [u32; 3] = [1, 16, 128];
const LONGEST: Duration = Duration::from_secs(60);

/// What came of it, as a sentence, and the token that replays the run.
pub(crate) struct Replayed {
    pub(crate) sentence: String,
    pub(crate) token: String,
}

impl Replayed {
    /// It was not replayed, and why.
    pub(crate) fn not(why: impl std::fmt::Display) -> Replayed {
        Replayed { sentence: format!("not replayed: {why}"), token: String::new() }
    }
}

/// What to run, and under which circumstances: those of the proof.
pub(crate) struct Replay<'a> {
    pub(crate) sources: &'a [PathBuf],
    pub(crate) compiler: &'a [OsString],
    /// Of the program's `main`.
    pub(crate) arguments: &'a [String],
    /// What the program finds on its standard input; nothing if there is none.
    pub(crate) stdin: Option<&'a Path>,
    pub(crate) platform: Platform,
    /// Where the instrumented program is left.
    pub(crate) program: &'a Path,
}

impl Replay<'_> {
    /// Looks for the failure of a counterexample in runs of the program.
    pub(crate) fn run(&self, counterexample: &Counterexample) -> Replayed {
        match self.build() {
            Ok(program) => self.look_for(&program, counterexample),
            Err(why) => Replayed::not(why),
        }
    }

    fn look_for(&self, program: &Path, counterexample: &Counterexample) -> Replayed {
        let file = Path::new(&counterexample.site.file).file_name().unwrap_or_default().to_string_lossy();
        let place = format!("{file}:{}:", counterexample.site.line);
        let mut met = 0;
        let mut recoveries = 0;
        let mut schedules = 0;
        for wanted in SCHEDULES {
            let mut options =
                Options::new(program.to_owned(), self.arguments.iter().map(OsString::from).collect());
            options.schedules = wanted;
            options.robust = false;
            options.platform = self.platform.clone();
            options.max_time = Some(LONGEST);
            let report = match crashproof_check::check(&options) {
                Ok(report) => report,
                Err(Error::FailsAlone { output, .. }) if output.contains(&place) => {
                    let at = place.trim_end_matches(':');
                    let sentence = format!("replayed: without a crash, the program fails at {at}");
                    return Replayed { sentence, token: String::new() };
                }
                Err(error) => {
                    return Replayed::not(error.to_string().lines().next().unwrap_or_default().to_owned());
                }
            };
            if let Some(finding) = report.findings.iter().find(|finding| finding.output.contains(&place)) {
                let at = place.trim_end_matches(':');
                let who = if finding.crashes == 0 { "without a crash, the program" } else { "recovery" };
                let sentence = format!("replayed: {who} {} at {at}", finding.failure.describe());
                return Replayed { sentence, token: finding.replay.clone() };
            }
            met = report.findings.len();
            recoveries = report.statistics.recoveries;
            schedules = report.statistics.schedules;
            // Without threads there is but one schedule.
            if schedules < wanted {
                break;
            }
        }
        let others = match met {
            0 => "nor any other".to_owned(),
            _ => format!("but {met} other{}", if met == 1 { "" } else { "s" }),
        };
        Replayed::not(format!(
            "{recoveries} recoveries under {schedules} schedule{} did not meet this failure, {others}; inputs are 0 in runs",
            if schedules == 1 { "" } else { "s" }
        ))
    }

    /// Builds the program; gives its absolute path.
    fn build(&self) -> Result<PathBuf, String> {
        let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
        let directory =
            Scratch::new().map_err(|error| format!("cannot create a directory for the program: {error}"))?;
        let around = directory.path().join("around.c");
        std::fs::write(&around, AROUND)
            .map_err(|error| format!("cannot write {}: {error}", around.display()))?;
        let mut link: Vec<OsString> = vec!["-O1".into(), "-g".into(), "-pthread".into()];
        if let Some(stdin) = self.stdin {
            let stdin =
                stdin.canonicalize().map_err(|error| format!("cannot read {}: {error}", stdin.display()))?;
            let text = stdin.to_str().ok_or("the path of standard input is no UTF-8")?;
            link.push(format!("-DCRASHPROOF_STDIN={text:?}").into());
        }
        link.push(around.into());
        for (index, source) in self.sources.iter().enumerate() {
            if language(source) != Some(Language::C) {
                return Err(format!("{} is no C source", source.display()));
            }
            let object = directory.path().join(format!("{index}.o"));
            let mut arguments: Vec<OsString> = vec!["-O1".into(), "-g".into(), "-c".into(), RENAMED.into()];
            arguments.extend([source.clone().into(), "-o".into(), object.clone().into()]);
            arguments.extend(self.compiler.iter().cloned());
            compile(&arguments, &toolchain)?;
            link.push(object.into());
        }
        link.extend(["-o".into(), self.program.into()]);
        compile(&link, &toolchain)?;
        self.program.canonicalize().map_err(|_| "the program is gone".to_owned())
    }
}

fn compile(arguments: &[OsString], toolchain: &Toolchain) -> Result<(), String> {
    let plan = driver::plan(Language::C, arguments, toolchain).map_err(|error| error.to_string())?;
    let mut command = plan.command;
    let answer = command
        .output()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().to_string_lossy()))?;
    if answer.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&answer.stderr);
    let error = messages.lines().find(|line| line.contains("error")).unwrap_or_default();
    Err(format!("the program cannot be built for running: {error}"))
}
