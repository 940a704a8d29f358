//! Interprets words of persistent memory that hold file metadata: which file's size or name they are, and which files
//! were only ever written by descriptor.

use std::collections::BTreeMap;

use crashproof_protocol::{FACTS, FILES, NameChange, PmFile, name_key};
use px86::LINE_BYTES;

/// The persistent files of a check, for messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileNames {
    files: Vec<Known>,
    /// Changes of names, by the version they lead to.
    changes: BTreeMap<u64, Change>,
    /// Does only the kernel write back file contents?
    disk: bool,
}

/// A file, an extent of one, or a directory.
#[derive(Clone, Debug)]
struct Known {
    place: u64,
    room: u64,
    mapped: bool,
    name: String,
}

/// A change of a directory's names.
#[derive(Clone, Debug)]
enum Change {
    Created(String),
    Removed(String),
    Renamed(String, String),
}

/// The names that one change of a directory rebinds.
#[derive(Clone, Debug)]
struct Rebound {
    /// The version before.
    before: u64,
    /// Each name by its key, with what it stands for: 0 if it is removed.
    names: Vec<(u64, u64)>,
}

/// The names of persistent files at every version of their directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameVersions(BTreeMap<u64, Rebound>);

impl NameVersions {
    pub(crate) fn new(changes: &[NameChange]) -> NameVersions {
        let rebound = |change: &NameChange| {
            let end = |path: &[u8]| path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
            let names = change.names.iter().filter(|(_, path)| path[0] != 0);
            let names = names.map(|(file, path)| (name_key(&path[..end(path)]), *file)).collect();
            (change.version, Rebound { before: change.before, names })
        };
        NameVersions(changes.iter().map(rebound).collect())
    }

    /// The changes that lead to a version, latest first.
    fn chain(&self, version: u64) -> impl Iterator<Item = (u64, &Rebound)> {
        let first = self.0.get(&version).map(|change| (version, change));
        std::iter::successors(first, |(_, change)| {
            self.0.get(&change.before).map(|earlier| (change.before, earlier))
        })
    }

    /// What a name stands for in a version; `None` if it has not changed.
    fn binding(&self, version: u64, name: u64) -> Option<u64> {
        let mut all = self.chain(version).flat_map(|(_, change)| change.names.iter().rev());
        all.find(|(key, _)| *key == name).map(|(_, file)| *file)
    }

    /// Can a reader of these names tell two versions apart? `looked_up` is in order; 0 stands for all names.
    pub(crate) fn differ(&self, one: u64, other: u64, looked_up: &[u64]) -> bool {
        let known = |version: u64| version == 0 || self.0.contains_key(&version);
        !known(one)
            || !known(other)
            || looked_up.first() == Some(&0)
            || looked_up.iter().any(|name| self.binding(one, *name) != self.binding(other, *name))
    }

    /// Is the value a version of a directory's names?
    pub(crate) fn has(&self, value: u64) -> bool {
        self.0.contains_key(&value)
    }

    /// The latest change that leads to a version and that a reader of these names sees, as its version.
    pub(crate) fn latest_seen(&self, version: u64, looked_up: &[u64]) -> Option<u64> {
        let seen = |names: &[(u64, u64)]| names.iter().any(|(key, _)| looked_up.binary_search(key).is_ok());
        let all = looked_up.first() == Some(&0);
        self.chain(version).find(|(_, change)| all || seen(&change.names)).map(|(version, _)| version)
    }
}

/// How an access to persistent memory affects a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFact {
    /// The object, as part of a sentence.
    pub(crate) object: String,
    /// What a store of it does.
    pub(crate) stored: String,
    /// What makes it durable.
    pub(crate) sync: String,
}

fn last_part(path: &[u8]) -> String {
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    let name = path[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

impl FileNames {
    pub(crate) fn new(files: &[PmFile], changes: &[NameChange], disk: bool) -> FileNames {
        let known = |file: &PmFile| Known {
            place: file.place,
            room: file.room,
            mapped: file.mapped != 0,
            name: last_part(file.path()),
        };
        let change = |change: &NameChange| {
            let [(first, path), (_, other)] = &change.names;
            let (name, other) = (last_part(path), last_part(other));

            match (first, other.is_empty()) {
                (_, false) => Change::Renamed(name, other),
                (0, true) => Change::Removed(name),
                (_, true) => Change::Created(name),
            }
        };
        FileNames {
            files: files.iter().map(known).collect(),
            changes: changes.iter().map(|it| (it.version, change(it))).collect(),
            disk,
        }
    }

    /// The number of the file whose content, size or names are at an address.
    pub(crate) fn number_at(&self, address: u64) -> Option<usize> {
        if FACTS.contains(address) {
            return Some(((address - FACTS.base) / LINE_BYTES) as usize);
        }
        self.files.iter().position(|file| (file.place..file.place + file.room).contains(&address))
    }

    /// Is the value a version of a directory's names?
    pub(crate) fn is_version(&self, value: u64) -> bool {
        self.changes.contains_key(&value)
    }

    /// How a store of this value affects a file; `None` if it is an ordinary store to mapped memory.
    pub(crate) fn stored(&self, address: u64, bytes: u64, value: u64) -> Option<FileFact> {
        if FACTS.contains(address) {
            let file = self.files.get(self.number_at(address)?)?;
            return Some(match self.changes.get(&value) {
                Some(Change::Created(name)) => FileFact {
                    object: format!("the name `{name}`"),
                    stored: format!("creates `{name}`"),
                    sync: format!("fsync on `{name}` or its directory"),
                },
                Some(Change::Removed(name)) => FileFact {
                    object: format!("the removal of `{name}`"),
                    stored: format!("removes `{name}`"),
                    sync: "fsync on the directory".into(),
                },
                Some(Change::Renamed(from, to)) => FileFact {
                    object: format!("the new name `{to}`"),
                    stored: format!("renames `{from}` to `{to}`"),
                    sync: "fsync on the directory".into(),
                },
                None => FileFact {
                    object: format!("the size of `{}`", file.name),
                    stored: format!("makes `{}` {} bytes long", file.name, size(value)),
                    sync: format!("fsync or fdatasync on `{}`", file.name),
                },
            });
        }
        let file = self.files.get(self.number_at(address)?)?;
        let from = address - file.place;
        (FILES.contains(address) && !file.mapped).then(|| FileFact {
            object: part(file, from, bytes),
            stored: format!("writes bytes {from} to {} of `{}`", from + bytes, file.name),
            sync: format!("fsync or fdatasync on `{}`", file.name),
        })
    }

    /// The part of a file that an access is to: for what no source names.
    pub(crate) fn part(&self, address: u64, bytes: u64) -> Option<String> {
        let file = self.files.get(self.number_at(address).filter(|_| FILES.contains(address))?)?;
        Some(part(file, address - file.place, bytes))
    }

    /// What recovery learns about a file when it reads its size or a name; `None` if it reads memory.
    pub(crate) fn read(&self, address: u64, value: u64, others: &[u64]) -> Option<String> {
        let number = FACTS.contains(address).then(|| self.number_at(address))??;
        let file = self.files.get(number)?;
        let is_name = |value: &u64| self.is_version(*value);
        if is_name(&value) || others.iter().any(is_name) {
            let done = |value: u64| match self.changes.get(&value) {
                Some(Change::Created(name)) => format!("`{name}` is there"),
                Some(Change::Removed(name)) => format!("`{name}` is removed"),
                Some(Change::Renamed(from, to)) => format!("`{from}` is renamed to `{to}`"),
                None => "nothing has changed".into(),
            };
            let others: Vec<String> = others.iter().take(3).map(|other| done(*other)).collect();
            let could =
                if others.is_empty() { String::new() } else { format!("; or {}", others.join(", or ")) };
            return Some(format!("looks up names: {}{could}", done(value)));
        }
        let others: Vec<String> = others.iter().take(3).map(|other| size(*other).to_string()).collect();
        let could = if others.is_empty() {
            String::new()
        } else {
            format!("; could also find {}", others.join(" or "))
        };
        Some(format!("finds `{}` to have {} bytes{could}", file.name, size(value)))
    }

    /// Is the content at this address written back only by the kernel?
    pub(crate) fn needs_kernel(&self, address: u64) -> bool {
        FACTS.contains(address) || self.disk && FILES.contains(address)
    }
}

fn part(file: &Known, from: u64, bytes: u64) -> String {
    format!("`{}[{from}..{}]`", file.name, from + bytes)
}

fn size(word: u64) -> u64 {
    word & ((1 << PmFile::EXTENT_AT) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::MAX_PATH;

    fn change(version: u64, before: u64, names: [(u64, &str); 2]) -> NameChange {
        let names = names.map(|(file, path)| {
            let mut bytes = [0; MAX_PATH];
            bytes[..path.len()].copy_from_slice(path.as_bytes());
            (file, bytes)
        });
        NameChange { version, before, names }
    }

    #[test]
    fn versions_differ_in_the_names_that_were_looked_up() {
        let created = change(3, 0, [(1, "/d/pool"), (0, "")]);
        let scratch = change(5, 3, [(2, "/d/scratch"), (0, "")]);
        let removed = change(7, 5, [(0, "/d/scratch"), (0, "")]);
        let renamed = change(9, 7, [(0, "/d/pool"), (1, "/d/kept")]);
        let versions = NameVersions::new(&[created, scratch, removed, renamed]);
        let (pool, scratch) = (name_key(b"/d/pool"), name_key(b"/d/scratch"));
        assert!(versions.differ(0, 3, &[pool]) && !versions.differ(0, 3, &[scratch]));
        assert!(!versions.differ(3, 5, &[pool]) && !versions.differ(3, 7, &[pool]));
        assert!(versions.differ(5, 7, &[scratch]) && versions.differ(3, 9, &[pool]));
        assert!(versions.differ(3, 9, &[name_key(b"/d/kept")]));
        // All names of a directory, and what is no version.
        assert!(versions.differ(3, 5, &[0]) && versions.differ(3, 4, &[]));
        assert_eq!(versions.latest_seen(7, &[pool]), Some(3));
        assert_eq!(versions.latest_seen(9, &[pool]), Some(9));
        assert_eq!(versions.latest_seen(3, &[scratch]), None);
    }
}
