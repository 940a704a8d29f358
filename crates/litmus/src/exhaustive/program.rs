//! Static analysis of a program: for every instruction, what may still be read, flushed and used after it. The machine
//! drops from its states everything that is no longer visible.

use crate::{Code, LocId, Op, Test};
use px86::{Class, Line};

/// Code to explore: the threads of a test, or its recovery as a program of one thread.
pub(crate) struct Program<'a> {
    pub(crate) threads: Vec<ThreadCode<'a>>,
    /// The line of each location.
    pub(crate) line_of: Vec<usize>,
    pub(crate) lines: usize,
    /// The locations of each line.
    pub(crate) on_line: Vec<Vec<usize>>,
    /// Lines that some instruction stores to.
    pub(crate) stored_lines: Vec<bool>,
    /// How many instructions all threads have together; each has a number below this.
    pub(crate) instructions: u32,
}

pub(crate) struct ThreadCode<'a> {
    pub(crate) code: &'a Code,
    /// Number of the thread's first instruction among all instructions.
    pub(crate) first: u32,
    /// For each program counter, the end included: what may still happen from there on.
    pub(crate) ahead: Vec<Ahead>,
    /// For each instruction, a load or not: may another thread store to its location?
    pub(crate) contended: Vec<bool>,
    /// For each instruction, its key for the ordering table; `None` if it does not access memory.
    order_keys: Vec<Option<(Class, Option<Line>)>>,
}

/// What a thread may still do.
#[derive(Clone)]
pub(crate) struct Ahead {
    /// Locations it may still load.
    pub(crate) loads: Vec<bool>,
    /// Registers whose present value it may still use.
    pub(crate) live: Vec<bool>,
}

impl<'a> Program<'a> {
    pub(crate) fn new(test: &Test, codes: Vec<&'a Code>) -> Program<'a> {
        let line_of: Vec<usize> = test.locations.iter().map(|location| location.line).collect();
        let mut on_line = vec![Vec::new(); test.lines];
        for (location, &line) in line_of.iter().enumerate() {
            on_line[line].push(location);
        }
        let stores = |code: &Code, at: LocId| {
            code.instructions.iter().any(|i| i.op.may_store() && i.op.location() == Some(at))
        };
        let mut stored_lines = vec![false; test.lines];
        let mut first = 0;
        let threads = codes
            .iter()
            .enumerate()
            .map(|(index, &code)| {
                let contended = code
                    .instructions
                    .iter()
                    .map(|instruction| {
                        let others = codes.iter().enumerate().filter(|(other, _)| *other != index);
                        instruction
                            .op
                            .location()
                            .is_some_and(|at| others.into_iter().any(|(_, c)| stores(c, at)))
                    })
                    .collect();
                for instruction in code.instructions.iter().filter(|i| i.op.may_store()) {
                    let at = instruction.op.location().expect("a store names its location");
                    stored_lines[line_of[usize::from(at.0)]] = true;
                }
                let order_key = |op: &Op| {
                    let line = op.location().map(|at| Line(line_of[usize::from(at.0)] as u64));
                    op.class().map(|class| (class, line))
                };
                let order_keys = code.instructions.iter().map(|i| order_key(&i.op)).collect();
                let thread =
                    ThreadCode { code, first, ahead: ahead(code, line_of.len()), contended, order_keys };
                first += code.instructions.len() as u32;
                thread
            })
            .collect();
        Program { threads, line_of, lines: test.lines, on_line, stored_lines, instructions: first }
    }

    pub(crate) fn op(&self, thread: usize, index: usize) -> &Op {
        &self.threads[thread].code.instructions[index].op
    }

    /// What the ordering table needs to know of an instruction that is buffered.
    pub(crate) fn order_key(&self, thread: usize, index: usize) -> (Class, Option<Line>) {
        self.threads[thread].order_keys[index].expect("only memory operations are buffered")
    }
}

/// Computed backwards; jumps go forward, so one pass is enough.
fn ahead(code: &Code, locations: usize) -> Vec<Ahead> {
    let nothing = Ahead { loads: vec![false; locations], live: vec![false; code.registers.len()] };
    let mut result = vec![nothing; code.instructions.len() + 1];
    for (index, instruction) in code.instructions.iter().enumerate().rev() {
        let op = &instruction.op;
        let mut here = match op {
            Op::Jump(target) => result[*target].clone(),
            Op::JumpIfZero(_, target) => {
                let mut merged = result[index + 1].clone();
                merge(&mut merged.loads, &result[*target].loads);
                merge(&mut merged.live, &result[*target].live);
                merged
            }
            _ => result[index + 1].clone(),
        };
        if let Op::Load(register, _) | Op::Assign(register, _) | Op::Rmw(Some(register), _, _) = op {
            here.live[usize::from(register.0)] = false;
        }
        if op.loads() {
            here.loads[usize::from(op.location().expect("a load names its location").0)] = true;
        }
        for expression in op.expressions() {
            expression.variables(&mut |register| here.live[usize::from(register)] = true);
        }
        result[index] = here;
    }
    result
}

fn merge(into: &mut [bool], from: &[bool]) {
    into.iter_mut().zip(from).for_each(|(a, b)| *a |= b);
}
