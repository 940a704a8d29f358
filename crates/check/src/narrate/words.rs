//! The text of a finding: title, cause, advice and relevant places, in the program's own names.
//!
//! The facts are decided in `judge::facts` and `judge::cause`. A title states the cause and the consequence.

use crashproof_findings::{Cause as CauseText, Place, Related, Role};
use crashproof_protocol::FILES;
use px86::LINE_BYTES;

use crate::judge::{Access, Cause, Crash, Facts, Instruction, ReadFact, Violation, Volatile, Window, Words};
use crate::narrate::names::{Name, Names, last_part};
use crate::narrate::stacks::Stacks;
use crate::subject::{AllSites, FileFact, FileNames, is_assignment_operator};

/// Everything the text is made from.
pub(crate) struct Narrator<'a> {
    pub(crate) sites: &'a AllSites,
    pub(crate) names: &'a Names,
    pub(crate) stacks: &'a Stacks,
    pub(crate) files: &'a FileNames,
    /// Names, by execution and index, of accesses that would otherwise share one name for two objects.
    pub(crate) renamed: Vec<((usize, usize), String)>,
}

/// The consequence a finding states.
pub(crate) enum Consequence {
    /// Recovery fails, described by this text.
    Fails(String),
    /// No recovery failed; a stale value is read.
    Stale,
    /// A stale value is read, and a recovery that read it failed, as another finding says.
    StaleAndFailed,
    /// A stale value is read, but recovery leaves the same state as if it had not been stale.
    Coped,
    /// No recovery failed, and no value reveals it.
    Nothing,
}

impl Narrator<'_> {
    /// The text for facts; `missing` is the missing flush behind them, if there is one.
    pub(crate) fn words(
        &self,
        facts: &Facts,
        missing: Option<&Violation>,
        consequence: &Consequence,
    ) -> Words {
        let told = self.telling_apart(facts);
        told.put_into_words(facts, missing, consequence)
    }

    fn put_into_words(&self, facts: &Facts, missing: Option<&Violation>, consequence: &Consequence) -> Words {
        let kernel = facts.lost.first().is_some_and(|lost| self.files.needs_kernel(lost.address));
        let said = |text: String| if kernel { of_the_kernel(&text) } else { text };
        let reader = missing.and_then(reader);
        let cause = self.cause(facts, reader);
        let kind = self.kind(facts);
        Words {
            title: said(self.title(facts, reader, consequence)),
            cause: cause.map(|message| CauseText { kind, message: said(message) }),
            advice: self.advice(facts, missing),
            related: self.related(facts),
            failed_at: None,
        }
    }

    /// The user-facing place of an access, flush or crash: the first frame outside functions that only flush and fence,
    /// with its call stack.
    pub(crate) fn place(&self, level: usize, index: usize, site: u32) -> Place {
        let sites = self.sites.of(level);
        let mut place = sites.get(site).clone();
        place.frames.extend(self.stacks.callers(sites, level, index, &place));
        sites.outside_helpers(place)
    }

    fn flush_place(&self, flush: &Instruction) -> Place {
        self.place(flush.level, flush.index, flush.site)
    }

    fn name(&self, access: &Access) -> Option<Name> {
        let itself = self.sites.of(access.level).get(access.site);
        // An assignment operator's target is named as the caller names it.
        let name = if is_assignment_operator(&itself.function) {
            self.names.at(&self.place(access.level, access.index, access.site), true)
        } else {
            let range = (access.address, access.bytes);
            self.names.object(self.sites, access.level, access.site, range, true)
        };
        // `n = write(...)` names what the call returns, and a file holds none of the program's variables.
        let name = name.filter(|name| !FILES.contains(access.address) || !self.names.is_number(name, itself));
        let renamed = self.renamed.iter().find(|(at, _)| *at == (access.level, access.index));
        name.map(|mut name| {
            if let Some((_, text)) = renamed {
                name.text.clone_from(text);
            }
            name
        })
    }

    /// The same, with separate names for two objects to which their functions refer alike: by the object containing
    /// both, or else by the function.
    fn telling_apart(&self, facts: &Facts) -> Narrator<'_> {
        let Narrator { sites, names, stacks, files, .. } = *self;
        let mut told = Narrator { sites, names, stacks, files, renamed: Vec::new() };
        let all = facts.lost.iter().take(2).chain(&facts.survived).chain(&facts.not_yet);
        let named: Vec<(&Access, String)> =
            all.filter_map(|access| Some((access, self.name(access)?.text))).collect();
        let alike = |(access, text): &&(&Access, String)| {
            named.iter().any(|(other, also)| also == text && other.address != access.address)
        };
        let alike: Vec<&(&Access, String)> = named.iter().filter(alike).collect();
        let absolute = alike.iter().map(|(access, text)| {
            let found = names.absolute(access.address, access.bytes);
            found.map(|(absolute, _)| absolute).filter(|absolute| absolute != text)
        });
        let absolute: Vec<Option<String>> = absolute.collect();
        let differ = |texts: &[Option<String>]| {
            let mut seen = std::collections::BTreeMap::new();
            alike.iter().zip(texts).all(|((access, _), text)| {
                text.as_ref()
                    .is_some_and(|text| *seen.entry(text).or_insert(access.address) == access.address)
            })
        };
        let function = |access: &Access| {
            let place = self.sites.of(access.level).get(access.site);
            Some(last_part(&place.function)).filter(|name| !name.is_empty())
        };
        let in_functions: Vec<Option<String>> = alike
            .iter()
            .map(|(access, text)| function(access).map(|function| format!("{text}` in `{function}")))
            .collect();
        let texts = [absolute, in_functions].into_iter().find(|texts| differ(texts));
        for ((access, _), text) in alike.iter().zip(texts.unwrap_or_default()) {
            told.renamed.extend(text.map(|text| ((access.level, access.index), text)));
        }
        told
    }

    /// An object's name, or else the place where it is stored to.
    pub(crate) fn object(&self, access: &Access) -> String {
        if let Some(fact) = self.file_fact(access) {
            return fact.object;
        }
        match self.name(access) {
            Some(name) => format!("`{}`", name.text),
            None => {
                let itself = self.sites.of(access.level).get(access.site);
                let place = self.place(access.level, access.index, access.site);
                // In a library without debug information only the call into it can be named.
                let unknown = !itself.is_known() && !place.is_known();
                match self.files.part(access.address, access.bytes).filter(|_| unknown) {
                    // Without any source, only the file can be named.
                    Some(part) => part,
                    None if itself.is_known() || unknown => format!("the store at {}", short(itself)),
                    None => format!("the store of {} at {}", short(itself), short(&place)),
                }
            }
        }
    }

    /// Everything stored by the statement that an access is part of.
    fn whole(&self, access: &Access) -> String {
        let range = (access.address, u64::MAX);
        let name = self.names.object(self.sites, access.level, access.site, range, true);
        name.map_or_else(|| self.object(access), |name| format!("`{}`", name.text))
    }

    /// How an access affects a file, if it is not to memory.
    fn file_fact(&self, access: &Access) -> Option<FileFact> {
        let value = access.data.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        self.files.stored(access.address, access.bytes, value)
    }

    fn stored(&self, access: &Access) -> String {
        if let Some(fact) = self.file_fact(access) {
            return fact.stored;
        }
        let name = self.name(access);
        let value = self.names.value(name.as_ref(), &access.data);
        match name {
            Some(name) => format!("{} = {value}", name.exact()),
            None => format!("stores {value}"),
        }
    }

    /// Do the lost store and the one whose line was flushed instead belong to one object?
    fn shares_object(&self, lost: &Access, other: &Access) -> bool {
        let (Some(lost_name), Some(other_name)) = (self.name(lost), self.name(other)) else { return false };
        let function = |access: &Access| &self.sites.of(access.level).get(access.site).function;
        lost_name.root() == other_name.root() && function(lost) == function(other)
    }

    /// The adjacent store whose line was flushed instead, if it is to the same object.
    fn neighbor<'f>(&self, facts: &'f Facts) -> Option<&'f (Instruction, Access)> {
        let (Cause::NeverFlushed { neighbor: Some(neighbor) }
        | Cause::WrongOrder { neighbor: Some(neighbor), .. }) = &facts.cause
        else {
            return None;
        };
        let lost = facts.lost.first()?;
        self.shares_object(lost, &neighbor.1).then_some(neighbor)
    }

    fn kind(&self, facts: &Facts) -> &'static str {
        if self.neighbor(facts).is_some() { "flush-covers-too-little" } else { facts.cause.id() }
    }

    fn title(&self, facts: &Facts, reader: Option<&Window>, consequence: &Consequence) -> String {
        let then = match consequence {
            Consequence::Fails(how) => format!("recovery then {how}"),
            Consequence::Stale => "no recovery failed, but one reads the stale value".into(),
            Consequence::StaleAndFailed => {
                "recovery then reads the stale value, and fails as reported above".into()
            }
            Consequence::Coped => "recovery copes: it ends as if nothing had been torn".into(),
            Consequence::Nothing => "no recovery failed, and none can tell the difference".into(),
        };
        let how = match consequence {
            Consequence::Fails(how) => how.clone(),
            _ => "goes on".into(),
        };
        let Some(lost) = facts.lost.first() else { return self.title_nothing_lost(facts, &how) };
        let more = match &facts.lost[1..] {
            [] => String::new(),
            [other] if self.object(other) != self.object(lost) => format!(" and {}", self.object(other)),
            more => format!(" and {} more", more.len()),
        };
        let object = format!("{}{more}", self.object(lost));
        let survived = facts.survived.as_ref().map(|it| self.object(it));
        let after = match &survived {
            Some(name) if facts.cause != (Cause::Torn { one_access: true }) => {
                format!("it can be lost after {name} persists")
            }
            _ => "it can be lost".into(),
        };
        let at = |flush: &Instruction| short(&self.flush_place(flush));
        if let Some((flush, other)) = self.neighbor(facts) {
            let only = self.object(other);
            return format!("{object} is not flushed ({} covers only {only}): {after}; {then}", at(flush));
        }
        let what = match &facts.cause {
            Cause::PartialFlush { flush, covered, total } => {
                let whole = self.whole(lost);
                return format!(
                    "{whole} is only partly flushed ({} covers {covered} of {total} bytes): {after}; {then}",
                    at(flush)
                );
            }
            Cause::NeverFlushed { .. } => "is never flushed".into(),
            Cause::FlushedLate(_) | Cause::WrongOrder { .. } | Cause::NotFenced(_)
                if let Some(reader) = reader =>
            {
                format!("is read by thread {} ({}) before it is durable", reader.thread, short(&reader.after))
            }
            Cause::FlushedLate(flush) => format!("is flushed too late ({})", at(flush)),
            Cause::WrongOrder { flush, .. } => {
                format!("is flushed in the wrong order ({})", at(flush))
            }
            Cause::NotFenced(flush) => format!("is flushed ({}) but not fenced", at(flush)),
            Cause::WrongAddress(flush) => format!("is not flushed ({} flushes another address)", at(flush)),
            Cause::Torn { one_access: true } => {
                let whole = self.whole(lost);
                return format!("{whole} can be torn: part of it survives a crash without the rest; {then}");
            }
            Cause::Torn { one_access: false } => {
                let (other, lost) = (survived.unwrap_or_default(), self.object(lost));
                return format!(
                    "{lost} and {other} are not updated atomically: {lost} can be lost after {other} persists; {then}"
                );
            }
            Cause::LockHeld { taken, released } => return self.title_lock(taken, released),
            Cause::VolatileState(volatile) => return self.title_volatile(volatile, &how),
            Cause::Unknown | Cause::StoredAfterCommit { .. } | Cause::RecoveryWrong => {
                return format!("{object} can be lost; {then}");
            }
        };
        if more.is_empty() {
            return format!("{object} {what}: {after}; {then}");
        }
        let (what, after) = (what.replacen("is ", "are ", 1), after.replacen("it ", "they ", 1));
        format!("{object} {what}: {after}; {then}")
    }

    /// A lock by its name, which may be known only where it is given back.
    fn lock(&self, taken: &Access, released: &Access) -> String {
        match self.name(taken) {
            None if taken.address == released.address => self.object(released),
            _ => self.object(taken),
        }
    }

    fn title_lock(&self, taken: &Access, released: &Access) -> String {
        format!("{} is still held after a crash: recovery waits for it forever", self.lock(taken, released))
    }

    fn title_volatile(&self, volatile: &Volatile, how: &str) -> String {
        let name = self.names.object(self.sites, 1, volatile.site, (volatile.address, 8), false);
        let from = name.map_or(String::new(), |name| format!(" in `{}`", name.text));
        format!("recovery follows a pointer to volatile memory{from} and {how}")
    }

    /// The call into a library without debug information that the crash interrupted, if nothing is lost: the library,
    /// and the place of the call.
    fn interrupted_call(&self, facts: &Facts) -> Option<(String, String)> {
        let next = facts.not_yet.as_ref().filter(|_| facts.lost.is_empty())?;
        let itself = self.sites.of(next.level).get(next.site);
        let called = self.place(next.level, next.index, next.site);
        (!itself.is_known() && called.is_known()).then(|| (short(itself), short(&called)))
    }

    fn title_nothing_lost(&self, facts: &Facts, how: &str) -> String {
        if let Some((library, called)) = self.interrupted_call(facts) {
            return format!("the call of {library} at {called} is interrupted by the crash; recovery {how}");
        }
        match (&facts.cause, &facts.survived, &facts.not_yet) {
            (Cause::LockHeld { taken, released }, ..) => self.title_lock(taken, released),
            (Cause::VolatileState(volatile), ..) => self.title_volatile(volatile, how),
            (Cause::StoredAfterCommit { begun: Some(_) }, Some(last), Some(next)) => {
                let (last_name, next_name) = (self.object(last), self.object(next));
                format!(
                    "{last_name} is stored while {next_name} is set; after a crash before that is cleared, recovery {how}"
                )
            }
            (Cause::StoredAfterCommit { .. }, Some(last), Some(next)) => {
                let (last_name, next_name) = (self.object(last), self.object(next));
                if last_name == next_name {
                    let again = match last.address == next.address {
                        true => "it is stored again".into(),
                        false => format!("the next {next_name} is stored"),
                    };
                    return format!(
                        "{last_name} persists before {again}; after a crash in between, recovery {how}"
                    );
                }
                let made = if next_name.starts_with('`') { "is stored" } else { "happens" };
                format!(
                    "{last_name} persists before {next_name} {made}; after a crash in between, recovery {how}"
                )
            }
            (_, Some(last), _) => {
                format!("recovery {how} after {} although nothing is lost", self.object(last))
            }
            _ => format!("recovery {how} although nothing is lost"),
        }
    }

    /// The explanation, in a sentence or two.
    fn cause(&self, facts: &Facts, reader: Option<&Window>) -> Option<String> {
        let at = |flush: &Instruction| short(&self.flush_place(flush));
        let place = |access: &Access| self.place_of(access);
        let both = facts.lost.first().zip(facts.survived.as_ref());
        let named = both.map(|(lost, survived)| {
            // Objects without a name are already described by their place.
            let placed = |access: &Access| match self.object(access) {
                named if named.starts_with('`') => format!("{named} ({})", place(access)),
                unnamed => unnamed,
            };
            (placed(lost), placed(survived))
        });
        if let Some((flush, other)) = self.neighbor(facts) {
            let (lost, survived) = named?;
            return Some(format!(
                "the flush at {} covers the cache line of {}; {lost} is on the next line, which nothing flushes before \
                 {survived}",
                at(flush),
                self.object(other)
            ));
        }
        Some(match (&facts.cause, named) {
            (Cause::NeverFlushed { .. }, Some((lost, survived))) => {
                // The later flush of the line belongs to a later store.
                let or = if facts.flushed { "before it is stored again" } else { "after it" };
                format!("no flush of {lost} comes before {survived}, or {or}")
            }
            (Cause::PartialFlush { flush, covered, total }, _) => {
                let lost = facts.lost.first()?;
                format!(
                    "{} ({}) spans more than one cache line; the flush at {} writes back {covered} of its {total} bytes",
                    self.whole(lost),
                    place(lost),
                    at(flush)
                )
            }
            (
                Cause::FlushedLate(flush) | Cause::WrongOrder { flush, .. } | Cause::NotFenced(flush),
                Some((lost, survived)),
            ) if let Some(reader) = reader => format!(
                "thread {} reads {lost} at {}, before the flush at {} has taken effect, and then stores {survived}",
                reader.thread,
                short(&reader.after),
                at(flush)
            ),
            (Cause::FlushedLate(flush), Some((lost, survived))) => {
                format!(
                    "{lost} is flushed at {}, but {survived} is stored before that and may persist first",
                    at(flush)
                )
            }
            (Cause::WrongOrder { flush, .. }, Some((lost, survived))) => {
                format!("{survived} is flushed and fenced before {lost} is flushed ({})", at(flush))
            }
            (Cause::NotFenced(flush), Some((lost, survived))) => format!(
                "the flush of {lost} at {} takes effect at the next fence, and none comes before {survived}",
                at(flush)
            ),
            (Cause::WrongAddress(flush), Some((lost, survived))) => format!(
                "the flush at {} is for a cache line with nothing to write back; {lost} is on another line, which \
                 nothing flushes before {survived}",
                at(flush)
            ),
            (Cause::Torn { one_access: true }, Some((lost, survived))) => {
                let whole = facts.lost.first().map(|it| self.whole(it)).unwrap_or_default();
                let parts = if lost == survived {
                    String::new()
                } else {
                    format!("; here {survived} survives without {lost}")
                };
                // What persists together can only be cut off: the rest of it is stored later.
                let unit = |it: &Access| {
                    it.address / if self.files.needs_kernel(it.address) { 512 } else { LINE_BYTES }
                };
                let units = facts.lost.first().map(unit).zip(facts.survived.as_ref().map(unit));
                if units.is_some_and(|(lost, survived)| lost == survived) {
                    format!("{whole} is stored in several steps, and a crash can fall between them{parts}")
                } else {
                    format!(
                        "{whole} spans several cache lines, which persist independently of each other{parts}"
                    )
                }
            }
            (Cause::Torn { one_access: false }, Some((lost, survived))) => {
                format!("a crash can leave {survived} without {lost}, and recovery needs both or none")
            }
            _ => return self.cause_beyond_flushes(facts),
        })
    }

    fn place_of(&self, access: &Access) -> String {
        short(&self.place(access.level, access.index, access.site))
    }

    /// The explanation of what no flush changes.
    fn cause_beyond_flushes(&self, facts: &Facts) -> Option<String> {
        let place = |access: &Access| self.place_of(access);
        Some(match &facts.cause {
            Cause::StoredAfterCommit { .. } if self.interrupted_call(facts).is_some() => {
                "what the call had stored until then survives, nothing is lost, and recovery cannot cope with it".into()
            }
            Cause::StoredAfterCommit { begun: Some(begun) } => {
                let (last, next) = facts.survived.as_ref().zip(facts.not_yet.as_ref())?;
                format!(
                    "between {} and {} the program has {} set: recovery finds it so after a crash at {}, and what it then \
                     does about it is not enough",
                    place(begun),
                    place(next),
                    self.object(next),
                    place(last)
                )
            }
            Cause::StoredAfterCommit { .. } if self.stored_repeatedly(facts).is_some() => {
                let (last, next) = facts.survived.as_ref().zip(facts.not_yet.as_ref())?;
                let (name, next) = (self.object(last), place(next));
                let left = match self.stored_repeatedly(facts) {
                    Some(true) => format!("{name} with a value that is not its last"),
                    _ => format!("one {name} without the next"),
                };
                format!(
                    "a crash after {}, before the next store at {next}, leaves {left}; nothing is lost, so no flush \
                     helps",
                    place(last)
                )
            }
            Cause::StoredAfterCommit { .. } => {
                let (last, next) = facts.survived.as_ref().zip(facts.not_yet.as_ref())?;
                format!(
                    "a crash between {} and {} leaves {} without {}; nothing is lost, so no flush helps",
                    place(last),
                    place(next),
                    self.object(last),
                    self.object(next)
                )
            }
            Cause::LockHeld { taken, released } => {
                let lost = if facts.lost.is_empty() { "" } else { ", or one that loses that," };
                format!(
                    "it is taken at {} and given back at {}; after a crash in between{lost} no thread is left to give it \
                     back",
                    place(taken),
                    place(released)
                )
            }
            Cause::VolatileState(_) => {
                "the pointer was valid before the crash; memory that is not persistent is gone".into()
            }
            Cause::RecoveryWrong => {
                "everything stored before the crash survives, and the program never changes what recovery read: \
                 recovery itself cannot cope with this state"
                    .into()
            }
            _ => return None,
        })
    }

    /// The advice; empty if there is none.
    fn advice(&self, facts: &Facts, missing: Option<&Violation>) -> Vec<String> {
        if let Some(advice) = self.advice_to_sync(facts) {
            return vec![advice];
        }
        let mut advice = Vec::new();
        let lost = facts.lost.first().map(|it| self.object(it)).unwrap_or_default();
        let survived = facts.survived.as_ref().map(|it| self.object(it)).unwrap_or_default();
        // What is lost is not flushed at the end of the transaction; what survives an interrupted one is not undone. It was
        // interrupted if what comes next is the library's own.
        let library = |it: &Access| !self.sites.of(it.level).get(it.site).is_known();
        let unlogged = match facts.lost.first() {
            Some(first) => Some((first, &lost)),
            None if facts.not_yet.as_ref().is_some_and(library) => {
                facts.survived.as_ref().map(|it| (it, &survived))
            }
            None => None,
        };
        if let Some((_, name)) = unlogged.filter(|(access, _)| self.in_transaction(access)) {
            let how = if name.starts_with('`') { name.as_str() } else { "the range" };
            return vec![format!(
                "add {how} to the transaction before storing to it (TX_ADD, pmemobj_tx_add_range)"
            )];
        }
        let window = missing.and_then(|missing| missing.windows.first().map(|window| (missing, window)));
        let before = |access: &Access| short(&self.place(access.level, access.index, access.site));
        match &facts.cause {
            Cause::PartialFlush { total, .. } => {
                let until = facts.survived.as_ref().map(before).unwrap_or_default();
                let whole = facts.lost.first().map(|it| self.whole(it)).unwrap_or_default();
                advice.push(format!("flush all {total} bytes of {whole}, and fence, before {until}"));
            }
            _ if self.neighbor(facts).is_some() => {
                let (flush, _) = self.neighbor(facts).expect("it was just there");
                advice.push(format!(
                    "flush the whole object at {}, up to the end of {lost}",
                    short(&self.flush_place(flush))
                ));
            }
            Cause::WrongAddress(flush) => {
                advice.push(format!("flush the address of {lost} at {}", short(&self.flush_place(flush))));
            }
            Cause::NotFenced(flush) if window.is_none_or(|it| it.1.primary) => {
                let until = facts.survived.as_ref().map(before).unwrap_or_default();
                advice.push(format!("fence after the flush at {}, before {until}", short(&self.flush_place(flush))));
            }
            Cause::FlushedLate(flush) | Cause::WrongOrder { flush, .. } if window.is_some_and(|it| it.1.primary) => {
                let until = facts.survived.as_ref().map(before).unwrap_or_default();
                // Not "move the flush": it may cover the survivor, too.
                advice.push(format!(
                    "flush {lost} and fence before {survived} is stored ({until}); the flush at {} comes too late for it",
                    short(&self.flush_place(flush))
                ));
            }
            Cause::Torn { one_access: true } => advice.push(format!(
                "no flush helps: store a checksum or a valid flag that is persisted after {}, write it to a log \
                 first, or keep it within 8 aligned bytes",
                facts.lost.first().map(|it| self.whole(it)).unwrap_or_default()
            )),
            Cause::Torn { one_access: false } => advice.push(format!(
                "no flush helps: update {survived} and {lost} atomically (one aligned 8-byte store, a log, copy on \
                 write), or let recovery accept either"
            )),
            Cause::StoredAfterCommit { .. } if self.interrupted_call(facts).is_some() => advice.push(
                "let recovery undo or repeat the call (remove a pool that was half created, and create it again), or \
                 prepare the pool before the check with --setup"
                    .into(),
            ),
            Cause::StoredAfterCommit { begun: Some(_) } => {
                let next = facts.not_yet.as_ref().map(|it| self.object(it)).unwrap_or_default();
                advice.push(format!(
                    "no flush helps: if recovery finds {next} set, let it undo or finish all that is stored until it is \
                     cleared, {survived} included"
                ));
            }
            Cause::StoredAfterCommit { .. } if self.stored_repeatedly(facts).is_some() => advice.push(
                "let recovery accept what the crash leaves, or make the change with a single store (one aligned 8-byte \
                 store, or the commit of a log)"
                    .into(),
            ),
            Cause::StoredAfterCommit { .. } => {
                let next = facts.not_yet.as_ref().map(|it| self.object(it)).unwrap_or_default();
                advice.push(format!(
                    "store and persist {next} before {survived}; if both must change together, use a log or one \
                     aligned 8-byte store"
                ));
            }
            Cause::LockHeld { taken, released } => advice.push(format!(
                "no flush helps: initialize {} whenever the pool is opened, before it is taken, or keep it in volatile \
                 memory",
                self.lock(taken, released)
            )),
            Cause::VolatileState(_) => {
                advice.push("store an offset into the pool, or set the pointer anew in recovery".into());
            }
            Cause::RecoveryWrong => {}
            _ => {
                if let Some((missing, window)) = window {
                    advice.push(missing.advice_for(window, &lost));
                }
            }
        }
        advice
    }

    /// Do what survives and what is not stored yet have the same name? If so, are they the same memory?
    fn stored_repeatedly(&self, facts: &Facts) -> Option<bool> {
        let (last, next) = facts.survived.as_ref().zip(facts.not_yet.as_ref())?;
        (self.object(last) == self.object(next)).then_some(last.address == next.address)
    }

    /// Where to call fsync or the like, if that is what is missing.
    fn advice_to_sync(&self, facts: &Facts) -> Option<String> {
        let (lost, survived) = (facts.lost.first()?, facts.survived.as_ref()?);
        let missing = matches!(
            facts.cause,
            Cause::NeverFlushed { .. }
                | Cause::FlushedLate(_)
                | Cause::WrongOrder { .. }
                | Cause::NotFenced(_)
        );
        if !missing || !self.files.needs_kernel(lost.address) {
            return None;
        }
        let sync = self.file_fact(lost).map_or_else(|| "msync or fsync".into(), |fact| fact.sync);
        let place = |access: &Access| short(&self.place(access.level, access.index, access.site));
        Some(format!("call {sync} after {}, before {}", place(lost), place(survived)))
    }

    /// Is a store inside a libpmemobj transaction, as far as the text of its function shows?
    fn in_transaction(&self, access: &Access) -> bool {
        let place = self.sites.of(access.level).get(access.site);
        let begins = |text: &str| text.contains("TX_BEGIN") || text.contains("pmemobj_tx_begin");
        let ends = |text: &str| {
            ["TX_END", "TX_ONCOMMIT", "TX_ONABORT", "TX_FINALLY", "pmemobj_tx_end", "pmemobj_tx_commit"]
                .iter()
                .any(|word| text.contains(word))
        };
        for line in (1..=place.line).rev().take(300) {
            let Some(text) = self.names.line(&place.file, line) else { return false };
            if ends(&text) {
                return false;
            }
            if begins(&text) {
                return true;
            }
            // The beginning of the function.
            if text.starts_with('{') || text.starts_with('}') {
                return false;
            }
        }
        false
    }

    /// The places involved, in the order things happened; at most four are marked as main ones.
    fn related(&self, facts: &Facts) -> Vec<Related> {
        let mut all = Vec::new();
        for (number, access) in facts.lost.iter().enumerate() {
            all.push(self.access(Role::Lost, access, number == 0));
        }
        if let Some(access) = &facts.survived {
            all.push(self.access(Role::Survived, access, true));
        }
        if facts.lost_more > 0 {
            let place = all.first().map(|first| first.place.clone()).unwrap_or_default();
            let message = format!("{} more lost at the same crash", facts.lost_more);
            all.push(Related { main: false, ..Related::new(Role::Lost, place, message) });
        }
        let last = facts.crashes.len().saturating_sub(1);
        for (number, crash) in facts.crashes.iter().enumerate() {
            let message = crash_text(crash);
            let place = self.place(crash.level, crash.at, crash.site);
            let related = Related::new(Role::Crash, place, message);
            all.push(Related { main: number == last, ..related });
        }
        if let Some(access) = &facts.not_yet {
            let place = self.place(access.level, access.index, access.site);
            let done = match facts.cause {
                Cause::LockHeld { .. } => "given back",
                _ => "stored",
            };
            let message = format!("{} is not {done} before this", self.object(access));
            let detail = format!("{} bytes at {:#x}", access.bytes, access.address);
            all.push(Related { detail, ..Related::new(Role::Note, place, message) });
        }
        let noticing = facts.reads.iter().rposition(|read| read.notices && !read.others.is_empty());
        let noticing = noticing.or_else(|| facts.reads.iter().rposition(|read| read.notices));
        let noticing = noticing.or(facts.reads.len().checked_sub(1));
        for (number, read) in facts.reads.iter().enumerate() {
            all.push(self.read(read, Some(number) == noticing, facts));
            all.extend(read.candidates.iter().map(|store| self.access(Role::Candidate, store, false)));
        }
        all
    }

    fn access(&self, role: Role, access: &Access, main: bool) -> Related {
        let place = self.place(access.level, access.index, access.site);
        let detail = format!("{} at {:#x}, {}", bytes(access.bytes), access.address, hex(&access.data));
        Related { detail, main, ..Related::new(role, place, self.stored(access)) }
    }

    fn read(&self, read: &ReadFact, main: bool, facts: &Facts) -> Related {
        let level = facts.crashes.len();
        let fact = self.files.read(read.address, read.value, &read.others);
        let name = self.names.object(self.sites, level, read.site, (read.address, read.width.into()), false);
        let data = |value: u64| value.to_le_bytes()[..usize::from(read.width.min(8))].to_vec();
        let value = |number: u64| self.names.value(name.as_ref(), &data(number));
        let lost = facts.lost.iter().find(|it| it.address == read.address).and_then(|it| self.name(it));
        // One name for two things would mislead: recovery may refer to the lost object as the run refers to the
        // survivor.
        let is_survivors = |name: &Name| {
            let survived = facts.survived.as_ref().filter(|it| it.address != read.address);
            survived.and_then(|it| self.name(it)).is_some_and(|survived| survived.text == name.text)
        };
        let mut message = match (&name, lost) {
            (Some(name), Some(lost)) if is_survivors(name) && lost.text != name.text => {
                format!("reads {}, as {} = {}", lost.exact(), name.exact(), value(read.value))
            }
            (Some(name), _) => format!("reads {} = {}", name.exact(), value(read.value)),
            (None, Some(lost)) => format!("reads {} = {}", lost.exact(), value(read.value)),
            (None, None) => {
                let unknown = !self.sites.of(level).get(read.site).is_known();
                let part = self.files.part(read.address, read.width.into()).filter(|_| unknown);
                format!(
                    "reads {}{}",
                    part.map_or(String::new(), |part| format!("{part} = ")),
                    value(read.value)
                )
            }
        };
        if !read.others.is_empty() {
            let others: Vec<String> = read.others.iter().take(3).map(|other| value(*other)).collect();
            message = format!("{message}; could also read {}", others.join(" or "));
        }
        let message = fact.unwrap_or(message);
        let place = self.place(level, usize::MAX - read.number, read.site);
        let detail =
            format!("{} at {:#x}, {}", bytes(u64::from(read.width)), read.address, hex(&data(read.value)));
        Related { detail, main, ..Related::new(Role::Read, place, message) }
    }
}

/// Where another thread read the lost store and must flush it, if that is the missing flush.
fn reader(missing: &Violation) -> Option<&Window> {
    missing.windows.first().filter(|window| !window.primary && window.after != window.before)
}

/// Rewords for data written back by the kernel rather than by an instruction.
fn of_the_kernel(text: &str) -> String {
    let pairs = [
        ("no flush helps", "no fsync helps"),
        ("is never flushed", "is never synced"),
        ("are never flushed", "are never synced"),
        ("no flush of", "no fsync of"),
        ("flushed", "synced"),
        ("cache lines, which", "sectors or pages, which"),
    ];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn bytes(number: u64) -> String {
    format!("{number} byte{}", if number == 1 { "" } else { "s" })
}

/// The first few bytes in memory order.
fn hex(data: &[u8]) -> String {
    let shown: Vec<String> = data.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let more = if data.len() > 16 { " ..." } else { "" };
    format!("{}{more}", shown.join(" "))
}

/// A place within a sentence: the file name and the line.
pub(crate) fn short(place: &Place) -> String {
    let file = place.file.rsplit('/').next().unwrap_or_default();
    Place::new(file, place.line, 0).to_string()
}

/// The crash of an execution as text.
fn crash_text(crash: &Crash) -> String {
    let again = if crash.level == 0 { "crash" } else { "second crash, in recovery," };
    format!("{again} {}", if crash.at_end { "at the end of the run" } else { "just before this" })
}

/// The place of a finding: that of its first store, as the user sees it.
pub(crate) fn main_place(words: &Words, otherwise: &Place) -> Place {
    let stores = |it: &&Related| it.main && matches!(it.role, Role::Lost | Role::Survived);
    words.related.iter().find(stores).map_or(otherwise, |it| &it.place).clone()
}
