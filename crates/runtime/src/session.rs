//! The memory shared with the checker, and the mode of the process.
//!
//! Everything is mapped before any other code of the program runs ([`start`]). Without the checker there is only a
//! pool, which is discarded when the program ends; the mode stays [`mode::PASS`], and no other function of this module
//! is called.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

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

/// [`crashproof_protocol::ENVIRONMENT`] as a C string.
pub(crate) const ENVIRONMENT_NAME: &CStr = c"CRASHPROOF_SESSION";
const _: () = assert!(ENVIRONMENT_NAME.count_bytes() == crashproof_protocol::ENVIRONMENT.len());

/// [`crashproof_protocol::PROGRAM`] as a C string.
const PLACED_ELSEWHERE: &CStr = c"CRASHPROOF_PROGRAM";
/// The C library's heap is never larger than this before the program starts.
const MOST_HEAP: usize = 16 << 20;
const _: () = assert!(PLACED_ELSEWHERE.count_bytes() == crashproof_protocol::PROGRAM.len());

// Written only before `main` and after a fork. Atomics, because threads read them without holding the baton, and
// programs without the checker run their threads in parallel.
static MODE: AtomicU32 = AtomicU32::new(mode::PASS);
static UNDER_CHECKER: AtomicBool = AtomicBool::new(false);
static CONTROL: AtomicPtr<Control> = AtomicPtr::new(null_mut());
/// The image. [`set_durable`] makes it writable briefly; otherwise it is mapped read-only.
static IMAGE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// The number of the image's file; see [`image_parts`].
static IMAGE_NUMBER: AtomicU64 = AtomicU64::new(0);
/// The trace from its beginning, which the checker keeps and children must not change.
static WHOLE_TRACE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Which bytes of each line this child has touched, one word per line.
static SHADOW: AtomicPtr<u64> = AtomicPtr::new(null_mut());

/// See [`mode`].
#[inline(always)]
pub(crate) fn current_mode() -> u32 {
    MODE.load(Relaxed)
}

/// Is anything recorded?
#[inline(always)]
pub(crate) fn recording() -> bool {
    current_mode() != mode::PASS
}

#[inline(always)]
pub(crate) fn recovering() -> bool {
    current_mode() == mode::RECOVER
}

/// The process is no longer followed.
pub(crate) fn stop_recording() {
    MODE.store(mode::PASS, Relaxed);
}

/// Runs work done for the checker rather than by the program, without following it. Only the running thread may call
/// this.
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
    // SAFETY: under the checker it stays mapped. The checker does not access it while a child runs, and only the
    // running thread of the child does.
    access(unsafe { &mut *control })
}

/// The bit of [`Control::ended`] for a forked child that is not followed and touched persistent memory.
pub(crate) const TOUCHED_BY_CHILD: u64 = 2;

/// The bit of [`Control::ended`] for a program that forked.
pub(crate) const FORKED: u64 = 4;

/// Is this a forked child that is not followed?
static UNFOLLOWED: AtomicBool = AtomicBool::new(false);

/// Marks this process as a forked child that is not followed.
pub(crate) fn become_unfollowed() {
    UNFOLLOWED.store(true, Relaxed);
}

/// Called when a process that records nothing accesses persistent memory: reports it if the process was forked by one
/// that records.
#[cold]
pub(crate) fn note_unrecorded() {
    if UNFOLLOWED.load(Relaxed) {
        control(|control| control.ended |= TOUCHED_BY_CHILD);
    }
}

/// The number of possible switches so far, for threads that do not hold the baton.
pub(crate) fn points_seen_from_aside() -> u64 {
    // SAFETY: mapped, as in `control`; callers tolerate a torn or stale value.
    unsafe { (&raw const (*CONTROL.load(Relaxed)).points).read_volatile() }
}

/// The number of records so far, for processes whose turn it is not.
pub(crate) fn records_seen_from_aside() -> u64 {
    // SAFETY: mapped, as in `control`; callers tolerate a stale value.
    unsafe { (&raw const (*CONTROL.load(Relaxed)).records).read_volatile() }
}

/// Is this bit of [`flag`] set?
pub(crate) fn has_flag(flag: u32) -> bool {
    under_checker() && control(|control| control.flags & flag != 0)
}

/// Are volatile accesses of code that was not rebuilt followed in this run? In recoveries only if some of them are
/// steps.
pub(crate) fn follows_volatile() -> bool {
    let (follows, watched) = control(|control| (control.follow_volatile != 0, control.watched_count > 0));
    follows && (watched || !recovering())
}

/// Must this run's changes to files be undone before the next one? True for a recovery after which nothing crashes.
pub(crate) fn undoes_files() -> bool {
    recovering() && has_flag(flag::UNDO_FILES)
}

/// Does the checker assume persistent caches?
pub(crate) fn has_persistent_caches() -> bool {
    has_flag(flag::EADR)
}

/// Gives access to the paths of libraries that children have loaded.
pub(crate) fn late_modules<R>(access: impl FnOnce(&mut [LateModule; caller::MODULES]) -> R) -> R {
    // SAFETY: the table follows the control block; otherwise as for the block.
    access(unsafe { &mut *CONTROL.load(Relaxed).cast::<u8>().add(LATE_MODULES_OFFSET as usize).cast() })
}

/// Gives access to the table of files on the PM path.
pub(crate) fn files<R>(access: impl FnOnce(&mut Tables) -> R) -> R {
    // SAFETY: the table follows the control block; otherwise as for the block.
    access(unsafe { &mut *CONTROL.load(Relaxed).cast::<u8>().add(FILES_OFFSET as usize).cast() })
}

/// Lines whose content replaces that of the image.
pub(crate) fn patches() -> &'static [Patch] {
    let count = control(|control| control.patches as usize);
    // SAFETY: the checker wrote that many patches there before it requested a child.
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
    // Bypasses the C library's function, which the runtime interposes.
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
    // SAFETY: nothing else runs this early that could change the environment.
    let version = unsafe {
        let value = libc::getenv(ENVIRONMENT_NAME.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    };
    let Some(version) = version else {
        // The same memory in both places.
        // SAFETY: our own descriptor, which the mappings outlive.
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
    IMAGE_NUMBER.store(image_number(), Relaxed);
    map_with(POOL_BASE, POOL_BYTES, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    map(POOL_BASE + ALIAS_OFFSET, POOL_BYTES, libc::MAP_PRIVATE, fd::IMAGE);
    let shadow_bytes = POOL_BYTES / LINE_BYTES * 8;
    SHADOW.store(map(0, shadow_bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).cast(), Relaxed);
    let own = map(0, own_memory::REGION_BYTES as u64, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    own_memory::use_region(own);
    TRACE.with(|trace| trace.records = WHOLE_TRACE.load(Relaxed).cast());
}

/// In the other placement the kernel puts the heap where the usual placement has the program and its heap, so stale
/// pointers from another run would appear valid. A page in its way makes the C library look elsewhere; whatever heap
/// was taken before is used up and unmapped.
fn keep_heap_elsewhere() {
    // SAFETY: queries the environment and the end of the heap; the page replaces nothing.
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
        // SAFETY: whole pages of a block to which no other pointer exists.
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
    // SAFETY: there is a word for every line of the pool; only the running thread accesses it.
    access(unsafe { &mut *SHADOW.load(Relaxed).add(line as usize) })
}

/// The same bytes, which are about to be written to, mostly: memory that is not there comes at once, and not first as
/// zeros that cannot be written.
#[inline(always)]
pub(crate) fn shadow_to_write(address: u64) -> u64 {
    shadow(address, |known| {
        // SAFETY: changes nothing.
        unsafe { std::arch::asm!("or qword ptr [{}], 0", in(reg) &raw mut *known, options(nostack)) };
        *known
    })
}

/// Writes content of the pool that is durable from the start; before `main`, or for files as they are found.
pub(crate) fn set_durable(address: u64, bytes: &[u8]) {
    let offset = address - POOL_BASE;
    assert!(offset + bytes.len() as u64 <= POOL_BYTES, "durable content outside of the pool");
    let image = IMAGE.load(Relaxed);
    if image.is_null() {
        // SAFETY: the pool is mapped, and contains the range.
        unsafe { raw::copy(address as *mut u8, bytes.as_ptr(), bytes.len()) };
        return;
    }
    // Otherwise read-only: every later recovery starts from the image, and a stray store of this one must not change
    // it.
    let to = image.wrapping_add(offset as usize);
    let start = to as usize & !(PAGE - 1);
    let length = (to as usize + bytes.len()).next_multiple_of(PAGE) - start;
    let allow = |rights: i32| {
        // SAFETY: the pages belong to the image, which stays mapped.
        let result = unsafe { raw_syscall(libc::SYS_mprotect, [start, length, rights as usize, 0, 0, 0]) };
        if result != 0 {
            give_up(&format!(
                "cannot write durable content: {}",
                std::io::Error::from_raw_os_error(-result as i32)
            ));
        }
    };
    allow(libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the image is mapped and writable, and contains the range.
    unsafe { raw::copy(to, bytes.as_ptr(), bytes.len()) };
    allow(libc::PROT_READ);
}

/// The image's content of a range of the pool, from which this process started. Only under the checker.
pub(crate) fn image_bytes(address: u64, bytes: u64) -> &'static [u8] {
    let offset = address - POOL_BASE;
    assert!(offset + bytes <= POOL_BYTES, "a range outside of the pool");
    // SAFETY: the image is mapped, and changes only when files are loaded, before their range is read.
    unsafe { std::slice::from_raw_parts(IMAGE.load(Relaxed).add(offset as usize), bytes as usize) }
}

/// The parts of a range that were ever written to the image, as ranges. Asks the kernel instead of reading, which would
/// take memory for every page of a sparse file. A program that closed the descriptor gets the whole range.
pub(crate) fn image_parts(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = address + bytes;
    let mut at = if IMAGE.load(Relaxed).is_null() { end } else { address };
    let known = IMAGE_NUMBER.load(Relaxed) != 0 && image_number() == IMAGE_NUMBER.load(Relaxed);
    let seek = move |from: u64, what: i32| {
        let offset = (from - POOL_BASE) as usize;
        // SAFETY: moves a position that nothing uses.
        unsafe { raw_syscall(libc::SYS_lseek, [fd::IMAGE as usize, offset, what as usize, 0, 0, 0]) }
    };
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        if !known {
            return Some((std::mem::replace(&mut at, end), bytes));
        }
        let start = u64::try_from(seek(at, libc::SEEK_DATA)).ok()? + POOL_BASE;
        let hole = u64::try_from(seek(start.min(end), libc::SEEK_HOLE)).map_or(end, |hole| hole + POOL_BASE);
        at = hole.min(end);
        (start < end).then(|| (start, at - start))
    })
}

/// The number of the file behind the image's descriptor, which the program can close and use for another; 0 if there
/// is none.
fn image_number() -> u64 {
    // SAFETY: all-zero bytes are valid; the kernel fills the structure in.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        raw_syscall(libc::SYS_fstat, [fd::IMAGE as usize, &raw mut status as usize, 0, 0, 0, 0]);
        status.st_ino
    }
}

/// Does the image hold a nonzero word in a range of whole words?
pub(crate) fn image_holds(address: u64, bytes: u64) -> bool {
    !IMAGE.load(Relaxed).is_null()
        && image_bytes(address, bytes).as_chunks::<8>().0.iter().any(|word| *word != [0; 8])
}

/// Where records go, and how many more uneventful reads are allowed.
struct Trace {
    records: *mut Record,
    /// Records that fit into the part already backed by memory, or up to the next one that triggers a callback.
    ready: u64,
    /// Capacity in records.
    room: u64,
    /// The index of the record that triggers the callback, which returns the next such index.
    told_at: u64,
    tell: Option<fn(u64) -> u64>,
    /// How many consecutive reads may bring nothing new, and how many of them are left.
    patience: u64,
    reads_left: u64,
    /// Bytes at the beginning that belong to the checker.
    protected: u64,
    /// Is the address of every read noted? See [`watch_reads`]. Then, and until the read after it ends, the number of
    /// remaining reads is kept here, and `reads_left` is 1.
    watching: bool,
    watched_left: Option<u64>,
    /// The addresses noted.
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

/// Moves to where the next child, or the process that records its end, will write. Everything before that belongs to
/// the checker, and children must not be able to change it, however wild their stores.
pub(crate) fn find_trace() {
    let kept = control(|control| control.trace_start);
    TRACE.with(|trace| {
        if kept != trace.protected {
            let whole = WHOLE_TRACE.load(Relaxed);
            // SAFETY: within the trace, to which no reference exists at this point.
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

/// Advice that makes pages ones that nobody may touch, without a mapping of their own.
const GUARD_INSTALL: i32 = 102;

/// Records whose memory is there for children, at most.
const MOST_INHERITED: u64 = 1 << 19;

/// Allocates the memory that the last child needed for its trace, so that the next one has it from the start. The
/// kernel copies page tables on fork only for mappings that require it; one with a guard page, far beyond anything
/// written, does. On a kernel without guard pages, children fault the memory in themselves.
fn inherit_trace(trace: &mut Trace, written: u64) {
    let count = (written + written / 4).min(MOST_INHERITED);
    // SAFETY: pages of the trace, whose content is preserved; no record ever reaches its last one.
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

const _: () = assert!(FILES_OFFSET as usize + size_of::<Tables>() + PAGE <= CONTROL_BYTES as usize);

/// Gets the memory of the control block and of the first patches, so that children have it from the start; see
/// [`inherit_trace`].
pub(crate) fn inherit_control() {
    // SAFETY: pages of the block, whose content stays; nobody gets as far as its last one.
    unsafe {
        let start = CONTROL.load(Relaxed).cast::<u8>();
        let last = start.add(CONTROL_BYTES as usize - PAGE);
        if libc::madvise(last.cast(), PAGE, GUARD_INSTALL) == 0 {
            for page in [start, start.add(PATCHES_OFFSET as usize)] {
                libc::madvise(page.cast(), PAGE, libc::MADV_POPULATE_WRITE);
            }
        }
    }
}

/// What was recorded so far.
pub(crate) fn recorded() -> &'static [Record] {
    let count = control(|control| control.records as usize);
    // SAFETY: that many records have been written, and records never change.
    TRACE.with(|trace| unsafe { std::slice::from_raw_parts(trace.records, count) })
}

/// Turns this process into the child that the checker requested: it records from here on.
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

/// Counts a read of PM. A loop that reads the same values repeatedly leaves no records, and would otherwise run
/// forever.
#[inline(always)]
pub(crate) fn count_read(address: u64) {
    TRACE.with(|trace| {
        trace.reads_left = trace.reads_left.wrapping_sub(1);
        if trace.reads_left == 0 {
            no_reads_left(trace, address);
        }
    });
}

/// Counts a read of PM if that takes nothing else; [`count_read`] otherwise.
#[inline(always)]
pub(crate) fn count_read_quickly() -> bool {
    TRACE.with(|trace| {
        let more = trace.reads_left > 1;
        if more {
            trace.reads_left -= 1;
        }
        more
    })
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

/// The trace filled up before the run was watched while it waits, which depends on the load of the machine: the run
/// waits for what its last records read over and over.
fn note_last_reads(trace: &mut Trace, count: u64) {
    const LAST: u64 = 64;
    if count < LAST || trace.watched != [0; WAITS_FOR] {
        return;
    }
    // SAFETY: that many records have been written, and records never change.
    let last =
        unsafe { std::slice::from_raw_parts(trace.records.add((count - LAST) as usize), LAST as usize) };
    let reads =
        |record: &&Record| matches!(record.event_kind(), Some(Kind::Load | Kind::Rmw | Kind::FailedRmw));
    for record in last.iter().filter(reads) {
        note_waiting(trace, record.address());
        // More than a few distinct words is work, not waiting.
        if !trace.watched.contains(&record.address()) {
            trace.watched = [0; WAITS_FOR];
            return;
        }
    }
}

/// Starts or stops noting the address of every read. A signal handler calls this at any time, even while a read is
/// being counted: that count may just have found no reads left, and must not see that watching has ended. So this only
/// marks the end of watching, and the next read restores the count.
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

/// The handler may have interrupted the counting of a read, which then overwrote what [`watch_reads`] had set. To be
/// called when the program is outside the runtime.
pub(crate) fn keep_watching() {
    TRACE.with(|trace| {
        if trace.watching && (trace.watched_left.is_none() || trace.reads_left != 1) {
            trace.watched_left = Some(trace.reads_left);
            trace.reads_left = 1;
        }
    });
}

/// The range of the counters that bound a run: their values do not affect the program.
pub(crate) fn counters_range() -> (u64, u64) {
    let start = &raw const TRACE as u64;
    (start, start + size_of_val(&TRACE) as u64)
}

/// The range of the shadow.
pub(crate) fn shadow_range() -> (u64, u64) {
    let start = SHADOW.load(Relaxed) as u64;
    (start, start + POOL_BYTES / LINE_BYTES * 8)
}

/// Ends the process, which was seen to repeat its state.
pub(crate) fn never_ends() -> ! {
    control(|control| control.repeats = 1);
    too_much_work()
}

/// Appends a record to the trace. Only under the checker.
#[inline(always)]
pub(crate) fn append(record: Record) {
    if !append_within_room(record) {
        append_otherwise(record);
    }
}

/// Appends a record if that takes nothing but writing it. The record is written field by field: passed on in memory, it
/// would be read back before it is there.
#[inline(always)]
pub(crate) fn append_within_room(record: Record) -> bool {
    let index = control(|control| control.records);
    let (records, has_room) =
        TRACE.with(|trace| (trace.records, index < trace.ready && trace.watched_left.is_none()));
    if has_room {
        // SAFETY: the trace is mapped that far.
        unsafe { records.add(index as usize).write(record) };
        TRACE.with(|trace| trace.reads_left = trace.patience);
        control(|control| control.records = index + 1);
    }
    has_room
}

#[inline(never)]
fn append_otherwise(record: Record) {
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

/// Appends a record, unless it equals the last one: a waiting loop reads the same value repeatedly.
#[inline(always)]
pub(crate) fn append_once(record: Record) {
    if recorded().last() != Some(&record) {
        append(record);
    }
}

/// Makes more of the trace accessible, in growing steps: a fault per page would cost more than recording does.
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
        // SAFETY: pages of the trace, whose content is preserved. If the kernel does not support this, pages are
        // faulted in one by one.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let start = (trace.records.add(index as usize) as usize).next_multiple_of(page);
            let end = (trace.records.add((index + count) as usize) as usize).next_multiple_of(page);
            libc::madvise(start as *mut _, end - start, libc::MADV_POPULATE_WRITE);
        }
    }
}

/// The decisions for this run, and notes about which actors sleep after the last one.
pub(crate) fn decisions() -> (&'static [Actor], &'static [Note]) {
    let (decisions, sleeping) = control(|control| (control.decisions as usize, control.sleeping as usize));
    let start = CONTROL.load(Relaxed).cast::<u8>();
    // SAFETY: the checker wrote that many there, aligned, and does not change them while a child runs.
    unsafe {
        let decided = start.add(DECISIONS_OFFSET as usize).cast::<Actor>();
        let asleep = start.add(SLEEPING_OFFSET as usize).cast::<Note>();
        (std::slice::from_raw_parts(decided, decisions), std::slice::from_raw_parts(asleep, sleeping))
    }
}

/// The maximum number of notes per run: a program with more steps is beyond exploration.
const MAX_STEP_NOTES: u64 = 1 << 22;

/// Appends a note about the steps of the run; `false` if there is no room.
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

/// Calls `tell` before the record with this index is made. `tell` returns the next index, and must not record anything.
pub(crate) fn at_record(index: u64, tell: fn(u64) -> u64) {
    TRACE.with(|trace| {
        (trace.told_at, trace.tell) = (index, Some(tell));
        trace.ready = trace.room.min(index);
    });
}

/// The number of call stacks the checker requested from this child.
static STACKS: AtomicUsize = AtomicUsize::new(0);

/// Did the checker request call stacks from this child?
pub(crate) fn wants_stacks() -> bool {
    STACKS.load(Relaxed) > 0
}

/// Gives access to the requested call stacks.
pub(crate) fn wanted_stacks<R>(access: impl FnOnce(&mut [Stack]) -> R) -> R {
    // SAFETY: under the checker the memory stays mapped; the checker wrote that many of them there, aligned, and does
    // not access them while a child runs. They follow the control block, and only the running thread accesses them.
    access(unsafe {
        let first = CONTROL.load(Relaxed).cast::<u8>().add(STACKS_OFFSET as usize).cast::<Stack>();
        std::slice::from_raw_parts_mut(first, STACKS.load(Relaxed))
    })
}

/// Ends the process, which exceeded its work limit.
#[cold]
pub(crate) fn too_much_work() -> ! {
    // SAFETY: the cell may be in use by the caller: it is only read, and the process ends.
    control(|control| control.waits_for = unsafe { (*TRACE.as_ptr()).watched });
    end_at_once(exit::TOO_MUCH_WORK)
}

/// Ends the process without touching the state of the running thread, so any thread may call this.
pub(crate) fn end_at_once(code: i32) -> ! {
    control(|control| {
        control.ended |= 1;
        let own = own_process() as u64;
        let first = control.processes.all[0].number;
        if control.processes.count > 0 && first != own {
            // A process forked by the first one: the whole run ends, not only this process.
            control.processes.ending = code as u64;
            // SAFETY: ends a process of this run.
            unsafe { raw_syscall(libc::SYS_kill, [first as usize, libc::SIGKILL as usize, 0, 0, 0, 0]) };
        }
    });
    // Bypasses the C library's function, which would drain store buffers into a full trace.
    // SAFETY: ends the process.
    unsafe { std::arch::asm!("syscall", in("rax") libc::SYS_exit_group, in("rdi") code, options(noreturn)) }
}
