//! The table of persistent files, extents and directories: their places in the pool, their names, and the descriptors
//! open for them.
//!
//! The tables are in shared memory and only ever grow; descriptors and the current state of directories are per
//! process.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;

use crashproof_protocol::{FILES, MAX_CHANGES, MAX_FILES, MAX_PATH, NameChange, PmFile, Tables};

pub(crate) const HUGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;
/// Room for a small file: it may grow, and address space is free.
const SMALL: u64 = 256 << 20;

/// A file, an extent or a directory, by its index in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct File(pub(crate) usize);

/// The part of the pool that belongs to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// First address; 0 while it has no content.
    pub(crate) place: u64,
    pub(crate) room: u64,
    /// How many bytes have ever been used.
    pub(crate) used: u64,
}

pub(crate) fn extent(entry: &PmFile) -> Extent {
    Extent { place: entry.place, room: entry.room, used: entry.used }
}

/// The entries in use.
pub(crate) fn taken(tables: &Tables) -> &[PmFile] {
    &tables.files[..(tables.file_count as usize).min(MAX_FILES)]
}

/// A key that identifies something across all runs; never 0.
pub(crate) fn key(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.iter().copied().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    (hash ^ hash >> 29) | 1
}

/// Finds the entry with this key or adds it, and returns whether it was added; `None` if the table is full or the path
/// is too long.
pub(crate) fn find_or_add(tables: &mut Tables, key: u64, path: &[u8]) -> Option<(File, bool)> {
    if let Some(known) = taken(tables).iter().position(|entry| entry.key == key) {
        return Some((File(known), false));
    }
    let free = tables.file_count as usize;
    if free >= MAX_FILES || path.len() >= MAX_PATH {
        return None;
    }
    tables.files[free].key = key;
    tables.files[free].path[..path.len()].copy_from_slice(path);
    tables.file_count += 1;
    Some((File(free), true))
}

/// How much room to reserve for a file so that it can grow.
fn room_for(bytes: u64) -> u64 {
    if bytes >= GIANT {
        (2 * bytes).next_multiple_of(GIANT)
    } else {
        (2 * bytes).max(SMALL).next_multiple_of(HUGE)
    }
}

/// The result of assigning a file its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It already had one.
    Known(u64),
    /// Just assigned; its content must be loaded.
    New(u64),
    /// The pool is full.
    None,
}

/// Assigns a file a place with room for this many bytes.
pub(crate) fn place(tables: &mut Tables, file: File, bytes: u64) -> Place {
    tables.files[file.0].used = tables.files[file.0].used.max(bytes);
    if tables.files[file.0].place != 0 {
        return Place::Known(tables.files[file.0].place);
    }
    let end = taken(tables).iter().map(|entry| entry.place + entry.room).max().unwrap_or(0);
    if bytes > FILES.bytes / 2 {
        return Place::None;
    }
    let room = room_for(bytes);
    let align = if room >= GIANT { GIANT } else { HUGE };
    let start = end.max(FILES.base).next_multiple_of(align);
    if start + room > FILES.end() {
        return Place::None;
    }
    (tables.files[file.0].place, tables.files[file.0].room) = (start, room);
    Place::New(start)
}

/// Is a range within one file's place?
pub(crate) fn within_one(tables: &Tables, start: u64, bytes: u64) -> bool {
    taken(tables).iter().any(|entry| start >= entry.place && start + bytes <= entry.place + entry.room)
}

/// Name changes, oldest first.
fn changes(tables: &Tables) -> &[NameChange] {
    &tables.changes[..(tables.change_count as usize).min(MAX_CHANGES)]
}

/// Does any change concern a name that a run after this many crashes may find?
pub(crate) fn is_in_changes(tables: &Tables, path: &[u8], crashes: u32) -> bool {
    let is_it =
        |name: &[u8; MAX_PATH]| name.starts_with(path) && name.get(path.len()).is_none_or(|end| *end == 0);
    let all = changes(tables);
    let recorded = (tables.recorded_changes as usize).min(all.len());
    // Changes by the previous recovery may have survived.
    let found = if crashes > 1 { all } else { &all[..recorded] };
    found.iter().any(|change| change.names.iter().any(|(_, name)| is_it(name)))
}

/// Does the table contain anything below a directory?
pub(crate) fn has_below(tables: &Tables, path: &[u8]) -> bool {
    let is_below =
        |entry: &PmFile| entry.path().strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"));
    taken(tables).iter().any(is_below)
}

/// Names, each with its file, or `None`.
type Names = BTreeMap<Vec<u8>, Option<File>>;

/// A directory's current state.
#[derive(Default)]
pub(crate) struct Directory {
    /// The value of its word.
    pub(crate) version: u64,
    /// Names that have changed since the check began.
    names: Names,
}

impl Directory {
    /// The directory with this version.
    pub(crate) fn at(tables: &Tables, version: u64) -> Directory {
        let changes = changes(tables);
        let mut directory = Directory { version, names: Names::new() };
        let mut at = version;
        while let Some(change) = changes.iter().find(|change| at != 0 && change.version == at) {
            for (file, path) in &change.names {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(0);
                // A later change takes precedence, and was seen before.
                if end > 0 && !directory.names.contains_key(&path[..end]) {
                    directory.names.insert(path[..end].to_vec(), (*file as usize).checked_sub(1).map(File));
                }
            }
            at = change.before;
        }
        directory
    }

    /// What a name stands for, if it has changed.
    pub(crate) fn get(&self, path: &[u8]) -> Option<Option<File>> {
        self.names.get(path).copied()
    }

    /// Is the file named by any of the changed names?
    pub(crate) fn names_file(&self, file: File) -> bool {
        self.names.values().any(|it| *it == Some(file))
    }

    /// The names that changed.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&[u8], Option<File>)> {
        self.names.iter().map(|(path, file)| (path.as_slice(), *file))
    }

    /// Rebinds names, which gives the directory a new version. `false` if the table is full.
    pub(crate) fn change(
        &mut self,
        tables: &mut Tables,
        crashes: u32,
        names: &[(&[u8], Option<File>)],
    ) -> bool {
        let mut parts = vec![self.version.to_le_bytes().to_vec(), crashes.to_le_bytes().to_vec()];
        for (path, file) in names {
            let file = file.map_or(0, |file| tables.files[file.0].key);
            parts.extend([path.to_vec(), file.to_le_bytes().to_vec()]);
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let version = key(&parts);
        let count = tables.change_count as usize;
        let known = changes(tables).iter().any(|change| change.version == version);
        if !known && (count >= MAX_CHANGES || names.iter().any(|(path, _)| path.len() >= MAX_PATH)) {
            return false;
        }
        if !known {
            let mut change = NameChange { version, before: self.version, names: [(0, [0; MAX_PATH]); 2] };
            for ((to, room), (path, file)) in change.names.iter_mut().zip(names) {
                *to = file.map_or(0, |file| file.0 as u64 + 1);
                room[..path.len()].copy_from_slice(path);
            }
            tables.changes[count] = change;
            tables.change_count += 1;
        }
        self.version = version;
        for (path, file) in names {
            self.names.insert(path.to_vec(), *file);
        }
        true
    }
}

/// The number of descriptors that can be followed.
const DESCRIPTORS: usize = 4096;

/// Which file a descriptor is open for.
pub(crate) struct Descriptors {
    /// The file's index in the table plus one; 0 if the file is not followed.
    open: [u16; DESCRIPTORS],
    /// The most recently opened descriptor.
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

    /// Records that a descriptor is open for a file, or for none.
    pub(crate) fn follow(&mut self, descriptor: c_int, file: Option<File>) {
        if let Some(slot) = usize::try_from(descriptor).ok().and_then(|at| self.open.get_mut(at)) {
            *slot = file.map_or(0, |file| file.0 as u16 + 1);
            if file.is_some() {
                self.latest = descriptor;
            }
        }
    }

    /// Records that descriptors `first` to `last` are closed.
    pub(crate) fn close(&mut self, first: usize, last: usize) {
        self.open.iter_mut().take(last.saturating_add(1)).skip(first).for_each(|slot| *slot = 0);
    }

    /// The most recently opened descriptor, if it is still open for a followed file.
    pub(crate) fn latest(&self) -> Option<(c_int, File)> {
        self.file(self.latest).map(|file| (self.latest, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Box<Tables> {
        // Built on the heap entry by entry: a cheaper way would need unsafe code.
        let file = PmFile { place: 0, room: 0, used: 0, mapped: 0, key: 0, path: [0; MAX_PATH] };
        let change = NameChange { version: 0, before: 0, names: [(0, [0; MAX_PATH]); 2] };
        let files: Box<[PmFile; MAX_FILES]> = vec![file; MAX_FILES].try_into().expect("so many");
        let changes: Box<[NameChange; MAX_CHANGES]> = vec![change; MAX_CHANGES].try_into().expect("so many");
        Box::new(Tables {
            file_count: 0,
            change_count: 0,
            recorded_changes: 0,
            files: *files,
            changes: *changes,
        })
    }

    fn with_tables(test: fn(&mut Tables)) {
        // The tables are too large for a test's stack.
        let thread = std::thread::Builder::new().stack_size(1 << 30).spawn(move || test(&mut tables()));
        thread.expect("a thread").join().expect("the test");
    }

    #[test]
    fn files_are_known_by_their_key() {
        with_tables(|tables| {
            assert_eq!(find_or_add(tables, key(&[b"/pm/a"]), b"/pm/a"), Some((File(0), true)));
            assert_eq!(find_or_add(tables, key(&[b"/pm/b"]), b"/pm/b"), Some((File(1), true)));
            assert_eq!(find_or_add(tables, key(&[b"/pm/a"]), b"/pm/a"), Some((File(0), false)));
            assert_eq!(find_or_add(tables, 5, &[b'x'; MAX_PATH]), None, "too long");
        });
    }

    #[test]
    fn places_do_not_overlap_and_stay() {
        with_tables(|tables| {
            for number in 0..3u64 {
                find_or_add(tables, number + 1, b"x");
            }
            let Place::New(first) = place(tables, File(0), 100) else { panic!("room") };
            let Place::New(second) = place(tables, File(1), 33 << 30) else { panic!("room") };
            assert_eq!(first, FILES.base);
            assert!(second >= first + tables.files[0].room && second.is_multiple_of(GIANT));
            assert_eq!(place(tables, File(0), 1 << 40), Place::Known(first));
            assert_eq!(place(tables, File(2), u64::MAX), Place::None);
            assert!(within_one(tables, first, 64) && !within_one(tables, first, second - first + 1));
        });
    }

    #[test]
    fn a_directory_is_what_its_version_says() {
        with_tables(|tables| {
            let (file, _) = find_or_add(tables, 7, b"/d/a").expect("room");
            let mut now = Directory::default();
            assert!(now.change(tables, 0, &[(b"/d/a", Some(file))]));
            let created = now.version;
            assert!(now.change(tables, 0, &[(b"/d/a", None), (b"/d/b", Some(file))]));
            let before = Directory::at(tables, created);
            assert_eq!((before.get(b"/d/a"), before.get(b"/d/b")), (Some(Some(file)), None));
            let after = Directory::at(tables, now.version);
            assert_eq!((after.get(b"/d/a"), after.get(b"/d/b")), (Some(None), Some(Some(file))));
            // The same change again makes no new version; after a crash it does.
            let mut again = Directory::default();
            assert!(again.change(tables, 0, &[(b"/d/a", Some(file))]) && again.version == created);
            let mut later = Directory::default();
            assert!(later.change(tables, 1, &[(b"/d/a", Some(file))]) && later.version != created);
            assert_eq!(tables.change_count, 3);
        });
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
