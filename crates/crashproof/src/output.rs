//! Report handling shared by all commands that judge programs: sets aside suppressed and known findings, writes every
//! requested format, and chooses the exit code.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use crashproof_findings::baseline::{self, Baseline};
use crashproof_findings::config::Config;
use crashproof_findings::ignore;
use crashproof_findings::suppress::Suppressions;
use crashproof_findings::{Report, Sources, Verdict};
use crashproof_report::text::{Detail, Look};
use crashproof_report::{ci, html, json, junit, sarif, text};

use crate::exit::Exit;

#[derive(Args)]
#[command(next_help_heading = "Report")]
pub(crate) struct Output {
    /// Output format, with `=FILE` to write it to a file; may be repeated
    ///
    /// Formats: text, json, jsonl, sarif, junit, html, github, gitlab. Standard output gets text unless another format
    /// goes there.
    #[arg(long, value_name = "FORMAT[=FILE]")]
    format: Vec<Sink>,

    /// Write an HTML report; short for --format html=FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print one line per finding, nothing if there is none
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Print everything: addresses, call stacks, all output, findings that do not count
    #[arg(short, long)]
    verbose: bool,

    /// Treat warnings as errors
    #[arg(long, value_name = "LEVEL", value_parser = ["warnings"])]
    deny: Option<String>,

    /// Ignore the findings recorded in FILE
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Record all findings in FILE for --baseline
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,

    /// Read suppressions from FILE, besides those of crashproof.toml; may be repeated
    #[arg(long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
}

/// A format and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sink {
    format: Format,
    /// Standard output if not given.
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    JsonLines,
    Sarif,
    Junit,
    Html,
    Github,
    Gitlab,
}

impl FromStr for Sink {
    type Err = String;

    fn from_str(text: &str) -> Result<Sink, String> {
        let (name, file) = text.split_once('=').map_or((text, None), |(name, file)| (name, Some(file)));
        let format = match name {
            "text" => Format::Text,
            "json" => Format::Json,
            "jsonl" => Format::JsonLines,
            "sarif" => Format::Sarif,
            "junit" => Format::Junit,
            "html" => Format::Html,
            "github" => Format::Github,
            "gitlab" => Format::Gitlab,
            _ => return Err("formats are text, json, jsonl, sarif, junit, html, github and gitlab".into()),
        };
        match file {
            Some("") => Err(format!("which file? {name}=FILE, or {name} alone for standard output")),
            file => Ok(Sink { format, file: file.map(PathBuf::from) }),
        }
    }
}

/// Outputs validated before the work begins, so that mistakes are reported immediately.
pub(crate) struct Prepared<'a> {
    output: &'a Output,
    sinks: Vec<Sink>,
    suppressions: Suppressions,
    baseline: Option<Baseline>,
    deny_warnings: bool,
    /// Lines were written in this format during the work; the rest follows them.
    streamed: Cell<bool>,
}

impl Output {
    /// Should only findings be printed?
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Reads suppressions and baseline, and checks that every output can be written.
    pub(crate) fn prepare(&self, config: &Config, deny_warnings: bool) -> Result<Prepared<'_>, String> {
        let mut sinks = self.format.clone();
        sinks.extend(self.html.iter().map(|file| Sink { format: Format::Html, file: Some(file.clone()) }));
        match sinks.iter().filter(|sink| sink.file.is_none()).count() {
            0 => sinks.insert(0, Sink { format: Format::Text, file: None }),
            1 => {}
            _ => {
                return Err(
                    "only one format can go to standard output; give the others a file: --format sarif=FILE"
                        .into(),
                );
            }
        }
        let files = sinks.iter().filter_map(|sink| sink.file.as_deref());
        for file in files.chain(self.write_baseline.as_deref()) {
            try_to_write(file).map_err(|error| cannot_write(file, &error))?;
        }
        let mut suppressions = config.suppressions.clone();
        for file in &self.suppressions {
            suppressions.read(file).map_err(|error| error.to_string())?;
        }
        // A baseline that is about to be written need not exist yet.
        let reads = self.baseline.as_ref().filter(|file| Some(*file) != self.write_baseline.as_ref());
        let baseline =
            reads.map(|file| Baseline::read(file)).transpose().map_err(|error| error.to_string())?;
        let deny_warnings = deny_warnings || self.deny.is_some();
        Ok(Prepared {
            output: self,
            sinks,
            suppressions,
            baseline,
            deny_warnings,
            streamed: Cell::new(false),
        })
    }
}

/// Checks that a file can be written, without changing it.
fn try_to_write(file: &Path) -> io::Result<()> {
    match file.metadata() {
        Ok(about) if about.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(about) if about.is_file() => OpenOptions::new().append(true).open(file).map(drop),
        // Opening a pipe would wait for its reader.
        Ok(_) => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            std::fs::remove_file(file)
        }
    }
}

fn cannot_write(file: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", file.display())
}

impl Prepared<'_> {
    /// Where to write JSON lines while the work is running, if they are requested.
    pub(crate) fn stream(&self) -> io::Result<Option<Box<dyn Write + Send>>> {
        let Some(sink) = self.sinks.iter().find(|sink| sink.format == Format::JsonLines) else {
            return Ok(None);
        };
        self.streamed.set(true);
        Ok(Some(match &sink.file {
            None => Box::new(io::stdout()),
            Some(file) => Box::new(File::create(file)?),
        }))
    }

    /// Writes the report; returns the exit code.
    pub(crate) fn finish(&self, mut report: Report, sources: &Sources) -> io::Result<Exit> {
        report.finish(sources);
        ignore::apply(&mut report, sources);
        self.suppressions.apply(&mut report);
        if let Some(baseline) = &self.baseline {
            baseline.apply(&mut report);
        }
        if self.deny_warnings {
            report.deny_warnings();
        }
        crate::trust::remember(report.findings.iter().map(|finding| finding.replay.as_str()));
        let mut exit = match report.verdict() {
            Verdict::Clean => Exit::Clean,
            Verdict::Findings => Exit::Findings,
            Verdict::Unknown => Exit::Incomplete,
        };
        for sink in &self.sinks {
            match self.write(sink, &report, sources) {
                Ok(()) => {}
                // A reader that stops reading is not an error.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) => {
                    let file = sink.file.as_deref().unwrap_or(Path::new("to standard output"));
                    anstream::eprintln!("crashproof: {}", cannot_write(file, &error));
                    exit = exit.max(Exit::Usage);
                }
            }
        }
        if let Some(file) = &self.output.write_baseline {
            match baseline::write(file, &report) {
                Ok(()) if exit == Exit::Findings => {
                    exit = if report.incomplete.is_empty() { Exit::Clean } else { Exit::Incomplete }
                }
                Ok(()) => {}
                Err(error) => {
                    anstream::eprintln!("crashproof: {error}");
                    exit = exit.max(Exit::Usage);
                }
            }
        }
        Ok(exit)
    }

    fn write(&self, sink: &Sink, report: &Report, sources: &Sources) -> io::Result<()> {
        match &sink.file {
            // Colors only where standard output is a terminal.
            None => {
                let mut out = anstream::stdout().lock();
                self.put(sink.format, &mut out, report, sources, width())?;
                out.flush()
            }
            Some(file) => {
                let follows = sink.format == Format::JsonLines && self.streamed.get();
                let opened =
                    if follows { OpenOptions::new().append(true).open(file) } else { File::create(file) };
                let mut out = BufWriter::new(opened?);
                if sink.format == Format::Text {
                    let mut plain = anstream::StripStream::new(Vec::new());
                    self.put(sink.format, &mut plain, report, sources, 120)?;
                    out.write_all(&plain.into_inner())?;
                } else {
                    self.put(sink.format, &mut out, report, sources, 120)?;
                }
                out.into_inner().map_err(|error| error.into_error())?.sync_data().or_else(|error| {
                    // Pipes and devices cannot be synchronized.
                    if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
                })
            }
        }
    }

    fn put(
        &self,
        format: Format,
        out: &mut dyn Write,
        report: &Report,
        sources: &Sources,
        width: usize,
    ) -> io::Result<()> {
        let detail = match (self.output.quiet, self.output.verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Usual,
        };
        match format {
            Format::Text => {
                let look = Look { detail, width, wraps_remarks: known_width().is_some() };
                text::write(out, report, sources, look)
            }
            Format::Json => json::write(out, report),
            Format::JsonLines => json::write_lines(out, report),
            Format::Sarif => sarif::write(out, report, sources),
            Format::Junit => junit::write(out, report),
            Format::Html => html::write(out, report, sources),
            Format::Github => ci::write_github(out, report),
            Format::Gitlab => ci::write_gitlab(out, report),
        }
    }
}

/// The width of text, in columns.
pub(crate) fn width() -> usize {
    known_width().unwrap_or(120).max(40)
}

/// The width of the terminal, or what `COLUMNS` says.
fn known_width() -> Option<usize> {
    let columns = std::env::var_os("COLUMNS");
    let columns = columns.as_deref().and_then(OsStr::to_str).and_then(|text| text.parse().ok());
    let terminal = || io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    columns.or_else(|| terminal().map(|(width, _)| usize::from(width.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_may_name_its_file() {
        let sink = |text: &str| text.parse::<Sink>();
        assert_eq!(sink("json"), Ok(Sink { format: Format::Json, file: None }));
        let file = Some(PathBuf::from("a=b.xml"));
        assert_eq!(sink("junit=a=b.xml"), Ok(Sink { format: Format::Junit, file }));
        assert!(sink("sarif=").is_err() && sink("yaml").is_err());
    }
}
