//! The event diagram of a failure: the cache lines involved, the events on them before the crash, and recovery's reads
//! of them.
//!
//! Bounded to the last events on a few lines, so a failure of a long run costs no more than one of a short run.

use crashproof_findings::Place;
use crashproof_findings::story::{Crash, Event, Execution, Fate, Kind, Lane, Story, StoryPlace};
use crashproof_protocol::Record;
use px86::Line;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::crash::{Content, Read, Revealed, Timeline};
use crate::narrate::names::Names;
use crate::search::Recovered;
use crate::subject::AllSites;

/// The most lines drawn.
const MAX_LANES: usize = 12;
/// The most events drawn per execution.
const MAX_EVENTS: usize = 160;
/// The most records searched backwards from the crash.
const MAX_SEARCHED: usize = 100_000;

/// The diagram of a failure.
pub(crate) fn event_diagram(sites: &AllSites, names: &Names, recovered: &Recovered) -> Story {
    let Recovered { state, revealed, .. } = *recovered;
    let mut diagram = Diagram { sites, names, story: Story::default(), places: FxHashMap::default() };
    for (level, timeline) in state.timelines().enumerate() {
        diagram.execution(level, timeline, state.records(level), state.revealed(level, revealed));
    }
    diagram.recovery(state.crashes(), revealed, recovered.reads);
    diagram.story
}

struct Diagram<'a> {
    sites: &'a AllSites,
    names: &'a Names,
    story: Story,
    places: FxHashMap<(String, u32, u32), usize>,
}

impl Diagram<'_> {
    fn place(&mut self, level: usize, site: u32) -> usize {
        let Place { file, line, column, function, .. } = self.sites.of(level).get(site);
        let places = &mut self.story.places;
        *self.places.entry((file.clone(), *line, *column)).or_insert_with(|| {
            let (file, function) = (file.clone(), function.clone());
            places.push(StoryPlace { file, line: *line, column: *column, function });
            places.len() - 1
        })
    }

    /// What an access refers to, and its value in words.
    fn named(
        &self,
        level: usize,
        site: u32,
        address: u64,
        width: u8,
        value: u64,
        stores: bool,
    ) -> (String, String) {
        let name = self.names.object(self.sites, level, site, (address, u64::from(width)), stores);
        let bytes = &value.to_le_bytes()[..usize::from(width.min(8))];
        let shown = self.names.value(name.as_ref(), bytes);
        (name.map(|name| name.text).unwrap_or_default(), shown)
    }

    /// An execution up to its crash.
    fn execution(&mut self, level: usize, timeline: &Timeline, records: &[Record], revealed: &Revealed) {
        let kept = |line: &Line| {
            let contents = revealed.get(line)?;
            Some(Content::most_kept(contents).kept[level] as usize)
        };
        // Lines that lost stores first, then lines that might have.
        let mut lines: Vec<Line> = revealed.keys().copied().filter(|line| timeline.is_open(*line)).collect();
        let next = records.get(timeline.at).and_then(Record::event).and_then(|event| event.line());
        lines.extend(next.filter(|line| timeline.is_open(*line) && !revealed.contains_key(line)));
        let loses = |line: &Line| kept(line).is_some_and(|kept| kept < timeline.stores(*line).len());
        lines.sort_by_key(|line| (!loses(line), *line));
        let left_out = lines.len().saturating_sub(MAX_LANES);
        lines.truncate(MAX_LANES);
        lines.sort_unstable();

        let (numbers, looked_at) = around_crash(timeline, records, &lines);
        let fates = fates(timeline, &lines, &kept);
        let mut events = Vec::new();
        for number in numbers {
            let record = &records[number];
            let stores = record.event_kind().is_some_and(px86::Kind::stores);
            let fate =
                if stores { fates.get(&number).copied().unwrap_or(Fate::Certain) } else { Fate::Plain };
            let place = self.place(level, record.site);
            let (name, shown) = if stores {
                self.named(level, record.site, record.address(), record.width(), record.value, true)
            } else {
                Default::default()
            };
            events.extend(event(number, record, &lines, place, fate).map(|it| Event { name, shown, ..it }));
        }
        let lanes = lines.iter().enumerate().map(|(lane, line)| self::lane(lane, *line, &events)).collect();
        let crash = Crash {
            place: self.place(level, timeline.next_site().0),
            message: crash_moment(timeline).into(),
        };
        self.story.executions.push(Execution {
            title: title(level),
            lanes,
            events,
            crash: Some(crash),
            left_out: looked_at as u64,
            lanes_left_out: left_out as u64,
        });
    }

    /// The last recovery's reads of the lines drawn, and its final reads.
    fn recovery(&mut self, level: usize, revealed: &Revealed, reads: &[Read]) {
        let drawn: FxHashSet<String> = self
            .story
            .executions
            .iter()
            .flat_map(|execution| execution.lanes.iter().map(|lane| lane.address.clone()))
            .collect();
        let is_drawn = |address: u64| drawn.contains(&format!("{:#x}", Line::containing(address).start()));
        let last = reads.len().wrapping_sub(1);
        let mut shown: Vec<usize> = (0..reads.len())
            .filter(|&index| {
                let address = reads[index].address;
                address != 0
                    && (is_drawn(address)
                        || revealed.contains_key(&Line::containing(address))
                        || index == last)
            })
            .collect();
        let left_out = shown.len().saturating_sub(MAX_EVENTS);
        shown.drain(..left_out);
        let mut lines: Vec<Line> =
            shown.iter().map(|&index| Line::containing(reads[index].address)).collect();
        lines.sort_unstable();
        lines.dedup();
        let mut events = Vec::new();
        for index in shown {
            let Read { site, address, width, value, .. } = reads[index];
            let (name, shown) = self.named(level, site, address, width, value, false);
            events.push(Event {
                name,
                shown,
                number: index as u64,
                thread: 0,
                kind: Kind::Read,
                lane: lines.iter().position(|line| *line == Line::containing(address)),
                address: format!("{address:#x}"),
                width,
                value: format!("{value:#x}"),
                place: self.place(level, site),
                fate: Fate::Plain,
            });
        }
        let known: FxHashMap<String, String> = self
            .story
            .executions
            .iter()
            .flat_map(|it| it.lanes.iter().map(|lane| (lane.address.clone(), lane.name.clone())))
            .collect();
        let first = |address: &str| {
            let line =
                |event: &&Event| event.lane.is_some_and(|at| format!("{:#x}", lines[at].start()) == *address);
            events.iter().filter(line).map(|event| event.name.clone()).find(|name| !name.is_empty())
        };
        let lane = |line: &Line| {
            let address = format!("{:#x}", line.start());
            let known = known.get(&address).filter(|name| !name.is_empty()).cloned();
            let name = known.or_else(|| first(&address)).unwrap_or_default();
            Lane { address, name, written_after: None, written_before: None }
        };
        let lanes = lines.iter().map(lane).collect();
        self.story.executions.push(Execution {
            title: "recovery".into(),
            lanes,
            events,
            crash: None,
            left_out: left_out as u64,
            lanes_left_out: 0,
        });
    }
}

/// The fate of each open store on these lines, by number; `kept` is how many of a line's stores survived, if known.
fn fates(
    timeline: &Timeline,
    lines: &[Line],
    kept: &dyn Fn(&Line) -> Option<usize>,
) -> FxHashMap<usize, Fate> {
    let mut fates = FxHashMap::default();
    for line in lines {
        let kept = kept(line);
        for (index, store) in timeline.stores(*line).iter().enumerate() {
            let fate = match kept {
                Some(kept) if index < kept => Fate::Survived,
                Some(_) => Fate::Lost,
                // Recovery never read it, so both are possible.
                None => Fate::Plain,
            };
            fates.insert(store.tag as usize, fate);
        }
    }
    fates
}

/// A lane, and the events between which the line was last written back.
fn lane(lane: usize, line: Line, events: &[Event]) -> Lane {
    let on_it = |event: &Event, fates: &[Fate]| event.lane == Some(lane) && fates.contains(&event.fate);
    // Of several objects on a line, the one the failure is about.
    let named = |fate: Option<Fate>| {
        let fits = |event: &&Event| fate.is_none_or(|fate| event.fate == fate);
        events.iter().filter(fits).rfind(|event| event.lane == Some(lane) && !event.name.is_empty())
    };
    let named = named(Some(Fate::Lost)).or_else(|| named(Some(Fate::Survived))).or_else(|| named(None));
    Lane {
        address: format!("{:#x}", line.start()),
        name: named.map(|event| event.name.clone()).unwrap_or_default(),
        written_after: events.iter().rposition(|event| on_it(event, &[Fate::Survived, Fate::Certain])),
        written_before: events.iter().position(|event| on_it(event, &[Fate::Lost])),
    }
}

fn title(level: usize) -> String {
    match level {
        0 => "the run".into(),
        1 => "recovery, crashed too".into(),
        more => format!("recovery {more}, crashed too"),
    }
}

/// When a crash came, relative to its location.
fn crash_moment(timeline: &Timeline) -> &'static str {
    if timeline.next_site().1 { "at the end of the run" } else { "just before this" }
}

/// The numbers of the last events on these lines and of related fences, in order; and how many earlier records were not
/// examined.
fn around_crash(timeline: &Timeline, records: &[Record], lines: &[Line]) -> (Vec<usize>, usize) {
    let happened = timeline.at.min(records.len());
    let on_lines = |record: &Record| {
        let event = record.event().filter(|event| event.kind != px86::Kind::Load)?;
        event.line().filter(|line| lines.contains(line))
    };
    let start = happened.saturating_sub(MAX_SEARCHED);
    let mut numbers: Vec<usize> = (start..happened)
        .rev()
        .filter(|&number| on_lines(&records[number]).is_some())
        .take(MAX_EVENTS)
        .collect();
    numbers.reverse();
    let first = numbers.first().copied().unwrap_or(happened);
    let looked_at = if numbers.len() < MAX_EVENTS { start } else { first };
    // A fence is related if its thread did something on these lines since its previous fence.
    let mut since: FxHashSet<u16> = FxHashSet::default();
    let mut fences = Vec::new();
    for (number, record) in records[..happened].iter().enumerate().skip(first) {
        let fence = record.event_kind().is_some_and(px86::Kind::fences);
        if on_lines(record).is_some() {
            since.insert(record.thread());
        } else if fence && since.remove(&record.thread()) {
            fences.push(number);
        }
    }
    numbers.extend(fences);
    // Later stores of the program that may have persisted before the crash.
    numbers.extend(
        lines
            .iter()
            .flat_map(|line| timeline.stores(*line))
            .map(|store| store.tag as usize)
            .filter(|&number| number >= happened && number < records.len()),
    );
    numbers.sort_unstable();
    numbers.dedup();
    (numbers, looked_at)
}

fn event(number: usize, record: &Record, lines: &[Line], place: usize, fate: Fate) -> Option<Event> {
    let event = record.event()?;
    let kind = match event.kind {
        px86::Kind::Load => return None,
        px86::Kind::Store => Kind::Store,
        px86::Kind::NonTemporalStore => Kind::NonTemporalStore,
        px86::Kind::Rmw => Kind::Rmw,
        px86::Kind::FailedRmw => Kind::FailedRmw,
        px86::Kind::Flush => Kind::Flush,
        px86::Kind::FlushOpt => Kind::FlushOpt,
        px86::Kind::StoreFence => Kind::StoreFence,
        px86::Kind::Fence => Kind::Fence,
    };
    let lane = event.line().and_then(|line| lines.iter().position(|it| *it == line));
    let hexadecimal = |shown: bool, number: u64| if shown { format!("{number:#x}") } else { String::new() };
    Some(Event {
        number: number as u64,
        thread: event.thread.0,
        kind,
        lane,
        address: hexadecimal(lane.is_some(), event.address),
        width: if event.kind.stores() { event.width } else { 0 },
        value: hexadecimal(event.kind.stores(), event.value),
        name: String::new(),
        shown: String::new(),
        place,
        fate,
    })
}
