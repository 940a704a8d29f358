//! Every dependency has a licence that `deny.toml` allows.
//!
//! `make deny` checks this and more, but its tool takes minutes to build; licences should not wait for it.

use std::path::Path;
use std::process::Command;

use spdx::{Expression, Licensee};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn allowed() -> Vec<Licensee> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let deny: toml_edit::DocumentMut = text.parse().expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"].as_array().expect("a list of licences");
    let licence = |entry: &toml_edit::Value| Licensee::parse(entry.as_str()?).ok();
    list.iter().map(|entry| licence(entry).unwrap_or_else(|| panic!("{entry} is no licence"))).collect()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let allowed = allowed();
    let permitted = |package: &serde_json::Value| {
        let licence = package["license"].as_str().unwrap_or("");
        // Older crates write `MIT/Apache-2.0`.
        let expression = Expression::parse_mode(licence, spdx::ParseMode::LAX);
        expression.is_ok_and(|it| it.evaluate(|one| allowed.iter().any(|licence| licence.satisfies(one))))
    };
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !permitted(package))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "licences that deny.toml does not allow:\n{}", refused.join("\n"));
    println!("{} packages, all under allowed licences", packages.len());
}
