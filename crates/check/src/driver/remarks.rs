//! Remarks on what a verdict rests on besides its findings: the medium, crash states set aside, trusted checksums, and
//! why there was nothing to judge.

use std::path::PathBuf;

use crashproof_findings::{Place, no_persistent_memory};

use crate::driver::options::{Medium, Options};
use crate::narrate::{readable, short};
use crate::search::Shared;
use crate::subject::{AllSites, FileNames, Subject};

/// What the runtime treats as persistent memory.
const PERSISTENT_MEMORY: &str = "files mapped below --pm-path (default: /mnt/pmem*, /pmem* and /dev/dax*), what libpmem, \
    libpmem2 and libpmemobj map, globals marked PERSISTENT, memory from crashproof_root and crashproof_alloc \
    (crashproof.h), and the heap with --pm-heap";

/// The assumed medium of files.
pub(super) fn medium(options: &Options) -> Option<String> {
    Some(match options.medium.unwrap_or_default() {
        Medium::Dax => "medium dax: write() is durable on return, names and sizes after fsync \
                        or once the file is mapped; cache lines persist independently"
            .into(),
        Medium::Disk(sector) => format!(
            "medium disk: only fsync, fdatasync, msync and O_SYNC make anything durable; \
             sectors of {sector} bytes persist whole, in any order"
        ),
    })
}

/// Which crash states were set aside because their failure is known.
pub(super) fn set_aside(shared: &Shared, sites: &AllSites, exhaustive: bool) -> Vec<String> {
    let place = |&(recovery, site): &(bool, u32)| {
        let place = sites.of(usize::from(recovery)).get(site);
        short(&Place::new(place.file.clone(), place.line, 0))
    };
    let mut remarks = Vec::new();
    // With `exhaustive` nothing is set aside, but the assumed stores are still known.
    let assumed: Vec<_> = shared.set_aside.assumed().iter().filter(|_| !exhaustive).collect();
    for (failed, why) in [(true, "fail"), (false, "read stale data")] {
        let of_these = assumed.iter().filter(|store| shared.set_aside.has_failed(***store) == failed);
        let mut places: Vec<String> = of_these.map(|store| place(store)).collect();
        // Places in a library without debug information have one name.
        places.dedup();
        let (stores, are, them) = match &places[..] {
            [] => continue,
            [only] => (format!("the store at {only}"), "is", "it"),
            all => (format!("the stores at {}", all.join(", ")), "are", "one of them"),
        };
        remarks.push(format!(
            "assuming {stores} {are} flushed and fenced in time: recoveries {why} otherwise, so further crash states that \
             lose {them} were set aside (--exhaustive explores them)"
        ));
    }
    let waits: Vec<String> = shared.set_aside.waits().map(|site| place(&(false, site))).collect();
    if shared.set_aside.not_recovered > 0 {
        remarks.push(format!(
            "{} crash states were set aside in which recovery would wait forever for what {} stored (--exhaustive \
             recovers from them)",
            shared.set_aside.not_recovered,
            waits.join(", ")
        ));
    }
    if shared.dropped {
        remarks.push(
            "to stay within --memory, recoveries whose behavior had been forgotten were run again".into(),
        );
    }
    remarks
}

/// How much of the work was done where limits were hit.
pub(super) fn coverage(shared: &Shared) -> Vec<String> {
    let coverage = &shared.coverage;
    let reached = shared.statistics.failure_points;
    let mut remarks = Vec::new();
    if shared.stopped && reached > 0 {
        let points = coverage.points.unwrap_or(reached).max(reached);
        let percent = |part: u64| format!("{part} ({:.0}%)", 100.0 * part as f64 / points as f64);
        let of_run =
            coverage.points.map_or("crash points: ".into(), |_| format!("of {points} crash points "));
        // Those explored at once have no other corners.
        let [ends, lines, moments] = coverage.stages.map(|tried| percent(tried + coverage.at_once));
        remarks.push(format!(
            "{of_run}{} were reached: nothing lost and everything lost were tried at {ends}, each line alone lost or surviving \
             at {lines}, the moments in between at {moments}, all states at {}; {} recoveries were run for {} crash states",
            percent(reached),
            percent(coverage.complete),
            shared.statistics.recoveries,
            readable(coverage.states.as_ref().unwrap_or(&shared.statistics.eager_states)),
        ));
    }
    if coverage.points_cut > 0 {
        let points = reached.max(coverage.points_cut);
        let whole = points - coverage.points_cut;
        remarks.push(format!(
            "{whole} of {points} crash points ({:.0}%) were explored completely; of the other {}, {} corners (nothing lost, \
             everything lost, each line alone lost or surviving, the moments in between), and {} of {} crash states",
            100.0 * whole as f64 / points as f64,
            coverage.points_cut,
            if coverage.corners_cut == 0 { "all" } else { "some" },
            coverage.tried,
            readable(&coverage.states_cut)
        ));
    }
    remarks
}

/// Which checksums are trusted to reject states that were not tried.
pub(super) fn checksums(shared: &Shared, sites: &AllSites) -> Vec<String> {
    let trusted = shared.checksums.iter().map(|(site, contents)| {
        let place = sites.of_recovery().get(*site);
        format!(
            "the checksum over what is read from {}:{} on is trusted to refuse {} torn contents that were not tried",
            place.file,
            place.line,
            readable(contents)
        )
    });
    trusted.collect()
}

/// Says that the check is one of several shards, unless they are being merged.
pub(super) fn is_one_shard(options: &Options) -> Option<String> {
    let shards = options.shards.as_ref().filter(|shards| options.merged.is_empty() && !shards.is_all())?;
    let taken: Vec<String> = shards.taken.iter().map(u32::to_string).collect();
    Some(format!(
        "this is shard {} of {}: `crashproof merge` gives the verdict once all have ended",
        taken.join(", "),
        shards.of
    ))
}

/// The checked program's use of files; outlives its processes.
pub(super) struct Used {
    /// Files that it maps outside the PM path, with the option that includes each.
    mapped_outside: Vec<String>,
    written_outside: Option<PathBuf>,
    pub(super) uses_files: bool,
    pub(super) files: FileNames,
}

impl Used {
    pub(super) fn by<S: Subject>(subject: &S, recovering: Option<&S>) -> Self {
        let hint = |path: PathBuf| {
            let directory = path.parent()?.display();
            Some(format!("{} (try --pm-path {directory})", path.display()))
        };
        Self {
            mapped_outside: subject.mapped_outside().and_then(hint).into_iter().collect(),
            written_outside: subject.written_outside(),
            uses_files: subject.uses_files(),
            files: recovering.unwrap_or(subject).file_names(),
        }
    }

    /// Says that no persistent memory was found, and what would have counted.
    pub(super) fn nothing_persistent(&self) -> String {
        let mut nothing = no_persistent_memory(PERSISTENT_MEMORY, &self.mapped_outside);
        if let Some(name) = self.written_outside.as_deref().and_then(std::path::Path::file_name) {
            let name = name.display();
            nothing += &format!(
                "; the program writes `{name}`: --medium disk checks what survives of its files on a disk"
            );
        }
        nothing
    }
}
