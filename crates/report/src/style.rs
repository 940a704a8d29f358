//! The few styles that all text reports share.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const UNSURE: Style = AnsiColor::Yellow.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();

/// `text` in `style`.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A tick, a cross, or a question mark.
pub(crate) fn mark(holds: Option<bool>) -> String {
    match holds {
        Some(true) => paint(GOOD, "✓"),
        Some(false) => paint(BAD, "✗"),
        None => paint(UNSURE, "?"),
    }
}
