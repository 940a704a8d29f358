//! The rules, and the verdicts that paths pass on each place.

use crashproof_findings::Rule as Registered;
use crashproof_findings::rules::lint;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::Site;
use crate::gap::Gaps;
use crashproof_frontend::program::ir::{FunctionId, PlaceId};

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

/// A rule. Tables 4 and 5 of the DeepMC paper, and two more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the registry says what each is")]
pub enum Rule {
    UnflushedWrite,
    UnloggedWrite,
    MultipleWritesAtOnce,
    MissingBarrier,
    MissingBarrierNested,
    SplitUpdate,
    ConcurrentStrands,
    PublishBeforePersist,
    FlushUnmodified,
    RedundantFlush,
    EmptyTransaction,
    RepeatedPersist,
    LogUnmodified,
    EmptyFence,
}

impl Rule {
    /// The entry of the registry, with the name that never changes.
    #[must_use]
    pub fn registered(self) -> &'static Registered {
        match self {
            Rule::UnflushedWrite => &lint::UNFLUSHED_WRITE,
            Rule::UnloggedWrite => &lint::UNLOGGED_WRITE,
            Rule::MultipleWritesAtOnce => &lint::MULTIPLE_WRITES_AT_ONCE,
            Rule::MissingBarrier => &lint::MISSING_BARRIER,
            Rule::MissingBarrierNested => &lint::MISSING_BARRIER_NESTED,
            Rule::SplitUpdate => &lint::SPLIT_UPDATE,
            Rule::ConcurrentStrands => &lint::CONCURRENT_STRANDS,
            Rule::PublishBeforePersist => &lint::PUBLISH_BEFORE_PERSIST,
            Rule::FlushUnmodified => &lint::FLUSH_UNMODIFIED,
            Rule::RedundantFlush => &lint::REDUNDANT_FLUSH,
            Rule::EmptyTransaction => &lint::EMPTY_TRANSACTION,
            Rule::RepeatedPersist => &lint::REPEATED_PERSIST,
            Rule::LogUnmodified => &lint::LOG_UNMODIFIED,
            Rule::EmptyFence => &lint::EMPTY_FENCE,
        }
    }

    /// Whether it is worth a report if it is broken on some paths but kept on others. A transaction that has
    /// nothing to do now and then, and a fence after a loop that may not have run, are not. What must hold on all paths
    /// cannot be said of a function of which some are unknown.
    pub(crate) fn is_reported(self, sometimes: bool, unknown: bool) -> bool {
        // Some path waits where it must, so the others are deliberate.
        if self == Rule::MissingBarrierNested {
            return !sometimes;
        }
        !(sometimes || unknown)
            || !matches!(
                self,
                Rule::EmptyTransaction | Rule::LogUnmodified | Rule::EmptyFence | Rule::RepeatedPersist
            )
    }

    /// What to do.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Rule::UnflushedWrite => "flush it and wait for the flush before it matters",
            Rule::UnloggedWrite => "add it to the transaction before the store, or persist it",
            Rule::MultipleWritesAtOnce => "persist each store before the next one",
            Rule::MissingBarrier | Rule::MissingBarrierNested => "wait for the flush with a fence",
            Rule::SplitUpdate => "make both durable at once, in a transaction, or order them by a protocol",
            Rule::ConcurrentStrands => "join the strands in between, or put both into one",
            Rule::PublishBeforePersist => "persist the object before storing the pointer to it",
            Rule::FlushUnmodified => "flush only what was modified",
            Rule::RedundantFlush => "leave out one of the flushes",
            Rule::EmptyTransaction => "leave out the transaction",
            Rule::RepeatedPersist => "leave it out",
            Rule::LogUnmodified => "log only what is modified",
            Rule::EmptyFence => "leave out the fence",
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
    /// The function whose paths were walked first, and all of them.
    pub(crate) by: FunctionId,
    by_all: FxHashSet<FunctionId>,
    /// Paths that break the rule here.
    pub(crate) bad: u32,
    /// Not worth a report if other paths of the same functions keep the rule.
    pub(crate) unless_kept: bool,
    /// What to do here, if more can be said than the rule says.
    pub(crate) advice: Option<String>,
}

impl Verdict {
    /// Says what to do, unless an earlier path said so.
    pub(crate) fn advise(&mut self, advice: String) {
        self.advice.get_or_insert(advice);
    }
}

/// All verdicts so far.
#[derive(Default)]
pub(crate) struct Verdicts {
    pub(crate) bad: FxHashMap<(Rule, PlaceId), Verdict>,
    /// Paths that keep the rule.
    pub(crate) good: FxHashMap<(Rule, PlaceId), u32>,
    /// Rules that paths of a function keep somewhere.
    kept: FxHashSet<(Rule, FunctionId, PlaceId)>,
    /// Flushes of memory that was there before and of which the path stored nothing.
    pub(crate) untouched: FxHashSet<PlaceId>,
    /// Flushes of one thing after another, as a loop finds them, of which the path stored nothing.
    pub(crate) swept: FxHashSet<PlaceId>,
    /// What was not understood on the way.
    pub(crate) gaps: Gaps,
}

impl Verdicts {
    /// Whether a flush is for what others stored: it takes all that a list, a log or a range of pages leads to.
    pub(crate) fn is_sweep(&self, rule: Rule, place: PlaceId) -> bool {
        rule == Rule::FlushUnmodified && self.untouched.contains(&place) && self.swept.contains(&place)
    }

    /// Whether it is deliberate: every function that breaks the rule on some paths keeps it on others.
    pub(crate) fn is_deliberate(&self, rule: Rule, verdict: &Verdict) -> bool {
        let place = verdict.site.place;
        verdict.unless_kept && verdict.by_all.iter().all(|by| self.kept.contains(&(rule, *by, place)))
    }

    pub(crate) fn keeps(&mut self, rule: Rule, by: FunctionId, place: PlaceId) {
        self.kept.insert((rule, by, place));
    }

    pub(crate) fn good(&mut self, rule: Rule, place: PlaceId) {
        *self.good.entry((rule, place)).or_default() += 1;
    }

    pub(crate) fn bad(
        &mut self,
        rule: Rule,
        site: Site,
        by: FunctionId,
        message: impl FnOnce() -> (String, Vec<Beside>),
    ) -> &mut Verdict {
        let verdict = self.bad.entry((rule, site.place)).or_insert_with(|| {
            let (message, beside) = message();
            let by_all = FxHashSet::default();
            Verdict { site, message, beside, by, by_all, bad: 0, unless_kept: false, advice: None }
        });
        verdict.bad += 1;
        verdict.by_all.insert(by);
        verdict
    }
}
