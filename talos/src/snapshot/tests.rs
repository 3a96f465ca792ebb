//! The stream without a network. Deadlines here are small and either certain to pass or far from it.

use bronzenail_proto::common::{Metadata, RpcStatus};
use futures::stream::{self, BoxStream, StreamExt};
use tonic::Code;

use super::*;

const SOON: Duration = Duration::from_millis(30);
const NEVER: Duration = Duration::from_secs(600);

type Messages = BoxStream<'static, Result<Data, Status>>;

fn snapshot(
    messages: impl Stream<Item = Result<Data, Status>> + Send + 'static,
    first_byte: Duration,
    idle: Duration,
) -> SnapshotStream<Messages> {
    let call = Call { method: METHOD, endpoint: "10.0.0.1".parse().unwrap(), node: None, received_bytes: None };
    SnapshotStream::new(messages.boxed(), call, Deadlines { first_byte, idle }, Instant::now() + first_byte)
}

fn data(bytes: impl Into<Bytes>) -> Result<Data, Status> {
    Ok(Data { metadata: None, bytes: bytes.into() })
}

async fn outcome(mut stream: SnapshotStream<Messages>) -> (Vec<Bytes>, Option<TalosError>) {
    let mut chunks = Vec::new();
    while let Some(next) = stream.next().await {
        match next {
            Ok(chunk) => chunks.push(chunk),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (chunks, Some(error));
            }
        }
    }
    (chunks, None)
}

#[tokio::test]
async fn small_messages_come_out_in_large_pieces_and_in_order() {
    let bytes: Vec<u8> = (0..2_000_003_u32).map(|n| (n % 251) as u8).collect();
    for message_bytes in [1, 1000, 1024, 300_000] {
        let bytes = if message_bytes == 1 { bytes[..300_000].to_vec() } else { bytes.clone() };
        let messages: Vec<_> = bytes.chunks(message_bytes).map(|part| data(part.to_vec())).collect();
        let (chunks, error) = outcome(snapshot(stream::iter(messages), NEVER, NEVER)).await;
        assert!(error.is_none());
        assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.len() >= CHUNK_BYTES), "{message_bytes}");
        assert!(chunks.concat() == bytes, "{message_bytes}");
    }
}

#[tokio::test]
async fn an_error_in_a_message_fails_the_snapshot_with_its_own_code() {
    let metadata = |error: &str, code| {
        let status = (code != 0).then(|| RpcStatus { code, message: "status words".to_owned() });
        Ok(Data {
            metadata: Some(Metadata { hostname: "cp-1".to_owned(), error: error.to_owned(), status }),
            bytes: Bytes::new(),
        })
    };
    for (message, code, words) in [
        (metadata("rpc error: gone", Code::Unavailable as i32), Code::Unavailable, "rpc error: gone"),
        (metadata("only words", 0), Code::Unknown, "only words"),
        (metadata("", Code::Internal as i32), Code::Internal, "status words"),
    ] {
        let messages = stream::iter([data(vec![1; 1024]), message, data(vec![2; 1024])]);
        let (chunks, error) = outcome(snapshot(messages, NEVER, NEVER)).await;
        let error = error.unwrap();
        assert_eq!((chunks.len(), error.code()), (0, Some(code)));
        assert!(error.to_string().contains(words) && error.to_string().contains("after 1024 bytes"), "{error}");
    }
    // A host name alone is no error: old versions always send it.
    let (_, error) = outcome(snapshot(stream::iter([metadata("", 0), data("x")]), NEVER, NEVER)).await;
    assert!(error.is_none());
}

#[tokio::test]
async fn b03_a_status_in_the_middle_keeps_its_code_and_message() {
    let messages =
        stream::iter([data(vec![1; 600_000]), data(vec![1; 10]), Err(Status::deadline_exceeded("too long"))]);
    let (chunks, error) = outcome(snapshot(messages, NEVER, NEVER)).await;
    assert_eq!(chunks.len(), 1);
    let text = error.unwrap().to_string();
    assert!(text.contains("after 600010 bytes failed with DeadlineExceeded: too long"), "{text}");
}

#[tokio::test]
async fn without_a_first_byte_the_snapshot_fails() {
    let (_, error) = outcome(snapshot(stream::pending(), SOON, NEVER)).await;
    assert!(matches!(&error, Some(TalosError::NoFirstByte { .. })), "{error:?}");
    assert!(error.unwrap().hint().unwrap().contains("etcd"));
}

#[tokio::test]
async fn b12_a_stream_that_goes_silent_fails_within_the_idle_time() {
    let messages = stream::iter([data(vec![1; 1024])]).chain(stream::pending());
    let (_, error) = outcome(snapshot(messages, NEVER, SOON)).await;
    let error = error.unwrap();
    assert!(matches!(&error, TalosError::Stalled { .. }) && error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("after 1024 bytes"), "{error}");
}

/// Empty messages without end, each after a short wait.
fn empties() -> impl Stream<Item = Result<Data, Status>> + Send {
    stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Some((data(Bytes::new()), ()))
    })
}

#[tokio::test]
async fn b14_empty_messages_are_no_progress() {
    let (_, error) = outcome(snapshot(empties(), SOON, NEVER)).await;
    assert!(matches!(error, Some(TalosError::NoFirstByte { .. })), "{error:?}");
    let messages = stream::iter([data("x")]).chain(empties());
    let (_, error) = outcome(snapshot(messages, NEVER, SOON)).await;
    assert!(matches!(error, Some(TalosError::Stalled { .. })), "{error:?}");
}

#[tokio::test]
async fn b14_a_flood_of_empty_messages_ends_even_without_a_clock() {
    let messages = stream::iter([data("x")]).chain(stream::repeat_with(|| data(Bytes::new())));
    let (_, error) = outcome(snapshot(messages, NEVER, NEVER)).await;
    assert!(matches!(error, Some(TalosError::OnlyEmptyMessages { .. })), "{error:?}");
}

#[tokio::test]
async fn a_few_empty_messages_between_data_do_no_harm() {
    let messages = (0..100).flat_map(|_| std::iter::repeat_with(|| data(Bytes::new())).take(500).chain([data("x")]));
    let (chunks, error) = outcome(snapshot(stream::iter(messages.collect::<Vec<_>>()), NEVER, NEVER)).await;
    assert!(error.is_none());
    assert_eq!(chunks.concat().len(), 100);
}

#[tokio::test]
async fn b14_a_steady_trickle_may_take_longer_than_any_deadline() {
    let idle = Duration::from_millis(600);
    let started = Instant::now();
    let trickle = stream::unfold(0, |sent| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (sent < 10).then(|| (data("x"), sent + 1))
    });
    let (chunks, error) = outcome(snapshot(trickle, idle, idle)).await;
    assert!(error.is_none(), "{error:?}");
    assert!(started.elapsed() > idle && chunks.concat().len() == 10);
}

#[tokio::test]
async fn a_slow_consumer_does_not_make_the_node_look_dead() {
    let messages = stream::iter((0..4).map(|_| data(vec![7; CHUNK_BYTES])).collect::<Vec<_>>());
    let mut stream = snapshot(messages, SOON, SOON);
    for _ in 0..4 {
        tokio::time::sleep(SOON * 2).await;
        assert!(stream.next().await.unwrap().is_ok());
    }
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn data_that_arrived_while_nobody_asked_counts() {
    // Pending once, which starts the clock, and then ready: long after the deadline when it is asked again.
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let messages = stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|m| (m, receiver)) });
    let mut stream = snapshot(messages, SOON, SOON);
    assert!(futures::poll!(stream.next()).is_pending());
    sender.send(data(vec![1; CHUNK_BYTES])).unwrap();
    tokio::time::sleep(SOON * 3).await;
    assert!(stream.next().await.unwrap().is_ok());
}
