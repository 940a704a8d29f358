//! A state of the machine, and its canonical bytes.

use crate::exhaustive::program::Program;
use crate::exhaustive::sets::{EMPTY, SetId};

/// What a search distinguishes. The less it distinguishes, the fewer states it visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// Values only.
    Values,
    /// Which write left each value.
    Writers,
    /// Which lost stores happened before each value.
    Losses,
}

/// The content of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Cell {
    pub(crate) value: i64,
    /// 0: initial; else the storing instruction's number plus 1. Compared only if writers are tracked.
    pub(crate) writer: u32,
    /// Stores that happened before this one and are lost, or not yet cached. Only if losses are tracked.
    pub(crate) losses: SetId,
}

/// An instruction in a store buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) index: u16,
    pub(crate) value: i64,
    pub(crate) losses: SetId,
    /// A non-temporal store that reached the cache after its line was closed: no later fence completes.
    pub(crate) cached: bool,
}

#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) pc: u16,
    pub(crate) registers: Vec<i64>,
    /// Oldest first.
    pub(crate) buffer: Vec<Waiting>,
    /// Lost or not yet cached stores that happened before the thread's next action.
    pub(crate) losses: SetId,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) threads: Vec<ThreadState>,
    /// The cache, by location.
    pub(crate) cache: Vec<Cell>,
    /// For each line: has it been written back for the last time, although more stores followed?
    pub(crate) closed: Vec<bool>,
    /// What the locations of closed lines hold in persistent memory, for good.
    pub(crate) kept: Vec<Cell>,
}

/// A search copies states all the time; into a state of the same program this needs no allocation.
impl Clone for ThreadState {
    fn clone(&self) -> Self {
        ThreadState {
            pc: self.pc,
            registers: self.registers.clone(),
            buffer: self.buffer.clone(),
            losses: self.losses,
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.pc = source.pc;
        self.registers.clone_from(&source.registers);
        self.buffer.clone_from(&source.buffer);
        self.losses = source.losses;
    }
}

impl Clone for State {
    fn clone(&self) -> Self {
        State {
            threads: self.threads.clone(),
            cache: self.cache.clone(),
            closed: self.closed.clone(),
            kept: self.kept.clone(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.threads.clone_from(&source.threads);
        self.cache.clone_from(&source.cache);
        self.closed.clone_from(&source.closed);
        self.kept.clone_from(&source.kept);
    }
}

impl State {
    pub(crate) fn initial(program: &Program, memory: &[i64]) -> State {
        let cells: Vec<Cell> = memory.iter().map(|&value| Cell { value, ..Cell::default() }).collect();
        let threads = program
            .threads
            .iter()
            .map(|thread| ThreadState {
                pc: 0,
                registers: vec![0; thread.code.registers.len()],
                buffer: Vec::new(),
                losses: EMPTY,
            })
            .collect();
        State { threads, kept: cells.clone(), cache: cells, closed: vec![false; program.lines] }
    }

    /// May any thread still load `location`?
    pub(crate) fn may_be_loaded(&self, program: &Program, location: usize) -> bool {
        self.threads
            .iter()
            .zip(&program.threads)
            .any(|(thread, code)| code.ahead[usize::from(thread.pc)].loads[location])
    }

    /// The content of `location` in persistent memory if the crash comes now: that of its line's last write-back, which
    /// for an open line is now.
    pub(crate) fn survivor(&self, program: &Program, location: usize) -> Cell {
        if self.closed[program.line_of[location]] { self.kept[location] } else { self.cache[location] }
    }

    /// Appends the canonical bytes: everything that can still matter, nothing else.
    ///
    /// States that differ only in dead registers, or in cached values that nothing can read or write back
    /// any more, have equal bytes.
    pub(crate) fn encode(&self, program: &Program, tracking: Tracking, out: &mut Vec<u8>) {
        let cell = |out: &mut Vec<u8>, cell: &Cell| {
            put_signed(out, cell.value);
            match tracking {
                Tracking::Values => {}
                Tracking::Writers => put(out, u64::from(cell.writer)),
                Tracking::Losses => put(out, u64::from(cell.losses)),
            }
        };
        for thread in &self.threads {
            put(out, u64::from(thread.pc));
        }
        let mut bits = 0u8;
        for (line, &closed) in self.closed.iter().enumerate() {
            bits |= u8::from(closed) << (line % 8);
            if line % 8 == 7 {
                out.push(bits);
                bits = 0;
            }
        }
        out.push(bits);
        for location in 0..self.cache.len() {
            if self.closed[program.line_of[location]] {
                cell(out, &self.kept[location]);
                if self.may_be_loaded(program, location) {
                    cell(out, &self.cache[location]);
                }
            } else {
                cell(out, &self.cache[location]);
            }
        }
        for (thread, code) in self.threads.iter().zip(&program.threads) {
            for (&value, &live) in thread.registers.iter().zip(&code.ahead[usize::from(thread.pc)].live) {
                if live {
                    put_signed(out, value);
                }
            }
            put(out, thread.buffer.len() as u64);
            for waiting in &thread.buffer {
                put(out, u64::from(waiting.index) << 1 | u64::from(waiting.cached));
                put_signed(out, waiting.value);
                if tracking == Tracking::Losses {
                    put(out, u64::from(waiting.losses));
                }
            }
            if tracking == Tracking::Losses {
                put(out, u64::from(thread.losses));
            }
        }
    }

    /// Becomes the state that [`State::encode`] wrote; `self` is any state of the same program.
    pub(crate) fn decode_from(&mut self, program: &Program, tracking: Tracking, bytes: &[u8]) {
        let mut from = Reader { bytes };
        let cell = |from: &mut Reader| {
            let mut cell = Cell { value: from.signed(), ..Cell::default() };
            match tracking {
                Tracking::Values => {}
                Tracking::Writers => cell.writer = from.number() as u32,
                Tracking::Losses => cell.losses = from.number() as SetId,
            }
            cell
        };
        for thread in &mut self.threads {
            thread.pc = from.number() as u16;
        }
        for (line, closed) in self.closed.iter_mut().enumerate() {
            *closed = from.bytes[line / 8] >> (line % 8) & 1 == 1;
        }
        from.bytes = &from.bytes[program.lines / 8 + 1..];
        for location in 0..program.line_of.len() {
            (self.kept[location], self.cache[location]) = if !self.closed[program.line_of[location]] {
                (Cell::default(), cell(&mut from))
            } else {
                let kept = cell(&mut from);
                let loaded = self.may_be_loaded(program, location);
                (kept, if loaded { cell(&mut from) } else { Cell::default() })
            };
        }
        for (thread, code) in self.threads.iter_mut().zip(&program.threads) {
            let live = &code.ahead[usize::from(thread.pc)].live;
            for (register, &live) in thread.registers.iter_mut().zip(live) {
                *register = if live { from.signed() } else { 0 };
            }
            thread.buffer.clear();
            for _ in 0..from.number() {
                let index = from.number();
                thread.buffer.push(Waiting {
                    index: (index >> 1) as u16,
                    cached: index & 1 == 1,
                    value: from.signed(),
                    losses: if tracking == Tracking::Losses { from.number() as SetId } else { EMPTY },
                });
            }
            thread.losses = if tracking == Tracking::Losses { from.number() as SetId } else { EMPTY };
        }
    }
}

/// Seven bits a byte, low ones first.
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small magnitudes, of either sign, take one byte.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn number(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = self.bytes.split_first().expect("encoded states are whole");
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn signed(&mut self) -> i64 {
        let value = self.number();
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }
}
