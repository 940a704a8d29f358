//! Examines a program before it runs: one that could not be followed would change real files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use object::elf::{ET_DYN, ET_EXEC, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

use crate::subject::error::Error;

/// The file name of the runtime, to which programs built with it refer.
const RUNTIME: &[u8] = b"libcrashproof_runtime.so";

/// Rejects programs that are not dynamically loaded: the runtime cannot be part of them.
pub(crate) fn is_usable(program: &Path) -> Result<(), Error> {
    // Unreadable programs are reported when they are started.
    let Ok(bytes) = std::fs::read(program) else { return Ok(()) };
    if bytes.starts_with(b"#!") {
        return Ok(());
    }
    let header = FileHeader64::<Endianness>::parse(&*bytes).ok();
    let kind = header.and_then(|header| {
        let endian = header.endian().ok()?;
        matches!(header.e_type(endian), ET_EXEC | ET_DYN).then_some((header, endian))
    });
    let Some((header, endian)) = kind else { return Err(Error::NoProgram { program: program.into() }) };
    let mut segments = header.program_headers(endian, &*bytes).unwrap_or_default().iter();
    let Some(loader) = segments.find_map(|segment| segment.interpreter(endian, &*bytes).ok().flatten())
    else {
        return Err(Error::Static { program: program.into() });
    };
    if String::from_utf8_lossy(loader).contains("ld-musl") {
        return Err(Error::Unsuitable { program: program.into(), what: MUSL });
    }
    match SANITIZERS.iter().find(|(symbol, _)| has_symbol(&bytes, symbol)) {
        Some((_, what)) => Err(Error::Unsuitable { program: program.into(), what }),
        None => Ok(()),
    }
}

const MUSL: &str = "uses musl, and the runtime needs glibc: link it against glibc";
/// Sanitizers whose shadow memory overlaps persistent memory, with a function that every such program has.
const SANITIZERS: [(&str, &str); 3] = [
    (
        "__tsan_init",
        "was built with ThreadSanitizer, which has its shadow memory where the checker has persistent memory: build it \
         without -fsanitize=thread (address and undefined work)",
    ),
    (
        "__msan_init",
        "was built with MemorySanitizer, which has its shadow memory where the checker has persistent memory: build it \
         without -fsanitize=memory (address and undefined work)",
    ),
    (
        "__hwasan_init",
        "was built with HWAddressSanitizer, which puts tags into addresses: build it without -fsanitize=hwaddress \
         (address and undefined work)",
    ),
];

fn has_symbol(bytes: &[u8], wanted: &str) -> bool {
    let Ok(file) = object::File::parse(bytes) else { return false };
    file.dynamic_symbols().any(|symbol| symbol.name() == Ok(wanted))
}

/// Was a program built with crashproof, or otherwise linked against the runtime?
pub(crate) fn is_rebuilt(program: &Path) -> bool {
    let Ok(bytes) = std::fs::read(program) else { return false };
    let Ok(file) = object::File::parse(&*bytes) else { return false };
    let libraries = file.imports().unwrap_or_default();
    let names = bytes.windows(RUNTIME.len()).any(|part| part == RUNTIME);
    names && (!libraries.is_empty() || file.section_by_name(".dynamic").is_some())
}

/// Do the program and its heap lie where it was linked to, below 4 GiB, rather than where Linux puts those that can be
/// anywhere?
pub(crate) fn is_low(program: &Path) -> bool {
    let Ok(bytes) = std::fs::read(program) else { return false };
    let Ok(header) = FileHeader64::<Endianness>::parse(&*bytes) else { return false };
    header.endian().is_ok_and(|endian| header.e_type(endian) == ET_EXEC)
}

/// Is it Rust's test harness, asked for a single test? It runs each test on a thread of its own, or if none can be
/// created, without one.
pub(crate) fn runs_one_rust_test(program: &Path, arguments: &[OsString]) -> bool {
    const OF_HARNESS: &[u8] = b"test-threads";
    arguments.iter().any(|argument| argument == "--exact")
        && std::fs::read(program)
            .is_ok_and(|bytes| bytes.windows(OF_HARNESS.len()).any(|window| window == OF_HARNESS))
}

/// What is preloaded: the runtime, and what the user asked for.
pub(crate) fn preloaded(runtime: &Path) -> OsString {
    let mut all = OsString::from(PathBuf::from(runtime));
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loader_loads() {
        assert!(is_usable(Path::new("/bin/sh")).is_ok());
        assert!(!is_rebuilt(Path::new("/bin/sh")));
        assert!(is_usable(Path::new("/no/such/program")).is_ok(), "told when it is started");
        assert!(matches!(is_usable(Path::new("/proc/self/status")), Err(Error::NoProgram { .. })));
    }
}
