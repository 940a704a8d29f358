//! Where in the source events come from.

use std::path::{Path, PathBuf};

use addr2line::Loader;
use crashproof_findings::{Frame, Place, is_of_others};
use crashproof_protocol::caller;
use elsa::sync::FrozenMap;

/// Do both name the same line and column, however the program came there?
pub(crate) fn same_place(one: &Place, other: &Place) -> bool {
    (&one.file, one.line, one.column) == (&other.file, other.line, other.column)
}

/// The place itself or, if it is in a header that is not the program's, the innermost call from the program's own code:
/// nobody looks for a bug in `std::atomic`.
pub(crate) fn in_user_code(place: &Place) -> Place {
    let mut place = place.clone();
    while is_of_others(&place.file) && place.frames.iter().any(|frame| !is_of_others(&frame.file)) {
        let Frame { file, line, column, function, .. } = place.frames.remove(0);
        place = Place { file, line, column, function, ..place };
    }
    place
}

/// An instruction of the program.
#[derive(Clone, Debug, Default)]
struct Site {
    place: Place,
    /// What is not understood about it, or the assembly it is.
    text: String,
}

/// The sites of the program that is recorded, and of the one that recovers if it is another.
pub(crate) struct AllSites {
    pub(crate) recorded: Sites,
    pub(crate) recovery: Option<Sites>,
}

impl AllSites {
    /// The sites of an execution: the recorded one, or a recovery from level 1 on.
    pub(crate) fn of(&self, level: usize) -> &Sites {
        match &self.recovery {
            Some(recovery) if level > 0 => recovery,
            _ => &self.recorded,
        }
    }

    /// The sites of recoveries.
    pub(crate) fn of_recovery(&self) -> &Sites {
        self.of(1)
    }
}

/// All sites of a program, by number.
#[derive(Default)]
pub(crate) struct Sites {
    sites: Vec<Site>,
    nowhere: Place,
    /// Where calls without a site may be: the program and its libraries.
    modules: Vec<PathBuf>,
    /// Such calls, as far as somebody asked for them.
    callers: FrozenMap<u32, Box<Place>>,
}

impl Sites {
    /// Reads the table that the runtime wrote.
    pub(crate) fn parse(table: &str) -> Sites {
        let mut sites = vec![Site::default()];
        let mut modules = Vec::new();
        for line in table.lines() {
            let mut fields = line.split('\t');
            let mut text = || fields.next().unwrap_or("").to_owned();
            let (number, _tag) = (text(), text());
            if number == caller::LINE {
                modules.push(PathBuf::from(text()));
                continue;
            }
            let mut place = Place {
                line: text().parse().unwrap_or(0),
                column: text().parse().unwrap_or(0),
                file: text(),
                function: text(),
                frames: Vec::new(),
            };
            let text = text();
            let rest: Vec<&str> = fields.collect();
            place.frames.extend(rest.chunks_exact(4).map(|frame| Frame {
                line: frame[0].parse().unwrap_or(0),
                column: frame[1].parse().unwrap_or(0),
                file: frame[2].to_owned(),
                function: frame[3].to_owned(),
                inlined: true,
            }));
            sites.push(Site { place: in_user_code(&place), text });
        }
        Sites { sites, nowhere: Place::new("?", 0, 0), modules, callers: FrozenMap::new() }
    }

    /// Is there a site in a function whose name begins so?
    pub(crate) fn have_function(&self, start: &str) -> bool {
        let inside = |name: &str| name.starts_with(start);
        let places = self.sites.iter().map(|site| &site.place);
        let mut names = places.flat_map(|place| {
            std::iter::once(&place.function).chain(place.frames.iter().map(|frame| &frame.function))
        });
        names.any(|name| inside(name))
    }

    /// Where a site is.
    pub(crate) fn get(&self, number: u32) -> &Place {
        if let Some((module, offset)) = caller::place(number) {
            let known = self.callers.get(&number);
            return known.unwrap_or_else(|| {
                let found = self.find(module, offset).map(|place| in_user_code(&place));
                self.callers.insert(number, Box::new(found.unwrap_or(self.nowhere.clone())))
            });
        }
        match self.sites.get(number as usize) {
            Some(site) if number > 0 => &site.place,
            _ => &self.nowhere,
        }
    }

    /// What is not understood about a site, or the assembly it is.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.sites.get(number as usize).map_or("", |site| &site.text)
    }

    /// Looks an address up in the debug information of its module.
    fn find(&self, module: usize, offset: u64) -> Option<Place> {
        let loader = Loader::new(self.modules.get(module)?).ok()?;
        let mut frames = loader.find_frames(offset).ok()?;
        let mut place: Option<Place> = None;
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned()));
            let function = function.unwrap_or_default();
            let at = frame.location.as_ref();
            let file = at.and_then(|at| at.file).map_or("?".into(), relative);
            let line = at.and_then(|at| at.line).unwrap_or(0);
            let column = at.and_then(|at| at.column).unwrap_or(0);
            match &mut place {
                None => place = Some(Place { file, line, column, function, frames: Vec::new() }),
                Some(inner) => {
                    inner.frames.push(Frame { file, line, column, function, inlined: true });
                }
            }
        }
        place.or_else(|| {
            let function = loader.find_symbol(offset)?.to_owned();
            Some(Place { file: self.modules[module].display().to_string(), function, ..Place::default() })
        })
    }
}

/// A path as it is from the directory of the run, if it is below.
fn relative(path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    Path::new(path).strip_prefix(&here).unwrap_or(Path::new(path)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_others_are_not_where_a_bug_is() {
        let table = "1\t0\t560\t9\t/usr/include/c++/12/bits/atomic_base.h\tstore\t\t31\t5\tlist.cpp\tpush\t90\t3\tmain.cpp\tmain\n\
                     2\t0\t20\t1\t/usr/include/string.h\tcopy\t\n";
        let sites = Sites::parse(table);
        let push = sites.get(1);
        assert_eq!((push.file.as_str(), push.line, push.function.as_str()), ("list.cpp", 31, "push"));
        assert_eq!(push.frames.len(), 1);
        assert_eq!(sites.get(2).line, 20, "there is nothing else to show");
    }
}
