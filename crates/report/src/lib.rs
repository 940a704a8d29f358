//! Formats: everything that knows how results look, and nothing that knows how they came about.

pub mod litmus_json;
