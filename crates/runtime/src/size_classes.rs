//! The persistent heap's allocator, by size classes; it keeps no metadata in PM.
//!
//! The heap is divided among size classes, so that an address determines the size of its block, and all that survives a
//! crash is how far each class has been handed out. Blocks that were free before the crash leak, but are never handed
//! out twice.
//!
//! Blocks are laid out as by glibc's malloc: eight bytes of each are its header, sizes are multiples of sixteen, blocks
//! are adjacent, and the first of a class begins in the middle of a cache line. So objects of 64 bytes eventually
//! straddle two lines. `--layouts` shifts the start of the classes.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crashproof_protocol::{HEAP, HEAP_CLASSES};

/// The part of the heap reserved for each class.
pub(crate) const CLASS_BYTES: u64 = HEAP.bytes / HEAP_CLASSES as u64;

/// Overhead per block, as in glibc: a block of 64 bytes holds 56.
const HEADER: u64 = 8;
/// The alignment malloc guarantees.
const STEP: u64 = 16;
/// Offset of a class's first block in its cache line, as in glibc.
const FIRST: u64 = 32;
/// glibc maps blocks of at least this size individually, so they are zero.
pub(crate) const MAPPED: u64 = 128 << 10;

/// The distances between blocks: multiples of sixteen up to 656 bytes, two per doubling up to 64 KiB, then powers of
/// two; beyond the multiples of sixteen always sixteen more than a round number, because of the header.
static STRIDES: [u64; HEAP_CLASSES] = {
    let mut strides = [0; HEAP_CLASSES];
    let mut class = 0;
    while class < HEAP_CLASSES {
        strides[class] = match class {
            0..40 => 32 + 16 * class as u64,
            40..53 => {
                let step = class as u64 - 40;
                (if step.is_multiple_of(2) { 768 } else { 1024 } << (step / 2)) + STEP
            }
            _ => (1 << (17 + class - 53)) + STEP,
        };
        class += 1;
    }
    strides
};

/// The start of a class's part of the heap.
pub(crate) fn base(class: usize) -> u64 {
    HEAP.base + class as u64 * CLASS_BYTES
}

/// The start of its first block in a given layout.
fn first(class: usize, layout: u32) -> u64 {
    base(class) + (FIRST + u64::from(layout) * STEP) % 64
}

fn class_of(block: u64) -> usize {
    ((block - HEAP.base) / CLASS_BYTES) as usize
}

/// The start of the block that contains an address.
fn start_of(address: u64, layout: u32) -> Option<u64> {
    let class = class_of(address);
    let offset = address.checked_sub(first(class, layout))?;
    Some(first(class, layout) + offset / STRIDES[class] * STRIDES[class])
}

/// The number of bytes from an address to the end of its block.
pub(crate) fn block_bytes(address: u64, layout: u32) -> u64 {
    let end = start_of(address, layout).map(|start| start + STRIDES[class_of(address)] - HEADER);
    end.map_or(0, |end| end.saturating_sub(address))
}

/// A block being handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    /// If it was never handed out before: its class, whose end has moved.
    pub(crate) fresh: Option<usize>,
}

/// Why a block cannot be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misuse {
    /// It has been freed already.
    Twice,
    /// No such block exists.
    NoBlock,
}

/// Freed blocks by class.
pub(crate) struct FreeBlocks {
    by_class: [Vec<u64>; HEAP_CLASSES],
    all: BTreeSet<u64>,
}

impl FreeBlocks {
    pub(crate) const fn new() -> FreeBlocks {
        FreeBlocks { by_class: [const { Vec::new() }; HEAP_CLASSES], all: BTreeSet::new() }
    }

    /// Allocates a block; `None` if there is no room. `ends` says how far each class has been handed out.
    pub(crate) fn take(
        &mut self,
        bytes: usize,
        align: usize,
        layout: u32,
        ends: &mut [u64; HEAP_CLASSES],
    ) -> Option<Block> {
        // An aligned block begins somewhere inside a block large enough for any offset.
        let slack = if align as u64 > STEP { align as u64 } else { 0 };
        let wanted = (bytes.max(1) as u64).checked_add(HEADER)?.checked_add(slack)?;
        let class = STRIDES.iter().position(|stride| *stride >= wanted)?;
        let aligned = |start: u64| start.next_multiple_of((align as u64).max(STEP));
        if let Some(start) = self.by_class[class].pop() {
            self.all.remove(&start);
            return Some(Block { address: aligned(start), fresh: None });
        }
        let start = ends[class].max(first(class, layout));
        let end = start + STRIDES[class];
        if end > base(class) + CLASS_BYTES {
            return None;
        }
        ends[class] = end;
        Some(Block { address: aligned(start), fresh: Some(class) })
    }

    /// Frees a block; `ends` says what has ever been handed out.
    pub(crate) fn give_back(
        &mut self,
        address: u64,
        layout: u32,
        ends: &[u64; HEAP_CLASSES],
    ) -> Result<(), Misuse> {
        let class = class_of(address);
        let start = start_of(address, layout).filter(|_| address < ends[class]).ok_or(Misuse::NoBlock)?;
        if start != address && STRIDES[class] <= 2 * STEP {
            return Err(Misuse::NoBlock);
        }
        if !self.all.insert(start) {
            return Err(Misuse::Twice);
        }
        self.by_class[class].push(start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ends = [u64; HEAP_CLASSES];

    fn take(free: &mut FreeBlocks, bytes: usize, align: usize, ends: &mut Ends) -> Block {
        free.take(bytes, align, 0, ends).expect("room")
    }

    #[test]
    fn sizes_grow_and_blocks_fit_their_class() {
        assert!(STRIDES.is_sorted());
        assert!(STRIDES.iter().all(|size| *size + 64 <= CLASS_BYTES && size.is_multiple_of(STEP)));
        assert_eq!((STRIDES[0], STRIDES[39], STRIDES[40]), (32, 656, 784));
        assert!(STRIDES[HEAP_CLASSES - 1] > 128 << 20);
    }

    #[test]
    fn an_address_says_its_size() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        for bytes in [0, 1, 16, 17, 100, 1000, 5000, 1 << 20] {
            let block = take(&mut free, bytes, 16, &mut ends);
            assert!(block_bytes(block.address, 0) >= bytes as u64, "{bytes}");
            assert!(block.fresh.is_some() && HEAP.contains(block.address));
        }
    }

    #[test]
    fn blocks_lie_as_glibc_lays_them_out() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        let offsets = |bytes: usize, free: &mut FreeBlocks, ends: &mut Ends| -> Vec<u64> {
            (0..4).map(|_| take(free, bytes, 16, ends).address % 64).collect()
        };
        assert_eq!(offsets(56, &mut free, &mut ends), [32, 32, 32, 32], "blocks of 64 bytes");
        assert_eq!(offsets(64, &mut free, &mut ends), [32, 48, 0, 16], "of 80");
        assert_eq!(offsets(128, &mut free, &mut ends), [32, 48, 0, 16]);
        assert_eq!(offsets(192, &mut free, &mut ends), [32, 48, 0, 16]);
        let mut other = FreeBlocks::new();
        assert_eq!(other.take(56, 16, 1, &mut [0; HEAP_CLASSES]).map(|block| block.address % 64), Some(48));
    }

    #[test]
    fn blocks_do_not_overlap_and_are_used_again() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        let one = take(&mut free, 40, 16, &mut ends);
        let other = take(&mut free, 40, 16, &mut ends);
        assert_eq!(other.address - one.address, 48);
        assert_eq!(free.give_back(one.address, 0, &ends), Ok(()));
        assert_eq!(take(&mut free, 33, 16, &mut ends), Block { address: one.address, fresh: None });
    }

    #[test]
    fn giving_back_twice_or_nothing_shows() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        let block = take(&mut free, 40, 16, &mut ends).address;
        assert_eq!(free.give_back(block + 48, 0, &ends), Err(Misuse::NoBlock), "never handed out");
        assert_eq!(free.give_back(block, 0, &ends), Ok(()));
        assert_eq!(free.give_back(block, 0, &ends), Err(Misuse::Twice));
    }

    #[test]
    fn a_crash_loses_what_was_free_and_hands_out_nothing_twice() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        let before = take(&mut free, 40, 16, &mut ends);
        assert_eq!(free.give_back(before.address, 0, &ends), Ok(()));
        let after = take(&mut FreeBlocks::new(), 40, 16, &mut ends);
        assert!(after.address > before.address);
    }

    #[test]
    fn alignment_and_limits() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        for align in [32, 64, 4096] {
            let block = take(&mut free, 10, align, &mut ends);
            assert!(block.address.is_multiple_of(align as u64));
            assert!(block_bytes(block.address, 0) >= 10);
            assert_eq!(free.give_back(block.address, 0, &ends), Ok(()));
        }
        assert_eq!(free.take(usize::MAX, 16, 0, &mut ends), None);
        assert_eq!(free.take(usize::MAX, 64, 0, &mut ends), None);
    }
}
