//! Places in the program without a site: calls of interposed functions.
//!
//! Such a place is identified by its return address, numbered by module and offset; the checker finds the source line
//! in the module's debug information. Offsets within a module are the same in every run, so only the list of modules
//! has to be shared. It goes with the site table.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::abi::Site;
use crashproof_protocol::{LateModule, VERIFYING_LIBRARIES, caller};

use crate::cell::RunningThreadCell;
use crate::system::{own_process, own_thread};
use crate::{modules, session};

/// The upper half of a value that stands in for a pointer to a site; no valid pointer looks like that.
const MARK: usize = 0xC5A7 << 48;

/// The code range of a loaded program or library.
#[derive(Clone, Copy)]
struct Code {
    base: usize,
    begin: usize,
    end: usize,
    instrumented: bool,
    /// See [`VERIFYING_LIBRARIES`].
    verifies: bool,
    origin: Origin,
}

/// Where a module comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The program, or a library of its own.
    Program,
    /// The library of C++, whose strings and containers allocate on behalf of the program.
    CppLibrary,
    /// What every system has, and what keeps volatile state of its own.
    System,
}

/// The beginnings of the file names of [`Origin::System`].
const SYSTEM: &[&str] = &[
    "libc.",
    "libc-",
    "ld-linux",
    "linux-vdso",
    "libm.",
    "libgcc_s.",
    "libpthread",
    "libdl.",
    "librt.",
    "libpmem",
    "libndctl",
    "libdaxctl",
    "libcrashproof_runtime",
    "libasan",
    "libubsan",
];

impl Origin {
    fn of(file: &[u8]) -> Origin {
        let begins = |names: &[&str]| names.iter().any(|name| file.starts_with(name.as_bytes()));
        match () {
            () if begins(&["libstdc++.", "libc++."]) => Origin::CppLibrary,
            () if begins(SYSTEM) => Origin::System,
            () => Origin::Program,
        }
    }
}

impl Code {
    fn new((base, begin, end): (usize, usize, usize), name: &[u8]) -> Code {
        let instrumented = modules::is_instrumented(begin as *const c_void);
        let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let verifies = VERIFYING_LIBRARIES.iter().any(|library| file.starts_with(library.as_bytes()));
        let origin = if instrumented { Origin::Program } else { Origin::of(file) };
        Code { base, begin, end, instrumented, verifies: verifies && !instrumented, origin }
    }

    fn contains(&self, address: usize) -> bool {
        (self.begin..self.end).contains(&address)
    }
}

struct Loaded {
    code: [Code; caller::MODULES],
    count: usize,
    /// The number of modules in the site table; the rest were loaded later.
    early: usize,
}

static LOADED: RunningThreadCell<Loaded> = RunningThreadCell::new(Loaded {
    code: [Code { base: 0, begin: 0, end: 0, instrumented: false, verifies: false, origin: Origin::System };
        caller::MODULES],
    count: 0,
    early: 0,
});

/// The module that contains an address, and its index in the list.
fn code_at(address: usize) -> Option<(usize, Code)> {
    LOADED.with(|loaded| {
        let code = &loaded.code[..loaded.count];
        code.iter().position(|code| code.contains(address)).map(|index| (index, code[index]))
    })
}

/// An address in the program's `main`; 0 if unknown.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Records where the program's `main` is.
pub(crate) fn note_main(main: usize) {
    // Of an instruction there; sites are those of return addresses.
    MAIN.store(main + 1, Relaxed);
}

/// What the functions of `access` take as the site of a call.
pub(crate) fn site(return_address: usize) -> *const Site {
    // The runtime may call its own functions on behalf of a call of the program's.
    let return_address = match CALL.get() {
        _ if !is_in_runtime(return_address) => return_address,
        // The last call of a function need not return to it (`return fsync(file)`), but to its caller, which for `main`
        // is the runtime.
        0 if own_thread() == own_process() => MAIN.load(Relaxed),
        call => call,
    };
    // The return address is that of the next instruction.
    code_at(return_address)
        .and_then(|(index, code)| caller::number(index, return_address - 1 - code.base))
        .map_or(std::ptr::null(), |number| (MARK | number as usize) as *const Site)
}

/// The same for the address of the instruction itself.
pub(crate) fn place(instruction: usize) -> *const Site {
    site(instruction + 1)
}

thread_local! {
    /// Where the program called the runtime function that this thread is in; 0 if unknown.
    static CALL: Cell<usize> = const { Cell::new(0) };
}

/// While this guard lives, the thread acts on behalf of a call of the program's.
pub(crate) struct Call;

impl Call {
    pub(crate) fn new(return_address: usize) -> Call {
        CALL.set(return_address);
        Call
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALL.set(0);
    }
}

/// The innermost call from outside the runtime, found by unwinding; `None` if one is known already.
pub(crate) fn outer_call() -> Option<Call> {
    if CALL.get() != 0 {
        return None;
    }
    outer_caller().map(Call::new)
}

/// The return address of the innermost call from outside the runtime, found by unwinding.
pub(crate) fn outer_caller() -> Option<usize> {
    let mut frames = [std::ptr::null_mut(); 16];
    // The unwinder takes locks, which would be recorded if there are threads.
    // SAFETY: the buffer has room for that many frames.
    let depth =
        session::unfollowed(|| unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) }).max(0);
    let mut frames = frames[..depth as usize].iter().map(|frame| *frame as usize);
    frames.find(|frame| !is_in_runtime(*frame))
}

/// The site of the call that this thread is in.
pub(crate) fn call_site() -> *const Site {
    match CALL.get() {
        0 => std::ptr::null(),
        return_address => site(return_address),
    }
}

/// Is an instruction part of the runtime?
pub(crate) fn is_runtime(instruction: usize) -> bool {
    code_at(instruction).is_some_and(|(_, code)| code.contains(is_runtime as *const () as usize))
}

/// The runtime's own code, for signal handlers, which may interrupt a use of the module list.
static RUNTIME: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Records where the runtime's own code is.
pub(crate) fn note_runtime() {
    if let Some((_, code)) = code_at(note_runtime as *const () as usize) {
        RUNTIME[0].store(code.begin, Relaxed);
        RUNTIME[1].store(code.end, Relaxed);
    }
}

/// Where the runtime's own code is, once [`note_runtime`] has run.
pub(crate) fn runtime_code() -> (usize, usize) {
    (RUNTIME[0].load(Relaxed), RUNTIME[1].load(Relaxed))
}

/// Is an instruction part of the runtime? Callable from anywhere, once [`note_runtime`] has run.
pub(crate) fn is_in_runtime(instruction: usize) -> bool {
    (RUNTIME[0].load(Relaxed)..RUNTIME[1].load(Relaxed)).contains(&instruction)
}

/// Is the caller with this return address instrumented?
pub(crate) fn is_instrumented(return_address: usize) -> bool {
    code_at(return_address).is_some_and(|(_, code)| code.instrumented)
}

/// Is the caller with this return address the program or a library of its own?
pub(crate) fn is_of_program(return_address: usize) -> bool {
    code_at(return_address).is_some_and(|(_, code)| code.origin == Origin::Program)
}

/// Is it the library of C++?
pub(crate) fn is_of_cpp_library(return_address: usize) -> bool {
    code_at(return_address).is_some_and(|(_, code)| code.origin == Origin::CppLibrary)
}

/// Is it a call from the program or a library of its own?
pub(crate) fn is_site_of_program(site: *const Site) -> bool {
    let Some((module, _)) = number(site as usize).and_then(caller::place) else { return false };
    LOADED.with(|loaded| {
        loaded.code[..loaded.count].get(module).is_some_and(|code| code.origin == Origin::Program)
    })
}

/// Is it a call from a library that verifies what it copies? See [`VERIFYING_LIBRARIES`].
pub(crate) fn verifies(site: *const Site) -> bool {
    let Some((module, _)) = number(site as usize).and_then(caller::place) else { return false };
    LOADED.with(|loaded| loaded.code[..loaded.count].get(module).is_some_and(|code| code.verifies))
}

/// Does this stand for a place without a site?
pub(crate) fn number(site: usize) -> Option<u32> {
    (site >> 32 == MARK >> 32 && site as u32 & caller::BIT != 0).then_some(site as u32)
}

/// Records where modules are, once all are loaded; returns their lines of the site table.
pub(crate) fn table() -> String {
    let mut lines = String::new();
    LOADED.with(|loaded| loaded.count = 0);
    // SAFETY: `visit` gets the pointer to the text, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut lines).cast()) };
    LOADED.with(|loaded| loaded.early = loaded.count);
    lines
}

/// The path of the program. In the other placement the kernel started the loader, and the loader the program.
pub(crate) fn program() -> Option<String> {
    let path = std::env::var_os(crashproof_protocol::PROGRAM).map(PathBuf::from);
    let path = path.or_else(|| std::fs::read_link("/proc/self/exe").ok())?;
    Some(path.to_string_lossy().into_owned())
}

/// Records modules loaded since; they are numbered after those of the table, by path.
pub(crate) fn look_again() {
    // SAFETY: visits the modules; the callback ignores the pointer.
    unsafe { libc::dl_iterate_phdr(Some(visit_late), std::ptr::null_mut()) };
}

unsafe extern "C" fn visit_late(info: *mut libc::dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description with a name and that many headers.
    let (info, headers, name) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        (info, headers, CStr::from_ptr(info.dlpi_name).to_bytes())
    };
    let (base, begin, end) = code_of(info, headers);
    if begin >= end || code_at(begin).is_some() || name.len() >= size_of::<LateModule>() {
        return 0;
    }
    let index = session::late_modules(|late| {
        let is_it = |known: &LateModule| known.split(|byte| *byte == 0).next() == Some(name);
        let at = late.iter().position(|known| known[0] == 0 || is_it(known))?;
        late[at] = [0; size_of::<LateModule>()];
        late[at][..name.len()].copy_from_slice(name);
        Some(at)
    });
    LOADED.with(|loaded| {
        let Some(index) = index.map(|index| loaded.early + index) else { return };
        if let Some(slot) = loaded.code.get_mut(index) {
            *slot = Code::new((base, begin, end), name);
            loaded.count = loaded.count.max(index + 1);
        }
    });
    0
}

/// A module's base address and code range.
fn code_of(info: &libc::dl_phdr_info, headers: &[libc::Elf64_Phdr]) -> (usize, usize, usize) {
    let base = info.dlpi_addr as usize;
    let (mut begin, mut end) = (usize::MAX, 0);
    for header in headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0) {
        begin = begin.min(base + header.p_vaddr as usize);
        end = end.max(base + (header.p_vaddr + header.p_memsz) as usize);
    }
    (base, begin, end)
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, lines: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and the text of `table`.
    let (info, lines) = unsafe { (&*info, &mut *lines.cast::<String>()) };
    // SAFETY: the description says how many headers there are, and has a name.
    let (headers, name) = unsafe {
        (
            std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
            CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned(),
        )
    };
    let (base, begin, end) = code_of(info, headers);
    let name = if name.is_empty() { program().unwrap_or(name) } else { name };
    let code = Code::new((base, begin, end), name.as_bytes());
    LOADED.with(|loaded| {
        let count = loaded.count;
        let Some(slot) = loaded.code.get_mut(count) else { return 1 };
        *slot = code;
        loaded.count += 1;
        let _ = writeln!(lines, "{}\t{count}\t{}", caller::LINE, name.replace(['\t', '\n', '\r'], " "));
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pointer_looks_like_a_caller() {
        let mark = MARK | (caller::BIT | 5) as usize;
        assert_eq!(number(mark), Some(caller::BIT | 5));
        assert_eq!(number(0), None);
        assert_eq!(number(&raw const mark as usize), None);
    }

    #[test]
    fn places_are_found_by_their_address() {
        assert!(!table().is_empty());
        let here = places_are_found_by_their_address as *const () as usize;
        assert!(is_runtime(here) && !is_instrumented(here));
        assert!(number(site(here) as usize).is_some());
        assert!(site(1).is_null());
    }
}
