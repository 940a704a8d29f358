//! Ranges of memory and their relations: by bytes, by words and by cache lines.
//!
//! The address of an object is unknown, except for its alignment. A relation holds between two ranges if it holds for
//! every possible address.

use px86::LINE_BYTES;

use crate::expression::{Address, Expression};

/// The length of a range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Length {
    Known(u64),
    /// Unknown, but equal symbols mean equal lengths.
    Symbol(Expression),
    /// To the end of the object.
    Unknown,
}

/// A range of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Span {
    pub(crate) at: Address,
    pub(crate) length: Length,
}

/// The relation of a range to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meets {
    /// It certainly contains all of the other, or all its lines.
    Covers,
    /// They overlap, or may.
    Maybe,
    /// They are disjoint.
    Never,
}

impl Span {
    /// The first byte and one past the last, if both are known.
    pub(crate) fn bytes(&self) -> Option<(i64, i64)> {
        match self.length {
            Length::Known(length) => Some((self.at.offset, self.at.offset + length as i64)),
            _ => None,
        }
    }

    /// The pages that contain it, if its object begins one and it lies at a known place.
    pub(crate) fn in_pages(self) -> Span {
        const PAGE: i64 = 4096;
        let Some((start, end)) = self.bytes().filter(|_| self.at.element.is_none()) else { return self };
        let (start, end) = (start.div_euclid(PAGE) * PAGE, (end + PAGE - 1).div_euclid(PAGE) * PAGE);
        Span { at: Address { offset: start, ..self.at }, length: Length::Known(end.abs_diff(start)) }
    }

    /// Whether ranges of the same object can be compared by their offsets.
    fn comparable(&self, other: &Span) -> bool {
        self.at.object == other.at.object && self.at.element == other.at.element
    }

    /// Whether it ends before the array that contains the other begins. An index is assumed not to be negative.
    fn is_before(&self, other: &Span) -> bool {
        let before = self.bytes().is_some_and(|(_, end)| end <= other.at.offset);
        self.at.element.is_none() && other.at.element.is_some() && before
    }

    /// Whether this range contains the other, byte by byte.
    pub(crate) fn contains(&self, other: &Span) -> Meets {
        if self.at.object != other.at.object {
            return Meets::Never;
        }
        // The whole object contains its elements.
        if self.at.element.is_none() && self.length == Length::Unknown && self.at.offset == 0 {
            return Meets::Covers;
        }
        if !self.comparable(other) {
            return if self.is_before(other) || other.is_before(self) { Meets::Never } else { Meets::Maybe };
        }
        match (self.bytes(), other.bytes()) {
            (Some((start, end)), Some((from, to))) => {
                if start <= from && to <= end {
                    Meets::Covers
                } else if to <= start || end <= from {
                    Meets::Never
                } else {
                    Meets::Maybe
                }
            }
            (Some((_, end)), None) if other.at.offset >= end => Meets::Never,
            (None, Some((_, to))) if to <= self.at.offset => Meets::Never,
            _ if self.at.offset == other.at.offset && self.length == other.length => Meets::Covers,
            (None, _) if self.length == Length::Unknown && self.at.offset <= other.at.offset => Meets::Covers,
            _ => Meets::Maybe,
        }
    }

    /// Whether writing back this range writes back the lines of the other. A range of unknown length is assumed to be
    /// as long as necessary.
    pub(crate) fn covers_lines(&self, other: &Span, alignment: u64) -> Meets {
        let by_bytes = self.contains(other);
        let open = matches!(self.length, Length::Symbol(_) | Length::Unknown);
        if open && by_bytes == Meets::Maybe && self.at.element.is_none_or(|own| other.at.element == Some(own))
        {
            let behind = self.at.element != other.at.element || self.at.offset <= other.at.offset;
            return if behind { Meets::Covers } else { Meets::Maybe };
        }
        if by_bytes == Meets::Covers {
            return by_bytes;
        }
        if !self.comparable(other) {
            // A line at a fixed place does not cover a copy to an unknown place with an unknown length.
            let one_line = self.at.element.is_none() && matches!(self.length, Length::Known(..=LINE_BYTES));
            let copied = other.at.element.is_some() && !matches!(other.length, Length::Known(_));
            return if one_line && copied { Meets::Never } else { by_bytes };
        }
        // A copied string is assumed to end where its array does.
        if other.length == Length::Unknown
            && self.bytes().is_some_and(|(start, end)| (start..end).contains(&other.at.offset))
        {
            return Meets::Covers;
        }
        let (Some((start, end)), Some((from, to))) = (self.bytes(), other.bytes()) else { return by_bytes };
        let (mut all, mut any) = (true, false);
        for shift in placements(alignment) {
            let (first, last) = lines(start, end, shift);
            let (wanted_first, wanted_last) = lines(from, to, shift);
            all &= first <= wanted_first && wanted_last <= last;
            any |= first <= wanted_last && wanted_first <= last;
        }
        if all {
            Meets::Covers
        } else if any {
            // A store across two lines, only one of which is written back, is not safe, nor is one that shares a line
            // only at some alignments.
            if by_bytes == Meets::Never { Meets::Never } else { Meets::Maybe }
        } else {
            Meets::Never
        }
    }

    /// Whether both are of one object and of known length, so that their bytes can be compared.
    pub(crate) fn is_comparable(&self, other: &Span) -> bool {
        self.comparable(other) && self.bytes().is_some() && other.bytes().is_some()
    }

    /// Whether separately written-back parts cover all its lines, wherever the object lies; `Never` if some lines are
    /// always left out.
    pub(crate) fn is_covered_by(&self, parts: &[(i64, i64)], alignment: u64) -> Meets {
        let Some((from, to)) = self.bytes() else { return Meets::Maybe };
        let (mut all, mut any) = (true, false);
        for shift in placements(alignment) {
            let (first, last) = lines(from, to, shift);
            let covered = (first..=last).all(|line| {
                parts
                    .iter()
                    .map(|(start, end)| lines(*start, *end, shift))
                    .any(|(a, b)| (a..=b).contains(&line))
            });
            all &= covered;
            any |= covered;
        }
        match (all, any) {
            (true, _) => Meets::Covers,
            (false, true) => Meets::Maybe,
            (false, false) => Meets::Never,
        }
    }

    /// Whether they may share a line.
    pub(crate) fn may_share_line(&self, other: &Span, alignment: u64) -> bool {
        if self.at.object != other.at.object {
            return false;
        }
        if !self.comparable(other) {
            return true;
        }
        let (Some((start, end)), Some((from, to))) = (self.bytes(), other.bytes()) else {
            return self.contains(other) != Meets::Never || other.contains(self) != Meets::Never;
        };
        placements(alignment).any(|shift| {
            let (first, last) = lines(start, end, shift);
            let (other_first, other_last) = lines(from, to, shift);
            first <= other_last && other_first <= last
        })
    }

    /// Whether both certainly lie on one line.
    pub(crate) fn same_line(&self, other: &Span, alignment: u64) -> bool {
        let (Some((start, end)), Some((from, to))) = (self.bytes(), other.bytes()) else { return false };
        self.comparable(other)
            && placements(alignment).all(|shift| {
                let (first, last) = lines(start, end, shift);
                first == last && (first, last) == lines(from, to, shift)
            })
    }

    /// How many whole lines of this range contain nothing of the others, wherever the object lies; `None` if unknown.
    pub(crate) fn lines_without(&self, others: &[Span], alignment: u64) -> Option<u64> {
        let (start, end) = self.bytes()?;
        let mut ranges = Vec::new();
        for other in others {
            if !self.comparable(other) {
                return None;
            }
            ranges.push(other.bytes()?);
        }
        placements(alignment)
            .map(|shift| {
                let (first, last) = lines(start, end, shift);
                let mut touched: Vec<(i64, i64)> =
                    ranges.iter().map(|(from, to)| lines(*from, *to, shift)).collect();
                touched.sort_unstable();
                // Lines up to `reached` are counted.
                let (mut count, mut reached) = (0, first - 1);
                for (from, to) in touched {
                    let (from, to) = (from.max(reached + 1), to.min(last));
                    if from <= to {
                        (count, reached) = (count + to - from + 1, to);
                    }
                }
                (last - first + 1 - count) as u64
            })
            .min()
    }
}

fn placements(alignment: u64) -> impl Iterator<Item = i64> {
    (0..LINE_BYTES).step_by(alignment.clamp(1, LINE_BYTES) as usize).map(|shift| shift as i64)
}

/// The first and last line of a range of an object that lies `shift` bytes after the start of a line.
fn lines(start: i64, end: i64, shift: i64) -> (i64, i64) {
    let line = |at: i64| (at + shift).div_euclid(LINE_BYTES as i64);
    (line(start), line((end - 1).max(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Expressions, Form};

    fn span(object: Expression, offset: i64, length: u64) -> Span {
        Span { at: Address { object, element: None, offset }, length: Length::Known(length) }
    }

    #[test]
    fn words_and_lines() {
        let mut all = Expressions::new();
        let p = all.add(Form::Parameter(0));
        // The same word is on the same line wherever an aligned object lies.
        assert_eq!(span(p, 0, 4).covers_lines(&span(p, 4, 4), 8), Meets::Covers);
        // Another word may be on another line, unless the object begins one.
        assert_eq!(span(p, 0, 8).covers_lines(&span(p, 8, 8), 8), Meets::Never);
        assert_eq!(span(p, 0, 8).covers_lines(&span(p, 8, 8), 64), Meets::Covers);
        assert_eq!(span(p, 0, 8).covers_lines(&span(p, 64, 8), 64), Meets::Never);
        // A flush of a line's length may touch two lines or one; 160 bytes always touch three.
        assert_eq!(span(p, 0, 64).lines_without(&[span(p, 0, 8)], 8), Some(0));
        assert_eq!(span(p, 0, 160).lines_without(&[span(p, 0, 8)], 8), Some(2));
        let two = [span(p, 1024, 8), span(p, 0, 8)];
        assert_eq!(span(p, 0, 1 << 30).lines_without(&two, 64), Some((1 << 24) - 2));
    }
}
