//! The whole program as lint sees it: [`ir`] is plain data, linked by symbol; [`read`] creates it from bitcode.

pub mod ir;
pub mod read;
