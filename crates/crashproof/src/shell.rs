//! `crashproof completions` and `crashproof man`, generated from the definition of the command line.

use std::io::{self, Write};

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

/// Prints the manual page, in the language of `man`.
pub(crate) fn manual() -> io::Result<Exit> {
    let mut page = Vec::new();
    clap_mangen::Man::new(CommandLine::command()).render(&mut page)?;
    print(&page)
}

fn print(bytes: &[u8]) -> io::Result<Exit> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Exit::Clean)
}
