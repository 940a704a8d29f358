//! How a program flushes: the way its function, its file or its project does it already.

use tree_sitter::Node;

use crate::extend::{Call, Extension, flush_call, flushes};
use crate::object::{Object, Reader, Target};
use crate::project::{Helper, Shape, library};
use crate::rust;
use crate::syntax::{Language, Statement, descendants, grouped};

/// The project's own words for flushing and fencing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Macros {
    /// Flushes; `{addr}` and `{len}` stand for what.
    pub flush: String,
    /// The fence code; `None` if `flush` fences, too.
    pub fence: Option<String>,
}

/// A way to flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// A library: what persists, what only flushes, what fences.
    Library(&'static str, &'static str, &'static str),
    /// A function or macro of the project, as it is called; what comes before the address; the fence, if it does none.
    Helper { callee: String, leading: Vec<String>, helper: Helper, fence: Option<String> },
    /// A function or macro of the project that flushes a line, called for each; the fence, if it does none.
    Lines { callee: String, fence: Option<String> },
    /// Intrinsics: the one that flushes.
    Intrinsics(String),
    /// `flush_range` of a memory map, and how its result is handled.
    Map { map: String, whole: bool, then: String },
    /// The user's own.
    Own(Macros),
}

const LIBPMEM: Style = Style::Library("pmem_persist", "pmem_flush", "pmem_drain");
const CRASHPROOF: Style = Style::Library("crashproof_persist", "crashproof_flush", "crashproof_drain");

/// What the intrinsics need.
pub(crate) const INTRINSICS_HEADER: &str = "#include <immintrin.h>";

/// A flush that is written out: what there is if no function does it.
fn intrinsic(reader: &Reader) -> Style {
    let text = reader.source.text;
    let name = ["_mm_clwb", "_mm_clflushopt"].into_iter().find(|name| text.contains(&format!("{name}(")));
    let name = name.unwrap_or("_mm_clflush");
    if reader.source.language != Language::Rust {
        return Style::Intrinsics(name.to_owned());
    }
    let imported =
        text.lines().any(|line| line.trim_start().starts_with("use ") && line.contains("arch::x86_64"));
    let prefix = if imported && text.contains("_mm_sfence") { "" } else { "std::arch::x86_64::" };
    Style::Intrinsics(format!("{prefix}{name}"))
}

impl Style {
    /// How to flush at a statement: as the function does it, else the file, else the project; intrinsics at last. `plain` asks
    /// for what needs no function of the project.
    pub(crate) fn at(
        reader: &Reader,
        statement: &Statement,
        target: Option<&Target>,
        macros: Option<&Macros>,
        plain: bool,
    ) -> Style {
        if let Some(macros) = macros {
            return Style::Own(macros.clone());
        }
        if plain {
            let calls = calls(reader, statement);
            let line = calls.iter().find(|call| call.helper.shape == Shape::Line);
            return line
                .map_or_else(|| intrinsic(reader), |call| spelled(reader, call, &calls))
                .written_out();
        }
        if let Some(target) = target
            && let Some(style) = of_map(reader, statement, target)
        {
            return style;
        }
        let calls = calls(reader, statement);
        let ranges = calls.iter().find(|call| matches!(call.helper.shape, Shape::Range | Shape::Value));
        if let Some(call) = ranges {
            return spelled(reader, call, &calls);
        }
        if let Some(style) = defined(reader, statement) {
            return style;
        }
        let lines = calls.iter().find(|call| call.helper.shape == Shape::Line);
        if let Some(call) = lines
            && library(reader.callee(call.node)).is_none()
        {
            return spelled(reader, call, &calls);
        }
        let text = reader.source.text;
        if reader.source.language == Language::Rust {
            return match text.contains("crashproof::") {
                true => Style::Helper {
                    callee: "crashproof::persist".into(),
                    leading: Vec::new(),
                    helper: Helper {
                        shape: Shape::Value,
                        fences: true,
                        leading: 0,
                        takes: "&T".into(),
                        is_unsafe: false,
                    },
                    fence: None,
                },
                false => intrinsic(reader),
            };
        }
        match lines {
            None if text.contains("<libpmem.h>") => LIBPMEM,
            None if text.contains("crashproof.h") => CRASHPROOF,
            _ => intrinsic(reader),
        }
    }

    /// The same for objects of any length, line by line.
    fn written_out(self) -> Style {
        match self {
            Style::Helper { callee, leading, helper, fence }
                if helper.shape == Shape::Line && leading.is_empty() =>
            {
                Style::Lines {
                    callee,
                    fence: (!helper.fences).then(|| fence.unwrap_or_else(|| "_mm_sfence".into())),
                }
            }
            other => other,
        }
    }

    /// Must a header be included first?
    pub(crate) fn missing_header(&self, reader: &Reader) -> Option<&'static str> {
        let included = ["<immintrin.h>", "<x86intrin.h>", "<emmintrin.h>", "<xmmintrin.h>"];
        let needs = matches!(self, Style::Intrinsics(_))
            && reader.source.language != Language::Rust
            && !included.iter().any(|name| reader.source.text.contains(name));
        needs.then_some(INTRINSICS_HEADER)
    }

    /// Statements that flush, and fence if `fence`.
    pub(crate) fn flush(
        &self,
        reader: &Reader,
        statement: &Statement,
        target: &Target,
        fence: bool,
    ) -> Vec<String> {
        if reader.source.language == Language::Rust {
            return self.flush_rust(reader, statement, target, fence);
        }
        let (address, length) = target.object.in_c();
        let mut code = Vec::new();
        match self {
            Style::Library(persist, ..) if fence => code.push(format!("{persist}({address}, {length});")),
            Style::Library(_, flush, _) => code.push(format!("{flush}({address}, {length});")),
            Style::Helper { callee, leading, helper, .. } => {
                let cast = cast_to(&helper.takes, &address);
                let mut arguments = leading.clone();
                match helper.shape {
                    Shape::Range => arguments.extend([cast, length]),
                    Shape::Value if helper.takes.contains('&') => arguments.push(value_of(&target.object)),
                    Shape::Value => arguments.push(address.clone()),
                    _ => arguments.push(cast),
                }
                code.push(format!("{callee}({});", arguments.join(", ")));
                code.extend((fence && !helper.fences).then(|| self.fence()));
            }
            Style::Intrinsics(flush) => {
                if target.small {
                    let object = if address.starts_with('&') { address.clone() } else { grouped(&address) };
                    code.push(format!("{flush}((void *){object});"));
                } else {
                    code.extend(line_by_line(flush, &address, &length));
                }
                code.extend(fence.then(|| self.fence()));
            }
            Style::Lines { callee, .. } => {
                code.extend(line_by_line(callee, &address, &length));
                code.extend(fence.then(|| self.fence()).filter(|fence| !fence.is_empty()));
            }
            Style::Own(macros) => {
                let text = macros.flush.replace("{addr}", &address).replace("{len}", &length);
                code.push(ended(&text));
                code.extend((fence && macros.fence.is_some()).then(|| self.fence()));
            }
            Style::Map { .. } => {}
        }
        code
    }

    fn flush_rust(
        &self,
        reader: &Reader,
        statement: &Statement,
        target: &Target,
        fence: bool,
    ) -> Vec<String> {
        let is_unsafe = rust::is_unsafe(reader, statement.node);
        let guarded = |code: String, needs: bool| {
            if needs && !is_unsafe { format!("unsafe {{ {} }};", code.trim_end_matches(';')) } else { code }
        };
        let raw_pointer = match &target.object {
            Object::Place(_) => false,
            Object::Pointed(pointer) => !is_reference(reader, statement, pointer),
            Object::Range { .. } => true,
        };
        let mut code = Vec::new();
        match self {
            Style::Helper { callee, helper, leading, .. } => {
                let mut arguments = leading.clone();
                match helper.shape {
                    Shape::Range => {
                        let (address, length) = bytes(&target.object, &helper.takes);
                        arguments.extend([address, length]);
                    }
                    Shape::Value if helper.takes.starts_with('*') => arguments.push(match &target.object {
                        Object::Place(place) => format!("&raw const {place}"),
                        Object::Pointed(pointer) | Object::Range { pointer, .. } => pointer.clone(),
                    }),
                    _ => arguments.push(reference(reader, statement, &target.object)),
                }
                let call = format!("{callee}({});", arguments.join(", "));
                code.push(guarded(
                    call,
                    helper.is_unsafe
                        || raw_pointer && helper.shape == Shape::Value && !helper.takes.starts_with('*'),
                ));
                code.extend((fence && !helper.fences).then(|| guarded(self.fence(), true)));
            }
            Style::Map { map, whole, then } => {
                let range = range_of(&target.object);
                code.push(match range.filter(|_| !whole) {
                    Some((start, length)) => format!("{map}.flush_range({start}, {length}){then};"),
                    None => format!("{map}.flush(){then};"),
                });
            }
            Style::Own(macros) => {
                let (address, length) = bytes(&target.object, "*const u8");
                code.push(ended(&macros.flush.replace("{addr}", &address).replace("{len}", &length)));
                code.extend((fence && macros.fence.is_some()).then(|| self.fence()));
            }
            Style::Intrinsics(flush) => {
                let (address, length) = bytes(&target.object, "usize");
                let fences =
                    if fence { format!("; {}", self.fence().trim_end_matches(';')) } else { String::new() };
                if target.small {
                    let (pointer, _) = bytes(&target.object, "*const u8");
                    code.push(guarded(format!("{flush}({pointer}){fences};"), true));
                } else {
                    code.push(format!(
                        "for line in (({address}) & !63..({address}) + {length}).step_by(64) {{"
                    ));
                    code.push(format!("    {}", guarded(format!("{flush}(line as *const u8);"), true)));
                    code.push("}".to_owned());
                    code.extend(fence.then(|| guarded(self.fence(), true)));
                }
            }
            Style::Library(..) | Style::Lines { .. } => {}
        }
        code
    }

    /// A statement that fences.
    pub(crate) fn fence(&self) -> String {
        match self {
            Style::Library(_, _, drain) => format!("{drain}();"),
            Style::Helper { fence: Some(fence), .. } | Style::Lines { fence: Some(fence), .. } => {
                format!("{fence}();")
            }
            Style::Lines { fence: None, .. } => String::new(),
            Style::Intrinsics(flush) => match flush.rsplit_once("::") {
                Some((path, _)) => format!("{path}::_mm_sfence();"),
                None => "_mm_sfence();".into(),
            },
            Style::Own(macros) => {
                ended(macros.fence.as_deref().unwrap_or("__asm__ volatile(\"sfence\" ::: \"memory\")"))
            }
            Style::Helper { .. } | Style::Map { .. } => "_mm_sfence();".into(),
        }
    }

    /// A statement that only fences, at a statement that is in safe or unsafe code.
    pub(crate) fn fence_at(&self, reader: &Reader, statement: &Statement) -> String {
        let fence = self.fence();
        let rust = reader.source.language == Language::Rust;
        let intrinsic = fence.contains("_mm_");
        if rust && intrinsic && !rust::is_unsafe(reader, statement.node) {
            return format!("unsafe {{ {} }};", fence.trim_end_matches(';'));
        }
        fence
    }
}

/// The calls that flush, those that serve best first: of the same function, that fence, close by.
fn calls<'t>(reader: &Reader<'t>, statement: &Statement) -> Vec<Call<'t>> {
    let function = reader.source.function(statement.node).map(|node| node.byte_range());
    let rust = reader.source.language == Language::Rust;
    let mut all: Vec<Call> = descendants(reader.source.root())
        .into_iter()
        .filter_map(|node| flush_call(reader, node))
        .filter(|call| {
            // What a helper does inside is not how others flush.
            let inside = reader.source.function(call.node).and_then(|it| name_of(reader, it));
            let receiver = receiver(reader, call.node);
            let same = function.as_ref().is_some_and(|it| it.contains(&call.node.start_byte()));
            let usable = receiver.is_none_or(|it| same || matches!(it, "self" | "this"));
            usable && !inside.is_some_and(|name| flushes(reader.project, name))
        })
        .filter(|call| !rust || call.helper.shape != Shape::Line)
        .collect();
    all.sort_by_key(|call| {
        let same = function.as_ref().is_some_and(|it| it.contains(&call.node.start_byte()));
        let own = library(reader.callee(call.node)).is_none();
        let shape = !matches!(call.helper.shape, Shape::Range | Shape::Value);
        let distance = call.node.start_byte().abs_diff(statement.node.start_byte());
        (shape, !call.helper.fences, !(same && call.helper.leading > 0), !own, !same, distance)
    });
    all
}

fn name_of<'a>(reader: &Reader<'a>, function: Node) -> Option<&'a str> {
    if let Some(name) = function.child_by_field_name("name") {
        return Some(reader.source.text(name));
    }
    let declarator = descendants(function).into_iter().find(|it| it.kind() == "function_declarator")?;
    let name = reader.source.text(declarator.child_by_field_name("declarator")?);
    name.rsplit("::").next()
}

/// What a method is called on.
fn receiver<'a>(reader: &Reader<'a>, call: Node) -> Option<&'a str> {
    let function = call.child_by_field_name("function").filter(|it| it.kind() == "field_expression")?;
    let object = function.child_by_field_name("value").or(function.child_by_field_name("argument"))?;
    Some(reader.source.text(object))
}

/// The way a call does it.
fn spelled(reader: &Reader, call: &Call, all: &[Call]) -> Style {
    match reader.callee(call.node) {
        "pmem_persist" | "pmem_flush" => return LIBPMEM,
        "crashproof_persist" | "crashproof_flush" => return CRASHPROOF,
        _ => {}
    }
    let function = call.node.child_by_field_name("function");
    let leading = call.arguments[..call.helper.leading].iter().map(|it| reader.source.text(*it).to_owned());
    Style::Helper {
        callee: function.map_or("", |it| reader.source.text(it)).to_owned(),
        leading: leading.collect(),
        helper: call.helper.clone(),
        fence: fence_of(reader, all),
    }
}

/// What the file, or the project, calls to fence.
fn fence_of(reader: &Reader, calls: &[Call]) -> Option<String> {
    let called = calls.iter().find(|call| call.helper.shape == Shape::Fence);
    if let Some(call) = called {
        return call.node.child_by_field_name("function").map(|it| reader.source.text(it).to_owned());
    }
    let helpers = reader.project.helpers();
    let own = helpers.iter().find(|(_, function, helper)| helper.shape == Shape::Fence && !function.method);
    own.map(|(name, function, _)| {
        if function.path.contains("::") && function.path.starts_with("crate") {
            function.path.clone()
        } else {
            (*name).to_owned()
        }
    })
}

/// A function of the project that nothing in this file calls yet.
fn defined(reader: &Reader, statement: &Statement) -> Option<Style> {
    let at = statement.node.start_byte();
    let rust = reader.source.language == Language::Rust;
    let mut usable: Vec<_> = reader.project.helpers();
    usable.retain(|(name, function, helper)| {
        let here = !function.elsewhere
            && reader.source.text.contains(&format!("{name}("))
            && function.start < reader.source.text.len()
            && reader.source.text[function.start..].contains(name);
        let before = rust || !here || function.start < at;
        !function.method && before && matches!(helper.shape, Shape::Range | Shape::Value)
    });
    usable.sort_by_key(|(_, function, helper)| {
        (!helper.fences, helper.shape != Shape::Range, function.file.clone())
    });
    let (name, function, helper) = usable.into_iter().next()?;
    let defined_here = reader.source.text.contains(&format!("fn {name}"));
    let callee = if rust && defined_here { name.to_owned() } else { function.path.clone() };
    Some(Style::Helper { callee, leading: Vec::new(), fence: fence_of(reader, &[]), helper })
}

/// `flush_range` of memmap2, if that is how the file makes its maps persistent.
fn of_map(reader: &Reader, statement: &Statement, target: &Target) -> Option<Style> {
    if reader.source.language != Language::Rust {
        return None;
    }
    let Object::Place(place) = &target.object else { return None };
    let map = &place[..place.find('[')?];
    let calls: Vec<Node> = descendants(reader.source.root())
        .into_iter()
        .filter(|node| node.kind() == "call_expression")
        .filter(|node| {
            matches!(reader.callee(*node), "flush_range" | "flush") && receiver(reader, *node).is_some()
        })
        .collect();
    let same = calls.iter().find(|call| receiver(reader, **call) == Some(map));
    let call =
        same.or(calls.first()).filter(|_| reader.source.text.contains("flush_range") || same.is_some())?;
    let function = reader.source.function(statement.node)?;
    let result = function
        .child_by_field_name("return_type")
        .is_some_and(|it| reader.source.text(it).contains("Result"));
    let _ = call;
    let then = if result { "?" } else { ".unwrap()" };
    let whole = !calls.iter().any(|call| reader.callee(*call) == "flush_range");
    Some(Style::Map { map: map.to_owned(), whole, then: then.to_owned() })
}

/// Where a slice of a map begins, and how long it is.
fn range_of(object: &Object) -> Option<(String, String)> {
    let Object::Place(place) = object else { return None };
    let open = place.find('[')?;
    let index = place[open + 1..].strip_suffix(']')?;
    match index.split_once("..") {
        Some((start, end)) => {
            let (start, end) = (start.trim(), end.trim());
            if end.is_empty() {
                return None;
            }
            let start = if start.is_empty() { "0" } else { start };
            let length = match end.strip_prefix(start).map(str::trim).and_then(|rest| rest.strip_prefix('+'))
            {
                Some(length) => length.trim().to_owned(),
                None if start == "0" => end.to_owned(),
                None => format!(
                    "{end} - {}",
                    if start.contains(' ') { format!("({start})") } else { start.to_owned() }
                ),
            };
            Some((start.to_owned(), length))
        }
        None => Some((index.to_owned(), "1".into())),
    }
}

/// A reference to an object in Rust.
fn reference(reader: &Reader, statement: &Statement, object: &Object) -> String {
    match object {
        Object::Place(place) if is_reference(reader, statement, place) => place.clone(),
        Object::Place(place) => format!("&{place}"),
        Object::Pointed(pointer) if is_reference(reader, statement, pointer) => pointer.clone(),
        Object::Pointed(pointer) => format!("&*{pointer}"),
        Object::Range { pointer, length } => format!("std::slice::from_raw_parts({pointer}, {length})"),
    }
}

/// Is a name a reference already? By its declaration.
fn is_reference(reader: &Reader, statement: &Statement, name: &str) -> bool {
    if name == "self" {
        return true;
    }
    let scope = reader.source.function(statement.node).unwrap_or(reader.source.root());
    descendants(scope).into_iter().any(|node| {
        let pattern = node.child_by_field_name("pattern").map_or("", |it| reader.source.text(it));
        if !matches!(node.kind(), "parameter" | "let_declaration")
            || pattern.trim_start_matches("mut ") != name
        {
            return false;
        }
        let by_type =
            node.child_by_field_name("type").is_some_and(|it| reader.source.text(it).starts_with('&'));
        let by_value =
            node.child_by_field_name("value").is_some_and(|it| it.kind() == "reference_expression");
        by_type || by_value
    })
}

/// Address and length of an object in Rust, as a pointer or a number.
fn bytes(object: &Object, takes: &str) -> (String, String) {
    let as_number = takes.contains("usize");
    match object {
        Object::Place(place) if place.ends_with(']') && place.contains("..") => {
            let cast = if as_number { " as usize" } else { "" };
            (format!("{place}.as_ptr(){cast}"), format!("size_of_val(&{place})"))
        }
        Object::Place(place) if as_number => {
            (format!("&raw const {place} as usize"), format!("size_of_val(&{place})"))
        }
        Object::Place(place) => (format!("(&raw const {place}).cast()"), format!("size_of_val(&{place})")),
        Object::Pointed(pointer) => {
            let address = if as_number {
                format!("{} as usize", grouped(pointer))
            } else {
                format!("{}.cast()", grouped(pointer))
            };
            (address, format!("size_of_val(&*{})", grouped(pointer)))
        }
        Object::Range { pointer, length } => {
            let address = if as_number {
                format!("{} as usize", grouped(pointer))
            } else {
                format!("{}.cast()", grouped(pointer))
            };
            (address, length.clone())
        }
    }
}

/// What a reference parameter of C++ takes.
fn value_of(object: &Object) -> String {
    match object {
        Object::Place(place) => place.clone(),
        Object::Pointed(pointer) | Object::Range { pointer, .. } => format!("*{}", grouped(pointer)),
    }
}

/// An address as a helper takes it: any pointer does for `void *`.
fn cast_to(takes: &str, address: &str) -> String {
    if takes.is_empty() || takes.contains("void") || takes.contains('T') {
        return address.to_owned();
    }
    format!("({}){address}", takes.trim())
}

/// A call with other arguments, so that it covers more.
pub(crate) fn extended(reader: &Reader, statement: &Statement, call: &Call, extension: &Extension) -> String {
    let text = |node: Node| reader.source.text(node);
    let address = call.arguments[call.helper.leading];
    let same = reader
        .path_of_address(address)
        .is_some_and(|path| path.last().map(|it| &it.object) == extension.path.last().map(|it| &it.object));
    let rust = reader.source.language == Language::Rust;
    let mut arguments: Vec<String> = call.arguments.iter().map(|it| text(*it).to_owned()).collect();
    let place = call.helper.leading;
    if call.helper.shape == Shape::Value {
        arguments[place] =
            if rust { reference(reader, statement, &extension.object) } else { value_of(&extension.object) };
    } else if rust {
        let (pointer, length) = bytes(&extension.object, &call.helper.takes);
        if !same {
            arguments[place] = pointer;
        }
        let whole = reference(reader, statement, &extension.object);
        arguments[place + 1] = if matches!(extension.object, Object::Range { .. }) {
            length
        } else {
            format!("size_of_val({whole})")
        };
    } else {
        let (pointer, length) = extension.object.in_c();
        if !same {
            let cast = address.child_by_field_name("type").filter(|_| address.kind() == "cast_expression");
            arguments[place] = match cast {
                Some(cast) => format!("({}){pointer}", text(cast)),
                None => pointer,
            };
        }
        arguments[place + 1] = length;
    }
    let function = call.node.child_by_field_name("function").map_or("", text);
    format!("{function}({})", arguments.join(", "))
}

/// A loop over the lines of an object.
fn line_by_line(flush: &str, address: &str, length: &str) -> [String; 2] {
    let head = format!(
        "for (char *line_ = (char *)((unsigned long)({address}) & ~63ul); line_ < (char *)({address}) + ({length}); \
         line_ += 64)"
    );
    [head, format!("  {flush}(line_);")]
}

fn ended(text: &str) -> String {
    let text = text.trim().trim_end_matches(';');
    format!("{text};")
}
