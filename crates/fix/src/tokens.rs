//! C and C++ as a row of tokens: just enough to find a statement and what it assigns to.
//!
//! Nothing is preprocessed; directives are left out whole.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Identifier or keyword.
    Word,
    /// Number, character or string.
    Literal,
    /// Operator or punctuation.
    Symbol,
}

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Range<usize>,
}

/// Symbols of more than one character that must not be taken apart, the longest first.
const SYMBOLS: [&str; 26] = [
    "<<=", ">>=", "...", "->*", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=",
    "*=", "/=", "%=", "&=", "|=", "^=", "::", "##", ".*",
];

/// Symbols that assign.
pub(crate) const ASSIGNMENTS: [&str; 11] =
    ["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="];

/// The tokens of a source, comments and directives left out.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    // Is the line blank so far? Then a `#` begins a directive.
    let mut fresh = true;
    while at < bytes.len() {
        let rest = &source[at..];
        let byte = bytes[at];
        if byte == b'\n' {
            fresh = true;
            at += 1;
        } else if byte.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with("//") {
            at += line_end(rest);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            at += comment.find("*/").map_or(rest.len(), |end| end + 4);
        } else if byte == b'#' && fresh {
            at += directive_end(rest);
        } else {
            fresh = false;
            let (kind, length) = token(rest);
            tokens.push(Token { kind, span: at..at + length });
            at += length;
        }
    }
    tokens
}

/// Up to the end of the line, which a backslash continues.
fn line_end(rest: &str) -> usize {
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        let text = line.trim_end_matches(['\n', '\r']);
        if !text.ends_with('\\') {
            return at - (line.len() - text.len());
        }
    }
    at
}

/// A directive goes to the end of its line; a comment in it may go further.
fn directive_end(rest: &str) -> usize {
    let end = line_end(rest);
    match rest[..end].find("/*") {
        Some(start) if !rest[start..end].contains("*/") => {
            start + rest[start..].find("*/").map_or(rest.len() - start, |close| close + 2)
        }
        _ => end,
    }
}

fn token(rest: &str) -> (Kind, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    if first == '"' || first == '\'' {
        return (Kind::Literal, quoted(rest, first));
    }
    if first.is_ascii_digit() {
        let end = rest.find(|c: char| !word(c) && c != '.' && c != '\'');
        return (Kind::Literal, end.unwrap_or(rest.len()));
    }
    if word(first) {
        return (Kind::Word, rest.find(|c: char| !word(c)).unwrap_or(rest.len()));
    }
    let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
    (Kind::Symbol, symbol.map_or(first.len_utf8(), |symbol| symbol.len()))
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| &source[token.span]).collect()
    }

    #[test]
    fn comments_directives_and_strings_do_not_disturb() {
        assert_eq!(texts("a->b = 1; // c = 2;\n"), ["a", "->", "b", "=", "1", ";"]);
        assert_eq!(texts("#define X(a) \\\n  a = 1;\nx"), ["x"]);
        assert_eq!(texts("f(\"a;\\\"b\", ';');"), ["f", "(", "\"a;\\\"b\"", ",", "';'", ")", ";"]);
        assert_eq!(texts("a /* = \n */ <<= 0x1fUL"), ["a", "<<=", "0x1fUL"]);
        assert_eq!(texts("#if A /* b\n c */\nd"), ["d"]);
    }

    #[test]
    fn any_text_is_some_row_of_tokens() {
        for text in ["\"open", "'", "/* open", "#", "ä = ö;", "1'000", "\\", "a\0b"] {
            let _ = texts(text);
        }
    }
}
