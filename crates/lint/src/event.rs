//! What a path does to persistent memory, in order: the trace.

use px86::order::Class;
use rustc_hash::FxHashMap;

use crate::expression::Expression;
use crate::span::Span;
use crashproof_frontend::program::ir::PlaceId;

/// Where something happens, for the reader of a report.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Site {
    /// Where in the source.
    pub(crate) place: PlaceId,
    /// The call through which it was reached, if it is in another function.
    pub(crate) call: Option<PlaceId>,
    /// What the source calls the memory, as a number of [`Names`]; 0 for none.
    pub(crate) name: u32,
    /// What a caller calls it, if the function itself knows no member; 0 for none.
    pub(crate) outer: u32,
    /// A library does it; the place only uses the library.
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
    Flush {
        span: Span,
        class: Class,
    },
    Queue {
        span: Span,
    },
    /// Memory that is not known to be persistent is flushed: a fence after it is not redundant.
    Elsewhere,
    Fence {
        class: Class,
        drains: bool,
    },
    /// A locked instruction: a fence, but never a redundant one.
    Locked,
    /// Mapped files are written back as a whole, and waited for.
    Sync,
    Log {
        span: Span,
    },
    Begin {
        framework: usize,
    },
    /// The innermost transaction commits and is over.
    Commit,
    /// It aborts.
    Abort,
    /// It goes to its next stage.
    Process,
    /// It commits, and goes to the stage after.
    CommitStage,
    End,
    /// The library changes something durably.
    Change,
    /// Something happens that is only done in transactions: if none is open, a caller has one.
    Inside,
    EpochBegin,
    EpochEnd,
    StrandBegin,
    StrandEnd,
    StrandJoin,
    /// Stores that may be lost begin and end.
    TolerateBegin,
    TolerateEnd,
    /// Something unknown was given these objects.
    Unknown {
        objects: Vec<Expression>,
        code: UnknownCode,
    },
}

/// Which code is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum UnknownCode {
    /// A function of a library: it works on what it is given.
    Library,
    /// Whatever a pointer leads to: perhaps code of the program, which may log and flush anything.
    Pointer,
    /// Paths of a function of the program that were not walked, or that callers do not see. They are named as cuts.
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
            | Kind::Flush { span, .. }
            | Kind::Queue { span }
            | Kind::Log { span } => Some(span),
            _ => None,
        }
    }
}

/// Traces, kept once each: a trace is its number, so paths that did the same are found at once.
#[derive(Default)]
pub(crate) struct Traces {
    /// What comes before, and the last event.
    links: Vec<(u32, Event)>,
    numbers: FxHashMap<(u32, Event), u32>,
}

/// The trace in which nothing happened.
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

    /// Forgets all traces of a function that is done.
    pub(crate) fn clear(&mut self) {
        self.links.clear();
        self.numbers.clear();
    }
}

/// Names of memory in the source, kept once each.
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
