//! Reads files below `/proc/self`.
//!
//! Bypasses the C library: signal handlers call it, and may have interrupted anything.

use crate::system::raw_syscall;

const PAGE: u64 = 4096;
/// Bits of a pagemap entry: the page is resident; it is swapped out; it belongs to the file.
pub(crate) const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
pub(crate) const OF_FILE: u64 = 1 << 61;

/// An open file.
pub(crate) struct Descriptor(usize);

impl Descriptor {
    pub(crate) fn open(path: &std::ffi::CStr) -> Option<Descriptor> {
        let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, libc::O_RDONLY as usize, 0, 0, 0];
        // SAFETY: the kernel only reads the path.
        let descriptor = unsafe { raw_syscall(libc::SYS_openat, arguments) };
        usize::try_from(descriptor).ok().map(Descriptor)
    }

    fn read(&self, buffer: &mut [u8], offset: Option<u64>) -> Option<usize> {
        let (call, offset) = offset.map_or((libc::SYS_read, 0), |offset| (libc::SYS_pread64, offset));
        let arguments = [self.0, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0];
        // SAFETY: the kernel writes into the buffer.
        usize::try_from(unsafe { raw_syscall(call, arguments) }).ok()
    }

    /// Calls `each` with every line until it returns false; `None` if it did, or if the file cannot be read.
    pub(crate) fn lines(&self, mut each: impl FnMut(&[u8]) -> bool) -> Option<()> {
        let mut buffer = [0; 2048];
        let mut filled = 0;
        loop {
            let more = self.read(&mut buffer[filled..], None)?;
            if more == 0 {
                return (filled == 0).then_some(());
            }
            filled += more;
            let mut start = 0;
            while let Some(length) = buffer[start..filled].iter().position(|byte| *byte == b'\n') {
                if !each(&buffer[start..start + length]) {
                    return None;
                }
                start += length + 1;
            }
            buffer.copy_within(start..filled, 0);
            filled -= start;
        }
    }

    /// For `/proc/self/pagemap`: calls `visit` with every page of a range and its entry. `false` if it cannot be read.
    pub(crate) fn entries(&self, start: u64, end: u64, mut visit: impl FnMut(u64, u64)) -> bool {
        let mut entries = [0_u8; 8 * 256];
        let mut page = start / PAGE * PAGE;
        while page < end {
            let wanted = entries.len().min(((end - page).div_ceil(PAGE) * 8) as usize);
            let Some(read) = self.read(&mut entries[..wanted], Some(page / PAGE * 8)) else { return false };
            if read < 8 {
                return false;
            }
            for entry in entries[..read].as_chunks::<8>().0 {
                visit(page, u64::from_le_bytes(*entry));
                page += PAGE;
            }
        }
        true
    }

    /// For `/proc/self/pagemap`: calls `each` with every resident part of a range. `false` if it cannot be read.
    pub(crate) fn present(&self, start: u64, end: u64, mut each: impl FnMut(u64, u64)) -> bool {
        self.entries(start, end, |page, entry| {
            if entry & (PRESENT | SWAPPED) != 0 {
                each(page.max(start), (page + PAGE).min(end));
            }
        })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        unsafe { raw_syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}
