//! The snapshot as a stream of bytes.
//!
//! Invariant: the clock runs only while we wait for the node, and only data stops it. A store that is slow does not make
//! the node look dead, a node that sends empty messages does not look alive, and there is no limit on the whole: a
//! fixed one fails every time once the database has grown past it.
//!
//! That the stream ended well proves nothing: Talos reports a cut snapshot as success. Whoever consumes the stream has to
//! check etcd's own digest at its end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bronzenail_proto::common::Data;
use bronzenail_proto::machine::EtcdSnapshotRequest;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::endpoint::Endpoint;
use crate::error::{Call, TalosError};
use crate::node::Node;
use crate::questions::{Questions, client, request};

/// Talos sends at most 1 KiB per message; handing each on by itself would cost more than the work that is done on it.
const CHUNK_BYTES: usize = 256 * 1024;

/// A trickle is handed on after this long, so that whoever watches sees it move.
const CHUNK_PATIENCE: Duration = Duration::from_secs(1);

/// More empty messages in a row than this are a broken node. etcd may emit them without end when its own read fails.
const EMPTY_MESSAGES_MAX: u32 = 10_000;

const METHOD: &str = "EtcdSnapshot";

/// Limits on lack of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the request to the first data.
    pub first_byte: Duration,
    /// Between two pieces of data.
    pub idle: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { first_byte: Duration::from_secs(60), idle: Duration::from_secs(60) }
    }
}

/// The capability to take snapshots and to ask questions. Nothing that changes a node can be reached from it.
#[derive(Clone, Debug)]
pub struct SnapshotSource {
    channel: Channel,
    questions: Questions,
}

impl SnapshotSource {
    pub(crate) fn new(channel: Channel, questions: Questions) -> Self {
        Self { channel, questions }
    }

    /// The questions that a backup asks.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// The endpoint that the snapshot goes through.
    pub fn endpoint(&self) -> &Endpoint {
        self.questions.endpoint()
    }

    /// Starts a snapshot on that node, or on the endpoint itself. Dropping the stream ends it on the node too.
    pub async fn snapshot(&self, node: Option<&Node>, deadlines: Deadlines) -> Result<SnapshotStream, TalosError> {
        let first_byte_by = Instant::now() + deadlines.first_byte;
        let call =
            Call { method: METHOD, endpoint: self.endpoint().clone(), node: node.cloned(), received_bytes: None };
        let mut client = client(self.channel.clone());
        let started = client.etcd_snapshot(request(EtcdSnapshotRequest {}, node));
        match tokio::time::timeout_at(first_byte_by, started).await {
            Ok(Ok(reply)) => Ok(SnapshotStream::new(reply.into_inner(), call, deadlines, first_byte_by)),
            Ok(Err(status)) => Err(TalosError::from_status(call, &status)),
            Err(_) => Err(TalosError::NoFirstByte { call, waited: deadlines.first_byte }),
        }
    }
}

/// The bytes of a snapshot, in pieces of about 256 KiB. After an error or the end it yields nothing more.
#[derive(Debug)]
pub struct SnapshotStream<S = Streaming<Data>> {
    messages: S,
    call: Call,
    deadlines: Deadlines,
    buffer: BytesMut,
    buffer_since: Instant,
    received_bytes: u64,
    empty_messages: u32,
    clock: Pin<Box<Sleep>>,
    /// Whether the clock runs: from the first wait after data, until the next data.
    waiting: bool,
    done: bool,
}

impl<S: Stream<Item = Result<Data, Status>> + Unpin> SnapshotStream<S> {
    fn new(messages: S, call: Call, deadlines: Deadlines, first_byte_by: Instant) -> Self {
        Self {
            messages,
            call,
            deadlines,
            buffer: BytesMut::new(),
            buffer_since: first_byte_by,
            received_bytes: 0,
            empty_messages: 0,
            clock: Box::pin(sleep_until(first_byte_by)),
            // The wait for the first byte began with the request.
            waiting: true,
            done: false,
        }
    }

    /// Bytes that the node has sent so far.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    fn call(&self) -> Call {
        Call { received_bytes: Some(self.received_bytes), ..self.call.clone() }
    }

    /// Takes one message in; a piece comes out when there is enough for one.
    fn take(&mut self, data: Data) -> Result<Option<Bytes>, TalosError> {
        if let Some(error) = TalosError::in_band(&self.call(), data.metadata.as_ref()) {
            return Err(error);
        }
        if data.bytes.is_empty() {
            self.empty_messages += 1;
            if self.empty_messages > EMPTY_MESSAGES_MAX {
                return Err(TalosError::OnlyEmptyMessages { call: self.call(), messages: self.empty_messages });
            }
            return Ok(None);
        }
        self.empty_messages = 0;
        self.waiting = false;
        self.received_bytes += data.bytes.len() as u64;

        let now = Instant::now();
        if self.buffer.is_empty() {
            if data.bytes.len() >= CHUNK_BYTES {
                return Ok(Some(data.bytes));
            }
            // The last message goes a little over the edge.
            self.buffer.reserve(CHUNK_BYTES + 4096);
            self.buffer_since = now;
        }
        self.buffer.extend_from_slice(&data.bytes);
        let full = self.buffer.len() >= CHUNK_BYTES || now.duration_since(self.buffer_since) >= CHUNK_PATIENCE;
        Ok(full.then(|| self.buffer.split().freeze()))
    }

    /// Starts the clock unless it runs already, and says whether it has run out.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<TalosError> {
        if !self.waiting {
            self.waiting = true;
            self.clock.as_mut().reset(Instant::now() + self.deadlines.idle);
        }
        ready!(self.clock.as_mut().poll(cx));
        let call = self.call();
        Poll::Ready(match self.received_bytes {
            0 => TalosError::NoFirstByte { call, waited: self.deadlines.first_byte },
            _ => TalosError::Stalled { call, waited: self.deadlines.idle },
        })
    }

    fn fail(&mut self, error: TalosError) -> Poll<Option<Result<Bytes, TalosError>>> {
        self.done = true;
        self.buffer.clear();
        Poll::Ready(Some(Err(error)))
    }
}

impl<S: Stream<Item = Result<Data, Status>> + Unpin> Stream for SnapshotStream<S> {
    type Item = Result<Bytes, TalosError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.done {
            return Poll::Ready(None);
        }
        loop {
            // The node first: what has arrived counts, however long nobody asked for it.
            match Pin::new(&mut this.messages).poll_next(cx) {
                Poll::Ready(Some(Ok(data))) => match this.take(data) {
                    Ok(None) => {}
                    Ok(Some(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                    Err(error) => return this.fail(error),
                },
                Poll::Ready(Some(Err(status))) => {
                    let error = TalosError::from_status(this.call(), &status);
                    return this.fail(error);
                }
                Poll::Ready(None) => {
                    this.done = true;
                    let rest = this.buffer.split().freeze();
                    return Poll::Ready((!rest.is_empty()).then_some(Ok(rest)));
                }
                Poll::Pending => {
                    let error = ready!(this.poll_clock(cx));
                    return this.fail(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
