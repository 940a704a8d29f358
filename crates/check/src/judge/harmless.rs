//! Protocols of libraries that lose stores by design, and notice.
//!
//! A log whose entries carry checksums may be torn; redoing what is already done changes nothing. Recovery reads what
//! is too old there, and that is no bug. Programs say so in their own code (`crashproof_checksum_begin`,
//! `crashproof_tolerate`); what is known of libraries is written down here. Only the load that misses the lost store
//! counts: whatever it is, the library deals with it.

use crashproof_findings::Place;

use crate::judge::suppress::{Extent, Suppression};
use crate::subject::Sites;

/// Functions of a library in which a load may miss a store.
struct Protocol {
    library: &'static str,
    /// How the names of the library's functions begin. A program without any of them is not built with it, and its
    /// functions are its own, whatever they are called.
    interface: &'static str,
    files: &'static [&'static str],
    functions: &'static [&'static str],
    because: &'static str,
}

const KNOWN: [Protocol; 3] = [
    Protocol {
        library: "libpmemobj",
        interface: "pmemobj_",
        files: &["core/util.c", "common/util.c"],
        functions: &["util_checksum", "util_checksum_compute"],
        because: "a checksum tells whether the log is whole",
    },
    Protocol {
        library: "libpmemobj",
        interface: "pmemobj_",
        files: &["ulog.c"],
        functions: &["ulog_entry_valid", "ulog_entry_apply"],
        because: "an entry of the log counts if its checksum is right, and is applied again until the log is gone",
    },
    Protocol {
        library: "libpmemobj",
        interface: "pmemobj_",
        files: &["sync.c"],
        functions: &["_get_value", "_get_lock", "get_lock", "get_mutex", "get_rwlock", "get_cond"],
        because: "locks in a pool are made anew whenever it is opened",
    },
];

/// Where loads of a program may miss stores.
#[derive(Default)]
pub(crate) struct Harmless(Vec<(Suppression, String)>);

impl Harmless {
    /// What is known of the libraries that a program is built with.
    pub(crate) fn of(sites: &Sites) -> Harmless {
        let mut places = Vec::new();
        for protocol in KNOWN.iter().filter(|protocol| sites.have_function(protocol.interface)) {
            let Protocol { library, because, .. } = protocol;
            let remark = format!("missing flushes that {library} copes with are not told: {because}");
            for file in protocol.files {
                for function in protocol.functions {
                    let part = Extent::Function((*function).to_owned());
                    places.push((Suppression { file: (*file).to_owned(), part }, remark.clone()));
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
