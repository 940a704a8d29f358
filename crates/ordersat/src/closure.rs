//! The order as a transitive closure, after Italiano, "Amortized efficiency of a path retrieval data
//! structure" (1986), with undo.
//!
//! For every node, the nodes after it and the nodes before it are kept as rows of bits. An edge from a to b puts x
//! before y if x is a or before it, y is b or after it, and neither was already implied: what is before b already
//! precedes everything after b, and what is after a already follows everything before a. So the two rows of a, minus
//! those of b, determine which rows change, usually in a few words. Changes are logged and reverted on undo. That costs
//! more than detecting cycles, and provides more: every pair that the edge orders is passed to the caller, who learns
//! which orders are now forced.

/// A partial order over nodes `0..n`.
#[derive(Debug, Default)]
pub struct Closure {
    nodes: usize,
    /// Words in a row.
    words: usize,
    /// Bit y of row x: x is before y.
    after: Vec<u64>,
    /// Bit x of row y: x is before y.
    prior: Vec<u64>,
    /// Bit y of row x: tell the caller when x comes before y.
    watched: Vec<u64>,
    /// Words as they were, newest last: index into `after`, then into `prior`, and the old content.
    undo: Vec<(u32, u64)>,
    /// The words of what an edge concerns, its tail's side and its head's: which word, and its bits. Kept for its memory.
    tails: Vec<(usize, u64)>,
    heads: Vec<(usize, u64)>,
}

impl Closure {
    /// An order in which no two nodes are related.
    pub fn new(nodes: usize) -> Closure {
        let words = nodes.div_ceil(64);
        Closure {
            nodes,
            words,
            after: vec![0; nodes * words],
            prior: vec![0; nodes * words],
            watched: vec![0; nodes * words],
            ..Closure::default()
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Requests a notification when `a` comes before `b`.
    pub fn watch(&mut self, a: usize, b: usize) {
        self.watched[a * self.words + b / 64] |= 1 << (b % 64);
    }

    /// Is `a` before `b`? Both must be nodes of this order: the rows of others are their neighbors'.
    pub fn before(&self, a: usize, b: usize) -> bool {
        debug_assert!(a < self.nodes && b < self.nodes, "{a} or {b} is not one of {} nodes", self.nodes);
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
        difference(&self.prior, self.words, a, b, &mut self.tails);
        difference(&self.after, self.words, b, a, &mut self.heads);
        for &(block, bits) in &self.tails {
            for x in ones(block, bits) {
                for &(word, heads) in &self.heads {
                    let at = x * self.words + word;
                    let old = self.after[at];
                    let new = heads & !old;
                    if new == 0 {
                        continue;
                    }
                    self.undo.push((at as u32, old));
                    self.after[at] = old | new;
                    for y in ones(word, new & self.watched[at]) {
                        put(x, y);
                    }
                }
            }
        }
        let behind = self.after.len();
        for &(block, bits) in &self.heads {
            for y in ones(block, bits) {
                for &(word, tails) in &self.tails {
                    let at = y * self.words + word;
                    let old = self.prior[at];
                    if tails & !old != 0 {
                        self.undo.push(((behind + at) as u32, old));
                        self.prior[at] = old | tails;
                    }
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
        let behind = self.after.len();
        for (at, old) in self.undo.drain(mark..).rev() {
            match (at as usize).checked_sub(behind) {
                None => self.after[at as usize] = old,
                Some(at) => self.prior[at] = old,
            }
        }
    }

    /// Makes everything so far permanent.
    pub fn forget_undo(&mut self) {
        self.undo.clear();
    }
}

/// The words, not empty, of a node and its row in a matrix, without the row of another.
fn difference(matrix: &[u64], words: usize, node: usize, other: usize, into: &mut Vec<(usize, u64)>) {
    into.clear();
    for word in 0..words {
        let own = if word == node / 64 { 1 << (node % 64) } else { 0 };
        let bits = (matrix[node * words + word] | own) & !matrix[other * words + word];
        if bits != 0 {
            into.push((word, bits));
        }
    }
}

/// The numbers of the ones in a word of a row.
fn ones(word: usize, mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let bit = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        Some(word * 64 + bit)
    })
}
