//! Reorders a run's records to put a cut first: another run of the same trace, as if the units outside the cut came
//! later.

use std::hash::{Hash, Hasher};

use crashproof_protocol::Record;
use px86::Kind;
use rustc_hash::{FxHashSet, FxHasher};

use super::cuts;
use super::happens_before::Order;
use super::notes::Steps;

/// Cuts already crashed, by fingerprint, over all schedules.
pub(crate) type Seen = FxHashSet<u128>;

/// The records of a run, reordered within the same trace.
pub(crate) struct Linearized {
    pub(crate) records: Vec<Record>,
    /// The original place of each in the run.
    pub(crate) places: Vec<u32>,
    /// For each length, the fingerprint of the cut that the records before it form.
    pub(crate) cuts: Vec<u128>,
}

/// Reorderings of a run's records that show all cuts not shown by an earlier order: `looked` holds those, and is
/// extended. A run whose cuts are all known has none; if the original order is among them it comes first. Beyond the
/// first, the orders have at most `most` records in total. Finally returns whether those are all.
///
/// A cut is known if it was a prefix of an order that was crashed: that order continues to the next unit that settles
/// something, and a crash just before that shows everything a crash at the cut does.
pub(crate) fn linearize(
    steps: &Steps,
    records: &[Record],
    looked: &mut Seen,
    most: usize,
) -> (Vec<Linearized>, bool) {
    let units: Vec<_> = steps.units.iter().map(|unit| &unit.step).collect();
    let order = Order::of_each(&units);
    let contents: Vec<u64> =
        steps.units.iter().map(|unit| content(unit.step.actor, &unit.records, records)).collect();
    let fingerprints = cuts::fingerprints(&order, &contents);
    let settles: Vec<bool> = steps.units.iter().map(|unit| unit.settles).collect();
    let own = in_order(0..units.len(), steps, records, &fingerprints);
    let own_cuts: Seen = own.cuts.iter().copied().collect();
    let mut needs_own = has_new_crash_within(steps, records, &own, looked);
    let mut orders: Vec<Linearized> = Vec::new();
    let most_orders = most / records.len().max(1);
    let all = cuts::each(&order, &settles, |cut| {
        let fingerprint = (0..units.len())
            .filter(|&unit| cut[unit])
            .fold(0u128, |sum, unit| sum.wrapping_add(fingerprints[unit]));
        if looked.contains(&fingerprint) {
            return true;
        }
        if own_cuts.contains(&fingerprint) {
            needs_own = true;
            return true;
        }
        if orders.len() >= most_orders {
            return false;
        }
        let within = (0..units.len()).filter(|&unit| cut[unit]);
        let rest = (0..units.len()).filter(|&unit| !cut[unit]);
        let linearized = in_order(within.chain(rest), steps, records, &fingerprints);
        looked.extend(linearized.cuts.iter().copied());
        orders.push(linearized);
        true
    });
    if needs_own {
        looked.extend(own_cuts);
        orders.insert(0, own);
    }
    (orders, all)
}

/// Could the original run crash within a unit, after a store and before a settling record, where no run did before?
/// Everything done before and after there were several threads is one unit.
fn has_new_crash_within(steps: &Steps, records: &[Record], own: &Linearized, looked: &Seen) -> bool {
    let mut at = 0;
    steps.units.iter().any(|unit| {
        let first = at;
        at += unit.records.len();
        let mut stored = false;
        unit.records.iter().enumerate().any(|(nth, &record)| {
            let new = stored && steps.settling[record] && !looked.contains(&own.cuts[first + nth]);
            stored |= records[record].event_kind().is_some_and(Kind::stores);
            new
        })
    })
}

fn in_order(
    units: impl Iterator<Item = usize>,
    steps: &Steps,
    records: &[Record],
    fingerprints: &[u128],
) -> Linearized {
    let mut places = Vec::with_capacity(records.len());
    let mut cuts = vec![0; records.len() + 1];
    let mut sum = 0u128;
    for unit in units {
        for (nth, &record) in steps.units[unit].records.iter().enumerate() {
            places.push(record as u32);
            cuts[places.len()] = cuts::within(sum, fingerprints[unit], nth);
        }
        sum = sum.wrapping_add(fingerprints[unit]);
        cuts[places.len()] = sum;
    }
    Linearized {
        records: places.iter().map(|&place| ordered(&records[place as usize])).collect(),
        places,
        cuts,
    }
}

/// The records before a crash followed by the others, given which were moved behind it.
pub(crate) fn rearranged(records: &[Record], moved: &[u32]) -> Vec<Record> {
    let is_moved = |place: &usize| moved.binary_search(&(*place as u32)).is_ok();
    let last = moved.last().map_or(0, |last| *last as usize + 1);
    // Moved records follow all others up to the crash; anything after that is never examined.
    let kept = (0..records.len()).filter(|place| !is_moved(place));
    let back = (0..last.min(records.len())).filter(is_moved);
    kept.chain(back).map(|place| ordered(&records[place])).collect()
}

/// A write-back counts from when it takes effect: as early as possible (see `exploration` in the runtime).
fn ordered(record: &Record) -> Record {
    let mut record = *record;
    if record.event_kind() == Some(Kind::FlushOpt) {
        record.value = u64::MAX;
    }
    record
}

/// A hash of what a unit does.
fn content(actor: u64, places: &[usize], records: &[Record]) -> u64 {
    let mut hasher = FxHasher::default();
    actor.hash(&mut hasher);
    for record in places.iter().map(|&place| ordered(&records[place])) {
        (record.kind(), record.address(), record.width(), record.thread()).hash(&mut hasher);
        ({ record.value }, { record.site }).hash(&mut hasher);
    }
    hasher.finish()
}
