//! How a run ended, and whether that is a failure.

use crashproof_protocol::exit;

use crate::subject::{fault, panic};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Exit(i32),
    Signal(i32),
    /// It overwrote memory shared with the checker: how it ended is unknown.
    Corrupted,
    /// It hit a limit of the checker: how it would have ended is unknown.
    Limit(Limit),
}

/// A limit of the checker that a run hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Memory.
    Memory,
    /// Address space.
    AddressSpace,
    /// Output.
    Output,
    /// Waiting for input or another process.
    Idle,
    /// PM events.
    Events,
}

impl Limit {
    /// As the end of the sentence "recovery …", with advice.
    pub fn describe(self) -> &'static str {
        match self {
            Limit::Memory => {
                "needs more memory than half the machine's, or than twice --memory; raise --memory"
            }
            Limit::AddressSpace => "needs more address space than --address-space allows",
            Limit::Output => "prints more than the checker keeps; raise --output-limit",
            Limit::Idle => {
                "waited 20 seconds for input or another process: a \
                 server needs --client, or --until-idle if recovery is the server"
            }
            Limit::Events => "has more PM events than the limit; raise --max-events",
        }
    }
}

/// How a run ended, and how many threads it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) threads: u32,
    /// Number of points at which threads could be switched.
    pub(crate) switch_points: u64,
    /// If it did not end: the addresses it read over and over.
    pub(crate) waits_for: Vec<u64>,
    /// Was it stopped because its state repeated?
    pub(crate) repeats: bool,
}

/// How a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Killed by this signal.
    Signal(i32),
    /// Ended with this code.
    Exit(i32),
    /// A `crashproof_assert` was false.
    Assertion,
    /// It exceeded its work limit.
    Endless,
    /// All its threads waited for each other.
    Deadlock,
    /// A sanitizer it was built with reported an error.
    Sanitizer,
    /// It overwrote the checker's memory.
    Corrupted,
}

impl Failure {
    /// The failure that an ending represents, if any.
    pub(crate) fn of(ending: Ending) -> Option<Failure> {
        Some(match ending {
            Ending::Exit(0) | Ending::Limit(_) => return None,
            Ending::Exit(exit::ASSERT) => Failure::Assertion,
            Ending::Exit(exit::TOO_MUCH_WORK) | Ending::Signal(libc::SIGXCPU) => Failure::Endless,
            Ending::Exit(exit::DEADLOCK) => Failure::Deadlock,
            Ending::Exit(exit::SANITIZER) => Failure::Sanitizer,
            Ending::Exit(code) => Failure::Exit(code),
            Ending::Signal(signal) => Failure::Signal(signal),
            Ending::Corrupted => Failure::Corrupted,
        })
    }

    /// Was it ended by an instruction that always faults, regardless of arguments?
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, Failure::Signal(libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL))
    }

    /// What distinguishes it from other failures. The output of assertions and sanitizers names them at its end, that
    /// of panics at its start; different texts are different failures.
    pub(crate) fn kind(&self, output: &str) -> String {
        if let Some(place) = panic::place(output) {
            return format!("{self:?} {place}");
        }
        if let (Failure::Signal(_), Some(place)) = (self, fault::place(output)) {
            return format!("{self:?} {}:{}", place.file, place.line);
        }
        let said = output.lines().last().unwrap_or_default();
        let speaks = match self {
            Failure::Assertion | Failure::Sanitizer => true,
            // The C library's `assert`.
            Failure::Signal(libc::SIGABRT) => said.contains(": Assertion `"),
            _ => false,
        };
        if speaks { format!("{self:?} {said}") } else { format!("{self:?}") }
    }

    /// The same, refined by the output: assertions of the C library abort, panics have their own exit code.
    pub fn describe_with(&self, output: &str) -> String {
        match self {
            Failure::Signal(libc::SIGABRT) if output.contains(": Assertion `") => "fails an assertion".into(),
            Failure::Exit(panic::EXIT) | Failure::Signal(libc::SIGABRT) if panic::place(output).is_some() => {
                "panics".into()
            }
            _ => self.describe(),
        }
    }

    /// As the end of the sentence "recovery …".
    pub fn describe(&self) -> String {
        match self {
            Failure::Signal(libc::SIGSEGV) => "crashes with a segmentation fault".into(),
            Failure::Signal(libc::SIGBUS) => "crashes with a bus error".into(),
            Failure::Signal(libc::SIGFPE) => "crashes with an arithmetic error".into(),
            Failure::Signal(libc::SIGILL | libc::SIGTRAP) => "hits an illegal instruction".into(),
            Failure::Signal(libc::SIGABRT) => "aborts".into(),
            Failure::Signal(signal) => format!("is killed by signal {signal}"),
            Failure::Exit(code) => format!("exits with code {code}"),
            Failure::Assertion => "fails an assertion".into(),
            Failure::Endless => "does not terminate".into(),
            Failure::Deadlock => "deadlocks".into(),
            Failure::Sanitizer => "is stopped by a sanitizer".into(),
            Failure::Corrupted => "overwrote the checker's memory".into(),
        }
    }
}
