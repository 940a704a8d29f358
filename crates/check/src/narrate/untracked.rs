//! Why a verdict does not cover everything: what the runtime did not track, and limits of the search.

use std::iter;

use crashproof_findings::{Place, plain_function};
use crashproof_protocol::{ARENA, FILES, GLOBALS, HEAP, ROOT, Record, reason, record, untracked};

use crate::search::Incomplete;
use crate::subject::Sites;

/// A reason, and its common beginning for reasons at one place in the source, of which one suffices.
pub(crate) struct Reason {
    pub(crate) text: String,
    pub(crate) head: Option<String>,
}

/// Untracked actions of an execution.
pub(crate) fn untracked<'a>(records: &'a [Record], sites: &'a Sites) -> impl Iterator<Item = Reason> + 'a {
    let unknown = records.iter().enumerate().filter(|(_, record)| record.kind() == record::UNKNOWN);
    unknown.map(|(index, unknown)| {
        let place = sites.get(unknown.site);
        let at = |text: &str| format!("{}:{}: {text}", place.file, place.line);
        let text = match reason::text(unknown.value) {
            Some(text) if matches!(unknown.value, reason::UNSEEN | reason::CHANGED) => {
                let (head, text) = unseen(text, unknown, &records[index + 1..], sites);
                return Reason { text, head: Some(head) };
            }
            Some(text) if unknown.value == reason::FUNCTION => {
                let name = untracked::NAMES.get(unknown.address() as usize).unwrap_or(&"a function");
                at(&format!("{name} {text}"))
            }
            Some(text) if unknown.site == 0 => text.to_owned(),
            Some(text) => at(text),
            None => at(&format!("not understood: {}", sites.text(unknown.site))),
        };
        Reason { text, head: None }
    })
}

/// Why a search does not cover everything; `sites` are those of recovery.
pub(crate) fn incomplete(why: Incomplete, sites: &Sites) -> String {
    match why {
        Incomplete::Interrupted => "interrupted: this is what was found so far".into(),
        Incomplete::Time => "stopped after the time allowed (--time)".into(),
        Incomplete::Recoveries(1) => "stopped after 1 recovery (--max-recoveries)".into(),
        Incomplete::Recoveries(run) => format!("stopped after {run} recoveries (--max-recoveries)"),
        Incomplete::Memory(bytes) => {
            format!(
                "the behaviors of recovery need more memory than allowed (--memory, {} MB)",
                bytes / 1_000_000
            )
        }
        Incomplete::PerCrash(most) => format!(
            "some crash points have more than {most} distinct recoveries: at most {most} \
             per crash point were tried (fix the findings first, or raise --max-per-crash)"
        ),
        Incomplete::Run(limit) => format!("recovery {}", limit.describe()),
        Incomplete::Diverged(diverged) => {
            // Without addresses: one place that reads somewhere else each time is one sentence.
            let did = |read: Option<(u64, u32)>| match read {
                Some((_, site)) => format!("read at {}:{}", sites.get(site).file, sites.get(site).line),
                None => "ended".into(),
            };
            let (expected, found) = (did(diverged.expected), did(diverged.found));
            let elsewhere = if expected == found { ", but another address" } else { "" };
            format!(
                "recovery is not repeatable: after reading the same it once {expected}, once {found}{elsewhere}"
            )
        }
    }
}

/// A sentence about an untracked access, and the beginning that all sentences about one place share.
///
/// The place is the innermost one with known source, usually the program's own: an instruction inside a library means
/// little to the library's user.
fn unseen(text: &str, access: &Record, after: &[Record], sites: &Sites) -> (String, String) {
    let frames = after.iter().take_while(|record| record.kind() == record::FRAME);
    let mut stack: Vec<&Place> = iter::once(access).chain(frames).map(|it| sites.get(it.site)).collect();
    let known = stack.iter().position(|source| source.line > 0);
    let inside = stack.drain(..known.unwrap_or(0)).find(|source| !source.function.is_empty());
    let head = match known {
        Some(_) => format!("{}:{}: {text}", stack[0].file, stack[0].line),
        None => text.to_owned(),
    };
    let mut sentence = format!("{head}: at {:#x}, in {}", access.address(), region(access.address()));
    if let Some(inside) = inside {
        sentence += &format!(", by {} of {}", plain_function(&inside.function), inside.file);
    }
    for source in stack.iter().skip(1).filter(|source| source.line > 0) {
        sentence += &format!("\n      called at {}:{}", source.file, source.line);
        if !source.function.is_empty() {
            sentence += &format!(" in {}", plain_function(&source.function));
        }
    }
    if access.value == reason::CHANGED {
        sentence += "\n      --strict names the code that does it";
    }
    (head, sentence)
}

/// The part of persistent memory that contains an address.
fn region(address: u64) -> String {
    let offset = |region: crashproof_protocol::Region| address - region.base;
    match address {
        _ if GLOBALS.contains(address) => format!("the persistent globals, at offset {}", offset(GLOBALS)),
        _ if ROOT.contains(address) => format!("the root object, at offset {}", offset(ROOT)),
        _ if ARENA.contains(address) => format!("memory from crashproof_alloc, at offset {}", offset(ARENA)),
        _ if HEAP.contains(address) => "the heap".into(),
        _ if FILES.contains(address) => "a mapped file".into(),
        _ => "no part of it that is in use".into(),
    }
}
