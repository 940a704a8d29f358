//! Compilation databases, as CMake, Meson and Bear write them.
//!
//! The compiler of an entry is replaced by clang, and its output and optimization level are replaced, too; options that
//! would write further files (dependencies, coverage) are left out. Everything else remains: include directories,
//! definitions, the language and its standard.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crashproof_toolchain::{Compilers, FileKind, Language, arguments};
use rustc_hash::FxHashSet;
use serde::Deserialize;

use super::compile::Job;
use super::error::Error;
use super::harmless::split as split_harmless;

#[derive(Deserialize)]
struct Entry {
    directory: PathBuf,
    file: PathBuf,
    command: Option<String>,
    arguments: Option<Vec<String>>,
}

/// Programs that run a compiler given as their first argument.
const WRAPPERS: [&str; 6] = ["ccache", "sccache", "distcc", "icecc", "crashproof", "env"];

/// One source of a database, and how to compile it.
struct Compilation {
    given: PathBuf,
    directory: PathBuf,
    language: Language,
    options: Vec<String>,
}

/// What a database says.
#[derive(Default)]
struct Contents {
    compilations: Vec<Compilation>,
    /// Sources that are neither C nor C++.
    other: Vec<String>,
    /// Arguments left out because they are not trusted.
    not_trusted: BTreeSet<String>,
}

/// Adds the compilers of a database to the jobs, each with `more` arguments and its output in `directory`.
pub(crate) fn read(
    path: &Path,
    more: &[OsString],
    directory: &Path,
    trust: bool,
    jobs: &mut Vec<Job>,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let text = crashproof_findings::text_file::read(path)
        .map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    let Contents { compilations, other, not_trusted } = contents(path, &text, trust)?;
    let compilers = Compilers::find()?;
    for Compilation { given, directory: place, language, options } in compilations {
        let mut command = compilers.to_bitcode_as(language, &options);
        command.current_dir(&place);
        let output = directory.join(format!("{}.bc", jobs.len()));
        command.args(more).arg("-o").arg(&output);
        jobs.push(Job { given, directory: place, output, command, required: false });
    }
    if !not_trusted.is_empty() {
        let words: Vec<String> = not_trusted.iter().map(|word| word.escape_debug().to_string()).collect();
        notes.push(format!(
            "compiler arguments of {} that may load code or write files, left out (--trust keeps them): {}",
            path.display(),
            words.join(", ")
        ));
    }
    if !other.is_empty() {
        notes.push(format!("neither C nor C++, and not read: {}", other.join(", ")));
    }
    Ok(())
}

/// How many sources a database at `path` with this text compiles, if it is one. Runs nothing: for fuzzing.
pub fn compilations(path: &Path, text: &str, trust: bool) -> Result<usize, Error> {
    contents(path, text, trust).map(|contents| contents.compilations.len())
}

fn contents(path: &Path, text: &str, trust: bool) -> Result<Contents, Error> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| Error::Database {
        path: path.to_owned(),
        reason: format!("this is not a compilation database: {error}"),
    })?;
    if entries.is_empty() {
        return Err(Error::Database { path: path.to_owned(), reason: "it has no entries".into() });
    }
    // Relative directories are relative to the database.
    let base = std::path::absolute(path).unwrap_or_default();
    let base = base.parent().unwrap_or(Path::new("/"));
    let mut all = Contents::default();
    let mut seen = FxHashSet::default();
    for entry in entries {
        let words = words(path, &entry)?;
        let directory = base.join(&entry.directory);
        let Some(language) = FileKind::of(&entry.file).and_then(FileKind::language) else {
            all.other.push(entry.file.display().to_string());
            continue;
        };
        let (language, mut options) = options(&words, &directory, language)?;
        if !trust {
            let (kept, left_out) = split_harmless(options);
            options = kept;
            all.not_trusted.extend(left_out);
        }
        // A library built twice, static and shared, is still one library.
        let kept: Vec<String> = options.iter().filter(|o| !is_about_linking(o)).cloned().collect();
        if seen.insert((directory.clone(), entry.file.clone(), kept)) {
            let given = directory.join(&entry.file);
            all.compilations.push(Compilation { given, directory, language, options });
        }
    }
    Ok(all)
}

fn words(database: &Path, entry: &Entry) -> Result<Vec<String>, Error> {
    let wrong = |reason: String| Error::Database {
        path: database.to_owned(),
        reason: format!("the entry of {}: {reason}", entry.file.display()),
    };
    match (&entry.arguments, &entry.command) {
        (Some(words), _) => Ok(words.clone()),
        (None, Some(command)) => shell_words::split(command).map_err(|error| wrong(error.to_string())),
        (None, None) => Err(wrong("it has neither `arguments` nor `command`".into())),
    }
}

/// The options worth keeping, and the language that the compiler assumes for the source.
fn options(words: &[String], directory: &Path, language: Language) -> Result<(Language, Vec<String>), Error> {
    let name = |word: &String| Path::new(word).file_name().unwrap_or_default().to_owned();
    let mut rest = words;
    while let [first, after @ ..] = rest
        && WRAPPERS.iter().any(|wrapper| name(first) == **wrapper)
    {
        rest = after;
    }
    let Some((compiler, rest)) = rest.split_first() else { return Ok((language, Vec::new())) };
    // g++ compiles .c as C++.
    let cxx = Language::of_program(&name(compiler)) == Language::Cxx;
    let language = if cxx { Language::Cxx } else { language };
    let given: Vec<OsString> = rest.iter().map(OsString::from).collect();
    let all = arguments::expanded(&given, directory)?;
    let mut kept = Vec::new();
    let mut words = all.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-o" | "-MF" | "-MT" | "-MQ" | "-MJ" | "--output" | "-dumpdir" | "-dumpbase" => {
                words.next();
            }
            "-c" | "-S" | "-E" | "--lint" | "--lint-deny" | "-save-temps" | "--coverage" => {}
            _ if is_dropped(&word) => {}
            _ => kept.push(word),
        }
    }
    Ok((language, kept))
}

fn is_dropped(word: &str) -> bool {
    let preprocessor = word.strip_prefix("-Wp,");
    // Dependencies, the optimizer, debug information, warnings, and what watches the running program.
    [
        "-M",
        "-O",
        "-g",
        "-flto",
        "-fsanitize",
        "-fprofile",
        "-fcoverage",
        "-ftest-coverage",
        "-o",
        "-save-temps",
        "--lint=",
    ]
    .iter()
    .any(|prefix| word.starts_with(prefix))
        || word.starts_with("-W") && preprocessor.is_none()
        || preprocessor.is_some_and(|options| options.starts_with("-M"))
}

fn is_about_linking(option: &str) -> bool {
    matches!(option, "-fPIC" | "-fpic" | "-fPIE" | "-fpie" | "-DPIC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(line: &str, language: Language) -> (Language, String) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (language, options) = options(&words, Path::new("/"), language).expect("options");
        (language, options.join(" "))
    }

    #[test]
    fn what_would_write_files_or_optimize_is_left_out() {
        let line = "/usr/bin/gcc -Wall -Werror -O2 -g3 -flto=auto -DX='1' -I inc -MD -MF a.d -MTa.o -Wp,-MD,a.d \
                    -Wp,-D_GNU_SOURCE -std=gnu99 -fsanitize=address -o a.o -c a.c";
        assert_eq!(
            kept(line, Language::C),
            (Language::C, "-DX='1' -I inc -Wp,-D_GNU_SOURCE -std=gnu99 a.c".into())
        );
    }

    #[test]
    fn compilers_are_known_by_name_behind_wrappers() {
        assert_eq!(kept("ccache g++-12 -c a.c", Language::C), (Language::Cxx, "a.c".into()));
        assert_eq!(kept("crashproof cc --lint -c a.c", Language::C), (Language::C, "a.c".into()));
        assert_eq!(kept("x86_64-linux-gnu-gcc -c a.cc", Language::Cxx), (Language::Cxx, "a.cc".into()));
    }
}
