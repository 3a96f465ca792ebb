//! The emulator is as unpleasant as a Talos node: what the other tests stand on is proven here.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::io::Write;
use std::time::Duration;

use bronzenail_lab::emulator::{
    Backend, Call, Emulator, EmulatorOptions, Fault, MESSAGE_BYTES, NodeOptions, Refusal, TalosVersion,
};
use bronzenail_lab::etcd::{self, Etcd, EtcdError};
use bronzenail_lab::pki::{Authority, ClientSubject, Credentials};
use bronzenail_lab::process::Program;
use bronzenail_proto::common::Data;
use bronzenail_proto::machine::machine_service_client::MachineServiceClient;
use bronzenail_proto::machine::{BootstrapRequest, EtcdMemberListRequest, EtcdSnapshotRequest};
use bronzenail_snapshot::{Report, StreamCheck};
use bronzenail_talos::{Client, ConnectOptions, TalosConfig, choose_member};
use bytes::Bytes;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};

const BACKUP: &[&str] = &["os:etcd:backup"];
/// Long enough for a busy machine, short enough for a person.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a hang is watched. Longer proves no more.
const HANG: Duration = Duration::from_millis(700);

type Api = MachineServiceClient<Channel>;

fn body(bytes: usize) -> Bytes {
    (0..bytes).map(|place| (place % 251) as u8).collect::<Vec<u8>>().into()
}

async fn emulator(backend: Backend) -> Emulator {
    Emulator::start(EmulatorOptions::new(backend)).await.unwrap()
}

async fn three() -> Emulator {
    let nodes = [("10.0.0.1", 3000), ("10.0.0.2", 5000), ("fd00::3", 7000)];
    let nodes = nodes.map(|(address, bytes)| NodeOptions::new(address, Backend::Bytes(body(bytes))));
    Emulator::start(EmulatorOptions::of_nodes(nodes.to_vec())).await.unwrap()
}

async fn connect_as(emulator: &Emulator, client: &Credentials) -> Result<Api, tonic::transport::Error> {
    let key = client.key_pem.replace("ED25519 PRIVATE KEY", "PRIVATE KEY");
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(emulator.authority().certificate_pem()))
        .identity(Identity::from_pem(&client.certificate_pem, key));
    let endpoint = Endpoint::from_shared(format!("https://{}", emulator.endpoint()))?.tls_config(tls)?;
    Ok(MachineServiceClient::new(endpoint.connect().await?))
}

async fn connect(emulator: &Emulator, roles: &[&str]) -> Api {
    connect_as(emulator, &emulator.authority().client(&ClientSubject::new(roles))).await.unwrap()
}

fn to<T>(message: T, headers: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (name, value) in headers {
        request.metadata_mut().append(*name, value.parse().unwrap());
    }
    request
}

/// All messages of a snapshot, and how it ended.
async fn messages(api: &mut Api, headers: &[(&'static str, &str)]) -> (Vec<Data>, Result<(), Status>) {
    let mut messages = Vec::new();
    let ask = async {
        let mut stream = api.etcd_snapshot(to(EtcdSnapshotRequest {}, headers)).await?.into_inner();
        while let Some(message) = stream.message().await? {
            messages.push(message);
        }
        Ok(())
    };
    let end = tokio::time::timeout(PATIENCE, ask).await.expect("the snapshot ends");
    (messages, end)
}

async fn whole(emulator: &Emulator) -> (Vec<u8>, Result<(), Status>) {
    let (messages, end) = messages(&mut connect(emulator, BACKUP).await, &[]).await;
    (messages.iter().flat_map(|message| message.bytes.to_vec()).collect(), end)
}

async fn with_fault(bytes: usize, fault: Fault) -> (Vec<u8>, Result<(), Status>) {
    let emulator = emulator(Backend::Bytes(body(bytes))).await;
    emulator.set(fault);
    whole(&emulator).await
}

fn check(bytes: &[u8]) -> Report {
    let mut check = StreamCheck::new();
    check.update(bytes);
    check.finish()
}

fn skipped(what: &str, why: &EtcdError) {
    let line = format!("skipped: {what} ({why})");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("BRONZENAIL_LAB_SKIPS").filter(|path| !path.is_empty()) {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// An etcd or a line that says loudly that there is none.
async fn real_etcd(what: &str) -> Option<Etcd> {
    match Etcd::start().await {
        Ok(etcd) => Some(etcd),
        Err(why) if why.is_not_installed() => {
            skipped(what, &why);
            None
        }
        Err(error) => panic!("{error}: {error:?}"),
    }
}

fn last_call(emulator: &Emulator) -> Call {
    emulator.calls().pop().unwrap()
}

#[tokio::test]
async fn a_snapshot_comes_whole_in_messages_of_1024_bytes() {
    let emulator = emulator(Backend::Bytes(body(10_000))).await;
    let (messages, end) = messages(&mut connect(&emulator, BACKUP).await, &[]).await;
    end.unwrap();
    assert!(messages.iter().all(|message| message.bytes.len() <= MESSAGE_BYTES && message.metadata.is_none()));
    assert_eq!(messages.len(), 10);
    assert_eq!(messages.iter().flat_map(|message| message.bytes.to_vec()).collect::<Vec<u8>>(), body(10_000));
    let call = last_call(&emulator);
    assert_eq!((call.method, call.bytes_sent, call.node), ("EtcdSnapshot", 10_000, None));
    assert_eq!(call.roles, BACKUP);
}

#[tokio::test]
async fn a_file_is_served_as_it_is() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&body(300_001)).unwrap();
    let emulator = emulator(Backend::File(file.path().to_owned())).await;
    let (bytes, end) = whole(&emulator).await;
    end.unwrap();
    assert!(bytes == body(300_001));
}

#[tokio::test]
async fn cuts_end_with_ok() {
    for (fault, left) in [(Fault::TruncateOk(0), 0), (Fault::TruncateOk(1500), 1500), (Fault::DropLastOk(32), 4968)] {
        let (bytes, end) = with_fault(5000, fault).await;
        end.unwrap();
        assert_eq!(bytes, body(5000)[..left]);
    }
}

#[tokio::test]
async fn bytes_can_be_changed_and_added() {
    let (bytes, end) = with_fault(5000, Fault::FlipBit(3333)).await;
    end.unwrap();
    let changed: Vec<usize> = (0..5000).filter(|place| bytes[*place] != body(5000)[*place]).collect();
    assert_eq!(changed, [3333]);
    let (bytes, end) = with_fault(5000, Fault::Extra(700)).await;
    end.unwrap();
    assert_eq!((bytes.len(), &bytes[..5000]), (5700, &body(5000)[..]));
}

#[tokio::test]
async fn a_status_ends_the_stream_where_it_was_placed() {
    let status = |after_bytes| Fault::Status { after_bytes, code: Code::Internal, message: "failed proxying".into() };
    for place in [0, 2048, 2500] {
        let (bytes, end) = with_fault(5000, status(place)).await;
        assert_eq!((bytes.len() as u64, end.unwrap_err().code()), (place, Code::Internal));
    }
}

#[tokio::test]
async fn an_in_band_error_ends_with_ok() {
    let emulator = emulator(Backend::Bytes(body(5000))).await;
    emulator.set(Fault::InBandError(2048));
    let (messages, end) = messages(&mut connect(&emulator, BACKUP).await, &[]).await;
    end.unwrap();
    let metadata = messages.last().unwrap().metadata.as_ref().unwrap();
    assert_eq!(metadata.status.as_ref().unwrap().code, Code::Internal as i32);
    assert!(!metadata.error.is_empty());
}

#[tokio::test]
async fn a_reset_breaks_the_connection_and_not_the_emulator() {
    let emulator = emulator(Backend::Bytes(body(50_000))).await;
    emulator.set_nth(1, Fault::Reset(20_000));
    let (bytes, end) = whole(&emulator).await;
    assert!(end.is_err());
    assert!(bytes.len() <= 20_000);
    assert_eq!(whole(&emulator).await.0.len(), 50_000, "the second call has no fault");
}

#[tokio::test]
async fn silent_faults_do_not_end() {
    let silences = [Fault::HangFirst, Fault::Blackhole(2048), Fault::EmptyForever(2048)];
    for fault in silences {
        let emulator = emulator(Backend::Bytes(body(5000))).await;
        emulator.set(fault);
        let mut api = connect(&emulator, BACKUP).await;
        assert!(tokio::time::timeout(HANG, messages(&mut api, &[])).await.is_err());
        assert!(emulator.calls()[0].bytes_sent <= 2048);
    }
}

#[tokio::test]
async fn slow_faults_come_to_their_end() {
    let pause = Fault::PauseAt { after_bytes: 2048, pause: Duration::from_millis(10) };
    let trickle = Fault::Trickle { bytes: 100, every: Duration::from_millis(1) };
    for fault in [pause, trickle] {
        let (bytes, end) = with_fault(3000, fault).await;
        end.unwrap();
        assert_eq!(bytes, body(3000));
    }
}

#[tokio::test]
async fn a_paced_snapshot_is_under_way_until_its_client_leaves() {
    let emulator = emulator(Backend::Bytes(body(1_000_000))).await;
    emulator.set_pace(Some(50_000));
    let mut api = connect(&emulator, BACKUP).await;
    let mut stream = api.etcd_snapshot(EtcdSnapshotRequest {}).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    let call = last_call(&emulator);
    assert!(call.bytes_sent < 1_000_000 && !call.ended);
    drop((stream, api));
    tokio::time::timeout(PATIENCE, async {
        while !last_call(&emulator).ended {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the node notices that its client has gone");
}

#[tokio::test]
async fn roles_open_what_they_name_and_no_more() {
    let emulator = emulator(Backend::Bytes(body(100))).await;
    let refused =
        |status: Status| assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "not authorized"));

    let mut reader = connect(&emulator, &["os:reader"]).await;
    assert_eq!(reader.version(()).await.unwrap().into_inner().messages[0].version.as_ref().unwrap().tag, "v1.13.9");
    refused(messages(&mut reader, &[]).await.1.unwrap_err());

    let mut backup = connect(&emulator, BACKUP).await;
    refused(backup.version(()).await.unwrap_err());
    backup.etcd_status(()).await.unwrap();
    backup.etcd_member_list(EtcdMemberListRequest::default()).await.unwrap();
    refused(backup.bootstrap(BootstrapRequest::default()).await.unwrap_err());

    let mut stranger = connect(&emulator, &["os:etcd-backup"]).await;
    refused(messages(&mut stranger, &[]).await.1.unwrap_err());

    let mut admin = connect(&emulator, &["os:admin"]).await;
    assert_eq!(admin.bootstrap(BootstrapRequest::default()).await.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(last_call(&emulator).method, "Bootstrap");
}

#[tokio::test]
async fn an_older_talos_tells_a_backup_role_nothing_of_etcd() {
    for (version, may) in
        [((1, 9, 5), false), ((1, 9, 6), true), ((1, 10, 0), false), ((1, 10, 1), true), ((1, 11, 0), true)]
    {
        let mut options = EmulatorOptions::new(Backend::Bytes(Bytes::new()));
        options.version = TalosVersion(version.0, version.1, version.2);
        let emulator = Emulator::start(options).await.unwrap();
        assert_eq!(connect(&emulator, BACKUP).await.etcd_status(()).await.is_ok(), may, "{version:?}");
    }
}

#[tokio::test]
async fn a_node_header_leads_to_one_node() {
    let emulator = three().await;
    let mut api = connect(&emulator, BACKUP).await;
    for (node, bytes) in [("10.0.0.1", 3000), ("10.0.0.2", 5000), ("fd00::3", 7000), ("node-10-0-0-2", 5000)] {
        let (messages, end) = messages(&mut api, &[("node", node)]).await;
        end.unwrap();
        assert_eq!(messages.iter().map(|message| message.bytes.len()).sum::<usize>(), bytes);
        assert!(messages.iter().all(|message| message.metadata.is_none()));
        assert_eq!(last_call(&emulator).node.as_deref(), Some(node));
    }
}

#[tokio::test]
async fn odd_node_headers_are_refused_as_apid_refuses_them() {
    let emulator = three().await;
    let mut api = connect(&emulator, BACKUP).await;
    for node in ["10.0.0.1:50000", "[fd00::3]", ""] {
        let status = messages(&mut api, &[("node", node)]).await.1.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().starts_with("invalid target"), "{status}");
    }
    let twice = messages(&mut api, &[("node", "10.0.0.1"), ("node", "10.0.0.2")]).await.1.unwrap_err();
    assert_eq!((twice.code(), twice.message()), (Code::InvalidArgument, "node metadata must be single-valued"));
    let nowhere = messages(&mut api, &[("node", "10.9.9.9")]).await.1.unwrap_err();
    assert_eq!(nowhere.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_nodes_header_interleaves_and_hides_errors_in_messages() {
    let emulator = three().await;
    let mut api = connect(&emulator, BACKUP).await;
    let headers = [("nodes", "10.0.0.1"), ("nodes", "10.0.0.2"), ("nodes", "10.9.9.9"), ("node", "fd00::3")];
    let (messages, end) = messages(&mut api, &headers).await;
    end.unwrap();
    let of = |hostname: &str| {
        let named = messages.iter().filter(|message| message.metadata.as_ref().unwrap().hostname == hostname);
        named.map(|message| message.bytes.len()).sum::<usize>()
    };
    assert_eq!((of("10.0.0.1"), of("10.0.0.2"), of("fd00::3"), of("10.9.9.9")), (3000, 5000, 0, 0));
    let failed = |message: &&Data| !message.metadata.as_ref().unwrap().error.is_empty();
    assert_eq!(messages.iter().filter(failed).count(), 1);
    assert_eq!(last_call(&emulator).nodes, ["10.0.0.1", "10.0.0.2", "10.9.9.9"]);

    let status = api.etcd_status(to((), &[("nodes", "10.0.0.2"), ("nodes", "10.9.9.9")])).await.unwrap().into_inner();
    let errors: Vec<bool> =
        status.messages.iter().map(|message| !message.metadata.as_ref().unwrap().error.is_empty()).collect();
    assert_eq!(errors, [false, true]);
}

#[tokio::test]
async fn certificates_are_judged_in_the_handshake() {
    let emulator = emulator(Backend::Bytes(body(100))).await;
    let authority = emulator.authority();
    let fine = ClientSubject::new(&["os:admin"]);
    let refused = [
        ("one usage too many", authority.client(&fine.clone().also_server())),
        ("expired", authority.client(&fine.clone().expired())),
        ("of another authority", Authority::new().client(&fine)),
    ];
    for (why, client) in refused {
        // Under TLS 1.3 a client may learn of it only when it reads.
        if let Ok(mut api) = connect_as(&emulator, &client).await {
            let status = api.version(()).await.expect_err(why);
            assert_ne!(status.code(), Code::Unauthenticated, "{why}: it is a failure of the transport");
        }
    }
    assert!(emulator.calls().is_empty());
    connect_as(&emulator, &authority.client(&fine)).await.unwrap().version(()).await.unwrap();
}

#[tokio::test]
async fn methods_can_be_refused_and_healed() {
    let emulator = emulator(Backend::Bytes(body(100))).await;
    let mut api = connect(&emulator, BACKUP).await;
    emulator.refuse("EtcdStatus", Refusal::Status(Code::Unavailable, "rebooting".to_owned()));
    assert_eq!(api.etcd_status(()).await.unwrap_err().code(), Code::Unavailable);
    emulator.refuse("EtcdStatus", Refusal::Hang);
    assert!(tokio::time::timeout(HANG, api.etcd_status(())).await.is_err());
    emulator.heal();
    api.etcd_status(()).await.unwrap();
}

#[tokio::test]
async fn our_own_client_reads_the_talosconfig_and_chooses_a_member() {
    let emulator = three().await;
    let config = TalosConfig::parse(&emulator.talosconfig(BACKUP), "lab").unwrap();
    let options = ConnectOptions::new(chrono::Utc::now());
    let client = Client::connect(&config.context(None).unwrap(), &options).await.unwrap();
    let choice = choose_member(&client.questions(), None).await;
    assert!(choice.node.is_some(), "{choice:?}");
}

#[tokio::test]
async fn a_real_etcd_is_served_whole_and_restores() {
    let Some(etcd) = real_etcd("a real etcd behind the emulator").await else { return };
    let filled = etcd.client().fill(500, 400).await.unwrap();
    let emulator = emulator(Backend::Etcd(etcd.client_url().to_owned())).await;
    let (bytes, end) = whole(&emulator).await;
    end.unwrap();
    let report = check(&bytes);
    assert!(report.is_proven(), "{report:?}");
    assert_eq!(report.contents.unwrap().revision, filled.revision);

    let mut api = connect(&emulator, BACKUP).await;
    let status = api.etcd_status(()).await.unwrap().into_inner().messages.remove(0).member_status.unwrap();
    assert_eq!(status.protocol_version, etcd.client().status().await.unwrap().version);
    let members = api.etcd_member_list(EtcdMemberListRequest::default()).await.unwrap().into_inner();
    assert_eq!(members.messages[0].members[0].client_urls, ["https://10.0.0.1:2379"]);
    assert_eq!(members.messages[0].members[0].id, status.member_id);
    assert!(api.etcd_alarm_list(()).await.unwrap().into_inner().messages[0].member_alarms.is_empty());

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    match etcd::restore(file.path()).await {
        Ok(restored) => {
            let client = restored.client();
            assert_eq!(client.count(b"/registry/lab/").await.unwrap(), filled.live_keys);
            let hash = |reply: etcd::api::HashKvResponse| (reply.hash, reply.compact_revision);
            let before = etcd.client().hash_kv(filled.revision).await.unwrap();
            assert_eq!(hash(client.hash_kv(filled.revision).await.unwrap()), hash(before));
        }
        Err(why) if why.is_not_installed() => skipped("restoring with etcd's own tool", &why),
        Err(error) => panic!("{error}: {error:?}"),
    }
}

#[tokio::test]
async fn a_stopped_etcd_hangs_the_snapshot_and_a_killed_one_cuts_it_with_ok() {
    let Some(etcd) = real_etcd("a real etcd that stops").await else { return };
    etcd.client().fill(2000, 8000).await.unwrap();
    let emulator = emulator(Backend::Etcd(etcd.client_url().to_owned())).await;
    let mut api = connect(&emulator, BACKUP).await;

    etcd.killer().freeze().unwrap();
    assert!(tokio::time::timeout(HANG, api.etcd_snapshot(EtcdSnapshotRequest {})).await.is_err());
    etcd.killer().thaw().unwrap();

    let killer = etcd.killer();
    emulator.set(Fault::kill_etcd(100_000, move || killer.kill()));
    let (bytes, end) = whole(&emulator).await;
    end.expect("Talos swallows the read error");
    assert!(!check(&bytes).is_proven());
    assert!(bytes.len() >= 100_000);

    // Now it is down for good, and a node waits for it without end.
    emulator.heal();
    assert!(tokio::time::timeout(HANG, api.etcd_snapshot(EtcdSnapshotRequest {})).await.is_err());
    assert!(tokio::time::timeout(HANG, api.etcd_status(())).await.is_err());
}

#[tokio::test]
async fn three_real_members_stand_behind_three_nodes() {
    let members = match Etcd::start_three().await {
        Ok(members) => members,
        Err(why) if why.is_not_installed() => return skipped("a cluster of three etcd members", &why),
        Err(error) => panic!("{error}: {error:?}"),
    };
    let node = |(index, member): (usize, &Etcd)| {
        NodeOptions::new(&format!("10.0.0.{}", index + 1), Backend::Etcd(member.client_url().to_owned()))
    };
    let nodes = members.iter().enumerate().map(node).collect();
    let emulator = Emulator::start(EmulatorOptions::of_nodes(nodes)).await.unwrap();
    let mut api = connect(&emulator, BACKUP).await;
    let mut ids = std::collections::BTreeSet::new();
    for node in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        let status = api.etcd_status(to((), &[("node", node)])).await.unwrap().into_inner().messages.remove(0);
        ids.insert(status.member_status.unwrap().member_id);
    }
    assert_eq!(ids.len(), 3);
    let list = api.etcd_member_list(EtcdMemberListRequest::default()).await.unwrap().into_inner().messages.remove(0);
    assert!(list.members.iter().all(|member| member.client_urls[0].starts_with("https://10.0.0.")));
}

#[tokio::test]
async fn a_program_runs_with_nothing_but_what_it_was_given() {
    let output = Program::at("/usr/bin/env").env("ONLY", "this").run().await.unwrap();
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "ONLY=this\n"));
    let running = Program::at("/bin/sleep").arg("100").spawn().unwrap();
    running.signal("TERM").unwrap();
    let output = running.wait().await.unwrap();
    assert_eq!((output.code, output.signal, output.timed_out), (None, Some(15), false));
    let output = Program::at("/bin/sleep").arg("100").timeout(Duration::from_millis(100)).run().await.unwrap();
    assert_eq!((output.signal, output.timed_out), (Some(9), true));
    assert!(output.peak_memory_bytes > 0);
}

#[tokio::test]
async fn our_backup_program_is_found_or_built() {
    let output = Program::backup().unwrap().arg("--version").run().await.unwrap();
    assert!(!output.timed_out);
}
