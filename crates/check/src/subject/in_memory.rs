//! A subject without a process, for tests: its recorded run is a list of records, its recovery a function.

use std::path::PathBuf;

use crashproof_protocol::steps::{Actor, Note};
use crashproof_protocol::{Patch, Record};
use px86::{Kind, LINE_BYTES, Line};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::subject::ending::{Ended, Ending};
use crate::subject::error::Error;
use crate::subject::interface::{Bytes, Subject};
use crate::subject::run::{Mode, Run};
use crate::subject::sites::Sites;
use crate::subject::trace::Trace;

/// Persistent memory as a recovery finds it.
pub(crate) struct Memory {
    lines: FxHashMap<Line, Bytes>,
    seen: FxHashSet<u64>,
    records: Vec<Record>,
}

impl Memory {
    /// Reads a word and records the first read. The address doubles as the site.
    pub(crate) fn read(&mut self, address: u64) -> u64 {
        let bytes = self.lines.get(&Line::containing(address)).copied().unwrap_or([0; LINE_BYTES as usize]);
        let start = (address % LINE_BYTES) as usize;
        let value = u64::from_le_bytes(bytes[start..start + 8].try_into().expect("eight bytes"));
        if self.seen.insert(address) {
            self.records.push(Record::new(Kind::Load as u8, address, 8, value, 0, 1));
        }
        value
    }
}

/// A simulated program.
#[derive(Clone)]
pub(crate) struct InMemory {
    recorded: Vec<Record>,
    recover: fn(&mut Memory) -> i32,
    image: FxHashMap<Line, Bytes>,
    records: Vec<Record>,
}

impl InMemory {
    pub(crate) fn new(recorded: Vec<Record>, recover: fn(&mut Memory) -> i32) -> InMemory {
        InMemory { recorded, recover, image: FxHashMap::default(), records: Vec::new() }
    }
}

impl Subject for InMemory {
    fn run(&mut self, run: &Run, patches: &[Patch]) -> Result<Ended, Error> {
        let mut ended = Ended {
            ending: Ending::Exit(0),
            threads: 1,
            switch_points: 0,
            waits_for: Vec::new(),
            repeats: false,
        };
        if run.mode != Mode::Recover {
            self.records.clone_from(&self.recorded);
            return Ok(ended);
        }
        let mut lines = self.image.clone();
        lines.extend(patches.iter().map(|patch| (Line::containing(patch.address), patch.bytes)));
        let mut memory = Memory { lines, seen: FxHashSet::default(), records: Vec::new() };
        ended.ending = Ending::Exit((self.recover)(&mut memory));
        self.records = memory.records;
        Ok(ended)
    }

    fn decide(&mut self, _: &[Actor], _: &[Note]) {}

    fn last_ending(&self) -> Option<Ending> {
        None
    }

    fn notes(&self) -> &[Note] {
        &[]
    }

    fn records(&self) -> &[Record] {
        &self.records
    }

    fn output(&mut self, _: Ending) -> String {
        String::new()
    }

    fn keep_trace(&mut self) -> Result<Trace, Error> {
        Ok(Trace::from(self.records.clone()))
    }

    fn forget_trace(&mut self) {}

    fn sites(&mut self) -> Result<Sites, Error> {
        Ok(Sites::parse("1\t0\t7\t1\tmemory.c\tmain\t\n"))
    }

    fn image_line(&self, line: Line) -> Bytes {
        self.image.get(&line).copied().unwrap_or([0; LINE_BYTES as usize])
    }

    fn image_value(&self, address: u64, width: u8) -> u64 {
        let start = (address % LINE_BYTES) as usize;
        let mut word = [0; 8];
        let width = usize::from(width);
        word[..width].copy_from_slice(&self.image_line(Line::containing(address))[start..start + width]);
        u64::from_le_bytes(word)
    }

    fn set_image(&mut self, address: u64, width: u8, value: u64) {
        let line = self.image.entry(Line::containing(address)).or_insert([0; LINE_BYTES as usize]);
        let (start, width) = ((address % LINE_BYTES) as usize, usize::from(width));
        line[start..start + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    fn rewind(&mut self) {
        self.image.clear();
    }

    fn uses_files(&self) -> bool {
        false
    }

    fn is_rebuilt(&self) -> bool {
        true
    }

    fn mapped_outside(&self) -> Option<PathBuf> {
        None
    }

    fn twin(&self) -> Result<InMemory, Error> {
        Ok(self.clone())
    }

    fn adopt_files(&mut self, _: &InMemory) {}

    fn copy_file_table(&mut self, _: &InMemory) {}

    fn pin(&mut self, _: bool) {}
}
