//! The user's trust: nothing that arrives as data runs a command unless the user has permitted it (SECURITY.md).
//!
//! Three things count as permission: `--trust` on the command line, a directory trusted with `crashproof trust DIR`,
//! and, for replay tokens, that this user's own check printed them. Both lists are text files of the user's with one
//! entry per line; anyone who can write them can run commands as the user anyway.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use crashproof_findings::config::Config;

use crate::exit::Exit;

/// Maximum size of the remembered tokens in bytes. The older half is dropped beyond this.
const MAX_REMEMBERED: u64 = 8 << 20;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory to trust, with everything below it [default: list the trusted directories].
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Stop trusting the directory.
    #[arg(long, requires = "directory")]
    remove: bool,
}

/// `crashproof trust`.
pub(crate) fn run(arguments: &Arguments) -> io::Result<Exit> {
    let known = directories();
    let Some(directory) = &arguments.directory else {
        let mut out = anstream::stdout().lock();
        for directory in known {
            writeln!(out, "{}", directory.display())?;
        }
        return Ok(Exit::Clean);
    };
    let directory = match directory.canonicalize() {
        Ok(found) if found.is_dir() => found,
        // A deleted directory can still be removed from the list.
        Err(_) if arguments.remove => std::path::absolute(directory)?,
        Ok(_) => {
            anstream::eprintln!("crashproof: {} is not a directory", directory.display());
            return Ok(Exit::Usage);
        }
        Err(error) => {
            anstream::eprintln!("crashproof: cannot trust {}: {error}", directory.display());
            return Ok(Exit::Usage);
        }
    };
    let listed = known.contains(&directory);
    let now: Vec<PathBuf> = if arguments.remove {
        known.into_iter().filter(|one| *one != directory).collect()
    } else {
        known.into_iter().chain((!listed).then(|| directory.clone())).collect()
    };
    if arguments.remove && !listed {
        anstream::eprintln!("crashproof: {} is not a trusted directory", directory.display());
        return Ok(Exit::Usage);
    }
    let written = user_file(Kind::Config, "trusted").ok_or_else(no_home).and_then(|file| {
        let lines: Vec<u8> =
            now.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\n"].concat()).collect();
        replace(&file, &lines)
    });
    match written {
        Ok(()) => Ok(Exit::Clean),
        Err(error) => {
            anstream::eprintln!("crashproof: cannot write the list of trusted directories: {error}");
            Ok(Exit::Usage)
        }
    }
}

/// Rejects commands in settings found above the working directory, unless the user trusts their directory. `overruled`:
/// the command line replaces them.
pub(crate) fn allow_commands(settings: &Config, overruled: bool) -> Result<(), String> {
    allow(settings, "check.recover", settings.check.recover.as_deref(), overruled)
}

/// The same for the suite named in settings.
pub(crate) fn allow_suite(settings: &Config) -> Result<(), String> {
    let suite = &settings.suite;
    let named = suite.build.as_deref().or(suite.commands.first().map(String::as_str));
    let directory = suite.ctest.as_deref().or(suite.automake.as_deref()).and_then(Path::to_str);
    let cargo = suite.cargo.as_ref().map(|_| "cargo test");
    allow(settings, "suite", named.or(directory).or(cargo), false)
}

fn allow(settings: &Config, setting: &str, command: Option<&str>, overruled: bool) -> Result<(), String> {
    let (Some(command), Some(file)) = (command, &settings.file) else { return Ok(()) };
    let directory = file.parent().unwrap_or(Path::new("/"));
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    if overruled || directory.canonicalize().is_ok_and(|found| found == here) || is_below_trusted(file) {
        return Ok(());
    }
    Err(format!(
        "{}, in a parent directory, would run the command `{}` ({setting})\n\
         to run it, add --trust, or trust the directory: crashproof trust {}",
        file.display(),
        command.escape_debug(),
        directory.display()
    ))
}

/// Is a file, in its current location, below a directory that the user trusts?
pub(crate) fn is_below_trusted(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    directories().iter().any(|directory| path.starts_with(directory))
}

/// Remembers tokens printed by this user's check. If that fails, the user will need `--trust`.
pub(crate) fn remember<'a>(tokens: impl Iterator<Item = &'a str>) {
    let mut lines = String::new();
    for token in tokens.filter(|token| !token.is_empty()) {
        lines.push_str(token);
        lines.push('\n');
    }
    if let Some(file) = user_file(Kind::State, "tokens").filter(|_| !lines.is_empty()) {
        let _ = append(&file, lines.as_bytes());
    }
}

/// Did this user's check print the token?
pub(crate) fn is_own(token: &str) -> bool {
    let file = user_file(Kind::State, "tokens").and_then(|file| std::fs::File::open(file).ok());
    file.is_some_and(|file| BufReader::new(file).lines().map_while(Result::ok).any(|line| line == token))
}

fn directories() -> Vec<PathBuf> {
    let text = user_file(Kind::Config, "trusted").and_then(|file| std::fs::read(file).ok());
    let lines = text.unwrap_or_default();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"/"));
    lines.map(|line| PathBuf::from(std::ffi::OsString::from_vec(line.to_vec()))).collect()
}

/// Appends in one call, so that the lines of concurrent checks do not mix.
fn append(file: &Path, lines: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory)?;
    OpenOptions::new().append(true).create(true).mode(0o600).open(file)?.write_all(lines)?;
    if file.metadata()?.len() <= MAX_REMEMBERED {
        return Ok(());
    }
    let all = std::fs::read(file)?;
    let half = all.len() - MAX_REMEMBERED as usize / 2;
    let start = all[half..].iter().position(|byte| *byte == b'\n').map_or(all.len(), |at| half + at + 1);
    replace(file, &all[start..])
}

/// Replaces a file atomically.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory)?;
    let mut draft = tempfile::NamedTempFile::new_in(directory)?;
    draft.write_all(content)?;
    draft.persist(file).map(drop).map_err(|error| error.error)
}

#[derive(Clone, Copy)]
enum Kind {
    Config,
    State,
}

/// A file of the user's, in an XDG directory.
fn user_file(kind: Kind, name: &str) -> Option<PathBuf> {
    let (variable, below_home) = match kind {
        Kind::Config => ("XDG_CONFIG_HOME", ".config"),
        Kind::State => ("XDG_STATE_HOME", ".local/state"),
    };
    let set = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = set.or_else(|| Some(std::env::home_dir()?.join(below_home)))?;
    directory.is_absolute().then(|| directory.join("crashproof").join(name))
}

fn no_home() -> io::Error {
    io::Error::other("there is no home directory; set HOME or XDG_CONFIG_HOME")
}
