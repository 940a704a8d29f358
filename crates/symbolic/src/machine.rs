//! The machine: what it knows, how a program begins and what is made of it in the end.
//!
//! The first thread, those it starts and recovery are executed one after the other, each on all its paths at once
//! (see [`crate::paths`]). What is learnt about objects on the way (see [`crate::objects`]) may show that the execution
//! so far was of the wrong kind. Then it begins again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use crashproof_frontend::bitcode::ir::{FunctionId, Module, Place};
use crashproof_prove::program::{self, Action, Bound, Program, Site, SiteId, Thread, ThreadId};
use crashproof_prove::term::{Term, Terms};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::At;
use crate::objects::{Object, ObjectId, Objects, Origin};
use crate::order::Order;
use crate::paths::Call;
use crate::placement;
use crate::pool::Allocated;
use crate::state::{Arrivals, State};
use crate::threads::Spawn;
use crate::transactions::Transactions;
use crate::value::{self, Value};
use crate::{Error, LoopName, Options};

/// Why execution does not go on here.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The path has come to its end.
    Dead,
    /// Something new was learnt: begin again.
    Again,
}

pub(crate) type Flow<T> = Result<T, Stop>;

/// Who is executing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    Thread(u32),
    Recovery,
}

/// Which threads used an object.
#[derive(Default)]
struct Use {
    threads: u64,
    /// Was it written while there were several threads?
    written: bool,
}

pub(crate) struct Machine<'m> {
    pub(crate) module: &'m Module,
    pub(crate) options: &'m Options,
    pub(crate) objects: &'m mut Objects,
    /// May what one thread did before it started others be taken as the initial content?
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
    pub(crate) transactions: Transactions,
    /// Objects of the pool of libpmemobj.
    pub(crate) allocated: Vec<Allocated>,
    /// What was taken for granted on the way.
    pub(crate) assumed: BTreeSet<&'static str>,
    /// Calls of `setjmp` so far, and what has jumped to them, as long as their functions have not returned.
    pub(crate) jumps: u64,
    /// Has anything been asked to be called at the end?
    pub(crate) calls_at_exit: bool,
    pub(crate) landed: FxHashMap<u64, Arrivals>,
    /// Threads that some thread waits for.
    pub(crate) joined: FxHashSet<u32>,
    pub(crate) orders: FxHashMap<FunctionId, Rc<Order>>,
    pub(crate) stack: Vec<Call>,
    /// Where each of these was called, from the second on.
    pub(crate) calls: Vec<(Place, FunctionId)>,
    /// Rounds of the loops around, in all calls.
    pub(crate) loops: Vec<u32>,
    /// Symbols that stand for what is not modelled, and why.
    pub(crate) imprecise: FxHashMap<Term, Rc<str>>,
    pub(crate) checked: FxHashMap<Term, Option<Rc<str>>>,
    /// Which thread read a symbol.
    pub(crate) readers: FxHashMap<Term, Who>,
    uses: FxHashMap<ObjectId, Use>,
    pub(crate) bounds: BTreeMap<String, u64>,
    /// Has a bound cut something off?
    pub(crate) cut: bool,
    pub(crate) blocks_executed: u32,
    pub(crate) limit: Option<crashproof_ordersat::solver::Stop>,
    /// Why and where execution was given up.
    pub(crate) given_up: Option<(String, SiteId)>,
    pub(crate) events: usize,
    pub(crate) sources: FxHashMap<Rc<str>, Vec<String>>,
    pub(crate) globals: Vec<[ObjectId; 2]>,
}

/// Executes until nothing new is learnt.
pub(crate) fn run(module: &Module, options: &Options) -> Result<Program, Error> {
    let main = module
        .function_named("main")
        .filter(|main| !module.function(*main).blocks.is_empty())
        .ok_or(Error::NoMain)?;
    let mut objects = Objects::new();
    let mut fold = true;
    loop {
        let mut machine = Machine::new(module, options, &mut objects, &mut fold)?;
        match machine.everything(main) {
            Ok(()) if !machine.learn() => return machine.finish(),
            Ok(()) | Err(_) => {}
        }
    }
}

impl<'m> Machine<'m> {
    fn new(
        module: &'m Module,
        options: &'m Options,
        objects: &'m mut Objects,
        fold: &'m mut bool,
    ) -> Result<Self, Error> {
        let mut machine = Machine {
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
            cut: false,
            blocks_executed: 0,
            limit: options.limits.hit(),
            given_up: None,
            events: 0,
            sources: FxHashMap::default(),
            globals: Vec::new(),
        };
        machine.place_globals()?;
        Ok(machine)
    }

    /// The first thread, those it starts, and recovery.
    fn everything(&mut self, main: FunctionId) -> Flow<()> {
        self.threads.push(Thread { name: "main".into(), ..Thread::default() });
        self.start(Who::Thread(0), main, None)?;
        while let Some(spawn) = self.spawned.pop_front() {
            self.run_spawned(spawn)?;
        }
        if self.options.no_recovery {
            return Ok(());
        }
        // In C++ it has another name, unless it is declared `extern "C"`.
        let recover = ["recover", "_Z7recoverv"]
            .into_iter()
            .filter_map(|name| self.module.function_named(name))
            .find(|id| !self.module.function(*id).blocks.is_empty());
        self.start(Who::Recovery, recover.unwrap_or(main), recover)
    }

    /// Runs `main`, or a `recover` of its own, on fresh memory.
    fn start(&mut self, who: Who, function: FunctionId, recover: Option<FunctionId>) -> Flow<()> {
        self.who = who;
        let mut state = State { memory: self.fresh_memory(), ..State::default() };
        let arguments =
            if recover.is_some() { self.defaults(function) } else { self.main_arguments(&mut state) };
        // What recovery makes is not what was made before the crash.
        let context = u64::from(who == Who::Recovery) << 63;
        let called = match self.constructors(state, context) {
            Ok(state) => self.call(function, arguments, Vec::new(), state, context),
            Err(stop) => Err(stop),
        };
        match called {
            Ok((mut state, result)) => {
                let place = self.module.function(function).place.clone();
                if let (Who::Recovery, None, Some(Value::Scalar(code))) = (who, recover, result) {
                    let zero = self.terms.number(0, self.terms.width(code));
                    let condition = self.terms.equal(code, zero);
                    let message = "recovery ends with exit code 0".to_owned();
                    self.emit(&mut state, Action::Assert { condition, message }, &place, function)?;
                }
                match recover {
                    Some(_) => Ok(()),
                    None => match self.end_process(state, context, At { place: &place, function }) {
                        Err(Stop::Again) => Err(Stop::Again),
                        Ok(()) | Err(Stop::Dead) => Ok(()),
                    },
                }
            }
            Err(Stop::Dead) => Ok(()),
            Err(Stop::Again) => Err(Stop::Again),
        }
    }

    /// Zeros for whatever parameters a `recover` has.
    fn defaults(&mut self, function: FunctionId) -> Vec<Value> {
        let module = self.module;
        let parameters = &module.function(function).parameters;
        parameters
            .iter()
            .map(|(_, ty)| {
                value::build(ty, &mut |bits| self.terms.number(0, bits))
                    .unwrap_or_else(|_| Value::Scalar(self.terms.number(0, 64)))
            })
            .collect()
    }

    fn main_arguments(&mut self, state: &mut State) -> Vec<Value> {
        let recovery = self.who == Who::Recovery;
        let strings: Vec<String> =
            std::iter::once("program".to_owned()).chain(self.options.arguments.clone()).collect();
        let mut addresses = Vec::new();
        for (index, text) in strings.iter().enumerate() {
            let mut bytes = text.clone().into_bytes();
            bytes.push(0);
            let address = self.argument_object(state, Origin::Argument(index as u32 + 1, recovery), bytes);
            addresses.extend(address.to_le_bytes());
        }
        addresses.extend([0; 8]);
        let array = self.argument_object(state, Origin::Argument(0, recovery), addresses);
        let terms = &mut self.terms;
        vec![
            Value::Scalar(terms.number(strings.len() as u64, 32)),
            Value::Scalar(terms.number(array, 64)),
            Value::Scalar(terms.number(0, 64)),
        ]
    }

    fn argument_object(&mut self, state: &mut State, origin: Origin, initial: Vec<u8>) -> u64 {
        let object = self.objects.place(origin, 16, false, || Object {
            name: "argv".into(),
            address: 0,
            size: initial.len() as u64,
            persistent: false,
            internal: false,
            initial,
            defined: true,
            written: Vec::new(),
            fields: Vec::new(),
        });
        self.add_object(&mut state.memory, object);
        self.objects.get(object).address
    }

    /// Notes that an object is used.
    pub(crate) fn note_use(&mut self, object: ObjectId, write: bool) {
        let Who::Thread(thread) = self.who else { return };
        let several = self.several;
        let entry = self.uses.entry(object).or_default();
        entry.threads |= 1 << thread.min(63);
        entry.written |= write && several;
    }

    /// Which objects turned out to be used by several threads; tells whether that is new.
    fn learn(&mut self) -> bool {
        let mut news = false;
        for (object, used) in std::mem::take(&mut self.uses) {
            if used.threads.count_ones() > 1 && used.written {
                news |= self.objects.make_concurrent(object);
            }
        }
        // What an exposed object points to at the start can be reached through it.
        let targets: Vec<ObjectId> = self
            .objects
            .ids()
            .filter(|id| self.objects.is_exposed(*id))
            .flat_map(|id| {
                let words = self.objects.get(id).initial.chunks_exact(8);
                let words: Vec<u64> =
                    words.map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes"))).collect();
                words.into_iter().filter_map(|word| self.objects.at(word)).collect::<Vec<_>>()
            })
            .collect();
        for target in targets {
            news |= self.objects.expose(target);
        }
        news
    }

    fn finish(self) -> Result<Program, Error> {
        for bound in &self.options.loops {
            let LoopName::Index { function, index } = &bound.which else { continue };
            let exists = self
                .orders
                .iter()
                .any(|(id, order)| self.module.function(*id).name == *function && *index < order.loops.len());
            if !exists {
                return Err(Error::NoSuchLoop(format!("{function}.{index}")));
            }
        }
        for bound in &self.options.loops {
            let LoopName::Line { file, line } = &bound.which else { continue };
            let exists = self
                .orders
                .values()
                .flat_map(|order| &order.loops)
                .any(|one| one.place.line == *line && one.place.file.ends_with(file.as_str()));
            if !exists {
                return Err(Error::NoSuchLoop(format!("at {file}:{line}")));
            }
        }
        let seen: Vec<ObjectId> = self
            .objects
            .ids()
            .filter(|id| self.objects.is_exposed(*id) || self.objects.is_concurrent(*id))
            .collect();
        // Objects made in one place are told apart by numbers.
        let mut namesakes: FxHashMap<&str, (usize, usize)> = FxHashMap::default();
        for id in &seen {
            namesakes.entry(&self.objects.get(*id).name).or_default().0 += 1;
        }
        let objects = seen
            .iter()
            .map(|id| {
                let object = self.objects.get(*id);
                let (all, told) = namesakes.entry(&object.name).or_default();
                *told += 1;
                let name = if *all > 1 { format!("{} #{told}", object.name) } else { object.name.clone() };
                program::Object {
                    name,
                    address: object.address,
                    initial: object.first_content(),
                    persistent: object.persistent,
                    internal: object.internal,
                    fields: object.fields.clone(),
                }
            })
            .collect();
        let assumed = self.assumed.iter().map(|assumption| (*assumption).to_owned());
        let assumptions = placement::assumption(self.module).into_iter().chain(assumed).collect();
        Ok(Program {
            domains: Vec::new(),
            assumptions,
            terms: self.terms,
            objects,
            threads: self.threads,
            recovery: (!self.options.no_recovery).then_some(self.recovery),
            sites: self.sites,
            cut: self.cut,
            given_up: self.given_up,
            bounds: self.bounds.into_iter().map(|(what, value)| Bound { what, value }).collect(),
        })
    }

    /// A new thread.
    pub(crate) fn add_thread(&mut self, name: String) -> ThreadId {
        self.threads.push(Thread { name, created: true, ..Thread::default() });
        ThreadId(self.threads.len() - 1)
    }
}
