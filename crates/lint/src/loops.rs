//! The shape of a function: the order of its blocks, its loops, and loops that flush a range line by line.

use px86::order::Class;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::keeps_order;
use crashproof_frontend::program::ir::{
    Arithmetic, Callee, Compare, Function, FunctionId, Op, Operand, Program,
};

const LINE: i64 = px86::LINE_BYTES as i64;

/// A loop.
#[derive(Debug, Default)]
pub(crate) struct Loop {
    pub(crate) blocks: FxHashSet<u32>,
}

/// A loop that does nothing but flush from a start to an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushLoop {
    /// The address of the first flush, before the loop.
    pub(crate) start: Operand,
    /// Initially added to `start`, if the loop has a counter besides the pointer.
    pub(crate) first: Operand,
    /// Where it stops: an address if the loop counts with the pointer, otherwise a number of bytes.
    pub(crate) end: Option<Operand>,
    pub(crate) counts_bytes: bool,
    /// The loop counts line numbers, starting from `start`; whether `end` is included.
    pub(crate) counts_lines: Option<Inclusive>,
    /// How many bytes the loop counts as one: a byte, or a line.
    pub(crate) unit: i64,
    /// How many bytes were added to the end so that rounding down rounds it up: they are not part of the range.
    pub(crate) slack: i64,
    pub(crate) class: Class,
    /// The instruction, or the call of a function that wraps it.
    pub(crate) flush: u32,
}

/// Whether a limit is included in the range.
pub(crate) type Inclusive = bool;

/// The structure of a function, known before any path is walked.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Each block's position in reverse postorder; `None` if unreachable.
    pub(crate) rank: Vec<Option<u32>>,
    pub(crate) loops: FxHashMap<u32, Loop>,
    pub(crate) flush_loops: FxHashMap<u32, FlushLoop>,
    /// Blocks that end a loop when what it counts with, or walks along, gets there; and the header of the loop.
    exits: FxHashMap<u32, u32>,
    successors: Vec<Vec<u32>>,
}

impl Shape {
    pub(crate) fn of(program: &Program, function: &Function) -> Shape {
        let count = function.blocks.len();
        let successors: Vec<Vec<u32>> =
            (0..count as u32).map(|block| function.terminator(block).op.successors()).collect();
        let mut order = Vec::new();
        let mut seen = vec![false; count];
        let mut work = vec![(0_u32, 0_usize)];
        seen[0] = true;
        while let Some((block, next)) = work.last_mut() {
            match successors[*block as usize].get(*next) {
                Some(to) => {
                    *next += 1;
                    if !seen[*to as usize] {
                        seen[*to as usize] = true;
                        work.push((*to, 0));
                    }
                }
                None => {
                    order.push(*block);
                    work.pop();
                }
            }
        }
        order.reverse();
        let mut rank = vec![None; count];
        for (number, block) in (0..).zip(&order) {
            rank[*block as usize] = Some(number);
        }
        let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); count];
        for block in &order {
            for to in &successors[*block as usize] {
                predecessors[*to as usize].push(*block);
            }
        }
        let mut loops: FxHashMap<u32, Loop> = FxHashMap::default();
        for block in &order {
            for header in &successors[*block as usize] {
                if rank[*header as usize] > rank[*block as usize] {
                    continue;
                }
                let all = &mut loops.entry(*header).or_default().blocks;
                all.insert(*header);
                let mut work = vec![*block];
                while let Some(at) = work.pop() {
                    if all.insert(at) {
                        work.extend(&predecessors[at as usize]);
                    }
                }
            }
        }
        let mut shape =
            Shape { rank, loops, flush_loops: FxHashMap::default(), exits: FxHashMap::default(), successors };
        shape.exits = shape
            .loops
            .iter()
            .flat_map(|(header, a_loop)| a_loop.blocks.iter().map(move |block| (*block, *header)))
            .filter(|(block, header)| shape.is_exit(function, *block, *header))
            .collect();
        shape.flush_loops = shape
            .loops
            .iter()
            .filter_map(|(header, a_loop)| Some((*header, flush_loop(program, function, *header, a_loop)?)))
            .collect();
        shape
    }
}

impl Shape {
    /// Whether a block is reached on either side of another one's branch without returning to the branch: its effects
    /// do not depend on the condition.
    pub(crate) fn is_reached_either_way(&self, branch: u32, block: u32) -> bool {
        self.is_behind_loop(branch, block)
            || self.successors[branch as usize]
                .iter()
                .all(|side| self.reached(*side, branch).contains(&block))
    }

    /// Whether a block comes behind a loop that a branch ends: it is reached sooner or later, however often the loop runs.
    fn is_behind_loop(&self, branch: u32, block: u32) -> bool {
        let Some(header) = self.exits.get(&branch) else { return false };
        let inside = &self.loops[header].blocks;
        !inside.contains(&block)
            && self.successors[branch as usize]
                .iter()
                .filter(|side| !inside.contains(side))
                .any(|side| self.reached(*side, branch).contains(&block))
    }

    /// Whether a block decides whether a loop goes on, by something that changes in each round. A loop that waits for memory
    /// to change is left only if it does.
    fn is_exit(&self, function: &Function, block: u32, header: u32) -> bool {
        let inside = &self.loops[&header].blocks;
        let Op::Branch { condition, .. } = function.terminator(block).op else { return false };
        let sides = &self.successors[block as usize];
        sides.iter().any(|side| !inside.contains(side))
            && sides.iter().any(|side| inside.contains(side))
            && depends_on_round(function, condition, function.blocks[header as usize].start, 4)
    }

    /// The blocks reachable from one side of a branch without returning to the branch.
    pub(crate) fn reached(&self, side: u32, branch: u32) -> FxHashSet<u32> {
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        let mut work = vec![side];
        while let Some(at) = work.pop() {
            if at != branch && seen.insert(at) {
                work.extend(&self.successors[at as usize]);
            }
        }
        seen
    }
}

/// Whether a value is computed from one that the loop whose header begins at an instruction changes in each round, other than
/// by loading it from memory at an address that is.
fn depends_on_round(function: &Function, value: Operand, header: u32, depth: u32) -> bool {
    let Some((number, op)) = instruction(function, value).filter(|_| depth > 0) else { return false };
    let of = |operand: &Operand| depends_on_round(function, *operand, header, depth - 1);
    match op {
        // The phis of a block come first.
        Op::Phi { .. } if number >= header => {
            (header..=number).all(|at| matches!(function.instructions[at as usize].op, Op::Phi { .. }))
        }
        Op::Copy { value } => of(value),
        Op::Compare { left, right, .. } | Op::Arithmetic { left, right, .. } => of(left) || of(right),
        _ => false,
    }
}

/// The instruction an operand is.
fn instruction(function: &Function, operand: Operand) -> Option<(u32, &Op)> {
    match operand {
        Operand::Instruction(number) => Some((number, &function.instructions[number as usize].op)),
        _ => None,
    }
}

/// Looks through casts and roundings.
fn stripped(function: &Function, mut operand: Operand) -> Operand {
    loop {
        operand = match instruction(function, operand) {
            Some((_, Op::Copy { value })) => *value,
            Some((_, Op::Arithmetic { what: Arithmetic::And, left, right: Operand::Int(mask) }))
                if *mask < 0 =>
            {
                *left
            }
            _ => return operand,
        };
    }
}

/// A phi of the header with its initial value, if it grows by at most a line per iteration.
fn counter(function: &Function, header: u32, a_loop: &Loop, operand: Operand, unit: i64) -> Option<Operand> {
    let (number, Op::Phi { incoming }) = instruction(function, stripped(function, operand))? else {
        return None;
    };
    let block = &function.blocks[header as usize];
    if !(block.start..block.end).contains(&number) {
        return None;
    }
    let mut start = None;
    for (from, value) in incoming {
        if !a_loop.blocks.contains(from) {
            start = Some(*value);
            continue;
        }
        let step = match instruction(function, stripped(function, *value))? {
            (_, Op::Offset { base, offset, index, .. }) if index.is_empty() => {
                (stripped(function, *base) == Operand::Instruction(number)).then_some(*offset)?
            }
            (_, Op::Arithmetic { what: Arithmetic::Add, left, right: Operand::Int(step) }) => {
                (stripped(function, *left) == Operand::Instruction(number)).then_some(*step)?
            }
            _ => return None,
        };
        if step < 1 || step * unit > LINE {
            return None;
        }
    }
    start
}

/// How many levels of wrappers around a flush are looked through.
const WRAPPED: u32 = 3;

/// The parameter whose line a function flushes, if that is all it does: a wrapper around the instruction, or around a
/// choice of them.
fn flushed(program: &Program, id: FunctionId, depth: u32) -> Option<(u32, Class)> {
    let function = program.function(id);
    let mut found: Option<(u32, Class)> = None;
    for instruction in &function.instructions {
        let (address, class) = match &instruction.op {
            Op::Flush { address, class } => (*address, *class),
            Op::Call { callee: Callee::Direct(inner), arguments } => {
                let (parameter, class) = flushed(program, *inner, depth.checked_sub(1)?)?;
                (*arguments.get(parameter as usize)?, class)
            }
            Op::Store { .. } | Op::Bulk { .. } | Op::Call { .. } | Op::Locked { .. } | Op::Fence { .. } => {
                return None;
            }
            _ => continue,
        };
        let Operand::Parameter(parameter) = stripped(function, address) else { return None };
        // Of several choices, only what holds for the weakest is known.
        found = match found {
            None => Some((parameter, class)),
            Some((same, before)) if same == parameter => {
                Some((same, if keeps_order(before) { class } else { before }))
            }
            Some(_) => return None,
        };
    }
    found
}

/// What is multiplied by the size of a line.
fn multiple_of_line(function: &Function, operand: Operand) -> Option<Operand> {
    match instruction(function, operand)? {
        (_, Op::Arithmetic { what: Arithmetic::Mul, left, right: Operand::Int(LINE) })
        | (_, Op::Arithmetic { what: Arithmetic::Shl, left, right: Operand::Int(6) }) => Some(*left),
        _ => None,
    }
}

/// How many operations are searched for the rounding of an end.
const ROUNDED: u32 = 4;

/// What is added to a number before it is rounded down to a multiple of a line or page, if the result is rounded up:
/// `(end + 63) & ~63`, `(length + 63) / 64`.
fn slack(function: &Function, operand: Operand, depth: u32) -> i64 {
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    let added = |operand: Operand, unit: i64| {
        let is_unit = unit >= 2 && unit & (unit - 1) == 0;
        if is_unit && adds(function, operand, unit - 1, depth) { unit - 1 } else { 0 }
    };
    match instruction(function, operand) {
        Some((_, Op::Copy { value })) => slack(function, *value, depth),
        Some((_, Op::Arithmetic { what, left, right })) => match (what, right) {
            (Arithmetic::And, Operand::Int(mask)) if *mask < 0 => added(*left, mask.wrapping_neg()),
            (Arithmetic::Div, Operand::Int(unit)) if *unit == LINE => added(*left, *unit),
            (Arithmetic::Shr, Operand::Int(6)) => added(*left, LINE),
            (Arithmetic::Mul | Arithmetic::Shl, Operand::Int(_)) => slack(function, *left, depth),
            (Arithmetic::Add, _) => match slack(function, *left, depth) {
                0 => slack(function, *right, depth),
                found => found,
            },
            _ => 0,
        },
        Some((_, Op::Offset { base, index, .. })) => match index.as_slice() {
            [] => slack(function, *base, depth),
            [(index, _)] => slack(function, *index, depth),
            _ => 0,
        },
        _ => 0,
    }
}

/// Whether a constant is among a number's summands.
fn adds(function: &Function, operand: Operand, constant: i64, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match instruction(function, operand) {
        Some((_, Op::Copy { value })) => adds(function, *value, constant, depth),
        Some((_, Op::Arithmetic { what: Arithmetic::Add, left, right })) => {
            *left == Operand::Int(constant)
                || *right == Operand::Int(constant)
                || adds(function, *left, constant, depth)
                || adds(function, *right, constant, depth)
        }
        Some((_, Op::Offset { base, offset, .. })) => {
            *offset == constant || adds(function, *base, constant, depth)
        }
        _ => false,
    }
}

/// Whether a loop with this continuation condition includes the limit.
fn is_inclusive_while(what: Compare) -> bool {
    matches!(what, Compare::Le | Compare::Ge | Compare::BelowOrEqual | Compare::AboveOrEqual)
}

fn flush_loop(program: &Program, function: &Function, header: u32, a_loop: &Loop) -> Option<FlushLoop> {
    let mut flush = None;
    let (mut limit, mut is_inclusive) = (None, false);
    for block in &a_loop.blocks {
        for (number, instruction) in function.block(*block) {
            match &instruction.op {
                // Two flushes per iteration are not a simple range.
                Op::Flush { .. } if flush.is_some() => return None,
                Op::Flush { address, class } => flush = Some((number, *address, *class)),
                Op::Call { callee: Callee::Direct(id), arguments } => {
                    let (parameter, class) = flushed(program, *id, WRAPPED)?;
                    let address = *arguments.get(parameter as usize)?;
                    if flush.replace((number, address, class)).is_some() {
                        return None;
                    }
                }
                Op::Store { .. } | Op::Bulk { .. } | Op::Call { .. } | Op::Locked { .. } => return None,
                Op::Branch { condition, yes, no } => {
                    let leaves = !a_loop.blocks.contains(yes) || !a_loop.blocks.contains(no);
                    if let Some((_, Op::Compare { what, left, right })) =
                        self::instruction(function, *condition).filter(|_| leaves)
                    {
                        let stays = a_loop.blocks.contains(yes);
                        is_inclusive =
                            is_inclusive_while(*what) == stays && !matches!(what, Compare::Eq | Compare::Ne);
                        limit = Some((*left, *right));
                    }
                }
                _ => {}
            }
        }
    }
    let (number, address, class) = flush?;
    let other_side = |value: Operand| {
        limit.and_then(|(left, right)| {
            let counts = |operand: Operand| {
                let operand = stripped(function, operand);
                operand == value
                    || matches!(self::instruction(function, operand),
                        Some((_, Op::Offset { base, .. })) if stripped(function, *base) == value)
                    || matches!(self::instruction(function, operand),
                        Some((_, Op::Arithmetic { left, .. })) if stripped(function, *left) == value)
            };
            if counts(left) {
                Some(right)
            } else if counts(right) {
                Some(left)
            } else {
                None
            }
        })
    };
    // The last line, rounded down, is not an end that was rounded up.
    let rounding =
        |end: Option<Operand>| end.filter(|_| !is_inclusive).map_or(0, |end| slack(function, end, ROUNDED));
    let address = stripped(function, address);
    if let Some(start) = counter(function, header, a_loop, address, 1) {
        let end = other_side(address);
        let (first, counts_bytes, unit) = (Operand::Int(0), false, 1);
        let (counts_lines, slack, flush) = (None, rounding(end), number);
        return Some(FlushLoop { start, first, end, counts_bytes, counts_lines, unit, slack, class, flush });
    }
    if let Some(line) = multiple_of_line(function, address)
        && let Some(start) = counter(function, header, a_loop, line, LINE)
    {
        let end = other_side(stripped(function, line));
        let (first, counts_bytes, unit) = (Operand::Int(0), false, LINE);
        // For lines, the first excluded one already accounts for that.
        let (counts_lines, slack, flush) = (Some(is_inclusive), 0, number);
        return Some(FlushLoop { start, first, end, counts_bytes, counts_lines, unit, slack, class, flush });
    }
    // A pointer and a counter beside it.
    let (base, index) = match self::instruction(function, address)? {
        (_, Op::Offset { base, offset: 0, index, .. })
            if index.len() == 1 && [1, LINE].contains(&index[0].1) =>
        {
            (*base, index[0])
        }
        (_, Op::Arithmetic { what: Arithmetic::Add, left, right }) => (*left, (*right, 1)),
        _ => return None,
    };
    let (index, unit) = match multiple_of_line(function, stripped(function, index.0)) {
        // Consecutive lines.
        Some(line) if index.1 == 1 => (line, LINE),
        _ => index,
    };
    let first = counter(function, header, a_loop, index, unit)?;
    let end = other_side(stripped(function, index));
    let (start, counts_bytes, counts_lines) = (base, true, None);
    let (slack, flush) = (rounding(end), number);
    Some(FlushLoop { start, first, end, counts_bytes, counts_lines, unit, slack, class, flush })
}
