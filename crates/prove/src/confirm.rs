//! Replays a counterexample through px86 before it is reported: the formula is not taken at its word.
//!
//! The instructions are issued in program order into px86's store buffers and take effect in the order of the story. Each must
//! be one that may take effect then, every load must find what it read, and px86 must allow a crash state with all the memory
//! that the story says is left. A disagreement is a bug in the encoding, the solver or px86.
//!
//! What the values mean to the program (guards, assertions, recovery) is not replayed here: that is the front end's.

use std::fmt;

use px86::buffer::{Entry, StoreBuffer};
use px86::storage::Execution;
use px86::survive::CrashStack;
use px86::{Class, Event, Kind, Line, Platform};
use rustc_hash::FxHashMap;

use crate::program::Program;
use crate::story::{Counterexample, Issued, Remains};

/// The prover tells a story that px86 does not allow.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// What px86 does not allow.
    pub objection: String,
    /// The story, step by step.
    pub story: Vec<String>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "the prover found a counterexample that px86 does not allow")?;
        writeln!(out, "  px86: {}", self.objection)?;
        writeln!(out, "  prover:")?;
        self.story.iter().try_for_each(|line| writeln!(out, "    {line}"))
    }
}

impl std::error::Error for Disagreement {}

/// Confirms that a counterexample is an execution, and its memory a crash state, that px86 allows.
///
/// # Errors
///
/// What px86 objects to.
pub fn confirm(
    program: &Program,
    platform: Platform,
    counterexample: &Counterexample,
) -> Result<(), Box<Disagreement>> {
    let mut replay = Replay {
        buffers: FxHashMap::default(),
        next: FxHashMap::default(),
        execution: Execution::new(platform),
        initial: initial(program),
        issued: &counterexample.issued,
    };
    replay.run().and_then(|()| replay.crash(counterexample)).map_err(|objection| {
        let step = |step: &crate::story::Step| format!("{}: {}", step.thread_name, step.what());
        let left = |left: &Remains| format!("after the crash: {} = {}", left.place, left.shown);
        let steps = counterexample.steps.iter().map(step);
        let story = steps.chain(counterexample.memory.iter().map(left)).collect();
        Box::new(Disagreement { objection, story })
    })
}

/// What memory holds at the start, byte by byte, where that is known.
fn initial(program: &Program) -> FxHashMap<u64, u8> {
    let bytes = program.objects.iter().flat_map(|object| (object.address..).zip(&object.initial));
    bytes.filter_map(|(address, byte)| byte.map(|byte| (address, byte))).collect()
}

struct Replay<'a> {
    buffers: FxHashMap<usize, StoreBuffer>,
    /// For each thread: how many of its instructions were issued, as an index into `issued`.
    next: FxHashMap<usize, usize>,
    execution: Execution,
    initial: FxHashMap<u64, u8>,
    issued: &'a [Issued],
}

impl Replay<'_> {
    /// Lets everything take effect in the order of the story.
    fn run(&mut self) -> Result<(), String> {
        let mut order: Vec<usize> = (0..self.issued.len()).filter(|&at| self.takes_effect(at)).collect();
        order.sort_by_key(|&at| self.issued[at].effect);
        order.into_iter().try_for_each(|at| {
            self.issue(at)?;
            self.take_effect(at)
        })
    }

    fn takes_effect(&self, at: usize) -> bool {
        self.issued[at].effect.is_some()
    }

    /// Issues the instructions of a thread up to this one. What does not wait in the buffer must have taken effect.
    fn issue(&mut self, last: usize) -> Result<(), String> {
        let thread = self.issued[last].thread;
        let first = self.issued.iter().position(|issued| issued.thread == thread).unwrap_or(last);
        let next = *self.next.get(&thread).unwrap_or(&first);
        for at in next..=last {
            let event = self.issued[at].event;
            if is_buffered(event.kind) {
                let (issued, tag) = (self.execution.now(), at as u32);
                let buffer = self.buffers.entry(thread).or_default();
                pieces(event).for_each(|event| buffer.push(Entry { event, issued, tag }));
            } else if at != last {
                return Err(format!("{} takes effect before {}", self.name(last), self.name(at)));
            }
        }
        self.next.insert(thread, next.max(last + 1));
        Ok(())
    }

    fn take_effect(&mut self, at: usize) -> Result<(), String> {
        let Issued { thread, event, read, .. } = self.issued[at];
        match event.kind {
            Kind::Load => self.must_read(at, event, read.unwrap_or(event.value)),
            Kind::Rmw | Kind::FailedRmw | Kind::Fence => {
                let buffer = self.buffers.entry(thread).or_default();
                if let Some(waiting) = buffer.ready_before_other((Class::Fence, None)) {
                    let tag = buffer.get(waiting).map_or(at, |entry| entry.tag as usize);
                    return Err(format!("{} takes effect before {}", self.name(at), self.name(tag)));
                }
                if let Some(read) = read {
                    self.must_read(at, event, read)?;
                }
                self.execution.fence(event.thread);
                if event.kind == Kind::Rmw {
                    pieces(event).for_each(|event| self.execution.commit_store(&event, at as u32));
                }
                Ok(())
            }
            _ => self.leave_buffer(thread, at),
        }
    }

    /// Lets an instruction leave its thread's store buffer.
    fn leave_buffer(&mut self, thread: usize, at: usize) -> Result<(), String> {
        loop {
            let buffer = self.buffers.entry(thread).or_default();
            let waiting = buffer.entries().position(|entry| entry.tag as usize == at);
            let Some(index) = waiting else { return Ok(()) };
            let first = buffer.ready_before(index);
            let entry = buffer.remove(first);
            if first != index {
                return Err(format!(
                    "{} takes effect before {}",
                    self.name(at),
                    self.name(entry.tag as usize)
                ));
            }
            self.execution.commit(&entry);
        }
    }

    /// A load must find this. Bytes that nobody stored and whose first content is unknown may be anything.
    fn must_read(&self, at: usize, event: Event, value: u64) -> Result<(), String> {
        let buffer = self.buffers.get(&self.issued[at].thread);
        let forwards = event.kind == Kind::Load;
        for byte in 0..u64::from(event.width) {
            let address = event.address + byte;
            let own = buffer.filter(|_| forwards).map(|buffer| buffer.forward(address, 1));
            let seen = own.filter(|own| own.mask != 0).unwrap_or_else(|| self.execution.read(address, 1));
            let found = match seen.mask {
                0 => self.initial.get(&address).copied(),
                _ => Some(seen.value as u8),
            };
            if found.is_some_and(|found| found != (value >> (8 * byte)) as u8) {
                return Err(format!("{} cannot read {value:#x}", self.name(at)));
            }
        }
        Ok(())
    }

    /// The crash must be able to leave all the memory that the story says is left.
    ///
    /// A claim of a thread is false before any crash, so nothing is left then.
    fn crash(&self, counterexample: &Counterexample) -> Result<(), String> {
        if counterexample.thread.is_some() {
            return Ok(());
        }
        let mut stack = CrashStack::default();
        self.initial.iter().for_each(|(&address, &byte)| stack.set_initial(address, &[byte]));
        stack.crash(self.execution.clone());
        let mut lines: Vec<Line> =
            counterexample.memory.iter().map(|left| Line::containing(left.address)).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            let on_line = |left: &&Remains| Line::containing(left.address) == line;
            let left: Vec<&Remains> = counterexample.memory.iter().filter(on_line).collect();
            let states = stack.states(line).to_vec();
            let possible =
                states.iter().any(|state| left.iter().all(|left| self.is_left(&stack, state, left)));
            if !possible {
                let pieces: Vec<String> =
                    left.iter().map(|left| format!("{} = {}", left.place, left.shown)).collect();
                return Err(format!("a crash cannot leave {}", pieces.join(" with ")));
            }
        }
        Ok(())
    }

    fn is_left(&self, stack: &CrashStack, state: &Vec<u32>, left: &Remains) -> bool {
        (0..u64::from(left.bytes)).all(|byte| {
            let address = left.address + byte;
            let unknown = stack.source(address, state).is_none() && !self.initial.contains_key(&address);
            unknown || stack.value(address, 1, state) as u8 == (left.value >> (8 * byte)) as u8
        })
    }

    /// An instruction for people.
    fn name(&self, at: usize) -> String {
        let Issued { thread, event, .. } = self.issued[at];
        format!("{:?} of thread {thread} at {:#x}", event.kind, event.address)
    }
}

fn is_buffered(kind: Kind) -> bool {
    !matches!(kind, Kind::Load | Kind::Rmw | Kind::FailedRmw | Kind::Fence)
}

/// An access as the machine does it: cut at the ends of lines.
fn pieces(event: Event) -> impl Iterator<Item = Event> {
    let whole = (event.width == 0).then_some(event);
    let parts = px86::line::pieces(event.address, u64::from(event.width)).map(move |piece| Event {
        address: event.address + piece.offset,
        width: piece.width,
        value: event.value >> (8 * piece.offset),
        ..event
    });
    whole.into_iter().chain(parts.filter(|piece| piece.width > 0))
}
