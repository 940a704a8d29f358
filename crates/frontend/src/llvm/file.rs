//! Modules read from files, each with a context of its own.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::core::*;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use llvm_sys::ir_reader::LLVMParseIRInContext2;
use llvm_sys::linker::LLVMLinkModules2;
use llvm_sys::prelude::*;
use llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMRunPasses,
};

use super::handles::{c_string, taken};
use super::module::Module;

/// A verified module, with a context of its own.
pub struct File {
    module: LLVMModuleRef,
    context: LLVMContextRef,
    /// LLVM's error messages. Boxed, because the context keeps its address.
    complaints: Box<RefCell<Vec<String>>>,
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: this file owns both; the module is disposed of first, because the context owns its parts.
        unsafe {
            if !self.module.is_null() {
                LLVMDisposeModule(self.module);
            }
            LLVMContextDispose(self.context);
        }
    }
}

extern "C" fn complain(info: LLVMDiagnosticInfoRef, complaints: *mut c_void) {
    // SAFETY: `complaints` is the address given in `File::parse`, and LLVM calls this from the same thread.
    unsafe {
        let said = taken(LLVMGetDiagInfoDescription(info));
        (*complaints.cast::<RefCell<Vec<String>>>()).borrow_mut().push(said);
    }
}

impl File {
    /// Parses and verifies bitcode or IR text.
    ///
    /// # Errors
    ///
    /// LLVM's message about invalid input, including bitcode of a later LLVM.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<File, String> {
        // SAFETY: the handler is given the address of `complaints`, which lives as long as the context.
        let mut file = unsafe {
            let context = LLVMContextCreate();
            let complaints: Box<RefCell<Vec<String>>> = Box::default();
            let address: *const RefCell<Vec<String>> = &raw const *complaints;
            // Without a handler LLVM ends the process at the first error.
            LLVMContextSetDiagnosticHandler(context, Some(complain), address.cast_mut().cast());
            File { module: ptr::null_mut(), context, complaints }
        };
        file.module = file.parsed(name, bytes)?;
        Ok(file)
    }

    fn parsed(&mut self, name: &str, bytes: &[u8]) -> Result<LLVMModuleRef, String> {
        let (mut module, mut message) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the buffer is a zero-terminated copy; the parser does not keep it.
        let failed = unsafe {
            let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
                bytes.as_ptr().cast(),
                bytes.len(),
                c_string(name).as_ptr(),
            );
            let failed = LLVMParseIRInContext2(self.context, buffer, &raw mut module, &raw mut message) != 0;
            LLVMDisposeMemoryBuffer(buffer);
            failed
        };
        let message = taken(message);
        if failed || module.is_null() {
            return Err(self.why(message));
        }
        self.verified(module).inspect_err(|_| {
            // SAFETY: no handle to it exists.
            unsafe { LLVMDisposeModule(module) }
        })?;
        Ok(module)
    }

    fn verified(&mut self, module: LLVMModuleRef) -> Result<(), String> {
        let mut message = ptr::null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        // SAFETY: a module of this context.
        let broken = unsafe { LLVMVerifyModule(module, action, &raw mut message) } != 0;
        let message = taken(message);
        if broken { Err(self.why(message)) } else { Ok(()) }
    }

    /// Parses another file and links it to this one.
    ///
    /// # Errors
    ///
    /// LLVM's message about the file, or about linking.
    pub fn link(&mut self, name: &str, bytes: &[u8]) -> Result<(), LinkError> {
        let module = self.parsed(name, bytes).map_err(LinkError::Malformed)?;
        // SAFETY: both are modules of this context, and no handle to either exists; `module` is consumed.
        if unsafe { LLVMLinkModules2(self.module, module) } != 0 {
            return Err(LinkError::DoesNotFit(self.why(String::new())));
        }
        Ok(())
    }

    /// Verifies the module again, after others were linked to it.
    ///
    /// # Errors
    ///
    /// LLVM's message.
    pub fn verify(&mut self) -> Result<(), String> {
        self.verified(self.module)
    }

    /// The module.
    pub fn module(&self) -> Module<'_> {
        // SAFETY: the module lives as long as this file; changing it requires exclusive access to the file.
        unsafe { Module::new(self.module) }
    }

    /// Runs passes of LLVM, named as `opt -passes=` names them.
    ///
    /// # Errors
    ///
    /// If LLVM knows no such passes.
    pub fn run_passes(&mut self, passes: &str) -> Result<(), String> {
        // SAFETY: options and error are disposed of here; no handle to the module exists.
        unsafe {
            let options = LLVMCreatePassBuilderOptions();
            let error = LLVMRunPasses(self.module, c_string(passes).as_ptr(), ptr::null_mut(), options);
            LLVMDisposePassBuilderOptions(options);
            if error.is_null() {
                return Ok(());
            }
            let message: *mut c_char = LLVMGetErrorMessage(error);
            let readable = CStr::from_ptr(message).to_string_lossy().into_owned();
            LLVMDisposeErrorMessage(message);
            Err(readable)
        }
    }

    fn why(&mut self, message: String) -> String {
        let said = self.complaints.take();
        let all: Vec<String> = said.into_iter().chain([message]).filter(|text| !text.is_empty()).collect();
        if all.is_empty() { "no reason given".into() } else { readable(&all.join("; ")) }
    }
}

/// Why two files cannot be linked.
pub enum LinkError {
    /// The second one is malformed.
    Malformed(String),
    /// They do not fit together.
    DoesNotFit(String),
}

/// The first readable line of a message: LLVM quotes what it does not understand, which may be anything.
fn readable(message: &str) -> String {
    const LONGEST: usize = 200;
    let line = message.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER).take(LONGEST).collect()
}
