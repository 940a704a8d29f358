//! Numbers for places in the source, and the table that describes them.
//!
//! A site's number is its position among all registered ones (see `modules`); a place without a site has a number, too
//! (see `callers`). The table is written when the program parks.

use std::ffi::{CStr, c_char};
use std::fmt::Write as _;

use crashproof_protocol::abi::{Frame, Site};
use crashproof_protocol::fd;

use crate::callers;
use crate::cell::RunningThreadCell;
use crate::modules::{self, Module};
use crate::system::give_up;

/// The module of the last lookup: most lookups hit the same one.
static LATEST: RunningThreadCell<Module> = RunningThreadCell::new(Module::NONE);

/// The site's number; 0 if unknown.
#[inline(always)]
pub(crate) fn number(site: *const Site) -> u32 {
    match LATEST.with(|latest| latest.number(site as usize)) {
        Some(number) => number,
        None => find(site as usize),
    }
}

/// The same, if it belongs to the module of the last lookup.
#[inline(always)]
pub(crate) fn number_in_latest(site: *const Site) -> Option<u32> {
    LATEST.with(|latest| latest.number(site as usize))
}

#[cold]
fn find(at: usize) -> u32 {
    if let Some(number) = callers::number(at) {
        return number;
    }
    let Some(module) = modules::of_site(at) else { return 0 };
    LATEST.set(module);
    module.number(at).unwrap_or(0)
}

fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: texts of sites are constants that the plugin emitted.
    let text = unsafe { CStr::from_ptr(pointer) };
    // They must not contain the table's own separators.
    text.to_string_lossy().replace(['\t', '\n', '\r'], " ")
}

/// A line of the table: fields separated by tabs, frames from the innermost outwards.
fn line(number: u32, site: &Site) -> String {
    let mut line = format!(
        "{number}\t{}\t{}\t{}\t{}\t{}\t{}",
        site.tag & 0xffff,
        site.line,
        site.column,
        text(site.file),
        text(site.function),
        text(site.text)
    );
    let mut frame: *const Frame = site.inlined_at;
    // SAFETY: frames are constants that the plugin emitted; the outermost ends in null.
    while let Some(caller) = unsafe { frame.as_ref() } {
        let (file, function) = (text(caller.file), text(caller.function));
        let _ = write!(line, "\t{}\t{}\t{file}\t{function}", caller.line, caller.column);
        frame = caller.inlined_at;
    }
    line
}

/// Writes the table, a line per site; returns its size.
pub(crate) fn write_table() -> u64 {
    let mut table = callers::table();
    for module in (0..modules::count()).map(modules::at) {
        for (number, site) in (module.first()..).zip(module.sites()) {
            table += &line(number, site);
            table.push('\n');
        }
    }
    let mut written = 0;
    while written < table.len() {
        let rest = &table.as_bytes()[written..];
        // SAFETY: the kernel only reads the text.
        let count = unsafe { libc::pwrite(fd::SITES, rest.as_ptr().cast(), rest.len(), written as i64) };
        if count <= 0 {
            give_up("cannot write the site table");
        }
        written += count as usize;
    }
    written as u64
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::*;

    #[test]
    fn lines_name_the_place_and_what_it_was_inlined_into() {
        let frame = Frame {
            line: 9,
            column: 1,
            file: c"b.c".as_ptr(),
            function: c"outer".as_ptr(),
            inlined_at: null(),
        };
        let site = Site {
            tag: 0xC5A7_0002,
            size: 8,
            line: 3,
            column: 4,
            file: c"a\tb.c".as_ptr(),
            function: c"inner".as_ptr(),
            inlined_at: &raw const frame,
            text: null(),
        };
        assert_eq!(line(7, &site), "7\t2\t3\t4\ta b.c\tinner\t\t9\t1\tb.c\touter");
    }
}
