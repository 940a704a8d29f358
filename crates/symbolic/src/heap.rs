//! The heap.

use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine};

pub(crate) const HANDLERS: &[Handler] = &[
    (&["malloc", "valloc"], 0, |m, call| allocate(m, call, None, 0, None)),
    (&["calloc"], 0, calloc),
    (&["aligned_alloc", "memalign"], 0, |m, call| allocate(m, call, None, 1, Some(0))),
    (&["realloc"], 0, reallocate),
];

const UNKNOWN_SIZE: &str = "an allocation of a size that is not known";

/// Allocates; the arguments that hold a count, the size and an alignment are these.
fn allocate(
    machine: &mut Machine<'_>,
    call: &mut Invocation<'_>,
    count: Option<usize>,
    size: usize,
    align: Option<usize>,
) -> Flow<Reply> {
    let known = |index: Option<usize>, otherwise: u64| match index {
        Some(index) => call.known(&machine.terms, index),
        None => Some(otherwise),
    };
    let (Some(count), Some(size), Some(align)) = (known(count, 1), known(Some(size), 0), known(align, 16))
    else {
        return Err(machine.refuse(call.state, UNKNOWN_SIZE, call.at));
    };
    let bytes = count.saturating_mul(size).max(1);
    let address = machine.allocate(call.state, call.frame.point, bytes, align, "memory", call.at)?;
    Ok(Reply::scalar(machine.terms.number(address, 64)))
}

fn calloc(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let reply = allocate(machine, call, Some(0), 1, None)?;
    if let Reply::Returns(Some(crate::value::Value::Scalar(address))) = &reply {
        let sizes = [0, 1].map(|index| call.known(&machine.terms, index).unwrap_or(0));
        let bytes = sizes[0].saturating_mul(sizes[1]).max(1);
        let zero = machine.terms.number(0, 8);
        machine.fill_bytes(call.state, *address, zero, bytes, call.at)?;
    }
    Ok(reply)
}

fn reallocate(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let (Some(old), Some(bytes)) = (call.scalar(0), call.known(&machine.terms, 1)) else {
        return Err(machine.refuse(call.state, UNKNOWN_SIZE, call.at));
    };
    let before = match machine.cases(call.state, old).as_deref() {
        Some([(_, 0)]) => 0,
        Some([(_, address)]) if let Some(object) = machine.objects.at(*address) => {
            machine.objects.get(object).size
        }
        _ => return Err(machine.refuse(call.state, "memory that is not known is allocated again", call.at)),
    };
    let address = machine.allocate(call.state, call.frame.point, bytes.max(1), 16, "memory", call.at)?;
    let new = machine.terms.number(address, 64);
    machine.copy_bytes(call.state, new, old, before.min(bytes), call.at)?;
    Ok(Reply::scalar(new))
}
