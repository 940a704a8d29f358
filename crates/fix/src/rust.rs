//! What Rust stores to: assignments, atomics, slices, raw pointers.

use tree_sitter::Node;

use crate::object::{Object, Reader, Target, is_atomic};
use crate::syntax::{Trouble, ancestors, unwrapped};

/// What a node stores to, if it does.
pub(crate) fn access(reader: &Reader, node: Node) -> Option<Result<Target, Trouble>> {
    match node.kind() {
        "assignment_expression" | "compound_assignment_expr" => {
            Some(reader.lvalue(node.child_by_field_name("left")?))
        }
        "call_expression" => called(reader, node),
        _ => None,
    }
}

fn called(reader: &Reader, call: Node) -> Option<Result<Target, Trouble>> {
    let function = call.child_by_field_name("function")?;
    let name = reader.callee(call);
    let arguments = reader.arguments(call);
    // `addr_of_mut!(x)`, `&mut x`, `&raw mut x`: the place itself.
    let behind = |pointer: Node| -> Result<Target, Trouble> {
        if let Some(place) = referenced(reader, pointer) {
            return place;
        }
        reader.pure(pointer)?;
        let text = unwrapped(reader.source.text(pointer)).to_owned();
        let path = reader.path_of_address(pointer).unwrap_or_default();
        Ok(Target { object: Object::Pointed(text), small: true, path })
    };
    let range = |pointer: Node, length: Node| -> Result<Target, Trouble> {
        reader.pure(pointer)?;
        reader.pure(length)?;
        let text = |node| unwrapped(reader.source.text(node)).to_owned();
        let path = reader.path_of_address(pointer).unwrap_or_default();
        Ok(Target {
            object: Object::Range { pointer: text(pointer), length: text(length) },
            small: false,
            path,
        })
    };
    let first = || arguments.first().copied().ok_or(Trouble::NotUnderstood);
    let argument = |number: usize| arguments.get(number).copied().ok_or(Trouble::NotUnderstood);
    if function.kind() == "field_expression" {
        let receiver = function.child_by_field_name("value")?;
        let small = |small: bool| {
            reader.lvalue(receiver).map(|target| Target { small: target.small && small, ..target })
        };
        return Some(match name {
            _ if is_atomic(name) || matches!(name, "fetch_update" | "fetch_nand") => small(true),
            "copy_from_slice" | "clone_from_slice" | "fill" | "copy_within" | "reverse" | "sort" | "swap"
            | "rotate_left" | "rotate_right" | "write_all" => small(false),
            "write" | "write_volatile" | "write_unaligned" if arguments.len() == 1 => behind(receiver),
            "copy_from" | "copy_from_nonoverlapping" | "write_bytes" => {
                argument(1).and_then(|length| range(receiver, length))
            }
            "set" | "replace" if arguments.len() == 1 => small(true),
            _ => return ancestor_or(reader, call, name),
        });
    }
    Some(match name {
        "write" | "write_volatile" | "write_unaligned" if arguments.len() == 2 => first().and_then(behind),
        "replace" | "swap" | "take" => first().and_then(behind),
        "copy_nonoverlapping" | "copy" => argument(1).and_then(|to| range(to, argument(2)?)),
        "write_bytes" => first().and_then(|to| range(to, argument(2)?)),
        _ => return ancestor_or(reader, call, name),
    })
}

/// A call that is a part of what is stored elsewhere tells nothing; on its own it hides the store.
fn ancestor_or(reader: &Reader, call: Node, name: &str) -> Option<Result<Target, Trouble>> {
    let inside = ancestors(call).skip(1).take_while(|node| node.kind() != "block");
    let around = inside.filter(|node| {
        matches!(node.kind(), "assignment_expression" | "compound_assignment_expr" | "call_expression")
    });
    let left = around.filter(|node| {
        node.child_by_field_name("left").or(node.child_by_field_name("function")).is_some_and(|part| {
            part.byte_range().contains(&call.start_byte()) && part.end_byte() >= call.end_byte()
        })
    });
    if left.count() > 0 || reader.gives_place(name) {
        return None;
    }
    Some(Err(Trouble::InCall(name.to_owned())))
}

/// The place of `&mut place`, `&raw mut place` or `addr_of_mut!(place)`.
fn referenced(reader: &Reader, node: Node) -> Option<Result<Target, Trouble>> {
    match node.kind() {
        "reference_expression" => Some(reader.lvalue(node.child_by_field_name("value")?)),
        "macro_invocation" if reader.source.text(node).contains("addr_of") => {
            let text = reader.source.text(node);
            let inside = text.split_once('!')?.1.trim();
            let place = unwrapped(inside).to_owned();
            Some(Ok(Target { object: Object::Place(place), small: true, path: Vec::new() }))
        }
        "parenthesized_expression" => referenced(reader, node.named_child(0)?),
        "type_cast_expression" => referenced(reader, node.child_by_field_name("value")?),
        _ => None,
    }
}

/// Is unsafe code allowed here?
pub(crate) fn is_unsafe(reader: &Reader, node: Node) -> bool {
    ancestors(node).any(|node| match node.kind() {
        "unsafe_block" => true,
        "function_item" => {
            let text = reader.source.text(node);
            text[..text.find('(').unwrap_or(0)].contains("unsafe")
        }
        _ => false,
    })
}
