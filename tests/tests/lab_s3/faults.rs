//! Faults before and instead of an answer: refusals, cuts, waiting, and the log that tells what the store saw.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bronzenail_lab::front::{Action, Fate, Gate, Moment, Operation, Refusal, Rule};
use bronzenail_lab::s3::{ClientOptions, client_with};

use super::stage::{BUCKET, MIB, PART, PATIENCE, body, pattern, refusal, stage, was_cut};

#[tokio::test]
async fn without_rules_everything_passes_and_is_logged() {
    let stage = stage([]).await;
    stage.upload("dir/k", &[PART, 10]).await.unwrap();
    let got = stage.client.get_object().bucket(BUCKET).key("dir/k").range("bytes=1-2").send().await.unwrap();
    assert_eq!(got.body.collect().await.unwrap().to_vec(), pattern(3)[1..]);

    let log = stage.front.log();
    let operations: Vec<_> = log.iter().map(|seen| (seen.operation, seen.part_number)).collect();
    assert_eq!(
        operations,
        [
            (Operation::CreateMultipartUpload, None),
            (Operation::UploadPart, Some(1)),
            (Operation::UploadPart, Some(2)),
            (Operation::CompleteMultipartUpload, None),
            (Operation::GetObject, None),
        ]
    );
    assert_eq!((log[1].body_bytes, log[1].content_length()), (PART as u64, Some(PART as u64)));
    assert!(log.iter().all(|seen| seen.is_signed() && seen.key.as_deref() == Some("dir/k") && seen.reached_store()));
    assert!(log.iter().all(|seen| seen.access_key() == Some(stage.keys.access_key.as_str())));
    assert_eq!((log[0].region(), log[0].session_token()), (Some("us-east-1"), None));
    assert_eq!(log[4].fate, Fate::Forwarded(206));
    assert_eq!(log[4].header("range"), Some("bytes=1-2"));
    assert!(log.iter().all(|seen| seen.checksum_headers().is_empty()));
}

#[tokio::test]
async fn refusals_come_with_status_code_and_region_and_never_reach_the_store() {
    let cases = [
        (Refusal::slow_down(), "SlowDown", 503),
        (Refusal::too_many_requests(), "TooManyRequests", 429),
        (Refusal::internal_error(), "InternalError", 500),
        (Refusal::access_denied(), "AccessDenied", 403),
        (Refusal::precondition_failed(), "PreconditionFailed", 412),
        (Refusal::new(501, "NotImplemented"), "NotImplemented", 501),
        (Refusal::new(411, "MissingContentLength"), "MissingContentLength", 411),
        (Refusal::wrong_region("eu-nl-1"), "AuthorizationHeaderMalformed", 400),
    ];
    let stage = stage([]).await;
    for (refused, code, status) in cases {
        stage.front.clear_rules();
        stage.front.rule(Rule::new(Action::Refuse(refused)).on(Operation::PutObject).once());
        let put = || stage.client.put_object().bucket(BUCKET).key(code).body(body("x")).send();
        let error = put().await.unwrap_err();
        assert_eq!(refusal(&error), (code.to_owned(), status));
        if code == "AuthorizationHeaderMalformed" {
            let text = error.raw_response().unwrap().body().bytes().unwrap();
            assert!(String::from_utf8_lossy(text).contains("<Region>eu-nl-1</Region>"));
        }
        assert!(stage.server.object(BUCKET, code).is_none());
        assert_eq!(stage.front.log().last().unwrap().fate, Fate::Answered(status));
        put().await.unwrap();
    }
}

#[tokio::test]
async fn rules_count_what_they_match() {
    let stage = stage([
        Rule::new(Action::Refuse(Refusal::slow_down())).on(Operation::PutObject).key_suffix(".json").nth(2),
        Rule::new(Action::Refuse(Refusal::access_denied())).on(Operation::PutObject).key("never").times(2),
        Rule::new(Action::Refuse(Refusal::internal_error())).on(Operation::HeadObject).key_contains("mid").after(1),
    ])
    .await;
    let put = async |key: &str| match stage.client.put_object().bucket(BUCKET).key(key).body(body("x")).send().await {
        Ok(_) => 200,
        Err(error) => refusal(&error).1,
    };
    assert_eq!([put("a.json").await, put("a").await, put("b.json").await, put("c.json").await], [200, 200, 503, 200]);
    assert_eq!([put("never").await, put("never").await, put("never").await], [403, 403, 200]);
    put("a-mid-b").await;
    let head = async || match stage.client.head_object().bucket(BUCKET).key("a-mid-b").send().await {
        Ok(_) => 200,
        Err(error) => refusal(&error).1,
    };
    assert_eq!([head().await, head().await, head().await], [200, 500, 500]);
}

#[tokio::test]
async fn a_connection_cut_before_forwarding_leaves_nothing_in_the_store() {
    for action in [Action::ResetAtOnce, Action::ResetInBody(MIB as u64), Action::CloseUnforwarded] {
        let stage = stage([Rule::new(action.clone()).on_part(2)]).await;
        let upload = stage.begin("k").await;
        stage.part("k", &upload, 1, pattern(PART)).await;
        let call = stage.client.upload_part().bucket(BUCKET).key("k").upload_id(&upload).part_number(2);
        let error = call.body(body(pattern(PART))).send().await.unwrap_err();
        assert!(was_cut(&error), "{action:?}: {error:?}");
        let parts = stage.client.list_parts().bucket(BUCKET).key("k").upload_id(&upload).send().await.unwrap();
        assert_eq!(parts.parts().len(), 1, "{action:?}");
        assert_eq!(stage.front.seen(Operation::UploadPart)[1].fate, Fate::CutBeforeStore, "{action:?}");
    }
}

#[tokio::test]
async fn a_swallowed_reply_leaves_the_deed_done_and_the_client_ignorant() {
    for action in [Action::ResetAfterForward, Action::SwallowReply] {
        let stage = stage([Rule::new(action.clone()).on(Operation::CompleteMultipartUpload)]).await;
        let error = stage.upload("k", &[10]).await.unwrap_err();
        assert!(was_cut(&error), "{action:?}: {error:?}");
        assert_eq!(stage.server.object(BUCKET, "k").unwrap().len(), 10);
        assert_eq!(stage.front.seen(Operation::CompleteMultipartUpload)[0].fate, Fate::CutAfterStore);
    }
}

/// A reset and an orderly close are different things to a client, and must be so on the wire.
#[tokio::test]
async fn a_reset_is_a_reset_and_a_close_is_a_close() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    for (action, reset) in [(Action::ResetAtOnce, true), (Action::CloseUnforwarded, false)] {
        let stage = stage([Rule::new(action.clone())]).await;
        let mut wire = tokio::net::TcpStream::connect(stage.front.address()).await.unwrap();
        wire.write_all(b"GET /b/k HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let end = wire.read_to_end(&mut rest).await;
        match reset {
            true => assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "{action:?}"),
            false => assert_eq!((end.unwrap(), rest.len()), (0, 0), "{action:?}"),
        }
    }
}

#[tokio::test]
async fn a_hanging_store_is_left_by_the_client_alone() {
    let stage = stage([Rule::new(Action::Hang).on(Operation::HeadObject)]).await;
    let impatient = ClientOptions { timeout: Some(Duration::from_millis(300)), ..ClientOptions::default() };
    let impatient = client_with(&stage.front.endpoint(), &stage.keys, &impatient);
    assert!(impatient.head_object().bucket(BUCKET).key("k").send().await.is_err());
    let seen = stage.front.wait_for(PATIENCE, |seen| seen.fate == Fate::ClientGone).await.unwrap();
    assert_eq!(seen.operation, Operation::HeadObject);
}

#[tokio::test]
async fn delays_and_slow_drains_hinder_but_do_not_harm() {
    let stage = stage([
        Rule::new(Action::Delay(Duration::from_millis(300))).on(Operation::HeadObject),
        Rule::new(Action::SlowDrain(8 * MIB as u64)).on(Operation::PutObject),
        Rule::new(Action::SlowReply(8 * MIB as u64)).on(Operation::GetObject),
    ])
    .await;
    // A lower bound on time cannot fail on a slow machine.
    let begun = Instant::now();
    stage.client.put_object().bucket(BUCKET).key("k").body(body(pattern(4 * MIB))).send().await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    let begun = Instant::now();
    let got = stage.client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(got.body.collect().await.unwrap().to_vec(), pattern(4 * MIB));
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    let begun = Instant::now();
    stage.client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_test_can_step_in_at_any_moment() {
    for (moment, stored) in [(Moment::Arrived, false), (Moment::BodyRead, false), (Moment::StoreAnswered, true)] {
        let gate = Gate::closed();
        let stage = stage([Rule::new(Action::Hold(moment, gate.clone())).on(Operation::PutObject)]).await;
        let client = stage.client.clone();
        let put = tokio::spawn(async move { client.put_object().bucket(BUCKET).key("k").body(body("x")).send().await });
        gate.arrival(PATIENCE).await.unwrap();
        assert_eq!(stage.server.object(BUCKET, "k").is_some(), stored, "{moment:?}");
        gate.open();
        put.await.unwrap().unwrap();
        assert_eq!(stage.server.object(BUCKET, "k").unwrap(), "x");
        assert_eq!(gate.arrivals(), 1);
    }
}

#[tokio::test]
async fn a_client_that_dies_at_a_gate_is_noted() {
    for (moment, fate) in [(Moment::BodyRead, Fate::ClientGone), (Moment::StoreAnswered, Fate::CutAfterStore)] {
        let gate = Gate::closed();
        let stage = stage([Rule::new(Action::Hold(moment, gate.clone())).on(Operation::PutObject)]).await;
        let client = stage.client.clone();
        let put = tokio::spawn(async move { client.put_object().bucket(BUCKET).key("k").body(body("x")).send().await });
        gate.arrival(PATIENCE).await.unwrap();
        put.abort();
        stage.front.wait_for(PATIENCE, |seen| seen.fate == fate).await.unwrap();
        assert_eq!(stage.server.object(BUCKET, "k").is_some(), fate == Fate::CutAfterStore);
    }
}

#[tokio::test]
async fn callbacks_see_the_request_and_more_than_one_rule_can_act() {
    let called = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&called);
    let stage = stage([
        Rule::new(Action::call(Moment::BodyRead, move |seen| note.lock().unwrap().push(seen.part_number))),
        Rule::new(Action::Refuse(Refusal::internal_error())).on_part(1).once(),
    ])
    .await;
    let upload = stage.begin("k").await;
    let call = stage.client.upload_part().bucket(BUCKET).key("k").upload_id(&upload).part_number(1);
    assert_eq!(refusal(&call.body(body("x")).send().await.unwrap_err()).1, 500);
    stage.part("k", &upload, 1, pattern(10)).await;
    assert_eq!(*called.lock().unwrap(), [None, Some(1), Some(1)]);
}
