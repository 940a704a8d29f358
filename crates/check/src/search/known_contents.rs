//! What open lines may hold after the crash being tried, computed once per line.
//!
//! Corners follow recovery into one crash after the other of the same state, and read the same open lines each time: of
//! a program that forgets flushes there are hundreds. What a line may hold depends only on the state and on what is set
//! aside, not on the corner. So it is kept while corners of one state are tried, and forgotten when more is set aside.

use std::cell::RefCell;
use std::sync::Arc;

use px86::Line;
use rustc_hash::FxHashMap;

use crate::crash::Content;
use crate::subject::Bytes;

/// What a line may hold.
pub(crate) struct Known {
    /// All of it, whatever is set aside.
    pub(crate) all: Vec<Content>,
    /// What is not set aside.
    possible: Vec<Content>,
    /// With as many stores kept as possible.
    pub(crate) kept: Bytes,
    /// With as few kept as possible.
    pub(crate) least: Content,
}

impl Known {
    /// All contents, and those that are not set aside.
    pub(crate) fn of(all: Vec<Content>, possible: Vec<Content>) -> Known {
        let least =
            possible.iter().min_by_key(|content| content.kept).expect("a line holds something").clone();
        Known { kept: Content::most_kept(&possible).bytes, least, possible, all }
    }

    /// Did reads that left these contents tell apart any that are not set aside?
    pub(crate) fn is_told_apart(&self, left: &[Content]) -> bool {
        self.possible.iter().any(|content| !left.contains(content))
    }
}

/// What is known while the corners of one crash state are tried.
#[derive(Default)]
pub(crate) struct KnownContents {
    /// `None` while nothing is kept.
    lines: RefCell<Option<Lines>>,
}

impl KnownContents {
    /// From now on these are kept; returns those kept so far.
    pub(crate) fn keep(&self, lines: Option<Lines>) -> Option<Lines> {
        self.lines.replace(lines)
    }

    /// What is known of a line, or else what `look` finds; `version` says what is set aside.
    pub(crate) fn of(&self, line: Line, version: u64, look: impl FnOnce() -> Known) -> Arc<Known> {
        let Some(lines) = &mut *self.lines.borrow_mut() else { return Arc::new(look()) };
        if lines.version != version {
            *lines = Lines { version, ..Lines::default() };
        }
        Arc::clone(lines.by_line.entry(line).or_insert_with(|| Arc::new(look())))
    }
}

#[derive(Default)]
pub(crate) struct Lines {
    /// What was set aside then.
    version: u64,
    by_line: FxHashMap<Line, Arc<Known>>,
}
