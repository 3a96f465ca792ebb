//! Watching each attempt for progress.
//!
//! The SDK's own protections measure throughput, and kill an upload whose source pauses or a completion over which the store
//! thinks. Here an attempt ends only when no byte moved for a while: `idle` while the request is handed over or the reply
//! comes in, `reply` between the two, because the last part of a request lies in the kernel's buffers, however slowly they
//! drain, and because a store may take minutes to put an object together. Some say 200 first and think afterwards, so the
//! body of a reply to POST, which is what completes an upload, has `reply` too. The SDK retries an attempt that ended so.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A part is handed over in pieces of this size, so that a slow drain shows as progress.
const PIECE_BYTES: usize = 64 * 1024;

/// How long nothing may move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) idle: Duration,
    pub(super) reply: Duration,
}

/// A connector whose attempts are watched and counted.
#[derive(Debug)]
pub(super) struct Watched<C> {
    inner: C,
    limits: Limits,
    retries: Arc<AtomicU64>,
}

impl<C> Watched<C> {
    pub(super) fn new(inner: C, limits: Limits, retries: Arc<AtomicU64>) -> Self {
        Self { inner, limits, retries }
    }
}

/// No byte moved for longer than allowed.
#[derive(Debug, thiserror::Error)]
#[error("no byte moved for {} seconds", .0.as_secs_f32())]
pub(super) struct NoProgress(Duration);

impl<C: HttpConnector> HttpConnector for Watched<C> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        self.count_retry(&request);
        let limits = self.limits;
        let body_limit = if request.method() == "POST" { limits.reply } else { limits.idle };
        let activity = Arc::new(Activity::new());
        let sent = self.inner.call(with_watched_body(request, &activity));
        HttpConnectorFuture::new(async move {
            tokio::select! {
                response = sent => response.map(|response| response.map(|body| watched_reply(body, body_limit))),
                stalled = activity.stalled(limits) => Err(ConnectorError::timeout(Box::new(stalled))),
            }
        })
    }
}

impl<C> Watched<C> {
    /// The SDK says in a header of its own which attempt this is.
    fn count_retry(&self, request: &HttpRequest) {
        let attempt = request.headers().get("amz-sdk-request").and_then(|header| header.strip_prefix("attempt="));
        let attempt = attempt.and_then(|rest| rest.split(';').next()).and_then(|number| number.parse::<u32>().ok());
        if let Some(attempt) = attempt.filter(|attempt| *attempt > 1) {
            self.retries.fetch_add(1, Ordering::Relaxed);
            let path = request.uri().split('?').next().unwrap_or_default();
            tracing::info!(attempt, method = request.method(), path, "the store is asked again");
        }
    }
}

/// When something last moved, and whether the whole request has been handed over.
#[derive(Debug)]
struct Activity(Mutex<(Instant, bool)>);

impl Activity {
    fn new() -> Self {
        Self(Mutex::new((Instant::now(), false)))
    }

    fn moved(&self, handed_over: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), handed_over);
    }

    /// Ends when nothing has moved for too long; otherwise never.
    async fn stalled(&self, limits: Limits) -> NoProgress {
        loop {
            let (last, handed_over) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = if handed_over { limits.reply } else { limits.idle };
            if last.elapsed() >= limit {
                return NoProgress(limit);
            }
            // Not longer than the shorter limit at a time: which of the two counts can change meanwhile.
            let look_again = Instant::now() + limits.idle.min(limits.reply).max(Duration::from_millis(1));
            sleep_until(look_again.min(last + limit)).await;
        }
    }
}

fn with_watched_body(mut request: HttpRequest, activity: &Arc<Activity>) -> HttpRequest {
    let body = std::mem::replace(request.body_mut(), SdkBody::taken());
    if body.content_length() == Some(0) {
        activity.moved(true);
        *request.body_mut() = body;
        return request;
    }
    let watched = Outgoing { inner: body, rest: Bytes::new(), activity: Arc::clone(activity) };
    *request.body_mut() = SdkBody::from_body_1_x(watched);
    request
}

/// A request body that is handed over piece by piece and notes each piece.
struct Outgoing {
    inner: SdkBody,
    rest: Bytes,
    activity: Arc<Activity>,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.activity.moved(true);
                    return Poll::Ready(None);
                }
            }
        }
        let piece_bytes = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(piece_bytes);
        // hyper stops asking once it has all the bytes of the content length: the last piece is the end.
        self.activity.moved(self.rest.is_empty() && self.inner.is_end_stream());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }
}

fn watched_reply(body: SdkBody, idle: Duration) -> SdkBody {
    SdkBody::from_body_1_x(Incoming { inner: body, idle, waiting: None })
}

/// A reply body that fails when it stalls. Time counts only while someone waits for it: a reader that pauses is no stall.
struct Incoming {
    inner: SdkBody,
    idle: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.waiting = None;
            return Poll::Ready(frame);
        }
        let idle = self.idle;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(idle)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Box::new(NoProgress(idle))))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests;
