//! What the program is judged by: a real etcd, a real S3 server, stock tools, and no more power than is documented.

use std::path::Path;
use std::process::{Command, Stdio};

use bronzenail_lab::ceph::Rgw;
use bronzenail_lab::emulator::{Backend, EmulatorOptions};
use bronzenail_lab::etcd::{self, Etcd};
use bronzenail_lab::process::Program;
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::s3::{S3Keys, client};
use bronzenail_lab::skip;
use bronzenail_snapshot::StreamCheck;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/permissions");

fn rgw(what: &str) -> Option<Rgw> {
    match Rgw::from_env() {
        Ok(rgw) => Some(rgw),
        Err(why) => {
            skip(what, why);
            None
        }
    }
}

async fn real_etcd(what: &str) -> Option<Etcd> {
    match Etcd::start().await {
        Ok(etcd) => Some(etcd),
        Err(error) if error.is_not_installed() => {
            skip(what, "no etcd");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        skip(format!("a check with stock {program}"), format!("no {program}"));
    }
    found.is_ok()
}

fn into_bucket(rig: &Rig, rgw: &Rgw, keys: &S3Keys, bucket: &str) -> Program {
    rig.backup()
        .args(["--bucket", bucket, "--s3-endpoint", &format!("http://{}", rgw.address().unwrap())])
        .env("AWS_ACCESS_KEY_ID", &keys.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &keys.secret_key)
}

/// Fetches the one data object of a bucket.
async fn fetch_data(rgw: &Rgw, bucket: &str, to: &Path) {
    let client = rgw.client();
    let listed = client.list_objects_v2().bucket(bucket).send().await.unwrap();
    let key = listed.contents().iter().filter_map(|object| object.key()).find(|key| key.ends_with(".age")).unwrap();
    let got = client.get_object().bucket(bucket).key(key).send().await.unwrap();
    std::fs::write(to, got.body.collect().await.unwrap().into_bytes()).unwrap();
}

/// `age -d -i IDENTITY STORED | zstd -d > PLAIN`, as the documents tell an operator.
fn open_with_stock_tools(identity: &Path, stored: &Path, plain: &Path) {
    let script = "set -e; age -d -i \"$1\" \"$2\" | zstd -q -d > \"$3\"";
    let status =
        Command::new("bash").args(["-o", "pipefail", "-c", script, "sh"]).args([identity, stored, plain]).status();
    assert!(status.unwrap().success());
}

/// `etcdutl snapshot status -w json`: hash, revision, totalKey, totalSize.
fn status(etcdutl: &str, snapshot: &Path) -> serde_json::Value {
    let output = Command::new(etcdutl).args(["snapshot", "status", "-w", "json"]).arg(snapshot).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_fifty_thousand_keys_opens_with_stock_tools_and_starts_a_real_etcd() {
    let Some(rgw) = rgw("a backup of a real etcd into a Ceph RGW") else { return };
    let Some(etcd) = real_etcd("a backup of a real etcd into a Ceph RGW").await else { return };
    if !installed("age") || !installed("zstd") {
        return;
    }
    let filled = etcd.client().fill(50_000, 200).await.unwrap();
    let rig = Rig::of(EmulatorOptions::new(Backend::Etcd(etcd.client_url().to_owned()))).await;
    let bucket = rgw.fresh_bucket("judged").await.unwrap();
    let output = into_bucket(&rig, &rgw, &rgw.keys, &bucket).run().await.unwrap();
    let manifest = output.assert_code(0).manifest();

    let (stored, plain, direct) = (rig.path("stored.age"), rig.path("plain.snap"), rig.path("direct.snap"));
    fetch_data(&rgw, &bucket, &stored).await;
    open_with_stock_tools(&rig.identity_file, &stored, &plain);
    let mut check = StreamCheck::new();
    check.update(&std::fs::read(&plain).unwrap());
    assert!(check.finish().is_proven());

    let contents = manifest.contents.as_ref().unwrap();
    assert_eq!((contents.live_keys, contents.revision), (Some(filled.live_keys), filled.revision));
    assert_eq!(contents.compact_revision, Some(filled.compact_revision));
    match std::env::var("BRONZENAIL_LAB_ETCDUTL") {
        Ok(etcdutl) => {
            // Nothing was written since, so etcd itself would give the same snapshot.
            std::fs::write(&direct, etcd.client().snapshot().await.unwrap()).unwrap();
            let ours = status(&etcdutl, &plain);
            assert_eq!(ours, status(&etcdutl, &direct));
            assert_eq!(ours["revision"], contents.revision);
            assert_eq!(ours["totalKey"], contents.pairs);
            assert_eq!(format!("{:08x}", ours["hash"].as_u64().unwrap()), contents.status_hash);
        }
        Err(_) => skip("a comparison with etcdutl snapshot status", "BRONZENAIL_LAB_ETCDUTL names none"),
    }

    let restored = etcd::restore(&plain).await.unwrap();
    assert_eq!(restored.client().count(b"/registry/lab/").await.unwrap(), filled.live_keys);
    let hash = |etcd: &Etcd| {
        let client = etcd.client();
        async move { client.hash_kv(filled.revision).await.unwrap() }
    };
    let (before, after) = (hash(&etcd).await, hash(&restored).await);
    assert_eq!((before.hash, before.compact_revision), (after.hash, after.compact_revision));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_permissions_are_enough_and_no_more() {
    let Some(rgw) = rgw("a run with the documented permissions") else { return };
    let bucket = rgw.fresh_bucket("permissions").await.unwrap();
    let user = rgw.fresh_user("backup").unwrap();
    let policy = std::fs::read_to_string(format!("{DOCS}/s3-backup-policy.json")).unwrap();
    let mut policy: serde_json::Value =
        serde_json::from_str(&policy.replace("BUCKET", &bucket).replace("PREFIX", "etcd")).unwrap();
    // An IAM policy belongs to a user already; the same statement in a bucket's policy must name the user.
    policy["Statement"][0]["Principal"] = serde_json::json!({ "AWS": [user.arn()] });
    rgw.set_policy(&bucket, &policy.to_string()).await.unwrap();

    let account = std::fs::read_to_string(format!("{DOCS}/talos-service-account.yaml")).unwrap();
    let roles: Vec<&str> = account.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    assert_eq!(roles, ["os:etcd:backup"]);

    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    rig.write_talosconfig(&roles);
    let run = into_bucket(&rig, &rgw, &user.keys, &bucket).args(["--prefix", "etcd"]);
    let output = run.run().await.unwrap();
    assert_eq!(output.assert_code(0).manifest().evidence.len(), 3);

    let as_user = client(&format!("http://{}", rgw.address().unwrap()), &user.keys);
    let listed = rgw.client().list_objects_v2().bucket(&bucket).send().await.unwrap();
    assert_eq!(listed.contents().len(), 2);
    for object in listed.contents() {
        let key = object.key().unwrap();
        assert!(as_user.delete_object().bucket(&bucket).key(key).send().await.is_err(), "the key can delete {key}");
    }
    assert!(as_user.list_objects_v2().bucket(&bucket).send().await.is_err(), "the key can list");
    let elsewhere = into_bucket(&rig, &rgw, &user.keys, &bucket).args(["--prefix", "other"]).run().await.unwrap();
    assert!(elsewhere.assert_code(1).stderr.contains("docs/permissions"), "{elsewhere:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn object_lock_is_set_on_the_data_and_on_the_manifest() {
    let Some(rgw) = rgw("object lock") else { return };
    let bucket = rgw.fresh_locked_bucket("locked").await.unwrap();
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let lock = ["--object-lock-mode", "governance", "--object-lock-for", "1d", "--object-lock-legal-hold"];
    let class = ["--s3-storage-class", "STANDARD"];
    into_bucket(&rig, &rgw, &rgw.keys, &bucket).args(lock).args(class).run().await.unwrap().assert_code(0);
    let client = rgw.client();
    let listed = client.list_objects_v2().bucket(&bucket).send().await.unwrap();
    assert_eq!(listed.contents().len(), 2);
    for object in listed.contents() {
        let key = object.key().unwrap();
        let retention = client.get_object_retention().bucket(&bucket).key(key).send().await;
        let retention = retention.unwrap_or_else(|error| panic!("{key} has no retention: {error:?}"));
        let retention = retention.retention().unwrap();
        assert_eq!(retention.mode().unwrap().as_str(), "GOVERNANCE", "{key}");
        assert!(retention.retain_until_date().unwrap().secs() > chrono::Utc::now().timestamp() + 80_000);
        let hold = client.get_object_legal_hold().bucket(&bucket).key(key).send().await.unwrap();
        assert_eq!(hold.legal_hold().unwrap().status().unwrap().as_str(), "ON", "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_for_an_ssh_key_opens_with_stock_age() {
    if !installed("age") || !installed("zstd") {
        return;
    }
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    for kind in ["ed25519", "rsa"] {
        let key = rig.path(kind);
        let made = Command::new("ssh-keygen").args(["-q", "-N", "", "-t", kind, "-f"]).arg(&key).status();
        if !made.is_ok_and(|status| status.success()) {
            return skip("SSH recipients with stock age", "no ssh-keygen");
        }
        let store = rig.path(&format!("store-{kind}"));
        let run = rig.backup().arg("--dir").arg(&store).arg("--recipients-file").arg(key.with_extension("pub"));
        let output = run.run().await.unwrap();
        let stored = store.join(output.assert_code(0).json()["keys"]["data"].as_str().unwrap());
        let plain = rig.path(&format!("plain-{kind}"));
        open_with_stock_tools(&key, &stored, &plain);
        assert!(std::fs::read(&plain).unwrap() == rig::fixture_snapshot(), "{kind}");
        // The other recipient, given by a flag, opens it too.
        open_with_stock_tools(&rig.identity_file, &stored, &plain);
    }
}
