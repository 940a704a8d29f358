//! A test of a suite: a command that is checked separately.

use std::ffi::OsString;
use std::path::PathBuf;

use crashproof_report::suite::Outcome;

/// One test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Case {
    /// The binary or directory that it belongs to.
    pub(crate) group: String,
    /// Its name there.
    pub(crate) name: String,
    /// The program, built with crashproof.
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// The working directory.
    pub(crate) directory: PathBuf,
    /// Additional environment variables.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Its outcome and the reason, if it is not checked.
    pub(crate) unchecked: Option<(Outcome, String)>,
    /// Its own limit, in seconds.
    pub(crate) timeout: Option<u64>,
}

/// The tests of a suite, and notes for the reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cases {
    pub(crate) all: Vec<Case>,
    pub(crate) notes: Vec<String>,
}

/// The user's selection of tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Substrings, one of which the name must contain; all tests if empty.
    pub(crate) names: Vec<String>,
    /// Substrings that the name must not contain.
    pub(crate) skip: Vec<String>,
    /// Names must match exactly.
    pub(crate) exact: bool,
}

impl Filter {
    pub(crate) fn takes(&self, name: &str) -> bool {
        let meets =
            |pattern: &String| if self.exact { name == pattern } else { name.contains(pattern.as_str()) };
        (self.names.is_empty() || self.names.iter().any(meets)) && !self.skip.iter().any(meets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_of_cargo_test() {
        let filter = |names: &[&str], skip: &[&str], exact| Filter {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            skip: skip.iter().map(|name| (*name).to_owned()).collect(),
            exact,
        };
        assert!(filter(&[], &[], false).takes("a::b"));
        assert!(filter(&["b"], &[], false).takes("a::b") && !filter(&["b"], &[], true).takes("a::b"));
        assert!(!filter(&[], &["a"], false).takes("a::b") && filter(&["x", "a::b"], &[], true).takes("a::b"));
    }
}
