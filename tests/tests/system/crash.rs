//! Ends of a run that nobody chose: killed at any point, a backup is whole or does not exist.

use std::path::Path;
use std::time::Duration;

use bronzenail_lab::ceph::Rgw;
use bronzenail_lab::process::{Output, Program, Running};
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::skip;
use bronzenail_store::{S3Options, Store};

/// How far a run may get before the signal comes.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// So many bytes of the snapshot are on their way.
    Bytes(u64),
    /// The program says on standard error that this stage begins.
    Stage(&'static str),
}

const SNAPSHOT_BYTES: u64 = 839_712;

/// Twenty points: from before the first byte over all of the stream to the stages behind it.
fn points() -> Vec<Point> {
    let mut points: Vec<Point> = (0..16).map(|n| Point::Bytes(n * SNAPSHOT_BYTES / 15)).collect();
    points.extend(
        ["asking the store what it has", "reading it back", "committing", "connecting to Talos"].map(Point::Stage),
    );
    points
}

/// Waits for the point; ends too when the program does.
async fn reach(point: Point, rig: &Rig, calls_before: usize, running: &Running, told: &Path) {
    for _ in 0..15_000 {
        let reached = match point {
            Point::Bytes(bytes) => {
                let calls = rig.emulator.calls();
                let last = calls[calls_before..].iter().find(|call| call.method == "EtcdSnapshot");
                last.is_some_and(|call| call.bytes_sent >= bytes.min(SNAPSHOT_BYTES - 1_024))
            }
            Point::Stage(stage) => std::fs::read_to_string(told).unwrap_or_default().contains(stage),
        };
        if reached || !Path::new(&format!("/proc/{}/exe", running.id())).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{point:?} was never reached");
}

/// The program with its standard error in a file, so that its stages can be seen as they come.
fn told_to(program: Program, path: &Path) -> Program {
    let told = path.display();
    Program::at("/bin/sh").args(["-c", &format!("exec \"$0\" \"$@\" 2>'{told}'")]).wrapping(&program)
}

async fn interrupt_everywhere(rig: &Rig, program: &Program, store: &Store, signal: &str) {
    for (number, point) in points().into_iter().enumerate() {
        let told = rig.path(&format!("told-{signal}-{number}"));
        let calls_before = rig.emulator.calls().len();
        let running = told_to(program.clone(), &told).spawn().unwrap();
        reach(point, rig, calls_before, &running, &told).await;
        // It may have ended by itself meanwhile; then there is nobody to signal.
        let _ = running.signal(signal);
        let output = running.wait().await.unwrap();
        check(signal, point, &output, &told, store).await;
    }
}

async fn check(signal: &str, point: Point, output: &Output, told: &Path, store: &Store) {
    let said = std::fs::read_to_string(told).unwrap_or_default();
    let what = format!("{signal} at {point:?}: {output:?} {said}");
    let catalogue = rig::catalogue(store).await;
    assert!(catalogue.torn.is_empty(), "a manifest without data: {what}");
    let before: Vec<String> = catalogue.entries.iter().map(|entry| entry.id().to_string()).collect();
    match (output.code, output.signal) {
        (Some(0), None) => assert!(!before.is_empty(), "{what}"),
        // In the middle of the commit the manifest may have been written; everything else leaves none.
        (None, Some(9)) => assert!(before.is_empty() || said.contains("committing"), "{what}"),
        // 15: before the program could say that it wants to hear of it, and then it has done nothing yet.
        (Some(130), None) | (None, Some(15)) => {
            assert!(before.is_empty(), "{what}");
            let open = store.remover().open_uploads("").await.unwrap();
            assert!(open.is_empty(), "{open:?} {what}");
        }
        _ => panic!("{what}"),
    }
    // The next point begins with an empty place.
    for object in store.reader().list("").await.unwrap() {
        store.remover().remove(&object.key).await.unwrap();
    }
    for upload in store.remover().open_uploads("").await.unwrap() {
        store.remover().abort_open_upload(&upload).await.unwrap();
    }
}

async fn paced() -> Rig {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    // Slow enough that a signal comes where it is meant to.
    rig.emulator.set_pace(Some(4_000_000));
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_into_a_directory_that_is_killed_anywhere_is_whole_or_nothing() {
    let rig = paced().await;
    let program = rig.backup_to_directory();
    let store = rig.directory().await;
    for signal in ["KILL", "TERM"] {
        interrupt_everywhere(&rig, &program, &store, signal).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_into_a_bucket_that_is_killed_anywhere_is_whole_or_nothing() {
    let rgw = match Rgw::from_env() {
        Ok(rgw) => rgw,
        Err(why) => return skip("kills during a run into a Ceph RGW", why),
    };
    let bucket = rgw.fresh_bucket("crash").await.unwrap();
    let rig = paced().await;
    let endpoint = format!("http://{}", rgw.address().unwrap());
    let program = rig
        .backup()
        .args(["--bucket", &bucket, "--s3-endpoint", &endpoint])
        .env("AWS_ACCESS_KEY_ID", &rgw.keys.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &rgw.keys.secret_key);
    let store = Store::s3(S3Options { endpoint: Some(endpoint), ..S3Options::new(bucket) }).await.unwrap();
    for signal in ["KILL", "TERM"] {
        interrupt_everywhere(&rig, &program, &store, signal).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b62_runs_at_once_never_harm_one_another() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let program = rig.backup_to_directory();
    let runs = futures::future::join_all((0..4).map(|_| program.run())).await;
    for run in runs {
        run.unwrap().assert_code(0);
    }
    let catalogue = rig::catalogue(&rig.directory().await).await;
    assert_eq!((catalogue.entries.len(), catalogue.torn.len(), catalogue.orphans.len()), (4, 0, 0));
    for entry in &catalogue.entries {
        let stored = std::fs::read(rig.path("store").join(&entry.data.key)).unwrap();
        assert!(rig.open(&stored).1.is_proven());
    }
}
