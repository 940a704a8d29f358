//! Tells of accesses to persistent memory that the runtime did not see.

use std::iter;

use crashproof_protocol::{ARENA, FILES, GLOBALS, HEAP, ROOT, Record, reason, record};

use crate::sites::{Sites, Source};

/// A sentence about such an access, and how it begins: the same for all of one place in the source.
///
/// The place is the innermost one whose source is known, the program's own mostly: where inside a library
/// somebody else's instruction is tells its user little.
pub(crate) fn unseen(text: &str, access: &Record, after: &[Record], sites: &Sites) -> (String, String) {
    let frames = after.iter().take_while(|record| record.kind() == record::FRAME);
    let mut stack: Vec<&Source> = iter::once(access).chain(frames).map(|it| sites.get(it.site)).collect();
    let known = stack.iter().position(|source| source.line > 0);
    let inside = stack.drain(..known.unwrap_or(0)).find(|source| !source.function.is_empty());
    let head = match known {
        Some(_) => format!("{}:{}: {text}", stack[0].file, stack[0].line),
        None => text.to_owned(),
    };
    let mut sentence = format!("{head}: at {:#x}, in {}", access.address(), region(access.address()));
    if let Some(inside) = inside {
        sentence += &format!(", by {} of {}", inside.function, inside.file);
    }
    for source in stack.iter().skip(1).filter(|source| source.line > 0) {
        sentence += &format!("\n      called at {}:{}", source.file, source.line);
        if !source.function.is_empty() {
            sentence += &format!(" in {}", source.function);
        }
    }
    if access.value == reason::CHANGED {
        sentence += "\n      --strict names the code that does it";
    }
    (head, sentence)
}

/// Which part of persistent memory an address is in.
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
