//! Missing flushes known to be harmless, by location in the source.

use std::path::Path;
use std::str::FromStr;

use crashproof_findings::Place;

/// A part of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suppression {
    /// The file; a suffix of its path components suffices.
    pub file: String,
    /// The part of the file.
    pub part: Extent,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// From the first line to the last.
    Lines(u32, u32),
    /// A function.
    Function(String),
}

impl Suppression {
    /// Is the place, or a call inlined around it, in this part?
    pub(crate) fn covers(&self, place: &Place) -> bool {
        self.is_around(&place.file, place.line, &place.function)
            || place.frames.iter().any(|frame| self.is_around(&frame.file, frame.line, &frame.function))
    }

    fn is_around(&self, file: &str, line: u32, function: &str) -> bool {
        let part = match &self.part {
            Extent::Lines(from, to) => (*from..=*to).contains(&line),
            // C++ names include the parameter types.
            Extent::Function(name) => function.split('(').next() == Some(name),
        };
        part && Path::new(file).ends_with(&self.file)
    }
}

impl FromStr for Suppression {
    type Err = String;

    fn from_str(text: &str) -> Result<Suppression, String> {
        let expected = || format!("`{text}` is not FILE:LINE, FILE:FIRST-LAST or FILE:FUNCTION");
        let (file, part) = text.split_once(':').filter(|(file, _)| !file.is_empty()).ok_or_else(expected)?;
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().ok().filter(|line| *line > 0);
        let is_name = part.starts_with(|first: char| first.is_alphabetic() || "_~".contains(first));
        let part = match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => Extent::Lines(from, to),
            _ if is_name => Extent::Function(part.to_owned()),
            _ => return Err(expected()),
        };
        Ok(Suppression { file: file.to_owned(), part })
    }
}

impl std::fmt::Display for Suppression {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        match &self.part {
            Extent::Lines(from, to) if from == to => write!(out, "{}:{from}", self.file),
            Extent::Lines(from, to) => write!(out, "{}:{from}-{to}", self.file),
            Extent::Function(name) => write!(out, "{}:{name}", self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file() {
        let one: Suppression = "src/list.c:12".parse().unwrap();
        assert_eq!(one, Suppression { file: "src/list.c".into(), part: Extent::Lines(12, 12) });
        let some: Suppression = "list.c:12-20".parse().unwrap();
        let place = |file: &str, line| Place { file: file.into(), line, ..Place::default() };
        assert!(some.covers(&place("src/list.c", 12)) && some.covers(&place("list.c", 20)));
        assert!(!some.covers(&place("src/list.c", 21)) && !some.covers(&place("mylist.c", 13)));
        for text in ["list.c", "list.c:", ":3", "list.c:0", "list.c:5-4", "list.c:5x"] {
            assert!(text.parse::<Suppression>().is_err(), "{text}");
        }
        assert_eq!(some.to_string(), "list.c:12-20");
    }

    #[test]
    fn a_function() {
        let list: Suppression = "list.cpp:List::push".parse().unwrap();
        let place = |file: &str, function: &str| Place {
            file: file.into(),
            function: function.into(),
            ..Place::default()
        };
        assert!(list.covers(&place("src/list.cpp", "List::push(int)")));
        assert!(!list.covers(&place("list.cpp", "List::push_back(int)")));
        assert!(!list.covers(&place("other.cpp", "List::push(int)")));
        assert_eq!(list.to_string(), "list.cpp:List::push");
    }
}
