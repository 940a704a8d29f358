//! wip
#![allow(dead_code)]
pub mod api;
pub mod ir;
pub mod read;
pub(crate) mod dsa;
pub(crate) mod expression;
pub(crate) mod span;
pub(crate) mod event;
pub(crate) mod machine;
pub mod rules;
pub(crate) mod loops;
pub(crate) mod explore;
