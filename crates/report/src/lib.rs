//! Formats: everything that knows how results look, and nothing that knows how they came about.
//!
//! Text is made with colours in it; whoever prints it removes them where there is no terminal.

mod diagnostic;
pub mod dot;
pub mod fix_text;
mod grid;
pub mod html;
pub mod json;
pub mod junit;
pub mod litmus_json;
pub mod litmus_text;
mod printable;
pub mod sarif;
mod style;
pub mod text;

pub use diagnostic::litmus_error;
