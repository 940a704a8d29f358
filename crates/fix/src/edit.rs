//! Edits of a source, and files that are never half-written.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use crate::syntax::{Language, Source, Statement};

/// Code to stand right after a statement, or before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Insertion {
    /// The statement.
    pub(crate) at: Range<usize>,
    /// Is the code to stand before it?
    pub(crate) before: bool,
    /// Is it the body of an `if` or loop, without braces?
    pub(crate) naked: bool,
    /// Is it an expression at the end of a block, which needs a semicolon now?
    pub(crate) tail: bool,
    /// The lines to insert.
    pub(crate) code: Vec<String>,
}

impl Insertion {
    /// After a statement; the code is yet to come.
    pub(crate) fn after(statement: &Statement) -> Insertion {
        let Statement { naked, tail, .. } = *statement;
        Insertion { at: statement.span(), naked, tail, ..Insertion::default() }
    }
}

/// Code to stand in place of other code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub(crate) range: Range<usize>,
    pub(crate) code: String,
}

/// The source with all edits applied, and an include added if required.
pub(crate) fn apply(
    source: &str,
    mut insertions: Vec<Insertion>,
    mut replacements: Vec<Replacement>,
    header: Option<&str>,
) -> String {
    insertions.sort_by_key(|insertion| insertion.at.end);
    // What stands after one statement stands there once.
    insertions.dedup_by(|later, earlier| {
        let same = later.at == earlier.at && later.before == earlier.before;
        if same {
            let new: Vec<String> =
                later.code.iter().filter(|line| !earlier.code.contains(line)).cloned().collect();
            earlier.code.extend(new);
        }
        same
    });
    replacements.sort_by_key(|replacement| replacement.range.start);
    replacements.dedup_by(|later, earlier| later.range == earlier.range);
    let mut text = source.to_owned();
    while !insertions.is_empty() || !replacements.is_empty() {
        // From the end, so that earlier positions stay valid.
        let at = |insertion: &Insertion| if insertion.before { insertion.at.start } else { insertion.at.end };
        let insertion = insertions.last().map(at);
        let replacement = replacements.last().map(|it| it.range.start);
        if insertion > replacement
            && let Some(insertion) = insertions.pop()
        {
            text = inserted(&text, &insertion);
        } else if let Some(Replacement { range, code }) = replacements.pop() {
            text.replace_range(range, &code);
        }
    }
    match header {
        Some(header) => with_header(&text, header),
        None => text,
    }
}

fn indent_at(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn inserted(text: &str, insertion: &Insertion) -> String {
    let Range { start, end } = insertion.at;
    let indent = indent_at(text, start);
    if insertion.before && !insertion.naked {
        let code: String = insertion.code.iter().map(|line| format!("{line}\n{indent}")).collect();
        return format!("{}{code}{}", &text[..start], &text[start..]);
    }
    if insertion.tail {
        let code: String = insertion.code.join(&format!("\n{indent}"));
        let rest = &text[end..];
        let alone = rest[..rest.find('\n').unwrap_or(rest.len())].trim().is_empty();
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        // `unsafe { p.write(3) };` stays in one line.
        return match alone && text[line_start..start].trim().is_empty() {
            true => format!("{};\n{indent}{code}{rest}", &text[..end]),
            false => format!("{}; {}{rest}", &text[..end], insertion.code.join(" ")),
        };
    }
    // A comment behind the statement stays with it.
    let line_end = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
    let rest = text[end..line_end].trim();
    let whole_comment = rest.starts_with("/*") && rest.find("*/") == Some(rest.len().saturating_sub(2));
    let end = if rest.is_empty() || rest.starts_with("//") || whole_comment { line_end } else { end };
    if !insertion.naked {
        let code: String = insertion.code.iter().map(|line| format!("\n{indent}{line}")).collect();
        let after = &text[end..];
        // Another statement in the same line goes on below; a closing brace stays where it is.
        let more = after[..after.find('\n').unwrap_or(after.len())].trim();
        if more.is_empty() {
            return format!("{}{code}{after}", &text[..end]);
        }
        if more.starts_with('}') {
            return format!("{} {}{after}", &text[..end], insertion.code.join(" "));
        }
        return format!("{}{code}\n{indent}{}", &text[..end], after.trim_start_matches([' ', '\t']));
    }
    let code = match insertion.before {
        true => [insertion.code.clone(), vec![text[start..end].to_owned()]].concat(),
        false => [vec![text[start..end].to_owned()], insertion.code.clone()].concat(),
    };
    let before = text[..start].trim_end();
    let own_line = text[before.len()..start].contains('\n');
    if own_line {
        let outer = indent_at(text, before.len());
        let code = code.join(&format!("\n{indent}"));
        let between = &text[before.len()..start];
        return format!("{before} {{{between}{code}\n{outer}}}{}", &text[end..]);
    }
    format!("{}{{ {} }}{}", &text[..start], code.join(" "), &text[end..])
}

/// Puts an include after the last one at the top level of the file.
fn with_header(text: &str, header: &str) -> String {
    let mut depth = 0;
    let (mut at, mut place) = (0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        match directive {
            Some(rest) if rest.starts_with("if") => depth += 1,
            Some(rest) if rest.starts_with("endif") => depth -= 1,
            Some(rest) if rest.starts_with("include") && depth == 0 => place = at,
            _ => {}
        }
    }
    format!("{}{header}\n{}", &text[..place], &text[place..])
}

/// The source without a statement, and without its line if nothing else is there; none if the statement is the
/// whole body of something.
pub(crate) fn without(source: &str, language: Language, line: u32, column: u32) -> Option<(String, String)> {
    let tree = Source::new(source, language)?;
    let offset = tree.offset(line, column).ok()?;
    let statement = tree.statement(offset).ok().filter(|statement| !statement.naked && !statement.tail)?;
    let span = statement.span();
    let start = source[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = source[span.end..].find('\n').map_or(source.len(), |newline| span.end + newline + 1);
    let alone = source[start..span.start].trim().is_empty() && source[span.end..end].trim().is_empty();
    let range = if alone { start..end } else { span.clone() };
    let removed = source[span].to_owned();
    Some((format!("{}{}", &source[..range.start], &source[range.end..]), removed))
}

/// Replaces a file atomically: readers see the old content or the new one.
pub fn write(path: &Path, content: &str) -> std::io::Result<()> {
    // Through links, to where the file is.
    let path = path.canonicalize()?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content.as_bytes())?;
    file.as_file().set_permissions(std::fs::metadata(&path)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insertion(source: &str, statement: &str) -> Insertion {
        let start = source.find(statement).unwrap();
        Insertion {
            at: start..start + statement.len(),
            code: vec!["flush();".into()],
            ..Insertion::default()
        }
    }

    fn insert(source: &str, statement: &str, naked: bool) -> String {
        let insertion = Insertion { naked, ..insertion(source, statement) };
        apply(source, vec![insertion.clone(), insertion], Vec::new(), None)
    }

    #[test]
    fn code_goes_after_the_statement_once() {
        assert_eq!(
            insert("{\n  a = 1;\n  b = 2;\n}\n", "a = 1;", false),
            "{\n  a = 1;\n  flush();\n  b = 2;\n}\n"
        );
        assert_eq!(insert("{\n  a = 1; // why\n}\n", "a = 1;", false), "{\n  a = 1; // why\n  flush();\n}\n");
        assert_eq!(
            insert("{\n  a = 1; b = 2;\n}\n", "a = 1;", false),
            "{\n  a = 1;\n  flush();\n  b = 2;\n}\n"
        );
        assert_eq!(insert("{ a = 1; }\n", "a = 1;", false), "{ a = 1; flush(); }\n");
    }

    #[test]
    fn bodies_without_braces_get_some() {
        let source = "  if (x)\n    a = 1;\n  b = 2;\n";
        assert_eq!(insert(source, "a = 1;", true), "  if (x) {\n    a = 1;\n    flush();\n  }\n  b = 2;\n");
        assert_eq!(insert("  if (x) a = 1;\n", "a = 1;", true), "  if (x) { a = 1; flush(); }\n");
    }

    #[test]
    fn expressions_at_the_end_of_a_block() {
        let tail = |source: &str, statement: &str| {
            let insertion = Insertion { tail: true, ..insertion(source, statement) };
            apply(source, vec![insertion], Vec::new(), None)
        };
        assert_eq!(tail("{\n    x.store(1)\n}\n", "x.store(1)"), "{\n    x.store(1);\n    flush();\n}\n");
        assert_eq!(tail("unsafe { p.write(3) };\n", "p.write(3)"), "unsafe { p.write(3); flush(); };\n");
    }

    #[test]
    fn calls_are_replaced_where_they_stand() {
        let source = "{\n  a = 1;\n  persist(s, 8);\n}\n";
        let start = source.find("persist").unwrap();
        let replacement = Replacement { range: start..start + 13, code: "persist(s, sizeof(*s))".into() };
        let twice = vec![replacement.clone(), replacement];
        let text = apply(source, vec![insertion(source, "a = 1;")], twice, None);
        assert_eq!(text, "{\n  a = 1;\n  flush();\n  persist(s, sizeof(*s));\n}\n");
    }

    #[test]
    fn headers_go_among_the_includes() {
        let source = "#include <a.h>\n#ifdef B\n#include <b.h>\n#endif\nint x;\n";
        let expected = "#include <a.h>\n#include <i.h>\n#ifdef B\n#include <b.h>\n#endif\nint x;\n";
        assert_eq!(apply(source, Vec::new(), Vec::new(), Some("#include <i.h>")), expected);
    }

    #[test]
    fn statements_are_taken_out_with_their_line() {
        let source = "void f(void) {\n  a();\n  flush(x);\n  b();\n}\n";
        let (source, removed) = without(source, Language::C, 3, 3).unwrap();
        assert_eq!((source.as_str(), removed.as_str()), ("void f(void) {\n  a();\n  b();\n}\n", "flush(x);"));
    }

    #[test]
    fn files_are_replaced_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.c");
        std::fs::write(&path, "old").unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
