//! How long each stage took.

use std::time::{Duration, Instant};

/// Durations of stages.
pub(super) struct Stopwatch {
    begun: Instant,
    last: Instant,
    laps: Vec<(&'static str, Duration)>,
}

impl Stopwatch {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { begun: now, last: now, laps: Vec::new() }
    }

    pub(super) fn lap(&mut self, stage: &'static str) {
        let now = Instant::now();
        self.laps.push((stage, now - self.last));
        self.last = now;
    }

    pub(super) fn finish(mut self) -> Vec<(&'static str, Duration)> {
        self.laps.push(("total", self.begun.elapsed()));
        self.laps
    }
}
