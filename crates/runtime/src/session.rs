//! The memory that the process shares with the checker, and in which mode it is.
//!
//! Everything is mapped before any other code of the program runs ([`start`]). Without the checker there is only a
//! pool that is forgotten when the program ends, the mode stays [`mode::PASS`], and no other function here is called.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

use crashproof_protocol::steps::{Actor, Note};
use crashproof_protocol::{
    ALIAS_OFFSET, CONTROL_BYTES, Control, DECISIONS_OFFSET, FILES_OFFSET, LATE_MODULES_OFFSET, LateModule,
    MAX_STACKS, NOTES_OFFSET, PATCHES_OFFSET, POOL_BASE, POOL_BYTES, Patch, Processes, Record,
    SLEEPING_OFFSET, STACKS_OFFSET, Stack, TRACE_BYTES, Tables, VERSION, WAITS_FOR, caller, exit, fd, flag,
    mode,
};
use px86::{Kind, LINE_BYTES};

use crate::cell::RunningThreadCell;
use crate::system::{KeptErrno, give_up, own_process, raw_syscall};
use crate::{own_memory, raw};

const PAGE: usize = 4096;

/// [`crashproof_protocol::ENVIRONMENT`] as C wants it.
pub(crate) const ENVIRONMENT_NAME: &CStr = c"CRASHPROOF_SESSION";
const _: () = assert!(ENVIRONMENT_NAME.count_bytes() == crashproof_protocol::ENVIRONMENT.len());

/// [`crashproof_protocol::PROGRAM`] as C wants it.
const PLACED_ELSEWHERE: &CStr = c"CRASHPROOF_PROGRAM";
/// More than this the C library does not take for its heap before the program begins.
const MOST_HEAP: usize = 16 << 20;
const _: () = assert!(PLACED_ELSEWHERE.count_bytes() == crashproof_protocol::PROGRAM.len());

// Written before `main` and after a fork only. Atomics, because threads look at them without the baton, and programs
// without the checker have threads that run in parallel.
static MODE: AtomicU32 = AtomicU32::new(mode::PASS);
static UNDER_CHECKER: AtomicBool = AtomicBool::new(false);
static CONTROL: AtomicPtr<Control> = AtomicPtr::new(null_mut());
/// The image, mapped so that writes reach it ([`set_durable`]); read-only at all other times.
static IMAGE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// The trace from its beginning, where the checker keeps what is not for children to change.
static WHOLE_TRACE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Which bytes of each line this child has touched; one word per line.
static SHADOW: AtomicPtr<u64> = AtomicPtr::new(null_mut());

/// See [`mode`].
#[inline(always)]
pub(crate) fn current_mode() -> u32 {
    MODE.load(Relaxed)
}

/// Is any record wanted?
#[inline(always)]
pub(crate) fn recording() -> bool {
    current_mode() != mode::PASS
}

#[inline(always)]
pub(crate) fn recovering() -> bool {
    current_mode() == mode::RECOVER
}

/// The process is not followed any more.
pub(crate) fn stop_recording() {
    MODE.store(mode::PASS, Relaxed);
}

/// Does something for the checker's sake that is not the program's doing: what it calls is not followed. Only the running
/// thread may call this.
pub(crate) fn unfollowed<R>(work: impl FnOnce() -> R) -> R {
    let before = MODE.swap(mode::PASS, Relaxed);
    let result = work();
    MODE.store(before, Relaxed);
    result
}

/// Does the checker run the program, now or once it is parked?
#[inline(always)]
pub(crate) fn under_checker() -> bool {
    UNDER_CHECKER.load(Relaxed)
}

/// Gives access to the control block.
#[inline(always)]
pub(crate) fn control<R>(access: impl FnOnce(&mut Control) -> R) -> R {
    let control = CONTROL.load(Relaxed);
    debug_assert!(!control.is_null(), "the control block is there only under the checker");
    // SAFETY: under the checker it is mapped for good. The checker leaves it alone while a child runs, and of the
    // child's threads only the running one comes here.
    access(unsafe { &mut *control })
}

/// The bit of [`Control::ended`] that says that a forked child, which is not followed, touched persistent memory.
pub(crate) const TOUCHED_BY_CHILD: u64 = 2;

/// The bit of [`Control::ended`] that says that the program forked.
pub(crate) const FORKED: u64 = 4;

/// Is this a forked child of a run?
static UNFOLLOWED: AtomicBool = AtomicBool::new(false);

/// This process is a forked child, which is not followed.
pub(crate) fn become_unfollowed() {
    UNFOLLOWED.store(true, Relaxed);
}

/// Persistent memory is accessed by a process that records nothing: if it is a child of one that does, that is told.
#[cold]
pub(crate) fn note_unrecorded() {
    if UNFOLLOWED.load(Relaxed) {
        control(|control| control.ended |= TOUCHED_BY_CHILD);
    }
}

/// How many switches there might have been, for threads that do not have the baton.
pub(crate) fn points_seen_from_aside() -> u64 {
    // SAFETY: mapped, as in `control`; a torn or old value does no harm to who asks.
    unsafe { (&raw const (*CONTROL.load(Relaxed)).points).read_volatile() }
}

/// How many records there are, for processes whose turn it is not.
pub(crate) fn records_seen_from_aside() -> u64 {
    // SAFETY: mapped, as in `control`; an old value does no harm to who asks.
    unsafe { (&raw const (*CONTROL.load(Relaxed)).records).read_volatile() }
}

/// Is a switch of [`flag`] on?
pub(crate) fn has_flag(flag: u32) -> bool {
    under_checker() && control(|control| control.flags & flag != 0)
}

/// Are accesses of volatile memory to be followed in this run, by code that was not rebuilt? In recoveries only if some are
/// steps.
pub(crate) fn follows_volatile() -> bool {
    let (follows, watched) = control(|control| (control.follow_volatile != 0, control.watched_count > 0));
    follows && (watched || !recovering())
}

/// Whatever this run does to files is to be undone before the next one: it is a recovery, after which nothing crashes.
pub(crate) fn undoes_files() -> bool {
    recovering() && has_flag(flag::UNDO_FILES)
}

/// Does the checker assume that caches survive?
pub(crate) fn has_persistent_caches() -> bool {
    has_flag(flag::EADR)
}

/// Gives access to the paths of libraries that children have loaded.
pub(crate) fn late_modules<R>(access: impl FnOnce(&mut [LateModule; caller::MODULES]) -> R) -> R {
    // SAFETY: the table lies behind the control block; as for the block.
    access(unsafe { &mut *CONTROL.load(Relaxed).cast::<u8>().add(LATE_MODULES_OFFSET as usize).cast() })
}

/// Gives access to the table of files on the PM path.
pub(crate) fn files<R>(access: impl FnOnce(&mut Tables) -> R) -> R {
    // SAFETY: the table lies behind the control block; as for the block.
    access(unsafe { &mut *CONTROL.load(Relaxed).cast::<u8>().add(FILES_OFFSET as usize).cast() })
}

/// What lines hold instead of what the image says.
pub(crate) fn patches() -> &'static [Patch] {
    let count = control(|control| control.patches as usize);
    // SAFETY: the checker wrote so many patches there before it asked for a child.
    unsafe {
        let first = CONTROL.load(Relaxed).cast::<u8>().add(PATCHES_OFFSET as usize).cast();
        std::slice::from_raw_parts(first, count)
    }
}

fn map(address: u64, bytes: u64, flags: i32, descriptor: i32) -> *mut u8 {
    map_with(address, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, descriptor)
}

fn map_with(address: u64, bytes: u64, rights: i32, flags: i32, descriptor: i32) -> *mut u8 {
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    // SAFETY: nothing else is replaced.
    // Not by the C library's function, which the runtime interposes.
    let pointer = unsafe {
        let flags = flags | fixed | libc::MAP_NORESERVE;
        let arguments =
            [address as usize, bytes as usize, rights as usize, flags as usize, descriptor as usize, 0];
        raw_syscall(libc::SYS_mmap, arguments)
    };
    if (-4095..0).contains(&pointer) {
        let error = std::io::Error::from_raw_os_error(-pointer as i32);
        give_up(&format!("cannot map {bytes} bytes at {address:#x}: {error}"));
    }
    pointer as *mut u8
}

/// Maps everything; called before any other code of the program.
pub(crate) fn start() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Relaxed) {
        return;
    }
    // SAFETY: nobody changes the environment this early.
    let version = unsafe {
        let value = libc::getenv(ENVIRONMENT_NAME.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    };
    let Some(version) = version else {
        // One memory at both places.
        // SAFETY: a descriptor of its own, which the mappings outlive.
        unsafe {
            let memory = libc::memfd_create(c"crashproof-pool".as_ptr(), libc::MFD_CLOEXEC);
            libc::ftruncate(memory, POOL_BYTES as i64);
            map(POOL_BASE, POOL_BYTES, libc::MAP_SHARED, memory);
            map(POOL_BASE + ALIAS_OFFSET, POOL_BYTES, libc::MAP_SHARED, memory);
            libc::close(memory);
        }
        return;
    };
    if version != VERSION.to_string().as_bytes() {
        give_up("this program was built with another version of crashproof; build it again");
    }
    UNDER_CHECKER.store(true, Relaxed);
    keep_heap_elsewhere();
    CONTROL.store(map(0, CONTROL_BYTES, libc::MAP_SHARED, fd::CONTROL).cast(), Relaxed);
    WHOLE_TRACE.store(map(0, TRACE_BYTES, libc::MAP_SHARED, fd::TRACE), Relaxed);
    IMAGE.store(map_with(0, POOL_BYTES, libc::PROT_READ, libc::MAP_SHARED, fd::IMAGE), Relaxed);
    map_with(POOL_BASE, POOL_BYTES, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    map(POOL_BASE + ALIAS_OFFSET, POOL_BYTES, libc::MAP_PRIVATE, fd::IMAGE);
    let shadow_bytes = POOL_BYTES / LINE_BYTES * 8;
    SHADOW.store(map(0, shadow_bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).cast(), Relaxed);
    let own = map(0, own_memory::REGION_BYTES as u64, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    own_memory::use_region(own);
    TRACE.with(|trace| trace.records = WHOLE_TRACE.load(Relaxed).cast());
}

/// In the other placement the kernel puts the heap where the usual one has the program and its heap: pointers that were kept
/// would lead to something. A page in its way makes the C library look elsewhere, and what somebody had it take before is
/// used up and taken away.
fn keep_heap_elsewhere() {
    // SAFETY: asks for the environment, and for the end of the heap; the page replaces nothing.
    let end = unsafe {
        if libc::getenv(PLACED_ELSEWHERE.as_ptr()).is_null() {
            return;
        }
        let end = (raw_syscall(libc::SYS_brk, [0; 6]) as usize).next_multiple_of(PAGE);
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
        let arguments = [end, PAGE, libc::PROT_NONE as usize, how as usize, usize::MAX, 0];
        raw_syscall(libc::SYS_mmap, arguments);
        end
    };
    let in_its_way = |block: usize| (end.saturating_sub(MOST_HEAP)..end).contains(&block);
    let mut bytes = 16 * PAGE;
    while bytes >= 2 * PAGE {
        let block = own_memory::for_program(bytes) as usize;
        if !in_its_way(block) {
            bytes /= 2;
            continue;
        }
        let (from, to) = (block.next_multiple_of(PAGE), (block + bytes) & !(PAGE - 1));
        // SAFETY: whole pages of a block that nobody else knows of.
        unsafe {
            raw_syscall(libc::SYS_madvise, [from, to - from, libc::MADV_DONTNEED as usize, 0, 0, 0]);
            raw_syscall(libc::SYS_mprotect, [from, to - from, libc::PROT_NONE as usize, 0, 0, 0]);
        }
    }
}

/// The bytes of a line that this child has touched, a bit each. Only under the checker, for addresses in the pool.
#[inline(always)]
pub(crate) fn shadow<R>(address: u64, access: impl FnOnce(&mut u64) -> R) -> R {
    let line = address.wrapping_sub(POOL_BASE) / LINE_BYTES;
    debug_assert!(line < POOL_BYTES / LINE_BYTES, "an address outside of the pool");
    // SAFETY: there is a word for every line of the pool; only the running thread comes here.
    access(unsafe { &mut *SHADOW.load(Relaxed).add(line as usize) })
}

/// Writes content of the pool that is durable from the start; before `main`, or for files as they are found.
pub(crate) fn set_durable(address: u64, bytes: &[u8]) {
    let offset = address - POOL_BASE;
    assert!(offset + bytes.len() as u64 <= POOL_BYTES, "durable content outside of the pool");
    let image = IMAGE.load(Relaxed);
    if image.is_null() {
        // SAFETY: the pool is mapped, and the range is within.
        unsafe { raw::copy(address as *mut u8, bytes.as_ptr(), bytes.len()) };
        return;
    }
    // Read-only at all other times: every later recovery begins with the image, and a stray store of this one must not
    // change what the next finds.
    let to = image.wrapping_add(offset as usize);
    let start = to as usize & !(PAGE - 1);
    let length = (to as usize + bytes.len()).next_multiple_of(PAGE) - start;
    let allow = |rights: i32| {
        // SAFETY: the pages are the image's own, which stays mapped.
        let result = unsafe { raw_syscall(libc::SYS_mprotect, [start, length, rights as usize, 0, 0, 0]) };
        if result != 0 {
            give_up(&format!(
                "cannot write durable content: {}",
                std::io::Error::from_raw_os_error(-result as i32)
            ));
        }
    };
    allow(libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the image is mapped and writable, and the range is within.
    unsafe { raw::copy(to, bytes.as_ptr(), bytes.len()) };
    allow(libc::PROT_READ);
}

/// What the image holds in a range of the pool: what this process began with. Only under the checker.
pub(crate) fn image_bytes(address: u64, bytes: u64) -> &'static [u8] {
    let offset = address - POOL_BASE;
    assert!(offset + bytes <= POOL_BYTES, "a range outside of the pool");
    // SAFETY: the image is mapped, and changes only where files are loaded, before anybody looks there.
    unsafe { std::slice::from_raw_parts(IMAGE.load(Relaxed).add(offset as usize), bytes as usize) }
}

/// Does the image hold anything but zeros in a range of whole words?
pub(crate) fn image_holds(address: u64, bytes: u64) -> bool {
    !IMAGE.load(Relaxed).is_null()
        && image_bytes(address, bytes).as_chunks::<8>().0.iter().any(|word| *word != [0; 8])
}

/// Where records go, and how many reads that bring nothing new are left.
struct Trace {
    records: *mut Record,
    /// Records that fit into the part whose memory is there, or up to one at which somebody wants to be told.
    ready: u64,
    /// Records that fit.
    room: u64,
    /// The index of the record before which to call somebody, and whom: they give the next index.
    told_at: u64,
    tell: Option<fn(u64) -> u64>,
    /// How many reads in a row may bring nothing new, and how many of them are left.
    patience: u64,
    reads_left: u64,
    /// Bytes at the beginning that are the checker's.
    protected: u64,
    /// Is the address of every read noted? See [`watch_reads`]. Then, and until the next read after that, how many may still
    /// come is kept beside `reads_left`, which is 1.
    watching: bool,
    watched_left: Option<u64>,
    /// Which addresses were noted.
    watched: [u64; WAITS_FOR],
    /// Records whose memory children inherit; see [`find_trace`].
    inherited: u64,
}

static TRACE: RunningThreadCell<Trace> = RunningThreadCell::new(Trace {
    records: null_mut(),
    ready: 0,
    room: 0,
    told_at: u64::MAX,
    tell: None,
    patience: u64::MAX,
    reads_left: u64::MAX,
    protected: 0,
    watching: false,
    watched_left: None,
    watched: [0; WAITS_FOR],
    inherited: 0,
});

/// Goes to where the next child, and whoever records its end, is to write. What the checker keeps before that is not
/// for children to change, however wild their stores.
pub(crate) fn find_trace() {
    let kept = control(|control| control.trace_start);
    TRACE.with(|trace| {
        if kept != trace.protected {
            let whole = WHOLE_TRACE.load(Relaxed);
            // SAFETY: within the trace, which nobody refers to now.
            unsafe {
                let protect = |bytes: u64, how| libc::mprotect(whole.cast(), bytes as usize, how);
                protect(trace.protected.max(kept), libc::PROT_READ | libc::PROT_WRITE);
                protect(kept, libc::PROT_READ);
                trace.records = whole.add(kept as usize).cast();
            }
            trace.protected = kept;
            trace.inherited = 0;
            return;
        }
        let written = control(|control| control.records);
        if trace.inherited < written.min(MOST_INHERITED) {
            inherit_trace(trace, written);
        }
    });
}

/// Records whose memory is there for children, at most.
const MOST_INHERITED: u64 = 1 << 19;

/// Gets the memory that the last child needed for its trace, so that the next one has it from the start. The kernel
/// hands down page tables only of mappings that it has a reason to: a guard page, far behind anything written, is one. One
/// that does not know those leaves it to the children.
fn inherit_trace(trace: &mut Trace, written: u64) {
    const GUARD_INSTALL: i32 = 102;
    let count = (written + written / 4).min(MOST_INHERITED);
    // SAFETY: pages of the trace, whose content stays; nobody gets as far as its last one.
    unsafe {
        let last = WHOLE_TRACE.load(Relaxed).add(TRACE_BYTES as usize - PAGE);
        let start = (trace.records as usize) & !(PAGE - 1);
        let end = (trace.records.add(count as usize) as usize).next_multiple_of(PAGE);
        if libc::madvise(last.cast(), PAGE, GUARD_INSTALL) == 0
            && libc::madvise(start as *mut _, end - start, libc::MADV_POPULATE_WRITE) == 0
        {
            trace.inherited = count;
        }
    }
}

/// What was recorded so far.
pub(crate) fn recorded() -> &'static [Record] {
    let count = control(|control| control.records as usize);
    // SAFETY: so many were written, and records never change.
    TRACE.with(|trace| unsafe { std::slice::from_raw_parts(trace.records, count) })
}

/// Makes this process the child that the checker asked for: from here on it records.
pub(crate) fn begin_recording() {
    let (mode, patience, most) = control(|control| {
        (control.records, control.threads, control.points, control.notes) = (0, 1, 0, 0);
        (control.repeats, control.waits_for) = (0, [0; WAITS_FOR]);
        control.processes = Processes::NONE;
        (control.mode, control.max_idle_reads, control.max_records)
    });
    MODE.store(mode, Relaxed);
    STACKS.store(control(|control| control.stacks as usize).min(MAX_STACKS), Relaxed);
    TRACE.with(|trace| {
        trace.room = trace.inherited.min(most);
        trace.ready = trace.room;
        trace.patience = patience;
        trace.reads_left = trace.patience;
    });
}

/// PM is read. A loop that reads the same again and again leaves no records, and would never end.
#[inline(always)]
pub(crate) fn count_read(address: u64) {
    TRACE.with(|trace| {
        trace.reads_left = trace.reads_left.wrapping_sub(1);
        if trace.reads_left == 0 {
            no_reads_left(trace, address);
        }
    });
}

#[cold]
#[inline(never)]
fn no_reads_left(trace: &mut Trace, address: u64) {
    let Some(left) = trace.watched_left.as_mut().filter(|left| **left > 1) else {
        note_waiting(trace, address);
        too_much_work();
    };
    if !trace.watching {
        trace.reads_left = *left - 1;
        trace.watched_left = None;
        return;
    }
    *left -= 1;
    trace.reads_left = 1;
    note_waiting(trace, address);
}

fn note_waiting(trace: &mut Trace, address: u64) {
    if !trace.watched.contains(&address)
        && let Some(free) = trace.watched.iter_mut().find(|known| **known == 0)
    {
        *free = address;
    }
}

/// The trace is full before the run was looked at while it waits, which depends on how busy the machine is: what its last
/// records read again and again is what it waits for.
fn note_last_reads(trace: &mut Trace, count: u64) {
    const LAST: u64 = 64;
    if count < LAST || trace.watched != [0; WAITS_FOR] {
        return;
    }
    // SAFETY: so many were written, and records never change.
    let last =
        unsafe { std::slice::from_raw_parts(trace.records.add((count - LAST) as usize), LAST as usize) };
    let reads =
        |record: &&Record| matches!(record.event_kind(), Some(Kind::Load | Kind::Rmw | Kind::FailedRmw));
    for record in last.iter().filter(reads) {
        note_waiting(trace, record.address());
        // More than a few words are no wait, but work.
        if !trace.watched.contains(&record.address()) {
            trace.watched = [0; WAITS_FOR];
            return;
        }
    }
}

/// From now on the address of every read is noted, or no longer. A signal handler calls this at any time, also while a
/// read is counted: that count may just have found no reads left, and must not see that watching has ended. So this only
/// notes the end of watching, and the next read restores the count.
pub(crate) fn watch_reads(watch: bool) {
    TRACE.with(|trace| {
        if watch && !trace.watching {
            trace.watched = [0; WAITS_FOR];
            if trace.watched_left.is_none() {
                trace.watched_left = Some(trace.reads_left);
                trace.reads_left = 1;
            }
        }
        trace.watching = watch;
    });
}

/// The handler may have interrupted the count of a read, which then wrote over what [`watch_reads`] had set. To be called
/// where the program is outside of the runtime.
pub(crate) fn keep_watching() {
    TRACE.with(|trace| {
        if trace.watching && (trace.watched_left.is_none() || trace.reads_left != 1) {
            trace.watched_left = Some(trace.reads_left);
            trace.reads_left = 1;
        }
    });
}

/// Where the counters are that bound a run: what they are at does not matter to the program.
pub(crate) fn counters_range() -> (u64, u64) {
    let start = &raw const TRACE as u64;
    (start, start + size_of_val(&TRACE) as u64)
}

/// Where the shadow is.
pub(crate) fn shadow_range() -> (u64, u64) {
    let start = SHADOW.load(Relaxed) as u64;
    (start, start + POOL_BYTES / LINE_BYTES * 8)
}

/// Ends the process: it was seen to repeat itself.
pub(crate) fn never_ends() -> ! {
    control(|control| control.repeats = 1);
    too_much_work()
}

/// Appends a record to the trace. Only under the checker.
#[inline(always)]
pub(crate) fn append(record: Record) {
    TRACE.with(|trace| {
        control(|control| {
            let index = control.records;
            if index >= trace.ready {
                more_trace(trace, index, control.max_records);
            }
            // SAFETY: the trace is mapped that far.
            unsafe { trace.records.add(index as usize).write(record) };
            match &mut trace.watched_left {
                None => trace.reads_left = trace.patience,
                Some(left) => *left = trace.patience,
            }
            control.records = index + 1;
        });
    });
}

/// Appends a record, unless the trace ends in the same one: a loop that waits reads the same again and again.
#[inline(always)]
pub(crate) fn append_once(record: Record) {
    if recorded().last() != Some(&record) {
        append(record);
    }
}

/// Gets memory for more of the trace: more each time, since a fault for every page would cost more than
/// recording does.
#[cold]
#[inline(never)]
fn more_trace(trace: &mut Trace, index: u64, limit: u64) {
    const FIRST: u64 = 128;
    const LARGEST: u64 = 1 << 16;
    if let Some(tell) = trace.tell.filter(|_| index >= trace.told_at) {
        trace.told_at = tell(index);
    }
    if index < trace.room {
        trace.ready = trace.room.min(trace.told_at);
        return;
    }
    if index >= limit {
        note_last_reads(trace, index);
        too_much_work();
    }
    let count = index.clamp(FIRST, LARGEST);
    trace.room = (index + count).min(limit);
    trace.ready = trace.room.min(trace.told_at);
    if index > 0 {
        let _errno = KeptErrno::new();
        // SAFETY: pages of the trace, whose content stays. If the kernel does not know this, pages come one by one.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let start = (trace.records.add(index as usize) as usize).next_multiple_of(page);
            let end = (trace.records.add((index + count) as usize) as usize).next_multiple_of(page);
            libc::madvise(start as *mut _, end - start, libc::MADV_POPULATE_WRITE);
        }
    }
}

/// The decisions that this run follows, and notes about who sleeps then.
pub(crate) fn decisions() -> (&'static [Actor], &'static [Note]) {
    let (decisions, sleeping) = control(|control| (control.decisions as usize, control.sleeping as usize));
    let start = CONTROL.load(Relaxed).cast::<u8>();
    // SAFETY: the checker wrote so many there, aligned, and changes nothing while a child runs.
    unsafe {
        let decided = start.add(DECISIONS_OFFSET as usize).cast::<Actor>();
        let asleep = start.add(SLEEPING_OFFSET as usize).cast::<Note>();
        (std::slice::from_raw_parts(decided, decisions), std::slice::from_raw_parts(asleep, sleeping))
    }
}

/// Notes that a run may make: what has more steps is no program whose schedules could be explored.
const MAX_STEP_NOTES: u64 = 1 << 22;

/// Appends a note about the steps of the run; false if there is no room.
pub(crate) fn append_note(note: Note) -> bool {
    let index = control(|control| {
        control.notes += 1;
        control.notes - 1
    });
    if index >= MAX_STEP_NOTES {
        return false;
    }
    let notes = CONTROL.load(Relaxed).cast::<u8>().wrapping_add(NOTES_OFFSET as usize).cast::<Note>();
    // SAFETY: the control memory is mapped that far.
    unsafe { notes.add(index as usize).write(note) };
    true
}

/// Calls `tell` before the record of this index is made; it gives the next index, and must not record anything.
pub(crate) fn at_record(index: u64, tell: fn(u64) -> u64) {
    TRACE.with(|trace| {
        (trace.told_at, trace.tell) = (index, Some(tell));
        trace.ready = trace.room.min(index);
    });
}

/// Call stacks that the checker wants of this child.
static STACKS: AtomicUsize = AtomicUsize::new(0);

/// Does the checker want call stacks of this child?
pub(crate) fn wants_stacks() -> bool {
    STACKS.load(Relaxed) > 0
}

/// Gives access to the call stacks that the checker wants.
pub(crate) fn wanted_stacks<R>(access: impl FnOnce(&mut [Stack]) -> R) -> R {
    // SAFETY: under the checker the memory is mapped for good; the checker wrote so many of them there, aligned, and
    // leaves them alone while a child runs. They lie behind the control block, and only the running thread comes here.
    access(unsafe {
        let first = CONTROL.load(Relaxed).cast::<u8>().add(STACKS_OFFSET as usize).cast::<Stack>();
        std::slice::from_raw_parts_mut(first, STACKS.load(Relaxed))
    })
}

/// Ends the process: it does not come to an end by itself.
#[cold]
pub(crate) fn too_much_work() -> ! {
    // SAFETY: the cell may be in use, by whoever calls this: it is only read, and the process ends.
    control(|control| control.waits_for = unsafe { (*TRACE.as_ptr()).watched });
    end_at_once(exit::TOO_MUCH_WORK)
}

/// Ends the process without touching the state of the running thread: any thread may do that.
pub(crate) fn end_at_once(code: i32) -> ! {
    control(|control| {
        control.ended |= 1;
        let own = own_process() as u64;
        let first = control.processes.all[0].number;
        if control.processes.count > 0 && first != own {
            // A process that the first one forked: it is the run that ends, not only this.
            control.processes.ending = code as u64;
            // SAFETY: ends a process of this run.
            unsafe { raw_syscall(libc::SYS_kill, [first as usize, libc::SIGKILL as usize, 0, 0, 0, 0]) };
        }
    });
    // Not through the C library's function, which would let store buffers run out into a full trace.
    // SAFETY: ends the process.
    unsafe { std::arch::asm!("syscall", in("rax") libc::SYS_exit_group, in("rdi") code, options(noreturn)) }
}
