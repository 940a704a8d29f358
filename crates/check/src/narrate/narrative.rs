//! The narrative of a failure: what was lost, what survived, where the power failed, what recovery read.

use std::collections::BTreeMap;

use crashproof_findings::{Place, Related, Role};
use crashproof_protocol::Record;
use px86::Line;
use px86::storage::CachedStore;

use crate::crash::{ChosenCrash, Content, CrashState, Read, Revealed, Timeline, group, value};
use crate::search::Recovered;
use crate::subject::AllSites;

/// The narrative of a failure, from the first execution on.
pub(crate) struct Narrative<'a> {
    sites: &'a AllSites,
    pub(crate) lost: usize,
    /// Where the first store that was lost stands: execution and site.
    pub(crate) first_lost: Option<(usize, u32)>,
    pub(crate) places: Vec<Related>,
    pub(crate) crashes: Vec<ChosenCrash>,
}

impl<'a> Narrative<'a> {
    /// The executions and their crashes; gives where the last one crashed, too.
    pub(crate) fn of_crashes(
        sites: &'a AllSites,
        state: &CrashState,
        revealed: &Revealed,
    ) -> (Narrative<'a>, (usize, u32)) {
        let mut narrative =
            Narrative { sites, lost: 0, first_lost: None, places: Vec::new(), crashes: Vec::new() };
        let mut crash_site = (0, 0);
        for (level, timeline) in state.timelines().enumerate() {
            crash_site = narrative.execution(level, timeline, state.revealed(level, revealed));
        }
        (narrative, crash_site)
    }

    fn add(&mut self, role: Role, level: usize, site: u32, message: String) {
        self.places.push(Related { role, place: self.place((level, site)).clone(), message });
    }

    /// Where a site of an execution is.
    pub(crate) fn place(&self, (level, site): (usize, u32)) -> &'a Place {
        self.sites.of(level).get(site)
    }

    /// One execution and its crash; gives where it crashed.
    fn execution(&mut self, level: usize, timeline: &Timeline, revealed: &Revealed) -> (usize, u32) {
        let mut lost: Vec<CachedStore> = Vec::new();
        let mut survived: Vec<CachedStore> = Vec::new();
        let mut kept = Vec::new();
        for (&line, contents) in revealed {
            let stores = timeline.stores(line);
            let count = (Content::most_kept(contents).kept[level] as usize).min(stores.len());
            survived.extend(&stores[..count]);
            lost.extend(&stores[count..]);
            if count < stores.len() {
                kept.push((line.0, count));
            }
        }
        lost.sort_by_key(|store| store.at);
        survived.sort_by_key(|store| store.at);
        kept.sort_unstable();
        self.lost += lost.len();
        if self.first_lost.is_none() {
            self.first_lost = lost.first().map(|store| (level, store.event.site.0));
        }
        lost.iter().for_each(|store| self.add(Role::Lost, level, store.event.site.0, store_text(store)));
        if let Some(store) = survived.last() {
            self.add(Role::Survived, level, store.event.site.0, store_text(store));
        }
        let site = timeline.next_site().0;
        self.add(Role::Crash, level, site, crash_text(level, timeline));
        self.crashes.push(ChosenCrash { at: timeline.at, kept });
        (level, site)
    }

    /// What the last recovery read that it could also have read differently, from which stores, and what it read last:
    /// Jaaru's debugging support.
    pub(crate) fn reads(&mut self, recovered: &Recovered) {
        let Recovered { state, reads, .. } = *recovered;
        // What is known of each line from the reads so far.
        let mut narrowed = Revealed::default();
        for (index, read) in reads.iter().enumerate() {
            let line = Line::containing(read.address);
            let mut groups = Vec::new();
            if recovered.revealed.contains_key(&line) {
                let contents =
                    narrowed.entry(line).or_insert_with(|| state.contents(line, (recovered.certain)(line)));
                groups = group(contents, read.address, read.width);
                contents.retain(|content| value(&content.bytes, read.address, read.width) == read.value);
            } else if index + 1 < reads.len() {
                continue;
            }
            let mut message = read_text(read);
            let others: Vec<String> = groups
                .iter()
                .filter(|other| other.0 != read.value)
                .map(|other| format!("{:#x}", other.0))
                .collect();
            if !others.is_empty() {
                message = format!("{message}; it may as well read {}", others.join(" or "));
            }
            self.add(Role::Read, 1, read.site, message);
            if groups.len() > 1 {
                self.candidates(state, read.address, read.width, &groups);
            }
        }
    }

    /// The stores from which a load might have read; what was there before the crashes is none.
    fn candidates(&mut self, state: &CrashState, address: u64, width: u8, groups: &[(u64, Vec<Content>)]) {
        let line = Line::containing(address);
        let meets = |store: &CachedStore| {
            let event = &store.event;
            event.address < address + u64::from(width) && address < event.address + u64::from(event.width)
        };
        let mut stores: BTreeMap<(usize, u64), CachedStore> = BTreeMap::new();
        for content in groups.iter().flat_map(|(_, contents)| contents) {
            // The last store that was kept, of the last execution that has one.
            let executions: Vec<_> = state.timelines().enumerate().collect();
            for (level, timeline) in executions.into_iter().rev() {
                let open = timeline.stores(line);
                let kept = (content.kept[level] as usize).min(open.len());
                let certain = level.checked_sub(1).and_then(|later| state.later[later].persisted.get(&line));
                let certain = certain.map_or(&[][..], Vec::as_slice);
                if let Some(store) =
                    open[..kept].iter().rev().chain(certain.iter().rev()).find(|it| meets(it))
                {
                    stores.insert((level, store.at), *store);
                    break;
                }
            }
        }
        for ((level, _), store) in stores {
            self.add(Role::Candidate, level, store.event.site.0, store_text(&store));
        }
    }
}

/// A store in words.
fn store_text(store: &CachedStore) -> String {
    stored(store.event.width, store.event.address, store.event.value)
}

/// A recorded store in words.
pub(crate) fn record_text(store: &Record) -> String {
    stored(store.width(), store.address(), store.value)
}

fn stored(width: u8, address: u64, value: u64) -> String {
    format!("{} at {address:#x} := {value:#x}", bytes(width))
}

/// A read of recovery in words.
pub(crate) fn read_text(read: &Read) -> String {
    format!("recovery reads {} at {:#x}: {:#x}", bytes(read.width), read.address, read.value)
}

fn bytes(width: u8) -> String {
    format!("{width} byte{}", if width == 1 { "" } else { "s" })
}

/// The crash of an execution in words.
pub(crate) fn crash_text(level: usize, timeline: &Timeline) -> String {
    let again = if level == 0 { "" } else { "again, in recovery, " };
    format!("the power fails {again}{}", crash_moment(timeline))
}

/// When a crash came, relative to its place.
pub(crate) fn crash_moment(timeline: &Timeline) -> &'static str {
    if timeline.next_site().1 { "at the end of the run" } else { "just before this" }
}
