//! Messages at build time.
//!
//! They go to standard error in the form compilers use, not through LLVM's diagnostics: clang would turn those into
//! errors under `-Werror`, and code that crashproof does not understand should not stop a build.

use std::collections::BTreeSet;

use crashproof_frontend::llvm::Location;

/// Warnings of a module, printed in the order of the source.
#[derive(Default)]
pub(crate) struct Warnings(BTreeSet<(String, u32, u32, String)>);

impl Warnings {
    pub(crate) fn add(&mut self, place: &Location, message: &str) {
        let Location { line, column, file, function } = place;
        let within = if function.is_empty() { String::new() } else { format!(" (in {function})") };
        self.0.insert((file.clone(), *line, *column, format!("{message}{within}")));
    }

    pub(crate) fn print(&self) {
        for (file, line, column, message) in &self.0 {
            let place = match (line, column) {
                (0, _) => file.clone(),
                (line, 0) => format!("{file}:{line}"),
                (line, column) => format!("{file}:{line}:{column}"),
            };
            eprintln!("{place}: warning: crashproof: {message}");
        }
    }
}

/// Prints an error and ends the compiler.
pub(crate) fn fatal(message: &str) -> ! {
    eprintln!("crashproof: error: {message}");
    std::process::exit(1);
}
