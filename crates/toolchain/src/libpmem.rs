//! In a link line, libpmem and libpmem2 mean the runtime, whether or not they are installed.
//!
//! The runtime provides their functions. Another copy would come before it in the order of lookup, and what that does to
//! persistent memory would be its own business; a missing one would end the link. Only a copy that was itself built with
//! crashproof stays: its accesses are seen, and the runtime then leaves its functions to it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What `-l` calls them.
const NAMES: [&str; 2] = ["pmem", "pmem2"];

/// What instrumented code refers to.
const INSTRUMENTED: &[u8] = b"__crashproof_register_module";

/// A command line without the libraries that the runtime replaces; `None` if it has none. Response files are read by
/// the caller: `words` is the command line with them in their place.
pub(crate) fn without(words: &[String]) -> Option<Vec<OsString>> {
    let directories = search_path(words);
    let mut kept = Vec::new();
    let mut words_left = words.iter().map(String::as_str);
    while let Some(word) = words_left.next() {
        match word {
            "-o" | "-L" | "-x" | "-I" | "-include" | "-MF" | "-MT" | "-MQ" => {
                kept.push(word.into());
                kept.extend(words_left.next().map(OsString::from));
            }
            "-l" => match words_left.next() {
                Some(name) if is_replaced(name, &directories) => {}
                name => {
                    kept.push(word.into());
                    kept.extend(name.map(OsString::from));
                }
            },
            _ if word.starts_with("-Wl,") => {
                let parts = word.split(',').filter(|part| !is_option_for_it(part, &directories));
                let parts: Vec<&str> = parts.collect();
                if parts.len() > 1 {
                    kept.push(parts.join(",").into());
                }
            }
            _ if is_option_for_it(word, &directories) || is_file_of_it(word) => {}
            _ => kept.push(word.into()),
        }
    }
    (kept.len() != words.len() || kept.iter().zip(words).any(|(kept, word)| kept != OsStr::new(word)))
        .then_some(kept)
}

/// Where `-l` looks first.
fn search_path(words: &[String]) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for (word, next) in words.iter().zip(words.iter().skip(1).chain([&String::new()])) {
        match word.strip_prefix("-L") {
            Some("") => directories.push(PathBuf::from(next)),
            Some(directory) => directories.push(PathBuf::from(directory)),
            None => {}
        }
    }
    directories
}

fn is_option_for_it(word: &str, directories: &[PathBuf]) -> bool {
    word.strip_prefix("-l").is_some_and(|name| is_replaced(name, directories))
}

/// Does what follows `-l` name a library that the runtime stands for?
fn is_replaced(name: &str, directories: &[PathBuf]) -> bool {
    let files = match name.strip_prefix(':') {
        Some(file) if is_name_of_it(file) => vec![file.to_owned()],
        None if NAMES.contains(&name) => vec![format!("lib{name}.so"), format!("lib{name}.a")],
        _ => return false,
    };
    let candidates = directories.iter().flat_map(|directory| files.iter().map(|file| directory.join(file)));
    !candidates.into_iter().find(|path| path.exists()).is_some_and(|path| is_instrumented(&path))
}

/// Is an argument the library's file itself?
fn is_file_of_it(word: &str) -> bool {
    let path = Path::new(word);
    let named = path.file_name().and_then(OsStr::to_str).is_some_and(is_name_of_it);
    !word.starts_with('-') && named && !is_instrumented(path)
}

/// `libpmem.so`, `libpmem.so.1.0.0`, `libpmem2.a`.
fn is_name_of_it(file: &str) -> bool {
    NAMES.iter().any(|name| {
        let end = file.strip_prefix("lib").and_then(|rest| rest.strip_prefix(name));
        end.is_some_and(|end| end == ".a" || end == ".so" || end.starts_with(".so."))
    })
}

fn is_instrumented(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.windows(INSTRUMENTED.len()).any(|part| part == INSTRUMENTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(line: &str) -> Option<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let kept = without(&words)?;
        Some(kept.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn whichever_way_it_is_named() {
        for line in [
            "-lpmem a.c",
            "a.c -lpmem",
            "a.c -lpmem2 -lpmem",
            "a.c -l pmem",
            "a.c -l:libpmem.so.1",
            "a.c -l:libpmem.a",
            "a.c /usr/lib/x86_64-linux-gnu/libpmem.so",
            "a.c lib/libpmem2.a",
            "a.c -Wl,-lpmem",
        ] {
            assert_eq!(left(line).as_deref(), Some("a.c"), "{line}");
        }
        assert_eq!(left("a.c -Wl,-Bstatic,-lpmem,-Bdynamic").as_deref(), Some("a.c -Wl,-Bstatic,-Bdynamic"));
    }

    #[test]
    fn what_only_resembles_it_stays() {
        for line in
            ["a.c -lpmemobj", "-o libpmem.so a.o -shared", "a.c -lpmemblk libpmem.c", "a.c", "-L pmem a.c"]
        {
            assert_eq!(left(line), None, "{line}");
        }
    }

    #[test]
    fn a_copy_that_was_built_with_crashproof_stays() {
        let directory = std::env::temp_dir().join(format!("crashproof-libpmem-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let library = directory.join("libpmem.so");
        std::fs::write(&library, [b"text".as_slice(), INSTRUMENTED].concat()).unwrap();
        let line = format!("a.c -L{} -lpmem", directory.display());
        let (by_name, by_path) = (left(&line), left(&format!("a.c {}", library.display())));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((by_name, by_path), (None, None));
    }
}
