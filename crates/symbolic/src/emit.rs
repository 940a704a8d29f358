//! Events, claims and unknowns, with their places in the source.

use crashproof_frontend::bitcode::MODEL_DIRECTORY;
use crashproof_frontend::bitcode::ir::{FunctionId, Place, Type};
use crashproof_prove::program::{Action, Event, Site, SiteId};
use crashproof_prove::term::Term;

use crate::frame::At;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::records::SHARING;
use crate::state::State;
use crate::value::{self, Value};

impl Machine<'_> {
    /// Adds an event to the current thread. Ends the path if it depends on anything not modeled.
    pub(crate) fn emit(
        &mut self,
        state: &mut State,
        action: Action,
        place: &Place,
        function: FunctionId,
    ) -> Flow<()> {
        let used: Vec<Term> = match &action {
            Action::Load { address, .. } | Action::Flush { address } | Action::FlushOpt { address } => {
                vec![*address]
            }
            Action::Store { address, value, .. } => vec![*address, *value],
            Action::Rmw { address, new, stores, .. } => vec![*address, *new, *stores],
            Action::Assert { condition, .. } => vec![*condition],
            _ => Vec::new(),
        };
        if let Some(why) = used.into_iter().find_map(|term| self.why_imprecise(term)) {
            self.unknown(state, &why, place, function);
            return Err(Stop::Dead);
        }
        if let Action::Assert { condition, .. } = &action
            && state.known(&self.terms, *condition) == Some(true)
        {
            return Ok(());
        }
        if state.unfollowed {
            return match action {
                Action::Assert { .. } => Err(self.refuse_unfollowed(state, place, function)),
                Action::Unknown { .. } => self.add_event(state, action, place, function),
                _ => Ok(()),
            };
        }
        if self.events >= self.options.events && !matches!(action, Action::Unknown { .. }) {
            let reason = format!("there are more than {} events (--max-events)", self.options.events);
            self.give_up(state, &reason, place, function);
            return Err(Stop::Dead);
        }
        self.add_event(state, action, place, function)
    }

    /// Handles a claim about the actions of recovery's threads, whose schedules are not followed.
    fn refuse_unfollowed(&mut self, state: &mut State, place: &Place, function: FunctionId) -> Stop {
        self.unknown(state, SHARING, place, function);
        Stop::Dead
    }

    fn add_event(&mut self, state: &State, action: Action, place: &Place, function: FunctionId) -> Flow<()> {
        let guard = state.guard(&mut self.terms);
        let (place, function) = self.reported(place, function);
        let is_assertion = matches!(action, Action::Assert { .. });
        let site = self.site(&place, function, is_assertion);
        self.events += 1;
        let event = Event { guard, action, site };
        match self.who {
            Who::Thread(thread) => self.threads[thread as usize].events.push(event),
            Who::Recovery => self.recovery.events.push(event),
        }
        Ok(())
    }

    /// Ends a path, because its continuation is unknown.
    pub(crate) fn unknown(&mut self, state: &mut State, reason: &str, place: &Place, function: FunctionId) {
        let action = Action::Unknown { reason: reason.to_owned() };
        let emitted = self.emit(state, action, place, function);
        debug_assert!(emitted.is_ok(), "this action uses no terms");
    }

    /// The same, and the program as a whole is too large.
    pub(crate) fn give_up(&mut self, state: &mut State, reason: &str, place: &Place, function: FunctionId) {
        self.unknown(state, reason, place, function);
        if self.given_up.is_none() {
            let (place, function) = self.reported(place, function);
            self.given_up = Some((reason.to_owned(), self.site(&place, function, false)));
        }
    }

    /// Reports that something is unknown here, and ends the path.
    pub(crate) fn refuse(&mut self, state: &mut State, reason: &str, at: At<'_>) -> Stop {
        self.unknown(state, reason, at.place, at.function);
        Stop::Dead
    }

    /// Adds an event that happens only if the condition also holds.
    pub(crate) fn emit_under(
        &mut self,
        state: &mut State,
        condition: Term,
        action: Action,
        at: At<'_>,
    ) -> Flow<()> {
        let unfollowed = state.unfollowed;
        let mut here = State { path: state.path.clone(), unfollowed, ..State::default() };
        if !here.assume(&mut self.terms, condition) {
            return Ok(());
        }
        let result = self.emit(&mut here, action, at.place, at.function);
        if result.is_err() && here.path != state.path {
            // The whole path ends, so the message must be unconditional.
            self.unknown(
                state,
                "this path exists only because something is not modeled",
                at.place,
                at.function,
            );
        }
        result
    }

    /// Claims a condition, and continues where it holds.
    pub(crate) fn assert(
        &mut self,
        state: &mut State,
        condition: Term,
        message: String,
        at: At<'_>,
    ) -> Flow<()> {
        self.emit(state, Action::Assert { condition, message }, at.place, at.function)?;
        if state.assume(&mut self.terms, condition) { Ok(()) } else { Err(Stop::Dead) }
    }

    /// A claim that is false whenever it is reached. Ends the path.
    pub(crate) fn fails(&mut self, state: &mut State, claim: &str, at: At<'_>) -> Stop {
        let no = self.terms.truth(false);
        self.note_claim(state);
        match self.assert(state, no, claim.to_owned(), at) {
            Err(stop) => stop,
            Ok(()) => Stop::Dead,
        }
    }

    /// The result of something that is not modeled but does not access memory.
    pub(crate) fn unmodeled(
        &mut self,
        state: &mut State,
        ty: &Type,
        what: &str,
        at: At<'_>,
    ) -> Flow<Option<Value>> {
        let why = self.reason(what, at);
        match value::build(ty, &mut |bits| self.imprecise(bits, &why)) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.refuse(state, &why, at)),
        }
    }

    pub(crate) fn not_modeled(&mut self, bits: u8, what: &str, at: At<'_>) -> Term {
        let why = self.reason(what, at);
        self.imprecise(bits, &why)
    }

    /// Events in `crashproof.h`, in a model, or without a line from the compiler, as for intrinsics, are attributed to
    /// the caller.
    pub(crate) fn reported(&self, place: &Place, function: FunctionId) -> (Place, FunctionId) {
        let ours = |place: &Place| {
            place.line == 0
                || place.file.ends_with("/crashproof.h")
                || place.file.starts_with(MODEL_DIRECTORY)
        };
        if !ours(place) {
            return (place.clone(), function);
        }
        let outside = self.calls.iter().rev().find(|(place, _)| !ours(place));
        outside.cloned().unwrap_or_else(|| (place.clone(), function))
    }

    fn site(&mut self, place: &Place, function: FunctionId, assertion: bool) -> SiteId {
        if let Some(known) = self.known_sites.get(&(place.clone(), function, assertion)) {
            return *known;
        }
        let text = self.source_line(place);
        let site = Site {
            file: place.file.to_string(),
            function: self.module.function(function).name.clone(),
            line: place.line,
            column: place.column,
            text,
        };
        let id = SiteId(self.sites.len() as u32);
        self.sites.push(site);
        self.known_sites.insert((place.clone(), function, assertion), id);
        id
    }

    fn source_line(&mut self, place: &Place) -> String {
        let lines = self.sources.entry(place.file.clone()).or_insert_with(|| {
            let text = std::fs::read_to_string(&*place.file).unwrap_or_default();
            text.lines().map(|line| line.trim().to_owned()).collect()
        });
        (place.line as usize).checked_sub(1).and_then(|index| lines.get(index)).cloned().unwrap_or_default()
    }
}
