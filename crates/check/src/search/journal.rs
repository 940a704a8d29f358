//! What recoveries did, saved to a file: for interrupted checks, and for merging shards.
//!
//! Recovery is a function of what it reads, so a recovery that has been run never needs to run again in any check of
//! the same program with the same options. All other results of a check follow from its recoveries and are recomputed:
//! a check that reads a journal produces the report of an uninterrupted check.
//!
//! The file grows by frames: blocks of records, each stored once however many recoveries share it, and recoveries
//! composed of them. An incomplete frame marks the end. Recoveries with threads are left out, since they also depend on
//! their schedule; they are run again.

use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crashproof_protocol::Record;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::subject::Ending;

/// The file name of a journal within its directory.
pub(crate) const FILE: &str = "recoveries";
/// The header of a journal.
const MAGIC: &[u8; 16] = b"crashproof\0\0\0\0\0\x01";
/// How long a recovery may remain unwritten.
const FLUSHED_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of records per block, and on average one in how many ends a block.
const LONGEST: usize = 256;
const USUAL: u64 = 64;
/// Bytes of a record.
const RECORD: usize = 24;
/// Frames larger than this were certainly not written by this program.
const LARGEST: usize = 1 << 28;

const BLOCK: u8 = 1;
const RECOVERY: u8 = 2;

/// A recovery that was run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Journaled {
    pub(crate) records: Vec<Record>,
    pub(crate) ending: Ending,
    pub(crate) output: String,
    /// If it did not end: the addresses it read over and over.
    pub(crate) waits_for: Vec<u64>,
}

/// A journal being written.
pub(crate) struct Journal(Mutex<Writer>);

struct Writer {
    file: BufWriter<File>,
    /// Blocks in the file, by content hash.
    blocks: FxHashMap<u128, u32>,
    /// Recoveries in the file.
    known: FxHashSet<u128>,
    last: Last,
    flushed: Instant,
    /// The first error.
    failed: Option<io::Error>,
}

/// The last recovery written: most of the next one is the same, and comparing takes less than hashing.
#[derive(Default)]
struct Last {
    records: Vec<Record>,
    /// Its blocks: number, and range of records.
    blocks: Vec<(u32, Range<usize>)>,
    /// The index in `blocks` of each of them.
    at: FxHashMap<u32, usize>,
}

impl Last {
    /// The block with this index, if `rest` begins with it and is cut there.
    fn guess(&self, index: usize, rest: &[Record]) -> Option<(u32, usize)> {
        let (number, range) = self.blocks.get(index)?;
        let length = range.len();
        let same = rest.get(..length)? == &self.records[range.clone()];
        let is_cut = rest.len() == length || length == LONGEST || ends_block(&rest[length - 1]);
        (same && is_cut).then_some((*number, length))
    }

    fn replace(&mut self, records: &[Record], blocks: Vec<(u32, Range<usize>)>) {
        self.records.clear();
        self.records.extend_from_slice(records);
        self.at.clear();
        self.at.extend(blocks.iter().enumerate().map(|(index, (number, _))| (*number, index)));
        self.blocks = blocks;
    }
}

impl Journal {
    /// Continues a directory's journal, or creates one; `each` gets every recovery in it.
    pub(crate) fn open(directory: &Path, mut each: impl FnMut(Journaled)) -> io::Result<Journal> {
        let path = directory.join(FILE);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let (mut blocks, mut known) = (FxHashMap::default(), FxHashSet::default());
        let mut end = 0;
        if file.metadata()?.len() >= MAGIC.len() as u64 {
            let block = |hash| {
                blocks.insert(hash, blocks.len() as u32);
            };
            end = scan(&file, block, |recovery, key| {
                known.insert(key);
                each(recovery);
            })?;
        }
        if end == 0 {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(MAGIC)?;
        } else {
            // Removes an incomplete frame.
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?;
        }
        let file = BufWriter::with_capacity(1 << 20, file);
        let (last, flushed) = (Last::default(), Instant::now());
        Ok(Journal(Mutex::new(Writer { file, blocks, known, last, flushed, failed: None })))
    }

    /// Adds a recovery, if it is not there yet.
    pub(crate) fn add(&self, records: &[Record], ending: Ending, output: &str, waits_for: &[u64]) {
        let writer = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.failed.is_some() {
            return;
        }
        if let Err(error) = writer.add(records, ending, output, waits_for) {
            writer.failed = Some(error);
        }
    }

    /// Writes everything out; fails if anything could not be written.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let writer = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = writer.failed.take() {
            return Err(error);
        }
        writer.file.flush()?;
        writer.file.get_ref().sync_data()
    }
}

impl Writer {
    fn add(&mut self, records: &[Record], ending: Ending, output: &str, waits_for: &[u64]) -> io::Result<()> {
        let mut payload = vec![RECOVERY];
        let (kind, code) = match ending {
            Ending::Exit(code) => (0, code),
            Ending::Signal(signal) => (1, signal),
            Ending::Corrupted => (2, 0),
            // With another limit it may end differently.
            Ending::Limit(_) => return Ok(()),
        };
        payload.push(kind);
        payload.extend(code.to_le_bytes());
        payload.extend((waits_for.len() as u32).to_le_bytes());
        waits_for.iter().for_each(|address| payload.extend(address.to_le_bytes()));
        payload.extend((output.len() as u32).to_le_bytes());
        payload.extend(output.as_bytes());
        let numbers_at = payload.len();
        for number in self.add_blocks(records)? {
            payload.extend(number.to_le_bytes());
        }
        if !self.known.insert(key(&payload[numbers_at..], ending)) {
            return Ok(());
        }
        self.frame(&payload)?;
        if self.flushed.elapsed() >= FLUSHED_EVERY {
            self.file.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Writes the blocks that are not in the file yet; returns the numbers of all, in order.
    fn add_blocks(&mut self, records: &[Record]) -> io::Result<Vec<u32>> {
        let mut blocks: Vec<(u32, Range<usize>)> = Vec::with_capacity(records.len() / USUAL as usize + 1);
        let (mut from, mut next) = (0, Some(0));
        while from < records.len() {
            let rest = &records[from..];
            let (number, length) = match next.and_then(|next| self.last.guess(next, rest)) {
                Some(guessed) => guessed,
                None => self.add_block(rest)?,
            };
            next = self.last.at.get(&number).map(|index| index + 1);
            blocks.push((number, from..from + length));
            from += length;
        }
        let numbers = blocks.iter().map(|(number, _)| *number).collect();
        self.last.replace(records, blocks);
        Ok(numbers)
    }

    /// Writes the block that records begin with, if it is not in the file yet; returns its number and length.
    fn add_block(&mut self, records: &[Record]) -> io::Result<(u32, usize)> {
        let block = first_block(records);
        let mut bytes = Vec::with_capacity(1 + block.len() * RECORD);
        bytes.push(BLOCK);
        block.iter().for_each(|record| bytes.extend_from_slice(&packed(record)));
        let fresh = self.blocks.len() as u32;
        let number = *self.blocks.entry(two_hashes(&bytes[1..])).or_insert(fresh);
        if number == fresh {
            self.frame(&bytes)?;
        }
        Ok((number, block.len()))
    }

    fn frame(&mut self, payload: &[u8]) -> io::Result<()> {
        self.file.write_all(&(payload.len() as u32).to_le_bytes())?;
        self.file.write_all(&(two_hashes(payload) as u64).to_le_bytes())?;
        self.file.write_all(payload)
    }
}

/// Reads a journal that is not being written.
pub(crate) fn read(directory: &Path, each: impl FnMut(Journaled)) -> io::Result<()> {
    let file = File::open(directory.join(FILE))?;
    let mut each = each;
    match scan(&file, |_| {}, |recovery, _| each(recovery))? {
        0 => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no journal of recoveries")),
        _ => Ok(()),
    }
}

/// Scans a journal; returns the end of the last complete frame, or 0 if it is not a journal.
fn scan(file: &File, mut block: impl FnMut(u128), mut each: impl FnMut(Journaled, u128)) -> io::Result<u64> {
    let mut input = BufReader::with_capacity(1 << 20, file);
    input.rewind()?;
    let mut magic = [0; MAGIC.len()];
    if input.read_exact(&mut magic).is_err() || magic != *MAGIC {
        return Ok(0);
    }
    let mut end = MAGIC.len() as u64;
    let mut contents = Contents::default();
    let mut payload = Vec::new();
    let mut head = [0; 12];
    while input.read_exact(&mut head).is_ok() {
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
        let hash = u64::from_le_bytes(head[4..].try_into().expect("eight bytes"));
        if length == 0 || length > LARGEST {
            break;
        }
        payload.resize(length, 0);
        if input.read_exact(&mut payload).is_err() || two_hashes(&payload) as u64 != hash {
            break;
        }
        match contents.take(&payload) {
            Some(Taken::Block) => block(two_hashes(&payload[1..])),
            Some(Taken::Recovery(recovery, key)) => each(recovery, key),
            None => break,
        }
        end += (head.len() + length) as u64;
    }
    Ok(end)
}

/// What a frame holds.
enum Taken {
    Block,
    /// With its key.
    Recovery(Journaled, u128),
}

/// The blocks of the frames read so far.
#[derive(Default)]
struct Contents {
    blocks: Vec<Box<[Record]>>,
}

impl Contents {
    /// Takes the next frame; `None` if this program did not write it.
    fn take(&mut self, payload: &[u8]) -> Option<Taken> {
        match payload.split_first()? {
            (&BLOCK, records) if records.len().is_multiple_of(RECORD) => {
                self.blocks.push(records.as_chunks::<RECORD>().0.iter().map(unpacked).collect());
                Some(Taken::Block)
            }
            (&RECOVERY, rest) => {
                recovery(rest, &self.blocks).map(|(recovery, key)| Taken::Recovery(recovery, key))
            }
            _ => None,
        }
    }
}

/// How many of these frames of a journal are recoveries, up to the first that is malformed. For fuzzing: it would not
/// find its way through the frames' hashes.
pub fn recoveries_among<'f>(frames: impl IntoIterator<Item = &'f [u8]>) -> usize {
    let mut contents = Contents::default();
    let taken = frames.into_iter().map_while(|frame| contents.take(frame));
    taken.filter(|taken| matches!(taken, Taken::Recovery(..))).count()
}

/// A recovery, and its key.
fn recovery(payload: &[u8], blocks: &[Box<[Record]>]) -> Option<(Journaled, u128)> {
    let mut rest = payload;
    let mut take = |bytes: usize| {
        let (first, after) = rest.split_at_checked(bytes)?;
        rest = after;
        Some(first)
    };
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let kind = take(1)?[0];
    let code = number(take(4)?) as i32;
    let ending = match kind {
        0 => Ending::Exit(code),
        1 => Ending::Signal(code),
        _ => Ending::Corrupted,
    };
    let waits = number(take(4)?) as usize;
    let waits_for = take(waits.checked_mul(8)?)?;
    let waits_for = waits_for.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let length = number(take(4)?) as usize;
    let output = String::from_utf8_lossy(take(length)?).into_owned();
    let mut records = Vec::new();
    for bytes in rest.as_chunks::<4>().0 {
        records.extend_from_slice(blocks.get(u32::from_le_bytes(*bytes) as usize)?);
    }
    let key = key(rest, ending);
    Some((Journaled { records, ending, output, waits_for }, key))
}

/// A key for a recovery: a hash of the numbers of its blocks and of how it ended. Equal records have equal blocks.
fn key(numbers: &[u8], ending: Ending) -> u128 {
    two_hashes(numbers) ^ two_hashes(format!("{ending:?}").as_bytes())
}

/// Is a block cut after this record?
fn ends_block(record: &Record) -> bool {
    let mixed = (record.address() ^ u64::from(record.kind())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32).is_multiple_of(USUAL)
}

/// The block that records begin with: it is cut at certain addresses, so that recoveries with a common ending share its
/// blocks.
fn first_block(records: &[Record]) -> &[Record] {
    let most = records.len().min(LONGEST);
    let end = records[..most].iter().position(ends_block).map_or(most, |last| last + 1);
    &records[..end]
}

fn packed(record: &Record) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[0] = record.kind();
    bytes[1] = record.width();
    bytes[2..4].copy_from_slice(&record.thread().to_le_bytes());
    bytes[4..12].copy_from_slice(&record.address().to_le_bytes());
    bytes[12..20].copy_from_slice(&{ record.value }.to_le_bytes());
    bytes[20..].copy_from_slice(&{ record.site }.to_le_bytes());
    bytes
}

fn unpacked(bytes: &[u8; RECORD]) -> Record {
    let word = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"));
    let thread = u16::from_le_bytes(bytes[2..4].try_into().expect("two bytes"));
    let site = u32::from_le_bytes(bytes[20..24].try_into().expect("four bytes"));
    Record::new(bytes[0], word(4), bytes[1], word(12), thread, site)
}

/// A hash that identifies long data.
pub(crate) fn two_hashes(bytes: &[u8]) -> u128 {
    let hash = |seed: u64| {
        let mut hasher = FxHasher::default();
        (seed, bytes).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    hash(1) << 64 | hash(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::ARENA;
    use px86::Kind;

    /// A recovery with this many reads, the first of which has this value.
    fn sample(first: u64, reads: u64) -> Journaled {
        let read = |number| {
            let value = if number == 0 { first } else { number };
            Record::new(Kind::Load as u8, ARENA.base + 8 * number, 8, value, 0, 7)
        };
        let ending = if first == 3 { Ending::Signal(11) } else { Ending::Exit(first as i32) };
        let output = if first == 0 { String::new() } else { format!("failed {first}") };
        Journaled { records: (0..reads).map(read).collect(), ending, output, waits_for: vec![first; 2] }
    }

    fn add(journal: &Journal, it: &Journaled) {
        journal.add(&it.records, it.ending, &it.output, &it.waits_for);
    }

    /// Recoveries that begin or end like the one before are cut as they would be alone.
    #[test]
    fn blocks_do_not_depend_on_the_recovery_before() {
        let whole = sample(1, 3000).records;
        let mut parts: Vec<Journaled> = Vec::new();
        for (from, to) in
            [(0, 3000), (5, 3000), (5, 2000), (700, 2990), (0, 3000), (1, 300), (1, 299), (2, 3000)]
        {
            let records = [&whole[..1], &whole[from..to]].concat();
            parts.push(Journaled { records, ..sample(1, 0) });
        }
        let numbers = |order: &[&Journaled]| {
            let directory = tempfile::tempdir().expect("a directory");
            let journal = Journal::open(directory.path(), |_| {}).expect("a journal");
            order.iter().for_each(|it| add(&journal, it));
            journal.finish().expect("it is written");
            let before = all(directory.path()).len();
            // Added again in any order, nothing is new.
            parts.iter().rev().filter(|part| order.contains(part)).for_each(|it| add(&journal, it));
            journal.finish().expect("it is written");
            assert_eq!(all(directory.path()).len(), before);
            all(directory.path())
        };
        let forward: Vec<&Journaled> = parts.iter().collect();
        let found = numbers(&forward);
        assert_eq!(found.len(), parts.len() - 1, "one is there twice");
        assert!(parts.iter().all(|part| found.contains(part)));
        assert_eq!(numbers(&forward[4..]).len(), 4);
    }

    fn all(directory: &Path) -> Vec<Journaled> {
        let mut found = Vec::new();
        read(directory, |recovery| found.push(recovery)).expect("a journal");
        found
    }

    #[test]
    fn what_was_written_is_read_and_kept_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let samples: Vec<Journaled> = (0..5).map(|first| sample(first, 1000)).collect();
        let journal = Journal::open(directory.path(), |_| panic!("nothing is there")).expect("a journal");
        samples.iter().chain(&samples).for_each(|it| add(&journal, it));
        journal.finish().expect("it is written");
        assert_eq!(all(directory.path()), samples);
        let bytes = directory.path().join(FILE).metadata().expect("a file").len();
        assert!(bytes < 2 * 1000 * RECORD as u64, "what they have in common is there once: {bytes}");
        let mut before = 0;
        let journal = Journal::open(directory.path(), |_| before += 1).expect("the same");
        assert_eq!(before, samples.len());
        add(&journal, &samples[0]);
        add(&journal, &sample(9, 10));
        journal.finish().expect("it is written");
        assert_eq!(all(directory.path()).len(), samples.len() + 1);
    }

    /// Truncated anywhere, it holds a prefix of what was written, and can be continued.
    #[test]
    fn whatever_was_cut_off_is_missing_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let samples: Vec<Journaled> = (0..5).map(|first| sample(first, 200)).collect();
        let journal = Journal::open(directory.path(), |_| {}).expect("a journal");
        samples.iter().for_each(|it| add(&journal, it));
        journal.finish().expect("it is written");
        let whole = std::fs::read(directory.path().join(FILE)).expect("a file");
        for length in (0..whole.len()).step_by(37) {
            std::fs::write(directory.path().join(FILE), &whole[..length]).expect("a file");
            let mut left = Vec::new();
            let journal = Journal::open(directory.path(), |it| left.push(it)).expect("a journal");
            assert!(samples.starts_with(&left), "{length}");
            samples.iter().for_each(|it| add(&journal, it));
            journal.finish().expect("it is written");
            assert_eq!(all(directory.path()), samples, "{length}");
        }
    }
}
