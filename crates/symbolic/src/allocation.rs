//! Objects created while a program runs.

use crate::frame::At;
use crate::machine::{Flow, Machine, Who};
use crate::objects::{Object, ObjectId, Origin};
use crate::state::State;

impl Machine<'_> {
    /// Fresh memory of the running process.
    pub(crate) fn allocate(
        &mut self,
        state: &mut State,
        point: u64,
        size: u64,
        align: u64,
        name: &str,
        at: At<'_>,
    ) -> Flow<u64> {
        self.allocate_as(state, (point, size, align), (name, false), at)
    }

    /// The same, zeroed.
    pub(crate) fn allocate_zeroed(
        &mut self,
        state: &mut State,
        point: u64,
        size: u64,
        align: u64,
        name: &str,
        at: At<'_>,
    ) -> Flow<u64> {
        self.allocate_as(state, (point, size, align), (name, true), at)
    }

    fn allocate_as(
        &mut self,
        state: &mut State,
        (point, size, align): (u64, u64, u64),
        (name, defined): (&str, bool),
        at: At<'_>,
    ) -> Flow<u64> {
        const LARGEST: u64 = 1 << 36;
        if size > LARGEST {
            return Err(self.refuse(state, &format!("{size} bytes of memory in one piece"), at));
        }
        let name = format!("{name} at {}:{}", at.place.file, at.place.line);
        let object = Object { defined, ..Object::zeroed(name, size) };
        Ok(self.make_object(state, point, align, object))
    }

    /// A new object; it is the same one whenever this point is reached again.
    pub(crate) fn make_object(&mut self, state: &mut State, point: u64, align: u64, object: Object) -> u64 {
        self.make_object_behind(state, point, align, 0, object)
    }

    /// The same, at an offset from an aligned address.
    pub(crate) fn make_object_behind(
        &mut self,
        state: &mut State,
        point: u64,
        align: u64,
        lead: u64,
        object: Object,
    ) -> u64 {
        let id = self.objects.place_behind(Origin::Made(point, object.size), align, lead, || object);
        let info = self.objects.get_mut(id);
        // An earlier execution may have left initial content.
        info.initial.clear();
        info.written.clear();
        if !self.objects.is_exposed(id) || self.is_sequential() {
            let mut memory = std::mem::take(&mut state.memory);
            self.add_object(&mut memory, id);
            state.memory = memory;
        }
        self.objects.get(id).address
    }

    /// Persistent memory as a process finds it: zero in the first run, whatever survived after a crash.
    pub(crate) fn find_persistent(&mut self, state: &mut State, object: ObjectId) {
        if state.memory.has(object) {
            return;
        }
        let mut memory = std::mem::take(&mut state.memory);
        self.add_object(&mut memory, object);
        if self.who == Who::Recovery {
            memory.forget(object);
        }
        state.memory = memory;
    }
}
