//! Records in a mapped file: each is stored and flushed before the count says that it is there.

use std::arch::x86_64::{_mm_clflush, _mm_sfence};
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;

const SIZE: usize = 64;

unsafe extern "C" {
    fn mmap(address: *mut c_void, length: usize, rights: i32, flags: i32, file: i32, offset: i64) -> *mut c_void;
}

/// A log of records of up to 56 bytes.
pub struct Log {
    memory: &'static mut [u8],
}

impl Log {
    /// Maps a file, which is created if need be.
    pub fn open(path: &Path) -> Log {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(4096).unwrap();
        // Readable, writable, shared.
        let memory = unsafe { mmap(std::ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0) };
        Log { memory: unsafe { std::slice::from_raw_parts_mut(memory.cast(), 4096) } }
    }

    /// How many records there are.
    pub fn count(&self) -> usize {
        u64::from_le_bytes(self.memory[..8].try_into().unwrap()) as usize
    }

    /// A record.
    pub fn get(&self, index: usize) -> &[u8] {
        let at = SIZE * (index + 1);
        let length = self.memory[at] as usize;
        &self.memory[at + 8..at + 8 + length]
    }

    fn flush(&self, at: usize) {
        unsafe {
            _mm_clflush(self.memory[at..].as_ptr());
            _mm_sfence();
        }
    }

    /// Appends a record; without `flushed`, it forgets to flush the record before it counts it.
    pub fn append(&mut self, record: &[u8], flushed: bool) {
        let at = SIZE * (self.count() + 1);
        self.memory[at] = record.len() as u8;
        self.memory[at + 8..at + 8 + record.len()].copy_from_slice(record); // MARK: lost
        if flushed {
            self.flush(at);
        }
        let count = self.count() as u64 + 1;
        self.memory[..8].copy_from_slice(&count.to_le_bytes());
        self.flush(0);
    }
}

/// Appends what is missing of three records, after looking at what is there.
///
/// ```
/// assert_eq!(1 + 1, 2);
/// ```
pub fn fill(log: &mut Log, flushed: bool) {
    for index in 0..log.count() {
        assert_eq!(log.get(index), format!("record {index}").as_bytes());
    }
    while log.count() < 3 {
        let record = format!("record {}", log.count());
        log.append(record.as_bytes(), flushed);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn arithmetic() {
        assert_eq!(1 + 1, 2);
    }
}
