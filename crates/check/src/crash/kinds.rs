//! Which kinds of records a run left: most recoveries leave few, and need not be searched for others.

use crashproof_protocol::{Record, record};
use px86::Kind;

/// A set of kinds of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordKinds(u128);

impl RecordKinds {
    pub(crate) fn of(records: &[Record]) -> RecordKinds {
        RecordKinds(records.iter().fold(0, |all, record| all | 1 << (record.kind() & 127)))
    }

    pub(crate) fn has(self, kind: u8) -> bool {
        self.0 & 1 << (kind & 127) != 0
    }

    /// Does any of the records store?
    pub(crate) fn has_stores(self) -> bool {
        [Kind::Store, Kind::NonTemporalStore, Kind::Rmw].into_iter().any(|kind| self.has(kind as u8))
    }

    /// Does a bracket begin whose reads may not count?
    pub(crate) fn has_brackets(self) -> bool {
        self.has(record::CHECKSUM_BEGIN) || self.has(record::TOLERATE_BEGIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::ARENA;

    #[test]
    fn what_stores_is_what_the_model_says() {
        for kind in [Kind::Load, Kind::Store, Kind::NonTemporalStore, Kind::Rmw, Kind::FailedRmw, Kind::Fence]
        {
            let records = [Record::new(kind as u8, ARENA.base, 8, 0, 0, 0)];
            let kinds = RecordKinds::of(&records);
            assert_eq!(kinds.has_stores(), kind.stores(), "{kind:?}");
            assert!(kinds.has(kind as u8) && !kinds.has_brackets());
        }
        assert!(RecordKinds::of(&[Record::new(record::CHECKSUM_BEGIN, 0, 0, 0, 0, 0)]).has_brackets());
    }
}
