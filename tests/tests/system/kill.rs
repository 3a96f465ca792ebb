//! Killed while a certain request is under way: a front before the real store holds it, so that no signal misses its point.
//!
//! Invariant: a backup is whole or does not exist. It exists only if the request that writes the manifest reached the store,
//! and after a SIGTERM the store has no upload that is still open.

use std::time::Duration;

use bronzenail_lab::ceph::Rgw;
use bronzenail_lab::front::{Action, Front, FrontOptions, Gate, Moment, Operation, Rule};
use bronzenail_lab::process::Output;
use bronzenail_lab::rig::Rig;
use bronzenail_lab::skip;

use super::bucket::large;

const PATIENCE: Duration = Duration::from_secs(60);

/// A request of a run, and how far it has come when the signal arrives.
#[derive(Clone, Copy, Debug)]
struct Point {
    operation: Operation,
    /// Which request of this kind; of parts, the part's number.
    nth: u32,
    moment: Moment,
}

/// Twenty points from the first request of a run to its last, on both sides of what the store does.
fn points() -> Vec<Point> {
    let requests = [
        (Operation::HeadObject, 1),
        (Operation::CreateMultipartUpload, 1),
        (Operation::UploadPart, 1),
        (Operation::UploadPart, 2),
        (Operation::UploadPart, 3),
        (Operation::CompleteMultipartUpload, 1),
        (Operation::HeadObject, 2),
        (Operation::GetObject, 1),
        (Operation::PutObject, 1),
    ];
    let moments = [Moment::BodyRead, Moment::StoreAnswered];
    let both = |(operation, nth)| moments.map(|moment| Point { operation, nth, moment });
    let mut points: Vec<Point> = requests.into_iter().flat_map(both).collect();
    // With a body that is still on its way.
    let arrived = |nth| Point { operation: Operation::UploadPart, nth, moment: Moment::Arrived };
    points.extend([arrived(1), arrived(2)]);
    assert_eq!(points.len(), 20);
    points
}

impl Point {
    fn rule(self, gate: &Gate) -> Rule {
        let rule = Rule::new(Action::Hold(self.moment, gate.clone())).on(self.operation);
        match self.operation {
            Operation::UploadPart => rule.on_part(self.nth),
            _ => rule.nth(u64::from(self.nth)),
        }
    }

    fn has_written_the_manifest(self) -> bool {
        self.operation == Operation::PutObject && self.moment == Moment::StoreAnswered
    }

    /// What a SIGTERM does not cut but waits for.
    fn is_waited_for(self) -> bool {
        matches!(self.operation, Operation::CreateMultipartUpload | Operation::PutObject)
    }
}

async fn killed_at(point: Point, signal: &str, rgw: &Rgw, rig: &Rig) {
    let bucket = rgw.fresh_bucket(&format!("kill-{signal}")).await.unwrap();
    let gate = Gate::closed();
    let options = FrontOptions::before(rgw.address().unwrap()).rule(point.rule(&gate));
    let front = Front::start(options).await.unwrap();
    let program = rig
        .backup()
        .args(["--bucket", &bucket, "--s3-endpoint", &front.endpoint(), "--part-size", "5MiB"])
        .env("AWS_ACCESS_KEY_ID", &rgw.keys.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &rgw.keys.secret_key);
    let running = program.spawn().unwrap();
    gate.arrival(PATIENCE).await.unwrap_or_else(|_| panic!("{point:?} was never reached"));
    running.signal(signal).unwrap();
    if signal == "TERM" && point.is_waited_for() {
        gate.open();
    }
    let output = running.wait().await.unwrap();
    let what = format!("SIG{signal} at {point:?}: {output:?}");
    match signal {
        "KILL" => assert_eq!(output.signal, Some(9), "{what}"),
        _ if point.operation == Operation::PutObject => assert_eq!(output.code, Some(0), "{what}"),
        _ => assert_eq!(output.code, Some(130), "{what}"),
    }
    check(point, signal, &output, rgw, &bucket, rig).await;
}

/// Asks the real store itself, with a plain client, what there is.
async fn check(point: Point, signal: &str, output: &Output, rgw: &Rgw, bucket: &str, rig: &Rig) {
    let what = format!("SIG{signal} at {point:?}: {output:?}");
    let client = rgw.client();
    let listed = client.list_objects_v2().bucket(bucket).send().await.unwrap();
    let keys: Vec<&str> = listed.contents().iter().filter_map(|object| object.key()).collect();
    let manifests = keys.iter().filter(|key| key.ends_with(".json")).count();
    let data = keys.iter().find(|key| key.ends_with(".snap.zst.age"));

    let is_committed = output.code == Some(0) || point.has_written_the_manifest();
    assert_eq!(manifests, usize::from(is_committed), "{keys:?} {what}");
    if is_committed {
        let data = data.unwrap_or_else(|| panic!("a manifest without data: {what}"));
        let got = client.get_object().bucket(bucket).key(*data).send().await.unwrap();
        let stored = got.body.collect().await.unwrap().into_bytes();
        assert!(rig.open(&stored).1.is_proven(), "{what}");
    }
    let uploads = client.list_multipart_uploads().bucket(bucket).send().await.unwrap();
    if signal == "TERM" {
        assert!(uploads.uploads().is_empty(), "{:?} {what}", uploads.uploads());
        assert!(output.code == Some(0) || output.stderr.contains("SIGTERM"), "{what}");
    }
    for key in keys {
        client.delete_object().bucket(bucket).key(key).send().await.unwrap();
    }
    for upload in uploads.uploads() {
        let (key, id) = (upload.key().unwrap(), upload.upload_id().unwrap());
        client.abort_multipart_upload().bucket(bucket).key(key).upload_id(id).send().await.unwrap();
    }
}

async fn killed_everywhere(signal: &str) {
    let rgw = match Rgw::from_env() {
        Ok(rgw) => rgw,
        Err(why) => return skip(format!("SIG{signal} during every request to a Ceph RGW"), why),
    };
    let Some(snapshot) = large().await else { return };
    let rig = Rig::of_bytes(snapshot).await;
    for point in points() {
        killed_at(point, signal, &rgw, &rig).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_sigkill_during_any_request_leaves_a_whole_backup_or_none() {
    killed_everywhere("KILL").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_sigterm_during_any_request_leaves_a_whole_backup_or_none_and_no_upload() {
    killed_everywhere("TERM").await;
}
