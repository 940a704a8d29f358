//! Symbolic values: what a path knows about an address or a length.
//!
//! Expressions are interned and compared by number, so two addresses computed in the same way are the same address.
//! They are expressed in terms of a function's parameters and of the memory contents at its entry; a caller substitutes
//! its own values.

use rustc_hash::{FxHashMap, FxHashSet};

use crashproof_frontend::program::ir::{Arithmetic, Compare, FunctionId, GlobalId};

/// The number of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Expression(u32);

/// Error codes range from -1 down to this, exclusively.
pub(crate) const LAST_ERROR: i64 = -4096;
/// The unknown value.
pub(crate) const NOTHING: Expression = Expression(0);

/// What an expression is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Form {
    Nothing,
    Int(i64),
    Parameter(u32),
    Global(GlobalId),
    Function(FunctionId),
    /// A local variable that remained in memory.
    Local(FunctionId, u32),
    /// Volatile memory from an allocator.
    Volatile(u32),
    /// Persistent memory that a library handed out.
    Mapped(u32),
    /// What a library finds for these arguments, identified by the function name: equal arguments find the same object.
    Found(u32, Expression),
    /// The open transaction of a caller, or zero.
    Transaction,
    /// The stage of the caller's transaction, for transactions with stages.
    Stage,
    /// A newly allocated persistent object.
    Fresh(u32),
    /// The identifier of such an object.
    FreshId(u32),
    /// The object of an identifier.
    Direct(Expression),
    Plus(Expression, i64),
    /// `base + index * scale`.
    Element(Expression, Expression, i64),
    /// The content of memory when the function was entered.
    Content(Expression),
    /// One of several numbers that mean failure: negative, but greater than [`LAST_ERROR`].
    Failure,
    /// An unknown value: only its origin is known, and whether it points to persistent memory.
    Opaque(u32, Persistence),
    Pair(Expression, Expression),
    Operation(Arithmetic, Expression, Expression),
    Comparison(Compare, Expression, Expression),
}

/// How certain it is that memory is persistent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Persistence {
    Surely,
    /// For some callers, or for some targets of a pointer.
    Perhaps,
    No,
}

/// The origin of something unique: an instruction on its n-th visit, or an origin in a callee seen through a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    Instruction(FunctionId, u32, u32),
    /// A join of paths with different values.
    Meeting(FunctionId, u32, u32),
    Through(u32, FunctionId, u32, u32),
}

/// All expressions of an analysis.
pub(crate) struct Expressions {
    forms: Vec<Form>,
    /// The nesting depth of each.
    depths: Vec<u8>,
    numbers: FxHashMap<Form, Expression>,
    origins: FxHashMap<Origin, u32>,
    /// What graphs know about pointers loaded from unknown places, in the current function.
    loaded: FxHashMap<Expression, Persistence>,
    /// Alignments of objects larger than usual, in the current function.
    alignments: FxHashMap<Expression, u64>,
    /// Where arrays begin in their objects, by element size: the smallest offset that was indexed.
    array_starts: FxHashMap<(Expression, i64), i64>,
    /// Unknown pointers to memory that is persistent for reasons other than the program's flushes.
    declared: FxHashSet<Expression>,
}

/// A decomposed address: the object, the element if a non-constant index selects one, and the constant remainder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Address {
    pub(crate) object: Expression,
    pub(crate) element: Option<Expression>,
    pub(crate) offset: i64,
}

impl Expressions {
    pub(crate) fn new() -> Self {
        let mut all = Expressions {
            forms: Vec::new(),
            depths: Vec::new(),
            numbers: FxHashMap::default(),
            origins: FxHashMap::default(),
            loaded: FxHashMap::default(),
            alignments: FxHashMap::default(),
            array_starts: FxHashMap::default(),
            declared: FxHashSet::default(),
        };
        let nothing = all.add(Form::Nothing);
        debug_assert_eq!(nothing, NOTHING);
        all
    }

    pub(crate) fn form(&self, expression: Expression) -> Form {
        self.forms[expression.0 as usize]
    }

    pub(crate) fn add(&mut self, form: Form) -> Expression {
        if let Some(known) = self.numbers.get(&form) {
            return *known;
        }
        let number = Expression(self.forms.len() as u32);
        let inner = match form {
            Form::Direct(inner) | Form::Plus(inner, _) | Form::Content(inner) | Form::Found(_, inner) => {
                self.depth(inner)
            }
            Form::Element(left, right, _)
            | Form::Pair(left, right)
            | Form::Operation(_, left, right)
            | Form::Comparison(_, left, right) => self.depth(left).max(self.depth(right)),
            _ => 0,
        };
        self.depths.push(inner.saturating_add(1));
        self.forms.push(form);
        self.numbers.insert(form, number);
        number
    }

    /// The number of a form, if it exists.
    pub(crate) fn known(&self, form: Form) -> Option<Expression> {
        self.numbers.get(&form).copied()
    }

    /// Its nesting depth: pointers behind pointers, and sums of sums.
    pub(crate) fn depth(&self, expression: Expression) -> u8 {
        self.depths[expression.0 as usize]
    }

    pub(crate) fn origin(&mut self, origin: Origin) -> u32 {
        let next = self.origins.len() as u32;
        *self.origins.entry(origin).or_insert(next)
    }

    pub(crate) fn int(&mut self, value: i64) -> Expression {
        self.add(Form::Int(value))
    }

    pub(crate) fn as_int(&self, expression: Expression) -> Option<i64> {
        match self.form(expression) {
            Form::Int(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn plus(&mut self, base: Expression, offset: i64) -> Expression {
        if offset == 0 {
            return base;
        }
        match self.form(base) {
            Form::Nothing => NOTHING,
            Form::Int(value) => self.int(value.wrapping_add(offset)),
            Form::Plus(inner, first) => self.plus(inner, first.wrapping_add(offset)),
            _ => self.add(Form::Plus(base, offset)),
        }
    }

    pub(crate) fn element(&mut self, base: Expression, index: Expression, scale: i64) -> Expression {
        match self.form(index) {
            Form::Int(value) => self.plus(base, value.wrapping_mul(scale)),
            // The constant part of an index is extracted: a[i - 1] and a[i] share their element.
            Form::Plus(inner, offset) => {
                let element = self.element(base, inner, scale);
                self.plus(element, offset.wrapping_mul(scale))
            }
            // Rounding down is ignored: only lines matter anyway.
            _ if scale == 1 && self.is_negative_misalignment(index, base) => base,
            _ => match self.form(base) {
                Form::Plus(inner, offset) => {
                    let element = self.element(inner, index, scale);
                    self.plus(element, offset)
                }
                _ => self.add(Form::Element(base, index, scale)),
            },
        }
    }

    pub(crate) fn arithmetic(&mut self, what: Arithmetic, left: Expression, right: Expression) -> Expression {
        let unknown = |form| matches!(form, Form::Nothing | Form::Failure);
        if unknown(self.form(left)) || unknown(self.form(right)) {
            return NOTHING;
        }
        let (a, b) = (self.as_int(left), self.as_int(right));
        if let (Some(a), Some(b)) = (a, b)
            && let Some(value) = what.of(a, b)
        {
            return self.int(value);
        }
        match (what, a, b) {
            (Arithmetic::Add, _, Some(b)) => self.plus(left, b),
            (Arithmetic::Add, Some(a), _) => self.plus(right, a),
            (Arithmetic::Sub, _, Some(b)) => self.plus(left, b.wrapping_neg()),
            (Arithmetic::Mul, Some(1), _) => right,
            (Arithmetic::Mul, _, Some(1))
            | (Arithmetic::Or | Arithmetic::Shl | Arithmetic::Shr, _, Some(0)) => left,
            // Rounding down to a line or page: the object is still the same, and only lines matter anyway.
            (Arithmetic::And, _, Some(mask)) if mask < 0 && (-mask & (-mask - 1)) == 0 && mask >= -4096 => {
                left
            }
            (Arithmetic::Mul | Arithmetic::Shl, _, Some(unit)) if self.is_rounded(what, left, unit) => {
                self.dividend(left)
            }
            (Arithmetic::Add, None, None) => {
                // An address plus a number of bytes.
                if self.is_pointer(left) {
                    self.element(left, right, 1)
                } else if self.is_pointer(right) {
                    self.element(right, left, 1)
                } else {
                    let (left, right) = if left <= right { (left, right) } else { (right, left) };
                    self.add(Form::Operation(what, left, right))
                }
            }
            (Arithmetic::Sub, None, None) => self.difference(left, right),
            _ => self.add(Form::Operation(what, left, right)),
        }
    }

    /// `left - right`, without common terms.
    pub(crate) fn difference(&mut self, left: Expression, right: Expression) -> Expression {
        if left == right {
            return self.int(0);
        }
        if let Some(number) = self.as_int(right) {
            return self.plus(left, number.wrapping_neg());
        }
        // Rounding down is ignored: only lines matter anyway.
        if self.is_misalignment(right, left) {
            return left;
        }
        let strip = |this: &Self, e: Expression| match this.form(e) {
            Form::Plus(inner, offset) => (inner, offset),
            _ => (e, 0),
        };
        let ((a, m), (b, n)) = (strip(self, left), strip(self, right));
        if a == b {
            return self.int(m.wrapping_sub(n));
        }
        match self.form(a) {
            Form::Element(base, index, 1) if base == b => self.plus(index, m.wrapping_sub(n)),
            Form::Operation(Arithmetic::Add, x, y) if x == b => self.plus(y, m.wrapping_sub(n)),
            Form::Operation(Arithmetic::Add, x, y) if y == b => self.plus(x, m.wrapping_sub(n)),
            _ => self.add(Form::Operation(Arithmetic::Sub, left, right)),
        }
    }

    /// Whether an expression depends on a caller's open transaction.
    pub(crate) fn is_about_transactions(&self, expression: Expression) -> bool {
        match self.form(expression) {
            Form::Comparison(_, left, right) | Form::Operation(_, left, right) => {
                self.is_about_transactions(left) || self.is_about_transactions(right)
            }
            Form::Transaction | Form::Stage => true,
            _ => false,
        }
    }

    /// Of two joined values, the one that is an object of the pool, if the other is its identifier: a library pointer
    /// that may hold an address instead. Interpreted as an address, the identifier leads to nothing persistent.
    pub(crate) fn either(&self, one: Expression, other: Expression) -> Option<Expression> {
        let names = |object, id| matches!(self.form(object), Form::Direct(inner) if inner == id);
        // Code that does not check for a failed mapping continues with the mapping.
        let is_mapping = |value, null| {
            matches!(self.as_int(null), Some(0 | -1))
                && matches!(self.form(self.address(value).object), Form::Mapped(_) | Form::Volatile(_))
        };
        if names(one, other) || is_mapping(one, other) {
            Some(one)
        } else if names(other, one) || is_mapping(other, one) {
            Some(other)
        } else {
            None
        }
    }

    /// An expression without its constant offset, and the offset.
    fn without_offset(&self, expression: Expression) -> (Expression, i64) {
        match self.form(expression) {
            Form::Plus(inner, offset) => (inner, offset),
            _ => (expression, 0),
        }
    }

    /// Whether an expression is certainly an address.
    fn is_pointer(&self, expression: Expression) -> bool {
        match self.form(expression) {
            Form::Plus(inner, _) => self.is_pointer(inner),
            Form::Parameter(_)
            | Form::Global(_)
            | Form::Local(..)
            | Form::Volatile(_)
            | Form::Mapped(_)
            | Form::Found(..)
            | Form::Fresh(_)
            | Form::Direct(_)
            | Form::Element(..) => true,
            Form::Opaque(_, persistence) => persistence != Persistence::No,
            _ => false,
        }
    }

    pub(crate) fn comparison(&mut self, what: Compare, left: Expression, right: Expression) -> Expression {
        if left == NOTHING || right == NOTHING {
            return NOTHING;
        }
        if let (Some(a), Some(b)) = (self.as_int(left), self.as_int(right)) {
            return self.int(what.holds(a, b).into());
        }
        if let Some(number) = self.as_int(right)
            && let Some(holds) = self.compared_to(what, left, number)
        {
            return self.int(holds.into());
        }
        // Two failures need not be the same.
        if self.form(left) == Form::Failure || self.form(right) == Form::Failure {
            return NOTHING;
        }
        if left == right {
            return self.int(what.holds(0, 0).into());
        }
        // Two places in one object, such as a cursor and its end. Equality can be decided without knowing the object:
        // sums wrap around alike.
        let ((one, from), (other, to)) = (self.without_offset(left), self.without_offset(right));
        let is_ordered = || self.is_pointer(one) && from >= 0 && to >= 0;
        if one == other && (matches!(what, Compare::Eq | Compare::Ne) || is_ordered()) {
            return self.int(what.holds(from, to).into());
        }
        // An object's address is not zero.
        if matches!(what, Compare::Eq | Compare::Ne)
            && (self.as_int(right) == Some(0) && self.is_object(left)
                || self.as_int(left) == Some(0) && self.is_object(right))
        {
            return self.int((what == Compare::Ne).into());
        }
        self.add(Form::Comparison(what, left, right))
    }

    /// The result of comparing a failure, an object, a number of bits or a masked number to a number, if known: each lies
    /// in a range of its own.
    fn compared_to(&self, what: Compare, left: Expression, number: i64) -> Option<bool> {
        let mask = |mask| self.as_int(mask).filter(|mask| *mask >= 0);
        let (first, last) = match self.form(left) {
            Form::Failure => (LAST_ERROR + 1, -1),
            Form::Operation(Arithmetic::Ones | Arithmetic::Zeros, ..) => (0, 64),
            Form::Operation(Arithmetic::And, _, right) if let Some(mask) = mask(right) => (0, mask),
            _ => match self.form(self.address(left).object) {
                // The address of an object is unknown, but not an error code. Unsigned comparison orders the two.
                Form::Global(_)
                | Form::Local(..)
                | Form::Volatile(_)
                | Form::Mapped(_)
                | Form::Found(..)
                | Form::Fresh(_)
                | Form::Direct(_)
                    if !matches!(what, Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge)
                        && (LAST_ERROR..0).contains(&number) =>
                {
                    (0, LAST_ERROR)
                }
                _ => return None,
            },
        };
        let outside = (number as u64) < first as u64 || (number as u64) > last as u64;
        match what {
            Compare::Eq if outside => Some(false),
            Compare::Ne if outside => Some(true),
            Compare::Eq | Compare::Ne => None,
            _ => {
                let holds = what.holds(first, number);
                (holds == what.holds(last, number)).then_some(holds)
            }
        }
    }

    /// Whether it is a number that means failure.
    pub(crate) fn is_failure(&self, expression: Expression) -> bool {
        match self.form(expression) {
            Form::Int(number) => (LAST_ERROR + 1..0).contains(&number),
            form => form == Form::Failure,
        }
    }

    /// Whether an object was mapped or allocated.
    pub(crate) fn is_made(&self, object: Expression) -> bool {
        matches!(self.form(object), Form::Volatile(_) | Form::Mapped(_) | Form::Fresh(_))
    }

    fn is_object(&self, expression: Expression) -> bool {
        matches!(
            self.form(expression),
            Form::Global(_) | Form::Local(..) | Form::Fresh(_) | Form::FreshId(_) | Form::Function(_)
        )
    }

    /// A condition and its required truth value, normalized for facts: without negations.
    pub(crate) fn fact(&mut self, condition: Expression, holds: bool) -> (Expression, bool) {
        match self.form(condition) {
            Form::Comparison(Compare::Ne, left, right) => {
                // A test of a test.
                if self.as_int(right) == Some(0) && matches!(self.form(left), Form::Comparison(..)) {
                    return self.fact(left, holds);
                }
                (self.comparison(Compare::Eq, left, right), !holds)
            }
            Form::Comparison(Compare::Eq, left, right)
                if self.as_int(right) == Some(0) && matches!(self.form(left), Form::Comparison(..)) =>
            {
                self.fact(left, !holds)
            }
            Form::Comparison(Compare::Ge, left, right) => (self.comparison(Compare::Lt, left, right), !holds),
            Form::Comparison(Compare::Le, left, right) => (self.comparison(Compare::Gt, left, right), !holds),
            Form::Comparison(Compare::AboveOrEqual, left, right) => {
                (self.comparison(Compare::Below, left, right), !holds)
            }
            Form::Comparison(Compare::BelowOrEqual, left, right) => {
                (self.comparison(Compare::Above, left, right), !holds)
            }
            Form::Operation(Arithmetic::Xor, inner, one) if self.as_int(one).is_some_and(|n| n & 1 == 1) => {
                self.fact(inner, !holds)
            }
            _ => (condition, holds),
        }
    }

    /// Decomposes an address.
    pub(crate) fn address(&self, expression: Expression) -> Address {
        let (mut at, mut offset) = (expression, 0_i64);
        if let Form::Plus(inner, constant) = self.form(at) {
            (at, offset) = (inner, constant);
        }
        let element = matches!(self.form(at), Form::Element(..)).then_some(at);
        while let Form::Element(base, ..) | Form::Plus(base, _) = self.form(at) {
            at = base;
        }
        Address { object: at, element, offset }
    }

    /// Recomposes an address, if it was ever computed.
    pub(crate) fn at(&self, address: &Address) -> Option<Expression> {
        let base = address.element.unwrap_or(address.object);
        if address.offset == 0 { Some(base) } else { self.known(Form::Plus(base, address.offset)) }
    }

    /// The memory contents that a condition or number depends on.
    pub(crate) fn contents(&self, number: Expression, found: &mut Vec<Expression>) {
        match self.form(number) {
            Form::Content(_) => found.push(number),
            Form::Plus(inner, _) => self.contents(inner, found),
            Form::Operation(_, left, right) | Form::Comparison(_, left, right) => {
                self.contents(left, found);
                self.contents(right, found);
            }
            _ => {}
        }
    }

    /// Whether an expression is computed from another one, including contents of memory at an address computed from it.
    pub(crate) fn is_made_of(&self, number: Expression, part: Expression) -> bool {
        let mut seen = FxHashSet::default();
        let mut left = vec![number];
        while let Some(next) = left.pop() {
            if next == part {
                return true;
            }
            if !seen.insert(next) {
                continue;
            }
            match self.form(next) {
                Form::Plus(inner, _) | Form::Content(inner) | Form::Direct(inner) | Form::Found(_, inner) => {
                    left.push(inner);
                }
                Form::Element(one, other, _)
                | Form::Pair(one, other)
                | Form::Operation(_, one, other)
                | Form::Comparison(_, one, other) => left.extend([one, other]),
                _ => {}
            }
        }
        false
    }

    /// The unknown values that a condition or number depends on.
    pub(crate) fn unknowns(&self, number: Expression, found: &mut FxHashSet<Expression>) {
        match self.form(number) {
            Form::Opaque(..) => {
                found.insert(number);
            }
            Form::Plus(inner, _) => self.unknowns(inner, found),
            Form::Operation(_, left, right) | Form::Comparison(_, left, right) => {
                self.unknowns(left, found);
                self.unknowns(right, found);
            }
            _ => {}
        }
    }

    /// An unknown pointer leads to memory that is persistent according to a description or a mapping.
    pub(crate) fn set_declared(&mut self, pointer: Expression) {
        self.declared.insert(pointer);
    }

    pub(crate) fn is_declared(&self, pointer: Expression) -> bool {
        self.declared.contains(&pointer)
    }

    /// Records that an address is indexed by elements of a size.
    pub(crate) fn note_array(&mut self, base: Expression, offset: i64, scale: i64) {
        let at = self.address(base);
        let start = at.offset + offset;
        let known = self.array_starts.entry((at.object, scale)).or_insert(start);
        *known = start.min(*known);
    }

    /// Where the elements of a size begin in an object.
    pub(crate) fn array_start(&self, object: Expression, scale: i64) -> Option<i64> {
        self.array_starts.get(&(object, scale)).copied()
    }

    /// Whether some part of it could be anything.
    pub(crate) fn has_opaque(&self, expression: Expression) -> bool {
        match self.form(expression) {
            Form::Opaque(..) | Form::Nothing => true,
            Form::Direct(inner) | Form::Plus(inner, _) | Form::Content(inner) | Form::Element(inner, ..) => {
                self.has_opaque(inner)
            }
            Form::Found(_, arguments) => self.any_opaque(arguments),
            _ => false,
        }
    }

    /// The same for everything a value is computed from.
    fn any_opaque(&self, expression: Expression) -> bool {
        match self.form(expression) {
            Form::Pair(left, right)
            | Form::Element(left, right, _)
            | Form::Operation(_, left, right)
            | Form::Comparison(_, left, right) => self.any_opaque(left) || self.any_opaque(right),
            Form::Plus(inner, _) | Form::Content(inner) | Form::Direct(inner) => self.any_opaque(inner),
            _ => self.has_opaque(expression),
        }
    }

    /// The alignment of an object, if known to be larger than usual.
    pub(crate) fn alignment(&self, object: Expression) -> Option<u64> {
        self.alignments.get(&object).copied()
    }

    pub(crate) fn set_alignment(&mut self, object: Expression, alignment: u64) {
        self.alignments.insert(object, alignment);
    }

    /// What is known about a pointer loaded from an unknown place.
    pub(crate) fn loaded(&self, pointer: Expression) -> Option<Persistence> {
        self.loaded.get(&pointer).copied()
    }

    pub(crate) fn set_loaded(&mut self, pointer: Expression, persistence: Persistence) {
        self.loaded.insert(pointer, persistence);
    }

    /// Takes all such pointers.
    pub(crate) fn take_loaded(&mut self) -> Vec<(Expression, Persistence)> {
        let mut all: Vec<(Expression, Persistence)> = std::mem::take(&mut self.loaded).into_iter().collect();
        all.sort_unstable_by_key(|(pointer, _)| *pointer);
        all
    }

    /// Takes all alignments: the next function has its own parameters.
    pub(crate) fn take_alignments(&mut self) -> Vec<(Expression, u64)> {
        let mut all: Vec<(Expression, u64)> = std::mem::take(&mut self.alignments).into_iter().collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.forms.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let mut all = Expressions::new();
        let p = all.add(Form::Parameter(0));
        let i = all.add(Form::Parameter(1));
        let field = all.plus(p, 16);
        let element = all.element(field, i, 8);
        let last = all.plus(element, -8);
        let apart = all.address(last);
        assert_eq!((apart.object, apart.offset), (p, 8));
        // The same from an index that is one less.
        let less = all.plus(i, -1);
        assert_eq!(all.element(field, less, 8), last);
    }

    #[test]
    fn a_length_is_found_again() {
        let mut all = Expressions::new();
        let (p, n) = (all.add(Form::Parameter(0)), all.add(Form::Parameter(1)));
        let end = all.arithmetic(Arithmetic::Add, p, n);
        let mask = all.int(-64);
        let start = all.arithmetic(Arithmetic::And, p, mask);
        assert_eq!(all.difference(end, start), n);
    }
}
