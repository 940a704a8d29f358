//! Versions that are written down in several places agree.

use std::path::Path;
use std::process::Command;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The minimum Rust version that builds the tool: in the manifest, in the README, in the book; no dependency needs a
/// newer one.
#[test]
fn the_oldest_rust_is_the_same_everywhere() {
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    assert!(read("Cargo.toml").contains(&format!("rust-version = \"{oldest}\"")));
    assert!(read("README.md").contains(&format!("the Rust toolchain ({oldest} or newer)")), "README.md");
    assert!(read("docs/src/building.md").contains(&format!("Rust {oldest} or newer")), "building.md");
    let number = |version: &str| -> Vec<u32> {
        version.split('.').map(|part| part.parse().expect("a number")).collect()
    };
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("metadata");
    for package in metadata["packages"].as_array().expect("packages") {
        let Some(needed) = package["rust_version"].as_str() else {
            assert!(!package["source"].is_null(), "{} says no rust-version", package["name"]);
            continue;
        };
        assert!(number(needed) <= number(oldest), "{} needs Rust {needed}", package["name"]);
        assert!(!package["source"].is_null() || needed == oldest, "{} has its own", package["name"]);
    }
}

/// Everything except `lint` and `prove` works on a machine without libLLVM.
#[test]
fn the_command_is_not_linked_with_llvm() {
    let libraries = |program: &str| {
        let loader = Command::new(program).env("LD_TRACE_LOADED_OBJECTS", "1").output().expect("it runs");
        String::from_utf8_lossy(&loader.stdout).into_owned()
    };
    let (without, with) =
        (libraries(env!("CARGO_BIN_EXE_crashproof")), libraries(env!("CARGO_BIN_EXE_crashproof-llvm")));
    assert!(without.contains("libc.so") && !without.contains("libLLVM"), "{without}");
    assert!(with.contains("libLLVM"), "{with}");
}
