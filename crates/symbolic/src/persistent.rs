//! Persistent memory as `crashproof.h` and mapped files give it.

use crashproof_prove::term::Term;

use crate::frame::At;
use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Who};
use crate::objects::{Object, ObjectId, Origin};
use crate::state::State;

pub(crate) const HANDLERS: &[Handler] = &[
    (&["crashproof_crashes"], 0, crashes),
    (&["__crashproof_caches_survive"], 0, caches_survive),
    (&["crashproof_flush"], 2, flush),
    (&["crashproof_root"], 0, root),
    (&["crashproof_alloc"], 0, allocate),
    (&["__crashproof_file"], 0, file),
];

/// Larger files than this are refused.
const LARGEST_FILE: u64 = 1 << 20;

fn crashes(machine: &mut Machine<'_>, _: &mut Invocation<'_>) -> Flow<Reply> {
    let crashes = u64::from(machine.who == Who::Recovery);
    Ok(Reply::scalar(machine.terms.number(crashes, 32)))
}

fn caches_survive(machine: &mut Machine<'_>, _: &mut Invocation<'_>) -> Flow<Reply> {
    let survive = machine.options.domain.cache_survives();
    Ok(Reply::scalar(machine.terms.number(survive.into(), 32)))
}

fn flush(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let (start, length, at) = (call.word(0), call.word(1), call.at);
    machine.for_lengths(call.state, length, "a flush", at, |machine, state, bytes| {
        machine.flush_range(state, start, bytes, at)
    })?;
    Ok(Reply::NONE)
}

fn root(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let Some(bytes) = call.known(&machine.terms, 0) else {
        return Err(machine.refuse(call.state, "the size of the root object is not known", call.at));
    };
    let object =
        machine.objects.place(Origin::Root, px86::LINE_BYTES, false, || Object::persistent("root", bytes));
    machine.map_object(call.state, object, bytes, "the root object is asked for with another size", call.at)
}

fn file(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let path = call.scalar(0).and_then(|path| machine.text_at(path));
    let (Some(path), Some(bytes)) = (path, call.known(&machine.terms, 1)) else {
        return Err(machine.refuse(call.state, "a file whose name or size is not known", call.at));
    };
    if bytes == 0 || bytes > LARGEST_FILE {
        return Err(machine.refuse(call.state, &format!("a file of {bytes} bytes"), call.at));
    }
    let object =
        machine.objects.place(Origin::File(path.clone()), 4096, false, || Object::persistent(path, bytes));
    machine.map_object(call.state, object, bytes, "a file that is mapped with another size", call.at)
}

fn allocate(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let Some(bytes) = call.known(&machine.terms, 0) else {
        return Err(machine.refuse(call.state, "an allocation of a size that is not known", call.at));
    };
    let name = format!("object of {}:{}", call.at.place.file, call.at.place.line);
    let object = Object::persistent(name, bytes.max(1).next_multiple_of(px86::LINE_BYTES));
    let address = machine.make_object(call.state, call.frame.point, px86::LINE_BYTES, object);
    Ok(Reply::scalar(machine.terms.number(address, 64)))
}

impl Machine<'_> {
    /// The address of a persistent object that is the same in every run, unless it was made too small.
    fn map_object(
        &mut self,
        state: &mut State,
        object: ObjectId,
        bytes: u64,
        too_small: &str,
        at: At<'_>,
    ) -> Flow<Reply> {
        if self.objects.get(object).size < bytes {
            return Err(self.refuse(state, too_small, at));
        }
        self.find_persistent(state, object);
        let address = self.objects.get(object).address;
        Ok(Reply::scalar(self.terms.number(address, 64)))
    }

    /// A string that never changes.
    pub(crate) fn text_at(&self, address: Term) -> Option<String> {
        let address = self.terms.constant(address)?;
        let object = self.objects.get(self.objects.at(address)?);
        let start = (address - object.address) as usize;
        let bytes = object.initial.get(start..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}
