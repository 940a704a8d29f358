//! What a run recorded in program order hides.
//!
//! A front end that runs one thread without a store buffer lets every instruction take effect when it is issued. The
//! ordering table permits other executions, and a crash can reveal two of them:
//!
//! - A non-temporal store need not wait for an earlier `clflush`, or for an earlier store, of another line. The
//!   earlier instruction matters if it makes something certain the moment it takes effect: the younger store may have
//!   persisted although the older one has not taken effect ([`overtaking`]; `litmus/order/clflush-movnt-diff`,
//!   `litmus/eadr/eadr-movnt`).
//! - A non-temporal store may itself still be waiting while later instructions have taken effect. For a line whose
//!   cache is lost that is no different from a store that was not written back; for one whose cache survives the wait
//!   is a state of its own ([`may_wait`], [`forces_out`]; `litmus/eadr/eadr-movnt-fenced`).
//!
//! Everything else that the table permits leads to crash states that the run in program order has as well: held by
//! the random programs of `crates/check/tests/litmus/main.rs`.

use crate::order::{blocked, preserved};
use crate::{Class, Event, Kind, Line, Platform};

/// Does the instruction make something certain, or impossible to go back to, the moment it takes effect, so that it
/// matters which later instructions have taken effect before it?
pub fn settles_at_once(platform: &Platform, event: &Event) -> bool {
    event.kind == Kind::Flush || settles_by_storing(platform, event)
}

fn settles_by_storing(platform: &Platform, event: &Event) -> bool {
    event.kind == Kind::Store && platform.cache_survives(Line::containing(event.address))
}

/// May a store of this kind take effect before an earlier store or `clflush` of its thread, to another line?
pub fn may_overtake(kind: Kind) -> bool {
    kind.stores() && !preserved((Class::Flush, Some(Line(0))), (kind.class(), Some(Line(1))))
}

/// Does nothing but loads take effect before an instruction of this kind that comes before it?
pub fn stops_overtaking(kind: Kind) -> bool {
    kind.fences()
}

/// Stores of one thread out of program order, each with the name its caller gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overtaking {
    /// Stores that may have taken effect already, although their turn has not come.
    pub early: Vec<(u32, Event)>,
    /// Stores that those overtook, to lines whose cache survives: they have not taken effect, although something
    /// younger may have. Stores to other lines can be lost later, too, and are left out.
    pub overtaken: Vec<(u32, Event)>,
}

/// Which instructions of a thread may have taken effect before the first of them. `events` are the thread's
/// instructions in program order, from one that [`settles_at_once`].
pub fn overtaking(platform: &Platform, events: impl Iterator<Item = (u32, Event)>) -> Overtaking {
    let mut result = Overtaking::default();
    // What has not taken effect: the first instruction, and whatever must follow such a one.
    let mut stuck: Vec<(Class, Option<Line>)> = Vec::new();
    let mut passed: Vec<(u32, Event)> = Vec::new();
    for (tag, event) in events {
        let key = event.order_key();
        if stuck.is_empty() || blocked(stuck.iter().copied(), key) {
            if settles_by_storing(platform, &event) {
                passed.push((tag, event));
            }
            if !stuck.contains(&key) {
                stuck.push(key);
            }
            if stops_overtaking(event.kind) {
                break;
            }
        } else if may_overtake(event.kind) {
            result.early.push((tag, event));
            result.overtaken.append(&mut passed);
        }
    }
    result
}

/// Does it show that this store may wait, while later instructions take effect?
pub fn may_wait(platform: &Platform, event: &Event) -> bool {
    may_overtake(event.kind) && platform.cache_survives(Line::containing(event.address))
}

/// Must a store to `line` that may wait have taken effect if `event`, later in its thread, has?
pub fn forces_out(event: &Event, line: Line) -> bool {
    // What no later store waits for, a `clflushopt`, may be waiting itself.
    let holds = preserved(event.order_key(), (Class::Write, None));
    holds && preserved((Class::NonTemporal, Some(line)), event.order_key())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, Site, Thread};

    fn event(kind: Kind, address: u64) -> Event {
        let width = if kind.stores() { 8 } else { 0 };
        Event { address, value: 1, site: Site(0), thread: Thread(0), kind, width }
    }

    fn tags(platform: &Platform, events: &[Event]) -> (Vec<u32>, Vec<u32>) {
        let found = overtaking(platform, (0..).zip(events.iter().copied()));
        let tags = |stores: Vec<(u32, Event)>| stores.into_iter().map(|store| store.0).collect();
        (tags(found.early), tags(found.overtaken))
    }

    #[test]
    fn a_non_temporal_store_overtakes_a_clflush_of_another_line() {
        use Kind::{Flush, NonTemporalStore, StoreFence};
        let run = [event(Flush, 0), event(NonTemporalStore, 64), event(NonTemporalStore, 8)];
        assert_eq!(tags(&Platform::ADR, &run), (vec![1], vec![]));
        let fenced = [event(Flush, 0), event(StoreFence, 0), event(NonTemporalStore, 64)];
        assert_eq!(tags(&Platform::ADR, &fenced), (vec![], vec![]));
    }

    #[test]
    fn a_store_is_overtaken_where_its_cache_survives() {
        use Kind::{NonTemporalStore, Store};
        let run = [event(Store, 0), event(Store, 64), event(NonTemporalStore, 128)];
        assert!(settles_at_once(&Platform::EADR, &run[0]) && !settles_at_once(&Platform::ADR, &run[0]));
        assert_eq!(tags(&Platform::EADR, &run), (vec![2], vec![0, 1]));
        let mixed = Platform::ADR.with(Line(0)..Line(1), Domain::Eadr);
        assert_eq!(tags(&mixed, &run), (vec![2], vec![0]));
    }

    #[test]
    fn what_waits_is_forced_out_by_its_line_and_by_fences() {
        let line = Line(2);
        assert!(may_wait(&Platform::EADR, &event(Kind::NonTemporalStore, 128)));
        assert!(!may_wait(&Platform::ADR, &event(Kind::NonTemporalStore, 128)));
        assert!(forces_out(&event(Kind::StoreFence, 0), line));
        assert!(forces_out(&event(Kind::Store, 136), line));
        assert!(!forces_out(&event(Kind::Store, 0), line));
        assert!(!forces_out(&event(Kind::FlushOpt, 128), line));
    }
}
