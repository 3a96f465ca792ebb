//! A backup from a source in memory into a store in memory or in a directory, with something going wrong at each step.
//!
//! The clock is a parameter that the run asks at fixed points, so it is also the place where a test changes the store
//! under a run: the second time, the data is visible and the manifest is not.

#![allow(clippy::result_large_err, reason = "what a stream of a snapshot yields")]

mod interruption;
mod store;

use std::path::Path;
use std::sync::Mutex;

use age::secrecy::ExposeSecret;
use bronzenail_cli::Exit;
use bronzenail_format::{EvidenceLevel, Identities, OpenOptions, open};
use bronzenail_store::catalogue::{self, Catalogue};
use bronzenail_talos::{Call, Code};
use futures::stream;

use super::*;

const STAGES: usize = 3;

/// The operator's key: not the one of the process.
struct Key {
    recipients: Recipients,
    identities: Identities,
}

impl Key {
    fn new() -> Self {
        let key = age::x25519::Identity::generate();
        let recipients = Recipients::parse([("the test", key.to_public().to_string().as_str())]).unwrap();
        let identities = Identities::parse("the test", key.to_string().expose_secret()).unwrap();
        Self { recipients, identities }
    }
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../snapshot/fixtures");
    match std::fs::read(folder.join(format!("{name}.zst"))) {
        Ok(packed) => zstd::decode_all(packed.as_slice()).unwrap(),
        Err(_) => std::fs::read(folder.join(name)).unwrap(),
    }
}

fn whole() -> Vec<u8> {
    fixture("three-members-3.5.1.snap")
}

/// Pieces of an odd size: nothing may depend on where they end.
fn pieces(bytes: &[u8]) -> Vec<Result<Bytes, TalosError>> {
    bytes.chunks(7_919).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect()
}

fn failed(code: Code, received_bytes: u64) -> TalosError {
    let endpoint = "10.0.0.1".parse().unwrap();
    let call = Call { method: "EtcdSnapshot", endpoint, node: None, received_bytes: Some(received_bytes) };
    TalosError::Status { call, code, message: "context deadline exceeded".to_owned() }
}

fn making(key: &Key) -> Making {
    Making {
        cluster: "homelab".parse().unwrap(),
        prefix: "etcd".parse().unwrap(),
        label: Some("pre-upgrade".to_owned()),
        recipients: key.recipients.clone(),
        upload: UploadOptions::default(),
        compression: Compression { level: 3, workers: 0 },
        read_back: true,
    }
}

fn noon() -> DateTime<Utc> {
    DateTime::from_timestamp(1_780_000_000, 0).unwrap()
}

async fn make_with(
    making: Making,
    snapshot: impl Stream<Item = Result<Bytes, TalosError>>,
    store: &Store,
    clock: Clock<'_>,
) -> Result<Outcome, RunError> {
    let origin = Origin { taken_at: noon(), why: "it was asked for".to_owned(), ..Origin::default() };
    let (progress, interrupt) = (Progress::none(), Interrupt::default());
    let around = Around { progress: &progress, interrupt: &interrupt, clock, stopwatch: Stopwatch::new() };
    make(making, snapshot, origin, store, around).await
}

async fn make_of(bytes: &[u8], store: &Store) -> Result<Outcome, RunError> {
    make_with(making(&Key::new()), stream::iter(pieces(bytes)), store, &noon).await
}

async fn catalogue(store: &Store) -> Catalogue {
    catalogue::read(&store.reader(), &"etcd".parse().unwrap(), None).await.unwrap()
}

/// Nothing that a listing would show, and nothing invisible either.
async fn assert_empty(store: &Store) {
    assert_eq!(store.reader().list("").await.unwrap(), []);
    assert_eq!(store.remover().open_uploads("").await.unwrap(), []);
}

#[tokio::test]
async fn a_whole_snapshot_becomes_a_backup_that_its_key_opens() {
    let (key, store, plain) = (Key::new(), Store::memory(), whole());
    let outcome = make_with(making(&key), stream::iter(pieces(&plain)), &store, &noon).await.unwrap();

    let catalogue = catalogue(&store).await;
    assert_eq!((catalogue.entries.len(), catalogue.orphans.len(), catalogue.torn.len()), (1, 0, 0));
    assert_eq!(catalogue.entries[0].manifest, outcome.manifest);
    let stored = store.reader().read_small(&outcome.data_key, u64::MAX).await.unwrap();
    let mut opened = Vec::new();
    open(&stored[..], &mut opened, &key.identities, &OpenOptions::default()).unwrap();
    assert!(opened == plain);
    assert_eq!(store.remover().open_uploads("").await.unwrap(), []);

    let manifest = &outcome.manifest;
    let levels: Vec<EvidenceLevel> = manifest.evidence.iter().map(|evidence| evidence.level).collect();
    assert_eq!(levels, [EvidenceLevel::Streamed, EvidenceLevel::Stored, EvidenceLevel::ReadBack]);
    assert_eq!(manifest.plain.bytes, plain.len() as u64);
    assert_eq!(manifest.recipients, key.recipients.canonical());
    assert_eq!(manifest.label.as_deref(), Some("pre-upgrade"));
    assert!(manifest.read_back_stanza && manifest.contents.is_some());
    assert_eq!(manifest.id.taken_at(), noon());
    let stages: Vec<&str> = outcome.durations.iter().map(|(stage, _)| *stage).collect();
    assert_eq!(stages, ["stream", "complete", "read_back", "commit", "total"]);
}

#[tokio::test]
async fn the_manifest_is_the_last_thing_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::directory(folder.path()).await.unwrap();
    let seen = Mutex::new(Vec::new());
    let clock = || {
        seen.lock().unwrap().push(store::names(folder.path()));
        noon()
    };
    let outcome = make_with(making(&Key::new()), stream::iter(pieces(&whole())), &store, &clock).await.unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), STAGES);
    let visible = |at: usize| seen[at].iter().filter(|name| !name.starts_with('.')).cloned().collect::<Vec<_>>();
    let name = |key: &str| key.rsplit('/').next().unwrap().to_owned();
    assert!(visible(0).is_empty(), "the data is invisible until it is proven");
    assert_eq!(visible(1), [name(&outcome.data_key)]);
    assert_eq!(visible(2), [name(&outcome.data_key)], "read back before the commit");
    assert_eq!(store::names(folder.path()), [name(&outcome.data_key), name(&outcome.manifest_key)]);
}

#[tokio::test]
async fn without_read_back_the_evidence_says_so_and_no_other_key_opens_it() {
    let (key, store) = (Key::new(), Store::memory());
    let making = Making { read_back: false, ..making(&key) };
    let outcome = make_with(making, stream::iter(pieces(&whole())), &store, &noon).await.unwrap();
    assert_eq!(outcome.manifest.level(), Some(EvidenceLevel::Stored));
    assert!(!outcome.manifest.read_back_stanza);
    let stored = store.reader().read_small(&outcome.data_key, u64::MAX).await.unwrap();
    let header = String::from_utf8_lossy(&stored[..600]);
    assert_eq!(header.matches("-> X25519 ").count(), 1);
}

#[tokio::test]
async fn every_number_of_workers_gives_the_same_snapshot() {
    let plain = fixture("kubernetes-3.5.1.snap");
    for workers in [0, 1, 2] {
        let (key, store) = (Key::new(), Store::memory());
        let making = Making { compression: Compression { level: 1, workers }, ..making(&key) };
        let outcome = make_with(making, stream::iter(pieces(&plain)), &store, &noon).await.unwrap();
        assert_eq!(outcome.manifest.level(), Some(EvidenceLevel::ReadBack), "{workers} workers");
        assert_eq!(outcome.manifest.contents.unwrap().revision, 734);
    }
}

#[tokio::test]
async fn b01_snapshot_without_its_end_is_refused_although_the_stream_ended_well() {
    for missing in [1, 32, 33, 40_000] {
        let (store, whole) = (Store::memory(), whole());
        let error = make_of(&whole[..whole.len() - missing], &store).await.unwrap_err();
        assert!(matches!(error, RunError::NotProven { .. }), "{missing}: {error}");
        assert_eq!(error.exit(), Exit::Failed);
        assert_empty(&store).await;
    }
}

#[tokio::test]
async fn b03_an_error_in_the_middle_leaves_nothing_and_keeps_its_status() {
    let whole = fixture("kubernetes-3.5.1.snap");
    for part in [0, 1, whole.len() * 6 / 10, whole.len()] {
        let store = Store::memory();
        let mut stream = pieces(&whole[..part]);
        stream.push(Err(failed(Code::DeadlineExceeded, part as u64)));
        let error = make_with(making(&Key::new()), stream::iter(stream), &store, &noon).await.unwrap_err();
        let text = bronzenail_cli::report::error_text(&error, None);
        assert!(text.starts_with("error: could not take the snapshot\n  caused by: EtcdSnapshot on 10.0.0.1:50000"));
        assert!(text.contains("failed with DeadlineExceeded: context deadline exceeded"), "{text}");
        assert_eq!(error.exit(), Exit::Failed);
        assert_empty(&store).await;
    }
}

#[tokio::test]
async fn b06_a_damaged_database_is_refused_although_its_trailer_matches() {
    for name in
        ["damaged-key-order-resealed.snap", "damaged-page-twice-resealed.snap", "damaged-zero-page-resealed.snap"]
    {
        let store = Store::memory();
        let error = make_of(&fixture(name), &store).await.unwrap_err();
        assert!(error.hint().unwrap().contains("--node"), "{name}: {error}");
        assert_empty(&store).await;
    }
}

#[tokio::test]
async fn b07_what_is_no_snapshot_at_all_is_refused_without_a_panic() {
    let noise: Vec<u8> = (0..544u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let html = b"<html><body>502 Bad Gateway</body></html>".as_slice();
    let short = [0, 1, 31, 32, 33, 512, 544].map(|bytes| &noise[..bytes]);
    for bytes in short.into_iter().chain([html]) {
        let store = Store::memory();
        let error = make_of(bytes, &store).await.unwrap_err();
        assert!(matches!(error, RunError::NotProven { .. }), "{} bytes: {error}", bytes.len());
        assert_empty(&store).await;
    }
}

#[tokio::test]
async fn b10_a_raw_copy_of_the_database_is_refused() {
    let store = Store::memory();
    let error = make_of(&fixture("raw-copy-3.5.1.db"), &store).await.unwrap_err();
    assert!(bronzenail_cli::report::error_text(&error, None).contains("there is no trailing hash"));
    assert_empty(&store).await;
}

#[tokio::test]
async fn bytes_that_were_changed_on_the_way_are_refused() {
    let store = Store::memory();
    let mut bytes = whole();
    bytes[100_000] ^= 1;
    let error = make_of(&bytes, &store).await.unwrap_err();
    assert!(error.hint().unwrap().contains("bytes changed between etcd and here"));
    assert_empty(&store).await;
}

#[tokio::test]
async fn an_alarm_in_the_snapshot_is_a_warning_and_no_failure() {
    let store = Store::memory();
    let outcome = make_of(&fixture("leases-nospace-alarm-3.5.1.snap"), &store).await.unwrap();
    assert!(outcome.warnings.iter().any(|warning| warning.contains("NOSPACE")), "{:?}", outcome.warnings);
}

#[tokio::test]
async fn two_runs_in_the_same_second_never_harm_one_another() {
    let store = Store::memory();
    let (one, two) = (whole(), fixture("empty-3.5.1.snap"));
    let (first, second) = tokio::join!(make_of(&one, &store), make_of(&two, &store));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.manifest.id.taken_at(), second.manifest.id.taken_at());
    assert_ne!(first.data_key, second.data_key);
    let catalogue = catalogue(&store).await;
    assert_eq!((catalogue.entries.len(), catalogue.orphans.len(), catalogue.torn.len()), (2, 0, 0));
}

#[tokio::test]
async fn a_name_that_is_taken_is_passed_over() {
    let store = Store::memory();
    let interrupt = Interrupt::default();
    let cluster = || ("homelab".parse().unwrap(), noon());
    let taken = Job::new(store.append(), Prefix::default(), cluster(), || [1; 3], &interrupt).await.unwrap();
    store.append().create(&taken.data_key(), Bytes::from_static(b"older")).await.unwrap();

    let next = Mutex::new([[1; 3], [1; 3], [2; 3]].into_iter());
    let random = || next.lock().unwrap().next().unwrap();
    let job = Job::new(store.append(), Prefix::default(), cluster(), random, &interrupt).await.unwrap();
    assert!(job.data_key().ends_with("-020202.snap.zst.age"), "{}", job.data_key());

    let none = Job::new(store.append(), Prefix::default(), cluster(), || [1; 3], &interrupt).await;
    assert!(matches!(none.err(), Some(RunError::NoName { .. })));
}
