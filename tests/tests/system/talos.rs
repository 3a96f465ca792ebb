//! What nodes, networks and talosconfigs do to a run (group A of the public failure stories).
//!
//! Whatever it is: the exit code is not 0, nothing is stored, no upload is left open, and there is one error with a reason.

use std::time::Duration;

use bronzenail_lab::emulator::{Backend, EmulatorOptions, Fault, NodeOptions, Refusal, TalosVersion};
use bronzenail_lab::etcd::Etcd;
use bronzenail_lab::pki::{self, ClientSubject};
use bronzenail_lab::process::Output;
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::skip;
use tonic::Code;

/// Runs a backup that must fail, and says what it said.
async fn fails(rig: &Rig, flags: &[&str]) -> Output {
    let output = rig.backup_to_directory().args(flags).run().await.unwrap();
    assert!(matches!(output.code, Some(1 | 2)), "{output:#?}");
    let errors = output.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(errors, 1, "one error: {output:#?}");
    assert!(!output.stderr.contains("panicked"), "{output:#?}");
    assert_eq!(output.json()["result"], "failed");
    rig::assert_nothing_stored(&rig.directory().await).await;
    output
}

/// The same for a snapshot of these bytes.
async fn refused(snapshot: Vec<u8>) -> String {
    fails(&Rig::of_bytes(snapshot).await, &[]).await.assert_code(1).stderr.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_a_snapshot_without_its_end_is_refused() {
    let whole = rig::fixture_snapshot();
    for cut in [32, 40_000] {
        let said = refused(whole[..whole.len() - cut].to_vec()).await;
        let expected = if cut == 32 { "no trailing hash" } else { "cut short" };
        assert!(said.contains(expected), "{cut}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b03_an_error_in_the_middle_aborts_and_keeps_the_nodes_words() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let message = "etcdserver: request timed out".to_owned();
    rig.emulator.set(Fault::Status { after_bytes: 500_000, code: Code::DeadlineExceeded, message });
    let output = fails(&rig, &[]).await;
    assert!(output.stderr.contains("DeadlineExceeded: etcdserver: request timed out"), "{}", output.stderr);
    rig.emulator.set(Fault::Reset(500_000));
    fails(&rig, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b06_every_damaged_fixture_is_refused_by_name() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../snapshot/fixtures");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".zst").filter(|name| name.starts_with("damaged-")) else { continue };
        // bbolt itself falls back to the older meta page, and loses nothing.
        if name == "damaged-newest-meta-resealed.snap" {
            continue;
        }
        let said = refused(rig::fixture(name)).await;
        let expected = match name {
            "damaged-trailer.snap" | "damaged-bit-in-leaf.snap" | "damaged-bit-in-live-value.snap" => "does not match",
            "damaged-truncated-60.snap" | "damaged-truncated-page.snap" => "cut short",
            "damaged-trailing-garbage.snap" => "longer than the database",
            _ => "the database inside is damaged",
        };
        assert!(said.contains(expected), "{name}: {said}");
        seen += 1;
    }
    assert!(seen >= 12, "only {seen} fixtures");
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_garbage_of_any_kind_is_one_error_and_no_crash() {
    let noise = |len: usize| bronzenail_lab::etcd::noise(7, len);
    let mut kinds: Vec<Vec<u8>> = [0, 1, 31, 32, 33, 512, 544].map(noise).to_vec();
    kinds.push(b"hello, this is a text\n".to_vec());
    kinds.push(b"<html><body>502 Bad Gateway</body></html>".to_vec());
    for garbage in kinds {
        refused(garbage).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_a_raw_copy_of_the_database_is_named_and_refused() {
    let said = refused(rig::fixture("raw-copy-3.5.1.db")).await;
    assert!(said.contains("raw copy of member/snap/db"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_a_node_that_falls_silent_is_given_up() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    for fault in [Fault::Blackhole(300_000), Fault::EmptyForever(300_000), Fault::HangFirst] {
        rig.emulator.set(fault);
        fails(&rig, &["--idle-timeout", "1s", "--first-byte-timeout", "1s"]).await.assert_code(1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b14_a_slow_but_steady_snapshot_takes_longer_than_any_deadline() {
    let rig = Rig::of_bytes(rig::fixture("empty-3.5.1.snap")).await;
    // 24 messages with 100 ms between them: more in all than either deadline.
    rig.emulator.set(Fault::Trickle { bytes: 1_024, every: Duration::from_millis(100) });
    let flags = ["--idle-timeout", "1s", "--first-byte-timeout", "1s"];
    rig.backup_to_directory().args(flags).run().await.unwrap().assert_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b27_a_source_that_pauses_within_its_deadline_is_fine() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    rig.emulator.set(Fault::PauseAt { after_bytes: 300_000, pause: Duration::from_millis(1_500) });
    rig.backup_to_directory().args(["--idle-timeout", "20s"]).run().await.unwrap().assert_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_the_next_endpoint_is_tried_and_each_failure_has_its_reason() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    // Accepts and never speaks.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let silent_address = silent.local_addr().unwrap().to_string();
    let bad = ["--endpoint", &refused, "--endpoint", &silent_address, "--endpoint", "does-not-exist.invalid"];
    let flags = [&["--connect-timeout", "1s"], bad.as_slice()].concat();

    let output = fails(&rig, &flags).await;
    for expected in [refused.as_str(), silent_address.as_str(), "does-not-exist.invalid", "refused"] {
        assert!(output.stderr.contains(expected), "{expected}: {}", output.stderr);
    }

    let good = rig.emulator.endpoint();
    let flags = [flags.as_slice(), &["--endpoint", &good]].concat();
    let output = rig.backup_to_directory().args(flags).run().await.unwrap();
    output.assert_code(0);
    assert_eq!(output.json()["warnings"].as_array().unwrap().len(), 3, "{output:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b16_a_locked_down_user_without_a_home_can_take_a_backup() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let allowed = std::process::Command::new("setpriv").args(nobody).arg("true").status();
    if !allowed.is_ok_and(|status| status.success()) {
        return skip("a run as uid 65534", "setpriv is not allowed here");
    }
    let store = rig.path("store");
    std::fs::create_dir(&store).unwrap();
    for (path, mode) in [(rig.folder.path().to_owned(), 0o755), (store.clone(), 0o777), (rig.talosconfig(), 0o644)] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    // The program lies where only its builder can reach it; a copy lies where anyone can.
    let program = rig.path("bronzenail-backup");
    std::fs::copy(bronzenail_lab::process::Program::backup().unwrap().path(), &program).unwrap();
    let output = bronzenail_lab::process::Program::at("setpriv")
        .args(nobody)
        .arg(&program)
        .args(["run", "--json", "--cluster", rig::CLUSTER, "--recipient", &rig.recipient, "--dir"])
        .arg(&store)
        .env("PATH", std::env::var("PATH").unwrap())
        .env("TALOSCONFIG", rig.talosconfig())
        .folder("/")
        .run()
        .await
        .unwrap();
    output.assert_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b17_certificates_that_no_node_takes_are_named_before_anyone_is_asked() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let authority = rig.emulator.authority().clone();
    let expired = authority.client(&ClientSubject::new(&["os:etcd:backup"]).expired());
    std::fs::write(rig.talosconfig(), rig.emulator.talosconfig_for(&expired)).unwrap();
    let said = fails(&rig, &[]).await.stderr;
    assert!(said.contains("expired") && said.contains("talosconfig"), "{said}");

    let both = authority.client(&ClientSubject::new(&["os:etcd:backup"]).also_server());
    std::fs::write(rig.talosconfig(), rig.emulator.talosconfig_for(&both)).unwrap();
    let said = fails(&rig, &[]).await.stderr;
    assert!(said.contains("server"), "{said}");
    assert!(rig.emulator.calls().is_empty(), "nobody was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn b19_keys_load_under_every_label_and_an_empty_one_is_named() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let text = rig.emulator.talosconfig(&["os:etcd:backup"]);
    let key_line = text.lines().find(|line| line.trim_start().starts_with("key:")).unwrap().to_owned();
    let encoded = key_line.split_once(':').unwrap().1.trim().trim_matches('"');
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let pem = String::from_utf8(engine.decode(encoded).unwrap()).unwrap();
    assert!(pem.contains("ED25519 PRIVATE KEY"), "the lab writes the odd label that Talos writes");
    let with = |pem: &str| text.replace(encoded, &engine.encode(pem));

    std::fs::write(rig.talosconfig(), with(&pem.replace("ED25519 PRIVATE KEY", "PRIVATE KEY"))).unwrap();
    rig.backup_to_directory().run().await.unwrap().assert_code(0);

    for empty in ["", "-----BEGIN ED25519 PRIVATE KEY-----\n-----END ED25519 PRIVATE KEY-----\n"] {
        std::fs::write(rig.talosconfig(), with(empty)).unwrap();
        let output = rig.backup_to_directory().run().await.unwrap();
        assert!(output.code == Some(2) && output.stderr.contains("key"), "{output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b22_no_client_certificate_and_no_permission_are_said_plainly() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let ca = rig.emulator.authority().certificate_pem();
    std::fs::write(rig.talosconfig(), pki::talosconfig("omni", &[rig.emulator.endpoint()], &ca, None)).unwrap();
    let said = fails(&rig, &[]).await.stderr;
    assert!(said.contains("client certificate"), "{said}");

    rig.write_talosconfig(&["os:reader"]);
    let said = fails(&rig, &[]).await.stderr;
    assert!(said.contains("os:etcd:backup") && said.contains("not authorized"), "{said}");
    let tries = rig.emulator.calls().iter().filter(|call| call.method == "EtcdSnapshot").count();
    assert_eq!(tries, 1, "a refusal is not retried");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_inside_a_message_a_flipped_bit_and_junk_at_the_end_are_errors() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    for fault in [Fault::InBandError(300_000), Fault::FlipBit(400_000), Fault::Extra(100), Fault::DropLastOk(1)] {
        rig.emulator.set(fault);
        fails(&rig, &[]).await.assert_code(1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_dies_under_the_snapshot_leaves_no_backup() {
    let etcd = match Etcd::start().await {
        Ok(etcd) => etcd,
        Err(error) if error.is_not_installed() => return skip("an etcd killed under a snapshot", "no etcd"),
        Err(error) => panic!("{error}"),
    };
    // Enough that it cannot all be under way already when etcd dies.
    etcd.client().fill(20_000, 1_000).await.unwrap();
    let rig = Rig::of(EmulatorOptions::new(Backend::Etcd(etcd.client_url().to_owned()))).await;
    let killer = etcd.killer();
    rig.emulator.set(Fault::kill_etcd(1_000_000, move || killer.kill()));
    fails(&rig, &["--idle-timeout", "5s"]).await.assert_code(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_role_may_not_ask_is_no_reason_to_fail() {
    for (version, knows) in
        [(TalosVersion(1, 8, 4), false), (TalosVersion(1, 9, 6), true), (TalosVersion(1, 13, 9), true)]
    {
        let backend = Backend::Bytes(rig::fixture_snapshot().into());
        let rig = Rig::of(EmulatorOptions { version, ..EmulatorOptions::new(backend) }).await;
        let output = rig.backup_to_directory().run().await.unwrap();
        output.assert_code(0);
        assert_eq!(output.manifest().source.etcd_version.is_some(), knows, "{output:#?}");
        assert_eq!(output.manifest().source.talos_version, None, "the version is a reader's to ask");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_optional_question_may_fail_or_hang() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    for method in ["EtcdStatus", "EtcdMemberList", "EtcdAlarmList", "Version"] {
        for refusal in [Refusal::Status(Code::Unimplemented, "unknown method".to_owned()), Refusal::Hang] {
            rig.emulator.refuse(method, refusal);
        }
        rig.backup_to_directory().args(["--first-byte-timeout", "1s"]).run().await.unwrap().assert_code(0);
    }
}

fn node(address: &str, change: impl FnOnce(&mut NodeOptions)) -> NodeOptions {
    let mut node = NodeOptions::new(address, Backend::Bytes(rig::fixture_snapshot().into()));
    change(&mut node);
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_follower_is_chosen_and_only_the_node_header_is_sent() {
    let leader = node("10.0.0.1", |_| {});
    let leader_id = leader.status.member_id;
    let nodes = vec![
        leader,
        node("10.0.0.2", |node| {
            node.status.leader = leader_id;
            node.status.is_learner = true;
        }),
        node("10.0.0.3", |node| node.status.leader = leader_id),
        node("10.0.0.4", |node| {
            node.status.leader = leader_id;
            node.status.raft_applied_index = 1;
        }),
    ];
    let rig = Rig::of(EmulatorOptions::of_nodes(nodes)).await;
    let output = rig.backup_to_directory().run().await.unwrap();
    output.assert_code(0);
    assert_eq!(output.manifest().source.node.as_deref(), Some("10.0.0.3"), "{output:#?}");

    let output = rig.backup_to_directory().args(["--node", "10.0.0.1"]).run().await.unwrap();
    assert_eq!(output.assert_code(0).manifest().source.node.as_deref(), Some("10.0.0.1"));

    let calls = rig.emulator.calls();
    assert!(calls.iter().all(|call| call.nodes.is_empty()), "`nodes` is never sent");
    let snapshots: Vec<_> = calls.iter().filter(|call| call.method == "EtcdSnapshot").collect();
    assert_eq!(
        snapshots.iter().map(|call| call.node.as_deref()).collect::<Vec<_>>(),
        [Some("10.0.0.3"), Some("10.0.0.1")]
    );
    let changing = ["Bootstrap", "EtcdRecover", "Reset"];
    assert!(calls.iter().all(|call| !changing.contains(&call.method)), "a backup changes nothing");

    let output = rig.backup_to_directory().args(["--node", "10.0.0.1:50000"]).run().await.unwrap();
    output.assert_code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_an_endpoint_that_connects_but_gives_no_snapshot_is_passed_over() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let good = rig.emulator.endpoint();
    let other = good.replace("127.0.0.1", "localhost");
    let message = "etcd is stopping".to_owned();
    let flags = ["--endpoint", other.as_str(), "--endpoint", good.as_str()];
    let fault = || Fault::Status { after_bytes: 0, code: Code::Unavailable, message: message.clone() };
    rig.emulator.set_nth(1, fault());
    let output = rig.backup_to_directory().args(flags).run().await.unwrap();
    output.assert_code(0);
    let warnings = output.json()["warnings"].to_string();
    eprintln!("{warnings}\n{}", output.stderr);
    assert!(warnings.contains(&other) && warnings.contains("etcd is stopping"), "{warnings}");
    std::fs::remove_dir_all(rig.path("store")).unwrap();
    rig.emulator.set(fault());
    let output = fails(&rig, &flags).await;
    eprintln!("{}", output.stderr);
    assert!(output.stderr.contains("none of the endpoints gave a snapshot: "), "{}", output.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_named_for_what_it_is() {
    let nodes = vec![node("10.0.0.9", |node| node.is_worker = true), node("10.0.0.1", |_| {})];
    let rig = Rig::of(EmulatorOptions::of_nodes(nodes)).await;
    let said = fails(&rig, &[]).await.stderr;
    assert!(said.contains("only available on control plane nodes"), "{said}");
    let said = fails(&rig, &["--node", "10.0.0.1"]).await.stderr;
    assert!(said.contains("no request forwarding") && said.contains("worker"), "{said}");
}
