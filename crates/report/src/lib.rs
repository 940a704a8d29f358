//! Report formats: everything about how findings look, and nothing about how they are produced.
//!
//! Text is rendered with colors; the code that prints it removes them if there is no terminal. What the command line
//! shows of results that are not findings (litmus answers, fixes) it lays out itself, with [`grid`] and [`style`].

pub mod ci;
mod diagnostic;
pub mod dot;
pub mod grid;
pub mod html;
pub mod json;
pub mod junit;
mod printable;
pub mod sarif;
pub mod style;
pub mod suite;
pub mod text;
mod underline;

pub use diagnostic::SourceError;
