//! Parses, links and tidies modules, and copies them into plain data.

mod constants;
mod flow;
mod instructions;
mod reader;
mod types;

use std::path::{Path, PathBuf};

use crate::bitcode::error::Error;
use crate::bitcode::ir::Module;
use crate::isolation::{self, Progress};
use crate::llvm::{File, LinkError};
use flow::Jumps;
use reader::Reader;

/// None of these moves, merges or drops an access to memory other than local variables. `sroa` turns local variables
/// into values. The others give every loop a single header, and ensure that values leave a loop only through a phi at
/// its exit, which symbolic execution of merged paths relies on. `lower-invoke` turns invokes of C++ into plain calls:
/// throwing is then a call of an unknown function.
const PASSES: &str = "function(lower-invoke,sroa,fix-irreducible,loop-simplify,lcssa)";

/// The same for functions with switches in loops with several entries, which `fix-irreducible` does not support.
const PASSES_WITHOUT_SWITCHES: &str =
    "function(lower-invoke,sroa,lower-switch,fix-irreducible,loop-simplify,lcssa)";

/// Reads one module out of several files of bitcode or IR text, given with their names.
///
/// # Errors
///
/// If one is malformed, or they do not fit together.
pub fn read(inputs: &[(PathBuf, Vec<u8>)]) -> Result<Module, Error> {
    let rehearsed = isolation::rehearse(|progress| match read_here(inputs, progress) {
        Err(Error::Malformed { path, why }) => Err((path, why)),
        _ => Ok(()),
    });
    rehearsed.map_err(|died| Error::Malformed { path: died.path, why: died.how })?;
    let _llvm = isolation::use_llvm();
    read_here(inputs, &mut Progress::unwatched())
}

fn read_here(inputs: &[(PathBuf, Vec<u8>)], progress: &mut Progress) -> Result<Module, Error> {
    let Some(((path, bytes), others)) = inputs.split_first() else { return Ok(Module::default()) };
    let malformed = |path: &Path, why: String| Error::Malformed { path: path.to_owned(), why };
    progress.reading(path);
    let mut file = File::parse(&path.to_string_lossy(), bytes).map_err(|why| malformed(path, why))?;
    for (path, bytes) in others {
        progress.reading(path);
        file.link(&path.to_string_lossy(), bytes).map_err(|error| match error {
            LinkError::Malformed(why) => malformed(path, why),
            LinkError::DoesNotFit(why) => Error::Link { path: path.clone(), why },
        })?;
    }
    file.verify().map_err(|why| malformed(path, why))?;
    let passes = if has_switches_in_irreducible_loops(&file)? { PASSES_WITHOUT_SWITCHES } else { PASSES };
    file.run_passes(passes).map_err(|why| malformed(path, why))?;
    let module = file.module();
    Ok(Reader::new(&module).module())
}

/// Whether there are loops that the usual passes do not support.
fn has_switches_in_irreducible_loops(file: &File) -> Result<bool, Error> {
    let mut found = false;
    for function in file.module().functions().into_iter().filter(|function| !function.is_declaration()) {
        match flow::jumps(function) {
            Jumps::Branches => {}
            Jumps::Switches => found = true,
            Jumps::Others => {
                let what = "jumps to computed labels in a loop with several entries";
                return Err(Error::Unsupported { function: function.name(), what });
            }
        }
    }
    Ok(found)
}
