//! Questions, the choice of a member, and snapshots over the wire.

#![allow(clippy::unwrap_used)]

mod fake;
mod pki;

use std::collections::HashMap;
use std::time::Duration;

use bronzenail_proto::machine::{EtcdMember, EtcdMemberAlarm, EtcdMemberStatus};
use bronzenail_talos::{
    Answer, Client, Code, ConnectReason, Deadlines, MemberSource, Node, SnapshotSource, TalosError, choose_member,
};
use fake::{Script, Step, Then, connect, context, options, proxy, start};
use futures::StreamExt;
use pki::Pki;

const SOON: Duration = Duration::from_millis(200);

fn node(text: &str) -> Node {
    text.parse().unwrap()
}

fn status(id: u64) -> EtcdMemberStatus {
    EtcdMemberStatus {
        protocol_version: "3.6.5".to_owned(),
        db_size: 4096,
        leader: 1,
        raft_term: 3,
        raft_applied_index: 100,
        member_id: id,
        ..Default::default()
    }
}

fn cluster() -> Script {
    let member = |id: u64| EtcdMember {
        id,
        hostname: format!("cp-{id}"),
        peer_urls: vec![format!("https://10.0.0.{id}:2380")],
        client_urls: vec![format!("https://10.0.0.{id}:2379")],
        is_learner: false,
    };
    let mut statuses: HashMap<String, EtcdMemberStatus> =
        (1..=3).map(|id| (format!("10.0.0.{id}"), status(id))).collect();
    statuses.insert(String::new(), status(1));
    Script { members: (1..=3).map(member).collect(), statuses, ..Default::default() }
}

async fn source(script: Script) -> (SnapshotSource, fake::Running) {
    let pki = Pki::new();
    let running = start(&pki, script).await;
    (connect(&pki, &running).await.snapshot_source(), running)
}

async fn take(source: &SnapshotSource, deadlines: Deadlines) -> Result<Vec<u8>, TalosError> {
    let mut stream = source.snapshot(Some(&node("10.0.0.2")), deadlines).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

async fn failed(script: Script) -> TalosError {
    let (source, _running) = source(script).await;
    take(&source, Deadlines { first_byte: SOON, idle: SOON }).await.unwrap_err()
}

fn snapshot(steps: Vec<Step>) -> Script {
    Script { snapshot: steps, ..Default::default() }
}

#[tokio::test]
async fn questions_carry_one_node_and_a_deadline() {
    let (source, running) = source(cluster()).await;
    let questions = source.questions();
    let two = node("10.0.0.2");
    assert_eq!(questions.version(None).await.unwrap().known().unwrap().talos, "v1.13.9");
    assert_eq!(questions.etcd_status(Some(&two)).await.unwrap().known().unwrap().member_id.0, 2);
    assert_eq!(questions.member_list(Some(&two), MemberSource::AnyMember).await.unwrap().known().unwrap().len(), 3);
    assert_eq!(questions.alarm_list(Some(&two)).await.unwrap(), Answer::Known(vec![]));
    let seen = running.seen();
    assert!(seen.iter().all(|call| !call.nodes_header && call.wire_deadline), "{seen:?}");
    let nodes: Vec<Option<&str>> = seen.iter().map(|call| call.node.as_deref()).collect();
    assert_eq!(nodes, [None, Some("10.0.0.2"), Some("10.0.0.2"), Some("10.0.0.2")]);
}

#[tokio::test]
async fn b22_a_question_that_role_or_version_does_not_allow_is_no_error() {
    for (code, message) in [
        (Code::PermissionDenied, "not authorized"),
        (Code::Unimplemented, "unknown method EtcdStatus for service machine.MachineService"),
    ] {
        let (source, _running) =
            source(Script { refusals: [("EtcdStatus", (code, message))].into(), ..cluster() }).await;
        let answer = source.questions().etcd_status(None).await.unwrap();
        assert!(matches!(&answer, Answer::NotAllowed(why) if why.contains(message)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_worker_is_an_error_with_a_hint() {
    let refusal = (Code::Unimplemented, "etcd status is only available on control plane nodes");
    let (source, _running) = source(Script { refusals: [("EtcdStatus", refusal)].into(), ..cluster() }).await;
    let error = source.questions().etcd_status(None).await.unwrap_err();
    assert!(error.is_not_control_plane() && error.hint().unwrap().contains("control-plane"), "{error}");
}

#[tokio::test]
async fn an_error_inside_an_answer_is_an_error() {
    let in_band = [("EtcdStatus", (Code::PermissionDenied, "node says no"))].into();
    let (source, _running) = source(Script { in_band, ..cluster() }).await;
    let error = source.questions().etcd_status(None).await.unwrap_err();
    assert!(error.code() == Some(Code::PermissionDenied) && error.to_string().contains("node says no"), "{error}");
}

#[tokio::test]
async fn b14_a_question_to_a_dead_etcd_ends_at_its_deadline() {
    let pki = Pki::new();
    let running = start(&pki, Script { hangs: vec!["EtcdStatus"], ..cluster() }).await;
    let mut options = options();
    options.question_timeout = SOON;
    let client = Client::connect(&context(&pki, &[running.endpoint()]), &options).await.unwrap();
    let error = client.questions().etcd_status(None).await.unwrap_err();
    assert!(matches!(error, TalosError::NoAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn a_healthy_follower_is_chosen_through_one_endpoint() {
    let (source, running) = source(cluster()).await;
    let choice = choose_member(source.questions(), None).await;
    assert_eq!((choice.node, choice.warnings), (Some(node("10.0.0.2")), vec![]));
    assert_eq!(choice.facts.talos_version.as_deref(), Some("v1.13.9"));
    assert!(running.seen().iter().any(|call| call.method == "Version" && call.node.as_deref() == Some("10.0.0.2")));
}

#[tokio::test]
async fn a_corrupt_member_is_not_chosen() {
    let alarms = vec![EtcdMemberAlarm { member_id: 2, alarm: 2 }];
    let (source, _running) = source(Script { alarms, ..cluster() }).await;
    assert_eq!(choose_member(source.questions(), None).await.node, Some(node("10.0.0.3")));
}

#[tokio::test]
async fn b22_with_the_least_role_of_an_old_talos_the_endpoint_is_taken() {
    let denied = (Code::PermissionDenied, "not authorized");
    let refusals = ["Version", "EtcdStatus", "EtcdMemberList", "EtcdAlarmList"].map(|method| (method, denied)).into();
    let (source, _running) = source(Script { refusals, ..cluster() }).await;
    let choice = choose_member(source.questions(), None).await;
    assert!(choice.node.is_none() && choice.why.contains("not authorized"), "{choice:?}");
}

#[tokio::test]
async fn a_learner_named_by_hand_is_taken_with_a_warning() {
    let mut script = cluster();
    script.statuses.get_mut("10.0.0.3").unwrap().is_learner = true;
    let (source, _running) = source(script).await;
    let choice = choose_member(source.questions(), Some(&node("10.0.0.3"))).await;
    assert_eq!((choice.node, choice.facts.name.as_deref()), (Some(node("10.0.0.3")), Some("cp-3")));
    assert!(choice.warnings[0].contains("learner"), "{:?}", choice.warnings);
}

#[tokio::test]
async fn a_snapshot_arrives_whole_in_large_pieces_and_for_one_node() {
    let bytes: Vec<u8> = (0..3_000_017_u32).map(|n| (n % 253) as u8).collect();
    let (source, running) = source(snapshot(vec![Step::Data(bytes.clone())])).await;
    let mut stream = source.snapshot(Some(&node("10.0.0.2")), Deadlines::default()).await.unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = stream.next().await {
        chunks.push(chunk.unwrap());
    }
    assert!(chunks.concat() == bytes && stream.received_bytes() == bytes.len() as u64);
    assert!(chunks.len() <= bytes.len() / (128 * 1024) + 1, "{} pieces", chunks.len());
    let call = &running.seen()[0];
    assert_eq!((call.node.as_deref(), call.nodes_header), (Some("10.0.0.2"), false));
    assert!(!call.wire_deadline, "no limit on the whole");
}

#[tokio::test]
async fn b03_a_status_in_the_middle_fails_with_its_own_name() {
    let steps = vec![Step::Data(vec![1; 600 * 1024]), Step::Fail(Code::DeadlineExceeded, "context deadline exceeded")];
    let error = failed(snapshot(steps)).await.to_string();
    assert!(error.contains("after 614400 bytes failed with DeadlineExceeded: context deadline exceeded"), "{error}");
}

#[tokio::test]
async fn b03_a_connection_cut_in_the_middle_fails_and_is_named() {
    for then in [Then::Close, Then::Reset] {
        let pki = Pki::new();
        let running = start(&pki, snapshot(vec![Step::Data(vec![1; 4 << 20])])).await;
        let cut = proxy(running.address, 1 << 20, then).await;
        let client = Client::connect(&context(&pki, &[cut.to_string()]), &options()).await.unwrap();
        let error = take(&client.snapshot_source(), Deadlines::default()).await.unwrap_err();
        assert!(matches!(error, TalosError::Connection { reason: ConnectReason::Reset, .. }), "{then:?}: {error}");
        assert!(error.is_retryable() && error.to_string().contains(" after "), "{error}");
    }
}

#[tokio::test]
async fn b12_a_peer_that_vanishes_in_the_middle_fails_within_the_idle_time() {
    let pki = Pki::new();
    let running = start(&pki, snapshot(vec![Step::Data(vec![1; 4 << 20])])).await;
    let frozen = proxy(running.address, 1 << 20, Then::Freeze).await;
    let client = Client::connect(&context(&pki, &[frozen.to_string()]), &options()).await.unwrap();
    let deadlines = Deadlines { first_byte: Duration::from_secs(60), idle: SOON };
    let error = take(&client.snapshot_source(), deadlines).await.unwrap_err();
    assert!(matches!(error, TalosError::Stalled { .. }), "{error:?}");
}

#[tokio::test]
async fn b14_hanging_and_empty_snapshots_end_at_the_first_byte_deadline() {
    let hanging = Script { snapshot_hangs: true, ..Default::default() };
    for script in [hanging, snapshot(vec![Step::Hang]), snapshot(vec![Step::Empties])] {
        let error = failed(script).await;
        assert!(matches!(error, TalosError::NoFirstByte { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn b14_empty_messages_after_data_are_a_stall() {
    let pki = Pki::new();
    let running = start(&pki, snapshot(vec![Step::Data(vec![1; 2048]), Step::Empties])).await;
    let source = connect(&pki, &running).await.snapshot_source();
    let deadlines = Deadlines { first_byte: Duration::from_secs(60), idle: SOON };
    let error = take(&source, deadlines).await.unwrap_err();
    assert!(matches!(error, TalosError::Stalled { .. }), "{error:?}");
}

#[tokio::test]
async fn an_error_inside_the_stream_fails_although_the_call_ends_ok() {
    let error =
        failed(snapshot(vec![Step::InBand("no such node", Code::Unavailable), Step::Data(vec![1; 2048])])).await;
    assert!(error.code() == Some(Code::Unavailable) && error.to_string().contains("no such node"), "{error}");
}

#[tokio::test]
async fn b22_a_snapshot_that_the_role_does_not_allow_names_the_role() {
    let refusals = [("EtcdSnapshot", (Code::PermissionDenied, "not authorized"))].into();
    let error = failed(Script { refusals, ..Default::default() }).await;
    assert!(!error.is_retryable() && error.hint().unwrap().contains("os:etcd:backup"), "{error}");
}

#[tokio::test]
async fn a_channel_connects_again_by_itself_after_a_cut() {
    let pki = Pki::new();
    let running = start(&pki, Script { snapshot: vec![Step::Data(vec![1; 4 << 20])], ..cluster() }).await;
    let cut = proxy(running.address, 1 << 20, Then::Close).await;
    let client = Client::connect(&context(&pki, &[cut.to_string()]), &options()).await.unwrap();
    take(&client.snapshot_source(), Deadlines::default()).await.unwrap_err();
    // The proxy is gone now, so connecting again has a reason that can be named.
    let error = client.questions().version(None).await.unwrap_err();
    assert!(matches!(error, TalosError::Connection { reason: ConnectReason::Refused, .. }), "{error:?}");
}
