//! Programs built with `-fsanitize=address` or `undefined`: a sanitizer report is a failure.
//!
//! The environment makes sanitizers stop at the first report, with a dedicated exit code. Leaks are not checked: a
//! recovery that a failure ends leaks everything.

use std::ffi::OsString;
use std::process::Command;

use crashproof_protocol::exit;

/// Maximum number of report lines to keep.
const MOST_LINES: usize = 16;

/// Adds our sanitizer options to those of the user.
pub(crate) fn prepare(command: &mut Command) {
    for (variable, more) in [
        ("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=0:"),
        ("UBSAN_OPTIONS", "print_stacktrace=1:abort_on_error=0:"),
    ] {
        let mut options = std::env::var_os(variable).unwrap_or_default();
        if !options.is_empty() {
            options.push(":");
        }
        let ours = format!("{more}halt_on_error=1:exitcode={}", exit::SANITIZER);
        options.push(OsString::from(ours));
        command.env(variable, options);
    }
}

/// The sanitizer's part of a program's output: the error and its location.
pub(crate) fn report(output: &str) -> String {
    let begins = |line: &str| line.contains("Sanitizer: ") || line.contains(": runtime error: ");
    let lines = output.lines().skip_while(|line| !begins(line));
    // Everything after the summary is about the sanitizer's own memory.
    let mut kept: Vec<&str> = Vec::new();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let summary = line.starts_with("SUMMARY: ");
        if summary || kept.len() < MOST_LINES {
            kept.push(line);
        }
        if summary {
            break;
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_goes_from_what_was_found_to_the_summary() {
        let output = "hello\n=====\n==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n\
                      READ of size 1\n\n    #0 main a.c:3\nSUMMARY: AddressSanitizer: heap-use-after-free a.c:3\n\
                      Shadow bytes around";
        let kept = report(output);
        assert!(kept.starts_with("==7==ERROR") && kept.ends_with("a.c:3"), "{kept}");
        assert_eq!(kept.lines().count(), 4);
    }
}
