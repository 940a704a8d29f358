//! Litmus tests as subjects.

use crate::{Code, LocId, Op, Test};
use px86::line::WORD_BYTES;
use px86::{Event, Kind, Site, Thread};

use crate::lazy::subject::{Next, Program, Subject};

/// A test's threads, and its recovery for after a crash.
pub(crate) struct LitmusProgram<'a> {
    pub(crate) test: &'a Test,
}

impl<'a> Program for LitmusProgram<'a> {
    type Subject = LitmusSubject<'a>;

    fn start(&self, crashes: usize) -> Option<LitmusSubject<'a>> {
        let codes: Vec<&'a Code> = match crashes {
            0 => self.test.threads.iter().collect(),
            _ => vec![self.test.recover.as_ref()?],
        };
        let mut first = 0;
        let threads = codes
            .into_iter()
            .map(|code| {
                let thread =
                    Running { code, first, pc: 0, registers: vec![0; code.registers.len()], failed: false };
                first += code.instructions.len() as u32;
                thread
            })
            .collect();
        let mut subject = LitmusSubject { test: self.test, threads };
        (0..subject.threads.len()).for_each(|thread| subject.compute(thread));
        Some(subject)
    }
}

#[derive(Clone)]
pub(crate) struct LitmusSubject<'a> {
    test: &'a Test,
    threads: Vec<Running<'a>>,
}

#[derive(Clone)]
struct Running<'a> {
    code: &'a Code,
    /// Number of the first instruction among those of all threads.
    first: u32,
    pc: usize,
    registers: Vec<i64>,
    failed: bool,
}

/// The thread and instruction that a site or tag of a litmus program names.
pub(crate) fn instruction(codes: &[Code], number: u32) -> (usize, usize) {
    let mut first = 0;
    for (thread, code) in codes.iter().enumerate() {
        let length = code.instructions.len() as u32;
        if number < first + length {
            return (thread, (number - first) as usize);
        }
        first += length;
    }
    unreachable!("the number of an instruction");
}

impl LitmusSubject<'_> {
    /// Runs over whatever touches no memory, up to the next operation that does.
    fn compute(&mut self, thread: usize) {
        let running = &mut self.threads[thread];
        while let Some(instruction) = running.code.instructions.get(running.pc) {
            match &instruction.op {
                Op::Assign(register, value) => {
                    running.registers[usize::from(register.0)] = value.eval(&running.registers);
                    running.pc += 1;
                }
                Op::Jump(target) => running.pc = *target,
                Op::JumpIfZero(condition, target) => {
                    let zero = condition.eval(&running.registers) == 0;
                    running.pc = if zero { *target } else { running.pc + 1 };
                }
                Op::Assert(condition) if condition.eval(&running.registers) != 0 => running.pc += 1,
                Op::Assert(_) => {
                    running.failed = true;
                    return;
                }
                _ => return,
            }
        }
    }

    fn address(&self, location: LocId) -> u64 {
        self.test.location(location).address
    }
}

impl Subject for LitmusSubject<'_> {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn next(&self, thread: usize) -> Next {
        let running = &self.threads[thread];
        let tag = running.first + running.pc as u32;
        let site = Site(tag);
        if running.failed {
            return Next::Failed(site);
        }
        let Some(instruction) = running.code.instructions.get(running.pc) else { return Next::Done };
        let act = |kind: Kind, location: Option<LocId>, value: i64| {
            let event = Event {
                address: location.map_or(0, |location| self.address(location)),
                value: value as u64,
                site,
                thread: Thread(thread as u16),
                kind,
                width: if kind.stores() { WORD_BYTES } else { 0 },
            };
            Next::Act { event, tag }
        };
        match &instruction.op {
            Op::Load(_, at) => Next::Load { address: self.address(*at), width: WORD_BYTES, site },
            Op::Store(at, value) => act(Kind::Store, Some(*at), value.eval(&running.registers)),
            Op::NonTemporal(at, value) => {
                act(Kind::NonTemporalStore, Some(*at), value.eval(&running.registers))
            }
            Op::Rmw(_, at, _) => Next::Exchange { address: self.address(*at), width: WORD_BYTES, site, tag },
            Op::Flush(at) => act(Kind::Flush, Some(*at), 0),
            Op::FlushOpt(at) => act(Kind::FlushOpt, Some(*at), 0),
            Op::StoreFence => act(Kind::StoreFence, None, 0),
            Op::Fence => act(Kind::Fence, None, 0),
            Op::Assign(..) | Op::Jump(_) | Op::JumpIfZero(..) | Op::Assert(_) => {
                unreachable!("`compute` ran over what touches no memory")
            }
        }
    }

    fn exchange(&self, thread: usize, old: u64) -> Option<u64> {
        let running = &self.threads[thread];
        match &running.code.instructions[running.pc].op {
            Op::Rmw(_, _, rmw) => rmw.store(old as i64, &running.registers).map(|new| new as u64),
            _ => None,
        }
    }

    fn advance(&mut self, thread: usize, loaded: u64) {
        let running = &mut self.threads[thread];
        if let Op::Load(register, _) | Op::Rmw(Some(register), _, _) =
            running.code.instructions[running.pc].op
        {
            running.registers[usize::from(register.0)] = loaded as i64;
        }
        running.pc += 1;
        self.compute(thread);
    }

    fn key(&self, out: &mut Vec<u8>) -> bool {
        for running in &self.threads {
            out.extend((running.pc as u32).to_le_bytes());
            running.registers.iter().for_each(|value| out.extend(value.to_le_bytes()));
        }
        true
    }
}
