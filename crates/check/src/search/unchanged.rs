//! What has not changed since it was last looked at: runs of reads whose lines surely hold what they held before.
//!
//! From one crash point to the next few lines change. A block whose reads were all found to see what they saw before is
//! good until one of its lines changes; a crash point at which no line changed that recovery reads is like the one before.

use px86::Line;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::search::blocks::{Block, BlockId};

/// What a worker knows about lines at the crash point it is at.
#[derive(Default)]
pub(crate) struct Unchanged {
    /// Is every read of a block certain, with the value that it saw?
    good: Vec<bool>,
    /// The blocks that are good, by each of their lines.
    by_line: FxHashMap<Line, Vec<BlockId>>,
    /// Other lines that recovery read since [`Unchanged::begin_walk`].
    looked_at: FxHashSet<Line>,
    /// Has a line changed that recovery reads?
    changed: bool,
}

impl Unchanged {
    pub(crate) fn is_good(&self, block: BlockId) -> bool {
        self.good.get(block as usize).copied().unwrap_or(false)
    }

    /// All reads of a block are certain, and see what they saw.
    pub(crate) fn found_good(&mut self, id: BlockId, block: &Block) {
        if self.good.len() <= id as usize {
            self.good.resize(id as usize + 1, false);
        }
        self.good[id as usize] = true;
        for line in &block.lines {
            self.by_line.entry(*line).or_default().push(id);
        }
    }

    /// Recovery reads of a line that may hold several things, or something new.
    pub(crate) fn looked_at(&mut self, line: Line) {
        self.looked_at.insert(line);
    }

    /// What a line may hold is not what it was.
    pub(crate) fn line_changed(&mut self, line: Line) {
        if let Some(blocks) = self.by_line.remove(&line) {
            self.changed |= !blocks.is_empty();
            for block in blocks {
                self.good[block as usize] = false;
            }
        }
        self.changed |= self.looked_at.contains(&line);
    }

    /// Everything recovery may do is looked at from the start.
    pub(crate) fn begin_walk(&mut self) {
        self.looked_at.clear();
        self.changed = false;
    }

    /// Has anything changed that recovery read since then?
    pub(crate) fn anything_changed(&self) -> bool {
        self.changed
    }
}
