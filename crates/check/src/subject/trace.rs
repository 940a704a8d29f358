//! The trace of a recorded run.

#![allow(unsafe_code, reason = "memory shared with the checked program")]

use std::fs::File;
use std::ops::Deref;

use crashproof_protocol::Record;
use memmap2::{Mmap, MmapOptions};

/// The alignment of mappings.
pub(crate) const PAGE: u64 = 4096;

/// The records of a run.
pub struct Trace(Held);

enum Held {
    /// Mapped where the program wrote them: there may be tens of millions.
    Mapped(Mmap, usize),
    /// In our own memory.
    #[cfg_attr(not(test), expect(dead_code, reason = "only subjects without shared memory hold records"))]
    Owned(Vec<Record>),
}

impl Trace {
    /// The first records of a file, which no longer change.
    pub(crate) fn map(file: &File, length: usize) -> std::io::Result<Trace> {
        // SAFETY: later writes to the file go behind these records.
        let mapped = unsafe { MmapOptions::new().len(length * size_of::<Record>()).map(file) }?;
        Ok(Trace(Held::Mapped(mapped, length)))
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&**self) as u64
    }
}

#[cfg(test)]
impl From<Vec<Record>> for Trace {
    fn from(records: Vec<Record>) -> Trace {
        Trace(Held::Owned(records))
    }
}

impl Deref for Trace {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        match &self.0 {
            // SAFETY: that many complete records were written there, page-aligned; every byte pattern is a valid
            // record.
            Held::Mapped(mapped, length) => unsafe {
                std::slice::from_raw_parts(mapped.as_ptr().cast::<Record>(), *length)
            },
            Held::Owned(records) => records,
        }
    }
}
