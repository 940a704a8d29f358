//! Places in the source.

use std::fmt;

use serde::Serialize;

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// As the compiler was given it, relative to the directory of the run where possible. Bytes that are not
    /// UTF-8 are replaced; [`crate::Sources`] finds the file nevertheless.
    pub file: String,
    /// From 1; 0 if not known.
    pub line: u32,
    /// From 1, in bytes; 0 if not known.
    pub column: u32,
    /// The function, empty if not known.
    pub function: String,
    /// How one gets there: calls that were inlined around it first, then the call stack; innermost first.
    pub frames: Vec<Frame>,
}

impl Place {
    /// A place of which only file, line and column are known.
    pub fn new(file: impl Into<String>, line: u32, column: u32) -> Place {
        Place { file: file.into(), line, column, ..Place::default() }
    }

    /// Is there anything to point at?
    pub fn is_known(&self) -> bool {
        self.line > 0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.file)?;
        match (self.line, self.column) {
            (0, _) => Ok(()),
            (line, 0) => write!(out, ":{line}"),
            (line, column) => write!(out, ":{line}:{column}"),
        }
    }
}

/// A call on the way to a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// File of the call.
    pub file: String,
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
    /// The calling function.
    pub function: String,
    /// Was the call inlined? Otherwise it is a frame of the stack.
    pub inlined: bool,
}
