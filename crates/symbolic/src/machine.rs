//! Executes functions with merged paths.
//!
//! Everything is executed once for each round of the loops around it: all paths that arrive there are merged
//! first. Values are kept by function call and overwritten from round to round, which is sound because no
//! value leaves its loop but through a phi at the exit (bitcode's passes see to that), and a phi is read when
//! the edge is taken.
//!
//! What is learnt about objects on the way (see [`crate::objects`]) may show that the execution so far was of
//! the wrong kind. Then it begins again.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crashproof_bitcode::ir::{
    Block, BlockId, Constant, FunctionId, Global, GlobalId, Initial, Module, Operand, Place, Terminator,
};
use crashproof_prove::program::{self, Action, Bound, Event, Program, Site, SiteId, Thread, ThreadId};
use crashproof_prove::term::{Node, Term, Terms};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::memory::Memory;
use crate::objects::{Object, ObjectId, Objects, Origin};
use crate::order::{Key, Order};
use crate::placement;
use crate::state::{self, Arrivals, State};
use crate::threads::Spawn;
use crate::value::{self, Value};
use crate::{Error, LoopName, Options};
use crashproof_bitcode::MODEL_DIRECTORY;

/// Functions are told apart by addresses in a region of their own.
const FUNCTION_BASE: u64 = 1 << 22;
const FUNCTION_STEP: u64 = 16;

/// Rounds of a loop that must be taken are not bounded by the user, but by this.
const MOST_ROUNDS: u32 = 10_000;

/// Nobody calls this deep without recursion; it keeps our own stack in bounds.
const DEEPEST: usize = 200;

/// Larger globals than this are refused.
const LARGEST_GLOBAL: u64 = 16 << 20;

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

/// A function call in progress.
pub(crate) struct Frame {
    pub(crate) function: FunctionId,
    values: Vec<Option<Value>>,
    /// Names this call, among all calls.
    context: u64,
    /// Names the instruction being executed, among all executions of instructions.
    pub(crate) point: u64,
    /// How many loops there are around the call.
    depth: usize,
    /// For each loop being executed: what was there when its round began.
    rounds: FxHashMap<usize, Round>,
}

struct Round {
    memory: Memory,
    phis: Vec<Value>,
    /// Can the loop be left in this round? Then the next need not be taken.
    left: bool,
    /// Rounds that need not have been taken.
    uncertain: u32,
}

pub(crate) struct Machine<'m> {
    pub(crate) module: &'m Module,
    pub(crate) options: &'m Options,
    pub(crate) objects: &'m mut Objects,
    /// May what one thread did before it started others be taken as the initial content?
    pub(crate) fold: &'m mut bool,
    pub(crate) terms: Terms,
    pub(crate) threads: Vec<Thread>,
    recovery: Thread,
    sites: Vec<Site>,
    known_sites: FxHashMap<(Place, FunctionId, bool), SiteId>,
    pub(crate) who: Who,
    /// Has the first thread started another?
    pub(crate) several: bool,
    pub(crate) spawned: VecDeque<Spawn>,
    /// What transactions have written down.
    pub(crate) undo: Vec<crate::undo::Entry>,
    /// Threads that some thread waits for.
    pub(crate) joined: FxHashSet<u32>,
    orders: FxHashMap<FunctionId, Rc<Order>>,
    pub(crate) stack: Vec<FunctionId>,
    /// Where each of these was called, from the second on.
    pub(crate) calls: Vec<(Place, FunctionId)>,
    /// Rounds of the loops around, in all calls.
    pub(crate) loops: Vec<u32>,
    /// Symbols that stand for what is not modelled, and why.
    imprecise: FxHashMap<Term, Rc<str>>,
    checked: FxHashMap<Term, Option<Rc<str>>>,
    /// Which thread read a symbol.
    readers: FxHashMap<Term, Who>,
    uses: FxHashMap<ObjectId, Use>,
    bounds: BTreeMap<String, u64>,
    events: usize,
    sources: FxHashMap<Rc<str>, Vec<String>>,
    globals: Vec<[ObjectId; 2]>,
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
            undo: Vec::new(),
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
            events: 0,
            sources: FxHashMap::default(),
            globals: Vec::new(),
        };
        machine.place_globals()?;
        Ok(machine)
    }

    /// Gives every global its place and first content.
    fn place_globals(&mut self) -> Result<(), Error> {
        let module = self.module;
        for (index, global) in module.globals.iter().enumerate() {
            let refuse = |what: &str| Error::Global {
                place: format!("{}:{}", global.place.file, global.place.line),
                what: format!("global `{}` {what}", global.name),
            };
            if global.size > LARGEST_GLOBAL {
                return Err(refuse("is larger than 16 MiB"));
            }
            let persistent = global.section == placement::SECTION;
            if persistent && global.thread_local {
                return Err(refuse("is both persistent and thread-local"));
            }
            let shared = persistent || global.constant;
            let make = |recovery: bool, objects: &mut Objects| {
                let origin = Origin::Global { index: index as u32, recovery };
                objects.place(origin, global.align, persistent, || Object {
                    name: global.name.clone(),
                    address: 0,
                    size: global.size,
                    persistent,
                    initial: Vec::new(),
                    defined: global.initial.is_some(),
                    written: Vec::new(),
                    fields: Vec::new(),
                })
            };
            let first = make(false, self.objects);
            let second = if shared { first } else { make(true, self.objects) };
            self.globals.push([first, second]);
        }
        for (index, global) in module.globals.iter().enumerate() {
            for recovery in [0, 1] {
                let content = self.initial_content(global, recovery)?;
                let object = self.globals[index][recovery];
                self.objects.get_mut(object).initial = content;
            }
        }
        Ok(())
    }

    fn initial_content(&self, global: &Global, recovery: usize) -> Result<Vec<u8>, Error> {
        let mut content = vec![0; global.size as usize];
        for (offset, piece) in global.initial.iter().flatten() {
            let bytes = match piece {
                Initial::Bytes(bytes) => bytes.clone(),
                Initial::Address(Constant::Global(target, distance)) => {
                    let target = self.globals[target.0 as usize][recovery];
                    let address = self.objects.get(target).address.wrapping_add_signed(*distance);
                    address.to_le_bytes().to_vec()
                }
                Initial::Address(Constant::Function(function)) => {
                    function_address(*function).to_le_bytes().to_vec()
                }
                Initial::Address(_) => Vec::new(),
                Initial::Unsupported(what) => {
                    return Err(Error::Global {
                        place: format!("{}:{}", global.place.file, global.place.line),
                        what: format!("global `{}` begins as {what}, which is not supported", global.name),
                    });
                }
            };
            let start = *offset as usize;
            content[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(content)
    }

    /// The object of a global, for who is executing.
    pub(crate) fn global(&mut self, id: GlobalId) -> ObjectId {
        let global = self.module.global(id);
        match (global.thread_local, self.who) {
            (true, Who::Thread(thread @ 1..)) => {
                let [first, _] = self.globals[id.0 as usize];
                let model = self.objects.get(first);
                let copy = Object {
                    name: format!("{} of thread {thread}", model.name),
                    address: 0,
                    size: model.size,
                    persistent: false,
                    initial: model.initial.clone(),
                    defined: model.defined,
                    written: Vec::new(),
                    fields: Vec::new(),
                };
                let origin = Origin::ThreadLocal { index: id.0, thread };
                self.objects.place(origin, global.align, false, || copy)
            }
            (_, Who::Recovery) => self.globals[id.0 as usize][1],
            _ => self.globals[id.0 as usize][0],
        }
    }

    /// Memory as a process finds it at its start, apart from what never changes.
    fn fresh_memory(&mut self) -> Memory {
        let mut memory = Memory::default();
        for index in 0..self.module.globals.len() as u32 {
            let global = self.module.global(GlobalId(index));
            let object = self.global(GlobalId(index));
            if !global.constant || self.objects.is_exposed(object) {
                self.add_object(&mut memory, object);
            }
            // What survived is what recovery has to find out.
            if self.who == Who::Recovery && self.objects.is_exposed(object) {
                memory.forget(object);
            }
        }
        memory
    }

    /// Puts an object's initial content into memory.
    pub(crate) fn add_object(&mut self, memory: &mut Memory, object: ObjectId) {
        let info = self.objects.get(object);
        let content = if info.defined {
            let mut bytes = info.initial.clone();
            bytes.resize(info.size as usize, 0);
            bytes.into_iter().map(|byte| Some((self.terms.number(byte.into(), 8), 0))).collect()
        } else {
            vec![None; info.size as usize]
        };
        memory.insert(object, content, self.objects.is_exposed(object));
    }

    /// The first thread, those it starts, and recovery.
    fn everything(&mut self, main: FunctionId) -> Flow<()> {
        self.threads.push(Thread { name: "main".into(), ..Thread::default() });
        self.start(Who::Thread(0), main, None)?;
        while let Some(spawn) = self.spawned.pop_front() {
            self.run_spawned(spawn)?;
        }
        let recover =
            self.module.function_named("recover").filter(|id| !self.module.function(*id).blocks.is_empty());
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
        match self.call(function, arguments, state, context) {
            Ok((mut state, result)) => {
                if let (Who::Recovery, None, Some(Value::Scalar(code))) = (who, recover, result) {
                    let zero = self.terms.number(0, self.terms.width(code));
                    let condition = self.terms.equal(code, zero);
                    let message = "recovery ends with exit code 0".to_owned();
                    let place = self.module.function(function).place.clone();
                    self.emit(&mut state, Action::Assert { condition, message }, &place, function)?;
                }
                Ok(())
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
            initial,
            defined: true,
            written: Vec::new(),
            fields: Vec::new(),
        });
        self.add_object(&mut state.memory, object);
        self.objects.get(object).address
    }

    /// Executes a call, on all its paths; gives the merged end of those that return.
    pub(crate) fn call(
        &mut self,
        function: FunctionId,
        arguments: Vec<Value>,
        mut state: State,
        context: u64,
    ) -> Flow<(State, Option<Value>)> {
        let module = self.module;
        let code = module.function(function);
        let recursion = self.stack.iter().filter(|f| **f == function).count();
        if recursion > self.options.recursion as usize || self.stack.len() > DEEPEST {
            let what = format!("recursion of {}", code.name);
            self.bounds.insert(what, self.options.recursion.into());
            let reason = format!("`{}` calls itself more than {} times", code.name, self.options.recursion);
            let place = code.place.clone();
            self.unknown(&mut state, &reason, &place, function);
            return Err(Stop::Dead);
        }
        if recursion > 0 {
            self.bounds.insert(format!("recursion of {}", code.name), self.options.recursion.into());
        }
        let order = match self.orders.get(&function) {
            Some(order) => order.clone(),
            None => {
                let order = Rc::new(Order::of(code));
                self.orders.insert(function, order.clone());
                order
            }
        };
        let mut frame = Frame {
            function,
            values: vec![None; code.values as usize],
            context,
            point: context,
            depth: state.dirty.len(),
            rounds: FxHashMap::default(),
        };
        for ((id, _), argument) in code.parameters.iter().zip(arguments) {
            frame.values[id.0 as usize] = Some(argument);
        }
        self.stack.push(function);
        let result = self.blocks(&mut frame, &order, state);
        self.stack.pop();
        self.loops.truncate(frame.depth);
        let mut returns = result?;
        for (state, _) in &mut returns {
            state.dirty.truncate(frame.depth);
        }
        let (state, mut values) = state::merge(&mut self.terms, returns).ok_or(Stop::Dead)?;
        Ok((state, values.pop()))
    }

    fn blocks(&mut self, frame: &mut Frame, order: &Order, state: State) -> Flow<Arrivals> {
        let module = self.module;
        let code = module.function(frame.function);
        let mut pending: BTreeMap<Key, (BlockId, Vec<u32>, Arrivals)> = BTreeMap::new();
        let mut returns: Arrivals = Vec::new();
        let (entry, _) = order.step(BlockId(0), &vec![0; order.nest(BlockId(0)).loops.len()], BlockId(0));
        let entry = vec![0; entry.len()];
        pending.insert(order.key(BlockId(0), &entry), (BlockId(0), entry, vec![(state, Vec::new())]));
        while let Some((_, (block, rounds, arrivals))) = pending.pop_first() {
            let Some((mut state, phis)) = state::merge(&mut self.terms, arrivals) else { continue };
            self.enter(frame, order, block, &rounds, &mut state, phis);
            match self.block(frame, block, &rounds, &mut state) {
                Ok(()) => {}
                Err(Stop::Dead) => continue,
                Err(Stop::Again) => return Err(Stop::Again),
            }
            let code = &code.blocks[block.0 as usize];
            if let Terminator::Return(value) = &code.terminator {
                self.leave(frame, order, block, &[]);
                let values = match value {
                    Some(value) => match self.operand(frame, value) {
                        Ok(value) => vec![value],
                        Err(what) => {
                            self.unknown(&mut state, &what, &code.place, frame.function);
                            continue;
                        }
                    },
                    None => Vec::new(),
                };
                returns.push((state, values));
                continue;
            }
            for (to, mut state) in self.successors(frame, &code.terminator, state, &code.place)? {
                let phis = match self.phi_values(frame, block, to) {
                    Ok(phis) => phis,
                    Err(what) => {
                        self.unknown(&mut state, &what, &code.place, frame.function);
                        continue;
                    }
                };
                self.leave(frame, order, block, &order.nest(to).loops);
                let (next, again) = order.step(block, &rounds, to);
                if let Some(index) = again
                    && !self.next_round(frame, order, index, *next.last().unwrap_or(&0), &mut state, &phis)
                {
                    continue;
                }
                let key = order.key(to, &next);
                pending.entry(key).or_insert_with(|| (to, next, Vec::new())).2.push((state, phis));
            }
        }
        Ok(returns)
    }

    /// Sets what depends on where control came from.
    fn enter(
        &mut self,
        frame: &mut Frame,
        order: &Order,
        block: BlockId,
        rounds: &[u32],
        state: &mut State,
        phis: Vec<Value>,
    ) {
        let no = self.terms.truth(false);
        state.dirty.resize(frame.depth + rounds.len(), no);
        self.loops.truncate(frame.depth);
        self.loops.extend(rounds);
        let code = &self.module.function(frame.function).blocks[block.0 as usize];
        for (phi, value) in code.phis.iter().zip(&phis) {
            frame.values[phi.result.0 as usize] = Some(value.clone());
        }
        let Some(&inner) = order.nest(block).loops.last() else { return };
        if order.loops[inner].header != block {
            return;
        }
        let before = frame.rounds.remove(&inner);
        let uncertain = match before {
            Some(round) if rounds.last() != Some(&0) => round.uncertain + u32::from(round.left),
            _ => 0,
        };
        if let Some(flag) = state.dirty.last_mut() {
            *flag = no;
        }
        let round = Round { memory: state.memory.clone(), phis, left: false, uncertain };
        frame.rounds.insert(inner, round);
    }

    /// Notes which loops can be left here.
    fn leave(&self, frame: &mut Frame, order: &Order, from: BlockId, stays: &[usize]) {
        for index in order.nest(from).loops.iter().filter(|index| !stays.contains(index)) {
            if let Some(round) = frame.rounds.get_mut(index) {
                round.left = true;
            }
        }
    }

    /// Prepares to go round once more; tells whether there is anything to go on with.
    fn next_round(
        &mut self,
        frame: &Frame,
        order: &Order,
        index: usize,
        next: u32,
        state: &mut State,
        phis: &[Value],
    ) -> bool {
        let Some(round) = frame.rounds.get(&index) else { return true };
        let head = &order.loops[index];
        // A round that changed nothing and leaves nothing different behind is waiting: the next would be the
        // same, so it is enough to think of the last one.
        let level = frame.depth + order.nest(head.header).loops.len() - 1;
        if !state.memory.differs(&round.memory) {
            let mut changed = state.dirty[level];
            for (old, new) in round.phis.iter().zip(phis) {
                let same = value::equal(&mut self.terms, old, new);
                let different = self.terms.not(same);
                changed = self.terms.or(changed, different);
            }
            if self.who == Who::Recovery {
                // Nobody is there to wait for.
                let message = "recovery does not go round for ever".to_owned();
                let action = Action::Assert { condition: changed, message };
                let place = head.place.clone();
                if self.emit(state, action, &place, frame.function).is_err() {
                    return false;
                }
            }
            if !state.assume(&mut self.terms, changed) {
                return false;
            }
        }
        let code = self.module.function(frame.function);
        let bound = self
            .options
            .loops
            .iter()
            .find(|bound| match &bound.which {
                LoopName::Line { file, line } => {
                    head.place.line == *line && head.place.file.ends_with(file.as_str())
                }
                LoopName::Index { function, index: number } => code.name == *function && index == *number,
            })
            .map_or(self.options.unwind, |bound| bound.bound);
        let uncertain = round.uncertain + u32::from(round.left);
        let what = format!("loop at {}:{}", head.place.file, head.place.line);
        if uncertain > 0 {
            self.bounds.insert(what.clone(), bound.into());
        }
        if uncertain > bound || next > MOST_ROUNDS {
            let rounds = if uncertain > bound { bound } else { MOST_ROUNDS };
            let reason = format!("the {what} goes round more than {rounds} times (--unwind)");
            let place = head.place.clone();
            self.unknown(state, &reason, &place, frame.function);
            return false;
        }
        true
    }

    fn block(&mut self, frame: &mut Frame, block: BlockId, rounds: &[u32], state: &mut State) -> Flow<()> {
        let module = self.module;
        let code = &module.function(frame.function).blocks[block.0 as usize];
        for (index, instruction) in code.instructions.iter().enumerate() {
            let mut hasher = FxHasher::default();
            (frame.context, block, rounds, index).hash(&mut hasher);
            frame.point = hasher.finish();
            if let Some(value) = self.instruction(frame, instruction, state)? {
                frame.values[instruction.result.0 as usize] = Some(value);
            }
        }
        Ok(())
    }

    fn successors(
        &mut self,
        frame: &Frame,
        terminator: &Terminator,
        mut state: State,
        place: &Place,
    ) -> Flow<Vec<(BlockId, State)>> {
        let condition = |machine: &mut Self, state: &mut State, operand: &Operand| {
            match machine.scalar(frame, operand) {
                Ok(term) => match machine.why_imprecise(term) {
                    None => return Some(term),
                    Some(why) => machine.unknown(state, &why, place, frame.function),
                },
                Err(what) => machine.unknown(state, &what, place, frame.function),
            }
            None
        };
        let mut all = Vec::new();
        match terminator {
            Terminator::Jump(to) => all.push((*to, state)),
            Terminator::Branch(operand, yes, no) => {
                let Some(taken) = condition(self, &mut state, operand) else { return Ok(all) };
                let not_taken = self.terms.not(taken);
                let mut other = state.clone();
                if state.assume(&mut self.terms, taken) {
                    all.push((*yes, state));
                }
                if other.assume(&mut self.terms, not_taken) {
                    all.push((*no, other));
                }
            }
            Terminator::Switch(operand, default, cases) => {
                let Some(value) = condition(self, &mut state, operand) else { return Ok(all) };
                // Which values there are is often known: no other case can be taken then.
                let possible = self.cases(&state, value);
                let width = self.terms.width(value);
                let mut rest = possible.clone();
                for (number, to) in cases {
                    let here = match &possible {
                        Some(possible) => {
                            if let Some(rest) = &mut rest {
                                rest.retain(|(_, other)| other != number);
                            }
                            let found = possible.iter().find(|(_, other)| other == number);
                            found.map_or_else(|| self.terms.truth(false), |(condition, _)| *condition)
                        }
                        None => {
                            let number = self.terms.number(*number, width);
                            self.terms.equal(value, number)
                        }
                    };
                    let mut taken = state.clone();
                    if taken.assume(&mut self.terms, here) {
                        all.push((*to, taken));
                    }
                    let elsewhere = self.terms.not(here);
                    if !state.assume(&mut self.terms, elsewhere) {
                        return Ok(all);
                    }
                }
                if rest.is_none_or(|rest| !rest.is_empty()) {
                    all.push((*default, state));
                }
            }
            Terminator::Unreachable => {
                let reason = "this is reached, although the compiler takes it to be unreachable";
                self.unknown(&mut state, reason, place, frame.function);
            }
            Terminator::Unsupported(what) => {
                self.unknown(&mut state, &format!("`{what}` is not supported"), place, frame.function);
            }
            Terminator::Return(_) => {}
        }
        Ok(all)
    }

    fn phi_values(&mut self, frame: &Frame, from: BlockId, to: BlockId) -> Result<Vec<Value>, String> {
        let module = self.module;
        let phis = &module.function(frame.function).blocks[to.0 as usize].phis;
        phis.iter()
            .map(|phi| {
                let (_, operand) = phi
                    .incoming
                    .iter()
                    .find(|(block, _)| *block == from)
                    .ok_or("a phi without a value for an edge")?;
                self.operand(frame, operand)
            })
            .collect()
    }

    /// The value of an operand; the error says what is not supported.
    pub(crate) fn operand(&mut self, frame: &Frame, operand: &Operand) -> Result<Value, String> {
        match operand {
            Operand::Local(id) => {
                frame.values[id.0 as usize].clone().ok_or_else(|| "a value that was never made".to_owned())
            }
            Operand::Constant(constant) => self.constant(constant),
        }
    }

    pub(crate) fn scalar(&mut self, frame: &Frame, operand: &Operand) -> Result<Term, String> {
        match self.operand(frame, operand)? {
            Value::Scalar(term) => Ok(term),
            Value::Members(_) => Err("a structure where a number is expected".into()),
        }
    }

    fn constant(&mut self, constant: &Constant) -> Result<Value, String> {
        let term = match constant {
            Constant::Int { bits, value } | Constant::Float { bits, value } => {
                self.terms.number(*value, *bits as u8)
            }
            Constant::Null => self.terms.number(0, 64),
            Constant::Zero(ty) => return value::build(ty, &mut |bits| self.terms.number(0, bits)),
            Constant::Undefined(ty) => {
                return value::build(ty, &mut |bits| self.terms.symbol("undefined", bits));
            }
            Constant::Global(id, distance) => {
                let object = self.global(*id);
                let address = self.objects.get(object).address.wrapping_add_signed(*distance);
                self.terms.number(address, 64)
            }
            Constant::Function(function) => self.terms.number(function_address(*function), 64),
            Constant::Aggregate(_, members) => {
                let members = members.iter().map(|member| self.constant(member));
                return Ok(Value::Members(members.collect::<Result<_, _>>()?));
            }
            Constant::Unsupported(what) => return Err(format!("{what} is not supported")),
        };
        Ok(Value::Scalar(term))
    }

    /// The function at an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<FunctionId> {
        let distance = address.checked_sub(FUNCTION_BASE)?;
        let index = distance / FUNCTION_STEP;
        (distance % FUNCTION_STEP == 0 && index < self.module.functions.len() as u64)
            .then_some(FunctionId(index as u32))
    }

    /// Functions whose address is used other than to call them, with so many parameters.
    pub(crate) fn address_taken(&self, parameters: usize) -> Vec<FunctionId> {
        let mut found = FxHashSet::default();
        let mut note = |constant: &Constant| {
            if let Constant::Function(function) = constant {
                found.insert(*function);
            }
        };
        for global in &self.module.globals {
            for (_, piece) in global.initial.iter().flatten() {
                if let Initial::Address(constant) = piece {
                    note(constant);
                }
            }
        }
        for function in &self.module.functions {
            for operand in function.blocks.iter().flat_map(Block::operands) {
                if let Operand::Constant(constant) = operand {
                    note(constant);
                }
            }
        }
        let mut found: Vec<FunctionId> =
            found.into_iter().filter(|id| self.module.function(*id).parameters.len() == parameters).collect();
        found.sort();
        found
    }

    /// The address of a function.
    pub(crate) fn function_term(&mut self, function: FunctionId) -> Term {
        self.terms.number(function_address(function), 64)
    }

    /// A value that is not known because something is not modelled. It matters only where it is used.
    pub(crate) fn imprecise(&mut self, bits: u8, why: &str) -> Term {
        let symbol = self.terms.symbol("not modelled", bits);
        self.imprecise.insert(symbol, why.into());
        symbol
    }

    /// Why a term depends on something that is not modelled, if it does.
    pub(crate) fn why_imprecise(&mut self, term: Term) -> Option<Rc<str>> {
        if self.imprecise.is_empty() {
            return None;
        }
        let mut stack = vec![term];
        while let Some(&top) = stack.last() {
            if self.checked.contains_key(&top) {
                stack.pop();
                continue;
            }
            let own = self.imprecise.get(&top).cloned();
            let operands: Vec<Term> = self.terms.operands(top).collect();
            let open: Vec<Term> =
                operands.iter().copied().filter(|t| !self.checked.contains_key(t)).collect();
            if open.is_empty() {
                let inherited = operands.iter().find_map(|t| self.checked[t].clone());
                self.checked.insert(top, own.or(inherited));
                stack.pop();
            } else {
                stack.extend(open);
            }
        }
        self.checked[&term].clone()
    }

    /// A fresh symbol for what an event reads.
    pub(crate) fn read_symbol(&mut self, bits: u8) -> Term {
        let symbol = self.terms.symbol("read", bits);
        self.readers.insert(symbol, self.who);
        symbol
    }

    /// Whether a term uses something that another thread read.
    pub(crate) fn is_foreign(&self, term: Term) -> bool {
        let mut seen = FxHashSet::default();
        let mut stack = vec![term];
        while let Some(term) = stack.pop() {
            if !seen.insert(term) {
                continue;
            }
            if matches!(self.terms.node(term), Node::Symbol(_))
                && self.readers.get(&term).is_some_and(|reader| *reader != self.who)
            {
                return true;
            }
            stack.extend(self.terms.operands(term));
        }
        false
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

    /// Adds an event to who is executing. Ends the path if it depends on what is not modelled.
    pub(crate) fn emit(
        &mut self,
        state: &mut State,
        action: Action,
        place: &Place,
        function: FunctionId,
    ) -> Flow<()> {
        let used: Vec<Term> = match &action {
            Action::Load { address, .. } | Action::Flush { address } | Action::FlushOpt { address } => {
                vec![*address]
            }
            Action::Store { address, value, .. } => vec![*address, *value],
            Action::Rmw { address, new, stores, .. } => vec![*address, *new, *stores],
            Action::Assert { condition, .. } => vec![*condition],
            _ => Vec::new(),
        };
        if let Some(why) = used.into_iter().find_map(|term| self.why_imprecise(term)) {
            self.unknown(state, &why, place, function);
            return Err(Stop::Dead);
        }
        if let Action::Assert { condition, .. } = &action
            && state.known(&self.terms, *condition) == Some(true)
        {
            return Ok(());
        }
        if self.events >= self.options.events && !matches!(action, Action::Unknown { .. }) {
            let reason = format!("there are more than {} events (--max-events)", self.options.events);
            self.unknown(state, &reason, place, function);
            return Err(Stop::Dead);
        }
        let guard = state.guard(&mut self.terms);
        let (place, function) = self.reported(place, function);
        let is_assertion = matches!(action, Action::Assert { .. });
        let site = self.site(&place, function, is_assertion);
        self.events += 1;
        let event = Event { guard, action, site };
        match self.who {
            Who::Thread(thread) => self.threads[thread as usize].events.push(event),
            Who::Recovery => self.recovery.events.push(event),
        }
        Ok(())
    }

    /// Ends a path: what happens from here on is not known.
    pub(crate) fn unknown(&mut self, state: &mut State, reason: &str, place: &Place, function: FunctionId) {
        let action = Action::Unknown { reason: reason.to_owned() };
        let emitted = self.emit(state, action, place, function);
        debug_assert!(emitted.is_ok(), "this action uses no terms");
    }

    /// What is done by `crashproof.h` or a model is done by who calls it.
    fn reported(&self, place: &Place, function: FunctionId) -> (Place, FunctionId) {
        let ours =
            |place: &Place| place.file.ends_with("/crashproof.h") || place.file.starts_with(MODEL_DIRECTORY);
        if !ours(place) {
            return (place.clone(), function);
        }
        let outside = self.calls.iter().rev().find(|(place, _)| !ours(place));
        outside.cloned().unwrap_or_else(|| (place.clone(), function))
    }

    fn site(&mut self, place: &Place, function: FunctionId, assertion: bool) -> SiteId {
        if let Some(known) = self.known_sites.get(&(place.clone(), function, assertion)) {
            return *known;
        }
        let text = self.source_line(place);
        let site = Site {
            file: place.file.to_string(),
            function: self.module.function(function).name.clone(),
            line: place.line,
            column: place.column,
            text,
        };
        let id = SiteId(self.sites.len() as u32);
        self.sites.push(site);
        self.known_sites.insert((place.clone(), function, assertion), id);
        id
    }

    fn source_line(&mut self, place: &Place) -> String {
        let lines = self.sources.entry(place.file.clone()).or_insert_with(|| {
            let text = std::fs::read_to_string(&*place.file).unwrap_or_default();
            text.lines().map(|line| line.trim().to_owned()).collect()
        });
        (place.line as usize).checked_sub(1).and_then(|index| lines.get(index)).cloned().unwrap_or_default()
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
        let objects = self
            .objects
            .ids()
            .filter(|id| self.objects.is_exposed(*id) || self.objects.is_concurrent(*id))
            .map(|id| {
                let object = self.objects.get(id);
                program::Object {
                    name: object.name.clone(),
                    address: object.address,
                    initial: object.first_content(),
                    persistent: object.persistent,
                    fields: object.fields.clone(),
                }
            })
            .collect();
        let assumptions = placement::assumption(self.module).into_iter().collect();
        Ok(Program {
            assumptions,
            terms: self.terms,
            objects,
            threads: self.threads,
            recovery: Some(self.recovery),
            sites: self.sites,
            bounds: self.bounds.into_iter().map(|(what, value)| Bound { what, value }).collect(),
        })
    }

    /// A new thread.
    pub(crate) fn add_thread(&mut self, name: String) -> ThreadId {
        self.threads.push(Thread { name, created: true, ..Thread::default() });
        ThreadId(self.threads.len() - 1)
    }

    /// Memory for a thread that is started with a copy of another's.
    pub(crate) fn thread_memory(&mut self, mut memory: Memory) -> Memory {
        for index in 0..self.module.globals.len() as u32 {
            if self.module.global(GlobalId(index)).thread_local {
                let object = self.global(GlobalId(index));
                if !self.objects.is_exposed(object) {
                    self.add_object(&mut memory, object);
                }
            }
        }
        memory
    }
}

fn function_address(function: FunctionId) -> u64 {
    FUNCTION_BASE + u64::from(function.0) * FUNCTION_STEP
}
