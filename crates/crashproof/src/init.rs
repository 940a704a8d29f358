//! `crashproof init`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use crashproof_findings::config;

use crate::exit::Exit;

/// Writes a commented configuration to the working directory, without ever overwriting one.
pub(crate) fn run() -> io::Result<Exit> {
    let file = Path::new(config::NAME);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .and_then(|mut out| out.write_all(config::TEMPLATE.as_bytes()));
    match written {
        Ok(()) => {
            let mut out = anstream::stdout().lock();
            writeln!(out, "{} written; every setting in it is explained there", config::NAME)?;
            out.flush()?;
            Ok(Exit::Clean)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            anstream::eprintln!("crashproof: {} is there already; it was not touched", config::NAME);
            Ok(Exit::Usage)
        }
        Err(error) => {
            anstream::eprintln!("crashproof: cannot write {}: {error}", config::NAME);
            Ok(Exit::Usage)
        }
    }
}
