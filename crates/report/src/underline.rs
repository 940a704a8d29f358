//! Which part of a line a report underlines: the expression at the column that debug information gives.
//!
//! Compilers point at the operator of an assignment, at the name of a member, or at the beginning of a call. What is
//! underlined is the assignment or comparison, the object up to that member, or the call; where the text is something else, the rest of
//! the line.

use std::ops::Range;

/// Assignments and comparisons: both operands belong to them.
const OPERATORS: [&str; 18] = [
    "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "==", "!=", "<=", ">=", "=",
    "<",
];

const COMPARISONS: [&str; 4] = ["==", "!=", "<=", ">="];

/// The bytes of a line (without comment and indentation at its ends) to underline, from the column (in bytes, from 0).
pub(crate) fn expression(line: &str, column: usize) -> Range<usize> {
    let bytes = line.as_bytes();
    let rest = &line[column..];
    if OPERATORS.iter().any(|sign| rest.starts_with(sign)) {
        let end = trimmed_end(bytes, column);
        let start = operand_start(bytes, end);
        // Of `++x` there is no operand before.
        return if start < end { start } else { column }..statement_end(bytes, column);
    }
    // A condition, not what depends on it.
    if bytes.get(column) == Some(&b'(')
        && let Some(close) = closing(bytes, column)
    {
        return column..close + 1;
    }
    let Some(end) = word_end(bytes, column) else { return column..statement_end(bytes, column) };
    let start = operand_start(bytes, end);
    let call = call_name_end(bytes, end);
    if call == end && start == column {
        return start..chain_end(bytes, end);
    }
    start..operand_end(bytes, call)
}

/// Where what begins with the word that ends at `end` ends: with an assignment to it, with its last element, or, where members
/// are reached by a dot alone, with the last of them.
fn chain_end(bytes: &[u8], end: usize) -> usize {
    let (mut at, mut element, mut arrow) = (operand_end(bytes, end), end, false);
    element = element.max(at);
    loop {
        let sign = [&b"->"[..], b"."].into_iter().find(|sign| bytes[at..].starts_with(sign));
        let Some((sign, next)) = sign.and_then(|sign| Some((sign, word_end(bytes, at + sign.len())?))) else {
            break;
        };
        arrow |= sign == b"->";
        at = operand_end(bytes, next);
        if at > next {
            element = at;
        }
    }
    let rest = &bytes[at..];
    let rest = &rest[rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()..];
    let assigned =
        |sign: &&str| rest.starts_with(sign.as_bytes()) && sign.ends_with('=') && !COMPARISONS.contains(sign);
    match OPERATORS.iter().find(|sign| rest.starts_with(sign.as_bytes())) {
        Some(sign) if assigned(sign) => statement_end(bytes, at),
        _ if arrow => element,
        _ => at,
    }
}

/// Where the name of a call ends whose first word ends at `end` (`pm::persist(`, `self.head.store(`); `end` if it is
/// not a call.
fn call_name_end(bytes: &[u8], end: usize) -> usize {
    let mut at = end;
    loop {
        let sign = [&b"::"[..], b"->", b"."].into_iter().find(|sign| bytes[at..].starts_with(sign));
        let Some(next) = sign.and_then(|sign| word_end(bytes, at + sign.len())) else { break };
        at = next;
    }
    if bytes.get(at) == Some(&b'(') { at } else { end }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Where the word at `at` ends, if there is one.
fn word_end(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
    (length > 0).then_some(at + length)
}

/// The position behind the last visible byte before `at`.
fn trimmed_end(bytes: &[u8], at: usize) -> usize {
    (0..at).rev().find(|&index| !bytes[index].is_ascii_whitespace()).map_or(0, |index| index + 1)
}

/// Where the operand that ends at `end` begins: words, members, elements and calls before it belong to it.
fn operand_start(bytes: &[u8], end: usize) -> usize {
    let mut start = end;
    while let Some(before) = start.checked_sub(1) {
        let joins = match bytes[before] {
            b')' | b']' => match opening(bytes, before) {
                Some(open) => {
                    start = open;
                    continue;
                }
                None => false,
            },
            b'.' | b':' => true,
            b'>' => before > 0 && bytes[before - 1] == b'-',
            b'-' => bytes.get(start) == Some(&b'>'),
            byte => is_word(byte),
        };
        if !joins {
            break;
        }
        start = before;
    }
    // A pointer that is followed.
    while start > 0 && bytes[start - 1] == b'*' && (start < 2 || !is_word(bytes[start - 2])) {
        start -= 1;
    }
    start
}

/// Where an operand ends whose last word ends at `end`: elements and the arguments of a call belong to it.
fn operand_end(bytes: &[u8], end: usize) -> usize {
    let mut end = end;
    while matches!(bytes.get(end), Some(b'(' | b'[')) {
        match closing(bytes, end) {
            Some(close) => end = close + 1,
            // The call goes on in the next line.
            None => return bytes.len(),
        }
    }
    end
}

/// Where the statement or argument ends that `at` is in.
fn statement_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    for (index, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return index,
            b')' | b']' | b'}' => depth -= 1,
            b';' | b',' if depth == 0 => return index,
            _ => {}
        }
    }
    bytes.len()
}

fn opening(bytes: &[u8], close: usize) -> Option<usize> {
    let mut depth = 0;
    (0..=close).rev().find(|&index| {
        match bytes[index] {
            b')' | b']' => depth += 1,
            b'(' | b'[' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0;
    (open..bytes.len()).find(|&index| {
        match bytes[index] {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is underlined if the column is that of the mark.
    fn at(line: &str) -> String {
        let column = line.find('$').expect("a mark");
        let line = line.replace('$', "");
        line[expression(&line, column)].to_owned()
    }

    #[test]
    fn what_is_underlined() {
        for (line, underlined) in [
            ("  s->used $= 1;", "s->used = 1"),
            ("  t->slots[i].val $+= f(a, b);", "t->slots[i].val += f(a, b)"),
            ("  t->count$++;", "t->count++"),
            ("  *p $= 3;", "*p = 3"),
            ("  if (!t->slots[i].$used || strncmp(a, b, 6)) {", "t->slots[i].used"),
            ("  return d->$value == 7 ? 0 : 1;", "d->value"),
            ("  $persist(&t->count, sizeof t->count);", "persist(&t->count, sizeof t->count)"),
            ("  $memcpy(s->text, text,", "memcpy(s->text, text,"),
            ("  for (i = 0; i $< t->count; i++)", "i < t->count"),
            ("  $++t->count;", "++t->count"),
            ("  $self.head.store(1, Ordering::Release);", "self.head.store(1, Ordering::Release)"),
            ("  $N::clflush((char *)k, sizeof(Key), false);", "N::clflush((char *)k, sizeof(Key), false)"),
            ("  if (a.$b == c.d)", "a.b"),
            ("  node.next $= Some(x); // told", "node.next = Some(x)"),
            ("  $*p = 4;", "*p = 4"),
            ("  self.$used += 1;", "self.used"),
            ("    $self.used += 1;", "self.used += 1"),
            ("  if ($kv->entries[i].value[0] == 0) {", "kv->entries[i].value[0]"),
            ("  if ($s.key == 0 || s.value != 1)", "s.key"),
            ("  if $(kv->entries[i].key == 0) { puts(\"x\"); return 1; }", "(kv->entries[i].key == 0)"),
            ("  $root->child->data;", "root"),
        ] {
            assert_eq!(at(line), underlined, "{line}");
        }
    }

    #[test]
    fn no_line_makes_it_panic() {
        for line in [")", "]]", "((", "->", "=", "++", "ä->ö = ü", "x = \"a;b\"", "*", ""] {
            for column in (0..line.len()).filter(|&column| line.is_char_boundary(column)) {
                let range = expression(line, column);
                assert!(range.start <= range.end && range.end <= line.len(), "{line} {column}");
                assert!(line.is_char_boundary(range.start) && line.is_char_boundary(range.end), "{line}");
            }
        }
    }
}
