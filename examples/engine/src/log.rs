//! The pool and its write-ahead log.

use crashproof::{persist, persistent};

/// Words of a page: two cache lines.
pub(crate) const WORDS: usize = 16;
/// Pages of a pool.
pub(crate) const PAGES: usize = 32;
/// Pages that one change may touch.
const LOGGED: usize = 6;

persistent! {
    /// A page.
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    pub struct Page { pub(crate) words: [u64; WORDS] }
}

persistent! {
    /// The new content of a page.
    #[derive(Clone, Copy)]
    pub struct Entry { page: Page, number: u64 }
}

persistent! {
    /// The log: how many entries count, and the entries.
    pub struct Log { committed: u64, entries: [Entry; LOGGED] }
}

persistent! {
    /// All there is in persistent memory.
    pub struct Pool { log: Log, pub(crate) pages: [Page; PAGES] }
}

/// A change: the pages that it touches, in ordinary memory until it is committed.
#[derive(Default)]
pub(crate) struct Change {
    pages: Vec<(usize, Page)>,
}

impl Change {
    /// A page as it will be.
    pub(crate) fn page<'a>(&'a mut self, pool: &Pool, number: usize) -> &'a mut [u64; WORDS] {
        let known = self.pages.iter().position(|page| page.0 == number);
        let at = known.unwrap_or_else(|| {
            self.pages.push((number, pool.pages[number]));
            self.pages.len() - 1
        });
        &mut self.pages[at].1.words
    }

    /// Makes the change: all of it, or nothing if the power fails first.
    pub(crate) fn commit(self, pool: &mut Pool) {
        assert!(self.pages.len() <= LOGGED, "a change touches at most {LOGGED} pages");
        for (at, (number, page)) in self.pages.iter().enumerate() {
            let entry = &mut pool.log.entries[at];
            entry.page = *page;
            entry.number = *number as u64;
            persist(entry);
        }
        pool.log.committed = self.pages.len() as u64;
        persist(&pool.log.committed);
        pool.replay();
    }
}

impl Pool {
    /// An empty pool in ordinary memory.
    pub fn in_memory() -> Box<Pool> {
        let page = Page { words: [0; WORDS] };
        let entries = [Entry { page, number: 0 }; LOGGED];
        Box::new(Pool { log: Log { committed: 0, entries }, pages: [page; PAGES] })
    }

    /// Copies what the log holds to where it belongs, and empties it.
    pub(crate) fn replay(&mut self) {
        for at in 0..self.log.committed as usize {
            let entry = self.log.entries[at];
            let page = &mut self.pages[entry.number as usize];
            *page = entry.page;
            persist(page);
        }
        if self.log.committed > 0 {
            self.log.committed = 0;
            persist(&self.log.committed);
        }
    }
}
