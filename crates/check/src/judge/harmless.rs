//! Library protocols that lose stores by design, and detect it.
//!
//! A log with checksummed entries may be torn; redoing completed work changes nothing. Recovery reads stale data there,
//! which is not a bug. Programs say so in their own code (`crashproof_checksum_begin`, `crashproof_tolerate`); for
//! known libraries, the `check.toml` of each framework does. Only the load that misses the lost store counts: whatever
//! that store was, the library handles its loss.

use std::path::Path;

use crashproof_findings::frameworks::checked;

use crashproof_findings::Place;

use crate::judge::suppress::{Extent, Suppression};
use crate::subject::Sites;

/// Where loads of a program may miss stores.
#[derive(Default)]
pub(crate) struct Harmless {
    places: Vec<(Suppression, String)>,
    /// Libraries without debug information: the start of the file name, and the explanation.
    libraries: Vec<(String, String)>,
}

impl Harmless {
    /// The known libraries that a program uses.
    pub(crate) fn of(sites: &Sites) -> Harmless {
        let mut places = Vec::new();
        for known in checked().iter().filter(|known| sites.have_function(&known.interface)) {
            for protocol in &known.protocols {
                let (library, because) = (&known.framework, &protocol.because);
                let remark = format!("missing flushes that {library} copes with are not reported: {because}");
                for file in &protocol.files {
                    for function in &protocol.functions {
                        let part = Extent::Function(function.clone());
                        places.push((Suppression { file: file.clone(), part }, remark.clone()));
                    }
                }
            }
        }
        // Without function names, a library's own loads cannot be told apart; the program's can.
        let libraries = checked().into_iter().filter(|known| sites.have_module(&known.framework)).map(|known| {
            let library = known.framework;
            let remark = format!(
                "missing flushes that only {library} itself would notice are not reported: it was not rebuilt, and its log \
                 functions have no names"
            );
            (format!("{library}.so"), remark)
        });
        Harmless { places, libraries: libraries.collect() }
    }

    /// Why this load may miss these stores, if known.
    pub(crate) fn why(&self, load: &Place, lost: &[&Place]) -> Option<&str> {
        let known = self.places.iter().find(|(place, _)| place.covers(load)).map(|(_, remark)| remark);
        let in_library = |place: &Place| {
            let file = Path::new(&place.file).file_name()?.to_str().filter(|_| place.line == 0)?;
            self.libraries.iter().find(|(start, _)| file.starts_with(start)).map(|(_, remark)| remark)
        };
        // The program must flush its own stores, regardless of which load misses them.
        let inside = || in_library(load).filter(|_| lost.iter().all(|store| in_library(store).is_some()));
        known.or_else(inside).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_library_copes_with_is_known_by_its_functions_and_files() {
        let load = |file: &str, function: &str| Place {
            file: file.into(),
            function: function.into(),
            ..Place::default()
        };
        let with = Harmless::of(&Sites::parse("1\t0\t9\t1\tobj.c\tpmemobj_open\t\n"));
        assert!(with.why(&load("src/libpmemobj/ulog.c", "ulog_entry_apply"), &[]).is_some());
        assert!(with.why(&load("src/../src/core/util.c", "util_checksum_compute"), &[]).is_some());
        assert_eq!(with.why(&load("src/libpmemobj/ulog.c", "ulog_process"), &[]), None);
        assert_eq!(with.why(&load("mine.c", "ulog_entry_apply"), &[]), None);
        let without = Harmless::of(&Sites::parse("1\t0\t9\t1\tsync.c\tget_lock\t\n"));
        assert_eq!(without.why(&load("sync.c", "get_lock"), &[]), None);
    }

    #[test]
    fn a_library_without_names_copes_only_with_what_it_stored_itself() {
        let remark = "it copes".to_owned();
        let known = Harmless { places: Vec::new(), libraries: vec![("libpmemobj.so".into(), remark)] };
        let library = Place { file: "/lib/libpmemobj.so.1".into(), ..Place::default() };
        let program = Place { file: "list.c".into(), line: 7, ..Place::default() };
        assert!(known.why(&library, &[&library]).is_some());
        assert_eq!(known.why(&library, &[&library, &program]), None);
        assert_eq!(known.why(&program, &[&library]), None);
    }
}
