//! Guards: memory that the program reads or stores only if something else in persistent memory has a certain value.
//!
//! `if (slot->ready) use(slot->result)` implies that `result` counts once `ready` is set, whatever the names, and so
//! `result` must be durable before `ready` is stored (the likely invariants of Witcher, SOSP 2021, from control
//! dependence alone). Members are identified by name: the functions that rely on an order are seldom those that must
//! maintain it.
//!
//! An assertion does not guard what follows it, but one that claims `finished <= started` implies an order, too:
//! `started` must be durable before `finished` is stored.
//!
//! Not covered: what an address is computed from (see `machine::order`), and other claims of assertions.

use rustc_hash::FxHashMap;

/// The index of an element that is chosen at run time, and has no variable of its own. Little is known about it: only
/// what recovery undoes.
pub(crate) const SOME_ELEMENT: &str = "[?]";

/// The variable and the members of a name, without indices; `None` if it has none.
pub(crate) fn members(name: &str) -> Option<(&str, Vec<&str>)> {
    let name = name.trim_start_matches('*');
    let mut parts = name.split("->").flat_map(|part| part.split('.')).map(|part| {
        let end = part.find('[').unwrap_or(part.len());
        &part[..end]
    });
    let root = parts.next().filter(|root| !root.is_empty())?;
    // An unknown index, `[..]`, leaves a bracket behind.
    Some((root, parts.filter(|part| !part.is_empty() && *part != "]").collect()))
}

/// Whether two names are of one member, perhaps of several elements.
pub(crate) fn is_same_member(one: &str, other: &str) -> bool {
    one == other || members(one).is_some_and(|one| !one.1.is_empty() && Some(one) == members(other))
}

/// How other functions identify a range: its members, or the variable itself.
fn keys(name: &str) -> Vec<&str> {
    match members(name) {
        Some((_, members)) if !members.is_empty() => members,
        Some((root, _)) if !name.starts_with('*') => vec![root],
        _ => Vec::new(),
    }
}

/// Whether two names are of members of one object: `e->next` and `e->data`.
fn is_beside(one: &str, other: &str) -> bool {
    let object = |name: &str| name.rfind("->").map(|end| name[..end].to_owned());
    let (one, other) = (object(one), object(other));
    one.is_some() && one == other
}

/// How many members a name lists.
pub(crate) fn count_members(name: &str) -> usize {
    keys(name).len()
}

/// The relation of a guard to what it guards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    /// Anything, including members of one object.
    Any,
    /// The guard leads there: `while (e) { use(e->data); e = e->next; }` implies that the data of the *next* entry
    /// counts once `next` is set, and nothing about the data next to it.
    LeadsTo,
    /// Recovery stores there while the guard is set, as it undoes what was interrupted: it must be durable when the guard
    /// is cleared.
    Undo,
}

/// Pairs of members: the first determines whether the second counts.
#[derive(Default, Debug)]
pub(crate) struct Guards {
    pairs: FxHashMap<(String, String), Relation>,
}

impl Guards {
    pub(crate) fn add(&mut self, guard: &str, guarded: &str, relation: Relation) {
        let path = keys(guard);
        let Some(&guard) = path.last() else { return };
        // An object that contains both is guarded by neither.
        for guarded in keys(guarded) {
            if !path.contains(&guarded) {
                let known = self.pairs.entry((guard.to_owned(), guarded.to_owned())).or_insert(relation);
                if relation == Relation::Any || *known == Relation::Undo {
                    *known = relation;
                }
            }
        }
    }

    /// Whether a store to a guard makes another store count; `clears` if it stores a zero.
    pub(crate) fn covers(&self, guard: &str, guarded: &str, clears: bool) -> bool {
        let path = keys(guard);
        let is_some_element = guarded.contains(SOME_ELEMENT);
        let beside = is_beside(guard, guarded);
        let Some(&guard) = path.last() else { return false };
        let guarded = keys(guarded);
        let pair = |guarded: &str| match self.pairs.get(&(guard.to_owned(), guarded.to_owned())) {
            Some(Relation::Any) => !is_some_element,
            Some(Relation::LeadsTo) => !is_some_element && !beside,
            Some(Relation::Undo) => clears,
            None => false,
        };
        // A part of the guard is not guarded by it.
        !guarded.contains(&guard) && guarded.iter().any(|guarded| !path.contains(guarded) && pair(guarded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_guards_what_is_read_behind_it() {
        let mut guards = Guards::default();
        guards.add("t->slots[..].ready", "t->slots[..].result", Relation::Any);
        assert!(guards.covers("slot->ready", "slot->result", false));
        assert!(!guards.covers("slot->result", "slot->ready", false));
        assert!(!guards.covers("slot->ready", "job->finished", false));
        assert!(!guards.covers("*flag", "slot->result", false));
        assert!(!guards.covers("t->slots[..].ready", "t->slots[..].owner", false));
    }

    #[test]
    fn elements_of_one_array_have_the_same_members() {
        assert!(is_same_member("sp->ext[0].state", "sp->ext[1].state"));
        assert!(!is_same_member("sp->ext[0].state", "sp->ext[0].len"));
        assert!(!is_same_member("*p", "*q"));
    }

    #[test]
    fn a_link_guards_what_it_leads_to() {
        let mut guards = Guards::default();
        guards.add("e->next", "e->data", Relation::LeadsTo);
        assert!(guards.covers("tail->next", "entry->data", false));
        assert!(!guards.covers("entry->next", "entry->data", false));
        guards.add("e->next", "e->data", Relation::Any);
        assert!(guards.covers("entry->next", "entry->data", false));
    }
}
