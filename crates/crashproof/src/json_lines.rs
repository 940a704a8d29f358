//! `--format jsonl`: writes findings during the check, one JSON object per line.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use crashproof_check::Monitor;
use crashproof_findings::{Finding, Report, Sources};
use crashproof_report::json;

/// Writes the findings of a running check in a separate thread.
pub(crate) struct JsonLines(Option<JoinHandle<()>>);

impl JsonLines {
    /// Starts writing what the monitored check of `program` finds.
    pub(crate) fn start(
        monitor: &Monitor,
        out: Box<dyn Write + Send>,
        program: PathBuf,
    ) -> std::io::Result<JsonLines> {
        let (sender, findings) = channel();
        let thread = std::thread::Builder::new().spawn(move || write(&findings, out, &program))?;
        monitor.listen(sender);
        Ok(JsonLines(Some(thread)))
    }

    /// Waits until everything is written; the check must have ended.
    pub(crate) fn end(mut self, monitor: &Monitor) {
        monitor.listen(channel().0);
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

fn write(findings: &Receiver<Finding>, mut out: Box<dyn Write + Send>, program: &std::path::Path) {
    let built = program.metadata().and_then(|about| about.modified()).ok();
    let sources = Sources::built_at(built);
    for finding in findings {
        let mut report = Report::new("check", "");
        report.findings.push(finding);
        report.finish(&sources);
        if json::write_preliminary(&mut out, &report).is_err() {
            // The reader is gone; writing the report itself shows whether that is an error.
            return;
        }
    }
}
