//! `setjmp` and `longjmp`.
//!
//! A call of `setjmp` records its position and state: a landing. `longjmp` ends its path, and leaves its state at the
//! landing named by the buffer. Once the function that called `setjmp` has been executed on all its other paths, it
//! continues from the landing with the states that arrived, as often as any do. Local variables held as values rather
//! than in memory then have their values from the `setjmp` call; C guarantees no more.

use crate::frame::Landing;
use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Stop};
use crate::value::Value;

pub(crate) const HANDLERS: &[Handler] = &[
    (&["_setjmp", "setjmp", "__sigsetjmp", "sigsetjmp"], 1, set_jump),
    (&["longjmp", "_longjmp", "siglongjmp"], 2, long_jump),
];

/// A call of `setjmp`, returning for the first time.
fn set_jump(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.jumps += 1;
    let number = machine.jumps;
    let word = machine.terms.number(number, 64);
    machine.store_scalar(call.state, call.word(0), word, false, call.at)?;
    machine.landed.insert(number, Vec::new());
    let frame = &mut *call.frame;
    frame.landings.push(Landing {
        number,
        here: frame.here.clone(),
        values: frame.values.clone(),
        rounds: frame.rounds.clone(),
        context: frame.context,
        times: 0,
    });
    Ok(Reply::scalar(machine.terms.number(0, 32)))
}

/// Returns to where a buffer was set. Ends the path.
fn long_jump(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let value = call.word(1);
    let number = machine.load_scalar(call.state, call.word(0), 64, call.at)?;
    let Some(cases) = machine.cases(call.state, number) else {
        return Err(machine.refuse(call.state, "jumps to a place that is not known", call.at));
    };
    let zero = machine.terms.number(0, machine.terms.width(value));
    let one = machine.terms.number(1, machine.terms.width(value));
    let is_zero = machine.terms.equal(value, zero);
    let value = machine.terms.choose(is_zero, one, value);
    for (condition, number) in cases {
        let mut here = call.state.clone();
        if !here.assume(&mut machine.terms, condition) {
            continue;
        }
        match machine.landed.get_mut(&number) {
            Some(landed) => landed.push((here, vec![Value::Scalar(value)])),
            None => {
                machine.refuse(&mut here, "jumps into a function that has returned", call.at);
            }
        }
    }
    Err(Stop::Dead)
}
