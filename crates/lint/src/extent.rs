//! Arrays that an index cannot leave: `t->slots[i]` lies within `slots` for every `i`.
//!
//! Two addresses in one object with different indices cannot be compared, but the arrays that contain them can. The
//! bounds come from types: nothing is known about an indexed pointer, or about an array of one element at the end of a
//! structure.

use px86::LINE_BYTES;
use rustc_hash::FxHashMap;

use crate::expression::{Address, Expression, Expressions};
use crate::span::Span;

/// What is known about addresses of an element: the address, its size, and its possible range, relative to the object
/// or to an element selected by fewer indices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Extent {
    pub(crate) at: Address,
    size: i64,
    pub(crate) outer: Option<Expression>,
    from: i64,
    to: i64,
}

/// The extents of the current function, by object and element.
#[derive(Default, Debug)]
pub(crate) struct Extents {
    all: FxHashMap<(Expression, Expression), Vec<Extent>>,
}

/// A range of bytes relative to an object or an element of it.
type Range = (Option<Expression>, i64, i64);

impl Extents {
    fn add(&mut self, extent: Extent) {
        let Some(element) = extent.at.element.filter(|_| extent.at.element != extent.outer) else { return };
        let known = self.all.entry((extent.at.object, element)).or_default();
        if !known.contains(&extent) {
            known.push(extent);
        }
    }

    /// The possible range of an address, with one index fewer. If it was computed in several ways, the union of what
    /// they allow.
    fn of(&self, at: &Address) -> Option<Range> {
        let known = self.all.get(&(at.object, at.element?))?;
        // Bytes of a text are neighbors: of `p = text + n`, `p[1]` is in the same array.
        let reach = |extent: &Extent| if extent.size == 1 { extent.to - extent.from } else { extent.size };
        let near = known.iter().filter(|extent| (at.offset - extent.at.offset).abs() < reach(extent));
        let ranges = near.map(|extent| Some((extent.outer, extent.from, extent.to)));
        ranges
            .reduce(|one, other| {
                let ((outer, a, b), (same, from, to)) = (one?, other?);
                (outer == same).then(|| (outer, a.min(from), b.max(to)))
            })
            .flatten()
    }

    /// Records that an address was computed by an index into an array at these offsets from `base`.
    pub(crate) fn note(
        &mut self,
        all: &Expressions,
        base: Expression,
        address: Expression,
        array: (i64, i64),
        scale: i64,
    ) {
        let (base, at) = (all.address(base), all.address(address));
        if at.object == base.object {
            let (from, to) = (base.offset + array.0, base.offset + array.1);
            self.add(Extent { at, size: scale, outer: base.element, from, to });
        }
    }

    /// Takes over a callee's extent, whose base and element are these addresses here.
    pub(crate) fn take_over(
        &mut self,
        all: &Expressions,
        extent: &Extent,
        outer: Expression,
        element: Expression,
    ) {
        let (outer, element) = (all.address(outer), all.address(element));
        if element.object == outer.object {
            let at = Address { offset: element.offset + extent.at.offset, ..element };
            let (from, to) = (outer.offset + extent.from, outer.offset + extent.to);
            self.add(Extent { at, outer: outer.element, from, to, ..*extent });
        }
    }

    /// Takes all extents: the next function has its own parameters.
    pub(crate) fn take(&mut self) -> Vec<Extent> {
        let all = std::mem::take(&mut self.all);
        let mut all: Vec<Extent> = all.into_values().flatten().collect();
        all.sort_unstable();
        all
    }

    /// The possible ranges: relative to its own element if the length is known, then with fewer and fewer indices.
    fn ranges(&self, span: &Span) -> Vec<Range> {
        let mut ranges: Vec<Range> =
            span.bytes().map(|(from, to)| (span.at.element, from, to)).into_iter().collect();
        let mut at = span.at;
        // At most as many indices as a name has brackets.
        while ranges.len() < 8
            && let Some((outer, from, to)) = self.of(&at)
        {
            ranges.push((outer, from, to));
            at = Address { element: outer, offset: from, ..at };
        }
        ranges
    }

    /// Both ranges relative to the same object or element.
    fn seen_alike(&self, one: &Span, other: &Span) -> Vec<(Range, Range)> {
        if one.at.object != other.at.object {
            return Vec::new();
        }
        let others = self.ranges(other);
        let alike = |own: &Range| others.iter().find(|other| other.0 == own.0).map(|other| (*own, *other));
        self.ranges(one).iter().filter_map(alike).collect()
    }

    /// The bytes of an object, or of an element of it, within which a range of known length lies for all indices.
    pub(crate) fn around(&self, span: &Span, element: Option<Expression>) -> Option<(i64, i64)> {
        span.bytes()?;
        self.ranges(span).into_iter().find(|(within, ..)| *within == element).map(|(_, from, to)| (from, to))
    }

    /// Whether ranges of one object are certainly disjoint for all indices.
    pub(crate) fn are_in_other_arrays(&self, one: &Span, other: &Span) -> bool {
        self.seen_alike(one, other).iter().any(|((_, a, b), (_, c, d))| b <= c || d <= a)
    }

    /// Whether a range lies in another one of known bytes for all indices.
    pub(crate) fn lies_in(&self, inner: &Span, outer: &Span) -> bool {
        let Some((start, end)) = outer.bytes().filter(|_| inner.at.object == outer.at.object) else {
            return false;
        };
        let inside = |&(element, from, to): &Range| element == outer.at.element && start <= from && to <= end;
        self.ranges(inner).iter().any(inside)
    }

    /// Whether ranges certainly lie on one line for all indices. The caller determines an element's alignment.
    pub(crate) fn are_on_one_line(
        &self,
        one: &Span,
        other: &Span,
        alignment: &dyn Fn(Option<Expression>) -> u64,
    ) -> bool {
        let line = |at: i64| at.div_euclid(LINE_BYTES as i64);
        self.seen_alike(one, other).iter().any(|((element, a, b), (_, c, d))| {
            line(*a.min(c)) == line(*b.max(d) - 1) && alignment(*element) >= LINE_BYTES
        })
    }
}
