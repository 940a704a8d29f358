//! Globals: their addresses, their initial contents, and the assumptions about these.
//!
//! Persistent globals are placed consecutively in the order of their definition, each aligned as declared, like in
//! `crashproof check`'s runtime and by a linker. The first one begins a cache line. If one of them is aligned to a
//! line, that is certain; otherwise the whole section may begin anywhere in a line, and the globals may share lines
//! differently.

use crashproof_frontend::bitcode::MODEL_DIRECTORY;
use crashproof_frontend::bitcode::ir::{Constant, Global, GlobalId, Initial, Module, Part};
use crashproof_prove::program::Field;

use crate::machine::{Machine, Who};
use crate::memory::{Content, Memory};
use crate::objects::{Object, ObjectId, Objects, Origin, function_address};
use crate::options::Error;

/// The section of `PERSISTENT` globals.
pub(crate) const SECTION: &str = "crashproof_pm";

/// The assumption about the addresses of a program's persistent globals, if they could be different.
pub(crate) fn assumption(module: &Module) -> Option<String> {
    let ours =
        |global: &&Global| global.section == SECTION && !global.place.file.starts_with(MODEL_DIRECTORY);
    let globals: Vec<&Global> = module.globals.iter().filter(ours).collect();
    let aligned = globals.iter().any(|global| global.align >= px86::LINE_BYTES);
    // A global as large as its alignment lies in one line wherever that is.
    let alone = matches!(globals.as_slice(), [one] if one.size <= one.align);
    let one_file = globals.windows(2).all(|pair| pair[0].place.file == pair[1].place.file);
    let first = globals.iter().find(|global| global.align < px86::LINE_BYTES)?;
    if alone || aligned && one_file {
        return None;
    }
    let name = &first.name;
    Some(if aligned {
        format!(
            "that the persistent globals of the files follow each other as given (`{name}` is aligned to no cache line)"
        )
    } else {
        format!("that `{}` begins a cache line, to which nothing aligns it", globals[0].name)
    })
}

fn field(part: &Part) -> Field {
    Field { offset: part.offset, size: part.size, name: part.name.clone() }
}

/// Larger globals are not supported.
const LARGEST_GLOBAL: u64 = 16 << 20;

impl Machine<'_> {
    /// Assigns every global its address and initial content.
    pub(crate) fn place_globals(&mut self) -> Result<(), Error> {
        let module = self.module;
        for (index, global) in module.globals.iter().enumerate() {
            let refuse = |what: &str| Error::Global {
                file: global.place.file.to_string(),
                line: global.place.line,
                what: format!("global `{}` {what}", global.name),
            };
            if global.size > LARGEST_GLOBAL {
                return Err(refuse("is larger than 16 MiB"));
            }
            let persistent = global.section == SECTION;
            if persistent && global.thread_local {
                return Err(refuse("is both persistent and thread-local"));
            }
            let shared = persistent || global.constant;
            let make = |recovery: bool, objects: &mut Objects| {
                let origin = Origin::Global { index: index as u32, recovery };
                objects.place(origin, global.align, persistent, || Object {
                    persistent,
                    internal: global.place.file.starts_with(MODEL_DIRECTORY),
                    defined: global.initial.is_some(),
                    fields: global.parts.iter().map(field).collect(),
                    ..Object::zeroed(global.name.clone(), global.size)
                })
            };
            let first = make(false, self.objects);
            let second = if shared { first } else { make(true, self.objects) };
            self.globals.push([first, second]);
        }
        for (index, global) in module.globals.iter().enumerate() {
            for recovery in [0, 1] {
                let content = self.initial_content(global, recovery)?;
                let object = self.globals[index][recovery];
                self.objects.get_mut(object).initial = content;
            }
        }
        Ok(())
    }

    fn initial_content(&self, global: &Global, recovery: usize) -> Result<Vec<u8>, Error> {
        let mut content = Vec::new();
        for (offset, piece) in global.initial.iter().flatten() {
            let bytes = match piece {
                Initial::Bytes(bytes) => bytes.clone(),
                Initial::Address(Constant::Global(target, distance)) => {
                    let target = self.globals[target.0 as usize][recovery];
                    let address = self.objects.get(target).address.wrapping_add_signed(*distance);
                    address.to_le_bytes().to_vec()
                }
                Initial::Address(Constant::Function(function)) => {
                    function_address(*function).to_le_bytes().to_vec()
                }
                Initial::Address(_) => Vec::new(),
                Initial::Unsupported(what) => {
                    return Err(Error::Global {
                        file: global.place.file.to_string(),
                        line: global.place.line,
                        what: format!("global `{}` begins as {what}, which is not supported", global.name),
                    });
                }
            };
            let start = *offset as usize;
            // Trailing zeros are not stored: a large zeroed array costs nothing.
            let end = start + bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let bytes = &bytes[..end - start];
            if end > content.len() && !bytes.is_empty() {
                content.resize(end, 0);
            }
            if !bytes.is_empty() {
                content[start..end].copy_from_slice(bytes);
            }
        }
        Ok(content)
    }

    /// The object of a global, for the current thread.
    pub(crate) fn global(&mut self, id: GlobalId) -> ObjectId {
        let global = self.module.global(id);
        match (global.thread_local, self.who) {
            (true, Who::Thread(thread @ 1..)) => {
                let [first, _] = self.globals[id.0 as usize];
                let model = self.objects.get(first);
                let copy = Object {
                    initial: model.initial.clone(),
                    defined: model.defined,
                    ..Object::zeroed(format!("{} of thread {thread}", model.name), model.size)
                };
                let origin = Origin::ThreadLocal { index: id.0, thread };
                self.objects.place(origin, global.align, false, || copy)
            }
            (_, Who::Recovery) => self.globals[id.0 as usize][1],
            _ => self.globals[id.0 as usize][0],
        }
    }

    /// Memory at the start of a process, except what never changes.
    pub(crate) fn fresh_memory(&mut self) -> Memory {
        let mut memory = Memory::default();
        for index in 0..self.module.globals.len() as u32 {
            let global = self.module.global(GlobalId(index));
            let object = self.global(GlobalId(index));
            if !global.constant || self.objects.is_exposed(object) {
                self.add_object(&mut memory, object);
            }
            // Recovery has to load what survived.
            if self.who == Who::Recovery && self.objects.is_exposed(object) {
                memory.forget(object);
            }
        }
        memory
    }

    /// Puts an object's initial content into memory.
    pub(crate) fn add_object(&mut self, memory: &mut Memory, object: ObjectId) {
        let info = self.objects.get(object);
        let content = if info.defined {
            let zero = self.terms.number(0, 8);
            let bytes: Vec<_> =
                info.initial.iter().map(|byte| Some((self.terms.number((*byte).into(), 8), 0))).collect();
            Content::new(info.size, &bytes, Some((zero, 0)))
        } else {
            Content::new(info.size, &[], None)
        };
        memory.insert(object, content, self.objects.is_exposed(object));
    }

    /// Memory for a thread that starts with a copy of another's.
    pub(crate) fn thread_memory(&mut self, mut memory: Memory) -> Memory {
        for index in 0..self.module.globals.len() as u32 {
            if self.module.global(GlobalId(index)).thread_local {
                let object = self.global(GlobalId(index));
                if !self.objects.is_exposed(object) {
                    self.add_object(&mut memory, object);
                }
            }
        }
        memory
    }
}
