//! Recovery that trusts a checksum (Jaaru, section 4, "Checksum-based recovery").
//!
//! A log protected by a checksum is written without flushes between its parts, so all its lines are open at once, and
//! recovery reads them all before it knows whether to trust any. Followed read by read, that is one behavior per
//! combination of contents. `crashproof_checksum_begin` and `crashproof_checksum_end` in recovery mark these reads and
//! report whether the checksum matched; between them, these combinations are tried:
//!
//! - for every *instant* since the last write-back, each line as it was in the cache then: the combinations that a
//!   checksum can legitimately match;
//! - for every line and every content of it, that content with all other stores surviving: each way in which a single
//!   line can tear the rest.
//!
//! Both numbers are linear in the open stores. Everything after the bracket is explored in full for each combination.
//!
//! All other combinations are **assumed** to be rejected by the checksum, and to be handled like the torn ones that
//! were tried. The report says how many there are. The assumption is tested with every combination that is tried: if
//! one that never existed at any instant is accepted, the bracket is ignored and every combination is followed. The
//! same happens if there are few combinations, if a line is open from two crashes at once, and once recovery has
//! threads.
//! has threads.

use std::collections::{BTreeMap, BTreeSet};

use crashproof_protocol::Patch;
use num_bigint::BigUint;
use px86::Line;
use px86::storage::Seq;

use crate::crash::{Content, CrashState, MAX_CRASHES, Read, Revealed, apply, group, value};
use crate::search::shared_state::Stop;
use crate::search::tree::{Place, Seen};
use crate::search::worker::{Walk, Worker};
use crate::subject::{Bytes, Subject};

/// Up to this many combinations, all are tried.
const FEW: u32 = 64;

/// A combination to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pick {
    /// Every line as it was at this instant.
    Moment(Seq),
    /// All stores survive, except that this line has this one of its contents.
    Except(Line, usize),
}

/// What a line may hold inside the bracket.
struct Choice {
    contents: Vec<Content>,
    /// Its content from each instant on; `None` if it is open from more than one crash.
    moments: Option<Vec<(Seq, Bytes)>>,
}

/// The result of a combination.
struct Ended {
    walk: Walk,
    /// Did the checksum match? `None` if recovery ended within the bracket.
    matched: Option<bool>,
    /// Did the lines hold this at some instant?
    honest: bool,
}

/// State of a bracket being explored.
struct Bracket<'a, 'b> {
    state: &'a CrashState<'b>,
    before: &'a Revealed,
    lines: BTreeMap<Line, Choice>,
    /// Lines that can show the reads in the bracket more than one content.
    open: BTreeSet<Line>,
    to_try: Vec<Pick>,
    tried: BTreeSet<Pick>,
}

impl Bracket<'_, '_> {
    /// A line's content in a combination.
    fn bytes<S: Subject>(&mut self, worker: &Worker<S>, line: Line, pick: Pick) -> Bytes {
        let (state, before) = (self.state, self.before);
        let choice = self.lines.entry(line).or_insert_with(|| {
            let contents = worker.contents(state, line, before);
            let moments = moments(state, line, &contents, worker);
            Choice { contents, moments }
        });
        let kept = Content::most_kept(&choice.contents).bytes;
        match pick {
            Pick::Except(other, index) if other == line => choice.contents[index].bytes,
            Pick::Except(..) => kept,
            Pick::Moment(moment) => {
                let moments = choice.moments.as_deref().unwrap_or_default();
                let then = moments.iter().rev().find(|(from, _)| *from <= moment);
                let allowed = |bytes: &Bytes| choice.contents.iter().any(|content| content.bytes == *bytes);
                then.map(|(_, bytes)| *bytes).filter(allowed).unwrap_or(kept)
            }
        }
    }

    /// A line turned out to have more than one possible content. Returns whether that can be handled.
    fn opened(&mut self, line: Line) -> bool {
        if !self.open.insert(line) {
            return true;
        }
        let choice = &self.lines[&line];
        let Some(moments) = &choice.moments else { return false };
        self.to_try.extend(moments.iter().map(|(moment, _)| Pick::Moment(*moment)));
        self.to_try.extend((0..choice.contents.len()).map(|index| Pick::Except(line, index)));
        true
    }

    /// The number of ways in which the bracket can be read.
    fn combinations(&self) -> BigUint {
        self.open.iter().map(|line| BigUint::from(self.lines[line].contents.len())).product()
    }
}

/// A line's content from each instant on, if only the last execution leaves it open.
fn moments<S: Subject>(
    state: &CrashState,
    line: Line,
    contents: &[Content],
    worker: &Worker<S>,
) -> Option<Vec<(Seq, Bytes)>> {
    let together = state.first.together(line);
    if together.end - together.start > 1 {
        return None;
    }
    let last = state.crashes() - 1;
    let differ = |level: usize| contents.iter().any(|content| content.kept[level] != contents[0].kept[level]);
    if (0..MAX_CRASHES).any(|level| level != last && differ(level)) {
        return None;
    }
    let stores = state.last().stores(line);
    // These stores are part of the image.
    let assumed = state.last().assumed(line);
    let all = state.contents(line, worker.subject.image_line(line));
    // No store of the last execution survives; those of earlier ones as they must have been.
    let mut bytes = all.iter().find(|content| {
        content.kept[last] as usize == assumed && content.kept[..last] == contents[0].kept[..last]
    });
    // A store that restored the previous content stands for no surviving stores.
    if bytes.is_none() && last == 0 {
        bytes = all.first();
    }
    let mut bytes = bytes?.bytes;
    let mut moments = vec![(0, bytes)];
    for store in &stores[assumed..] {
        apply(line, &mut bytes, store);
        moments.push((store.at, bytes));
    }
    Some(moments)
}

impl<S: Subject> Worker<'_, S> {
    /// Explores everything recovery may do from the start of a bracket. Returns whether it did: if not, the bracket
    /// must be followed read by read.
    pub(crate) fn bracket(&mut self, state: &CrashState, begin: Place, walk: &Walk) -> Result<bool, Stop> {
        let mut bracket = Bracket {
            state,
            before: &walk.revealed,
            lines: BTreeMap::new(),
            open: BTreeSet::new(),
            to_try: vec![Pick::Moment(Seq::MAX)],
            tried: BTreeSet::new(),
        };
        let mut ended: BTreeMap<Place, Ended> = BTreeMap::new();
        while let Some(pick) = bracket.to_try.pop() {
            if !bracket.tried.insert(pick) {
                continue;
            }
            let honest = matches!(pick, Pick::Moment(_));
            let start = Ended { walk: walk.clone(), matched: None, honest };
            match self.try_pick(&mut bracket, begin, pick, start)? {
                Tried::Mixed => return Ok(false),
                Tried::Lost => {}
                Tried::Ended(at, this) => {
                    let first = ended.entry(at).or_insert_with(|| Ended { honest: false, ..this });
                    first.honest |= honest;
                }
            }
        }
        // So few that nothing needs to be assumed.
        if bracket.combinations() <= BigUint::from(FEW) {
            return Ok(false);
        }
        let first_read = |it: &Ended| it.walk.path.reads().get(walk.path.len()).map(|read| read.site);
        let first_site = ended.values().find_map(first_read).unwrap_or(0);
        let refuted = ended.values().any(|it| it.matched == Some(true) && !it.honest);
        let tried = BigUint::from(ended.len());
        for (at, mut it) in ended {
            // If the checksum cannot be trusted, everything is followed below.
            if !refuted || it.matched == Some(true) && !it.honest {
                self.walk(state, at, &mut it.walk)?;
            }
        }
        if self.only_known.is_some() {
            return Ok(!refuted);
        }
        if refuted {
            self.search.observer.distrusted_checksum(first_site);
        } else if bracket.combinations() > tried {
            self.search.trust_checksum(first_site, bracket.combinations() - tried);
        }
        Ok(!refuted)
    }

    /// Follows recovery to the end of the bracket with a combination.
    fn try_pick(
        &mut self,
        bracket: &mut Bracket,
        begin: Place,
        pick: Pick,
        mut way: Ended,
    ) -> Result<Tried, Stop> {
        let state = bracket.state;
        let mut at = self.search.shared().tree.pass(begin);
        loop {
            match self.follow_certain(state, &mut at, &mut way.walk.path) {
                Seen::Unknown => {
                    way.walk.known = false;
                    let patches: Vec<Patch> = state
                        .open_lines()
                        .into_iter()
                        .map(|line| Patch { address: line.start(), bytes: bracket.bytes(self, line, pick) })
                        .collect();
                    self.recover(state, &patches)?;
                    if matches!(self.search.shared().tree.look(at), Seen::Unknown) {
                        return Ok(Tried::Lost);
                    }
                }
                Seen::End { matched } => {
                    way.matched = Some(matched);
                    return Ok(Tried::Ended(at, way));
                }
                Seen::Leaf(_) => return Ok(Tried::Ended(at, way)),
                // Nested brackets are not in the tree.
                Seen::Begin => at = self.search.shared().tree.pass(at),
                Seen::Read { address, width, site } => {
                    let line = Line::containing(address);
                    let seen = value(&bracket.bytes(self, line, pick), address, width);
                    let all = self.contents(state, line, &way.walk.revealed);
                    if group(&bracket.lines[&line].contents, address, width).len() > 1
                        && !bracket.opened(line)
                    {
                        return Ok(Tried::Mixed);
                    }
                    let agrees = |content: &&Content| value(&content.bytes, address, width) == seen;
                    let left: Vec<Content> = all.iter().filter(agrees).cloned().collect();
                    if left.len() < all.len() {
                        way.walk.revealed.insert(line, left);
                    }
                    way.walk.path.push(Read { site, address, width, value: seen, open: true });
                    at = self.search.shared().tree.follow(at, seen);
                }
            }
        }
    }
}

/// The result of following a combination.
enum Tried {
    /// The end of the bracket, or of recovery.
    Ended(Place, Ended),
    /// Recovery diverged although it read the same; that has been noted.
    Lost,
    /// A line is open from two crashes at once.
    Mixed,
}
