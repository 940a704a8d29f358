//! A flush that covers too little is extended; several fields of one object are flushed as one.

use tree_sitter::Node;

use crate::object::{Object, Reader, Step, Target, parent};
use crate::project::{Helper, Project, Shape, library};
use crate::syntax::{Language, Statement, ancestors, descendants};

/// A call in the source that flushes.
#[derive(Clone, Debug)]
pub(crate) struct Call<'t> {
    pub(crate) node: Node<'t>,
    pub(crate) helper: Helper,
    pub(crate) arguments: Vec<Node<'t>>,
}

/// What a call flushes, as far as its name and arguments tell.
pub(crate) fn flush_call<'t>(reader: &Reader, node: Node<'t>) -> Option<Call<'t>> {
    if node.kind() != "call_expression" {
        return None;
    }
    let name = reader.callee(node);
    let arguments = reader.arguments(node);
    let helper = reader
        .project
        .helper(name)
        .or_else(|| library(name))
        .or_else(|| by_name(reader, name, &arguments))?;
    let wanted = match helper.shape {
        Shape::Range => helper.leading + 2,
        Shape::Line | Shape::Value => helper.leading + 1,
        Shape::Fence => 0,
    };
    (arguments.len() == wanted).then_some(Call { node, helper, arguments })
}

/// A function that is defined elsewhere: `x_persist(p, sizeof *p)`.
fn by_name(reader: &Reader, name: &str, arguments: &[Node]) -> Option<Helper> {
    let lower = name.to_lowercase();
    let fences = lower.contains("persist");
    if !fences && !lower.contains("flush") {
        return None;
    }
    let helper =
        |shape, leading| Some(Helper { shape, fences, leading, takes: String::new(), is_unsafe: false });
    let is_length = |node: &Node| {
        let text = reader.source.text(*node).to_lowercase();
        ["size", "len", "bytes"].iter().any(|word| text.contains(word))
            || text.trim().bytes().all(|byte| byte.is_ascii_digit())
    };
    if reader.source.language == Language::Rust {
        return match arguments {
            [one] if fences && (name == "persist" || reader.source.text(*one).starts_with('&')) => {
                helper(Shape::Value, 0)
            }
            [_, length] if fences && is_length(length) => helper(Shape::Range, 0),
            _ => None,
        };
    }
    match arguments {
        [.., _, length] if fences && is_length(length) => helper(Shape::Range, arguments.len() - 2),
        _ => None,
    }
}

/// How an existing flush is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(crate) object: Object,
    pub(crate) path: Vec<Step>,
}

/// The object that covers both what a call flushes and what is lost, if it is the natural one to flush.
fn covering(reader: &Reader, call: &[Step], target: &Target, statement: &Statement) -> Option<Extension> {
    let lost = &target.path;
    let common = call.iter().zip(lost).take_while(|(a, b)| a.key == b.key).count();
    if common == 0 {
        return None;
    }
    let object = |steps: &[Step]| {
        let last = steps.last()?;
        Some(Extension { object: last.object.clone(), path: steps.to_vec() })
    };
    if common == call.len() && common == lost.len() {
        return Some(Extension { object: target.object.clone(), path: lost.clone() });
    }
    let small = is_small(reader, &lost[..common], statement);
    // The call names the object itself: `persist(s, 8)` and `s->val`.
    if common == call.len() {
        let own_field = parent(lost).is_some_and(|parent| parent.len() == common);
        let plain = lost[common..].iter().all(|step| step.key.starts_with('['));
        if plain {
            return object(&lost[..common]);
        }
        return (small == Some(true) || own_field && small.is_none()).then(|| object(&lost[..common]))?;
    }
    // Both are fields of one object.
    let both = parent(call)?.len() == common && parent(lost)?.len() == common;
    let known = small == Some(true) || small.is_none() && reader.source.language == Language::Rust;
    (both && known).then(|| object(&lost[..common]))?
}

/// Is the object that a path names of a type that is known to be small?
pub(crate) fn is_small(reader: &Reader, path: &[Step], statement: &Statement) -> Option<bool> {
    let name = type_name(reader, path, statement.node, 3)?;
    reader.project.is_small(&name)
}

/// The struct that a path names, by declarations around it and fields of structs.
fn type_name(reader: &Reader, path: &[Step], at: Node, depth: usize) -> Option<String> {
    let (root, rest) = path.split_first()?;
    let mut name = declared(reader, &root.key, at, depth)?;
    for step in rest {
        if let Some(field) = step.key.strip_prefix('.') {
            name = reader.project.field_type(&name, field)?.to_owned();
        }
    }
    Some(name)
}

/// The last word of the type of a variable.
fn declared(reader: &Reader, variable: &str, at: Node, depth: usize) -> Option<String> {
    let word = |text: &str| {
        let text = text.split('<').next().unwrap_or(text);
        text.split(|c: char| !c.is_alphanumeric() && c != '_').rfind(|it| !it.is_empty()).map(str::to_owned)
    };
    let source = reader.source;
    if variable == "self" || variable == "this" {
        let owner = ancestors(at)
            .find(|it| matches!(it.kind(), "impl_item" | "class_specifier" | "struct_specifier"))?;
        let name = owner.child_by_field_name("type").or(owner.child_by_field_name("name"))?;
        return word(source.text(name));
    }
    let scope = source.function(at).unwrap_or(source.root());
    for node in descendants(scope).into_iter().chain(descendants(source.root())) {
        if node.start_byte() > at.start_byte() {
            continue;
        }
        match node.kind() {
            "parameter_declaration" | "declaration" => {
                let names = descendants(node).into_iter().filter(|it| it.kind() == "identifier");
                let declares = names.into_iter().any(|it| {
                    source.text(it) == variable
                        && ancestors(it)
                            .skip(1)
                            .take_while(|up| *up != node)
                            .all(|up| up.kind().ends_with("declarator"))
                });
                if declares && let Some(kind) = node.child_by_field_name("type") {
                    let name = kind.child_by_field_name("name").unwrap_or(kind);
                    return word(source.text(name)).filter(|it| it != "auto");
                }
            }
            "parameter" | "let_declaration" => {
                let pattern = node.child_by_field_name("pattern").map_or("", |it| source.text(it));
                if pattern.trim_start_matches("mut ") != variable {
                    continue;
                }
                if let Some(kind) = node.child_by_field_name("type") {
                    return word(source.text(kind));
                }
                if depth > 0
                    && let Some(value) = node.child_by_field_name("value")
                    && let Some(path) = reader.path_of_address(value)
                {
                    return type_name(reader, &path, node, depth - 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The flush after a statement that can be extended to cover what the statement stores, and what it is to flush then. `until` is
/// where the survivor is stored, if it is in the same function.
pub(crate) fn extension<'t>(
    reader: &Reader<'t>,
    statement: &Statement<'t>,
    target: &Target,
    until: Option<usize>,
) -> Option<(Call<'t>, Extension)> {
    if target.path.is_empty() {
        return None;
    }
    let from = statement.node.end_byte();
    let until = until.filter(|until| *until > from).unwrap_or(statement.block.end_byte());
    descendants(statement.block)
        .into_iter()
        .filter(|node| node.start_byte() >= from && node.end_byte() <= until)
        .filter(|node| reader.source.statement(node.start_byte()).is_ok_and(|it| it.block == statement.block))
        .filter(|node| !is_conditional(*node, statement.block))
        .filter_map(|node| flush_call(reader, node))
        .filter(|call| matches!(call.helper.shape, Shape::Range | Shape::Value))
        .find_map(|call| {
            let address = *call.arguments.get(call.helper.leading)?;
            let path = reader.path_of_address(address)?;
            let covering = covering(reader, &path, target, statement)?;
            Some((call, covering))
        })
}

/// Is a node within `#if`, and thus perhaps not compiled?
fn is_conditional(node: Node, block: Node) -> bool {
    ancestors(node).take_while(|up| *up != block).any(|up| up.kind().starts_with("preproc"))
}

/// The whole object, if the statements before store to other fields of it, and nothing was flushed between them.
pub(crate) fn whole(reader: &Reader, statement: &Statement, target: &Target) -> Option<Target> {
    let owner = parent(&target.path)?;
    if is_small(reader, owner, statement) != Some(true) {
        return None;
    }
    let mut before = statement.node.prev_named_sibling();
    while let Some(node) = before {
        if !matches!(node.kind(), "expression_statement" | "comment" | "line_comment" | "block_comment") {
            return None;
        }
        if descendants(node).into_iter().any(|it| flush_call(reader, it).is_some()) {
            return None;
        }
        let stored = node.named_child(0).and_then(|inner| {
            // Where the compiler would say the store is.
            let at = inner.child_by_field_name("operator").unwrap_or(inner).start_byte();
            reader.stored(at, None).ok()
        });
        let sibling = stored.is_some_and(|other| {
            let same = parent(&other.path)
                .is_some_and(|it| it.last().map(|it| &it.object) == owner.last().map(|it| &it.object));
            same && other.path.last().map(|it| &it.key) != target.path.last().map(|it| &it.key)
        });
        if sibling {
            let object = owner.last()?.object.clone();
            return Some(Target { object, small: false, path: owner.to_vec() });
        }
        before = node.prev_named_sibling();
    }
    None
}

/// Does this file's project know the name as one that flushes?
pub(crate) fn flushes(project: &Project, name: &str) -> bool {
    project.is_helper(name) || library(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Source;

    const HEAD: &str = "struct slot { long key; char val[32]; };\nstruct table { long count; struct slot slots[MAX]; };\n\
                        static void persist(const void *p, unsigned long n) { _mm_clwb((void *)p); _mm_sfence(); }\n";

    fn extended(body: &str) -> Option<(String, String)> {
        let marked = format!("{HEAD}void put(struct table *t, struct slot *s) {{\n{body}\n}}\n");
        let at = marked.find('@').expect("a mark");
        let text = marked.replacen('@', "", 1);
        let source = Source::new(&text, Language::C).expect("a tree");
        let mut project = Project::default();
        project.learn("a.c", &text);
        let reader = Reader { source: &source, project: &project };
        let statement = source.statement(at).expect("a statement");
        let target = reader.stored(at, Some(&statement)).expect("a target");
        extension(&reader, &statement, &target, None).map(|(_, found)| found.object.in_c())
    }

    #[test]
    fn calls_that_cover_too_little() {
        let both = |address: &str, length: &str| Some((address.to_owned(), length.to_owned()));
        let rest = "\n  t->count++;";
        for (body, expected) in [
            ("  @strncpy(s->val, v, 32);\n  persist(s, 8);", both("s", "sizeof(*s)")),
            ("  s->val[3] @= 1;\n  persist(&s->key, sizeof s->key);", both("s", "sizeof(*s)")),
            ("  @memcpy(s->val, v, n);\n  persist(s->val, 8);", both("s->val", "n")),
            (
                "  t->slots[i].key @= 1;\n  persist(t->slots[i].val, 32);",
                both("&t->slots[i]", "sizeof(t->slots[i])"),
            ),
            // The whole table is too much.
            ("  t->slots[i].key @= 1;\n  persist(&t->count, 8);", None),
            ("  t->slots[i].key @= 1;\n  persist(t, 8);", None),
            ("  s->key @= 1;\n  other(s, 8);", None),
        ] {
            assert_eq!(extended(&format!("{body}{rest}")), expected, "{body}");
        }
    }
}
