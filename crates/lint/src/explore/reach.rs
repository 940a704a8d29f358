//! Which memory contents of a callee are reachable for its callers.
//!
//! A function that allocates, fills and frees leaves behind much that is unreachable. Callers would carry it along on
//! all their paths.

use rustc_hash::FxHashSet;

use super::walk::Walk;
use super::way::{Entry, WHOLE_BYTES, whole};
use crate::event::{Event, Kind};
use crate::expression::{Address, Expression, Form, NOTHING};

/// The number of unknown contents of one object to list individually.
const LISTED: usize = 8;
/// The number of contents of one object visible to callers; for a larger table they only know that it was filled.
const MANY: usize = 64;

impl Walk<'_, '_> {
    /// Drops what a caller cannot reach: contents of objects created here to which neither the result, nor surviving
    /// memory, nor an event leads. A new object about which nothing is known needs no entry.
    pub(super) fn reachable(&self, memory: Vec<Entry>, result: Expression, events: &[Event]) -> Vec<Entry> {
        let mut seen = FxHashSet::default();
        let mut made_here = FxHashSet::default();
        self.mentions(result, &mut seen, &mut made_here);
        for event in events {
            if let Some(span) = event.kind.span() {
                self.mentions(span.at.element.unwrap_or(span.at.object), &mut seen, &mut made_here);
            }
            if let Kind::Store { value, .. } = event.kind {
                self.mentions(value, &mut seen, &mut made_here);
            }
        }
        let (mut waiting, mut kept): (Vec<Entry>, Vec<Entry>) =
            memory.into_iter().partition(|(at, ..)| self.is_made_here(at.object));
        waiting.retain(|(.., value)| *value != NOTHING);
        for (at, _, value) in &kept {
            self.mentions(at.element.unwrap_or(at.object), &mut seen, &mut made_here);
            self.mentions(*value, &mut seen, &mut made_here);
        }
        loop {
            let (found, rest): (Vec<Entry>, Vec<Entry>) =
                waiting.into_iter().partition(|(at, ..)| made_here.contains(&at.object));
            if found.is_empty() {
                break;
            }
            for (.., value) in &found {
                self.mentions(*value, &mut seen, &mut made_here);
            }
            kept.extend(found);
            waiting = rest;
        }
        merge_unknown(kept)
    }

    /// Whether an object was created in this function or its callees.
    fn is_made_here(&self, object: Expression) -> bool {
        match self.explorer.expressions.form(object) {
            Form::Volatile(_) | Form::Fresh(_) | Form::FreshId(_) => true,
            Form::Direct(id) => self.is_made_here(id),
            _ => false,
        }
    }

    /// Collects the objects created here that an expression refers to.
    fn mentions(
        &self,
        expression: Expression,
        seen: &mut FxHashSet<Expression>,
        made_here: &mut FxHashSet<Expression>,
    ) {
        if !seen.insert(expression) {
            return;
        }
        match self.explorer.expressions.form(expression) {
            Form::Volatile(_) | Form::Fresh(_) => {
                made_here.insert(expression);
            }
            Form::FreshId(_) => {
                made_here.extend(self.explorer.expressions.known(Form::Direct(expression)));
            }
            Form::Direct(inner) => {
                if self.is_made_here(inner) {
                    made_here.insert(expression);
                }
                self.mentions(inner, seen, made_here);
            }
            Form::Plus(inner, _) | Form::Content(inner) | Form::Found(_, inner) => {
                self.mentions(inner, seen, made_here);
            }
            Form::Element(left, right, _)
            | Form::Pair(left, right)
            | Form::Operation(_, left, right)
            | Form::Comparison(_, left, right) => {
                self.mentions(left, seen, made_here);
                self.mentions(right, seen, made_here);
            }
            _ => {}
        }
    }
}

/// In an object with many unknown contents, everything between the first and the last of them becomes unknown.
fn merge_unknown(mut memory: Vec<Entry>) -> Vec<Entry> {
    memory.sort_by_key(|(at, ..)| *at);
    let mut all = Vec::with_capacity(memory.len());
    for object in memory.chunk_by(|(left, ..), (right, ..)| left.object == right.object) {
        if object.len() > MANY {
            all.push((whole(object[0].0.object), WHOLE_BYTES, NOTHING));
            continue;
        }
        for run in object.chunk_by(|(left, ..), (right, ..)| left.element == right.element) {
            let hidden = |(.., value): &&Entry| *value == NOTHING;
            if run.iter().filter(hidden).count() <= LISTED {
                all.extend_from_slice(run);
                continue;
            }
            let ends =
                run.iter().filter(hidden).map(|(at, bytes, _)| at.offset.saturating_add(*bytes as i64));
            let (from, to) =
                (run.iter().find(hidden).map_or(0, |(at, ..)| at.offset), ends.max().unwrap_or(0));
            all.push((Address { offset: from, ..run[0].0 }, to.saturating_sub(from) as u64, NOTHING));
            // Known contents are restored on top of that.
            all.extend(run.iter().filter(|entry| !hidden(entry)));
        }
    }
    all
}
