//! Modules read from files.

#![allow(unsafe_code, reason = "see the documentation of the crate")]

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr;

use llvm_sys::core::*;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use llvm_sys::ir_reader::LLVMParseIRInContext2;
use llvm_sys::prelude::*;
use llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMRunPasses,
};

use super::{Module, c_string, text};

/// A module read from bitcode or its text form, with a context of its own.
pub struct File {
    // Before the context, which owns what the module is made of.
    module: Module,
    raw: LLVMModuleRef,
    context: LLVMContextRef,
}

impl Drop for File {
    fn drop(&mut self) {
        unsafe {
            LLVMDisposeModule(self.raw);
            LLVMContextDispose(self.context);
        }
    }
}

impl File {
    /// Reads a file of bitcode or IR text.
    ///
    /// # Errors
    ///
    /// What LLVM says is wrong with it; bitcode of a later LLVM is one such thing.
    pub fn read(path: &Path) -> Result<File, String> {
        let name = c_string(&path.to_string_lossy());
        extern "C" fn quiet(_: LLVMDiagnosticInfoRef, _: *mut c_void) {}
        unsafe {
            let (mut buffer, mut message) = (ptr::null_mut(), ptr::null_mut());
            if LLVMCreateMemoryBufferWithContentsOfFile(name.as_ptr(), &mut buffer, &mut message) != 0 {
                return Err(taken(message));
            }
            let context = LLVMContextCreate();
            LLVMContextSetDiagnosticHandler(context, Some(quiet), ptr::null_mut());
            let mut raw = ptr::null_mut();
            let failed = LLVMParseIRInContext2(context, buffer, &mut raw, &mut message) != 0;
            LLVMDisposeMemoryBuffer(buffer);
            if failed {
                LLVMContextDispose(context);
                return Err(taken(message));
            }
            Ok(File { module: Module::new(raw), raw, context })
        }
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Runs passes of LLVM, named as `opt -passes=` names them.
    ///
    /// # Errors
    ///
    /// If LLVM knows no such passes.
    pub fn run_passes(&self, passes: &str) -> Result<(), String> {
        unsafe {
            let options = LLVMCreatePassBuilderOptions();
            let error = LLVMRunPasses(self.raw, c_string(passes).as_ptr(), ptr::null_mut(), options);
            LLVMDisposePassBuilderOptions(options);
            if error.is_null() {
                return Ok(());
            }
            let message = LLVMGetErrorMessage(error);
            let readable = CStr::from_ptr(message).to_string_lossy().into_owned();
            LLVMDisposeErrorMessage(message);
            Err(readable)
        }
    }
}

/// A message that LLVM allocated, freed.
unsafe fn taken(message: *mut c_char) -> String {
    if message.is_null() {
        return "unknown error".into();
    }
    unsafe {
        let readable = text(message, CStr::from_ptr(message).count_bytes());
        LLVMDisposeMessage(message);
        readable
    }
}
