//! A suite given by a list of commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::suite::case::Case;

/// A test from a command line, with its working directory.
pub(crate) fn case(line: &str, directory: &Path) -> Result<Case, String> {
    let words = shell_words::split(line).map_err(|error| format!("`{line}`: {error}"))?;
    let is_variable = |word: &&String| {
        let name = word.split_once('=').map(|pair| pair.0);
        name.is_some_and(|name| {
            !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
        })
    };
    let variables = words.iter().take_while(is_variable).count();
    let pair = |word: &String| word.split_once('=').map(|(name, value)| (name.into(), value.into()));
    let program = words.get(variables).ok_or_else(|| format!("`{line}` is no command"))?;
    Ok(Case {
        name: line.trim().to_owned(),
        program: if program.contains('/') { directory.join(program) } else { found(program) },
        arguments: words[variables + 1..].iter().map(OsString::from).collect(),
        directory: directory.to_owned(),
        environment: words[..variables].iter().filter_map(pair).collect(),
        ..Case::default()
    })
}

/// Resolves a program name through PATH.
fn found(name: &str) -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|path| path.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| name.into())
}

/// The tests in a file: a command per line; `#` begins a comment.
pub(crate) fn read(file: &Path) -> Result<Vec<Case>, String> {
    let text = crashproof_findings::text_file::read(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| case(line, &directory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line() {
        let case = case("N=3 ./tests/append 'a b'", Path::new("/project")).expect("a command");
        assert_eq!(case.program, Path::new("/project/./tests/append"));
        assert_eq!(case.arguments, ["a b"]);
        assert_eq!(case.environment, [("N".into(), "3".into())]);
        assert!(super::case("N=3", Path::new("/")).is_err() && super::case("'", Path::new("/")).is_err());
    }
}
