//! Sources as syntax trees: the statement at a place, and where code can follow it.
//!
//! Nothing is preprocessed. Macros that tree-sitter takes for calls or types leave the statements around them whole, which is
//! all that is needed here.

use std::ops::Range;
use std::path::Path;

use crashproof_toolchain::{FileKind, Language as Compiled};
use tree_sitter::{Node, Parser, Tree};

/// Why a statement cannot be given a flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is no such line or column.
    NotThere,
    /// It is part of a condition, or of the head of a loop.
    InCondition,
    /// The function ends with it.
    Leaves,
    /// A macro or function of this name stores.
    InCall(String),
    /// What is stored to cannot be named twice: it has side effects.
    SideEffects(String),
    /// What is stored to cannot be read off it.
    NotUnderstood,
}

/// A language that can be patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cxx,
    Rust,
}

impl Language {
    /// The language of a file, by its name. Headers are read as C++, which most of C is, too.
    pub(crate) fn of(file: &str) -> Option<Language> {
        Some(match FileKind::of(Path::new(file))? {
            FileKind::Source(Compiled::C) => Language::C,
            FileKind::Source(Compiled::Cxx) | FileKind::Header => Language::Cxx,
            FileKind::Rust => Language::Rust,
            _ => return None,
        })
    }
}

/// A statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement<'t> {
    pub(crate) node: Node<'t>,
    /// Is it the whole body of an `if`, `else` or loop, without braces?
    pub(crate) naked: bool,
    /// Is it the last expression of a Rust block, without a semicolon?
    pub(crate) tail: bool,
    /// The block it is in.
    pub(crate) block: Node<'t>,
}

impl Statement<'_> {
    pub(crate) fn span(&self) -> Range<usize> {
        self.node.byte_range()
    }
}

/// A source and its tree.
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) language: Language,
    tree: Tree,
}

/// All nodes below a node, itself first.
pub(crate) fn descendants(node: Node<'_>) -> Vec<Node<'_>> {
    let mut all = vec![node];
    let mut next = 0;
    while next < all.len() {
        let node = all[next];
        all.extend((0..node.child_count()).filter_map(|index| node.child(index)));
        next += 1;
    }
    all.sort_by_key(|node| (node.start_byte(), std::cmp::Reverse(node.end_byte())));
    all
}

/// The named nodes right below a node, comments left out.
pub(crate) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let all = (0..node.child_count()).filter_map(|index| node.child(index));
    all.filter(|child| child.is_named() && !child.kind().ends_with("comment")).collect()
}

/// A node and those around it, innermost first.
pub(crate) fn ancestors<'t>(node: Node<'t>) -> impl Iterator<Item = Node<'t>> {
    std::iter::successors(Some(node), Node::parent)
}

const HEADS: [&str; 13] = [
    "if_statement",
    "while_statement",
    "for_statement",
    "for_range_loop",
    "do_statement",
    "switch_statement",
    "condition_clause",
    "if_expression",
    "while_expression",
    "for_expression",
    "match_expression",
    "let_condition",
    "init_statement",
];

const LEAVES: [&str; 9] = [
    "return_statement",
    "throw_statement",
    "co_return_statement",
    "goto_statement",
    "break_statement",
    "continue_statement",
    "return_expression",
    "break_expression",
    "continue_expression",
];

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str, language: Language) -> Option<Source<'a>> {
        let grammar = match language {
            Language::C => tree_sitter_c::LANGUAGE,
            Language::Cxx => tree_sitter_cpp::LANGUAGE,
            Language::Rust => tree_sitter_rust::LANGUAGE,
        };
        let mut parser = Parser::new();
        parser.set_language(&grammar.into()).ok()?;
        let tree = parser.parse(text, None)?;
        Some(Source { text, language, tree })
    }

    pub(crate) fn root(&self) -> Node<'_> {
        self.tree.root_node()
    }

    pub(crate) fn text(&self, node: Node) -> &'a str {
        &self.text[node.byte_range()]
    }

    /// The byte at a line and column, both from 1; the first visible one of the line if the column is 0.
    pub(crate) fn offset(&self, line: u32, column: u32) -> Result<usize, Trouble> {
        let mut start = 0;
        for (index, text) in self.text.split_inclusive('\n').enumerate() {
            if index + 1 == line as usize {
                let indent = text.len() - text.trim_start().len();
                let column = (column as usize).checked_sub(1).unwrap_or(indent);
                let there = column < text.len() && text.is_char_boundary(column);
                return there.then_some(start + column).ok_or(Trouble::NotThere);
            }
            start += text.len();
        }
        Err(Trouble::NotThere)
    }

    pub(crate) fn at(&self, offset: usize) -> Option<Node<'_>> {
        self.root().named_descendant_for_byte_range(offset, offset + 1)
    }

    /// The statement that holds a byte.
    pub(crate) fn statement(&self, offset: usize) -> Result<Statement<'_>, Trouble> {
        let node = self.at(offset).ok_or(Trouble::NotThere)?;
        for node in ancestors(node) {
            let kind = node.kind();
            if LEAVES.contains(&kind) {
                return Err(Trouble::Leaves);
            }
            let Some(parent) = node.parent() else { break };
            if !self.is_body(node, parent) {
                if HEADS.contains(&parent.kind()) {
                    return Err(Trouble::InCondition);
                }
                continue;
            }
            if HEADS.contains(&kind) {
                return Err(Trouble::InCondition);
            }
            let whole = matches!(kind, "expression_statement" | "declaration" | "let_declaration");
            let tail = self.language == Language::Rust && !whole && parent.kind() == "block";
            if !whole && !tail || tail && kind.ends_with("_item") || kind == "line_comment" {
                return Err(Trouble::NotUnderstood);
            }
            let naked = !matches!(
                parent.kind(),
                "compound_statement"
                    | "translation_unit"
                    | "block"
                    | "case_statement"
                    | "labeled_statement"
                    | "preproc_ifdef"
                    | "preproc_if"
                    | "preproc_else"
                    | "preproc_elif"
                    | "ERROR"
            );
            let block = ancestors(parent)
                .find(|node| matches!(node.kind(), "compound_statement" | "block" | "translation_unit"))
                .unwrap_or(self.root());
            return Ok(Statement { node, naked, tail, block });
        }
        Err(Trouble::NotUnderstood)
    }

    /// Is a node one of the statements of another one, not a part of its head?
    fn is_body(&self, node: Node, parent: Node) -> bool {
        match parent.kind() {
            "compound_statement" | "translation_unit" | "else_clause" | "labeled_statement"
            | "preproc_ifdef" | "preproc_if" | "preproc_else" | "preproc_elif" | "ERROR" => {
                node.kind().ends_with("_statement") || node.kind() == "declaration"
            }
            "case_statement" => {
                parent.child_by_field_name("value") != Some(node)
                    && (node.kind().ends_with("_statement") || node.kind() == "declaration")
            }
            "block" => true,
            "if_statement" => {
                parent.child_by_field_name("condition") != Some(node)
                    && parent.child_by_field_name("consequence") == Some(node)
            }
            "while_statement" | "for_statement" | "for_range_loop" | "do_statement" => {
                parent.child_by_field_name("body") == Some(node)
            }
            _ => false,
        }
    }

    /// The function around a node: its whole definition.
    pub(crate) fn function<'t>(&self, node: Node<'t>) -> Option<Node<'t>> {
        ancestors(node).find(|node| matches!(node.kind(), "function_definition" | "function_item"))
    }

    /// Can control leave between two places of one block?
    pub(crate) fn jumps_between(&self, from: usize, to: usize) -> bool {
        descendants(self.root()).iter().any(|node| {
            let inside = node.start_byte() >= from && node.end_byte() <= to;
            let leaves = LEAVES.contains(&node.kind()) || node.kind() == "try_expression";
            inside && (leaves || HEADS.contains(&node.kind()))
        })
    }
}

/// In brackets, if it is more than a row of names, fields and indices.
pub(crate) fn grouped(text: &str) -> String {
    let mut depth = 0;
    let plain = text.chars().all(|c| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        depth > 0 || c.is_alphanumeric() || "_.->])".contains(c)
    });
    let wrapped = text.starts_with('(') && closes_at_the_end(text);
    if (plain || text.replace("::", "").chars().all(|c| c.is_alphanumeric() || "_.->".contains(c))) || wrapped
    {
        text.to_owned()
    } else {
        format!("({text})")
    }
}

/// Is the first bracket closed by the last character?
fn closes_at_the_end(text: &str) -> bool {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return at + 1 == text.len();
        }
    }
    false
}

/// Without brackets around the whole.
pub(crate) fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    if text.starts_with('(') && closes_at_the_end(text) { unwrapped(&text[1..text.len() - 1]) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(marked: &str, language: Language) -> Result<(String, bool), Trouble> {
        let at = marked.find('@').expect("a mark");
        let text = marked.replacen('@', "", 1);
        let source = Source::new(&text, language).expect("a tree");
        source.statement(at).map(|found| (source.text(found.node).to_owned(), found.naked))
    }

    #[test]
    fn statements_of_c_and_rust() {
        let c = |text: &str| statement(text, Language::C);
        let in_function = |body: &str| format!("void f(void) {{\n{body}\n}}\n");
        for (body, expected, naked) in [
            ("a @= 1; b = 2;", "a = 1;", false),
            ("if (x)\n  a @= 1;\nelse\n  b = 2;", "a = 1;", true),
            ("if (x)\n  a = 1;\nelse\n  b @= 2;", "b = 2;", true),
            ("for (;;)\n  a[i] @= 1;", "a[i] = 1;", true),
            ("switch (x) {\ncase 3:\n  n->v @= 1;\n  break;\n}", "n->v = 1;", false),
            ("again:\n  n->v @= 1;", "n->v = 1;", false),
            ("TX_BEGIN(pop) {\n  D_RW(n)->v @= 1;\n} TX_END", "D_RW(n)->v = 1;", false),
        ] {
            assert_eq!(c(&in_function(body)), Ok((expected.to_owned(), naked)), "{body}");
        }
        for (body, expected) in [
            ("while (!@cas(&h, &e, n))\n;", Trouble::InCondition),
            ("for (i @= 0; i < 3; i++)\nx();", Trouble::InCondition),
            ("if (a @= 1)\nx();", Trouble::InCondition),
            ("return p->x @= 3;", Trouble::Leaves),
        ] {
            assert_eq!(c(&in_function(body)), Err(expected), "{body}");
        }
        let rust = |text: &str| statement(text, Language::Rust).map(|found| found.0);
        for (text, expected) in [
            ("fn f() { @e.key = 1; g(); }", "e.key = 1;"),
            ("fn f() { if x { e.key.@store(1, R) } }", "e.key.store(1, R)"),
            ("fn f() { unsafe { p.@write(3) }; }", "p.write(3)"),
            ("fn f() { let old = x.@swap(1, R); }", "let old = x.swap(1, R);"),
        ] {
            assert_eq!(rust(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(rust("fn f() { while !x.@cas(1) { } }"), Err(Trouble::InCondition));
        assert_eq!(rust("fn f() -> u64 { return x.@swap(1, R); }"), Err(Trouble::Leaves));
    }
}
