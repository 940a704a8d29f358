//! The doors through which LLVM comes in.

#![allow(unsafe_code, reason = "symbols called by LLVM and by the C++ shim")]

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use llvm_sys::prelude::LLVMModuleRef;

use crate::{globals, instrument, library};
use crashproof_frontend::llvm::Module;

/// `llvm::PassPluginLibraryInfo` of LLVM 22.
#[repr(C)]
struct PassPluginLibraryInfo {
    version: u32,
    name: *const c_char,
    plugin_version: *const c_char,
    register: unsafe extern "C" fn(*mut c_void),
    before_code_generation: Option<unsafe extern "C" fn()>,
}

/// `LLVM_PLUGIN_API_VERSION` of LLVM 22.
const PLUGIN_API_VERSION: u32 = 2;

unsafe extern "C" {
    fn cp_register_callbacks(pass_builder: *mut c_void);
}

/// The symbol LLVM looks for. It is defined here because a cdylib exports Rust symbols only.
#[unsafe(no_mangle)]
extern "C" fn llvmGetPassPluginInfo() -> PassPluginLibraryInfo {
    PassPluginLibraryInfo {
        version: PLUGIN_API_VERSION,
        name: c"crashproof".as_ptr(),
        plugin_version: concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast(),
        register: cp_register_callbacks,
        before_code_generation: None,
    }
}

/// Start of the pipeline. `unoptimized`: nothing but mandatory inlining will follow.
#[unsafe(no_mangle)]
extern "C" fn crashproof_prepare_module(raw: LLVMModuleRef, unoptimized: bool) {
    // The pass manager keeps the module alive during the pass.
    let module = unsafe { Module::new(raw) };
    keep_for_lint(&module);
    if is_only_linted() {
        return;
    }
    globals::replace(&module);
    if unoptimized {
        library::inline_small_functions(&module);
    }
}

/// A directory for modules as they are before anything is done to them: `crashproof cc --lint` reads them.
const BITCODE_VARIABLE: &str = "CRASHPROOF_LINT_BITCODE";
const KEPT: &str = "crashproof.kept";
/// Set by `crashproof cc --lint-only`: the module is kept for lint and compiled as it is.
const ONLY_VARIABLE: &str = "CRASHPROOF_LINT_ONLY";

fn is_only_linted() -> bool {
    std::env::var_os(ONLY_VARIABLE).is_some()
}

fn keep_for_lint(module: &Module<'_>) {
    let Some(directory) = std::env::var_os(BITCODE_VARIABLE) else { return };
    if module.has_mark(KEPT) {
        return;
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}.bc", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    // A process waiting for it must not see a partial file.
    let whole = Path::new(&directory).join(&name);
    let part = whole.with_extension("part");
    if !module.write_bitcode(&part) || std::fs::rename(&part, &whole).is_err() {
        eprintln!("crashproof: warning: {} cannot be kept for lint", module.source_file());
    }
    module.mark(KEPT);
}

/// End of the pipeline.
#[unsafe(no_mangle)]
extern "C" fn crashproof_instrument_module(raw: LLVMModuleRef) {
    if is_only_linted() {
        return;
    }
    // As above.
    let module = unsafe { Module::new(raw) };
    instrument::run(&module);
}
