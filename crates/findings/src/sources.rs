//! The text of source files, each read once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

/// Larger files are not shown: they are not written by hand.
const MOST_BYTES: u64 = 16 << 20;

/// Is it a header of crashproof, the compiler, the system or Rust's libraries?
pub fn is_of_others(file: &str) -> bool {
    // What a compiler brings along is found beside it, wherever that is.
    const PARTS: [&str; 3] = ["/lib/clang/", "/lib/llvm-", "/.cargo/registry/"];
    is_of_rust(file)
        || file.starts_with("/usr/")
        || file.starts_with("/lib/")
        || file.starts_with("/lib64/")
        || file.ends_with("crashproof.h")
        || PARTS.iter().any(|part| file.contains(part))
}

/// Is it of the libraries that come with Rust?
pub fn is_of_rust(file: &str) -> bool {
    ["/rustc/", "/rustlib/"].iter().any(|part| file.contains(part))
}

/// A source file that could be read.
#[derive(Debug)]
pub struct Source {
    /// Its text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// When it was last changed.
    pub changed: Option<SystemTime>,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl Source {
    fn new(text: String, changed: Option<SystemTime>) -> Source {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Source { text, changed, starts }
    }

    /// The bytes of a line, counted from 1, without its end.
    pub fn line_range(&self, line: u32) -> Option<std::ops::Range<usize>> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next - 1);
        (start < self.text.len()).then(|| start..start + self.text[start..end].trim_end_matches('\r').len())
    }

    /// A line, counted from 1.
    pub fn line(&self, line: u32) -> Option<&str> {
        Some(&self.text[self.line_range(line)?])
    }

    /// How many lines it has.
    pub fn lines(&self) -> u32 {
        self.text.lines().count() as u32
    }
}

/// Source files by the names that findings have for them.
#[derive(Debug, Default)]
pub struct Sources {
    known: RefCell<HashMap<String, Option<Rc<Source>>>>,
    /// When the program was built, if that is known.
    built: Option<SystemTime>,
}

impl Sources {
    /// Sources of a program that was built at this time.
    pub fn built_at(built: Option<SystemTime>) -> Sources {
        Sources { built, ..Sources::default() }
    }

    /// A file, if it can be read.
    pub fn get(&self, file: &str) -> Option<Rc<Source>> {
        let known = self.known.borrow().get(file).cloned();
        known.unwrap_or_else(|| {
            let read = read(file).map(Rc::new);
            self.known.borrow_mut().insert(file.to_owned(), read.clone());
            read
        })
    }

    /// Was the file changed since the program was built, so that lines may not be what they were?
    pub fn is_stale(&self, file: &str) -> bool {
        let Some(built) = self.built else { return false };
        self.get(file).and_then(|source| source.changed).is_some_and(|changed| changed > built)
    }

    /// A text instead of a file; for tests.
    pub fn insert(&self, file: &str, text: &str) {
        let source = Source::new(text.to_owned(), None);
        self.known.borrow_mut().insert(file.to_owned(), Some(Rc::new(source)));
    }
}

fn read(file: &str) -> Option<Source> {
    let path = Path::new(file);
    let path = if path.exists() { path.to_owned() } else { unreplaced(path)? };
    let about = path.metadata().ok()?;
    // Reading a pipe or a device would wait, or never end.
    if !about.is_file() || about.len() > MOST_BYTES {
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    Some(Source::new(String::from_utf8_lossy(&bytes).into_owned(), about.modified().ok()))
}

/// The file whose name is not UTF-8 and became `path` when its bytes were replaced.
fn unreplaced(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if name.to_str()?.contains(char::REPLACEMENT_CHARACTER) => {
                let directory = if found.as_os_str().is_empty() { Path::new(".") } else { &found };
                let names =
                    std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.file_name()));
                let mut alike: Vec<OsString> =
                    names.filter(|it| it.to_string_lossy() == name.to_string_lossy()).collect();
                // Two that look the same: better none than the wrong one.
                let one = alike.pop().filter(|_| alike.is_empty())?;
                found.push(one);
            }
            other => found.push(other),
        }
    }
    found.exists().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn lines_are_found_whatever_their_ends() {
        let source = Source::new("one\r\ntwo\n\nlast".into(), None);
        let lines: Vec<_> = (0..6).map(|line| source.line(line)).collect();
        assert_eq!(lines, [None, Some("one"), Some("two"), Some(""), Some("last"), None]);
        assert_eq!(Source::new(String::new(), None).line(1), None);
        assert_eq!(Source::new("x\n".into(), None).line(2), None);
    }

    #[test]
    fn a_name_that_is_not_utf8_is_found_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let name = OsString::from_vec(b"caf\xe9.c".to_vec());
        std::fs::write(directory.path().join(&name), b"int x; // \xff\n").expect("written");
        let shown = directory.path().join(&name).to_string_lossy().into_owned();
        assert!(shown.contains('\u{fffd}'));
        assert!(Sources::default().get(&shown).is_some());
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        assert!(Sources::default().get("/dev/zero").is_none());
        assert!(Sources::default().get("").is_none());
    }
}
