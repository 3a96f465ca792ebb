//! The script of a front: which requests meet which misbehaviour.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::watch;

use super::log::Seen;
use super::operation::Operation;

/// One line of a front's script: when it is due, and what it then does.
///
/// A fresh rule matches every request, always; each method narrows it.
#[derive(Debug, Clone)]
pub struct Rule {
    action: Action,
    operations: Vec<Operation>,
    part_number: Option<u32>,
    key_part: Option<KeyPart>,
    continued: Option<bool>,
    ranged: Option<bool>,
    skip: u64,
    times: Option<u64>,
}

#[derive(Debug, Clone)]
enum KeyPart {
    Exactly(String),
    Suffix(String),
    Contains(String),
}

impl Rule {
    /// A rule that does `action` to every request.
    pub fn new(action: Action) -> Self {
        Self {
            action,
            operations: Vec::new(),
            part_number: None,
            key_part: None,
            continued: None,
            ranged: None,
            skip: 0,
            times: None,
        }
    }

    /// Only to this operation; called again, also to that one.
    pub fn on(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Only to UploadPart with this part number.
    pub fn on_part(mut self, part_number: u32) -> Self {
        self.part_number = Some(part_number);
        self.on(Operation::UploadPart)
    }

    /// Only to this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key_part = Some(KeyPart::Exactly(key.into()));
        self
    }

    /// Only to keys that end so.
    pub fn key_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.key_part = Some(KeyPart::Suffix(suffix.into()));
        self
    }

    /// Only to keys with this in them.
    pub fn key_contains(mut self, text: impl Into<String>) -> Self {
        self.key_part = Some(KeyPart::Contains(text.into()));
        self
    }

    /// Only to the second and later pages of a listing, or only to the first.
    pub fn later_pages(mut self, later: bool) -> Self {
        self.continued = Some(later);
        self
    }

    /// Only to requests with a `Range`, or only to those without.
    pub fn ranged(mut self, ranged: bool) -> Self {
        self.ranged = Some(ranged);
        self
    }

    /// Only to the first `times` requests that match otherwise.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Only to the first request that matches otherwise.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Lets the first `skip` requests that match otherwise pass.
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Only to the `nth` request that matches otherwise, counted from 1.
    pub fn nth(self, nth: u64) -> Self {
        self.after(nth.saturating_sub(1)).once()
    }

    pub(crate) fn action(&self) -> &Action {
        &self.action
    }

    pub(crate) fn matches(&self, seen: &Seen) -> bool {
        let key = seen.key.as_deref().unwrap_or_default();
        let key_fits = match &self.key_part {
            None => true,
            Some(KeyPart::Exactly(wanted)) => key == wanted,
            Some(KeyPart::Suffix(suffix)) => key.ends_with(suffix),
            Some(KeyPart::Contains(text)) => key.contains(text),
        };
        key_fits
            && (self.operations.is_empty() || self.operations.contains(&seen.operation))
            && self.part_number.is_none_or(|number| seen.part_number == Some(number))
            && self.continued.is_none_or(|continued| seen.continued == continued)
            && self.ranged.is_none_or(|ranged| seen.headers.contains_key("range") == ranged)
    }

    /// Whether the rule acts on the match after `earlier` others.
    pub(crate) fn is_due(&self, earlier: u64) -> bool {
        earlier >= self.skip && self.times.is_none_or(|times| earlier - self.skip < times)
    }
}

/// What a rule does.
#[derive(Clone)]
#[non_exhaustive]
pub enum Action {
    // The store never sees the request.
    /// Answer with an S3 error.
    Refuse(Refusal),
    /// Answer with exactly this, for instance a DeleteObjects result with an error in it.
    Answer(StatusCode, Bytes),
    /// Reset the connection as soon as the headers are read.
    ResetAtOnce,
    /// Reset the connection after this many bytes of the request's body.
    ResetInBody(u64),
    /// Read the request whole, then close the connection in order.
    CloseUnforwarded,
    /// Never answer; the connection stays open until the client ends it.
    Hang,

    // The store acts, the client is not told so.
    /// Forward; reset the connection instead of answering.
    ResetAfterForward,
    /// Forward; close the connection in order instead of answering.
    SwallowReply,

    // The request goes on to the next rule.
    /// Wait before forwarding.
    Delay(Duration),
    /// Read the request's body at this many bytes a second.
    SlowDrain(u64),
    /// Call back at this moment.
    Call(Moment, Callback),
    /// Wait at a gate until the test opens it.
    Hold(Moment, Gate),
    /// Behave as this lesser kind of store.
    Store(StoreTrait),

    // The answer is not what the store gave.
    /// Send the answer's body at this many bytes a second.
    SlowReply(u64),
    /// Say 200 at once, then `times` white spaces, one each `every`, then the store's body: as S3 does while a
    /// completion takes long.
    WhitespaceFirst {
        /// The time between two spaces.
        every: Duration,
        /// How many.
        times: u32,
    },
    /// Say 200 and then, after white space, an `<Error>` with this code; the store never sees the request.
    ErrorIn200(String),
    /// Forward; answer with the store's status and an empty body.
    EmptyReply,
    /// Forward; announce the true length, send this many bytes and close.
    CutReply(u64),
    /// Forward; announce the true length, send this many bytes and reset.
    ResetReply(u64),
    /// Forward; announce no length, send this many bytes and end the body as if it were whole.
    EndReplyEarly(u64),
    /// Forward; flip one bit of the body's byte at this position.
    WrongByte(u64),
    /// Lie about a completion.
    Lie(Lie),
    /// Forward; make every page of a listing name the same next page.
    RepeatPageToken,
}

/// How a store lies about a completed upload: it always answers 200 with a plausible body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// It keeps nothing.
    KeepsNothing,
    /// It keeps an object without the last part. Only before a store that completes with parts left out, as the
    /// embedded server does and a Ceph RGW does not.
    DropsLastPart,
    /// It keeps an object without its first part; before such a store only.
    DropsFirstPart,
    /// It keeps no more than this many of the object's first bytes. Before any store.
    Truncates(u64),
}

/// A lasting trait of a lesser store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreTrait {
    /// It does not know `If-None-Match` on writes.
    IgnoresIfNoneMatch,
    /// It refuses `x-amz-checksum-*`, trailers and `aws-chunked`: 400 `XAmzContentSHA256Mismatch`.
    RefusesChecksums,
    /// It does not implement them: 501 `NotImplemented`.
    LacksChecksums,
    /// It answers 411 to a write without `Content-Length`.
    RequiresContentLength,
    /// It answers 400 to `?delete` without `Content-MD5`.
    RequiresContentMd5,
    /// It takes no part with a larger number.
    PartsAtMost(u32),
    /// It completes only uploads whose parts but the last are of one size, and the last no larger.
    RequiresEqualParts,
    /// It answers only requests that name the bucket in the host.
    VirtualHostsOnly,
    /// It answers only requests that name the bucket in the path.
    PathStyleOnly,
}

/// An S3 error that the front answers with.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) region: Option<String>,
    pub(crate) retry_after_seconds: Option<u32>,
}

impl Refusal {
    /// An error with this status and S3 code.
    pub fn new(status: u16, code: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code: code.into(), region: None, retry_after_seconds: None }
    }

    /// 503 `SlowDown`.
    pub fn slow_down() -> Self {
        Self::new(503, "SlowDown")
    }

    /// 429 `TooManyRequests`.
    pub fn too_many_requests() -> Self {
        Self::new(429, "TooManyRequests")
    }

    /// 500 `InternalError`.
    pub fn internal_error() -> Self {
        Self::new(500, "InternalError")
    }

    /// 403 `AccessDenied`.
    pub fn access_denied() -> Self {
        Self::new(403, "AccessDenied")
    }

    /// 412 `PreconditionFailed`.
    pub fn precondition_failed() -> Self {
        Self::new(412, "PreconditionFailed")
    }

    /// 400 `AuthorizationHeaderMalformed`, naming the region that the store expects.
    pub fn wrong_region(expected: impl Into<String>) -> Self {
        Self { region: Some(expected.into()), ..Self::new(400, "AuthorizationHeaderMalformed") }
    }

    /// With a `Retry-After` header.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }
}

/// The points of a request's way at which a test can step in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The headers are read, the body is not.
    Arrived,
    /// The body is read, the store has seen nothing.
    BodyRead,
    /// The store has answered, the client has heard nothing.
    StoreAnswered,
}

/// What [`Action::Call`] calls, with the request.
pub type Callback = Arc<dyn Fn(&Seen) + Send + Sync>;

impl Action {
    /// Calls `callback` at `moment`.
    pub fn call(moment: Moment, callback: impl Fn(&Seen) + Send + Sync + 'static) -> Self {
        Self::Call(moment, Arc::new(callback))
    }
}

impl Action {
    /// Whether the front must sign the request anew, since it forwards something else than what was signed.
    pub(crate) fn needs_keys(&self) -> bool {
        match self {
            Self::Lie(lie) => *lie != Lie::KeepsNothing,
            Self::Store(store_trait) => *store_trait == StoreTrait::IgnoresIfNoneMatch,
            _ => false,
        }
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(refusal) => write!(f, "Refuse({} {})", refusal.status, refusal.code),
            Self::Answer(status, _) => write!(f, "Answer({status})"),
            Self::ResetAtOnce => f.write_str("ResetAtOnce"),
            Self::ResetInBody(bytes) => write!(f, "ResetInBody({bytes})"),
            Self::CloseUnforwarded => f.write_str("CloseUnforwarded"),
            Self::Hang => f.write_str("Hang"),
            Self::ResetAfterForward => f.write_str("ResetAfterForward"),
            Self::SwallowReply => f.write_str("SwallowReply"),
            Self::Delay(time) => write!(f, "Delay({time:?})"),
            Self::SlowDrain(rate) => write!(f, "SlowDrain({rate} B/s)"),
            Self::Call(moment, _) => write!(f, "Call({moment:?})"),
            Self::Hold(moment, _) => write!(f, "Hold({moment:?})"),
            Self::Store(store_trait) => write!(f, "Store({store_trait:?})"),
            Self::SlowReply(rate) => write!(f, "SlowReply({rate} B/s)"),
            Self::WhitespaceFirst { every, times } => write!(f, "WhitespaceFirst({times} x {every:?})"),
            Self::ErrorIn200(code) => write!(f, "ErrorIn200({code})"),
            Self::EmptyReply => f.write_str("EmptyReply"),
            Self::CutReply(bytes) => write!(f, "CutReply({bytes})"),
            Self::ResetReply(bytes) => write!(f, "ResetReply({bytes})"),
            Self::EndReplyEarly(bytes) => write!(f, "EndReplyEarly({bytes})"),
            Self::WrongByte(at) => write!(f, "WrongByte({at})"),
            Self::Lie(lie) => write!(f, "Lie({lie:?})"),
            Self::RepeatPageToken => f.write_str("RepeatPageToken"),
        }
    }
}

/// A gate on a request's way: the test waits until one arrives, does its deed, and opens the gate or never does.
#[derive(Debug, Clone)]
pub struct Gate(Arc<GateState>);

#[derive(Debug)]
struct GateState {
    arrived: watch::Sender<u64>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// A closed gate that nobody has come to yet.
    pub fn closed() -> Self {
        Self(Arc::new(GateState { arrived: watch::Sender::new(0), open: watch::Sender::new(false) }))
    }

    /// Waits until a request stands before the gate, or has passed it.
    ///
    /// # Errors
    /// None came within `patience`: the test would otherwise hang.
    pub async fn arrival(&self, patience: Duration) -> Result<(), tokio::time::error::Elapsed> {
        let mut arrived = self.0.arrived.subscribe();
        tokio::time::timeout(patience, async {
            // The sender lives in self, so that the wait cannot end for want of one.
            let _ = arrived.wait_for(|count| *count > 0).await;
        })
        .await
    }

    /// How many requests have come to the gate.
    pub fn arrivals(&self) -> u64 {
        *self.0.arrived.borrow()
    }

    /// Lets all requests pass, now and later.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    pub(crate) async fn pass(&self) {
        let mut open = self.0.open.subscribe();
        self.0.arrived.send_modify(|count| *count += 1);
        let _ = open.wait_for(|open| *open).await;
    }
}
