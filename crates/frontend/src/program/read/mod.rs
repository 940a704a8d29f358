//! Converts LLVM bitcode to [`Program`].
//!
//! The best input is unoptimized clang output with debug information: types and variables then match the source. A few
//! passes remove distracting code: variables become values, constants are propagated to eliminate dead flush branches,
//! and functions that must be inlined are.

mod assembly;
mod call;
mod effects;
mod home;
mod inline;
mod instruction;
mod reader;
mod switches;

use std::path::PathBuf;

use crate::frameworks::Apis;
use crate::inputs::{Bitcode, Error};
use crate::isolation::{self, Progress, bounded};
use crate::llvm::File;
use crate::program::ir::Program;
use reader::Reader;
pub use reader::seen_from_here;

/// The passes that prepare a module. Helpers in the headers of compilers and libraries are inlined, so that places are
/// those of the code that uses them.
const PASSES: &str = "always-inline,function(sroa,sccp,simplifycfg,instsimplify)";

/// Reads bitcode or IR text files into one program. Functions whose result is described are kept even if marked
/// always-inline, as in Linux: otherwise the description would be lost. For other functions, their instructions say the
/// same.
///
/// # Errors
///
/// LLVM's message about a file, or that LLVM dies while reading it.
pub fn read(files: &[Bitcode], apis: &Apis) -> Result<Program, Error> {
    let rehearsed = isolation::rehearse(|progress| match read_here(files, apis, progress) {
        Err(Error::Bitcode { path, reason }) => Err((path, reason)),
        _ => Ok(()),
    });
    rehearsed.map_err(|died| Error::Bitcode { path: died.path, reason: died.how })?;
    let _llvm = isolation::use_llvm();
    read_here(files, apis, &mut Progress::unwatched())
}

fn read_here(files: &[Bitcode], apis: &Apis, progress: &mut Progress) -> Result<Program, Error> {
    let mut program = Program::new();
    for file in files {
        progress.reading(&file.given);
        let bytes = bounded(&file.path).map_err(|cause| Error::Read { path: file.given.clone(), cause })?;
        let wrong = |reason| Error::Bitcode { path: file.given.clone(), reason };
        let module = File::parse(&file.path.to_string_lossy(), &bytes).map_err(wrong)?;
        add(&mut program, module, file, apis).map_err(wrong)?;
    }
    Ok(program)
}

fn add(program: &mut Program, mut file: File, from: &Bitcode, apis: &Apis) -> Result<(), String> {
    for function in file.module().functions() {
        // Unoptimized code is marked as not to be optimized.
        function.remove_function_attribute("optnone");
        if inline::is_described(apis, function) {
            function.remove_function_attribute("alwaysinline");
        }
    }
    let passes = if inline::libraries(&file, apis) { inline::PASSES } else { PASSES };
    file.run_passes(passes)?;
    let module = file.module();
    let has_places = module.functions().iter().any(|f| f.has_debug_info());
    if !has_places && module.functions().iter().any(|f| !f.is_declaration()) {
        program.without_debug_info.push(from.path.display().to_string());
    }
    Reader::new(program, apis, &module, PathBuf::from(&from.directory)).module();
    Ok(())
}
