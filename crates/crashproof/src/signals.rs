//! Ctrl-C, and what must not be left behind.
//!
//! Work that can end in good order does so at the first signal. Other work ends at once, and so does any at the second;
//! what was made on the way is removed before.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// What an interrupted shell command ends with.
const INTERRUPTED: i32 = 130;

/// Signals that came while somebody was there to end in good order.
static CAME: AtomicU32 = AtomicU32::new(0);
/// How many are there to do so.
static ORDERLY: AtomicU32 = AtomicU32::new(0);
/// Directories that are in use.
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn scratch() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes over what signals do, once.
fn listen() -> Result<()> {
    static LISTENING: OnceLock<()> = OnceLock::new();
    if LISTENING.get().is_none() {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if LISTENING.set(()).is_ok() {
            std::thread::spawn(move || signals.forever().for_each(|_| came()));
        }
    }
    Ok(())
}

fn came() {
    if ORDERLY.load(Ordering::SeqCst) == 0 || CAME.fetch_add(1, Ordering::SeqCst) > 0 {
        for directory in scratch().iter() {
            // What cannot be removed now cannot be removed at all.
            let _ = std::fs::remove_dir_all(directory);
        }
        std::process::exit(INTERRUPTED);
    }
}

/// While this lives the first signal only asks to end; see [`Orderly::asked`].
pub(crate) struct Orderly;

impl Orderly {
    pub(crate) fn new() -> Result<Orderly> {
        listen()?;
        ORDERLY.fetch_add(1, Ordering::SeqCst);
        Ok(Orderly)
    }

    pub(crate) fn asked(&self) -> bool {
        CAME.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Orderly {
    fn drop(&mut self) {
        ORDERLY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A directory for what is made on the way; gone when dropped, or when a signal ends everything.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch> {
        listen()?;
        // Known before a signal can come in between.
        let mut known = scratch();
        let directory = tempfile::Builder::new().prefix("crashproof-").tempdir()?;
        known.push(directory.path().to_owned());
        Ok(Scratch(directory))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        scratch().retain(|known| known != self.0.path());
    }
}
