//! The objects of a program, and which of them need events.
//!
//! An object gets its address when it is first encountered, and keeps it when the program is executed again. Most
//! memory of a C program is private: local variables, heap structures used by one thread. The content of such memory is
//! computed during execution and costs the prover nothing. An object is *exposed*, and its accesses become events, if
//! it is persistent, if several threads use it while it is written, or if its content cannot be tracked: its address
//! was stored where only events reach, or it is accessed through an unknown address.
//!
//! Which objects are exposed becomes known only during execution. So a program is executed again with that knowledge
//! until nothing new is learned.

use std::collections::BTreeMap;

use crashproof_frontend::bitcode::ir::FunctionId;
use crashproof_prove::program::{Field, FirstContent};
use rustc_hash::{FxHashMap, FxHashSet};

/// An object, by its index in [`Objects`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ObjectId(pub(crate) u32);

/// What identifies an object across executions of the program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    /// A global; recovery has separate copies of those that do not survive.
    Global { index: u32, recovery: bool },
    /// A thread-local variable of a thread.
    ThreadLocal { index: u32, thread: u32 },
    /// Created by an instruction in a call, identified by a hash of the path there, with its size.
    Made(u64, u64),
    /// `crashproof_root`.
    Root,
    /// `pmemobj_root`.
    PoolRoot,
    /// A thread's word for its transactions: its kind, and the thread; `None` for recovery.
    Lane(u64, Option<u32>),
    /// The volatile part of the object at this address; recovery has its own.
    Shadow(u64, bool),
    /// The volatile part of any piece of the object at this address.
    Twin(u64),
    /// A file, by its path.
    File(String),
    /// Whether a file exists and how long it is, by its path.
    About(String),
    /// An argument string of `main`, or the array of them.
    Argument(u32, bool),
    /// A handover between a thread and the one that started it.
    Handover(u32, Handover),
}

/// What is handed over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Handover {
    Argument,
    Result,
    /// The end of the thread.
    End,
}

/// An object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) persistent: bool,
    /// Internal to a library model.
    pub(crate) internal: bool,
    /// Initial bytes, except trailing zeros.
    pub(crate) initial: Vec<u8>,
    /// Whether the bytes exist from the start: a global, or fresh zeroed memory.
    pub(crate) defined: bool,
    /// Otherwise: which of the initial bytes the first thread had written before there were other threads.
    pub(crate) written: Vec<bool>,
    pub(crate) fields: Vec<Field>,
}

impl Object {
    /// Volatile, zeroed memory of the program; the rest is set with `..`.
    pub(crate) fn zeroed(name: impl Into<String>, size: u64) -> Object {
        Object {
            name: name.into(),
            address: 0,
            size,
            persistent: false,
            internal: false,
            initial: Vec::new(),
            defined: true,
            written: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Persistent, zeroed memory of the program.
    pub(crate) fn persistent(name: impl Into<String>, size: u64) -> Object {
        Object { persistent: true, ..Object::zeroed(name, size) }
    }

    /// Its initial content.
    pub(crate) fn first_content(&self) -> FirstContent {
        if self.defined {
            return FirstContent::new(self.size, self.initial.iter().copied().map(Some).collect(), Some(0));
        }
        let known = |at: usize| self.written[at].then(|| self.initial.get(at).copied().unwrap_or(0));
        FirstContent::new(self.size, (0..self.written.len()).map(known).collect(), None)
    }
}

/// Functions have addresses in a region of their own, which distinguishes them.
const FUNCTION_BASE: u64 = 1 << 22;
const FUNCTION_STEP: u64 = 16;

/// The address of a function.
pub(crate) fn function_address(function: FunctionId) -> u64 {
    FUNCTION_BASE + u64::from(function.0) * FUNCTION_STEP
}

/// The function at an address, which may not exist.
pub(crate) fn function_at(address: u64) -> Option<FunctionId> {
    let distance = address.checked_sub(FUNCTION_BASE)?;
    let index = u32::try_from(distance / FUNCTION_STEP).ok()?;
    distance.is_multiple_of(FUNCTION_STEP).then_some(FunctionId(index))
}

/// Persistent memory is placed where the runtime's arena is, recognizable by the top bits.
const PERSISTENT_BASE: u64 = 1 << 44;
const VOLATILE_BASE: u64 = 1 << 32;
/// The distance from an object of the pool to its volatile counterpart.
pub(crate) const TWIN_DISTANCE: u64 = 1 << 45;
/// The gap between objects that the program must not assume to be adjacent, so that an access out of bounds hits
/// nothing.
const GAP: u64 = 64;
/// The same for volatile objects, on both sides; more for large ones. Sums keep their constants together, so the address of
/// `a[i - 10]` is `i` plus a number that lies before `a`: it must be nearer to `a` than to any other object.
const VOLATILE_GAP: u64 = 1 << 20;

/// Knowledge about objects, kept from one execution to the next.
#[derive(Debug)]
pub(crate) struct Objects {
    all: Vec<Object>,
    known: FxHashMap<Origin, ObjectId>,
    by_address: BTreeMap<u64, ObjectId>,
    exposed: FxHashSet<ObjectId>,
    /// Used by several threads, written while there are several.
    concurrent: FxHashSet<ObjectId>,
    /// Threads that may wait forever or reach something unknown: a join must check whether they ended.
    pub(crate) may_not_end: FxHashSet<u32>,
    /// Are there mutexes of a kind other than the default?
    pub(crate) mutex_kinds: bool,
    /// Does any thread try a lock without waiting for it?
    pub(crate) tries_locks: bool,
    /// Are there locks at unknown places in the pool?
    pub(crate) twins: bool,
    next_persistent: u64,
    next_volatile: u64,
}

impl Objects {
    pub(crate) fn new() -> Self {
        Objects {
            all: Vec::new(),
            known: FxHashMap::default(),
            by_address: BTreeMap::new(),
            exposed: FxHashSet::default(),
            concurrent: FxHashSet::default(),
            may_not_end: FxHashSet::default(),
            mutex_kinds: false,
            tries_locks: false,
            twins: false,
            next_persistent: PERSISTENT_BASE,
            next_volatile: VOLATILE_BASE,
        }
    }

    /// The object with this origin, created on first use. `packed` places it directly after the last one.
    pub(crate) fn place(
        &mut self,
        origin: Origin,
        align: u64,
        packed: bool,
        make: impl FnOnce() -> Object,
    ) -> ObjectId {
        self.place_with(origin, align, 0, packed, make)
    }

    /// The same, with the object at an offset from an aligned address.
    pub(crate) fn place_behind(
        &mut self,
        origin: Origin,
        align: u64,
        lead: u64,
        make: impl FnOnce() -> Object,
    ) -> ObjectId {
        self.place_with(origin, align, lead, false, make)
    }

    fn place_with(
        &mut self,
        origin: Origin,
        align: u64,
        lead: u64,
        packed: bool,
        make: impl FnOnce() -> Object,
    ) -> ObjectId {
        if let Some(known) = self.known.get(&origin) {
            return *known;
        }
        let mut object = make();
        let gap = match object.persistent {
            _ if packed => 0,
            true => GAP,
            false => VOLATILE_GAP.max(object.size),
        };
        let next = if object.persistent { &mut self.next_persistent } else { &mut self.next_volatile };
        object.address = (*next + gap).next_multiple_of(align.max(if packed { 1 } else { 16 })) + lead;
        *next = object.address + object.size.max(1) + if object.persistent { 0 } else { gap };
        let id = ObjectId(self.all.len() as u32);
        self.by_address.insert(object.address, id);
        self.all.push(object);
        self.known.insert(origin, id);
        id
    }

    /// Is it the program's own, in persistent memory?
    pub(crate) fn is_of_pool(&self, id: ObjectId) -> bool {
        let object = self.get(id);
        object.persistent && !object.internal
    }

    /// Creates the twin of an object, if there is none yet.
    pub(crate) fn twin(&mut self, id: ObjectId) {
        let object = self.get(id);
        let (address, size) = (object.address, object.size);
        if self.known.contains_key(&Origin::Twin(address)) {
            return;
        }
        let twin = ObjectId(self.all.len() as u32);
        let name = format!("lock of {}", object.name);
        let address_of_twin = address + TWIN_DISTANCE;
        self.all.push(Object { address: address_of_twin, internal: true, ..Object::zeroed(name, size) });
        self.by_address.insert(address + TWIN_DISTANCE, twin);
        self.known.insert(Origin::Twin(address), twin);
        self.expose(twin);
    }

    pub(crate) fn find(&self, origin: &Origin) -> Option<ObjectId> {
        self.known.get(origin).copied()
    }

    pub(crate) fn get(&self, id: ObjectId) -> &Object {
        &self.all[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: ObjectId) -> &mut Object {
        &mut self.all[id.0 as usize]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ObjectId> + use<> {
        (0..self.all.len() as u32).map(ObjectId)
    }

    /// The object that contains an address.
    pub(crate) fn at(&self, address: u64) -> Option<ObjectId> {
        let (_, id) = self.by_address.range(..=address).next_back()?;
        let object = self.get(*id);
        (address - object.address < object.size.max(1)).then_some(*id)
    }

    /// The object that an address is meant to be in: the nearest one, as far as gaps reach.
    pub(crate) fn near(&self, address: u64) -> Option<ObjectId> {
        let below = self.by_address.range(..=address).next_back().map(|(_, id)| {
            let object = self.get(*id);
            (address.saturating_sub(object.address + object.size), *id)
        });
        let above = self.by_address.range(address..).next().map(|(start, id)| (start - address, *id));
        let nearest = below.into_iter().chain(above).min()?;
        let reach = VOLATILE_GAP.max(self.get(nearest.1).size);
        (nearest.0 <= reach).then_some(nearest.1)
    }

    /// Its accesses are events, from the start.
    pub(crate) fn is_exposed(&self, id: ObjectId) -> bool {
        self.get(id).persistent || self.exposed.contains(&id)
    }

    /// Are its accesses events once there are several threads?
    pub(crate) fn is_concurrent(&self, id: ObjectId) -> bool {
        self.concurrent.contains(&id)
    }

    /// Returns whether that is new.
    pub(crate) fn expose(&mut self, id: ObjectId) -> bool {
        !self.get(id).persistent && self.exposed.insert(id)
    }

    pub(crate) fn make_concurrent(&mut self, id: ObjectId) -> bool {
        !self.is_exposed(id) && self.concurrent.insert(id)
    }
}
