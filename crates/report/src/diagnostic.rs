//! Errors in source files, shown with the line and the place marked.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use crashproof_litmus::Error;

/// An error in a litmus file, as the compiler of a programming language would show it.
pub fn litmus_error(file: &str, source: &str, error: &Error) -> String {
    // At the end of the file there is nothing to underline; mark the last visible character instead.
    let visible = source.trim_end().len();
    let start = error.span.start.min(visible.saturating_sub(1));
    let start = (0..=start).rev().find(|&at| source.is_char_boundary(at)).unwrap_or(0);
    let end = error.span.end.clamp(start, source.len());
    let annotation = AnnotationKind::Primary.span(start..end).label(&error.label);
    let snippet = Snippet::source(source).path(file).annotation(annotation);
    let title = Level::ERROR.primary_title(&error.message);
    let mut group = Group::with_title(title).element(snippet);
    if let Some(help) = &error.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    Renderer::styled().render(&[group])
}
