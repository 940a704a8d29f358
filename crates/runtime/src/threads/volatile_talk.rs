//! Whether threads of a program that was not rebuilt talk to each other through volatile memory.
//!
//! Rebuilt code tells of its atomic accesses, so that their orders are explored. Of other code only locks, locked
//! instructions and accesses of PM are seen: a flag that one thread sets and another one reads is not, and then "all
//! schedules" would be too much said. Such stores show afterwards: between two moments at which the turn may pass, memory that
//! threads share (the program's globals) has changed although the thread that ran held no lock. That is taken for talking. Results that nobody reads before the thread was joined look the same; whoever wants
//! to know more rebuilds the program. Heap and stacks are not looked at: what is a thread's own there nobody can tell.

use crashproof_protocol::reason;
use crashproof_protocol::steps::AccessKind;

use super::running;
use crate::cell::RunningThreadCell;
use crate::modules;
use crate::recorder::unknown;
use crate::system::raw_syscall;

/// Memory that is looked at, at most.
const MOST_BYTES: usize = 4 << 20;

/// A part of memory, and what was there when it was last looked at.
struct Region {
    start: usize,
    held: Vec<u64>,
}

impl Region {
    fn new(start: usize, end: usize) -> Region {
        let mut region = Region { start, held: vec![0; (end - start) / 8] };
        region.changes();
        region
    }

    /// Looks again: has anything changed?
    fn changes(&mut self) -> bool {
        let mut changed = false;
        for (index, held) in self.held.iter_mut().enumerate() {
            // SAFETY: mapped memory of the program's, and only this thread runs.
            let now = unsafe { ((self.start + 8 * index) as *const u64).read_volatile() };
            changed |= std::mem::replace(held, now) != now;
        }
        changed
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

/// A thread was created.
pub(crate) fn thread_created() {
    if modules::count() == 0 && WATCHED.with(|watched| watched.is_none()) {
        let watched = Watched { regions: regions(), ..Watched::default() };
        WATCHED.set(Some(watched));
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

impl Watched {
    fn look(&mut self) {
        if self.said || !running::concurrent() {
            return;
        }
        let holds = self.locks.get(usize::from(running::number())).is_some_and(|locks| *locks > 0);
        for region in &mut self.regions {
            self.said |= region.changes() && !holds;
        }
        if self.said {
            unknown(reason::VOLATILE_TALK, std::ptr::null());
        }
    }
}

/// The program's globals.
fn regions() -> Vec<Region> {
    let maps = maps();
    let mut path = [0; 4096];
    let program = program_path(&mut path);
    let mut regions: Vec<Region> = Vec::new();
    let (mut left, mut end_of_globals) = (MOST_BYTES, 0);
    for line in maps.split(|byte| *byte == b'\n') {
        let Some((start, end, writable, name)) = mapping(line) else { continue };
        // What is zero at first comes behind the rest, without a name.
        if writable && (name == program || name.is_empty() && start == end_of_globals) {
            end_of_globals = end;
            let end = end.min(start + left);
            left -= end - start;
            regions.push(Region::new(start, end));
        }
    }
    regions
}

/// The file of the program, as the list of mappings names it.
fn program_path(buffer: &mut [u8]) -> &[u8] {
    let path = c"/proc/self/exe".as_ptr() as usize;
    let link = [libc::AT_FDCWD as usize, path, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0];
    // SAFETY: the path ends in zero, and there is room for the name.
    let length = unsafe { raw_syscall(libc::SYS_readlinkat, link) };
    &buffer[..length.max(0) as usize]
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
        let mut memory = [1u64, 2, 3];
        let start = memory.as_mut_ptr() as usize;
        let mut region = Region::new(start, start + 24);
        assert!(!region.changes());
        // SAFETY: the array is there.
        unsafe { (start as *mut u64).add(1).write_volatile(7) };
        assert!(region.changes());
        assert!(!region.changes());
    }
}
