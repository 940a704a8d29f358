//! Crash states: what each line may hold after one crash or several in a row.
//!
//! px86 determines which stores of a line may be missing (`timeline`); this module combines lines, over all executions
//! that crashed. States are never enumerated: `search` asks for the contents of the lines that recovery reads.

use std::ops::Range;

use crashproof_protocol::Record;
use px86::storage::CachedStore;
use px86::{LINE_BYTES, Line};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::crash::history::History;
use crate::crash::reads::Read;
use crate::crash::timeline::Timeline;
use crate::subject::Bytes;

/// The maximum number of consecutive crashes.
pub const MAX_CRASHES: usize = 4;

/// One possible content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    /// For each execution that crashed, how many of its open stores survived.
    pub(crate) kept: [u32; MAX_CRASHES],
}

impl Content {
    /// The content with the most surviving stores: of several that explain the same reads, the one that loses least.
    pub(crate) fn most_kept(contents: &[Content]) -> &Content {
        contents
            .iter()
            .max_by_key(|content| content.kept.iter().sum::<u32>())
            .expect("a line holds something")
    }
}

/// What recovery's reads have revealed: per line, the contents consistent with everything read from it.
pub(crate) type Revealed = FxHashMap<Line, Vec<Content>>;

/// The chosen content of each open line.
pub(crate) type Chosen = FxHashMap<Line, Bytes>;

/// The stores to a line that persisted, oldest first.
pub(crate) type Persisted = FxHashMap<Line, Vec<CachedStore>>;

/// One crash: its crash point, and how much of each line survived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenCrash {
    /// The number of records that had taken effect.
    pub at: usize,
    /// Lines that lost stores: line number, and how many of its open stores survived.
    pub kept: Vec<(u64, usize)>,
}

/// A recovery that crashed itself.
#[derive(Clone, Copy)]
pub(crate) struct Later<'a> {
    /// What its reads revealed about the previous crash.
    pub(crate) revealed: &'a Revealed,
    /// How far it got.
    pub(crate) timeline: &'a Timeline,
    /// Its stores that certainly persisted.
    pub(crate) persisted: &'a Persisted,
    /// Its stores, and what happened before them.
    pub(crate) history: &'a History<'a>,
    /// What it had read, as far as that counts for robustness.
    pub(crate) reads: &'a [Read],
    /// All its records.
    pub(crate) records: &'a [Record],
}

/// The executions that crashed.
#[derive(Clone)]
pub(crate) struct CrashState<'a> {
    pub(crate) first: &'a Timeline,
    /// All records of the first execution.
    pub(crate) records: &'a [Record],
    /// Its stores, and what happened before them.
    pub(crate) history: &'a History<'a>,
    pub(crate) later: Vec<Later<'a>>,
}

impl<'a> CrashState<'a> {
    /// The state after the recovery crashes, too.
    pub(crate) fn then<'s>(&self, later: Later<'s>) -> CrashState<'s>
    where
        'a: 's,
    {
        let mut state: CrashState<'s> = self.clone();
        state.later.push(later);
        state
    }

    /// All records of an execution, counted from the first.
    pub(crate) fn records(&self, level: usize) -> &'a [Record] {
        level.checked_sub(1).map_or(self.records, |before| self.later[before].records)
    }

    /// What the recovery after an execution revealed about that execution's losses; `last` for the last one.
    pub(crate) fn revealed<'r>(&'r self, level: usize, last: &'r Revealed) -> &'r Revealed {
        self.later.get(level).map_or(last, |later| later.revealed)
    }

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

    /// Could the line hold anything but the image's content?
    pub(crate) fn is_open(&self, line: Line) -> bool {
        self.timelines().any(|timeline| timeline.is_open(line))
            || self.later.iter().any(|later| later.persisted.contains_key(&line))
    }

    pub(crate) fn open_lines(&self) -> FxHashSet<Line> {
        let mut lines: FxHashSet<Line> = self.timelines().flat_map(Timeline::open_lines).collect();
        lines.extend(self.later.iter().flat_map(|later| later.persisted.keys()));
        lines
    }

    /// Everything a line may hold, given its certain content when the first execution crashed.
    ///
    /// Contents equal byte for byte are merged, keeping the one with the most surviving stores.
    pub(crate) fn contents(&self, line: Line, certain: Bytes) -> Vec<Content> {
        // Stores assumed to persist are part of the image.
        let assumed = self.first.assumed(line);
        let mut nothing_kept = Content { bytes: certain, kept: [0; MAX_CRASHES] };
        nothing_kept.kept[0] = assumed as u32;
        let together = self.first.together(line);
        let mut all = extend(&[nothing_kept], 0, line, &together, self.first);
        for (index, later) in self.later.iter().enumerate() {
            if let Some(revealed) = later.revealed.get(&line) {
                all.clone_from(revealed);
            }
            agree(&mut all, line, &together, later.revealed);
            for store in later.persisted.get(&line).into_iter().flatten() {
                all.iter_mut().for_each(|content| apply(line, &mut content.bytes, store));
            }
            all = extend(&all, index + 1, line, &together, later.timeline);
        }
        all
    }

    /// What a line may hold, given what recovery's reads revealed; `certain` is its certain content.
    pub(crate) fn contents_given(
        &self,
        line: Line,
        revealed: &Revealed,
        certain: impl FnOnce(Line) -> Bytes,
    ) -> Vec<Content> {
        let mut all = revealed.get(&line).cloned().unwrap_or_else(|| self.contents(line, certain(line)));
        agree(&mut all, line, &self.first.together(line), revealed);
        all
    }

    /// Is there obviously no robustness violation? At most one line is open, and nothing that persisted was issued
    /// after the first of its open stores: no younger store on another line can have survived a lost one. This holds
    /// for most crashes of programs that persist one thing at a time.
    pub(crate) fn is_obviously_robust(&self) -> bool {
        let one_is_open = self.first.open_lines().nth(1).is_none();
        one_is_open && self.later.is_empty() && self.may_lose_all()
    }

    /// Could a machine without caches have left exactly the stores that certainly persisted? All stores that may be
    /// lost are younger.
    pub(crate) fn may_lose_all(&self) -> bool {
        if self.first.overtakes() {
            return false;
        }
        let certain = self.first.certain_until();
        // A store's place in the trace is when it took effect, which is never before its issue.
        let open = |line| self.first.each_store(line).skip(self.first.assumed(line));
        let mut stores = self.first.open_lines().flat_map(open);
        stores.all(|store| self.history.issued(store.tag).at >= certain)
    }

    /// A line's content if this many of its open stores survived each crash; all of them where nothing is specified.
    pub(crate) fn chosen(&self, line: Line, certain: Bytes, crashes: &[ChosenCrash]) -> Bytes {
        let mut bytes = certain;
        for (level, (timeline, crash)) in self.timelines().zip(crashes).enumerate() {
            let persisted = level.checked_sub(1).map(|later| self.later[later].persisted);
            survive(&mut bytes, line, persisted, timeline, crash);
        }
        bytes
    }
}

/// Applies an execution and its crash to a line: the stores that persisted, and those chosen to survive.
pub(crate) fn survive(
    bytes: &mut Bytes,
    line: Line,
    persisted: Option<&Persisted>,
    timeline: &Timeline,
    crash: &ChosenCrash,
) {
    let certain = persisted.and_then(|persisted| persisted.get(&line));
    certain.into_iter().flatten().for_each(|store| apply(line, bytes, store));
    let open = timeline.stores(line);
    let kept = crash.kept.iter().find(|(number, _)| *number == timeline.unit(line).0);
    let mut kept = kept.map_or(open.len(), |(_, kept)| (*kept).min(open.len()));
    // Everything stored by one `write` survives together.
    while kept > 0 && kept < open.len() && timeline.are_joined(&open[kept - 1], &open[kept]) {
        kept += 1;
    }
    open[..kept].iter().for_each(|store| apply(line, bytes, store));
}

/// Retains the contents of a line consistent with what was revealed about lines that survive together with it: the same
/// stores survived.
pub(crate) fn agree(contents: &mut Vec<Content>, line: Line, together: &Range<u64>, revealed: &Revealed) {
    for other in together.clone().map(Line).filter(|other| *other != line) {
        if let Some(known) = revealed.get(&other) {
            contents.retain(|content| known.iter().any(|it| it.kept == content.kept));
        }
    }
}

/// Writes a store into a line, unless it is to another line.
pub(crate) fn apply(line: Line, bytes: &mut Bytes, store: &CachedStore) {
    if Line::containing(store.event.address) != line {
        return;
    }
    let start = (store.event.address % LINE_BYTES) as usize;
    let width = usize::from(store.event.width);
    bytes[start..start + width].copy_from_slice(&store.event.value.to_le_bytes()[..width]);
}

/// Extends each content by every possible number of surviving open stores of the execution.
///
/// Equal contents are merged, unless other lines survive together with this one: then the number of surviving stores
/// matters.
fn extend(
    before: &[Content],
    level: usize,
    line: Line,
    together: &Range<u64>,
    timeline: &Timeline,
) -> Vec<Content> {
    let stores = timeline.stores(line);
    let alone = together.end - together.start == 1;
    let mut all: Vec<Content> = Vec::new();
    let mut known: FxHashMap<Bytes, usize> = FxHashMap::default();
    let mut add = |content: Content| match known.get(&content.bytes) {
        Some(&at) if alone && content.kept >= all[at].kept => all[at].kept = content.kept,
        Some(_) if alone => {}
        _ => {
            known.insert(content.bytes, all.len());
            all.push(content);
        }
    };
    for content in before {
        let mut content = content.clone();
        add(content.clone());
        for (index, store) in stores.iter().enumerate().skip(content.kept[level] as usize) {
            apply(line, &mut content.bytes, store);
            content.kept[level] += 1;
            if !stores.get(index + 1).is_some_and(|next| timeline.are_joined(store, next)) {
                add(content.clone());
            }
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

/// Groups contents by the value at `address`, those with the most surviving stores first.
pub(crate) fn group(all: &[Content], address: u64, width: u8) -> Vec<(u64, Vec<Content>)> {
    let mut groups: Vec<(u64, Vec<Content>)> = Vec::new();
    for content in all.iter().rev() {
        let seen = value(&content.bytes, address, width);
        match groups.iter_mut().find(|(value, _)| *value == seen) {
            Some((_, members)) => members.push(content.clone()),
            None => groups.push((seen, vec![content.clone()])),
        }
    }
    groups
}
