//! Replays a counterexample through px86 before it is reported, to check the formula independently.
//!
//! px86 executes the instructions in the order in which they take effect in the story ([`px86::replay`]). A
//! disagreement is a bug in the encoding, the solver or px86.
//!
//! What the values mean to the program (guards, assertions, recovery) is not replayed here: the front end is
//! responsible for that.

use std::fmt;

use px86::replay::{Claimed, Impossible, replay};
use px86::{Event, Platform};

use crate::program::Program;
use crate::story::{Counterexample, Issued, Remains};
use crate::values::initial_byte;

/// A story told by the prover that px86 does not allow.
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
    platform: &Platform,
    counterexample: &Counterexample,
) -> Result<(), Box<Disagreement>> {
    let mut threads: Vec<Vec<Claimed>> = vec![Vec::new(); program.threads.len()];
    for issued in &counterexample.issued {
        threads[issued.thread].extend(pieces(issued));
    }
    // A claim of a thread fails before any crash, so there is no crash state.
    let memory = if counterexample.thread.is_some() { &[][..] } else { &counterexample.memory };
    let left: Vec<(u64, u8, u64)> =
        memory.iter().map(|left| (left.address, left.bytes, left.value)).collect();
    replay(platform, &threads, |at| initial_byte(program, at), &left).map_err(|wrong| {
        let objection = match wrong {
            Impossible::TooEarly(event) => {
                format!("{} takes effect before what it cannot overtake", name(&event))
            }
            Impossible::Reads(event) if event.kind == px86::Kind::Load => {
                format!("{} cannot read {:#x}", name(&event), event.value)
            }
            Impossible::Reads(event) => format!("{} cannot read what it is said to read", name(&event)),
            Impossible::Leaves(address) => {
                let line = px86::Line::containing(address);
                let on_line = memory.iter().filter(|left| px86::Line::containing(left.address) == line);
                let pieces: Vec<String> =
                    on_line.map(|left| format!("{} = {}", left.place, left.shown)).collect();
                format!("a crash cannot leave {}", pieces.join(" with "))
            }
        };
        let step = |step: &crate::story::Step| format!("{}: {}", step.thread_name, step.what());
        let left = |left: &Remains| format!("after the crash: {} = {}", left.place, left.shown);
        let steps = counterexample.steps.iter().map(step);
        let story = steps.chain(counterexample.memory.iter().map(left)).collect();
        Box::new(Disagreement { objection, story })
    })
}

/// The pieces of an access that the machine performs separately: split at line boundaries.
fn pieces(issued: &Issued) -> impl Iterator<Item = Claimed> {
    let Issued { event, read, effect, .. } = *issued;
    let claim = move |event: Event, offset: u64| {
        let part = |value: u64| value >> (8 * offset);
        let value =
            part(if event.kind == px86::Kind::Load { read.unwrap_or(event.value) } else { event.value });
        Claimed { event: Event { value, ..event }, exchanged: read.map(part), effect }
    };
    let whole = (event.width == 0).then(|| claim(event, 0));
    let parts = px86::line::pieces(event.address, u64::from(event.width)).map(move |piece| {
        let part = Event { address: event.address + piece.offset, width: piece.width, ..event };
        claim(part, piece.offset)
    });
    whole.into_iter().chain(parts.filter(|piece| piece.event.width > 0))
}

/// An instruction for messages.
fn name(event: &Event) -> String {
    format!("{:?} of thread {} at {:#x}", event.kind, event.thread.0, event.address)
}
