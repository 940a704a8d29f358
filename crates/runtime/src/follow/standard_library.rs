//! Functions of Rust's standard library with which threads wait for each other. They come precompiled and are linked
//! into rebuilt programs, so their accesses to volatile memory must be followed.
//!
//! They are recognized by their symbols. Most such code is generic and compiled with the program, so it announces its
//! own accesses; a breakpoint there is removed when it is first hit.

use crate::system::raw_syscall;

/// Parts of mangled names, of which one is enough: after the crate and the module come the names within it.
const NAMES: [&[u8]; 9] = [
    b"3std4sync7barrier",
    b"3std4sync6poison7condvar",
    b"3std4sync9nonpoison7condvar",
    b"3std4sync4once",
    b"3std4sync4mpmc",
    b"3std3sys4sync",
    b"3std6thread6scoped9ScopeData",
    b"3std6thread9functions4park",
    b"3std6thread6thread6Thread4park",
];

/// A read-only mapping of a file.
struct Mapped {
    start: *const u8,
    bytes: usize,
}

impl Mapped {
    /// Opens the file of a module; the main program's name is empty.
    fn open(name: &[u8]) -> Option<Mapped> {
        let mut path = [0u8; 4096];
        let name = if name.is_empty() { b"/proc/self/exe" } else { name };
        // Keeps the zero at the end.
        path[..4095].get_mut(..name.len())?.copy_from_slice(name);
        // SAFETY: plain data, which the kernel fills in; the file stays mapped for reading until this is dropped.
        unsafe {
            let open = [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
                0,
                0,
                0,
            ];
            let descriptor = raw_syscall(libc::SYS_openat, open);
            if descriptor < 0 {
                return None;
            }
            let mut status: libc::stat = std::mem::zeroed();
            let found =
                raw_syscall(libc::SYS_fstat, [descriptor as usize, &raw mut status as usize, 0, 0, 0, 0]);
            let bytes = status.st_size as usize;
            let map =
                [0, bytes, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, descriptor as usize, 0];
            let start = if found < 0 { -1 } else { raw_syscall(libc::SYS_mmap, map) };
            raw_syscall(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]);
            (!(-4095..=0).contains(&start)).then_some(Mapped { start: start as *const u8, bytes })
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped with this length.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: no reference to the mapping is left.
        unsafe { raw_syscall(libc::SYS_munmap, [self.start as usize, self.bytes, 0, 0, 0, 0]) };
    }
}

/// Reads a value of an ELF file at an offset, if the file is long enough.
fn at<T: Copy>(file: &[u8], offset: u64) -> Option<T> {
    let end = offset.checked_add(size_of::<T>() as u64)?;
    let bytes = file.get(offset as usize..end as usize)?;
    // SAFETY: plain data of that size.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Visits these functions of a module, with the loaded begin and end of each.
pub(crate) fn each_function(base: usize, name: &[u8], visit: impl FnMut(usize, usize)) {
    if let Some(file) = Mapped::open(name) {
        in_file(file.bytes(), base, visit);
    }
}

/// The same for the bytes of a file; anything that is not an ELF file has none.
fn in_file(file: &[u8], base: usize, mut visit: impl FnMut(usize, usize)) -> Option<()> {
    let header: libc::Elf64_Ehdr = at(file, 0)?;
    if header.e_ident[..5] != [0x7f, b'E', b'L', b'F', 2] {
        return None;
    }
    let section = |index: u64| -> Option<libc::Elf64_Shdr> {
        at(file, header.e_shoff.checked_add(index.checked_mul(size_of::<libc::Elf64_Shdr>() as u64)?)?)
    };
    const SYMBOLS: u32 = 2;
    const FUNCTION: u8 = 2;
    for index in 0..u64::from(header.e_shnum) {
        let symbols = section(index)?;
        if symbols.sh_type != SYMBOLS {
            continue;
        }
        let names = section(symbols.sh_link.into())?;
        for number in 0..symbols.sh_size / size_of::<libc::Elf64_Sym>() as u64 {
            let offset = symbols.sh_offset.checked_add(number * size_of::<libc::Elf64_Sym>() as u64)?;
            let symbol: libc::Elf64_Sym = at(file, offset)?;
            if symbol.st_info & 0xf != FUNCTION || symbol.st_size == 0 {
                continue;
            }
            let start = names.sh_offset.checked_add(symbol.st_name.into())?;
            let rest = file.get(start as usize..)?;
            let name = &rest[..rest.iter().take(1024).position(|&byte| byte == 0)?];
            let wanted = |part: &&[u8]| name.windows(part.len()).any(|window| window == *part);
            if name.starts_with(b"_") && NAMES.iter().any(wanted) {
                let begin = base.wrapping_add(symbol.st_value as usize);
                visit(begin, begin.wrapping_add(symbol.st_size as usize));
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_has_none() {
        let mut found = 0;
        for file in [&b""[..], b"#!/bin/sh", &[0x7f, b'E', b'L', b'F', 2, 0, 0, 0]] {
            in_file(file, 0, |_, _| found += 1);
        }
        assert_eq!(found, 0);
    }

    #[test]
    fn a_test_has_functions_of_the_standard_library() {
        let barrier = std::sync::Barrier::new(1);
        assert!(barrier.wait().is_leader());
        let mut found = 0;
        each_function(0, b"", |begin, end| found += usize::from(begin < end));
        assert!(found > 0);
    }
}
