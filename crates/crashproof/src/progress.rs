//! Tells on standard error how the work is coming along, if it takes longer than a second; and lets Ctrl-C end a
//! check.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crashproof_check::{Monitor, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::signals::Orderly;

/// Nobody wonders about less.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between looks at the check, and at the signals.
const TICK: Duration = Duration::from_millis(100);
/// Between lines where there is no terminal.
const LINES: Duration = Duration::from_secs(10);

const BAR: &str = "{spinner} {bar:20} {msg}";
const SPINNER: &str = "{spinner} {msg}";

/// Does something again and again, in a thread of its own, until it is dropped.
struct Ticker {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Calls `look` at every tick, with the time since the start and, once that is worth a word, the teller.
    fn start(
        template: &'static str,
        mut look: impl FnMut(Duration, Option<&mut Teller>) + Send + 'static,
    ) -> Ticker {
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut teller = Teller::new(template);
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let elapsed = started.elapsed();
                look(elapsed, Some(&mut teller).filter(|_| elapsed >= PATIENCE));
            }
            teller.end();
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
        let ticker = Ticker::start(BAR, move |elapsed, teller| {
            if orderly.asked() {
                monitor.cancel();
            }
            if let Some(teller) = teller {
                teller.tell(&monitor.progress(), elapsed, monitor.cancelled());
            }
        });
        Ok(Watch { _ticker: ticker })
    }
}

/// Tells what is being done, where there is no more to tell, until it is dropped.
pub(crate) struct Doing {
    what: Arc<Mutex<String>>,
    _ticker: Ticker,
}

impl Doing {
    pub(crate) fn start(what: impl Into<String>) -> Doing {
        let what = Arc::new(Mutex::new(what.into()));
        let told = Arc::clone(&what);
        let ticker = Ticker::start(SPINNER, move |elapsed, teller| {
            if let Some(teller) = teller {
                let what = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
                teller.say(elapsed, || format!("{what}, {} s so far", elapsed.as_secs()));
            }
        });
        Doing { what, _ticker: ticker }
    }

    /// Something else is being done now.
    pub(crate) fn now(&self, what: impl Into<String>) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }
}

/// Where it is told.
enum Teller {
    /// On a terminal, in place.
    Bar(ProgressBar),
    /// Elsewhere, in lines, the last one at this time.
    Lines(Duration),
}

impl Teller {
    /// With a bar where it is known how much there is to do.
    fn new(template: &str) -> Teller {
        if !std::io::stderr().is_terminal() {
            return Teller::Lines(Duration::ZERO);
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).expect("a template that is tested");
        bar.set_style(style);
        Teller::Bar(bar)
    }

    fn tell(&mut self, progress: &Progress, elapsed: Duration, cancelled: bool) {
        if let Teller::Bar(bar) = self {
            bar.set_length(progress.events);
            bar.set_position(progress.at);
        }
        self.say(elapsed, || {
            if cancelled { "ending, with what was found so far".into() } else { text(progress, elapsed) }
        });
    }

    fn say(&mut self, elapsed: Duration, text: impl FnOnce() -> String) {
        match self {
            Teller::Bar(bar) => {
                bar.set_message(text());
                bar.tick();
            }
            Teller::Lines(last) if elapsed - *last >= LINES => {
                *last = elapsed;
                eprintln!("crashproof: {}", text());
            }
            Teller::Lines(_) => {}
        }
    }

    fn end(&self) {
        if let Teller::Bar(bar) = self {
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
    // What is to come is like what was.
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
        let told = text(&progress, Duration::from_secs(2));
        assert!(told.contains("20 recoveries (10 a second)") && told.ends_with("about 6 s left"), "{told}");
    }
}
