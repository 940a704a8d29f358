//! Persistence domains: what a power failure leaves of a cache line.
//!
//! The domain belongs to a line, not to the machine: DIMMs whose caches are lost may sit beside memory whose caches
//! are saved. An engine asks for the domain of the line at hand and never for the kind of machine. A new kind of
//! memory is a variant of [`Domain`] and its answers here.

use std::ops::Range;

use crate::{Event, LINE_BYTES, Line};

/// What a power failure leaves of a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Caches are lost, memory controllers drain (ADR): the line holds what was written back. The usual case.
    #[default]
    Adr,
    /// Caches are saved as well (eADR): a store survives once it has left its store buffer.
    Eadr,
    /// A disk behind a page cache: sectors of this many lines are written as a whole, each whenever the kernel chooses,
    /// and certainly only on request.
    Disk {
        /// Lines of a sector.
        sector: u16,
    },
}

impl Domain {
    /// Does a store survive as soon as it reaches the cache, without a write-back?
    pub const fn cache_survives(self) -> bool {
        matches!(self, Domain::Eadr)
    }

    /// A disk with sectors of this many bytes.
    pub const fn disk(sector_bytes: u16) -> Domain {
        let sector = sector_bytes / LINE_BYTES as u16;
        Domain::Disk { sector: if sector == 0 { 1 } else { sector } }
    }

    /// How many lines survive a crash together.
    pub const fn lines_together(self) -> u64 {
        match self {
            Domain::Disk { sector } => sector as u64,
            Domain::Adr | Domain::Eadr => 1,
        }
    }

    /// Does a flush make anything durable? Behind a page cache only the kernel's own write-back does.
    pub const fn is_flushed_by(self, flush: &Event) -> bool {
        !matches!(self, Domain::Disk { .. }) || flush.is_of_kernel()
    }

    /// Does a non-temporal store begin its own write-back? Behind a page cache it only goes to memory.
    pub const fn writes_past_cache(self) -> bool {
        !matches!(self, Domain::Disk { .. })
    }

    /// The domain's name in a litmus file.
    pub const fn name(self) -> &'static str {
        match self {
            Domain::Adr => "adr",
            Domain::Eadr => "eadr",
            Domain::Disk { .. } => "disk",
        }
    }

    /// The domain of that name.
    pub fn named(name: &str) -> Option<Domain> {
        [Domain::Adr, Domain::Eadr].into_iter().find(|domain| domain.name() == name)
    }
}

/// A machine's memory: the domain of every line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Platform {
    /// Of the lines in no range.
    default: Domain,
    /// Lines from one number up to another, later entries before earlier ones.
    ranges: Vec<(u64, u64, Domain)>,
}

impl Platform {
    /// Every line is in the ADR domain.
    pub const ADR: Platform = Platform::all(Domain::Adr);
    /// Every line is in the eADR domain.
    pub const EADR: Platform = Platform::all(Domain::Eadr);

    /// Every line is in `domain`.
    pub const fn all(domain: Domain) -> Platform {
        Platform { default: domain, ranges: Vec::new() }
    }

    /// The same, but with these lines in `domain`.
    pub fn with(mut self, lines: Range<Line>, domain: Domain) -> Platform {
        self.ranges.push((lines.start.0, lines.end.0, domain));
        self
    }

    /// The domain of a line.
    pub fn domain(&self, line: Line) -> Domain {
        let ranges = self.ranges.iter().rev();
        let range = ranges.into_iter().find(|(start, end, _)| (*start..*end).contains(&line.0));
        range.map_or(self.default, |range| range.2)
    }

    /// The lines that survive a crash together with this one.
    pub fn together(&self, line: Line) -> Range<u64> {
        let count = self.domain(line).lines_together();
        let first = line.0 / count * count;
        first..first + count
    }

    /// The first of the lines that survive together with this one: what stands for all of them.
    pub fn unit(&self, line: Line) -> Line {
        Line(self.together(line).start)
    }

    /// Does a store to this line survive as soon as it reaches the cache?
    pub fn cache_survives(&self, line: Line) -> bool {
        self.domain(line).cache_survives()
    }

    /// Is there any line whose cached stores survive?
    pub fn any_cache_survives(&self) -> bool {
        self.domains().any(Domain::cache_survives)
    }

    /// Do the cached stores of every line survive? Then what a crash leaves is a memory of x86-TSO.
    pub fn every_cache_survives(&self) -> bool {
        self.domains().all(Domain::cache_survives)
    }

    fn domains(&self) -> impl Iterator<Item = Domain> {
        self.ranges.iter().map(|range| range.2).chain([self.default])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_range_that_names_a_line_decides() {
        let mixed = Platform::ADR.with(Line(4)..Line(8), Domain::Eadr).with(Line(6)..Line(7), Domain::Adr);
        let survives: Vec<u64> = (0..10).filter(|&line| mixed.cache_survives(Line(line))).collect();
        assert_eq!(survives, [4, 5, 7]);
        assert!(mixed.any_cache_survives() && !mixed.every_cache_survives());
        assert!(Platform::EADR.every_cache_survives() && !Platform::ADR.any_cache_survives());
    }

    #[test]
    fn sectors_of_a_disk_survive_whole_and_by_the_kernel_alone() {
        let platform = Platform::ADR.with(Line(16)..Line(64), Domain::disk(512));
        assert_eq!((platform.together(Line(15)), platform.together(Line(21))), (15..16, 16..24));
        assert_eq!(platform.unit(Line(31)), Line(24));
        let flush = |width| Event {
            address: 0,
            value: 0,
            site: crate::Site(0),
            thread: crate::Thread(0),
            kind: crate::Kind::FlushOpt,
            width,
        };
        assert!(!Domain::disk(512).is_flushed_by(&flush(0)) && Domain::disk(512).is_flushed_by(&flush(1)));
        assert!(Domain::Adr.is_flushed_by(&flush(0)));
    }

    #[test]
    fn domains_have_names() {
        assert_eq!(Domain::named("eadr"), Some(Domain::Eadr));
        assert_eq!(Domain::named("adr"), Some(Domain::default()));
        assert_eq!(Domain::named("dram"), None);
    }
}
