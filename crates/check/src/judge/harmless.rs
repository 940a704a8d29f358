//! Protocols of libraries that lose stores by design, and notice.
//!
//! A log whose entries carry checksums may be torn; redoing what is already done changes nothing. Recovery reads what
//! is stale there, and that is no bug. Programs say so in their own code (`crashproof_checksum_begin`,
//! `crashproof_tolerate`); what is known of libraries is in the `check.toml` of each framework. Only the load that misses
//! the lost store counts: whatever it is, the library deals with it.

use crashproof_findings::frameworks::checked;

use crashproof_findings::Place;

use crate::judge::suppress::{Extent, Suppression};
use crate::subject::Sites;

/// Where loads of a program may miss stores.
#[derive(Default)]
pub(crate) struct Harmless(Vec<(Suppression, String)>);

impl Harmless {
    /// What is known of the libraries that a program is built with.
    pub(crate) fn of(sites: &Sites) -> Harmless {
        let mut places = Vec::new();
        for known in checked().iter().filter(|known| sites.have_function(&known.interface)) {
            for protocol in &known.protocols {
                let (library, because) = (&known.framework, &protocol.because);
                let remark = format!("missing flushes that {library} copes with are not told: {because}");
                for file in &protocol.files {
                    for function in &protocol.functions {
                        let part = Extent::Function(function.clone());
                        places.push((Suppression { file: file.clone(), part }, remark.clone()));
                    }
                }
            }
        }
        Harmless(places)
    }

    /// Why this load may miss a store, if that is known.
    pub(crate) fn why(&self, load: &Place) -> Option<&str> {
        self.0.iter().find(|(place, _)| place.covers(load)).map(|(_, remark)| remark.as_str())
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
        assert!(with.why(&load("src/libpmemobj/ulog.c", "ulog_entry_apply")).is_some());
        assert!(with.why(&load("src/../src/core/util.c", "util_checksum_compute")).is_some());
        assert_eq!(with.why(&load("src/libpmemobj/ulog.c", "ulog_process")), None);
        assert_eq!(with.why(&load("mine.c", "ulog_entry_apply")), None);
        let without = Harmless::of(&Sites::parse("1\t0\t9\t1\tsync.c\tget_lock\t\n"));
        assert_eq!(without.why(&load("sync.c", "get_lock")), None);
    }
}
