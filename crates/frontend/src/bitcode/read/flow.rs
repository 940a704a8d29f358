//! Loops with several entries, which some of LLVM's passes support only without switches.

use crate::llvm::{Block, Opcode, Value};
use rustc_hash::FxHashMap;

/// The kinds of jumps in a function with such loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Jumps {
    /// Branches only, or no such loop.
    Branches,
    /// Switches, too.
    Switches,
    /// Something else, such as jumps to labels whose address was taken.
    Others,
}

/// Looks at a function with a body.
pub(crate) fn jumps(function: Value<'_>) -> Jumps {
    let blocks = function.blocks();
    let mut worst = Jumps::Branches;
    for block in &blocks {
        worst = match (block.terminator().opcode(), worst) {
            (_, Jumps::Others) => Jumps::Others,
            (Opcode::LLVMIndirectBr | Opcode::LLVMCallBr, _) => Jumps::Others,
            (Opcode::LLVMSwitch, _) => Jumps::Switches,
            (_, worst) => worst,
        };
    }
    if worst == Jumps::Branches || is_reducible(&successors(&blocks)) { Jumps::Branches } else { worst }
}

fn successors(blocks: &[Block<'_>]) -> Vec<Vec<usize>> {
    let numbers: FxHashMap<Block<'_>, usize> =
        blocks.iter().enumerate().map(|(number, block)| (*block, number)).collect();
    let of = |block: &Block<'_>| block.terminator().successors().iter().map(|to| numbers[to]).collect();
    blocks.iter().map(of).collect()
}

/// Whether every back edge leads to a block that dominates its source. (Hecht and Ullman, *Characterizations of
/// reducible flow graphs*, JACM 1974.) Block 0 is the entry.
fn is_reducible(successors: &[Vec<usize>]) -> bool {
    const NONE: usize = usize::MAX;
    // Reverse postorder, by a depth-first walk.
    let (mut seen, mut post) = (vec![false; successors.len()], Vec::new());
    let mut stack = vec![(0, 0)];
    seen[0] = true;
    while let Some((block, edge)) = stack.pop() {
        match successors[block].get(edge) {
            Some(&to) => {
                stack.push((block, edge + 1));
                if !std::mem::replace(&mut seen[to], true) {
                    stack.push((to, 0));
                }
            }
            None => post.push(block),
        }
    }
    let mut position = vec![NONE; successors.len()];
    for (index, &block) in post.iter().rev().enumerate() {
        position[block] = index;
    }
    // Immediate dominators, by position. (Cooper, Harvey and Kennedy, *A simple, fast dominance algorithm*.)
    let mut dominator = vec![NONE; post.len()];
    dominator[0] = 0;
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); post.len()];
    for &block in &post {
        for &to in &successors[block] {
            before[position[to]].push(position[block]);
        }
    }
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for block in 1..post.len() {
            let mut new = NONE;
            for &from in before[block].iter().filter(|&&from| dominator[from] != NONE) {
                new = if new == NONE { from } else { meet(&dominator, new, from) };
            }
            changed |= std::mem::replace(&mut dominator[block], new) != new;
        }
    }
    let dominates = |a: usize, mut b: usize| {
        while b > a {
            b = dominator[b];
        }
        a == b
    };
    before.iter().enumerate().all(|(to, all)| all.iter().all(|&from| from < to || dominates(to, from)))
}

fn meet(dominator: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        if a > b {
            a = dominator[a];
        } else {
            b = dominator[b];
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::is_reducible;

    #[test]
    fn loops_with_two_entries_are_recognized() {
        assert!(is_reducible(&[vec![]]));
        assert!(is_reducible(&[vec![1], vec![2, 3], vec![1], vec![]]));
        // A diamond in a loop, and a loop in that.
        assert!(is_reducible(&[vec![1], vec![2, 3], vec![4, 2], vec![4], vec![1, 5], vec![]]));
        assert!(!is_reducible(&[vec![1, 2], vec![2], vec![1, 3], vec![]]));
        // Unreachable blocks do not count.
        assert!(is_reducible(&[vec![1], vec![1], vec![0, 1]]));
    }
}
