//! Makes forks inherit what every child would otherwise fault in again: the pages of code and constants.
//!
//! A fork copies no page tables for files that were never written to; each child then takes a fault for every piece of
//! code that it runs first, which together take as long as a short recovery. One page of a mapping that was written to,
//! even with what it held, makes the kernel copy them all. Where anything of this is not possible nothing changes but the
//! time a recovery takes.

use std::ffi::c_int;

/// Mappings larger than this are left alone: copying their page tables would take longer than the faults.
const LARGEST: usize = 4 << 20;
const PAGE: usize = 4096;

/// A mapping of a file, private and not writable.
struct Mapping {
    start: usize,
    end: usize,
    rights: c_int,
}

/// Called once, when the process is about to be parked.
pub(crate) fn prepare() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for mapping in maps.lines().filter_map(constant) {
        if mapping.end - mapping.start <= LARGEST {
            inherit(&mapping);
        }
    }
}

/// The mapping of a line of `/proc/self/maps`, if it is of code or constants.
fn constant(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let path = words.nth(3).filter(|path| path.starts_with('/'))?;
    if !rights.starts_with("r-") || !rights.ends_with('p') || path.ends_with("(deleted)") {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    let execute = if rights.contains('x') { libc::PROT_EXEC } else { 0 };
    Some(Mapping { start: number(start)?, end: number(end)?, rights: libc::PROT_READ | execute })
}

fn inherit(mapping: &Mapping) {
    // SAFETY: the page keeps its content, and can be read and executed all the while; only this thread runs.
    unsafe {
        let page = mapping.start as *mut _;
        if libc::mprotect(page, PAGE, mapping.rights | libc::PROT_WRITE) != 0 {
            return;
        }
        let first = mapping.start as *mut u8;
        first.write_volatile(first.read_volatile());
        libc::mprotect(page, PAGE, mapping.rights);
        libc::madvise(page, mapping.end - mapping.start, libc::MADV_POPULATE_READ);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_constants_of_files() {
        let code = "7f00-9f00 r-xp 00028000 fe:00 123 /usr/lib/libc.so.6";
        let mapping = constant(code).expect("code");
        assert_eq!((mapping.start, mapping.end), (0x7f00, 0x9f00));
        assert_eq!(mapping.rights, libc::PROT_READ | libc::PROT_EXEC);
        assert!(constant("7f00-9f00 r--p 0 fe:00 123 /usr/lib/libc.so.6").is_some());
        for other in [
            "7f00-9f00 rw-p 0 fe:00 123 /usr/lib/libc.so.6",
            "7f00-9f00 r--s 0 fe:00 123 /usr/lib/libc.so.6",
            "7f00-9f00 r-xp 0 00:00 0 [vdso]",
            "7f00-9f00 r--p 0 00:00 0 ",
        ] {
            assert!(constant(other).is_none(), "{other}");
        }
    }
}
