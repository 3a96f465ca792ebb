//! Several runs at once of one cluster into one place of a real store: each has a backup of its own.

use std::collections::BTreeSet;

use bronzenail_format::Manifest;
use bronzenail_lab::ceph::Rgw;
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::skip;
use sha2::{Digest, Sha256};

const RUNS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn b62_four_runs_at_once_into_one_bucket_are_four_whole_backups() {
    let rgw = match Rgw::from_env() {
        Ok(rgw) => rgw,
        Err(why) => return skip("four runs at once into a Ceph RGW", why),
    };
    let bucket = rgw.fresh_bucket("together").await.unwrap();
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let program = rig
        .backup()
        .args(["--bucket", &bucket, "--s3-endpoint", &rgw.endpoint])
        .env("AWS_ACCESS_KEY_ID", &rgw.keys.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &rgw.keys.secret_key);
    let runs = futures::future::join_all((0..RUNS).map(|_| program.run())).await;
    let manifests: Vec<Manifest> = runs.into_iter().map(|run| run.unwrap().assert_code(0).manifest()).collect();
    let ids: BTreeSet<String> = manifests.iter().map(|manifest| manifest.id.to_string()).collect();
    assert_eq!(ids.len(), RUNS, "{ids:?}");

    let client = rgw.client();
    let listed = client.list_objects_v2().bucket(&bucket).send().await.unwrap();
    let keys: Vec<&str> = listed.contents().iter().filter_map(|object| object.key()).collect();
    assert_eq!(keys.len(), 2 * RUNS, "{keys:?}");
    let fetch = |key: String| {
        let get = client.get_object().bucket(&bucket).key(key);
        async move { get.send().await.unwrap().body.collect().await.unwrap().into_bytes() }
    };
    for manifest in &manifests {
        let key_of = |end: &str| {
            let name = format!("{}{end}", manifest.id);
            (*keys.iter().find(|key| key.ends_with(&name)).unwrap_or_else(|| panic!("no {name} in {keys:?}")))
                .to_owned()
        };
        let written = Manifest::from_json(&fetch(key_of(".snap.zst.age.json")).await).unwrap();
        assert_eq!(&written, manifest, "each run's document is the manifest that it wrote");
        let stored = fetch(key_of(".snap.zst.age")).await;
        // Each has keys of its own inside, so that one run's data under another's name would show here.
        let digest: String = Sha256::digest(&stored).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, manifest.stored.sha256.to_string());
        assert!(rig.open(&stored).0 == rig::fixture_snapshot());
    }
    let uploads = client.list_multipart_uploads().bucket(&bucket).send().await.unwrap();
    assert!(uploads.uploads().is_empty(), "{:?}", uploads.uploads());
}
