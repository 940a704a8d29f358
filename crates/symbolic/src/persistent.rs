//! Persistent memory provided by `crashproof.h` and mapped files.

use crashproof_prove::term::{Binary, Term};

use crate::frame::At;
use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::{Object, ObjectId, Origin};
use crate::options::Pool;
use crate::state::State;

pub(crate) const HANDLERS: &[Handler] = &[
    (&["crashproof_crashes"], 0, crashes),
    (&["__crashproof_caches_survive"], 0, caches_survive),
    (&["crashproof_flush"], 2, flush),
    (&["crashproof_root"], 0, root),
    (&["crashproof_alloc"], 0, allocate),
    (&["__crashproof_file"], 0, file),
    (&["__crashproof_about"], 0, about),
    (&["__crashproof_readable"], 2, readable),
];

/// The length of a file that exists before the program starts: that of the smallest libpmemobj pool.
const EXISTING_FILE: u64 = 8 << 20;

/// Larger files are not supported.
const LARGEST_FILE: u64 = 1 << 40;

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
    if !machine.is_length_known(call.state, length) {
        // Every line from that of the first byte on, as long as it begins before the end.
        let within = machine.terms.number(px86::LINE_BYTES - 1, 64);
        let lead = machine.terms.and(start, within);
        let bytes = machine.terms.binary(Binary::Add, length, lead);
        let goes_on = |machine: &mut Machine<'_>, index: u64| {
            let before = machine.terms.number(index * px86::LINE_BYTES, 64);
            machine.terms.binary(Binary::LessUnsigned, before, bytes)
        };
        machine.one_by_one(call.state, "a flush", at, goes_on, |machine, state, index| {
            let line = machine.offset(start, index * px86::LINE_BYTES);
            machine.flush(state, line, true, at)
        })?;
        return Ok(Reply::NONE);
    }
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
    let path = call.scalar(0).and_then(|path| machine.text_at(call.state, path));
    let (Some(path), Some(bytes)) = (path, call.scalar(1)) else {
        return Err(machine.refuse(call.state, "a file whose name is not known", call.at));
    };
    let origin = Origin::File(path.clone());
    let Some(object) = machine.objects.find(&origin) else {
        // The first mapping of a file determines its length.
        let largest =
            machine.cases(call.state, bytes).and_then(|cases| cases.iter().map(|case| case.1).max());
        let Some(bytes) = largest.filter(|bytes| (1..=LARGEST_FILE).contains(bytes)) else {
            return Err(machine.refuse(call.state, "a file whose size is not known", call.at));
        };
        let object = machine.objects.place(origin, 4096, false, || Object::persistent(path, bytes));
        return machine.map_object(call.state, object, bytes, "", call.at);
    };
    let known = machine.objects.get(object).size;
    let known = machine.terms.number(known, 64);
    let longer = machine.terms.binary(Binary::LessUnsigned, known, bytes);
    if machine.terms.constant(longer) != Some(0) {
        let mut there = State { path: call.state.path.clone(), ..State::default() };
        if there.assume(&mut machine.terms, longer) {
            machine.unknown(
                &mut there,
                "a file that is mapped with another size",
                call.at.place,
                call.at.function,
            );
        }
        let fits = machine.terms.not(longer);
        if !call.state.assume(&mut machine.terms, fits) {
            return Err(Stop::Dead);
        }
    }
    machine.map_object(call.state, object, 0, "", call.at)
}

/// Is a whole range inside objects, wherever it begins? False if unknown.
fn readable(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let (starts, length) = (machine.cases(call.state, call.word(0)), machine.cases(call.state, call.word(1)));
    let inside = match (starts, length.as_deref()) {
        (Some(starts), Some([(_, bytes)])) => starts.iter().all(|&(_, start)| {
            machine.objects.at(start).is_some_and(|object| {
                let object = machine.objects.get(object);
                start.checked_add(*bytes).is_some_and(|end| end <= object.address + object.size)
            })
        }),
        // Words about which little is known except their length.
        (None, Some([(_, 0..=64)])) => true,
        _ => false,
    };
    Ok(Reply::scalar(machine.terms.number(inside.into(), 32)))
}

/// Two words that survive: whether a file exists, and its length. The models define their layout.
fn about(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let Some(path) = call.scalar(0).and_then(|path| machine.text_at(call.state, path)) else {
        return Err(machine.refuse(call.state, "a file whose name is not known", call.at));
    };
    let name = format!("existence of {path}");
    let exists = machine.options.pool != Pool::New;
    let initial = if exists { [1, EXISTING_FILE].map(u64::to_le_bytes).concat() } else { Vec::new() };
    let object = machine.objects.place(Origin::About(path), px86::LINE_BYTES, false, || Object {
        internal: true,
        initial,
        ..Object::persistent(name, px86::LINE_BYTES)
    });
    machine.map_object(call.state, object, 0, "", call.at)
}

fn allocate(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let Some(bytes) = call.known(&machine.terms, 0) else {
        return Err(machine.refuse(call.state, "an allocation of a size that is not known", call.at));
    };
    machine.must_not_crash(call.state, "allocates persistent memory", call.at)?;
    let name = format!("object of {}:{}", call.at.place.file, call.at.place.line);
    let object = Object::persistent(name, bytes.max(1).next_multiple_of(px86::LINE_BYTES));
    let address = machine.make_object(call.state, call.frame.point, px86::LINE_BYTES, object);
    Ok(Reply::scalar(machine.terms.number(address, 64)))
}

impl Machine<'_> {
    /// The address of a persistent object that is the same in every run, unless it was created too small.
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

    /// Recovery's operations on the pool itself are not followed through a crash of recovery.
    pub(crate) fn must_not_crash(&mut self, state: &mut State, does: &str, at: At<'_>) -> Flow<()> {
        if self.who != Who::Recovery || self.options.crashes < 2 {
            return Ok(());
        }
        let reason = format!("a recovery that {does}, and may crash (--crashes), is not modeled");
        Err(self.refuse(state, &reason, at))
    }

    /// A string whose bytes are known at this point.
    pub(crate) fn text_at(&mut self, state: &State, address: Term) -> Option<String> {
        let cases = self.cases(state, address)?;
        let &[(_, address)] = cases.as_slice() else { return None };
        let id = self.objects.at(address)?;
        let (start, size) = (address - self.objects.get(id).address, self.objects.get(id).size);
        let mut text = Vec::new();
        for offset in start..size {
            let byte = match state.memory.byte(&mut self.terms, id, offset) {
                Some(known) => self.terms.constant(known)? as u8,
                None if state.memory.has(id) => return None,
                None => self.objects.get(id).initial.get(offset as usize).copied().unwrap_or(0),
            };
            if byte == 0 {
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            text.push(byte);
        }
        None
    }
}
