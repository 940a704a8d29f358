//! Notes about the steps of a run that follows the checker's decisions.

#![forbid(unsafe_code)]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::exit;
use crashproof_protocol::steps::{self, Actor, Note};

use super::running;
use crate::{processes, session};

static FOLLOWS_DECISIONS: AtomicBool = AtomicBool::new(false);

/// Does the run follow decisions, and are there several threads?
#[inline(always)]
pub(crate) fn exploring() -> bool {
    follows_decisions() && running::concurrent() && running::has_threads() && !processes::several()
}

/// Does the run follow decisions, whether or not there are several threads now?
#[inline(always)]
pub(super) fn follows_decisions() -> bool {
    FOLLOWS_DECISIONS.load(Relaxed)
}

pub(super) fn set_follows_decisions(follows: bool) {
    FOLLOWS_DECISIONS.store(follows, Relaxed);
}

/// Notes something about an actor.
pub(super) fn write(kind: u32, actor: Actor, address: u64, bytes: u32) {
    write_at(kind, actor, address, bytes, 0);
}

/// Notes something that an actor does at a site.
pub(super) fn write_at(kind: u32, actor: Actor, address: u64, bytes: u32, site: u32) {
    let record = session::control(|control| control.records as u32);
    if !session::append_note(Note::new(kind, actor, address, bytes, record).at(site)) {
        session::end_at_once(exit::TOO_MANY_STEPS);
    }
}

/// The running thread did something that is not an access.
pub(crate) fn note(kind: u32, address: u64) {
    if exploring() {
        write(kind, steps::thread(running::number()), address, 0);
    }
}
