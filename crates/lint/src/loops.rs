//! The shape of a function: the order of its blocks, its loops, and loops that flush a range line by line.

use px86::order::Class;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::keeps_order;
use crashproof_frontend::program::ir::{Callee, Function, FunctionId, Op, Operand, Program};

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
    /// Added to `start` at the beginning, if the loop counts beside the pointer.
    pub(crate) first: Operand,
    /// Where it stops: an address if the loop counts with the pointer, else a number of bytes.
    pub(crate) end: Option<Operand>,
    pub(crate) counts_bytes: bool,
    pub(crate) class: Class,
    /// The instruction, or the call of a function that is a name for it.
    pub(crate) flush: u32,
}

/// What is known of a function before any path is walked.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The place of each block in reverse postorder; none if it cannot be reached.
    pub(crate) rank: Vec<Option<u32>>,
    pub(crate) loops: FxHashMap<u32, Loop>,
    pub(crate) flush_loops: FxHashMap<u32, FlushLoop>,
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
        let mut shape = Shape { rank, loops, flush_loops: FxHashMap::default() };
        shape.flush_loops = shape
            .loops
            .iter()
            .filter_map(|(header, a_loop)| Some((*header, flush_loop(program, function, *header, a_loop)?)))
            .collect();
        shape
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
            Some((
                _,
                Op::Arithmetic {
                    what: crashproof_frontend::program::ir::Arithmetic::And,
                    left,
                    right: Operand::Int(mask),
                },
            )) if *mask < 0 => *left,
            _ => return operand,
        };
    }
}

/// A phi of the header with its value on entry, if it grows by at most a line each time.
fn counter(function: &Function, header: u32, a_loop: &Loop, operand: Operand) -> Option<Operand> {
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
            (_, Op::Offset { base, offset, index }) if index.is_empty() => {
                (stripped(function, *base) == Operand::Instruction(number)).then_some(*offset)?
            }
            (
                _,
                Op::Arithmetic {
                    what: crashproof_frontend::program::ir::Arithmetic::Add,
                    left,
                    right: Operand::Int(step),
                },
            ) => (stripped(function, *left) == Operand::Instruction(number)).then_some(*step)?,
            _ => return None,
        };
        if !(1..=px86::LINE_BYTES as i64).contains(&step) {
            return None;
        }
    }
    start
}

/// How many wrappers around a flush are looked through.
const WRAPPED: u32 = 3;

/// The parameter whose line a function flushes, if that is all it does: a name for the instruction, or a choice of one.
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
        // Of several choices, only what holds of the weakest is known.
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

fn flush_loop(program: &Program, function: &Function, header: u32, a_loop: &Loop) -> Option<FlushLoop> {
    let mut flush = None;
    let mut limit = None;
    for block in &a_loop.blocks {
        for (number, instruction) in function.block(*block) {
            match &instruction.op {
                // Two flushes per round are no simple range.
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
                    if let Some((_, Op::Compare { left, right, .. })) =
                        self::instruction(function, *condition).filter(|_| leaves)
                    {
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
    let address = stripped(function, address);
    if let Some(start) = counter(function, header, a_loop, address) {
        let end = other_side(address);
        let counts_bytes = false;
        return Some(FlushLoop { start, first: Operand::Int(0), end, counts_bytes, class, flush: number });
    }
    // A pointer and a counter beside it.
    let (base, index) = match self::instruction(function, address)? {
        (_, Op::Offset { base, offset: 0, index }) if index.len() == 1 && index[0].1 == 1 => {
            (*base, index[0].0)
        }
        (_, Op::Arithmetic { what: crashproof_frontend::program::ir::Arithmetic::Add, left, right }) => {
            (*left, *right)
        }
        _ => return None,
    };
    let first = counter(function, header, a_loop, index)?;
    let end = other_side(stripped(function, index));
    Some(FlushLoop { start: base, first, end, counts_bytes: true, class, flush: number })
}
