//! Limits of time and memory that apply to everything a command does: unrolling, solving, compiling, reading bitcode,
//! narrating a counterexample.
//!
//! Engines check their limits themselves and stop in an orderly way. If they do not in time, because their work cannot
//! be interrupted, this module reports that and ends the process.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crashproof_ordersat::Limits;
use crashproof_ordersat::solver::Stop;

use crate::exit::Exit;
use crate::signals;

/// The interval between checks of the limits.
const TICK: Duration = Duration::from_millis(10);
/// Paths are followed recursively; unused stack costs nothing.
pub(crate) const STACK: usize = 1 << 30;

/// Performs work within limits. If it does not end in time, calls `last_word` and ends the process.
pub(crate) fn within<T: Send>(
    limits: &Limits,
    last_word: impl FnOnce(Stop) -> std::io::Result<Exit>,
    work: impl FnOnce() -> T + Send,
) -> std::io::Result<T> {
    let start = Instant::now();
    // An engine needs a moment to stop by itself.
    let grace = limits.deadline.map_or(Duration::ZERO, |deadline| deadline.duration_since(start) / 25);
    let last = Limits {
        deadline: limits.deadline.and_then(|deadline| deadline.checked_add(grace)),
        memory: limits.memory.map(|bytes| bytes + bytes / 25),
        ..*limits
    };
    std::thread::scope(|scope| {
        let (done, ended) = channel();
        let worker = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
            let result = work();
            // The receiver is gone only if the process is about to end.
            let _ = done.send(result);
        })?;
        loop {
            match ended.recv_timeout(TICK) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => resume_unwind(panic),
                    Ok(()) => unreachable!("a result is sent before the end"),
                },
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(stop) = last.hit_by_all() {
                let exit = last_word(stop)?;
                signals::end(i32::from(exit.code()));
            }
        }
    })
}
