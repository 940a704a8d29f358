//! What each line may hold after a crash, or after several.

use crashproof_protocol::Record;
use px86::storage::CachedStore;
use px86::{LINE_BYTES, Line};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::failure::TokenCrash;
use crate::history::History;
use crate::timeline::Timeline;
use crate::told::Read;

/// The bytes of a line.
pub(crate) type Bytes = [u8; LINE_BYTES as usize];

/// How many crashes in a row are possible at most.
pub const MAX_CRASHES: usize = 4;

/// One possible content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    /// For each execution that crashed, how many of the stores that it may have lost were kept.
    pub(crate) kept: [u32; MAX_CRASHES],
}

impl Content {
    /// Of two contents that serve alike, the one with more stores kept tells the shorter story.
    pub(crate) fn most_kept(contents: &[Content]) -> &Content {
        contents
            .iter()
            .max_by_key(|content| content.kept.iter().sum::<u32>())
            .expect("a line holds something")
    }
}

/// What recovery's reads have revealed: lines, and the contents that agree with everything read of them.
pub(crate) type Revealed = FxHashMap<Line, Vec<Content>>;

/// What each open line is to hold.
pub(crate) type Chosen = FxHashMap<Line, Bytes>;

/// A recovery that crashed in its turn.
#[derive(Clone, Copy)]
pub(crate) struct Later<'a> {
    /// What its reads had revealed about the crash before it.
    pub(crate) revealed: &'a Revealed,
    /// How far it had come.
    pub(crate) timeline: &'a Timeline,
    /// Its stores that surely persisted.
    pub(crate) persisted: &'a FxHashMap<Line, Vec<CachedStore>>,
    /// Its stores, and what happened before them.
    pub(crate) history: &'a History<'a>,
    /// What it had read, as far as that counts for robustness.
    pub(crate) reads: &'a [Read],
    /// All it did.
    pub(crate) records: &'a [Record],
}

/// The executions that crashed, and what is known of each.
#[derive(Clone)]
pub(crate) struct CrashState<'a> {
    pub(crate) first: &'a Timeline,
    /// The stores of the first execution, and what happened before them.
    pub(crate) history: &'a History<'a>,
    pub(crate) later: Vec<Later<'a>>,
}

impl CrashState<'_> {
    pub(crate) fn crashes(&self) -> usize {
        1 + self.later.len()
    }

    /// The timeline of each execution, first to last.
    pub(crate) fn timelines(&self) -> impl Iterator<Item = &Timeline> {
        std::iter::once(self.first).chain(self.later.iter().map(|later| later.timeline))
    }

    /// The stores of an execution, counted from the first.
    pub(crate) fn history(&self, level: usize) -> &History<'_> {
        level.checked_sub(1).map_or(self.history, |before| self.later[before].history)
    }

    /// The timeline of the execution that crashed last.
    pub(crate) fn last(&self) -> &Timeline {
        self.later.last().map_or(self.first, |later| later.timeline)
    }

    /// May the line hold anything but what the image says?
    pub(crate) fn is_open(&self, line: Line) -> bool {
        self.timelines().any(|timeline| timeline.is_open(line))
            || self.later.iter().any(|later| later.persisted.contains_key(&line))
    }

    pub(crate) fn open_lines(&self) -> FxHashSet<Line> {
        let mut lines: FxHashSet<Line> = self.timelines().flat_map(Timeline::open_lines).collect();
        lines.extend(self.later.iter().flat_map(|later| later.persisted.keys()));
        lines
    }

    /// Everything a line may hold, given what it surely held when the first execution crashed.
    ///
    /// Contents that are equal byte for byte are one; the one with the most stores kept stands for them.
    pub(crate) fn contents(&self, line: Line, certain: Bytes) -> Vec<Content> {
        let nothing_kept = Content { bytes: certain, kept: [0; MAX_CRASHES] };
        let mut all = extend(&[nothing_kept], 0, &self.first.stores(line));
        for (index, later) in self.later.iter().enumerate() {
            if let Some(revealed) = later.revealed.get(&line) {
                all.clone_from(revealed);
            }
            for store in later.persisted.get(&line).into_iter().flatten() {
                all.iter_mut().for_each(|content| apply(&mut content.bytes, store));
            }
            all = extend(&all, index + 1, &later.timeline.stores(line));
        }
        all
    }
}

impl CrashState<'_> {
    /// What a line holds if so many of its open stores were kept by each execution; all, where nothing is said.
    pub(crate) fn kept(&self, line: Line, certain: Bytes, crashes: &[TokenCrash]) -> Bytes {
        let mut bytes = certain;
        for (level, (timeline, crash)) in self.timelines().zip(crashes).enumerate() {
            let persisted = level.checked_sub(1).and_then(|later| self.later[later].persisted.get(&line));
            persisted.into_iter().flatten().for_each(|store| apply(&mut bytes, store));
            let stores = timeline.stores(line);
            let kept = crash.kept.iter().find(|(number, _)| *number == line.0);
            let kept = kept.map_or(stores.len(), |(_, kept)| (*kept).min(stores.len()));
            stores[..kept].iter().for_each(|store| apply(&mut bytes, store));
        }
        bytes
    }
}

/// Writes a store into a line.
pub(crate) fn apply(bytes: &mut Bytes, store: &CachedStore) {
    let start = (store.event.address % LINE_BYTES) as usize;
    let width = usize::from(store.event.width);
    bytes[start..start + width].copy_from_slice(&store.event.value.to_le_bytes()[..width]);
}

/// Each content as it is, and with one more of the execution's open stores kept, and one more.
fn extend(before: &[Content], level: usize, stores: &[CachedStore]) -> Vec<Content> {
    let mut all: Vec<Content> = Vec::new();
    let mut known: FxHashMap<Bytes, usize> = FxHashMap::default();
    let mut add = |content: Content| match known.get(&content.bytes) {
        Some(&at) if content.kept >= all[at].kept => all[at].kept = content.kept,
        Some(_) => {}
        None => {
            known.insert(content.bytes, all.len());
            all.push(content);
        }
    };
    for content in before {
        let mut content = content.clone();
        add(content.clone());
        for store in stores {
            apply(&mut content.bytes, store);
            content.kept[level] += 1;
            add(content.clone());
        }
    }
    all
}

/// The value of up to eight bytes of a line.
pub(crate) fn value(bytes: &Bytes, address: u64, width: u8) -> u64 {
    let start = (address % LINE_BYTES) as usize;
    let mut word = [0; 8];
    word[..usize::from(width)].copy_from_slice(&bytes[start..start + usize::from(width)]);
    u64::from_le_bytes(word)
}
