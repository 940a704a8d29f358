//! Which files on the PM path there are, where in the pool they are, and which descriptors are open for them.
//!
//! The table of files is in shared memory and only ever grows; descriptors are this process's.

#![forbid(unsafe_code)]

use std::ffi::c_int;

use crashproof_protocol::{FILES, MAX_FILES, MAX_PATH, PmFile};

pub(crate) const HUGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;

/// A file, by its place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct File(pub(crate) usize);

/// All files, and entries that are free.
pub(crate) type Table = [PmFile; MAX_FILES];

/// The part of the pool that is a file's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// First address; 0 while the file was never mapped.
    pub(crate) place: u64,
    pub(crate) room: u64,
}

pub(crate) fn extent(entry: &PmFile) -> Extent {
    Extent { place: entry.place, room: entry.room }
}

/// The path of an entry; empty if it is free.
pub(crate) fn path(entry: &PmFile) -> &[u8] {
    let end = entry.path.iter().position(|byte| *byte == 0).unwrap_or(0);
    &entry.path[..end]
}

/// The file with this path.
pub(crate) fn find(table: &Table, wanted: &[u8]) -> Option<File> {
    table.iter().position(|entry| !wanted.is_empty() && path(entry) == wanted).map(File)
}

/// The file with this path, which gets an entry if it has none; none if the table is full, or the path too long.
pub(crate) fn find_or_add(table: &mut Table, wanted: &[u8]) -> Option<File> {
    if let Some(known) = find(table, wanted) {
        return Some(known);
    }
    let free = table.iter().position(|entry| path(entry).is_empty())?;
    if wanted.len() >= MAX_PATH {
        return None;
    }
    table[free].path[..wanted.len()].copy_from_slice(wanted);
    Some(File(free))
}

/// How much room a file gets: enough to grow a little.
fn room_for(bytes: u64) -> u64 {
    if bytes >= GIANT { bytes.next_multiple_of(GIANT) } else { (2 * bytes).next_multiple_of(32 * HUGE) }
}

/// What giving a file its place came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It had it before.
    Known(u64),
    /// It has it now, and its content must be loaded.
    New(u64),
    /// The pool is full.
    None,
}

/// Gives a file a place with room for so many bytes.
pub(crate) fn place(table: &mut Table, file: File, bytes: u64) -> Place {
    if table[file.0].place != 0 {
        return Place::Known(table[file.0].place);
    }
    let taken = table.iter().map(|entry| entry.place + entry.room).max().unwrap_or(0);
    if bytes > FILES.bytes {
        return Place::None;
    }
    let room = room_for(bytes);
    let align = if room >= GIANT { GIANT } else { HUGE };
    let start = taken.max(FILES.base).next_multiple_of(align);
    if start + room > FILES.end() {
        return Place::None;
    }
    (table[file.0].place, table[file.0].room) = (start, room);
    Place::New(start)
}

/// Is a range within the place of one file?
pub(crate) fn within_one(table: &Table, start: u64, bytes: u64) -> bool {
    table.iter().any(|entry| start >= entry.place && start + bytes <= entry.place + entry.room)
}

/// Descriptors that can be followed.
const DESCRIPTORS: usize = 4096;

/// Which file a descriptor is open for.
pub(crate) struct Descriptors {
    /// The file's place in the table, and one; 0 if it is none of them.
    open: [u8; DESCRIPTORS],
    /// The descriptor opened last.
    latest: c_int,
}

impl Descriptors {
    pub(crate) const fn new() -> Descriptors {
        Descriptors { open: [0; DESCRIPTORS], latest: -1 }
    }

    pub(crate) fn file(&self, descriptor: c_int) -> Option<File> {
        let number = *self.open.get(usize::try_from(descriptor).ok()?)?;
        Some(File(usize::from(number).checked_sub(1)?))
    }

    /// A descriptor is open for a file from now on, or for none.
    pub(crate) fn follow(&mut self, descriptor: c_int, file: Option<File>) {
        if let Some(slot) = usize::try_from(descriptor).ok().and_then(|at| self.open.get_mut(at)) {
            *slot = file.map_or(0, |file| file.0 as u8 + 1);
            if file.is_some() {
                self.latest = descriptor;
            }
        }
    }

    /// Descriptors from `first` to `last` are closed.
    pub(crate) fn close(&mut self, first: usize, last: usize) {
        self.open.iter_mut().take(last.saturating_add(1)).skip(first).for_each(|slot| *slot = 0);
    }

    /// The descriptor opened last, if it is still open for one of the files.
    pub(crate) fn latest(&self) -> Option<(c_int, File)> {
        self.file(self.latest).map(|file| (self.latest, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Box<Table> {
        Box::new([PmFile { place: 0, room: 0, created: 0, path: [0; MAX_PATH] }; MAX_FILES])
    }

    #[test]
    fn files_are_known_by_their_path() {
        let mut table = table();
        assert_eq!(find(&table, b"/pm/a"), None);
        assert_eq!(find_or_add(&mut table, b"/pm/a"), Some(File(0)));
        assert_eq!(find_or_add(&mut table, b"/pm/b"), Some(File(1)));
        assert_eq!(find_or_add(&mut table, b"/pm/a"), Some(File(0)));
        assert_eq!(find(&table, b"/pm/b"), Some(File(1)));
        assert_eq!(find(&table, b""), None);
        assert_eq!(find_or_add(&mut table, &[b'x'; MAX_PATH]), None, "too long");
        (2..MAX_FILES)
            .for_each(|number| assert!(find_or_add(&mut table, format!("/{number}").as_bytes()).is_some()));
        assert_eq!(find_or_add(&mut table, b"/one too many"), None);
    }

    #[test]
    fn places_do_not_overlap_and_stay() {
        let mut table = table();
        let Place::New(first) = place(&mut table, File(0), 100) else { panic!("room") };
        let Place::New(second) = place(&mut table, File(1), GIANT) else { panic!("room") };
        assert_eq!(first, FILES.base);
        assert!(second >= first + table[0].room && second.is_multiple_of(GIANT));
        assert_eq!(place(&mut table, File(0), 1 << 40), Place::Known(first));
        assert_eq!(place(&mut table, File(2), FILES.bytes), Place::None);
        assert_eq!(place(&mut table, File(2), u64::MAX), Place::None);
        assert!(within_one(&table, first, 64) && !within_one(&table, first, second - first + 1));
    }

    #[test]
    fn descriptors_are_followed_until_closed() {
        let mut descriptors = Descriptors::new();
        descriptors.follow(5, Some(File(3)));
        descriptors.follow(-1, Some(File(3)));
        descriptors.follow(1 << 20, Some(File(3)));
        assert_eq!(descriptors.file(5), Some(File(3)));
        assert_eq!(descriptors.latest(), Some((5, File(3))));
        descriptors.follow(7, Some(File(0)));
        descriptors.close(6, usize::MAX);
        assert_eq!((descriptors.file(7), descriptors.latest()), (None, None));
        assert_eq!(descriptors.file(5), Some(File(3)));
        assert_eq!(descriptors.file(-1), None);
    }
}
