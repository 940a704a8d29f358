//! SIGINT and SIGTERM, and temporary directories, which must not outlive the process.
//!
//! A command that can stop in good order does so at the first signal. Any other command, and every command at the second
//! signal, exits at once; temporary directories are removed first.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
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
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if LISTENING.set(()).is_ok() {
            std::thread::spawn(move || signals.forever().for_each(|_| on_signal()));
        }
    }
    Ok(())
}

fn on_signal() {
    if ORDERLY.load(Ordering::SeqCst) == 0 || RECEIVED.fetch_add(1, Ordering::SeqCst) > 0 {
        for directory in scratch().iter() {
            // The process ends either way.
            let _ = std::fs::remove_dir_all(directory);
        }
        std::process::exit(INTERRUPTED);
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
