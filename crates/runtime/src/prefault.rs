//! Makes forks inherit the pages of code and constants that every child would otherwise fault in again, and no others.
//!
//! A fork copies no page tables for files that were never written to: each child takes a fault for every piece of code that
//! it runs first, and each fault brings sixteen pages, which are taken down again when it ends. Together that takes as
//! long as a short recovery. A private page that was written to, if only with what it held, is inherited; so the parent
//! writes to those that children run, and to those alone.
//!
//! Which ones: now and then a child *learns*. It makes every page of code a mapping of its own, so that a fault brings just
//! the page that is needed, and says at its end which are there. Where anything of this is not possible nothing
//! changes but the time a recovery takes.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

use crashproof_protocol::mode;

use crate::cell::RunningThreadCell;
use crate::session;
use crate::system::raw_syscall;

const PAGE: usize = 4096;
/// Pages of code and constants that are learned about, at most: each is a mapping of the child that learns.
const MOST: usize = 8192;
/// Recoveries that learn, by their number: early enough to pay, and not the first, which finds nothing to recover.
const LEARNING: [u32; 3] = [2, 8, 64];

/// A mapping of a file, private and not writable.
#[derive(Clone, Copy)]
struct Mapping {
    start: usize,
    end: usize,
    rights: c_int,
}

/// What children have learned, for their parent. Shared with them.
struct Learned {
    count: AtomicUsize,
    pages: [AtomicUsize; 1024],
}

static LEARNED: AtomicPtr<Learned> = AtomicPtr::new(null_mut());
static MAPPINGS: RunningThreadCell<Vec<Mapping>> = RunningThreadCell::new(Vec::new());
static RECOVERIES: AtomicU32 = AtomicU32::new(0);
static LEARNS: AtomicBool = AtomicBool::new(false);

/// Called once, while the process may still look at itself, before it is parked.
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
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, all zeros, which is what nothing learned looks like.
    let shared = unsafe { libc::mmap(null_mut(), size_of::<Learned>(), rights, flags, -1, 0) };
    if shared != libc::MAP_FAILED {
        LEARNED.store(shared.cast(), Relaxed);
    }
}

fn learned() -> Option<&'static Learned> {
    // SAFETY: null, or shared memory that stays.
    unsafe { LEARNED.load(Relaxed).as_ref() }
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

/// Called in the parent before each child.
pub(crate) fn prepare_child() {
    let recovers = session::control(|control| control.mode) == mode::RECOVER;
    let number = RECOVERIES.load(Relaxed) + u32::from(recovers);
    RECOVERIES.store(number, Relaxed);
    LEARNS.store(recovers && LEARNING.contains(&number), Relaxed);
    let Some(learned) = learned().filter(|learned| learned.count.load(Relaxed) > 0) else { return };
    let count = learned.count.swap(0, Relaxed).min(learned.pages.len());
    let pages: Vec<usize> = learned.pages[..count].iter().map(|page| page.load(Relaxed)).collect();
    // SAFETY: changes who may look at this process; no child is there that could.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
    let pagemap = Pagemap::open();
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    let Some(pagemap) = pagemap else { return };
    MAPPINGS.with(|mappings| {
        for mapping in mappings {
            let inside = |page: &&usize| (mapping.start..mapping.end).contains(*page);
            let pages: Vec<usize> = pages.iter().filter(inside).copied().collect();
            if !pages.is_empty() {
                inherit(mapping, &pagemap, &pages);
            }
        }
    });
}

/// Forgets pages of a mapping that are the file's, and can be had again. Those that were written to hold breakpoints, or
/// relocations.
fn forget(mapping: &Mapping, pagemap: &Pagemap) {
    pagemap.each(mapping, |page, entry| {
        if entry & (PRESENT | OF_FILE) == PRESENT | OF_FILE {
            // SAFETY: nothing is lost.
            unsafe { raw_syscall(libc::SYS_madvise, [page, PAGE, libc::MADV_DONTNEED as usize, 0, 0, 0]) };
        }
    });
}

/// Makes pages of a mapping this process's own, with what they hold, and forgets others.
fn inherit(mapping: &Mapping, pagemap: &Pagemap, pages: &[usize]) {
    forget(mapping, pagemap);
    let (start, bytes) = (mapping.start as *mut _, mapping.end - mapping.start);
    // SAFETY: the pages keep their content, and can be read and executed all the while; only this thread runs.
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

/// Bits of an entry of the pagemap: the page is there; it is the file's.
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;

/// Says which pages are there. Read past the C library, which the program may be in the midst of.
struct Pagemap(usize);

impl Pagemap {
    fn open() -> Option<Pagemap> {
        let path = c"/proc/self/pagemap".as_ptr() as usize;
        let flags = libc::O_CLOEXEC as usize;
        // SAFETY: the kernel only reads the path.
        let opened =
            unsafe { raw_syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, path, flags, 0, 0, 0]) };
        usize::try_from(opened).ok().map(Pagemap)
    }

    /// Calls `visit` with every page of a mapping and its entry.
    fn each(&self, mapping: &Mapping, mut visit: impl FnMut(usize, u64)) {
        let mut entries = [0_u64; 256];
        let mut page = mapping.start;
        while page < mapping.end {
            let wanted = entries.len().min((mapping.end - page) / PAGE);
            let arguments = [self.0, entries.as_mut_ptr() as usize, wanted * 8, page / PAGE * 8, 0, 0];
            // SAFETY: there is room for so many entries.
            if unsafe { raw_syscall(libc::SYS_pread64, arguments) } as usize != wanted * 8 {
                return;
            }
            for (number, entry) in entries[..wanted].iter().enumerate() {
                visit(page + number * PAGE, *entry);
            }
            page += wanted * PAGE;
        }
    }
}

impl Drop for Pagemap {
    fn drop(&mut self) {
        // SAFETY: a descriptor of our own.
        unsafe { raw_syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// Called when a child of the checker begins.
pub(crate) fn start() {
    if !LEARNS.load(Relaxed) || learned().is_none() {
        return;
    }
    let Some(pagemap) = Pagemap::open() else { return };
    MAPPINGS.with(|mappings| {
        for mapping in mappings {
            // Mappings that are advised otherwise than their neighbors are not one with them.
            for page in (mapping.start..mapping.end).step_by(2 * PAGE) {
                // SAFETY: advice about how a page will be used.
                unsafe { raw_syscall(libc::SYS_madvise, [page, PAGE, libc::MADV_RANDOM as usize, 0, 0, 0]) };
            }
            forget(mapping, &pagemap);
        }
    });
}

/// A child of the checker is about to end.
pub(crate) fn end() {
    let Some(learned) = learned().filter(|_| LEARNS.load(Relaxed)) else { return };
    let Some(pagemap) = Pagemap::open() else { return };
    let note = |page, entry| {
        let count = learned.count.load(Relaxed);
        if entry & PRESENT != 0
            && let Some(slot) = learned.pages.get(count)
        {
            slot.store(page, Relaxed);
            learned.count.store(count + 1, Relaxed);
        }
    };
    MAPPINGS.with(|mappings| mappings.iter().for_each(|mapping| pagemap.each(mapping, note)));
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
