//! Words: bit-vectors with few possible values have a literal per value.
//!
//! The value read by a pointer load is known to be one of a few addresses. As bits it takes five literals to
//! distinguish them, and sixty-four to tell -1 from 2; the solver would learn facts about bits. So a word with few
//! possible values has one literal per value, exactly one of which is true, and its bits derive from those. The
//! literals are registered by the word's bits, so code that knows only the bits can find them, and words without them
//! work as usual.

use crashproof_ordersat::Lit;

use crate::gates::{Choice, Gates};

/// Words with more values than this are only bits.
pub const MOST_VALUES: usize = 16;

impl Gates {
    /// A word that is one of these values, sorted and distinct, unconstrained otherwise.
    pub fn choice(&mut self, values: &[u64], width: usize) -> Vec<Lit> {
        let choices: Vec<Choice> = match *values {
            [zero, one] => {
                let second = self.fresh();
                vec![(zero, !second), (one, second)]
            }
            _ => values.iter().map(|&value| (value, self.fresh())).collect(),
        };
        if choices.len() > 2 {
            let some: Vec<Lit> = choices.iter().map(|&(_, lit)| lit).collect();
            for (at, &a) in some.iter().enumerate() {
                some[at + 1..].iter().for_each(|&b| self.clause(&[!a, !b]));
            }
            self.clause(&some);
        }
        self.word(choices, width)
    }

    /// A word from its choices, of which at most one is true; none is true only if the word does not matter.
    pub fn word(&mut self, choices: Vec<Choice>, width: usize) -> Vec<Lit> {
        let (may, must) =
            choices.iter().fold((0, u64::MAX), |(may, must), (value, _)| (may | value, must & value));
        let bits: Vec<Lit> = (0..width)
            .map(|bit| {
                if may >> bit & 1 == 0 {
                    return self.no();
                }
                if must >> bit & 1 == 1 {
                    return self.yes();
                }
                let ones: Vec<Lit> =
                    choices.iter().filter(|(value, _)| value >> bit & 1 == 1).map(|&(_, lit)| lit).collect();
                self.any(&ones)
            })
            .collect();
        if choices.len() > 1 && choices.len() <= MOST_VALUES {
            self.words.entry(bits.clone()).or_insert(choices);
        }
        bits
    }

    /// The possible values of a word, if few and known.
    pub fn choices(&self, bits: &[Lit]) -> Option<Vec<Choice>> {
        if let Some(choices) = self.words.get(bits) {
            return Some(choices.clone());
        }
        let constant = bits.iter().enumerate().try_fold(0, |value, (bit, &lit)| {
            if lit == self.yes() { Some(value | 1 << bit) } else { (lit == self.no()).then_some(value) }
        })?;
        Some(vec![(constant, self.yes())])
    }

    /// Is the word this value?
    pub fn is(&mut self, bits: &[Lit], value: u64) -> Lit {
        if let Some(choices) = self.words.get(bits) {
            let found = choices.iter().find(|&&(other, _)| other == value);
            return found.map_or(self.no(), |&(_, lit)| lit);
        }
        let wanted: Vec<Lit> = bits
            .iter()
            .enumerate()
            .map(|(bit, &lit)| if value >> bit & 1 == 1 { lit } else { !lit })
            .collect();
        self.all(&wanted)
    }

    /// `a` if `condition`, else `b`.
    pub fn mux_word(&mut self, condition: Lit, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
        if condition == self.yes() || a == b {
            return a.to_vec();
        }
        if condition == self.no() {
            return b.to_vec();
        }
        if let (Some(first), Some(second)) = (self.choices(a), self.choices(b)) {
            let values = union(&first, &second);
            if values.len() <= MOST_VALUES {
                let choices = values
                    .into_iter()
                    .map(|value| {
                        let (a, b) = (self.literal(&first, value), self.literal(&second, value));
                        (value, self.mux(condition, a, b))
                    })
                    .collect();
                return self.word(choices, a.len());
            }
        }
        a.iter().zip(b).map(|(&a, &b)| self.mux(condition, a, b)).collect()
    }

    /// Makes the two equal under `condition`.
    pub fn equal_if(&mut self, condition: Lit, a: &[Lit], b: &[Lit]) {
        debug_assert_eq!(a.len(), b.len());
        if a.len() > 1
            && let (Some(first), Some(second)) = (self.choices(a), self.choices(b))
        {
            for value in union(&first, &second) {
                let (a, b) = (self.literal(&first, value), self.literal(&second, value));
                if a != b {
                    self.clause(&[!condition, !a, b]);
                    self.clause(&[!condition, a, !b]);
                }
            }
            return;
        }
        for (&a, &b) in a.iter().zip(b) {
            if a != b {
                self.clause(&[!condition, !a, b]);
                self.clause(&[!condition, a, !b]);
            }
        }
    }

    fn literal(&self, choices: &[Choice], value: u64) -> Lit {
        choices.iter().find(|&&(other, _)| other == value).map_or(self.no(), |&(_, lit)| lit)
    }
}

/// All values of either, sorted.
pub fn union(a: &[Choice], b: &[Choice]) -> Vec<u64> {
    let mut values: Vec<u64> = a.iter().chain(b).map(|&(value, _)| value).collect();
    values.sort_unstable();
    values.dedup();
    values
}
