//! The only door to LLVM: parses, links, tidies and reads modules.
//!
//! # Why the unsafe code here is sound
//!
//! One invariant covers every block: all handles come from modules of one context that [`read`] creates and
//! disposes of, they are used by one thread, and none is kept in what is returned. Modules are verified before
//! they are walked, so operands have the classes the C interface expects for each opcode; a handle is asked
//! what it is (`LLVMIsA...`, an opcode, a type kind) before anything that only some classes have.

#![allow(unsafe_code, reason = "the only door to LLVM; see the module documentation")]

mod constants;
mod flow;
mod instructions;
mod names;
mod types;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;

use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::core::*;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use llvm_sys::ir_reader::LLVMParseIRInContext2;
use llvm_sys::linker::LLVMLinkModules2;
use llvm_sys::prelude::*;
use llvm_sys::target::{LLVMGetModuleDataLayout, LLVMTargetDataRef};
use llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMRunPasses,
};
use rustc_hash::FxHashMap;

use self::flow::Jumps;
use crate::bitcode::Error;
use crate::bitcode::ir::{Function, FunctionId, GlobalId, Module, Place};

/// None of these moves, merges or drops an access to memory that is not a local variable. `sroa` makes values
/// of local variables. The others give every loop one header and let no value leave a loop but through a
/// phi at its exit, which is what symbolic execution of merged paths relies on. `lower-invoke` makes plain calls of those of
/// C++ that may throw: to throw is a call of a function that nobody knows.
const PASSES: &CStr = c"function(lower-invoke,sroa,fix-irreducible,loop-simplify,lcssa)";

/// The same where a loop that can be entered in several places has switches, which `fix-irreducible` does not take.
const PASSES_WITHOUT_SWITCHES: &CStr =
    c"function(lower-invoke,sroa,lower-switch,fix-irreducible,loop-simplify,lcssa)";

/// Reads one module out of several files of bitcode or IR text, given with their names.
///
/// # Errors
///
/// If one is malformed, or they do not fit together.
pub fn read(inputs: &[(PathBuf, Vec<u8>)]) -> Result<Module, Error> {
    let mut session = Session::new();
    let mut whole: Option<LLVMModuleRef> = None;
    for (path, bytes) in inputs {
        let module = session.parse(path, bytes)?;
        whole = Some(match whole {
            None => module,
            Some(first) => {
                session.link(first, module, path)?;
                first
            }
        });
    }
    let Some(module) = whole else { return Ok(Module::default()) };
    let path = &inputs[0].0;
    session.verify(module, path)?;
    session.run_passes(module, path)?;
    Ok(Reader::new(module).module())
}

/// A context and what it complained about.
struct Session {
    context: LLVMContextRef,
    /// Boxed, because the context keeps its address.
    complaints: Box<RefCell<Vec<String>>>,
}

impl Session {
    fn new() -> Self {
        // SAFETY: the handler is given the address of `complaints`, which lives as long as the context.
        unsafe {
            let context = LLVMContextCreate();
            let complaints: Box<RefCell<Vec<String>>> = Box::default();
            let address: *const RefCell<Vec<String>> = &raw const *complaints;
            // Without a handler LLVM ends the process at the first error.
            LLVMContextSetDiagnosticHandler(context, Some(complain), address.cast_mut().cast());
            Session { context, complaints }
        }
    }

    fn parse(&mut self, path: &Path, bytes: &[u8]) -> Result<LLVMModuleRef, Error> {
        let mut module = ptr::null_mut();
        let mut message = ptr::null_mut();
        // SAFETY: the buffer is a copy with a zero behind it; the parser does not keep it.
        let failed = unsafe {
            let name = CString::new(path.to_string_lossy().replace('\0', "?")).unwrap_or_default();
            let buffer =
                LLVMCreateMemoryBufferWithMemoryRangeCopy(bytes.as_ptr().cast(), bytes.len(), name.as_ptr());
            let failed = LLVMParseIRInContext2(self.context, buffer, &raw mut module, &raw mut message) != 0;
            LLVMDisposeMemoryBuffer(buffer);
            failed
        };
        let message = take_message(message);
        if failed || module.is_null() {
            let why = self.why(message);
            return Err(Error::Malformed { path: path.to_owned(), why });
        }
        self.verify(module, path)?;
        Ok(module)
    }

    fn link(&mut self, into: LLVMModuleRef, module: LLVMModuleRef, path: &Path) -> Result<(), Error> {
        // SAFETY: both are modules of this context; `module` is consumed.
        if unsafe { LLVMLinkModules2(into, module) } != 0 {
            let why = self.why(String::new());
            return Err(Error::Link { path: path.to_owned(), why });
        }
        Ok(())
    }

    fn verify(&mut self, module: LLVMModuleRef, path: &Path) -> Result<(), Error> {
        let mut message = ptr::null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        // SAFETY: a module of this context.
        let broken = unsafe { LLVMVerifyModule(module, action, &raw mut message) } != 0;
        let message = take_message(message);
        if broken {
            return Err(Error::Malformed { path: path.to_owned(), why: self.why(message) });
        }
        Ok(())
    }

    fn run_passes(&mut self, module: LLVMModuleRef, path: &Path) -> Result<(), Error> {
        let passes = match self.jumps(module)? {
            Jumps::Switches => PASSES_WITHOUT_SWITCHES,
            _ => PASSES,
        };
        // SAFETY: options and error are disposed of here.
        unsafe {
            let options = LLVMCreatePassBuilderOptions();
            let error = LLVMRunPasses(module, passes.as_ptr(), ptr::null_mut(), options);
            LLVMDisposePassBuilderOptions(options);
            if error.is_null() {
                return Ok(());
            }
            let text = LLVMGetErrorMessage(error);
            let why = CStr::from_ptr(text).to_string_lossy().into_owned();
            LLVMDisposeErrorMessage(text);
            Err(Error::Malformed { path: path.to_owned(), why })
        }
    }

    /// Whether there are loops that the usual passes do not take.
    fn jumps(&self, module: LLVMModuleRef) -> Result<Jumps, Error> {
        let mut found = Jumps::Branches;
        // SAFETY: the list of a module's functions is walked without changing it.
        unsafe {
            let mut next = LLVMGetFirstFunction(module);
            while !next.is_null() {
                if LLVMCountBasicBlocks(next) > 0 {
                    match flow::jumps(next) {
                        Jumps::Branches => {}
                        Jumps::Switches => found = Jumps::Switches,
                        Jumps::Others => {
                            let what = "jumps to computed labels in a loop with several entries";
                            return Err(Error::Unsupported { function: name_of(next), what });
                        }
                    }
                }
                next = LLVMGetNextFunction(next);
            }
        }
        Ok(found)
    }

    fn why(&mut self, message: String) -> String {
        let said = self.complaints.take();
        let all: Vec<String> = said.into_iter().chain([message]).filter(|text| !text.is_empty()).collect();
        if all.is_empty() { "no reason given".into() } else { readable(&all.join("; ")) }
    }
}

/// LLVM quotes what it does not understand, which may be anything: the first line of it, as far as people can read it.
fn readable(message: &str) -> String {
    const LONGEST: usize = 200;
    let line = message.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER).take(LONGEST).collect()
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: modules left in the context go with it; no handle outlives the session.
        unsafe { LLVMContextDispose(self.context) }
    }
}

extern "C" fn complain(info: LLVMDiagnosticInfoRef, complaints: *mut c_void) {
    // SAFETY: `complaints` is the address given in `Session::new`, and LLVM calls this from the same thread.
    unsafe {
        let text = LLVMGetDiagInfoDescription(info);
        let said = CStr::from_ptr(text).to_string_lossy().into_owned();
        (*complaints.cast::<RefCell<Vec<String>>>()).borrow_mut().push(said);
        LLVMDisposeMessage(text);
    }
}

fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM hands over a string that is ours to dispose of.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().trim().to_owned();
        LLVMDisposeMessage(message);
        text
    }
}

fn text(start: *const c_char, length: usize) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: LLVM says where its string begins and how long it is.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

fn name_of(value: LLVMValueRef) -> String {
    let mut length = 0;
    // SAFETY: any value has a name, maybe an empty one.
    let start = unsafe { LLVMGetValueName2(value, &raw mut length) };
    text(start, length)
}

/// Walks a module.
struct Reader {
    module: LLVMModuleRef,
    layout: LLVMTargetDataRef,
    functions: FxHashMap<LLVMValueRef, FunctionId>,
    globals: FxHashMap<LLVMValueRef, GlobalId>,
    files: FxHashMap<String, Rc<str>>,
    nontemporal: c_uint,
}

impl Reader {
    fn new(module: LLVMModuleRef) -> Self {
        const NONTEMPORAL: &str = "nontemporal";
        // SAFETY: the module's own context and layout.
        let (layout, nontemporal) = unsafe {
            let context = LLVMGetModuleContext(module);
            let kind =
                LLVMGetMDKindIDInContext(context, NONTEMPORAL.as_ptr().cast(), NONTEMPORAL.len() as u32);
            (LLVMGetModuleDataLayout(module), kind)
        };
        Reader {
            module,
            layout,
            functions: FxHashMap::default(),
            globals: FxHashMap::default(),
            files: FxHashMap::default(),
            nontemporal,
        }
    }

    fn module(mut self) -> Module {
        let mut functions = Vec::new();
        let mut globals = Vec::new();
        // SAFETY: the lists of a module are walked without changing it.
        unsafe {
            let mut next = LLVMGetFirstFunction(self.module);
            while !next.is_null() {
                self.functions.insert(next, FunctionId(functions.len() as u32));
                functions.push(next);
                next = LLVMGetNextFunction(next);
            }
            let mut next = LLVMGetFirstGlobal(self.module);
            while !next.is_null() {
                self.globals.insert(next, GlobalId(globals.len() as u32));
                globals.push(next);
                next = LLVMGetNextGlobal(next);
            }
        }
        let globals = globals.into_iter().map(|global| self.global(global)).collect();
        let functions: Vec<Function> =
            functions.into_iter().map(|function| self.function(function)).collect();
        let mut length = 0;
        // SAFETY: the string belongs to the module.
        let start = unsafe { LLVMGetModuleInlineAsm(self.module, &raw mut length) };
        Module { functions, globals, assembly: text(start, length) }
    }

    /// Where an instruction, function or global stands.
    fn place(&mut self, value: LLVMValueRef) -> Place {
        let mut length = 0;
        // SAFETY: these take instructions, functions and global variables, and give nothing for others.
        let (name, line, column) = unsafe {
            let start = LLVMGetDebugLocFilename(value, &raw mut length);
            let name = text(start, length as usize);
            let is_instruction = !LLVMIsAInstruction(value).is_null();
            let column = if is_instruction { LLVMGetDebugLocColumn(value) } else { 0 };
            (name, LLVMGetDebugLocLine(value), column)
        };
        let file = self.files.entry(name).or_insert_with_key(|name| Rc::from(name.as_str())).clone();
        Place { file, line, column }
    }
}
