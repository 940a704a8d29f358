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
    flushed: Instant,
    /// The first error.
    failed: Option<io::Error>,
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
            end = scan(&file, block, |recovery| {
                known.insert(key(&recovery));
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
        Ok(Journal(Mutex::new(Writer { file, blocks, known, flushed: Instant::now(), failed: None })))
    }

    /// Adds a recovery, if it is not there yet.
    pub(crate) fn add(&self, recovery: &Journaled) {
        let writer = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.failed.is_some() || !writer.known.insert(key(recovery)) {
            return;
        }
        if let Err(error) = writer.add(recovery) {
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
    fn add(&mut self, recovery: &Journaled) -> io::Result<()> {
        let mut payload = vec![RECOVERY];
        let (kind, code) = match recovery.ending {
            Ending::Exit(code) => (0, code),
            Ending::Signal(signal) => (1, signal),
            Ending::Corrupted => (2, 0),
            // With another limit it may end differently.
            Ending::Limit(_) => return Ok(()),
        };
        payload.push(kind);
        payload.extend(code.to_le_bytes());
        payload.extend((recovery.waits_for.len() as u32).to_le_bytes());
        recovery.waits_for.iter().for_each(|address| payload.extend(address.to_le_bytes()));
        payload.extend((recovery.output.len() as u32).to_le_bytes());
        payload.extend(recovery.output.as_bytes());
        for block in cut(&recovery.records) {
            let bytes: Vec<u8> = block.iter().flat_map(packed).collect();
            let fresh = self.blocks.len() as u32;
            let number = *self.blocks.entry(two_hashes(&bytes)).or_insert(fresh);
            if number == fresh {
                let whole: Vec<u8> = std::iter::once(BLOCK).chain(bytes).collect();
                self.frame(&whole)?;
            }
            payload.extend(number.to_le_bytes());
        }
        self.frame(&payload)?;
        if self.flushed.elapsed() >= FLUSHED_EVERY {
            self.file.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
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
    match scan(&file, |_| {}, each)? {
        0 => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no journal of recoveries")),
        _ => Ok(()),
    }
}

/// Scans a journal; returns the end of the last complete frame, or 0 if it is not a journal.
fn scan(file: &File, mut block: impl FnMut(u128), mut each: impl FnMut(Journaled)) -> io::Result<u64> {
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
            Some(Taken::Recovery(recovery)) => each(recovery),
            None => break,
        }
        end += (head.len() + length) as u64;
    }
    Ok(end)
}

/// What a frame holds.
enum Taken {
    Block,
    Recovery(Journaled),
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
            (&RECOVERY, rest) => recovery(rest, &self.blocks).map(Taken::Recovery),
            _ => None,
        }
    }
}

/// How many of these frames of a journal are recoveries, up to the first that is malformed. For fuzzing: it would not
/// find its way through the frames' hashes.
pub fn recoveries_among<'f>(frames: impl IntoIterator<Item = &'f [u8]>) -> usize {
    let mut contents = Contents::default();
    let taken = frames.into_iter().map_while(|frame| contents.take(frame));
    taken.filter(|taken| matches!(taken, Taken::Recovery(_))).count()
}

fn recovery(payload: &[u8], blocks: &[Box<[Record]>]) -> Option<Journaled> {
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
    Some(Journaled { records, ending, output, waits_for })
}

/// A key for a recovery: a hash of its reads and how it ended.
fn key(recovery: &Journaled) -> u128 {
    let bytes: Vec<u8> = recovery.records.iter().flat_map(packed).collect();
    two_hashes(&bytes) ^ two_hashes(format!("{:?}", recovery.ending).as_bytes())
}

/// Cuts records into blocks at certain addresses, so that recoveries with a common ending share its blocks.
fn cut(records: &[Record]) -> impl Iterator<Item = &[Record]> {
    let ends = |record: &Record| {
        let mixed = (record.address() ^ u64::from(record.kind())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32).is_multiple_of(USUAL)
    };
    let mut rest = records;
    std::iter::from_fn(move || {
        let most = rest.len().min(LONGEST);
        let end = rest[..most].iter().position(ends).map_or(most, |last| last + 1);
        let (block, after) = rest.split_at(end);
        rest = after;
        (!block.is_empty()).then_some(block)
    })
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
        samples.iter().chain(&samples).for_each(|it| journal.add(it));
        journal.finish().expect("it is written");
        assert_eq!(all(directory.path()), samples);
        let bytes = directory.path().join(FILE).metadata().expect("a file").len();
        assert!(bytes < 2 * 1000 * RECORD as u64, "what they have in common is there once: {bytes}");
        let mut before = 0;
        let journal = Journal::open(directory.path(), |_| before += 1).expect("the same");
        assert_eq!(before, samples.len());
        journal.add(&samples[0]);
        journal.add(&sample(9, 10));
        journal.finish().expect("it is written");
        assert_eq!(all(directory.path()).len(), samples.len() + 1);
    }

    /// Truncated anywhere, it holds a prefix of what was written, and can be continued.
    #[test]
    fn whatever_was_cut_off_is_missing_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let samples: Vec<Journaled> = (0..5).map(|first| sample(first, 200)).collect();
        let journal = Journal::open(directory.path(), |_| {}).expect("a journal");
        samples.iter().for_each(|it| journal.add(it));
        journal.finish().expect("it is written");
        let whole = std::fs::read(directory.path().join(FILE)).expect("a file");
        for length in (0..whole.len()).step_by(37) {
            std::fs::write(directory.path().join(FILE), &whole[..length]).expect("a file");
            let mut left = Vec::new();
            let journal = Journal::open(directory.path(), |it| left.push(it)).expect("a journal");
            assert!(samples.starts_with(&left), "{length}");
            samples.iter().for_each(|it| journal.add(it));
            journal.finish().expect("it is written");
            assert_eq!(all(directory.path()), samples, "{length}");
        }
    }
}
