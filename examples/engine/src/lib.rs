//! A small storage engine on persistent memory: a B+-tree whose changes go through a write-ahead log.
//!
//! The pool is an array of pages. Page 0 says where the tree begins; every other page in use is a node. A change collects the
//! pages that it touches, writes their new contents to the log, commits, and only then overwrites the pages themselves.
//! Whoever opens the pool after a crash finds the log either committed, and copies it again, or not, and ignores it.

mod log;
mod tree;

pub use log::{Log, Pool};
pub use tree::Engine;
