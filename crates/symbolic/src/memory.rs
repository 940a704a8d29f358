//! What memory that needs no events holds, on one path.
//!
//! A byte is a part of the value that was stored there, so that a value comes back whole when it is loaded
//! the way it was stored, and stays whole when paths are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crashproof_prove::term::{Term, Terms};

use crate::objects::ObjectId;

/// A byte: the so-many-th of a value, or nothing was written yet.
type Byte = Option<(Term, u8)>;

/// The content of one object.
type Content = Rc<Vec<Byte>>;

/// The content of objects, as far as it is known. Cheap to copy, shared until written.
#[derive(Clone, Default, Debug)]
pub(crate) struct Memory {
    objects: Rc<BTreeMap<ObjectId, Content>>,
    /// Objects whose accesses are events. What is not known of them can be loaded; of others, it was never written.
    exposed: Rc<BTreeSet<ObjectId>>,
}

impl Memory {
    pub(crate) fn has(&self, object: ObjectId) -> bool {
        self.objects.contains_key(&object)
    }

    pub(crate) fn insert(&mut self, object: ObjectId, content: Vec<Byte>, exposed: bool) {
        Rc::make_mut(&mut self.objects).insert(object, Rc::new(content));
        if exposed {
            Rc::make_mut(&mut self.exposed).insert(object);
        }
    }

    /// A value of `bytes` bytes (at most 8). What was never written is some value, from now on always the same.
    pub(crate) fn load(&mut self, terms: &mut Terms, object: ObjectId, offset: u64, bytes: u64) -> Term {
        let range = offset as usize..(offset + bytes) as usize;
        let content = &self.objects[&object];
        if content[range.clone()].iter().any(Option::is_none) {
            let objects = Rc::make_mut(&mut self.objects);
            let content = Rc::make_mut(objects.get_mut(&object).expect("the object is there"));
            for byte in &mut content[range.clone()] {
                byte.get_or_insert_with(|| (terms.symbol("uninitialized", 8), 0));
            }
        }
        join(terms, &self.objects[&object][range])
    }

    /// Whether all of a range was written.
    pub(crate) fn is_known(&self, object: ObjectId, offset: u64, bytes: u64) -> bool {
        self.objects.get(&object).is_some_and(|content| {
            content[offset as usize..(offset + bytes) as usize].iter().all(Option::is_some)
        })
    }

    /// The range may hold anything from now on.
    pub(crate) fn forget_range(&mut self, object: ObjectId, offset: u64, bytes: u64) {
        if let Some(content) = Rc::make_mut(&mut self.objects).get_mut(&object) {
            Rc::make_mut(content)[offset as usize..(offset + bytes) as usize].fill(None);
        }
    }

    /// All of this object may hold anything from now on.
    pub(crate) fn forget(&mut self, object: ObjectId) {
        let length = self.objects.get(&object).map_or(0, |content| content.len());
        self.forget_range(object, 0, length as u64);
    }

    /// All exposed objects may hold anything from now on.
    pub(crate) fn forget_exposed(&mut self) {
        for object in self.exposed.clone().iter() {
            self.forget(*object);
        }
    }

    pub(crate) fn store(&mut self, terms: &Terms, object: ObjectId, offset: u64, value: Term) {
        let objects = Rc::make_mut(&mut self.objects);
        let content = Rc::make_mut(objects.get_mut(&object).expect("the object is there"));
        for index in 0..terms.width(value) / 8 {
            content[offset as usize + index as usize] = Some((value, index));
        }
    }

    /// Whether something that `before` holds is different here.
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
                Some(own) => Rc::new(merge_content(terms, condition, own, content, exposed.contains(object))),
            };
            merged.insert(*object, together);
        }
        Memory { objects: Rc::new(merged), exposed }
    }

    /// The content of an object as values of natural size, with their offsets; what was never written is left out.
    pub(crate) fn values(&self, terms: &mut Terms, object: ObjectId) -> Vec<(u64, Term)> {
        let Some(content) = self.objects.get(&object) else { return Vec::new() };
        let mut all = Vec::new();
        let mut at = 0;
        while at < content.len() {
            if content[at].is_none() {
                at += 1;
                continue;
            }
            let length = whole(terms, &content[at..]);
            all.push((at as u64, join(terms, &content[at..at + length])));
            at += length;
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

fn merge_content(terms: &mut Terms, condition: Term, yes: &[Byte], no: &[Byte], exposed: bool) -> Vec<Byte> {
    let mut merged = Vec::with_capacity(yes.len());
    let mut at = 0;
    while at < yes.len() {
        if yes[at] == no[at] {
            merged.push(yes[at]);
            at += 1;
            continue;
        }
        let mut length = whole(terms, &yes[at..]).max(whole(terms, &no[at..]));
        // Both sides must have something in all of it, and no value of either may stick out.
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
        // What was never written on one side is some value there.
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
