//! Crash states: what each line may hold after a crash, or after several in a row.
//!
//! Which stores of a line may be missing is px86's to say (`timeline`); here lines are combined, over all executions that
//! crashed. States are never enumerated: `search` asks for the contents of the lines that recovery reads.

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
    /// The content with the most surviving stores: of several that explain the same reads it loses the least.
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

/// The stores to a line that persisted, oldest first.
pub(crate) type Persisted = FxHashMap<Line, Vec<CachedStore>>;

/// One crash: where it came, and how much of each line survived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenCrash {
    /// How many records had taken effect when it came.
    pub at: usize,
    /// Lines of which stores were lost: number, and how many of its open stores survived.
    pub kept: Vec<(u64, usize)>,
}

/// A recovery that crashed in its turn.
#[derive(Clone, Copy)]
pub(crate) struct Later<'a> {
    /// What its reads had revealed about the crash before it.
    pub(crate) revealed: &'a Revealed,
    /// How far it had come.
    pub(crate) timeline: &'a Timeline,
    /// Its stores that surely persisted.
    pub(crate) persisted: &'a Persisted,
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
    /// All that the first execution does.
    pub(crate) records: &'a [Record],
    /// Its stores, and what happened before them.
    pub(crate) history: &'a History<'a>,
    pub(crate) later: Vec<Later<'a>>,
}

impl<'a> CrashState<'a> {
    /// The same, and then the recovery crashes, too.
    pub(crate) fn then<'s>(&self, later: Later<'s>) -> CrashState<'s>
    where
        'a: 's,
    {
        let mut state: CrashState<'s> = self.clone();
        state.later.push(later);
        state
    }

    /// All that an execution does, counted from the first.
    pub(crate) fn records(&self, level: usize) -> &'a [Record] {
        level.checked_sub(1).map_or(self.records, |before| self.later[before].records)
    }

    /// What the recovery after an execution revealed about what that lost; `last` for the last execution.
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
        // What is taken to have persisted is part of the image.
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

    /// What a line may hold, given what recovery's reads revealed; `certain` is what it surely held.
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

    /// Is there obviously no robustness violation? At most one line is open, and nothing that has persisted was issued
    /// after the first of its open stores: whatever is lost, nothing younger can have survived on another line. This
    /// holds for most crashes of programs that persist one thing after the other.
    pub(crate) fn is_obviously_robust(&self) -> bool {
        let one_is_open = self.first.open_lines().nth(1).is_none();
        one_is_open && self.later.is_empty() && self.may_lose_all()
    }

    /// Could a machine without caches have left what surely persisted, and nothing else? Whatever may be lost is younger.
    pub(crate) fn may_lose_all(&self) -> bool {
        if self.first.overtakes() {
            return false;
        }
        let certain = self.first.certain_until();
        // Its place in the trace is when a store took effect; nothing takes effect before it is issued.
        let open = |line| self.first.each_store(line).skip(self.first.assumed(line));
        let mut stores = self.first.open_lines().flat_map(open);
        stores.all(|store| self.history.issued(store.tag).at >= certain)
    }

    /// What a line holds if these many of its open stores survived each crash; all, where nothing is said.
    pub(crate) fn chosen(&self, line: Line, certain: Bytes, crashes: &[ChosenCrash]) -> Bytes {
        let mut bytes = certain;
        for (level, (timeline, crash)) in self.timelines().zip(crashes).enumerate() {
            let persisted = level.checked_sub(1).map(|later| self.later[later].persisted);
            survive(&mut bytes, line, persisted, timeline, crash);
        }
        bytes
    }
}

/// What an execution and its crash make of a line: its stores that persisted, and those that were chosen to survive.
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
    // What one `write` stored survives whole.
    while kept > 0 && kept < open.len() && timeline.are_joined(&open[kept - 1], &open[kept]) {
        kept += 1;
    }
    open[..kept].iter().for_each(|store| apply(line, bytes, store));
}

/// Leaves the contents of a line that agree with what was revealed of those that survive together with it: the same of
/// their stores were kept.
pub(crate) fn agree(contents: &mut Vec<Content>, line: Line, together: &Range<u64>, revealed: &Revealed) {
    for other in together.clone().map(Line).filter(|other| *other != line) {
        if let Some(known) = revealed.get(&other) {
            contents.retain(|content| known.iter().any(|it| it.kept == content.kept));
        }
    }
}

/// Writes a store into a line, unless it is to another one.
pub(crate) fn apply(line: Line, bytes: &mut Bytes, store: &CachedStore) {
    if Line::containing(store.event.address) != line {
        return;
    }
    let start = (store.event.address % LINE_BYTES) as usize;
    let width = usize::from(store.event.width);
    bytes[start..start + width].copy_from_slice(&store.event.value.to_le_bytes()[..width]);
}

/// Each content as it is, and with one more of the execution's open stores kept, and one more.
///
/// Contents that are equal are one, unless others survive together with the line: then how much was kept matters.
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

/// The contents by the value they show at `address`, those with the most surviving stores first.
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
