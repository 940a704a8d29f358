//! The litmus language: small concurrent programs over persistent locations, with questions about what
//! may be left of them after a crash.
//!
//! ```
//! let test = crashproof_litmus::parse(
//!     "litmus commit
//!      line { data }  line { flag }
//!      thread { data = 1; clwb data; sfence; flag = 1; }
//!      forbidden (flag == 1 && data == 0)",
//! )?;
//! assert_eq!(test.name, "commit");
//! assert_eq!(test.threads[0].instructions.len(), 4);
//! # Ok::<(), crashproof_litmus::Error>(())
//! ```
//!
//! [`parse`] returns a [`Test`]: names resolved, loops unrolled, branches turned into forward jumps, so that every
//! instruction runs at most once and an engine needs only a program counter. Errors contain the place and what was
//! expected; the report displays them.

pub mod answer;
#[cfg(feature = "arbitrary")]
pub mod arbitrary;
mod code;
mod error;
pub mod exhaustive;
pub mod lazy;
mod lexer;
mod lower;
mod parser;
mod syntax;

pub use code::{
    BinaryOp, Code, Expr, Instruction, LocId, Location, Op, Query, QueryKind, RegId, Rmw, Test, UnaryOp,
};
pub use error::{Error, Span};

/// Reads one litmus test.
pub fn parse(source: &str) -> Result<Test, Error> {
    let file = parser::parse(source)?;
    lower::lower(source, &file)
}
