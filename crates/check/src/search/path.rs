//! What a recovery reads on its way down the tree, stored compactly: most of it is runs shared by many recoveries.

use std::sync::Arc;

use crate::crash::{Read, Reads};
use crate::search::blocks::Block;

/// Part of a path.
#[derive(Clone)]
enum Part {
    /// A range of a block's reads, none of which could have had another value.
    Block(Arc<Block>, u32, u32),
    Read(Read),
}

/// The reads on the way to a place in the tree.
#[derive(Clone, Default)]
pub(crate) struct Path {
    parts: Vec<Part>,
    reads: usize,
    open: usize,
}

/// A position in a path; see [`Path::truncate`].
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    parts: usize,
    reads: usize,
    open: usize,
}

impl Path {
    /// The number of reads.
    pub(crate) fn len(&self) -> usize {
        self.reads
    }

    /// Could any of them have had another value?
    pub(crate) fn any_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn push(&mut self, read: Read) {
        self.open += usize::from(read.open);
        self.reads += 1;
        self.parts.push(Part::Read(read));
    }

    /// Adds reads of a block that could not have had another value.
    pub(crate) fn push_block(&mut self, block: &Arc<Block>, from: usize, count: usize) {
        if count > 0 {
            self.reads += count;
            self.parts.push(Part::Block(Arc::clone(block), from as u32, (from + count) as u32));
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { parts: self.parts.len(), reads: self.reads, open: self.open }
    }

    /// Truncates the path to an earlier position.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        self.parts.truncate(mark.parts);
        (self.reads, self.open) = (mark.reads, mark.open);
    }

    /// All reads, in order.
    pub(crate) fn reads(&self) -> Reads {
        let mut reads = Reads::with_capacity(self.reads);
        for part in &self.parts {
            match part {
                Part::Read(read) => reads.push(*read),
                Part::Block(block, from, to) => {
                    let steps = &block.steps[*from as usize..*to as usize];
                    reads.extend(steps.iter().map(|step| Read {
                        site: step.site,
                        address: step.address(),
                        width: step.width(),
                        value: step.value,
                        open: false,
                    }));
                }
            }
        }
        reads
    }
}
