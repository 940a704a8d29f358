//! What is not understood and may affect persistent memory. Each gap makes the verdict UNKNOWN.

use std::collections::{BTreeMap, BTreeSet};

use crashproof_frontend::program::ir::{FunctionId, PlaceId, Program};

/// Why something is not understood.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Gap {
    /// A function with neither code nor a description is passed persistent memory.
    Function(FunctionId),
    /// A call through a pointer to unknown code is passed persistent memory, or may fence what is pending.
    Pointer,
    /// The address of a store or flush is unknown.
    Address,
    /// The address of a store or flush is a constant.
    ConstantAddress,
    /// A flush at an unknown address is the only one that may write back a store.
    Flush,
}

/// All gaps, each with the places where it occurs.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    known: BTreeMap<Gap, BTreeSet<PlaceId>>,
    /// What the table of meaning does not list, by name.
    not_understood: BTreeMap<String, BTreeSet<PlaceId>>,
}

impl Gaps {
    pub(crate) fn add(&mut self, gap: Gap, place: PlaceId) {
        self.known.entry(gap).or_default().insert(place);
    }

    /// Something not in the table of meaning may access persistent memory.
    pub(crate) fn not_understood(&mut self, what: &str, place: PlaceId) {
        self.not_understood.entry(what.to_owned()).or_default().insert(place);
    }

    /// One sentence each, for the report.
    pub(crate) fn describe(&self, program: &Program) -> Vec<String> {
        let known = self.known.iter().map(|(gap, places)| (gap.describe(program), places));
        let others = self
            .not_understood
            .iter()
            .map(|(what, places)| (format!("not understood, and may touch PM: {what}"), places));
        known.chain(others).map(|(text, places)| format!("{text} ({})", listed(program, places))).collect()
    }
}

impl Gap {
    fn describe(self, program: &Program) -> String {
        match self {
            Gap::Function(id) => format!(
                "PM passed to the unknown function `{}`: add its source, or describe it with --api",
                program.function(id).readable
            ),
            Gap::Pointer => {
                "a call through a pointer may run unknown code, which may store to PM or flush it".into()
            }
            Gap::Address => "the address of a store or flush is not known".into(),
            Gap::Flush => {
                "this flush may write back any PM, and nothing else flushes what was stored before".into()
            }
            Gap::ConstantAddress => "a store or flush at a constant address is not followed".into(),
        }
    }
}

/// The first few places, in source order.
fn listed(program: &Program, places: &BTreeSet<PlaceId>) -> String {
    const SHOWN: usize = 3;
    let mut lines: Vec<(&str, u32)> =
        places.iter().map(|id| program.place(*id)).map(|place| (place.file.as_str(), place.line)).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut text: Vec<String> =
        lines.iter().take(SHOWN).map(|(file, line)| format!("{file}:{line}")).collect();
    if lines.len() > SHOWN {
        text.push(format!("{} more", lines.len() - SHOWN));
    }
    text.join(", ")
}
