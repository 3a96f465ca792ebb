//! What a driver must do. Not seen by callers.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::Stream;

use crate::StoreError;

/// An object as a listing or a look at it shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When the store last wrote it. Never used to decide what is old: keys carry the time.
    pub modified: Option<DateTime<Utc>>,
    /// The store's name for its content, quotes taken off.
    pub etag: Option<String>,
}

/// What `create` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The object was not there, and now is.
    Enforced,
    /// The same, but the store does not enforce it: only a look beforehand says so.
    LookedFirst,
}

/// An upload that was begun and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenUpload {
    /// The key that it would appear under.
    pub key: String,
    /// The store's name for it.
    pub id: String,
    /// When it was begun.
    pub begun: Option<DateTime<Utc>>,
}

/// The bytes of an object, in order. An early end is an error, not an end.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, StoreError>> + Send>>;

/// A part that the store has taken.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    /// MD5 as we computed it.
    pub(crate) md5: [u8; 16],
    /// What the store called it.
    pub(crate) etag: Option<String>,
}

/// One kind of store.
#[async_trait]
pub(crate) trait Driver: std::fmt::Debug + Send + Sync {
    /// For messages: `bucket backups at https://...`.
    fn place(&self) -> String;

    /// A look at one object; `None` if it is not there.
    async fn stat(&self, key: &str) -> Result<Option<Object>, StoreError>;

    /// The bytes from `from` on. `NotFound` if the object is not there. Must report an early end as an error.
    async fn read(&self, key: &str, from: u64) -> Result<ByteStream, StoreError>;

    /// Every object whose key starts with `prefix`, in the order of keys. All or an error: never a part.
    async fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError>;

    /// Writes a small object that must not exist: `AlreadyExists` if it does, whatever happens at the same time.
    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError>;

    /// Begins an upload. Nothing is visible under `key` before `complete`.
    async fn begin(&self, key: &str) -> Result<Box<dyn PartSink>, StoreError>;

    /// Deletes; false if nothing was there.
    async fn remove(&self, key: &str) -> Result<bool, StoreError>;

    /// Uploads below `prefix` that are neither completed nor aborted.
    async fn open_uploads(&self, prefix: &str) -> Result<Vec<OpenUpload>, StoreError>;

    /// Drops one of them; one that is gone is no error.
    async fn abort_open_upload(&self, upload: &OpenUpload) -> Result<(), StoreError>;

    /// How many requests were sent again since the start.
    fn retries(&self) -> u64 {
        0
    }
}

/// An upload under way.
#[async_trait]
pub(crate) trait PartSink: std::fmt::Debug + Send + Sync {
    /// Sends one part, from its own buffer, as often as it takes. May be called for several parts at once.
    async fn part(&self, number: u32, offset: u64, bytes: Bytes) -> Result<Part, StoreError>;

    /// Makes the object visible. The caller looks at the object afterwards, whatever this returns.
    async fn complete(&self, parts: &[Part]) -> Result<(), StoreError>;

    /// What is to be done to an object that is there and whole, such as to see that it is locked.
    async fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Leaves nothing behind. May be called after anything, more than once.
    async fn abort(&self) -> Result<(), StoreError>;
}
