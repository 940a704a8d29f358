//! Names objects and values as the program does: `t->slots[2].val` = "short".
//!
//! An object's name is the expression in the source that accesses it; following that expression through the debug
//! information gives its type. If either is missing there is no name, and callers fall back to "the store in line 12".

mod types;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crashproof_findings::Place;
use crashproof_findings::expression::{
    self, Expression, Step, assigned_argument, assigned_around, element_at, macro_call, object_at, written_at,
};
use crashproof_protocol::Record;
use px86::Kind;
use rustc_hash::FxHashMap;

use crate::subject::{AllSites, Sites};
pub(crate) use types::last_part;
use types::{Encoding, Type, TypeId, Types};

/// The most records searched for objects.
const MOST_RECORDS: usize = 200_000;
/// Values longer than this are cut.
const LONGEST_TEXT: usize = 24;
/// The number of nearby objects examined for an address.
const NEAREST: usize = 64;

/// What an access refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// As written in the source.
    expression: Expression,
    /// As it is shown.
    pub(crate) text: String,
    ty: Option<TypeId>,
    /// The object that contains it: its type, the offset if no unknown index is involved, and the number of steps.
    within: Option<(TypeId, Option<u64>, usize)>,
    /// First and last accessed byte of a character array, if the access does not begin at its start.
    bytes: Option<(u64, u64)>,
    /// Is the source Rust?
    rust: bool,
}

impl Name {
    /// The name shown beside a value: with the accessed bytes of a character array.
    pub(crate) fn exact(&self) -> String {
        match self.bytes {
            Some((first, last)) if first == last => format!("`{}[{first}]`", self.text),
            Some((first, last)) => format!("`{}[{first}..{last}]`", self.text),
            None => format!("`{}`", self.text),
        }
    }

    /// The variable at the root of the expression.
    pub(crate) fn root(&self) -> &str {
        &self.expression.root
    }
}

/// Names of the objects of a program.
pub(crate) struct Names {
    program: PathBuf,
    types: OnceLock<Types>,
    lines: Mutex<FxHashMap<String, Option<Arc<Vec<String>>>>>,
    known: Mutex<FxHashMap<(bool, u32, bool), Option<Name>>>,
    /// Objects of the recorded run by address.
    objects: OnceLock<BTreeMap<u64, Object>>,
}

/// The smallest part of an object that holds a range.
struct Part {
    /// The way to it from the object.
    path: String,
    ty: TypeId,
    /// Where the range begins in it.
    offset: u64,
}

/// An object of the recorded run.
#[derive(Clone, Debug)]
struct Object {
    ty: TypeId,
    bytes: u64,
    /// How the store that revealed it refers to it, ending in the member operator: `t->`.
    prefix: String,
}

/// The name of a store's target as plain text, if its types cannot be followed.
fn as_written(line: &str, place: &Place) -> Option<Name> {
    let text = written_at(line, place.column)?;
    let expression = Expression { root: text.clone(), steps: Vec::new() };
    Some(Name { text, expression, ty: None, within: None, bytes: None, rust: place.file.ends_with(".rs") })
}

/// An object containing an expression: its type, the offset if known, and the number of steps to it.
type Within = (TypeId, Option<u64>, usize);

impl Names {
    pub(crate) fn of(program: &Path) -> Names {
        Names {
            program: program.to_owned(),
            types: OnceLock::new(),
            lines: Mutex::default(),
            known: Mutex::default(),
            objects: OnceLock::new(),
        }
    }

    fn types(&self) -> &Types {
        self.types.get_or_init(|| Types::read(&self.program))
    }

    /// A line of a source.
    pub(crate) fn line(&self, file: &str, line: u32) -> Option<String> {
        self.source(file)?.get(line.checked_sub(1)? as usize).cloned()
    }

    fn source(&self, file: &str) -> Option<Arc<Vec<String>>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let text = lines.entry(file.to_owned()).or_insert_with(|| {
            let readable = std::fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() < 16 << 20);
            let bytes = readable.then(|| std::fs::read(file).ok()).flatten()?;
            Some(Arc::new(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()))
        });
        text.clone()
    }

    /// Learns the addresses of objects from a recorded run; only the first one counts.
    pub(crate) fn learn(&self, records: &[Record], sites: &AllSites) {
        self.objects.get_or_init(|| {
            let mut objects: BTreeMap<u64, Object> = BTreeMap::new();
            for record in records.iter().take(MOST_RECORDS) {
                if !record.event_kind().is_some_and(Kind::stores) {
                    continue;
                }
                let Some(name) = self.site(sites, 0, record.site, true) else { continue };
                let Some((ty, Some(offset), steps)) = name.within else { continue };
                let bytes = self.types().size(ty);
                let Some(base) = record.address().checked_sub(offset).filter(|_| bytes > 0) else { continue };
                // The second part of a copy is not the start of another object.
                let overlaps = |(at, known): (&u64, &Object)| {
                    *at != base && at + known.bytes > base && self.same(known.ty, ty)
                };
                if objects.range(..base + bytes).rev().take(NEAREST).any(overlaps) {
                    continue;
                }
                objects.entry(base).or_insert_with(|| Object { ty, bytes, prefix: prefix(&name, steps) });
            }
            objects
        });
    }

    /// What an access of an execution refers to, given its site, address and size.
    pub(crate) fn object(
        &self,
        sites: &AllSites,
        level: usize,
        site: u32,
        (address, bytes): (u64, u64),
        stores: bool,
    ) -> Option<Name> {
        let name = self.site(sites, level, site, stores)?;
        Some(self.part(name, address, bytes))
    }

    /// The name with actual element numbers in place of index variables, narrowed to a part if only that is accessed.
    fn part(&self, mut name: Name, address: u64, bytes: u64) -> Name {
        if let Some(text) = self.numbered(&name, address) {
            name.text = text;
        }
        if let Some((path, ty)) = self.part_of(&name, address, bytes) {
            name.text = match name.text.strip_prefix('*') {
                Some(pointer) if path.starts_with('.') && name.rust => format!("{pointer}{path}"),
                Some(pointer) if path.starts_with('.') => format!("{pointer}->{}", &path[1..]),
                _ => format!("{}{path}", name.text),
            };
            name.ty = Some(ty);
        } else if name.expression.steps.iter().all(|step| matches!(step, Step::Deref | Step::Follow))
            && let Some((text, ty)) = self.absolute(address, bytes)
        {
            // An expression without members may be part of an object that is known better.
            (name.text, name.ty) = (text, Some(ty));
        }
        name.bytes = self.bytes_of_text(&name, address, bytes);
        name
    }

    /// Which bytes of a character array are accessed, if the access does not begin at its start.
    fn bytes_of_text(&self, name: &Name, address: u64, bytes: u64) -> Option<(u64, u64)> {
        let ty = name.ty?;
        let Type::Array { of, .. } = self.types().get(ty).1 else { return None };
        if self.types().size(*of) != 1 {
            return None;
        }
        let (base, object) = self.holding(address).max_by_key(|(_, object)| object.bytes)?;
        let part = self.path_within(object.ty, address - base, bytes, 0)?;
        (part.ty == ty && part.offset > 0).then(|| (part.offset, part.offset + bytes.max(1) - 1))
    }

    /// The path to the part of a named object that is accessed, if not all of it.
    fn part_of(&self, name: &Name, address: u64, bytes: u64) -> Option<(String, TypeId)> {
        let ty = name.ty.filter(|ty| bytes < self.types().size(*ty))?;
        let (within, Some(offset), _) = name.within? else { return None };
        let (base, _) = self.holding(address).find(|(_, object)| self.same(object.ty, within))?;
        let into = address.checked_sub(base + offset)?;
        let part = self.path_within(ty, into, bytes, 0).filter(|part| !part.path.is_empty())?;
        Some((part.path, part.ty))
    }

    /// The known objects that contain an address, nearest first.
    fn holding(&self, address: u64) -> impl Iterator<Item = (u64, &Object)> {
        let objects =
            self.objects.get().into_iter().flat_map(move |it| it.range(..=address).rev().take(NEAREST));
        objects.map(|(base, object)| (*base, object)).filter(move |(base, it)| address < base + it.bytes)
    }

    /// The name of an address, starting from the largest object that contains it.
    pub(crate) fn absolute(&self, address: u64, bytes: u64) -> Option<(String, TypeId)> {
        let (base, object) = self.holding(address).max_by_key(|(_, object)| object.bytes)?;
        let part = self.path_within(object.ty, address - base, bytes, 0)?;
        let path = part.path.strip_prefix('.').filter(|it| !it.is_empty())?;
        Some((format!("{}{path}", object.prefix), part.ty))
    }

    /// The path from an object to the smallest part that contains a range. Text is not subdivided.
    fn path_within(&self, ty: TypeId, offset: u64, bytes: u64, depth: usize) -> Option<Part> {
        let types = self.types();
        let here = || Some(Part { path: String::new(), ty, offset });
        if depth > 16 || offset.saturating_add(bytes) > types.size(ty) {
            return None;
        }
        match types.get(ty).1 {
            Type::Structure { members, .. } => {
                let holds = |at: u64, ty: TypeId| at <= offset && offset + bytes <= at + types.size(ty);
                let Some(member) = members.iter().find(|member| holds(member.offset, member.ty)) else {
                    return here();
                };
                // A wrapper around one value, such as an atomic, stands for that value.
                if types.size(member.ty) == types.size(ty) {
                    return here();
                }
                let part = self.path_within(member.ty, offset - member.offset, bytes, depth + 1)?;
                let dot = if member.name.is_empty() { "" } else { "." };
                Some(Part { path: format!("{dot}{}{}", member.name, part.path), ..part })
            }
            Type::Array { of, .. } if types.size(*of) > 1 => {
                let each = types.size(*of);
                let (number, into) = (offset / each, offset % each);
                if into + bytes > each {
                    return here();
                }
                let part = self.path_within(*of, into, bytes, depth + 1)?;
                Some(Part { path: format!("[{number}]{}", part.path), ..part })
            }
            _ => here(),
        }
    }

    /// The name with actual element numbers in place of index variables.
    fn numbered(&self, name: &Name, address: u64) -> Option<String> {
        let (ty, None, steps) = name.within? else { return None };
        let (base, _) = self.holding(address).find(|(_, object)| self.same(object.ty, ty))?;
        let path = self.path(ty, address - base, self.types().size(name.ty?), 0)?;
        let prefix = prefix(name, steps);
        let follows = prefix.ends_with("->") || prefix.ends_with('.');
        Some(format!("{prefix}{}", if follows { path.trim_start_matches('.') } else { &path }))
    }

    /// Are they the same type, possibly from two units?
    fn same(&self, one: TypeId, other: TypeId) -> bool {
        let (one, other) = (self.types().get(one), self.types().get(other));
        one.0 == other.0
            || matches!((one.1, other.1), (Type::Structure { name: a, bytes: c, .. }, Type::Structure { name: b, bytes: d, .. })
                if !a.is_empty() && a == b && c == d)
    }

    /// The path from an object to the part of this size at an offset.
    fn path(&self, ty: TypeId, offset: u64, size: u64, depth: usize) -> Option<String> {
        let types = self.types();
        if depth > 16 || offset == 0 && types.size(ty) == size {
            return (depth <= 16).then(String::new);
        }
        match types.get(ty).1 {
            Type::Structure { members, .. } => {
                let holds = |at: u64, ty: TypeId| (at..at + types.size(ty).max(1)).contains(&offset);
                let member = members.iter().find(|member| holds(member.offset, member.ty))?;
                let rest = self.path(member.ty, offset - member.offset, size, depth + 1)?;
                Some(if member.name.is_empty() { rest } else { format!(".{}{rest}", member.name) })
            }
            Type::Array { of, .. } => {
                let each = types.size(*of);
                let rest = self.path(*of, offset % each.max(1), size, depth + 1)?;
                (each > 0).then(|| format!("[{}]{rest}", offset / each))
            }
            _ => None,
        }
    }

    /// What the instruction of a site accesses, as far as the source shows.
    fn site(&self, sites: &AllSites, level: usize, site: u32, stores: bool) -> Option<Name> {
        let key = (level > 0 && sites.recovery.is_some(), site, stores);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let found = self.find(sites.of(level), site, stores);
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
            found
        })
    }

    fn find(&self, sites: &Sites, site: u32, stores: bool) -> Option<Name> {
        self.at(sites.get(site), stores)
    }

    /// What the source accesses at a place, verbatim.
    fn written(&self, place: &Place, stores: bool) -> Option<Expression> {
        let line = self.line(&place.file, place.line)?;
        let rust = place.file.ends_with(".rs");
        let found = object_at(&line, place.column, stores, rust);
        if rust {
            return found;
        }
        if stores {
            let of_macro = || self.assigned_by_macro(place, &line);
            return found.or_else(of_macro).or_else(|| assigned_around(&line, place.column));
        }
        // A local variable is not in persistent memory: the load is of something it refers to.
        let variable = found.as_ref().filter(|it| it.steps.is_empty());
        let behind = variable.and_then(|it| {
            let types = self.types();
            let whole = types.is_local(&place.function, place.line, &it.root)
                || types
                    .variable(&place.function, place.line, &it.root)
                    .is_some_and(|ty| matches!(types.get(ty).1, Type::Structure { .. } | Type::Array { .. }));
            whole.then(|| element_at(&line, place.column)).flatten()
        });
        behind.or(found)
    }

    /// What a macro from the same source, invoked at a place, assigns to.
    fn assigned_by_macro(&self, place: &Place, line: &str) -> Option<Expression> {
        let (name, arguments) = macro_call(line, place.column)?;
        let lines = self.source(&place.file)?;
        let begins = |line: &&String| {
            let rest = line.trim_start().strip_prefix('#').map(str::trim_start);
            let rest = rest.and_then(|rest| rest.strip_prefix("define")).map(str::trim_start);
            rest.and_then(|rest| rest.strip_prefix(name.as_str())).is_some_and(|rest| rest.starts_with('('))
        };
        let start = lines.iter().position(|line| begins(&line))?;
        let last = lines[start..].iter().position(|line| !line.trim_end().ends_with('\\'))?;
        let lines: Vec<&str> =
            lines[start..=start + last].iter().map(|line| line.trim_end().trim_end_matches('\\')).collect();
        let assigned = assigned_argument(&lines.join(" "), &name)?;
        expression::object(arguments.get(assigned)?)
    }

    /// What the source accesses at a place.
    pub(crate) fn at(&self, place: &Place, stores: bool) -> Option<Name> {
        let rust = place.file.ends_with(".rs");
        let Some(written) = self.written(place, stores) else {
            return self
                .line(&place.file, place.line)
                .filter(|_| stores)
                .and_then(|line| as_written(&line, place));
        };
        let mut expression = written.clone();
        let resolved = self.resolve(&mut expression, place);
        // If types cannot be followed, the name is the source expression.
        let expression = if resolved.is_some() { expression } else { written };
        let (ty, within) = resolved.map_or((None, None), |(ty, within)| (Some(ty), within));
        let mut text = shown(&expression);
        if rust {
            // Rust dereferences references implicitly.
            text = text.replace("->", ".");
        }
        Some(Name { text, expression, ty, within, bytes: None, rust })
    }

    /// The type of an expression and the object that contains it: its type, the offset if no index is a variable, and
    /// the number of steps to that object. Corrects steps that turn out not to be dereferences.
    fn resolve(&self, expression: &mut Expression, place: &Place) -> Option<(TypeId, Option<Within>)> {
        let types = self.types();
        let root = types.variable(&place.function, place.line, &expression.root);
        let mut ty = match root {
            Some(ty) => ty,
            // A member of the object on which a method is called.
            None => {
                let this =
                    ["this", "self"].iter().find_map(|it| types.variable(&place.function, place.line, it))?;
                let Type::Pointer(Some(object)) = *types.get(this).1 else { return None };
                types.member(object, &expression.root)?.1
            }
        };
        let mut within: Option<(TypeId, Option<u64>, usize)> = None;
        let mut steps = Vec::new();
        for step in std::mem::take(&mut expression.steps) {
            // The target of a pointer is a separate object.
            let is_pointer = |ty| matches!(types.get(ty).1, Type::Pointer(_));
            if is_pointer(ty) && !matches!(step, Step::Deref) {
                let Type::Pointer(Some(object)) = *types.get(ty).1 else { return None };
                steps.push(Step::Follow);
                ty = object;
                within = Some((ty, Some(0), steps.len()));
                if let (Step::Element(index), Some(within)) = (&step, &mut within) {
                    // Elements behind a pointer: only the address reveals which one, and the length is unknown.
                    within.1 = index.parse::<u64>().ok().map(|at| at * types.size(ty));
                    steps.pop();
                    within.2 = steps.len();
                    steps.push(step);
                    continue;
                }
            }
            match (&step, types.get(ty).1) {
                (Step::Deref, Type::Pointer(Some(object))) => {
                    ty = *object;
                    steps.push(step);
                    within = Some((ty, Some(0), steps.len()));
                    continue;
                }
                // An array passed as a function argument denotes the array.
                (Step::Deref, Type::Array { .. }) => continue,
                (Step::Member(name), Type::Structure { .. }) => {
                    // Rust numbers members of tuples.
                    let numbered = || types.member(ty, &format!("__{name}"));
                    let (offset, member) = types.member(ty, name).or_else(numbered)?;
                    if let Some((_, Some(at), _)) = &mut within {
                        *at += offset;
                    }
                    ty = member;
                }
                (Step::Element(index), Type::Array { of, .. }) => {
                    if let Some((_, at, _)) = &mut within {
                        let index = index.parse::<u64>().ok();
                        *at = at.zip(index).map(|(at, index)| at + index * types.size(*of));
                    }
                    ty = *of;
                }
                _ => return None,
            }
            steps.push(step);
        }
        // A local variable of Rust is not persistent: a method such as `write` stores to what it points to.
        let is_behind = steps.is_empty() && place.file.ends_with(".rs");
        if let Type::Pointer(Some(object)) = *types.get(ty).1
            && is_behind
            && types.is_local(&place.function, place.line, &expression.root)
        {
            steps.push(Step::Deref);
            ty = object;
            within = Some((ty, Some(0), 1));
        }
        expression.steps = steps;
        Some((ty, within))
    }

    /// Is it just a variable, and a number? A member that a method names without `this` is none.
    pub(crate) fn is_number(&self, name: &Name, place: &Place) -> bool {
        let types = self.types();
        let plain = |ty| matches!(types.get(ty).1, Type::Plain { .. });
        name.expression.steps.is_empty()
            && name.ty.is_some_and(plain)
            && types.variable(&place.function, place.line, &name.expression.root).is_some()
    }

    /// The bytes of an object as text, according to its type.
    pub(crate) fn value(&self, name: Option<&Name>, bytes: &[u8]) -> String {
        let ty = name.and_then(|name| name.ty);
        ty.and_then(|ty| self.typed(ty, bytes)).unwrap_or_else(|| untyped(bytes))
    }

    fn typed(&self, ty: TypeId, bytes: &[u8]) -> Option<String> {
        let types = self.types();
        let mut word = [0; 8];
        let short = bytes.len().min(8);
        word[..short].copy_from_slice(&bytes[..short]);
        let number = u64::from_le_bytes(word);
        let width = bytes.len() as u64;
        let signed = |bytes: u64| {
            let unused = 64 - 8 * bytes.clamp(1, 8);
            ((number << unused) as i64) >> unused
        };
        match types.get(ty).1 {
            Type::Plain { bytes, .. } | Type::Enumeration { bytes, .. } if *bytes != width => None,
            Type::Plain { bytes, encoding } => Some(match encoding {
                Encoding::Signed => signed(*bytes).to_string(),
                Encoding::Unsigned => readable_number(number),
                Encoding::Boolean => (number != 0).to_string(),
                Encoding::Character => untyped(&[word[0]]),
                Encoding::Float if *bytes == 4 => f32::from_bits(number as u32).to_string(),
                Encoding::Float => f64::from_bits(number).to_string(),
            }),
            Type::Enumeration { bytes, values } => {
                let value = signed(*bytes);
                let named = values.iter().find(|(it, _)| *it == value || *it as u64 == number);
                Some(named.map_or(value.to_string(), |(_, name)| name.clone()))
            }
            Type::Pointer(_) if width == 8 => {
                Some(if number == 0 { "NULL".into() } else { self.pointer(number) })
            }
            Type::Array { of, .. } => match types.get(*of).1 {
                Type::Plain { encoding: Encoding::Character, bytes: 1 } => {
                    Some(text(bytes).unwrap_or_else(|| untyped(bytes)))
                }
                Type::Plain { encoding: Encoding::Unsigned, bytes: 1 } => Some(untyped(bytes)),
                _ => None,
            },
            // A structure around one value, such as an atomic.
            Type::Structure { members, bytes: size, .. } if *size == width => {
                let whole = members.iter().find(|it| it.offset == 0 && types.size(it.ty) == width)?;
                self.typed(whole.ty, bytes)
            }
            _ => None,
        }
    }

    /// A pointer, with its target if that has a type.
    fn pointer(&self, address: u64) -> String {
        let object = self.objects.get().and_then(|objects| objects.get(&address));
        match object.map(|object| self.types().get(object.ty).1) {
            Some(Type::Structure { name, .. }) if !name.is_empty() => format!("a pointer to a `{name}`"),
            _ => format!("{address:#x}"),
        }
    }
}

/// Small numbers in decimal, others in hexadecimal.
fn readable_number(number: u64) -> String {
    if number < 1 << 40 { number.to_string() } else { format!("{number:#x}") }
}

/// Characters, if they are printable.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let shown = end > 0 && bytes[..end].iter().all(|byte| (b' '..=b'~').contains(byte));
    shown.then(|| quoted(&bytes[..end]))
}

fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((cut, _)) => format!("\"{}...\"", &text[..cut]),
        None => format!("\"{text}\""),
    }
}

/// The start of an expression including the member operator: `t->`, `self.`; unchanged for elements.
fn prefix(name: &Name, steps: usize) -> String {
    let part =
        Expression { root: name.expression.root.clone(), steps: name.expression.steps[..steps].to_vec() };
    match part.steps.last() {
        Some(Step::Follow) => format!("{}.", shown(&part)),
        Some(Step::Deref) => {
            let pointer = Expression { steps: part.steps[..steps - 1].to_vec(), ..part };
            format!("{}{}", shown(&pointer), if name.rust { "." } else { "->" })
        }
        _ => shown(&part),
    }
}

/// Bytes of unknown type: text if they look like it, otherwise a number.
fn untyped(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = &bytes[..end];
    let padded = bytes[end..].iter().all(|byte| *byte == 0) || bytes.len() > 8;
    let printable = text.iter().all(|byte| (b' '..=b'~').contains(byte));
    // Addresses of programs begin with 0x5555.
    let address = bytes.len() == 8 && text.len() == 6 && text.ends_with(b"UUU");
    // Short numbers may look like text.
    if printable && padded && !address && (text.len() >= 3 || bytes.len() > 8 && !text.is_empty()) {
        return quoted(text);
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return "0".into();
    }
    if bytes.len() > 8 {
        return format!("{} bytes", bytes.len());
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    readable_number(u64::from_le_bytes(word))
}

/// An expression in C syntax.
fn shown(expression: &Expression) -> String {
    let mut text = expression.root.clone();
    let mut steps = expression.steps.iter().peekable();
    while let Some(step) = steps.next() {
        match (step, steps.peek()) {
            (Step::Deref, Some(Step::Member(name))) => {
                text = format!("{text}->{name}");
                steps.next();
            }
            (Step::Deref, Some(Step::Element(_))) => text = format!("(*{text})"),
            (Step::Deref, _) => text = format!("*{text}"),
            (Step::Follow, _) => {}
            (Step::Member(name), _) => text = format!("{text}.{name}"),
            (Step::Element(index), _) => text = format!("{text}[{index}]"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Member;

    fn table() -> (Names, TypeId) {
        let mut types = Types::default();
        let word = types.push(Type::Plain { bytes: 8, encoding: Encoding::Unsigned });
        let letter = types.push(Type::Plain { bytes: 1, encoding: Encoding::Character });
        let text = types.push(Type::Array { of: letter, count: 40 });
        let member = |name: &str, offset, ty| Member { name: name.into(), offset, ty };
        let members = vec![member("key", 0, word), member("val", 8, text)];
        let slot = types.push(Type::Structure { name: "slot".into(), bytes: 48, members });
        let slots = types.push(Type::Array { of: slot, count: 8 });
        let members = vec![member("count", 0, word), member("slots", 8, slots)];
        let table = types.push(Type::Structure { name: "table".into(), bytes: 392, members });
        let pointer = types.push(Type::Pointer(Some(table)));
        types.declare("put", "t", pointer);
        let names = Names::of(Path::new("none"));
        let _ = names.types.set(types);
        (names, table)
    }

    fn name(names: &Names, line: &str) -> Option<Name> {
        let column = line.find('$').expect("a mark") as u32 + 1;
        let lines = vec![line.replace('$', "")];
        names.lines.lock().expect("a lock").insert("kv.c".into(), Some(Arc::new(lines)));
        let place = Place { function: "put".into(), ..Place::new("kv.c", 1, column) };
        names.at(&place, true)
    }

    #[test]
    fn elements_are_numbered_where_the_object_is_known() {
        let (names, table) = table();
        let object = Object { ty: table, bytes: 392, prefix: "t->".into() };
        let _ = names.objects.set([(0x1000, object)].into());
        let found = name(&names, "t->slots[i].key $= 1;").expect("a name");
        assert_eq!(found.text, "t->slots[i].key");
        assert_eq!(names.numbered(&found, 0x1000 + 8 + 96).as_deref(), Some("t->slots[2].key"));
        assert_eq!(names.numbered(&found, 0x2000), None, "another object");
        let absolute = |address, bytes| names.absolute(address, bytes).map(|found| found.0);
        assert_eq!(absolute(0x1000 + 8 + 48, 8).as_deref(), Some("t->slots[1].key"));
        assert_eq!(absolute(0x1000 + 8 + 48, 48).as_deref(), Some("t->slots[1]"));
        assert_eq!(absolute(0x1000 + 8 + 48, u64::MAX), None, "more than there is");
        let found = name(&names, "$memcpy(t->slots[i].val, v, 40);").expect("a name");
        assert_eq!(found.text, "t->slots[i].val");
        assert_eq!(names.value(Some(&found), b"value-one\0junk"), "\"value-one\"");
    }

    #[test]
    fn what_has_no_type_keeps_its_name() {
        let (names, _) = table();
        let unknown = name(&names, "other->list.head $= 1;").expect("a name");
        assert_eq!((unknown.text.as_str(), unknown.ty), ("other->list.head", None));
        let unknown = name(&names, "t->missing[3] $= 1;").expect("a name");
        assert_eq!((unknown.text.as_str(), unknown.ty), ("t->missing[3]", None));
    }

    #[test]
    fn values_are_told_by_their_type() {
        let (names, _) = table();
        let count = name(&names, "t->count$++;").expect("a name");
        assert_eq!(count.text, "t->count");
        assert_eq!(names.value(Some(&count), &3u64.to_le_bytes()), "3");
        assert_eq!(names.value(None, b"value-on"), "\"value-on\"");
        assert_eq!(names.value(None, &[1, 0, 0, 0]), "1");
        assert_eq!(names.value(None, &0x5555_5555_5330_u64.to_le_bytes()), "0x555555555330");
    }
}
