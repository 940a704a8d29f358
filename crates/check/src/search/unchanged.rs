//! What has not changed since it was last examined: runs of reads whose lines certainly hold the same content as
//! before.
//!
//! Few lines change from one crash point to the next. A block whose reads all saw the expected values remains good
//! until one of its lines changes; a crash point at which no line read by recovery has changed is like the previous
//! one.

use px86::Line;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::search::blocks::{Block, BlockId, BlockIds, add_id};

/// A worker's knowledge about lines at its current crash point.
#[derive(Default)]
pub(crate) struct Unchanged {
    /// Is every read of a block certain to see its recorded value?
    good: Vec<bool>,
    /// The good blocks, by each of their lines.
    by_line: FxHashMap<Line, BlockIds>,
    /// Other lines read by recovery since [`Unchanged::begin_walk`].
    looked_at: FxHashSet<Line>,
    /// Has a line changed that recovery reads?
    changed: bool,
}

impl Unchanged {
    pub(crate) fn is_good(&self, block: BlockId) -> bool {
        self.good.get(block as usize).copied().unwrap_or(false)
    }

    /// All reads of a block are certain to see their recorded values.
    pub(crate) fn found_good(&mut self, id: BlockId, block: &Block) {
        if self.good.len() <= id as usize {
            self.good.resize(id as usize + 1, false);
        }
        self.good[id as usize] = true;
        for line in &block.lines {
            add_id(self.by_line.entry(*line), id);
        }
    }

    /// Recovery reads a line that may hold several contents, or a new one.
    pub(crate) fn looked_at(&mut self, line: Line) {
        self.looked_at.insert(line);
    }

    /// The possible contents of a line have changed.
    pub(crate) fn line_changed(&mut self, line: Line) {
        if let Some(blocks) = self.by_line.remove(&line) {
            self.changed = true;
            for block in blocks.as_slice() {
                self.good[*block as usize] = false;
            }
        }
        self.changed |= self.looked_at.contains(&line);
    }

    /// A walk from the root of the tree begins.
    pub(crate) fn begin_walk(&mut self) {
        self.looked_at.clear();
        self.changed = false;
    }

    /// Has anything changed that recovery read since then?
    pub(crate) fn anything_changed(&self) -> bool {
        self.changed
    }
}
