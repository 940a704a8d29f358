//! Executes the first thread, the threads it starts and recovery, and makes a [`Program`] of the events.
//!
//! Each is executed on all its paths at once (see `paths.rs`). What is learned about objects along the way (see
//! `objects.rs`) may invalidate the execution so far; then it starts over with that knowledge.

use crashproof_frontend::bitcode::MODEL_DIRECTORY;
use crashproof_frontend::bitcode::ir::{
    Block, Callee, Constant, Function, FunctionId, Instruction, Module, Op, Operand, Terminator,
};
use crashproof_prove::program::{self, Action, Bound, Claims, Program, Thread};
use crashproof_prove::term::Term;
use rustc_hash::FxHashMap;

use crate::frame::At;
use crate::globals;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::{Object, ObjectId, Objects, Origin};
use crate::options::{Error, LoopName, Options};
use crate::records::{Argument, Spawn, is_claim};
use crate::state::State;
use crate::value::Value;

/// Executes until nothing new is learned.
pub(crate) fn run(module: &Module, options: &Options) -> Result<Program, Error> {
    let main = module
        .function_named("main")
        .filter(|main| !module.function(*main).blocks.is_empty())
        .ok_or(Error::NoMain)?;
    let mut objects = Objects::new();
    let mut fold = true;
    loop {
        let mut machine = Machine::new(module, options, &mut objects, &mut fold);
        machine.place_globals()?;
        match machine.everything(main) {
            Ok(()) if !machine.learn() => return machine.finish(),
            Ok(()) | Err(_) => {}
        }
    }
}

/// The recovery function, if `main` does not recover. In C++ its name is mangled unless it is declared `extern "C"`. A
/// function that merely has this name is static, or has parameters.
pub(crate) fn recovery(module: &Module) -> Option<FunctionId> {
    let is_recovery = |id: &FunctionId| {
        let function = module.function(*id);
        !function.blocks.is_empty() && function.parameters.is_empty() && !function.local
    };
    let named = ["recover", "_Z7recoverv"].into_iter().filter_map(|name| module.function_named(name));
    named.into_iter().find(is_recovery)
}

/// Does a function return anything but 0?
fn may_fail(module: &Module, function: FunctionId) -> bool {
    let is_zero = |value: &Operand| matches!(value, Operand::Constant(Constant::Int { value: 0, .. }));
    let returns = |block: &Block| match &block.terminator {
        Terminator::Return(Some(value)) => !is_zero(value),
        _ => false,
    };
    module.function(function).blocks.iter().any(returns)
}

/// Does the program's own code make any claim?
fn calls_claims(module: &Module) -> bool {
    let is_claim = |instruction: &Instruction| match &instruction.op {
        Op::Call { callee: Callee::Function(called), .. } => is_claim(&module.function(*called).name),
        _ => false,
    };
    let own = |function: &&Function| !function.place.file.starts_with(MODEL_DIRECTORY);
    let functions = module.functions.iter().filter(own);
    functions.flat_map(|function| &function.blocks).flat_map(|block| &block.instructions).any(is_claim)
}

/// Does the program make any claim? Ending with an exit code is one, if recovery is the whole program.
pub(crate) fn claims_something(module: &Module) -> bool {
    let fails = |main| recovery(module).is_none() && may_fail(module, main);
    calls_claims(module) || module.function_named("main").is_some_and(fails)
}

impl Machine<'_> {
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
        let recover = recovery(self.module);
        self.start(Who::Recovery, recover.unwrap_or(main), recover)
    }

    /// Runs `main`, or a separate `recover`, on fresh memory.
    fn start(&mut self, who: Who, function: FunctionId, recover: Option<FunctionId>) -> Flow<()> {
        self.who = who;
        let mut state = State { memory: self.fresh_memory(), ..State::default() };
        let arguments = if recover.is_some() { Vec::new() } else { self.main_arguments(&mut state) };
        // Objects created by recovery are distinct from those created before the crash.
        let context = u64::from(who == Who::Recovery) << 63;
        let called = match self.constructors(state, context) {
            Ok(state) => self.call(function, arguments, Vec::new(), state, context),
            Err(stop) => Err(stop),
        };
        match called {
            Ok((mut state, result)) => {
                let place = self.module.function(function).place.clone();
                if let (Who::Recovery, None, Some(Value::Scalar(code))) = (who, recover, result)
                    && may_fail(self.module, function)
                {
                    self.claims_reached = true;
                    let zero = self.terms.number(0, self.terms.width(code));
                    let condition = self.terms.equal(code, zero);
                    let message = "recovery ends with exit code 0".to_owned();
                    self.emit(&mut state, Action::Assert { condition, message }, &place, function)?;
                }
                match recover {
                    Some(_) => Ok(()),
                    None => match self.end_process(state, context, At { place: &place, function }) {
                        Err(Stop::Restart) => Err(Stop::Restart),
                        Ok(()) | Err(Stop::Dead) => Ok(()),
                    },
                }
            }
            Err(Stop::Dead) => Ok(()),
            Err(Stop::Restart) => Err(Stop::Restart),
        }
    }

    /// What the program claims, whether or not it can be false.
    fn claims(&self) -> Claims {
        match (self.claims_reached, calls_claims(self.module)) {
            (true, _) => Claims::Reached,
            (false, true) => Claims::NotReached,
            (false, false) => Claims::None,
        }
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
            initial: initial.clone(),
            ..Object::zeroed("argv", initial.len() as u64)
        });
        self.add_object(&mut state.memory, object);
        self.objects.get(object).address
    }

    /// Executes a thread that was started.
    fn run_spawned(&mut self, spawn: Spawn) -> Flow<()> {
        self.who = Who::Thread(spawn.thread);
        self.several = true;
        let memory = self.thread_memory(spawn.memory);
        let mut state = State { memory, ..State::default() };
        let at = At { place: &spawn.place, function: spawn.function };
        let argument = match spawn.argument {
            Argument::Known(number) => self.terms.number(number, 64),
            Argument::Handed(address) => {
                let address = self.terms.number(address, 64);
                self.load_scalar(&mut state, address, 64, at)?
            }
        };
        let arguments = vec![Value::Scalar(argument)];
        match self.call(spawn.function, arguments, Vec::new(), state, spawn.thread.into()) {
            Ok((mut state, result)) => {
                self.note_end(spawn.thread, &state.path)?;
                if let Some(Value::Scalar(result)) = result {
                    match self.hand_over_result(&mut state, result, at) {
                        Ok(()) | Err(Stop::Dead) => {}
                        Err(Stop::Restart) => return Err(Stop::Restart),
                    }
                }
                match self.hand_over_end(&mut state, at) {
                    Ok(()) | Err(Stop::Dead) => Ok(()),
                    Err(Stop::Restart) => Err(Stop::Restart),
                }
            }
            Err(Stop::Dead) => {
                let never = self.terms.truth(false);
                self.note_end(spawn.thread, &[never])
            }
            Err(Stop::Restart) => Err(Stop::Restart),
        }
    }

    /// Records the conditions under which a thread ends. If there are any, joins must check them.
    fn note_end(&mut self, thread: u32, conditions: &[Term]) -> Flow<()> {
        let asks = !conditions.is_empty() && self.joined.contains(&thread);
        if asks && self.objects.may_not_end.insert(thread) { Err(Stop::Restart) } else { Ok(()) }
    }

    /// Records which objects several threads use; returns whether that is new.
    fn learn(&mut self) -> bool {
        let mut news = false;
        for (object, used) in std::mem::take(&mut self.uses) {
            if used.is_shared(self.started_by_first) {
                news |= self.objects.make_concurrent(object);
            }
        }
        // Initial pointers in an exposed object make their targets reachable.
        let targets: Vec<ObjectId> = self
            .objects
            .ids()
            .filter(|id| self.objects.is_exposed(*id))
            .flat_map(|id| {
                let word =
                    |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
                let words: Vec<u64> = self.objects.get(id).initial.chunks(8).map(word).collect();
                words.into_iter().filter_map(|word| self.objects.near(word)).collect::<Vec<_>>()
            })
            .collect();
        for target in targets {
            news |= self.objects.expose(target);
        }
        news
    }

    fn finish(self) -> Result<Program, Error> {
        self.check_loop_bounds()?;
        let objects = self.visible_objects();
        let assumed = self.assumed.iter().map(|assumption| (*assumption).to_owned());
        let claims = self.claims();
        let assumptions = globals::assumption(self.module).into_iter().chain(assumed).collect();
        Ok(Program {
            domains: Vec::new(),
            claims,
            recovery_claims: self.recovery_claims,
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

    /// Every bound given for a loop must name one.
    fn check_loop_bounds(&self) -> Result<(), Error> {
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
        Ok(())
    }

    /// The objects that events may concern.
    fn visible_objects(&self) -> Vec<program::Object> {
        let seen: Vec<ObjectId> = self
            .objects
            .ids()
            .filter(|id| self.objects.is_exposed(*id) || self.objects.is_concurrent(*id))
            .collect();
        // Objects created at one place are distinguished by numbers.
        let mut namesakes: FxHashMap<&str, (usize, usize)> = FxHashMap::default();
        for id in &seen {
            namesakes.entry(&self.objects.get(*id).name).or_default().0 += 1;
        }
        seen.iter()
            .map(|id| {
                let object = self.objects.get(*id);
                let (all, number) = namesakes.entry(&object.name).or_default();
                *number += 1;
                let name = if *all > 1 { format!("{} #{number}", object.name) } else { object.name.clone() };
                program::Object {
                    name,
                    address: object.address,
                    initial: object.first_content(),
                    persistent: object.persistent,
                    internal: object.internal,
                    fields: object.fields.clone(),
                }
            })
            .collect()
    }
}
