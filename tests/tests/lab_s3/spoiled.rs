//! Answers that are not what the store gave: hidden errors, cut and lying completions, short and wrong downloads.

use std::time::Duration;

use aws_sdk_s3::error::SdkError;
use bronzenail_lab::front::{Action, Fate, Lie, Operation, Refusal, Rule};

use super::stage::{BUCKET, MIB, PART, pattern, refusal, stage};

/// Sends a raw GET that needs no signature for what the front itself does to the answer.
async fn raw(front: std::net::SocketAddr, request: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut wire = tokio::net::TcpStream::connect(front).await.unwrap();
    wire.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    wire.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn an_error_hides_in_a_200() {
    let rule = Rule::new(Action::ErrorIn200("InternalError".to_owned())).on(Operation::CompleteMultipartUpload).once();
    let stage = stage([rule]).await;
    let answer =
        raw(stage.front.address(), "POST /b/k?uploadId=u HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("<Error><Code>InternalError</Code>"), "{answer}");
    stage.upload("k", &[10]).await.unwrap();
}

#[tokio::test]
async fn a_completion_keeps_the_client_waiting_with_white_space() {
    let waits = Action::WhitespaceFirst { every: Duration::from_millis(50), times: 4 };
    let stage = stage([Rule::new(waits).on(Operation::CompleteMultipartUpload)]).await;
    let begun = std::time::Instant::now();
    let completed = stage.upload("k", &[PART, 10]).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert!(completed.e_tag.unwrap().ends_with("-2\""));
    assert_eq!(stage.server.object(BUCKET, "k").unwrap().len(), PART + 10);
}

#[tokio::test]
async fn completions_come_back_empty_or_cut() {
    let actions = [Action::EmptyReply, Action::CutReply(40), Action::CutReply(0), Action::EndReplyEarly(60)];
    for action in actions {
        let stage = stage([Rule::new(action.clone()).on(Operation::CompleteMultipartUpload)]).await;
        let told = stage.upload("k", &[10]).await;
        // What the SDK makes of it differs; that it learns of no ETag is what the fault is about.
        assert!(told.as_ref().map_or(true, |output| output.e_tag.is_none()), "{action:?}: {told:?}");
        assert_eq!(stage.server.object(BUCKET, "k").unwrap().len(), 10, "{action:?}");
        assert_eq!(stage.front.seen(Operation::CompleteMultipartUpload)[0].fate, Fate::Forwarded(200));
    }
}

#[tokio::test]
async fn a_lying_store_says_the_same_as_an_honest_one_and_keeps_less() {
    let honest = stage([]).await;
    let truth = honest.upload("k", &[PART, PART, 10]).await.unwrap();
    let cases = [
        (Lie::KeepsNothing, None),
        (Lie::DropsLastPart, Some([pattern(PART), pattern(PART)].concat())),
        (Lie::Truncates(7), Some(pattern(7))),
        (Lie::DropsFirstPart, Some([pattern(PART), pattern(10)].concat())),
    ];
    for (lie, kept) in cases {
        let stage = stage([Rule::new(Action::Lie(lie)).on(Operation::CompleteMultipartUpload)]).await;
        let told = stage.upload("k", &[PART, PART, 10]).await.unwrap();
        assert_eq!((&told.e_tag, &told.key), (&truth.e_tag, &truth.key), "{lie:?}");
        assert_eq!(stage.server.object(BUCKET, "k").map(|bytes| bytes.to_vec()), kept, "{lie:?}");
    }
}

#[tokio::test]
async fn downloads_end_too_early() {
    let whole = 10 * MIB;
    let part = 6 * MIB as u64;
    let stage = stage([]).await;
    stage.server.put(BUCKET, "k", pattern(whole));
    let get = async |action: Action| {
        stage.front.clear_rules();
        stage.front.rule(Rule::new(action).on(Operation::GetObject).once());
        let got = stage.client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
        let announced = got.content_length;
        (announced, got.body.collect().await.map(|body| body.to_vec().len()))
    };
    // Cut: the length was announced, so the client notices.
    let (announced, body) = get(Action::CutReply(part)).await;
    assert_eq!(announced, Some(whole as i64));
    assert!(body.is_err());
    let (announced, body) = get(Action::ResetReply(part)).await;
    assert_eq!(announced, Some(whole as i64));
    assert!(body.is_err());
    // A clean end: nothing on the wire tells that anything is missing.
    let (announced, body) = get(Action::EndReplyEarly(part)).await;
    assert_eq!((announced, body.unwrap()), (None, part as usize));
    let (announced, body) = get(Action::EmptyReply).await;
    assert_eq!((announced, body.unwrap()), (Some(0), 0));
    // And then all is well again.
    let got = stage.client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(got.body.collect().await.unwrap().to_vec(), pattern(whole));
}

#[tokio::test]
async fn one_bit_of_a_download_is_wrong() {
    let stage = stage([Rule::new(Action::WrongByte(5000)).on(Operation::GetObject).ranged(false)]).await;
    stage.server.put(BUCKET, "k", pattern(9000));
    let got = stage.client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
    let got = got.body.collect().await.unwrap().to_vec();
    let differing: Vec<usize> = (0..9000).filter(|at| got[*at] != pattern(9000)[*at]).collect();
    assert_eq!(differing, [5000]);
    let ranged = stage.client.get_object().bucket(BUCKET).key("k").range("bytes=0-8999").send().await.unwrap();
    assert_eq!(ranged.body.collect().await.unwrap().to_vec(), pattern(9000));
}

#[tokio::test]
async fn a_listing_repeats_its_page_for_ever() {
    let stage = stage([Rule::new(Action::RepeatPageToken).on(Operation::ListObjectsV2)]).await;
    for key in ["a", "b", "c"] {
        stage.server.put(BUCKET, key, "x");
    }
    let page = async |token: Option<String>| {
        let call = stage.client.list_objects_v2().bucket(BUCKET).max_keys(2).set_continuation_token(token);
        let page = call.send().await.unwrap();
        (page.contents().len(), page.is_truncated, page.next_continuation_token)
    };
    let (count, more, token) = page(None).await;
    assert_eq!((count, more), (2, Some(true)));
    let second = page(token.clone()).await;
    assert_eq!(second, (1, Some(true), token.clone()));
    assert_eq!(page(token.clone()).await, (1, Some(true), token));
}

#[tokio::test]
async fn a_listing_fails_on_its_second_page() {
    let fails = Rule::new(Action::Refuse(Refusal::internal_error())).on(Operation::ListObjectsV2).later_pages(true);
    let stage = stage([fails]).await;
    for key in ["a", "b", "c"] {
        stage.server.put(BUCKET, key, "x");
    }
    let mut pages = stage.client.list_objects_v2().bucket(BUCKET).max_keys(2).into_paginator().send();
    assert_eq!(pages.next().await.unwrap().unwrap().contents().len(), 2);
    assert_eq!(refusal(&pages.next().await.unwrap().unwrap_err()).1, 500);
}

#[tokio::test]
async fn any_answer_can_be_given() {
    let xml = "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>AccessDenied</Code></Error></DeleteResult>";
    let answer = Action::Answer(http::StatusCode::OK, xml.into());
    let stage = stage([Rule::new(answer).on(Operation::DeleteObjects)]).await;
    let one = |key: &str| aws_sdk_s3::types::ObjectIdentifier::builder().key(key).build().unwrap();
    let delete = aws_sdk_s3::types::Delete::builder().objects(one("a")).objects(one("b")).build().unwrap();
    let deleted = stage.client.delete_objects().bucket(BUCKET).delete(delete).send().await.unwrap();
    assert_eq!((deleted.deleted().len(), deleted.errors()[0].code()), (1, Some("AccessDenied")));
    let head = stage.client.head_object().bucket(BUCKET).key("k").send().await;
    assert!(matches!(head.unwrap_err(), SdkError::ServiceError(_)));
}
