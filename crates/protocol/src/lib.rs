//! What `crashproof check` and the runtime inside the checked program share: descriptors, memory layout, commands.
//!
//! The checker starts the program once. Just before `main` the runtime parks it and waits for commands; for
//! each it forks a child that runs `main`, once to record, then to recover. All of them have the same
//! address space, and talk to the checker through shared memory:
//!
//! - *control*: one [`Control`], the table of PM files, then the patches;
//! - *image*: what persistent memory surely holds; children map it privately, so their stores stay theirs;
//! - *trace*: the child's PM events, as [`px86::Event`]s, in the order they took effect;
//! - *sites*: where in the source the events' sites are, as text, written when the program parks;
//! - *output*: what the child printed.

pub mod abi;
pub mod results;
pub mod steps;

use px86::{Kind, LINE_BYTES};

/// Version of everything here; each side rejects any other version.
pub const VERSION: u32 = 7;

/// Set for the program to run under the checker; its value is the version.
pub const ENVIRONMENT: &str = "CRASHPROOF_SESSION";

/// Descriptors the program inherits. Not too high: the limit on open files may be a few hundred.
pub mod fd {
    /// The control block.
    pub const CONTROL: i32 = 200;
    /// What persistent memory surely holds.
    pub const IMAGE: i32 = 201;
    /// The child's events.
    pub const TRACE: i32 = 202;
    /// Where commands come from and answers go to.
    pub const COMMAND: i32 = 203;
    /// The site table.
    pub const SITES: i32 = 204;
    /// The child's standard output and error.
    pub const OUTPUT: i32 = 205;
    /// The child's standard input: a file that every child reads from its beginning; closed if there is none.
    pub const INPUT: i32 = 206;
    /// One past the last of them.
    pub const END: i32 = 207;
}

/// First address of the pool within the PM window. The first 4 GiB are left to AddressSanitizer.
pub const POOL_BASE: u64 = (1 << 44) + (4 << 30);
/// Size of the pool; it is sparse.
pub const POOL_BYTES: u64 = 1 << 40;
/// How far from its address in the window the runtime reads and writes a byte of the pool. The window itself is
/// inaccessible under the checker: whatever touches it is code that was not rebuilt, and is followed. Neither placement of
/// a program has anything where the window's addresses end up.
pub const ALIAS_OFFSET: u64 = 2 << 44;
/// Persistent globals.
pub const GLOBALS: Region = Region { base: POOL_BASE, bytes: 1 << 30 };
/// The root object of `crashproof.h`.
pub const ROOT: Region = Region { base: POOL_BASE + (1 << 30), bytes: 1 << 30 };
/// Objects allocated with `crashproof.h`.
pub const ARENA: Region = Region { base: POOL_BASE + (2 << 30), bytes: 14 << 30 };
/// The heap, with `--pm-heap`.
pub const HEAP: Region = Region { base: POOL_BASE + (16 << 30), bytes: 16 << 30 };
/// Metadata of files: a word for each, on a line of its own. See [`PmFile`].
pub const FACTS: Region = Region { base: POOL_BASE + (32 << 30), bytes: 32 << 30 };
/// Contents of files.
pub const FILES: Region = Region { base: POOL_BASE + (64 << 30), bytes: POOL_BYTES - (64 << 30) };

/// A part of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// First address.
    pub base: u64,
    /// Size.
    pub bytes: u64,
}

impl Region {
    /// One past the last address.
    pub const fn end(self) -> u64 {
        self.base + self.bytes
    }

    /// Is the address in it?
    pub const fn contains(self, address: u64) -> bool {
        address >= self.base && address < self.end()
    }
}

/// Querying the number of crashes is recorded as a first read of this address: recovery's behavior may depend on it.
pub const CRASHES_ADDRESS: u64 = 0;

/// Bytes of address space for the trace.
pub const TRACE_BYTES: u64 = 64 << 30;
/// Bytes of address space for the control block and patches.
pub const CONTROL_BYTES: u64 = 5 << 30;
/// Where the table of files begins in the control memory; see [`Tables`].
pub const FILES_OFFSET: u64 = 4 << 30;
/// Where patches begin in the control memory.
pub const PATCHES_OFFSET: u64 = 1 << 20;
/// Where the decisions that a run follows begin in the control memory.
pub const DECISIONS_OFFSET: u64 = 1 << 30;
/// Where the notes about steps that sleep begin.
pub const SLEEPING_OFFSET: u64 = 3 << 29;
/// Where a run's notes about its steps begin, and how many there may be.
pub const NOTES_OFFSET: u64 = 2 << 30;
/// See [`NOTES_OFFSET`].
pub const MAX_NOTES: u64 = (FILES_OFFSET - NOTES_OFFSET) / size_of::<steps::Note>() as u64;

/// Where the call stacks begin that the checker wants, in the control memory; see [`Stack`].
pub const STACKS_OFFSET: u64 = 512 << 10;
/// How many there may be.
pub const MAX_STACKS: usize = 2048;
const _: () = assert!(FILES_OFFSET as usize + size_of::<Tables>() <= CONTROL_BYTES as usize);
const _: () = assert!(STACKS_OFFSET as usize + MAX_STACKS * size_of::<Stack>() <= PATCHES_OFFSET as usize);

/// Where the paths of libraries loaded late begin in the control memory; see [`LateModule`].
pub const LATE_MODULES_OFFSET: u64 = 800 << 10;
const _: () =
    assert!(STACKS_OFFSET as usize + MAX_STACKS * size_of::<Stack>() <= LATE_MODULES_OFFSET as usize);
const _: () = assert!(
    LATE_MODULES_OFFSET as usize + caller::MODULES * size_of::<LateModule>() <= PATCHES_OFFSET as usize
);

/// The zero-terminated path of a library that a child has loaded. They follow those of the site table, and are never
/// removed.
pub type LateModule = [u8; 1024];

/// The call stack of an event of a run. The checker requests stacks by the event's index, in increasing order; the last
/// may be [`Stack::END`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Which record.
    pub index: u64,
    /// Out: how many callers are known.
    pub depth: u32,
    /// Padding.
    pub unused: u32,
    /// Out: where each function was, innermost first; numbers of [`caller`].
    pub callers: [u32; Stack::DEEPEST],
}

impl Stack {
    /// The most callers to record.
    pub const DEEPEST: usize = 28;
    /// The end of the run, however it ends.
    pub const END: u64 = u64::MAX;

    /// A request.
    pub const fn wanted(index: u64) -> Stack {
        Stack { index, depth: 0, unused: 0, callers: [0; Stack::DEEPEST] }
    }
}

/// Which files are persistent memory when mapped: paths separated by colons. A path ending in `*` matches by prefix,
/// any other matches everything below it.
pub const PM_PATH: &str = "CRASHPROOF_PM_PATH";
/// The default of [`PM_PATH`].
pub const DEFAULT_PM_PATH: &str = "/mnt/pmem*:/pmem*:/dev/dax*";

/// Files, extents and directories that the table holds.
pub const MAX_FILES: usize = 1 << 14;
/// Changes of names that the table holds.
pub const MAX_CHANGES: usize = 1 << 16;
/// Room for the names of variables of the environment.
pub const ENVIRONMENT_BYTES: usize = 4096;
/// Longest path of a file, with the zero at its end.
pub const MAX_PATH: usize = 1000;

/// Consecutive reads of PM, without anything new being read, stored, flushed or fenced, after which a recovery is
/// assumed to wait forever. About a second's worth: a recovery that does this much cannot be explored.
pub const IDLE_READS_OF_RECOVERY: u64 = 100_000_000;
/// The same for the recorded run, which may legitimately read a lot, for long.
pub const IDLE_READS_OF_RECORDING: u64 = 20_000_000_000;

/// How many addresses are recorded that an endless run reads over and over.
pub const WAITS_FOR: usize = 4;

/// Maximum number of places in code that was not rebuilt whose volatile accesses can be steps.
pub const MAX_WATCHED: usize = 256;

/// A persistent file, an extent of one, or a directory. The table only ever grows: each keeps its place in the pool in
/// all runs, whichever run encountered it first.
///
/// Each has a word in [`FACTS`]. A file's holds its size and, from bit [`PmFile::EXTENT_AT`] on, the number of the
/// extent that holds its content, or 0 for its own; a directory's holds its version, see [`NameChange`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PmFile {
    /// First address of the content; 0 while it has none.
    pub place: u64,
    /// The size of its place.
    pub room: u64,
    /// How many bytes have ever been used.
    pub used: u64,
    /// Whether it was ever mapped.
    pub mapped: u64,
    /// Its identity across all runs.
    pub key: u64,
    /// Its path, or the one it was created under, ending in zero.
    pub path: [u8; MAX_PATH],
}

impl PmFile {
    /// Where in the word of a file the number of its extent begins.
    pub const EXTENT_AT: u32 = 44;

    /// The path.
    pub fn path(&self) -> &[u8] {
        let end = self.path.iter().position(|byte| *byte == 0).unwrap_or(0);
        &self.path[..end]
    }
}

/// The word of a file or directory, by its number in the table.
pub const fn fact(number: usize) -> u64 {
    FACTS.base + number as u64 * LINE_BYTES
}

/// One change of a directory's names, such as a rename: it survives a crash entirely or not at all.
///
/// The content of a directory is its content before the check with all changes up to its version applied.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NameChange {
    /// The value of the directory's word after it: derived from the change itself, so that it is the same in all runs.
    pub version: u64,
    /// What it held before.
    pub before: u64,
    /// Up to two names: the path, and the number of its file from 1 on; 0 if the name is removed.
    pub names: [(u64, [u8; MAX_PATH]); 2],
}

/// A key of a path, for [`record::NAME`]; never 0.
#[must_use]
pub fn name_key(path: &[u8]) -> u64 {
    let hash = path.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash | 1
}

/// The table of files.
#[repr(C)]
pub struct Tables {
    /// Entries of `files` that are taken.
    pub file_count: u64,
    /// Entries of `changes` that are taken.
    pub change_count: u64,
    /// How many of them recorded runs made; the others belong to recoveries, each of which sees only its own.
    pub recorded_changes: u64,
    /// Files, extents and directories.
    pub files: [PmFile; MAX_FILES],
    /// Changes of names.
    pub changes: [NameChange; MAX_CHANGES],
}

/// The mode bits on disk of a directory that a program created during a check (set-user-ID and sticky). Together they
/// mean nothing to the kernel, and tell every process of the check that the directory did not exist before.
pub const MADE_DIRECTORY: u32 = 0o5000;

/// What a child must do.
pub mod mode {
    /// Not under the checker: behave as an ordinary program.
    pub const PASS: u32 = 0;
    /// Record every PM event.
    pub const RECORD: u32 = 1;
    /// Recover: also record what is read from before the crash, when it is first touched.
    pub const RECOVER: u32 = 2;
    /// Record every PM event, and within strands and epochs also what is read, and where threads synchronize.
    pub const RECORD_REGIONS: u32 = 3;
}

/// Kinds of trace records beyond those of [`px86::Kind`], in the same byte.
pub mod record {
    /// The arena of `crashproof.h` grew; `value` is its new end. Durable at once.
    pub const ARENA: u8 = 64;
    /// Something ran that is not understood; the verdict is UNKNOWN.
    pub const UNKNOWN: u8 = 65;
    /// A checksum is about to be verified over the loads that follow.
    pub const CHECKSUM_BEGIN: u8 = 66;
    /// The bracket ended; `address` is 1 if the checksum matched.
    pub const CHECKSUM_END: u8 = 67;
    /// A thread was created; `value` is its number.
    pub const SPAWN: u8 = 68;
    /// A thread was joined; `value` is its number.
    pub const JOIN: u8 = 69;
    /// `crashproof_assert` failed here.
    pub const ASSERT: u8 = 70;
    /// The content of the word at `address` is durable from here on, with no crash point just before. See `FACTS`.
    pub const SETTLED: u8 = 71;
    /// A `write` to a file on a disk begins (`value` 1) or ends (0): what it stores to one sector survives as a whole.
    pub const WRITE: u8 = 90;
    /// The end of a size class of the heap moved: `address` is the class, `value` the end. Durable at once.
    pub const HEAP: u8 = 72;
    /// A caller of the unseen access in the previous record.
    pub const FRAME: u8 = 79;
    /// A strand begins, one ends, and all before are ordered before all later ones.
    pub const STRAND_BEGIN: u8 = 73;
    /// See [`STRAND_BEGIN`].
    pub const STRAND_END: u8 = 74;
    /// See [`STRAND_BEGIN`].
    pub const STRAND_JOIN: u8 = 75;
    /// An epoch begins.
    pub const EPOCH_BEGIN: u8 = 76;
    /// It ends.
    pub const EPOCH_END: u8 = 77;
    /// A thread took or left a lock, or accessed volatile memory that others wait for; `value` says which
    /// and what it did there (see [`sync`](super::sync)). Only where there are threads, or strands.
    pub const SYNC: u8 = 78;
    /// A store was issued and waits in its thread's buffer; it is recorded once more when it takes effect.
    pub const ISSUE: u8 = 80;
    /// The thread's subsequent loads and stores may observe an order that only the caches produce.
    pub const TOLERATE_BEGIN: u8 = 81;
    /// They end.
    pub const TOLERATE_END: u8 = 82;
    /// What the program does depends on whether a name exists: `value` is the name's [`name_key`](super::name_key), or
    /// 0 for all names of a directory. Only for names that changed before the crash.
    pub const NAME: u8 = 91;
}

/// Numbers for places without a site: where the program calls an interposed function.
pub mod caller {
    /// Such numbers have this bit.
    pub const BIT: u32 = 1 << 31;
    /// Modules that numbers distinguish.
    pub const MODULES: usize = 32;
    /// How many bits say where in its module a place is.
    const OFFSET_BITS: u32 = 26;
    /// The prefix of lines in the site table that define a module.
    pub const LINE: &str = "@";

    /// The number of a place; `None` if the offset is too large.
    pub fn number(module: usize, offset: usize) -> Option<u32> {
        let fits = module < MODULES && offset < 1 << OFFSET_BITS;
        fits.then_some(BIT | (module as u32) << OFFSET_BITS | offset as u32)
    }

    /// Module and offset of a place, if the number is one.
    pub fn place(number: u32) -> Option<(usize, u64)> {
        let number = (number & BIT != 0).then_some(number & !BIT)?;
        Some(((number >> OFFSET_BITS) as usize, u64::from(number & ((1 << OFFSET_BITS) - 1))))
    }
}

/// A record of the trace, as it lies in shared memory: [`px86::Event`], or one of [`record`].
///
/// Runs have tens of millions of records, and most of the cost of recording is memory allocation by the kernel. So a
/// record is packed into twenty bytes.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// From the lowest bit: where in the pool (40 bits), whether it is there (1), thread (12), width (4), kind (7).
    packed: u64,
    /// Value stored or read; for `clflushopt` and `clwb` the length of the trace when it was issued.
    pub value: u64,
    /// Number of the site.
    pub site: u32,
}

impl Record {
    const PLACE_BITS: u32 = POOL_BYTES.trailing_zeros();
    const THREAD_AT: u32 = Self::PLACE_BITS + 1;
    const WIDTH_AT: u32 = Self::THREAD_AT + 12;
    const KIND_AT: u32 = Self::WIDTH_AT + 4;

    /// Packs a record. An address outside the pool is a small number with another meaning.
    #[inline(always)]
    pub const fn new(kind: u8, address: u64, width: u8, value: u64, thread: u16, site: u32) -> Record {
        let place = address.wrapping_sub(POOL_BASE);
        let place =
            if place < POOL_BYTES { place | 1 << Self::PLACE_BITS } else { address & (POOL_BYTES - 1) };
        let rest = (thread as u64 & 0xfff) << Self::THREAD_AT
            | (width as u64) << Self::WIDTH_AT
            | (kind as u64) << Self::KIND_AT;
        Record { packed: place | rest, value, site }
    }

    /// Address of the first byte.
    #[inline(always)]
    pub const fn address(&self) -> u64 {
        let place = self.packed & (POOL_BYTES - 1);
        if self.packed & 1 << Self::PLACE_BITS != 0 { POOL_BASE + place } else { place }
    }

    /// Number of the thread.
    #[inline(always)]
    pub const fn thread(&self) -> u16 {
        (self.packed >> Self::THREAD_AT) as u16 & 0xfff
    }

    /// Bytes accessed.
    #[inline(always)]
    pub const fn width(&self) -> u8 {
        (self.packed >> Self::WIDTH_AT) as u8 & 15
    }

    /// [`px86::Kind`] or one of [`record`].
    #[inline(always)]
    pub const fn kind(&self) -> u8 {
        (self.packed >> Self::KIND_AT) as u8
    }

    /// Can the runtime have written this? Programs may overwrite the trace.
    #[inline]
    pub fn is_possible(&self) -> bool {
        let in_pool = self.packed & 1 << Self::PLACE_BITS != 0;
        let (address, width) = (self.address(), u64::from(self.width()));
        let within_line = address % LINE_BYTES + width <= LINE_BYTES;
        match self.event_kind() {
            Some(Kind::StoreFence | Kind::Fence) => true,
            Some(Kind::Flush | Kind::FlushOpt) => in_pool,
            // A value provided by the runtime, such as the number of crashes.
            Some(Kind::Load) if !in_pool => address == CRASHES_ADDRESS && width == 0,
            Some(_) => in_pool && (1..=8).contains(&width) && within_line,
            None => match self.kind() {
                record::HEAP => address < HEAP_CLASSES as u64,
                record::SETTLED => in_pool,
                record::ISSUE => in_pool && (1..=8).contains(&width) && within_line,
                _ => true,
            },
        }
    }

    /// The px86 kind, if it is one.
    #[inline]
    pub fn event_kind(&self) -> Option<Kind> {
        const KINDS: [Kind; 9] = [
            Kind::Load,
            Kind::Store,
            Kind::NonTemporalStore,
            Kind::Rmw,
            Kind::FailedRmw,
            Kind::Flush,
            Kind::FlushOpt,
            Kind::StoreFence,
            Kind::Fence,
        ];
        KINDS.get(usize::from(self.kind())).copied()
    }

    /// The event, if it is one of the model's.
    #[inline]
    pub fn event(&self) -> Option<px86::Event> {
        Some(px86::Event {
            address: self.address(),
            value: self.value,
            site: px86::Site(self.site),
            thread: px86::Thread(self.thread()),
            kind: self.event_kind()?,
            width: self.width(),
        })
    }
}

/// The control block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// [`VERSION`].
    pub version: u32,
    /// What the next child is to do; see [`mode`].
    pub mode: u32,
    /// How many crashes there were.
    pub crashes: u32,
    /// Seed of the schedule.
    pub seed: u32,
    /// End of the arena at the crash.
    pub arena_end: u64,
    /// Where in the trace a child writes: what stands before it, in bytes, is kept.
    pub trace_start: u64,
    /// Records the trace may hold; a child that would write more ends with [`exit::TOO_MUCH_WORK`].
    pub max_records: u64,
    /// Seconds of processor time a child may take.
    pub max_cpu_seconds: u32,
    /// Switches; see [`flag`].
    pub flags: u32,
    /// Patches to apply.
    pub patches: u64,
    /// Out: records in the trace.
    pub records: u64,
    /// Out: the process id of the child, once it is there.
    pub child: i32,
    /// Nothing; what follows stays aligned.
    pub unused: u32,
    /// Out: modules that registered.
    pub modules: u32,
    /// Out: PM ranges that are in use at all.
    pub pm_used: u32,
    /// Out: bytes of the site table.
    pub sites_bytes: u64,
    /// Out: threads that were created.
    pub threads: u32,
    /// How the schedule is made from the seed; see [`schedule`].
    pub strategy: u32,
    /// Places where threads might have been switched in the run of seed 0, so that a seed can spread its
    /// switches over the run; 0 if not known.
    pub expected_points: u64,
    /// Out: places where threads might have been switched.
    pub points: u64,
    /// Out: whether the child ended on its own, as far as a process can tell; else it became another program.
    pub ended: u64,
    /// Bytes of address space a child may add; 0 for any.
    pub max_memory: u64,
    /// Reads of PM in a row that may bring nothing new.
    pub max_idle_reads: u64,
    /// Out: whether a child that did too much work was seen to repeat itself, so that it never ends.
    pub repeats: u64,
    /// Out: addresses that a child that did too much work read over and over; 0 where there are fewer.
    pub waits_for: [u64; WAITS_FOR],
    /// Decisions that the run follows; see [`steps`].
    pub decisions: u64,
    /// Notes about steps that sleep when those have been followed.
    pub sleeping: u64,
    /// Out: notes about the run's steps.
    pub notes: u64,
    /// Where the heap's classes begin: a number of sixteen bytes. The same in all runs of a check.
    pub layout: u32,
    /// What memory of the heap holds when it is handed out first, and after it was given back; see [`fill`].
    pub fill: u32,
    /// Ends of the heap's size classes at the crash; 0 for those that are empty.
    pub heap_ends: [u64; HEAP_CLASSES],
    /// Out: names of the variables of the environment that children asked for, each ending in zero.
    pub environment: [u8; ENVIRONMENT_BYTES],
    /// Out: the first file outside the PM path that a child mapped to share what it writes, ending in zero.
    pub mapped_outside: [u8; MAX_PATH],
    /// Out: the first ordinary file that a child opened to write it and that is not followed, ending in zero.
    pub written_outside: [u8; MAX_PATH],
    /// Out: whether a child asked the kernel to write files back (`fsync`, `msync` and their relatives).
    pub synced: u64,
    /// Call stacks that are wanted.
    pub stacks: u64,
    /// Are accesses of volatile memory by code that was not rebuilt to be followed, while schedules are explored?
    pub follow_volatile: u32,
    /// How many of the next are in use.
    pub watched_count: u32,
    /// Places in code that was not rebuilt whose accesses of volatile memory are steps.
    pub watched: [u32; MAX_WATCHED],
    /// The processes of a run that forks.
    pub processes: Processes,
}

/// Processes that a run forked and that are followed: one at a time touches persistent memory. Theirs alone; the checker
/// only clears it before a run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    /// Whose turn it is, by the kernel's number; [`Processes::BUSY`] while it accesses persistent memory; 0 if it is no
    /// one's.
    pub turn: u64,
    /// Forked so far, the first process included; 0 if there are no others.
    pub count: u64,
    /// The next number for a thread of one of them.
    pub next_thread: u64,
    /// How many wait for their turn.
    pub waiting: u64,
    /// The exit code of all, if one of them ended them; 0 otherwise.
    pub ending: u64,
    /// In order of their creation.
    pub all: [Process; Processes::MOST],
}

impl Processes {
    /// How many there may be.
    pub const MOST: usize = 64;
    /// See [`Processes::turn`].
    pub const BUSY: u64 = 1 << 63;
    /// None.
    pub const NONE: Processes = Processes {
        turn: 0,
        count: 0,
        next_thread: 0,
        waiting: 0,
        ending: 0,
        all: [Process { number: 0, thread: 0, touched: 0, waits: 0 }; Processes::MOST],
    };
}

/// One of them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// The kernel's process id; 0 once the process has been waited for.
    pub number: u64,
    /// The number of its thread.
    pub thread: u64,
    /// How long the trace was when it last touched persistent memory; 0 if it never has.
    pub touched: u64,
    /// Does it wait for its turn?
    pub waits: u64,
}

/// What a thread did to a thing that orders threads, and to which: the `value` of [`record::SYNC`].
pub mod sync {
    /// Which thing, by its address, and what.
    pub const fn value(object: u64, what: u64) -> u64 {
        object << 2 | what
    }

    /// The address of the thing.
    pub const fn object(value: u64) -> u64 {
        value >> 2
    }

    /// It saw what the last one that changed it did before.
    pub const SAW: u64 = 1;
    /// It changed it.
    pub const CHANGED: u64 = 2;
}

/// Values of [`Control::strategy`].
pub mod schedule {
    /// A thread runs until it waits or spins; then the next one in order of creation. Stores take effect at
    /// once. Seed 0 always means this.
    pub const ROUND_ROBIN: u32 = 0;
    /// Switches at random.
    pub const RANDOM: u32 = 1;
    /// Random priorities, and a few moments at which they change.
    pub const PCT: u32 = 2;
    /// As the checker decides; see [`steps`](super::steps).
    pub const DECISIONS: u32 = 3;
}

/// Size classes of the heap. Each has the same part of [`HEAP`], so an address tells its size.
pub const HEAP_CLASSES: usize = 64;

/// Fill bytes of heap memory that has never been written: values of [`Control::fill`].
pub mod fill {
    /// A byte for fresh memory and one for freed memory; none leaves it as it is: zero, or as it was.
    pub const fn value(fresh: Option<u8>, freed: Option<u8>) -> u32 {
        word(fresh) | word(freed) << 16
    }

    const fn word(byte: Option<u8>) -> u32 {
        match byte {
            Some(byte) => 0x100 | byte as u32,
            None => 0,
        }
    }

    const fn byte(word: u32) -> Option<u8> {
        if word & 0x100 != 0 { Some(word as u8) } else { None }
    }

    /// The byte of fresh memory.
    pub const fn fresh(value: u32) -> Option<u8> {
        byte(value & 0xffff)
    }

    /// The byte of freed memory.
    pub const fn freed(value: u32) -> Option<u8> {
        byte(value >> 16)
    }
}

/// Switches of [`Control::flags`].
pub mod flag {
    /// The heap is persistent memory.
    pub const PM_HEAP: u32 = 1;
    /// Whatever touches PM unseen is to be named.
    pub const STRICT: u32 = 2;
    /// Caches survive a power failure.
    pub const EADR: u32 = 4;
    /// Files are on a disk: what is written waits in the page cache.
    pub const DISK: u32 = 8;
    /// Every regular file that the program writes is persistent.
    pub const ALL_FILES: u32 = 16;
    /// A run that only finds out which files are mapped: it ends when it meets one outside the PM path.
    pub const DISCOVER: u32 = 32;
    /// What a recovery does to files, persistent or not, is undone before the next: nothing crashes after it.
    pub const UNDO_FILES: u32 = 64;
    /// The first thread is refused (`EAGAIN`), in every run: Rust's test harness then runs the test on its own thread,
    /// so that only the test's threads have schedules.
    pub const REFUSE_FIRST_THREAD: u32 = 128;
}

/// Why a verdict is UNKNOWN: the `value` of [`record::UNKNOWN`] where the site has nothing to say.
pub mod reason {
    /// The site says it.
    pub const SITE: u64 = 0;
    /// The program forked.
    pub const FORK: u64 = 1;
    /// The program became another one.
    pub const EXEC: u64 = 2;
    /// A file changes that was mapped privately.
    pub const PRIVATE_MAPPING: u64 = 3;
    /// A file on the PM path was mapped at a second address.
    pub const SECOND_PLACE: u64 = 4;
    /// More files, or longer paths, than the table holds.
    pub const TOO_MANY_FILES: u64 = 5;
    /// A file on the PM path was renamed.
    pub const RENAMED: u64 = 6;
    /// A file outgrew its place.
    pub const FILE_GREW: u64 = 7;

    /// `pthread_cancel`, or asynchronous cancellation.
    pub const CANCEL: u64 = 8;
    /// A futex operation that the scheduler does not know.
    pub const FUTEX: u64 = 9;
    /// Threads that began before `main` and do not exist in the children.
    pub const EARLY_THREADS: u64 = 10;

    /// The kernel copied from or to a file on the PM path.
    pub const COPIED_BY_KERNEL: u64 = 11;

    /// An instruction touched PM unannounced. `address` says where, the site which; records of
    /// [`super::record::FRAME`] follow with the calls that led to it.
    pub const UNSEEN: u64 = 12;
    /// PM holds something else than was stored to it; `address` says where first.
    pub const CHANGED: u64 = 13;

    /// A function of the C library was given PM that it is not followed on; `address` is its number, see
    /// [`super::untracked`].
    pub const FUNCTION: u64 = 14;
    /// A file on the PM path was opened as a stream.
    pub const STREAM: u64 = 15;

    /// A program was started that can reach the same files on the PM path.
    pub const SPAWN: u64 = 16;
    /// A timer sends signals that the program handles.
    pub const TIMER: u64 = 17;
    /// A thread sent another one a signal.
    pub const SIGNAL: u64 = 18;
    /// Processes that the program forked touch PM at the same time.
    pub const PROCESSES: u64 = 19;
    /// A forked process creates threads, or more processes are forked than can be followed.
    pub const THREADS_OF_CHILD: u64 = 20;

    /// Code that was not rebuilt may contain fences that could not be found; the site says where.
    pub const FENCES: u64 = 30;
    /// Code that belongs to no module touched PM; `address` says what.
    pub const CODE_OF_NO_MODULE: u64 = 31;
    /// A system call was given PM, past the C library's functions; the site says where.
    pub const SYSTEM_CALL: u64 = 32;

    /// A file on the PM path was written past the C library.
    pub const WRITTEN_RAW: u64 = 22;
    /// The handler of a timer's signal touched PM.
    pub const HANDLER: u64 = 21;

    /// It uses System V semaphores, message queues or segments of others, which would outlive a recovery.
    pub const SYSTEM_V: u64 = 33;

    /// Those after which persistent memory may hold unrecorded data.
    pub const UNSEEN_CONTENT: &[u64] = &[
        FORK,
        SECOND_PLACE,
        COPIED_BY_KERNEL,
        UNSEEN,
        CHANGED,
        FUNCTION,
        STREAM,
        SPAWN,
        SYSTEM_CALL,
        WRITTEN_RAW,
    ];

    /// As a sentence; `None` if the site says it.
    pub fn text(reason: u64) -> Option<&'static str> {
        Some(match reason {
            SITE => return None,
            FORK => "it forked; what the child does to persistent memory is not followed",
            EXEC => "it executed another program, which is not followed",
            PRIVATE_MAPPING => "it changes a file that it also mapped privately (MAP_PRIVATE)",
            SECOND_PLACE => "it mapped a file on the PM path at an address of its own choice (MAP_FIXED)",
            TOO_MANY_FILES => "it opened too many files on the PM path, or one with a very long name",
            RENAMED => "it renamed a file on the PM path",
            FILE_GREW => "it mapped far more of a file than at first",
            CANCEL => "pthread_cancel: only threads that wait can be cancelled under the checker",
            FUTEX => "a futex operation other than wait, wake and requeue",
            EARLY_THREADS => "threads were created before main",
            UNSEEN => "it touches persistent memory without the runtime seeing it",
            CHANGED => "persistent memory was changed without the runtime seeing it",
            FUNCTION => "touches persistent memory and is not followed there",
            STREAM => {
                "it opened a file on the PM path as a stream (fopen), whose reads and writes are not followed"
            }
            SPAWN => {
                "it started another program (posix_spawn, system, popen) that can reach its files on the PM path and is not \
                 followed"
            }
            FENCES => {
                "it was not rebuilt, and part of its code cannot be decoded: fences there are not seen, and its flushes \
                 count as complete"
            }
            CODE_OF_NO_MODULE => {
                "code of no module (made at run time, or not loaded by the dynamic loader) touches persistent memory: \
                 fences there are not seen, and its flushes count as complete"
            }
            SYSTEM_CALL => {
                "it passes persistent memory to the kernel in a system call of its own, not through the C library: what the \
                 kernel reads and stores there is not followed"
            }
            SIGNAL => "pthread_kill: a signal to another thread was delivered only when that thread ran next",
            PROCESSES => {
                "processes that it forked use persistent memory at the same time: one order of them was tried"
            }
            THREADS_OF_CHILD => {
                "a process with threads forked, or a forked process created threads: they are not followed"
            }
            SYSTEM_V => {
                "it uses System V semaphores or message queues with a key, or shared memory that another program has made \
                 (semget, msgget, shmget): a recovery finds what would be gone after a power failure"
            }
            WRITTEN_RAW => {
                "a file on the PM path was written by system calls of its own, not through the C library: that is not followed"
            }
            HANDLER => {
                "the handler of a timer's signal touches persistent memory: it ran at one of many possible moments"
            }
            TIMER => "a timer sends it signals, which come at another moment in every run",
            COPIED_BY_KERNEL => "sendfile, splice or copy_file_range with a file on the PM path",
            _ => "something that is not understood ran",
        })
    }
}

/// Functions of the C library that make a verdict UNKNOWN on PM, by number.
pub mod untracked {
    /// Their names.
    pub const NAMES: &[&str] = &[
        "aio_read",
        "aio_write",
        "aio_fsync",
        "lio_listio",
        "freopen",
        "glob",
        "ftw",
        "nftw",
        "fts_open",
        "io_submit",
        "io_uring_submit",
    ];

    /// The number of one of them.
    pub const fn number(name: &str) -> u64 {
        let mut number = 0;
        while !same(NAMES[number].as_bytes(), name.as_bytes()) {
            number += 1;
        }
        number as u64
    }

    const fn same(one: &[u8], other: &[u8]) -> bool {
        let mut index = 0;
        while index < one.len() && index < other.len() && one[index] == other[index] {
            index += 1;
        }
        index == one.len() && index == other.len()
    }
}

/// What the runtime prints when a signal ends the process.
pub mod fault {
    /// How the line begins; then come the signal, the address in hexadecimal digits, and the number of the site.
    pub const LINE: &str = "crashproof-fault ";
    /// In place of a signal: a block of the heap was given back twice.
    pub const DOUBLE_FREE: i32 = 1001;
    /// In place of a signal: the freed address is not a block of the heap.
    pub const INVALID_FREE: i32 = 1002;
}

/// Libraries, by the beginning of their file names, that copy headers out of PM to verify them by a checksum: what one
/// copies at once of at least [`VERIFIED_BYTES`] is believed only as a whole.
pub const VERIFYING_LIBRARIES: &[&str] = &["libpmemobj.so"];
/// See [`VERIFYING_LIBRARIES`].
pub const VERIFIED_BYTES: usize = 1024;

/// Set for a program that is started in the other placement: its path.
pub const PROGRAM: &str = "CRASHPROOF_PROGRAM";

/// Exit codes of children that mean something beyond the program's own.
pub mod exit {
    /// More records than allowed: the program does not come to an end.
    pub const TOO_MUCH_WORK: i32 = 201;
    /// `crashproof_assert` failed.
    pub const ASSERT: i32 = 202;
    /// All threads wait for each other.
    pub const DEADLOCK: i32 = 203;
    /// A sanitizer found something and stopped the program; the output says what.
    pub const SANITIZER: i32 = 205;
    /// Every actor that could step sleeps: the schedule is equivalent to one that was explored.
    pub const REDUNDANT: i32 = 206;
    /// A file outside the PM path was mapped, and the run was to find that out.
    pub const DISCOVERED: i32 = 208;
    /// A decision names an actor that cannot step.
    pub const INFEASIBLE: i32 = 207;
    /// There are more steps than notes have room.
    pub const TOO_MANY_STEPS: i32 = 209;
    /// The program did something the checker cannot follow; the output says what.
    pub const UNSUPPORTED: i32 = 204;
}

/// What a line holds instead of what the image says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// Address of the line.
    pub address: u64,
    /// Its content.
    pub bytes: [u8; LINE_BYTES as usize],
}

/// Sent by the program once it is parked.
pub const PARKED: u8 = b'P';
/// Sent to the program: fork a child and run it.
pub const RUN: u8 = b'R';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_have_numbers() {
        assert_eq!(caller::number(3, 0x1234).and_then(caller::place), Some((3, 0x1234)));
        assert_eq!(caller::number(caller::MODULES, 0), None);
        assert_eq!(caller::place(17), None);
    }

    #[test]
    fn records_are_events() {
        let kinds = (0..u8::MAX >> 1).filter_map(|kind| Record::new(kind, 0, 0, 0, 0, 0).event_kind());
        assert!(kinds.map(|kind| kind as u8).eq(0..=Kind::Fence as u8));
    }

    #[test]
    fn records_keep_what_they_are_given() {
        for address in [0, 1, POOL_BASE, POOL_BASE + POOL_BYTES - 1, 1 << 30] {
            let record = Record::new(record::TOLERATE_END, address, 8, u64::MAX, 0xfff, u32::MAX);
            assert_eq!(record.address(), address);
            assert_eq!((record.kind(), record.width()), (record::TOLERATE_END, 8));
            assert_eq!((record.thread(), { record.value }, { record.site }), (0xfff, u64::MAX, u32::MAX));
            assert_eq!(Record::new(0, address, 0, 0, 0, 0).thread(), 0);
        }
        assert_eq!(size_of::<Record>(), 20);
    }
}
