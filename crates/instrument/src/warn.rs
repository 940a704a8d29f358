//! Messages at build time.
//!
//! They go to standard error in the form compilers use, not through LLVM's diagnostics: clang would turn
//! those into errors under `-Werror`, and what crashproof does not understand is no reason to stop a build.

use crate::raw::Location;

/// Prints a warning.
pub(crate) fn warn(place: &Location, message: &str) {
    let Location { line, column, file, function } = place;
    let place = match (line, column) {
        (0, _) => file.clone(),
        (line, 0) => format!("{file}:{line}"),
        (line, column) => format!("{file}:{line}:{column}"),
    };
    let within = if function.is_empty() { String::new() } else { format!(" (in {function})") };
    eprintln!("{place}: warning: crashproof: {message}{within}");
}

/// Prints an error and ends the compiler.
pub(crate) fn fatal(message: &str) -> ! {
    eprintln!("crashproof: error: {message}");
    std::process::exit(1);
}
