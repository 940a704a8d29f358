//! Reads DWARF: the units of a program and the attributes of their entries. The callers interpret them: `crash::layout`
//! looks for structures, `narrate::names` for variables and types.

use std::fs;
use std::path::Path;

use addr2line::gimli::{
    self, AttributeValue, DW_AT_count, DW_AT_name, DW_AT_upper_bound, EndianSlice, RunTimeEndian, UnitOffset,
};
use object::{Object, ObjectSection};

pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
pub(crate) type Unit<'a> = gimli::Unit<Slice<'a>>;
pub(crate) type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// Calls `visit` for each readable unit; `None` if `program` has no debug information.
pub(crate) fn for_each_unit(program: &Path, mut visit: impl FnMut(&Dwarf, &Unit)) -> Option<()> {
    let bytes = fs::read(program).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: gimli::SectionId| -> Result<std::borrow::Cow<[u8]>, gimli::Error> {
        let section = file.section_by_name(id.name());
        Ok(section.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(load).ok()?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Ok(unit) = dwarf.unit(header) {
            visit(&dwarf, &unit);
        }
    }
    Some(())
}

pub(crate) fn text(slice: Option<Slice>) -> Option<String> {
    Some(slice?.to_string_lossy().into_owned())
}

pub(crate) fn name(dwarf: &Dwarf, unit: &Unit, entry: &Entry) -> Option<String> {
    text(dwarf.attr_string(unit, entry.attr_value(DW_AT_name)?).ok())
}

pub(crate) fn number(entry: &Entry, at: gimli::DwAt) -> Option<u64> {
    entry.attr_value(at)?.udata_value()
}

pub(crate) fn reference(entry: &Entry, at: gimli::DwAt) -> Option<UnitOffset> {
    match entry.attr_value(at)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}

/// The length of an array dimension; 0 if unknown.
pub(crate) fn elements(entry: &Entry) -> u64 {
    let last = || number(entry, DW_AT_upper_bound).map(|last| last + 1);
    number(entry, DW_AT_count).or_else(last).unwrap_or(0)
}
