//! Objects in memory by the expressions of the source, and the paths of fields and indices that lead to them.

use tree_sitter::Node;

use crate::project::Project;
use crate::syntax::{Language, Source, Trouble, children, descendants, grouped, unwrapped};

/// An object in memory, by the expressions of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// A variable, field or element.
    Place(String),
    /// What a pointer points to.
    Pointed(String),
    /// From a pointer on: bytes in C, elements in Rust.
    Range { pointer: String, length: String },
}

/// A part of an access path: `s`, `*`, `.val`, `[i]`; and the object that the path up to it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) key: String,
    pub(crate) object: Object,
}

/// What is stored to, or loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) object: Object,
    /// Is it a plain variable or field, at most a word and thus within a line?
    pub(crate) small: bool,
    /// The path to it; empty if it is not a sequence of names, fields and indices.
    pub(crate) path: Vec<Step>,
}

impl Object {
    /// Address and length in C.
    pub(crate) fn in_c(&self) -> (String, String) {
        match self {
            Object::Place(place) => (format!("&{}", grouped(place)), format!("sizeof({place})")),
            Object::Pointed(pointer) => (pointer.clone(), format!("sizeof(*{})", grouped(pointer))),
            Object::Range { pointer, length } => (pointer.clone(), length.clone()),
        }
    }
}

/// A source with what is known of the project around it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) project: &'a Project,
}

/// Methods of atomics that access what they are called on.
const ATOMIC: [&str; 14] = [
    "store",
    "exchange",
    "fetch_add",
    "fetch_sub",
    "fetch_or",
    "fetch_and",
    "fetch_xor",
    "fetch_max",
    "fetch_min",
    "load",
    "swap",
    "compare_exchange",
    "compare_exchange_strong",
    "compare_exchange_weak",
];

pub(crate) fn is_atomic(name: &str) -> bool {
    ATOMIC.contains(&name)
}

/// Functions that give the same address or length however often they are called.
const PURE: [&str; 14] = [
    "D_RW",
    "D_RO",
    "pmemobj_direct",
    "DIRECT_RW",
    "DIRECT_RO",
    "get",
    "container_of",
    "offsetof",
    "strlen",
    "strnlen",
    "min",
    "max",
    "size",
    "data",
];

/// Methods that give the same place however often they are called.
const PURE_IN_RUST: [&str; 18] = [
    "as_ptr",
    "as_mut_ptr",
    "add",
    "offset",
    "cast",
    "get",
    "len",
    "as_ref",
    "as_mut",
    "deref",
    "deref_mut",
    "borrow",
    "borrow_mut",
    "as_slice",
    "as_mut_slice",
    "get_unchecked",
    "get_unchecked_mut",
    "size_of",
];

/// The path to the object whose field something is, elements of the field included.
pub(crate) fn parent(path: &[Step]) -> Option<&[Step]> {
    let field = path.iter().rposition(|step| step.key.starts_with('.'))?;
    let plain = path[field + 1..].iter().all(|step| step.key.starts_with('[') || step.key == "*");
    (plain && field > 0).then_some(&path[..field])
}

impl<'a> Reader<'a> {
    /// Does a function only give an address?
    pub(crate) fn gives_place(&self, name: &str) -> bool {
        let rust = self.source.language == Language::Rust && PURE_IN_RUST.contains(&name);
        PURE.contains(&name) || rust || self.project.is_pure(name)
    }

    /// A node that names a place in memory.
    pub(crate) fn lvalue(&self, node: Node) -> Result<Target, Trouble> {
        self.pure(node)?;
        let text = unwrapped(self.source.text(node));
        let inner = inside(node);
        let object = match inner.kind() {
            "pointer_expression" | "unary_expression" if text.starts_with('*') => {
                Object::Pointed(unwrapped(&text[1..]).to_owned())
            }
            "identifier"
            | "field_expression"
            | "subscript_expression"
            | "index_expression"
            | "qualified_identifier"
            | "call_expression"
            | "this"
            | "self" => Object::Place(text.to_owned()),
            _ => return Err(Trouble::NotUnderstood),
        };
        Ok(Target { object, small: true, path: self.path(node).unwrap_or_default() })
    }

    /// Can it be evaluated twice?
    pub(crate) fn pure(&self, node: Node) -> Result<(), Trouble> {
        let effects = || Err(Trouble::SideEffects(self.source.text(node).to_owned()));
        for part in descendants(node) {
            match part.kind() {
                "assignment_expression"
                | "update_expression"
                | "compound_assignment_expr"
                | "lambda_expression"
                | "await_expression"
                | "new_expression" => return effects(),
                "call_expression" => {
                    let name = self.callee(part);
                    if !self.gives_place(name) {
                        return effects();
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The last name of what is called.
    pub(crate) fn callee(&self, call: Node) -> &'a str {
        let Some(function) = call.child_by_field_name("function") else { return "" };
        let text = self.source.text(function);
        let text = text.split("::<").next().unwrap_or(text);
        let start = text.rfind(['.', '>', ':']).map_or(0, |at| at + 1);
        text[start..].trim()
    }

    pub(crate) fn arguments<'t>(&self, call: Node<'t>) -> Vec<Node<'t>> {
        let Some(list) = call.child_by_field_name("arguments") else { return Vec::new() };
        children(list)
    }

    /// A row of names, fields, indices and dereferences.
    pub(crate) fn path(&self, node: Node) -> Option<Vec<Step>> {
        let text = unwrapped(self.source.text(node)).to_owned();
        let place = |key: String| Step { key, object: Object::Place(text.clone()) };
        let rust = self.source.language == Language::Rust;
        Some(match node.kind() {
            "identifier" | "this" | "self" | "qualified_identifier" | "scoped_identifier" => {
                vec![place(text.clone())]
            }
            "call_expression" => vec![place(text.clone())],
            "parenthesized_expression" => self.path(node.named_child(0)?)?,
            "field_expression" => {
                let object = node.child_by_field_name(if rust { "value" } else { "argument" })?;
                let field = node.child_by_field_name("field")?;
                let mut path = self.path(object)?;
                let arrow =
                    node.child_by_field_name("operator").is_some_and(|it| self.source.text(it) == "->");
                if arrow {
                    let pointer = unwrapped(self.source.text(object)).to_owned();
                    path.push(Step { key: "*".into(), object: Object::Pointed(pointer) });
                }
                path.push(place(format!(".{}", self.source.text(field))));
                path
            }
            "subscript_expression" => {
                let mut path = self.path(node.child_by_field_name("argument")?)?;
                let from = node.child_by_field_name("argument")?.end_byte() - node.start_byte();
                path.push(place(self.source.text(node)[from..].trim().to_owned()));
                path
            }
            "index_expression" => {
                let mut path = self.path(node.named_child(0)?)?;
                path.push(place(format!("[{}]", self.source.text(node.named_child(1)?))));
                path
            }
            "pointer_expression" if text.starts_with('*') => {
                let pointer = node.child_by_field_name("argument")?;
                let mut path = self.path(pointer)?;
                let pointer = unwrapped(self.source.text(pointer)).to_owned();
                path.push(Step { key: "*".into(), object: Object::Pointed(pointer) });
                path
            }
            // Rust dereferences by itself.
            "unary_expression" if rust && text.starts_with('*') => {
                let mut path = self.path(node.named_child(0)?)?;
                let last = path.last_mut()?;
                last.object = Object::Pointed(unwrapped(&text[1..]).to_owned());
                path
            }
            _ => return None,
        })
    }

    /// The path to what an address points to.
    pub(crate) fn path_of_address(&self, node: Node) -> Option<Vec<Step>> {
        if self.source.language == Language::Rust {
            return path_of_reference(self, node);
        }
        let text = self.source.text(node);
        match node.kind() {
            "parenthesized_expression" => self.path_of_address(node.named_child(0)?),
            "cast_expression" => self.path_of_address(node.child_by_field_name("value")?),
            "pointer_expression" if text.starts_with('&') => self.path(node.child_by_field_name("argument")?),
            "call_expression" if self.callee(node).ends_with("_cast") => {
                self.path_of_address(*self.arguments(node).first()?)
            }
            _ => {
                let mut path = self.path(node)?;
                path.push(Step { key: "*".into(), object: Object::Pointed(unwrapped(text).to_owned()) });
                Some(path)
            }
        }
    }
}

/// The path to what an expression refers or points to.
fn path_of_reference(reader: &Reader, node: Node) -> Option<Vec<Step>> {
    match node.kind() {
        "reference_expression" => reader.path(node.child_by_field_name("value")?),
        "parenthesized_expression" => path_of_reference(reader, node.named_child(0)?),
        "type_cast_expression" => path_of_reference(reader, node.child_by_field_name("value")?),
        "call_expression" if matches!(reader.callee(node), "cast" | "as_ptr" | "as_mut_ptr") => {
            path_of_reference(reader, node.child_by_field_name("function")?.child_by_field_name("value")?)
        }
        "call_expression" if matches!(reader.callee(node), "from_ref" | "from_mut") => {
            path_of_reference(reader, *reader.arguments(node).first()?)
        }
        _ => reader.path(node),
    }
}

/// A node without brackets around it.
fn inside(node: Node) -> Node {
    match node.kind() {
        "parenthesized_expression" => node.named_child(0).map_or(node, inside),
        _ => node,
    }
}
