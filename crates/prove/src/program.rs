//! A bounded concurrent program: the common output of all front ends, and the prover's input.
//!
//! A program is loop-free and in static single assignment form. Each thread is a list of events in program order; an
//! event happens if the thread reaches it, as determined by its *guard*, a truth term over inputs and values read by
//! earlier events of the same thread. Each load reads a fresh symbol.
//!
//! # What a front end must ensure
//!
//! - Guards and operands of an event use only symbols that earlier events of the same thread read, inputs
//!   (symbols that no event reads), and for the new value of a [`Action::Rmw`] its own old value.
//! - An assumption (`assume(c)`, a mutex that must be free) is not an event: it becomes part of the guards of
//!   everything after it in the thread. A thread that cannot continue waits for the crash.
//! - A loop or recursion cut off at its bound, or anything not modeled, is an [`Action::Unknown`] where execution would
//!   have continued. If that is reachable, the verdict is UNKNOWN.
//! - Accesses are of 1, 2, 4 or 8 bytes, given by the width of the value. Wider accesses are several events, as divided
//!   by [`px86::line::pieces`].
//! - Objects do not overlap, and none contains address 0, the null pointer.
//!
//! Addresses are 64-bit terms. The prover itself determines which objects an address may point to, by tracking the flow
//! of values; a front end needs no alias analysis. An access outside every object is a finding (unless the front end
//! rules it out by a guard).

use px86::{Domain, Line, Platform};

use crate::term::{Term, Terms};

/// A place in the source, by its index in [`Program::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site {
    /// As given to the compiler; empty if unknown.
    pub file: String,
    /// The function, if there is one.
    pub function: String,
    /// From 1; 0 if unknown.
    pub line: u32,
    /// From 1; 0 if unknown.
    pub column: u32,
    /// The statement as written, or a description of the action.
    pub text: String,
}

/// A thread, by its index in [`Program::threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub usize);

/// A piece of memory.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its name, for messages.
    pub name: String,
    /// Address of its first byte. Cache lines are px86's: 64 bytes, by address.
    pub address: u64,
    /// Its initial content, which also determines its size.
    pub initial: FirstContent,
    /// Does its content survive a crash? Recovery finds other objects in their initial state.
    pub persistent: bool,
    /// Is it internal to a library, such as a transaction log? Its robustness is not checked.
    pub internal: bool,
    /// Names of parts, by offset and size, for messages: `next` at 8. May be empty.
    pub fields: Vec<Field>,
}

/// The initial content of an object. Large objects are mostly uniform, so only their first bytes are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstContent {
    size: u64,
    /// The first bytes; `None` for an unknown value.
    bytes: Vec<Option<u8>>,
    /// The value of all other bytes.
    rest: Option<u8>,
}

impl FirstContent {
    /// Creates content of this size with these first bytes.
    pub fn new(size: u64, mut bytes: Vec<Option<u8>>, rest: Option<u8>) -> FirstContent {
        bytes.truncate(size as usize);
        FirstContent { size, bytes, rest }
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// A byte, whose value may be unknown; the outer `None` if out of bounds.
    pub fn get(&self, offset: u64) -> Option<Option<u8>> {
        let listed = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at).copied());
        (offset < self.size).then(|| listed.unwrap_or(self.rest))
    }
}

impl From<Vec<Option<u8>>> for FirstContent {
    fn from(bytes: Vec<Option<u8>>) -> FirstContent {
        FirstContent::new(bytes.len() as u64, bytes, None)
    }
}

/// A named part of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
    /// Its name, such as `.next` or `[3].value`, as a suffix of the object's name.
    pub name: String,
}

/// What an event does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads memory into `result`, a fresh symbol; its width is that of the access.
    Load {
        /// Where.
        address: Term,
        /// What is read: a symbol of 8, 16, 32 or 64 bits.
        result: Term,
    },
    /// Writes memory.
    Store {
        /// Where.
        address: Term,
        /// What: 8, 16, 32 or 64 bits.
        value: Term,
        /// `movnt*`.
        non_temporal: bool,
    },
    /// A locked read-modify-write: reads `old`, and writes `new` if `stores`. It fences either way.
    Rmw {
        /// Where.
        address: Term,
        /// What is read: a fresh symbol.
        old: Term,
        /// What is written; may use `old`.
        new: Term,
        /// Whether it writes; may use `old`. For a compare-and-swap: is `old` what was expected?
        stores: Term,
    },
    /// `clflush` of the line that contains the address.
    Flush {
        /// Any address of the line.
        address: Term,
    },
    /// `clflushopt` or `clwb` of the line that contains the address.
    FlushOpt {
        /// Any address of the line.
        address: Term,
    },
    /// `sfence`.
    StoreFence,
    /// `mfence`.
    Fence,
    /// Starts a thread, none of whose events happens before this. Fences, as the system call does.
    Create(ThreadId),
    /// Joins a thread, all of whose events have taken effect before this. Fences.
    Join(ThreadId),
    /// A claim about values read; it is a finding if it can be false here.
    Assert {
        /// The claim, of width 1.
        condition: Term,
        /// A description of the claim, for messages.
        message: String,
    },
    /// Beyond this point the program is unknown: a loop bound, or something not modeled.
    Unknown {
        /// Why, as a sentence without the place.
        reason: String,
    },
}

/// One step of a thread, or of recovery.
#[derive(Clone, Debug)]
pub struct Event {
    /// Does the thread reach it? Of width 1.
    pub guard: Term,
    /// What it does.
    pub action: Action,
    /// Where it stands.
    pub site: SiteId,
}

/// A thread's code.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// For messages: a function's name, or `thread 1`.
    pub name: String,
    /// In program order.
    pub events: Vec<Event>,
    /// Is it started by a [`Action::Create`] of another thread, rather than at the beginning?
    pub created: bool,
}

/// A bounded program with its recovery.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All terms.
    pub terms: Terms,
    /// Memory.
    pub objects: Vec<Object>,
    /// Lines with their own persistence domain; all others have that of the settings.
    pub domains: Vec<(Line, Domain)>,
    /// The threads before the crash. A `created` thread that is never created never runs.
    pub threads: Vec<Thread>,
    /// What runs after the crash: alone, once, in program order, on what survived. It may load, store, branch and
    /// assert; its flushes and fences have no effect visible to itself.
    pub recovery: Option<Thread>,
    /// Its claims, including those the front end has already proved.
    pub claims: Claims,
    /// The conditions under which recovery reaches its claims; empty if it makes none, or if that is not needed.
    pub recovery_claims: Vec<Term>,
    /// Places.
    pub sites: Vec<Site>,
    /// The bounds of unrolling, for the verdict: `loop at list.c:12`, 3.
    pub bounds: Vec<Bound>,
    /// Whether one of them cut something off.
    pub cut: bool,
    /// Why and where unrolling gave up, if it did: the program is too large.
    pub given_up: Option<(String, SiteId)>,
    /// Assumptions about this program that could be false, each as `that ...`, for the verdict.
    pub assumptions: Vec<String>,
}

/// The claims of a program, whether or not they can be false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claims {
    /// Nothing.
    #[default]
    None,
    /// Some, but no run reaches them.
    NotReached,
    /// Some, and a run reaches one.
    Reached,
}

/// A bound within which a verdict holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What it bounds.
    pub what: String,
    /// Its value.
    pub value: u64,
}

impl Program {
    /// The number of events, including recovery's.
    pub fn events(&self) -> u64 {
        self.threads.iter().chain(&self.recovery).map(|thread| thread.events.len() as u64).sum()
    }

    /// The domain of every line; `default` applies to lines without their own.
    pub fn platform(&self, default: Domain) -> Platform {
        self.domains.iter().fold(Platform::all(default), |platform, &(line, domain)| {
            platform.with(line..Line(line.0 + 1), domain)
        })
    }

    /// The same program with persistent caches throughout.
    pub fn with_surviving_caches(&self) -> Program {
        Program { domains: Vec::new(), ..self.clone() }
    }

    /// Does any memory of the program's own survive a crash?
    pub fn is_persistent(&self) -> bool {
        self.objects.iter().any(|object| object.persistent && !object.internal)
    }

    /// Adds a place.
    pub fn site(&mut self, site: Site) -> SiteId {
        self.sites.push(site);
        SiteId(self.sites.len() as u32 - 1)
    }

    /// A value for messages: addresses by name, small numbers in decimal.
    pub fn show(&self, value: u64) -> String {
        let inside = |object: &Object| {
            value.checked_sub(object.address).is_some_and(|offset| offset < object.initial.len())
        };
        match value as i64 {
            small @ -4096..4096 => small.to_string(),
            _ if self.objects.iter().any(inside) => format!("&{}", self.name_of(value)),
            _ => format!("{value:#x}"),
        }
    }

    /// The name of an address: `node1.next`, `buffer+24`, or the number if it is in no object.
    pub fn name_of(&self, address: u64) -> String {
        let inside = |object: &&Object| {
            address.checked_sub(object.address).is_some_and(|offset| offset < object.initial.len())
        };
        let Some(object) = self.objects.iter().find(inside) else { return format!("{address:#x}") };
        let offset = address - object.address;
        // The smallest part that starts here is the best name.
        let field = object
            .fields
            .iter()
            .filter(|field| field.offset <= offset && offset < field.offset + field.size)
            .min_by_key(|field| field.size);
        match field {
            Some(field) if field.offset == offset => format!("{}{}", object.name, field.name),
            Some(field) => format!("{}{}+{}", object.name, field.name, offset - field.offset),
            None if offset == 0 => object.name.clone(),
            None => format!("{}+{offset}", object.name),
        }
    }
}
