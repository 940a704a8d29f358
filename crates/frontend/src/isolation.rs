//! Keeps hostile bitcode from taking the tool down.
//!
//! LLVM trusts its input: damaged bitcode makes it overflow the stack, run out of memory or hang, and no handler
//! survives that. So all reading of bitcode is rehearsed in a child process first. If a rehearsal dies, that is an
//! error naming the file, and so is a malformed file: LLVM's message about it is built from the malformed module, and
//! could in turn crash the process. Only if all is well does this process do the same, from the same state as the
//! child. That costs one additional read, a small part of an analysis, and requires no serialized form of a program.
//!
//! The child is forked rather than started, because libraries have no `main` of their own. No thread uses LLVM during a
//! fork ([`LLVM`]), and the child touches nothing else that another thread may have locked.

#![allow(unsafe_code, reason = "processes and pipes")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

/// Held for reading while using LLVM, and for writing while forking: a child forked while another thread holds one of
/// LLVM's internal locks would wait for it forever.
static LLVM: RwLock<()> = RwLock::new(());

/// To be held while LLVM is in use.
pub(crate) fn use_llvm() -> impl Drop {
    LLVM.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Seconds after which a rehearsal counts as hung.
const PATIENCE: u32 = 300;
/// Additional memory that a rehearsal may use.
const ROOM: u64 = 16 << 30;
/// The largest file to read. Bitcode of whole programs is smaller; `/dev/zero` is not.
const LARGEST: u64 = 1 << 30;

/// A rehearsal that failed.
#[derive(Debug)]
pub(crate) struct Died {
    /// The file that was being read.
    pub(crate) path: PathBuf,
    /// How the child ended.
    pub(crate) how: String,
}

/// Reports which file is being read.
pub(crate) struct Progress(Option<File>);

impl Progress {
    /// Progress without a reader.
    pub(crate) fn unwatched() -> Progress {
        Progress(None)
    }

    /// Records that this file is being read from now on.
    pub(crate) fn reading(&mut self, path: &Path) {
        if let Some(pipe) = &mut self.0 {
            let mut line = path.as_os_str().as_encoded_bytes().to_vec();
            line.push(0);
            let _ = pipe.write_all(&line);
        }
    }
}

/// Reads a file of bitcode, if it is not too large.
pub(crate) fn bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let why = format!("it is larger than {} MiB", LARGEST >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// What is wrong with a file, and its name.
pub(crate) type Malformed = (PathBuf, String);

/// Performs the work in a child process first. Of its errors only a malformed file matters: others will recur in this
/// process.
pub(crate) fn rehearse(work: impl FnOnce(&mut Progress) -> Result<(), Malformed>) -> Result<(), Died> {
    let nowhere =
        |how: &str| Died { path: PathBuf::new(), how: format!("{how}: {}", std::io::Error::last_os_error()) };
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(nowhere("no pipe"));
    }
    // SAFETY: both ends are open and have no other owner.
    let (mut from, to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    let alone = LLVM.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: the child uses only memory, LLVM and its pipe, and exits without running any of the parent's code.
    let child = unsafe { libc::fork() };
    drop(alone);
    match child {
        -1 => Err(nowhere("no child process")),
        0 => {
            drop(from);
            child_process(work, to)
        }
        _ => {
            drop(to);
            let mut said = Vec::new();
            let _ = from.read_to_end(&mut said);
            outcome(child, &said)
        }
    }
}

fn child_process(work: impl FnOnce(&mut Progress) -> Result<(), Malformed>, to: File) -> ! {
    // SAFETY: this process has one thread; LLVM's dying message is useless.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for stream in 0..=2 {
            libc::dup2(nothing, stream);
        }
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE, libc::SIGALRM]
        {
            libc::signal(signal, libc::SIG_DFL);
        }
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        let most = used() + ROOM;
        let room = libc::rlimit { rlim_cur: most, rlim_max: most };
        libc::setrlimit(libc::RLIMIT_AS, &raw const room);
        libc::alarm(PATIENCE);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    let mut progress = Progress(Some(to));
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut progress)));
    let code = match done {
        Ok(Ok(())) => DONE,
        Ok(Err((path, why))) => {
            progress.reading(&path);
            progress.reading(Path::new(&why.replace('\0', " ")));
            MALFORMED
        }
        Err(_) => PANICKED,
    };
    // SAFETY: ends the process without running the parent's destructors or flushing its buffers.
    unsafe { libc::_exit(code) }
}

/// Exit codes not used by LLVM.
const DONE: i32 = 77;
const PANICKED: i32 = 78;
const MALFORMED: i32 = 79;

/// Bytes of address space in use.
fn used() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn outcome(child: i32, said: &[u8]) -> Result<(), Died> {
    let mut status = 0;
    // SAFETY: our own child, which no other thread waits for.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
    let mut said = said.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let mut last = || String::from_utf8_lossy(said.next_back().unwrap_or_default()).into_owned();
    let how = if libc::WIFSIGNALED(status) {
        match libc::WTERMSIG(status) {
            libc::SIGALRM => format!("LLVM needs more than {PATIENCE} seconds to read it"),
            signal => format!("LLVM crashes when it reads it (signal {signal})"),
        }
    } else {
        match libc::WEXITSTATUS(status) {
            DONE => return Ok(()),
            PANICKED => "reading it fails".to_owned(),
            MALFORMED => last(),
            code => format!("LLVM gives up when it reads it (exit code {code})"),
        }
    };
    Err(Died { path: PathBuf::from(last()), how })
}
