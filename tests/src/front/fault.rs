//! How a store's good answer is spoiled on its way to the client.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;

use super::rule::{Action, Refusal};
use super::xml;
use crate::s3::listener::{BoxError, Cut, ReplyBody, empty, full};

/// hyper hands bytes to the kernel when it is polled again: what is to be sent before a cut needs this much time.
const FLUSH_TIME: Duration = Duration::from_millis(30);
/// The pace of slow answers.
const TICKS_PER_SECOND: u64 = 20;
const XML_DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";

/// An answer of the front's own with an S3 error.
pub(crate) fn refuse(refusal: &Refusal, head: bool) -> Response<ReplyBody> {
    let body = Bytes::from(xml::error(refusal));
    // The answer to HEAD has no body: a client learns the status and nothing else.
    let mut response = answer(refusal.status, if head { Bytes::new() } else { body });
    if let Some(seconds) = refusal.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// An answer of the front's own with this XML.
pub(crate) fn answer(status: StatusCode, body: Bytes) -> Response<ReplyBody> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

/// A 200 whose body turns out to be an error.
pub(crate) fn error_in_200(code: &str) -> Response<ReplyBody> {
    let error = xml::error(&Refusal::new(200, code));
    let error = error.trim_start_matches(XML_DECLARATION).trim_start();
    answer(StatusCode::OK, Bytes::from(format!("{XML_DECLARATION}\n   \n   {error}")))
}

/// A 200 that keeps the client waiting with white space, then gives the body that `late` yields.
pub(crate) fn whitespace_first<F>(every: Duration, times: u32, late: F) -> Response<ReplyBody>
where
    F: Future<Output = Result<Bytes, BoxError>> + Send + 'static,
{
    // As real stores do it: the declaration comes first, since nothing may stand before it.
    let declaration = stream::once(async { Ok::<_, BoxError>(Bytes::from(format!("{XML_DECLARATION}\n"))) });
    let spaces = stream::iter(0..times).then(move |_| async move {
        tokio::time::sleep(every).await;
        Ok(Bytes::from_static(b" "))
    });
    let body = stream::once(async {
        let body = late.await?;
        let text = String::from_utf8_lossy(&body);
        let rest = match text.trim_start().strip_prefix("<?xml") {
            Some(behind) => behind.split_once("?>").map(|(_, rest)| rest).unwrap_or_default(),
            None => &text,
        };
        Ok(Bytes::from(rest.trim_start().to_owned()))
    });
    let mut response = Response::new(streamed(declaration.chain(spaces).chain(body)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

/// Spoils a whole answer as `action` says.
pub(crate) fn spoil(action: &Action, response: Response<Bytes>, page_token: Option<&str>) -> Response<ReplyBody> {
    let (mut parts, body) = response.into_parts();
    let headers = &mut parts.headers;
    headers.remove(header::TRANSFER_ENCODING);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    let keep = |bytes: u64| body.slice(..usize::try_from(bytes).unwrap_or(usize::MAX).min(body.len()));
    let body = match action {
        Action::EmptyReply => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
            empty()
        }
        Action::CutReply(bytes) => then_cut(keep(*bytes), Cut::Close),
        Action::ResetReply(bytes) => then_cut(keep(*bytes), Cut::Reset),
        Action::EndReplyEarly(bytes) => {
            headers.remove(header::CONTENT_LENGTH);
            let kept = keep(*bytes);
            streamed(stream::once(async { Ok(kept) }))
        }
        Action::WrongByte(at) => {
            let mut bytes = body.to_vec();
            if let Some(byte) = usize::try_from(*at).ok().and_then(|at| bytes.get_mut(at)) {
                *byte ^= 1;
            }
            full(bytes)
        }
        Action::RepeatPageToken => {
            let text = String::from_utf8_lossy(&body);
            let text = page_token.map_or_else(|| text.to_string(), |token| xml::with_page_token(&text, token));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
            full(text)
        }
        Action::SlowReply(rate) => slowly(body, *rate),
        _ => full(body),
    };
    Response::from_parts(parts, body)
}

fn then_cut(kept: Bytes, cut: Cut) -> ReplyBody {
    let cut = stream::once(async move {
        tokio::time::sleep(FLUSH_TIME).await;
        Err::<Bytes, BoxError>(cut.into())
    });
    // An empty frame would be no reason for hyper to send the headers.
    match kept.is_empty() {
        true => streamed(cut),
        false => streamed(stream::once(async { Ok(kept) }).chain(cut)),
    }
}

fn slowly(body: Bytes, bytes_per_second: u64) -> ReplyBody {
    let piece_bytes = usize::try_from((bytes_per_second / TICKS_PER_SECOND).max(1)).unwrap_or(usize::MAX);
    let pieces = stream::unfold(body, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::time::sleep(Duration::from_secs(1) / TICKS_PER_SECOND as u32).await;
        let piece = rest.split_to(piece_bytes.min(rest.len()));
        Some((Ok(piece), rest))
    });
    streamed(pieces)
}

fn streamed(bytes: impl futures::Stream<Item = Result<Bytes, BoxError>> + Send + 'static) -> ReplyBody {
    StreamBody::new(bytes.map(|bytes| bytes.map(Frame::data))).boxed_unsync()
}
