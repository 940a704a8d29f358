//! Limits of time and memory that hold whatever a command is doing: unrolling, solving, compiling, reading bitcode, telling a
//! counterexample.
//!
//! Engines look at their limits themselves and stop in good order. Where they do not in time, because what they do cannot be
//! interrupted, this says so for them and ends the process.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crashproof_ordersat::Limits;
use crashproof_ordersat::solver::Stop;

use crate::exit::Exit;
use crate::signals;

/// Between looks at the limits.
const TICK: Duration = Duration::from_millis(10);
/// Paths are followed by recursion; what is not used costs nothing.
pub(crate) const STACK: usize = 1 << 30;

/// Does some work within limits. If it does not end in time, `last_word` is said and the process ends.
pub(crate) fn within<T: Send>(
    limits: &Limits,
    last_word: impl FnOnce(Stop) -> std::io::Result<Exit>,
    work: impl FnOnce() -> T + Send,
) -> std::io::Result<T> {
    let start = Instant::now();
    // An engine that stops by itself may take a moment.
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
            // Nobody waits any more only if the process is about to end.
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
