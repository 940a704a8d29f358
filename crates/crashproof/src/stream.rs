//! Findings of a check that goes on, as lines of JSON.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use crashproof_check::Monitor;
use crashproof_findings::{Finding, Report, Sources};
use crashproof_report::json;

/// Writes what is found until it is dropped.
pub(crate) struct Stream(Option<JoinHandle<()>>);

impl Stream {
    /// Writes what the check that this monitors finds in the program.
    pub(crate) fn start(monitor: &Monitor, out: Box<dyn Write + Send>, program: PathBuf) -> Stream {
        let (sender, found) = channel();
        monitor.listen(sender);
        Stream(Some(std::thread::spawn(move || write(&found, out, &program))))
    }

    /// Waits until everything is written; the check must have ended.
    pub(crate) fn end(mut self, monitor: &Monitor) {
        monitor.listen(channel().0);
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

fn write(found: &Receiver<Finding>, mut out: Box<dyn Write + Send>, program: &std::path::Path) {
    let built = program.metadata().and_then(|about| about.modified()).ok();
    let sources = Sources::built_at(built);
    for finding in found {
        let mut report = Report::new("check", "");
        report.findings.push(finding);
        report.finish(&sources);
        if json::write_preliminary(&mut out, &report).is_err() {
            // Nobody reads it; the report itself will say if that is an error.
            return;
        }
    }
}
