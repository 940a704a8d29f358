//! Memory as the prover sees it: cells, each of which an access covers entirely or not at all, and lanes, the parts of
//! an access that each cover one cell.
//!
//! If all accesses have the same size, cells are what they access. Otherwise cells are as small as the smallest access
//! requires, and larger accesses have several lanes. An access with an unknown target has the same lanes at all its
//! targets, so cells are divided until that holds.

use std::collections::BTreeSet;

use px86::Line;
use rustc_hash::FxHashMap;

/// A cell, by number.
pub type CellId = usize;

/// A range of memory that accesses cover entirely or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The address of its first byte.
    pub address: u64,
    /// How many, 1 to 8.
    pub bytes: u8,
    /// Does it survive a crash?
    pub persistent: bool,
}

impl Cell {
    /// Its cache line.
    pub fn line(&self) -> Line {
        Line::containing(self.address)
    }
}

/// Part of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Offset within the access, in bytes.
    pub offset: u8,
    /// How many bytes.
    pub bytes: u8,
}

/// All cells.
#[derive(Debug, Default)]
pub struct Memory {
    cells: Vec<Cell>,
    by_address: FxHashMap<u64, CellId>,
}

/// The possible targets of an access, and its width.
pub type Footprint = (Vec<u64>, u8);

impl Memory {
    /// Divides memory so that every access covers whole cells. Also returns the lanes of each access.
    pub fn new(accesses: &[Footprint], persistent: impl Fn(u64) -> bool) -> (Memory, Vec<Vec<Lane>>) {
        let mut borders: BTreeSet<u64> = BTreeSet::new();
        for (places, bytes) in accesses {
            for &place in places {
                borders.extend([place, place + u64::from(*bytes)]);
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for (places, bytes) in accesses {
                for offset in inner_borders(&borders, places, *bytes) {
                    for place in places {
                        changed |= borders.insert(place + u64::from(offset));
                    }
                }
            }
        }
        let mut memory = Memory::default();
        let lanes = accesses
            .iter()
            .map(|(places, bytes)| {
                let cuts: Vec<u8> = inner_borders(&borders, places, *bytes).into_iter().collect();
                let starts = std::iter::once(0).chain(cuts.iter().copied());
                let ends = cuts.iter().copied().chain([*bytes]);
                let lanes: Vec<Lane> =
                    starts.zip(ends).map(|(offset, end)| Lane { offset, bytes: end - offset }).collect();
                for &place in places {
                    for lane in &lanes {
                        let address = place + u64::from(lane.offset);
                        memory.by_address.entry(address).or_insert_with(|| {
                            let persistent = persistent(address);
                            memory.cells.push(Cell { address, bytes: lane.bytes, persistent });
                            memory.cells.len() - 1
                        });
                    }
                }
                lanes
            })
            .collect();
        (memory, lanes)
    }

    /// The cell that begins at an address.
    pub fn at(&self, address: u64) -> Option<CellId> {
        self.by_address.get(&address).copied()
    }

    /// All cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }
}

/// The offsets within an access at which a border falls at any of its targets.
fn inner_borders(borders: &BTreeSet<u64>, places: &[u64], bytes: u8) -> BTreeSet<u8> {
    let mut inner = BTreeSet::new();
    for &place in places {
        inner.extend(borders.range(place + 1..place + u64::from(bytes)).map(|border| (border - place) as u8));
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_size_one_cell() {
        let (memory, lanes) = Memory::new(&[(vec![0, 8], 8), (vec![8], 8)], |_| true);
        assert_eq!(memory.cells().len(), 2);
        assert!(lanes.iter().all(|lanes| lanes.len() == 1));
    }

    #[test]
    fn a_small_access_cuts_large_ones_wherever_they_go() {
        let (memory, lanes) = Memory::new(&[(vec![0, 8], 8), (vec![4], 4), (vec![8, 16], 8)], |_| true);
        // Bytes 4..8 are accessed separately, so the first access also has two lanes at 8, and so has the third at 16.
        let two = [Lane { offset: 0, bytes: 4 }, Lane { offset: 4, bytes: 4 }];
        assert_eq!(lanes, [two.to_vec(), vec![Lane { offset: 0, bytes: 4 }], two.to_vec()]);
        assert_eq!(memory.cells().len(), 6);
    }
}
