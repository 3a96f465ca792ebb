//! Progress of long work: a bar on a terminal, a plain line now and then in a pod, nothing where nobody looks.
//!
//! Invariant: progress never fails the work, not even where standard error is closed.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::log::{Format, json};
use crate::output::talk;
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
    format: Format,
    stage: String,
    begun: Instant,
    last: Instant,
}

impl Progress {
    /// What suits standard error: a bar, or lines in the format of the log.
    pub fn for_stderr(format: Format) -> Self {
        if !std::io::stderr().is_terminal() || format == Format::Json {
            let now = Instant::now();
            return Self(Kind::Lines(Mutex::new(Lines { format, stage: String::new(), begun: now, last: now })));
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
                let Ok(mut lines) = lines.lock() else { return };
                let now = Instant::now();
                *lines = Lines { format: lines.format, stage: stage.to_owned(), begun: now, last: now };
                talk(&lines.begin());
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
                    talk(&lines.done(bytes, lines.begun.elapsed()));
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

impl Lines {
    fn begin(&self) -> String {
        match self.format {
            Format::Text => format!("{}\n", self.stage),
            Format::Json => json::line("info", object([("stage", self.stage.as_str().into())])),
        }
    }

    fn done(&self, bytes: u64, elapsed: Duration) -> String {
        let Self { stage, .. } = self;
        match self.format {
            Format::Text => format!("{stage}: {} in {}\n", units::bytes(bytes), units::duration(elapsed)),
            Format::Json => {
                let seconds = elapsed.as_secs_f64();
                let stage = stage.as_str().into();
                json::line("info", object([("stage", stage), ("bytes", bytes.into()), ("seconds", seconds.into())]))
            }
        }
    }
}

fn object<const N: usize>(fields: [(&str, serde_json::Value); N]) -> serde_json::Map<String, serde_json::Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_the_format_of_the_log() {
        let now = Instant::now();
        let lines = |format| Lines { format, stage: "taking the snapshot".to_owned(), begun: now, last: now };
        let text = lines(Format::Text);
        assert_eq!(text.begin(), "taking the snapshot\n");
        assert_eq!(text.done(8 << 20, Duration::from_secs(12)), "taking the snapshot: 8.0 MiB in 12 s\n");
        let json = lines(Format::Json);
        let line: serde_json::Value = serde_json::from_str(&json.begin()).unwrap();
        assert_eq!((&line["level"], &line["stage"]), (&"info".into(), &"taking the snapshot".into()));
        let line: serde_json::Value = serde_json::from_str(&json.done(1, Duration::from_secs(1))).unwrap();
        assert_eq!((&line["bytes"], &line["seconds"]), (&1.into(), &1.0.into()));
    }
}
