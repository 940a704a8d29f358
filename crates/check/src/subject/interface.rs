//! The interface of the program under test to the rest of a check.

use std::path::PathBuf;

use crashproof_protocol::steps::{Actor, Note};
use crashproof_protocol::{Patch, Record};
use px86::{LINE_BYTES, Line};

use crate::subject::ending::{Ended, Ending};
use crate::subject::error::Error;
use crate::subject::file_names::{FileNames, NameVersions};
use crate::subject::run::Run;
use crate::subject::sites::Sites;
use crate::subject::trace::Trace;

/// The bytes of a cache line.
pub(crate) type Bytes = [u8; LINE_BYTES as usize];

/// A program that can be run any number of times, each time from its start.
///
/// It has an image of persistent memory: what has certainly persisted. A run starts with the image and the patches
/// given for it; its own stores never reach the image.
pub(crate) trait Subject: Send + Sized + 'static {
    /// Runs the program from its start, with these lines instead of the image's.
    fn run(&mut self, run: &Run, patches: &[Patch]) -> Result<Ended, Error>;

    /// Makes the next run, and only that one, follow these decisions, if its schedule says so; the notes list the
    /// actors that sleep then.
    fn decide(&mut self, decisions: &[Actor], sleeping: &[Note]);

    /// Makes runs that follow decisions also follow volatile accesses of code that was not rebuilt; at these places, by
    /// number, such accesses are steps. `None` turns this off.
    fn follow_volatile(&mut self, _watched: Option<&[u32]>) {}

    /// How the last run ended, if known.
    fn last_ending(&self) -> Option<Ending>;

    /// The last run's notes about its steps, if it followed decisions.
    fn notes(&self) -> &[Note];

    /// The records of the last run.
    fn records(&self) -> &[Record];

    /// The part of the last run's output that explains how it ended.
    fn output(&mut self, ending: Ending) -> String;

    /// Keeps the trace of the last run while later ones are recorded.
    fn keep_trace(&mut self) -> Result<Trace, Error>;

    /// Releases the trace that was kept: the next run may overwrite it.
    fn forget_trace(&mut self);

    /// The places in the source of its events.
    fn sites(&mut self) -> Result<Sites, Error>;

    /// A line of the image.
    fn image_line(&self, line: Line) -> Bytes;

    /// Up to eight bytes of the image, within a line.
    fn image_value(&self, address: u64, width: u8) -> u64;

    /// Writes up to eight bytes of the image, within a line.
    fn set_image(&mut self, address: u64, width: u8, value: u64);

    /// Restores the image to its state before anything was written.
    fn rewind(&mut self);

    /// Does the program use files? Each process numbers them as it meets them, so only one may run at a time.
    fn uses_files(&self) -> bool;

    /// Was the program built with crashproof? If not, it is followed as it runs, and two runs may record different
    /// reads.
    fn is_rebuilt(&self) -> bool;

    /// A file outside the PM path that a run mapped shared and writable, if any.
    fn mapped_outside(&self) -> Option<PathBuf>;

    /// A file that a run wrote and that is not followed.
    fn written_outside(&self) -> Option<PathBuf> {
        None
    }

    /// The persistent files, for messages.
    fn file_names(&self) -> FileNames {
        FileNames::default()
    }

    /// The names of persistent files at every version of their directories.
    fn name_versions(&self) -> NameVersions {
        NameVersions::default()
    }

    /// The environment variables that runs have read, with their values.
    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Another subject with the same program and image, to run concurrently.
    fn twin(&self) -> Result<Self, Error>;

    /// Takes over the files that another program opened or created, with their contents.
    fn adopt_files(&mut self, other: &Self);

    /// Takes over only the table of files.
    fn copy_file_table(&mut self, other: &Self);

    /// Requests the call stacks at these records of the following runs, in increasing order; the end of a run is
    /// [`crashproof_protocol::Stack::END`].
    fn want_stacks(&mut self, _indices: &[u64]) {}

    /// The call stacks at those records of the last run, as site numbers.
    fn stacks(&self) -> Vec<(u64, Vec<u32>)> {
        Vec::new()
    }

    /// Pins this thread and the program to one processor, or releases them.
    fn pin(&mut self, pinned: bool);
}
