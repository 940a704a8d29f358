//! Stores common runs of reads once: recoveries mostly read what others have read, in the same order.
//!
//! A run is cut into blocks at certain addresses rather than after a fixed count. So two runs that read the same from
//! some point on have the same blocks from there on, even if one began with an additional read; equal blocks are
//! shared.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use crashproof_protocol::Record;
use px86::Line;
use rustc_hash::FxHashMap;

/// A block number. Numbers are never reused.
pub(crate) type BlockId = u32;

/// Numbers of blocks: mostly one, of which there are as many as there are behaviors.
pub(crate) enum BlockIds {
    One(BlockId),
    #[expect(clippy::box_collection, reason = "two words instead of three, for something rare")]
    More(Box<Vec<BlockId>>),
}

impl BlockIds {
    pub(crate) fn as_slice(&self) -> &[BlockId] {
        match self {
            BlockIds::One(id) => std::slice::from_ref(id),
            BlockIds::More(ids) => ids,
        }
    }

    fn add(&mut self, id: BlockId) {
        match self {
            BlockIds::One(first) => *self = BlockIds::More(Box::new(vec![*first, id])),
            BlockIds::More(ids) => ids.push(id),
        }
    }

    /// Retains some of them; are any left?
    fn retain(&mut self, wanted: impl Fn(&BlockId) -> bool) -> bool {
        match self {
            BlockIds::One(id) => wanted(id),
            BlockIds::More(ids) => {
                ids.retain(wanted);
                !ids.is_empty()
            }
        }
    }
}

/// Adds a number to those of an entry.
pub(crate) fn add_id<K>(entry: Entry<'_, K, BlockIds>, id: BlockId) {
    entry.and_modify(|ids| ids.add(id)).or_insert(BlockIds::One(id));
}

/// Maximum number of reads per block.
const LONGEST: usize = 256;
/// On average one in this many addresses ends a block; a power of two.
const USUAL: u64 = 64;

/// A read and the value it saw: only the address, width, value and site of the record count.
pub(crate) type Step = Record;

/// Consecutive reads, each with the one value it saw.
pub(crate) struct Block {
    pub(crate) steps: Box<[Step]>,
    /// The distinct lines they read.
    pub(crate) lines: Box<[Line]>,
}

impl Block {
    fn bytes(&self) -> usize {
        size_of_val(&*self.steps) + size_of_val(&*self.lines) + size_of::<Block>() + 64
    }
}

/// All blocks.
#[derive(Default)]
pub(crate) struct Blocks {
    /// `None` once the last reference to a block is gone.
    blocks: Vec<Option<Arc<Block>>>,
    by_content: FxHashMap<u64, BlockIds>,
    /// For each block, the one that last followed it, so that common endings are found without hashing their reads.
    after: Vec<BlockId>,
    bytes: usize,
}

/// Are two reads the same, with the same value?
pub(crate) fn same(one: &Step, other: &Step) -> bool {
    one.value == other.value && one.address() == other.address() && one.width() == other.width()
}

fn ends_block(step: &Step) -> bool {
    let mixed = step.address().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32).is_multiple_of(USUAL)
}

/// Extends a hash by one more read.
pub(crate) fn hash_step(before: u64, step: &Step) -> u64 {
    let place = step.address() << 4 ^ u64::from(step.width());
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    mix(mix(before, place), step.value)
}

impl Blocks {
    pub(crate) fn get(&self, block: BlockId) -> &Arc<Block> {
        self.blocks[block as usize].as_ref().expect("a block that a run refers to")
    }

    /// Their approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Cuts a run of reads into blocks.
    pub(crate) fn cut(&mut self, steps: &[Step]) -> Vec<BlockId> {
        let mut blocks: Vec<BlockId> = Vec::with_capacity(steps.len() / USUAL as usize + 1);
        let mut rest = steps;
        while !rest.is_empty() {
            let last = blocks.last().copied();
            let block = last.and_then(|last| self.guess(last, rest)).unwrap_or_else(|| {
                let cut = rest.iter().take(LONGEST).position(ends_block);
                let length = cut.map_or(LONGEST.min(rest.len()), |index| index + 1);
                self.of(&rest[..length])
            });
            if let Some(last) = last {
                self.after[last as usize] = block;
            }
            rest = &rest[self.get(block).steps.len()..];
            blocks.push(block);
        }
        blocks
    }

    /// The block that last followed another one, if these reads begin with it and would be cut there.
    fn guess(&self, last: BlockId, steps: &[Step]) -> Option<BlockId> {
        let id = self.after[last as usize];
        let block = self.blocks.get(id as usize)?.as_ref()?;
        let length = block.steps.len();
        let is_cut = length == steps.len() || length == LONGEST || block.steps.last().is_some_and(ends_block);
        (is_cut && steps.get(..length)? == &*block.steps).then_some(id)
    }

    /// The block with these reads, at least one.
    fn of(&mut self, steps: &[Step]) -> BlockId {
        let hash = steps.iter().fold(steps.len() as u64, hash_step);
        let known = self.by_content.get(&hash).map_or(&[][..], BlockIds::as_slice);
        let equal = |id: &&BlockId| {
            let block = self.blocks[**id as usize].as_ref();
            block.is_some_and(|block| *block.steps == *steps)
        };
        if let Some(id) = known.iter().find(equal) {
            return *id;
        }
        let id = self.blocks.len() as BlockId;
        add_id(self.by_content.entry(hash), id);
        let mut lines: Vec<Line> = Vec::new();
        for step in steps {
            let line = Line::containing(step.address());
            if lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        lines.sort_unstable();
        lines.dedup();
        let block = Block { steps: steps.into(), lines: lines.into() };
        self.bytes += block.bytes();
        self.blocks.push(Some(Arc::new(block)));
        self.after.push(BlockId::MAX);
        id
    }

    /// Drops all blocks except these, by number.
    pub(crate) fn keep(&mut self, wanted: &[bool]) {
        for (id, block) in self.blocks.iter_mut().enumerate() {
            if !wanted.get(id).copied().unwrap_or(false)
                && let Some(gone) = block.take()
            {
                self.bytes -= gone.bytes();
            }
        }
        let blocks = &self.blocks;
        self.by_content.retain(|_, ids| ids.retain(|id| blocks[*id as usize].is_some()));
    }

    /// How many numbers were given.
    pub(crate) fn count(&self) -> usize {
        self.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::ARENA;
    use px86::Kind;

    fn read(number: u64) -> Step {
        Record::new(Kind::Load as u8, ARENA.base + 64 * number, 8, number, 0, 1)
    }

    #[test]
    fn runs_that_end_alike_share_their_blocks() {
        let mut blocks = Blocks::default();
        let long: Vec<Step> = (0..2000).map(read).collect();
        let one = blocks.cut(&long);
        let before = blocks.bytes();
        let other = blocks.cut(&long[1..]);
        assert_eq!(one[one.len() - 5..], other[other.len() - 5..]);
        assert!(blocks.bytes() - before < before / 4, "one block at most is new");
        let steps: usize = one.iter().map(|id| blocks.get(*id).steps.len()).sum();
        assert_eq!(steps, long.len());
        blocks.keep(&vec![false; blocks.count()]);
        assert_eq!(blocks.bytes(), 0);
    }
}
