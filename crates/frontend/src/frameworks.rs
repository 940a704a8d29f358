//! What library functions mean to lint, as data.
//!
//! Each framework has a `lint.toml` below `frameworks/`; users add files of their own. docs/src/descriptions.md
//! describes the format. A described function is never analyzed, even if its code is available: the description is its
//! contract. The C library's effects on memory are in [`crate::meaning`] instead.

use std::fmt::Write as _;
use std::path::Path;

use crashproof_findings::frameworks::{BUILT_IN, BuiltIn};
use rustc_hash::FxHashMap;
use serde::Deserialize;

/// One file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    framework: String,
    about: String,
    #[serde(default)]
    transaction: Option<Commit>,
    #[serde(default)]
    sections: Vec<String>,
    /// C++ namespaces of the library: events in its code are reported at the call.
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "type")]
    types: Vec<PersistentType>,
    #[serde(default, rename = "function")]
    functions: Vec<Entry>,
}

/// What the end of a transaction does.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Commit {
    /// Logged ranges are written back.
    pub flushes_logged: bool,
    /// Objects allocated in the transaction are written back.
    pub flushes_allocated: bool,
    /// Every store inside is logged automatically.
    pub logs_every_store: bool,
    /// All queued or flushed data is waited for.
    pub drains: bool,
    /// It also excludes other threads, so a read-only transaction is justified.
    pub isolates: bool,
}

/// A type whose objects are always persistent.
#[derive(Deserialize, Debug, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PersistentType {
    /// Its tag.
    pub name: String,
    /// From this member on, the content is only meaningful to the running program.
    #[serde(default)]
    pub volatile_from: Option<String>,
    /// The same for the content of these members.
    #[serde(default)]
    pub volatile: Vec<String>,
    /// The library aligns its objects to this.
    #[serde(default)]
    pub alignment: u64,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    /// A trailing star matches anything.
    names: Vec<String>,
    #[serde(default)]
    effects: Vec<Effect>,
    #[serde(default)]
    returns: Option<String>,
    #[serde(default)]
    constructor: Option<Constructor>,
    #[serde(default)]
    starts: Option<Starts>,
    /// The result is aligned to this.
    #[serde(default)]
    alignment: u64,
    #[serde(default)]
    note: Option<String>,
}

/// A function of the program that the library calls with a new object.
#[derive(Deserialize, Debug, Clone, Copy)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Constructor {
    /// The argument that is the function.
    pub argument: u32,
    /// The parameter of it that is the object.
    pub object: u32,
}

/// A function of the program that the library runs in a new thread.
#[derive(Deserialize, Debug, Clone, Copy)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Starts {
    /// The argument that is the function.
    pub argument: u32,
    /// The argument that it is called with.
    pub passes: u32,
}

/// One effect of a call.
#[derive(Deserialize, Debug, Clone, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Effect {
    /// The kind of effect.
    #[serde(rename = "do")]
    pub what: What,
    /// The argument that is an address.
    #[serde(default)]
    pub address: Option<u32>,
    /// The first of two arguments that form a PMDK object identifier.
    #[serde(default)]
    pub oid: Option<u32>,
    /// The argument that is an offset from there.
    #[serde(default)]
    pub offset: Option<u32>,
    /// The argument that is the number of bytes.
    #[serde(default)]
    pub length: Option<u32>,
    /// The number of bytes. Without it and without `length`: the whole object.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// The whole cache line of the address.
    #[serde(default)]
    pub line: bool,
    /// The argument that is copied from.
    #[serde(default)]
    pub source: Option<u32>,
    /// The argument that is stored.
    #[serde(default)]
    pub value: Option<u32>,
    /// Only if this argument is not zero.
    #[serde(default, rename = "if")]
    pub only_if: Option<u32>,
    /// Unless this argument has one of `bits` set.
    #[serde(default)]
    pub unless: Option<u32>,
    /// The bits that `unless` tests.
    #[serde(default)]
    pub bits: i64,
}

/// Kinds of effects.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Irrelevant to persistence.
    #[default]
    Nothing,
    /// Stores through the cache.
    Store,
    /// Stores that bypass the cache.
    StoreNonTemporal,
    /// Starts a write-back without waiting.
    Flush,
    /// Writes back each line before the next store, as `clflush` does.
    FlushOrdered,
    /// Writes back the pages of a range, as `msync` does.
    FlushPages,
    /// Only records a write-back, which `drain` performs.
    Queue,
    /// Waits for flushes, not for what is queued.
    Fence,
    /// Writes back everything queued and waits for all.
    Drain,
    /// Saves a copy for undoing.
    Log,
    /// Saves a copy, then the transaction stores.
    LogAndStore,
    /// A transaction begins.
    Begin,
    /// Commits the innermost transaction, which ends.
    Commit,
    /// Aborts the innermost transaction, which ends.
    Abort,
    /// A step of a transaction that runs in stages, as PMDK's do: work, on-commit, finally.
    Process,
    /// Commits, but the stages go on.
    CommitStage,
    /// The end of a transaction that runs in stages.
    End,
    /// Changes persistent memory by the library's own means, durably.
    Change,
    /// Called only inside transactions: if none is open, a caller has one.
    Inside,
    /// Writes to the given memory, whose content becomes unknown.
    Clobber,
    /// An epoch begins.
    EpochBegin,
    /// An epoch ends; a barrier must precede this.
    EpochEnd,
    /// A strand begins.
    StrandBegin,
    /// A strand ends.
    StrandEnd,
    /// All strands so far are waited for.
    StrandJoin,
    /// Writes back everything queued and waits, as part of a larger operation.
    Settle,
    /// Writes back all mapped files and waits.
    Sync,
    /// From here on stores may be lost: the program tolerates it.
    TolerateBegin,
    /// Ends that.
    TolerateEnd,
    /// Control does not come back.
    Leave,
}

/// What a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// Nothing special.
    Anything,
    /// A pointer to persistent memory.
    Persistent,
    /// A pointer to a new object that is still unreachable.
    Fresh,
    /// The identifier of a new object, as two integers.
    FreshOid,
    /// The object whose identifier is in two arguments, starting with this one.
    Direct(u32),
    /// An argument.
    Argument(u32),
    /// Newly allocated volatile memory.
    Volatile,
    /// Memory mapped from a file by `mmap`; persistent if other evidence shows it.
    Mapping,
    /// A constant.
    Constant(i64),
    /// The stage of the innermost transaction.
    Stage,
    /// Persistent memory, the same for the same arguments.
    Found,
    /// Zero if no transaction is open.
    Transaction,
    /// The pool of the object that an argument points to; zero if it is not persistent.
    PoolOf(u32),
    /// A pointer to a function described under the name with this number ([`Apis::returned`]).
    Function(u32),
}

/// Everything known about a function.
#[derive(Debug, Clone)]
pub struct Meaning {
    /// Index into the list of frameworks.
    pub framework: usize,
    /// In order.
    pub effects: Vec<Effect>,
    /// The result.
    pub returns: Returns,
    /// A callback.
    pub constructor: Option<Constructor>,
    /// A thread.
    pub starts: Option<Starts>,
    /// The alignment of the result; 0 if unknown.
    pub alignment: u64,
    note: Option<String>,
}

/// A framework.
#[derive(Debug, Clone)]
pub struct Framework {
    /// Its name.
    pub name: String,
    /// A sentence about it.
    pub about: String,
    /// What the end of its transactions does.
    pub commit: Commit,
    /// The first logging function in its description.
    pub logs: Option<String>,
}

/// All descriptions.
#[derive(Debug, Default)]
pub struct Apis {
    /// In the order they were read.
    pub frameworks: Vec<Framework>,
    /// Sections whose variables are persistent.
    pub sections: Vec<String>,
    /// Namespaces whose code is a library's.
    pub namespaces: Vec<String>,
    /// Types whose objects are persistent.
    pub types: Vec<PersistentType>,
    /// Names of functions to which other functions return pointers.
    pub returned: Vec<String>,
    exact: FxHashMap<String, Meaning>,
    prefixes: Vec<(String, Meaning)>,
}

/// A description that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {file}: {cause}")]
    Read {
        /// The file.
        file: String,
        /// Why not.
        cause: std::io::Error,
    },
    /// It is malformed.
    #[error("{file}:{line}: {reason}")]
    Broken {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// Whether a name begins like a pattern, in which stars stand for anything.
fn begins(name: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return name.starts_with(pattern) };
    let Some(after) = name.strip_prefix(first) else { return false };
    let mut left = after;
    rest.split('*').all(|part| match left.find(part) {
        Some(at) => {
            left = &left[at + part.len()..];
            true
        }
        None => false,
    })
}

/// The name of a function in a C header. File-local functions are mangled in C++ even if declared as C.
/// to be C.
fn as_in_c(name: &str) -> &str {
    let Some(rest) = name.strip_prefix("_ZL") else { return name };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = rest[..digits].parse().unwrap_or(0);
    rest.get(digits..digits + length).filter(|plain| !plain.is_empty()).unwrap_or(name)
}

/// A function's name without its result and parameters: `void a::b<int>::c(int)` is `a::b<int>::c`. Names of operators,
/// which may look like anything, are excluded.
fn qualified(function: &str) -> &str {
    let (mut depth, mut start) = (0, 0);
    for (at, c) in function.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ' ' if depth == 0 => start = at + 1,
            '(' if depth == 0 => return &function[start..at],
            'o' if depth == 0 && function[at..].starts_with("operator") && function[..at].ends_with("::") => {
                return &function[start..at];
            }
            _ => {}
        }
    }
    &function[start..]
}

impl Apis {
    /// The built-in descriptions.
    #[must_use]
    pub fn built_in() -> Self {
        let mut apis = Apis::default();
        for BuiltIn { name, lint, .. } in &BUILT_IN {
            let file = format!("frameworks/{name}/lint.toml");
            apis.add_text(&file, lint).expect("built-in descriptions are read by a test");
        }
        apis
    }

    /// Adds a file, whose descriptions override earlier ones.
    ///
    /// # Errors
    ///
    /// With the line and the reason.
    pub fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let file = path.display().to_string();
        let text = crashproof_findings::text_file::read(path)
            .map_err(|cause| Error::Read { file: file.clone(), cause })?;
        self.add_text(&file, &text)
    }

    /// Adds the text of a file.
    ///
    /// # Errors
    ///
    /// With the line and the reason.
    pub fn add_text(&mut self, file: &str, text: &str) -> Result<(), Error> {
        let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let broken = |line, reason: String| Error::Broken { file: file.to_owned(), line, reason };
        let read: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(span.start));
            broken(line, error.message().to_owned())
        })?;
        let framework = self.frameworks.len();
        let mut logs = None;
        for (number, entry) in read.functions.into_iter().enumerate() {
            let line = text.match_indices("[[function]]").nth(number).map_or(1, |(at, _)| line_of(at));
            let returns = self.returns(entry.returns.as_deref()).map_err(|reason| broken(line, reason))?;
            for effect in &entry.effects {
                check(effect).map_err(|reason| broken(line, reason))?;
            }
            let meaning = Meaning {
                framework,
                effects: entry.effects,
                returns,
                constructor: entry.constructor,
                starts: entry.starts,
                alignment: entry.alignment,
                note: entry.note,
            };
            if entry.names.is_empty() {
                return Err(broken(line, "a function needs a name".into()));
            }
            if logs.is_none() && meaning.effects.first().is_some_and(|effect| effect.what == What::Log) {
                logs = entry.names.first().cloned();
            }
            for name in entry.names {
                match name.strip_suffix('*') {
                    Some(prefix) => self.prefixes.push((prefix.to_owned(), meaning.clone())),
                    None => {
                        self.exact.insert(name, meaning.clone());
                    }
                }
            }
        }
        self.sections.extend(read.sections);
        self.namespaces.extend(read.namespaces);
        self.types.extend(read.types);
        self.frameworks.push(Framework {
            name: read.framework,
            about: read.about,
            commit: read.transaction.unwrap_or_default(),
            logs,
        });
        Ok(())
    }

    /// Parses the `returns` of a description.
    fn returns(&mut self, text: Option<&str>) -> Result<Returns, String> {
        match text.and_then(|text| text.strip_prefix("function ")) {
            Some(name) => {
                self.returned.push(name.trim().to_owned());
                Ok(Returns::Function(self.returned.len() as u32 - 1))
            }
            None => returns(text),
        }
    }

    /// Forgets C library functions that the program defines itself. Functions of frameworks remain described: their
    /// sources are part of many programs.
    pub fn forget_library_functions(&mut self, defined: &[String]) {
        let Some(library) = self.frameworks.iter().position(|framework| framework.name == "raw") else {
            return;
        };
        let own = defined.iter().map(|name| as_in_c(name)).filter(|name| !name.starts_with("crashproof_"));
        for name in own {
            if self.exact.get(name).is_some_and(|meaning| meaning.framework == library) {
                self.exact.remove(name);
            }
        }
    }

    /// The description of a function, if any.
    #[must_use]
    pub fn meaning(&self, name: &str) -> Option<&Meaning> {
        let name = as_in_c(name);
        self.exact.get(name).or_else(|| {
            self.prefixes.iter().rev().find(|(prefix, _)| begins(name, prefix)).map(|(_, meaning)| meaning)
        })
    }

    /// Whether a demangled C++ function belongs to a library.
    #[must_use]
    pub fn is_of_a_library(&self, function: &str) -> bool {
        let name = qualified(function);
        self.namespaces
            .iter()
            .any(|namespace| name.strip_prefix(namespace.as_str()).is_some_and(|rest| rest.starts_with("::")))
    }

    /// A readable listing of everything known.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for (number, framework) in self.frameworks.iter().enumerate() {
            let _ = writeln!(text, "{}: {}", framework.name, framework.about);
            let commit = framework.commit;
            for (set, what) in [
                (commit.flushes_logged, "commit writes back what was logged"),
                (commit.flushes_allocated, "commit writes back what was allocated"),
                (commit.logs_every_store, "every store in a transaction is logged"),
                (commit.isolates, "a transaction keeps other threads out, so it may only read"),
                (commit.drains, "commit waits for what is pending"),
            ] {
                if set {
                    let _ = writeln!(text, "  {what}");
                }
            }
            let stars = self.prefixes.iter().map(|(name, meaning)| (format!("{name}*"), meaning));
            let mut all: Vec<(String, &Meaning)> =
                self.exact.iter().map(|(name, meaning)| (name.clone(), meaning)).chain(stars).collect();
            all.retain(|(_, meaning)| meaning.framework == number);
            all.sort_by(|a, b| a.0.cmp(&b.0));
            for (name, meaning) in all {
                let _ = writeln!(text, "  {name}: {}", meaning.describe(&self.returned));
            }
        }
        let _ = writeln!(text, "persistent sections: {}", self.sections.join(", "));
        let _ = writeln!(text, "namespaces of libraries: {}", self.namespaces.join(", "));
        let types: Vec<&str> = self.types.iter().map(|ty| ty.name.as_str()).collect();
        if !types.is_empty() {
            let _ = writeln!(text, "persistent types: {}", types.join(", "));
        }
        text
    }
}

impl Meaning {
    fn describe(&self, returned: &[String]) -> String {
        let mut parts: Vec<String> = self.effects.iter().map(describe).collect();
        match self.returns {
            Returns::Anything => {}
            Returns::Persistent => parts.push("returns persistent memory".into()),
            Returns::Fresh => parts.push("returns a fresh persistent object".into()),
            Returns::FreshOid => parts.push("returns the identifier of a fresh persistent object".into()),
            Returns::Direct(first) => {
                parts.push(format!(
                    "returns the object of the identifier in arguments {first} and {}",
                    first + 1
                ));
            }
            Returns::Argument(number) => parts.push(format!("returns argument {number}")),
            Returns::Volatile => parts.push("returns volatile memory".into()),
            Returns::Mapping => parts.push(
                "maps a file, which is persistent memory if it is shared and written, or flushed".into(),
            ),
            Returns::Constant(number) => parts.push(format!("returns {number}")),
            Returns::Stage => parts.push("returns the stage of the transaction".into()),
            Returns::Found => parts.push("returns persistent memory, the same for the same arguments".into()),
            Returns::Transaction => parts.push("returns the open transaction, or zero".into()),
            Returns::PoolOf(number) => {
                parts.push(format!("returns the pool of what argument {number} points to, or zero"));
            }
            Returns::Function(number) => {
                parts.push(format!("returns a pointer to {}", returned[number as usize]));
            }
        }
        if let Some(constructor) = self.constructor {
            parts.push(format!(
                "calls argument {} with a fresh object as its parameter {}",
                constructor.argument, constructor.object
            ));
        }
        if let Some(starts) = self.starts {
            parts.push(format!(
                "calls argument {} in a new thread, with argument {}",
                starts.argument, starts.passes
            ));
        }
        if self.alignment > 0 {
            parts.push(format!("at a multiple of {}", self.alignment));
        }
        parts.extend(self.note.clone());
        if parts.is_empty() { "nothing to do with persistence".into() } else { parts.join("; ") }
    }
}

fn describe(effect: &Effect) -> String {
    let verb = match effect.what {
        What::Nothing => "nothing",
        What::Store => "stores",
        What::StoreNonTemporal => "stores past the cache",
        What::Flush => "flushes",
        What::FlushOrdered => "flushes, in order with later stores",
        What::FlushPages => "flushes pages",
        What::Queue => "queues for flushing",
        What::Fence => "waits for flushes",
        What::Drain => "flushes what is queued and waits",
        What::Log => "logs",
        What::LogAndStore => "logs and stores",
        What::Begin => "begins a transaction",
        What::Commit => "commits the transaction",
        What::Abort => "aborts the transaction",
        What::Process => "goes to the next stage of the transaction",
        What::CommitStage => "commits",
        What::End => "ends the transaction",
        What::Change => "changes persistent memory durably",
        What::Inside => "is only called in a transaction",
        What::Clobber => "writes",
        What::EpochBegin => "begins an epoch",
        What::EpochEnd => "ends an epoch",
        What::StrandBegin => "begins a strand",
        What::StrandEnd => "ends a strand",
        What::StrandJoin => "waits for all strands",
        What::Settle => "waits for all flushes, queued ones too",
        What::Sync => "writes back mapped files",
        What::TolerateBegin => "begins stores that may be lost",
        What::TolerateEnd => "ends stores that may be lost",
        What::Leave => "does not return",
    };
    let mut text = verb.to_owned();
    if let Some(oid) = effect.oid {
        let _ = write!(text, " the object of arguments {oid} and {}", oid + 1);
    }
    if let Some(address) = effect.address {
        let what = if effect.line { "the cache line of argument" } else { "at argument" };
        let _ = write!(text, " {what} {address}");
    }
    if let Some(offset) = effect.offset {
        let _ = write!(text, " plus argument {offset}");
    }
    match (effect.length, effect.bytes) {
        (Some(length), _) => {
            let _ = write!(text, ", length in argument {length}");
        }
        (None, Some(bytes)) => {
            let _ = write!(text, ", {bytes} bytes");
        }
        _ => {}
    }
    if let Some(condition) = effect.only_if {
        let _ = write!(text, " if argument {condition} is not zero");
    }
    if let Some(flags) = effect.unless {
        let _ = write!(text, " unless argument {flags} has bits {:#x}", effect.bits);
    }
    text
}

fn returns(text: Option<&str>) -> Result<Returns, String> {
    let Some(text) = text else { return Ok(Returns::Anything) };
    let number = |rest: &str| rest.trim().parse().map_err(|_| format!("returns: `{text}` needs a number"));
    Ok(match text {
        "persistent" => Returns::Persistent,
        "fresh" => Returns::Fresh,
        "fresh-oid" => Returns::FreshOid,
        "volatile" => Returns::Volatile,
        "mapping" => Returns::Mapping,
        "stage" => Returns::Stage,
        "found" => Returns::Found,
        "transaction" => Returns::Transaction,
        _ if text.starts_with("direct ") => Returns::Direct(number(&text[7..])?),
        _ if text.starts_with("pool-of ") => Returns::PoolOf(number(&text[8..])?),
        _ if text.starts_with("argument ") => Returns::Argument(number(&text[9..])?),
        _ => match text.parse() {
            Ok(constant) => Returns::Constant(constant),
            Err(_) => {
                return Err(format!(
                    "returns: `{text}` is none of persistent, found, fresh, fresh-oid, volatile, mapping, stage, transaction, \
                     direct N, argument N, pool-of N, function NAME, or a number"
                ));
            }
        },
    })
}

fn check(effect: &Effect) -> Result<(), String> {
    let needs_address = matches!(
        effect.what,
        What::Store
            | What::StoreNonTemporal
            | What::Flush
            | What::FlushOrdered
            | What::FlushPages
            | What::Queue
            | What::Log
            | What::LogAndStore
            | What::Clobber
    );
    if needs_address && effect.address.is_none() && effect.oid.is_none() {
        return Err(format!("an effect that {} needs `address` or `oid`", describe(effect)));
    }
    if !needs_address && (effect.address.is_some() || effect.oid.is_some()) {
        return Err(format!("an effect that {} takes no address", describe(effect)));
    }
    if effect.unless.is_some() != (effect.bits != 0) {
        return Err(format!(
            "an effect that {} needs both `unless` and `bits`, or neither",
            describe(effect)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_descriptions_are_sound() {
        let apis = Apis::built_in();
        assert!(apis.meaning("pmem_persist").is_some());
        assert!(apis.explain().contains("nvm_flush: queues"));
    }

    #[test]
    fn functions_of_libraries_are_known_by_their_namespace() {
        let apis = Apis::built_in();
        for theirs in [
            "std::enable_if<a<b>::c, void>::type std::swap<long>(long&, long&)",
            "pmem::obj::persistent_ptr<node>::operator->() const",
            "std::function<void ()>::operator bool() const",
            "std::_Function_handler<void (), put(pmem::obj::pool&)::$_0>::_M_invoke(std::_Any_data const&)",
        ] {
            assert!(apis.is_of_a_library(theirs), "{theirs}");
        }
        for own in
            ["put(pmem::obj::pool&)", "stdlib::f()", "put(std::pair<int, int>)::$_0::operator()() const", "f"]
        {
            assert!(!apis.is_of_a_library(own), "{own}");
        }
        assert!(apis.meaning("_ZL21pmemobj_direct_inline7pmemoid").is_some());
        assert!(apis.meaning("_ZL").is_none() && apis.meaning("_ZL99x").is_none());
    }

    #[test]
    fn mistakes_have_a_line() {
        let mut apis = Apis::default();
        let text = "framework = \"x\"\nabout = \"y\"\n[[function]]\nnames = [\"f\"]\neffects = [{ do = \"flash\" }]\n";
        let error = apis.add_text("x.toml", text).unwrap_err().to_string();
        assert!(error.starts_with("x.toml:5: "), "{error}");
        let text = "framework = \"x\"\nabout = \"y\"\n\n[[function]]\nnames = [\"f\"]\neffects = [{ do = \"flush\" }]\n";
        let error = apis.add_text("x.toml", text).unwrap_err().to_string();
        assert!(error.starts_with("x.toml:4: ") && error.contains("address"), "{error}");
    }
}
