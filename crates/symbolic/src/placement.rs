//! Where persistent globals lie, and what about it is taken for granted.
//!
//! They lie one behind the other in the order of their definition, each aligned as declared, as `crashproof check`'s
//! runtime puts them and a linker does. The first begins a cache line. If one of them is aligned to a line, that is
//! so; if none is, the whole section may begin anywhere in a line, and which of them share one may be otherwise.

use crashproof_bitcode::MODEL_DIRECTORY;
use crashproof_bitcode::ir::{Global, Module};

/// The section of `PERSISTENT` globals.
pub(crate) const SECTION: &str = "crashproof_pm";

/// What is assumed about the persistent globals of a program and could be otherwise.
pub(crate) fn assumption(module: &Module) -> Option<String> {
    let ours =
        |global: &&Global| global.section == SECTION && !global.place.file.starts_with(MODEL_DIRECTORY);
    let globals: Vec<&Global> = module.globals.iter().filter(ours).collect();
    let aligned = globals.iter().any(|global| global.align >= px86::LINE_BYTES);
    // One that is as large as its alignment lies in one line wherever that is.
    let alone = matches!(globals.as_slice(), [one] if one.size <= one.align);
    let one_file = globals.windows(2).all(|pair| pair[0].place.file == pair[1].place.file);
    let first = globals.iter().find(|global| global.align < px86::LINE_BYTES)?;
    if alone || aligned && one_file {
        return None;
    }
    let name = &first.name;
    Some(if aligned {
        format!(
            "that the persistent globals of the files follow each other as given (`{name}` is aligned to no cache line)"
        )
    } else {
        format!("that `{}` begins a cache line, to which nothing aligns it", globals[0].name)
    })
}
