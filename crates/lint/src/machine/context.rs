//! What the machine needs from the surrounding analysis: which memory is persistent, its names, and where violations
//! go.

use px86::LINE_BYTES;
use rustc_hash::FxHashSet;

use super::naming;
use crate::dsa::FunctionGraph;
use crate::event::{Names, Site};
use crate::expression::{Address, Expression, Expressions, Form, Persistence};
use crate::extent::Extents;
use crate::guards::{SOME_ELEMENT, is_same_member};
use crate::rules::{Condition, Model, RelatedPlace, Rule, Verdict, Verdicts};
use crate::span::Span;
use crashproof_findings::Sources;
use crashproof_findings::expression::written_at;
use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::program::ir::{FunctionId, GlobalId, Op, PlaceId, Program};

/// The machine's environment.
pub(crate) struct Context<'a> {
    pub(crate) program: &'a Program,
    pub(crate) apis: &'a Apis,
    pub(crate) expressions: &'a mut Expressions,
    pub(crate) extents: &'a Extents,
    pub(crate) names: &'a Names,
    pub(crate) sources: &'a Sources,
    pub(crate) verdicts: &'a mut Verdicts,
    pub(crate) graph: &'a FunctionGraph,
    pub(crate) function: FunctionId,
    /// The parameter that is a new object, if the function is a constructor.
    pub(crate) constructed: Option<u32>,
    /// Nothing in the program calls the function, so nothing can be left to a caller.
    pub(crate) is_root: bool,
    /// It is `main`, or a thread's function.
    pub(crate) is_entry: bool,
    pub(crate) model: Model,
    pub(crate) pedantic: bool,
    /// The program uses transactions of a library.
    pub(crate) has_transactions: bool,
    /// The program starts threads, which may have stored what this one flushes.
    pub(crate) has_threads: bool,
    /// Variables that hold pointers to whole mapped files.
    pub(crate) bases: &'a FxHashSet<GlobalId>,
}

impl Context<'_> {
    /// The graph's cell that contains an address.
    pub(super) fn cell(&self, expression: Expression) -> Option<crate::dsa::Cell> {
        self.graph.cell(self.expressions, self.function, expression)
    }

    /// Whether an address is in persistent memory.
    pub(crate) fn persistence(&self, address: Expression) -> Persistence {
        let object = self.expressions.address(address).object;
        match self.expressions.form(object) {
            Form::Mapped(_) | Form::Found(..) | Form::Fresh(_) | Form::Direct(_) => Persistence::Surely,
            Form::Opaque(_, persistence) => persistence,
            Form::Global(id) => {
                let section = &self.program.globals[id.0 as usize].section;
                let persistent = self.apis.sections.iter().any(|known| known == section);
                if persistent { Persistence::Surely } else { Persistence::No }
            }
            Form::Parameter(_) | Form::Content(_) => match self.cell(address) {
                Some(cell) => self.graph.graph.persistence(cell),
                None => self.expressions.loaded(object).unwrap_or(Persistence::No),
            },
            _ => Persistence::No,
        }
    }

    /// Whether a description declares an object persistent, so that no flush is needed to show it. A library function
    /// may leave the flush to another one.
    pub(super) fn is_declared(&self, object: Expression) -> bool {
        self.is_entry && self.cell(object).is_some_and(|cell| self.graph.graph.flags(cell).surely_declared())
    }

    /// Whether an object begins a page. Files are mapped at page boundaries.
    pub(super) fn begins_page(&self, object: Expression) -> bool {
        match self.expressions.form(object) {
            Form::Mapped(_) => true,
            Form::Content(variable) if self.is_base(variable) => true,
            Form::Content(_) | Form::Parameter(_) => {
                self.cell(object).is_some_and(|cell| self.graph.graph.begins_page(cell))
            }
            _ => false,
        }
    }

    pub(super) fn alignment(&self, object: Expression) -> u64 {
        match self.expressions.form(object) {
            Form::Global(id) => self.program.globals[id.0 as usize].alignment,
            _ if self.begins_page(object) => LINE_BYTES,
            _ => self.expressions.alignment(object).unwrap_or(8),
        }
    }

    /// The alignment of a range, as far as its index allows: elements of 24 bytes lie at multiples of eight. An offset
    /// in bytes is assumed to preserve its object's alignment, as allocators do.
    pub(super) fn alignment_of(&self, span: &Span) -> u64 {
        let mut alignment = self.alignment(span.at.object);
        let mut at = span.at.element;
        // What a type says about an element, regardless of the containing object.
        let known = at.and_then(|element| self.expressions.alignment(element));
        while let Some(expression) = at {
            at = match self.expressions.form(expression) {
                Form::Element(base, _, scale) => {
                    if scale.unsigned_abs() > 1 {
                        alignment = alignment.min(1 << scale.trailing_zeros());
                    }
                    Some(base)
                }
                Form::Plus(base, _) => Some(base),
                _ => None,
            };
        }
        known.map_or(alignment, |known| known.max(alignment))
    }

    /// Whether two ranges certainly lie on one line.
    pub(super) fn are_on_one_line(&self, one: &Span, other: &Span) -> bool {
        one.same_line(other, self.alignment_of(other))
            || self.extents.are_on_one_line(one, other, &|element| {
                self.alignment_of(&Span { at: Address { element, ..one.at }, length: one.length })
            })
    }

    /// Whether an address is an object plus a non-constant number of bytes.
    pub(super) fn is_by_byte(&self, element: Option<Expression>) -> bool {
        let form = element.map(|element| self.expressions.form(element));
        matches!(form, Some(Form::Element(_, _, 1)))
    }

    /// Whether the source refers to two ranges by different members, so that neither is part of the other although
    /// their addresses cannot be compared.
    pub(super) fn are_named_apart(&self, stored: Site, flushed: Site) -> bool {
        naming::are_apart(self.names.text(stored.name), self.names.text(flushed.name))
    }

    fn is_base(&self, variable: Expression) -> bool {
        matches!(self.expressions.form(variable), Form::Global(id) if self.bases.contains(&id))
    }

    /// The object was allocated on this path, and is unreachable unless the path stored a pointer to it.
    pub(super) fn is_fresh(&self, object: Expression) -> bool {
        match self.expressions.form(object) {
            Form::Fresh(_) => true,
            Form::Direct(id) => matches!(self.expressions.form(id), Form::FreshId(_)),
            Form::Parameter(number) => self.constructed == Some(number),
            _ => false,
        }
    }

    /// A library finds, allocates and frees the object.
    pub(super) fn is_of_a_library(&self, object: Expression) -> bool {
        matches!(self.expressions.form(object), Form::Found(..) | Form::Direct(_) | Form::Fresh(_))
    }

    /// The object was created or mapped on this path, so it cannot have been stored to before.
    pub(super) fn is_new(&self, object: Expression) -> bool {
        self.is_fresh(object) || matches!(self.expressions.form(object), Form::Mapped(_))
    }

    pub(super) fn is_parameter(&self, object: Expression) -> bool {
        matches!(self.expressions.form(object), Form::Parameter(_))
    }

    /// Whether two objects may be the same although their expressions differ.
    pub(super) fn may_be_same(&self, left: Expression, right: Expression) -> bool {
        if left == right {
            return true;
        }
        if self.is_fresh(left) || self.is_fresh(right) {
            return false;
        }
        self.expressions.has_opaque(left) || self.expressions.has_opaque(right)
    }

    /// Whether the function containing a place returns a value.
    pub(super) fn returns_something(&self, place: PlaceId) -> bool {
        let name = self.inside(place);
        let returns = |op: &Op| matches!(op, Op::Return { value: Some(_) });
        // With or without namespaces.
        self.program
            .functions
            .iter()
            .filter(|function| function.readable.contains(name))
            .any(|function| function.instructions.iter().any(|instruction| returns(&instruction.op)))
    }

    /// The function containing a place; without debug information, the current one.
    pub(super) fn inside(&self, place: PlaceId) -> &str {
        match self.program.place(place).function.as_str() {
            "" => &self.program.function(self.function).readable,
            name => name,
        }
    }

    pub(super) fn name(&self, site: Site) -> String {
        self.named(site).unwrap_or("persistent memory".into())
    }

    /// The program's name for memory, or else its expression in the source.
    fn named(&self, site: Site) -> Option<String> {
        let written = || {
            let place = self.program.place(site.place);
            written_at(self.sources.get(&place.file)?.line(place.line)?, place.column)
        };
        let name = match self.names.text(site.name) {
            "" => written()?,
            // The source has the index.
            name if name.contains(SOME_ELEMENT) => {
                let written = written().filter(|written| is_same_member(written, name));
                written.unwrap_or_else(|| name.replace(SOME_ELEMENT, "[..]"))
            }
            name => name.to_owned(),
        };
        Some(format!("`{name}`"))
    }

    /// The name within a fix: the message has already named the memory.
    pub(super) fn it(&self, site: Site) -> String {
        self.named(site).unwrap_or("it".into())
    }

    /// A place relative to a finding: names the file only if it is a different one.
    pub(super) fn line(&self, place: PlaceId, from: Site) -> String {
        let (there, here) = (self.program.place(place), self.program.place(from.place));
        if there.file == here.file {
            format!("line {}", there.line)
        } else {
            format!("{}:{}", there.file.rsplit('/').next().unwrap_or(&there.file), there.line)
        }
    }

    /// The names of several stores, each once; `None` if one has no name or there are many.
    pub(super) fn list(&self, sites: impl Iterator<Item = Site>) -> Option<String> {
        const MANY: usize = 4;
        let mut names: Vec<String> = Vec::new();
        for site in sites {
            if site.name == 0 {
                return None;
            }
            let name = self.name(site);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let last = names.pop()?;
        match names.len() {
            0 => Some(last),
            1..MANY => Some(format!("{} and {last}", names.join(", "))),
            _ => None,
        }
    }

    pub(super) fn by_call(&self, site: Site, related: &mut Vec<RelatedPlace>) {
        if let Some(call) = site.call {
            related.push(RelatedPlace {
                role: "call",
                place: call,
                message: "reached through this call".into(),
            });
        }
    }

    pub(super) fn violates(
        &mut self,
        rule: Rule,
        site: Site,
        message: String,
        mut related: Vec<RelatedPlace>,
    ) -> &mut Verdict {
        self.by_call(site, &mut related);
        let verdict = self.verdicts.violates(rule, site, self.function, || (String::new(), Vec::new()));
        // A description based on a condition is dropped: the condition may not hold.
        if !verdict.is_certain {
            (verdict.message, verdict.related, verdict.advice) = (message, related, None);
        }
        verdict.is_certain = true;
        verdict
    }

    /// A violation under a condition that is known only when all functions have been walked.
    pub(super) fn violates_if(
        &mut self,
        condition: Condition,
        rule: Rule,
        site: Site,
        message: String,
        mut related: Vec<RelatedPlace>,
    ) -> &mut Verdict {
        self.by_call(site, &mut related);
        let verdict = self.verdicts.violates(rule, site, self.function, || (message, related));
        if !verdict.conditions.contains(&condition) {
            verdict.conditions.push(condition);
        }
        verdict
    }
}
