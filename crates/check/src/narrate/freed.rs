//! Findings about memory of a persistent heap that was freed while something durable still led to it: what survives is
//! the runtime's pattern for freed memory, which the program never stored.

use crashproof_findings::Cause as CauseText;
use crashproof_protocol::HEAP;

use crate::judge::{Access, Facts, Words};
use crate::narrate::words::{Narrator, short};

/// The least that is taken for the pattern.
const LEAST: usize = 8;

/// Is an access the pattern, of this byte, that freed memory gets?
fn is_pattern(access: &Access, byte: u8) -> bool {
    HEAP.contains(access.address) && access.data.len() >= LEAST && access.data.iter().all(|it| *it == byte)
}

/// The words for it, if that is what the facts are about; `how` says how recovery fails.
pub(crate) fn reword(narrator: &Narrator, facts: &Facts, byte: Option<u8>, how: &str, words: Words) -> Words {
    let pattern = |access: &&Access| byte.is_some_and(|byte| is_pattern(access, byte));
    let Some(freed) = facts.survived.as_ref().filter(pattern) else { return words };
    let at = short(&narrator.place(freed.level, freed.index, freed.site));
    // What would have led elsewhere, had it been durable.
    let link = facts.lost.first().or(facts.not_yet.as_ref()).filter(|access| !pattern(access));
    let name = link.map(|link| narrator.object(link));
    let title = match &name {
        Some(name) if !facts.lost.is_empty() => format!(
            "recovery reaches memory that is freed at {at}: {name} can be lost after the block is free; recovery \
             then {how}"
        ),
        _ => format!("recovery reaches memory that is freed at {at}, and {how}"),
    };
    let durable = name.unwrap_or_else(|| "whatever leads to it".into());
    let cause = CauseText {
        kind: "wrong-order",
        message: format!(
            "the block is freed at {at} before {durable} is durable; after a crash recovery still gets to the block, \
             which holds something else by then"
        ),
    };
    let advice = vec![format!("flush and fence {durable} before {at}, and free the block after that")];
    Words { title, cause: Some(cause), advice, ..words }
}
