//! Errors in source files, shown with the line and the place marked.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// What is wrong with a source file, and where.
#[derive(Clone, Debug)]
pub struct SourceError<'a> {
    /// What is wrong.
    pub message: &'a str,
    /// A few words for the place.
    pub label: &'a str,
    /// What to do about it.
    pub help: Option<&'a str>,
    /// The place, in bytes.
    pub span: Range<usize>,
}

impl SourceError<'_> {
    /// Rendered like a compiler's error message.
    pub fn render(&self, file: &str, source: &str) -> String {
        // At the end of the file there is nothing to underline; mark the last visible character instead.
        let visible = source.trim_end().len();
        let start = self.span.start.min(visible.saturating_sub(1));
        let start = (0..=start).rev().find(|&at| source.is_char_boundary(at)).unwrap_or(0);
        let end = self.span.end.clamp(start, source.len());
        let annotation = AnnotationKind::Primary.span(start..end).label(self.label);
        let snippet = Snippet::source(source).path(file).annotation(annotation);
        let title = Level::ERROR.primary_title(self.message);
        let mut group = Group::with_title(title).element(snippet);
        if let Some(help) = self.help {
            group = group.element(Level::HELP.message(help));
        }
        Renderer::styled().render(&[group])
    }
}
