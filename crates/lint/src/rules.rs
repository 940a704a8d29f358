//! The rules, and which paths satisfy and violate them at each place.

use crashproof_findings::Rule as Registered;
use crashproof_findings::rules::lint;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::{Names, Site};
use crate::gap::Gaps;
use crate::guards::Guards;
use crashproof_frontend::program::ir::{FunctionId, PlaceId};

/// The persistency model a program is checked against (Pelley, Chen and Wenisch, ISCA 2014).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Model {
    /// Stores persist in program order: one barrier per store.
    Strict,
    /// Stores between two barriers persist in any order. This is what x86 provides, and the default.
    #[default]
    Epoch,
    /// Strands persist in any order relative to each other.
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

    /// Whether a violation on some paths is reported although other paths satisfy the rule. Not reported are a
    /// transaction that sometimes has nothing to do, and a fence after a loop that may not have run. Rules that must
    /// hold on all paths are not reported for a function whose paths are not all known.
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

    /// The general fix.
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

/// Another place that explains a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RelatedPlace {
    pub(crate) role: &'static str,
    pub(crate) place: PlaceId,
    pub(crate) message: String,
}

/// A rule that some paths violate at a place.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) site: Site,
    pub(crate) message: String,
    pub(crate) related: Vec<RelatedPlace>,
    /// The function that was explored first, and all functions.
    pub(crate) by: FunctionId,
    by_all: FxHashSet<FunctionId>,
    /// How many paths violate the rule here.
    pub(crate) paths: u32,
    /// Not reported if other paths of the same functions satisfy the rule.
    pub(crate) unless_deliberate: bool,
    /// The hardware maintains the order on every path: nothing is lost.
    pub(crate) ordered: bool,
    /// The fix for this place, if more specific than the general one.
    pub(crate) advice: Option<String>,
    /// It is a violation regardless of guards.
    pub(crate) is_certain: bool,
    /// Any of these makes it a violation.
    pub(crate) conditions: Vec<Condition>,
}

/// One store guards another, by the names of their members, unless a later one does, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    pub(crate) guard: u32,
    pub(crate) guarded: u32,
    pub(crate) unless: Vec<u32>,
    /// Does the guard's store clear it?
    pub(crate) clears: bool,
}

impl Condition {
    fn holds(&self, guards: &Guards, names: &Names) -> bool {
        let covers = |guard: u32, clears| guards.covers(names.text(guard), names.text(self.guarded), clears);
        covers(self.guard, self.clears) && !self.unless.iter().any(|later| covers(*later, false))
    }
}

impl Verdict {
    /// Whether it is a violation, now that all guards are known.
    pub(crate) fn stands(&self, guards: &Guards, names: &Names) -> bool {
        self.is_certain || self.conditions.iter().any(|condition| condition.holds(guards, names))
    }

    /// Sets the fix, unless an earlier path did.
    pub(crate) fn advise(&mut self, advice: String) {
        self.advice.get_or_insert(advice);
    }
}

/// All verdicts so far.
#[derive(Default)]
pub(crate) struct Verdicts {
    pub(crate) violations: FxHashMap<(Rule, PlaceId), Verdict>,
    /// How many paths satisfy a rule at a place.
    pub(crate) satisfied: FxHashMap<(Rule, PlaceId), u32>,
    /// Which functions have paths that satisfy a rule at a place.
    satisfied_in: FxHashSet<(Rule, FunctionId, PlaceId)>,
    /// Flushes of memory that existed before the path and to which the path did not store.
    pub(crate) untouched: FxHashSet<PlaceId>,
    /// Flushes of one object after another in a loop, to none of which the path stored.
    pub(crate) swept: FxHashSet<PlaceId>,
    /// What was not understood along the way.
    pub(crate) gaps: Gaps,
    /// Stores that a caller's log covers, and such callers.
    logged_by_callers: FxHashSet<(PlaceId, FunctionId)>,
    /// A function that the program itself calls is judged as if it were not called.
    pub(crate) is_tentative: bool,
    /// What that reveals, unless a caller makes it good.
    tentative: FxHashMap<(Rule, PlaceId), Verdict>,
}

impl Verdicts {
    /// Whether a flush is for what other code stored: it walks a list, a log or a range of pages.
    pub(crate) fn is_sweep(&self, rule: Rule, place: PlaceId) -> bool {
        rule == Rule::FlushUnmodified && self.untouched.contains(&place) && self.swept.contains(&place)
    }

    /// Whether a violation is deliberate: every function with a path that violates the rule has one that satisfies it.
    pub(crate) fn is_deliberate(&self, rule: Rule, verdict: &Verdict) -> bool {
        let place = verdict.site.place;
        verdict.unless_deliberate
            && verdict.by_all.iter().all(|by| self.satisfied_in.contains(&(rule, *by, place)))
    }

    /// Adopts violations of functions that may be called from outside and that no caller in the program makes good.
    ///
    /// With transactions, a function may be meant to be called inside one: only what it does in its own transaction
    /// counts.
    pub(crate) fn adopt(
        &mut self,
        has_transactions: bool,
        calls: &dyn Fn(FunctionId, &FxHashSet<FunctionId>) -> bool,
    ) {
        for (key, verdict) in std::mem::take(&mut self.tentative) {
            // Another caller of a helper says nothing about this one.
            let in_own_transaction = key.0 == Rule::UnloggedWrite
                && !self
                    .logged_by_callers
                    .iter()
                    .any(|(place, caller)| *place == key.1 && calls(*caller, &verdict.by_all));
            let is_about_callers = if has_transactions {
                in_own_transaction
            } else {
                matches!(
                    key.0,
                    Rule::UnflushedWrite
                        | Rule::UnloggedWrite
                        | Rule::MissingBarrier
                        | Rule::PublishBeforePersist
                )
            };
            if is_about_callers && !self.satisfied.contains_key(&key) {
                self.violations.entry(key).or_insert(verdict);
            }
        }
    }

    pub(crate) fn logged_by_caller(&mut self, place: PlaceId, caller: FunctionId) {
        self.logged_by_callers.insert((place, caller));
    }

    pub(crate) fn satisfies_in(&mut self, rule: Rule, by: FunctionId, place: PlaceId) {
        self.satisfied_in.insert((rule, by, place));
    }

    pub(crate) fn satisfies(&mut self, rule: Rule, place: PlaceId) {
        if self.is_tentative {
            return;
        }
        *self.satisfied.entry((rule, place)).or_default() += 1;
    }

    pub(crate) fn violates(
        &mut self,
        rule: Rule,
        site: Site,
        by: FunctionId,
        message: impl FnOnce() -> (String, Vec<RelatedPlace>),
    ) -> &mut Verdict {
        let all = if self.is_tentative { &mut self.tentative } else { &mut self.violations };
        let verdict = all.entry((rule, site.place)).or_insert_with(|| {
            let (message, related) = message();
            let by_all = FxHashSet::default();
            Verdict {
                site,
                message,
                related,
                by,
                by_all,
                paths: 0,
                unless_deliberate: false,
                ordered: true,
                advice: None,
                is_certain: false,
                conditions: Vec::new(),
            }
        });
        verdict.paths += 1;
        verdict.by_all.insert(by);
        verdict
    }
}
