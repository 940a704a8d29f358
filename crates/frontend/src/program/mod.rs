//! The whole program as lint sees it: [`ir`] is plain data, linked by symbol; [`read`] makes it from bitcode.

pub mod ir;
pub mod read;
