//! Which values can occur where: small sets of numbers, propagated through terms and memory to a fixed point.
//!
//! This is what makes addresses cheap. A pointer that was stored and loaded again takes few values, which determine the
//! locations an access can touch; a load of a flag needs one bit, not 64. Everything is computed from below: an event
//! contributes once its guard can be true, and a load reads what stores to its locations can have written. A value that
//! outgrows a set is approximated by its bits.

use std::collections::BTreeMap;

use px86::{LINE_BYTES, Line};

use crate::program::{Action, Event, Object, Program};
use crate::term::{Binary, Node, Term, Terms, mask};

/// Larger sets are approximated by bits.
const MOST: usize = 48;

/// An access with more possible targets than this is not followed: every target costs literals, and most of a large
/// mapping is never meant.
pub const MOST_PLACES: usize = 4096;

/// What is known about a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these, sorted. An empty list means unreachable.
    Among(Vec<u64>),
    /// One of these, sorted, or anything at all: the content of memory that was never written. As an address this is
    /// most likely invalid, so only the known values count as targets.
    Wild {
        /// The values that are known.
        known: Vec<u64>,
        /// The mask of all bits.
        all: u64,
    },
    /// Anything within these bits.
    Within {
        /// Bits that may be 1.
        may: u64,
        /// Bits that are 1.
        must: u64,
    },
}

impl Values {
    const NOTHING: Values = Values::Among(Vec::new());

    fn anything(width: u8) -> Values {
        Values::Within { may: mask(width), must: 0 }
    }

    /// Bits that may be 1.
    pub fn may(&self) -> u64 {
        match self {
            Values::Among(values) => values.iter().fold(0, |all, value| all | value),
            Values::Wild { all, .. } => *all,
            Values::Within { may, .. } => *may,
        }
    }

    /// Bits that are 1 in every value.
    pub fn must(&self) -> u64 {
        match self {
            Values::Among(values) => values.iter().fold(u64::MAX, |all, value| all & value),
            Values::Wild { .. } => 0,
            Values::Within { must, .. } => *must,
        }
    }

    /// The values one by one, if they are few.
    pub fn few(&self) -> Option<&[u64]> {
        match self {
            Values::Among(values) => Some(values),
            Values::Wild { .. } | Values::Within { .. } => None,
        }
    }

    /// The individually known values, if not too many.
    fn listed(&self) -> Option<&[u64]> {
        match self {
            Values::Among(values) | Values::Wild { known: values, .. } => Some(values),
            Values::Within { .. } => None,
        }
    }

    /// Can the value be this?
    pub fn contains(&self, value: u64) -> bool {
        match self {
            Values::Among(values) => values.binary_search(&value).is_ok(),
            Values::Wild { all, .. } => value & !all == 0,
            Values::Within { may, must } => value & !may == 0 && value & must == *must,
        }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Values::Among(values) if values.is_empty())
    }

    fn from_many(mut values: Vec<u64>) -> Values {
        values.sort_unstable();
        values.dedup();
        if values.len() <= MOST {
            return Values::Among(values);
        }
        let all = Values::Among(values);
        Values::Within { may: all.may(), must: all.must() }
    }

    /// The values possible in both.
    fn common(&self, other: &Values) -> Values {
        match (self, other) {
            (Values::Among(values), other) | (other, Values::Among(values)) => {
                Values::Among(values.iter().copied().filter(|&value| other.contains(value)).collect())
            }
            (one, _) => one.clone(),
        }
    }

    fn wild(mut known: Vec<u64>, all: u64) -> Values {
        known.sort_unstable();
        known.dedup();
        if known.len() <= MOST { Values::Wild { known, all } } else { Values::Within { may: all, must: 0 } }
    }

    /// Adds the possible values of `other`. True if that is more.
    fn join(&mut self, other: &Values) -> bool {
        if other.is_nothing() {
            return false;
        }
        let joined = match (&*self, other) {
            (Values::Among(a), Values::Among(b)) => {
                if b.iter().all(|value| a.binary_search(value).is_ok()) {
                    return false;
                }
                Values::from_many(a.iter().chain(b).copied().collect())
            }
            (mine, theirs) if mine.is_nothing() => theirs.clone(),
            (Values::Wild { known, all }, theirs) | (theirs, Values::Wild { known, all })
                if theirs.listed().is_some() =>
            {
                let both = theirs.listed().into_iter().flatten().chain(known).copied().collect();
                Values::wild(both, *all)
            }
            (mine, theirs) => {
                Values::Within { may: mine.may() | theirs.may(), must: mine.must() & theirs.must() }
            }
        };
        if joined == *self {
            return false;
        }
        *self = joined;
        true
    }
}

/// The possible values of every term of a program, and the possible targets of every access.
#[derive(Debug)]
pub struct Analysis {
    values: Vec<Values>,
    /// The bounds of objects, by address.
    objects: Vec<(u64, u64)>,
}

/// An access as far as values are concerned.
struct Accessed {
    guard: Term,
    address: Term,
    /// What it reads.
    result: Option<Term>,
    /// What it writes.
    value: Option<Term>,
    /// Whether it writes, if that is conditional.
    stores: Option<Term>,
}

impl Accessed {
    fn of(event: &Event) -> Option<Accessed> {
        let guard = event.guard;
        match event.action {
            Action::Load { address, result } => {
                Some(Accessed { guard, address, result: Some(result), value: None, stores: None })
            }
            Action::Store { address, value, .. } => {
                Some(Accessed { guard, address, result: None, value: Some(value), stores: None })
            }
            Action::Rmw { address, old, new, stores } => {
                Some(Accessed { guard, address, result: Some(old), value: Some(new), stores: Some(stores) })
            }
            _ => None,
        }
    }
}

/// What a store may write, and its possible targets.
struct Stored {
    places: Vec<u64>,
    bytes: u8,
    value: Values,
}

/// Everything written, by address and width.
#[derive(Clone, Default)]
struct Written(BTreeMap<u64, Vec<(u8, Values)>>);

impl Written {
    fn add(&mut self, stored: &Stored) {
        for &address in &stored.places {
            let here = self.0.entry(address).or_default();
            match here.iter_mut().find(|(bytes, _)| *bytes == stored.bytes) {
                Some((_, known)) => {
                    known.join(&stored.value);
                }
                None => here.push((stored.bytes, stored.value.clone())),
            }
        }
    }
}

impl Analysis {
    /// Propagates the values of a program to a fixed point.
    pub fn new(program: &Program) -> Analysis {
        Analysis::with_crashes(program, 1)
    }

    /// The same for a program with up to this many consecutive crashes.
    pub fn with_crashes(program: &Program, crashes: usize) -> Analysis {
        let span = |object: &Object| (object.address, object.address + object.initial.len());
        let mut objects: Vec<(u64, u64)> = program.objects.iter().map(span).collect();
        objects.sort_unstable();
        let mut analysis = Analysis { values: vec![Values::NOTHING; program.terms.len()], objects };
        let mut inputs = vec![true; program.terms.len()];
        let mut events = Vec::new();
        let threads = program.threads.iter().enumerate().map(|(index, thread)| (Some(index), thread));
        for (thread, code) in threads.chain(program.recovery.iter().map(|code| (None, code))) {
            for event in &code.events {
                let accessed = Accessed::of(event);
                if let Some(result) = accessed.as_ref().and_then(|accessed| accessed.result) {
                    inputs[result.index()] = false;
                }
                events.extend(accessed.map(|accessed| (thread, accessed)));
            }
        }
        let owners = program.threads.len() + 1;
        let owner = |thread: Option<usize>| thread.unwrap_or(owners - 1);
        let mut dirty = vec![true; program.terms.len()];
        loop {
            analysis.evaluate(&program.terms, &inputs, &mut dirty);
            // What each thread writes; recovery is the last one.
            let stores: Vec<Option<Stored>> =
                events.iter().map(|(_, accessed)| analysis.stored(program, accessed)).collect();
            let mut written: Vec<Written> = vec![Written::default(); owners];
            for ((thread, _), stored) in events.iter().zip(&stores) {
                if let Some(stored) = stored {
                    written[owner(*thread)].add(stored);
                }
            }
            // What the current thread has written so far: it does not see its own later stores.
            let mut before = Written::default();
            let mut at = None;
            let mut changed = false;
            for ((thread, accessed), stored) in events.iter().zip(&stores) {
                if at != Some(*thread) {
                    at = Some(*thread);
                    before = Written::default();
                }
                if let Some(result) = accessed.result
                    && analysis.get(accessed.guard).contains(1)
                {
                    // A crashed recovery leaves its stores to the next one.
                    let own = if thread.is_none() && crashes > 1 { &written[owners - 1] } else { &before };
                    let others = (0..owners - 1).filter(|&other| Some(other) != *thread);
                    let seen = [own].into_iter().chain(others.map(|other| &written[other]));
                    let seen = analysis.seen(program, accessed.address, result, seen);
                    if analysis.values[result.index()].join(&seen) {
                        dirty[result.index()] = true;
                        changed = true;
                    }
                }
                if let Some(stored) = stored {
                    before.add(stored);
                }
            }
            if !changed {
                return analysis;
            }
        }
    }

    /// What an event may store, and where.
    fn stored(&self, program: &Program, accessed: &Accessed) -> Option<Stored> {
        let value = accessed.value?;
        let happens = self.get(accessed.guard).contains(1)
            && accessed.stores.is_none_or(|condition| self.get(condition).contains(1));
        let bytes = program.terms.width(value) / 8;
        happens.then(|| Stored {
            places: self.places(accessed.address, bytes),
            bytes,
            value: self.get(value).clone(),
        })
    }

    /// What a load may read: the initial content, and what these stores have written.
    fn seen<'w>(
        &self,
        program: &Program,
        address: Term,
        result: Term,
        written: impl Iterator<Item = &'w Written>,
    ) -> Values {
        let width = program.terms.width(result);
        let bytes = width / 8;
        if self.goes_anywhere(address, bytes) {
            return Values::anything(width);
        }
        let places = self.places(address, bytes);
        let mut seen = Values::NOTHING;
        for &address in &places {
            seen.join(&match initial(program, address, bytes) {
                Some(value) => Values::Among(vec![value]),
                None => Values::wild(Vec::new(), mask(width)),
            });
        }
        for written in written {
            for &address in &places {
                let from = address.saturating_sub(7);
                for (&at, stored) in written.0.range(from..address + u64::from(bytes)) {
                    for (stored_bytes, value) in stored {
                        if at + u64::from(*stored_bytes) <= address {
                            continue;
                        }
                        if at == address && *stored_bytes == bytes {
                            seen.join(value);
                        } else {
                            seen.join(&Values::anything(width));
                        }
                    }
                }
            }
        }
        seen
    }

    /// What a term can be.
    pub fn get(&self, term: Term) -> &Values {
        &self.values[term.index()]
    }

    /// The possible targets of an access of this many bytes: every location inside an object that the address can
    /// denote. Empty if there are too many, see [`Analysis::goes_anywhere`].
    pub fn places(&self, address: Term, bytes: u8) -> Vec<u64> {
        let bytes = u64::from(bytes);
        match self.get(address) {
            Values::Among(values) | Values::Wild { known: values, .. } => {
                values.iter().copied().filter(|&at| self.is_inside(at, bytes)).collect()
            }
            Values::Within { may, must } => self.places_within(*may, *must, bytes).unwrap_or_default(),
        }
    }

    /// Whether an access has too many possible targets to follow.
    pub fn goes_anywhere(&self, address: Term, bytes: u8) -> bool {
        match self.get(address) {
            Values::Within { may, must } => self.places_within(*may, *must, u64::from(bytes)).is_none(),
            _ => false,
        }
    }

    fn is_inside(&self, at: u64, bytes: u64) -> bool {
        let next = self.objects.partition_point(|&(start, _)| start <= at);
        next.checked_sub(1)
            .is_some_and(|index| at.checked_add(bytes).is_some_and(|end| end <= self.objects[index].1))
    }

    /// The locations inside objects with these bits; `None` if there are too many. Objects do not overlap, so what fits
    /// into one is inside.
    fn places_within(&self, may: u64, must: u64, bytes: u64) -> Option<Vec<u64>> {
        // Fixed low bits determine the distance between possible addresses.
        let step = 1 << (may ^ must).trailing_zeros().min(32);
        let contains = |at: u64| at & !may == 0 && at & must == must;
        let mut places = Vec::new();
        for &(start, end) in &self.objects {
            let first = start + (must.wrapping_sub(start) & (step - 1));
            let last = (end + 1).saturating_sub(bytes);
            let mut at = first;
            while at < last {
                if !contains(at) {
                    at = next_within(at, may, must).unwrap_or(last);
                    continue;
                }
                places.push(at);
                if places.len() > MOST_PLACES {
                    return None;
                }
                at += step;
            }
        }
        Some(places)
    }

    /// The cache lines in use by an object that may contain an address, whether or not the address is in the object:
    /// any address of a line flushes it.
    ///
    /// Empty if there are too many: omitting a flush underapproximates what persists, so a proof remains valid.
    pub fn lines(&self, address: Term) -> Vec<Line> {
        let mut lines: Vec<Line> = match self.get(address) {
            Values::Among(values) | Values::Wild { known: values, .. } => {
                values.iter().map(|&at| Line::containing(at)).filter(|&line| self.is_used(line)).collect()
            }
            Values::Within { may, must } => {
                let within = LINE_BYTES - 1;
                let starts = self.line_starts(may & !within, must & !within);
                starts.unwrap_or_default().into_iter().map(Line::containing).collect()
            }
        };
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Does an object use the line?
    fn is_used(&self, line: Line) -> bool {
        let end = line.start() + LINE_BYTES;
        let next = self.objects.partition_point(|&(start, _)| start < end);
        let nearest = self.objects[..next].iter().rev().find(|(start, last)| start < last);
        nearest.is_some_and(|&(_, last)| last > line.start())
    }

    /// The starts of lines in use by an object, with these bits; `None` if there are too many.
    fn line_starts(&self, may: u64, must: u64) -> Option<Vec<u64>> {
        let mut starts = Vec::new();
        for &(start, end) in self.objects.iter().filter(|(start, end)| start < end) {
            let mut at = Line::containing(start).start();
            while at < end {
                if at & !may == 0 && at & must == must {
                    starts.push(at);
                    if starts.len() > MOST_PLACES {
                        return None;
                    }
                    at += LINE_BYTES;
                } else {
                    at = next_within(at, may, must).unwrap_or(end);
                }
            }
        }
        Some(starts)
    }

    /// Can the access be outside every object?
    pub fn can_miss(&self, places: &[u64], address: Term) -> bool {
        self.get(address).few().is_none_or(|values| values.len() > places.len())
    }

    fn evaluate(&mut self, terms: &Terms, inputs: &[bool], dirty: &mut [bool]) {
        for index in 0..terms.len() {
            let term = terms.at(index);
            if let Node::Symbol(_) = terms.node(term) {
                if inputs[index] && dirty[index] {
                    self.values[index] = Values::anything(terms.width(term));
                }
                continue;
            }
            if !dirty[index] && !terms.operands(term).any(|operand| dirty[operand.index()]) {
                continue;
            }
            let new = self.apply(terms, term);
            dirty[index] = self.values[index].join(&new);
        }
        dirty.fill(false);
    }

    fn apply(&self, terms: &Terms, term: Term) -> Values {
        let width = terms.width(term);
        let all = mask(width);
        let node = terms.node(term);
        if let Node::Choose(condition, a, b) = node {
            let mut chosen = Values::NOTHING;
            let condition = self.get(condition);
            if condition.is_nothing() {
                return self.get(a).common(self.get(b));
            }
            if condition.contains(1) {
                chosen.join(self.get(a));
            }
            if condition.contains(0) {
                chosen.join(self.get(b));
            }
            return chosen;
        }
        // An operand without possible values belongs to loads that do not happen. If the result is needed anyway, the
        // other operand alone decides: a conjunction with something false, a disjunction with something true.
        let operands: Vec<Term> = terms.operands(term).collect();
        let known: Vec<&Values> = operands.iter().map(|&operand| self.get(operand)).collect();
        if known.iter().any(|values| values.is_nothing()) {
            let decides = match node {
                Node::Binary(Binary::And | Binary::Mul, ..) => 0,
                Node::Binary(Binary::Or, ..) => all,
                _ => return Values::NOTHING,
            };
            return if known.iter().any(|values| values.contains(decides)) {
                Values::Among(vec![decides])
            } else {
                Values::NOTHING
            };
        }
        let one = |value: u64| terms.apply(term, |_| value, |_| 0);
        let two = |a: u64, b: u64| {
            let first = operands[0];
            terms.apply(term, |operand| if operand == first { a } else { b }, |_| 0)
        };
        match known.as_slice() {
            [] => Values::Among(vec![one(0)]),
            [a] => match a.few() {
                Some(values) => Values::from_many(values.iter().map(|&value| one(value)).collect()),
                None => match a.listed() {
                    Some(known) => Values::wild(known.iter().map(|&value| one(value)).collect(), all),
                    None => self.bits_of_one(terms, node, width),
                },
            },
            [a, b] => match (a.few(), b.few()) {
                (Some(_), Some(_)) if operands[0] == operands[1] => {
                    Values::from_many(a.few().into_iter().flatten().map(|&value| two(value, value)).collect())
                }
                (Some(left), Some(right)) if left.len() * right.len() <= MOST * MOST => Values::from_many(
                    left.iter()
                        .flat_map(|&a| right.iter().map(move |&b| (a, b)))
                        .map(|(a, b)| two(a, b))
                        .collect(),
                ),
                _ => match (node, a.listed(), b.listed()) {
                    (Node::Binary(Binary::Add | Binary::Sub, ..), Some(left), Some(right))
                        if left.len() * right.len() <= MOST * MOST =>
                    {
                        let pairs = left.iter().flat_map(|&a| right.iter().map(move |&b| (a, b)));
                        Values::wild(pairs.map(|(a, b)| two(a, b)).collect(), all)
                    }
                    _ => bits_of_two(node, a, b, terms.width(operands[1]), all),
                },
            },
            _ => Values::anything(width),
        }
    }

    fn bits_of_one(&self, terms: &Terms, node: Node, width: u8) -> Values {
        let all = mask(width);
        match node {
            Node::Not(a) => {
                let a = self.get(a);
                Values::Within { may: !a.must() & all, must: !a.may() & all }
            }
            Node::Extract(a, low) => {
                let a = self.get(a);
                Values::Within { may: a.may() >> low & all, must: a.must() >> low & all }
            }
            Node::ZeroExtend(a) => {
                let a = self.get(a);
                Values::Within { may: a.may(), must: a.must() }
            }
            Node::SignExtend(a) => {
                let sign = 1 << (terms.width(a) - 1);
                let a = self.get(a);
                if a.may() & sign == 0 {
                    Values::Within { may: a.may(), must: a.must() }
                } else {
                    let above = all & !(sign | (sign - 1));
                    Values::Within { may: a.may() | above, must: a.must() }
                }
            }
            _ => Values::anything(width),
        }
    }
}

fn bits_of_two(node: Node, a: &Values, b: &Values, low_width: u8, all: u64) -> Values {
    let within = |may: u64, must: u64| Values::Within { may: may & all, must: must & all };
    match node {
        Node::Binary(Binary::And, ..) => within(a.may() & b.may(), a.must() & b.must()),
        Node::Binary(Binary::Or, ..) => within(a.may() | b.may(), a.must() | b.must()),
        Node::Binary(Binary::Xor, ..) => within(a.may() | b.may(), 0),
        Node::Binary(Binary::Add | Binary::Mul, ..) => {
            // No carry reaches below the lowest bit that may be 1, nor more than one above the highest.
            let low = (a.may() | b.may()).trailing_zeros();
            let high = match node {
                Node::Binary(Binary::Add, ..) => a.may().checked_add(b.may()),
                _ => a.may().checked_mul(b.may()),
            };
            let above = high.map_or(u64::MAX, |high| u64::MAX.checked_shr(high.leading_zeros()).unwrap_or(0));
            let below = 1u64.checked_shl(low).map_or(0, |bit| !(bit - 1));
            let low_ok = if matches!(node, Node::Binary(Binary::Mul, ..)) { u64::MAX } else { below };
            within(above & low_ok, 0)
        }
        Node::Binary(Binary::ShiftLeft, ..) => match b.few() {
            Some(&[count]) if count < 64 => within(a.may() << count, a.must() << count),
            _ => within(all, 0),
        },
        Node::Binary(Binary::ShiftRight, ..) => match b.few() {
            Some(&[count]) if count < 64 => within(a.may() >> count, a.must() >> count),
            _ => within(all, 0),
        },
        Node::Binary(Binary::RemUnsigned | Binary::DivUnsigned, ..) if !b.contains(0) => {
            let high = a.may();
            within(u64::MAX.checked_shr(high.leading_zeros()).unwrap_or(0), 0)
        }
        Node::Concat(..) => within(a.may() << low_width | b.may(), a.must() << low_width | b.must()),
        _ => within(all, 0),
    }
}

/// The least number above this one with only bits of `may` and all bits of `must`: equal to it above some bit, which
/// becomes 1, and as small as possible below.
fn next_within(at: u64, may: u64, must: u64) -> Option<u64> {
    (0..64).find_map(|bit| {
        let (one, below) = (1u64 << bit, (1u64 << bit) - 1);
        let above = !(below | one);
        let fits =
            at & one == 0 && may & one != 0 && at & above & !may == 0 && at & above & must == must & above;
        fits.then_some(at & above | one | must & below)
    })
}

/// The initial content of memory, low byte first; `None` if not entirely known.
pub fn initial(program: &Program, address: u64, bytes: u8) -> Option<u64> {
    (0..u64::from(bytes)).try_fold(0, |value, byte| {
        Some(value | u64::from(initial_byte(program, address + byte)?) << (8 * byte))
    })
}

/// The initial value of a byte; `None` if unknown. Outside all memory it is 0.
pub fn initial_byte(program: &Program, at: u64) -> Option<u8> {
    let content = program
        .objects
        .iter()
        .find_map(|object| at.checked_sub(object.address).and_then(|offset| object.initial.get(offset)));
    content.unwrap_or(Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_within_bits_is_the_least() {
        for (may, must) in [(0b1101_1100, 0b0100), (0b1111, 0), (0b1010_0000, 0b1000_0000), (0b111, 0b101)] {
            for at in 0..256 {
                let fits = |value: &u64| value & !may == 0 && value & must == must;
                assert_eq!(next_within(at, may, must), (at + 1..256).find(fits), "{at} {may:b} {must:b}");
            }
        }
    }
}
