//! The places in the source of events.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use crashproof_findings::{Frame, Place, is_of_others, plain_function};
use crashproof_protocol::abi::{FLAG_ATOMIC, FLAG_VOLATILE, kind};
use crashproof_protocol::{LATE_MODULES_OFFSET, LateModule, caller};
use elsa::sync::FrozenMap;
use rustc_hash::{FxHashMap, FxHashSet};

/// Do both name the same line and column, regardless of how the program got there?
pub(crate) fn same_place(one: &Place, other: &Place) -> bool {
    (&one.file, one.line, one.column) == (&other.file, other.line, other.column)
}

/// The place itself or, if it is in a header that is not the program's, the innermost call from the program's own code:
/// users do not look for a bug in `std::atomic`.
pub(crate) fn in_user_code(place: &Place) -> Place {
    let mut place = place.clone();
    while is_of_others(&place.file) && place.frames.iter().any(|frame| !is_of_others(&frame.file)) {
        let Frame { file, line, column, function, .. } = place.frames.remove(0);
        place = Place { file, line, column, function, ..place };
    }
    place
}

/// Substrings of the names of functions that only flush and fence.
const HELPERS: [&str; 12] = [
    "persist",
    "flush",
    "fence",
    "drain",
    "sync",
    "barrier",
    "clwb",
    "pwb",
    "write_back",
    "writeback",
    "psync",
    "pmem",
];

/// Do its name and file suggest that a function only flushes and fences for others?
fn sounds_like_helper(function: &str, file: &str) -> bool {
    let name = function.to_lowercase();
    HELPERS.iter().any(|word| name.contains(word))
        || [".h", ".hpp", ".hh", ".inl"].iter().any(|end| file.ends_with(end))
}

/// Is it an assignment operator, such as that of a class which persists its content?
pub(crate) fn is_assignment_operator(function: &str) -> bool {
    let Some((_, operator)) = function.split_once("operator") else { return false };
    let sign: &str = operator.split(['(', '<']).next().unwrap_or_default().trim();
    matches!(sign, "=" | "+=" | "-=" | "*=" | "/=" | "|=" | "&=" | "^=" | "++" | "--")
}

/// Source files by the names given to the compiler.
#[derive(Default)]
struct SourceFiles {
    known: FxHashMap<String, String>,
}

impl SourceFiles {
    /// Locates a source. Tests of a crate run in its directory, but the compiler names sources relative to the
    /// workspace: a file missing below the current directory may be below one of its ancestors.
    fn found(&mut self, file: String) -> String {
        let there = |file: &String| {
            let path = Path::new(file);
            if path.is_absolute() || path.exists() {
                return file.clone();
            }
            let here = std::env::current_dir().unwrap_or_default();
            let above =
                here.ancestors().skip(1).map(|directory| directory.join(path)).find(|it| it.is_file());
            above.map_or_else(|| file.clone(), |path| path.to_string_lossy().into_owned())
        };
        self.known.entry(file).or_insert_with_key(there).clone()
    }
}

/// An instruction of the program.
#[derive(Clone, Debug, Default)]
struct Site {
    place: Place,
    /// What is not understood about it, or its assembly text.
    text: String,
    /// Is it a plain access, neither atomic nor `volatile`?
    plain: bool,
}

/// The sites of the recorded program, and of the recovering one if that is different.
pub(crate) struct AllSites {
    pub(crate) recorded: Sites,
    pub(crate) recovery: Option<Sites>,
}

impl AllSites {
    /// The sites of an execution: the recorded run at level 0, recoveries from level 1 on.
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
    /// Modules that may contain calls without a site: the program and its libraries.
    modules: Vec<PathBuf>,
    /// The control memory, which holds the paths of libraries loaded late.
    late: Option<File>,
    /// Such calls, as far as they have been requested.
    callers: FrozenMap<u32, Box<Place>>,
    /// Functions that do more to memory than flush or fence, by name and file.
    accessing: FxHashSet<(String, String)>,
}

impl Sites {
    /// Parses the table that the runtime wrote.
    pub(crate) fn parse(table: &str) -> Sites {
        let mut sites = vec![Site::default()];
        let mut modules = Vec::new();
        let mut accessing = FxHashSet::default();
        let mut files = SourceFiles::default();
        for line in table.lines() {
            let mut fields = line.split('\t');
            let mut text = || fields.next().unwrap_or("").to_owned();
            let (number, tag) = (text(), text());
            if number == caller::LINE {
                modules.push(PathBuf::from(text()));
                continue;
            }
            let mut place = Place {
                line: text().parse().unwrap_or(0),
                column: text().parse().unwrap_or(0),
                file: files.found(text()),
                function: plain_path(&text()),
                frames: Vec::new(),
            };
            let text = text();
            let rest: Vec<&str> = fields.collect();
            place.frames.extend(rest.chunks_exact(4).map(|frame| Frame {
                line: frame[0].parse().unwrap_or(0),
                column: frame[1].parse().unwrap_or(0),
                file: files.found(frame[2].to_owned()),
                function: plain_path(frame[3]),
                inlined: true,
            }));
            let function = (place.function.clone(), place.file.clone());
            let flushes = kind::CLFLUSH..=kind::MFENCE;
            let other = |kind: u8| {
                !flushes.contains(&kind) && ![kind::ASM, kind::UNKNOWN, kind::PAUSE].contains(&kind)
            };
            let tag = tag.parse::<u32>().ok();
            if tag.is_some_and(|tag| other(tag as u8)) {
                accessing.insert(function);
            }
            let plain = tag.is_some_and(is_plain);
            sites.push(Site { place: in_user_code(&place), text, plain });
        }
        Sites {
            sites,
            nowhere: Place::new("?", 0, 0),
            modules,
            late: None,
            callers: FrozenMap::new(),
            accessing,
        }
    }

    /// Adds the libraries that runs load.
    pub(crate) fn with_late(self, control: File) -> Sites {
        Sites { late: Some(control), ..self }
    }

    /// The path of a module.
    fn module(&self, number: usize) -> Option<PathBuf> {
        let Some(late) = number.checked_sub(self.modules.len()) else {
            return self.modules.get(number).cloned();
        };
        let mut path = [0; size_of::<LateModule>()];
        let offset = LATE_MODULES_OFFSET + (late * path.len()) as u64;
        self.late.as_ref()?.read_exact_at(&mut path, offset).ok()?;
        let path = path.split(|byte| *byte == 0).next().filter(|path| !path.is_empty())?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    }

    /// The place, or the first call on the stack outside functions that only flush and fence, and outside code without
    /// source, such as a library that was not rebuilt: the caller determines what those are used for.
    pub(crate) fn outside_helpers(&self, mut place: Place) -> Place {
        while (!place.is_known() || self.is_helper(&place.function, &place.file))
            && let Some(at) = place.frames.iter().position(|frame| frame.line > 0)
        {
            let Frame { file, line, column, function, .. } = place.frames[at].clone();
            place.frames.drain(..=at);
            place = Place { file, line, column, function, ..place };
        }
        place
    }

    /// Does a function only flush, fence or assign for others, judging by its name and instructions?
    fn is_helper(&self, function: &str, file: &str) -> bool {
        let accesses = || self.accessing.contains(&(function.to_owned(), file.to_owned()));
        is_of_others(file)
            || is_assignment_operator(function)
            || sounds_like_helper(function, file) && !accesses()
    }

    /// Is an instruction in such a function?
    pub(crate) fn is_in_helper(&self, site: u32) -> bool {
        let place = self.get(site);
        place.is_known() && self.is_helper(&place.function, &place.file)
    }

    /// Is there a module whose file name begins with this?
    pub(crate) fn have_module(&self, start: &str) -> bool {
        let named = |path: &PathBuf| {
            path.file_name().is_some_and(|name| {
                name.to_string_lossy().strip_prefix(start).is_some_and(|rest| rest.starts_with('.'))
            })
        };
        self.modules.iter().any(named)
    }

    /// Is there a site in a function whose name begins with this?
    pub(crate) fn have_function(&self, start: &str) -> bool {
        let inside = |name: &str| name.starts_with(start);
        let places = self.sites.iter().map(|site| &site.place);
        let mut names = places.flat_map(|place| {
            std::iter::once(&place.function).chain(place.frames.iter().map(|frame| &frame.function))
        });
        names.any(|name| inside(name))
    }

    /// The place of a site.
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

    /// Is a site a plain access: neither atomic nor `volatile`, and in rebuilt code?
    pub(crate) fn is_plain(&self, number: u32) -> bool {
        self.sites.get(number as usize).is_some_and(|site| site.plain)
    }

    /// What is not understood about a site, or its assembly text.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.sites.get(number as usize).map_or("", |site| &site.text)
    }

    /// Looks an address up in the debug information of its module.
    fn find(&self, module: usize, offset: u64) -> Option<Place> {
        let path = self.module(module)?;
        let loader = Loader::new(&path).ok()?;
        let mut frames = loader.find_frames(offset).ok()?;
        let mut place: Option<Place> = None;
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned()));
            let function = plain_path(&plain_function(&function.unwrap_or_default()));
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
        // The module, at least, can be named.
        place.filter(|place| place.line > 0 || !place.function.is_empty()).or_else(|| {
            let function = loader.find_symbol(offset).unwrap_or_default().to_owned();
            Some(Place { file: path.display().to_string(), function, ..Place::default() })
        })
    }
}

/// Does this tag mark a plain access?
fn is_plain(tag: u32) -> bool {
    let accesses =
        [kind::LOAD, kind::STORE, kind::MEMCPY, kind::MEMMOVE, kind::MEMSET, kind::GATHER, kind::SCATTER];
    accesses.contains(&(tag as u8)) && tag & (FLAG_ATOMIC | FLAG_VOLATILE) == 0
}

/// A Rust method in source notation, if its type is a plain path: `<log::Log>::append` is `log::Log::append`.
fn plain_path(name: &str) -> String {
    let inherent = name.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    match inherent {
        Some((path, rest)) if path.chars().all(|it| it.is_alphanumeric() || "_:".contains(it)) => {
            format!("{path}{rest}")
        }
        _ => name.to_owned(),
    }
}

/// A path relative to the working directory of the run, if it is below.
fn relative(path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    Path::new(path).strip_prefix(&here).unwrap_or(Path::new(path)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_rust_are_paths() {
        assert_eq!(plain_path("<log::Log>::append"), "log::Log::append");
        assert_eq!(plain_path("<log::Log>::append::{closure#0}"), "log::Log::append::{closure#0}");
        let traits = "<log::Log as core::ops::Drop>::drop";
        assert_eq!((plain_path(traits), plain_path("<[u8]>::fill")), (traits.into(), "<[u8]>::fill".into()));
    }

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
