//! Places in the program that have no site: where it calls a function that the runtime stands in for.
//!
//! Such a place is known by its return address. Its number says in which module it is, and where there;
//! the checker finds the source line in the module's debug information. Addresses within a module are the
//! same in every run, so nothing need be shared but the list of modules, which goes with the site table.

use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;

use crashproof_protocol::abi::Site;
use crashproof_protocol::caller;

use crate::sites;

/// The upper half of what stands for a pointer to a site here; no pointer looks like that.
const MARK: usize = 0xC5A7 << 48;

#[derive(Clone, Copy)]
struct Module {
    base: usize,
    begin: usize,
    end: usize,
    instrumented: bool,
}

static mut MODULES: [Module; caller::MODULES] =
    [Module { base: 0, begin: 0, end: 0, instrumented: false }; caller::MODULES];
static mut COUNT: usize = 0;

/// What the functions of `access` take as the site of a call.
pub(crate) unsafe fn site(return_address: usize) -> *const Site {
    for (index, module) in MODULES[..COUNT].iter().enumerate() {
        if (module.begin..module.end).contains(&return_address) {
            // The address is of what comes after the call.
            return match caller::number(index, return_address - 1 - module.base) {
                Some(number) => (MARK | number as usize) as *const Site,
                None => std::ptr::null(),
            };
        }
    }
    std::ptr::null()
}

/// The same for an instruction itself.
pub(crate) unsafe fn place(instruction: usize) -> *const Site {
    site(instruction + 1)
}

/// Is an instruction one of the runtime's?
pub(crate) unsafe fn is_runtime(instruction: usize) -> bool {
    let contains = |module: &Module, place: usize| (module.begin..module.end).contains(&place);
    let here = is_runtime as *const () as usize;
    MODULES[..COUNT].iter().any(|module| contains(module, instruction) && contains(module, here))
}

/// Is what calls from there instrumented?
pub(crate) unsafe fn is_instrumented(return_address: usize) -> bool {
    let here = |module: &&Module| (module.begin..module.end).contains(&return_address);
    MODULES[..COUNT].iter().find(here).is_some_and(|module| module.instrumented)
}

/// The number of something that [`site`] returned.
pub(crate) fn number(site: usize) -> Option<u32> {
    (site & MARK == MARK && site >> 32 == MARK >> 32).then_some(site as u32)
}

/// Notes where modules are, once all are loaded; gives their lines of the site table.
pub(crate) unsafe fn table() -> String {
    let mut lines = String::new();
    COUNT = 0;
    libc::dl_iterate_phdr(Some(visit), (&raw mut lines).cast());
    lines
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, lines: *mut c_void) -> c_int {
    if COUNT == caller::MODULES {
        return 1;
    }
    let info = &*info;
    let base = info.dlpi_addr as usize;
    let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
    let code = headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0);
    let (mut begin, mut end) = (usize::MAX, 0);
    for header in code {
        begin = begin.min(base + header.p_vaddr as usize);
        end = end.max(base + (header.p_vaddr + header.p_memsz) as usize);
    }
    let name = CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned();
    let name = if name.is_empty() {
        std::fs::read_link("/proc/self/exe").map_or(name, |path| path.to_string_lossy().into_owned())
    } else {
        name
    };
    let lines = &mut *lines.cast::<String>();
    let _ = writeln!(lines, "{}\t{COUNT}\t{}", caller::LINE, name.replace(['\t', '\n', '\r'], " "));
    MODULES[COUNT] =
        Module { base, begin, end, instrumented: sites::is_instrumented(begin as *const c_void) };
    COUNT += 1;
    0
}
