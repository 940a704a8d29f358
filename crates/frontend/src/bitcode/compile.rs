//! Runs clang.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crashproof_toolchain::{Compilers, FileKind, Language, compile};

use crate::bitcode::error::Error;
use crate::bitcode::{ir, read};
use crate::isolation::bounded;

/// The directory that included texts pretend to be in.
pub const MODEL_DIRECTORY: &str = "<crashproof>";

/// How C is compiled.
#[derive(Clone, Debug)]
pub struct Compiler {
    compilers: Compilers,
    /// Arguments added by the user: `-I`, `-D`, `-std=`.
    arguments: Vec<OsString>,
}

/// Whether a file is bitcode or IR text rather than source.
#[must_use]
pub fn is_bitcode(path: &Path) -> bool {
    FileKind::of(path) == Some(FileKind::Bitcode)
}

impl Compiler {
    /// Finds clang 22 and `crashproof.h`.
    ///
    /// # Errors
    ///
    /// If there is no clang.
    pub fn find(arguments: Vec<OsString>) -> Result<Self, Error> {
        Ok(Compiler { compilers: Compilers::find()?, arguments })
    }

    /// Compiles and links files (C, C++, bitcode, IR text) into one module. Texts (C, with their names) are compiled
    /// and linked, too, if they define a function that is called but not defined yet; they may include texts that are
    /// headers. Intermediate files go to `directory`.
    ///
    /// # Errors
    ///
    /// If a file does not compile, is not bitcode, or does not link with the others.
    pub fn module(
        &self,
        files: &[PathBuf],
        texts: &[(&str, &str)],
        directory: &Path,
    ) -> Result<ir::Module, Error> {
        let io = |path: &Path, cause| Error::Io { path: path.to_owned(), cause };
        let mut inputs = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let bytes = if is_bitcode(file) {
                bounded(file).map_err(|cause| io(file, cause))?
            } else {
                self.compile(file, &directory.join(format!("{index}.bc")), None)?
            };
            inputs.push((file.clone(), bytes));
        }
        let headers = texts.iter().filter(|(name, _)| name.ends_with(".h"));
        for (name, text) in headers {
            let header = directory.join(name);
            fs::write(&header, text).map_err(|cause| io(&header, cause))?;
        }
        let mut rest: Vec<_> = texts.iter().filter(|(name, _)| !name.ends_with(".h")).collect();
        // Linked texts may call further functions.
        loop {
            let module = read::read(&inputs)?;
            let missing: Vec<String> = module
                .functions
                .iter()
                .filter(|function| function.blocks.is_empty() && !function.name.starts_with("llvm."))
                .map(|function| format!("{}(", function.name))
                .collect();
            // A definition starts a line, and does not end with it.
            let defines = |line: &str| !line.starts_with(' ') && !line.ends_with(';');
            let wanted = |text: &str| {
                let mut lines = text.lines().filter(|line| defines(line));
                lines.any(|line| missing.iter().any(|call| line.contains(call.as_str())))
            };
            let (wanted, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, text)| wanted(text));
            if wanted.is_empty() {
                return Ok(module);
            }
            rest = others;
            for (name, text) in wanted {
                let source = directory.join(name);
                fs::write(&source, text).map_err(|cause| io(&source, cause))?;
                let mut here = directory.as_os_str().to_owned();
                here.push("=");
                here.push(MODEL_DIRECTORY);
                let bytes = self.compile(&source, &source.with_extension("bc"), Some(&here))?;
                inputs.push((PathBuf::from(name), bytes));
            }
        }
    }

    fn compile(&self, source: &Path, output: &Path, model: Option<&OsStr>) -> Result<Vec<u8>, Error> {
        let language = FileKind::of(source).and_then(FileKind::language);
        let language = language.ok_or_else(|| Error::NoSource { path: source.to_owned() })?;
        let mut command = self.compilers.to_bitcode(language);
        command.arg("-D__CRASHPROOF_PROVE__=1");
        if language == Language::Cxx {
            // Otherwise strings would be calls into libstdc++, which has no bitcode.
            command.arg("-D_GLIBCXX_ASSERTIONS=1");
        }
        match model {
            None => {
                command.args(&self.arguments);
            }
            Some(map) => {
                let mut option = OsString::from("-ffile-prefix-map=");
                option.push(map);
                command.arg(option);
            }
        }
        compile::run(command.arg("-o").arg(output).arg(source), source)?;
        fs::read(output).map_err(|cause| Error::Io { path: output.to_owned(), cause })
    }
}
