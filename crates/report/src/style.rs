//! The few styles that all text reports share.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// What is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What is not known.
pub const UNSURE: Style = AnsiColor::Yellow.on_default();
/// What matters less.
pub const FAINT: Style = Style::new().dimmed();
/// What matters most.
pub const STRONG: Style = Style::new().bold();

/// `text` in `style`.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A tick, a cross, or a question mark.
pub fn mark(holds: Option<bool>) -> String {
    match holds {
        Some(true) => paint(GOOD, "✓"),
        Some(false) => paint(BAD, "✗"),
        None => paint(UNSURE, "?"),
    }
}
