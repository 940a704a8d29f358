//! Text to tokens.

use crate::error::{Error, Span};

/// The words that have a meaning of their own and cannot be names.
pub(crate) const KEYWORDS: &[&str] = &[
    "litmus",
    "line",
    "init",
    "thread",
    "recover",
    "forbidden",
    "allowed",
    "if",
    "else",
    "repeat",
    "assert",
    "cas",
    "faa",
    "xchg",
    "movnt",
    "clflush",
    "clflushopt",
    "clwb",
    "sfence",
    "mfence",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A keyword or a name.
    Word(&'a str),
    Int(i64),
    /// Punctuation or an operator.
    Symbol(&'static str),
    /// The name after `litmus`, which may hold characters that are operators elsewhere.
    TestName(&'a str),
    End,
}

impl Token<'_> {
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(word) if KEYWORDS.contains(word) => format!("the keyword `{word}`"),
            Token::Word(word) | Token::TestName(word) => format!("`{word}`"),
            Token::Int(value) => format!("`{value}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end of the file".into(),
        }
    }
}

/// Longest first, so that `<=` is not read as `<` and `=`.
const SYMBOLS: &[&str] = &[
    "<<", ">>", "==", "!=", "<=", ">=", "&&", "||", "{", "}", "(", ")", ",", ";", "=", "+", "-", "*", "&",
    "|", "^", "<", ">", "!",
];

pub(crate) fn lex(source: &str) -> Result<Vec<(Token<'_>, Span)>, Error> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let name_follows = |tokens: &[(Token, Span)]| matches!(tokens, [.., (Token::Word("litmus"), _)]);
    loop {
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else {
            tokens.push((Token::End, Span { start: at, end: at }));
            return Ok(tokens);
        };
        let run = |accept: fn(char) -> bool| rest.find(|c| !accept(c)).unwrap_or(rest.len());
        // Some editors begin a file with a byte order mark.
        let (length, token) = if at == 0 && first == '\u{feff}' {
            (first.len_utf8(), None)
        } else if first.is_whitespace() {
            (run(char::is_whitespace), None)
        } else if first == '#' || rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), None)
        } else if name_follows(&tokens) && is_test_name(first) {
            let length = run(is_test_name);
            (length, Some(Token::TestName(&rest[..length])))
        } else if is_name(first) && !first.is_ascii_digit() {
            let length = run(is_name);
            (length, Some(Token::Word(&rest[..length])))
        } else if first.is_ascii_digit() {
            let length = run(is_name);
            let span = Span { start: at, end: at + length };
            (length, Some(Token::Int(integer(&rest[..length], span)?)))
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (symbol.len(), Some(Token::Symbol(symbol)))
        } else {
            let span = Span { start: at, end: at + first.len_utf8() };
            if rest.starts_with("/*") {
                let error = Error::new(span, "unexpected character '/'", "not part of the language");
                return Err(error.help("comments begin with `//` or `#` and end with the line"));
            }
            return Err(Error::new(
                span,
                format!("unexpected character {first:?}"),
                "not part of the language",
            ));
        };
        if let Some(token) = token {
            tokens.push((token, Span { start: at, end: at + length }));
        }
        at += length;
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_test_name(c: char) -> bool {
    is_name(c) || matches!(c, '+' | '-' | '.')
}

/// Values above the largest positive number wrap, as all arithmetic here does.
fn integer(text: &str, span: Span) -> Result<i64, Error> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse::<u64>(),
    };
    parsed.map(|value| value as i64).map_err(|error| {
        let label = match error.kind() {
            std::num::IntErrorKind::PosOverflow => "does not fit in 64 bits",
            _ => "expected digits, or `0x` and hexadecimal digits",
        };
        Error::new(span, format!("`{text}` is not a number"), label)
    })
}
