//! At the end of the recorded run: does persistent memory hold exactly what was recorded?
//!
//! Code that was not instrumented stores without a record. All pool pages that this process has written are compared
//! with their initial content plus the recorded stores; a difference makes the verdict UNKNOWN. A store that wrote the
//! existing value, or was overwritten since, does not show; strict mode detects those, too, as well as loads.

use crashproof_protocol::{ARENA, GLOBALS, ROOT, mode, reason, record};

use crate::recorder::note;
use crate::size_classes::base;
use crate::{arena, files, globals, raw, session};

const PAGE: u64 = 4096;
/// Pages compared at a time, so that a large pool does not need as much memory again.
const AT_ONCE: usize = 4096;

/// Compares, and records the first difference.
pub(crate) fn look_for_changes() {
    if session::current_mode() != mode::RECORD {
        return;
    }
    let written: Vec<u64> = in_use()
        .into_iter()
        .flat_map(|(start, end)| files::written_pages(start, end - start))
        .map(|(page, _)| page)
        .collect();
    for pages in written.chunks(AT_ONCE) {
        if let Some(address) = first_change(pages) {
            note(record::UNKNOWN, address, reason::CHANGED, std::ptr::null());
            return;
        }
    }
}

/// The parts of the pool known to the program.
fn in_use() -> Vec<(u64, u64)> {
    let (heap_ends, arena_end) = session::control(|control| (control.heap_ends, control.arena_end));
    let heap = heap_ends.into_iter().enumerate().map(|(class, end)| (base(class), end));
    let fixed = [
        (GLOBALS.base, globals::end()),
        (ROOT.base, ROOT.base + arena::root_bytes()),
        (ARENA.base, arena_end),
    ];
    fixed.into_iter().chain(heap).chain(files::places()).filter(|(start, end)| start < end).collect()
}

/// The first address on these pages whose content differs from the recorded stores.
fn first_change(pages: &[u64]) -> Option<u64> {
    let mut expected: Vec<(u64, Vec<u8>)> =
        pages.iter().map(|&page| (page, session::image_bytes(page, PAGE).to_vec())).collect();
    expected.sort_unstable_by_key(|(page, _)| *page);
    // Most stores go to the same page as the previous one.
    let mut latest = 0;
    for record in session::recorded() {
        if !record.event_kind().is_some_and(px86::Kind::stores) {
            continue;
        }
        let (address, value, width) = (record.address(), record.value, record.width());
        // Pieces never cross a line, and hence never a page.
        let page = address / PAGE * PAGE;
        if expected.get(latest).is_none_or(|(known, _)| *known != page) {
            let Ok(found) = expected.binary_search_by_key(&page, |(page, _)| *page) else { continue };
            latest = found;
        }
        let at = (address % PAGE) as usize;
        let bytes = &mut expected[latest].1[at..at + usize::from(width)];
        match <&mut [u8; 8]>::try_from(&mut *bytes) {
            Ok(word) => *word = value.to_le_bytes(),
            Err(_) => bytes.copy_from_slice(&value.to_le_bytes()[..usize::from(width)]),
        }
    }
    expected.iter().find_map(|(page, expected)| {
        // SAFETY: pages of the pool, which is accessible.
        let held = unsafe { std::slice::from_raw_parts(raw::reachable(*page) as *const u8, PAGE as usize) };
        let differs = held.iter().zip(expected).position(|(held, expected)| held != expected);
        differs.map(|at| page + at as u64)
    })
}
