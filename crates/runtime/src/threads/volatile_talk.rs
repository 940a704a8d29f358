//! Whether threads of a program that was not rebuilt talk to each other through volatile memory.
//!
//! Rebuilt code tells of its atomic accesses, so that their orders are explored. Of other code only locks, locked
//! instructions and accesses of PM are seen: a flag that one thread sets and another one reads is not, and then "all
//! schedules" would be too much said. Such stores show afterwards: between two moments at which the turn may pass, memory that
//! threads share (the program's globals, what the first thread has on its heap and its stack) has changed although the
//! thread that ran held no lock. That is taken for talking. Results that nobody reads before the thread was joined look
//! the same; whoever wants to know more rebuilds the program.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::reason;
use crashproof_protocol::steps::AccessKind;

use super::running;
use crate::cell::RunningThreadCell;
use crate::modules;
use crate::recorder::unknown;
use crate::system::{own_thread, raw_syscall};

/// Memory that is looked at, at most.
const MOST_BYTES: usize = 4 << 20;
/// What of the first thread's stack is looked at.
const STACK_BYTES: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Globals,
    /// Of the first thread; what it does there itself is its own business.
    Private,
}

/// A part of memory, and what was there when it was last looked at.
struct Region {
    kind: Kind,
    start: usize,
    held: Vec<u64>,
}

impl Region {
    fn new(kind: Kind, start: usize, end: usize) -> Region {
        let mut region = Region { kind, start, held: vec![0; (end - start) / 8] };
        region.first_change(|_| false);
        region
    }

    /// Looks again; gives the first word that has changed and counts.
    fn first_change(&mut self, counts: impl Fn(usize) -> bool) -> Option<usize> {
        let mut found = None;
        for (index, held) in self.held.iter_mut().enumerate() {
            let address = self.start + 8 * index;
            // SAFETY: mapped memory of the program's, and only this thread runs.
            let now = unsafe { (address as *const u64).read_volatile() };
            if now != *held {
                *held = now;
                if found.is_none() && counts(address) {
                    found = Some(address);
                }
            }
        }
        found
    }
}

#[derive(Default)]
struct Watched {
    regions: Vec<Region>,
    /// How many locks each thread holds.
    locks: Vec<i32>,
    said: bool,
}

static WATCHED: RunningThreadCell<Option<Watched>> = RunningThreadCell::new(None);
static WATCHES: AtomicBool = AtomicBool::new(false);

/// A thread was created.
pub(crate) fn thread_created() {
    if modules::count() == 0 && WATCHED.with(|watched| watched.is_none()) {
        let watched = Watched { regions: regions(), ..Watched::default() };
        WATCHED.set(Some(watched));
        WATCHES.store(true, Relaxed);
    }
}

/// The running thread does something to a lock, or the like: what it stored before it did so with the locks that it held.
pub(super) fn boundary(kind: AccessKind) {
    WATCHED.with(|watched| {
        let Some(watched) = watched else { return };
        watched.look();
        let me = usize::from(running::number());
        if watched.locks.len() <= me {
            watched.locks.resize(me + 1, 0);
        }
        match kind {
            AccessKind::Acquire => watched.locks[me] += 1,
            AccessKind::Release => watched.locks[me] -= 1,
            _ => {}
        }
    });
}

/// The turn passes to another thread.
pub(super) fn turn_ends() {
    WATCHED.with(|watched| watched.iter_mut().for_each(Watched::look));
}

/// The C library wrote to memory on its own account.
pub(crate) fn changed_by_library(address: u64, bytes: u64) {
    // Threads on their way out call it, too, when it is no longer their turn.
    if !WATCHES.load(Relaxed) || own_thread() != running::kernel_number() {
        return;
    }
    WATCHED.with(|watched| {
        for region in watched.iter_mut().flat_map(|watched| &mut watched.regions) {
            for word in (address as usize..(address + bytes) as usize).step_by(8) {
                let index = word.wrapping_sub(region.start) / 8;
                if let Some(held) = region.held.get_mut(index) {
                    // SAFETY: mapped memory of the program's.
                    *held = unsafe { ((region.start + 8 * index) as *const u64).read_volatile() };
                }
            }
        }
    });
}

impl Watched {
    fn look(&mut self) {
        if self.said || !running::concurrent() {
            return;
        }
        let me = running::number();
        let holds = self.locks.get(usize::from(me)).is_some_and(|locks| *locks > 0);
        let buffers = output_buffers();
        for region in &mut self.regions {
            let own = region.kind == Kind::Private && me == 0;
            let counts = |address| !holds && !own && !buffers.iter().any(|buffer| buffer.contains(&address));
            self.said |= region.first_change(counts).is_some();
        }
        if self.said {
            unknown(reason::VOLATILE_TALK, std::ptr::null());
        }
    }
}

/// Where standard output and error collect what is printed, under a lock of the C library's own.
fn output_buffers() -> [std::ops::Range<usize>; 2] {
    unsafe extern "C" {
        static stdout: *const [usize; 16];
        static stderr: *const [usize; 16];
    }
    // SAFETY: glibc's streams have the bounds of their buffers as the eighth and ninth word.
    unsafe { [stdout, stderr].map(|stream| (*stream)[7]..(*stream)[8]) }
}

/// The program's globals, and the heap and the stack of the first thread.
fn regions() -> Vec<Region> {
    let maps = maps();
    let here = &raw const maps as usize;
    let mut regions: Vec<Region> = Vec::new();
    let mut left = MOST_BYTES;
    let (mut program, mut end_of_globals) = (None, 0);
    for line in maps.split(|byte| *byte == b'\n') {
        let Some((start, end, writable, name)) = mapping(line) else { continue };
        let program = *program.get_or_insert(name);
        let kind = match name {
            _ if !writable => continue,
            _ if name == program || name.is_empty() && start == end_of_globals => Kind::Globals,
            b"[heap]" | b"[stack]" => Kind::Private,
            _ => continue,
        };
        if kind == Kind::Globals {
            end_of_globals = end;
        }
        // Of the stack what was there when the first thread was created.
        let start = if name == b"[stack]" { (here & !7).clamp(start, end) } else { start };
        let most = if name == b"[stack]" { STACK_BYTES } else { left };
        let end = end.min(start + most.min(left));
        left -= end - start;
        regions.push(Region::new(kind, start, end));
    }
    regions
}

/// A line of the list of mappings: from where to where, whether it can be written to, and its name.
fn mapping(line: &[u8]) -> Option<(usize, usize, bool, &[u8])> {
    let text = std::str::from_utf8(line).ok()?;
    let (range, rest) = text.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let rights = rest.as_bytes();
    let writable = rights.starts_with(b"rw");
    // Rights, offset, device, number of the file; the name is the rest.
    let name = rest.splitn(5, ' ').nth(4).unwrap_or("").trim();
    Some((number(start)?, number(end)?, writable, name.as_bytes()))
}

/// The list of mappings, read past the C library.
fn maps() -> Vec<u8> {
    let mut text = vec![0; 1 << 16];
    let mut length = 0;
    // SAFETY: the path ends in zero, and there is room for what is read.
    unsafe {
        let path = c"/proc/self/maps".as_ptr() as usize;
        let open = [libc::AT_FDCWD as usize, path, libc::O_RDONLY as usize, 0, 0, 0];
        let descriptor = raw_syscall(libc::SYS_openat, open);
        if descriptor >= 0 {
            loop {
                let rest = &mut text[length..];
                let read = [descriptor as usize, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0];
                let read = raw_syscall(libc::SYS_read, read);
                if read <= 0 {
                    break;
                }
                length += read as usize;
            }
            raw_syscall(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]);
        }
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_have_rights_and_a_name() {
        let line = b"555555558000-555555559000 rw-p 00003000 00:1f 12345                      /tmp/a b";
        assert_eq!(mapping(line), Some((0x5555_5555_8000, 0x5555_5555_9000, true, &b"/tmp/a b"[..])));
        let line = b"7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0 ";
        assert_eq!(mapping(line), Some((0x7fff_f7fc_1000, 0x7fff_f7fc_3000, false, &b""[..])));
        assert_eq!(mapping(b"nonsense"), None);
    }

    #[test]
    fn a_change_is_seen_once() {
        let memory = [1u64, 2, 3];
        let start = memory.as_ptr() as usize;
        let mut region = Region::new(Kind::Globals, start, start + 24);
        assert_eq!(region.first_change(|_| true), None);
        // SAFETY: the array is there.
        unsafe { (start as *mut u64).add(1).write_volatile(7) };
        assert_eq!(region.first_change(|_| true), Some(start + 8));
        assert_eq!(region.first_change(|_| true), None);
    }
}
