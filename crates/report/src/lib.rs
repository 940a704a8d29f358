//! Formats: everything that knows how results look, and nothing that knows how they came about.
//!
//! Text is made with colours in it; whoever prints it removes them where there is no terminal.

pub mod check_json;
pub mod check_text;
mod diagnostic;
pub mod fix_text;
mod grid;
pub mod litmus_json;
pub mod litmus_text;
mod missing_flush;
mod style;

pub use diagnostic::litmus_error;
