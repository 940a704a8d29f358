//! Progress on standard error once a command runs longer than a second, and Ctrl-C for checks.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crashproof_check::{Monitor, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::signals::Orderly;

/// Commands that end sooner show no progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between polls of the check and of signals.
const TICK: Duration = Duration::from_millis(100);
/// Between lines if standard error is not a terminal.
const LINES: Duration = Duration::from_secs(10);

const BAR: &str = "{spinner} {bar:20} {msg}";
const SPINNER: &str = "{spinner} {msg}";

/// Calls a function periodically, in a thread of its own, until it is dropped.
struct Ticker {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Calls `poll` at every tick, with the time since the start and, once there is progress to show, the display.
    fn start(
        template: &'static str,
        mut poll: impl FnMut(Duration, Option<&mut Display>) + Send + 'static,
    ) -> Ticker {
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut display = Display::new(template);
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let elapsed = started.elapsed();
                poll(elapsed, Some(&mut display).filter(|_| elapsed >= PATIENCE));
            }
            display.end();
        });
        Ticker { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Watches a check until it is dropped.
pub(crate) struct Watch {
    _ticker: Ticker,
}

impl Watch {
    pub(crate) fn start(monitor: Arc<Monitor>) -> std::io::Result<Watch> {
        // The first signal ends the check, with what it has found.
        let orderly = Orderly::new()?;
        let ticker = Ticker::start(BAR, move |elapsed, display| {
            if orderly.asked() {
                monitor.cancel();
            }
            if let Some(display) = display {
                display.show(&monitor.progress(), elapsed, monitor.cancelled());
            }
        });
        Ok(Watch { _ticker: ticker })
    }
}

/// Shows what is being done, for commands that cannot say how far they are, until it is dropped.
pub(crate) struct Doing {
    what: Arc<Mutex<String>>,
    _ticker: Ticker,
}

impl Doing {
    pub(crate) fn start(what: impl Into<String>) -> Doing {
        let what = Arc::new(Mutex::new(what.into()));
        let shown = Arc::clone(&what);
        let ticker = Ticker::start(SPINNER, move |elapsed, display| {
            if let Some(display) = display {
                let what = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                display.say(elapsed, || format!("{what}, {} s so far", elapsed.as_secs()));
            }
        });
        Doing { what, _ticker: ticker }
    }

    /// Replaces what is shown.
    pub(crate) fn now(&self, what: impl Into<String>) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }
}

/// Where progress is shown.
enum Display {
    /// On a terminal, in place.
    Bar(ProgressBar),
    /// Elsewhere, in lines; the time of the last one.
    Lines(Duration),
}

impl Display {
    fn new(template: &str) -> Display {
        if !std::io::stderr().is_terminal() {
            return Display::Lines(Duration::ZERO);
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).expect("a template that is tested");
        bar.set_style(style);
        Display::Bar(bar)
    }

    fn show(&mut self, progress: &Progress, elapsed: Duration, cancelled: bool) {
        if let Display::Bar(bar) = self {
            bar.set_length(progress.events);
            bar.set_position(progress.at);
        }
        self.say(elapsed, || {
            if cancelled { "ending, with what was found so far".into() } else { text(progress, elapsed) }
        });
    }

    fn say(&mut self, elapsed: Duration, text: impl FnOnce() -> String) {
        match self {
            Display::Bar(bar) => {
                bar.set_message(text());
                bar.tick();
            }
            Display::Lines(last) if elapsed - *last >= LINES => {
                *last = elapsed;
                eprintln!("crashproof: {}", text());
            }
            Display::Lines(_) => {}
        }
    }

    fn end(&self) {
        if let Display::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn text(progress: &Progress, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if progress.events == 0 {
        return format!("recording the run for {seconds:.0} s");
    }
    let mut text = format!(
        "{} places crashed, {} recoveries ({:.0} a second), {} behaviours, {} errors so far",
        progress.places,
        progress.recoveries,
        progress.recoveries as f64 / seconds,
        progress.behaviours,
        progress.findings,
    );
    // Assumes that the rest takes as long per event as what is done.
    if progress.at > 0 {
        let left = seconds * (progress.events as f64 / progress.at as f64 - 1.0);
        text += &format!(", about {left:.0} s left");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_can_be_made_and_says_how_it_goes() {
        assert!([BAR, SPINNER].iter().all(|template| ProgressStyle::with_template(template).is_ok()));
        let progress =
            Progress { events: 100, at: 25, places: 5, recoveries: 20, behaviours: 7, findings: 1 };
        let text = text(&progress, Duration::from_secs(2));
        assert!(text.contains("20 recoveries (10 a second)") && text.ends_with("about 6 s left"), "{text}");
    }
}
