//! Where a pair is kept.
use std::os::fd::AsRawFd;

extern "C" {
    fn mmap(at: *mut u8, length: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
}

/// The pair in a file of this name.
pub fn open(name: &str) -> &'static mut pair::Pair {
    let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(name);
    let file = file.expect("a file");
    file.set_len(4096).expect("a size");
    // SAFETY: a page of a file, which stays mapped; all bytes are numbers.
    unsafe { &mut *mmap(std::ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0).cast() }
}
