//! The machine's steps.
//!
//! # What is chosen, and what need not be
//!
//! A step of the search is a choice visible to other threads or a crash: a load or a locked instruction runs, or a
//! buffered store reaches the cache. Everything else happens as early as possible, because delaying it shows nothing
//! new:
//!
//! - Issuing a store, flush or fence touches only the thread's own buffer, and makes more possible.
//! - Loading a location that no other thread stores to gives the same value at any time.
//! - A flush only excludes outcomes: the earlier it takes effect, the fewer stores it covers.
//! - A store to a line that is closed (see below), to a location that is never loaded again, changes nothing visible.
//!
//! # Write-backs
//!
//! Only the last write-back of a line before the crash matters. It may come at any time; so just before a store reaches
//! the cache, the search may decide that the line has been written back for the last time. The line is then *closed*:
//! its content in persistent memory is final, and a flush of it can never take effect, as that would write it back
//! again; the thread waits at that flush for the crash. A line that is not closed counts as written back at the crash.
//! A line with a persistent cache (px86's [`px86::Domain`]) is never closed.
//!
//! Hence the outcome of crashing in a state is what its closed lines hold and what the cache holds of the others, and a
//! crash may come in every state.
//!
//! # Losses
//!
//! For strict robustness the machine tracks, for every thread, buffered store and value, the set of stores
//! that happened before it and are not in persistent memory's future: lost because their line was closed
//! before them, or not yet cached. A survivor with a loss is a violation (PSan, Definition 2; see
//! `lib.rs`). A token is a store's number while it is not cached, and its location once it is lost.
//!
//! # Non-temporal stores
//!
//! A fence waits until the lines of earlier non-temporal stores have been written back since. Once cached,
//! such a store is like a `clflushopt` of its line: done with if the line is open, waiting for the crash if
//! it is closed.

use crate::Op;
use crate::answer::{Effect, InstructionRef, Step};
use px86::order::blocked;
use px86::{Class, Kind, Line, Platform};

use crate::exhaustive::arena::Action;
use crate::exhaustive::program::Program;
use crate::exhaustive::sets::{EMPTY, SetId, Sets};
use crate::exhaustive::state::{Cell, State, Tracking, Waiting};

pub(crate) struct Machine<'a> {
    pub(crate) program: &'a Program<'a>,
    pub(crate) tracking: Tracking,
    /// For each line: is its cache lost, so that its content is that of its last write-back?
    closable: Vec<bool>,
    pub(crate) sets: Sets,
    /// Keep the numbers of lost stores instead of their locations: to name them, in a replay.
    pub(crate) exact: bool,
    /// When replaying: what took effect, in order.
    pub(crate) record: Option<Vec<Step>>,
}

/// What is left of a non-temporal store in the buffer once it is cached: the write-back it has begun.
const CACHED_NON_TEMPORAL: Class = match Kind::NonTemporalStore.write_back() {
    Some(write_back) => write_back.class(),
    None => panic!("a non-temporal store writes its line back"),
};

/// The token of a location that lost a store. Tokens of stores are instruction numbers.
pub(crate) fn lost_location(program: &Program, location: usize) -> u32 {
    program.instructions + location as u32
}

impl<'a> Machine<'a> {
    pub(crate) fn new(program: &'a Program<'a>, tracking: Tracking, platform: &Platform) -> Machine<'a> {
        let closable = (0..program.lines as u64).map(|line| !platform.cache_survives(Line(line))).collect();
        Machine { program, tracking, closable, sets: Sets::new(), exact: false, record: None }
    }

    fn tracks_losses(&self) -> bool {
        self.tracking == Tracking::Losses
    }

    fn note(&mut self, thread: usize, index: u16, effect: Effect) {
        if let Some(steps) = &mut self.record {
            let instruction = InstructionRef { thread, index: usize::from(index) };
            steps.push(Step { instruction, effect });
        }
    }

    /// The state before anything happened, settled.
    pub(crate) fn initial(&mut self, memory: &[i64]) -> State {
        let mut state = State::initial(self.program, memory);
        self.settle(&mut state);
        state
    }

    /// All choices in a settled state.
    pub(crate) fn actions(&self, state: &State, out: &mut Vec<Action>) {
        out.clear();
        for (thread, at) in state.threads.iter().enumerate() {
            let mut push = |entry: Option<u16>, location: Option<usize>| {
                let action = Action { thread: thread as u8, entry, closes: false };
                out.push(action);
                let line = location.map(|location| self.program.line_of[location]);
                if line.is_some_and(|line| self.closable[line] && !state.closed[line]) {
                    out.push(Action { closes: true, ..action });
                }
            };
            for entry in 0..at.buffer.len() {
                let op = self.program.op(thread, usize::from(at.buffer[entry].index));
                if op.may_store() && !at.buffer[entry].cached && self.may_leave(state, thread, entry) {
                    push(Some(entry as u16), op.location().map(|at| usize::from(at.0)));
                }
            }
            let Some(next) = self.program.threads[thread].code.instructions.get(usize::from(at.pc)) else {
                continue;
            };
            match &next.op {
                Op::Load(..) => push(None, None),
                Op::Rmw(_, location, rmw) if at.buffer.is_empty() => {
                    let location = usize::from(location.0);
                    let stores = rmw.store(state.cache[location].value, &at.registers).is_some();
                    push(None, stores.then_some(location));
                }
                _ => {}
            }
        }
    }

    /// Makes a choice, and performs everything that follows automatically.
    pub(crate) fn act(&mut self, state: &mut State, action: Action) {
        let thread = usize::from(action.thread);
        match action.entry {
            Some(entry) => {
                self.leave(state, thread, usize::from(entry), action.closes);
            }
            None => {
                let pc = state.threads[thread].pc;
                match self.program.op(thread, usize::from(pc)) {
                    Op::Load(..) => self.load(state, thread),
                    _ => self.exchange(state, thread, action.closes),
                }
            }
        }
        self.settle(state);
    }

    /// A buffered entry may take effect once nothing older that must precede it is left.
    fn may_leave(&self, state: &State, thread: usize, entry: usize) -> bool {
        let buffer = &state.threads[thread].buffer;
        let key = |waiting: &Waiting| match self.program.order_key(thread, usize::from(waiting.index)) {
            (_, line) if waiting.cached => (CACHED_NON_TEMPORAL, line),
            key => key,
        };
        !blocked(buffer[..entry].iter().map(key), key(&buffer[entry]))
    }

    fn load(&mut self, state: &mut State, thread: usize) {
        let at = &mut state.threads[thread];
        let Op::Load(register, location) = self.program.op(thread, usize::from(at.pc)) else {
            unreachable!("only loads are loaded");
        };
        let stored_here = |waiting: &&Waiting| {
            let op = self.program.op(thread, usize::from(waiting.index));
            op.may_store() && op.location() == Some(*location) && !waiting.cached
        };
        let (value, losses, effect) = match at.buffer.iter().rev().find(stored_here) {
            Some(waiting) => (waiting.value, waiting.losses, Effect::Forwarded(waiting.value)),
            None => {
                let cell = state.cache[usize::from(location.0)];
                (cell.value, cell.losses, Effect::Read(cell.value))
            }
        };
        at.registers[usize::from(register.0)] = value;
        let pc = at.pc;
        at.pc += 1;
        at.losses = self.sets.union(at.losses, losses);
        self.note(thread, pc, effect);
    }

    /// A locked instruction: the buffer is empty, so it acts on the cache in one step.
    fn exchange(&mut self, state: &mut State, thread: usize, closes: bool) {
        let at = &mut state.threads[thread];
        let pc = at.pc;
        let Op::Rmw(register, location, rmw) = self.program.op(thread, usize::from(pc)) else {
            unreachable!("only locked instructions exchange");
        };
        let old = state.cache[usize::from(location.0)];
        let new = rmw.store(old.value, &at.registers);
        at.losses = self.sets.union(at.losses, old.losses);
        if let Some(register) = register {
            at.registers[usize::from(register.0)] = old.value;
        }
        at.pc += 1;
        self.note(thread, pc, Effect::Exchanged(old.value, new));
        if let Some(value) = new {
            let losses = self.issue_losses(state, thread, pc);
            self.cache(state, thread, Waiting { index: pc, value, losses, cached: false }, closes);
        }
    }

    /// The losses of a store about to be issued, itself included: it is not cached yet.
    fn issue_losses(&mut self, state: &mut State, thread: usize, index: u16) -> SetId {
        if !self.tracks_losses() {
            return EMPTY;
        }
        let location = self.stored_location(thread, index);
        let token = if state.closed[self.program.line_of[location]] && !self.exact {
            lost_location(self.program, location)
        } else {
            self.store_number(thread, index)
        };
        let at = &mut state.threads[thread];
        at.losses = self.sets.insert(at.losses, token);
        at.losses
    }

    fn store_number(&self, thread: usize, index: u16) -> u32 {
        self.program.threads[thread].first + u32::from(index)
    }

    fn stored_location(&self, thread: usize, index: u16) -> usize {
        let op = self.program.op(thread, usize::from(index));
        usize::from(op.location().expect("a store names its location").0)
    }

    /// A buffered store leaves for the cache.
    fn leave(&mut self, state: &mut State, thread: usize, entry: usize, closes: bool) {
        let waiting = state.threads[thread].buffer[entry];
        self.note(thread, waiting.index, Effect::Cached(waiting.value));
        self.cache(state, thread, waiting, closes);
        let closed = state.closed[self.program.line_of[self.stored_location(thread, waiting.index)]];
        let op = self.program.op(thread, usize::from(waiting.index));
        if closed && matches!(op, Op::NonTemporal(..)) {
            let stuck = Waiting { value: 0, losses: EMPTY, cached: true, ..waiting };
            state.threads[thread].buffer[entry] = stuck;
        } else {
            state.threads[thread].buffer.remove(entry);
        }
    }

    /// A store reaches the cache; if `closes`, its line was written back for the last time just before.
    fn cache(&mut self, state: &mut State, thread: usize, waiting: Waiting, closes: bool) {
        let location = self.stored_location(thread, waiting.index);
        let line = self.program.line_of[location];
        let number = self.store_number(thread, waiting.index);
        let mut cell = Cell { value: waiting.value, writer: number + 1, losses: waiting.losses };
        if closes {
            state.closed[line] = true;
            for &location in &self.program.on_line[line] {
                state.kept[location] = state.cache[location];
            }
        }
        if self.tracks_losses() {
            let program = self.program;
            // If the line is closed, every store to it that is not cached yet, this one included, is lost; otherwise
            // this store is no longer a loss.
            let rename = |token: u32| match stored_by_number(program, token) {
                Some(_) if token == number && !state.closed[line] => None,
                Some(at) if program.line_of[at] == line && state.closed[line] && !self.exact => {
                    Some(lost_location(program, at))
                }
                _ => Some(token),
            };
            cell.losses = self.sets.map(cell.losses, rename);
            for thread in &mut state.threads {
                thread.losses = self.sets.map(thread.losses, rename);
                for waiting in &mut thread.buffer {
                    waiting.losses = self.sets.map(waiting.losses, rename);
                }
            }
            for cell in state.cache.iter_mut().chain(&mut state.kept) {
                cell.losses = self.sets.map(cell.losses, rename);
            }
        }
        state.cache[location] = cell;
    }

    /// Lets everything happen that needs no choice, until nothing is left of the kind.
    fn settle(&mut self, state: &mut State) {
        loop {
            let mut changed = false;
            for thread in 0..state.threads.len() {
                while self.issue(state, thread) {
                    changed = true;
                }
                while self.drain_quietly(state, thread) {
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Runs the thread's next instruction if that needs no choice.
    fn issue(&mut self, state: &mut State, thread: usize) -> bool {
        let program = self.program;
        let at = &mut state.threads[thread];
        let pc = at.pc;
        let Some(instruction) = program.threads[thread].code.instructions.get(usize::from(pc)) else {
            return false;
        };
        match &instruction.op {
            Op::Assign(register, value) => {
                at.registers[usize::from(register.0)] = value.eval(&at.registers);
                at.pc += 1;
            }
            Op::Jump(target) => at.pc = *target as u16,
            Op::JumpIfZero(condition, target) => {
                at.pc = if condition.eval(&at.registers) == 0 { *target as u16 } else { pc + 1 };
            }
            // Exploring, not judging: recovery's assertions are checked where it runs undisturbed. A run
            // that fails one ends there.
            Op::Assert(condition) => {
                let end = program.threads[thread].code.instructions.len() as u16;
                at.pc = if condition.eval(&at.registers) == 0 { end } else { pc + 1 };
            }
            Op::Store(_, value) | Op::NonTemporal(_, value) => {
                let value = value.eval(&at.registers);
                at.pc += 1;
                let losses = self.issue_losses(state, thread, pc);
                state.threads[thread].buffer.push(Waiting { index: pc, value, losses, cached: false });
            }
            Op::Flush(_) | Op::FlushOpt(_) | Op::StoreFence => {
                at.pc += 1;
                at.buffer.push(Waiting { index: pc, value: 0, losses: EMPTY, cached: false });
            }
            Op::Fence if at.buffer.is_empty() => {
                at.pc += 1;
                self.note(thread, pc, Effect::Fenced);
            }
            Op::Load(register, _) => {
                let code = &program.threads[thread];
                let unused = !code.ahead[usize::from(pc) + 1].live[usize::from(register.0)];
                // An unused value still tells the thread that the store it read happened before.
                let quiet = !code.contended[usize::from(pc)] || unused && !self.tracks_losses();
                if !quiet {
                    return false;
                }
                self.load(state, thread);
            }
            Op::Fence | Op::Rmw(..) => return false,
        }
        true
    }

    /// Lets a buffered entry take effect if that needs no choice.
    fn drain_quietly(&mut self, state: &mut State, thread: usize) -> bool {
        for entry in 0..state.threads[thread].buffer.len() {
            let index = state.threads[thread].buffer[entry].index;
            let op = self.program.op(thread, usize::from(index));
            let closed = |location: usize| state.closed[self.program.line_of[location]];
            let location = op.location().map(|at| usize::from(at.0));
            let quiet = match op {
                Op::StoreFence => true,
                Op::Flush(_) | Op::FlushOpt(_) => !closed(location.expect("a flush names its location")),
                _ if state.threads[thread].buffer[entry].cached => false,
                _ => location.is_some_and(|at| closed(at) && !state.may_be_loaded(self.program, at)),
            };
            if quiet && self.may_leave(state, thread, entry) {
                if op.may_store() {
                    self.leave(state, thread, entry, false);
                } else {
                    state.threads[thread].buffer.remove(entry);
                    let effect = if matches!(op, Op::StoreFence) { Effect::Fenced } else { Effect::Flushed };
                    self.note(thread, index, effect);
                }
                return true;
            }
        }
        false
    }
}

/// The location that the instruction with this number stores to; `None` if the token is not a store.
pub(crate) fn stored_by_number(program: &Program, token: u32) -> Option<usize> {
    let thread = program.threads.iter().rev().find(|thread| thread.first <= token)?;
    let instruction = thread.code.instructions.get((token - thread.first) as usize)?;
    instruction.op.location().map(|at| usize::from(at.0))
}
