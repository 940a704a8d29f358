//! Checks ARCHITECTURE.md against the code: the crate graph, and that modules import one way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use syn::visit::{self, Visit};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rows of the crate table in ARCHITECTURE.md: name, and the workspace crates it uses.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let table = text.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    table
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let uses = cells[2].split(", ").filter(|name| *name != "-").map(str::to_owned).collect();
            (cells[0].trim_matches('`').to_owned(), uses)
        })
        .collect()
}

#[test]
fn the_crate_table_is_what_cargo_says() {
    let cargo = std::env::var_os("CARGO").expect("cargo runs this");
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version=1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let short = |name: &serde_json::Value| {
        let name = name.as_str().expect("a name");
        name.strip_prefix("crashproof-").unwrap_or(name).to_owned()
    };
    let members: BTreeSet<String> = packages.iter().map(|package| short(&package["name"])).collect();
    let actual: BTreeMap<String, BTreeSet<String>> = packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let uses = dependencies
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| short(&dependency["name"]))
                .filter(|name| members.contains(name))
                .collect();
            (short(&package["name"]), uses)
        })
        .collect();
    let documented = documented();
    // Two are for users' tests: a library, and the attribute, which the compiler requires to be in a separate crate.
    let own = actual.keys().filter(|name| !name.starts_with("test")).count();
    assert!(own <= 16 && actual.len() <= own + 2, "{own} crates of {}: at most 16", actual.len());
    for (name, uses) in &actual {
        let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
        let row = documented.get(name).map(|uses| uses.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(row.as_ref(), Some(&uses), "the row of `{name}` in ARCHITECTURE.md");
    }
    assert_eq!(documented.len(), actual.len(), "ARCHITECTURE.md lists a crate that does not exist");
}

#[test]
fn the_map_fits_on_a_few_pages() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    assert!(text.lines().count() <= 150, "{} lines: at most 150", text.lines().count());
}

/// Every test that ARCHITECTURE.md names for an invariant exists.
#[test]
fn the_tests_that_hold_invariants_exist() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut named = 0;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in text.split("held by `").skip(1) {
        let name = part.split('`').next().expect("a closing quote");
        let (file, test) = name.split_once("::").unwrap_or((name, ""));
        let source = std::fs::read_to_string(root().join(file));
        let source = source.unwrap_or_else(|error| panic!("ARCHITECTURE.md names {file}: {error}"));
        assert!(source.contains(&format!("fn {test}")), "{file} has no test {test}");
        named += 1;
    }
    assert!(named >= 6, "only {named} invariants name their test");
}

/// A module of a crate: its path without `crate`, as in `explore::step`; empty for the root.
type Module = String;

/// The paths that a file mentions, excluding test code.
#[derive(Default)]
struct Names {
    paths: Vec<Vec<String>>,
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

fn flatten(tree: &syn::UseTree, mut prefix: Vec<String>, all: &mut Vec<Vec<String>>) {
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, all);
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|item| flatten(item, prefix.clone(), all));
        }
        syn::UseTree::Name(name) => all.push([prefix, vec![name.ident.to_string()]].concat()),
        syn::UseTree::Rename(name) => all.push([prefix, vec![name.ident.to_string()]].concat()),
        syn::UseTree::Glob(_) => all.push(prefix),
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A parent that re-exports its children does not depend on them.
        if matches!(item.vis, syn::Visibility::Inherited) {
            flatten(&item.tree, Vec::new(), &mut self.paths);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        // Tokens are printed with spaces around `::`.
        let text = item.tokens.to_string().replace(' ', "");
        for start in ["crate::", "super::"] {
            for (at, _) in text.match_indices(start) {
                let path: String =
                    text[at..].chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
                self.paths.push(path.split("::").map(str::to_owned).collect());
            }
        }
        visit::visit_macro(self, item);
    }
}

/// The imports between the modules of a crate.
fn imports(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![source.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(source).expect("below").with_extension("");
                let module = relative.to_str().expect("a name").replace('/', "::");
                let module = module.strip_suffix("::mod").unwrap_or(&module).to_owned();
                if !matches!(module.as_str(), "lib" | "main") && !module.ends_with("tests") {
                    files.insert(module, path);
                }
            }
        }
    }
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    files
        .iter()
        .map(|(module, path)| {
            let text = std::fs::read_to_string(path).expect("a source");
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut names = Names::default();
            names.visit_file(&file);
            let used = names.paths.iter().filter_map(|path| resolve(path, module, &modules));
            (module.clone(), used.filter(|other| other != module).collect())
        })
        .collect()
}

/// The module of the crate to which a path in `module` resolves, if any.
fn resolve(path: &[String], module: &str, modules: &BTreeSet<Module>) -> Option<Module> {
    let here: Vec<&str> = module.split("::").collect();
    let mut rest = path.iter().map(String::as_str).peekable();
    let mut at: Vec<&str> = match *rest.peek()? {
        "crate" => {
            rest.next();
            Vec::new()
        }
        "self" | "super" => {
            let mut at = here;
            while let Some(step) = rest.next_if(|step| matches!(*step, "self" | "super")) {
                if step == "super" {
                    at.pop();
                }
            }
            at
        }
        // A child, if there is one of this name.
        child if modules.contains(&format!("{module}::{child}")) => here,
        _ => return None,
    };
    at.extend(rest);
    while !at.is_empty() {
        let candidate = at.join("::");
        if modules.contains(&candidate) {
            return Some(candidate);
        }
        at.pop();
    }
    None
}

/// Sets of modules that can reach each other, as one cycle each.
fn cycles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Vec<Module>> {
    let reach = |from: &Module| {
        let mut seen: BTreeSet<&Module> = BTreeSet::new();
        let mut open: Vec<&Module> = graph[from].iter().collect();
        while let Some(module) = open.pop() {
            if seen.insert(module) {
                open.extend(&graph[module]);
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reach(module))).collect();
    reached
        .iter()
        .filter(|(module, reached)| reached.contains(**module))
        .map(|(module, there)| {
            there
                .iter()
                .filter(|other| reached[**other].contains(*module))
                .map(|other| (*other).clone())
                .collect()
        })
        .collect()
}

#[test]
fn modules_import_one_way() {
    let mut wrong = String::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("crates") {
        let source = entry.expect("a crate").path().join("src");
        for cycle in cycles(&imports(&source)) {
            wrong += &format!("{}: {}\n", source.display(), cycle.join(", "));
        }
    }
    assert!(wrong.is_empty(), "import cycles:\n{wrong}");
}

#[test]
fn a_cycle_is_seen() {
    let graph = [("a", vec!["b"]), ("b", vec!["c", "d"]), ("c", vec!["a"]), ("d", vec![])];
    let graph: BTreeMap<Module, BTreeSet<Module>> = graph
        .into_iter()
        .map(|(module, uses)| (module.to_owned(), uses.into_iter().map(str::to_owned).collect()))
        .collect();
    assert_eq!(cycles(&graph), BTreeSet::from([vec!["a".into(), "b".into(), "c".into()]]));
    let modules: BTreeSet<Module> = ["x", "x::y", "z"].map(str::to_owned).into();
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(resolve(&path("crate::z::Item"), "x::y", &modules).as_deref(), Some("z"));
    assert_eq!(resolve(&path("super::Item"), "x::y", &modules).as_deref(), Some("x"));
    assert_eq!(resolve(&path("y::Item"), "x", &modules).as_deref(), Some("x::y"));
    assert_eq!(resolve(&path("std::mem"), "x", &modules), None);
}
