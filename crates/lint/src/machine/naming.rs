//! What source names reveal about two ranges: `s->active` is not part of `s->copy[..]`.

use crate::guards::{SOME_ELEMENT, members};

/// Whether two ranges are named by members that exclude each other. Unknown without members on both sides.
pub(super) fn are_apart(stored: &str, flushed: &str) -> bool {
    if [stored, flushed].iter().any(|name| name.contains(SOME_ELEMENT)) {
        return false;
    }
    let (own, theirs) = (members(stored), members(flushed));
    let (Some((own_root, own)), Some((their_root, theirs))) = (own, theirs) else { return false };
    if own.is_empty() || theirs.is_empty() {
        return false;
    }
    if own_root == their_root {
        return own.iter().zip(&theirs).any(|(left, right)| left != right);
    }
    // Through different pointers: the same member of the same type has the same name.
    let last = |all: &[&str]| all.last().map(|name| (*name).to_owned());
    !theirs.iter().any(|name| Some((*name).to_owned()) == last(&own))
        && !own.iter().any(|name| Some((*name).to_owned()) == last(&theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_one_structure_exclude_each_other() {
        assert!(are_apart("s->copy[..]", "s->active"));
        assert!(!are_apart("s->copy[..].version", "s->copy[..]"));
        assert!(are_apart("bucket->used", "table_->total"));
        assert!(!are_apart("bucket->used", "table_->buckets[..].used"));
        assert!(!are_apart("n->value", "*n"));
        assert!(!are_apart("", "n->value"));
    }
}
