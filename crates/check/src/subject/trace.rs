//! What a recorded run did, where the program wrote it.

#![allow(unsafe_code, reason = "memory shared with the checked program")]

use std::fs::File;
use std::ops::Deref;

use crashproof_protocol::Record;
use memmap2::{Mmap, MmapOptions};

/// Bytes that mappings begin at a multiple of.
pub(crate) const PAGE: u64 = 4096;

/// The records of a run. There may be tens of millions, so they stay where the program wrote them.
pub struct Trace {
    mapped: Mmap,
    length: usize,
}

impl Trace {
    /// The first records of a file, which nobody changes any more.
    pub(crate) fn of(file: &File, length: usize) -> std::io::Result<Trace> {
        // Safety: whoever writes to the file later writes behind these records.
        let mapped = unsafe { MmapOptions::new().len(length * size_of::<Record>()).map(file) }?;
        Ok(Trace { mapped, length })
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.length * size_of::<Record>()) as u64
    }
}

impl Deref for Trace {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        // Safety: so many whole records were written there, page-aligned; any pattern of bytes is one.
        unsafe { std::slice::from_raw_parts(self.mapped.as_ptr().cast::<Record>(), self.length) }
    }
}
