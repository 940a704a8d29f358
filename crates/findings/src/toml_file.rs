//! Reading files in TOML: settings, suppressions. What is wrong is shown with its line.

use std::path::{Path, PathBuf};

/// What is wrong with a file of settings or suppressions.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{file}:{line}: {message}")]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

impl Error {
    pub(crate) fn at(file: &Path, text: &str, offset: usize, message: String) -> Error {
        Error::Wrong { file: file.to_owned(), line: line_of(text, offset), message }
    }

    pub(crate) fn syntax(file: &Path, text: &str, error: &toml::de::Error) -> Error {
        Error::at(file, text, error.span().map_or(0, |span| span.start), error.message().to_owned())
    }
}

/// The number of the line that an offset is in.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

pub(crate) fn read(file: &Path) -> Result<String, Error> {
    crate::text_file::read(file).map_err(|source| Error::Read { file: file.to_owned(), source })
}
