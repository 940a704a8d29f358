//! A program under test as a process: parked just before `main`, it forks a child for each run. Control block, image,
//! trace and output are memory shared with it.

#![allow(unsafe_code, reason = "shared memory, and setting up a child process")]

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crashproof_protocol::steps::{Actor, Note};
use crashproof_protocol::{
    CONTROL_BYTES, Control, DECISIONS_OFFSET, DEFAULT_PM_PATH, ENVIRONMENT, FACTS, FILES, FILES_OFFSET, HEAP,
    LATE_MODULES_OFFSET, LateModule, MADE_DIRECTORY, MAX_CHANGES, MAX_FILES, MAX_NOTES, MAX_STACKS,
    MAX_WATCHED, NOTES_OFFSET, NameChange, PARKED, PATCHES_OFFSET, PM_PATH, POOL_BASE, POOL_BYTES, Patch,
    PmFile, RUN, Record, SLEEPING_OFFSET, STACKS_OFFSET, Stack, TRACE_BYTES, Tables, VERSION, caller, exit,
    fd, fill, flag,
};
use memmap2::{MmapMut, MmapOptions};
use px86::{LINE_BYTES, Line, Platform};
use rustc_hash::FxHashMap;

use crate::subject::descriptors;
use crate::subject::ending::{Ended, Ending, Limit};
use crate::subject::error::{Error, system};
use crate::subject::executable;
use crate::subject::fault;
use crate::subject::file_names::{FileNames, NameVersions};
use crate::subject::interface::{Bytes, Subject};
use crate::subject::interrupt::Interrupt;
use crate::subject::panic;
use crate::subject::pinning::Pinning;
use crate::subject::placement::Placement;
use crate::subject::run::{Mode, Run};
use crate::subject::sandbox::{self, Confined, Sandbox};
use crate::subject::sanitizer;
use crate::subject::sites::Sites;
use crate::subject::trace::{PAGE, Trace};
use crate::subject::waiting::{LOOK, OnIdle, Waited, Waiting, addresses};

/// A program and everything that is the same in all its runs.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The program, built with crashproof.
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// The working directory; the current one if not given.
    pub(crate) directory: Option<PathBuf>,
    /// Words in front of it on the command line, such as a debugger.
    pub(crate) wrapper: Vec<OsString>,
    /// Directories whose files count as persistent memory; the runtime's default paths if empty.
    pub(crate) pm_path: Vec<PathBuf>,
    pub(crate) pm_heap: bool,
    pub(crate) strict: bool,
    pub(crate) platform: Platform,
    /// Maximum address space of a run beyond the program's size before `main`, in bytes.
    pub(crate) max_memory: u64,
    /// Maximum resident memory of a run, in bytes.
    pub(crate) most_memory: u64,
    /// Maximum output of a run, in bytes.
    pub(crate) max_output: u64,
    /// Flags for the runtime, in addition to those above; see [`flag`].
    pub(crate) switches: u32,
    /// The client command for a program that waits for input.
    pub(crate) client: Vec<String>,
    /// Does a recovery count as successful once it waits for input, and which command verifies it?
    pub(crate) until_idle: bool,
    pub(crate) recovered: Vec<String>,
    pub(crate) placement: Placement,
    pub(crate) heap: Heap,
    /// Environment variables in addition to the checker's own.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) interrupt: Interrupt,
    /// The runtime, for programs not built with it.
    pub(crate) runtime: Option<PathBuf>,
    pub(crate) sandbox: Sandbox,
}

impl Launch {
    /// The existing directories whose files count as persistent memory.
    fn pm_directories(&self) -> Vec<PathBuf> {
        let usual = || DEFAULT_PM_PATH.split(':').map(PathBuf::from).collect();
        let paths: Vec<PathBuf> = if self.pm_path.is_empty() { usual() } else { self.pm_path.clone() };
        let matching = |path: &PathBuf| -> Vec<PathBuf> {
            let Some(start) = path.to_str().and_then(|text| text.strip_suffix('*')) else {
                return vec![path.clone()];
            };
            let parent = Path::new(start).parent().unwrap_or(Path::new("/"));
            let entries = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
            entries.filter(|entry| entry.to_string_lossy().starts_with(start)).collect()
        };
        paths.iter().flat_map(matching).collect()
    }
}

/// Layout and fill patterns of the heap, if it is persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Heap {
    /// The start of blocks, shifted by this many times sixteen bytes.
    pub layout: u32,
    /// Fill byte of fresh memory; zero if not given.
    pub fresh: Option<u8>,
    /// Byte with which freed memory is overwritten, if any.
    pub freed: Option<u8>,
}

impl Default for Heap {
    /// Patterns that are not valid addresses.
    fn default() -> Heap {
        Heap { layout: 0, fresh: Some(0xcd), freed: Some(0xdd) }
    }
}

/// The parked process.
pub(crate) struct Process {
    launch: Launch,
    process: Confined,
    command: UnixStream,
    control: MmapMut,
    control_file: File,
    trace: MmapMut,
    trace_file: File,
    image: MmapMut,
    image_file: File,
    /// The memory that the image took when a run was last recorded. Reading a hole of it takes memory, too.
    image_base: u64,
    output: File,
    sites: File,
    /// The number of records of the last run. A copy: the program can overwrite memory shared with the checker.
    recorded: usize,
    /// Bytes at the beginning of the trace that are kept.
    trace_start: u64,
    /// Previous content of the lines written since, by page; see [`Subject::rewind`].
    original: FxHashMap<u64, Before>,
    pinning: Pinning,
    last_ending: Option<Ending>,
    /// Is it a copy of another one, made for a worker?
    is_twin: bool,
}

/// What a page of the image held before it was written. Most lines were empty, and take a bit.
#[derive(Default)]
struct Before {
    /// The lines that were written.
    written: u64,
    /// Those that held something.
    contents: Vec<(Line, Bytes)>,
}

/// Lines of a page, as many as a word has bits.
const LINES_OF_PAGE: u64 = 64;

/// Records that may follow the last one the limit allows: how the run ended.
const LAST_RECORDS: u64 = 4096;

/// Was this part of a file ever written? A part that was not holds no record, and reading it would take memory.
fn written(file: &File, start: u64, bytes: u64) -> bool {
    const LITTLE: u64 = 1 << 20;
    if bytes <= LITTLE {
        return true;
    }
    // SAFETY: seeks in our own file, whose position is not used.
    let hole = unsafe { libc::lseek(file.as_raw_fd(), start as i64, libc::SEEK_HOLE) };
    u64::try_from(hole).is_ok_and(|hole| hole >= start.saturating_add(bytes))
}

/// The memory that shared memory takes, in bytes.
fn taken(file: &File) -> u64 {
    const BLOCK: u64 = 512;
    file.metadata().map_or(0, |about| about.blocks() * BLOCK)
}

/// The exit code of a loader that fails.
const LOADER_FAILS: i32 = 127;
fn shared_file(name: &str, bytes: u64) -> Result<File, Error> {
    let name = CString::new(name).expect("no zero in the name");
    // Above the descriptors that the program inherits, so that assigning their numbers does not clobber any.
    let descriptor =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if descriptor < 0 {
        return Err(system("cannot create shared memory")(std::io::Error::last_os_error()));
    }
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(bytes).map_err(system("cannot size shared memory"))?;
    Ok(file)
}

fn map(file: &File, bytes: u64) -> Result<MmapMut, Error> {
    // SAFETY: the file is ours; the program writes to it only while this side waits.
    unsafe { MmapOptions::new().len(bytes as usize).no_reserve_swap().map_mut(file) }
        .map_err(system("cannot map shared memory"))
}

/// Standard input, if it is a file that every run can read from the beginning. A pipe or terminal can be read only
/// once, so programs find it empty.
fn regular_input() -> Option<File> {
    // Through the link, so that a file opened for reading only is reopened the same way.
    File::open("/proc/self/fd/0").ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))
}

/// The command that starts a program with these descriptors, each under its expected number.
fn command(launch: &Launch, inherited: [(i32, i32); 6], bind_now: bool) -> Command {
    let placed = launch.placement.words(&launch.program);
    let mut words =
        launch.wrapper.iter().map(OsString::as_os_str).chain(placed.iter().map(OsString::as_os_str));
    let mut command = Command::new(words.next().expect("at least the program"));
    command.args(words).args(&launch.arguments).env(ENVIRONMENT, VERSION.to_string());
    // The backtrace of a panic maps and reads the program itself, which costs far more than a recovery; the report
    // names the place of the panic anyway.
    command.env("RUST_BACKTRACE", "0").env("RUST_LIB_BACKTRACE", "0");
    if bind_now {
        // Otherwise every child would look up the functions it calls.
        command.env("LD_BIND_NOW", "1");
    }
    command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &launch.directory {
        command.current_dir(directory);
    }
    launch.placement.set_environment(&launch.program, &mut command);
    if let Some(runtime) = launch.runtime.as_ref().filter(|_| !executable::is_rebuilt(&launch.program)) {
        command.env("LD_PRELOAD", executable::preloaded(runtime));
    }
    let personality = launch.placement.personality();
    sanitizer::prepare(&mut command);
    let input = regular_input();
    if launch.wrapper.is_empty() {
        // Ctrl-C is meant for the checker, not for the program.
        command.stdin(Stdio::null()).process_group(0);
    }
    if !launch.pm_path.is_empty() {
        let paths: Vec<_> = launch.pm_path.iter().map(|path| path.as_os_str()).collect();
        command.env(PM_PATH, paths.join(OsStr::new(":")));
    }
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // The same addresses in every run, so that the program's stores are reproducible.
            libc::personality(personality);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // With many workers the checker's own descriptors may have these numbers.
            let mut moved = [0; 6];
            for (moved, (from, _)) in moved.iter_mut().zip(inherited) {
                *moved = libc::fcntl(from, libc::F_DUPFD_CLOEXEC, fd::END);
                if *moved < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            let input =
                input.as_ref().map(|file| libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, fd::END));
            for (from, (_, to)) in moved.into_iter().zip(inherited) {
                if libc::dup2(from, to) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            descriptors::restore_limit();
            match input {
                Some(file) => drop(libc::dup2(file, fd::INPUT)),
                None => drop(libc::close(fd::INPUT)),
            }
            Ok(())
        });
    }
    command
}

impl Process {
    /// Starts a program and waits until it is parked.
    pub(crate) fn start(launch: Launch) -> Result<Process, Error> {
        Process::start_bound(launch, true)
    }

    fn start_bound(launch: Launch, bind_now: bool) -> Result<Process, Error> {
        let program = &launch.program;
        executable::is_usable(program)?;
        descriptors::raise_limits()?;
        let control = shared_file("crashproof-control", CONTROL_BYTES)?;
        let image = shared_file("crashproof-image", POOL_BYTES)?;
        let trace = shared_file("crashproof-trace", TRACE_BYTES)?;
        let sites = shared_file("crashproof-sites", 0)?;
        let output = shared_file("crashproof-output", launch.max_output)?;
        // Output beyond this is lost, and `write` fails, instead of exhausting memory.
        let seals = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK;
        if unsafe { libc::fcntl(output.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(system("cannot bound the output")(std::io::Error::last_os_error()));
        }
        let (ours, theirs) = UnixStream::pair().map_err(system("cannot create a socket"))?;
        let inherited = [
            (control.as_raw_fd(), fd::CONTROL),
            (image.as_raw_fd(), fd::IMAGE),
            (trace.as_raw_fd(), fd::TRACE),
            (theirs.as_raw_fd(), fd::COMMAND),
            (sites.as_raw_fd(), fd::SITES),
            (output.as_raw_fd(), fd::OUTPUT),
        ];
        // A debugger runs outside the sandbox.
        let sandbox = if launch.wrapper.is_empty() { launch.sandbox.clone() } else { Sandbox::off() };
        let make = || command(&launch, inherited, bind_now);
        let process = sandbox::start(&sandbox, make, &launch.pm_directories())
            .map_err(|source| Error::Start { program: program.to_owned(), source })?;
        drop(theirs);
        let mut process = Process {
            control: map(&control, CONTROL_BYTES)?,
            control_file: control,
            trace: map(&trace, TRACE_BYTES)?,
            trace_file: trace,
            image: map(&image, POOL_BYTES)?,
            image_file: image,
            image_base: 0,
            process,
            command: ours,
            output,
            sites,
            recorded: 0,
            trace_start: 0,
            original: FxHashMap::default(),
            pinning: Pinning::default(),
            last_ending: None,
            is_twin: false,
            launch,
        };
        let mut hello = [0];
        let greeted = process.command.read_exact(&mut hello).is_ok();
        if !greeted {
            match process.exit_code() {
                // Some programs start only if functions they never call are not resolved.
                Some(LOADER_FAILS) if bind_now => {
                    return Process::start_bound(process.launch.clone(), false);
                }
                // It has printed the reason.
                Some(exit::UNSUPPORTED) => {
                    return Err(system("the runtime cannot start in the program")(std::io::Error::other(
                        "see above",
                    )));
                }
                _ => {}
            }
        }
        process.command.set_read_timeout(Some(LOOK)).map_err(system("cannot use a socket"))?;
        let followed = process.launch.runtime.is_some();
        if !greeted || hello != [PARKED] || process.control().modules == 0 && !followed {
            return Err(Error::NotInstrumented { program: process.launch.program.clone() });
        }
        let switches = [
            (process.launch.pm_heap, flag::PM_HEAP),
            (process.launch.strict, flag::STRICT),
            (process.launch.platform.every_cache_survives(), flag::EADR),
            (
                executable::runs_one_rust_test(&process.launch.program, &process.launch.arguments),
                flag::REFUSE_FIRST_THREAD,
            ),
        ];
        process.control_mut().flags = switches
            .iter()
            .filter(|(on, _)| *on)
            .fold(process.launch.switches, |flags, (_, flag)| flags | flag);
        let heap = process.launch.heap;
        process.control_mut().layout = heap.layout;
        process.control_mut().fill = fill::value(heap.fresh, heap.freed);
        Ok(process)
    }

    /// Did a run ask the kernel to write files back?
    pub(crate) fn has_synced(&self) -> bool {
        self.control().synced != 0
    }

    /// Takes at most `most` records made by the child. `false` if they are invalid: then the child has overwritten
    /// them, and what it did is unknown.
    fn take_records(&mut self, most: u64) -> bool {
        let room = TRACE_BYTES.saturating_sub(self.trace_start) / size_of::<Record>() as u64;
        let claimed = self.control().records;
        let written =
            written(&self.trace_file, self.trace_start, claimed.saturating_mul(size_of::<Record>() as u64));
        let intact = claimed <= room.min(most.saturating_add(LAST_RECORDS)) && written;
        self.recorded = if intact { claimed as usize } else { 0 };
        let possible = self.records().iter().take_while(|record| record.is_possible()).count();
        let whole = intact && possible == self.recorded;
        self.recorded = possible;
        whole
    }

    /// The exit code of a program that has ended.
    fn exit_code(&mut self) -> Option<i32> {
        self.process.end().filter(|status| libc::WIFEXITED(*status)).map(|status| libc::WEXITSTATUS(status))
    }

    fn control(&self) -> &Control {
        // SAFETY: as for `control_mut`.
        unsafe { &*self.control.as_ptr().cast::<Control>() }
    }

    fn control_mut(&mut self) -> &mut Control {
        // SAFETY: the block is at the start of the mapping, which is page-aligned and large enough; the program
        // accesses it only while this side waits.
        unsafe { &mut *self.control.as_mut_ptr().cast::<Control>() }
    }

    /// Copies part of another one's image, which is huge and nearly empty, so only what is present.
    fn copy_image(&mut self, other: &Process, addresses: Range<u64>) {
        let from = other.image_file.as_raw_fd();
        let last = (addresses.end - POOL_BASE) as i64;
        let mut at = (addresses.start - POOL_BASE) as i64;
        while at < last {
            // SAFETY: seeks in our own file.
            let start = unsafe { libc::lseek(from, at, libc::SEEK_DATA) };
            if start < 0 || start >= last {
                break;
            }
            let end = unsafe { libc::lseek(from, start, libc::SEEK_HOLE) }.min(last);
            let range = start as usize..end as usize;
            self.image[range.clone()].copy_from_slice(&other.image[range]);
            at = end;
        }
    }

    /// The table of files.
    fn tables(&self) -> &Tables {
        // SAFETY: the table lies in the mapping, aligned; it is plain data in which every bit pattern is valid.
        unsafe { &*self.control.as_ptr().add(FILES_OFFSET as usize).cast::<Tables>() }
    }

    fn tables_mut(&mut self) -> &mut Tables {
        // SAFETY: as above; the program is not running.
        unsafe { &mut *self.control.as_mut_ptr().add(FILES_OFFSET as usize).cast::<Tables>() }
    }

    /// The persistent files opened by runs.
    fn files(&self) -> &[PmFile] {
        &self.tables().files[..(self.tables().file_count as usize).min(MAX_FILES)]
    }

    /// The end of the last child's output.
    fn output_tail(&mut self, most: u64) -> String {
        let length = self.output.stream_position().unwrap_or(0);
        let start = length.saturating_sub(most);
        let mut bytes = vec![0; (length - start) as usize];
        let _ = std::os::unix::fs::FileExt::read_exact_at(&self.output, &mut bytes, start);
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }
}

/// A zero-terminated path, if there is one.
fn path_in(bytes: &[u8]) -> Option<PathBuf> {
    let path = CStr::from_bytes_until_nul(bytes).ok()?.to_bytes();
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

impl Subject for Process {
    fn run(&mut self, run: &Run, patches: &[Patch]) -> Result<Ended, Error> {
        run.fill(self.control_mut());
        self.control_mut().trace_start = self.trace_start;
        self.control_mut().patches = patches.len() as u64;
        let size = size_of::<Patch>();
        for (index, patch) in patches.iter().enumerate() {
            let start = PATCHES_OFFSET as usize + index * size;
            self.control[start..start + 8].copy_from_slice(&patch.address.to_le_bytes());
            self.control[start + 8..start + size].copy_from_slice(&patch.bytes);
        }
        // The child's descriptor shares the position of this one, which says how much it printed.
        let _ = self.output.rewind();
        self.control_mut().child = 0;
        self.pinning.before_run(self.process.id());
        let lost = |error| system("lost the program")(error);
        self.command.write_all(&[RUN]).map_err(lost)?;
        let serves = self.launch.until_idle || !self.launch.client.is_empty();
        let on_idle = match run.mode {
            // Under a debugger a run has no time limit.
            _ if run.limits.cpu_seconds == 0 => OnIdle::Nothing,
            Mode::Record { .. } if !self.launch.client.is_empty() => OnIdle::Client(&self.launch.client),
            Mode::Recover if serves => OnIdle::Recovered(&self.launch.recovered),
            _ => OnIdle::GiveUp,
        };
        // Beyond the size of the parked process. Monitored rather than enforced: a program that is refused memory would
        // fail because of the checker.
        let allowed = Some(self.launch.max_memory).filter(|bytes| *bytes > 0);
        let most_addresses = allowed.map(|bytes| bytes + addresses(self.process.id() as i32));
        let image = &self.image_file;
        let image_base = if matches!(run.mode, Mode::Record { .. }) { 0 } else { self.image_base };
        let (process, control) = (&self.process, self.control.as_ptr().cast::<Control>());
        // SAFETY: the parked process writes it at any time, or has done so.
        let inside = || unsafe { (&raw const (*control).child).read_volatile() };
        let waiting = Waiting {
            child: &|| Some(inside()).filter(|child| *child > 0).map_or(0, |child| process.child(child)),
            command: &mut self.command,
            interrupt: &self.launch.interrupt,
            on_idle,
            image_growth: &|| taken(image).saturating_sub(image_base),
            most_memory: self.launch.most_memory,
            most_addresses,
        };
        let waited = waiting.wait().map_err(lost)?;
        self.pinning.after_run(self.process.id());
        if matches!(run.mode, Mode::Record { .. }) {
            self.tables_mut().recorded_changes = self.tables().change_count;
            self.image_base = taken(&self.image_file);
        }
        let whole = self.take_records(run.limits.records);
        let printed = self.output.stream_position().unwrap_or(0);
        let full = printed + 4096 >= self.launch.max_output;
        let ending = match waited {
            Waited::Interrupted => return Err(Error::Interrupted),
            _ if !whole => Ending::Corrupted,
            Waited::As(ending) => ending,
            Waited::Ended(status) if libc::WIFSIGNALED(status) => Ending::Signal(libc::WTERMSIG(status)),
            Waited::Ended(status) => Ending::Exit(libc::WEXITSTATUS(status)),
        };
        let endless = self.control().repeats != 0 || self.control().records < run.limits.records;
        let ending = match (ending, run.mode) {
            (Ending::Exit(exit::TOO_MUCH_WORK), Mode::Record { .. }) if !endless => {
                Ending::Limit(Limit::Events)
            }
            (ending, _) if full && ending != Ending::Exit(0) => Ending::Limit(Limit::Output),
            (ending, _) => ending,
        };
        // Raised by the runtime's filter while signals were blocked, so that its handler could not run.
        let ending = if ending == Ending::Signal(libc::SIGSYS) {
            let what =
                "it passes persistent memory to the kernel in a system call, while all signals are blocked\n";
            let _ = self.output.write_all(what.as_bytes());
            Ending::Exit(exit::UNSUPPORTED)
        } else {
            ending
        };
        (self.control_mut().decisions, self.control_mut().sleeping) = (0, 0);
        self.last_ending = Some(ending);
        let control = self.control();
        let waits_for = control.waits_for.iter().copied().filter(|address| *address != 0).collect();
        let repeats = control.repeats != 0;
        Ok(Ended { ending, threads: control.threads, switch_points: control.points, waits_for, repeats })
    }

    fn decide(&mut self, decisions: &[Actor], sleeping: &[Note]) {
        let mut put = |offset: u64, bytes: &[u8]| {
            self.control[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        };
        // SAFETY: both are plain data without padding.
        unsafe {
            let decided = std::slice::from_raw_parts(decisions.as_ptr().cast(), size_of_val(decisions));
            put(DECISIONS_OFFSET, decided);
            let asleep = std::slice::from_raw_parts(sleeping.as_ptr().cast(), size_of_val(sleeping));
            put(SLEEPING_OFFSET, asleep);
        }
        self.control_mut().decisions = decisions.len() as u64;
        self.control_mut().sleeping = sleeping.len() as u64;
    }

    fn follow_volatile(&mut self, watched: Option<&[u32]>) {
        let control = self.control_mut();
        control.follow_volatile = watched.is_some().into();
        let watched = watched.unwrap_or_default();
        let count = watched.len().min(MAX_WATCHED);
        control.watched[..count].copy_from_slice(&watched[..count]);
        control.watched_count = count as u32;
    }

    fn last_ending(&self) -> Option<Ending> {
        self.last_ending
    }

    fn notes(&self) -> &[Note] {
        let claimed = self.control().notes.min(MAX_NOTES);
        let is_written = written(&self.control_file, NOTES_OFFSET, claimed * size_of::<Note>() as u64);
        let count = if is_written { claimed as usize } else { 0 };
        // SAFETY: the child has ended; that many complete notes fit there, aligned.
        unsafe {
            let start = self.control.as_ptr().add(NOTES_OFFSET as usize).cast::<Note>();
            std::slice::from_raw_parts(start, count)
        }
    }

    fn records(&self) -> &[Record] {
        // SAFETY: the child has ended; that many complete records fit into the trace there (see `take_records`).
        unsafe {
            let start = self.trace.as_ptr().add(self.trace_start as usize);
            std::slice::from_raw_parts(start.cast::<Record>(), self.recorded)
        }
    }

    /// A sanitizer's report, a panic, or the end of the output.
    fn output(&mut self, ending: Ending) -> String {
        match ending {
            Ending::Exit(exit::SANITIZER) => sanitizer::report(&self.output_tail(1 << 22)),
            // A panic's backtrace follows its message.
            Ending::Exit(panic::EXIT) | Ending::Signal(libc::SIGABRT) => {
                let output = self.output_tail(1 << 16);
                panic::message(&output).unwrap_or_else(|| {
                    let tail = self.output_tail(4096);
                    fault::readable(&tail, || self.sites().ok())
                })
            }
            // A child that a signal ended may be why its parent exits.
            _ => {
                let tail = self.output_tail(4096);
                fault::readable(&tail, || self.sites().ok())
            }
        }
    }

    /// The trace is at the start of the file; later runs write behind it.
    fn keep_trace(&mut self) -> Result<Trace, Error> {
        let trace = Trace::map(&self.trace_file, self.recorded).map_err(system("cannot map the trace"))?;
        self.trace_start = trace.bytes().next_multiple_of(PAGE);
        self.recorded = 0;
        Ok(trace)
    }

    fn forget_trace(&mut self) {
        self.trace_start = 0;
        self.recorded = 0;
    }

    fn sites(&mut self) -> Result<Sites, Error> {
        let written = self.sites.metadata().map_err(system("cannot read the site table"))?.len();
        let mut bytes = vec![0; self.control().sites_bytes.min(written) as usize];
        std::os::unix::fs::FileExt::read_exact_at(&self.sites, &mut bytes, 0)
            .map_err(system("cannot read the site table"))?;
        let late = self.control_file.try_clone().map_err(system("cannot read the site table"))?;
        Ok(Sites::parse(&String::from_utf8_lossy(&bytes)).with_late(late))
    }

    fn image_line(&self, line: Line) -> Bytes {
        let start = (line.start() - POOL_BASE) as usize;
        self.image[start..start + LINE_BYTES as usize].try_into().expect("a line")
    }

    fn image_value(&self, address: u64, width: u8) -> u64 {
        let start = (address - POOL_BASE) as usize;
        let mut bytes = [0; 8];
        bytes[..usize::from(width)].copy_from_slice(&self.image[start..start + usize::from(width)]);
        u64::from_le_bytes(bytes)
    }

    fn set_image(&mut self, address: u64, width: u8, value: u64) {
        let line = Line::containing(address);
        let bit = 1 << (line.0 % LINES_OF_PAGE);
        let page = self.original.entry(line.0 / LINES_OF_PAGE).or_default();
        if page.written & bit == 0 {
            page.written |= bit;
            let start = (line.start() - POOL_BASE) as usize;
            let before = &self.image[start..start + LINE_BYTES as usize];
            if before.iter().any(|byte| *byte != 0) {
                page.contents.push((line, before.try_into().expect("a line")));
            }
        }
        let start = (address - POOL_BASE) as usize;
        let width = usize::from(width);
        self.image[start..start + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    fn rewind(&mut self) {
        for (page, Before { written, contents }) in std::mem::take(&mut self.original) {
            let lines = (0..LINES_OF_PAGE).filter(|line| written & 1 << line != 0);
            let empty = lines.map(|line| (Line(page * LINES_OF_PAGE + line), [0; LINE_BYTES as usize]));
            for (line, before) in empty.chain(contents) {
                let start = (line.start() - POOL_BASE) as usize;
                self.image[start..start + before.len()].copy_from_slice(&before);
            }
        }
    }

    fn uses_files(&self) -> bool {
        !self.files().is_empty()
    }

    fn is_rebuilt(&self) -> bool {
        executable::is_rebuilt(&self.launch.program)
    }

    fn file_names(&self) -> FileNames {
        let tables = self.tables();
        let changes = &tables.changes[..(tables.change_count as usize).min(MAX_CHANGES)];
        FileNames::new(self.files(), changes, self.launch.switches & flag::DISK != 0)
    }

    fn name_versions(&self) -> NameVersions {
        let tables = self.tables();
        NameVersions::new(&tables.changes[..(tables.change_count as usize).min(MAX_CHANGES)])
    }

    fn mapped_outside(&self) -> Option<PathBuf> {
        path_in(&self.control().mapped_outside)
    }

    fn written_outside(&self) -> Option<PathBuf> {
        path_in(&self.control().written_outside)
    }

    fn environment(&self) -> Vec<(String, String)> {
        let names = self.control().environment.split(|byte| *byte == 0).take_while(|name| !name.is_empty());
        let given = |name: &[u8]| {
            let name = std::str::from_utf8(name).ok()?;
            Some((name.to_owned(), std::env::var(name).ok()?))
        };
        names.filter_map(given).collect()
    }

    fn twin(&self) -> Result<Process, Error> {
        let mut twin = Process::start(self.launch.clone())?;
        twin.is_twin = true;
        twin.copy_image(self, POOL_BASE..POOL_BASE + POOL_BYTES);
        twin.copy_file_table(self);
        twin.image_base = taken(&twin.image_file);
        let late = LATE_MODULES_OFFSET as usize..;
        let late = late.start..late.start + caller::MODULES * size_of::<LateModule>();
        twin.control[late.clone()].copy_from_slice(&self.control[late]);
        Ok(twin)
    }

    fn adopt_files(&mut self, other: &Process) {
        // The initial content of the heap is part of the image, like the content of files.
        self.copy_image(other, HEAP.base..HEAP.end());
        self.copy_image(other, FACTS.base..FACTS.end());
        self.copy_image(other, FILES.base..FILES.end());
        self.copy_file_table(other);
    }

    /// Entries that the other one added to the table keep their places.
    fn copy_file_table(&mut self, other: &Process) {
        // Huge and nearly empty: only the used part is copied.
        let changes = std::mem::offset_of!(Tables, changes);
        let files = std::mem::offset_of!(Tables, files);
        let count = (other.tables().change_count as usize).min(MAX_CHANGES);
        for (from, bytes) in
            [(0, files + size_of_val(other.files())), (changes, count * size_of::<NameChange>())]
        {
            let start = FILES_OFFSET as usize + from;
            self.control[start..start + bytes].copy_from_slice(&other.control[start..start + bytes]);
        }
    }

    fn want_stacks(&mut self, indices: &[u64]) {
        let count = indices.len().min(MAX_STACKS);
        // SAFETY: there is room for that many after the control block, aligned; the program is not running.
        unsafe {
            let first = self.control.as_mut_ptr().add(STACKS_OFFSET as usize).cast::<Stack>();
            for (at, index) in indices[..count].iter().enumerate() {
                first.add(at).write(Stack::wanted(*index));
            }
        }
        self.control_mut().stacks = count as u64;
    }

    fn stacks(&self) -> Vec<(u64, Vec<u32>)> {
        let count = (self.control().stacks as usize).min(MAX_STACKS);
        // SAFETY: as above; every bit pattern is valid.
        let all = unsafe {
            let first = self.control.as_ptr().add(STACKS_OFFSET as usize).cast::<Stack>();
            std::slice::from_raw_parts(first, count)
        };
        let callers = |stack: &Stack| stack.callers[..(stack.depth as usize).min(Stack::DEEPEST)].to_vec();
        all.iter().map(|stack| (stack.index, callers(stack))).collect()
    }

    fn pin(&mut self, pinned: bool) {
        self.pinning.set(pinned, self.process.id());
    }
}

impl Process {
    /// Without private files, directories that the program created are on the user's disk, even those it removed.
    fn remove_made_directories(&self) {
        let mut paths: Vec<&[u8]> = self.files().iter().map(PmFile::path).collect();
        paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in paths.into_iter().map(|path| Path::new(OsStr::from_bytes(path))) {
            let is_made = |about: std::fs::Metadata| {
                about.is_dir() && about.permissions().mode() & MADE_DIRECTORY == MADE_DIRECTORY
            };
            if path.symlink_metadata().is_ok_and(is_made) {
                // A directory that is not empty holds what the program wrote.
                let _ = std::fs::remove_dir(path);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.process.end();
        // Others may still need what a twin created.
        if !self.is_twin {
            self.remove_made_directories();
        }
    }
}
