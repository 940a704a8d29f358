//! Lists the processes that run a program under test, by their command lines; their `exe` links do not help, because
//! the sandbox has separate file systems.

use std::path::Path;

/// The command lines of processes that run the program, or any program below the directory.
pub(crate) fn running(program: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let runs = |line: &String| {
        let mut words = line.split('\0');
        let first = words.next().unwrap_or_default();
        // Recoveries are started through the loader.
        Path::new(first).starts_with(program)
            || first.contains("/ld-") && words.any(|word| Path::new(word).starts_with(program))
    };
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(runs).collect()
}
