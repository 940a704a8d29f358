//! Happens-before over the stores of a long recorded run (PSan, Figure 3), kept small.
//!
//! [`crate::robust::Clocks`] gives every store a clock vector of its own. A recorded run has millions of stores, nearly
//! all of which have the vector of the store before them in their thread. So here a store is known by its thread
//! and the moment it was issued, a number that only has to grow within a thread; and what a thread knows of the
//! others is written down only when it learns something, by reading what they stored or by waiting for their end.

/// A store: who issued it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Issued {
    /// The storing thread.
    pub thread: u16,
    /// When it was issued: a number that grows in every thread, such as the length of the trace.
    pub at: u32,
}

/// What a thread knows of the others, from some moment on: of each, the moment before which everything it
/// issued happened before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Epoch {
    from: u32,
    known: Vec<u32>,
}

/// The happens-before order of one execution.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// By thread; the epochs of each in the order they began. A thread without any knows nothing of others.
    threads: Vec<Vec<Epoch>>,
}

impl Order {
    /// `thread` reads at the moment `at` what `store` wrote: the store, and all that happened before it, happened
    /// before whatever the thread issues from then on.
    pub fn read(&mut self, thread: u16, at: u32, store: Issued) {
        if store.thread != thread {
            self.learn(thread, at, store.thread, store.at + 1, store.at);
        }
    }

    /// At the moment `at` the thread `child` begins, created by `parent`.
    pub fn spawn(&mut self, parent: u16, child: u16, at: u32) {
        self.learn(child, at, parent, at, at);
    }

    /// At the moment `at` the thread `waiter` has waited for the end of `ended`.
    pub fn join(&mut self, waiter: u16, ended: u16, at: u32) {
        self.learn(waiter, at, ended, at, at);
    }

    /// At the moment `at` the thread sees something that `other` did at the moment `then`, such as leaving a lock:
    /// all that `other` issued or knew before happened before whatever the thread issues from now on.
    pub fn synchronize(&mut self, thread: u16, at: u32, other: u16, then: u32) {
        if other != thread {
            self.learn(thread, at, other, then, then);
        }
    }

    /// `thread` learns at the moment `at` what `other` had issued before the moment `until`, and all that `other`
    /// knew itself at the moment `then`.
    fn learn(&mut self, thread: u16, at: u32, other: u16, until: u32, then: u32) {
        let theirs = self.known(other, then).map(<[u32]>::to_vec).unwrap_or_default();
        let last = self.threads.get(usize::from(thread)).and_then(|epochs| epochs.last());
        let mut known = last.map(|epoch| epoch.known.clone()).unwrap_or_default();
        let mut raise = |of: usize, to: u32| {
            if to > 0 && of != usize::from(thread) {
                if known.len() <= of {
                    known.resize(of + 1, 0);
                }
                known[of] = known[of].max(to);
            }
        };
        theirs.iter().enumerate().for_each(|(of, &to)| raise(of, to));
        raise(usize::from(other), until);
        if last.is_some_and(|epoch| epoch.known == known) {
            return;
        }
        if self.threads.len() <= usize::from(thread) {
            self.threads.resize(usize::from(thread) + 1, Vec::new());
        }
        let epochs = &mut self.threads[usize::from(thread)];
        match epochs.last_mut() {
            Some(epoch) if epoch.from == at => epoch.known = known,
            _ => epochs.push(Epoch { from: at, known }),
        }
    }

    /// What `thread` knew when it issued something at the moment `at`.
    fn known(&self, thread: u16, at: u32) -> Option<&[u32]> {
        let epochs = self.threads.get(usize::from(thread))?;
        let after = epochs.partition_point(|epoch| epoch.from <= at);
        Some(&epochs[after.checked_sub(1)?].known)
    }

    /// Before which moment everything that `of` issued happened before `store`.
    fn horizon(&self, store: Issued, of: u16) -> u32 {
        let known = self.known(store.thread, store.at);
        known.and_then(|known| known.get(usize::from(of))).copied().unwrap_or(0)
    }

    /// Did `earlier` happen before `later`? A store does not happen before itself.
    pub fn before(&self, earlier: Issued, later: Issued) -> bool {
        if earlier.thread == later.thread {
            return earlier.at < later.at;
        }
        earlier.at < self.horizon(later, earlier.thread)
    }

    /// The time from which on everything that `thread` issues comes after `store`; `None` if nothing does.
    pub fn first_after(&self, thread: u16, store: Issued) -> Option<u32> {
        if thread == store.thread {
            return Some(store.at + 1);
        }
        let epochs = self.threads.get(usize::from(thread))?;
        let knows =
            |epoch: &Epoch| epoch.known.get(usize::from(store.thread)).is_some_and(|&until| store.at < until);
        Some(epochs.get(epochs.partition_point(|epoch| !knows(epoch)))?.from)
    }

    /// The moment before which everything that `thread` issued happened before `store`, or is it.
    pub fn last_before(&self, thread: u16, store: Issued) -> u32 {
        if thread == store.thread { store.at + 1 } else { self.horizon(store, thread) }
    }

    /// How many threads learnt anything of others: a bound for their numbers.
    pub fn threads(&self) -> u16 {
        self.threads.len() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(thread: u16, at: u32) -> Issued {
        Issued { thread, at }
    }

    #[test]
    fn a_thread_is_ordered_by_when_it_issues() {
        let order = Order::default();
        assert!(order.before(store(0, 1), store(0, 2)));
        assert!(!order.before(store(0, 2), store(0, 2)));
        assert!(!order.before(store(1, 1), store(0, 2)));
    }

    #[test]
    fn reading_orders_what_was_read_before_what_comes_next() {
        let mut order = Order::default();
        // Thread 0 stores at 1 and 5; thread 1 reads the first at 3, stores at 2 and 4.
        order.read(1, 3, store(0, 1));
        assert!(order.before(store(0, 1), store(1, 4)));
        assert!(!order.before(store(0, 1), store(1, 2)), "issued before it read");
        assert!(!order.before(store(0, 5), store(1, 4)), "newer than what was read");
        // Thread 2 reads the store at 4 and knows of both.
        order.read(2, 6, store(1, 4));
        assert!(order.before(store(0, 1), store(2, 7)));
        assert!(order.before(store(1, 2), store(2, 7)));
        assert_eq!(order.first_after(2, store(0, 1)), Some(6));
        assert_eq!(order.first_after(2, store(0, 5)), None);
        assert_eq!(order.last_before(0, store(2, 7)), 2);
    }

    #[test]
    fn a_store_carries_what_was_known_when_it_was_issued() {
        let mut order = Order::default();
        // Thread 1 issues at 2, reads thread 0's store at 3; thread 2 reads the store of 2.
        order.read(1, 3, store(0, 1));
        order.read(2, 4, store(1, 2));
        assert!(!order.before(store(0, 1), store(2, 5)));
    }

    #[test]
    fn threads_begin_after_their_parent_and_end_before_who_waits() {
        let mut order = Order::default();
        order.spawn(0, 1, 10);
        order.join(0, 1, 20);
        assert!(order.before(store(0, 9), store(1, 11)));
        assert!(!order.before(store(0, 12), store(1, 15)));
        assert!(order.before(store(1, 15), store(0, 21)));
    }
}
