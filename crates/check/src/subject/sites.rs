//! Where in the source events come from.

use std::path::{Path, PathBuf};

use addr2line::Loader;
use crashproof_findings::is_of_others;
use crashproof_protocol::caller;
use elsa::sync::FrozenMap;
use serde::Serialize;

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Source {
    /// As the compiler was given it.
    pub file: String,
    /// From 1; 0 if not known.
    pub line: u32,
    /// From 1; 0 if not known.
    pub column: u32,
    /// The function.
    pub function: String,
    /// The calls that were inlined around it, innermost first.
    pub callers: Vec<Caller>,
    /// What is not understood about it, or the assembly it is.
    pub text: String,
}

impl Source {
    /// Is it the same place, whichever way the program came there?
    pub(crate) fn same_place(&self, other: &Source) -> bool {
        (&self.file, self.line, self.column) == (&other.file, other.line, other.column)
    }

    /// The place itself, or, if it is in a header that is not the program's, where that was called: nobody looks for
    /// a bug in `std::atomic`.
    pub(crate) fn in_user_code(&self) -> Source {
        let mut source = self.clone();
        while is_of_others(&source.file) && source.callers.iter().any(|caller| !is_of_others(&caller.file)) {
            let caller = source.callers.remove(0);
            source = Source {
                file: caller.file,
                line: caller.line,
                column: caller.column,
                function: caller.function,
                ..source
            };
        }
        source
    }
}

/// A call that was inlined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Caller {
    /// File of the call.
    pub file: String,
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
    /// The calling function.
    pub function: String,
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
    sites: Vec<Source>,
    nowhere: Source,
    /// Where calls without a site may be: the program and its libraries.
    modules: Vec<PathBuf>,
    /// Such calls, as far as somebody asked for them.
    callers: FrozenMap<u32, Box<Source>>,
}

impl Sites {
    /// Reads the table that the runtime wrote.
    pub(crate) fn parse(table: &str) -> Sites {
        let mut sites = vec![Source::default()];
        let mut modules = Vec::new();
        for line in table.lines() {
            let mut fields = line.split('\t');
            let mut text = || fields.next().unwrap_or("").to_owned();
            let (number, _tag) = (text(), text());
            if number == caller::LINE {
                modules.push(PathBuf::from(text()));
                continue;
            }
            let mut source = Source {
                line: text().parse().unwrap_or(0),
                column: text().parse().unwrap_or(0),
                file: text(),
                function: text(),
                text: text(),
                callers: Vec::new(),
            };
            let rest: Vec<&str> = fields.collect();
            for frame in rest.chunks_exact(4) {
                source.callers.push(Caller {
                    line: frame[0].parse().unwrap_or(0),
                    column: frame[1].parse().unwrap_or(0),
                    file: frame[2].to_owned(),
                    function: frame[3].to_owned(),
                });
            }
            sites.push(source.in_user_code());
        }
        let nowhere = Source { file: "?".into(), ..Source::default() };
        Sites { sites, nowhere, modules, callers: FrozenMap::new() }
    }

    /// Is there a site in a function whose name begins so?
    pub(crate) fn have_function(&self, start: &str) -> bool {
        let inside = |name: &str| name.starts_with(start);
        let callers = |site: &Source| site.callers.iter().any(|caller| inside(&caller.function));
        self.sites.iter().any(|site| inside(&site.function) || callers(site))
    }

    pub(crate) fn get(&self, number: u32) -> &Source {
        if let Some((module, offset)) = caller::place(number) {
            let known = self.callers.get(&number);
            return known.unwrap_or_else(|| {
                let found = self.find(module, offset).map(|source| source.in_user_code());
                self.callers.insert(number, Box::new(found.unwrap_or(self.nowhere.clone())))
            });
        }
        match self.sites.get(number as usize) {
            Some(site) if number > 0 => site,
            _ => &self.nowhere,
        }
    }

    /// Looks a place up in the debug information of its module.
    fn find(&self, module: usize, offset: u64) -> Option<Source> {
        let loader = Loader::new(self.modules.get(module)?).ok()?;
        let mut frames = loader.find_frames(offset).ok()?;
        let mut source: Option<Source> = None;
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned()));
            let place = frame.location;
            let file = place.as_ref().and_then(|place| place.file).map_or("?".into(), relative);
            let line = place.as_ref().and_then(|place| place.line).unwrap_or(0);
            let function = function.unwrap_or_default();
            match &mut source {
                None => {
                    let column = place.and_then(|place| place.column).unwrap_or(0);
                    source = Some(Source { file, line, column, function, ..Source::default() });
                }
                Some(inner) => {
                    let column = place.and_then(|place| place.column).unwrap_or(0);
                    inner.callers.push(Caller { file, line, column, function });
                }
            }
        }
        source.or_else(|| {
            let function = loader.find_symbol(offset)?.to_owned();
            Some(Source { file: self.modules[module].display().to_string(), function, ..Source::default() })
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
        assert_eq!(push.callers.len(), 1);
        assert_eq!(sites.get(2).line, 20, "there is nothing else to show");
    }
}
