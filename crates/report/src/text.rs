//! Findings as text.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level as Title, Renderer, Snippet};
use crashproof_findings::{
    Finding, Frame, Level, Place, Related, Report, Role, Source, Sources, Verdict, Why, is_of_others,
    plain_function,
};

use crate::printable::escape;
use crate::style::{BAD, FAINT, GOOD, STRONG, UNSURE, paint};
use crate::underline;

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// One line per finding.
    Quiet,
    /// What one needs to understand it.
    Usual,
    /// Everything.
    Verbose,
}

/// How the text looks.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// How much it shows.
    pub detail: Detail,
    /// How many columns there are.
    pub width: usize,
    /// Are remarks wrapped? In a pipe each stays on its line, for `grep`.
    pub wraps_remarks: bool,
}

/// Lines of what a failing run printed.
const MOST_OUTPUT: usize = 5;
/// The same if it is the report of a sanitizer.
const MOST_REPORT: usize = 17;
/// Steps of an execution that are shown by default.
const MOST_STEPS: usize = 16;
/// Stores that a load might have read from, for each.
const MOST_CANDIDATES: usize = 8;

/// Writes the whole report.
pub fn write(out: &mut dyn Write, report: &Report, sources: &Sources, look: Look) -> io::Result<()> {
    // Printed one by one: the reader may stop after the first.
    let mut short = false;
    if !report.premise.is_empty() && look.detail != Detail::Quiet {
        writeln!(out, "{}", paint(FAINT, escape(&report.premise)))?;
    }
    let foreign = |finding: &Finding| {
        finding.level != Level::Error && is_of_others(&finding.place.file) && look.detail != Detail::Verbose
    };
    for finding in report.findings.iter().filter(|finding| !foreign(finding)) {
        let text = match look.detail {
            Detail::Quiet => one_line(finding),
            // Worth knowing, but not worth a snippet.
            Detail::Usual if finding.level == Level::Note => {
                short = true;
                one_line(finding)
            }
            _ => self::finding(finding, sources, look),
        };
        out.write_all(text.as_bytes())?;
    }
    if short {
        writeln!(out)?;
    }
    out.write_all(verdict(report, look).as_bytes())?;
    match report.findings.iter().filter(|finding| foreign(finding)).count() {
        0 => Ok(()),
        hidden if look.detail == Detail::Quiet => writeln!(out, "{hidden} more in dependencies (--verbose)"),
        hidden => writeln!(out, "  {hidden} findings in dependencies are not shown (--verbose shows them)"),
    }
}

fn one_line(finding: &Finding) -> String {
    let place = escape(&finding.place.to_string());
    let word = paint(color(finding.level), finding.level.word());
    format!("{place}: {word}[{}]: {}\n", finding.rule.id, escape(&finding.message))
}

fn color(level: Level) -> anstyle::Style {
    match level {
        Level::Error => BAD,
        Level::Warning => UNSURE,
        Level::Note => FAINT,
    }
}

/// The bytes of a place's line in its source: the expression at its column, or all that is visible.
fn span(source: &Source, place: &Place) -> Option<Range<usize>> {
    let range = source.line_range(place.line)?;
    let line = &source.text[range.clone()];
    let comment = ["//", "/*"].into_iter().filter_map(|mark| line.find(mark)).filter(|at| *at > 0).min();
    let code = line[..comment.unwrap_or(line.len())].trim_end();
    let visible = if code.trim().is_empty() { line.trim_end() } else { code };
    let indent = visible.len() - visible.trim_start().len();
    let column = (place.column as usize).saturating_sub(1);
    let span = match column {
        at if at >= indent && at < visible.len() && visible.is_char_boundary(at) && place.column > 0 => {
            underline::expression(visible, at)
        }
        _ => indent..visible.len(),
    };
    Some(range.start + span.start..range.start + span.end)
}

fn finding(finding: &Finding, sources: &Sources, look: Look) -> String {
    let mut text = title(finding, look);
    let marked = snippets(finding, sources, look);
    match &marked {
        Some(marked) => {
            let paths: Vec<String> = marked.iter().map(|file| escape(file.path)).collect();
            // The title stands above already, wrapped.
            let mut group = Group::with_title(Title::NOTE.primary_title(""));
            for (file, path) in marked.iter().zip(&paths) {
                let mut snippet = Snippet::source(file.source.text.as_str()).path(path);
                for (span, kind, label) in &file.marks {
                    snippet = snippet.annotation(kind.span(span.clone()).label(label));
                }
                group = group.element(snippet);
            }
            let rendered = Renderer::styled().term_width(look.width).render(&[group]);
            let _ = writeln!(text, "{}", rendered.split_once('\n').map_or("", |(_, rest)| rest));
        }
        None => {
            let place = escape(&finding.place.to_string());
            let function = match finding.place.function.as_str() {
                "" => String::new(),
                name => format!(" in {}", escape(name)),
            };
            let _ = writeln!(text, "  --> {place}{function} {}", paint(FAINT, "(source not at hand)"));
        }
    }
    story(&mut text, finding, look, marked.as_deref());
    text
}

/// The level, the rule and what is wrong, wrapped.
fn title(finding: &Finding, look: Look) -> String {
    let word = format!("{}[{}]", finding.level.word(), finding.rule.id);
    let said = format!("{word}: {}", escape(&finding.message));
    let options = textwrap::Options::new(look.width)
        .subsequent_indent("  ")
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let wrapped = textwrap::fill(&said, options);
    let rest = wrapped.strip_prefix(word.as_str()).unwrap_or(&wrapped);
    format!("{}{}\n", paint(color(finding.level), &word), paint(STRONG, rest))
}

/// A file and what to mark in it.
struct Marked<'a> {
    path: &'a str,
    source: std::rc::Rc<Source>,
    marks: Vec<(Range<usize>, AnnotationKind, String)>,
}

/// The lines to show: of the finding's own file first, and of others that have a part in it. None if not even the
/// place itself can be shown. Of a finding with a cause only the main places, numbered in the order of time.
fn snippets<'a>(finding: &'a Finding, sources: &Sources, look: Look) -> Option<Vec<Marked<'a>>> {
    let own = sources.get(&finding.place.file)?;
    let primary = span(&own, &finding.place)?;
    let numbered = finding.cause.is_some();
    let label = escape(&finding.label);
    let mut files = vec![Marked { path: &finding.place.file, source: own, marks: Vec::new() }];
    if !numbered {
        files[0].marks.push((primary.clone(), AnnotationKind::Primary, label));
    }
    let shown = finding.related.iter().filter(|related| !numbered || related.main);
    for (number, related) in shown.enumerate() {
        let path = related.place.file.as_str();
        let at = files.iter().position(|file| file.path == path);
        let Some(source) = at.map(|at| files[at].source.clone()).or_else(|| sources.get(path)) else {
            continue;
        };
        let Some(span) = span(&source, &related.place) else { continue };
        let at = at.unwrap_or_else(|| {
            files.push(Marked { path, source, marks: Vec::new() });
            files.len() - 1
        });
        if numbered {
            let is_primary = at == 0 && span == primary;
            let kind = if is_primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let label = format!("{}: {}", number + 1, numbered_label(related));
            files[at].marks.push((span, kind, shortened(&escape(&label), look.width.saturating_sub(24))));
            continue;
        }
        let label = escape(label_of(finding, related));
        // A line that recovery reads twice is marked once.
        let line = source_line(&files[at].source, &span);
        let known = |(other, _, said): &(Range<usize>, AnnotationKind, String)| {
            *other == span || *said == label && source_line(&files[at].source, other) == line
        };
        if !files[at].marks.iter().any(known) {
            files[at].marks.push((span, AnnotationKind::Context, label));
        }
    }
    files.retain(|file| !file.marks.is_empty());
    (!files.is_empty()).then_some(files)
}

/// What to write at one of the main places of a finding.
fn numbered_label(related: &Related) -> String {
    match related.role {
        Role::Lost => format!("lost: {}", related.message),
        Role::Survived => format!("survives: {}", related.message),
        Role::Read => format!("recovery {}", related.message),
        Role::Crash | Role::Candidate | Role::Fix | Role::Note => related.message.clone(),
    }
}

/// A text that fits: without the part after a semicolon, or truncated if necessary.
fn shortened(text: &str, width: usize) -> String {
    let width = width.max(16);
    let whole = text.chars().count() <= width;
    let text = text.split_once("; ").filter(|_| !whole).map_or(text, |(first, _)| first);
    match text.char_indices().nth(width) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.to_owned(),
    }
}

/// Where the line of a span begins.
fn source_line(source: &Source, span: &Range<usize>) -> usize {
    source.text[..span.start].rfind('\n').map_or(0, |at| at + 1)
}

fn label_of<'a>(finding: &Finding, related: &'a Related) -> &'a str {
    match related.role {
        Role::Lost if finding.label == "lost" => "lost too",
        Role::Lost => "lost",
        Role::Survived => "survives",
        Role::Crash => "the power fails before this",
        Role::Read => "recovery reads it here",
        Role::Candidate => "recovery may read this",
        Role::Fix => "to be changed",
        Role::Note => &related.message,
    }
}

/// A step of the story; what does not fit goes on below.
fn step(text: &mut String, look: Look, style: anstyle::Style, word: &str, said: &str) {
    let first = format!("   {} ", paint(style, format!("{word:8}")));
    let options = textwrap::Options::new(look.width)
        .initial_indent(&first)
        .subsequent_indent("            ")
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let _ = writeln!(text, "{}", textwrap::fill(said, options));
}

/// Is the store that a load could have read already listed as lost or survived?
fn is_told(step: &Related, candidate: &Related) -> bool {
    matches!(step.role, Role::Lost | Role::Survived)
        && step.place == candidate.place
        && step.message.starts_with(&candidate.message)
}

/// A place as the steps name it: in the finding's own file, which the snippet names, without the way there.
fn near(place: &Place, finding: &Finding) -> String {
    let file = match place.file.rsplit_once('/') {
        Some((_, name)) if place.file == finding.place.file => name,
        _ => &place.file,
    };
    Place::new(file, place.line, 0).to_string()
}

/// What happened, in order, as far as the snippet does not show it.
fn events(text: &mut String, finding: &Finding, look: Look, snippet: Option<&[Marked<'_>]>) {
    let verbose = look.detail == Detail::Verbose;
    let shown = snippet.is_some();
    // What the snippet says at the line itself need not be said again.
    let marked = |related: &Related| {
        let said = escape(label_of(finding, related));
        related.role == Role::Note
            && snippet.into_iter().flatten().any(|file| {
                file.path == related.place.file && file.marks.iter().any(|(_, _, label)| *label == said)
            })
    };
    let mut candidates = 0;
    for related in &finding.related {
        if finding.cause.is_some() && !verbose && (shown || !related.main) {
            continue;
        }
        if !verbose && marked(related) {
            continue;
        }
        // A store that is listed already need not be listed again.
        if related.role == Role::Candidate
            && !verbose
            && finding.related.iter().any(|it| is_told(it, related))
        {
            continue;
        }
        candidates = if related.role == Role::Candidate { candidates + 1 } else { 0 };
        if candidates > MOST_CANDIDATES && !verbose {
            if candidates == MOST_CANDIDATES + 1 {
                step(text, look, FAINT, "  or of", "more stores; --verbose shows all of them");
            }
            continue;
        }
        let (style, word) = match related.role {
            Role::Lost | Role::Crash => (BAD, related.role.word()),
            Role::Survived => (GOOD, related.role.word()),
            Role::Candidate => (FAINT, "  or of"),
            Role::Read | Role::Fix | Role::Note => (STRONG, related.role.word()),
        };
        let mut said = format!("{}  {}", escape(&near(&related.place, finding)), escape(&related.message));
        if verbose && !related.detail.is_empty() {
            said += &format!(" ({})", escape(&related.detail));
        }
        step(text, look, style, word, &said);
        if verbose {
            calls(text, look, &related.place.frames);
        }
    }
}

/// The calls on the way to a place.
fn calls(text: &mut String, look: Look, frames: &[Frame]) {
    for frame in frames {
        let how = if frame.inlined { "inlined into" } else { "called by" };
        let said = format!("  {how} {} at {}:{}", plain_function(&frame.function), frame.file, frame.line);
        step(text, look, FAINT, "", &escape(&said));
    }
}

/// How one gets to a place, in a few words: the functions from the outermost of the program on.
fn path(place: &Place) -> String {
    let mine = place.frames.iter().filter(|frame| frame.line > 0 && !is_of_others(&frame.file));
    let callers: Vec<String> = mine
        .take(4)
        .map(|frame| format!("{} ({})", plain_function(&frame.function), file_line(&frame.file, frame.line)))
        .collect();
    if callers.is_empty() { String::new() } else { format!(", called from {}", callers.join(", ")) }
}

fn file_line(file: &str, line: u32) -> String {
    format!("{}:{line}", file.rsplit('/').next().unwrap_or(file))
}

/// Cause, fix, what recovery said and where it failed, and how to see it again.
fn story(text: &mut String, finding: &Finding, look: Look, snippet: Option<&[Marked<'_>]>) {
    let verbose = look.detail == Detail::Verbose;
    events(text, finding, look, snippet);
    // Who called the function of the finding, if that is known.
    let way = path(&finding.place);
    if finding.cause.is_some() && !way.is_empty() && !verbose {
        let said = format!("{}{way}", plain_function(&finding.place.function));
        step(text, look, FAINT, "in", &escape(&said));
    }
    if let Some(cause) = &finding.cause {
        step(text, look, STRONG, "cause", &escape(&cause.message));
    }
    // Where the place of the change is known, it is listed with it.
    let listed =
        |message: &str| finding.related.iter().any(|it| it.role == Role::Fix && it.message == message);
    if let Some(fix) = finding.fix.as_ref().filter(|fix| !listed(&fix.message)) {
        step(text, look, GOOD, "fix", &escape(&fix.message));
    }
    let output: Vec<&str> = finding.output.lines().collect();
    // The report of a sanitizer is worth more than the last lines of what a program happens to print.
    let most = if finding.output.contains("Sanitizer: ") { MOST_REPORT } else { MOST_OUTPUT };
    let kept = if verbose { output.len() } else { output.len().min(most) };
    for line in &output[output.len() - kept..] {
        step(text, look, FAINT, "said", &escape(line));
    }
    if let Some(failed) = &finding.failed_at {
        let said = format!(
            "in {} ({}){}",
            plain_function(&failed.function),
            file_line(&failed.file, failed.line),
            path(failed)
        );
        step(text, look, BAD, "failed", &escape(&said));
    }
    for evidence in &finding.evidence {
        // Another layout is worth a thought, not a line of the screen.
        if verbose || !evidence.starts_with("or: ") {
            step(text, look, FAINT, "note", &escape(evidence));
        }
    }
    // A short execution explains itself; a long one is for those who ask.
    let traced = if verbose || finding.cause.is_none() && finding.trace.len() <= MOST_STEPS {
        finding.trace.as_slice()
    } else {
        &[]
    };
    for line in traced {
        step(text, look, FAINT, "step", &escape(line));
    }
    for also in &finding.also {
        step(text, look, FAINT, "also", &format!("{} (met {} times)", escape(&also.message), also.count));
    }
    if verbose {
        let said = format!("{}; crashproof explain {}", finding.fingerprint, finding.rule.id);
        step(text, look, FAINT, "id", &said);
    }
    if !finding.replay.is_empty() {
        let times =
            if finding.count == 1 { String::new() } else { format!(" (met {} times)", finding.count) };
        // On one line, however long: it is there to be copied.
        let id = finding.extra.get("replay_id").and_then(|id| id.as_str()).unwrap_or(&finding.replay);
        let _ = writeln!(text, "   {} crashproof replay {id}{times}", paint(FAINT, "replay  "));
    }
    text.push('\n');
}

/// A remark below the verdict, wrapped.
fn remark(text: &mut String, look: Look, begin: &str, said: &str) {
    let width = if look.wraps_remarks { look.width } else { usize::MAX };
    let options = textwrap::Options::new(width)
        .initial_indent(begin)
        .subsequent_indent("    ")
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    for (number, line) in said.lines().enumerate() {
        let options = if number == 0 { options.clone() } else { options.clone().initial_indent("    ") };
        let _ = writeln!(text, "{}", textwrap::fill(&escape(line), options));
    }
}

fn verdict(report: &Report, look: Look) -> String {
    let mut text = String::new();
    if look.detail == Detail::Verbose {
        for aside in &report.set_aside {
            let why = match &aside.why {
                Why::Suppressed(reason) => format!("suppressed: {}", escape(reason)),
                Why::Known => "known".into(),
            };
            let _ = write!(text, "{} {}", paint(FAINT, format!("({why})")), one_line(&aside.finding));
        }
    }
    let (errors, warnings) = (report.count(Level::Error), report.count(Level::Warning));
    let plural = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let and_warnings =
        if warnings == 0 { String::new() } else { format!(", {}", plural(warnings, "warning")) };
    let verdict = match report.verdict() {
        Verdict::Clean if warnings > 0 => paint(UNSURE, format!("no errors{and_warnings}")),
        Verdict::Clean if report.command == "prove" => paint(GOOD, "verified"),
        Verdict::Clean => paint(GOOD, "clean"),
        Verdict::Unknown => paint(UNSURE, "unknown"),
        Verdict::Findings => paint(BAD, format!("{}{and_warnings}", plural(errors, "error"))),
    };
    let quiet = look.detail == Detail::Quiet;
    if !quiet {
        let _ = writeln!(text, "{verdict}: {}", report.summary);
    } else if report.verdict() == Verdict::Unknown {
        let _ = writeln!(text, "{verdict}");
    }
    for reason in &report.incomplete {
        remark(&mut text, look, &format!("  {} not covered: ", paint(UNSURE, "!")), reason);
    }
    if quiet {
        return text;
    }
    for note in &report.notes {
        remark(&mut text, look, &format!("  {} ", paint(FAINT, "note:")), note);
    }
    let known = report.set_aside.iter().filter(|aside| aside.why == Why::Known).count();
    let suppressed = report.set_aside.len() - known;
    for (number, what) in [(suppressed, "suppressed"), (known, "known from the baseline")] {
        if number > 0 && look.detail == Detail::Usual {
            let s = if number == 1 { "" } else { "s" };
            let _ = writeln!(text, "  {number} finding{s} {what} (--verbose shows them)");
        }
    }
    // What the solver did is of interest to those who ask.
    if !report.figures.is_empty() && (report.command != "prove" || look.detail == Detail::Verbose) {
        let _ = writeln!(text, "  {}", paint(FAINT, &report.figures));
    }
    text
}
