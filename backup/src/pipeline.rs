//! The one place where bytes move: from a snapshot stream through the check and the seal into an upload.
//!
//! Sealing is blocking work on a thread of its own, joined to the two async edges by bounded channels; memory is bounded by
//! them, whatever the speeds. Invariant: if the source fails, the sealed form is never finished, and of several failures
//! the source's is the one that is reported: the others follow from it.

use std::io::{self, Read, Write};

use bronzenail_format::{OneTimeIdentity, Recipients, SealError, SealOptions, Sealed, seal};
use bronzenail_snapshot::{Report, StreamCheck};
use bronzenail_store::{StoreError, Upload};
use bronzenail_talos::TalosError;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

use crate::config::Compression;
use crate::error::RunError;

/// Buffers of a quarter MiB or so; a few keep both sides busy.
const PLAIN_BUFFERS: usize = 4;
const STORED_BUFFERS: usize = 4;
const STORED_BUFFER_BYTES: usize = 128 * 1024;

/// How to seal.
#[derive(Debug)]
pub struct Sealing {
    /// Who can open it.
    pub recipients: Recipients,
    /// The key for read-back.
    pub one_time: Option<OneTimeIdentity>,
    /// zstd's settings.
    pub compression: Compression,
}

/// What passed.
#[derive(Debug)]
pub struct Passed {
    /// The verdict on the plain side.
    pub report: Report,
    /// Both sizes, and the digest of the stored side.
    pub sealed: Sealed,
}

/// Moves a snapshot from `source` into `upload`, and says what passed. Neither completes nor aborts the upload.
///
/// # Errors
/// The side that failed first in the order source, store, seal.
pub async fn run(
    source: impl Stream<Item = Result<Bytes, TalosError>>,
    upload: &mut Upload,
    sealing: Sealing,
    mut progress: impl FnMut(u64),
) -> Result<Passed, RunError> {
    let (plain_in, plain_out) = mpsc::channel(PLAIN_BUFFERS);
    let (stored_in, stored_out) = mpsc::channel(STORED_BUFFERS);
    let thread = tokio::task::spawn_blocking(move || seal_blocking(plain_out, stored_in, &sealing));

    let (fed, stored) = tokio::join!(feed(source, plain_in, &mut progress), store(stored_out, upload));
    let (sealed, report) = thread.await.map_err(RunError::Task)?;

    fed.map_err(RunError::from)?;
    stored.map_err(RunError::Store)?;
    Ok(Passed { report, sealed: sealed.map_err(RunError::Seal)? })
}

/// A buffer of the snapshot, or the news that there will be no more of it although it is not at its end.
type PlainItem = Result<Bytes, SourceFailed>;

#[derive(Debug, thiserror::Error)]
#[error("the source failed")]
struct SourceFailed;

async fn feed(
    source: impl Stream<Item = Result<Bytes, TalosError>>,
    plain: mpsc::Sender<PlainItem>,
    progress: &mut impl FnMut(u64),
) -> Result<(), TalosError> {
    let mut source = std::pin::pin!(source);
    let mut bytes_fed = 0;
    loop {
        let item = tokio::select! {
            item = source.next() => item,
            // The seal ended early. Its own error says why; there is nobody left to feed.
            () = plain.closed() => return Ok(()),
        };
        match item {
            Some(Ok(bytes)) => {
                bytes_fed += bytes.len() as u64;
                if plain.send(Ok(bytes)).await.is_err() {
                    return Ok(());
                }
                progress(bytes_fed);
            }
            Some(Err(error)) => {
                // Not just closing the channel: that would look like an end, and the seal would finish it.
                let _ = plain.send(Err(SourceFailed)).await;
                return Err(error);
            }
            None => return Ok(()),
        }
    }
}

async fn store(mut stored: mpsc::Receiver<Bytes>, upload: &mut Upload) -> Result<(), StoreError> {
    while let Some(bytes) = stored.recv().await {
        upload.write(&bytes).await?;
    }
    Ok(())
}

fn seal_blocking(
    plain: mpsc::Receiver<PlainItem>,
    stored: mpsc::Sender<Bytes>,
    sealing: &Sealing,
) -> (Result<Sealed, SealError>, Report) {
    let mut plain = CheckedReader { channel: plain, current: Bytes::new(), check: StreamCheck::new() };
    let stored = ChannelWriter { channel: stored, buffer: BytesMut::with_capacity(STORED_BUFFER_BYTES) };
    let options = SealOptions {
        recipients: &sealing.recipients,
        one_time: sealing.one_time.as_ref(),
        level: sealing.compression.level,
        workers: sealing.compression.workers,
    };
    let sealed = seal(&mut plain, stored, &options);
    (sealed, plain.check.finish())
}

/// Reads from a channel; all that is read passes the check.
struct CheckedReader {
    channel: mpsc::Receiver<PlainItem>,
    current: Bytes,
    check: StreamCheck,
}

impl Read for CheckedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.channel.blocking_recv() {
                Some(bytes) => self.current = bytes.map_err(io::Error::other)?,
                None => return Ok(0),
            }
            self.check.update(&self.current);
        }
        let bytes = self.current.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.current.split_to(bytes));
        Ok(bytes)
    }
}

/// Writes to a channel, in buffers large enough that a hop costs little.
struct ChannelWriter {
    channel: mpsc::Sender<Bytes>,
    buffer: BytesMut,
}

impl ChannelWriter {
    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(STORED_BUFFER_BYTES)).freeze();
        self.channel.blocking_send(bytes).map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the upload ended"))
    }
}

impl Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(STORED_BUFFER_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..take]);
        if self.buffer.len() == STORED_BUFFER_BYTES {
            self.send()?;
        }
        Ok(take)
    }

    /// The seal flushes once, at its end.
    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
