//! Builds the C++ shim against the headers of LLVM 22, and passes their location on to dependent crates.

use std::env;
use std::process::Command;

/// `llvm-config` of LLVM 22, located as llvm-sys does: an explicit prefix first, then by name.
fn llvm_config(argument: &str) -> String {
    let prefixed = env::var("LLVM_SYS_221_PREFIX").map(|prefix| format!("{prefix}/bin/llvm-config"));
    let names = prefixed.into_iter().chain(["llvm-config-22".into(), "llvm-config".into()]);
    for name in names {
        let Ok(version) = Command::new(&name).arg("--version").output() else { continue };
        if !version.stdout.starts_with(b"22.") {
            continue;
        }
        let answer = Command::new(&name).arg(argument).output().expect("llvm-config ran a moment ago");
        return String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    }
    panic!("llvm-config of LLVM 22 not found: install llvm-22-dev, or set LLVM_SYS_221_PREFIX");
}

fn main() {
    println!("cargo::rerun-if-changed=src/llvm/shim.cpp");
    println!("cargo::rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    let include = llvm_config("--includedir");
    println!("cargo::metadata=include={include}");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("src/llvm/shim.cpp")
        // As system headers, so that LLVM's own warnings are suppressed.
        .flag(format!("-isystem{include}"))
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .compile("crashproof_llvm_shim");
}
