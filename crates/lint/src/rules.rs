//! The rules, and the verdicts that paths pass on each place.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::Site;
use crate::ir::PlaceId;

/// The persistency model a program is held against (Pelley, Chen and Wenisch, ISCA 2014).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Model {
    /// Stores persist in program order: one barrier for each.
    Strict,
    /// Stores between two barriers persist in any order. What x86 gives, and the default.
    #[default]
    Epoch,
    /// Strands persist in any order among each other.
    Strand,
}

/// How bad breaking a rule is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Data can be lost or inconsistent after a crash.
    Error,
    /// Time is wasted.
    Warning,
}

/// A rule. Tables 4 and 5 of the DeepMC paper, and two more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "`about` says what each is")]
pub enum Rule {
    UnflushedWrite,
    UnloggedWrite,
    MultipleWritesAtOnce,
    MissingBarrier,
    MissingBarrierNested,
    SplitUpdate,
    DependentStrands,
    PublishBeforePersist,
    FlushUnmodified,
    RedundantFlush,
    EmptyTransaction,
    RepeatedPersist,
    LogUnmodified,
    EmptyFence,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 14] = [
        Rule::UnflushedWrite,
        Rule::UnloggedWrite,
        Rule::MultipleWritesAtOnce,
        Rule::MissingBarrier,
        Rule::MissingBarrierNested,
        Rule::SplitUpdate,
        Rule::DependentStrands,
        Rule::PublishBeforePersist,
        Rule::FlushUnmodified,
        Rule::RedundantFlush,
        Rule::EmptyTransaction,
        Rule::RepeatedPersist,
        Rule::LogUnmodified,
        Rule::EmptyFence,
    ];

    /// The name in reports. It never changes.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Rule::UnflushedWrite => "unflushed-write",
            Rule::UnloggedWrite => "unlogged-write",
            Rule::MultipleWritesAtOnce => "multiple-writes-at-once",
            Rule::MissingBarrier => "missing-barrier",
            Rule::MissingBarrierNested => "missing-barrier-nested",
            Rule::SplitUpdate => "split-update",
            Rule::DependentStrands => "dependent-strands",
            Rule::PublishBeforePersist => "publish-before-persist",
            Rule::FlushUnmodified => "flush-unmodified",
            Rule::RedundantFlush => "redundant-flush",
            Rule::EmptyTransaction => "empty-transaction",
            Rule::RepeatedPersist => "repeated-persist",
            Rule::LogUnmodified => "log-unmodified",
            Rule::EmptyFence => "empty-fence",
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            Rule::FlushUnmodified
            | Rule::RedundantFlush
            | Rule::EmptyTransaction
            | Rule::RepeatedPersist
            | Rule::LogUnmodified
            | Rule::EmptyFence => Level::Warning,
            _ => Level::Error,
        }
    }

    /// One sentence.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Rule::UnflushedWrite => "a store to persistent memory is never written back",
            Rule::UnloggedWrite => "a store in a transaction is neither logged nor written back",
            Rule::MultipleWritesAtOnce => "one barrier makes several stores durable, in any order (strict)",
            Rule::MissingBarrier => "a flush is not waited for where an epoch or transaction ends",
            Rule::MissingBarrierNested => "a flush is not waited for where an inner epoch or transaction ends",
            Rule::SplitUpdate => "fields of one object become durable in different epochs",
            Rule::DependentStrands => "concurrent strands touch the same memory",
            Rule::PublishBeforePersist => "an object becomes reachable before it is durable",
            Rule::FlushUnmodified => "lines are written back that were not modified",
            Rule::RedundantFlush => "data is written back again although nothing changed since",
            Rule::EmptyTransaction => "a durable transaction changes nothing persistent",
            Rule::RepeatedPersist => "one object is logged or persisted repeatedly in a transaction",
            Rule::LogUnmodified => "memory is logged in a transaction that does not modify it",
            Rule::EmptyFence => "a fence has nothing to wait for",
        }
    }
}

/// A second place of a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Beside {
    pub(crate) role: &'static str,
    pub(crate) place: PlaceId,
    pub(crate) message: String,
}

/// What paths said of a place under a rule.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) site: Site,
    pub(crate) message: String,
    pub(crate) beside: Vec<Beside>,
    /// Paths that break the rule here.
    pub(crate) bad: u32,
}

/// All verdicts so far.
#[derive(Default)]
pub(crate) struct Verdicts {
    pub(crate) bad: FxHashMap<(Rule, PlaceId), Verdict>,
    /// Paths that keep the rule.
    pub(crate) good: FxHashMap<(Rule, PlaceId), u32>,
}

impl Verdicts {
    pub(crate) fn good(&mut self, rule: Rule, place: PlaceId) {
        *self.good.entry((rule, place)).or_default() += 1;
    }

    pub(crate) fn bad(&mut self, rule: Rule, site: Site, message: impl FnOnce() -> (String, Vec<Beside>)) {
        let verdict = self.bad.entry((rule, site.place)).or_insert_with(|| {
            let (message, beside) = message();
            Verdict { site, message, beside, bad: 0 }
        });
        verdict.bad += 1;
    }
}
