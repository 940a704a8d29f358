//! Persistency races (Gorjiara, Luo, Lee, Xu and Demsky, "Yashme", ASPLOS 2022): recovery may read a plain store that
//! was not certainly written back at the crash.
//!
//! The model treats a store of up to eight bytes as atomic. A compiler need not: it may split or repeat a plain store,
//! or make it part of a copy, and then recovery may read part of it. Only atomic (or `volatile`) stores are safe from
//! that. Nearly every program that commits with a plain store of a word has such races and works, since compilers leave
//! such stores alone; so this check is opt-in.

use px86::Line;

use crate::crash::Read;
use crate::search::Recovered;
use crate::subject::AllSites;

/// A store, by its execution and site, and the site of the load in recovery.
pub(crate) type Race = ((usize, u32), u32);

/// The persistency races that a recovery shows.
pub(crate) fn persistency_races(recovered: &Recovered, sites: &AllSites) -> Vec<Race> {
    let open = recovered.reads.iter().filter(|read| read.open && read.address != 0);
    let mut races: Vec<Race> = open.flat_map(|read| of_read(recovered, read, sites)).collect();
    races.sort_unstable();
    races.dedup();
    races
}

fn of_read(recovered: &Recovered, read: &Read, sites: &AllSites) -> Vec<Race> {
    let line = Line::containing(read.address);
    let mut races = Vec::new();
    for (level, timeline) in recovered.state.timelines().enumerate() {
        let assumed = if level == 0 { recovered.state.first.assumed(line) } else { 0 };
        for store in timeline.each_store(line).skip(assumed) {
            let event = &store.event;
            let meets = event.address < read.address + u64::from(read.width)
                && read.address < event.address + u64::from(event.width);
            // A byte cannot be split.
            if meets && event.width > 1 && sites.of(level).is_plain(event.site.0) {
                races.push(((level, event.site.0), read.site));
            }
        }
    }
    races
}
