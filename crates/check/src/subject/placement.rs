//! The addresses of code, libraries, heap and stack of a process.
//!
//! Addresses are the same in every run, so that a program's stores are reproducible. But on every system with address
//! randomization, a run after a crash has different addresses: a pointer to volatile memory or code that was stored in
//! persistent memory is then invalid. So recoveries run in a second placement that shares no page with the first: the
//! loader is started with the program as its argument, and maps it like a library, into the region used by the kernel's
//! legacy layout.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_protocol::PROGRAM;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

/// One of two placements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The kernel's default.
    #[default]
    Usual,
    /// A different one, through this loader.
    Other(PathBuf),
}

/// The distance by which the stack is moved.
const STACK: usize = 96 << 10;
/// The variable that takes up room above the stack.
const ROOM: &str = "CRASHPROOF_STACK";

impl Placement {
    /// The other placement of a program; `None` if it has no loader, or must keep its addresses.
    pub(crate) fn other(program: &Path) -> Option<Placement> {
        let bytes = std::fs::read(program).ok()?;
        if is_sanitized(&bytes) {
            return None;
        }
        loader(&bytes).map(Placement::Other)
    }

    /// The command that starts the program.
    pub(crate) fn words(&self, program: &Path) -> Vec<OsString> {
        match self {
            Placement::Usual => vec![program.into()],
            Placement::Other(loader) => {
                let real = program.canonicalize().unwrap_or_else(|_| program.into());
                vec![loader.into(), "--argv0".into(), program.into(), real.into()]
            }
        }
    }

    /// Sets up the program's environment.
    pub(crate) fn set_environment(&self, program: &Path, command: &mut Command) {
        if matches!(self, Placement::Other(_)) {
            let real = program.canonicalize().unwrap_or_else(|_| program.into());
            command.env(PROGRAM, real).env(ROOM, "x".repeat(STACK));
        }
    }

    /// Flags for `personality`.
    pub(crate) fn personality(&self) -> libc::c_ulong {
        let layout = if *self == Placement::Usual { 0 } else { libc::ADDR_COMPAT_LAYOUT };
        (libc::ADDR_NO_RANDOMIZE | layout) as libc::c_ulong
    }
}

/// Was a program built with a sanitizer? Sanitizers check their own addresses, and have fixed ones for their shadow.
fn is_sanitized(bytes: &[u8]) -> bool {
    let Ok(file) = object::File::parse(bytes) else { return false };
    let mut names = file.dynamic_symbols().filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    names.any(|name| ["__asan_init", "__tsan_init", "__msan_init"].contains(&name.as_str()))
}

/// The loader that an executable names; `None` for static ones, and for files that are not executables.
fn loader(bytes: &[u8]) -> Option<PathBuf> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, bytes).ok()?.iter();
    let name = segments.find_map(|segment| segment.interpreter(endian, bytes).ok().flatten())?;
    Some(OsString::from_vec(name.to_vec()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_name_their_loader() {
        let shell = std::fs::read("/bin/sh").expect("a shell");
        assert!(loader(&shell).is_some_and(|path| path.exists()));
        for cut in [0, 4, 40, 64, 100] {
            assert_eq!(loader(&shell[..cut]), None);
        }
        assert_eq!(loader(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn the_other_placement_starts_the_loader() {
        let other = Placement::Other("/lib/ld.so".into());
        assert_eq!(other.words(Path::new("./no-such-program"))[0], "/lib/ld.so");
        assert_eq!(Placement::Usual.words(Path::new("./program")), ["./program"]);
        assert_ne!(other.personality(), Placement::Usual.personality());
    }
}
