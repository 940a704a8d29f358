//! The tests of a CMake project, as `ctest --show-only=json-v1` lists them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::suite::case::{Case, Cases};
use crate::suite::options::RunIgnored;
use crashproof_report::suite::Outcome;
use crashproof_toolchain::output;

/// The tests of a build directory.
pub(crate) fn cases(directory: &Path, ignored: RunIgnored) -> Result<Cases, String> {
    let output = output(Command::new("ctest").arg("--show-only=json-v1").current_dir(directory))
        .map_err(|error| format!("cannot run ctest in {}: {error}", directory.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let listed: Value = serde_json::from_str(&text).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        format!(
            "{}: ctest lists no tests there{}{said}; give the build directory of the project with --ctest",
            directory.display(),
            if said.is_empty() { "" } else { ": " }
        )
    })?;
    Ok(parse(&listed, directory, ignored))
}

fn parse(listed: &Value, directory: &Path, ignored: RunIgnored) -> Cases {
    let mut cases = Cases::default();
    for test in listed["tests"].as_array().into_iter().flatten() {
        let name = test["name"].as_str().unwrap_or_default().to_owned();
        let words: Vec<&str> =
            test["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let property = |wanted: &str| {
            let all = test["properties"].as_array().into_iter().flatten();
            all.into_iter().find(|it| it["name"] == wanted).map(|it| it["value"].clone())
        };
        let is_set = |wanted: &str| property(wanted).is_some_and(|value| value == true);
        let place = property("WORKING_DIRECTORY").and_then(|value| value.as_str().map(PathBuf::from));
        let place = place.unwrap_or_else(|| directory.to_owned());
        let skipped = |why: &str| Some((Outcome::Skipped, why.to_owned()));
        let unchecked = match words.first() {
            _ if is_set("DISABLED") && ignored == RunIgnored::Default => {
                skipped("disabled (--run-ignored all)")
            }
            _ if is_set("WILL_FAIL") => skipped("meant to fail (WILL_FAIL): recovery cannot be judged"),
            // ctest lists it although its program has not been built, and would fail it.
            None => Some((Outcome::Unknown, "its program was not built".to_owned())),
            _ => None,
        };
        if ignored == RunIgnored::Only && !is_set("DISABLED") {
            continue;
        }
        let environment = property("ENVIRONMENT").unwrap_or_default();
        let environment = environment.as_array().into_iter().flatten().filter_map(Value::as_str);
        let environment = environment.filter_map(|pair| pair.split_once('='));
        cases.all.push(Case {
            group: String::new(),
            name,
            program: place.join(words.first().unwrap_or(&"")),
            arguments: words.iter().skip(1).map(OsString::from).collect(),
            environment: environment.map(|(name, value)| (name.into(), value.into())).collect(),
            directory: place,
            unchecked,
            timeout: None,
        });
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ctest_lists() {
        let listed = serde_json::json!({"kind": "ctestInfo", "tests": [
            {"name": "append", "command": ["/b/append", "3"], "properties": [
                {"name": "WORKING_DIRECTORY", "value": "/b/sub"}, {"name": "ENVIRONMENT", "value": ["A=b=c"]}]},
            {"name": "off", "command": ["/b/off"], "properties": [{"name": "DISABLED", "value": true}]},
            {"name": "fails", "command": ["/b/fails"], "properties": [{"name": "WILL_FAIL", "value": true}]},
            {"name": "unbuilt", "properties": []},
        ]});
        let cases = parse(&listed, Path::new("/b"), RunIgnored::Default).all;
        assert_eq!(cases.len(), 4);
        assert_eq!(
            (cases[0].program.to_str(), cases[0].directory.to_str()),
            (Some("/b/append"), Some("/b/sub"))
        );
        assert_eq!(cases[0].environment, [("A".into(), "b=c".into())]);
        let outcomes: Vec<_> =
            cases.iter().map(|case| case.unchecked.as_ref().map(|(outcome, _)| *outcome)).collect();
        let skipped = Some(Outcome::Skipped);
        assert_eq!(
            outcomes,
            [None, skipped, skipped, Some(Outcome::Unknown)],
            "nothing is said of what is not built"
        );
        assert_eq!(parse(&listed, Path::new("/b"), RunIgnored::Only).all.len(), 1);
    }
}
