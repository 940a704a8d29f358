//! What the library models (`models/`) need and C cannot express: objects of a pool, transactions, standard input.

use crashproof_prove::term::{Term, Terms};

use crate::frame::At;
use crate::invocation::{Handler, Invocation, Reply};
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::{Object, ObjectId, Origin, TWIN_DISTANCE};
use crate::options::Pool;
use crate::records::{Allocated, NewRange};
use crate::state::State;

/// The offset of libpmemobj's objects from the start of a cache line: the length of their headers. The sizes of its
/// allocation classes are multiples of a line, so no two objects share one.
const HEADER: u64 = 16;

/// The assumption made when objects are allocated this way.
pub(crate) const PLACEMENT: &str = "that objects of the pool begin 16 bytes behind the beginning of a cache line, as \
                                    libpmemobj's default allocation classes place them";
const CLASSES: &str = "that objects of allocation classes without headers begin a cache line each";

/// The reason if the transaction is unknown.
const TRANSACTION: &str = "a transaction that is not known";

pub(crate) const HANDLERS: &[Handler] = &[
    (&["__crashproof_pool_root"], 1, |m, call| {
        m.pool_root(call.state, call.word(0), call.at).map(Reply::scalar)
    }),
    (&["__crashproof_pool_alloc"], 4, pool_alloc),
    (&["__crashproof_pool_type"], 1, |m, call| Ok(Reply::scalar(m.pool_type(call.state, call.word(0))))),
    (&["__crashproof_pool_size"], 1, |m, call| Ok(Reply::scalar(m.pool_size(call.state, call.word(0))))),
    (&["__crashproof_shadow"], 1, |m, call| m.shadow(call.state, call.word(0)).map(Reply::scalar)),
    (&["__crashproof_lane"], 1, lane),
    (&["__crashproof_tx_number"], 0, |m, _| Ok(Reply::scalar(m.transaction_number()))),
    (&["__crashproof_tx_add"], 5, tx_add),
    (&["__crashproof_tx_flush"], 1, tx_flush),
    (&["__crashproof_tx_undo"], 1, tx_undo),
    (&["__crashproof_tx_recover"], 0, tx_recover),
    (&["__crashproof_stdin"], 1, |m, call| {
        m.standard_input(call.state, call.word(0), call.at).map(Reply::scalar)
    }),
];

fn pool_alloc(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.must_not_crash(call.state, "allocates persistent memory", call.at)?;
    let flags = [call.word(2), call.word(3)];
    let (point, bytes, kind) = (call.frame.point, call.word(0), call.word(1));
    machine.pool_alloc(point, call.state, bytes, kind, flags, call.at).map(Reply::scalar)
}

fn lane(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let Some(kind) = call.known(&machine.terms, 0) else { return Ok(Reply::Unknown) };
    Ok(Reply::scalar(machine.lane(call.state, kind)))
}

fn tx_add(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.must_not_crash(call.state, "changes its pool in transactions", call.at)?;
    let (number, start, at) = (call.word(0), call.word(2), call.at);
    let bytes = machine.length(call.state, call.word(3), "a range", at)?;
    let (Some(committed), Some(flags)) = (call.known(&machine.terms, 1), call.known(&machine.terms, 4))
    else {
        return Err(machine.refuse(call.state, "a transaction with flags that are not known", at));
    };
    let point = call.frame.point;
    machine.for_each(call.state, number, TRANSACTION, at, |machine, state, number| {
        let range = NewRange { point, number, committed, start, bytes, flags };
        machine.transaction_add(state, &range, at)
    })?;
    Ok(Reply::NONE)
}

fn tx_flush(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let at = call.at;
    machine.for_each(call.state, call.word(0), TRANSACTION, at, |machine, state, number| {
        machine.transaction_flush(state, number, at)
    })?;
    Ok(Reply::NONE)
}

fn tx_undo(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    let at = call.at;
    machine.for_each(call.state, call.word(0), TRANSACTION, at, |machine, state, number| {
        machine.transaction_undo(state, number, at)
    })?;
    Ok(Reply::NONE)
}

fn tx_recover(machine: &mut Machine<'_>, call: &mut Invocation<'_>) -> Flow<Reply> {
    machine.transactions_recover(call.state, call.at)?;
    Ok(Reply::NONE)
}

impl Machine<'_> {
    fn pool_root(&mut self, state: &mut State, bytes: Term, at: At<'_>) -> Flow<Term> {
        let Some(bytes) = self.terms.constant(bytes) else {
            return Err(self.refuse(state, "the size of the root object is not known", at));
        };
        self.assumed.insert(PLACEMENT);
        let defined = self.options.pool != Pool::Any;
        let object = self.objects.place_behind(Origin::PoolRoot, px86::LINE_BYTES, HEADER, || {
            pool_object("root".into(), bytes, defined)
        });
        if self.objects.get(object).size < bytes {
            return Err(self.refuse(state, "the root object is asked for with another size", at));
        }
        self.find_persistent(state, object);
        let address = self.objects.get(object).address;
        if !self.allocated.iter().any(|object| object.address == address) {
            let kind = self.terms.number(0, 64);
            self.allocated.push(Allocated { address, bytes, kind });
        }
        Ok(self.terms.number(address, 64))
    }

    fn pool_alloc(
        &mut self,
        point: u64,
        state: &mut State,
        bytes: Term,
        kind: Term,
        [zeroed, plain]: [Term; 2],
        at: At<'_>,
    ) -> Flow<Term> {
        let known = [bytes, zeroed, plain].map(|term| self.terms.constant(term));
        let [Some(bytes), Some(zeroed), Some(plain)] = known else {
            return Err(self.refuse(state, "an allocation of a size that is not known", at));
        };
        const LARGEST: u64 = 1 << 20;
        if bytes > LARGEST {
            return Err(self.refuse(state, &format!("an object of {bytes} bytes"), at));
        }
        self.assumed.insert(if plain == 0 { PLACEMENT } else { CLASSES });
        let (place, _) = self.reported(at.place, at.function);
        let name = format!("object of {}:{}", place.file, place.line);
        let lead = if plain == 0 { HEADER } else { 0 };
        let object = pool_object(name, bytes.max(1), zeroed != 0);
        let address = self.make_object_behind(state, point, px86::LINE_BYTES, lead, object);
        if self.objects.twins
            && let Some(object) = self.objects.at(address)
        {
            self.objects.twin(object);
        }
        self.allocated.push(Allocated { address, bytes, kind });
        Ok(self.terms.number(address, 64))
    }

    /// The type number an object was allocated with.
    fn pool_type(&mut self, state: &State, pointer: Term) -> Term {
        self.about_object(state, pointer, |_, object| object.kind)
    }

    /// The requested size of an object.
    fn pool_size(&mut self, state: &State, pointer: Term) -> Term {
        self.about_object(state, pointer, |terms, object| terms.number(object.bytes, 64))
    }

    /// A property of the object that a pointer points to; arbitrary if it points to none.
    fn about_object(
        &mut self,
        state: &State,
        pointer: Term,
        tell: impl Fn(&mut Terms, &Allocated) -> Term,
    ) -> Term {
        let cases = self.cases(state, pointer);
        let possible =
            |address: u64| cases.as_ref().is_none_or(|cases| cases.iter().any(|(_, at)| *at == address));
        let mut answer: Option<Term> = None;
        let all = std::mem::take(&mut self.allocated);
        for object in all.iter().filter(|object| possible(object.address)) {
            let answered = tell(&mut self.terms, object);
            let address = self.terms.number(object.address, 64);
            let here = self.terms.equal(pointer, address);
            let others = match answer {
                // A pointer with a single possible target needs no other answer.
                None if cases.as_ref().is_some_and(|cases| cases.len() == 1) => answered,
                None => self.terms.symbol("input", 64),
                Some(others) => others,
            };
            answer = Some(self.terms.choose(here, answered, others));
        }
        self.allocated = all;
        answer.unwrap_or_else(|| self.terms.symbol("input", 64))
    }

    /// A persistent word of the current thread.
    fn lane(&mut self, state: &mut State, kind: u64) -> Term {
        let thread = match self.who {
            Who::Thread(thread) => Some(thread),
            Who::Recovery => None,
        };
        let object = self.objects.place(Origin::Lane(kind, thread), px86::LINE_BYTES, false, || Object {
            internal: true,
            ..pool_object("number committed last".into(), 8, true)
        });
        self.find_persistent(state, object);
        let address = self.objects.get(object).address;
        self.terms.number(address, 64)
    }

    /// Volatile memory that belongs to a persistent object for as long as the process runs: its lock.
    ///
    /// If it is unknown which object that is, every object of the pool gets a twin at the same distance, so that the
    /// address determines the twin nonetheless.
    fn shadow(&mut self, state: &mut State, pointer: Term) -> Flow<Term> {
        if self.objects.twins {
            let ours: Vec<ObjectId> = self.objects.ids().filter(|id| self.objects.is_of_pool(*id)).collect();
            for object in ours {
                self.objects.twin(object);
            }
            return Ok(self.offset(pointer, TWIN_DISTANCE));
        }
        let cases = self.cases(state, pointer);
        let Some([(_, address)]) = cases.as_deref() else {
            self.objects.twins = true;
            return Err(Stop::Restart);
        };
        let origin = Origin::Shadow(*address, self.who == Who::Recovery);
        let object = self.objects.place(origin, 64, false, || Object {
            persistent: false,
            ..pool_object("lock".into(), px86::LINE_BYTES, true)
        });
        if !state.memory.has(object) {
            let mut memory = std::mem::take(&mut state.memory);
            self.add_object(&mut memory, object);
            state.memory = memory;
        }
        let address = self.objects.get(object).address;
        Ok(self.terms.number(address, 64))
    }

    /// A byte of the program's standard input; -1 at the end.
    fn standard_input(&mut self, state: &mut State, position: Term, at: At<'_>) -> Flow<Term> {
        let Some(text) = &self.options.stdin else {
            let reason = "reads standard input, which was not given (--stdin)";
            return Err(self.refuse(state, reason, at));
        };
        let cases = self.cases(state, position);
        let Some([(_, position)]) = cases.as_deref() else {
            return Err(self.refuse(state, "reads standard input from where is not known", at));
        };
        let byte = text.get(*position as usize).map_or(u64::MAX, |byte| u64::from(*byte));
        Ok(self.terms.number(byte, 32))
    }
}

fn pool_object(name: String, size: u64, defined: bool) -> Object {
    Object { defined, ..Object::persistent(name, size) }
}
