//! Shows progress on standard error once a command runs longer than a second, and handles Ctrl-C for checks.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crashproof_check::{Monitor, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::signals::Orderly;

/// Shorter commands show no progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between polls of the check and of signals.
const TICK: Duration = Duration::from_millis(100);
/// Interval between lines if standard error is not a terminal.
const LINES: Duration = Duration::from_secs(10);

const BAR: &str = "{spinner} {bar:20} {wide_msg}";
const SPINNER: &str = "{spinner} {wide_msg}";

/// Calls a function periodically in a separate thread, until dropped.
struct Ticker {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Calls `poll` at every tick, with the time since the start and, once there is progress to show, the display.
    fn start(
        template: &'static str,
        mut poll: impl FnMut(Duration, Option<&mut Display>) + Send + 'static,
    ) -> std::io::Result<Ticker> {
        let (end, ended) = channel::<()>();
        let thread = std::thread::Builder::new().spawn(move || {
            let started = Instant::now();
            let mut display = Display::new(template);
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let elapsed = started.elapsed();
                poll(elapsed, Some(&mut display).filter(|_| elapsed >= PATIENCE));
            }
            display.end();
        })?;
        Ok(Ticker { end: Some(end), thread: Some(thread) })
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

/// Watches a check until dropped.
pub(crate) struct Watch {
    _ticker: Ticker,
}

impl Watch {
    /// `quiet` shows nothing; signals still end the check.
    pub(crate) fn start(monitor: Arc<Monitor>, quiet: bool) -> std::io::Result<Watch> {
        // The first signal ends the check, which reports its findings.
        let orderly = Orderly::new()?;
        let mut pace = Pace::default();
        let ticker = Ticker::start(BAR, move |elapsed, display| {
            if orderly.asked() {
                monitor.cancel();
            }
            let progress = monitor.progress();
            pace.look(&progress, elapsed);
            if let Some(display) = display.filter(|_| !quiet) {
                display.show(&progress, &pace, monitor.cancelled());
            }
        })?;
        Ok(Watch { _ticker: ticker })
    }
}

/// Shows the current activity until dropped, for commands that cannot measure their progress.
pub(crate) struct Doing {
    what: Arc<Mutex<String>>,
    /// `None` if the machine cannot create another thread: then no progress is shown.
    _ticker: Option<Ticker>,
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
        Doing { what, _ticker: ticker.ok() }
    }

    /// Replaces the activity shown.
    pub(crate) fn now(&self, what: impl Into<String>) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// Replaces the activity shown, for detached threads.
    pub(crate) fn teller(&self) -> impl Fn(String) + Send + 'static {
        let shown = Arc::clone(&self.what);
        move |what| *shown.lock().unwrap_or_else(PoisonError::into_inner) = what
    }
}

/// Where progress is shown.
enum Display {
    /// On a terminal, in place.
    Bar(ProgressBar),
    /// Elsewhere, in lines; the time of the last one.
    Lines(Duration),
    /// Nowhere: `CRASHPROOF_PROGRESS=never`.
    Never,
}

impl Display {
    fn new(template: &str) -> Display {
        if std::env::var_os("CRASHPROOF_PROGRESS").is_some_and(|when| when == "never") {
            return Display::Never;
        }
        if !std::io::stderr().is_terminal() {
            return Display::Lines(Duration::ZERO);
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).expect("a template that is tested");
        bar.set_style(style);
        Display::Bar(bar)
    }

    fn show(&mut self, progress: &Progress, pace: &Pace, cancelled: bool) {
        if let Display::Bar(bar) = self {
            bar.set_length(progress.events);
            bar.set_position(progress.at);
        }
        self.say(pace.now, || {
            if cancelled { "ending, with what was found so far".into() } else { text(progress, pace) }
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
            Display::Lines(_) | Display::Never => {}
        }
    }

    fn end(&self) {
        if let Display::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// The recent speed of a check: its beginning says little about the rest.
#[derive(Default)]
struct Pace {
    now: Duration,
    /// Samples of time, position in the run, and number of behaviors, from the last half minute or so.
    seen: VecDeque<(Duration, u64, u64)>,
}

impl Pace {
    const WINDOW: Duration = Duration::from_secs(30);

    fn look(&mut self, progress: &Progress, now: Duration) {
        self.now = now;
        // Another schedule starts over.
        if self.seen.back().is_some_and(|(_, at, _)| *at > progress.at) {
            self.seen.clear();
        }
        self.seen.push_back((now, progress.at, progress.behaviors));
        while self.seen.len() > 2 && self.seen[1].0 + Self::WINDOW < now {
            self.seen.pop_front();
        }
    }

    /// PM events passed and behaviors found per second.
    fn rates(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let seconds = (last.0.checked_sub(first.0)?).as_secs_f64();
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        (seconds >= 1.0).then(|| (rate(first.1, last.1), rate(first.2, last.2)))
    }
}

fn text(progress: &Progress, pace: &Pace) -> String {
    if progress.events == 0 {
        return format!("recording the run for {:.0} s", pace.now.as_secs_f64());
    }
    let percent = 100.0 * progress.at as f64 / progress.events as f64;
    let rates = pace.rates();
    let mut text = format!("{percent:.0}% of the run");
    // What matters most comes first: narrow terminals show no more.
    if let Some((events, _)) = rates.filter(|(events, _)| *events > 0.0) {
        text +=
            &format!(", about {} left", time(progress.events.saturating_sub(progress.at) as f64 / events));
    }
    let counted = |number: u64, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    text += &format!(", {}", counted(progress.findings, "error"));
    text += &format!(", {}", counted(progress.places, "crash point"));
    text += &format!(", {}", counted(progress.behaviors, "behavior"));
    if let Some((_, behaviors)) = rates {
        text += &format!(" ({behaviors:.0} per second)");
    }
    text
}

/// A time as text, no more precise than it is known.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        _ if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_can_be_made_and_says_how_it_goes() {
        assert!([BAR, SPINNER].iter().all(|template| ProgressStyle::with_template(template).is_ok()));
        let progress = Progress { events: 100, at: 25, places: 5, recoveries: 20, behaviors: 7, findings: 1 };
        let mut pace = Pace::default();
        pace.look(&Progress { at: 15, behaviors: 3, ..progress }, Duration::from_secs(0));
        pace.look(&progress, Duration::from_secs(2));
        let text = text(&progress, &pace);
        assert_eq!(
            text,
            "25% of the run, about 15 s left, 1 error, 5 crash points, 7 behaviors (2 per second)"
        );
        assert_eq!((time(600.0), time(7200.0)), ("10 min".into(), "2 h".into()));
    }
}
