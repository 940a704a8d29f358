//! Builds the plugin, the runtime and the tool for tests, and programs with them.
//!
//! Cargo builds a package's shared library and programs only if asked for that package; tests ask here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Compilers, Toolchain};

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
        let tools = executable.ancestors().nth(3).expect("the target directory").join("release");
        // As `make build` has it. Another test may have been faster.
        let _ = std::os::unix::fs::symlink("crashproof-cc", tools.join("crashproof-c++"));
        assert!(tools.join("crashproof-c++").exists(), "the driver for C++ is there");
        tools
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

/// The toolchain that tests build programs with.
pub fn toolchain() -> Toolchain {
    let found = Compilers::find().expect("clang-22 is installed (scripts/setup installs it)");
    let compilers = Compilers { include: Some(include()), ..found };
    Toolchain { compilers, plugin: plugin(), runtime: Ok(runtime()) }
}

/// Compiles a C, C++ or Rust source to an instrumented program, as `crashproof check` does.
pub fn compile(source: &Path, program: &Path, options: &[&str]) {
    let options: Vec<OsString> = options.iter().map(OsString::from).collect();
    let plan = toolchain().to_program(&[source.to_owned()], &options, program);
    let status = plan.expect("a toolchain").command.status().expect("the compiler runs");
    assert!(status.success(), "{} compiles", source.display());
}

/// A directory of the test's own below the target directory.
pub fn scratch(name: &str) -> PathBuf {
    let directory = tools().with_file_name("tmp").join(name);
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    directory
}
