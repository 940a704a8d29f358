//! What the sources around an edit define: functions and macros that flush, accessors, macros that store, structs.
//!
//! Purely syntactic, by name: the subsequent check decides whether a helper does what its body suggests.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use crate::syntax::{Language, Source, ancestors, children, descendants, unwrapped};

/// How a function that flushes is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// With a pointer and a length.
    Range,
    /// With a pointer, of which one line is flushed.
    Line,
    /// With a reference, or a pointer to a type: the whole value is flushed.
    Value,
    /// With nothing: it fences.
    Fence,
}

/// A function or macro.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    /// With the namespaces or the module that it is in.
    pub(crate) path: String,
    pub(crate) file: String,
    pub(crate) start: usize,
    /// Types in functions, names in macros.
    parameters: Vec<String>,
    /// Names in its body, assembly included.
    words: BTreeSet<String>,
    /// Does it only assign to its own variables?
    quiet: bool,
    /// Belongs to a class or `impl`?
    pub(crate) method: bool,
    pub(crate) is_unsafe: bool,
    is_macro: bool,
    /// Is it defined in a source that a header of the file declares it of?
    pub(crate) elsewhere: bool,
    language: Option<Language>,
    /// What a macro assigns to, in its own words.
    assigns: Vec<String>,
}

/// What a macro assigns to.
pub(crate) struct Assigned<'a> {
    function: &'a Function,
    place: &'a str,
}

impl Assigned<'_> {
    /// The same with arguments in place of parameters.
    pub(crate) fn with(&self, arguments: &[&str]) -> String {
        let mut text = String::new();
        let mut rest = self.place;
        let word = |c: char| c.is_alphanumeric() || c == '_';
        while let Some(first) = rest.chars().next() {
            let end =
                if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
            let part = &rest[..end];
            let number = self.function.parameters.iter().position(|it| it == part);
            text.push_str(number.and_then(|number| arguments.get(number)).copied().unwrap_or(part));
            rest = &rest[end..];
        }
        // Brackets that only a macro needs.
        let inner = unwrapped(&text).to_owned();
        let plain = |c: char| word(c) || ".->[]:".contains(c);
        match inner.strip_prefix('(').and_then(|it| it.split_once(')')) {
            Some((head, tail)) if head.chars().all(plain) => format!("{head}{tail}"),
            _ => inner,
        }
    }
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    /// The last word of its type.
    type_name: String,
    /// Its dimensions, if it is an array.
    array: Vec<String>,
}

/// What is known of a project.
#[derive(Clone, Debug, Default)]
pub(crate) struct Project {
    functions: BTreeMap<String, Function>,
    structs: BTreeMap<String, Vec<Field>>,
}

const FLUSHES: [&str; 15] = [
    "_mm_clflush",
    "_mm_clflushopt",
    "_mm_clwb",
    "clflush",
    "clflushopt",
    "clwb",
    "__builtin_ia32_clflush",
    "__builtin_ia32_clflushopt",
    "__builtin_ia32_clwb",
    "pmem_flush",
    "pmem_persist",
    "pmem_msync",
    "msync",
    "crashproof_flush",
    "crashproof_persist",
];

const FENCES: [&str; 13] = [
    "_mm_sfence",
    "_mm_mfence",
    "sfence",
    "mfence",
    "__builtin_ia32_sfence",
    "__builtin_ia32_mfence",
    "pmem_persist",
    "pmem_drain",
    "pmem_msync",
    "msync",
    "crashproof_persist",
    "crashproof_drain",
    "__sync_synchronize",
];

/// Library functions: name, shape, whether they fence, and how many arguments come before the address.
const LIBRARY: [(&str, Shape, bool, usize); 14] = [
    ("pmem_persist", Shape::Range, true, 0),
    ("pmem_msync", Shape::Range, true, 0),
    ("pmem_flush", Shape::Range, false, 0),
    ("pmem_drain", Shape::Fence, true, 0),
    ("pmemobj_persist", Shape::Range, true, 1),
    ("pmemobj_flush", Shape::Range, false, 1),
    ("crashproof_persist", Shape::Range, true, 0),
    ("crashproof_flush", Shape::Range, false, 0),
    ("crashproof_drain", Shape::Fence, true, 0),
    ("_mm_clflush", Shape::Line, false, 0),
    ("_mm_clflushopt", Shape::Line, false, 0),
    ("_mm_clwb", Shape::Line, false, 0),
    ("_mm_sfence", Shape::Fence, true, 0),
    ("_mm_mfence", Shape::Fence, true, 0),
];

/// How something that flushes or fences is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Helper {
    pub(crate) shape: Shape,
    pub(crate) fences: bool,
    /// Arguments before the address.
    pub(crate) leading: usize,
    /// In Rust: the pointer's type; empty if any will do.
    pub(crate) takes: String,
    pub(crate) is_unsafe: bool,
}

/// What a library function does.
pub(crate) fn library(name: &str) -> Option<Helper> {
    let (_, shape, fences, leading) = LIBRARY.into_iter().find(|known| known.0 == name)?;
    Some(Helper { shape, fences, leading, takes: String::new(), is_unsafe: name.starts_with("_mm_") })
}

impl Project {
    /// Learns the functions of a source that the text of its header declares.
    pub(crate) fn learn_declared(&mut self, file: &str, text: &str, header: &str) {
        let mut other = Project::default();
        other.learn(file, text);
        let declared = |name: &str| header.contains(&format!("{name}("));
        for (name, function) in other.functions.into_iter().filter(|(name, _)| declared(name)) {
            self.functions.entry(name).or_insert(Function { elsewhere: true, ..function });
        }
    }

    /// Reads a source of the project.
    pub(crate) fn learn(&mut self, file: &str, text: &str) {
        let Some(language) = Language::of(file) else { return };
        let Some(source) = Source::new(text, language) else { return };
        for node in descendants(source.root()) {
            match node.kind() {
                "function_definition" | "function_item" => self.learn_function(&source, node, file),
                "preproc_function_def" => self.learn_macro(&source, node, file),
                "struct_specifier" | "class_specifier" | "struct_item" => self.learn_struct(&source, node),
                _ => {}
            }
        }
    }

    fn learn_function(&mut self, source: &Source, node: Node, file: &str) {
        let rust = source.language == Language::Rust;
        let declarator = if rust {
            Some(node)
        } else {
            descendants(node).into_iter().find(|it| it.kind() == "function_declarator")
        };
        let Some(declarator) = declarator else { return };
        let named = declarator.child_by_field_name(if rust { "name" } else { "declarator" });
        let (Some(name), Some(body)) = (named, node.child_by_field_name("body")) else { return };
        let name = source.text(name);
        let list = declarator.child_by_field_name("parameters");
        let parameters: Vec<Node> = list.map(children).unwrap_or_default();
        let mut path: Vec<String> = ancestors(node)
            .filter(|it| it.kind() == "namespace_definition")
            .filter_map(|it| it.child_by_field_name("name").map(|name| source.text(name).to_owned()))
            .collect();
        path.reverse();
        path.push(name.to_owned());
        let method = ancestors(node).skip(1).any(|it| {
            matches!(it.kind(), "class_specifier" | "struct_specifier" | "impl_item" | "trait_item")
        });
        let head = &source.text(node)[..body.start_byte() - node.start_byte()];
        let function = Function {
            path: if rust { module_path(file, name) } else { path.join("::") },
            file: file.to_owned(),
            start: node.start_byte(),
            parameters: parameters
                .iter()
                .map(|it| type_of_parameter(source, *it))
                .filter(|kind| kind != "void")
                .collect(),
            words: words(source.text(body)),
            quiet: is_quiet(source, body),
            method: method || name.contains("::"),
            is_unsafe: rust && head.contains("unsafe fn"),
            is_macro: false,
            elsewhere: false,
            language: Some(source.language),
            assigns: Vec::new(),
        };
        let short = name.rsplit("::").next().unwrap_or(name);
        self.functions.entry(short.to_owned()).or_insert(function);
    }

    fn learn_macro(&mut self, source: &Source, node: Node, file: &str) {
        let (Some(name), Some(list)) =
            (node.child_by_field_name("name"), node.child_by_field_name("parameters"))
        else {
            return;
        };
        let body =
            node.child_by_field_name("value").map_or("", |body| source.text(body)).replace("\\\n", "\n");
        let parameters = children(list).into_iter();
        // The body as code, as far as it is some.
        let wrapper = format!("void f(void) {{\n{body};\n}}\n");
        let mut assigns = Vec::new();
        let mut quiet = true;
        if let Some(inner) = Source::new(&wrapper, source.language) {
            for node in descendants(inner.root()) {
                let field = match node.kind() {
                    "assignment_expression" => "left",
                    "update_expression" => "argument",
                    _ => continue,
                };
                let Some(place) = node.child_by_field_name(field) else { continue };
                if !is_local(&inner, place) {
                    quiet = false;
                    assigns.push(inner.text(place).to_owned());
                }
            }
        }
        let function = Function {
            path: source.text(name).to_owned(),
            file: file.to_owned(),
            start: node.start_byte(),
            parameters: parameters.map(|it| source.text(it).to_owned()).collect(),
            words: words(&body),
            quiet,
            is_macro: true,
            language: Some(source.language),
            assigns,
            ..Function::default()
        };
        self.functions.entry(source.text(name).to_owned()).or_insert(function);
    }

    fn learn_struct(&mut self, source: &Source, node: Node) {
        let Some(body) = node.child_by_field_name("body") else { return };
        let named = node.child_by_field_name("name").map(|name| source.text(name).to_owned());
        // `typedef struct { ... } name;`
        let named = named.or_else(|| {
            let typedef = node.parent().filter(|it| it.kind() == "type_definition")?;
            Some(source.text(typedef.child_by_field_name("declarator")?).to_owned())
        });
        let Some(name) = named else { return };
        let mut fields = Vec::new();
        for field in children(body) {
            if field.kind() != "field_declaration" {
                continue;
            }
            let type_text = field.child_by_field_name("type").map_or("", |it| source.text(it));
            if source.language == Language::Rust {
                let Some(name) = field.child_by_field_name("name") else { continue };
                let array: Vec<String> = type_text
                    .strip_prefix('[')
                    .and_then(|it| it.strip_suffix(']')?.rsplit_once(';'))
                    .map(|(_, length)| length.trim().to_owned())
                    .into_iter()
                    .collect();
                let of = type_text.trim_start_matches('[').split(';').next().unwrap_or("");
                let name = source.text(name).to_owned();
                fields.push(Field { name, type_name: last_word(of), array });
                continue;
            }
            for part in descendants(field).into_iter().filter(|it| it.kind() == "field_identifier") {
                let inside = ancestors(part).take_while(|it| *it != field);
                let array = inside.filter(|it| it.kind() == "array_declarator").map(|it| {
                    it.child_by_field_name("size").map_or(String::new(), |size| source.text(size).to_owned())
                });
                fields.push(Field {
                    name: source.text(part).to_owned(),
                    array: array.collect(),
                    type_name: last_word(type_text),
                });
            }
        }
        self.structs.entry(name).or_insert(fields);
    }

    /// Does a function of the project only compute something?
    pub(crate) fn is_pure(&self, name: &str) -> bool {
        self.pure_within(name, 4)
    }

    fn pure_within(&self, name: &str, depth: usize) -> bool {
        let Some(function) = self.functions.get(name).filter(|it| it.quiet && depth > 0) else {
            return false;
        };
        let flushes = |word: &String| FLUSHES.contains(&word.as_str()) || FENCES.contains(&word.as_str());
        let callees = function.words.iter().filter(|word| self.functions.contains_key(*word));
        !function.words.iter().any(flushes)
            && !function.words.iter().any(|word| word.starts_with("atomic_") || word.ends_with("alloc"))
            && callees.filter(|word| *word != name).all(|word| self.pure_within(word, depth - 1))
    }

    /// The target that a macro of the project assigns to; `None` if it is not a macro, or assigns to nothing.
    pub(crate) fn assigned_by(&self, name: &str) -> Option<Vec<Assigned<'_>>> {
        let function = self.functions.get(name).filter(|it| it.is_macro && !it.assigns.is_empty())?;
        Some(function.assigns.iter().map(|place| Assigned { function, place }).collect())
    }

    fn does(&self, name: &str, known: &[&str], depth: usize) -> bool {
        let Some(function) = self.functions.get(name) else { return false };
        function.words.iter().any(|word| {
            known.contains(&word.as_str()) || depth > 0 && word != name && self.does(word, known, depth - 1)
        })
    }

    /// How a function of the project that flushes or fences is called, if it does nothing else.
    pub(crate) fn helper(&self, name: &str) -> Option<Helper> {
        let function = self.functions.get(name).filter(|it| it.quiet)?;
        let (flushes, fences) = (self.does(name, &FLUSHES, 3), self.does(name, &FENCES, 3));
        let parameters: Vec<&str> =
            function.parameters.iter().map(String::as_str).filter(|it| !it.contains("self")).collect();
        let bytes = |text: &str| {
            ["void", "char", "u8", "uint8_t", "uintptr_t", "std::byte", "usize"]
                .iter()
                .any(|it| text.contains(it))
        };
        let generic = |text: &str| {
            let name = text.trim_start_matches(['&', '*']).trim_end_matches(['&', '*', ' ']);
            let name = name.trim_start_matches("const ").trim_start_matches("mut ").trim();
            name.len() == 1 || name.starts_with("impl ") || name == "[u8]"
        };
        let (shape, takes) = match parameters[..] {
            [] if fences && !flushes => (Shape::Fence, ""),
            _ if !flushes => return None,
            [pointer, _] if function.is_macro || bytes(pointer) || generic(pointer) => {
                (Shape::Range, pointer)
            }
            [value] if function.language == Some(Language::Rust) && !pointer_to_bytes(value) => {
                if !generic(value) {
                    return None;
                }
                (Shape::Value, value)
            }
            [value] if !function.is_macro && generic(value) => (Shape::Value, value),
            [pointer] if function.is_macro || bytes(pointer) => (Shape::Line, pointer),
            _ => return None,
        };
        let takes = if function.is_macro { "" } else { takes };
        Some(Helper { shape, fences, leading: 0, takes: takes.to_owned(), is_unsafe: function.is_unsafe })
    }

    /// Everything here that can be called to flush or fence, by name.
    pub(crate) fn helpers(&self) -> Vec<(&str, &Function, Helper)> {
        let all = self.functions.iter();
        all.filter_map(|(name, function)| Some((name.as_str(), function, self.helper(name)?))).collect()
    }

    /// Is a place within the definition of something that only flushes?
    pub(crate) fn is_helper(&self, name: &str) -> bool {
        self.helper(name).is_some()
    }

    /// The struct that a field of another one holds.
    pub(crate) fn field_type(&self, of: &str, field: &str) -> Option<&str> {
        self.structs.get(of)?.iter().find(|it| it.name == field).map(|it| it.type_name.as_str())
    }

    /// Is the struct known, and no more than a few lines long? Arrays of other structs, or of unknown length, make it large.
    pub(crate) fn is_small(&self, name: &str) -> Option<bool> {
        let fields = self.structs.get(name)?;
        Some(fields.iter().all(|field| {
            let length = |text: &String| text.parse::<u64>().ok();
            let characters = ["char", "uint8_t", "u8"].contains(&field.type_name.as_str());
            let inner = self.structs.contains_key(&field.type_name);
            match &field.array[..] {
                [] => !inner || field.type_name == name || self.is_small(&field.type_name) != Some(false),
                [one] if characters => length(one).is_none_or(|length| length <= 4096) && !one.is_empty(),
                [one] if !inner => length(one).is_some_and(|length| length <= 64),
                _ => false,
            }
        }))
    }
}

fn pointer_to_bytes(text: &str) -> bool {
    text.starts_with('*') && text.ends_with("u8")
}

/// `crate::pm::persist` for a function of `src/pm.rs`.
fn module_path(file: &str, name: &str) -> String {
    let below = file.rsplit_once("src/").map_or("", |(_, below)| below);
    let module = below.trim_end_matches(".rs").trim_end_matches("/mod");
    match module {
        "" | "main" | "lib" => format!("crate::{name}"),
        _ => format!("crate::{}::{name}", module.replace('/', "::")),
    }
}

fn type_of_parameter(source: &Source, node: Node) -> String {
    if source.language == Language::Rust {
        return node
            .child_by_field_name("type")
            .map_or_else(|| source.text(node), |it| source.text(it))
            .to_owned();
    }
    // Without its name: `const void *p` is `const void *`.
    let text = source.text(node);
    let name = descendants(node).into_iter().rfind(|it| it.kind() == "identifier");
    name.map_or(text, |name| &text[..name.start_byte() - node.start_byte()]).trim().to_owned()
}

fn words(text: &str) -> BTreeSet<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    parts.map(str::to_owned).collect()
}

fn last_word(text: &str) -> String {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').rfind(|it| !it.is_empty()).unwrap_or("").to_owned()
}

/// Does code only assign to variables of its own?
fn is_quiet(source: &Source, body: Node) -> bool {
    descendants(body).into_iter().all(|node| {
        let place = match node.kind() {
            "assignment_expression" | "compound_assignment_expr" => node.child_by_field_name("left"),
            "update_expression" => node.child_by_field_name("argument"),
            _ => return true,
        };
        place.is_none_or(|place| is_local(source, place))
    })
}

/// A plain name that is declared around it.
fn is_local(source: &Source, place: Node) -> bool {
    if place.kind() != "identifier" {
        return false;
    }
    let name = source.text(place);
    let function = source.function(place).unwrap_or(source.root());
    descendants(function).into_iter().any(|node| {
        let declares = match node.kind() {
            "init_declarator" | "declaration" | "parameter_declaration" | "pointer_declarator" => {
                node.child_by_field_name("declarator")
            }
            "let_declaration" | "parameter" => node.child_by_field_name("pattern"),
            _ => None,
        };
        declares.is_some_and(|it| source.text(it).trim_start_matches(['*', '&', ' ']) == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_flush_and_do_nothing_else() {
        let mut project = Project::default();
        project.learn(
            "pm.h",
            "namespace pm { inline void persist(const void *p, size_t n) {\n for (uintptr_t a = (uintptr_t)p; a < \
             (uintptr_t)p + n; a += 64) _mm_clwb((void *)a);\n _mm_sfence(); } }\n\
             static void flush_line(char *p) { asm volatile(\"clwb %0\" : \"+m\"(*p)); }\n\
             #define PERSIST(p, n) do { flush_line(p); _mm_sfence(); } while (0)\n\
             static void fence(void) { _mm_sfence(); }\n\
             static void put(struct kv *t, long key) { t->key = key; pm::persist(t, 8); }\n",
        );
        let shape = |name: &str| project.helper(name).map(|it| (it.shape, it.fences));
        assert_eq!(shape("persist"), Some((Shape::Range, true)));
        assert_eq!(shape("flush_line"), Some((Shape::Line, false)));
        assert_eq!(shape("PERSIST"), Some((Shape::Range, true)));
        assert_eq!(shape("fence"), Some((Shape::Fence, true)));
        assert_eq!(shape("put"), None);
        assert_eq!(project.functions["persist"].path, "pm::persist");
        let mut project = Project::default();
        project.learn(
            "src/pm.rs",
            "pub fn persist<T: ?Sized>(value: &T) { flush(value); unsafe { _mm_sfence() } }\n\
             fn flush<T: ?Sized>(value: &T) { unsafe { _mm_clflush(x) } }\n\
             pub unsafe fn persist_range(p: *const u8, n: usize) { _mm_clwb(p); _mm_sfence() }\n",
        );
        let shape = |name: &str| project.helper(name).map(|it| (it.shape, it.fences, it.is_unsafe));
        assert_eq!(shape("persist"), Some((Shape::Value, true, false)));
        assert_eq!(shape("persist_range"), Some((Shape::Range, true, true)));
        assert_eq!(project.functions["persist"].path, "crate::pm::persist");
    }

    #[test]
    fn structs_by_their_size() {
        let mut project = Project::default();
        project.learn(
            "a.c",
            "struct slot { long key; char val[32]; };\nstruct table { long count; struct slot slots[MAX]; };\n\
             typedef struct { struct slot one; long *next; } pair;\n",
        );
        assert_eq!(project.is_small("slot"), Some(true));
        assert_eq!(project.is_small("table"), Some(false));
        assert_eq!(project.is_small("pair"), Some(true));
        assert_eq!(project.is_small("other"), None);
        assert_eq!(project.field_type("table", "slots"), Some("slot"));
    }
}
