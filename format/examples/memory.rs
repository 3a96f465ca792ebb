//! Prints the peak memory of sealing a long stream, which must not depend on how long it is.
//!
//! `cargo run --release -p bronzenail-format --example memory -- [MIB] [LEVEL] [WORKERS]` (default 1024 3 2), on Linux.

#![allow(clippy::unwrap_used)]

use std::io::{self, Read};

use bronzenail_format::{OneTimeIdentity, Recipients, SealOptions, seal};

/// Longer than any window up to level 16, so that the second round does not compress to nothing.
const BLOCK_BYTES: usize = 6 * 1024 * 1024;

fn main() {
    let argument = |n: usize, default: u32| std::env::args().nth(n).map_or(default, |text| text.parse().unwrap());
    let (mib, level, workers) = (argument(1, 1024), argument(2, 3), argument(3, 2));

    let recipient = age::x25519::Identity::generate().to_public().to_string();
    let recipients = Recipients::parse([("example", recipient.as_str())]).unwrap();
    let one_time = OneTimeIdentity::generate();
    let options = SealOptions { recipients: &recipients, one_time: Some(&one_time), level: level as i32, workers };
    let source = Cycle { block: block(), at: 0 }.take(u64::from(mib) << 20);
    let sealed = seal(source, io::sink(), &options).unwrap();

    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak_kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap();
    println!(
        "{mib} MiB, level {level}, {workers} workers: {} MiB stored, peak {:.1} MiB, of which {} are the source's own",
        sealed.stored_bytes >> 20,
        peak_kib as f64 / 1024.0,
        BLOCK_BYTES >> 20
    );
}

struct Cycle {
    block: Vec<u8>,
    at: usize,
}

impl Read for Cycle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&self.block[self.at..]).read(buffer)?;
        self.at = (self.at + read) % self.block.len();
        Ok(read)
    }
}

/// Hex text of a xorshift generator: it halves, and no more.
fn block() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut block = Vec::with_capacity(BLOCK_BYTES + 16);
    while block.len() < BLOCK_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(format!("{state:016x}").as_bytes());
    }
    block
}
