//! Claims and assumptions: assertions, and functions whose call is a failed claim.

use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Stop};

pub(crate) const HANDLERS: &[Handler] = &[
    (&["__crashproof_assume", "__VERIFIER_assume", "__CPROVER_assume"], 1, assume),
    (&["__VERIFIER_assert"], 1, assert),
    (&["__assert_fail", "__crashproof_assert_failed"], 0, assertion_failed),
    (&["abort", "reach_error", "__VERIFIER_error"], 0, not_to_be_called),
    (&["__crashproof_not_modeled"], 0, not_modeled),
];

fn assume(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let condition = machine.terms.nonzero(call.word(0));
    if let Some(why) = machine.why_imprecise(condition) {
        return Err(machine.refuse(call.state, &why, call.at));
    }
    if call.state.assume(&mut machine.terms, condition) { Ok(Reply::NONE) } else { Err(Stop::Dead) }
}

fn assert(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let condition = machine.terms.nonzero(call.word(0));
    machine.note_claim(call.state);
    machine.assert(call.state, condition, "the assertion holds".into(), call.at)?;
    Ok(Reply::NONE)
}

fn assertion_failed(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let claim = call
        .scalar(0)
        .and_then(|text| machine.text_at(call.state, text))
        .unwrap_or_else(|| "assertion".into());
    Err(machine.fails(call.state, &claim, call.at))
}

fn not_to_be_called(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    Err(machine.fails(call.state, &format!("{} is not called", call.name), call.at))
}

fn not_modeled(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let what = call.scalar(0).and_then(|text| machine.text_at(call.state, text)).unwrap_or_default();
    Err(machine.refuse(call.state, &format!("{what} is not modeled"), call.at))
}
