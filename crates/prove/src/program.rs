//! A bounded concurrent program as the prover takes it: what every front end makes.
//!
//! A program is loop-free and in static single assignment form. Each thread is a list of events in program
//! order; an event happens if the thread gets there, which its *guard* says, a truth term over what earlier
//! events of the same thread read and over inputs. What a load reads is a fresh symbol.
//!
//! # What a front end must see to
//!
//! - Guards and operands of an event use only symbols that earlier events of the same thread read, inputs
//!   (symbols that no event reads), and for the new value of a [`Action::Rmw`] its own old value.
//! - An assumption (`assume(c)`, a mutex that must be free) is no event: it goes into the guards of
//!   everything after it in the thread. A thread that cannot go on waits for the crash.
//! - A loop or recursion cut off at its bound, or something that is not modeled, is an
//!   [`Action::Unknown`] where it would have gone on. If that can be reached, the verdict is UNKNOWN.
//! - Accesses are of 1, 2, 4 or 8 bytes, given by the width of the value. What is wider is several events, as
//!   [`px86::line::pieces`] cuts it.
//! - Objects do not overlap, and address 0 belongs to none: it is the null pointer.
//!
//! Addresses are terms of 64 bits. The prover finds out itself which objects an address may point to, by
//! following which values can flow where; a front end needs no alias analysis. An access outside of every
//! object is a finding (or, where the front end says so by a guard, cannot happen).

use px86::{Domain, Line, Platform};

use crate::term::{Term, Terms};

/// A place in the source, by its place in [`Program::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site {
    /// As the compiler was given it; empty if unknown.
    pub file: String,
    /// The function, if there is one.
    pub function: String,
    /// From 1; 0 if unknown.
    pub line: u32,
    /// From 1; 0 if unknown.
    pub column: u32,
    /// The statement as written, or what is done in words.
    pub text: String,
}

/// A thread, by its place in [`Program::threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub usize);

/// A piece of memory.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its name, for people.
    pub name: String,
    /// Address of its first byte. Cache lines are px86's: 64 bytes, by address.
    pub address: u64,
    /// What it holds at the start; its length is the size.
    pub initial: FirstContent,
    /// Does it keep its content in a crash? What is not persistent, recovery finds as it was initially.
    pub persistent: bool,
    /// Is it a library's own, such as the log of its transactions? Whether that is robust is not asked.
    pub internal: bool,
    /// Names of parts, by offset and size, for people: `next` at 8. May be empty.
    pub fields: Vec<Field>,
}

/// What an object holds at the start. Large objects are mostly alike, so only their first bytes are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstContent {
    size: u64,
    /// The first bytes; none: something, nobody knows what.
    bytes: Vec<Option<u8>>,
    /// All others.
    rest: Option<u8>,
}

impl FirstContent {
    /// So many bytes, of which the first are these.
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

    /// A byte, which nobody may know; none where there is none.
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
    /// Its name, such as `.next` or `[3].value`, to be put after the object's.
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
    /// A locked read-modify-write: reads `old`, and writes `new` if `stores`. Fences either way.
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
    /// Starts a thread: nothing of it happens before this. Fences, as the system call does.
    Create(ThreadId),
    /// Waits for the end of a thread: everything of it has taken effect before this. Fences.
    Join(ThreadId),
    /// A claim about what was read; it is a finding if it can be false where it stands.
    Assert {
        /// The claim, of width 1.
        condition: Term,
        /// What is claimed, for people.
        message: String,
    },
    /// Beyond this point the program is not known: a loop bound, something not modeled.
    Unknown {
        /// Why, as a sentence without the place.
        reason: String,
    },
}

/// One step of a thread, or of recovery.
#[derive(Clone, Debug)]
pub struct Event {
    /// Does the thread get here? Of width 1.
    pub guard: Term,
    /// What it does.
    pub action: Action,
    /// Where it stands.
    pub site: SiteId,
}

/// A thread's code.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// For people: a function's name, or `thread 1`.
    pub name: String,
    /// In program order.
    pub events: Vec<Event>,
    /// Is it started by a [`Action::Create`] of another thread? If not, it runs from the start.
    pub created: bool,
}

/// A bounded program with its recovery.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Everything computed.
    pub terms: Terms,
    /// Memory.
    pub objects: Vec<Object>,
    /// Lines with a persistence domain of their own; all others are in that of the settings.
    pub domains: Vec<(Line, Domain)>,
    /// What runs before the crash. A `created` thread that nothing creates never runs.
    pub threads: Vec<Thread>,
    /// What runs after the crash: alone, once, in program order, on what survived. It may load, store, branch and
    /// assert; flushes and fences in it do nothing that it could see itself.
    pub recovery: Option<Thread>,
    /// What it claims, also what the front end found to be true already.
    pub claims: Claims,
    /// Under which conditions recovery gets to what it claims; empty if it claims nothing, or nobody asks.
    pub recovery_claims: Vec<Term>,
    /// Places.
    pub sites: Vec<Site>,
    /// The bounds within which the program was unrolled, to be named in the verdict: `loop at list.c:12`, 3.
    pub bounds: Vec<Bound>,
    /// Whether one of them cut something off.
    pub cut: bool,
    /// Why and where unrolling it was given up, if it was: there is too much of it to reason about.
    pub given_up: Option<(String, SiteId)>,
    /// What was taken for granted about this program and could be otherwise, each as `that ...`, to be named too.
    pub assumptions: Vec<String>,
}

/// What a program claims, whether or not that can be false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claims {
    /// Nothing.
    #[default]
    None,
    /// Something, but no run gets there.
    NotReached,
    /// Something that some run gets to.
    Reached,
}

/// A bound within which a verdict holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What is bounded.
    pub what: String,
    /// How far.
    pub value: u64,
}

impl Program {
    /// How many events there are, recovery's included.
    pub fn events(&self) -> u64 {
        self.threads.iter().chain(&self.recovery).map(|thread| thread.events.len() as u64).sum()
    }

    /// The domain of every line, if `default` is that of lines without one of their own.
    pub fn platform(&self, default: Domain) -> Platform {
        self.domains.iter().fold(Platform::all(default), |platform, &(line, domain)| {
            platform.with(line..Line(line.0 + 1), domain)
        })
    }

    /// The same program for settings in which every cache survives.
    pub fn with_surviving_caches(&self) -> Program {
        Program { domains: Vec::new(), ..self.clone() }
    }

    /// Is there memory of the program's own that survives a crash?
    pub fn is_persistent(&self) -> bool {
        self.objects.iter().any(|object| object.persistent && !object.internal)
    }

    /// Adds a place.
    pub fn site(&mut self, site: Site) -> SiteId {
        self.sites.push(site);
        SiteId(self.sites.len() as u32 - 1)
    }

    /// A value for people: the address of something as such, small numbers in decimal.
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

    /// The name of what lies at an address: `node1.next`, `buffer+24`, or the number if nothing does.
    pub fn name_of(&self, address: u64) -> String {
        let inside = |object: &&Object| {
            address.checked_sub(object.address).is_some_and(|offset| offset < object.initial.len())
        };
        let Some(object) = self.objects.iter().find(inside) else { return format!("{address:#x}") };
        let offset = address - object.address;
        // The smallest part that begins here names it best.
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
