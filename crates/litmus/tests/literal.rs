//! Compares the machine with a literal one: the model's sentences as steps, without shortcuts.
//!
//! Here every issue is a step, every write-back of a line is a step, and persistent memory is part of the
//! state. It is slow and small enough to be believed. The ordering table is shared: it is data, and checked
//! against the papers where it stands.

use std::collections::{BTreeSet, HashSet};

use crashproof_litmus::answer::Options;
use crashproof_litmus::arbitrary::{Program, Size, program, program_with_domains};
use crashproof_litmus::{Code, Op, Test};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use px86::order::preserved;
use px86::{Class, Domain, Line, Platform};

#[derive(Clone, PartialEq, Eq, Hash)]
struct Thread {
    pc: usize,
    registers: Vec<i64>,
    /// Instruction and, for stores, value.
    buffer: Vec<(usize, i64)>,
    /// Lines that must be written back before the next fence completes (non-temporal stores).
    owed: BTreeSet<usize>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Machine {
    threads: Vec<Thread>,
    cache: Vec<i64>,
    memory: Vec<i64>,
}

struct Literal<'a> {
    test: &'a Test,
    platform: Platform,
}

impl Literal<'_> {
    fn line(&self, op: &Op) -> Option<usize> {
        op.location().map(|at| self.test.location(at).line)
    }

    fn key(&self, op: &Op) -> (Class, Option<Line>) {
        (op.class().unwrap(), self.line(op).map(|line| Line(line as u64)))
    }

    fn write_back(&self, machine: &mut Machine, line: usize) {
        for (index, location) in self.test.locations.iter().enumerate() {
            if location.line == line {
                machine.memory[index] = machine.cache[index];
            }
        }
        machine.threads.iter_mut().for_each(|thread| {
            thread.owed.remove(&line);
        });
    }

    fn store(&self, machine: &mut Machine, thread: usize, op: &Op, value: i64) {
        machine.cache[usize::from(op.location().unwrap().0)] = value;
        if matches!(op, Op::NonTemporal(..)) {
            machine.threads[thread].owed.insert(self.line(op).unwrap());
        }
        let line = self.line(op).unwrap();
        if self.platform.cache_survives(Line(line as u64)) {
            self.write_back(machine, line);
        }
    }

    fn successors(&self, machine: &Machine) -> Vec<Machine> {
        let mut next = Vec::new();
        for line in 0..self.test.lines {
            let mut after = machine.clone();
            self.write_back(&mut after, line);
            next.push(after);
        }
        for index in 0..machine.threads.len() {
            let code = &self.test.threads[index];
            next.extend(self.run(machine, index, code));
            let thread = &machine.threads[index];
            for entry in 0..thread.buffer.len() {
                let op = &code.instructions[thread.buffer[entry].0].op;
                let blocked = thread.buffer[..entry]
                    .iter()
                    .any(|(earlier, _)| preserved(self.key(&code.instructions[*earlier].op), self.key(op)));
                if blocked || matches!(op, Op::StoreFence) && !thread.owed.is_empty() {
                    continue;
                }
                let mut after = machine.clone();
                let (_, value) = after.threads[index].buffer.remove(entry);
                match op {
                    Op::Flush(_) | Op::FlushOpt(_) => self.write_back(&mut after, self.line(op).unwrap()),
                    Op::StoreFence => {}
                    _ => self.store(&mut after, index, op, value),
                }
                next.push(after);
            }
        }
        next
    }

    /// The thread's next instruction, if it can run.
    fn run(&self, machine: &Machine, index: usize, code: &Code) -> Option<Machine> {
        let mut after = machine.clone();
        let thread = &mut after.threads[index];
        let instruction = code.instructions.get(thread.pc)?;
        let pc = thread.pc;
        thread.pc += 1;
        match &instruction.op {
            Op::Assign(register, value) => {
                thread.registers[usize::from(register.0)] = value.eval(&thread.registers);
            }
            Op::Jump(target) => thread.pc = *target,
            Op::JumpIfZero(condition, target) => {
                if condition.eval(&thread.registers) == 0 {
                    thread.pc = *target;
                }
            }
            Op::Load(register, at) => {
                let here = |op: &Op| op.may_store() && op.location() == Some(*at);
                let own = thread.buffer.iter().rev().find(|(i, _)| here(&code.instructions[*i].op));
                let value = own.map_or(after.cache[usize::from(at.0)], |(_, value)| *value);
                thread.registers[usize::from(register.0)] = value;
            }
            Op::Store(_, value) | Op::NonTemporal(_, value) => {
                let value = value.eval(&thread.registers);
                thread.buffer.push((pc, value));
            }
            Op::Flush(_) | Op::FlushOpt(_) | Op::StoreFence => thread.buffer.push((pc, 0)),
            Op::Fence | Op::Rmw(..) if !thread.buffer.is_empty() || !thread.owed.is_empty() => return None,
            Op::Fence => {}
            op @ Op::Rmw(register, at, rmw) => {
                let old = after.cache[usize::from(at.0)];
                let new = rmw.store(old, &thread.registers);
                if let Some(register) = register {
                    thread.registers[usize::from(register.0)] = old;
                }
                if let Some(new) = new {
                    self.store(&mut after, index, op, new);
                }
            }
            Op::Assert(_) => unreachable!("assertions are for recovery"),
        }
        Some(after)
    }

    /// Every possible content of persistent memory at every step; `None` if there are too many states.
    fn outcomes(&self) -> Option<BTreeSet<Vec<i64>>> {
        let memory: Vec<i64> = self.test.locations.iter().map(|location| location.init).collect();
        let threads = self
            .test
            .threads
            .iter()
            .map(|code| Thread {
                pc: 0,
                registers: vec![0; code.registers.len()],
                buffer: Vec::new(),
                owed: BTreeSet::new(),
            })
            .collect();
        let first = Machine { threads, cache: memory.clone(), memory };
        let mut seen = HashSet::from([first.clone()]);
        let mut work = vec![first];
        let mut outcomes = BTreeSet::new();
        while let Some(machine) = work.pop() {
            outcomes.insert(machine.memory.clone());
            for next in self.successors(&machine) {
                if seen.insert(next.clone()) {
                    work.push(next);
                }
            }
            if seen.len() > 60_000 {
                return None;
            }
        }
        Some(outcomes)
    }
}

fn compare(programs: impl Strategy<Value = Program>, domain: Domain, default_cases: u32) {
    let cases =
        std::env::var("CRASHPROOF_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default_cases);
    let config =
        Config { cases, failure_persistence: None, max_global_rejects: 1 << 20, ..Config::default() };
    let result = TestRunner::new(config).run(&programs, |program| {
        let source = program.source();
        let test = crashproof_litmus::parse(&source).unwrap();
        let literal = Literal { test: &test, platform: test.platform(domain, Line(0)) }.outcomes();
        prop_assume!(literal.is_some());
        let answer = crashproof_litmus::exhaustive::run(&test, &Options { domain, ..Options::default() });
        let answered: BTreeSet<Vec<i64>> = answer.states.into_iter().collect();
        prop_assert_eq!(literal.unwrap(), answered, "\n{}", source);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    println!(
        "tried | {} | {cases} | the exhaustive and the literal machine agree |",
        std::thread::current().name().unwrap_or("?")
    );
}

const SMALL: Size = Size { threads: 3, statements: 3 };

#[test]
fn outcomes_are_those_of_the_literal_machine() {
    compare(program(SMALL), Domain::Adr, 200);
}

#[test]
fn outcomes_are_those_of_the_literal_machine_with_persistent_caches() {
    compare(program(SMALL), Domain::Eadr, 50);
}

#[test]
fn outcomes_are_those_of_the_literal_machine_with_both_kinds_of_lines() {
    compare(program_with_domains(SMALL), Domain::Adr, 100);
}
