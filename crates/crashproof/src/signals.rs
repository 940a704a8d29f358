//! SIGINT, SIGTERM and SIGHUP; temporary directories and compilers that must not outlive the process.
//!
//! A command that can stop in an orderly way does so at the first signal. Any other command, and every command at the
//! second signal, exits immediately, after killing its children and removing its temporary directories.

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

/// The exit code of an interrupted command, following shell convention.
const INTERRUPTED: i32 = 130;

/// Signals received while an [`Orderly`] existed.
static RECEIVED: AtomicU32 = AtomicU32::new(0);
/// The number of [`Orderly`] guards.
static ORDERLY: AtomicU32 = AtomicU32::new(0);
/// Temporary directories in use.
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn scratch() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resets signal dispositions inherited from the parent process.
pub(crate) fn reset() {
    // SAFETY: no handler runs. Children are waited for, which is impossible while their end is ignored; a file that
    // becomes too large must be an error rather than a signal.
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

/// Ends the process and everything it started, whatever it is doing; temporary directories are removed.
pub(crate) fn end(code: i32) -> ! {
    end_children();
    for directory in scratch().iter() {
        // The process ends either way.
        let _ = std::fs::remove_dir_all(directory);
    }
    std::process::exit(code);
}

/// Kills the children of this process: a terminal's Ctrl-C reaches them, but a signal to the tool alone does not.
fn end_children() {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    for child in children.flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>())
    {
        // SAFETY: the child is this process's own and has not been waited for, so the id is its own; only threads that
        // end with the process still wait for children.
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

/// A temporary directory, removed when dropped or when a signal ends the process. If the process is killed, the next
/// one removes it: its lock is then released.
pub(crate) struct Scratch {
    directory: TempDir,
    _lock: File,
}

/// Prefix of the names of temporary directories.
const PREFIX: &str = "crashproof-";
/// The file in a temporary directory that its process locks.
const LOCK: &str = ".lock";
/// Younger directories may not be locked yet, and must not be mistaken for abandoned ones.
const FRESH: Duration = Duration::from_secs(60);

/// Removes temporary directories of killed processes.
fn sweep() {
    static ONCE: Once = Once::new();
    // SAFETY: a query without side effects.
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
        // The mutex prevents a signal from ending the process between creation and registration.
        let mut known = scratch();
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        known.push(directory.path().to_owned());
        let lock = File::create(directory.path().join(LOCK))?;
        lock.try_lock()?;
        Ok(Scratch { directory, _lock: lock })
    }

    /// A directory for all temporary files of the process from now on, including those of libraries.
    pub(crate) fn for_process() -> Result<Scratch> {
        let scratch = Scratch::new()?;
        // The first caller determines the directory, and removes it.
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
