//! Panic messages of Rust programs: where, what, and perhaps the calls that led there.

/// What a program ends with that panicked.
pub(crate) const EXIT: i32 = 101;

/// Where a panic was, after the name of the thread.
const AT: &str = "panicked at ";

/// What the last panic said, without the calls that led to it: they end the output, and would hide it.
pub(crate) fn message(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let start = lines.iter().rposition(|line| line.starts_with("thread '") && line.contains(AT))?;
    let calls =
        |line: &&str| *line == "stack backtrace:" || line.starts_with("note: run with `RUST_BACKTRACE=");
    let message = lines[start..].iter().take_while(|line| !calls(line));
    Some(message.copied().collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

/// Where it was.
pub(crate) fn place(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.split_once(AT)).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_are_left_out() {
        let output = "hello\nthread 'main' (77) panicked at src/main.rs:31:13:\nassertion failed: a\n  left: 1\n\
                      stack backtrace:\n   0: main\nnote: Some details are omitted";
        let message = message(output).expect("a panic");
        assert_eq!(message.lines().collect::<Vec<_>>()[1..], ["assertion failed: a", "  left: 1"]);
        assert_eq!(place(&message), Some("src/main.rs:31:13:"));
        assert_eq!(super::message("nothing\nof the kind"), None);
    }
}
