//! Where in the source events come from.

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
    /// The place itself, or, if it is one of `crashproof.h`'s helpers, where that was called.
    pub(crate) fn in_user_code(&self) -> Source {
        let mut source = self.clone();
        while source.file.ends_with("crashproof.h") && !source.callers.is_empty() {
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

/// All sites of a program, by number.
#[derive(Default)]
pub(crate) struct Sites {
    sites: Vec<Source>,
    nowhere: Source,
}

impl Sites {
    /// Reads the table that the runtime wrote.
    pub(crate) fn parse(table: &str) -> Sites {
        let mut sites = vec![Source::default()];
        for line in table.lines() {
            let mut fields = line.split('\t');
            let mut text = || fields.next().unwrap_or("").to_owned();
            let (_number, _tag) = (text(), text());
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
        Sites { sites, nowhere: Source { file: "?".into(), ..Source::default() } }
    }

    pub(crate) fn get(&self, number: u32) -> &Source {
        match self.sites.get(number as usize) {
            Some(site) if number > 0 => site,
            _ => &self.nowhere,
        }
    }
}
