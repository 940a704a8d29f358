//! Metadata of persistent files: sizes and names.
//!
//! Each fact is a word of persistent memory on a line of its own: a file's size with the extent that holds its content,
//! or the version of a directory's names. So facts survive crashes or are lost like any other store, independently of
//! the content, and recovery reads them when it asks for them. `fsync` and its relatives write them back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_long};

use crashproof_protocol::abi::Site;
use crashproof_protocol::{FACTS, MADE_DIRECTORY, PmFile, fact, name_key, reason, record};
use px86::{Kind, LINE_BYTES};

use crate::cell::RunningThreadCell;
use crate::file_table::{self, Directory, File};
use crate::recorder::{note, unknown};
use crate::system::kernel;
use crate::threads::running;
use crate::{access, mapped, processes, raw, session};

/// The directories this process has looked into.
static DIRECTORIES: RunningThreadCell<BTreeMap<File, Directory>> = RunningThreadCell::new(BTreeMap::new());
/// The number of files of each name that this process has created.
static CREATED: RunningThreadCell<BTreeMap<Vec<u8>, u64>> = RunningThreadCell::new(BTreeMap::new());
/// Words stored since they were last written back.
static DIRTY: RunningThreadCell<BTreeSet<File>> = RunningThreadCell::new(BTreeSet::new());

fn load(file: File, site: *const Site) -> u64 {
    let _unchecked = mapped::Unchecked::new();
    // SAFETY: the word is in the pool.
    unsafe { access::load(fact(file.0), 8, site) }
}

fn store(file: File, word: u64, site: *const Site) {
    let _unchecked = mapped::Unchecked::new();
    // SAFETY: the word is in the pool.
    unsafe { access::store(Kind::Store, fact(file.0), 8, word, site) };
    DIRTY.with(|dirty| dirty.insert(file));
}

/// A file's size, and the extent that holds its content if not its own.
pub(crate) fn size(file: File, site: *const Site) -> (u64, Option<File>) {
    let word = load(file, site);
    let size = word & ((1 << PmFile::EXTENT_AT) - 1);
    (size, ((word >> PmFile::EXTENT_AT) as usize).checked_sub(1).map(File))
}

pub(crate) fn set_size(file: File, size: u64, extent: Option<File>, site: *const Site) {
    let extent = extent.map_or(0, |extent| extent.0 as u64 + 1);
    store(file, size | extent << PmFile::EXTENT_AT, site);
}

/// Begins to write back these words, and returns whether any needed it.
fn write_back(files: impl Iterator<Item = File>, site: *const Site) -> bool {
    let mut any = false;
    let others = processes::facts_of_others();
    DIRTY.with(|dirty| {
        dirty.extend(others.iter().map(|word| File(((word - FACTS.base) / LINE_BYTES) as usize)))
    });
    for file in files {
        if DIRTY.with(|dirty| dirty.remove(&file)) {
            access::flush_implied(fact(file.0), site);
            any = true;
        }
    }
    any
}

/// Begins to write back a file's metadata: its size and its names.
pub(crate) fn write_back_file(file: File, site: *const Site) -> bool {
    write_back(naming(file).into_iter().chain([file]), site)
}

/// Makes a file's metadata durable at once, as a PM file system does before the first store through a mapping. No crash
/// happens just before: a program need not handle a file that is not mapped yet.
pub(crate) fn settle_file(file: File, site: *const Site) {
    settle(naming(file).into_iter().chain([file]), site);
}

fn settle(files: impl Iterator<Item = File>, site: *const Site) {
    if running::concurrent() {
        // Stores may still be in a store buffer.
        if write_back(files, site) {
            access::fence(Kind::StoreFence, site);
        }
        return;
    }
    for file in files {
        if DIRTY.with(|dirty| dirty.remove(&file)) {
            note(record::SETTLED, fact(file.0), 0, site);
        }
    }
}

/// The directories that name a file, and their ancestors: a durable file must be reachable.
fn naming(file: File) -> Vec<File> {
    let mut all = vec![file];
    let mut next = 0;
    while let Some(named) = all.get(next).copied() {
        DIRECTORIES.with(|directories| {
            let naming = directories.iter().filter(|(_, directory)| directory.names_file(named));
            let new: Vec<File> = naming.map(|(number, _)| *number).filter(|it| !all.contains(it)).collect();
            all.extend(new);
        });
        next += 1;
    }
    all.split_off(1)
}

/// Begins to write back a directory's names.
pub(crate) fn write_back_directory(directory: File, site: *const Site) -> bool {
    write_back([directory].into_iter(), site)
}

/// Begins to write back everything.
pub(crate) fn write_back_all(site: *const Site) -> bool {
    let dirty: Vec<File> = DIRTY.with(|dirty| dirty.iter().copied().collect());
    write_back(dirty.into_iter(), site)
}

pub(crate) fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..end.max(1).min(path.len())]
}

fn directory_key(path: &[u8]) -> u64 {
    file_table::key(&[path, b"directory"])
}

fn base_key(path: &[u8]) -> u64 {
    file_table::key(&[path, b"on disk"])
}

/// The entry for a key, added if missing; `None` if the table is full.
fn entry(key: u64, path: &[u8], site: *const Site) -> Option<(File, bool)> {
    let found = session::files(|tables| file_table::find_or_add(tables, key, path));
    if found.is_none() {
        unknown(reason::TOO_MANY_FILES, site);
    }
    found
}

/// The entry of a directory.
pub(crate) fn directory(path: &[u8], site: *const Site) -> Option<File> {
    entry(directory_key(path), path, site).map(|(file, _)| file)
}

/// The entry of a directory that has one.
pub(crate) fn known_directory(path: &[u8]) -> Option<File> {
    let key = directory_key(path);
    session::files(|tables| file_table::taken(tables).iter().position(|entry| entry.key == key)).map(File)
}

/// Looks into a directory: its names depend on the crash.
fn look_into(directory: File, site: *const Site) {
    let known = DIRECTORIES.with(|known| known.get(&directory).map(|known| known.version));
    // Another process may have changed its names in the meantime.
    if known.is_none() || processes::were_several() {
        let version = load(directory, site);
        if known == Some(version) {
            return;
        }
        let now = session::files(|tables| Directory::at(tables, version));
        DIRECTORIES.with(|known| known.insert(directory, now));
    }
}

/// What is on disk at a path: the kind of file, and its size.
pub(crate) fn on_disk(path: &[u8]) -> Option<(u32, u64)> {
    status_on_disk(path).map(|(mode, size)| (mode & libc::S_IFMT, size))
}

/// The mode and size of what is on disk at a path.
fn status_on_disk(path: &[u8]) -> Option<(u32, u64)> {
    let path = CString::new(path).ok()?;
    // SAFETY: all-zero bytes are valid; the kernel fills the structure in.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let answer = libc::syscall(
            libc::SYS_newfstatat,
            libc::AT_FDCWD as c_long,
            path.as_ptr(),
            &raw mut status,
            0 as c_long,
        );
        (answer == 0).then_some((status.st_mode, status.st_size as u64))
    }
}

/// Whether a directory on disk was created during the check; `None` if there is none.
fn was_made(path: &[u8]) -> Option<bool> {
    let (mode, _) = status_on_disk(path)?;
    (mode & libc::S_IFMT == libc::S_IFDIR).then_some(mode & MADE_DIRECTORY == MADE_DIRECTORY)
}

/// Does the directory exist now? Removed ones stay on disk for recoveries that still find them.
pub(crate) fn is_directory(path: &[u8], site: *const Site) -> bool {
    was_made(path).is_some_and(|made| is_there(path, made, site))
}

/// Does a directory that is on disk exist now?
fn is_there(path: &[u8], made: bool, site: *const Site) -> bool {
    let changed = known_directory(parent(path)).and_then(|directory| {
        let looked_into = DIRECTORIES.with(|known| known.contains_key(&directory));
        if !looked_into && !may_have_changed(path) {
            return None;
        }
        look_into(directory, site);
        observe_name(path, site);
        DIRECTORIES.with(|known| known.get(&directory).and_then(|it| it.get(path)))
    });
    changed.map_or(!made, |it| it.is_some())
}

/// May the name mean something other than on disk because of operations before the crash? If not, nothing has to be
/// read to resolve it.
fn may_have_changed(path: &[u8]) -> bool {
    let crashes = session::control(|control| control.crashes);
    session::files(|tables| file_table::is_in_changes(tables, path, crashes))
}

/// Is the path a directory that is on disk but does not exist now, or below one?
pub(crate) fn is_hidden(path: &[u8], site: *const Site) -> bool {
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut ways = ends.chain([path.len()]).map(|end| &path[..end]);
    ways.any(|way| was_made(way).is_some_and(|made| !is_there(way, made, site)))
}

/// Was the directory created during the check, or may its name have been reassigned?
pub(crate) fn is_followed_directory(path: &[u8]) -> bool {
    was_made(path) == Some(true) || known_directory(path).is_some()
}

/// Records that a directory exists; it may already be on disk. `false` if it cannot be created.
pub(crate) fn make_directory(path: &[u8], mode: u32, site: *const Site) -> bool {
    let Ok(name) = CString::new(path) else { return false };
    // SAFETY: creates a directory, or finds that an earlier run has.
    unsafe {
        let name = name.as_ptr() as usize;
        if was_made(path).is_none() {
            if kernel(libc::SYS_mkdir, [name, mode as usize, 0, 0, 0, 0]) < 0 {
                return false;
            }
            let mode = status_on_disk(path).map_or(mode, |(mode, _)| mode & 0o7777);
            kernel(libc::SYS_chmod, [name, (mode | MADE_DIRECTORY) as usize, 0, 0, 0, 0]);
        }
    }
    let Some(made) = directory(path, site) else { return false };
    // It is empty, even if a crash lost the removals from an earlier directory of this name.
    DIRECTORIES.with(|known| known.insert(made, Directory::default()));
    store(made, 0, site);
    settle([made].into_iter(), site);
    change(&[(path, Some(made))], site)
}

/// The file that existed before the check.
fn base(path: &[u8], site: *const Site) -> Option<File> {
    let (kind, size) = on_disk(path)?;
    if kind == libc::S_IFDIR {
        return None;
    }
    let (file, new) = entry(base_key(path), path, site)?;
    if new {
        session::set_durable(fact(file.0), &size.to_le_bytes());
        // This process may already have a copy of the page.
        // SAFETY: the word is in the pool.
        unsafe { raw::poke(fact(file.0), 8, size) };
    }
    Some(file)
}

/// Is it the file that had this path before the check?
pub(crate) fn is_base(entry: &PmFile) -> bool {
    entry.key == base_key(entry.path())
}

/// The names whose lookups were recorded.
static OBSERVED: RunningThreadCell<BTreeSet<u64>> = RunningThreadCell::new(BTreeSet::new());
/// Do lookups not count, because the program does the same whatever they find?
static UNOBSERVED: RunningThreadCell<bool> = RunningThreadCell::new(false);

/// While this is held, the program does not learn whether a name exists.
pub(crate) struct Unobserved(bool);

impl Unobserved {
    pub(crate) fn new() -> Unobserved {
        let before = UNOBSERVED.get();
        UNOBSERVED.set(true);
        Unobserved(before)
    }
}

impl Drop for Unobserved {
    fn drop(&mut self) {
        UNOBSERVED.set(self.0);
    }
}

/// Records that what follows may depend on whether a name exists; 0 for all names.
fn observe(key: u64, site: *const Site) {
    if !UNOBSERVED.get() && OBSERVED.with(|observed| observed.insert(key)) {
        note(record::NAME, 0, key, site);
    }
}

/// The same for the name of a path.
fn observe_name(path: &[u8], site: *const Site) {
    if may_have_changed(path) {
        observe(name_key(path), site);
    }
}

/// The file that a path currently names.
pub(crate) fn lookup(path: &[u8], site: *const Site) -> Option<File> {
    observe_name(path, site);
    let directory = directory(parent(path), site)?;
    look_into(directory, site);
    let changed = DIRECTORIES.with(|known| known.get(&directory).and_then(|it| it.get(path)));
    changed.unwrap_or_else(|| base(path, site))
}

/// Does the path involve a file of the table?
pub(crate) fn is_known(path: &[u8], site: *const Site) -> bool {
    let (own, inside) = session::files(|tables| {
        let taken = file_table::taken(tables);
        let directory = directory_key(parent(path));
        let own = taken.iter().any(|entry| entry.path() == path && entry.key != directory_key(path));
        (own, taken.iter().position(|entry| entry.key == directory).map(File))
    });
    let Some(directory) = inside.filter(|_| !own) else { return own };
    look_into(directory, site);
    DIRECTORIES.with(|known| known.get(&directory).is_some_and(|it| it.get(path).is_some()))
}

/// Rebinds names, all in one directory, in a single step. `false` if the table is full.
fn change(names: &[(&[u8], Option<File>)], site: *const Site) -> bool {
    let Some(directory) = directory(parent(names[0].0), site) else { return false };
    look_into(directory, site);
    let crashes = session::control(|control| control.crashes);
    let version = DIRECTORIES.with(|known| {
        let now = known.get_mut(&directory)?;
        session::files(|tables| now.change(tables, crashes, names)).then_some(now.version)
    });
    match version {
        Some(version) => store(directory, version, site),
        None => unknown(reason::TOO_MANY_FILES, site),
    }
    version.is_some()
}

pub(crate) fn create(path: &[u8], site: *const Site) -> Option<File> {
    let directory = directory(parent(path), site)?;
    look_into(directory, site);
    // Numbered per name within the run: recoveries that do the same use the same entry.
    let number = CREATED.with(|created| {
        let count = created.entry(path.to_vec()).or_default();
        *count += 1;
        *count
    });
    let crashes = session::control(|control| control.crashes);
    // A file of this name that `--setup` or another process has created may still be there under a new name.
    let others = crashes == 0 || processes::were_several();
    let version = DIRECTORIES.with(|known| known.get(&directory).map_or(0, |known| known.version));
    let version = if others { version } else { 0 };
    let parts = [number, u64::from(crashes), version].map(u64::to_le_bytes);
    let key = file_table::key(&[path, b"created", &parts[0], &parts[1], &parts[2]]);
    let (file, _) = entry(key, path, site)?;
    change(&[(path, Some(file))], site).then_some(file)
}

/// A new extent for a file's content.
pub(crate) fn new_extent(file: File, before: Option<File>, site: *const Site) -> Option<File> {
    let crashes = session::control(|control| control.crashes);
    let (key, path) = session::files(|tables| {
        let before = before.map_or(0, |before| tables.files[before.0].key);
        let file = &tables.files[file.0];
        let parts = [&file.key.to_le_bytes()[..], b"extent", &before.to_le_bytes(), &crashes.to_le_bytes()];
        (file_table::key(&parts), file.path().to_vec())
    });
    entry(key, &path, site).map(|(file, _)| file)
}

/// Removes a name.
pub(crate) fn remove(path: &[u8], site: *const Site) {
    change(&[(path, None)], site);
}

/// Adds a name to a file.
pub(crate) fn link(path: &[u8], file: File, site: *const Site) {
    change(&[(path, Some(file))], site);
}

/// Renames a file. Between two directories this is durable at once, the new name first: file systems keep such a rename
/// atomic, and one word cannot express it.
pub(crate) fn rename(from: &[u8], to: &[u8], file: File, site: *const Site) {
    if parent(from) == parent(to) {
        change(&[(from, None), (to, Some(file))], site);
        return;
    }
    for (path, now) in [(to, Some(file)), (from, None)] {
        change(&[(path, now)], site);
        write_back_all(site);
        access::fence(Kind::StoreFence, site);
    }
}

/// The paths in a directory that have changed since the check began, whether present or removed.
pub(crate) fn changed_names(path: &[u8], site: *const Site) -> Vec<(Vec<u8>, bool)> {
    let Some(directory) = known_directory(path) else { return Vec::new() };
    look_into(directory, site);
    observe(0, site);
    DIRECTORIES.with(|known| {
        let names = known.get(&directory).map(Directory::names).into_iter().flatten();
        names.map(|(path, file)| (path.to_vec(), file.is_some())).collect()
    })
}
