//! Locked read-modify-writes.

use crashproof_frontend::bitcode::ir::{Predicate, Rmw};
use crashproof_prove::program::Action;
use crashproof_prove::term::{Binary, Term, Terms};

use crate::access::Case;
use crate::arithmetic::compare;
use crate::frame::At;
use crate::machine::{Flow, Machine, Stop};
use crate::state::State;

/// Computes the effect of a read-modify-write from the old value: the new value, and whether it is stored.
pub(crate) type Update<'u> = &'u mut dyn FnMut(&mut Terms, Term) -> (Term, Term);

impl Machine<'_> {
    /// A locked read-modify-write of 1, 2, 4 or 8 bytes; `compute` returns the new value and whether it is stored.
    pub(crate) fn rmw(
        &mut self,
        state: &mut State,
        address: Term,
        bits: u8,
        compute: Update<'_>,
        at: At<'_>,
    ) -> Flow<Term> {
        let bytes = u64::from(bits) / 8;
        if !matches!(bits, 8 | 16 | 32 | 64) {
            return Err(self.refuse(state, &format!("an atomic access of {bits} bits is not supported"), at));
        }
        self.note_helper_access(state, address, bytes, true, at)?;
        let cases = self.resolve(state, address, bytes, true)?;
        let events = cases.iter().filter(|case| case.event).count();
        if events != 0 && events != cases.len() {
            return Err(self.refuse(state, "an atomic access to shared or to private memory", at));
        }
        if events != 0 {
            let old = self.read_symbol(bits);
            let (new, stores) = compute(&mut self.terms, old);
            self.expose_mentioned(new)?;
            let action = Action::Rmw { address, old, new, stores };
            self.emit(state, action, at.place, at.function)?;
            let changes = self.changes(state, &cases, old, new, stores);
            self.mark_fenced(state, changes);
            let yes = self.terms.truth(true);
            self.flush_access(state, yes, address, bytes, at)?;
            // If the old value is known, so is the new one.
            let known = match cases.as_slice() {
                [Case { inside: Some((object, offset)), .. }]
                    if self.is_sequential() && state.memory.is_known(*object, *offset, bytes) =>
                {
                    Some(self.load_inside(state, *object, *offset, bytes))
                }
                _ => None,
            };
            let found = known.unwrap_or(old);
            let (new, stores) = compute(&mut self.terms, found);
            let left = self.terms.choose(stores, new, found);
            for case in &cases {
                self.keep(state, case, left);
            }
            return Ok(found);
        }
        let mut old: Option<Term> = None;
        for case in &cases {
            let Some((object, offset)) = case.inside else { continue };
            let value = self.load_inside(state, object, offset, bytes);
            if self.is_foreign(value) && self.objects.make_concurrent(object) {
                return Err(Stop::Restart);
            }
            old = Some(match old {
                None => value,
                Some(other) => self.terms.choose(case.condition, value, other),
            });
        }
        let old = old.expect("an address is at least one thing");
        let (new, stores) = compute(&mut self.terms, old);
        for case in &cases {
            let Some((object, offset)) = case.inside else { continue };
            let condition = self.terms.and(case.condition, stores);
            self.store_inside(state, object, offset, new, condition);
        }
        self.fence(state, at)?;
        Ok(old)
    }

    /// Whether an RMW obviously changes the value: an attempt at a lock that is taken stores what was there. Robustness
    /// distinguishes stores of the same value.
    fn changes(&mut self, state: &State, cases: &[Case], old: Term, new: Term, stores: Term) -> Term {
        let persistent =
            |case: &Case| case.inside.is_none_or(|(object, _)| self.objects.get(object).persistent);
        let by_event = self.options.no_recovery && cases.iter().any(persistent);
        // A value computed from the old one is rarely equal to it, and equality is hard to decide.
        let plain = self.terms.is_true(stores) && self.terms.constant(new).is_some();
        if state.dirty.is_empty() || by_event || !plain {
            return stores;
        }
        let same = self.terms.equal(old, new);
        self.terms.not(same)
    }

    /// A sequentially consistent store, compiled to `xchg`.
    pub(crate) fn exchange(&mut self, state: &mut State, to: Term, value: Term, at: At<'_>) -> Flow<()> {
        let bits = self.terms.width(value).next_multiple_of(8);
        let value = self.terms.zero_extend(value, bits);
        let compute = &mut |terms: &mut Terms, _: Term| (value, terms.truth(true));
        self.rmw(state, to, bits, compute, at)?;
        Ok(())
    }
}

pub(crate) fn apply_rmw(terms: &mut Terms, op: Rmw, old: Term, operand: Term) -> Term {
    let mut choose_by = |predicate| {
        let condition = compare(terms, predicate, old, operand);
        terms.choose(condition, old, operand)
    };
    match op {
        Rmw::Exchange => operand,
        Rmw::Max => choose_by(Predicate::SignedGreater),
        Rmw::Min => choose_by(Predicate::SignedLess),
        Rmw::UnsignedMax => choose_by(Predicate::UnsignedGreater),
        Rmw::UnsignedMin => choose_by(Predicate::UnsignedLess),
        Rmw::Add => terms.binary(Binary::Add, old, operand),
        Rmw::Sub => terms.binary(Binary::Sub, old, operand),
        Rmw::And => terms.and(old, operand),
        Rmw::Or => terms.or(old, operand),
        Rmw::Xor => terms.binary(Binary::Xor, old, operand),
        Rmw::Nand => {
            let both = terms.and(old, operand);
            terms.not(both)
        }
    }
}
