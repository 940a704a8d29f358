//! The options of the front end, and its errors.

use std::path::Path;

use crashproof_ordersat::Limits;
use crashproof_prove::program::Site;
use crashproof_prove::prove::Reason;
use px86::Domain;

/// Which flushes a program has. Anything but its own are experiments: with flushes everywhere it is robust, and what
/// holds without any needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flushes {
    /// Its own.
    #[default]
    AsWritten,
    /// Its own, and a `clflush` after every access to persistent memory.
    EveryAccess,
    /// None, not even those of libraries. Non-temporal stores are stores.
    None,
}

/// The bounds of unrolling.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of iterations of a loop, not counting unavoidable ones.
    pub unwind: u32,
    /// Other bounds for some loops.
    pub loops: Vec<LoopBound>,
    /// Maximum depth of direct or indirect recursion, not counting unavoidable calls.
    pub recursion: u32,
    /// Maximum number of events.
    pub events: usize,
    /// The arguments of `main` after the program name.
    pub arguments: Vec<String>,
    /// The program's standard input; if not given, what it reads is unknown.
    pub stdin: Option<Vec<u8>>,
    /// The state of the libpmemobj pool before the program starts.
    pub pool: Pool,
    /// The persistence domain of the machine, which libpmem reports to the program.
    pub domain: Domain,
    /// Which flushes there are.
    pub flushes: Flushes,
    /// Number of consecutive crashes: from 2 on, recovery crashes, too.
    pub crashes: usize,
    /// Leave recovery out? Robustness does not need it.
    pub no_recovery: bool,
    /// May a value that is not modeled be arbitrary? A proof remains valid, but a counterexample may be spurious.
    pub approximate: bool,
    /// When to give up.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            unwind: 6,
            loops: Vec::new(),
            recursion: 6,
            events: 20_000,
            arguments: Vec::new(),
            stdin: None,
            pool: Pool::New,
            domain: Domain::Adr,
            flushes: Flushes::AsWritten,
            crashes: 1,
            no_recovery: false,
            approximate: false,
            limits: Limits::default(),
        }
    }
}

/// The state of a libpmemobj pool before the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pool {
    /// It does not exist.
    #[default]
    New,
    /// It exists, and its root object is zeroed.
    Created,
    /// It exists, and its root object has arbitrary content.
    Any,
}

/// A bound for one loop: `list.c:12=5` or `append.0=5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBound {
    /// The loop.
    pub which: LoopName,
    /// Maximum number of iterations.
    pub bound: u32,
}

/// Names a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopName {
    /// By the line of its head.
    Line {
        /// The file, or a suffix of its path.
        file: String,
        /// The line.
        line: u32,
    },
    /// By its function and its index there, from 0.
    Index {
        /// The function.
        function: String,
        /// The number.
        index: usize,
    },
}

impl std::str::FromStr for LoopBound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a loop bound: write file.c:LINE=N or function.INDEX=N");
        let (name, bound) = text.rsplit_once('=').ok_or_else(wrong)?;
        let bound = bound.parse().map_err(|_| wrong())?;
        let which = if let Some((file, line)) = name.rsplit_once(':') {
            LoopName::Line { file: file.to_owned(), line: line.parse().map_err(|_| wrong())? }
        } else {
            let (function, index) = name.rsplit_once('.').ok_or_else(wrong)?;
            LoopName::Index { function: function.to_owned(), index: index.parse().map_err(|_| wrong())? }
        };
        Ok(LoopBound { which, bound })
    }
}

/// Why a program cannot be unrolled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not compile or could not be read.
    #[error(transparent)]
    Bitcode(#[from] crashproof_frontend::bitcode::Error),
    /// There is no `main`.
    #[error("there is no function main")]
    NoMain,
    /// A loop bound that names no loop.
    #[error("no loop is {0}")]
    NoSuchLoop(String),
    /// A global that is too large, or whose initial content is not understood.
    #[error("{file}:{line}: {what}")]
    Global {
        /// Where it is declared.
        file: String,
        /// The line.
        line: u32,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// For a valid program that cannot be reasoned about: why, and where. `file` is its first source.
    #[must_use]
    pub fn reason(&self, file: &Path) -> Option<Reason> {
        let (text, site) = match self {
            Error::Global { file, line, what } => {
                (what.clone(), Site { file: file.clone(), line: *line, ..Site::default() })
            }
            Error::Bitcode(error @ crashproof_frontend::bitcode::Error::Unsupported { .. }) => {
                (error.to_string(), Site { file: file.to_string_lossy().into_owned(), ..Site::default() })
            }
            _ => return None,
        };
        Some(Reason { text, site: Some(site) })
    }
}
