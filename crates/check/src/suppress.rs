//! Missing flushes that somebody has looked at and knows to be harmless, by where they are in the source.

use std::path::Path;
use std::str::FromStr;

use crate::sites::Source;

/// Lines of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suppression {
    /// The file; its last components are enough.
    pub file: String,
    /// First line.
    pub from: u32,
    /// Last line.
    pub to: u32,
}

impl Suppression {
    /// Is the place, or a call that was inlined around it, in these lines?
    pub(crate) fn covers(&self, place: &Source) -> bool {
        let within = |file: &str, line: u32| {
            (self.from..=self.to).contains(&line) && Path::new(file).ends_with(&self.file)
        };
        within(&place.file, place.line)
            || place.callers.iter().any(|caller| within(&caller.file, caller.line))
    }
}

impl FromStr for Suppression {
    type Err = String;

    fn from_str(text: &str) -> Result<Suppression, String> {
        let expected = || format!("`{text}` is not FILE:LINE or FILE:FIRST-LAST");
        let (file, lines) =
            text.rsplit_once(':').filter(|(file, _)| !file.is_empty()).ok_or_else(expected)?;
        let (from, to) = lines.split_once('-').unwrap_or((lines, lines));
        let number = |text: &str| text.parse::<u32>().ok().filter(|line| *line > 0);
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => Ok(Suppression { file: file.to_owned(), from, to }),
            _ => Err(expected()),
        }
    }
}

impl std::fmt::Display for Suppression {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(out, "{}:{}", self.file, self.from)?;
        if self.to != self.from {
            write!(out, "-{}", self.to)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file() {
        let one: Suppression = "src/list.c:12".parse().unwrap();
        assert_eq!(one, Suppression { file: "src/list.c".into(), from: 12, to: 12 });
        let some: Suppression = "list.c:12-20".parse().unwrap();
        let place = |file: &str, line| Source { file: file.into(), line, ..Source::default() };
        assert!(some.covers(&place("src/list.c", 12)) && some.covers(&place("list.c", 20)));
        assert!(!some.covers(&place("src/list.c", 21)) && !some.covers(&place("mylist.c", 13)));
        for text in ["list.c", "list.c:", ":3", "list.c:0", "list.c:5-4", "list.c:x"] {
            assert!(text.parse::<Suppression>().is_err(), "{text}");
        }
        assert_eq!(some.to_string(), "list.c:12-20");
    }
}
