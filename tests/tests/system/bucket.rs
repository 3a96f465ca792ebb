//! What stores do to a run (group B of the public failure stories): an S3 server in memory behind a front that misbehaves.
//!
//! Whatever it is: either the run ends in a whole backup and says so, or there is no manifest and it says why.

use std::sync::Arc;
use std::time::Duration;

use bronzenail_lab::etcd::{Etcd, noise};
use bronzenail_lab::front::{Action, Front, FrontOptions, Gate, Lie, Moment, Operation, Refusal, Rule, StoreTrait};
use bronzenail_lab::process::{Output, Program};
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::s3::{S3Keys, S3Options, S3Server, Sts, StsCredentials};
use bronzenail_lab::skip;
use tokio::sync::OnceCell;

const BUCKET: &str = "backups";
const PATIENCE: Duration = Duration::from_secs(60);

/// A rig with a store in memory and a front before it.
struct Bucket {
    rig: Rig,
    s3: S3Server,
    front: Front,
    keys: S3Keys,
}

impl Bucket {
    async fn of_bytes(snapshot: Vec<u8>) -> Self {
        let keys = S3Keys::fresh();
        let options = S3Options { keys: vec![keys.clone()], buckets: vec![BUCKET.to_owned()], ..S3Options::default() };
        let s3 = S3Server::start(options).await.unwrap();
        let front = Front::start(FrontOptions::before(s3.address()).keys(keys.clone())).await.unwrap();
        Self { rig: Rig::of_bytes(snapshot).await, s3, front, keys }
    }

    /// A small snapshot: one part.
    async fn small() -> Self {
        Self::of_bytes(rig::fixture_snapshot()).await
    }

    fn program(&self) -> Program {
        self.rig
            .backup()
            .args(["--bucket", BUCKET])
            // By variables, so that a test may say otherwise with a flag.
            .env("BRONZENAIL_S3_ENDPOINT", self.front.endpoint())
            .env("BRONZENAIL_PART_SIZE", "5MiB")
            .env("BRONZENAIL_S3_IDLE_TIMEOUT", "2s")
            .env("BRONZENAIL_S3_REPLY_TIMEOUT", "5s")
            .env("BRONZENAIL_S3_ATTEMPTS", "3")
            .env("AWS_ACCESS_KEY_ID", &self.keys.access_key)
            .env("AWS_SECRET_ACCESS_KEY", &self.keys.secret_key)
    }

    fn rule(&self, action: Action, operation: Operation) {
        self.front.rule(Rule::new(action).on(operation));
    }

    /// A run that must end in a whole backup.
    async fn succeeds(&self) -> Output {
        let output = self.program().run().await.unwrap();
        output.assert_code(0);
        let objects = self.s3.objects(BUCKET);
        assert!(objects.keys().any(|key| key.ends_with(".json")), "{output:#?}");
        let data = objects.iter().find(|(key, _)| key.ends_with(".snap.zst.age")).expect("the data is there").1;
        assert!(self.rig.open(data).1.is_proven());
        output
    }

    /// A run that must fail without a manifest and without an upload that stays open.
    async fn fails(&self) -> Output {
        self.fails_with(&self.program()).await
    }

    async fn fails_with(&self, program: &Program) -> Output {
        let output = program.run().await.unwrap();
        output.assert_code(1);
        let objects = self.s3.objects(BUCKET);
        assert!(!objects.keys().any(|key| key.ends_with(".json")), "a manifest was written: {output:#?}");
        output
    }
}

/// A snapshot of some 14 MiB that does not compress: three parts. `None` where there is no etcd to make it.
async fn large() -> Option<Vec<u8>> {
    static LARGE: OnceCell<Option<Vec<u8>>> = OnceCell::const_new();
    let made = LARGE.get_or_init(|| async {
        match Etcd::start().await {
            Ok(etcd) => {
                etcd.client().fill(5_000, 2_000).await.unwrap();
                Some(etcd.client().snapshot().await.unwrap().to_vec())
            }
            Err(error) if error.is_not_installed() => None,
            Err(error) => panic!("{error}"),
        }
    });
    let made = made.await.clone();
    if made.is_none() {
        skip("uploads of several parts", "no etcd");
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_store_sees_no_more_than_it_must() {
    let Some(snapshot) = large().await else { return };
    let bucket = Bucket::of_bytes(snapshot).await;
    let output = bucket.succeeds().await;
    let front = &bucket.front;
    assert_eq!(front.count(Operation::ListObjectsV2), 0, "a run needs no permission to list");
    assert_eq!(front.count(Operation::DeleteObject), 0, "nor to delete");
    assert_eq!(front.count(Operation::CompleteMultipartUpload), 1);
    let parts = front.seen(Operation::UploadPart);
    assert!(parts.len() >= 3, "b25: {} parts", parts.len());
    for part in &parts {
        assert_eq!(part.content_length(), Some(part.body_bytes), "b25: each part has its length");
        assert!(part.checksum_headers().is_empty(), "b23: {:?}", part.checksum_headers());
        assert!(part.header("content-md5").is_some());
    }
    let (last, others) = parts.split_last().unwrap();
    assert!(others.iter().all(|part| part.body_bytes == 5 * 1024 * 1024) && last.body_bytes <= 5 * 1024 * 1024, "b32");
    let puts = front.seen(Operation::PutObject);
    assert!(puts.len() == 1 && puts[0].if_none_match() == Some("*"), "the manifest is created, never replaced");
    assert_eq!(output.json()["store_retries"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b23_stores_that_know_no_checksums_are_served_by_default_and_hinted_at() {
    for trait_ in [StoreTrait::RefusesChecksums, StoreTrait::LacksChecksums] {
        let bucket = Bucket::small().await;
        bucket.front.rule(Rule::new(Action::Store(trait_)));
        bucket.succeeds().await;

        let bucket = Bucket::small().await;
        bucket.front.rule(Rule::new(Action::Store(trait_)));
        let output = bucket.fails_with(&bucket.program().args(["--s3-checksums", "when-supported"])).await;
        assert!(output.stderr.contains("AWS_REQUEST_CHECKSUM_CALCULATION=when_required"), "{output:#?}");
        let environment = bucket.program().env("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported");
        bucket.fails_with(&environment).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b25_b32_lesser_stores_with_rules_for_parts_are_fine() {
    let Some(snapshot) = large().await else { return };
    for trait_ in [StoreTrait::RequiresContentLength, StoreTrait::RequiresEqualParts] {
        let bucket = Bucket::of_bytes(snapshot.clone()).await;
        bucket.front.rule(Rule::new(Action::Store(trait_)));
        bucket.succeeds().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b27_a_slow_store_is_waited_for_and_a_stalled_one_is_not() {
    let Some(snapshot) = large().await else { return };
    let bucket = Bucket::of_bytes(snapshot).await;
    // Slower than any throughput minimum would allow: a part takes longer than the idle limit.
    bucket.front.rule(Rule::new(Action::SlowDrain(1_500_000)).on_part(1).once());
    bucket.succeeds().await;

    let bucket = Bucket::small().await;
    bucket.rule(Action::Hang, Operation::UploadPart);
    let output = bucket.fails_with(&bucket.program().args(["--s3-attempts", "2", "--s3-reply-timeout", "1s"])).await;
    assert!(output.stderr.contains("no byte moved"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b28_a_completion_that_takes_long_is_waited_for_and_not_repeated() {
    let bucket = Bucket::small().await;
    let every = Duration::from_millis(500);
    bucket.rule(Action::WhitespaceFirst { every, times: 8 }, Operation::CompleteMultipartUpload);
    bucket.succeeds().await;
    assert_eq!(bucket.front.count(Operation::CompleteMultipartUpload), 1);
    assert_eq!(bucket.front.count(Operation::CreateMultipartUpload), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b29_an_error_inside_a_200_is_a_failure() {
    let bucket = Bucket::small().await;
    bucket.rule(Action::ErrorIn200("InternalError".to_owned()), Operation::CompleteMultipartUpload);
    let output = bucket.fails().await;
    assert!(output.stderr.contains("InternalError"), "{output:#?}");
    assert!(bucket.front.count(Operation::CompleteMultipartUpload) > 1, "it is tried again first");
    assert!(bucket.s3.unfinished_uploads(BUCKET).is_empty());

    let bucket = Bucket::small().await;
    bucket
        .front
        .rule(Rule::new(Action::ErrorIn200("InternalError".to_owned())).on(Operation::CompleteMultipartUpload).once());
    bucket.succeeds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b29_a_completion_whose_answer_is_empty_or_cut_is_looked_up() {
    for action in [
        Action::EmptyReply,
        Action::CutReply(40),
        Action::EndReplyEarly(40),
        Action::ResetAfterForward,
        Action::SwallowReply,
    ] {
        let bucket = Bucket::small().await;
        bucket.front.rule(Rule::new(action.clone()).on(Operation::CompleteMultipartUpload).once());
        let output = bucket.program().run().await.unwrap();
        assert_eq!(output.code, Some(0), "{action:?}: the store has the whole object: {output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b29_a_store_that_says_yes_and_keeps_something_else_is_caught() {
    let Some(snapshot) = large().await else { return };
    for lie in [Lie::KeepsNothing, Lie::DropsLastPart, Lie::DropsFirstPart, Lie::Truncates(6_000_000)] {
        let bucket = Bucket::of_bytes(snapshot.clone()).await;
        bucket.rule(Action::Lie(lie), Operation::CompleteMultipartUpload);
        let output = bucket.fails().await;
        assert!(output.stderr.contains("the store"), "{lie:?}: {output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_a_part_that_never_arrives_aborts_the_upload() {
    let Some(snapshot) = large().await else { return };
    let bucket = Bucket::of_bytes(snapshot).await;
    bucket.front.rule(Rule::new(Action::Refuse(Refusal::internal_error())).on_part(2));
    bucket.fails().await;
    assert!(bucket.front.count(Operation::AbortMultipartUpload) >= 1);
    assert!(bucket.s3.objects(BUCKET).is_empty() && bucket.s3.unfinished_uploads(BUCKET).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_a_signal_in_the_middle_of_a_part_aborts_the_upload() {
    let Some(snapshot) = large().await else { return };
    let bucket = Bucket::of_bytes(snapshot).await;
    let gate = Gate::closed();
    bucket.front.rule(Rule::new(Action::Hold(Moment::BodyRead, gate.clone())).on_part(2));
    let running = bucket.program().spawn().unwrap();
    gate.arrival(PATIENCE).await.unwrap();
    running.signal("TERM").unwrap();
    let output = running.wait().await.unwrap();
    output.assert_code(130);
    assert!(output.stderr.contains("SIGTERM"), "{output:#?}");
    assert!(bucket.front.count(Operation::AbortMultipartUpload) >= 1);
    assert!(bucket.s3.objects(BUCKET).is_empty() && bucket.s3.unfinished_uploads(BUCKET).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b36_a_store_that_asks_to_slow_down_is_asked_again() {
    let refusals = [
        Action::Refuse(Refusal::slow_down()),
        Action::Refuse(Refusal::too_many_requests()),
        Action::ResetAtOnce,
        Action::CloseUnforwarded,
    ];
    let operations = [
        Operation::CreateMultipartUpload,
        Operation::UploadPart,
        Operation::CompleteMultipartUpload,
        Operation::HeadObject,
        Operation::GetObject,
        Operation::PutObject,
    ];
    for action in refusals {
        let bucket = Bucket::small().await;
        for operation in operations {
            bucket.front.rule(Rule::new(action.clone()).on(operation).times(2));
        }
        let output = bucket.succeeds().await;
        assert!(output.json()["store_retries"].as_u64().unwrap() >= 6, "{action:?}: {output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_the_region_that_the_store_expects_is_shown() {
    let bucket = Bucket::small().await;
    bucket.front.rule(Rule::new(Action::Refuse(Refusal::wrong_region("eu-nl-1"))));
    let output = bucket.program().run().await.unwrap();
    assert!(output.code == Some(1) || output.code == Some(2), "{output:#?}");
    assert!(output.stderr.contains("--s3-region eu-nl-1"), "{output:#?}");
    assert!(bucket.front.log().iter().all(|seen| seen.region() == Some("us-east-1")), "the documented default");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_the_store_does_not_know_is_a_failure_and_no_secret_wish() {
    let bucket = Bucket::small().await;
    let locked = bucket.program().arg("--object-lock-legal-hold");
    // The server in memory knows no object lock; one that takes the headers and forgets them is no better.
    let output = bucket.fails_with(&locked).await;
    assert!(output.stderr.contains("lock") || output.stderr.contains("501"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_a_bucket_host_without_a_name_points_at_path_style() {
    let bucket = Bucket::small().await;
    let endpoint = format!("http://store.invalid:{}", bucket.front.address().port());
    let flags = ["--s3-endpoint", &endpoint, "--s3-addressing", "virtual-host", "--s3-attempts", "1"];
    let program = bucket.program().args(flags);
    let output = bucket.fails_with(&program).await;
    assert!(output.stderr.contains("--s3-addressing path"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_wrong_is_not_committed() {
    let bucket = Bucket::small().await;
    bucket.rule(Action::WrongByte(5_000), Operation::GetObject);
    let output = bucket.fails().await;
    assert!(output.stderr.contains("could not be read back"), "{output:#?}");
    let objects = bucket.s3.objects(BUCKET);
    assert!(objects.len() == 1 && objects.keys().all(|key| key.ends_with(".age")), "the data stays, as an orphan");
}

#[tokio::test(flavor = "multi_thread")]
async fn b73_a_read_back_that_is_cut_is_resumed_where_it_broke() {
    for action in [
        Action::CutReply(100_000),
        Action::EndReplyEarly(100_000),
        Action::ResetReply(100_000),
        Action::EndReplyEarly(0),
    ] {
        let bucket = Bucket::small().await;
        bucket.front.rule(Rule::new(action.clone()).on(Operation::GetObject).once());
        bucket.succeeds().await;
        let gets = bucket.front.seen(Operation::GetObject);
        assert!(gets.len() >= 2, "{action:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b62_a_manifest_whose_answer_is_lost_finds_itself() {
    for action in [Action::ResetAfterForward, Action::SwallowReply] {
        let bucket = Bucket::small().await;
        bucket.front.rule(Rule::new(action).on(Operation::PutObject).once());
        bucket.succeeds().await;
    }
    let bucket = Bucket::small().await;
    bucket.front.rule(Rule::new(Action::Store(StoreTrait::IgnoresIfNoneMatch)));
    bucket.succeeds().await;
    let bucket = Bucket::small().await;
    bucket.rule(Action::Refuse(Refusal::precondition_failed()), Operation::PutObject);
    let output = bucket.fails().await;
    assert!(output.stderr.contains("exists already"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hides_what_is_missing_behind_403_is_fine() {
    let bucket = Bucket::small().await;
    bucket.front.rule(Rule::new(Action::Refuse(Refusal::access_denied())).on(Operation::HeadObject).once());
    bucket.succeeds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_that_keeps_failing_leaves_no_backup() {
    let operations = [
        Operation::CreateMultipartUpload,
        Operation::UploadPart,
        Operation::CompleteMultipartUpload,
        Operation::HeadObject,
        Operation::GetObject,
        Operation::PutObject,
    ];
    let faults = [
        (Action::Refuse(Refusal::internal_error()), "500"),
        (Action::Refuse(Refusal::access_denied()), "403"),
        (Action::ResetAtOnce, ""),
    ];
    for operation in operations {
        for (fault, said) in &faults {
            let bucket = Bucket::small().await;
            bucket.rule(fault.clone(), operation);
            let output = bucket.fails_with(&bucket.program().env("BRONZENAIL_LOG", "error")).await;
            assert!(output.stderr.contains(said), "{operation:?} {fault:?}: {output:#?}");
            if *said == "403" {
                assert!(output.stderr.contains("docs/permissions"), "{operation:?}: {output:#?}");
            }
            assert!(bucket.s3.unfinished_uploads(BUCKET).is_empty(), "{operation:?} {fault:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b46_b47_credentials_come_from_a_web_identity_and_a_new_token_is_sent() {
    let bucket = Bucket::small().await;
    let temporary = S3Keys::fresh().with_session_token("a-session-token");
    bucket.s3.grant(temporary.clone());
    let lifetime = Duration::from_secs(900);
    let sts = Sts::start(Some(StsCredentials { keys: temporary, lifetime })).await.unwrap();
    let token = bucket.rig.path("token");
    let program = bucket
        .rig
        .backup()
        .args(["--bucket", BUCKET, "--s3-endpoint", &bucket.front.endpoint(), "--s3-region", "eu-nl-1"])
        .env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/backup")
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", &token)
        .env("AWS_ENDPOINT_URL_STS", sts.endpoint());
    for text in ["the-first-token", "the-second-token"] {
        std::fs::write(&token, text).unwrap();
        program.run().await.unwrap().assert_code(0);
    }
    let sent: Vec<String> = sts.seen().iter().map(|seen| seen.token.clone()).collect();
    assert_eq!(sent, ["the-first-token", "the-second-token"]);
    assert!(bucket.front.log().iter().all(|seen| seen.session_token() == Some("a-session-token")));
    assert!(bucket.front.log().iter().all(|seen| seen.region() == Some("eu-nl-1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credentials_at_all_name_the_places_that_were_looked_at() {
    let bucket = Bucket::small().await;
    let program = bucket
        .rig
        .backup()
        .args(["--bucket", BUCKET, "--s3-endpoint", &bucket.front.endpoint()])
        .env("AWS_EC2_METADATA_DISABLED", "true");
    let output = bucket.fails_with(&program).await;
    assert!(output.stderr.contains("AWS_ACCESS_KEY_ID") && output.stderr.contains("web identity"), "{output:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_in_no_output_at_the_highest_level() {
    let bucket = Bucket::small().await;
    let temporary = S3Keys::fresh().with_session_token("FwoGZXIvYXdzEBYaDsecretsessiontoken");
    bucket.s3.grant(temporary.clone());
    let log = bucket.rig.path("termination-log");
    std::fs::write(&log, "").unwrap();
    let program = bucket
        .rig
        .backup()
        .args(["--bucket", BUCKET, "--s3-endpoint", &bucket.front.endpoint(), "--log", "trace", "--s3-attempts", "2"])
        .arg("--termination-log")
        .arg(&log)
        .env("RUST_LOG", "trace")
        .env("AWS_ACCESS_KEY_ID", &temporary.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &temporary.secret_key)
        .env("AWS_SESSION_TOKEN", "FwoGZXIvYXdzEBYaDsecretsessiontoken");
    let mut said = Vec::new();
    let good = program.run().await.unwrap();
    good.assert_code(0);
    said.push(format!("{}{}", good.stdout, good.stderr));
    said.push(rig::read(&log).unwrap());
    for (key, bytes) in bucket.s3.objects(BUCKET) {
        said.push(format!("{key} {:?}", bucket.s3.metadata(BUCKET, &key)));
        if key.ends_with(".json") {
            said.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    for operation in
        [Operation::UploadPart, Operation::GetObject, Operation::PutObject, Operation::CreateMultipartUpload]
    {
        let rule = Rule::new(Action::Refuse(Refusal::access_denied())).on(operation);
        bucket.front.clear_rules();
        bucket.front.rule(rule);
        let bad = program.run().await.unwrap();
        bad.assert_code(1);
        said.push(format!("{}{}{}", bad.stdout, bad.stderr, rig::read(&log).unwrap()));
    }
    bucket.s3.revoke(&temporary.access_key);
    bucket.front.clear_rules();
    let denied = program.run().await.unwrap();
    said.push(format!("{}{}", denied.stdout, denied.stderr));

    let mut secrets = vec![temporary.secret_key.clone(), "secretsessiontoken".to_owned(), "AGE-SECRET-KEY".to_owned()];
    secrets.extend(talos_key_pieces(&rig::read(&bucket.rig.talosconfig()).unwrap()));
    assert!(secrets.len() > 5);
    for secret in &secrets {
        for said in &said {
            assert!(!said.contains(secret.as_str()), "{secret} was said: {said}");
        }
    }
}

/// The private key of a talosconfig, as it stands there and as it is inside, in pieces that no other text contains.
fn talos_key_pieces(talosconfig: &str) -> Vec<String> {
    use base64::Engine;
    let line = talosconfig.lines().find(|line| line.trim_start().starts_with("key:")).unwrap();
    let encoded = line.split_once(':').unwrap().1.trim().trim_matches('"');
    let pem = String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).unwrap()).unwrap();
    let body = pem.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    // The first bytes of every such key are the same, and those of the PEM's label in base64 too.
    let pieces = |text: &str| {
        text.as_bytes()[text.len() / 2..]
            .chunks(20)
            .map(|c| String::from_utf8_lossy(c).into_owned())
            .filter(|p| p.len() == 20)
            .collect::<Vec<_>>()
    };
    [pieces(encoded), pieces(&body)].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn b43_a_private_ca_is_taken_for_the_store_alone() {
    let authority = bronzenail_lab::pki::Authority::new();
    let server = authority.server(&["127.0.0.1"]);
    let keys = S3Keys::fresh();
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![server.certificate_der.clone().into()],
            rustls::pki_types::PrivateKeyDer::Pkcs8(server.key_der.clone().into()),
        )
        .unwrap();
    let options = S3Options {
        keys: vec![keys.clone()],
        buckets: vec![BUCKET.to_owned()],
        tls: Some(Arc::new(tls)),
        ..S3Options::default()
    };
    let s3 = S3Server::start(options).await.unwrap();
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let program = rig
        .backup()
        .args(["--bucket", BUCKET, "--s3-endpoint", &s3.endpoint(), "--s3-attempts", "1"])
        .env("AWS_ACCESS_KEY_ID", &keys.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &keys.secret_key);
    let output = program.run().await.unwrap();
    assert!(output.code == Some(1) && output.stderr.contains("--s3-ca-file"), "{output:#?}");

    let ca = rig.path("ca.pem");
    std::fs::write(&ca, format!("# ours\r\n{}\r\n\r\n", authority.certificate_pem().replace('\n', "\r\n"))).unwrap();
    program.clone().arg("--s3-ca-file").arg(&ca).run().await.unwrap().assert_code(0);
    std::fs::write(&ca, "nothing").unwrap();
    let output = program.arg("--s3-ca-file").arg(&ca).run().await.unwrap();
    assert!(output.code == Some(2) && output.stderr.contains("ca.pem"), "{output:#?}");
}

/// Kept here so that the file says what its large snapshot is made of.
#[test]
fn the_noise_of_the_lab_does_not_compress() {
    let noise: Vec<u8> = (0..1_000).flat_map(|seed| noise(seed, 1_000)).collect();
    let packed = zstd::encode_all(noise.as_slice(), 3).unwrap();
    assert!(packed.len() > noise.len() * 9 / 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn b45_a_proxy_carries_the_store_and_never_talos() {
    let bucket = Bucket::small().await;
    let proxy = bronzenail_lab::front::ForwardProxy::start().await.unwrap();
    proxy.lead("store.invalid", bucket.front.address());
    let port = bucket.front.address().port();
    let program = bucket
        .program()
        .args(["--s3-endpoint", &format!("http://store.invalid:{port}"), "--s3-attempts", "1"])
        .env("HTTP_PROXY", proxy.url())
        .env("HTTPS_PROXY", proxy.url())
        .env("ALL_PROXY", proxy.url());
    program.run().await.unwrap().assert_code(0);
    assert!(!proxy.seen().is_empty(), "the store's name is known to the proxy alone");
    let talos = bucket.rig.emulator.endpoint();
    assert!(proxy.seen().iter().all(|seen| seen.authority != talos), "{:?}", proxy.seen());

    let bypassed = program.clone().env("NO_PROXY", "store.invalid").run().await.unwrap();
    bypassed.assert_code(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b46_credentials_of_a_profile_and_of_a_process_are_taken() {
    let bucket = Bucket::small().await;
    let without = || {
        bucket
            .rig
            .backup()
            .args(["--bucket", BUCKET, "--s3-endpoint", &bucket.front.endpoint()])
            .env("PATH", std::env::var("PATH").unwrap())
    };
    let (access, secret) = (&bucket.keys.access_key, &bucket.keys.secret_key);
    let credentials = bucket.rig.path("credentials");
    std::fs::write(&credentials, format!("[night]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n"))
        .unwrap();
    let profile = without().env("AWS_SHARED_CREDENTIALS_FILE", &credentials).env("AWS_PROFILE", "night");
    profile.run().await.unwrap().assert_code(0);

    let script = bucket.rig.path("hand-out");
    let document = serde_json::json!({ "Version": 1, "AccessKeyId": access, "SecretAccessKey": secret });
    std::fs::write(&script, format!("echo '{document}'\n")).unwrap();
    let config = bucket.rig.path("config");
    std::fs::write(&config, format!("[default]\ncredential_process = sh {}\n", script.display())).unwrap();
    without().env("AWS_CONFIG_FILE", &config).run().await.unwrap().assert_code(0);
}
