//! What C and C++ store to: assignments, atomics, copies, and macros of the project.

use tree_sitter::Node;

use crate::object::{Object, Reader, Step, Target, is_atomic, parent};
use crate::syntax::{Source, Trouble, descendants, unwrapped};

/// What a node stores to, if it does.
pub(crate) fn access(reader: &Reader, node: Node) -> Option<Result<Target, Trouble>> {
    match node.kind() {
        "assignment_expression" => Some(reader.lvalue(node.child_by_field_name("left")?)),
        "update_expression" => Some(reader.lvalue(node.child_by_field_name("argument")?)),
        "call_expression" => Some(called(reader, node)),
        _ => None,
    }
}

/// A call that stores, or loads, by its arguments.
fn called(reader: &Reader, call: Node) -> Result<Target, Trouble> {
    let name = reader.callee(call);
    let arguments = reader.arguments(call);
    let argument = |number: usize| -> Result<Node, Trouble> {
        let node = *arguments.get(number).ok_or(Trouble::NotUnderstood)?;
        reader.pure(node)?;
        Ok(node)
    };
    let text = |node: Node| unwrapped(reader.source.text(node)).to_owned();
    let range = |length: String| -> Result<Target, Trouble> {
        let pointer = argument(0)?;
        let path = reader.path_of_address(pointer).unwrap_or_default();
        Ok(Target { object: Object::Range { pointer: text(pointer), length }, small: false, path })
    };
    let bare = name.trim_start_matches("__builtin_").trim_start_matches("__").trim_end_matches("_chk");
    match bare {
        "memcpy"
        | "memmove"
        | "memset"
        | "strncpy"
        | "pmem_memcpy_nodrain"
        | "pmem_memset_nodrain"
        | "pmem_memmove_nodrain"
        | "mempcpy"
        | "fread" => range(text(argument(2)?)),
        "bzero" | "explicit_bzero" | "snprintf" => range(text(argument(1)?)),
        "strcpy" | "strcat" | "sprintf" | "stpcpy" => range(format!("strlen({}) + 1", text(argument(0)?))),
        _ if ["atomic_", "sync_", "c11_atomic_"].iter().any(|prefix| bare.starts_with(prefix)) => {
            let pointer = argument(0)?;
            let path = reader.path_of_address(pointer).unwrap_or_default();
            let pointer = text(pointer);
            let object = match pointer.strip_prefix('&') {
                Some(object) => Object::Place(unwrapped(object).to_owned()),
                None => Object::Pointed(pointer),
            };
            Ok(Target { object, small: true, path })
        }
        _ if is_atomic(bare) => {
            let function = call.child_by_field_name("function").filter(|it| it.kind() == "field_expression");
            let function = function.ok_or_else(|| Trouble::InCall(name.to_owned()))?;
            let object = function.child_by_field_name("argument").ok_or(Trouble::NotUnderstood)?;
            reader.pure(object)?;
            let pointer =
                function.child_by_field_name("operator").is_some_and(|it| reader.source.text(it) == "->");
            let mut path = reader.path(object).unwrap_or_default();
            let object = match pointer {
                true => Object::Pointed(text(object)),
                false => Object::Place(text(object)),
            };
            if pointer && !path.is_empty() {
                path.push(Step { key: "*".into(), object: object.clone() });
            }
            Ok(Target { object, small: true, path })
        }
        _ => expanded(reader, name, &arguments),
    }
}

/// A macro of the project that stores: what it assigns to, with its arguments put in.
fn expanded(reader: &Reader, name: &str, arguments: &[Node]) -> Result<Target, Trouble> {
    let in_call = || Trouble::InCall(name.to_owned());
    let stored = reader.project.assigned_by(name).ok_or_else(in_call)?;
    for argument in arguments {
        reader.pure(*argument)?;
    }
    let texts: Vec<&str> = arguments.iter().map(|node| reader.source.text(*node)).collect();
    let mut targets = Vec::new();
    for place in stored {
        let text = place.with(&texts);
        // Read as an expression of its own.
        let wrapper = format!("void f(void) {{\n{text} = 0;\n}}\n");
        let inner = Source::new(&wrapper, reader.source.language).ok_or_else(in_call)?;
        let reader = Reader { source: &inner, project: reader.project };
        let assignment =
            descendants(inner.root()).into_iter().find(|it| it.kind() == "assignment_expression");
        let place = assignment.and_then(|it| it.child_by_field_name("left")).ok_or_else(in_call)?;
        targets.push(reader.lvalue(place).map_err(|_| in_call())?);
    }
    match &targets[..] {
        [one] => Ok(one.clone()),
        [first, rest @ ..] => {
            // Several fields of one object.
            let owner = parent(&first.path).ok_or_else(in_call)?;
            let same = |other: &Target| parent(&other.path).is_some_and(|it| it.last() == owner.last());
            if !rest.iter().all(same) {
                return Err(in_call());
            }
            let object = owner.last().ok_or_else(in_call)?.object.clone();
            Ok(Target { object, small: false, path: owner.to_vec() })
        }
        [] => Err(in_call()),
    }
}
