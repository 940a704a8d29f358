//! Checks a claimed execution against the model, step by step.
//!
//! Executions found by other means than running the model, such as a solver, are checked here before they are reported.
//! The claim lists each thread's instructions in program order, each with its place among the effects, and what the
//! crash left. For a wrong claim the result is the first thing that the model does not permit.

use std::collections::BTreeMap;

use crate::buffer::{Entry, StoreBuffer};
use crate::order::blocked;
use crate::storage::Execution;
use crate::survive::CrashStack;
use crate::{Event, Kind, Line, Platform};

/// An instruction, and what is claimed of it.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    /// The instruction. Of a load, `value` is what it is claimed to read.
    pub event: Event,
    /// What a locked instruction is claimed to read, if anything is.
    pub exchanged: Option<u64>,
    /// Its place among all effects; `None` if it had not taken effect at the crash.
    pub effect: Option<usize>,
}

/// What the model does not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// This instruction takes effect before one that it cannot overtake.
    TooEarly(Event),
    /// This instruction reads something else.
    Reads(Event),
    /// The crash cannot leave these bytes at this address together with what it leaves on the line otherwise.
    Leaves(u64),
}

/// Takes an execution through the model. `threads` are in program order; `initial` says what a byte held at first, if
/// that is known; `survivors` are address, width and value of what the crash is claimed to leave.
pub fn replay(
    platform: &Platform,
    threads: &[Vec<Claimed>],
    initial: impl Fn(u64) -> Option<u8>,
    survivors: &[(u64, u8, u64)],
) -> Result<(), Impossible> {
    let mut execution = Execution::new(platform.clone());
    let mut effects: Vec<(usize, usize, usize)> = Vec::new();
    for (thread, claims) in threads.iter().enumerate() {
        effects.extend(claims.iter().enumerate().filter_map(|(at, claim)| Some((claim.effect?, thread, at))));
    }
    effects.sort_unstable();
    for (tag, (effect, thread, at)) in effects.into_iter().enumerate() {
        let claim = &threads[thread][at];
        let waiting =
            || threads[thread][..at].iter().filter(|earlier| earlier.effect.is_none_or(|it| it > effect));
        if blocked(waiting().map(|earlier| earlier.event.order_key()), claim.event.order_key()) {
            return Err(Impossible::TooEarly(claim.event));
        }
        let mut buffer = StoreBuffer::default();
        waiting().for_each(|earlier| buffer.push(Entry { event: earlier.event, issued: 0, tag: 0 }));
        let read = if claim.event.kind == Kind::Load { Some(claim.event.value) } else { claim.exchanged };
        let sees = |read| may_read(&execution, &buffer, &initial, &claim.event, read);
        if !read.is_none_or(sees) {
            return Err(Impossible::Reads(claim.event));
        }
        execution.commit(&Entry { event: claim.event, issued: execution.now(), tag: tag as u32 });
    }
    let mut stack = CrashStack::default();
    stack.crash(execution);
    let mut lines: BTreeMap<Line, Vec<&(u64, u8, u64)>> = BTreeMap::new();
    for left in survivors {
        lines.entry(Line::containing(left.0)).or_default().push(left);
    }
    for (line, left) in lines {
        let states = stack.states(line).to_vec();
        let leaves = |state| {
            left.iter().all(|&&(address, width, value)| {
                (0..u64::from(width)).all(|byte| {
                    let at = address + byte;
                    let held = match stack.source(at, state) {
                        Some(_) => Some(stack.value(at, 1, state) as u8),
                        None => initial(at),
                    };
                    held.is_none_or(|held| held == (value >> (8 * byte)) as u8)
                })
            })
        };
        if !states.iter().any(leaves) {
            return Err(Impossible::Leaves(left[0].0));
        }
    }
    Ok(())
}

fn may_read(
    execution: &Execution,
    buffer: &StoreBuffer,
    initial: &impl Fn(u64) -> Option<u8>,
    event: &Event,
    value: u64,
) -> bool {
    let own = buffer.forward(event.address, event.width);
    let cached = execution.read(event.address, event.width);
    (0..event.width).all(|byte| {
        let at = |word: u64| (word >> (8 * byte)) as u8;
        let held = match () {
            () if at(own.mask) != 0 => Some(at(own.value)),
            () if at(cached.mask) != 0 => Some(at(cached.value)),
            () => initial(event.address + u64::from(byte)),
        };
        held.is_none_or(|held| held == at(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Site, Thread};

    const X: u64 = 0;
    const Y: u64 = 64;

    fn claim(kind: Kind, thread: u16, address: u64, value: u64, effect: Option<usize>) -> Claimed {
        let width = if kind.stores() || kind == Kind::Load { 8 } else { 0 };
        let event = Event { address, value, site: Site(0), thread: Thread(thread), kind, width };
        Claimed { event, exchanged: None, effect }
    }

    fn check(threads: &[Vec<Claimed>], survivors: &[(u64, u8, u64)]) -> Result<(), Impossible> {
        replay(&Platform::ADR, threads, |_| Some(0), survivors)
    }

    /// x = 1; clwb x; sfence; y = 1.
    fn commit(order: [usize; 4]) -> Vec<Claimed> {
        use Kind::{FlushOpt, Store, StoreFence};
        let run = [(Store, X, 1), (FlushOpt, X, 0), (StoreFence, 0, 0), (Store, Y, 1)];
        let claims = run.iter().zip(order);
        claims.map(|(&(kind, at, value), effect)| claim(kind, 0, at, value, Some(effect))).collect()
    }

    #[test]
    fn a_commit_leaves_what_was_fenced() {
        let run = [commit([0, 1, 2, 3])];
        assert_eq!(check(&run, &[(X, 8, 1), (Y, 8, 0)]), Ok(()));
        assert_eq!(check(&run, &[(X, 8, 1), (Y, 8, 1)]), Ok(()));
        assert_eq!(check(&run, &[(X, 8, 0), (Y, 8, 1)]), Err(Impossible::Leaves(X)));
    }

    #[test]
    fn nothing_overtakes_a_fence() {
        let run = [commit([0, 1, 3, 2])];
        assert!(matches!(check(&run, &[]), Err(Impossible::TooEarly(event)) if event.address == Y));
    }

    #[test]
    fn loads_read_the_own_buffer_then_the_cache() {
        let store = claim(Kind::Store, 0, X, 1, Some(1));
        let own = |value| vec![store, claim(Kind::Load, 0, X, value, Some(0))];
        let other = |value| vec![claim(Kind::Load, 1, X, value, Some(0))];
        assert_eq!(check(&[own(1)], &[]), Ok(()));
        assert!(matches!(check(&[own(0)], &[]), Err(Impossible::Reads(_))));
        assert_eq!(check(&[vec![store], other(0)], &[]), Ok(()));
        assert!(matches!(check(&[vec![store], other(1)], &[]), Err(Impossible::Reads(_))));
    }

    #[test]
    fn where_the_cache_survives_nothing_cached_is_lost() {
        let run = [vec![claim(Kind::Store, 0, X, 1, Some(0)), claim(Kind::Store, 0, Y, 1, None)]];
        let leaves = |x, y| replay(&Platform::EADR, &run, |_| Some(0), &[(X, 8, x), (Y, 8, y)]);
        assert_eq!(leaves(1, 0), Ok(()));
        assert_eq!(leaves(0, 0), Err(Impossible::Leaves(X)));
        assert_eq!(leaves(1, 1), Err(Impossible::Leaves(Y)));
    }
}
