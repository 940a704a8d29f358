//! What a program prints that is run for its answer.
//!
//! Not `Command::output`: it panics if the pipe cannot be read, and a machine at its limits should not cause a panic.

use std::io::{self, Read};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

/// Runs a program without input, and collects what it prints.
///
/// # Errors
///
/// If it cannot be started, or its output cannot be read.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let errors = child.stderr.take();
    let errors = thread::Builder::new().spawn(move || read(errors));
    let stdout = read(child.stdout.take());
    let stderr =
        errors.and_then(|errors| errors.join().unwrap_or_else(|_| Err(io::Error::other("no output"))));
    finish(child, stdout, stderr)
}

/// Runs a program whose messages go where this one's go, and collects its standard output.
///
/// # Errors
///
/// If it cannot be started, or its output cannot be read.
pub fn standard_output(command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    let stdout = read(child.stdout.take());
    finish(child, stdout, Ok(Vec::new()))
}

fn read(from: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.map_or(Ok(0), |mut from| from.read_to_end(&mut bytes))?;
    Ok(bytes)
}

fn finish(mut child: Child, stdout: io::Result<Vec<u8>>, stderr: io::Result<Vec<u8>>) -> io::Result<Output> {
    if stdout.is_err() || stderr.is_err() {
        // Half an answer is none; the program must not outlive the question.
        let _ = child.kill();
    }
    let status = child.wait()?;
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_and_the_status_are_kept() {
        let said = output(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).expect("runs");
        assert_eq!((said.stdout, said.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
        assert_eq!(said.status.code(), Some(3));
    }

    #[test]
    fn much_output_on_one_stream_does_not_block_the_other() {
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero";
        let said = output(Command::new("sh").args(["-c", script])).expect("runs");
        assert_eq!((said.stdout.len(), said.stderr.len()), (300_000, 300_000));
    }
}
