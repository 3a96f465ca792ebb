//! Uploading a stream of unknown length as parts of known length.
//!
//! Invariant: at most `parts_in_flight` parts and the one being filled are in memory, however slow the store is. Nothing is
//! visible before [`Upload::complete`], and that succeeds only if the store, asked afterwards, has what was sent.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use md5::{Digest, Md5};
use tokio::task::JoinSet;

use crate::driver::{Driver, Part, PartSink};
use crate::parts::{PART_BYTES_DEFAULT, PART_BYTES_MIN, PARTS_MAX, PartPlan};
use crate::{StoreError, StoreErrorKind};

/// How to upload.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// Size of a part.
    pub part_size_bytes: u64,
    /// The size that is expected, if one is known.
    pub expected_bytes: Option<u64>,
    /// Parts that may be under way at once.
    pub parts_in_flight: usize,
    /// Parts that the store takes.
    pub parts_max: u32,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self { part_size_bytes: PART_BYTES_DEFAULT, expected_bytes: None, parts_in_flight: 2, parts_max: PARTS_MAX }
    }
}

impl UploadOptions {
    /// Refuses what no store would take.
    ///
    /// # Errors
    /// A part size below S3's minimum.
    pub fn validate(&self) -> Result<(), StoreError> {
        if self.part_size_bytes < PART_BYTES_MIN {
            let doing = format!("a part size of {} bytes is too small", self.part_size_bytes);
            return Err(StoreError::new(StoreErrorKind::Config, doing).with_hint("S3 takes parts of 5 MiB and more"));
        }
        Ok(())
    }
}

/// An upload under way. Dropping it stops it, but only [`Upload::abort`] or a later clean-up removes what the store holds.
#[derive(Debug)]
pub struct Upload {
    driver: Arc<dyn Driver>,
    sink: Arc<dyn PartSink>,
    key: String,
    plan: PartPlan,
    parts_in_flight: usize,
    filling: BytesMut,
    sent_bytes: u64,
    next_number: u32,
    running: JoinSet<Result<Part, StoreError>>,
    done: Vec<Part>,
}

/// The power to abort one upload.
#[derive(Clone, Debug)]
pub struct AbortHandle(Arc<dyn PartSink>);

impl AbortHandle {
    /// Leaves nothing of it behind. An upload that was completed or aborted before is no error.
    ///
    /// # Errors
    /// The store refused or did not answer.
    pub async fn abort(&self) -> Result<(), StoreError> {
        self.0.abort().await
    }
}

/// What a finished upload is, as the store itself says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uploaded {
    /// Its size: sent, and found there.
    pub bytes: u64,
    /// In how many parts it went.
    pub parts: u32,
    /// The store's name for the content.
    pub etag: Option<String>,
    /// Which checksum of the store's was compared with ours.
    pub checksum: ChecksumProof,
}

/// What could be compared beside the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumProof {
    /// The object's ETag is the MD5 of its parts' MD5s, and equals ours.
    EtagMd5,
    /// The store names content in a way of its own.
    SizeOnly,
}

impl Upload {
    pub(crate) async fn begin(driver: Arc<dyn Driver>, key: &str, options: UploadOptions) -> Result<Self, StoreError> {
        options.validate()?;
        let sink: Arc<dyn PartSink> = driver.begin(key).await?.into();
        Ok(Self {
            driver,
            sink,
            key: key.to_owned(),
            plan: PartPlan::new(options.part_size_bytes, options.expected_bytes, options.parts_max),
            parts_in_flight: options.parts_in_flight.max(1),
            filling: BytesMut::new(),
            sent_bytes: 0,
            next_number: 1,
            running: JoinSet::new(),
            done: Vec::new(),
        })
    }

    /// Takes some bytes; waits while enough parts are under way.
    ///
    /// # Errors
    /// A part that could not be sent. The upload is then of no use but to be aborted.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            let part_bytes = self.part_bytes()?;
            if self.filling.capacity() == 0 {
                self.filling.reserve(part_bytes);
            }
            let take = bytes.len().min(part_bytes - self.filling.len());
            self.filling.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.filling.len() == part_bytes {
                self.send_filling().await?;
            }
        }
        Ok(())
    }

    /// Bytes that were handed over so far.
    pub fn bytes(&self) -> u64 {
        self.sent_bytes + self.filling.len() as u64
    }

    /// Sends the rest, makes the object visible, and asks the store what it has.
    ///
    /// # Errors
    /// Anything that leaves a doubt, among it a store that says yes and keeps something else. On an error the upload has been
    /// aborted as far as the store allowed.
    pub async fn complete(mut self) -> Result<Uploaded, StoreError> {
        match self.finish().await {
            Ok(uploaded) => Ok(uploaded),
            Err(error) => {
                // A part that arrives after the abort would be left behind on some stores.
                self.running.shutdown().await;
                // What went wrong is the news; that the store also refused to clean up is not.
                if let Err(abort) = self.sink.abort().await {
                    tracing::warn!(key = self.key, error = %abort, "could not abort the upload");
                }
                Err(error)
            }
        }
    }

    /// A way to abort it from elsewhere, after the upload itself was dropped.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle(Arc::clone(&self.sink))
    }

    /// Leaves nothing behind.
    ///
    /// # Errors
    /// The store refused; its parts stay, invisible and billed, until its own clean-up or ours.
    pub async fn abort(mut self) -> Result<(), StoreError> {
        self.running.shutdown().await;
        self.sink.abort().await
    }

    async fn finish(&mut self) -> Result<Uploaded, StoreError> {
        if !self.filling.is_empty() || self.next_number == 1 {
            self.send_filling().await?;
        }
        while !self.running.is_empty() {
            self.join_one().await?;
        }
        self.done.sort_by_key(|part| part.number);
        let completed = self.sink.complete(&self.done).await;
        let uploaded = self.confirm(completed).await?;
        self.sink.settle().await?;
        Ok(uploaded)
    }

    /// The store's word at completion is not enough, nor is its silence: only the object itself counts.
    async fn confirm(&self, completed: Result<(), StoreError>) -> Result<Uploaded, StoreError> {
        let found = match self.driver.stat(&self.key).await {
            Ok(found) => found,
            Err(stat) => {
                completed?;
                return Err(stat);
            }
        };
        let Some(object) = found else {
            completed?;
            let doing = format!("the store confirmed {} but does not have it", self.key);
            return Err(StoreError::new(StoreErrorKind::Damaged, doing));
        };
        if object.bytes != self.sent_bytes {
            completed?;
            let doing = format!("the store has {} bytes of {}, {} were sent", object.bytes, self.key, self.sent_bytes);
            return Err(StoreError::new(StoreErrorKind::Damaged, doing));
        }
        let checksum = self.compare_etag(object.etag.as_deref())?;
        if let Err(error) = completed {
            // The reply was lost or wrong. Without a checksum, an older object of the same size could be there.
            if checksum == ChecksumProof::SizeOnly {
                return Err(error);
            }
            tracing::warn!(key = self.key, error = %error, "the store has the whole object although completing it failed");
        }
        let parts = u32::try_from(self.done.len()).unwrap_or(u32::MAX);
        Ok(Uploaded { bytes: object.bytes, parts, etag: object.etag, checksum })
    }

    fn compare_etag(&self, etag: Option<&str>) -> Result<ChecksumProof, StoreError> {
        let Some(etag) = etag else { return Ok(ChecksumProof::SizeOnly) };
        let store_uses_md5 = self.done.iter().all(|part| part.etag.as_deref() == Some(hex(&part.md5).as_str()));
        let Some((_, count)) = etag.rsplit_once('-').filter(|_| store_uses_md5) else {
            return Ok(ChecksumProof::SizeOnly);
        };
        if count.parse() != Ok(self.done.len()) {
            let doing = format!("the store made {} of {count} parts, {} were sent", self.key, self.done.len());
            return Err(StoreError::new(StoreErrorKind::Damaged, doing));
        }
        let all = self.done.iter().fold(Md5::new(), |md5, part| md5.chain_update(part.md5)).finalize();
        if etag == format!("{}-{count}", hex(&all.into())) {
            return Ok(ChecksumProof::EtagMd5);
        }
        let doing = format!("the store's checksum of {} is not that of what was sent", self.key);
        Err(StoreError::new(StoreErrorKind::Damaged, doing))
    }

    fn part_bytes(&self) -> Result<usize, StoreError> {
        let Some(bytes) = self.plan.part_bytes(self.next_number) else {
            let doing = format!("{} does not fit into {} parts", self.key, self.plan.parts_max());
            return Err(StoreError::new(StoreErrorKind::Config, doing).with_hint("choose a larger part size"));
        };
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    async fn send_filling(&mut self) -> Result<(), StoreError> {
        self.part_bytes()?;
        while self.running.len() >= self.parts_in_flight {
            self.join_one().await?;
        }
        let bytes = self.filling.split().freeze();
        let (number, offset) = (self.next_number, self.sent_bytes);
        self.sent_bytes += bytes.len() as u64;
        self.next_number += 1;
        // The old buffer belongs to the part now; a new one is made when bytes come.
        self.filling = BytesMut::new();
        let sink = Arc::clone(&self.sink);
        self.running.spawn(async move { sink.part(number, offset, bytes).await });
        Ok(())
    }

    async fn join_one(&mut self) -> Result<(), StoreError> {
        match self.running.join_next().await {
            None => Ok(()),
            Some(Ok(part)) => {
                self.done.push(part?);
                Ok(())
            }
            Some(Err(panicked)) => {
                Err(StoreError::new(StoreErrorKind::Other, "a part's task ended before it was sent").because(panicked))
            }
        }
    }
}

pub(crate) fn md5_of(bytes: &Bytes) -> [u8; 16] {
    Md5::digest(bytes).into()
}

pub(crate) fn hex(digest: &[u8; 16]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
