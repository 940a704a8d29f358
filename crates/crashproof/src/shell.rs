//! `crashproof completions` and `crashproof man`, generated from the definition of the command line.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::CommandLine;
use crate::exit::Exit;

/// Prints completions for a shell.
pub(crate) fn completions(shell: Shell) -> io::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "crashproof", &mut script);
    print(&script)
}

/// Prints the manual page in troff format, or writes one page per command into a directory.
pub(crate) fn manual(directory: Option<&Path>) -> io::Result<Exit> {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(CommandLine::command()).render(&mut page)?;
        return print(&page);
    };
    clap_mangen::generate_to(CommandLine::command(), directory)?;
    Ok(Exit::Clean)
}

fn print(bytes: &[u8]) -> io::Result<Exit> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Exit::Clean)
}
