//! The order as levels: two-way search for cycles, after Bender, Fineman, Gilbert and Tarjan, "A new approach to
//! incremental cycle detection and related problems" (2015), section 2.
//!
//! Every node has a level, and no edge leads to a lower one. A new edge to a node of a higher level, or of the same
//! level if a bounded backward search does not reach its head, closes no cycle. Otherwise levels are raised, forwards
//! from the head, and that finds a cycle if there is one.
//!
//! Removing edges leaves the levels unchanged: they remain valid, since fewer edges impose fewer constraints. So undo
//! is free, which is why solvers like this structure; but it does not tell which orders became forced.

/// A graph without cycles over nodes `0..n`.
#[derive(Debug, Default)]
pub struct Levels {
    level: Vec<u32>,
    outgoing: Vec<Vec<u32>>,
    incoming: Vec<Vec<u32>>,
    /// Edges in the order of insertion.
    edges: Vec<(u32, u32)>,
    /// How many steps a search backwards may take: about the square root of the number of edges to come.
    patience: usize,
    /// A number for each search, so that marks need no clearing.
    round: u32,
    /// In which round a node was met backwards.
    met: Vec<u32>,
}

impl Levels {
    /// A graph without edges. `edges` is about how many it will have.
    pub fn new(nodes: usize, edges: usize) -> Levels {
        Levels {
            level: vec![0; nodes],
            outgoing: vec![Vec::new(); nodes],
            incoming: vec![Vec::new(); nodes],
            edges: Vec::new(),
            patience: edges.isqrt().max(4),
            round: 0,
            met: vec![0; nodes],
        }
    }

    /// Adds an edge. False, and nothing added, if it would close a cycle.
    pub fn insert(&mut self, a: usize, b: usize) -> bool {
        if a == b || self.level[a] >= self.level[b] && self.closes_cycle(a, b) {
            return false;
        }
        self.outgoing[a].push(b as u32);
        self.incoming[b].push(a as u32);
        self.edges.push((a as u32, b as u32));
        true
    }

    fn closes_cycle(&mut self, a: usize, b: usize) -> bool {
        self.round += 1;
        let round = self.round;
        // Backwards from the tail, within its level.
        let mut stack = vec![a];
        self.met[a] = round;
        let mut steps = 0;
        let mut exhausted = false;
        while let Some(node) = stack.pop() {
            if node == b {
                return true;
            }
            if exhausted {
                continue;
            }
            for &before in &self.incoming[node] {
                let before = before as usize;
                if self.level[before] != self.level[a] {
                    continue;
                }
                steps += 1;
                if steps > self.patience {
                    exhausted = true;
                    break;
                }
                if self.met[before] != round {
                    self.met[before] = round;
                    stack.push(before);
                }
            }
        }
        if !exhausted && self.level[a] == self.level[b] {
            // Everything of the level that leads to the tail was seen, and the head is not among it.
            return false;
        }
        let raised = if exhausted { self.level[a] + 1 } else { self.level[a] };
        if exhausted {
            // What was met is a part only; the tail itself is what surely is behind the edge.
            self.round += 1;
            self.met[a] = self.round;
        }
        self.raise(b, raised)
    }

    /// Raises levels forwards from `start`. True if a node met backwards is met again: a cycle. Goes on to the end
    /// even so, because the levels must fit the edges that stay.
    fn raise(&mut self, start: usize, level: u32) -> bool {
        let round = self.round;
        let mut cycle = self.met[start] == round;
        self.level[start] = self.level[start].max(level);
        let mut stack = vec![start];
        while let Some(node) = stack.pop() {
            for at in 0..self.outgoing[node].len() {
                let next = self.outgoing[node][at] as usize;
                cycle |= self.met[next] == round;
                if self.level[next] < self.level[node] {
                    self.level[next] = self.level[node];
                    stack.push(next);
                }
            }
        }
        cycle
    }

    /// A mark to come back to.
    pub fn mark(&self) -> usize {
        self.edges.len()
    }

    /// Takes back every edge since `mark`. Levels stay.
    pub fn undo_to(&mut self, mark: usize) {
        while self.edges.len() > mark {
            let (a, b) = self.edges.pop().expect("longer than the mark");
            let popped = (self.outgoing[a as usize].pop(), self.incoming[b as usize].pop());
            debug_assert_eq!(popped, (Some(b), Some(a)), "edges leave in reverse order");
        }
    }
}
