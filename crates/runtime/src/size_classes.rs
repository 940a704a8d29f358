//! The persistent heap's size classes: an allocator that keeps nothing in PM.
//!
//! The heap is divided among size classes, so that an address says how large its block is, and all that is known of a
//! class after a crash is how far it has been handed out. What was free before the crash is lost, but never handed out
//! twice.

#![forbid(unsafe_code)]

use crashproof_protocol::{HEAP, HEAP_CLASSES};

/// How much of the heap each class has.
pub(crate) const CLASS_BYTES: u64 = HEAP.bytes / HEAP_CLASSES as u64;

/// The sizes: sixteens up to 128, four to each doubling up to 512 KiB, then doublings.
static SIZES: [u64; HEAP_CLASSES] = {
    let mut sizes = [0; HEAP_CLASSES];
    let mut class = 0;
    while class < HEAP_CLASSES {
        sizes[class] = match class {
            0..8 => 16 * (class as u64 + 1),
            8..56 => (32 << ((class - 8) / 4)) * (5 + (class as u64 - 8) % 4),
            _ => 1 << (20 + class - 56),
        };
        class += 1;
    }
    sizes
};

/// Where the part of a class begins.
pub(crate) fn base(class: usize) -> u64 {
    HEAP.base + class as u64 * CLASS_BYTES
}

fn class_of(block: u64) -> usize {
    ((block - HEAP.base) / CLASS_BYTES) as usize
}

/// How large a block of the heap is.
pub(crate) fn block_bytes(block: u64) -> u64 {
    SIZES[class_of(block)]
}

/// A block that is handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    /// For one that was never handed out before, and so is zero: its class, whose end has moved.
    pub(crate) fresh: Option<usize>,
}

/// What was given back, by class.
pub(crate) struct FreeBlocks([Vec<u64>; HEAP_CLASSES]);

impl FreeBlocks {
    pub(crate) const fn new() -> FreeBlocks {
        FreeBlocks([const { Vec::new() }; HEAP_CLASSES])
    }

    /// Hands out a block; none if there is no room. `ends` says how far each class has been handed out.
    pub(crate) fn take(
        &mut self,
        bytes: usize,
        align: usize,
        ends: &mut [u64; HEAP_CLASSES],
    ) -> Option<Block> {
        // Blocks of a power of two are aligned to their size.
        let wanted = if align > 16 { bytes.max(align).checked_next_power_of_two()? } else { bytes.max(1) };
        let class = SIZES.iter().position(|size| *size >= wanted as u64)?;
        if let Some(address) = self.0[class].pop() {
            return Some(Block { address, fresh: None });
        }
        let address = ends[class].max(base(class));
        let end = address + SIZES[class];
        if end > base(class) + CLASS_BYTES {
            return None;
        }
        ends[class] = end;
        Some(Block { address, fresh: Some(class) })
    }

    pub(crate) fn give_back(&mut self, block: u64) {
        self.0[class_of(block)].push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_and_blocks_fit_their_class() {
        assert!(SIZES.is_sorted());
        assert_eq!((SIZES[0], SIZES[7], SIZES[8], SIZES[55], SIZES[56]), (16, 128, 160, 512 << 10, 1 << 20));
        assert!(SIZES.iter().all(|size| *size <= CLASS_BYTES && size.is_multiple_of(16)));
    }

    #[test]
    fn an_address_says_its_size() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        for bytes in [0, 1, 16, 17, 100, 1000, 5000, 1 << 20] {
            let block = free.take(bytes, 16, &mut ends).expect("room");
            assert!(block_bytes(block.address) >= bytes as u64);
            assert!(block.fresh.is_some() && HEAP.contains(block.address));
        }
    }

    #[test]
    fn blocks_do_not_overlap_and_are_used_again() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        let one = free.take(40, 16, &mut ends).expect("room");
        let other = free.take(40, 16, &mut ends).expect("room");
        assert_eq!(other.address - one.address, block_bytes(one.address));
        free.give_back(one.address);
        assert_eq!(free.take(48, 16, &mut ends), Some(Block { address: one.address, fresh: None }));
    }

    #[test]
    fn a_crash_loses_what_was_free_and_hands_out_nothing_twice() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        let before = free.take(40, 16, &mut ends).expect("room");
        free.give_back(before.address);
        let after = FreeBlocks::new().take(40, 16, &mut ends).expect("room");
        assert!(after.address > before.address);
    }

    #[test]
    fn alignment_and_limits() {
        let (mut free, mut ends) = (FreeBlocks::new(), [0; HEAP_CLASSES]);
        for align in [32, 64, 4096] {
            let block = free.take(10, align, &mut ends).expect("room");
            assert!(block.address.is_multiple_of(align as u64));
        }
        assert_eq!(free.take(usize::MAX, 16, &mut ends), None);
        assert_eq!(free.take(usize::MAX, 64, &mut ends), None);
        let class = HEAP_CLASSES - 1;
        let largest = SIZES[class] as usize;
        let count = CLASS_BYTES / SIZES[class];
        assert_eq!((0..=count).filter(|_| free.take(largest, 16, &mut ends).is_some()).count() as u64, count);
    }
}
