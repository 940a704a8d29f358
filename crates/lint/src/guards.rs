//! What guards what: memory that the program reads or stores only where something else in persistent memory has some value.
//!
//! `if (slot->ready) use(slot->result)` says that `result` counts once `ready` is set, whatever the two are called, and so
//! `result` must be durable before `ready` is stored (the likely invariants of Witcher, SOSP 2021, from control dependence
//! alone). Members are known by name: the functions that rely on an order are seldom those that must keep it.
//!
//! Not seen: what an address is computed from (`machine::order` has that), and what an assertion claims, which guards
//! nothing.

use rustc_hash::FxHashSet;

/// The variable and the members of a name, without indices; none if it says nothing.
pub(crate) fn members(name: &str) -> Option<(&str, Vec<&str>)> {
    let name = name.trim_start_matches('*');
    let mut parts = name.split("->").flat_map(|part| part.split('.')).map(|part| {
        let end = part.find('[').unwrap_or(part.len());
        &part[..end]
    });
    let root = parts.next().filter(|root| !root.is_empty())?;
    // Of an index that is not known, `[..]`, a bracket is left.
    Some((root, parts.filter(|part| !part.is_empty() && *part != "]").collect()))
}

/// By what a range is known in other functions: its members, or the variable that it is.
fn keys(name: &str) -> Vec<&str> {
    match members(name) {
        Some((_, members)) if !members.is_empty() => members,
        Some((root, _)) if !name.starts_with('*') => vec![root],
        _ => Vec::new(),
    }
}

/// How many members a name lists.
pub(crate) fn count_members(name: &str) -> usize {
    keys(name).len()
}

/// Pairs of members: the first decides whether the second counts.
#[derive(Default, Debug)]
pub(crate) struct Guards {
    pairs: FxHashSet<(String, String)>,
}

impl Guards {
    pub(crate) fn add(&mut self, guard: &str, guarded: &str) {
        let path = keys(guard);
        let Some(&guard) = path.last() else { return };
        // What both lie in is guarded by neither.
        for guarded in keys(guarded) {
            if !path.contains(&guarded) {
                self.pairs.insert((guard.to_owned(), guarded.to_owned()));
            }
        }
    }

    pub(crate) fn covers(&self, guard: &str, guarded: &str) -> bool {
        let path = keys(guard);
        let Some(&guard) = path.last() else { return false };
        let guarded = keys(guarded);
        let pair = |guarded: &str| self.pairs.contains(&(guard.to_owned(), guarded.to_owned()));
        // What is part of the guard is not guarded by it.
        !guarded.contains(&guard) && guarded.iter().any(|guarded| !path.contains(guarded) && pair(guarded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_guards_what_is_read_behind_it() {
        let mut guards = Guards::default();
        guards.add("t->slots[..].ready", "t->slots[..].result");
        assert!(guards.covers("slot->ready", "slot->result"));
        assert!(!guards.covers("slot->result", "slot->ready"));
        assert!(!guards.covers("slot->ready", "job->finished"));
        assert!(!guards.covers("*flag", "slot->result"));
        assert!(!guards.covers("t->slots[..].ready", "t->slots[..].owner"));
    }
}
