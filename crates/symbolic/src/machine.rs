//! The machine: everything known while a program is executed symbolically.
//!
//! This is the data. The effects of instructions, intrinsics, library functions and the rest are `impl` blocks in the
//! modules above, one family of operations each; `paths.rs` dispatches, `driver.rs` starts and ends execution.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{FunctionId, Module, Place};
use crashproof_prove::program::{Site, SiteId, Thread, ThreadId};
use crashproof_prove::term::{Term, Terms};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::block_order::Order;
use crate::frame::Call;
use crate::objects::{ObjectId, Objects};
use crate::options::Options;
pub(crate) use crate::records::Who;
use crate::records::{Allocated, Helpers, Spawn, Transactions};
use crate::state::Arrivals;
use crate::state::State;

/// Why execution does not continue.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The path has ended.
    Dead,
    /// Something new was learned: start over.
    Restart,
}

pub(crate) type Flow<T> = Result<T, Stop>;

/// Which threads used an object.
#[derive(Default)]
pub(crate) struct Use {
    pub(crate) threads: u64,
    /// Was it written while there were several threads?
    pub(crate) written: bool,
    /// The number of threads when the first thread last used it.
    pub(crate) last: usize,
}

impl Use {
    /// Whether several threads may use it at the same time. An object that the first thread prepares for another and no
    /// longer touches once that has started belongs to that thread.
    pub(crate) fn is_shared(&self, started_by_first: u64) -> bool {
        let handed_over = self.threads & 1 == 1
            && self.threads.count_ones() == 2
            && self.threads & started_by_first != 0
            && self.last <= 63 - self.threads.leading_zeros() as usize;
        self.threads.count_ones() > 1 && self.written && !handed_over
    }
}

pub(crate) struct Machine<'m> {
    pub(crate) module: &'m Module,
    pub(crate) options: &'m Options,
    pub(crate) objects: &'m mut Objects,
    /// May the effects of the first thread before it started others be folded into the initial content?
    pub(crate) fold: &'m mut bool,
    pub(crate) terms: Terms,
    pub(crate) threads: Vec<Thread>,
    pub(crate) recovery: Thread,
    pub(crate) sites: Vec<Site>,
    pub(crate) known_sites: FxHashMap<(Place, FunctionId, bool), SiteId>,
    pub(crate) who: Who,
    /// Has the first thread started another?
    pub(crate) several: bool,
    pub(crate) spawned: VecDeque<Spawn>,
    /// A mask of the threads started by the first one.
    pub(crate) started_by_first: u64,
    pub(crate) transactions: Transactions,
    /// Objects of the pool of libpmemobj.
    pub(crate) allocated: Vec<Allocated>,
    /// Assumptions made along the way.
    pub(crate) assumed: BTreeSet<&'static str>,
    /// The number of `setjmp` calls so far, and the states that jumped to them, until their functions return.
    pub(crate) jumps: u64,
    /// Have exit handlers been registered?
    pub(crate) calls_at_exit: bool,
    pub(crate) landed: FxHashMap<u64, Arrivals>,
    /// Threads that are joined.
    pub(crate) joined: FxHashSet<u32>,
    pub(crate) orders: FxHashMap<FunctionId, Rc<Order>>,
    pub(crate) stack: Vec<Call>,
    /// The call site of each of these, from the second on.
    pub(crate) calls: Vec<(Place, FunctionId)>,
    /// The iterations of the enclosing loops, in all calls.
    pub(crate) loops: Vec<u32>,
    /// Symbols for what is not modeled, and the reasons.
    pub(crate) imprecise: FxHashMap<Term, Rc<str>>,
    pub(crate) checked: FxHashMap<Term, Option<Rc<str>>>,
    /// The thread that read each symbol.
    pub(crate) readers: FxHashMap<Term, Who>,
    pub(crate) uses: FxHashMap<ObjectId, Use>,
    pub(crate) bounds: BTreeMap<String, u64>,
    /// Has any path reached a claim of the program's own, whether or not it can be false?
    pub(crate) claims_reached: bool,
    /// The conditions under which recovery reaches one.
    pub(crate) recovery_claims: Vec<Term>,
    /// Recovery's threads that have not been joined.
    pub(crate) helpers: Helpers,
    /// Has a bound cut something off?
    pub(crate) cut: bool,
    pub(crate) blocks_executed: u32,
    pub(crate) limit: Option<crashproof_ordersat::solver::Stop>,
    /// Why and where execution gave up.
    pub(crate) given_up: Option<(String, SiteId)>,
    pub(crate) events: usize,
    pub(crate) sources: FxHashMap<Rc<str>, Vec<String>>,
    pub(crate) globals: Vec<[ObjectId; 2]>,
}

impl<'m> Machine<'m> {
    pub(crate) fn new(
        module: &'m Module,
        options: &'m Options,
        objects: &'m mut Objects,
        fold: &'m mut bool,
    ) -> Self {
        Machine {
            module,
            options,
            objects,
            fold,
            terms: Terms::default(),
            threads: Vec::new(),
            recovery: Thread { name: "recovery".into(), ..Thread::default() },
            sites: Vec::new(),
            known_sites: FxHashMap::default(),
            who: Who::Thread(0),
            several: false,
            spawned: VecDeque::new(),
            started_by_first: 0,
            transactions: Transactions::default(),
            allocated: Vec::new(),
            assumed: BTreeSet::new(),
            jumps: 0,
            calls_at_exit: false,
            landed: FxHashMap::default(),
            joined: FxHashSet::default(),
            orders: FxHashMap::default(),
            stack: Vec::new(),
            calls: Vec::new(),
            loops: Vec::new(),
            imprecise: FxHashMap::default(),
            checked: FxHashMap::default(),
            readers: FxHashMap::default(),
            uses: FxHashMap::default(),
            bounds: BTreeMap::new(),
            claims_reached: false,
            recovery_claims: Vec::new(),
            helpers: Helpers::default(),
            cut: false,
            blocks_executed: 0,
            limit: options.limits.hit(),
            given_up: None,
            events: 0,
            sources: FxHashMap::default(),
            globals: Vec::new(),
        }
    }

    /// Records that a claim of the program's own is reached here.
    pub(crate) fn note_claim(&mut self, state: &State) {
        self.claims_reached = true;
        if self.who == Who::Recovery {
            let guard = state.guard(&mut self.terms);
            if self.recovery_claims.last() != Some(&guard) {
                self.recovery_claims.push(guard);
            }
        }
    }

    /// Records a use of an object.
    pub(crate) fn note_use(&mut self, object: ObjectId, write: bool) {
        let Who::Thread(thread) = self.who else { return };
        let (several, threads) = (self.several, self.threads.len());
        let entry = self.uses.entry(object).or_default();
        if thread == 0 {
            entry.last = threads;
        }
        entry.threads |= 1 << thread.min(63);
        entry.written |= write && several;
    }

    /// Is the current thread the only one? Then memory holds what it stored itself, even where others will see it
    /// later.
    pub(crate) fn is_sequential(&self) -> bool {
        match self.who {
            Who::Thread(thread) => thread == 0 && !self.several,
            Who::Recovery => true,
        }
    }

    /// A new thread.
    pub(crate) fn add_thread(&mut self, name: String) -> ThreadId {
        self.threads.push(Thread { name, created: true, ..Thread::default() });
        ThreadId(self.threads.len() - 1)
    }
}
