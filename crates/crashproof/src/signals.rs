//! SIGINT, SIGTERM and SIGHUP; temporary directories and compilers, which must not outlive the process.
//!
//! A command that can stop in good order does so at the first signal. Any other command, and every command at the second
//! signal, exits at once; before that its children are ended and its temporary directories removed.

#![allow(unsafe_code, reason = "ending children")]

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

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

/// A temporary directory, removed when it is dropped or a signal ends the process.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch> {
        listen()?;
        // The lock keeps a signal from ending the process between creation and registration.
        let mut known = scratch();
        let directory = tempfile::Builder::new().prefix("crashproof-").tempdir()?;
        known.push(directory.path().to_owned());
        Ok(Scratch(directory))
    }

    /// One in which all temporary files of the process are created from now on, those of libraries too.
    pub(crate) fn for_process() -> Result<Scratch> {
        let scratch = Scratch::new()?;
        // Whoever was first has given the directory, and removes it.
        let _ = tempfile::env::override_temp_dir(scratch.path());
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        scratch().retain(|known| known != self.0.path());
    }
}
