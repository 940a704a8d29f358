//! Converts terms to gates, bit by bit, low bits first.

use std::collections::BTreeMap;

use crashproof_ordersat::Lit;

use crate::gates::{Choice, Gates};
use crate::term::{Binary, Node, Term, Terms};
use crate::values::Analysis;
use crate::words::MOST_VALUES;

/// The bits of terms, created on demand.
pub struct Blaster {
    bits: Vec<Option<Vec<Lit>>>,
}

impl Blaster {
    /// Nothing made yet.
    pub fn new(terms: &Terms) -> Blaster {
        Blaster { bits: vec![None; terms.len()] }
    }

    /// Defines a symbol. If it was already used, the two become equal.
    pub fn bind(&mut self, gates: &mut Gates, symbol: Term, bits: Vec<Lit>) {
        if let Some(old) = &self.bits[symbol.index()] {
            let yes = gates.yes();
            gates.equal_if(yes, old, &bits);
        } else {
            self.bits[symbol.index()] = Some(bits);
        }
    }

    /// A truth term as a literal.
    pub fn truth(&mut self, gates: &mut Gates, terms: &Terms, analysis: &Analysis, term: Term) -> Lit {
        self.bits(gates, terms, analysis, term)[0]
    }

    /// The bits of a term, low ones first.
    pub fn bits(&mut self, gates: &mut Gates, terms: &Terms, analysis: &Analysis, term: Term) -> Vec<Lit> {
        // Operands first, without recursion: chains of choices can be long.
        let mut stack = vec![term];
        while let Some(&next) = stack.last() {
            if self.bits[next.index()].is_some() {
                stack.pop();
                continue;
            }
            let known = analysis.get(next);
            let constant = known.few().is_some_and(|values| values.len() == 1);
            let missing: Vec<Term> = if constant {
                Vec::new()
            } else {
                terms.operands(next).filter(|operand| self.bits[operand.index()].is_none()).collect()
            };
            if !missing.is_empty() {
                stack.extend(missing);
                continue;
            }
            stack.pop();
            let width = usize::from(terms.width(next));
            let bits = match known.few() {
                Some(&[value]) => (0..width).map(|bit| gates.constant(value >> bit & 1 == 1)).collect(),
                _ => self.node(gates, terms, analysis, next),
            };
            debug_assert_eq!(bits.len(), width);
            self.bits[next.index()] = Some(bits);
        }
        self.bits[term.index()].clone().expect("just made")
    }

    fn get(&self, term: Term) -> &[Lit] {
        self.bits[term.index()].as_deref().expect("operands are made first")
    }

    fn node(&mut self, gates: &mut Gates, terms: &Terms, analysis: &Analysis, term: Term) -> Vec<Lit> {
        let width = usize::from(terms.width(term));
        if let Some(bits) = self.table(gates, terms, analysis, term) {
            return bits;
        }
        match terms.node(term) {
            Node::Constant(value) => (0..width).map(|bit| gates.constant(value >> bit & 1 == 1)).collect(),
            Node::Symbol(_) => match analysis.get(term).few() {
                Some(values) if width > 1 && (2..=MOST_VALUES).contains(&values.len()) => {
                    gates.choice(values, width)
                }
                _ => fresh_within(gates, analysis.get(term).may(), analysis.get(term).must(), width),
            },
            Node::Not(a) => self.get(a).iter().map(|&bit| !bit).collect(),
            Node::Extract(a, low) => self.get(a)[usize::from(low)..][..width].to_vec(),
            Node::Concat(high, low) => [self.get(low), self.get(high)].concat(),
            Node::ZeroExtend(a) => {
                let mut bits = self.get(a).to_vec();
                bits.resize(width, gates.no());
                bits
            }
            Node::SignExtend(a) => {
                let mut bits = self.get(a).to_vec();
                let sign = *bits.last().expect("terms have bits");
                bits.resize(width, sign);
                bits
            }
            Node::Choose(condition, a, b) => {
                let condition = self.get(condition)[0];
                gates.mux_word(condition, self.get(a), self.get(b))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.get(a).to_vec(), self.get(b).to_vec());
                binary(gates, op, &a, &b)
            }
        }
    }
}

/// Up to this many combinations of operands are tabulated instead of computed.
const LARGEST_TABLE: usize = 64;

impl Blaster {
    /// An operation whose operands take few values, as a table. Pointer targets are found by subtracting, dividing and
    /// comparing addresses; bitwise computation would hide from the solver that only a few of them can occur.
    ///
    /// Operands outside these values belong to loads that do not happen, so the result does not matter.
    fn table(&self, gates: &mut Gates, terms: &Terms, analysis: &Analysis, term: Term) -> Option<Vec<Lit>> {
        let node = terms.node(term);
        let operands: Vec<Term> = terms.operands(term).collect();
        let (a, b) = match (node, operands.as_slice()) {
            (Node::Choose(..), _) => return None,
            (_, &[a]) => (a, None),
            (_, &[a, b]) => (a, Some(b)),
            _ => return None,
        };
        if operands.iter().all(|&operand| terms.width(operand) == 1) {
            return None;
        }
        let left = self.choices(gates, analysis, a)?;
        let right = match b {
            Some(b) if b != a => self.choices(gates, analysis, b)?,
            _ => vec![(0, gates.yes())],
        };
        if left.len() * right.len() > LARGEST_TABLE {
            return None;
        }
        let known = analysis.get(term);
        let mut results: BTreeMap<u64, Vec<Lit>> = BTreeMap::new();
        for &(x, here) in &left {
            for &(y, there) in &right {
                let result = terms.apply(term, |operand| if operand == a { x } else { y }, |_| 0);
                if known.contains(result) {
                    let both = gates.and(here, there);
                    results.entry(result).or_default().push(both);
                }
            }
        }
        let choices: Vec<Choice> =
            results.into_iter().map(|(value, ways)| (value, gates.any(&ways))).collect();
        if choices.len() > MOST_VALUES {
            return None;
        }
        Some(gates.word(choices, usize::from(terms.width(term))))
    }

    /// The values of an operand, each with its literal, if they are few.
    fn choices(&self, gates: &mut Gates, analysis: &Analysis, operand: Term) -> Option<Vec<Choice>> {
        let bits = self.get(operand);
        if let Some(choices) = gates.choices(bits) {
            return Some(choices);
        }
        let values = analysis.get(operand).few().filter(|values| values.len() <= MOST_VALUES)?;
        Some(values.iter().map(|&value| (value, gates.is(bits, value))).collect())
    }
}

/// Fresh bits where either value is possible, constants elsewhere.
pub fn fresh_within(gates: &mut Gates, may: u64, must: u64, width: usize) -> Vec<Lit> {
    (0..width)
        .map(|bit| {
            if may >> bit & 1 == 0 {
                gates.no()
            } else if must >> bit & 1 == 1 {
                gates.yes()
            } else {
                gates.fresh()
            }
        })
        .collect()
}

/// Are the two equal?
pub fn equal(gates: &mut Gates, a: &[Lit], b: &[Lit]) -> Lit {
    let different: Vec<Lit> = a.iter().zip(b).map(|(&a, &b)| gates.xor(a, b)).collect();
    !gates.any(&different)
}

fn binary(gates: &mut Gates, op: Binary, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    let no = gates.no();
    let each = |gates: &mut Gates, gate: fn(&mut Gates, Lit, Lit) -> Lit| {
        a.iter().zip(b).map(|(&a, &b)| gate(gates, a, b)).collect()
    };
    match op {
        Binary::And => each(gates, Gates::and),
        Binary::Or => each(gates, Gates::or),
        Binary::Xor => each(gates, Gates::xor),
        Binary::Add => add(gates, a, b, no).0,
        Binary::Sub => subtract(gates, a, b).0,
        Binary::Mul => multiply(gates, a, b),
        Binary::Equal => vec![equal(gates, a, b)],
        Binary::LessUnsigned => vec![less(gates, a, b)],
        Binary::LessSigned => {
            let (a, b) = (flip_sign(a), flip_sign(b));
            vec![less(gates, &a, &b)]
        }
        Binary::ShiftLeft => shift(gates, a, b, no, |bit, by| bit.checked_sub(by)),
        Binary::ShiftRight => shift(gates, a, b, no, |bit, by| Some(bit + by)),
        Binary::ShiftRightSigned => {
            let sign = a[a.len() - 1];
            shift(gates, a, b, sign, |bit, by| Some(bit + by))
        }
        Binary::DivUnsigned => divide(gates, a, b).0,
        Binary::RemUnsigned => divide(gates, a, b).1,
        Binary::DivSigned | Binary::RemSigned => {
            let (sign_a, sign_b) = (a[a.len() - 1], b[b.len() - 1]);
            let (a_magnitude, b_magnitude) = (negate_if(gates, sign_a, a), negate_if(gates, sign_b, b));
            let (quotient, remainder) = divide(gates, &a_magnitude, &b_magnitude);
            if op == Binary::RemSigned {
                negate_if(gates, sign_a, &remainder)
            } else {
                let negative = gates.xor(sign_a, sign_b);
                negate_if(gates, negative, &quotient)
            }
        }
    }
}

fn flip_sign(bits: &[Lit]) -> Vec<Lit> {
    let mut bits = bits.to_vec();
    if let Some(sign) = bits.last_mut() {
        *sign = !*sign;
    }
    bits
}

fn add(gates: &mut Gates, a: &[Lit], b: &[Lit], mut carry: Lit) -> (Vec<Lit>, Lit) {
    let mut sum = Vec::with_capacity(a.len());
    for (&a, &b) in a.iter().zip(b) {
        let half = gates.xor(a, b);
        sum.push(gates.xor(half, carry));
        let both = gates.and(a, b);
        let passed = gates.and(half, carry);
        carry = gates.or(both, passed);
    }
    (sum, carry)
}

/// The difference, and whether no borrow occurred.
fn subtract(gates: &mut Gates, a: &[Lit], b: &[Lit]) -> (Vec<Lit>, Lit) {
    let inverted: Vec<Lit> = b.iter().map(|&bit| !bit).collect();
    let yes = gates.yes();
    add(gates, a, &inverted, yes)
}

fn less(gates: &mut Gates, a: &[Lit], b: &[Lit]) -> Lit {
    // From the lowest bit up, so that the highest difference decides.
    let mut less = gates.no();
    for (&a, &b) in a.iter().zip(b) {
        let differ = gates.xor(a, b);
        less = gates.mux(differ, b, less);
    }
    less
}

fn multiply(gates: &mut Gates, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    let no = gates.no();
    let mut sum = vec![no; a.len()];
    for (shift, &factor) in b.iter().enumerate() {
        if factor == no {
            continue;
        }
        let mut row = vec![no; a.len()];
        for bit in shift..a.len() {
            row[bit] = gates.and(a[bit - shift], factor);
        }
        sum = add(gates, &sum, &row, no).0;
    }
    sum
}

fn negate_if(gates: &mut Gates, condition: Lit, bits: &[Lit]) -> Vec<Lit> {
    let flipped: Vec<Lit> = bits.iter().map(|&bit| gates.xor(bit, condition)).collect();
    let zero = vec![gates.no(); bits.len()];
    add(gates, &flipped, &zero, condition).0
}

/// Quotient and remainder, unsigned; for division by 0 the method yields all ones and the dividend.
fn divide(gates: &mut Gates, a: &[Lit], b: &[Lit]) -> (Vec<Lit>, Vec<Lit>) {
    let no = gates.no();
    let width = a.len();
    let mut wide_b = b.to_vec();
    wide_b.push(no);
    let mut remainder = vec![no; width + 1];
    let mut quotient = vec![no; width];
    for bit in (0..width).rev() {
        remainder.pop();
        remainder.insert(0, a[bit]);
        let (difference, fits) = subtract(gates, &remainder, &wide_b);
        quotient[bit] = fits;
        for (kept, &less) in remainder.iter_mut().zip(&difference) {
            *kept = gates.mux(fits, less, *kept);
        }
    }
    remainder.truncate(width);
    (quotient, remainder)
}

fn shift(
    gates: &mut Gates,
    a: &[Lit],
    count: &[Lit],
    fill: Lit,
    from: impl Fn(usize, usize) -> Option<usize>,
) -> Vec<Lit> {
    let width = a.len();
    let mut bits = a.to_vec();
    let mut too_far = Vec::new();
    for (stage, &by) in count.iter().enumerate() {
        if stage >= 6 || 1 << stage >= width {
            too_far.push(by);
            continue;
        }
        let moved: Vec<Lit> = (0..width)
            .map(|bit| from(bit, 1 << stage).and_then(|at| bits.get(at).copied()).unwrap_or(fill))
            .collect();
        bits = bits.iter().zip(moved).map(|(&stay, moved)| gates.mux(by, moved, stay)).collect();
    }
    let too_far = gates.any(&too_far);
    bits.iter().map(|&bit| gates.mux(too_far, fill, bit)).collect()
}
