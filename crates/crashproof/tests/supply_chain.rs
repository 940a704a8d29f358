//! Every dependency has a license that `deny.toml` allows, comes from the registry with a checksum, and runs no
//! unreviewed code at build time.
//!
//! `make deny` checks this and more, but its tool takes minutes to build, which these checks should not have to wait
//! for.

use std::path::Path;
use std::process::Command;

use spdx::{Expression, Licensee};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn allowed() -> Vec<Licensee> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let deny: toml_edit::DocumentMut = text.parse().expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"].as_array().expect("a list of licenses");
    let license = |entry: &toml_edit::Value| Licensee::parse(entry.as_str()?).ok();
    list.iter().map(|entry| license(entry).unwrap_or_else(|| panic!("{entry} is no license"))).collect()
}

/// cargo's metadata on every package needed by a build.
fn packages() -> Vec<serde_json::Value> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let packages = packages();
    let allowed = allowed();
    let permitted = |package: &serde_json::Value| {
        let license = package["license"].as_str().unwrap_or("");
        // Older crates write `MIT/Apache-2.0`.
        let expression = Expression::parse_mode(license, spdx::ParseMode::LAX);
        expression.is_ok_and(|it| it.evaluate(|one| allowed.iter().any(|license| license.satisfies(one))))
    };
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !permitted(package))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "licenses that deny.toml does not allow:\n{}", refused.join("\n"));
    println!("{} packages, all under allowed licenses", packages.len());
}

#[test]
fn every_dependency_comes_from_the_registry_with_a_checksum() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let lock: toml_edit::DocumentMut = lock.parse().expect("Cargo.lock is TOML");
    for package in lock["package"].as_array_of_tables().expect("packages") {
        let (name, source) = (&package["name"], package.get("source").and_then(|it| it.as_str()));
        match source {
            // A crate of this repository.
            None => assert!(package.get("checksum").is_none(), "{name}"),
            Some(source) => {
                assert!(
                    source.starts_with("registry+") && source.ends_with("crates.io-index"),
                    "{name}: {source}"
                );
                assert!(package.get("checksum").is_some(), "{name} has no checksum");
            }
        }
    }
}

/// Crates with a build script: they ask the compiler for its version, generate code, or compile the C that the crate brings
/// along. None reaches the network (that of `cadical-sys` would only in a clone without its submodule; `make build` works without one once the crates are there); a new one belongs here once it
/// was read.
const BUILD_SCRIPTS: [&str; 36] = [
    "anyhow",
    "cadical-sys",
    "cpp_demangle",
    "crashproof-frontend",
    "crashproof-instrument",
    "crc32fast",
    "crossbeam-deque",
    "crossbeam-epoch",
    "crossbeam-utils",
    "cxx",
    "getrandom",
    "libc",
    "link-cplusplus",
    "llvm-sys",
    "num-traits",
    "object",
    "portable-atomic",
    "prettyplease",
    "proc-macro2",
    "quote",
    "rayon-core",
    "rustix",
    "scratch",
    "serde",
    "serde-sarif",
    "serde_core",
    "serde_json",
    "signal-hook",
    "syn",
    "thiserror",
    "tree-sitter",
    "tree-sitter-c",
    "tree-sitter-cpp",
    "tree-sitter-language",
    "tree-sitter-rust",
    "zmij",
];

#[test]
fn every_build_script_is_known() {
    let has_script = |package: &serde_json::Value| {
        let targets = package["targets"].as_array().expect("targets");
        targets.iter().any(|target| target["kind"][0] == "custom-build")
    };
    let packages = packages();
    let mut found: Vec<&str> =
        packages.iter().filter(|it| has_script(it)).filter_map(|it| it["name"].as_str()).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, BUILD_SCRIPTS);
}
