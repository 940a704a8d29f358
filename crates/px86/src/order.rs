//! Preserved program order, as data.
//!
//! The table is Table 1 of the Jaaru paper (section 2), which PMVerify's Table 1 repeats, with one row and
//! one column added for non-temporal stores (see deviation 3 in the crate's documentation). Every other
//! piece of code that needs an ordering rule asks [`preserved`]; none restates one.

use crate::Line;

/// What an instruction is as far as ordering goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// A load.
    Read,
    /// An ordinary store.
    Write,
    /// A non-temporal store (`movnt*`).
    NonTemporal,
    /// `mfence`, or a locked read-modify-write, successful or not.
    Fence,
    /// `sfence`.
    StoreFence,
    /// `clflushopt`, and `clwb`, which behaves the same.
    FlushOpt,
    /// `clflush`.
    Flush,
}

impl Class {
    /// Does the instruction write its line back? A `clflushopt` does so by its thread's next fence.
    pub const fn writes_back(self) -> bool {
        matches!(self, Class::Flush | Class::FlushOpt)
    }
}

/// All classes in the order of the table's rows and columns.
pub const CLASSES: [Class; 7] = [
    Class::Read,
    Class::Write,
    Class::NonTemporal,
    Class::Fence,
    Class::StoreFence,
    Class::FlushOpt,
    Class::Flush,
];

/// Whether two instructions of one thread take effect in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Always in program order.
    Always,
    /// In program order if both concern the same cache line.
    SameLine,
    /// The later one may take effect first.
    Never,
}

use Order::{Always as Y, Never as N, SameLine as C};

/// The table: row earlier in program order, column later; rows and columns as in [`CLASSES`].
pub const PRESERVED: [[Order; 7]; 7] = [
    // read write nontemporal fence sfence flushopt flush
    [Y, Y, Y, Y, Y, Y, Y], // read
    [N, Y, C, Y, Y, C, Y], // write
    [N, C, C, Y, Y, C, C], // non-temporal store
    [Y, Y, Y, Y, Y, Y, Y], // mfence, rmw
    [N, Y, Y, Y, Y, Y, Y], // sfence
    [N, N, N, Y, Y, N, C], // clflushopt, clwb
    [N, Y, C, Y, Y, C, Y], // clflush
];

/// Must `earlier` take effect before `later`, both of one thread and in this program order?
///
/// Fences have no line; pass `None` for them.
pub fn preserved(earlier: (Class, Option<Line>), later: (Class, Option<Line>)) -> bool {
    match PRESERVED[earlier.0 as usize][later.0 as usize] {
        Order::Always => true,
        Order::SameLine => earlier.1 == later.1,
        Order::Never => false,
    }
}

/// Must `later` wait for any of the instructions before it in its thread that have not taken effect?
pub fn blocked(
    mut waiting: impl Iterator<Item = (Class, Option<Line>)>,
    later: (Class, Option<Line>),
) -> bool {
    waiting.any(|earlier| preserved(earlier, later))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as the design document prints it, so that a slip of the pen in either shows.
    #[test]
    fn agrees_with_the_papers_table() {
        use Class::*;
        let papers = [
            (Read, "yes yes yes yes yes yes"),
            (Write, "no yes yes yes CL yes"),
            (Fence, "yes yes yes yes yes yes"),
            (StoreFence, "no yes yes yes yes yes"),
            (FlushOpt, "no no yes yes no CL"),
            (Flush, "no yes yes yes CL yes"),
        ];
        let columns = [Read, Write, Fence, StoreFence, FlushOpt, Flush];
        for (earlier, row) in papers {
            for (later, cell) in columns.iter().zip(row.split(' ')) {
                let expected = match cell {
                    "yes" => Order::Always,
                    "CL" => Order::SameLine,
                    _ => Order::Never,
                };
                assert_eq!(
                    PRESERVED[earlier as usize][*later as usize], expected,
                    "{earlier:?} -> {later:?}"
                );
            }
        }
    }

    #[test]
    fn same_line_means_the_same_line() {
        let line = |n: u64| Some(Line::containing(n * 64));
        assert!(preserved((Class::Write, line(1)), (Class::FlushOpt, line(1))));
        assert!(!preserved((Class::Write, line(1)), (Class::FlushOpt, line(2))));
        assert!(preserved((Class::StoreFence, None), (Class::FlushOpt, line(2))));
    }
}
