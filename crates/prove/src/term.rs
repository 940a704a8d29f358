//! Bit-vector terms: what a program computes, as one shared graph.
//!
//! Equal terms share a node (hash-consing), and building a term simplifies it, so that front ends can be simple:
//! constants fold, neutral operands vanish, a comparison of a choice between constants becomes the choice's condition.
//! A truth value is a bit-vector of width 1.
//!
//! The graph only grows, and operands precede the terms built from them, so creation order is a topological order.

use rustc_hash::FxHashMap;

/// A term, by its index in [`Terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(u32);

impl Term {
    /// Its index in creation order, below that of everything built from it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A value unknown before the program runs: what a load reads, or an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(pub u32);

/// The widest bit-vector.
pub const MAX_WIDTH: u8 = 64;

/// Operators of two operands of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// Bitwise.
    And,
    /// Bitwise.
    Or,
    /// Bitwise.
    Xor,
    /// Wrapping.
    Add,
    /// Wrapping.
    Sub,
    /// Wrapping.
    Mul,
    /// Unsigned; all ones if the divisor is 0.
    DivUnsigned,
    /// Unsigned; the dividend if the divisor is 0.
    RemUnsigned,
    /// Signed, rounding to 0, wrapping; by 0 it is 1 for a negative dividend, otherwise -1 (as in SMT-LIB).
    DivSigned,
    /// Signed, with the sign of the dividend; the dividend if the divisor is 0.
    RemSigned,
    /// 0 if the count is not below the width.
    ShiftLeft,
    /// 0 if the count is not below the width.
    ShiftRight,
    /// The sign in every bit if the count is not below the width.
    ShiftRightSigned,
    /// Width 1.
    Equal,
    /// Width 1.
    LessUnsigned,
    /// Width 1.
    LessSigned,
}

impl Binary {
    const fn compares(self) -> bool {
        matches!(self, Binary::Equal | Binary::LessUnsigned | Binary::LessSigned)
    }

    const fn commutes(self) -> bool {
        matches!(self, Binary::And | Binary::Or | Binary::Xor | Binary::Add | Binary::Mul | Binary::Equal)
    }
}

/// What a term is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The low bits of a number; those above the width are 0.
    Constant(u64),
    /// An unknown.
    Symbol(Symbol),
    /// Every bit inverted.
    Not(Term),
    /// Two operands.
    Binary(Binary, Term, Term),
    /// The second if the first (of width 1) is 1, else the third.
    Choose(Term, Term, Term),
    /// Bits of the operand from this one on, as many as the term is wide.
    Extract(Term, u8),
    /// The first operand's bits above the second's.
    Concat(Term, Term),
    /// Zeros above the operand.
    ZeroExtend(Term),
    /// The sign above the operand.
    SignExtend(Term),
}

/// All terms of a program.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    nodes: Vec<(Node, u8)>,
    known: FxHashMap<(Node, u8), Term>,
    symbols: Vec<Term>,
    names: Vec<String>,
}

/// All ones in the low `width` bits.
pub const fn mask(width: u8) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// `value`, of `width` bits, as a signed number.
pub const fn signed(value: u64, width: u8) -> i64 {
    let unused = 64 - width as u32;
    ((value << unused) as i64) >> unused
}

impl Terms {
    /// The node of a term.
    pub fn node(&self, term: Term) -> Node {
        self.nodes[term.index()].0
    }

    /// The number of bits of a term.
    pub fn width(&self, term: Term) -> u8 {
        self.nodes[term.index()].1
    }

    /// The term with this index in creation order.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn at(&self, index: usize) -> Term {
        assert!(index < self.nodes.len());
        Term(index as u32)
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Is there no term?
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many symbols there are.
    pub fn symbol_count(&self) -> usize {
        self.symbols.len()
    }

    /// The term that is just this symbol.
    pub fn symbol_term(&self, symbol: Symbol) -> Term {
        self.symbols[symbol.0 as usize]
    }

    /// The name a symbol was made with.
    pub fn symbol_name(&self, symbol: Symbol) -> &str {
        &self.names[symbol.0 as usize]
    }

    /// The value of a term that is a constant.
    pub fn constant(&self, term: Term) -> Option<u64> {
        match self.node(term) {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Is the term the constant 1 of width 1?
    pub fn is_true(&self, term: Term) -> bool {
        self.nodes[term.index()] == (Node::Constant(1), 1)
    }

    /// Is the term the constant 0 of width 1?
    pub fn is_false(&self, term: Term) -> bool {
        self.nodes[term.index()] == (Node::Constant(0), 1)
    }

    fn intern(&mut self, node: Node, width: u8) -> Term {
        debug_assert!((1..=MAX_WIDTH).contains(&width));
        if let Some(&term) = self.known.get(&(node, width)) {
            return term;
        }
        let term = Term(u32::try_from(self.nodes.len()).expect("fewer than 2^32 terms"));
        self.nodes.push((node, width));
        self.known.insert((node, width), term);
        term
    }

    /// A number; bits above the width are dropped.
    pub fn number(&mut self, value: u64, width: u8) -> Term {
        self.intern(Node::Constant(value & mask(width)), width)
    }

    /// A truth value.
    pub fn truth(&mut self, value: bool) -> Term {
        self.number(u64::from(value), 1)
    }

    /// A new unknown. The name is for messages.
    pub fn symbol(&mut self, name: impl Into<String>, width: u8) -> Term {
        let symbol = Symbol(self.symbols.len() as u32);
        let term = self.intern(Node::Symbol(symbol), width);
        self.symbols.push(term);
        self.names.push(name.into());
        term
    }

    /// Every bit inverted; for a truth value its negation.
    pub fn not(&mut self, term: Term) -> Term {
        let width = self.width(term);
        match self.node(term) {
            Node::Constant(value) => self.number(!value, width),
            Node::Not(inner) => inner,
            _ => self.intern(Node::Not(term), width),
        }
    }

    /// Both.
    pub fn and(&mut self, left: Term, right: Term) -> Term {
        self.binary(Binary::And, left, right)
    }

    /// Either.
    pub fn or(&mut self, left: Term, right: Term) -> Term {
        self.binary(Binary::Or, left, right)
    }

    /// The first implies the second.
    pub fn implies(&mut self, left: Term, right: Term) -> Term {
        let negated = self.not(left);
        self.or(negated, right)
    }

    /// Are the two equal?
    pub fn equal(&mut self, left: Term, right: Term) -> Term {
        self.binary(Binary::Equal, left, right)
    }

    /// Is the term different from 0, in any of its bits?
    pub fn nonzero(&mut self, term: Term) -> Term {
        let width = self.width(term);
        if width == 1 {
            return term;
        }
        let zero = self.number(0, width);
        let equal = self.equal(term, zero);
        self.not(equal)
    }

    /// 0 minus the term.
    pub fn negate(&mut self, term: Term) -> Term {
        let zero = self.number(0, self.width(term));
        self.binary(Binary::Sub, zero, term)
    }

    /// A lower bound on the number of low bits that are 0 for all values of the symbols.
    pub fn trailing_zeros(&self, term: Term) -> u32 {
        const DEEPEST: u32 = 24;
        self.zeros_below(term, DEEPEST)
    }

    fn zeros_below(&self, term: Term, depth: u32) -> u32 {
        let Some(depth) = depth.checked_sub(1) else { return 0 };
        let width = u32::from(self.width(term));
        let zeros = |term: Term| self.zeros_below(term, depth);
        let all = match self.node(term) {
            Node::Constant(value) => value.trailing_zeros(),
            Node::Choose(_, a, b) | Node::Binary(Binary::Add | Binary::Sub | Binary::Or, a, b) => {
                zeros(a).min(zeros(b))
            }
            Node::Binary(Binary::And, a, b) => zeros(a).max(zeros(b)),
            Node::Binary(Binary::Mul, a, b) => zeros(a) + zeros(b),
            Node::Binary(Binary::ShiftLeft, a, count) => match self.constant(count) {
                Some(count) => zeros(a) + count.min(64) as u32,
                None => zeros(a),
            },
            Node::ZeroExtend(a) | Node::SignExtend(a) => match zeros(a) {
                // All of it is 0, and so is its extension.
                below if below >= u32::from(self.width(a)) => width,
                below => below,
            },
            Node::Concat(high, low) => match zeros(low) {
                below if below >= u32::from(self.width(low)) => below + zeros(high),
                below => below,
            },
            _ => 0,
        };
        all.min(width)
    }

    /// An operator of two operands.
    ///
    /// # Panics
    ///
    /// If the operands differ in width.
    pub fn binary(&mut self, op: Binary, mut left: Term, mut right: Term) -> Term {
        let width = self.width(left);
        assert_eq!(width, self.width(right), "operands of {op:?} differ in width");
        if let (Some(a), Some(b)) = (self.constant(left), self.constant(right)) {
            let result = fold(op, a, b, width);
            return self.number(result, if op.compares() { 1 } else { width });
        }
        // Constants to the right, otherwise older terms first: a canonical order for commutative operators.
        if op.commutes() && (self.constant(left).is_some() || self.constant(right).is_none() && right < left)
        {
            std::mem::swap(&mut left, &mut right);
        }
        if let Some(simpler) = self.simplify(op, left, right, width) {
            return simpler;
        }
        self.intern(Node::Binary(op, left, right), if op.compares() { 1 } else { width })
    }

    fn simplify(&mut self, op: Binary, left: Term, right: Term, width: u8) -> Option<Term> {
        use Binary::{
            Add, And, DivSigned, DivUnsigned, Equal, LessSigned, LessUnsigned, Mul, Or, RemSigned,
            RemUnsigned, ShiftLeft, ShiftRight, ShiftRightSigned, Sub, Xor,
        };
        let opposite =
            |terms: &Terms| terms.node(left) == Node::Not(right) || terms.node(right) == Node::Not(left);
        let ones = mask(width);
        let constant = self.constant(right);
        match op {
            And if left == right => return Some(left),
            And if opposite(self) => return Some(self.number(0, width)),
            Or if left == right => return Some(left),
            Or if opposite(self) => return Some(self.number(ones, width)),
            Xor | Sub if left == right => return Some(self.number(0, width)),
            Equal if left == right => return Some(self.truth(true)),
            Equal if opposite(self) => return Some(self.truth(false)),
            LessUnsigned | LessSigned if left == right => return Some(self.truth(false)),
            _ => {}
        }
        // (a & b) & a, (a | b) | a and the like: guards are long conjunctions with common parts.
        if matches!(op, And | Or) {
            for (outer, inner) in [(left, right), (right, left)] {
                if let Node::Binary(inner_op, a, b) = self.node(inner)
                    && matches!(inner_op, And | Or)
                    && (a == outer || b == outer)
                {
                    return Some(if inner_op == op { inner } else { outer });
                }
            }
        }
        match (op, constant) {
            (And | Mul, Some(0)) => Some(right),
            (Or, Some(c)) if c == ones => Some(right),
            (And, Some(c)) if c == ones => Some(left),
            (Or | Xor | Add | Sub | ShiftLeft | ShiftRight | ShiftRightSigned, Some(0)) => Some(left),
            (Xor, Some(c)) if c == ones => Some(self.not(left)),
            (Mul | DivUnsigned | DivSigned, Some(1)) if width > 1 => Some(left),
            (RemUnsigned | RemSigned, Some(1)) if width > 1 => Some(self.number(0, width)),
            (ShiftLeft | ShiftRight, Some(c)) if c >= u64::from(width) => Some(self.number(0, width)),
            (Mul, Some(c)) if c.is_power_of_two() => {
                let count = self.number(u64::from(c.trailing_zeros()), width);
                Some(self.binary(ShiftLeft, left, count))
            }
            (DivUnsigned, Some(c)) if c.is_power_of_two() => {
                let count = self.number(u64::from(c.trailing_zeros()), width);
                Some(self.binary(ShiftRight, left, count))
            }
            (RemUnsigned, Some(c)) if c.is_power_of_two() => {
                let low = self.number(c - 1, width);
                Some(self.binary(And, left, low))
            }
            // x - c is x + (-c), which lets constants in sums combine.
            (Sub, Some(c)) => {
                let negated = self.number(c.wrapping_neg(), width);
                Some(self.binary(Add, left, negated))
            }
            (Add, Some(c)) => match self.node(left) {
                Node::Binary(Add, base, more) => {
                    let more = self.constant(more)?;
                    let sum = self.number(c.wrapping_add(more), width);
                    Some(self.binary(Add, base, sum))
                }
                Node::Choose(condition, a, b) if self.constant(a).is_some() || self.constant(b).is_some() => {
                    let a = self.binary(Add, a, right);
                    let b = self.binary(Add, b, right);
                    Some(self.choose(condition, a, b))
                }
                _ => None,
            },
            (LessUnsigned, Some(0)) => Some(self.truth(false)),
            (LessUnsigned, Some(1)) => {
                let zero = self.number(0, width);
                Some(self.equal(left, zero))
            }
            (Equal, Some(c)) => self.equals_constant(left, right, c, width),
            (LessUnsigned | LessSigned, _) => self.compare_choice(op, left, right),
            _ => None,
        }
    }

    /// A comparison between a constant and one of two values, one of which is known: the choice's condition decides it.
    fn compare_choice(&mut self, op: Binary, left: Term, right: Term) -> Option<Term> {
        let one_known =
            |terms: &Terms, a: Term, b: Term| terms.constant(a).is_some() || terms.constant(b).is_some();
        match (self.node(left), self.node(right)) {
            (Node::Choose(condition, a, b), Node::Constant(_)) if one_known(self, a, b) => {
                let (a, b) = (self.binary(op, a, right), self.binary(op, b, right));
                Some(self.choose(condition, a, b))
            }
            (Node::Constant(_), Node::Choose(condition, a, b)) if one_known(self, a, b) => {
                let (a, b) = (self.binary(op, left, a), self.binary(op, left, b));
                Some(self.choose(condition, a, b))
            }
            _ => None,
        }
    }

    fn equals_constant(&mut self, left: Term, right: Term, c: u64, width: u8) -> Option<Term> {
        if width == 1 {
            return Some(if c == 1 { left } else { self.not(left) });
        }
        match self.node(left) {
            Node::Choose(condition, a, b) if self.constant(a).is_some() || self.constant(b).is_some() => {
                let a = self.equal(a, right);
                let b = self.equal(b, right);
                Some(self.choose(condition, a, b))
            }
            Node::Binary(Binary::Add, base, more) => {
                let more = self.constant(more)?;
                let rest = self.number(c.wrapping_sub(more), width);
                Some(self.equal(base, rest))
            }
            Node::ZeroExtend(inner) => {
                let inner_width = self.width(inner);
                if c > mask(inner_width) {
                    return Some(self.truth(false));
                }
                let small = self.number(c, inner_width);
                Some(self.equal(inner, small))
            }
            Node::SignExtend(inner) => {
                let inner_width = self.width(inner);
                let small = c & mask(inner_width);
                if signed(small, inner_width) as u64 & mask(width) != c {
                    return Some(self.truth(false));
                }
                let small = self.number(small, inner_width);
                Some(self.equal(inner, small))
            }
            Node::Concat(high, low) => {
                let low_width = self.width(low);
                let high_part = self.number(c >> low_width, width - low_width);
                let low_part = self.number(c, low_width);
                let (high, low) = (self.equal(high, high_part), self.equal(low, low_part));
                Some(self.and(high, low))
            }
            Node::Not(inner) => {
                let inverted = self.number(!c, width);
                Some(self.equal(inner, inverted))
            }
            _ => None,
        }
    }

    /// `then` if `condition`, of width 1, is 1, else `otherwise`.
    ///
    /// # Panics
    ///
    /// If `then` and `otherwise` differ in width.
    pub fn choose(&mut self, condition: Term, then: Term, otherwise: Term) -> Term {
        let width = self.width(then);
        assert_eq!(width, self.width(otherwise), "the branches of a choice differ in width");
        assert_eq!(self.width(condition), 1, "a condition is of width 1");
        if then == otherwise || self.is_true(condition) {
            return then;
        }
        if self.is_false(condition) {
            return otherwise;
        }
        if let Node::Not(positive) = self.node(condition) {
            return self.choose(positive, otherwise, then);
        }
        if width == 1 {
            match (self.constant(then), self.constant(otherwise)) {
                (Some(1), _) => return self.or(condition, otherwise),
                (Some(_), _) => {
                    let not = self.not(condition);
                    return self.and(not, otherwise);
                }
                (_, Some(0)) => return self.and(condition, then),
                (_, Some(_)) => {
                    let not = self.not(condition);
                    return self.or(not, then);
                }
                _ => {}
            }
        }
        // A choice within a choice on the same condition is already decided.
        let then = match self.node(then) {
            Node::Choose(again, inner, _) if again == condition => inner,
            _ => then,
        };
        let otherwise = match self.node(otherwise) {
            Node::Choose(again, _, inner) if again == condition => inner,
            _ => otherwise,
        };
        if then == otherwise {
            return then;
        }
        self.intern(Node::Choose(condition, then, otherwise), width)
    }

    /// `width` bits of `term` from bit `low` on.
    ///
    /// # Panics
    ///
    /// If the term has fewer bits.
    pub fn extract(&mut self, term: Term, low: u8, width: u8) -> Term {
        let whole = self.width(term);
        assert!(low + width <= whole, "bits {low}..{} of a term of {whole}", low + width);
        if width == whole {
            return term;
        }
        match self.node(term) {
            Node::Constant(value) => self.number(value >> low, width),
            Node::Extract(inner, deeper) => self.extract(inner, low + deeper, width),
            Node::Concat(high, rest) => {
                let border = self.width(rest);
                if low >= border {
                    self.extract(high, low - border, width)
                } else if low + width <= border {
                    self.extract(rest, low, width)
                } else {
                    let upper = self.extract(high, 0, low + width - border);
                    let lower = self.extract(rest, low, border - low);
                    self.concat(upper, lower)
                }
            }
            Node::ZeroExtend(inner) => {
                let border = self.width(inner);
                if low >= border {
                    self.number(0, width)
                } else if low + width <= border {
                    self.extract(inner, low, width)
                } else {
                    let part = self.extract(inner, low, border - low);
                    self.zero_extend(part, width)
                }
            }
            Node::SignExtend(inner) if low + width <= self.width(inner) => self.extract(inner, low, width),
            // Only if that terminates immediately: traversing a shared graph as a tree can take forever.
            Node::Choose(condition, a, b) if self.constant(a).is_some() || self.constant(b).is_some() => {
                let a = self.extract(a, low, width);
                let b = self.extract(b, low, width);
                self.choose(condition, a, b)
            }
            Node::Not(inner) => {
                let part = self.extract(inner, low, width);
                self.not(part)
            }
            Node::Binary(op @ (Binary::And | Binary::Or | Binary::Xor), a, b)
                if self.constant(b).is_some() =>
            {
                let a = self.extract(a, low, width);
                let b = self.extract(b, low, width);
                self.binary(op, a, b)
            }
            Node::Binary(op @ (Binary::Add | Binary::Mul), a, b)
                if low == 0 && self.constant(b).is_some() =>
            {
                let a = self.extract(a, 0, width);
                let b = self.extract(b, 0, width);
                self.binary(op, a, b)
            }
            _ => self.intern(Node::Extract(term, low), width),
        }
    }

    /// `high` above `low`.
    ///
    /// # Panics
    ///
    /// If the result would be wider than [`MAX_WIDTH`].
    pub fn concat(&mut self, high: Term, low: Term) -> Term {
        let low_width = self.width(low);
        let width = self.width(high) + low_width;
        assert!(width <= MAX_WIDTH, "a term of {width} bits");
        match (self.node(high), self.node(low)) {
            (Node::Constant(h), Node::Constant(l)) => self.number(h << low_width | l, width),
            (Node::Constant(0), _) => self.zero_extend(low, width),
            (Node::Extract(a, at), Node::Extract(b, below)) if a == b && at == below + low_width => {
                self.extract(a, below, width)
            }
            _ => self.intern(Node::Concat(high, low), width),
        }
    }

    /// Zeros above the term, up to `width`.
    ///
    /// # Panics
    ///
    /// If the term is wider.
    pub fn zero_extend(&mut self, term: Term, width: u8) -> Term {
        let old = self.width(term);
        assert!(old <= width, "cannot widen {old} bits to {width}");
        if old == width {
            return term;
        }
        match self.node(term) {
            Node::Constant(value) => self.number(value, width),
            Node::ZeroExtend(inner) => self.zero_extend(inner, width),
            Node::Choose(condition, a, b) if self.constant(a).is_some() && self.constant(b).is_some() => {
                let a = self.zero_extend(a, width);
                let b = self.zero_extend(b, width);
                self.choose(condition, a, b)
            }
            _ => self.intern(Node::ZeroExtend(term), width),
        }
    }

    /// The sign above the term, up to `width`.
    ///
    /// # Panics
    ///
    /// If the term is wider.
    pub fn sign_extend(&mut self, term: Term, width: u8) -> Term {
        let old = self.width(term);
        assert!(old <= width, "cannot widen {old} bits to {width}");
        if old == width {
            return term;
        }
        match self.node(term) {
            Node::Constant(value) => self.number(signed(value, old) as u64, width),
            Node::SignExtend(inner) => self.sign_extend(inner, width),
            // A zero-extended term has sign 0.
            Node::ZeroExtend(inner) => self.zero_extend(inner, width),
            _ => self.intern(Node::SignExtend(term), width),
        }
    }

    /// The low `width` bits, or the term widened by zeros.
    pub fn resize(&mut self, term: Term, width: u8) -> Term {
        if width <= self.width(term) { self.extract(term, 0, width) } else { self.zero_extend(term, width) }
    }

    /// The operands of a term.
    pub fn operands(&self, term: Term) -> impl Iterator<Item = Term> + use<> {
        let operands = match self.node(term) {
            Node::Constant(_) | Node::Symbol(_) => [None; 3],
            Node::Not(a) | Node::Extract(a, _) | Node::ZeroExtend(a) | Node::SignExtend(a) => {
                [Some(a), None, None]
            }
            Node::Binary(_, a, b) | Node::Concat(a, b) => [Some(a), Some(b), None],
            Node::Choose(a, b, c) => [Some(a), Some(b), Some(c)],
        };
        operands.into_iter().flatten()
    }

    /// The value of one node, given those of its operands and of symbols.
    pub fn apply(&self, term: Term, value: impl Fn(Term) -> u64, symbol: impl Fn(Symbol) -> u64) -> u64 {
        let width = self.width(term);
        let result = match self.node(term) {
            Node::Constant(value) => value,
            Node::Symbol(name) => symbol(name),
            Node::Not(a) => !value(a),
            Node::Binary(op, a, b) => fold(op, value(a), value(b), self.width(a)),
            Node::Choose(condition, a, b) => {
                if value(condition) == 1 {
                    value(a)
                } else {
                    value(b)
                }
            }
            Node::Extract(a, low) => value(a) >> low,
            Node::Concat(high, low) => value(high) << self.width(low) | value(low),
            Node::ZeroExtend(a) => value(a),
            Node::SignExtend(a) => signed(value(a), self.width(a)) as u64,
        };
        result & mask(width)
    }
}

/// The result of an operator on numbers of `width` bits; bits above the width are undefined.
fn fold(op: Binary, a: u64, b: u64, width: u8) -> u64 {
    let (sa, sb) = (signed(a, width), signed(b, width));
    let bits = u64::from(width);
    match op {
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::DivUnsigned => a.checked_div(b).unwrap_or(u64::MAX),
        Binary::RemUnsigned => a.checked_rem(b).unwrap_or(a),
        Binary::DivSigned if b == 0 => {
            if sa < 0 {
                1
            } else {
                u64::MAX
            }
        }
        Binary::DivSigned => sa.wrapping_div(sb) as u64,
        Binary::RemSigned if b == 0 => a,
        Binary::RemSigned => sa.wrapping_rem(sb) as u64,
        Binary::ShiftLeft => {
            if b < bits {
                a << b
            } else {
                0
            }
        }
        Binary::ShiftRight => {
            if b < bits {
                a >> b
            } else {
                0
            }
        }
        Binary::ShiftRightSigned => (sa >> b.min(bits - 1)) as u64,
        Binary::Equal => u64::from(a == b),
        Binary::LessUnsigned => u64::from(a < b),
        Binary::LessSigned => u64::from(sa < sb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_terms_are_one() {
        let mut terms = Terms::default();
        let (x, y) = (terms.symbol("x", 8), terms.symbol("y", 8));
        let a = terms.binary(Binary::Add, x, y);
        let b = terms.binary(Binary::Add, y, x);
        assert_eq!(a, b);
        let difference = terms.binary(Binary::Sub, a, b);
        assert_eq!(terms.constant(difference), Some(0));
    }

    #[test]
    fn a_comparison_of_a_choice_is_its_condition() {
        let mut terms = Terms::default();
        let condition = terms.symbol("c", 1);
        let (one, two) = (terms.number(1, 64), terms.number(2, 64));
        let choice = terms.choose(condition, one, two);
        assert_eq!(terms.equal(choice, one), condition);
        let not = terms.not(condition);
        assert_eq!(terms.equal(choice, two), not);
    }

    #[test]
    fn parts_of_a_whole_come_together_again() {
        let mut terms = Terms::default();
        let x = terms.symbol("x", 64);
        let (high, low) = (terms.extract(x, 32, 32), terms.extract(x, 0, 32));
        assert_eq!(terms.concat(high, low), x);
    }

    #[test]
    fn signed_arithmetic_as_the_machine_has_it() {
        assert_eq!(fold(Binary::DivSigned, 0x80, 0xff, 8) & 0xff, 0x80);
        assert_eq!(fold(Binary::RemSigned, 0xf9, 2, 8) & 0xff, 0xff);
        assert_eq!(fold(Binary::ShiftRightSigned, 0x80, 9, 8) & 0xff, 0xff);
        assert_eq!(fold(Binary::LessSigned, 0x80, 0x7f, 8), 1);
    }
}
