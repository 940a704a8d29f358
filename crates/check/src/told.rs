//! A failure as a story: what was lost, what survived, where the power failed, what recovery read.

use px86::Line;
use px86::storage::CachedStore;

use crate::crash::{Content, Revealed};
use crate::failure::{Related, Role, TokenCrash, store_text};
use crate::sites::Sites;
use crate::timeline::Timeline;

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
    sites: &'a Sites,
    pub(crate) lost: usize,
    /// Where the first store that was lost stands.
    pub(crate) first_lost: Option<u32>,
    pub(crate) places: Vec<Related>,
    pub(crate) crashes: Vec<TokenCrash>,
}

impl<'a> Told<'a> {
    pub(crate) fn new(sites: &'a Sites) -> Told<'a> {
        Told { sites, lost: 0, first_lost: None, places: Vec::new(), crashes: Vec::new() }
    }

    fn add(&mut self, role: Role, site: u32, message: String) {
        self.places.push(Related { role, place: self.sites.get(site).clone(), message });
    }

    /// Tells of one execution and its crash; gives the site at which it crashed.
    pub(crate) fn execution(&mut self, level: usize, timeline: &Timeline, revealed: &Revealed) -> u32 {
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
            self.first_lost = lost.first().map(|store| store.event.site.0);
        }
        lost.iter().for_each(|store| self.add(Role::Lost, store.event.site.0, store_text(store)));
        if let Some(store) = survived.last() {
            self.add(Role::Survived, store.event.site.0, store_text(store));
        }
        let (site, at_end) = timeline.next_site();
        let again = if level == 0 { "" } else { "again, in recovery, " };
        let where_ = if at_end { "at the end of the run" } else { "just before this" };
        self.add(Role::Crash, site, format!("the power fails {again}{where_}"));
        self.crashes.push(TokenCrash { at: timeline.at, kept });
        site
    }

    /// Tells what the last recovery read that it might have read differently, and what it read last.
    pub(crate) fn reads(&mut self, revealed: &Revealed, reads: &Reads) {
        let last = reads.len().wrapping_sub(1);
        for (index, &Read { site, address, width, value, .. }) in reads.iter().enumerate() {
            let chosen = revealed.contains_key(&Line::containing(address));
            if chosen || index == last {
                let bytes = if width == 1 { "byte" } else { "bytes" };
                self.add(
                    Role::Read,
                    site,
                    format!("recovery reads {width} {bytes} at {address:#x}: {value:#x}"),
                );
            }
        }
    }
}
