//! Protocols of libraries that lose stores by design, and notice.
//!
//! A log whose entries carry checksums may be torn; redoing what is already done changes nothing. Recovery reads what
//! is too old there, and that is no bug. Programs say so in their own code (`crashproof_checksum_begin`,
//! `crashproof_tolerate`); what is known of libraries is written down here. Only the load that misses the lost store
//! counts: whatever it is, the library deals with it.

use crate::sites::Source;
use crate::suppress::{Extent, Suppression};

/// Functions of a library in which a load may miss a store.
struct Protocol {
    library: &'static str,
    file: &'static str,
    functions: &'static [&'static str],
    because: &'static str,
}

const KNOWN: [Protocol; 3] = [
    Protocol {
        library: "libpmemobj",
        file: "util.c",
        functions: &["util_checksum", "util_checksum_compute"],
        because: "a checksum tells whether the log is whole",
    },
    Protocol {
        library: "libpmemobj",
        file: "ulog.c",
        functions: &["ulog_entry_valid", "ulog_entry_apply"],
        because: "an entry of the log counts if its checksum is right, and is applied again until the log is gone",
    },
    Protocol {
        library: "libpmemobj",
        file: "sync.c",
        functions: &["_get_value", "_get_lock", "get_lock", "get_mutex", "get_rwlock", "get_cond"],
        because: "locks in a pool are made anew whenever it is opened",
    },
];

/// Why a load may miss a store here, if that is known.
pub(crate) fn known(load: &Source) -> Option<String> {
    let here = |protocol: &&Protocol| {
        protocol.functions.iter().any(|function| {
            let part = Extent::Function((*function).to_owned());
            Suppression { file: protocol.file.to_owned(), part }.covers(load)
        })
    };
    let Protocol { library, because, .. } = KNOWN.iter().find(here)?;
    Some(format!("missing flushes that {library} copes with are not told: {because}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_library_copes_with_is_known_by_function_and_file() {
        let load = |file: &str, function: &str| Source {
            file: file.into(),
            function: function.into(),
            ..Source::default()
        };
        assert!(known(&load("src/libpmemobj/ulog.c", "ulog_entry_apply")).is_some());
        assert_eq!(known(&load("src/libpmemobj/ulog.c", "ulog_process")), None);
        assert_eq!(known(&load("mine.c", "ulog_entry_apply")), None);
    }
}
