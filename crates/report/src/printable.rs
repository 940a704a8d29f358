//! Makes foreign text safe to print: a program's output and source may contain anything.

use std::fmt::Write as _;

/// The text with control characters written out, except line ends and tabs, so that no terminal obeys them.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_safe(character) {
            safe.push(character);
        } else {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
        }
    }
    safe
}

/// Does printing it show it, and nothing else?
pub(crate) fn is_safe(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        // Marks that turn the direction of text around can make source read as what it is not.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => false,
        other => !other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
        assert_eq!(escape("plain ünï\tcode\n"), "plain ünï\tcode\n");
        assert_eq!(escape("\x1b[31mred\r\0"), "\\u{1b}[31mred\\u{d}\\u{0}");
        assert_eq!(escape("a\u{202e}b\u{9b}"), "a\\u{202e}b\\u{9b}");
    }
}
