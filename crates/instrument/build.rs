//! Builds the C++ shim against the headers of LLVM 22 that `crashproof-llvm` found.

fn main() {
    println!("cargo::rerun-if-changed=src/shim.cpp");
    let include =
        std::env::var("DEP_CRASHPROOF_LLVM_INCLUDE").expect("the build script of crashproof-llvm says it");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("src/shim.cpp")
        // As system headers, so that LLVM's own warnings stay out of our build.
        .flag(format!("-isystem{include}"))
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .compile("crashproof_shim");
}
