//! Finds the pieces a build needs.
//!
//! Each can be given by an environment variable. Otherwise clang is looked for in `PATH`, and the others
//! near the running program: installed (`bin/` beside `lib/` and `include/`) or in a build directory.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::{Error, Language};

/// File name of the plugin.
pub const PLUGIN: &str = "libcrashproof_instrument.so";

/// File name of the runtime.
pub const RUNTIME: &str = "libcrashproof_runtime.so";

/// File name of the program that has the commands which need LLVM.
pub const LLVM_PROGRAM: &str = "crashproof-llvm";

/// The header programs include.
pub const HEADER: &str = "crashproof.h";

/// The compilers, and the header that programs include.
#[derive(Clone, Debug)]
pub struct Compilers {
    /// clang 22.
    pub clang: PathBuf,
    /// clang++ 22.
    pub clang_cxx: PathBuf,
    /// Directory of [`HEADER`], if found.
    pub include: Option<PathBuf>,
}

impl Compilers {
    /// Looks for clang, clang++ and the header.
    ///
    /// # Errors
    ///
    /// If there is no clang 22, or a variable names something that does not exist.
    pub fn find() -> Result<Self, Error> {
        let clang = find_clang()?;
        let beside = clang.with_file_name(name_of_cxx(&clang));
        let clang_cxx = match given("CRASHPROOF_CLANGXX")? {
            Some(path) => path,
            None if beside.exists() => beside,
            None => clang_in_path(&["clang++-22", "clang++"]).ok_or(Error::NoClang)?,
        };
        Ok(Compilers { clang, clang_cxx, include: find_include()? })
    }

    /// The compiler for a language.
    #[must_use]
    pub fn driver(&self, language: Language) -> &Path {
        match language {
            Language::C => &self.clang,
            Language::Cxx => &self.clang_cxx,
        }
    }
}

/// Everything that builds an instrumented program.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// clang and the header.
    pub compilers: Compilers,
    /// The instrumenting plugin.
    pub plugin: PathBuf,
    /// The runtime, or the directory near which it was missed. Compiling works without.
    pub runtime: Result<PathBuf, PathBuf>,
}

impl Toolchain {
    /// Looks for everything.
    ///
    /// # Errors
    ///
    /// If clang or the plugin is missing, or a variable names something that does not exist.
    pub fn find() -> Result<Self, Error> {
        let near = directory_of_program();
        let compilers = Compilers::find()?;
        let plugin = match given("CRASHPROOF_PLUGIN")? {
            Some(path) => path,
            None => library(&near, PLUGIN).ok_or(Error::NoPlugin { name: PLUGIN, near: near.clone() })?,
        };
        let runtime = match given("CRASHPROOF_RUNTIME")? {
            Some(path) => Ok(path),
            None => library(&near, RUNTIME).ok_or(near),
        };
        Ok(Toolchain { compilers, plugin, runtime })
    }

    /// The runtime.
    ///
    /// # Errors
    ///
    /// If it was not found.
    pub fn runtime(&self) -> Result<&Path, Error> {
        match &self.runtime {
            Ok(path) => Ok(path),
            Err(near) => Err(Error::NoRuntime { name: RUNTIME, near: near.clone() }),
        }
    }
}

/// clang 22.
///
/// # Errors
///
/// If there is none, or `CRASHPROOF_CLANG` names a file that does not exist.
pub fn find_clang() -> Result<PathBuf, Error> {
    match given("CRASHPROOF_CLANG")? {
        Some(path) => Ok(path),
        None => clang_in_path(&["clang-22", "clang"]).ok_or(Error::NoClang),
    }
}

/// The runtime near the running program, or the one that `CRASHPROOF_RUNTIME` names.
#[must_use]
pub fn find_runtime() -> Option<PathBuf> {
    given("CRASHPROOF_RUNTIME").ok().flatten().or_else(|| library(&directory_of_program(), RUNTIME))
}

/// The program that has the commands which need LLVM, near the running program.
#[must_use]
pub fn find_llvm_program() -> Option<PathBuf> {
    library(&directory_of_program(), LLVM_PROGRAM)
}

/// The directory of [`HEADER`], if there is one near the running program.
fn find_include() -> Result<Option<PathBuf>, Error> {
    if let Some(path) = given("CRASHPROOF_INCLUDE")? {
        return Ok(Some(path));
    }
    let near = directory_of_program();
    Ok(["../include/crashproof", "../include", "../../include", "../../../include"]
        .iter()
        .map(|relative| near.join(relative))
        .find(|directory| directory.join(HEADER).exists()))
}

/// Symbolic links are followed: `crashproof-c++` may be one, in a directory of its own. [`LLVM_PROGRAM`] is installed beside
/// the libraries, everything else in `bin`.
fn directory_of_program() -> PathBuf {
    let program = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let directory = program.parent().map(Path::to_owned).unwrap_or_default();
    if directory.ends_with("lib/crashproof") { directory.join("../../bin") } else { directory }
}

fn given(variable: &'static str) -> Result<Option<PathBuf>, Error> {
    let Some(path) = env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if path.exists() { Ok(Some(path)) } else { Err(Error::BadVariable { variable, path }) }
}

fn library(near: &Path, name: &str) -> Option<PathBuf> {
    ["", "../lib/crashproof", "../lib", "deps", ".."]
        .iter()
        .map(|relative| near.join(relative).join(name))
        .find(|path| path.exists())
        .and_then(|path| path.canonicalize().ok())
}

/// A name with the version in it is trusted, a bare one must lie in a directory that names LLVM 22.
fn clang_in_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    names.iter().find_map(|name| {
        directories.iter().map(|directory| directory.join(name)).find(|candidate| {
            let versioned = name.ends_with("-22");
            let home = candidate.canonicalize().unwrap_or_default();
            candidate.is_file() && (versioned || home.components().any(|c| c.as_os_str() == "llvm-22"))
        })
    })
}

fn name_of_cxx(clang: &Path) -> String {
    let name = clang.file_name().unwrap_or(OsStr::new("clang")).to_string_lossy();
    name.replacen("clang", "clang++", 1)
}
