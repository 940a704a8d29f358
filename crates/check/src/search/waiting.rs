//! Recoveries that wait forever on something a crash left: once some have, others of the same kind are not run.

use crashproof_protocol::{Patch, Record};
use px86::{Kind, Line};

use crate::crash::{CrashState, value};
use crate::search::worker::Worker;
use crate::subject::Subject;

impl<S: Subject> Worker<'_, S> {
    /// Would recovery from this state wait forever, like others before?
    pub(crate) fn would_wait(&self, state: &CrashState, patches: &[Patch]) -> bool {
        if !state.later.is_empty() || !self.sets_aside {
            return false;
        }
        self.set_aside.held.iter().any(|(&address, &(width, held))| {
            let line = Line::containing(address);
            let patch = patches.iter().find(|patch| patch.address == line.start());
            let found = patch.map_or_else(
                || self.subject.image_value(address, width),
                |patch| value(&patch.bytes, address, width),
            );
            found == held
        })
    }

    /// A recovery never ended, and read these addresses over and over.
    pub(crate) fn waited_for(&mut self, state: &CrashState, addresses: &[u64]) {
        let stores = |record: &&Record, address: u64| {
            record.event_kind().is_some_and(Kind::stores)
                && (record.address()..record.address() + u64::from(record.width())).contains(&address)
        };
        let before = &self.recording.records[..state.first.at];
        for &address in addresses {
            if let Some(store) = before.iter().rev().find(|record| stores(record, address))
                && store.value != 0
            {
                self.search.shared().set_aside.waited(store.site);
            }
        }
    }
}
