//! What a file holds, by the end of its name: the only list of endings there is.
//!
//! The endings are those that clang itself goes by, so that whatever crashproof takes for a source, clang compiles as
//! the same language.

use std::ffi::OsStr;
use std::path::Path;

/// A language that clang compiles, and the compiler driver for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `clang`
    C,
    /// `clang++`
    Cxx,
}

impl Language {
    /// The language of the compiler that goes by this name.
    #[must_use]
    pub fn of_program(name: &OsStr) -> Self {
        let name = Path::new(name).file_name().unwrap_or(name).to_string_lossy();
        // The version follows the name: g++-12.
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        if stem.ends_with("++") || stem.ends_with("cxx") || stem.ends_with("cpp") {
            Language::Cxx
        } else {
            Language::C
        }
    }
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// C or C++, preprocessed or not.
    Source(Language),
    /// A C or C++ header.
    Header,
    /// Rust.
    Rust,
    /// LLVM bitcode or IR text.
    Bitcode,
    /// Assembly, which clang does not instrument.
    Assembly,
}

impl FileKind {
    /// The kind of a file, if its name says.
    #[must_use]
    pub fn of(path: &Path) -> Option<FileKind> {
        Some(match path.extension()?.to_str()? {
            "c" | "i" => FileKind::Source(Language::C),
            "cc" | "CC" | "cp" | "cpp" | "CPP" | "cxx" | "CXX" | "c++" | "C++" | "C" | "ii" => {
                FileKind::Source(Language::Cxx)
            }
            "h" | "H" | "hh" | "hp" | "hpp" | "hxx" | "h++" | "inl" | "ipp" | "tcc" | "tpp" => {
                FileKind::Header
            }
            "rs" => FileKind::Rust,
            "bc" | "ll" => FileKind::Bitcode,
            "s" | "S" | "sx" => FileKind::Assembly,
            _ => return None,
        })
    }

    /// The language of a C or C++ source.
    #[must_use]
    pub fn language(self) -> Option<Language> {
        match self {
            FileKind::Source(language) => Some(language),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_the_end_of_their_names() {
        let kind = |name: &str| FileKind::of(Path::new(name));
        for name in ["m.c++", "m.C", "m.cc", "m.cp", "a/m.v2.cpp", "m.cxx", "m.ii", "m.CPP"] {
            assert_eq!(kind(name), Some(FileKind::Source(Language::Cxx)), "{name}");
        }
        assert_eq!(kind("m.c"), Some(FileKind::Source(Language::C)));
        assert_eq!(kind("m.rs"), Some(FileKind::Rust));
        assert_eq!(kind("m.ll"), Some(FileKind::Bitcode));
        for name in ["m", "m.o", "c", ".c", "m.sh"] {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
