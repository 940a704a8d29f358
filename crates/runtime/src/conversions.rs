//! Parses the formats of `printf` and `scanf`: which arguments they take, and what they do to them.
//!
//! Formats with numbered arguments (`%1$s`) are not supported: their arguments are treated as integers.

#![forbid(unsafe_code)]

/// What a `printf` conversion takes from the argument list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Argument {
    /// An integer, or a pointer that is not dereferenced.
    General,
    /// An integer that is the precision of the next conversion.
    Precision,
    /// A string, read to its end or up to this many bytes.
    Text(Option<usize>),
    /// A string, read to its end or up to the preceding precision.
    TextOfPrecision,
    Double,
    LongDouble,
    /// A pointer to store the number of bytes printed so far, with this width in bytes.
    Count(usize),
}

/// The arguments of a `printf` format, in order.
pub(crate) fn printed(format: &[u8]) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let mut rest = format.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            continue;
        }
        let mut text = Argument::Text(None);
        let mut long_double = false;
        let mut count = 4;
        while let Some(byte) = rest.next() {
            match byte {
                b'*' => arguments.push(Argument::General),
                b'.' if rest.next_if_eq(&b'*').is_some() => {
                    arguments.push(Argument::Precision);
                    text = Argument::TextOfPrecision;
                }
                b'.' => {
                    let mut digits = 0usize;
                    while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
                        digits = digits.saturating_mul(10).saturating_add((digit - b'0').into());
                    }
                    text = Argument::Text(Some(digits));
                }
                b'L' => long_double = true,
                b'-' | b'+' | b' ' | b'#' | b'\'' | b'I' | b'0'..=b'9' => {}
                b'h' => count /= 2,
                b'l' | b'q' | b'j' | b'z' | b't' => count = 8,
                b'%' | b'm' => break,
                conversion => {
                    arguments.push(match conversion {
                        b's' => text,
                        b'n' => Argument::Count(count),
                        b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' if long_double => {
                            Argument::LongDouble
                        }
                        b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => Argument::Double,
                        _ => Argument::General,
                    });
                    break;
                }
            }
        }
    }
    arguments
}

/// What a `scanf` conversion writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    Bytes(usize),
    /// A string, up to its end.
    Text,
}

/// The `scanf` conversions that write something, and whether they count in its result.
pub(crate) fn scanned(format: &[u8]) -> Vec<(Written, bool)> {
    let mut found = Vec::new();
    let mut rest = format.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            continue;
        }
        let (mut skipped, mut allocated, mut width, mut integer, mut float) = (false, false, 0usize, 4, 4);
        for byte in rest.by_ref() {
            match byte {
                b'*' => skipped = true,
                b'm' => allocated = true,
                b'0'..=b'9' => width = width.saturating_mul(10).saturating_add((byte - b'0').into()),
                b'h' => integer /= 2,
                b'l' | b'q' | b'j' | b'z' | b't' => (integer, float) = (8, 8),
                b'L' => (integer, float) = (8, 16),
                b'%' => break,
                conversion => {
                    let written = match conversion {
                        _ if allocated => Written::Bytes(8),
                        b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => Written::Bytes(float),
                        b'c' => Written::Bytes(width.max(1)),
                        b's' | b'[' => Written::Text,
                        b'p' => Written::Bytes(8),
                        _ => Written::Bytes(integer),
                    };
                    if !skipped {
                        found.push((written, conversion != b'n'));
                    }
                    break;
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Argument::*;
    use super::*;

    #[test]
    fn what_printf_takes() {
        assert_eq!(printed(b"plain 100%% %m"), []);
        assert_eq!(printed(b"%d %-5ld %s %c"), [General, General, Text(None), General]);
        assert_eq!(printed(b"%.3s|%10.20s|%.s"), [Text(Some(3)), Text(Some(20)), Text(Some(0))]);
        assert_eq!(printed(b"%*.*s"), [General, Precision, TextOfPrecision]);
        assert_eq!(printed(b"%f %Lg %.2e"), [Double, LongDouble, Double]);
        assert_eq!(printed(b"ends in %"), []);
    }

    #[test]
    fn what_scanf_writes() {
        let bytes = |bytes| (Written::Bytes(bytes), true);
        assert_eq!(scanned(b"%d %hhd %hd %ld"), [bytes(4), bytes(1), bytes(2), bytes(8)]);
        assert_eq!(scanned(b"%f %lf %Lf"), [bytes(4), bytes(8), bytes(16)]);
        assert_eq!(scanned(b"%10s%*s%5c"), [(Written::Text, true), bytes(5)]);
        assert_eq!(scanned(b"%d%n"), [bytes(4), (Written::Bytes(4), false)]);
        assert_eq!(scanned(b"%ms%p"), [bytes(8), bytes(8)]);
    }
}
