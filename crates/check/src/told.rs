//! A failure as a story: what was lost, what survived, where the power failed, what recovery read.

use px86::Line;
use px86::storage::CachedStore;

use crate::crash::{Content, Revealed};
use crate::failure::{Related, Role, TokenCrash, store_text};
use crate::sites::{AllSites, Source};
use crate::timeline::Timeline;

/// What recovery read from before the crash, in order: site, address, bytes, value.
pub(crate) type Reads = Vec<(u32, u64, u8, u64)>;

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

    /// Tells what the last recovery read that it might have read differently, and what it read last.
    pub(crate) fn reads(&mut self, revealed: &Revealed, reads: &Reads) {
        let last = reads.len().wrapping_sub(1);
        for (index, &(site, address, width, value)) in reads.iter().enumerate() {
            let chosen = revealed.contains_key(&Line::containing(address));
            if chosen || index == last {
                let bytes = if width == 1 { "byte" } else { "bytes" };
                self.add(
                    Role::Read,
                    1,
                    site,
                    format!("recovery reads {width} {bytes} at {address:#x}: {value:#x}"),
                );
            }
        }
    }
}
