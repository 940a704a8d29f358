//! The content of memory that needs no events, on one path.
//!
//! A byte is part of the value stored there, so that a value is recovered whole when it is loaded as it was stored, and
//! stays whole when paths are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crashproof_prove::term::{Term, Terms};

use crate::objects::ObjectId;

/// A byte: the index of a byte within a value, or nothing if never written.
type Byte = Option<(Term, u8)>;

/// Page size in bytes: objects are kept in pages, so that untouched parts of a large one cost nothing, and parts
/// touched on only one path are copied, compared and merged separately.
const PAGE: u64 = 128;

type Page = [Byte; PAGE as usize];

/// The content of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    size: u64,
    pages: BTreeMap<u64, Rc<Page>>,
    /// The value of all bytes on missing pages.
    rest: Byte,
}

impl Content {
    /// Creates content from its first bytes and the value of all others.
    pub(crate) fn new(size: u64, bytes: &[Byte], rest: Byte) -> Content {
        let mut content = Content { size, pages: BTreeMap::new(), rest };
        for (number, chunk) in bytes.chunks(PAGE as usize).enumerate() {
            if chunk.iter().any(|byte| *byte != rest) {
                content.page_mut(number as u64)[..chunk.len()].copy_from_slice(chunk);
            }
        }
        content
    }

    fn get(&self, offset: u64) -> Byte {
        debug_assert!(offset < self.size, "{offset} is outside of {} bytes", self.size);
        self.pages.get(&(offset / PAGE)).map_or(self.rest, |page| page[(offset % PAGE) as usize])
    }

    fn range(&self, offset: u64, bytes: u64) -> Vec<Byte> {
        (offset..offset + bytes).map(|at| self.get(at)).collect()
    }

    fn page_mut(&mut self, number: u64) -> &mut Page {
        let rest = self.rest;
        Rc::make_mut(self.pages.entry(number).or_insert_with(|| Rc::new([rest; PAGE as usize])))
    }

    fn set(&mut self, offset: u64, byte: Byte) {
        self.page_mut(offset / PAGE)[(offset % PAGE) as usize] = byte;
    }

    fn forget(&mut self) {
        self.pages.clear();
        self.rest = None;
    }

    /// The pages about which more than `rest` is known, in either content.
    fn pages_of(&self, other: &Content) -> Vec<u64> {
        let mut all: Vec<u64> = self.pages.keys().chain(other.pages.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// This content if the condition holds, else the other.
    fn merge(&self, terms: &mut Terms, condition: Term, other: &Content, exposed: bool) -> Content {
        let mut merged = self.clone();
        if self.rest != other.rest {
            merged.rest = None;
        }
        for number in self.pages_of(other) {
            let (yes, no) = (self.pages.get(&number), other.pages.get(&number));
            if let (Some(yes), Some(no)) = (yes, no)
                && (Rc::ptr_eq(yes, no) || yes == no)
            {
                continue;
            }
            let blank = |content: &Content| Rc::new([content.rest; PAGE as usize]);
            let yes = yes.cloned().unwrap_or_else(|| blank(self));
            let no = no.cloned().unwrap_or_else(|| blank(other));
            let bytes = merge_bytes(terms, condition, &yes[..], &no[..], exposed);
            merged.page_mut(number).copy_from_slice(&bytes);
        }
        merged
    }
}

/// The content of objects, as far as known. Cheap to copy, shared until written.
#[derive(Clone, Default, Debug)]
pub(crate) struct Memory {
    objects: Rc<BTreeMap<ObjectId, Rc<Content>>>,
    /// Objects whose accesses are events. Their unknown content can be loaded; unknown content of other objects was
    /// never written.
    exposed: Rc<BTreeSet<ObjectId>>,
}

impl Memory {
    pub(crate) fn has(&self, object: ObjectId) -> bool {
        self.objects.contains_key(&object)
    }

    pub(crate) fn insert(&mut self, object: ObjectId, content: Content, exposed: bool) {
        Rc::make_mut(&mut self.objects).insert(object, Rc::new(content));
        if exposed {
            Rc::make_mut(&mut self.exposed).insert(object);
        }
    }

    fn content_mut(&mut self, object: ObjectId) -> &mut Content {
        let objects = Rc::make_mut(&mut self.objects);
        Rc::make_mut(objects.get_mut(&object).expect("the object is there"))
    }

    /// A value of `bytes` bytes (at most 8). Content never written becomes an arbitrary value, the same from now on.
    pub(crate) fn load(&mut self, terms: &mut Terms, object: ObjectId, offset: u64, bytes: u64) -> Term {
        let mut range = self.objects[&object].range(offset, bytes);
        for (index, byte) in range.iter_mut().enumerate() {
            if byte.is_none() {
                *byte = Some((terms.symbol("uninitialized", 8), 0));
                self.content_mut(object).set(offset + index as u64, *byte);
            }
        }
        join(terms, &range)
    }

    /// A byte, if it was written.
    pub(crate) fn byte(&self, terms: &mut Terms, object: ObjectId, offset: u64) -> Option<Term> {
        let (value, index) = self.objects.get(&object)?.get(offset)?;
        Some(terms.extract(value, index * 8, 8))
    }

    /// Whether all of a range was written.
    pub(crate) fn is_known(&self, object: ObjectId, offset: u64, bytes: u64) -> bool {
        self.objects
            .get(&object)
            .is_some_and(|content| (offset..offset + bytes).all(|at| content.get(at).is_some()))
    }

    /// Makes the content of a range unknown.
    pub(crate) fn forget_range(&mut self, object: ObjectId, offset: u64, bytes: u64) {
        if self.has(object) {
            let content = self.content_mut(object);
            (offset..offset + bytes).for_each(|at| content.set(at, None));
        }
    }

    /// Makes the content of an object unknown.
    pub(crate) fn forget(&mut self, object: ObjectId) {
        let known = |content: &Rc<Content>| content.rest.is_some() || !content.pages.is_empty();
        if self.objects.get(&object).is_some_and(known) {
            self.content_mut(object).forget();
        }
    }

    /// Makes the content of all exposed objects unknown.
    pub(crate) fn forget_exposed(&mut self) {
        for object in self.exposed.clone().iter() {
            self.forget(*object);
        }
    }

    pub(crate) fn store(&mut self, terms: &Terms, object: ObjectId, offset: u64, value: Term) {
        let content = self.content_mut(object);
        for index in 0..terms.width(value) / 8 {
            content.set(offset + u64::from(index), Some((value, index)));
        }
    }

    /// Whether anything that `before` holds has changed.
    pub(crate) fn differs(&self, before: &Memory) -> bool {
        !Rc::ptr_eq(&self.objects, &before.objects)
            && before.objects.iter().any(|(object, old)| {
                self.objects.get(object).is_some_and(|new| !Rc::ptr_eq(old, new) && old != new)
            })
    }

    /// This memory if the condition holds, else the other.
    pub(crate) fn merge(self, terms: &mut Terms, condition: Term, other: &Memory) -> Memory {
        if Rc::ptr_eq(&self.objects, &other.objects) {
            return self;
        }
        let mut merged = (*self.objects).clone();
        let mut exposed = self.exposed;
        if !Rc::ptr_eq(&exposed, &other.exposed) {
            Rc::make_mut(&mut exposed).extend(other.exposed.iter());
        }
        for (object, content) in other.objects.iter() {
            let together = match merged.get(object) {
                None => content.clone(),
                Some(own) if Rc::ptr_eq(own, content) || own == content => continue,
                Some(own) => Rc::new(own.merge(terms, condition, content, exposed.contains(object))),
            };
            merged.insert(*object, together);
        }
        Memory { objects: Rc::new(merged), exposed }
    }

    /// The content of an object as values of natural size, with their offsets; bytes never written are left out.
    pub(crate) fn values(&self, terms: &mut Terms, object: ObjectId) -> Vec<(u64, Term)> {
        let Some(content) = self.objects.get(&object) else { return Vec::new() };
        let mut all = Vec::new();
        // `rest` applies to every byte, so missing pages must be visited, too.
        let zeros = content.rest.is_some();
        let pages: Vec<u64> = match zeros {
            true => (0..content.size.div_ceil(PAGE)).collect(),
            false => content.pages.keys().copied().collect(),
        };
        for number in pages {
            let start = number * PAGE;
            let page = content.range(start, PAGE.min(content.size - start));
            let mut at = 0;
            while at < page.len() {
                if page[at].is_none() {
                    at += 1;
                    continue;
                }
                let length = whole(terms, &page[at..]);
                all.push((start + at as u64, join(terms, &page[at..at + length])));
                at += length;
            }
        }
        all
    }
}

/// Length of the value that begins here; 1 if none does.
fn whole(terms: &Terms, bytes: &[Byte]) -> usize {
    let Some((value, 0)) = bytes[0] else { return 1 };
    let length = usize::from(terms.width(value) / 8);
    let complete = length <= bytes.len()
        && bytes[..length].iter().enumerate().all(|(i, byte)| *byte == Some((value, i as u8)));
    if complete { length } else { 1 }
}

fn join(terms: &mut Terms, bytes: &[Byte]) -> Term {
    let mut result: Option<Term> = None;
    let mut at = 0;
    while at < bytes.len() {
        let (value, first) = bytes[at].expect("only what was written is joined");
        let mut length = 1;
        while bytes.get(at + length) == Some(&Some((value, first + length as u8))) {
            length += 1;
        }
        let part = terms.extract(value, first * 8, length as u8 * 8);
        result = Some(match result {
            None => part,
            Some(low) => terms.concat(part, low),
        });
        at += length;
    }
    result.expect("at least one byte")
}

fn merge_bytes(terms: &mut Terms, condition: Term, yes: &[Byte], no: &[Byte], exposed: bool) -> Vec<Byte> {
    let mut merged = Vec::with_capacity(yes.len());
    let mut at = 0;
    while at < yes.len() {
        if yes[at] == no[at] {
            merged.push(yes[at]);
            at += 1;
            continue;
        }
        let mut length = whole(terms, &yes[at..]).max(whole(terms, &no[at..]));
        // Both sides must be written throughout, and no value of either may extend beyond.
        let fits = |bytes: &[Byte], length: usize| {
            at + length <= bytes.len()
                && bytes[at..at + length].iter().all(Option::is_some)
                && bytes.get(at + length).is_none_or(|byte| !matches!(byte, Some((_, 1..))))
        };
        if !fits(yes, length) || !fits(no, length) {
            length = 1;
        }
        if exposed && (yes[at].is_none() || no[at].is_none()) {
            merged.push(None);
            at += 1;
            continue;
        }
        // If never written on one side, an arbitrary value there.
        let mut side = |bytes: &[Byte]| match bytes {
            [None] => terms.symbol("uninitialized", 8),
            _ => join(terms, bytes),
        };
        let (a, b) = (side(&yes[at..at + length]), side(&no[at..at + length]));
        let value = terms.choose(condition, a, b);
        merged.extend((0..length).map(|i| Some((value, i as u8))));
        at += length;
    }
    merged
}
