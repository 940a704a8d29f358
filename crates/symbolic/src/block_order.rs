//! The order in which the blocks of a function are executed when paths are merged.
//!
//! A block must run after everything that may lead to it, in the same iteration of the enclosing loops. So blocks are
//! sorted by position within their loop, a loop counts as one block of its surroundings, and each iteration of a loop
//! precedes the next: the sort key of a block alternates positions and iteration numbers, from the outermost loop
//! inwards. Following any edge increases the key.
//!
//! Loops are found as strongly connected components: after removing the edges back to a component's header, whatever is
//! still strongly connected inside is an inner loop. (Bourdoncle, *Efficient chaotic iteration strategies with
//! widenings*, FMPA 1993, section 4.) This handles irreducible control flow, too.

use crashproof_frontend::bitcode::ir::{BlockId, Function, Place};

/// A loop of a function.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) header: BlockId,
    /// Its place in the source.
    pub(crate) place: Place,
}

/// The position of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nest {
    /// Enclosing loops, outermost first; a header is inside its loop.
    pub(crate) loops: Vec<usize>,
    /// The position of each of these loops in its surroundings, then the position of the block.
    positions: Vec<u32>,
}

/// The order of a function's blocks.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) loops: Vec<Loop>,
    nests: Vec<Nest>,
}

/// Orders a block's execution among all executions of all blocks of a call.
pub(crate) type Key = Vec<u32>;

impl Order {
    pub(crate) fn of(function: &Function) -> Self {
        let successors: Vec<Vec<BlockId>> =
            function.blocks.iter().map(|block| block.terminator.successors()).collect();
        let mut order = Order { loops: Vec::new(), nests: vec![Nest::default(); function.blocks.len()] };
        let all: Vec<BlockId> = (0..function.blocks.len() as u32).map(BlockId).collect();
        order.level(function, &successors, &all, None, &Nest::default());
        order
    }

    pub(crate) fn nest(&self, block: BlockId) -> &Nest {
        &self.nests[block.0 as usize]
    }

    pub(crate) fn key(&self, block: BlockId, rounds: &[u32]) -> Key {
        let nest = self.nest(block);
        let mut key = Vec::with_capacity(nest.positions.len() + rounds.len());
        for (depth, position) in nest.positions.iter().enumerate() {
            key.push(*position);
            key.extend(rounds.get(depth));
        }
        key
    }

    /// The iteration numbers of the loops around `to` when coming from `from`, and the loop whose next iteration
    /// begins, if any.
    pub(crate) fn step(&self, from: BlockId, rounds: &[u32], to: BlockId) -> (Vec<u32>, Option<usize>) {
        let (here, there) = (&self.nest(from).loops, &self.nest(to).loops);
        let common = here.iter().zip(there).take_while(|(a, b)| a == b).count();
        let mut next = rounds[..common].to_vec();
        next.resize(there.len(), 0);
        match there.last() {
            Some(&inner) if common == there.len() && self.loops[inner].header == to => {
                next[common - 1] += 1;
                (next, Some(inner))
            }
            _ => (next, None),
        }
    }

    /// Sorts one level: the whole function, or the inside of a loop without the edges back to its header.
    fn level(
        &mut self,
        function: &Function,
        successors: &[Vec<BlockId>],
        blocks: &[BlockId],
        header: Option<BlockId>,
        around: &Nest,
    ) {
        let mut inside = vec![false; successors.len()];
        for block in blocks {
            inside[block.0 as usize] = true;
        }
        let follow = |block: BlockId| {
            successors[block.0 as usize]
                .iter()
                .copied()
                .filter(|to| inside[to.0 as usize] && Some(*to) != header)
                .collect::<Vec<_>>()
        };
        let start = header.unwrap_or(BlockId(0));
        for (position, component) in components(blocks, start, &follow).into_iter().enumerate() {
            let mut nest = around.clone();
            nest.positions.push(position as u32);
            let first = component[0];
            if component.len() == 1 && !follow(first).contains(&first) {
                self.nests[first.0 as usize] = nest;
                continue;
            }
            // The entry of a reducible loop is the one block reached from outside.
            let member = |block: BlockId| component.contains(&block);
            let entered = |block: &BlockId| {
                *block == start || blocks.iter().any(|from| !member(*from) && follow(*from).contains(block))
            };
            let entry = component.iter().copied().find(entered).unwrap_or(first);
            let block = &function.blocks[entry.0 as usize];
            let place = block
                .instructions
                .iter()
                .map(|instruction| &instruction.place)
                .find(|place| place.line != 0)
                .unwrap_or(&block.place)
                .clone();
            nest.loops.push(self.loops.len());
            self.loops.push(Loop { header: entry, place });
            self.level(function, successors, &component, Some(entry), &nest);
        }
    }
}

/// Strongly connected components (Tarjan's), sources first.
fn components(
    blocks: &[BlockId],
    start: BlockId,
    follow: &dyn Fn(BlockId) -> Vec<BlockId>,
) -> Vec<Vec<BlockId>> {
    struct Visit {
        block: BlockId,
        next: Vec<BlockId>,
    }
    const NONE: u32 = u32::MAX;
    let size = blocks.iter().map(|b| b.0 as usize + 1).max().unwrap_or(0);
    let (mut index, mut low, mut on_stack) = (vec![NONE; size], vec![0u32; size], vec![false; size]);
    let (mut count, mut stack, mut found) = (0, Vec::new(), Vec::new());
    for root in std::iter::once(start).chain(blocks.iter().copied()) {
        if index[root.0 as usize] != NONE {
            continue;
        }
        let mut path = Vec::new();
        let mut enter = Some(root);
        loop {
            if let Some(block) = enter.take() {
                let at = block.0 as usize;
                (index[at], low[at], on_stack[at]) = (count, count, true);
                count += 1;
                stack.push(block);
                path.push(Visit { block, next: follow(block) });
            }
            let Some(visit) = path.last_mut() else { break };
            let at = visit.block.0 as usize;
            if let Some(to) = visit.next.pop() {
                let other = to.0 as usize;
                if index[other] == NONE {
                    enter = Some(to);
                } else if on_stack[other] {
                    low[at] = low[at].min(index[other]);
                }
                continue;
            }
            if low[at] == index[at] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member.0 as usize] = false;
                    component.push(member);
                    if member.0 as usize == at {
                        break;
                    }
                }
                component.reverse();
                found.push(component);
            }
            path.pop();
            if let Some(parent) = path.last() {
                let parent = parent.block.0 as usize;
                low[parent] = low[parent].min(low[at]);
            }
        }
    }
    found.reverse();
    found
}
