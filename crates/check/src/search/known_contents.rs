//! What open lines may hold after the crash being tried, computed once per line.
//!
//! Corners follow recovery into one crash after the other of the same state, and read the same open lines each time: of
//! a program that forgets flushes there are hundreds. What a line may hold depends only on the state and on what is set
//! aside, not on the corner. So it is kept while corners of one state are tried, and forgotten when more is set aside.

use std::cell::RefCell;
use std::sync::Arc;

use px86::Line;
use rustc_hash::FxHashMap;

use crate::crash::{Content, CrashState, Revealed};
use crate::search::worker::Worker;
use crate::subject::{Bytes, Subject};

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

#[derive(Default)]
struct Lines {
    /// What was set aside then.
    version: u64,
    by_line: FxHashMap<Line, Arc<Known>>,
}

impl<S: Subject> Worker<'_, S> {
    /// Keeps what lines may hold during some work that concerns only one crash state.
    pub(crate) fn keeping_contents<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.known_contents.lines.replace(Some(Lines::default()));
        let result = work(self);
        self.known_contents.lines.replace(outer);
        result
    }

    /// What a line may hold.
    pub(crate) fn known_contents(&self, state: &CrashState, line: Line) -> Arc<Known> {
        let version = self.set_aside.version();
        if let Some(lines) = &mut *self.known_contents.lines.borrow_mut() {
            if lines.version != version {
                *lines = Lines { version, ..Lines::default() };
            }
            return Arc::clone(lines.by_line.entry(line).or_insert_with(|| self.look_at_line(state, line)));
        }
        self.look_at_line(state, line)
    }

    fn look_at_line(&self, state: &CrashState, line: Line) -> Arc<Known> {
        let all = state.contents_given(line, &Revealed::default(), |line| self.subject.image_line(line));
        let possible = self.without_set_aside(state, line, all.clone());
        let least =
            possible.iter().min_by_key(|content| content.kept).expect("a line holds something").clone();
        Arc::new(Known { kept: Content::most_kept(&possible).bytes, least, possible, all })
    }
}
