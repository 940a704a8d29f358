//! The text of a statement: operands marked, split at its separators, numbers read.

/// Marks operands: `MARK number [MODIFIER letter] END`.
pub(crate) const MARK: char = '\u{1}';
pub(crate) const MODIFIER: char = '\u{2}';
pub(crate) const END: char = '\u{3}';

/// Picks the dialect and replaces `$0`, `${0:q}` and `$$`.
pub(crate) fn expand(template: &str, intel: bool) -> Result<String, String> {
    let mut out = String::new();
    let mut characters = template.chars().peekable();
    // The alternative being read, while inside `$( .. $| .. $)`.
    let mut alternative: Option<usize> = None;
    let wanted = usize::from(intel);
    while let Some(c) = characters.next() {
        let keep = alternative.is_none_or(|a| a == wanted);
        if c != '$' {
            if keep {
                out.push(c);
            }
            continue;
        }
        match characters.next() {
            Some('$') if keep => out.push('$'),
            Some('$') => {}
            Some('(') => alternative = Some(0),
            Some('|') => alternative = alternative.map(|a| a + 1),
            Some(')') => alternative = None,
            Some('{') => {
                let inside: String = characters.by_ref().take_while(|c| *c != '}').collect();
                if !keep {
                    continue;
                }
                match inside.split_once(':') {
                    // `${:uid}` and its like only make labels unique.
                    Some(("", _)) => out.push('0'),
                    Some((number, modifier)) => {
                        out.extend([MARK.to_string(), number.into(), MODIFIER.into(), modifier.into()]);
                        out.push(END);
                    }
                    None => out.extend([MARK.to_string(), inside, END.into()]),
                }
            }
            Some(digit) if digit.is_ascii_digit() => {
                let mut number = String::from(digit);
                while let Some(next) = characters.next_if(char::is_ascii_digit) {
                    number.push(next);
                }
                if keep {
                    out.extend([MARK.to_string(), number, END.into()]);
                }
            }
            other => return Err(format!("template escape `${}`", other.unwrap_or(' '))),
        }
    }
    Ok(out)
}

/// Splits at line ends and semicolons, without comments, in lower case.
pub(crate) fn statements(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut text = text.to_ascii_lowercase();
    while let Some(start) = text.find("/*") {
        let end = text[start..].find("*/").map_or(text.len(), |end| start + end + 2);
        text.replace_range(start..end, " ");
    }
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("");
        let line = line.split("//").next().unwrap_or("");
        all.extend(line.split(';').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned));
    }
    all
}

pub(crate) fn strip_labels(statement: &str) -> &str {
    let mut rest = statement.trim();
    while let Some((label, after)) = rest.split_once(':') {
        let is_label = !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'));
        if !is_label {
            break;
        }
        rest = after.trim();
    }
    rest
}

/// Text before an operand, its number, its modifier, text after it.
pub(crate) fn find_operand(text: &str) -> Option<(&str, usize, Option<char>, &str)> {
    let start = text.find(MARK)?;
    let end = start + text[start..].find(END)?;
    let inside = &text[start + 1..end];
    let (number, modifier) = inside.split_once(MODIFIER).unwrap_or((inside, ""));
    Some((text[..start].trim(), number.parse().ok()?, modifier.chars().next(), text[end + 1..].trim()))
}

/// A constant distance; nothing is 0.
pub(crate) fn displacement(text: &str) -> Option<i64> {
    let text = text.trim().trim_end_matches('+').trim_start_matches('+').trim();
    if text.is_empty() { Some(0) } else { parse_number(text) }
}

pub(crate) fn parse_number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits.trim()),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

pub(crate) fn split_operands(arguments: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut depth = 0;
    for c in arguments.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            all.push(String::new());
        } else if let Some(last) = all.last_mut() {
            last.push(c);
        }
    }
    all.iter().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()
}

pub(crate) fn readable(statement: &str) -> String {
    let mut out = String::new();
    let mut skipping = false;
    for c in statement.chars() {
        match c {
            MARK => out.push('%'),
            MODIFIER => skipping = true,
            END => skipping = false,
            c if !skipping => out.push(c),
            _ => {}
        }
    }
    out
}
