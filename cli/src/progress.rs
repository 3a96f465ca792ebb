//! Progress of long work: a bar on a terminal, a plain line now and then in a pod, nothing where nobody looks.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::units;

/// Often enough to see that it lives, rarely enough for a log.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Where progress goes.
#[derive(Debug)]
pub struct Progress(Kind);

#[derive(Debug)]
enum Kind {
    Bar(ProgressBar),
    Lines(Mutex<Lines>),
    None,
}

#[derive(Debug)]
struct Lines {
    stage: String,
    begun: Instant,
    last: Instant,
}

impl Progress {
    /// What suits standard error: a bar, or lines.
    pub fn for_stderr() -> Self {
        if !std::io::stderr().is_terminal() {
            let now = Instant::now();
            return Self(Kind::Lines(Mutex::new(Lines { stage: String::new(), begun: now, last: now })));
        }
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {bytes}  {bytes_per_sec}  {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(Kind::Bar(bar))
    }

    /// None at all.
    pub fn none() -> Self {
        Self(Kind::None)
    }

    /// A new stage begins, at zero bytes.
    pub fn stage(&self, stage: &str) {
        match &self.0 {
            Kind::Bar(bar) => {
                bar.reset();
                bar.set_message(stage.to_owned());
            }
            Kind::Lines(lines) => {
                let now = Instant::now();
                eprintln!("{stage}");
                if let Ok(mut lines) = lines.lock() {
                    *lines = Lines { stage: stage.to_owned(), begun: now, last: now };
                }
            }
            Kind::None => {}
        }
    }

    /// So many bytes of the stage are done.
    pub fn bytes(&self, bytes: u64) {
        match &self.0 {
            Kind::Bar(bar) => bar.set_position(bytes),
            Kind::Lines(lines) => {
                let Ok(mut lines) = lines.lock() else { return };
                if lines.last.elapsed() >= LINE_INTERVAL {
                    lines.last = Instant::now();
                    let elapsed = units::duration(lines.begun.elapsed());
                    eprintln!("{}: {} in {elapsed}", lines.stage, units::bytes(bytes));
                }
            }
            Kind::None => {}
        }
    }

    /// Clears the bar, so that what follows stands on clean lines.
    pub fn finish(&self) {
        if let Kind::Bar(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
