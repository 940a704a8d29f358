//! Variables and literals.

use std::ops::Not;

/// A propositional variable, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var(pub u32);

/// A variable or its negation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lit(u32);

impl Var {
    /// The literal that is true if the variable is.
    pub const fn positive(self) -> Lit {
        Lit(self.0 << 1)
    }
}

impl Lit {
    /// The literal over `var` that is true if the variable has this value.
    pub const fn new(var: Var, value: bool) -> Lit {
        Lit(var.0 << 1 | !value as u32)
    }

    /// Its variable.
    pub const fn var(self) -> Var {
        Var(self.0 >> 1)
    }

    /// Is it the variable itself, not its negation?
    pub const fn is_positive(self) -> bool {
        self.0 & 1 == 0
    }

    /// A small number for tables indexed by literals.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// As DIMACS files have it: numbered from 1, negative if negated.
    pub const fn dimacs(self) -> i32 {
        let number = (self.0 >> 1) as i32 + 1;
        if self.is_positive() { number } else { -number }
    }

    /// From DIMACS's numbering.
    pub const fn from_dimacs(number: i32) -> Lit {
        Lit::new(Var(number.unsigned_abs() - 1), number > 0)
    }
}

impl Not for Lit {
    type Output = Lit;

    fn not(self) -> Lit {
        Lit(self.0 ^ 1)
    }
}

impl std::fmt::Debug for Lit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.dimacs())
    }
}
