//! Numbers for places in the source.
//!
//! Every instrumented module registers its sites, an array of fixed-size descriptions. A site's number is
//! its place among all registered ones; the table that says what the numbers mean is written when the
//! program parks.

use std::ffi::{CStr, c_char, c_void};
use std::fmt::Write as _;

use crashproof_protocol::abi::{Frame, Site};
use crashproof_protocol::fd;

use crate::{callers, session};

#[derive(Clone, Copy)]
struct Module {
    begin: usize,
    end: usize,
    first: u32,
}

const MAX_MODULES: usize = 4096;
static mut MODULES: [Module; MAX_MODULES] = [Module { begin: 0, end: 0, first: 0 }; MAX_MODULES];
static mut COUNT: usize = 0;
/// The module of the last lookup: most lookups are in the same one.
static mut LAST: Module = Module { begin: 0, end: 0, first: 0 };

pub(crate) unsafe fn register(begin: *const Site, end: *const Site) {
    if COUNT == MAX_MODULES {
        session::give_up("more than 4096 modules");
    }
    let first = if COUNT == 0 {
        1
    } else {
        let last = MODULES[COUNT - 1];
        last.first + ((last.end - last.begin) / size_of::<Site>()) as u32
    };
    MODULES[COUNT] = Module { begin: begin as usize, end: end as usize, first };
    COUNT += 1;
}

pub(crate) fn modules() -> u32 {
    unsafe { COUNT as u32 }
}

/// Is the library or program that an address belongs to instrumented?
pub(crate) unsafe fn is_instrumented(address: *const c_void) -> bool {
    MODULES[..COUNT].iter().any(|module| linked_together(module.begin as *const c_void, address))
}

/// Are two addresses in the same program or library?
pub(crate) unsafe fn linked_together(one: *const c_void, other: *const c_void) -> bool {
    let start = |address: *const c_void| {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &raw mut info) != 0).then_some(info.dli_fbase)
    };
    start(one).is_some_and(|start_of_one| start(other) == Some(start_of_one))
}

/// The site's number; 0 if it is not known.
#[inline(always)]
pub(crate) unsafe fn number(site: *const Site) -> u32 {
    let at = site as usize;
    if at.wrapping_sub(LAST.begin) >= LAST.end - LAST.begin {
        return find(at);
    }
    LAST.first + ((at - LAST.begin) / size_of::<Site>()) as u32
}

#[cold]
unsafe fn find(at: usize) -> u32 {
    if let Some(number) = callers::number(at) {
        return number;
    }
    for module in &MODULES[..COUNT] {
        if (module.begin..module.end).contains(&at) {
            LAST = *module;
            return module.first + ((at - module.begin) / size_of::<Site>()) as u32;
        }
    }
    0
}

unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // The table's own separators must not occur in it.
    CStr::from_ptr(pointer).to_string_lossy().replace(['\t', '\n', '\r'], " ")
}

/// Writes the table: a line a site, fields apart by tabs, frames from the innermost outwards.
pub(crate) unsafe fn write_table() -> u64 {
    let mut table = callers::table();
    for module in &MODULES[..COUNT] {
        let sites = std::slice::from_raw_parts(
            module.begin as *const Site,
            (module.end - module.begin) / size_of::<Site>(),
        );
        for (index, site) in sites.iter().enumerate() {
            let number = module.first + index as u32;
            let _ = write!(
                table,
                "{number}\t{}\t{}\t{}\t{}\t{}\t{}",
                site.tag & 0xffff,
                site.line,
                site.column,
                text(site.file),
                text(site.function),
                text(site.text)
            );
            let mut frame: *const Frame = site.inlined_at;
            while !frame.is_null() {
                let caller = &*frame;
                let _ = write!(
                    table,
                    "\t{}\t{}\t{}\t{}",
                    caller.line,
                    caller.column,
                    text(caller.file),
                    text(caller.function)
                );
                frame = caller.inlined_at;
            }
            table.push('\n');
        }
    }
    let mut written = 0;
    while written < table.len() {
        let rest = &table.as_bytes()[written..];
        let count = libc::pwrite(fd::SITES, rest.as_ptr().cast(), rest.len(), written as i64);
        if count <= 0 {
            session::give_up("cannot write the site table");
        }
        written += count as usize;
    }
    written as u64
}
