//! Cache lines, and the splitting of accesses at their borders.

/// Bytes in a cache line, the unit of write-back.
pub const LINE_BYTES: u64 = 64;

/// The widest piece of memory that is stored, and persists, in one step.
pub const WORD_BYTES: u8 = 8;

/// A cache line, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line(pub u64);

impl Line {
    /// The line that holds the byte at `address`.
    pub const fn containing(address: u64) -> Line {
        Line(address / LINE_BYTES)
    }

    /// Address of the line's first byte.
    pub const fn start(self) -> u64 {
        self.0 * LINE_BYTES
    }
}

/// The lines that any of `bytes` bytes at `address` lie on, lowest first.
#[inline]
pub fn covered(address: u64, bytes: u64) -> impl Iterator<Item = Line> {
    let first = Line::containing(address).0;
    let end = if bytes == 0 { first } else { Line::containing(address + (bytes - 1)).0 + 1 };
    (first..end).map(Line)
}

/// How many of `bytes` bytes at `address` lie on the first line.
#[inline]
pub const fn on_first_line(address: u64, bytes: u64) -> u64 {
    let room = LINE_BYTES - address % LINE_BYTES;
    if bytes < room { bytes } else { room }
}

/// Do `bytes` bytes at `address` lie on more than one line?
#[inline]
pub const fn crosses(address: u64, bytes: u64) -> bool {
    on_first_line(address, bytes) < bytes
}

/// How many of `bytes` bytes at `address`, part of an access wider than a word, are stored in one step.
#[inline]
pub const fn in_first_word(address: u64, bytes: u64) -> u64 {
    let word = WORD_BYTES as u64;
    let room = word - address % word;
    if bytes < room { bytes } else { room }
}

/// A part of an access that lies within one line and is at most eight bytes wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes, 1 to 8.
    pub width: u8,
    /// Where the piece begins within the whole access.
    pub offset: u64,
}

/// Splits an access at line borders and into words, lowest address first.
///
/// An unaligned access of up to eight bytes that stays within a line is one piece. Wider ones are cut
/// at multiples of eight bytes of the *address*, because aligned words are what hardware persists whole.
pub fn pieces(address: u64, bytes: u64) -> impl Iterator<Item = Piece> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        if offset == bytes {
            return None;
        }
        let at = address.wrapping_add(offset);
        let left = bytes - offset;
        let small = bytes <= u64::from(WORD_BYTES);
        let width = if small { on_first_line(at, left) } else { in_first_word(at, left) };
        let piece = Piece { address: at, width: width as u8, offset };
        offset += width;
        Some(piece)
    })
}

/// Splits a block that is copied or filled into aligned words, lowest address first: unlike one access, a block is not
/// stored in one step however small it is.
pub fn words(address: u64, bytes: u64) -> impl DoubleEndedIterator<Item = Piece> {
    let word = u64::from(WORD_BYTES);
    let end = address.saturating_add(bytes);
    (address / word..end.div_ceil(word)).filter(move |_| bytes > 0).map(move |number| {
        let start = (number * word).max(address);
        Piece {
            address: start,
            width: ((number + 1) * word).min(end).wrapping_sub(start) as u8,
            offset: start - address,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_split_at_words() {
        let split = |address, bytes| {
            words(address, bytes).map(|p| (p.address, p.width, p.offset)).collect::<Vec<_>>()
        };
        assert_eq!(split(5, 8), [(5, 3, 0), (8, 5, 3)]);
        assert_eq!(split(8, 16), [(8, 8, 0), (16, 8, 8)]);
        assert_eq!(split(9, 2), [(9, 2, 0)]);
        assert_eq!(split(9, 0), []);
        assert!(words(5, 30).rev().map(|p| p.address).eq([32, 24, 16, 8, 5]));
    }

    fn split(address: u64, bytes: u64) -> Vec<(u64, u8)> {
        pieces(address, bytes).map(|p| (p.address, p.width)).collect()
    }

    #[test]
    fn small_accesses_stay_whole_within_a_line() {
        assert_eq!(split(0, 8), [(0, 8)]);
        assert_eq!(split(3, 8), [(3, 8)]);
        assert_eq!(split(63, 1), [(63, 1)]);
        assert_eq!(split(5, 0), []);
    }

    #[test]
    fn a_range_covers_every_line_it_touches() {
        let lines = |address, bytes| covered(address, bytes).map(|line| line.0).collect::<Vec<_>>();
        assert_eq!(lines(60, 4), [0]);
        assert_eq!(lines(60, 69), [0, 1, 2]);
        assert_eq!(lines(64, 0), [0; 0]);
        assert!(crosses(60, 5) && !crosses(60, 4) && !crosses(60, 0));
    }

    #[test]
    fn line_crossing_accesses_are_split() {
        assert_eq!(split(60, 8), [(60, 4), (64, 4)]);
        assert_eq!(split(63, 2), [(63, 1), (64, 1)]);
    }

    #[test]
    fn wide_accesses_become_aligned_words() {
        assert_eq!(split(0, 16), [(0, 8), (8, 8)]);
        assert_eq!(split(4, 16), [(4, 4), (8, 8), (16, 4)]);
        assert_eq!(split(56, 32), [(56, 8), (64, 8), (72, 8), (80, 8)]);
    }
}
