//! Which values can occur where: small sets of numbers, followed through terms and memory to a fixed point.
//!
//! This is what makes addresses cheap. A pointer that was stored and loaded again takes few values, and those say
//! which places an access can touch; a load of a flag needs one bit, not 64. Everything is computed from below:
//! an event contributes once its guard can be true, a load reads what stores to its places can have written. What
//! outgrows a set is known by its bits only.

use std::collections::BTreeMap;

use px86::{LINE_BYTES, Line};

use crate::program::{Action, Event, Program};
use crate::term::{Binary, Node, Term, Terms, mask};

/// Sets larger than this are known by bits only.
const MOST: usize = 48;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these, sorted. None at all: nothing gets here.
    Among(Vec<u64>),
    /// One of these, sorted, or anything at all: what memory holds that nobody wrote. As an address that is an access to
    /// nothing as good as to something, so only the values that are known count as places.
    Wild {
        /// The values that are known.
        known: Vec<u64>,
        /// All bits there are.
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

    /// The values that are known one by one, if there are not too many of those.
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

    /// What both can be.
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

    /// Adds what `other` can be. True if that is more.
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

/// What every term of a program can be, and where every access can go.
#[derive(Debug)]
pub struct Analysis {
    values: Vec<Values>,
}

/// A store as far as its value goes: where, and what.
struct Stored {
    guard: Term,
    address: Term,
    value: Term,
    stores: Option<Term>,
}

struct Loaded {
    guard: Term,
    address: Term,
    result: Term,
}

impl Analysis {
    /// Follows the values of a program until nothing new turns up.
    pub fn new(program: &Program) -> Analysis {
        let mut analysis = Analysis { values: vec![Values::NOTHING; program.terms.len()] };
        let mut inputs = vec![true; program.terms.len()];
        let (mut stores, mut loads) = (Vec::new(), Vec::new());
        let recovery = program.recovery.iter().flat_map(|thread| &thread.events);
        let before: Vec<&Event> = program.threads.iter().flat_map(|thread| &thread.events).collect();
        for (event, after_crash) in
            before.into_iter().map(|event| (event, false)).chain(recovery.map(|event| (event, true)))
        {
            let guard = event.guard;
            match event.action {
                Action::Load { address, result } => {
                    inputs[result.index()] = false;
                    loads.push((Loaded { guard, address, result }, after_crash));
                }
                Action::Store { address, value, .. } => {
                    stores.push((Stored { guard, address, value, stores: None }, after_crash));
                }
                Action::Rmw { address, old, new, stores: condition } => {
                    inputs[old.index()] = false;
                    loads.push((Loaded { guard, address, result: old }, after_crash));
                    let stored = Stored { guard, address, value: new, stores: Some(condition) };
                    stores.push((stored, after_crash));
                }
                _ => {}
            }
        }
        let mut dirty = vec![true; program.terms.len()];
        loop {
            analysis.evaluate(&program.terms, &inputs, &mut dirty);
            // What has been written where, by address and width; recovery's stores are seen by recovery only.
            let mut written: BTreeMap<u64, Vec<(u8, Values, bool)>> = BTreeMap::new();
            for (store, after_crash) in &stores {
                let happens = analysis.get(store.guard).contains(1)
                    && store.stores.is_none_or(|condition| analysis.get(condition).contains(1));
                if !happens {
                    continue;
                }
                let bytes = program.terms.width(store.value) / 8;
                let value = analysis.get(store.value).clone();
                for address in analysis.places(program, store.address, bytes) {
                    let here = written.entry(address).or_default();
                    match here.iter_mut().find(|(b, _, after)| *b == bytes && after == after_crash) {
                        Some((_, known, _)) => {
                            known.join(&value);
                        }
                        None => here.push((bytes, value.clone(), *after_crash)),
                    }
                }
            }
            let mut changed = false;
            for (load, after_crash) in &loads {
                if !analysis.get(load.guard).contains(1) {
                    continue;
                }
                let width = program.terms.width(load.result);
                let bytes = width / 8;
                let mut seen = Values::NOTHING;
                for address in analysis.places(program, load.address, bytes) {
                    seen.join(&match initial(program, address, bytes) {
                        Some(value) => Values::Among(vec![value]),
                        None => Values::wild(Vec::new(), mask(width)),
                    });
                    let from = address.saturating_sub(7);
                    for (&at, stored) in written.range(from..address + u64::from(bytes)) {
                        for (stored_bytes, value, after) in stored {
                            if *after && !after_crash || at + u64::from(*stored_bytes) <= address {
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
                let known = &mut analysis.values[load.result.index()];
                if known.join(&seen) {
                    dirty[load.result.index()] = true;
                    changed = true;
                }
            }
            if !changed {
                return analysis;
            }
        }
    }

    /// What a term can be.
    pub fn get(&self, term: Term) -> &Values {
        &self.values[term.index()]
    }

    /// Where an access of so many bytes can go: every place inside an object that the address can name.
    pub fn places(&self, program: &Program, address: Term, bytes: u8) -> Vec<u64> {
        let bytes = u64::from(bytes);
        let inside = |at: u64| {
            program.objects.iter().any(|object| {
                at >= object.address
                    && at
                        .checked_add(bytes)
                        .is_some_and(|end| end <= object.address + object.initial.len() as u64)
            })
        };
        match self.get(address) {
            Values::Among(values) | Values::Wild { known: values, .. } => {
                values.iter().copied().filter(|&at| inside(at)).collect()
            }
            // Objects do not overlap, so what fits into one is inside.
            known @ Values::Within { .. } => program
                .objects
                .iter()
                .flat_map(|object| {
                    let end = object.address + object.initial.len() as u64;
                    object.address..(end + 1).saturating_sub(bytes).max(object.address)
                })
                .filter(|&at| known.contains(at))
                .collect(),
        }
    }

    /// The cache lines that hold something of an object and that an address may lie in, whether or not it lies in the
    /// object: lines are flushed by any address.
    pub fn lines(&self, program: &Program, address: Term) -> Vec<Line> {
        let mut lines: Vec<Line> = program
            .objects
            .iter()
            .filter(|object| !object.initial.is_empty())
            .flat_map(|object| {
                let end = object.address + object.initial.len() as u64;
                (object.address / LINE_BYTES..end.div_ceil(LINE_BYTES)).map(Line)
            })
            .collect();
        lines.sort_unstable();
        lines.dedup();
        match self.get(address) {
            Values::Among(values) | Values::Wild { known: values, .. } => {
                let mut flushed: Vec<Line> = values.iter().map(|&at| Line::containing(at)).collect();
                flushed.sort_unstable();
                flushed.dedup();
                flushed.retain(|line| lines.binary_search(line).is_ok());
                flushed
            }
            known @ Values::Within { .. } => {
                lines.retain(|line| (line.start()..line.start() + LINE_BYTES).any(|at| known.contains(at)));
                lines
            }
        }
    }

    /// Can the access miss every object?
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
        // An operand that nothing gives a value belongs to loads that do not happen. Where the result is wanted all the same,
        // the other operand decides it alone: a conjunction with something false, a disjunction with something true.
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

/// What memory holds at the start, low byte first; none if nobody knows all of it.
pub fn initial(program: &Program, address: u64, bytes: u8) -> Option<u64> {
    (0..u64::from(bytes)).try_fold(0, |value, byte| {
        Some(value | u64::from(initial_byte(program, address + byte)?) << (8 * byte))
    })
}

/// A byte of memory at the start; none if nobody knows. Where there is no memory it is 0.
pub fn initial_byte(program: &Program, at: u64) -> Option<u8> {
    let content = program.objects.iter().find_map(|object| {
        at.checked_sub(object.address).and_then(|offset| object.initial.get(offset as usize))
    });
    content.copied().unwrap_or(Some(0))
}
