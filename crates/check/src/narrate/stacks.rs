//! The call stacks of events, where known.
//!
//! A run records no call stacks: that would cost too much. After the search, the runs that matter are repeated, and the
//! runtime records the stacks of the events that a report names (`driver::call_stacks`).

use crashproof_findings::{Frame, Place, is_of_others};
use rustc_hash::FxHashMap;

use crate::narrate::names::last_part;
use crate::subject::Sites;

/// Call stacks by execution and event index; of one finding, or shared by all if they are of the recorded run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks {
    known: FxHashMap<(usize, usize), Vec<u32>>,
}

impl Stacks {
    pub(crate) fn insert(&mut self, level: usize, index: usize, callers: Vec<u32>) {
        self.known.insert((level, index), callers);
    }

    /// The callers at an event, beyond the inlined ones, innermost first.
    pub(crate) fn callers(&self, sites: &Sites, level: usize, index: usize, place: &Place) -> Vec<Frame> {
        let Some(callers) = self.known.get(&(level, index)) else { return Vec::new() };
        frames(sites, callers, Some(place))
    }
}

/// Return addresses as frames, excluding those that the place already contains: the innermost is the function of the
/// instruction itself, with everything inlined into it.
fn frames(sites: &Sites, callers: &[u32], place: Option<&Place>) -> Vec<Frame> {
    let mut all: Vec<Frame> = Vec::new();
    for caller in callers {
        let at = sites.get(*caller);
        if !at.is_known() {
            continue;
        }
        let frame = |file: &str, line, column, function: &str, inlined| Frame {
            file: file.to_owned(),
            line,
            column,
            function: function.to_owned(),
            inlined,
        };
        all.push(frame(&at.file, at.line, at.column, &at.function, false));
        let inlined = at.frames.iter();
        all.extend(inlined.map(|it| frame(&it.file, it.line, it.column, &it.function, true)));
    }
    let Some(place) = place else { return all };
    // The first frames are the place and its inlined calls, up to the called function.
    let mut inlined = place.frames.iter().filter(|frame| frame.inlined);
    let own = inlined.clone().count() + 1;
    let function = inlined.next_back().map_or(&place.function, |frame| &frame.function);
    let itself = all.iter().take(own + 4).position(|frame| last_part(&frame.function) == last_part(function));
    // Code without source has no frame of its own here: the first one is already the call into it.
    let own = if place.is_known() { own } else { 0 };
    all.drain(..itself.map_or(own, |at| at + 1).min(all.len()));
    all
}

/// Where a recovery failed: the program's innermost function and its callers, or the location of a panic.
pub(crate) fn failed_at(sites: &Sites, end: &[u32], output: &str) -> Option<Place> {
    let panicked = panic_place(output);
    let all = frames(sites, end, None);
    let mine = |frame: &Frame| frame.line > 0 && !is_of_others(&frame.file);
    let found = all.iter().position(mine).map(|at| {
        let Frame { file, line, column, function, .. } = all[at].clone();
        Place { file, line, column, function, frames: all[at + 1..].to_vec() }
    });
    panicked.or(found)
}

/// The place that a panic names.
pub(crate) fn panic_place(output: &str) -> Option<Place> {
    let at = output.lines().find_map(|line| line.split_once("panicked at "))?.1;
    let mut parts = at.trim_end_matches(':').rsplitn(3, ':');
    let (column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
    let mut place = Place::new(file, line.parse().ok()?, column.parse().ok()?);
    place.function = "a panic".into();
    Some(place)
}
