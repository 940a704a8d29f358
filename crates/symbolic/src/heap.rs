//! The heap.

use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine};
use crate::state::State;

pub(crate) const HANDLERS: &[Handler] = &[
    (&["malloc", "valloc"], 0, |m, call| allocate(m, call, 0, None)),
    (&["calloc"], 0, calloc),
    (&["aligned_alloc", "memalign"], 0, |m, call| allocate(m, call, 1, Some(0))),
    (&["realloc"], 0, reallocate),
];

const UNKNOWN_SIZE: &str = "an allocation of a size that is not known";

/// Larger allocations fail; programs do not intend them.
const HUGE: u64 = 1 << 32;

/// The largest possible size of an argument, if there are few: allocating too much is harmless. If it is huge, the
/// program is not followed.
fn largest(machine: &mut Machine<'_>, call: &mut Invocation<'_>, index: usize) -> Option<u64> {
    let size = call.scalar(index)?;
    let cases = machine.cases(call.state, size)?;
    let (huge, usual): (Vec<_>, Vec<_>) = cases.into_iter().partition(|&(_, bytes)| bytes > HUGE);
    let largest = usual.iter().map(|&(_, bytes)| bytes).max()?;
    for (condition, bytes) in huge {
        let mut there = State { path: call.state.path.clone(), ..State::default() };
        if there.assume(&mut machine.terms, condition) {
            let reason = format!("{bytes} bytes of memory in one piece");
            machine.unknown(&mut there, &reason, call.at.place, call.at.function);
        }
        let not = machine.terms.not(condition);
        call.state.assume(&mut machine.terms, not);
    }
    Some(largest)
}

/// Allocates; `index` selects the arguments for size and alignment.
fn allocate(
    machine: &mut Machine<'_>,
    call: &mut Invocation<'_>,
    size: usize,
    align: Option<usize>,
) -> Flow<Reply> {
    let align = match align {
        Some(index) => call.known(&machine.terms, index),
        None => Some(16),
    };
    let (Some(size), Some(align)) = (largest(machine, call, size), align) else {
        return Err(machine.refuse(call.state, UNKNOWN_SIZE, call.at));
    };
    let address = machine.allocate(call.state, call.frame.point, size.max(1), align, "memory", call.at)?;
    Ok(Reply::scalar(machine.terms.number(address, 64)))
}

fn calloc(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let sizes = [0, 1].map(|index| largest(machine, call, index));
    let [Some(count), Some(size)] = sizes else {
        return Err(machine.refuse(call.state, UNKNOWN_SIZE, call.at));
    };
    let bytes = count.saturating_mul(size).max(1);
    let address = machine.allocate_zeroed(call.state, call.frame.point, bytes, 16, "memory", call.at)?;
    Ok(Reply::scalar(machine.terms.number(address, 64)))
}

fn reallocate(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let (Some(old), Some(bytes)) = (call.scalar(0), largest(machine, call, 1)) else {
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
