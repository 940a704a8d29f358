//! Makes children inherit exactly those pages of code and constants that every child would otherwise fault in again.
//!
//! A fork copies no page tables for files that were never written to: each child takes a fault for every piece of code
//! that it runs first, and each fault maps sixteen pages, which are unmapped again when the child ends. Together that
//! takes as long as a short recovery. A private page that was written to, even with its own content, is inherited; so
//! the parent writes to the pages that children use, and only to those.
//!
//! To find out which, an occasional child *learns*: it gives every page of code a mapping of its own, so that a fault
//! maps just the page needed, and reports at its end which pages are resident. If any of this is impossible, nothing
//! changes except the time a recovery takes.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

use crashproof_protocol::mode;

use crate::cell::RunningThreadCell;
use crate::learned::Learned;
use crate::proc_self::{Descriptor, OF_FILE, PRESENT};
use crate::session;
use crate::system::raw_syscall;

const PAGE: usize = 4096;
/// The most pages of code and constants to learn about: each is a mapping of the learning child.
const MOST: usize = 8192;
/// The recoveries that learn, by number: early enough to pay off, but not the first, which has nothing to recover.
const LEARNING: [u32; 3] = [2, 8, 64];
/// Before which recoveries the parent begins to learn which pages it runs itself: what it faults in, with all that
/// comes along, every child would inherit.
const PARENT_LEARNING: [u32; 2] = [4, 66];

/// A mapping of a file, private and not writable.
#[derive(Clone, Copy)]
struct Mapping {
    start: usize,
    end: usize,
    rights: c_int,
}

/// Pages that children used, for their parent.
static LEARNED: Learned = Learned::new();
static MAPPINGS: RunningThreadCell<Vec<Mapping>> = RunningThreadCell::new(Vec::new());
static RECOVERIES: AtomicU32 = AtomicU32::new(0);
static LEARNS: AtomicBool = AtomicBool::new(false);
/// Does the parent learn which pages it runs itself, until its next child?
static PARENT_LEARNS: AtomicBool = AtomicBool::new(false);

/// Called once, while the process may still inspect itself, before it is parked.
pub(crate) fn prepare() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut room = MOST;
    let fits = |mapping: &Mapping| {
        let pages = (mapping.end - mapping.start) / PAGE;
        let fits = pages <= room;
        room -= if fits { pages } else { 0 };
        fits
    };
    let mappings: Vec<Mapping> = maps.lines().filter_map(constant).filter(fits).collect();
    MAPPINGS.set(mappings);
    LEARNED.prepare();
}

/// The mapping on a line of `/proc/self/maps`, if it is of code or constants.
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

/// Called in the parent before each child.
pub(crate) fn prepare_child() {
    let number = RECOVERIES.load(Relaxed);
    let learns = LEARNS.load(Relaxed) || PARENT_LEARNS.load(Relaxed);
    if number > 1 + PARENT_LEARNING[PARENT_LEARNING.len() - 1] && !learns {
        // Nothing is written to any more: the page would be copied for every child.
        return;
    }
    let recovers = session::control(|control| control.mode) == mode::RECOVER;
    let number = number + u32::from(recovers);
    RECOVERIES.store(number, Relaxed);
    LEARNS.store(recovers && LEARNING.contains(&number), Relaxed);
    let mut pages = LEARNED.take();
    let (began, begins) =
        (PARENT_LEARNS.load(Relaxed), recovers && LEARNED.is_there() && PARENT_LEARNING.contains(&number));
    if pages.is_empty() && !began && !begins {
        return;
    }
    PARENT_LEARNS.store(begins, Relaxed);
    // SAFETY: changes who may look at this process; no child is there that could.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
    let pagemap = open_pagemap();
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    let Some(pagemap) = pagemap else { return };
    if began {
        pages.extend(pages_of_parent(&pagemap));
    }
    MAPPINGS.with(|mappings| {
        for mapping in mappings.iter() {
            let inside = |page: &&usize| (mapping.start..mapping.end).contains(*page);
            let pages: Vec<usize> = pages.iter().filter(inside).copied().collect();
            if !pages.is_empty() {
                inherit(mapping, &pagemap, &pages);
            }
        }
        if begins {
            mappings.iter().for_each(|mapping| learn_about(mapping, &pagemap));
        }
    });
}

/// The pages that the parent has faulted in since it began to learn, of which each was a mapping of its own.
fn pages_of_parent(pagemap: &Descriptor) -> Vec<usize> {
    let mut pages = Vec::new();
    MAPPINGS.with(|mappings| {
        for mapping in mappings {
            pagemap.entries(mapping.start as u64, mapping.end as u64, |page, entry| {
                if entry & (PRESENT | OF_FILE) == PRESENT | OF_FILE {
                    pages.push(page as usize);
                }
            });
            let advice = [mapping.start, mapping.end - mapping.start, libc::MADV_NORMAL as usize, 0, 0, 0];
            // SAFETY: advice about how pages will be used.
            unsafe { raw_syscall(libc::SYS_madvise, advice) };
        }
    });
    pages
}

/// Makes each page a mapping of its own, and forgets it: a fault then brings that page, and no other.
fn learn_about(mapping: &Mapping, pagemap: &Descriptor) {
    // Mappings that are advised otherwise than their neighbors are not one with them.
    for page in (mapping.start..mapping.end).step_by(2 * PAGE) {
        // SAFETY: advice about how a page will be used.
        unsafe { raw_syscall(libc::SYS_madvise, [page, PAGE, libc::MADV_RANDOM as usize, 0, 0, 0]) };
    }
    forget(mapping, pagemap);
}

/// Opens the page map, which says which pages are resident.
fn open_pagemap() -> Option<Descriptor> {
    Descriptor::open(c"/proc/self/pagemap")
}

/// Drops a mapping's pages that are still the file's and can be mapped again. Pages that were written to hold
/// breakpoints or relocations.
fn forget(mapping: &Mapping, pagemap: &Descriptor) {
    pagemap.entries(mapping.start as u64, mapping.end as u64, |page, entry| {
        if entry & (PRESENT | OF_FILE) == PRESENT | OF_FILE {
            // SAFETY: nothing is lost.
            unsafe {
                raw_syscall(libc::SYS_madvise, [page as usize, PAGE, libc::MADV_DONTNEED as usize, 0, 0, 0])
            };
        }
    });
}

/// Makes pages of a mapping private copies with the same content, and drops others.
fn inherit(mapping: &Mapping, pagemap: &Descriptor, pages: &[usize]) {
    forget(mapping, pagemap);
    let (start, bytes) = (mapping.start as *mut _, mapping.end - mapping.start);
    // SAFETY: the pages keep their content, and stay readable and executable throughout; only this thread runs.
    unsafe {
        if libc::mprotect(start, bytes, mapping.rights | libc::PROT_WRITE) != 0 {
            return;
        }
        for page in pages {
            let first = *page as *mut u8;
            first.write_volatile(first.read_volatile());
        }
        libc::mprotect(start, bytes, mapping.rights);
    }
}

/// Does the child that was forked last learn? Asked in the parent.
pub(crate) fn child_learns() -> bool {
    LEARNS.load(Relaxed)
}

/// Called first when a child of the checker begins.
pub(crate) fn start() {
    if !LEARNS.load(Relaxed) || !LEARNED.is_there() {
        return;
    }
    let Some(pagemap) = open_pagemap() else { return };
    MAPPINGS.with(|mappings| mappings.iter().for_each(|mapping| learn_about(mapping, &pagemap)));
}

/// Called when a child of the checker is about to end.
pub(crate) fn end() {
    if !LEARNS.load(Relaxed) {
        return;
    }
    let Some(pagemap) = open_pagemap() else { return };
    let note = |page, entry| {
        if entry & PRESENT != 0 {
            LEARNED.push(page as usize);
        }
    };
    MAPPINGS.with(|mappings| {
        for mapping in mappings {
            pagemap.entries(mapping.start as u64, mapping.end as u64, note);
        }
    });
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
