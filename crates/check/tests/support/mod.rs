//! Builds what tests of real programs need, and programs with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory with the plugin and the runtime, built on first use.
pub(crate) fn tools() -> &'static Path {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--release",
                "-p",
                "crashproof-runtime",
                "-p",
                "crashproof-instrument",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the plugin and the runtime build");
        // The test executable lies in target/<profile>/deps.
        let executable = std::env::current_exe().expect("a path");
        executable.ancestors().nth(3).expect("the target directory").join("release")
    })
}

/// Compiles `source` to `program` with the plugin and the runtime.
pub(crate) fn compile(source: &Path, program: &Path, options: &[&str]) {
    let tools = tools();
    let cxx = source.extension().is_some_and(|extension| extension != "c");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let status = Command::new(if cxx { "clang++-22" } else { "clang-22" })
        .args(["-O1", "-g", "-pthread", "-Wno-unused-command-line-argument"])
        .args(options)
        .arg(format!("-fpass-plugin={}", tools.join("libcrashproof_instrument.so").display()))
        .arg("-I")
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(program)
        .arg(tools.join("libcrashproof_rt.so"))
        .arg(format!("-Wl,-rpath,{}", tools.display()))
        .status()
        .expect("clang-22 is installed (scripts/setup installs it)");
    assert!(status.success(), "{} compiles", source.display());
}

/// A directory of the test's own below the target directory.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    directory
}
