//! Tracks which bytes recovery has touched since the crash: the first read of a byte returns pre-crash content.
//!
//! Loads inside a bracket may turn out not to count: those under a checksum that does not match, and those whose value
//! the program tolerates. Reads after such a bracket do count, so when it ends, bytes first touched inside it become
//! untouched again, unless the program has stored to them.

use std::ops::Range;

use crashproof_protocol::Record;
use crashproof_protocol::abi::Site;
use px86::{Kind, LINE_BYTES, Line};

use crate::cell::RunningThreadCell;
use crate::raw::{peek, peek_pm};
use crate::recorder::record;
use crate::session::{self, recovering, shadow};
use crate::sites;
use crate::threads::running;

/// Loads and stores inside brackets.
struct Brackets {
    /// The thread of each open bracket, and the length of `loaded` when it began.
    open: Vec<(u16, usize)>,
    /// Bytes first touched by loads since the outermost bracket began: thread, line, bytes.
    loaded: Vec<(u16, Line, u64)>,
    /// Bytes stored to since then.
    stored: Vec<(Line, u64)>,
}

impl Brackets {
    const fn new() -> Brackets {
        Brackets { open: Vec::new(), loaded: Vec::new(), stored: Vec::new() }
    }

    fn begin(&mut self, thread: u16) {
        self.open.push((thread, self.loaded.len()));
    }

    /// Ends the innermost bracket of a thread; returns the bytes its loads touched first and nothing stored to.
    fn end(&mut self, thread: u16) -> Vec<(Line, u64)> {
        let Some(index) = self.open.iter().rposition(|(opener, _)| *opener == thread) else {
            return Vec::new();
        };
        let (_, start) = self.open.remove(index);
        let stored_to = |line: Line| {
            self.stored.iter().filter(|(at, _)| *at == line).fold(0, |all, (_, bits)| all | bits)
        };
        let mine = self.loaded[start..].iter().filter(|(loader, ..)| *loader == thread);
        let touched = mine.map(|&(_, line, bits)| (line, bits & !stored_to(line))).collect();
        if self.open.is_empty() {
            self.loaded.clear();
            self.stored.clear();
        }
        touched
    }
}

static BRACKETS: RunningThreadCell<Brackets> = RunningThreadCell::new(Brackets::new());
/// The number of open brackets of all threads, the only thing the hot path checks.
static BRACKET_COUNT: RunningThreadCell<usize> = RunningThreadCell::new(0);

/// Subsequent loads of the running thread may turn out not to count.
pub(crate) fn bracket_begins() {
    if recovering() {
        BRACKETS.with(|brackets| brackets.begin(running::number()));
        BRACKET_COUNT.with(|count| *count += 1);
    }
}

/// The bracket ends; do its loads count?
pub(crate) fn bracket_ends(counts: bool) {
    let touched = BRACKETS.with(|brackets| {
        let touched = brackets.end(running::number());
        BRACKET_COUNT.set(brackets.open.len());
        touched
    });
    if !counts {
        for (line, bits) in touched {
            shadow(line.start(), |known| *known &= !bits);
        }
    }
}

/// The bits of a line's word for a range of bytes within the line.
#[inline(always)]
pub(crate) fn bits(address: u64, width: u64) -> u64 {
    (u64::MAX >> (64 - width)) << (address % LINE_BYTES)
}

/// Called before bytes of a line are read: records those not touched since the crash.
///
/// # Safety
///
/// The line is in the pool, which is accessible.
#[inline(always)]
pub(crate) unsafe fn before_read(address: u64, wanted: u64, site: *const Site) {
    let missing = wanted & !session::shadow_to_write(address);
    if missing != 0 {
        // SAFETY: guaranteed by the caller.
        unsafe { first_touch(address, missing, site) };
    }
}

/// The same for `width` bytes, most of which are read whole and for the first time.
///
/// # Safety
///
/// As for [`before_read`].
#[inline(always)]
pub(crate) unsafe fn before_read_of(address: u64, width: u64, site: *const Site) {
    let wanted = bits(address, width);
    let missing = wanted & !session::shadow_to_write(address);
    // SAFETY: as for this function.
    unsafe {
        if missing == wanted && width.is_power_of_two() && !counts_specially() {
            shadow(address, |known| *known |= wanted);
            record(Kind::Load, address, width as u8, peek_pm(address, width), site);
        } else if missing != 0 {
            first_touch(address, missing, site);
        }
    }
}

/// Reads up to eight bytes of a line, if that takes nothing but recording them, or not even that.
///
/// # Safety
///
/// As for [`before_read`].
#[inline(always)]
pub(crate) unsafe fn read_quickly(address: u64, width: u64, site: *const Site) -> Option<u64> {
    let wanted = bits(address, width);
    let touched = wanted & session::shadow_to_write(address);
    // SAFETY: as for this function.
    let value = unsafe { peek_pm(address, width) };
    if touched == wanted {
        return session::count_read_quickly().then_some(value);
    }
    if touched != 0 || !width.is_power_of_two() || counts_specially() {
        return None;
    }
    let number = sites::number_in_latest(site)?;
    // A record restarts the count of reads.
    if !session::append_within_room(Record::new(
        Kind::Load as u8,
        address,
        width as u8,
        value,
        running::number(),
        number,
    )) {
        return None;
    }
    shadow(address, |known| *known |= wanted);
    Some(value)
}

/// Are there brackets, or ranges that are forgotten?
#[inline(always)]
fn counts_specially() -> bool {
    BRACKET_COUNT.get() > 0 || FORGOTTEN.with(|ranges| !ranges.is_empty())
}

/// Records the bytes of a line that are read for the first time since the crash, run by run.
#[cold]
unsafe fn first_touch(address: u64, mut missing: u64, site: *const Site) {
    let line = Line::containing(address);
    if is_forgotten(line) {
        shadow(address, |known| *known = u64::MAX);
        return;
    }
    shadow(address, |known| *known |= missing);
    if BRACKET_COUNT.get() > 0 {
        BRACKETS.with(|brackets| brackets.loaded.push((running::number(), line, missing)));
    }
    while missing != 0 {
        let start = missing.trailing_zeros();
        let run = (missing >> start).trailing_ones().min(8);
        let at = line.start() + u64::from(start);
        // SAFETY: bytes of the line.
        let value = unsafe { peek(at, run.into()) };
        record(Kind::Load, at, run as u8, value, site);
        missing &= !bits(at, run.into());
    }
}

/// Marks a piece as overwritten: later reads of it do not return pre-crash content.
#[inline(always)]
pub(crate) fn touch(address: u64, width: u64) {
    if recovering() {
        shadow(address, |known| *known |= bits(address, width));
        if BRACKET_COUNT.get() > 0 {
            let stored = (Line::containing(address), bits(address, width));
            BRACKETS.with(|brackets| brackets.stored.push(stored));
        }
    }
}

/// Up to this many forgotten bytes, every line is marked immediately.
const FEW: u64 = 1 << 20;

/// Longer forgotten ranges, whose lines are marked when they are touched.
static FORGOTTEN: RunningThreadCell<Vec<Range<u64>>> = RunningThreadCell::new(Vec::new());

fn is_forgotten(line: Line) -> bool {
    FORGOTTEN.with(|ranges| ranges.iter().any(|range| range.contains(&line.start())))
}

/// Makes the pre-crash content of whole lines irrelevant: they read as this process has them.
pub(crate) fn forget(address: u64, bytes: u64) {
    if recovering() && bytes > FEW {
        FORGOTTEN.with(|ranges| {
            if !ranges.contains(&(address..address + bytes)) {
                ranges.push(address..address + bytes);
            }
        });
    } else if recovering() {
        for line in (address..address + bytes).step_by(LINE_BYTES as usize) {
            shadow(line, |known| *known = u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_the_bytes_of_a_line() {
        assert_eq!(bits(64, 8), 0xff);
        assert_eq!(bits(64 + 62, 2), 3 << 62);
        assert_eq!(bits(0, 64), u64::MAX);
    }

    #[test]
    fn a_bracket_gives_back_what_it_read_and_nobody_stored() {
        let mut brackets = Brackets::new();
        let line = Line(5);
        brackets.begin(1);
        brackets.loaded.push((1, line, 0xff));
        brackets.begin(2);
        brackets.loaded.push((2, line, 0xf00));
        brackets.loaded.push((1, line, 0xf000));
        brackets.stored.push((line, 0x0f));
        assert_eq!(brackets.end(2), [(line, 0xf00)]);
        assert_eq!(brackets.end(1), [(line, 0xf0), (line, 0xf000)]);
        assert!(brackets.loaded.is_empty() && brackets.stored.is_empty());
        assert_eq!(brackets.end(1), []);
    }
}
