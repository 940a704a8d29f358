//! Scanning, comparing and sorting over bytes read through a function: which bytes the C library's string functions
//! examine, in which order.
//!
//! How far such a function reads mostly depends on what it finds. It is modeled as reading whole words: which bytes are
//! read next must follow from those read before, or the checker could not tell recoveries apart. That is up to seven
//! bytes more than needed, which at worst costs time.

#![forbid(unsafe_code)]

/// Finds the first position at which `stop` returns true, by words relative to the address `start`; `None` if there is
/// none below `limit`. Before a word is examined, `ready` is called with its offset and size.
pub(crate) fn find_by_words(
    start: usize,
    limit: usize,
    mut ready: impl FnMut(usize, usize),
    stop: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut known = 0;
    while known < limit {
        let word = (8 - start.wrapping_add(known) % 8).min(limit - known);
        ready(known, word);
        if let Some(found) = (known..known + word).find(|&at| stop(at)) {
            return Some(found);
        }
        known += word;
    }
    None
}

/// Equality of letters, ignoring case.
pub(crate) fn same_letter(one: u8, other: u8) -> bool {
    one.eq_ignore_ascii_case(&other) && one != 0
}

/// Equality of bytes.
pub(crate) fn same_byte(one: u8, other: u8) -> bool {
    one == other && one != 0
}

/// Does a match of the needle end at this position?
pub(crate) fn ends_with(
    at: usize,
    hay: impl Fn(usize) -> u8,
    needle: impl Fn(usize) -> u8,
    length: usize,
    same: impl Fn(u8, u8) -> bool,
) -> bool {
    at + 1 >= length && (0..length).all(|k| same(hay(at + 1 - length + k), needle(k)))
}

/// Can the byte at this position belong to a number at the start of a text, including leading blanks?
pub(crate) fn continues_number(at: usize, text: impl Fn(usize) -> u8) -> bool {
    let blank = |byte: u8| byte.is_ascii_whitespace() || byte == 11;
    let byte = text(at);
    let leading = blank(byte) && (0..at).all(|before| blank(text(before)));
    leading || byte.is_ascii_alphanumeric() || b"+-._()".contains(&byte)
}

/// A stable, deterministic order of `count` elements, by merging. The given order may be inconsistent, as it can be
/// after a crash; then the result is some permutation.
pub(crate) fn merge_order(count: usize, in_order: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut merged = Vec::with_capacity(count);
    let mut run = 1;
    while run < count {
        merged.clear();
        for pair in order.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let ([one, ..], [other, ..]) = (left, right) {
                let from = if in_order(*one, *other) { &mut left } else { &mut right };
                merged.push(from[0]);
                *from = &from[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        run *= 2;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_looked_at_whole() {
        let text = b"hello world\0and more";
        let mut seen = Vec::new();
        let found = find_by_words(5, usize::MAX, |at, bytes| seen.push((at, bytes)), |at| text[at] == 0);
        assert_eq!((found, seen), (Some(11), vec![(0, 3), (3, 8), (11, 8)]));
        assert_eq!(find_by_words(0, 5, |_, _| {}, |at| text[at] == 0), None);
    }

    #[test]
    fn letters_and_bytes() {
        assert!(same_letter(b'a', b'A') && !same_byte(b'a', b'A') && same_byte(b'a', b'a'));
        assert!(!same_byte(0, 0), "strings end");
    }

    #[test]
    fn needles_are_found_where_they_end() {
        let (hay, needle) = (b"abcabd", b"abd");
        let found = (0..6).find(|&at| ends_with(at, |k| hay[k], |k| needle[k], 3, same_byte));
        assert_eq!(found, Some(5));
        assert!(ends_with(0, |k| hay[k], |k| needle[k], 0, same_byte), "nothing is everywhere");
    }

    #[test]
    fn numbers_end() {
        for (text, end) in [("  -12.5e+3,", 10), ("0x1f ", 4), ("12 34", 2), (" \t7;", 3)] {
            let text = text.as_bytes();
            assert_eq!((0..text.len()).find(|&at| !continues_number(at, |k| text[k])), Some(end));
        }
    }

    #[test]
    fn merging_is_stable_and_survives_nonsense() {
        let keys = [3, 1, 2, 1, 3, 0];
        assert_eq!(merge_order(6, |one, other| keys[one] <= keys[other]), [5, 1, 3, 2, 0, 4]);
        for contradiction in [true, false] {
            let mut order = merge_order(9, |_, _| contradiction);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..9));
        }
        assert!(merge_order(0, |_, _| true).is_empty());
    }
}
