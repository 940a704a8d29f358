//! LLVM bitcode into [`Program`].
//!
//! The best input is what clang makes before its optimizer ran, with debug information: types and
//! variables are still what the source says. A few passes then remove what would only be in the way:
//! variables become values, constants are propagated so that dead flush branches go, and functions that
//! must be inlined are.

mod assembly;
mod call;
mod effects;
mod home;
mod inline;
mod instruction;
mod reader;

use std::path::PathBuf;

use crate::frameworks::Apis;
use crate::inputs::{Bitcode, Error};
use crate::isolation::{self, Progress, bounded};
use crate::llvm::File;
use crate::program::ir::Program;
use reader::Reader;
pub use reader::seen_from_here;

/// What prepares a module. Helpers inside the headers of compilers and libraries vanish, so that places
/// are those of the code that uses them.
const PASSES: &str = "always-inline,function(sroa,sccp,simplifycfg,instsimplify)";

/// Reads files of bitcode or IR text into one program. Functions whose result is described stay what they are, even if they are to be
/// inlined everywhere, as in Linux: what is known of it would be lost. What others do, their instructions say as well.
///
/// # Errors
///
/// What LLVM says about a file, or that it dies of it.
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
        // Unoptimized code forbids every pass.
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
