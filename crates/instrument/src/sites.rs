//! The site table of a module: one static object for every distinct place that touches memory.
//!
//! All sites of a module lie in one array in a section of their own, and the module's constructor gives
//! the runtime its bounds. While instrumentation runs the length is not known yet, so code refers to a
//! placeholder that the finished array replaces.

use crashproof_protocol::abi::{SITE_MAGIC, SITE_SECTION};
use rustc_hash::FxHashMap;

use crashproof_frontend::llvm::{Linkage, Location, Meta, Module, Type, Value};

/// How far to look for a line.
const NEIGHBOURS: usize = 32;

/// What distinguishes one site from another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key<'m> {
    tag: u32,
    size: u32,
    location: Location,
    inlined_at: Option<Value<'m>>,
    text: Option<String>,
}

/// What a site does, apart from where it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct What<'a> {
    /// Of `crashproof_protocol::abi::kind`.
    pub(crate) kind: u8,
    /// `crashproof_protocol::abi::FLAG_*`.
    pub(crate) flags: u32,
    pub(crate) size: u64,
    pub(crate) text: Option<&'a str>,
}

/// Collects sites.
pub(crate) struct Sites<'m> {
    module: &'m Module<'m>,
    site_type: Type<'m>,
    frame_type: Type<'m>,
    placeholder: Value<'m>,
    rows: Vec<Value<'m>>,
    known: FxHashMap<Key<'m>, u64>,
    strings: FxHashMap<String, Value<'m>>,
    frames: FxHashMap<Meta<'m>, Value<'m>>,
    read: FxHashMap<Meta<'m>, (Location, Option<Value<'m>>)>,
}

/// The finished table: an array of `length` sites.
pub(crate) struct Table<'m> {
    pub(crate) begin: Value<'m>,
    pub(crate) end: Value<'m>,
}

impl<'m> Sites<'m> {
    pub(crate) fn new(module: &'m Module<'m>) -> Self {
        let Module { i32, ptr, .. } = *module;
        let site_type = module.structure(&[i32, i32, i32, i32, ptr, ptr, ptr, ptr]);
        let frame_type = module.structure(&[i32, i32, ptr, ptr, ptr]);
        let placeholder = module.add_global("__crashproof.sites.placeholder", site_type);
        Sites {
            module,
            site_type,
            frame_type,
            placeholder,
            rows: Vec::new(),
            known: FxHashMap::default(),
            strings: FxHashMap::default(),
            frames: FxHashMap::default(),
            read: FxHashMap::default(),
        }
    }

    /// The site of an instruction, as a constant pointer.
    pub(crate) fn of(&mut self, instruction: Value<'m>, what: What<'_>) -> Value<'m> {
        let (location, inlined_at) = self.locate(instruction);
        self.at(location, inlined_at, what)
    }

    /// A site in a file as a whole.
    pub(crate) fn of_file(&mut self, what: What<'_>) -> Value<'m> {
        let location = Location { file: self.module.source_file(), ..Location::default() };
        self.at(location, None, what)
    }

    /// Where an instruction comes from; for messages.
    pub(crate) fn location(&mut self, instruction: Value<'m>) -> Location {
        self.locate(instruction).0
    }

    fn at(&mut self, location: Location, inlined_at: Option<Value<'m>>, what: What<'_>) -> Value<'m> {
        let key = Key {
            tag: SITE_MAGIC | what.flags | u32::from(what.kind),
            size: u32::try_from(what.size).unwrap_or(0),
            location,
            inlined_at,
            text: what.text.map(str::to_owned),
        };
        let index = match self.known.get(&key) {
            Some(index) => *index,
            None => {
                let row = self.row(&key);
                self.rows.push(row);
                let index = self.rows.len() as u64 - 1;
                self.known.insert(key, index);
                index
            }
        };
        self.module.element_address(self.placeholder, self.site_type, index)
    }

    fn row(&mut self, key: &Key<'m>) -> Value<'m> {
        let Module { i32, ptr, .. } = *self.module;
        let text = key.text.as_ref().map_or(ptr.null(), |text| self.string(text));
        let fields = [
            i32.number(key.tag.into()),
            i32.number(key.size.into()),
            i32.number(key.location.line.into()),
            i32.number(key.location.column.into()),
            self.string(&key.location.file),
            self.string(&key.location.function),
            key.inlined_at.unwrap_or(ptr.null()),
            text,
        ];
        self.site_type.const_struct(&fields)
    }

    pub(crate) fn string(&mut self, content: &str) -> Value<'m> {
        if let Some(known) = self.strings.get(content) {
            return *known;
        }
        let global = self.module.string(content);
        self.strings.insert(content.to_owned(), global);
        global
    }

    fn locate(&mut self, instruction: Value<'m>) -> (Location, Option<Value<'m>>) {
        let function = instruction.function();
        // Merged code has line 0; a neighbor says more than nothing.
        let own = instruction.debug_location().map(|meta| self.resolve(meta));
        if let Some(found) = own.clone().filter(|(location, _)| location.line != 0) {
            return found;
        }
        // Those before first: what follows may be another statement.
        for step in [Value::previous, Value::next] {
            let mut neighbor = step(instruction).filter(|_| function.has_debug_info());
            for _ in 0..NEIGHBOURS {
                let Some(candidate) = neighbor else { break };
                if let Some(meta) = candidate.debug_location() {
                    let found = self.resolve(meta);
                    if found.0.line != 0 {
                        return found;
                    }
                }
                neighbor = step(candidate);
            }
        }
        if let Some(found) = own {
            return found;
        }
        let location = function.function_location().unwrap_or_else(|| Location {
            file: self.module.source_file(),
            function: function.name(),
            ..Location::default()
        });
        (location, None)
    }

    fn resolve(&mut self, meta: Meta<'m>) -> (Location, Option<Value<'m>>) {
        if let Some(known) = self.read.get(&meta) {
            return known.clone();
        }
        let (location, outer) = meta.location().unwrap_or_default();
        let result = (location, outer.map(|outer| self.frame(outer)));
        self.read.insert(meta, result.clone());
        result
    }

    fn frame(&mut self, meta: Meta<'m>) -> Value<'m> {
        if let Some(known) = self.frames.get(&meta) {
            return *known;
        }
        let Module { i32, ptr, .. } = *self.module;
        let (location, outer) = meta.location().unwrap_or_default();
        let outer = outer.map_or(ptr.null(), |outer| self.frame(outer));
        let fields = [
            i32.number(location.line.into()),
            i32.number(location.column.into()),
            self.string(&location.file),
            self.string(&location.function),
            outer,
        ];
        let frame = self.module.add_global("__crashproof.frame", self.frame_type);
        frame.set_initializer(self.frame_type.const_struct(&fields));
        frame.set_linkage(Linkage::LLVMPrivateLinkage);
        frame.set_global_constant(true);
        self.frames.insert(meta, frame);
        frame
    }

    /// Writes the table. No site may be asked for afterwards.
    pub(crate) fn finish(self) -> Table<'m> {
        let array = self.site_type.const_array(&self.rows);
        let table = self.module.add_global("__crashproof.sites", array.ty());
        table.set_initializer(array);
        table.set_linkage(Linkage::LLVMPrivateLinkage);
        table.set_section(SITE_SECTION);
        table.set_alignment(8);
        self.placeholder.replace_uses_with(table);
        // SAFETY: its uses are replaced, and `self` ends here.
        #[allow(unsafe_code, reason = "see above")]
        unsafe {
            self.placeholder.delete_global();
        }
        let end = self.module.element_address(table, self.site_type, self.rows.len() as u64);
        Table { begin: table, end }
    }
}
