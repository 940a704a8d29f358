//! Memory that is prepared once and then only read, or changed here and there: what children should not inherit page by page.
//!
//! A fork copies an entry for every page of anonymous memory that is there, and the end of the child takes each down again. Of
//! a private mapping of a file that nobody wrote to it copies none: a child gets those pages when it first looks at
//! them. So what is prepared moves into such a file, at the address where it is.

use std::ffi::c_void;

use crate::proc_self::Descriptor;
use crate::system::raw_syscall;

const PAGE: usize = 4096;

/// Moves pages into a file of their own. Where that is not possible they stay what they are.
///
/// # Safety
///
/// The range is whole pages of private memory that can be read and written, and only this thread runs.
pub(crate) unsafe fn settle(start: usize, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: as for this function. Holes of the file are zeros, as pages that are not there are.
    unsafe {
        let file = libc::memfd_create(c"crashproof-settled".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return;
        }
        if libc::ftruncate(file, bytes as libc::off_t) == 0 && copy_present(file, start, bytes) {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let how = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
            raw_syscall(libc::SYS_mmap, [start, bytes, rights as usize, how as usize, file as usize, 0]);
        }
        raw_syscall(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
    }
}

/// Writes the pages of a range that are there to a file, each where it is in the range.
unsafe fn copy_present(file: i32, start: usize, bytes: usize) -> bool {
    let Some(pagemap) = Descriptor::open(c"/proc/self/pagemap") else { return false };
    let mut whole = true;
    whole &= pagemap.present(start as u64, (start + bytes) as u64, |from, to| {
        let (from, to) = (from as usize, to as usize);
        let write = [file as usize, from, to - from, from - start, 0, 0];
        // SAFETY: the kernel only reads the page.
        let written = unsafe { raw_syscall(libc::SYS_pwrite64, write) };
        whole &= written == (to - from) as isize;
    });
    whole
}

/// Gives back the part of the stack that is not in use, and settles what fills it up above every frame: the checker
/// moves the stack by a long variable of the environment.
pub(crate) fn settle_stack() {
    let mark = 0_u8;
    let here = &raw const mark as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut stack = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        (rest.ends_with("[stack]") && (start..end).contains(&here)).then_some((start, end))
    });
    let Some((start, end)) = stack.next() else { return };
    // This function's frame, what it calls, and what is just below the stack pointer.
    const IN_USE: usize = 4 * PAGE;
    let page = here & !(PAGE - 1);
    if let Some(bytes) = page.checked_sub(start + IN_USE) {
        // SAFETY: pages of the stack below every frame, which hold nothing any more.
        unsafe { libc::madvise(start as *mut c_void, bytes, libc::MADV_DONTNEED) };
    }
    // SAFETY: pages of the stack, all of which are there above a frame; what is in use of them is not touched.
    unsafe {
        let is_filling = |page: &usize| {
            let words = std::slice::from_raw_parts(*page as *const u64, PAGE / 8);
            words[0] & 0xff != 0 && words.iter().all(|word| *word == words[0])
        };
        let mut above = (page + PAGE..end).step_by(PAGE);
        if let Some(first) = above.find(is_filling) {
            let last = std::iter::successors(Some(first), |page| Some(page + PAGE));
            let pages = last.take_while(|page| *page < end && is_filling(page)).count();
            settle(first, pages * PAGE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(bytes: usize) -> *mut u8 {
        let (rights, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory.
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, how, -1, 0).cast() }
    }

    #[test]
    fn what_settles_holds_what_it_held() {
        const BYTES: usize = 8 * PAGE;
        let memory = anonymous(BYTES);
        assert_ne!(memory.cast(), libc::MAP_FAILED);
        // SAFETY: memory of this test.
        unsafe {
            memory.add(3 * PAGE + 5).write(7);
            memory.add(6 * PAGE).write(9);
            settle(memory as usize, BYTES);
            let all = std::slice::from_raw_parts(memory, BYTES);
            let expected = |at: usize| match at {
                at if at == 3 * PAGE + 5 => 7,
                at if at == 6 * PAGE => 9,
                _ => 0,
            };
            assert!(all.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
            memory.write(1);
            assert_eq!(memory.read(), 1);
            libc::munmap(memory.cast(), BYTES);
        }
    }
}
