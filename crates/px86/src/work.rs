//! Whether flushes and fences are useful.
//!
//! A flush is useful if, once its thread fences, something is certain that would not be without it; a fence is useful
//! if it makes anything certain. The model determines this, for reports of redundant instructions.

use rustc_hash::FxHashMap;

use crate::buffer::Entry;
use crate::storage::{Execution, Seq};
use crate::{Kind, Line, Platform, Thread};

/// The effect of an instruction on persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// It makes something certain that might have been lost, or begins to.
    Useful,
    /// A flush of a line whose stores were all certain already.
    Clean,
    /// A flush of a line that its thread is writing back already, with everything stored to it.
    Repeated,
    /// A fence that makes nothing certain.
    Idle,
}

/// Follows an execution and determines the effect of each flush and fence.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    execution: Execution,
    /// For each thread the lines it is writing back, and up to which moment that covers their stores.
    begun: FxHashMap<Thread, FxHashMap<Line, Seq>>,
}

impl Observer {
    /// Nothing has happened yet.
    pub fn new(platform: Platform) -> Observer {
        Observer { execution: Execution::new(platform), begun: FxHashMap::default() }
    }

    /// The present moment.
    pub fn now(&self) -> Seq {
        self.execution.now()
    }

    /// Lets an entry take effect, and returns its usefulness; `None` unless it is a flush or fence.
    pub fn commit(&mut self, entry: &Entry) -> Option<Work> {
        let event = &entry.event;
        let line = Line::containing(event.address);
        match event.kind {
            Kind::Load => None,
            Kind::Store | Kind::NonTemporalStore => {
                self.execution.commit_store(event, entry.tag);
                if event.kind.write_back().is_some() {
                    self.note_begun(event.thread);
                }
                None
            }
            Kind::Flush => {
                let work = self.flush_work(event.thread, line);
                self.execution.commit_flush(event);
                self.execution.forget_certain(line);
                Some(work)
            }
            Kind::FlushOpt => {
                let work = self.flush_work(event.thread, line);
                // A redundant one need not be remembered; a long run may have many.
                if work == Work::Useful {
                    self.execution.commit_flush_opt(event, entry.issued);
                    self.note_begun(event.thread);
                }
                Some(work)
            }
            Kind::StoreFence | Kind::Fence | Kind::FailedRmw => Some(self.fence(event.thread)),
            Kind::Rmw => {
                let work = self.fence(event.thread);
                self.execution.commit_store(event, entry.tag);
                Some(work)
            }
        }
    }

    fn flush_work(&self, thread: Thread, line: Line) -> Work {
        let Some(history) = self.execution.line(line).filter(|it| it.certain() < it.stores().len()) else {
            return Work::Clean;
        };
        let newest = history.stores().last().map_or(0, |store| store.at);
        let begun = self.begun.get(&thread).and_then(|lines| lines.get(&line));
        if begun.is_some_and(|covered| *covered >= newest) { Work::Repeated } else { Work::Useful }
    }

    /// The thread's latest write-back has begun.
    fn note_begun(&mut self, thread: Thread) {
        if let Some(&(line, covered)) = self.execution.pending(thread).last() {
            self.begun.entry(thread).or_default().insert(line, covered);
        }
    }

    fn fence(&mut self, thread: Thread) -> Work {
        let useful = self.execution.fence_would_persist(thread);
        self.execution.fence(thread);
        for line in self.begun.remove(&thread).unwrap_or_default().into_keys() {
            self.execution.forget_certain(line);
        }
        if useful { Work::Useful } else { Work::Idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Site};

    fn run(steps: &[(Kind, u16, u64)]) -> Vec<Option<Work>> {
        let mut observer = Observer::new(Platform::ADR);
        steps
            .iter()
            .map(|&(kind, thread, address)| {
                let width = if kind.stores() { 8 } else { 0 };
                let event = Event { address, value: 1, site: Site(0), thread: Thread(thread), kind, width };
                let issued = observer.now();
                observer.commit(&Entry { tag: 0, event, issued })
            })
            .collect()
    }

    #[test]
    fn a_flush_is_useful_once() {
        use Kind::{FlushOpt, Store, StoreFence};
        let steps = [
            (Store, 0, 0),
            (FlushOpt, 0, 0),
            (FlushOpt, 0, 0),
            (StoreFence, 0, 0),
            (FlushOpt, 0, 0),
            (StoreFence, 0, 0),
        ];
        let expected = [
            None,
            Some(Work::Useful),
            Some(Work::Repeated),
            Some(Work::Useful),
            Some(Work::Clean),
            Some(Work::Idle),
        ];
        assert_eq!(run(&steps), expected);
    }

    #[test]
    fn another_threads_write_back_does_not_help() {
        use Kind::{Flush, FlushOpt, Store};
        let steps = [(Store, 0, 0), (FlushOpt, 0, 0), (FlushOpt, 1, 0), (Flush, 2, 0), (Flush, 2, 0)];
        let useful = Some(Work::Useful);
        assert_eq!(run(&steps), [None, useful, useful, useful, Some(Work::Clean)]);
    }

    #[test]
    fn a_non_temporal_store_gives_a_fence_work() {
        use Kind::{NonTemporalStore, StoreFence};
        assert_eq!(run(&[(NonTemporalStore, 0, 0), (StoreFence, 0, 0)]), [None, Some(Work::Useful)]);
    }
}
