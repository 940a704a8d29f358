//! Builds the plugin and the runtime for tests, and programs with them.
//!
//! Cargo builds shared libraries only for those who ask; tests ask here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The directory with the plugin, the runtime and the drivers, built on first use.
pub fn tools() -> &'static Path {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let packages = ["crashproof-runtime", "crashproof-instrument", "crashproof-toolchain", "crashproof"];
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--release"])
            .args(packages.iter().flat_map(|package| ["-p", package]))
            .current_dir(repository())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the plugin and the runtime build");
        // The test executable lies in target/<profile>/deps.
        let executable = std::env::current_exe().expect("a path");
        executable.ancestors().nth(3).expect("the target directory").join("release")
    })
}

/// The plugin.
pub fn plugin() -> PathBuf {
    tools().join("libcrashproof_instrument.so")
}

/// The runtime.
pub fn runtime() -> PathBuf {
    tools().join("libcrashproof_runtime.so")
}

/// The directory of `crashproof.h`.
pub fn include() -> PathBuf {
    repository().join("include")
}

/// Compiles `source` to `program` with the plugin and the runtime.
pub fn compile(source: &Path, program: &Path, options: &[&str]) {
    let cxx = source.extension().is_some_and(|extension| extension != "c");
    let status = Command::new(if cxx { "clang++-22" } else { "clang-22" })
        .args(["-O1", "-g", "-pthread", "-Wno-unused-command-line-argument"])
        .args(options)
        .arg(format!("-fpass-plugin={}", plugin().display()))
        .arg("-I")
        .arg(include())
        .arg(source)
        .arg("-o")
        .arg(program)
        .arg(runtime())
        // The old kind of tag goes before LD_LIBRARY_PATH, which cargo sets for tests.
        .arg(format!("-Wl,--disable-new-dtags,-rpath,{}", tools().display()))
        .status()
        .expect("clang-22 is installed (scripts/setup installs it)");
    assert!(status.success(), "{} compiles", source.display());
}

/// Compiles a Rust program of one file with the plugin and the runtime, as `crashproof cargo` would.
pub fn compile_rust(source: &Path, program: &Path, options: &[&str]) {
    let status = Command::new("rustc")
        .args(["--edition=2024", "-g", "-O", "--target=x86_64-unknown-linux-gnu"])
        .args(["-Clinker-plugin-lto", "-Clinker=clang-22", "-Clink-arg=-fuse-ld=lld-22"])
        .args(options)
        .arg(format!("-Clink-arg=-Wl,--load-pass-plugin={}", plugin().display()))
        .arg(format!("-Clink-arg=-Wl,--disable-new-dtags,-rpath,{}", tools().display()))
        .arg("-L")
        .arg(tools())
        .arg(source)
        .arg("-o")
        .arg(program)
        .status()
        .expect("rustc runs");
    assert!(status.success(), "{} compiles", source.display());
}

/// A directory of the test's own below the target directory.
pub fn scratch(name: &str) -> PathBuf {
    let directory = tools().with_file_name("tmp").join(name);
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    directory
}
