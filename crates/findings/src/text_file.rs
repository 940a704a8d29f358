//! Reads what a user gives as text. A device or a pipe may never end, so there is a limit.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The largest file that is read: more than the compilation database of any project.
const MOST_BYTES: u64 = 512 << 20;

/// The text of a file.
pub fn read(file: &Path) -> Result<String> {
    read_from(File::open(file)?)
}

/// The text of something that can be read.
pub fn read_from(input: impl Read) -> Result<String> {
    up_to(MOST_BYTES, input)
}

fn up_to(most: u64, input: impl Read) -> Result<String> {
    // Bytes first: text is only looked at as a whole.
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        assert!(
            up_to(1 << 20, std::io::repeat(b'a')).is_err_and(|error| error.to_string().contains("1 MiB"))
        );
        assert_eq!(up_to(3, &b"abc"[..]).expect("short enough"), "abc");
        assert!(up_to(3, &b"\xff"[..]).is_err());
    }
}
