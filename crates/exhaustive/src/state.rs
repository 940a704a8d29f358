//! A state of the machine, and its canonical bytes.

use crate::program::Program;
use crate::sets::{EMPTY, SetId};

/// What a search tells apart. The less it tells apart, the fewer states it visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// Values only.
    Values,
    /// Which write left each value.
    Writers,
    /// Which lost stores happened before each value.
    Losses,
}

/// What a location holds.
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

#[derive(Clone, Debug)]
pub(crate) struct ThreadState {
    pub(crate) pc: u16,
    pub(crate) registers: Vec<i64>,
    /// Oldest first.
    pub(crate) buffer: Vec<Waiting>,
    /// Lost or not yet cached stores that happened before whatever the thread does next.
    pub(crate) losses: SetId,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) threads: Vec<ThreadState>,
    /// The cache, by location.
    pub(crate) cache: Vec<Cell>,
    /// For each line: has it been written back for the last time, although more stores followed?
    pub(crate) closed: Vec<bool>,
    /// What the locations of closed lines hold in persistent memory, for good.
    pub(crate) kept: Vec<Cell>,
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

    /// What persistent memory holds of `location` if the crash comes now: the content of its line's last
    /// write-back, which for a line not closed is now.
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

    /// Reads what [`State::encode`] wrote.
    pub(crate) fn decode(program: &Program, tracking: Tracking, bytes: &[u8]) -> State {
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
        let counters: Vec<u16> = program.threads.iter().map(|_| from.number() as u16).collect();
        let closed = (0..program.lines).map(|line| from.bytes[line / 8] >> (line % 8) & 1 == 1).collect();
        from.bytes = &from.bytes[program.lines / 8 + 1..];
        let locations = program.line_of.len();
        let mut state = State {
            threads: Vec::new(),
            cache: vec![Cell::default(); locations],
            kept: vec![Cell::default(); locations],
            closed,
        };
        let loaded = |location: usize| {
            let mut threads = counters.iter().zip(&program.threads);
            threads.any(|(&pc, code)| code.ahead[usize::from(pc)].loads[location])
        };
        for location in 0..locations {
            if state.closed[program.line_of[location]] {
                state.kept[location] = cell(&mut from);
                if loaded(location) {
                    state.cache[location] = cell(&mut from);
                }
            } else {
                state.cache[location] = cell(&mut from);
            }
        }
        for (code, &pc) in program.threads.iter().zip(&counters) {
            let registers = code.ahead[usize::from(pc)]
                .live
                .iter()
                .map(|&live| if live { from.signed() } else { 0 })
                .collect();
            let length = from.number();
            let buffer = (0..length)
                .map(|_| {
                    let index = from.number();
                    Waiting {
                        index: (index >> 1) as u16,
                        cached: index & 1 == 1,
                        value: from.signed(),
                        losses: if tracking == Tracking::Losses { from.number() as SetId } else { EMPTY },
                    }
                })
                .collect();
            let losses = if tracking == Tracking::Losses { from.number() as SetId } else { EMPTY };
            state.threads.push(ThreadState { pc, registers, buffer, losses });
        }
        state
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
