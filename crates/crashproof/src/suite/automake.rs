//! The tests of an automake project: the variable TESTS of its makefiles, in all SUBDIRS.
//!
//! `make check TESTS=` builds the prerequisites of the tests without running them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crashproof_report::suite::Outcome;

use crate::suite::case::{Case, Cases};
use crashproof_toolchain::output;

/// A target that prints variables, one per line.
const PRINT: &str = "crashproof-print-tests:\n\
                     \t@echo 'TESTS=$(TESTS)'\n\
                     \t@echo 'XFAIL_TESTS=$(XFAIL_TESTS)'\n\
                     \t@echo 'SUBDIRS=$(SUBDIRS)'\n\
                     \t@echo 'srcdir=$(srcdir)'\n\
                     \t@echo 'ENVIRONMENT=$(AM_TESTS_ENVIRONMENT) $(TESTS_ENVIRONMENT)'\n";

/// A makefile's variables about its tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Variables {
    tests: Vec<String>,
    expected_to_fail: Vec<String>,
    below: Vec<String>,
    sources: PathBuf,
    environment: Vec<(String, String)>,
}

fn parse(text: &str) -> Variables {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().trim().to_owned()
    };
    let words = |name: &str| value(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let environment = value("ENVIRONMENT");
    let pairs = shell_words::split(&environment.replace(';', " ")).unwrap_or_default();
    Variables {
        tests: words("TESTS"),
        expected_to_fail: words("XFAIL_TESTS"),
        below: words("SUBDIRS"),
        sources: value("srcdir").into(),
        environment: pairs
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// The tests of a build directory and those below it.
pub(crate) fn cases(root: &Path) -> Result<Cases, String> {
    build(root)?;
    let mut cases = Cases::default();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let directory = root.join(&below);
        let variables = ask(&directory)?;
        let sub = variables.below.iter().filter(|name| *name != ".").rev();
        open.extend(sub.map(|name| below.join(name)));
        let group = below.display().to_string();
        cases.all.extend(variables.tests.iter().map(|name| case(&directory, &group, name, &variables)));
    }
    Ok(cases)
}

/// Builds the tests; make's messages go to standard error.
fn build(root: &Path) -> Result<(), String> {
    let cannot = |why: String| {
        format!(
            "{}: `make check TESTS=` builds no tests: {why}; give the build directory with --automake",
            root.display()
        )
    };
    let status = Command::new("make")
        .args(["-s", "check", "TESTS="])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| cannot(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(cannot(status.to_string())) }
}

fn ask(directory: &Path) -> Result<Variables, String> {
    let mut make = Command::new("make");
    make.args(["-s", "--no-print-directory", "--eval", PRINT, "crashproof-print-tests"]);
    let output = output(make.current_dir(directory))
        .map_err(|error| format!("cannot run make in {}: {error}", directory.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("{}: make does not say which tests there are: {said}", directory.display()));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

fn case(directory: &Path, group: &str, name: &str, variables: &Variables) -> Case {
    let built = directory.join(name);
    let program = if built.exists() { built } else { directory.join(&variables.sources).join(name) };
    // libtool puts a script in place of the program until it is installed.
    let hidden =
        program.parent().map(|parent| parent.join(".libs").join(program.file_name().unwrap_or_default()));
    let program = hidden.filter(|hidden| hidden.is_file()).unwrap_or(program);
    let unchecked = variables
        .expected_to_fail
        .iter()
        .any(|other| other == name)
        .then(|| (Outcome::Skipped, "meant to fail (XFAIL_TESTS): recovery cannot be judged".to_owned()));
    let variable = |(name, value): &(String, String)| (OsString::from(name), OsString::from(value));
    let mut environment: Vec<(OsString, OsString)> = variables.environment.iter().map(variable).collect();
    environment.push(("srcdir".into(), variables.sources.clone().into()));
    Case {
        group: group.to_owned(),
        name: name.to_owned(),
        program,
        directory: directory.to_owned(),
        environment,
        unchecked,
        ..Case::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_make_prints() {
        let text = "TESTS=append recover.sh\nXFAIL_TESTS=append\nSUBDIRS=lib . tests\nsrcdir=../src\n\
                    ENVIRONMENT=LOG_DIR='/tmp/a b'; export LOG_DIR; X=1\n";
        let variables = parse(text);
        assert_eq!(variables.tests, ["append", "recover.sh"]);
        assert_eq!(variables.below, ["lib", ".", "tests"]);
        assert_eq!(variables.environment, [("LOG_DIR".into(), "/tmp/a b".into()), ("X".into(), "1".into())]);
        let case = case(Path::new("/b"), "", "append", &variables);
        assert!(case.unchecked.is_some());
    }
}
