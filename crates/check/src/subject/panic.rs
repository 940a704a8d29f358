//! Panic messages of Rust programs: location, message, and possibly a backtrace.

/// The exit code of a program that panicked.
pub(crate) const EXIT: i32 = 101;

/// What precedes the location of a panic, after the thread name.
const AT: &str = "panicked at ";

/// Messages of panics caused by another thread's panic, for example through a poisoned lock.
const PASSED_ON: [&str; 3] = [
    "` on an `Err` value: Any { .. }",
    "` on an `Err` value: PoisonError { .. }",
    "a scoped thread panicked",
];

/// The message of the last panic, without its backtrace, which would otherwise hide it at the end of the output. If it
/// only reports another thread's panic, that one's message.
pub(crate) fn message(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let begins = |line: &&str| line.starts_with("thread '") && line.contains(AT);
    let starts: Vec<usize> = (0..lines.len()).filter(|&at| begins(&lines[at])).collect();
    let calls =
        |line: &&str| *line == "stack backtrace:" || line.starts_with("note: run with `RUST_BACKTRACE=");
    let message = |start: usize| {
        let rest = lines[start + 1..].iter().take_while(|line| !calls(line) && !begins(line));
        let all: Vec<&str> = std::iter::once(lines[start]).chain(rest.copied()).collect();
        all.join("\n").trim_end().to_owned()
    };
    let mut messages = starts.iter().rev().map(|&start| message(start));
    let last = messages.next()?;
    let passed_on = |message: &str| PASSED_ON.iter().any(|said| message.contains(said));
    Some(match passed_on(&last) {
        true => messages.find(|message| !passed_on(message)).unwrap_or(last),
        false => last,
    })
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

    #[test]
    fn a_panic_that_is_passed_on_is_that_of_the_thread() {
        let of_thread = "thread '<unnamed>' (7) panicked at a.rs:3:5:\nassertion failed: b";
        let passed_on = "thread 'main' (6) panicked at a.rs:9:9:\ncalled `Result::unwrap()` on an `Err` value: Any { .. }";
        assert_eq!(message(&format!("{of_thread}\n{passed_on}")).as_deref(), Some(of_thread));
        assert_eq!(message(passed_on).as_deref(), Some(passed_on));
    }
}
