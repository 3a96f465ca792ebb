//! A store in memory that does one thing wrong. For tests: what a healthy store never shows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use md5::{Digest, Md5};

use crate::driver::{ByteStream, Created, Driver, Object, OpenUpload, Part, PartSink};
use crate::memory::Memory;
use crate::upload::{hex, md5_of};
use crate::{StoreError, StoreErrorKind};

/// The one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is wrong.
    None,
    /// Says yes to a completion, and keeps nothing.
    KeepsNothing,
    /// Keeps a byte less than it was sent.
    KeepsLess,
    /// Keeps other bytes than it was sent.
    KeepsOther,
    /// Makes the object of another number of parts.
    CountsOtherwise,
    /// Completes the upload, and the reply is lost.
    LosesReply,
    /// The same, and it names content in a way of its own.
    LosesReplyAndHasNoMd5,
    /// Refuses to complete.
    RefusesCompletion,
    /// Refuses the first part, and never finishes another.
    RefusesPart,
    /// Refuses to abort, and the first part.
    RefusesAbort,
    /// Does not answer when it is asked about an object.
    HidesObjects,
    /// Cannot list.
    RefusesListing,
    /// Cannot be read.
    RefusesReading,
}

/// What happened at the store.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) aborts: AtomicUsize,
    pub(crate) parts_under_way: AtomicUsize,
    pub(crate) parts_under_way_max: AtomicUsize,
    pub(crate) parts_under_way_at_abort: AtomicUsize,
}

#[derive(Clone, Debug)]
pub(crate) struct Faulty {
    memory: Memory,
    fault: Fault,
    etag: Arc<Mutex<Option<String>>>,
    pub(crate) log: Arc<Log>,
}

impl Faulty {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { memory: Memory::default(), fault, etag: Arc::default(), log: Arc::default() }
    }

    /// The same objects, with nothing or something else wrong.
    pub(crate) fn turned(&self, fault: Fault) -> Self {
        Self { fault, ..self.clone() }
    }

    fn fails(&self, on: &[Fault]) -> Result<(), StoreError> {
        match on.contains(&self.fault) {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, format!("{:?}", self.fault))),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Driver for Faulty {
    fn place(&self) -> String {
        "a faulty store".to_owned()
    }

    async fn stat(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.fails(&[Fault::HidesObjects])?;
        let etag = self.etag.lock().unwrap().clone();
        let object = self.memory.stat(key).await?.map(|object| Object { etag, ..object });
        Ok(match self.fault {
            Fault::KeepsNothing => None,
            Fault::KeepsLess => object.map(|object| Object { bytes: object.bytes - 1, ..object }),
            _ => object,
        })
    }

    async fn read(&self, key: &str, from: u64) -> Result<ByteStream, StoreError> {
        self.fails(&[Fault::RefusesReading])?;
        self.memory.read(key, from).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        self.fails(&[Fault::RefusesListing])?;
        self.memory.list(prefix).await
    }

    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        self.memory.create(key, bytes).await
    }

    async fn begin(&self, key: &str) -> Result<Box<dyn PartSink>, StoreError> {
        Ok(Box::new(FaultyUpload { inner: self.memory.begin(key).await?, store: self.clone() }))
    }

    async fn remove(&self, key: &str) -> Result<bool, StoreError> {
        self.memory.remove(key).await
    }

    async fn open_uploads(&self, prefix: &str) -> Result<Vec<OpenUpload>, StoreError> {
        self.memory.open_uploads(prefix).await
    }

    async fn abort_open_upload(&self, upload: &OpenUpload) -> Result<(), StoreError> {
        self.memory.abort_open_upload(upload).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn PartSink>,
    store: Faulty,
}

/// Counts down also when the part is given up.
struct UnderWay<'a>(&'a Log);

impl<'a> UnderWay<'a> {
    fn new(log: &'a Log) -> Self {
        let now = log.parts_under_way.fetch_add(1, Ordering::SeqCst) + 1;
        log.parts_under_way_max.fetch_max(now, Ordering::SeqCst);
        Self(log)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.parts_under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl PartSink for FaultyUpload {
    async fn part(&self, number: u32, offset: u64, bytes: Bytes) -> Result<Part, StoreError> {
        let _under_way = UnderWay::new(&self.store.log);
        // Others get their turn, so that what may run at once does.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        match (number, self.store.fault) {
            (1, Fault::RefusesPart | Fault::RefusesAbort) => self.store.fails(&[self.store.fault])?,
            (_, Fault::RefusesPart) => std::future::pending().await,
            _ => {}
        }
        let etag = hex(&md5_of(&bytes));
        let part = self.inner.part(number, offset, bytes).await?;
        Ok(match self.store.fault {
            Fault::LosesReplyAndHasNoMd5 => Part { etag: Some(format!("own-{number}")), ..part },
            _ => Part { etag: Some(etag), ..part },
        })
    }

    async fn complete(&self, parts: &[Part]) -> Result<(), StoreError> {
        self.store.fails(&[Fault::RefusesCompletion])?;
        let all = parts.iter().fold(Md5::new(), |md5, part| md5.chain_update(part.md5)).finalize();
        let etag = match self.store.fault {
            Fault::KeepsOther => format!("{}-{}", hex(&[7; 16]), parts.len()),
            Fault::CountsOtherwise => format!("{}-{}", hex(&all.into()), parts.len() + 1),
            _ => format!("{}-{}", hex(&all.into()), parts.len()),
        };
        self.inner.complete(parts).await?;
        *self.store.etag.lock().unwrap() = Some(etag);
        self.store.fails(&[Fault::LosesReply, Fault::LosesReplyAndHasNoMd5])
    }

    async fn abort(&self) -> Result<(), StoreError> {
        let log = &self.store.log;
        log.aborts.fetch_add(1, Ordering::SeqCst);
        log.parts_under_way_at_abort.fetch_max(log.parts_under_way.load(Ordering::SeqCst), Ordering::SeqCst);
        self.store.fails(&[Fault::RefusesAbort])?;
        self.inner.abort().await
    }
}
