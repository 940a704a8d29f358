//! The other way to keep two stores in order: put them on one cache line (PSan, section 5.2, and FAST_FAIR's header).
//!
//! The fields stored to are read off the source, then looked up in the debug information: a structure with fields of
//! these names, at the same distance as the addresses. Without a match there is no advice.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use addr2line::gimli::{self, DW_AT_byte_size, DW_AT_data_member_location, DW_AT_type, DwTag, UnitOffset};
use crashproof_findings::Place;
use px86::LINE_BYTES;
use rustc_hash::FxHashMap;

use crate::debug_info;

/// A field, possibly of a nested structure.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: u64,
    bytes: u64,
}

/// A structure of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Structure {
    name: String,
    bytes: u64,
    /// By offset; only the structure's own.
    fields: Vec<Field>,
}

/// The relevant debug information of a program.
#[derive(Default)]
struct Debug {
    structures: Vec<Structure>,
    /// The compilation directories: file names may be relative to them.
    directories: BTreeSet<PathBuf>,
}

impl Debug {
    /// The text of a source, relative to the current or the compilation directory.
    fn source(&self, file: &str) -> Option<String> {
        let compiled = self.directories.iter().map(|directory| directory.join(file));
        std::iter::once(PathBuf::from(file)).chain(compiled).find_map(|path| fs::read_to_string(path).ok())
    }

    /// The name of the field or variable that the store at a place assigns to.
    fn field_name(&self, place: &Place) -> Option<String> {
        let text = self.source(&place.file)?;
        let line = text.lines().nth(place.line.checked_sub(1)? as usize)?;
        name_in(line, place.column as usize)
    }
}

/// The structures of a program, read from its debug information on first use.
pub(crate) struct Layouts<'a> {
    program: &'a Path,
    debug: Option<Debug>,
}

impl Layouts<'_> {
    pub(crate) fn of(program: &Path) -> Layouts<'_> {
        Layouts { program, debug: None }
    }

    /// The layout that would keep two stores in order, given their places in the source and their addresses.
    pub(crate) fn advice(&mut self, lost: (&Place, u64), survived: (&Place, u64)) -> Option<String> {
        let debug = self.debug.get_or_insert_with(|| read(self.program).unwrap_or_default());
        let (lost_name, survived_name) = (debug.field_name(lost.0)?, debug.field_name(survived.0)?);
        let pair = Pair { lost: (&lost_name, lost.1), survived: (&survived_name, survived.1) };
        debug.structures.iter().filter_map(|structure| pair.within(structure)).min().map(|best| best.1)
    }
}

/// Two stores: field name and address of each.
struct Pair<'a> {
    lost: (&'a str, u64),
    survived: (&'a str, u64),
}

impl Pair<'_> {
    /// The advice if both are fields of this structure; of several matching structures the smallest is chosen.
    fn within(&self, structure: &Structure) -> Option<(u64, String)> {
        let named =
            |name: &str| structure.fields.iter().filter(move |field| field.name == name).collect::<Vec<_>>();
        for lost in named(self.lost.0) {
            for survived in named(self.survived.0) {
                let apart = survived.offset.wrapping_sub(lost.offset);
                if apart == 0 || apart != self.survived.1.wrapping_sub(self.lost.1) {
                    continue;
                }
                let base = self.lost.1.wrapping_sub(lost.offset);
                return Some((structure.bytes, structure.advice(lost, survived, base % LINE_BYTES)));
            }
        }
        None
    }
}

impl Structure {
    /// `base` is the structure's offset in its line.
    fn advice(&self, lost: &Field, survived: &Field, base: u64) -> String {
        let same_line = |a: u64, a_bytes: u64, b: u64, b_bytes: u64| {
            a.min(b) / LINE_BYTES == (a + a_bytes).max(b + b_bytes).saturating_sub(1) / LINE_BYTES
        };
        let head = format!(
            "put both on one cache line: in `{}`, {} is at byte {} and {} at byte {}",
            self.name, lost.name, lost.offset, survived.name, survived.offset
        );
        if base != 0 && same_line(lost.offset, lost.bytes, survived.offset, survived.bytes) {
            return format!(
                "{head}, but it begins at byte {base} of a line: aligned to {LINE_BYTES} bytes it would do"
            );
        }
        if let Some((packed, padding)) = self.packed() {
            let at = |field: &Field| {
                packed.iter().find(|moved| moved.name == field.name).map(|moved| moved.offset)
            };
            if let (Some(a), Some(b)) = (at(lost), at(survived))
                && same_line(a, lost.bytes, b, survived.bytes)
            {
                return format!(
                    "{head}; {padding}: with the fields before them ordered by size, largest first, they would be at \
                     bytes {a} and {b}, on one line if the structure is aligned to {LINE_BYTES}"
                );
            }
        }
        if lost.bytes + survived.bytes <= LINE_BYTES {
            return format!(
                "{head}: move {} next to {} and align the structure to {LINE_BYTES} bytes",
                survived.name, lost.name
            );
        }
        format!("{head}, too large for one line")
    }

    /// The fields without padding, largest alignment first, and a description of the current padding; `None` if there
    /// is none.
    fn packed(&self) -> Option<(Vec<Field>, String)> {
        let mut holes = Vec::new();
        for pair in self.fields.windows(2) {
            let end = pair[0].offset + pair[0].bytes;
            if pair[1].offset > end {
                let bytes = pair[1].offset - end;
                let unit = if bytes == 1 { "byte" } else { "bytes" };
                holes.push(format!("{bytes} {unit} after {}", pair[0].name));
            }
        }
        if holes.is_empty() {
            return None;
        }
        // Only fields smaller than a word can leave holes; the others keep their order and place.
        let mut fields = self.fields.clone();
        let alignment = |field: &Field| 1 << field.bytes.trailing_zeros().min(3);
        let mut small: Vec<usize> = (0..fields.len()).filter(|&index| fields[index].bytes < 8).collect();
        let order = small.clone();
        small.sort_by_key(|&index| std::cmp::Reverse(alignment(&fields[index])));
        // All small fields together, in place of the first one.
        let moved: Vec<Field> = small.iter().map(|&index| fields[index].clone()).collect();
        let first = *order.first()?;
        for &index in order.iter().rev() {
            fields.remove(index);
        }
        fields.splice(first..first, moved);
        let mut at = 0_u64;
        for field in &mut fields {
            at = at.next_multiple_of(alignment(field));
            field.offset = at;
            at += field.bytes;
        }
        Some((fields, format!("there is padding in it ({})", holes.join(", "))))
    }
}

/// `column` is that of the assignment operator, or of the call that stores.
fn name_in(line: &str, column: usize) -> Option<String> {
    let at = line.get(..column.checked_sub(1)?).map(str::len)?;
    let operator = line[at..].starts_with(['=', '+', '-', '|', '&', '^', '*', '/', '<', '>', '%']);
    let target = if operator {
        &line[..at]
    } else {
        let rest = &line[at..];
        let end = rest.find([',', '=', ';']).unwrap_or(rest.len());
        &rest[..end]
    };
    let mut target = target.trim_end_matches([' ', ')', '+', '-']);
    while target.ends_with(']') {
        target = &target[..target.rfind('[')?];
    }
    let start = target.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |before| before + 1);
    let name = &target[start..];
    (!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then(|| name.to_owned())
}

/// All structures of a program; `None` without readable debug information.
fn read(program: &Path) -> Option<Debug> {
    let mut debug = Debug::default();
    debug_info::for_each_unit(program, |dwarf, unit| {
        debug.directories.extend(debug_info::text(unit.comp_dir).map(PathBuf::from));
        // Unreadable units are skipped: this is only advice.
        let _ = read_unit(dwarf, unit, &mut debug.structures);
    })?;
    debug.structures.sort_by(|a, b| (&a.name, a.bytes).cmp(&(&b.name, b.bytes)));
    debug.structures.dedup();
    Some(debug)
}

/// A type before all types are resolved.
struct Type {
    tag: DwTag,
    bytes: Option<u64>,
    of: Option<UnitOffset>,
    /// Length, for arrays.
    count: u64,
}

fn read_unit(
    dwarf: &debug_info::Dwarf,
    unit: &debug_info::Unit,
    structures: &mut Vec<Structure>,
) -> gimli::Result<()> {
    let mut types: FxHashMap<UnitOffset, Type> = FxHashMap::default();
    let mut found: Vec<(UnitOffset, Structure, Vec<Option<UnitOffset>>)> = Vec::new();
    // The entries that enclose the current one, by depth.
    let mut parents: Vec<(isize, UnitOffset)> = Vec::new();
    let mut named: Vec<(UnitOffset, String)> = Vec::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        let depth = entry.depth();
        let name = || debug_info::name(dwarf, unit, entry);
        let number = |at| debug_info::number(entry, at);
        let of = debug_info::reference(entry, DW_AT_type);
        while parents.last().is_some_and(|(above, _)| *above >= depth) {
            parents.pop();
        }
        let parent = parents.last().map(|(_, offset)| *offset);
        let tag = entry.tag();
        match tag {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                let structure = Structure {
                    name: name().unwrap_or_default(),
                    bytes: number(DW_AT_byte_size).unwrap_or(0),
                    fields: Vec::new(),
                };
                found.push((entry.offset(), structure, Vec::new()));
            }
            gimli::DW_TAG_member => {
                let place = found.iter_mut().rev().find(|(offset, ..)| Some(*offset) == parent);
                if let (Some((_, structure, of_types)), Some(name)) = (place, name()) {
                    let offset = number(DW_AT_data_member_location).unwrap_or(0);
                    structure.fields.push(Field { name, offset, bytes: 0 });
                    of_types.push(of);
                }
            }
            gimli::DW_TAG_subrange_type => {
                if let Some(array) = parent.and_then(|parent| types.get_mut(&parent)) {
                    array.count *= debug_info::elements(entry);
                }
            }
            gimli::DW_TAG_typedef => {
                if let (Some(of), Some(name)) = (of, name()) {
                    named.push((of, name));
                }
            }
            _ => {}
        }
        types.insert(entry.offset(), Type { tag, bytes: number(DW_AT_byte_size), of, count: 1 });
        parents.push((depth, entry.offset()));
    }
    for (offset, mut structure, of_types) in found {
        for (field, of) in structure.fields.iter_mut().zip(of_types) {
            field.bytes = size(&types, of, 0);
        }
        if structure.name.is_empty() {
            let typedef = named.iter().find(|(of, _)| *of == offset);
            structure.name = typedef.map_or("an unnamed structure".into(), |(_, name)| name.clone());
        }
        structure.fields.sort_by_key(|field| field.offset);
        if structure.bytes > 0 {
            structures.push(structure);
        }
    }
    Ok(())
}

fn size(types: &FxHashMap<UnitOffset, Type>, of: Option<UnitOffset>, depth: usize) -> u64 {
    let Some(kind) = of.and_then(|of| types.get(&of)).filter(|_| depth < 32) else { return 0 };
    match (kind.bytes, kind.tag) {
        (Some(bytes), _) => bytes,
        (None, gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type) => 8,
        (None, gimli::DW_TAG_array_type) => kind.count * size(types, kind.of, depth + 1),
        (None, _) => size(types, kind.of, depth + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_assigned() {
        for (line, column, name) in [
            ("  child->data = data;", 15, "data"),
            ("  table.slot[i] = 3;", 17, "slot"),
            ("  a->b.c += 1;", 10, "c"),
            ("  atomic_store(&queue->head, head + 1);", 3, "head"),
            ("  x = 1;", 5, "x"),
        ] {
            assert_eq!(name_in(line, column).as_deref(), Some(name), "{line}");
        }
        assert_eq!(name_in("  x = 1;", 50), None);
    }

    #[test]
    fn sources_are_found_where_they_were_compiled() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("queue.c"), "\n  queue->head = 1;\n").expect("written");
        let place = Place::new("queue.c", 2, 15);
        assert_eq!(Debug::default().field_name(&place), None);
        let debug = Debug { directories: [directory.path().to_owned()].into(), ..Debug::default() };
        assert_eq!(debug.field_name(&place).as_deref(), Some("head"));
    }

    fn header(fields: &[(&str, u64, u64)], bytes: u64) -> Structure {
        let field = |&(name, offset, bytes): &(&str, u64, u64)| Field { name: name.into(), offset, bytes };
        Structure { name: "header".into(), bytes, fields: fields.iter().map(field).collect() }
    }

    #[test]
    fn padding_that_pushes_a_field_over_the_border() {
        let structure = header(
            &[
                ("deleted", 0, 1),
                ("level", 4, 4),
                ("leaf", 8, 1),
                ("last", 10, 2),
                ("counter", 16, 40),
                ("sequence", 56, 8),
                ("ready", 64, 8),
            ],
            72,
        );
        let pair = Pair { lost: ("sequence", 0x1038), survived: ("ready", 0x1040) };
        let (_, advice) = pair.within(&structure).expect("both are there");
        assert!(advice.contains("3 bytes after deleted, 1 byte after leaf, 4 bytes after last"), "{advice}");
        assert!(advice.contains("bytes 48 and 56"), "{advice}");
    }

    #[test]
    fn a_structure_that_begins_in_the_middle_of_a_line() {
        let structure = header(&[("a", 0, 8), ("b", 8, 8)], 16);
        let pair = Pair { lost: ("a", 0x1038), survived: ("b", 0x1040) };
        assert!(pair.within(&structure).unwrap().1.contains("begins at byte 56 of a line"));
        let elsewhere = Pair { lost: ("a", 0x1038), survived: ("b", 0x1050) };
        assert_eq!(elsewhere.within(&structure), None, "two objects");
    }

    #[test]
    fn fields_far_apart_can_be_moved() {
        let structure = header(&[("a", 0, 8), ("gap", 8, 64), ("b", 72, 8)], 80);
        let pair = Pair { lost: ("a", 0x1000), survived: ("b", 0x1048) };
        assert!(pair.within(&structure).unwrap().1.contains("move b next to a"));
    }
}
