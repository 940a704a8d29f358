//! Formats: everything that knows how results look, and nothing that knows how they came about.
//!
//! Text is made with colours in it; whoever prints it removes them where there is no terminal.

pub mod check_json;
pub mod check_text;
mod diagnostic;
mod grid;
pub mod litmus_json;
pub mod litmus_text;
pub mod prove_json;
pub mod prove_text;
mod style;

pub use diagnostic::litmus_error;
