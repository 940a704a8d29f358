//! What a statement stores to or loads from, as an expression that can be named again for a flush.

use tree_sitter::Node;

use crate::object::{Reader, Target};
use crate::syntax::{Language, Statement, Trouble, ancestors, descendants};
use crate::{c, rust};

impl Reader<'_> {
    /// What is stored to at a byte.
    pub(crate) fn stored(&self, offset: usize, statement: Option<&Statement>) -> Result<Target, Trouble> {
        let node = self.source.at(offset).ok_or(Trouble::NotThere)?;
        let limit = statement.map(|statement| statement.node);
        let mut trouble = Trouble::NotUnderstood;
        for node in ancestors(node).take_while(|node| limit.is_none_or(|limit| limit.parent() != Some(*node)))
        {
            if self.source.function(node) == Some(node) {
                break;
            }
            match self.access(node) {
                Some(Ok(target)) => return Ok(target),
                Some(Err(other)) => {
                    trouble = other;
                    break;
                }
                None => {}
            }
        }
        // The only access of the statement, if the place is beside it.
        if trouble == Trouble::NotUnderstood
            && let Some(limit) = limit
        {
            let all: Vec<_> = descendants(limit).into_iter().filter_map(|node| self.access(node)).collect();
            let mut stores = all.iter().filter(|found| found.is_ok());
            if let (Some(one), None) = (stores.next(), stores.next()) {
                return one.clone();
            }
        }
        Err(trouble)
    }

    /// What a node stores to, if it does.
    fn access(&self, node: Node) -> Option<Result<Target, Trouble>> {
        match self.source.language {
            Language::Rust => rust::access(self, node),
            _ => c::access(self, node),
        }
    }

    /// What is loaded at a byte.
    pub(crate) fn loaded(&self, offset: usize) -> Result<Target, Trouble> {
        let mut node = self.source.at(offset).ok_or(Trouble::NotThere)?;
        let call = ancestors(node).find(|node| node.kind() == "call_expression");
        if let Some(call) = call
            && let Some(function) = call.child_by_field_name("function")
            && function.byte_range().contains(&offset)
        {
            return self.access(call).unwrap_or(Err(Trouble::NotUnderstood));
        }
        if node.kind() == "field_identifier" {
            node = node.parent().ok_or(Trouble::NotUnderstood)?;
        }
        while let Some(parent) = node.parent()
            && matches!(parent.kind(), "subscript_expression" | "index_expression" | "field_expression")
            && parent.start_byte() == node.start_byte()
            && (parent.kind() != "field_expression" || node.kind() != "field_expression")
        {
            node = parent;
        }
        if !matches!(
            node.kind(),
            "identifier"
                | "field_expression"
                | "subscript_expression"
                | "index_expression"
                | "pointer_expression"
        ) {
            return Err(Trouble::NotUnderstood);
        }
        self.lvalue(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::project::Project;
    use crate::syntax::Source;

    fn target(marked: &str, language: Language, loads: bool) -> Result<Target, Trouble> {
        let at = marked.find('@').expect("a mark");
        let text = marked.replacen('@', "", 1);
        let source = Source::new(&text, language).expect("a tree");
        let mut project = Project::default();
        project.learn("a.c", &text);
        let reader = Reader { source: &source, project: &project };
        if loads {
            return reader.loaded(at);
        }
        let statement = source.statement(at).ok();
        reader.stored(at, statement.as_ref())
    }

    fn address(body: &str) -> Result<(String, String), Trouble> {
        let text = format!("void f(void) {{\n{body}\n}}\n");
        target(&text, Language::Cxx, false).map(|target| target.object.in_c())
    }

    #[test]
    fn what_is_assigned() {
        for (source, expected, length) in [
            ("a->next @= b;", "&a->next", "sizeof(a->next)"),
            ("table.slot[i] @= 3;", "&table.slot[i]", "sizeof(table.slot[i])"),
            ("*p @= 3;", "p", "sizeof(*p)"),
            ("(*p).x @= 3;", "&(*p).x", "sizeof((*p).x)"),
            ("t->b[k % 4] @= 3;", "&t->b[k % 4]", "sizeof(t->b[k % 4])"),
            ("x @+= 3;", "&x", "sizeof(x)"),
            ("r->stat@++;", "&r->stat", "sizeof(r->stat)"),
            ("@++r->stat;", "&r->stat", "sizeof(r->stat)"),
            ("a = b->c @= 0;", "&b->c", "sizeof(b->c)"),
            ("@atomic_store(&q->head, h + 1);", "&q->head", "sizeof(q->head)"),
            ("@memcpy(n->key, key, sizeof key);", "n->key", "sizeof key"),
            ("@strcpy(n->key, key);", "n->key", "strlen(n->key) + 1"),
            ("@q->head.store(7);", "&q->head", "sizeof(q->head)"),
            ("long old = @atomic_fetch_add(&l->tail, 1);", "&l->tail", "sizeof(l->tail)"),
            ("if (x)\n n->v @= f(1, 2);\n", "&n->v", "sizeof(n->v)"),
            ("D_RW(root)->v @= 1;", "&D_RW(root)->v", "sizeof(D_RW(root)->v)"),
            ("pm::head @= 1;", "&pm::head", "sizeof(pm::head)"),
        ] {
            assert_eq!(address(source), Ok((expected.to_owned(), length.to_owned())), "{source}");
        }
    }

    #[test]
    fn what_cannot_be_named_says_why() {
        for (source, expected) in [
            ("@SET(p->x, 3);", Trouble::InCall("SET".into())),
            ("*p++ @= 3;", Trouble::SideEffects("*p++".into())),
            ("find(p)->x @= 3;", Trouble::SideEffects("find(p)->x".into())),
        ] {
            assert_eq!(address(source), Err(expected), "{source}");
        }
    }

    #[test]
    fn macros_and_accessors_of_the_project() {
        let head = "#define SET(place, value) do { (place) = (value); } while (0)\n\
                    #define LINK(a, b) do { (a)->next = (b); (a)->full = 1; } while (0)\n\
                    static struct slot *slot_at(struct table *t, long i) { return &t->slots[i]; }\n\
                    static long next(void) { return ++counter; }\n";
        let place = |body: &str| {
            let text = format!("{head}void f(void) {{\n{body}\n}}\n");
            target(&text, Language::C, false).map(|target| target.object.in_c().0)
        };
        assert_eq!(place("@SET(x->at, 1);").as_deref(), Ok("&x->at"));
        assert_eq!(place("@LINK(a, b);").as_deref(), Ok("a"));
        assert_eq!(place("slot_at(t, 3)->v @= 1;").as_deref(), Ok("&slot_at(t, 3)->v"));
        assert!(matches!(place("t[next()] @= 1;"), Err(Trouble::SideEffects(_))));
    }

    #[test]
    fn what_is_loaded() {
        for (source, expected) in [
            ("long r = @atomic_load(&x.at);", "&x.at"),
            ("r = p->@x;", "&p->x"),
            ("r = q.a->b[2].@c + 1;", "&q.a->b[2].c"),
            ("r = @table[i];", "&table[i]"),
            ("auto r = q->@load();", "q"),
            ("while (tail - @atomic_load(&q->head) == 8)\n  f();", "&q->head"),
            ("do { } while (!@atomic_compare_exchange_strong(&s->head, &h, n));", "&s->head"),
            ("if (r->@x)\n  f();", "&r->x"),
        ] {
            let text = format!("void f(void) {{\n{source}\n}}\n");
            let found = target(&text, Language::Cxx, true).map(|target| target.object.in_c().0);
            assert_eq!(found.as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_rust_stores_to() {
        let stored = |body: &str| {
            let marked = format!("fn f() {{\n{body}\n}}\n");
            let at = marked.find('@').expect("a mark");
            let text = marked.replacen('@', "", 1);
            let source = Source::new(&text, Language::Rust).expect("a tree");
            let project = Project::default();
            let statement = source.statement(at).ok();
            let reader = Reader { source: &source, project: &project };
            reader.stored(at, statement.as_ref()).map(|target| target.object)
        };
        let place = |text: &str| Ok(Object::Place(text.to_owned()));
        let pointed = |text: &str| Ok(Object::Pointed(text.to_owned()));
        for (body, expected) in [
            ("@e.key = key;", place("e.key")),
            ("@self.entries[n].value += 1;", place("self.entries[n].value")),
            ("unsafe { @(*p).x = 3 };", place("(*p).x")),
            ("@*slot = 3;", pointed("slot")),
            ("log.len.@store(n as u64 + 1, Ordering::Release);", place("log.len")),
            ("e.name[..8].@copy_from_slice(&key.to_le_bytes());", place("e.name[..8]")),
            ("unsafe { p.@write(3) };", pointed("p")),
            ("unsafe { @ptr::write_volatile(addr_of_mut!((*c).value), v) };", place("(*c).value")),
            ("unsafe { @write_volatile(&raw mut (*c).value, v); }", place("(*c).value")),
        ] {
            assert_eq!(stored(body), expected, "{body}");
        }
        let range = Object::Range { pointer: "dst.add(8)".into(), length: "n".into() };
        assert_eq!(stored("unsafe { @ptr::copy_nonoverlapping(src, dst.add(8), n) }"), Ok(range));
        assert_eq!(stored("@fill_in(&mut e);"), Err(Trouble::InCall("fill_in".into())));
        assert!(matches!(stored("table[next()].@store(1, R);"), Err(Trouble::SideEffects(_))));
    }
}
