//! Sends one snapshot, with the fault it was given.
//!
//! Invariant: at most 1,024 bytes in a message, as Talos's chunker sends them, whatever the backend gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bronzenail_proto::common::{Data, Metadata, RpcStatus};
use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::backend::Backend;
use super::fault::Fault;
use super::wire::Breaker;

/// Bytes of one message.
pub const MESSAGE_BYTES: usize = 1024;

/// What the receiver's end or the fault's end means for the rest of the stream.
struct Ended;

pub(super) struct Pump {
    pub(super) backend: Backend,
    pub(super) fault: Option<Fault>,
    pub(super) pace_bytes_per_second: Option<u64>,
    /// Set when the call came with `nodes`: every message then says where it is from.
    pub(super) hostname: Option<String>,
    pub(super) sender: Sender<Result<Data, Status>>,
    pub(super) sent_bytes: Arc<AtomicU64>,
    pub(super) breaker: Arc<Breaker>,
}

impl Pump {
    /// Sends until the end, or until the client has gone.
    pub(super) async fn run(mut self) {
        let sender = self.sender.clone();
        tokio::select! {
            () = sender.closed() => {}
            _ = self.send_all() => {}
        }
    }

    async fn send_all(&mut self) -> Result<(), Ended> {
        if matches!(self.fault, Some(Fault::HangFirst)) {
            std::future::pending::<()>().await;
        }
        let mut source = match self.backend.snapshot().await {
            Ok(source) => source,
            Err(status) => return self.fail(status).await,
        };
        let hold_bytes = if let Some(Fault::DropLastOk(bytes)) = self.fault { bytes } else { 0 };
        let mut held = BytesMut::new();
        let started = Instant::now();
        let mut place_bytes = 0_u64;
        while let Some(piece) = source.next().await {
            let piece = if hold_bytes == 0 {
                piece
            } else {
                held.extend_from_slice(&piece);
                held.split_to(held.len().saturating_sub(hold_bytes)).freeze()
            };
            place_bytes = self.send_piece(piece, place_bytes, started).await?;
        }
        self.at(place_bytes, true).await?;
        if let Some(Fault::Extra(bytes)) = self.fault {
            self.send_piece(Bytes::from(vec![0xa5; bytes]), place_bytes, started).await?;
        }
        Ok(())
    }

    async fn send_piece(&mut self, mut piece: Bytes, mut place_bytes: u64, started: Instant) -> Result<u64, Ended> {
        let message_bytes = match self.fault {
            Some(Fault::Trickle { bytes, .. }) => bytes.clamp(1, MESSAGE_BYTES),
            _ => MESSAGE_BYTES,
        };
        while !piece.is_empty() {
            self.at(place_bytes, false).await?;
            let until_bytes = self.fault.as_ref().and_then(Fault::at_bytes).map(|at| at.saturating_sub(place_bytes));
            let most = until_bytes.filter(|bytes| *bytes > 0).map_or(usize::MAX, |bytes| bytes as usize);
            let part = piece.split_to(piece.len().min(message_bytes).min(most));
            let part = self.flipped(part, place_bytes);
            place_bytes += part.len() as u64;
            self.send_bytes(part).await?;
            self.keep_pace(place_bytes, started).await;
        }
        Ok(place_bytes)
    }

    /// Does what the fault has for this place, once.
    async fn at(&mut self, place_bytes: u64, is_end: bool) -> Result<(), Ended> {
        let Some(at_bytes) = self.fault.as_ref().and_then(Fault::at_bytes) else {
            return Ok(());
        };
        // A fault placed after the end still happens, at the end, except for a cut: there is nothing to cut.
        if place_bytes < at_bytes && !is_end {
            return Ok(());
        }
        match self.fault.take() {
            Some(Fault::TruncateOk(_)) => Err(Ended),
            Some(Fault::Status { code, message, .. }) => self.fail(Status::new(code, message)).await,
            Some(Fault::Reset(_)) => {
                self.let_it_arrive().await;
                self.breaker.reset();
                Err(Ended)
            }
            Some(Fault::Blackhole(_)) => {
                self.let_it_arrive().await;
                self.breaker.freeze();
                std::future::pending().await
            }
            Some(Fault::PauseAt { pause, .. }) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Some(Fault::EmptyForever(_)) => loop {
                self.message(None, Bytes::new()).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            },
            Some(Fault::InBandError(_)) => {
                let metadata =
                    in_band(self.hostname.as_deref().unwrap_or("10.0.0.1"), &Status::internal("etcd has failed"));
                self.message(Some(metadata), Bytes::new()).await?;
                Err(Ended)
            }
            Some(Fault::Then { action, .. }) => {
                action();
                Ok(())
            }
            other => {
                self.fault = other;
                Ok(())
            }
        }
    }

    fn flipped(&self, part: Bytes, place_bytes: u64) -> Bytes {
        let Some(Fault::FlipBit(at)) = self.fault else { return part };
        if at < place_bytes || at >= place_bytes + part.len() as u64 {
            return part;
        }
        let mut bytes = part.to_vec();
        bytes[(at - place_bytes) as usize] ^= 0x10;
        bytes.into()
    }

    async fn keep_pace(&self, place_bytes: u64, started: Instant) {
        if let Some(Fault::Trickle { every, .. }) = self.fault {
            tokio::time::sleep(every).await;
        }
        if let Some(pace) = self.pace_bytes_per_second {
            let due = started + Duration::from_secs_f64(place_bytes as f64 / pace as f64);
            tokio::time::sleep_until(due).await;
        }
    }

    /// Gives the transport a moment to write what is queued, so that a break comes after the bytes and not instead of them.
    async fn let_it_arrive(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    async fn send_bytes(&self, bytes: Bytes) -> Result<(), Ended> {
        let sent_bytes = bytes.len() as u64;
        let metadata = self.hostname.clone().map(|hostname| Metadata { hostname, error: String::new(), status: None });
        self.message(metadata, bytes).await?;
        self.sent_bytes.fetch_add(sent_bytes, Ordering::Relaxed);
        Ok(())
    }

    async fn message(&self, metadata: Option<Metadata>, bytes: Bytes) -> Result<(), Ended> {
        self.sender.send(Ok(Data { metadata, bytes })).await.map_err(|_| Ended)
    }

    /// Ends with a status; under `nodes` a node's error is a message, and the call itself goes on.
    async fn fail(&self, status: Status) -> Result<(), Ended> {
        let last = match &self.hostname {
            Some(hostname) => Ok(Data { metadata: Some(in_band(hostname, &status)), bytes: Bytes::new() }),
            None => Err(status),
        };
        let _ = self.sender.send(last).await;
        Err(Ended)
    }
}

/// An error as a proxying node puts it inside a message.
pub(super) fn in_band(hostname: &str, status: &Status) -> Metadata {
    let code = status.code();
    let error = format!("rpc error: code = {} desc = {}", name(code), status.message());
    let status = Some(RpcStatus { code: code as i32, message: status.message().to_owned() });
    Metadata { hostname: hostname.to_owned(), error, status }
}

/// Go writes the codes in one word.
fn name(code: Code) -> String {
    format!("{code:?}")
}
