//! A failure as a story: what was lost, what survived, where the power failed, what recovery read.

use std::collections::BTreeMap;

use px86::Line;
use px86::storage::CachedStore;

use crate::crash::{Bytes, Content, CrashState, Revealed};
use crate::failure::{Related, Role, TokenCrash, store_text};
use crate::sites::{AllSites, Source};
use crate::timeline::Timeline;
use crate::worker::group;

/// Something that recovery read from before the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) site: u32,
    pub(crate) address: u64,
    pub(crate) width: u8,
    pub(crate) value: u64,
    /// May the line have held something else?
    pub(crate) open: bool,
}

/// What recovery read from before the crash, in order.
pub(crate) type Reads = Vec<Read>;

/// A failure, told from the first execution on.
pub(crate) struct Told<'a> {
    sites: &'a AllSites,
    pub(crate) lost: usize,
    /// Where the first store that was lost stands: execution and site.
    pub(crate) first_lost: Option<(usize, u32)>,
    pub(crate) places: Vec<Related>,
    pub(crate) crashes: Vec<TokenCrash>,
}

impl<'a> Told<'a> {
    pub(crate) fn new(sites: &'a AllSites) -> Told<'a> {
        Told { sites, lost: 0, first_lost: None, places: Vec::new(), crashes: Vec::new() }
    }

    fn add(&mut self, role: Role, level: usize, site: u32, message: String) {
        self.places.push(Related { role, place: self.place((level, site)).clone(), message });
    }

    /// Where a site of an execution is.
    pub(crate) fn place(&self, (level, site): (usize, u32)) -> &'a Source {
        self.sites.of(level).get(site)
    }

    /// Tells of one execution and its crash; gives where it crashed.
    pub(crate) fn execution(
        &mut self,
        level: usize,
        timeline: &Timeline,
        revealed: &Revealed,
    ) -> (usize, u32) {
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
        let (site, at_end) = timeline.next_site();
        let again = if level == 0 { "" } else { "again, in recovery, " };
        let where_ = if at_end { "at the end of the run" } else { "just before this" };
        self.add(Role::Crash, level, site, format!("the power fails {again}{where_}"));
        self.crashes.push(TokenCrash { at: timeline.at, kept });
        (level, site)
    }

    /// Tells what the last recovery read that it might have read differently, from which stores, and what it read
    /// last: Jaaru's debugging support.
    pub(crate) fn reads(
        &mut self,
        state: &CrashState,
        certain: impl Fn(Line) -> Bytes,
        revealed: &Revealed,
        reads: &Reads,
    ) {
        // What is known of each line from the reads so far.
        let mut narrowed = Revealed::default();
        for (index, &Read { site, address, width, value, .. }) in reads.iter().enumerate() {
            let line = Line::containing(address);
            let mut groups = Vec::new();
            if revealed.contains_key(&line) {
                let contents = narrowed.entry(line).or_insert_with(|| state.contents(line, certain(line)));
                groups = group(contents, address, width);
                contents.retain(|content| crate::crash::value(&content.bytes, address, width) == value);
            } else if index + 1 < reads.len() {
                continue;
            }
            let bytes = if width == 1 { "byte" } else { "bytes" };
            let mut message = format!("recovery reads {width} {bytes} at {address:#x}: {value:#x}");
            let others: Vec<String> = groups
                .iter()
                .filter(|other| other.0 != value)
                .map(|other| format!("{:#x}", other.0))
                .collect();
            if !others.is_empty() {
                message = format!("{message}; it may as well read {}", others.join(" or "));
            }
            self.add(Role::Read, 1, site, message);
            if groups.len() > 1 {
                self.candidates(state, address, width, &groups);
            }
        }
    }

    /// Tells from which stores a load might have read; what was there before the crashes is none.
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
