//! SIGINT, SIGTERM and SIGHUP; temporary directories and compilers, which must not outlive the process.
//!
//! A command that can stop in good order does so at the first signal. Any other command, and every command at the second
//! signal, exits at once; before that its children are ended and its temporary directories removed.

#![allow(unsafe_code, reason = "ending children, and what is done about signals")]

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// The exit code of a command that was interrupted, as shells have it.
const INTERRUPTED: i32 = 130;

/// Signals received while an [`Orderly`] existed.
static RECEIVED: AtomicU32 = AtomicU32::new(0);
/// How many [`Orderly`] there are.
static ORDERLY: AtomicU32 = AtomicU32::new(0);
/// Temporary directories in use.
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn scratch() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Undoes what the parent process may have left to this one.
pub(crate) fn reset() {
    // SAFETY: no handler runs. Children are waited for, which nobody can if their end is ignored; a file that becomes too
    // large is an error that is told.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Installs the handler, once.
fn listen() -> Result<()> {
    static LISTENING: OnceLock<()> = OnceLock::new();
    if LISTENING.get().is_none() {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        if LISTENING.set(()).is_ok() {
            std::thread::Builder::new().spawn(move || signals.forever().for_each(|_| on_signal()))?;
        }
    }
    Ok(())
}

fn on_signal() {
    if ORDERLY.load(Ordering::SeqCst) == 0 || RECEIVED.fetch_add(1, Ordering::SeqCst) > 0 {
        end(INTERRUPTED);
    }
}

/// Ends the process and what it has started, whatever it is doing; temporary directories are removed.
pub(crate) fn end(code: i32) -> ! {
    end_children();
    for directory in scratch().iter() {
        // The process ends either way.
        let _ = std::fs::remove_dir_all(directory);
    }
    std::process::exit(code);
}

/// Ends the children of this process: a terminal's Ctrl-C reaches them, a signal to the tool alone does not.
fn end_children() {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    for child in children.flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>())
    {
        // SAFETY: the child is this process's own and was not waited for, so the number is its own; none is waited for
        // any more but by threads that end with the process.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
}

/// While one exists, the first signal only asks the command to stop; see [`Orderly::asked`].
pub(crate) struct Orderly;

impl Orderly {
    pub(crate) fn new() -> Result<Orderly> {
        listen()?;
        ORDERLY.fetch_add(1, Ordering::SeqCst);
        Ok(Orderly)
    }

    pub(crate) fn asked(&self) -> bool {
        RECEIVED.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Orderly {
    fn drop(&mut self) {
        ORDERLY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A temporary directory, removed when it is dropped or a signal ends the process. One that outlives its process, because
/// that was killed, is removed by the next: nobody holds its lock any more.
pub(crate) struct Scratch {
    directory: TempDir,
    _lock: File,
}

/// How temporary directories are called.
const PREFIX: &str = "crashproof-";
/// The file in a temporary directory that its process has locked.
const LOCK: &str = ".lock";
/// Between its creation and its lock a directory must not be taken for one that was left.
const FRESH: Duration = Duration::from_secs(60);

/// Removes temporary directories of processes that were killed.
fn sweep() {
    static ONCE: Once = Once::new();
    // SAFETY: asks only.
    let user = unsafe { libc::geteuid() };
    let is_left = |path: &Path| {
        let own = std::fs::symlink_metadata(path).is_ok_and(|about| about.is_dir() && about.uid() == user);
        let lock = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path.join(LOCK))
            .ok()
            .filter(|_| own);
        lock.is_some_and(|lock| {
            let changed = lock.metadata().and_then(|about| about.modified()).ok();
            let old = changed.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > FRESH);
            old && lock.try_lock().is_ok()
        })
    };
    ONCE.call_once(|| {
        for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_left(&entry.path()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    });
}

impl Scratch {
    pub(crate) fn new() -> Result<Scratch> {
        listen()?;
        sweep();
        // The mutex keeps a signal from ending the process between creation and registration.
        let mut known = scratch();
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        known.push(directory.path().to_owned());
        let lock = File::create(directory.path().join(LOCK))?;
        lock.try_lock()?;
        Ok(Scratch { directory, _lock: lock })
    }

    /// One in which all temporary files of the process are created from now on, those of libraries too.
    pub(crate) fn for_process() -> Result<Scratch> {
        let scratch = Scratch::new()?;
        // Whoever was first has given the directory, and removes it.
        let _ = tempfile::env::override_temp_dir(scratch.path());
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        scratch().retain(|known| known != self.directory.path());
    }
}
