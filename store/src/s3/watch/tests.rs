//! Limits here are a millisecond where they must strike and an hour where they must not: slowness cannot fail a test.

use aws_smithy_runtime_api::http::{Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::*;

const SOON: Duration = Duration::from_millis(1);
const NEVER: Duration = Duration::from_secs(3_600);

/// Takes the whole request, then does as its kind says.
#[derive(Debug)]
enum Server {
    /// Never replies.
    Silent,
    /// Never takes a byte.
    Deaf,
    /// Replies with a head and nothing more.
    HeadOnly,
}

impl HttpConnector for Server {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        let (takes, replies) = (!matches!(self, Self::Deaf), matches!(self, Self::HeadOnly));
        HttpConnectorFuture::new(async move {
            if takes {
                let body = std::mem::replace(request.body_mut(), SdkBody::taken());
                body.collect().await.map_err(ConnectorError::io)?;
            }
            match replies {
                true => Ok(Response::new(StatusCode::try_from(200).unwrap(), SdkBody::from_body_1_x(Quiet))),
                false => std::future::pending().await,
            }
        })
    }
}

struct Quiet;

impl Body for Quiet {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Pending
    }
}

fn request(method: &str, body: &'static [u8]) -> HttpRequest {
    let mut request = Request::new(SdkBody::from(body));
    request.set_uri("http://store.test/bucket/key?uploadId=secret").unwrap();
    request.set_method(method).unwrap();
    request
}

fn watched(server: Server, idle: Duration, reply: Duration) -> Watched<Server> {
    Watched::new(server, Limits { idle, reply }, Arc::default())
}

#[tokio::test]
async fn b12_a_store_that_takes_nothing_ends_as_a_timeout() {
    let error = watched(Server::Deaf, SOON, NEVER).call(request("PUT", b"part")).await.unwrap_err();
    assert!(error.is_timeout(), "which the SDK sends again: {error:?}");
}

#[tokio::test]
async fn b27_a_request_that_was_handed_over_has_the_time_of_a_reply() {
    let error = watched(Server::Silent, NEVER, SOON).call(request("PUT", b"part")).await.unwrap_err();
    assert!(error.is_timeout());
    let error = watched(Server::Silent, NEVER, SOON).call(request("GET", b"")).await.unwrap_err();
    assert!(error.is_timeout(), "also one without a body");
}

#[tokio::test]
async fn b28_a_completion_that_was_begun_with_200_has_the_time_of_a_reply() {
    for (method, idle, reply) in [("GET", SOON, NEVER), ("POST", NEVER, SOON)] {
        let response = watched(Server::HeadOnly, idle, reply).call(request(method, b"")).await.unwrap();
        let error = response.into_body().collect().await.unwrap_err();
        assert!(error.is::<NoProgress>(), "{method}: {error:?}");
    }
}

#[tokio::test]
async fn b27_a_part_goes_out_in_small_pieces_of_the_same_bytes_and_a_known_length() {
    let part: Vec<u8> = (0..3 * PIECE_BYTES + 1).map(|n| (n % 251) as u8).collect();
    let mut request = request("PUT", b"");
    *request.body_mut() = SdkBody::from(part.clone());
    let activity = Arc::new(Activity::new());
    let mut body = std::mem::replace(with_watched_body(request, &activity).body_mut(), SdkBody::taken());
    assert_eq!(body.content_length(), Some(part.len() as u64), "stores refuse a body of unknown length");
    let mut sent = Vec::new();
    while let Some(frame) = body.frame().await {
        let piece = frame.unwrap().into_data().unwrap();
        assert!(piece.len() <= PIECE_BYTES);
        sent.extend_from_slice(&piece);
        assert_eq!(body.size_hint().exact(), Some((part.len() - sent.len()) as u64));
        let handed_over = activity.0.lock().unwrap().1;
        assert_eq!(handed_over, sent.len() == part.len());
    }
    assert!(sent == part);
}

#[tokio::test]
async fn b36_only_what_is_sent_again_is_counted() {
    let retries = Arc::new(AtomicU64::new(0));
    let watched = Watched::new(Server::Silent, Limits { idle: SOON, reply: SOON }, Arc::clone(&retries));
    for (header, count) in [(None, 0), (Some("attempt=1; max=6"), 0), (Some("attempt=2; max=6"), 1), (Some("x"), 1)] {
        let mut request = request("GET", b"");
        if let Some(header) = header {
            request.headers_mut().insert("amz-sdk-request", header);
        }
        watched.call(request).await.unwrap_err();
        assert_eq!(retries.load(Ordering::Relaxed), count, "{header:?}");
    }
}
