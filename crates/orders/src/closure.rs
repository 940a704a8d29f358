//! The order as a transitive closure, after Italiano, "Amortized efficiency of a path retrieval data
//! structure" (1986), with undo.
//!
//! For every node the set of nodes after it is kept as a row of bits. Adding an edge joins the row of its
//! head to the rows of everything before its tail; what changes is written down and taken back on undo. That
//! costs more than detecting cycles, and tells more: every pair that the edge put in order is offered to the
//! caller, who learns which orders are now forced.

/// A partial order over nodes `0..n`.
#[derive(Debug, Default)]
pub struct Closure {
    nodes: usize,
    /// Words in a row.
    words: usize,
    /// Bit y of row x: x is before y.
    after: Vec<u64>,
    /// Bit y of row x: tell the caller when x comes before y.
    watched: Vec<u64>,
    /// Words as they were, newest last: index into `after`, old content.
    undo: Vec<(u32, u64)>,
}

impl Closure {
    /// An order in which no two nodes are related.
    pub fn new(nodes: usize) -> Closure {
        let words = nodes.div_ceil(64);
        Closure {
            nodes,
            words,
            after: vec![0; nodes * words],
            watched: vec![0; nodes * words],
            undo: Vec::new(),
        }
    }

    /// Wants to be told when `a` comes before `b`.
    pub fn watch(&mut self, a: usize, b: usize) {
        self.watched[a * self.words + b / 64] |= 1 << (b % 64);
    }

    /// Is `a` before `b`?
    pub fn before(&self, a: usize, b: usize) -> bool {
        self.after[a * self.words + b / 64] >> (b % 64) & 1 == 1
    }

    /// Puts `a` before `b`, and calls `put` with every watched pair that is in order because of it. False, and
    /// nothing done, if `b` is before `a` already or they are the same.
    pub fn insert(&mut self, a: usize, b: usize, mut put: impl FnMut(usize, usize)) -> bool {
        if a == b || self.before(b, a) {
            return false;
        }
        if self.before(a, b) {
            return true;
        }
        for x in 0..self.nodes {
            if x != a && !self.before(x, a) || self.before(x, b) {
                continue;
            }
            for word in 0..self.words {
                let mut new = self.after[b * self.words + word];
                if word == b / 64 {
                    new |= 1 << (b % 64);
                }
                let at = x * self.words + word;
                new &= !self.after[at];
                if new == 0 {
                    continue;
                }
                self.undo.push((at as u32, self.after[at]));
                self.after[at] |= new;
                let mut told = new & self.watched[at];
                while told != 0 {
                    put(x, word * 64 + told.trailing_zeros() as usize);
                    told &= told - 1;
                }
            }
        }
        true
    }

    /// A mark to come back to.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Takes back everything since `mark`.
    pub fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let (at, old) = self.undo.pop().expect("longer than the mark");
            self.after[at as usize] = old;
        }
    }

    /// Makes everything so far unchangeable: there is nothing to come back to.
    pub fn forget_undo(&mut self) {
        self.undo.clear();
    }
}
