//! Drops events that are irrelevant to callers.
//!
//! The function's own rules have seen all of them. A caller only needs those that change its own state, unlike a second
//! fence with nothing in between, a second flush of volatile memory, or a repeated empty transaction.

use rustc_hash::FxHashSet;

use crate::event::{Event, Kind};
use crashproof_frontend::program::ir::PlaceId;

/// The events relevant to callers.
pub(super) fn slice(events: Vec<Event>) -> Vec<Event> {
    let mut kept: Vec<Event> = Vec::with_capacity(events.len());
    let mut empty: FxHashSet<PlaceId> = FxHashSet::default();
    // Whether anything may be pending or queued since everything was last waited for.
    let mut open = true;
    for event in events {
        let before = kept.last().map(|event| &event.kind);
        match event.kind {
            Kind::Elsewhere
                if matches!(before, Some(Kind::Elsewhere | Kind::Flush { .. } | Kind::Queue { .. })) =>
            {
                continue;
            }
            Kind::Fence { drains, .. } if matches!(before, Some(Kind::Fence { drains: waited, .. }) if *waited || !drains) =>
            {
                continue;
            }
            Kind::Commit if !open && matches!(before, Some(Kind::Begin { .. })) => {
                let begun = kept.last().map(|event| event.site.place);
                if begun.is_some_and(|place| !empty.insert(place)) {
                    kept.pop();
                    continue;
                }
            }
            _ => {}
        }
        open = match event.kind {
            Kind::Fence { drains: true, .. } | Kind::Commit | Kind::CommitStage => false,
            Kind::Begin { .. }
            | Kind::Fence { .. }
            | Kind::Locked
            | Kind::Load { .. }
            | Kind::Empty { .. }
            | Kind::Log { .. }
            | Kind::LogSomewhere => open,
            _ => true,
        };
        kept.push(event);
    }
    kept
}

#[cfg(test)]
mod tests {
    use px86::order::Class;

    use super::*;
    use crate::event::Site;

    fn at(place: u32, kind: Kind) -> Event {
        Event { kind, site: Site { place: PlaceId(place), call: None, name: 0, outer: 0, by_library: false } }
    }

    #[test]
    fn what_says_nothing_new_is_left_out() {
        let fence = || Kind::Fence { class: Class::StoreFence, drains: true };
        let begin = || Kind::Begin { framework: 0 };
        let events = vec![
            at(1, Kind::Elsewhere),
            at(1, Kind::Elsewhere),
            at(2, fence()),
            at(3, fence()),
            at(4, begin()),
            at(5, Kind::Commit),
            at(4, begin()),
            at(5, Kind::Commit),
            at(6, Kind::Change),
            // Waits for what the library may have left.
            at(4, begin()),
            at(5, Kind::Commit),
        ];
        let places: Vec<u32> = slice(events).iter().map(|event| event.site.place.0).collect();
        assert_eq!(places, [1, 2, 4, 5, 6, 4, 5]);
    }
}
