//! The frameworks that engines know: one directory each below `frameworks/`, built in.
//!
//! `lint.toml` describes functions (read by `crashproof_frontend::frameworks`), `check.toml` protocols that lose stores
//! by design (read here, because check does not use the front end). C files next to them are prove's models.
//! docs/src/descriptions.md describes the format.

use serde::Deserialize;

/// A framework, as its files are.
pub struct BuiltIn {
    /// The name of its directory.
    pub name: &'static str,
    /// The text of its `lint.toml`.
    pub lint: &'static str,
    /// The text of its `check.toml`, if it has one.
    check: Option<&'static str>,
}

macro_rules! lint {
    ($name:literal) => {
        include_str!(concat!("../../../frameworks/", $name, "/lint.toml"))
    };
}

/// All of them. If two describe the same function, the later one wins.
pub const BUILT_IN: [BuiltIn; 9] = [
    BuiltIn { name: "raw", lint: lint!("raw"), check: None },
    BuiltIn { name: "libpmem", lint: lint!("libpmem"), check: None },
    BuiltIn { name: "libpmem2", lint: lint!("libpmem2"), check: None },
    BuiltIn {
        name: "libpmemobj",
        lint: lint!("libpmemobj"),
        check: Some(include_str!("../../../frameworks/libpmemobj/check.toml")),
    },
    BuiltIn { name: "libpmemobj-cpp", lint: lint!("libpmemobj-cpp"), check: None },
    BuiltIn { name: "nvm-direct", lint: lint!("nvm-direct"), check: None },
    BuiltIn { name: "pmfs", lint: lint!("pmfs"), check: None },
    BuiltIn { name: "mnemosyne", lint: lint!("mnemosyne"), check: None },
    BuiltIn { name: "strands", lint: lint!("strands"), check: None },
];

/// What check knows about a framework.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Checked {
    /// Its name.
    pub framework: String,
    /// The prefix of its functions' names. A program without any of them does not use the framework, and similarly
    /// named functions are its own.
    pub interface: String,
    /// Protocols that lose stores by design.
    #[serde(rename = "protocol")]
    pub protocols: Vec<Protocol>,
}

/// Functions in which a load may miss a store.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Protocol {
    /// Suffixes of the names of the files that contain them.
    pub files: Vec<String>,
    /// The functions.
    pub functions: Vec<String>,
    /// Why that is not a bug.
    pub because: String,
}

/// What check knows, by framework.
#[must_use]
pub fn checked() -> Vec<Checked> {
    let texts = BUILT_IN.iter().filter_map(|framework| framework.check);
    texts.map(|text| toml::from_str(text).expect("built-in files are read by a test")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_is_built_in_and_named_after_its_framework() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../frameworks");
        let mut directories: Vec<String> = std::fs::read_dir(root)
            .expect("the frameworks")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        directories.sort();
        let mut names: Vec<&str> = BUILT_IN.iter().map(|framework| framework.name).collect();
        names.sort_unstable();
        assert_eq!(directories, names);
        for framework in &BUILT_IN {
            let name = format!("framework = \"{}\"\n", framework.name);
            assert!(framework.lint.starts_with(&name), "{}", framework.name);
            assert!(framework.check.is_none_or(|text| text.contains(&name)), "{}", framework.name);
        }
        assert!(checked().iter().all(|checked| !checked.protocols.is_empty()));
    }
}
