//! Strands and epochs that the program marks, for `check --model`.
//!
//! The markers are always recorded. What is read between them, and where threads synchronise, only if the
//! checker asks.

use crashproof_protocol::abi::Site;
use crashproof_protocol::{mode, record};
use px86::Kind;

use crate::access;
use crate::real::provide;
use crate::session::MODE;
use crate::threads::{CONCURRENT, CURRENT, memory};

/// Strands and epochs that are open, in all threads. Several threads record what they read anyway.
static mut OPEN: u32 = 0;

/// A piece is read in a recorded run.
#[inline(never)]
pub(crate) unsafe fn read(address: u64, width: u64, site: *const Site) {
    if OPEN > 0 {
        access::record(Kind::Load, address, width as u8, access::peek(address, width), site);
    }
}

/// Does the checker ask for strands and epochs?
pub(crate) unsafe fn are_wanted() -> bool {
    MODE == mode::RECORD_REGIONS
}

/// Records a marker. The checker tells by the trace what lies between two of them, so what this thread
/// stored before takes effect before; without it asking, a marker changes nothing.
unsafe fn mark(kind: u8, site: *const Site) {
    if MODE == mode::RECORD_REGIONS && CONCURRENT {
        memory::drain(CURRENT);
    }
    access::note(kind, 0, 0, site);
}

unsafe fn begin(kind: u8, site: *const Site) {
    OPEN += 1;
    mark(kind, site);
}

unsafe fn end(kind: u8, site: *const Site) {
    OPEN = OPEN.saturating_sub(1);
    mark(kind, site);
}

provide! {
    fn crashproof_strand_begin(), caller(rdi)
    |site| {
        begin(record::STRAND_BEGIN, site);
    }

    fn crashproof_strand_end(), caller(rdi)
    |site| {
        end(record::STRAND_END, site);
    }

    fn crashproof_strand_join(), caller(rdi)
    |site| {
        mark(record::STRAND_JOIN, site);
    }

    fn crashproof_epoch_begin(), caller(rdi)
    |site| {
        begin(record::EPOCH_BEGIN, site);
    }

    fn crashproof_epoch_end(), caller(rdi)
    |site| {
        end(record::EPOCH_END, site);
    }
}
