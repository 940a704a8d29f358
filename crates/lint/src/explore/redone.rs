//! Stores of constants that every start of the program makes again, before it reads what they store to: locks that recovery
//! releases. Losing such a store loses nothing, because the next start stores the same before anything depends on it.
//!
//! Whether a start makes the store must not be up to something else in persistent memory, such as a flag of an orderly end:
//! that could persist although the store did not.

use std::rc::Rc;

use super::walk::{State, Walk};
use crate::expression::{Expression, Form};
use crate::uses::Member;
use crashproof_frontend::program::ir::{FunctionId, PlaceId};

impl Walk<'_, '_> {
    /// A path stores a constant to a member.
    pub(super) fn note_redone(
        &mut self,
        state: &State,
        address: Expression,
        place: PlaceId,
        members: &[Member],
    ) {
        let was_read = members.iter().any(|member| state.reads.contains(member));
        let may_not_happen = self.is_guarded_by_others(state, &[address]);
        self.explorer.uses.redone(self.id, place, was_read || may_not_happen);
    }

    /// A path calls a function that makes such stores.
    pub(super) fn note_redone_by(&mut self, state: &State, callee: FunctionId, values: &[Expression]) {
        let Some(places) = self.explorer.uses.redone_in(callee) else { return };
        // Of a structure that is visited recursively, the structure says what is visited.
        let may_not_happen = callee != self.id && self.is_guarded_by_others(state, values);
        for place in places {
            let was_read =
                self.explorer.uses.members_stored_at(place).any(|member| state.reads.contains(&member));
            self.explorer.uses.redone(self.id, place, was_read || may_not_happen);
        }
    }

    /// A path reads members.
    pub(super) fn note_read(state: &mut State, members: &[Member]) {
        if members.iter().any(|member| !state.reads.contains(member)) {
            Rc::make_mut(&mut state.reads).extend(members);
        }
    }

    /// Whether a branch of this function that leads here asks for content of persistent memory that neither leads to the
    /// objects of these addresses nor is part of them.
    fn is_guarded_by_others(&mut self, state: &State, addresses: &[Expression]) -> bool {
        let own: Vec<Expression> = self.own_guards(state);
        let expressions = &self.explorer.expressions;
        own.into_iter().any(|guard| {
            let Form::Content(from) = expressions.form(guard) else { return false };
            let object = expressions.address(from).object;
            !addresses.iter().any(|address| {
                expressions.is_made_of(*address, guard) || expressions.address(*address).object == object
            })
        })
    }
}
