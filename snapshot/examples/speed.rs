//! Prints how fast a file is checked, beside what its SHA-256 alone costs in the same run.
//!
//! `cargo run --release -p bronzenail-snapshot --example speed -- FILE [ROUNDS]`. The file is read into memory first, and
//! handed over in pieces of 128 KiB, as the stream from a node is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bronzenail_snapshot::StreamCheck;
use sha2::{Digest, Sha256};

const PIECE_BYTES: usize = 128 << 10;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        return Err(std::io::Error::other("usage: speed FILE [ROUNDS]"));
    };
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let bytes = std::fs::read(path)?;

    let sha256 = best_of(rounds, || {
        let mut hasher = Sha256::new();
        bytes.chunks(PIECE_BYTES).for_each(|piece| hasher.update(piece));
        black_box(hasher.finalize());
    });
    let check = best_of(rounds, || {
        let mut check = StreamCheck::new();
        bytes.chunks(PIECE_BYTES).for_each(|piece| check.update(piece));
        black_box(check.finish());
    });

    let mut last = StreamCheck::new();
    last.update(&bytes);
    let report = last.finish();
    println!("{}: {}", report.verdict.name(), report.verdict);
    println!("sha-256 alone  {:>8.0} MiB/s", mib_per_second(bytes.len(), sha256));
    println!("whole check    {:>8.0} MiB/s", mib_per_second(bytes.len(), check));
    println!("check / hash   {:>8.2}", check.as_secs_f64() / sha256.as_secs_f64());
    Ok(())
}

fn best_of(rounds: u32, mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..rounds.max(1)).map(once).min().unwrap_or_default()
}

fn mib_per_second(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 20) / time.as_secs_f64()
}
