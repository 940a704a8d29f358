//! Stores in transactions of libpmemobj: what is not added is neither undone nor flushed, so it is added before the store.

use tree_sitter::Node;

use crate::object::{Object, Reader, Target};
use crate::syntax::{Language, Statement, ancestors};

/// Names that only stand in transactions.
const INSIDE: [&str; 8] =
    ["TX_ADD", "TX_SET", "TX_NEW", "TX_ZNEW", "TX_ALLOC", "TX_MEMCPY", "pmemobj_tx_add", "pmemobj_tx_alloc"];

/// The statement that adds the target of a store to the transaction; `None` outside transactions.
pub(crate) fn adds(reader: &Reader, statement: &Statement, target: &Target) -> Option<String> {
    if reader.source.language == Language::Rust {
        return None;
    }
    if in_lambda(reader, statement.node) {
        let (address, _) = target.object.in_c();
        return Some(format!("pmem::obj::transaction::snapshot({address});"));
    }
    let macros = in_macro(reader, statement.node);
    let function = reader.source.function(statement.node).map_or("", |node| reader.source.text(node));
    if !macros && !INSIDE.iter().any(|name| function.contains(name)) {
        return None;
    }
    let (address, length) = target.object.in_c();
    Some(match (&target.object, &target.path[..]) {
        (Object::Place(_), [root, pointer, field])
            if pointer.key == "*" && field.key.starts_with('.') && uses_macros(reader) =>
        {
            let field = &field.key[1..];
            match ["D_RW(", "D_RO("].iter().find_map(|name| root.key.strip_prefix(name)?.strip_suffix(')')) {
                Some(object) => format!("TX_ADD_FIELD({object}, {field});"),
                None => format!("TX_ADD_FIELD_DIRECT({}, {field});", root.key),
            }
        }
        _ => format!("pmemobj_tx_add_range_direct({address}, {length});"),
    })
}

fn uses_macros(reader: &Reader) -> bool {
    reader.source.text.contains("TX_ADD") || reader.source.text.contains("TX_SET")
}

/// Between `TX_BEGIN(pop) {` and `} TX_END`?
fn in_macro(reader: &Reader, node: Node) -> bool {
    ancestors(node).filter(|node| node.kind() == "compound_statement").any(|block| {
        let before = reader.source.text[..block.start_byte()].trim_end();
        let line = before.rfind(['\n', ';', '{', '}']).map_or(before, |at| &before[at + 1..]);
        line.trim_start().starts_with("TX_BEGIN") || line.trim_start().starts_with("TX_ONCOMMIT")
    })
}

/// In a function that is given to `transaction::run`?
fn in_lambda(reader: &Reader, node: Node) -> bool {
    ancestors(node).filter(|node| node.kind() == "lambda_expression").any(|lambda| {
        ancestors(lambda).skip(1).find(|node| node.kind() == "call_expression").is_some_and(|call| {
            let function = call.child_by_field_name("function").map_or("", |it| reader.source.text(it));
            function.contains("transaction") || function.ends_with("exec_tx")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;
    use crate::syntax::Source;

    fn added(marked: &str, language: Language) -> Option<String> {
        let at = marked.find('@').expect("a mark");
        let text = marked.replacen('@', "", 1);
        let source = Source::new(&text, language).expect("a tree");
        let project = Project::default();
        let reader = Reader { source: &source, project: &project };
        let statement = source.statement(at).expect("a statement");
        let target = reader.stored(at, Some(&statement)).expect("a target");
        adds(&reader, &statement, &target)
    }

    #[test]
    fn stores_in_transactions() {
        let c = |body: &str| added(&format!("void f(void) {{\n{body}\n}}\n"), Language::C);
        let tx = |body: &str| c(&format!("  TX_BEGIN(pop) {{\n    {body}\n  }} TX_END"));
        assert_eq!(tx("r->a @= 1;").as_deref(), Some("pmemobj_tx_add_range_direct(&r->a, sizeof(r->a));"));
        assert_eq!(tx("TX_ADD(root);\n D_RW(n)->v @= 1;").as_deref(), Some("TX_ADD_FIELD(n, v);"));
        assert_eq!(tx("TX_ADD(root);\n n->v @= 1;").as_deref(), Some("TX_ADD_FIELD_DIRECT(n, v);"));
        assert_eq!(
            c("pmemobj_tx_add_range_direct(r, 8);\n r->b @= 1;").as_deref(),
            Some("pmemobj_tx_add_range_direct(&r->b, sizeof(r->b));")
        );
        assert_eq!(c("r->b @= 1;"), None);
        let cxx = "void f() { pmem::obj::transaction::run(pop, [&] { root->count @= 1; }); }";
        assert_eq!(
            added(cxx, Language::Cxx).as_deref(),
            Some("pmem::obj::transaction::snapshot(&root->count);")
        );
    }
}
