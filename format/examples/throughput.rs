//! Prints how fast sealing and opening are, as ratios to plain SHA-256 over the same bytes in the same run.
//!
//! `cargo run --release -p bronzenail-format --example throughput -- [FILE]`: with a file, its bytes are sealed, and a real
//! snapshot is what to give; without one, 256 MiB of text that is about as dense as Kubernetes objects in etcd are.
//! Speeds on a shared machine mean little; ratios within one run mean something. Nothing here is a test.

#![allow(clippy::unwrap_used)]

use std::io;
use std::time::Instant;

use bronzenail_format::{OneTimeIdentity, OpenOptions, Recipients, SealOptions, open, seal};
use sha2::{Digest, Sha256};

const PLAIN_BYTES: usize = 256 * 1024 * 1024;
const ROUNDS: usize = 3;

fn main() {
    let plain = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read(path).unwrap(),
        None => objects(PLAIN_BYTES),
    };
    let mib = plain.len() as f64 / f64::from(1 << 20);
    let hash_seconds = best_seconds(|| std::hint::black_box(Sha256::digest(&plain)));
    println!("{mib:.0} MiB of plain bytes, the best of {ROUNDS} rounds each");
    println!("{:<28} {:>8} {:>8} {:>10}", "what", "MiB/s", "ratio", "stored");
    println!("{:<28} {:>8.0} {:>8.2}", "SHA-256 alone", mib / hash_seconds, 1.0);
    let report = |what: &str, seconds: f64, stored_bytes: usize| {
        let stored = stored_bytes as f64 / f64::from(1 << 20);
        println!("{what:<28} {:>8.0} {:>8.2} {stored:>6.0} MiB", mib / seconds, hash_seconds / seconds);
    };

    let one_time = OneTimeIdentity::generate();
    let recipients = Recipients::parse([("example", a_recipient().as_str())]).unwrap();
    let mut stored = Vec::new();
    for (level, workers) in [(1, 0), (3, 0), (3, 1), (3, 2)] {
        let options = SealOptions { recipients: &recipients, one_time: Some(&one_time), level, workers };
        let seconds = best_seconds(|| {
            stored.clear();
            seal(plain.as_slice(), &mut stored, &options).unwrap()
        });
        report(&format!("seal, level {level}, {workers} workers"), seconds, stored.len());
    }
    let identities = one_time.identities();
    let seconds = best_seconds(|| open(stored.as_slice(), io::sink(), &identities, &OpenOptions::default()).unwrap());
    report("open", seconds, stored.len());
}

fn best_seconds<T>(mut round: impl FnMut() -> T) -> f64 {
    let one = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(one).fold(f64::INFINITY, f64::min)
}

fn a_recipient() -> String {
    age::x25519::Identity::generate().to_public().to_string()
}

/// Text with the mix of etcd's Kubernetes objects: much that repeats, and identifiers that do not.
fn objects(len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 1024);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut count = 0u64;
    while bytes.len() < len {
        // xorshift: no two runs differ.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        count += 1;
        let (id, hash) = (state, state.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let object = format!(
            "/registry/pods/team-{}/worker-{count}\0k8s\0{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"worker-{count}\",\
             \"uid\":\"{id:016x}-{hash:016x}\",\"resourceVersion\":\"{count}\",\"labels\":{{\"app\":\"worker\",\"pod-template-hash\":\"{:08x}\"}}}},\
             \"spec\":{{\"containers\":[{{\"name\":\"main\",\"image\":\"registry.example/worker@sha256:{hash:016x}{id:016x}\",\
             \"terminationMessagePath\":\"/dev/termination-log\",\"imagePullPolicy\":\"IfNotPresent\"}}],\"restartPolicy\":\"Always\"}},\
             \"status\":{{\"phase\":\"Running\",\"podIP\":\"10.{}.{}.{}\"}}}}",
            id % 40,
            id as u32,
            id as u8,
            (id >> 8) as u8,
            (id >> 16) as u8
        );
        bytes.extend_from_slice(object.as_bytes());
    }
    bytes.truncate(len);
    bytes
}
