//! The trace of a path: its effects on persistent memory, in order.

use px86::order::Class;
use rustc_hash::FxHashMap;

use crate::expression::Expression;
use crate::span::Span;
use crashproof_frontend::program::ir::PlaceId;

/// The location of an event, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Site {
    /// The place in the source.
    pub(crate) place: PlaceId,
    /// The call through which it was reached, if it is in another function.
    pub(crate) call: Option<PlaceId>,
    /// The memory's name in the source, as a number of [`Names`]; 0 for none.
    pub(crate) name: u32,
    /// A caller's name for it, if the function itself knows no member; 0 for none.
    pub(crate) outer: u32,
    /// The event happens in a library; the place only uses the library.
    pub(crate) by_library: bool,
}

/// What happens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Store {
        span: Span,
        value: Expression,
        nontemporal: bool,
        bulk: bool,
    },
    Load {
        span: Span,
    },
    /// Of what was stored before the length turned out to be zero: nothing was stored.
    Empty {
        span: Span,
    },
    Flush {
        span: Span,
        class: Class,
        /// Whole pages are written back, as by `msync`, and not just lines.
        pages: bool,
    },
    Queue {
        span: Span,
    },
    /// Flushes memory that is not known to be persistent: a fence after it is not redundant.
    Elsewhere,
    Fence {
        class: Class,
        drains: bool,
    },
    /// A locked instruction: a fence, but never a redundant one.
    Locked,
    /// Writes mapped files back as a whole, and waits for completion.
    Sync,
    Log {
        span: Span,
    },
    Begin {
        framework: usize,
    },
    /// The innermost transaction commits and ends.
    Commit,
    /// It aborts.
    Abort,
    /// It advances to its next stage.
    Process,
    /// It commits, and advances to the following stage.
    CommitStage,
    End,
    /// The library changes something durably.
    Change,
    /// An operation allowed only inside transactions: if none is open, a caller's is.
    Inside,
    EpochBegin,
    EpochEnd,
    StrandBegin,
    StrandEnd,
    StrandJoin,
    /// Begin and end of stores that may be lost.
    TolerateBegin,
    TolerateEnd,
    /// Something is logged, and it is not known what.
    LogSomewhere,
    /// Unknown code was given these objects.
    Unknown {
        objects: Vec<Expression>,
        code: UnknownCode,
    },
}

/// Which code is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum UnknownCode {
    /// A library function: it works only on what it is given.
    Library,
    /// Whatever a pointer leads to: possibly code of the program, which may log and flush anything.
    Pointer,
    /// Paths of a program function that were not walked, or that callers do not see. They are reported as limits.
    NotWalked,
}

/// Something that happens somewhere.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) site: Site,
}

impl Kind {
    pub(crate) fn span(&self) -> Option<&Span> {
        match self {
            Kind::Store { span, .. }
            | Kind::Load { span }
            | Kind::Empty { span }
            | Kind::Flush { span, .. }
            | Kind::Queue { span }
            | Kind::Log { span } => Some(span),
            _ => None,
        }
    }
}

/// Interned traces: a trace is identified by its number, so that equal paths are recognized immediately.
#[derive(Default)]
pub(crate) struct Traces {
    /// The preceding trace, and the last event.
    links: Vec<(u32, Event)>,
    numbers: FxHashMap<(u32, Event), u32>,
}

/// The empty trace.
pub(crate) const EMPTY: u32 = u32::MAX;

impl Traces {
    pub(crate) fn push(&mut self, trace: u32, event: Event) -> u32 {
        let next = self.links.len() as u32;
        let key = (trace, event);
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        self.links.push(key.clone());
        self.numbers.insert(key, next);
        next
    }

    pub(crate) fn events(&self, mut trace: u32) -> Vec<Event> {
        let mut all = Vec::new();
        while trace != EMPTY {
            let (before, event) = &self.links[trace as usize];
            all.push(event.clone());
            trace = *before;
        }
        all.reverse();
        all
    }

    /// Discards all traces once a function is done.
    pub(crate) fn clear(&mut self) {
        self.links.clear();
        self.numbers.clear();
    }
}

/// Interned names of memory in the source.
pub(crate) struct Names {
    texts: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Names {
    pub(crate) fn new() -> Self {
        Names { texts: vec![String::new()], numbers: FxHashMap::default() }
    }

    pub(crate) fn add(&mut self, text: String) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let next = self.texts.len() as u32;
        *self.numbers.entry(text.clone()).or_insert_with(|| {
            self.texts.push(text);
            next
        })
    }

    pub(crate) fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }
}
