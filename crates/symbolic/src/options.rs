//! What to unroll and how far: the settings of a front end run, and why it can fail.

use std::path::Path;

use crashproof_ordersat::Limits;
use crashproof_prove::program::Site;
use crashproof_prove::prove::Reason;
use px86::Domain;

/// Which flushes a program has. Other than its own are experiments: with the most of them it is robust, and what holds with
/// none needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flushes {
    /// Its own.
    #[default]
    AsWritten,
    /// Its own, and a `clflush` behind every access to persistent memory.
    EveryAccess,
    /// None, not even those of libraries. Non-temporal stores are stores.
    None,
}

/// How far a program is unrolled.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often a loop goes round, not counting rounds that it must take anyway.
    pub unwind: u32,
    /// Other bounds for some loops.
    pub loops: Vec<LoopBound>,
    /// How often a function may call itself, directly or not, not counting calls that it must make anyway.
    pub recursion: u32,
    /// How many events there may be.
    pub events: usize,
    /// What `main` is given after the name of the program.
    pub arguments: Vec<String>,
    /// What the program finds on its standard input; without, reading it is not known.
    pub stdin: Option<Vec<u8>>,
    /// What becomes of the pool of libpmemobj before the program starts.
    pub pool: Pool,
    /// The persistence domain of the machine; libpmem tells the program.
    pub domain: Domain,
    /// Which flushes there are.
    pub flushes: Flushes,
    /// How many crashes in a row: from 2 on recovery crashes, too.
    pub crashes: usize,
    /// Is what recovery does left out? Robustness does not ask for it.
    pub no_recovery: bool,
    /// May a value that is not modeled be taken for any value? A proof then still is one, but a counterexample may not be.
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

/// What there is of a pool of libpmemobj before the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pool {
    /// Nothing.
    #[default]
    New,
    /// It exists, and its root object is zero.
    Created,
    /// It exists, and its root object holds anything.
    Any,
}

/// A bound for one loop: `list.c:12=5` or `append.0=5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBound {
    /// The loop.
    pub which: LoopName,
    /// How often it goes round.
    pub bound: u32,
}

/// Names a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopName {
    /// By the line its head stands on.
    Line {
        /// The file, or the end of its path.
        file: String,
        /// The line.
        line: u32,
    },
    /// By its function, and its number in there, from 0.
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

/// Why there is no program to prove anything about.
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
    /// A global that is too large, or whose first content is not understood.
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
    /// If nothing is wrong with the program but that it cannot be reasoned about: why, and where. `file` is its first source.
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
