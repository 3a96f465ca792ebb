//! A store, and the three powers that can be handed out over it.

use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;

use crate::directory::Directory;
use crate::driver::{ByteStream, Created, Driver, Object, OpenUpload};
use crate::memory::Memory;
use crate::s3::{S3, S3Options};
use crate::upload::{Upload, UploadOptions};
use crate::{StoreError, StoreErrorKind};

/// A place for objects. Cheap to clone; gives out views, and does nothing itself.
#[derive(Clone, Debug)]
pub struct Store(Arc<dyn Driver>);

/// The power to add objects, and to look at what was added. Cannot list, replace or delete.
#[derive(Clone, Debug)]
pub struct Append(Arc<dyn Driver>);

/// The power to look and to list.
#[derive(Clone, Debug)]
pub struct Read(Arc<dyn Driver>);

/// The power to delete.
#[derive(Clone, Debug)]
pub struct Remove(Arc<dyn Driver>);

impl Store {
    /// A bucket.
    ///
    /// # Errors
    /// A configuration that cannot work. No request is sent yet.
    pub async fn s3(options: S3Options) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(S3::open(options).await?)))
    }

    /// A directory, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or is something else.
    pub async fn directory(path: &Path) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Directory::open(path).await?)))
    }

    /// Memory, for tests.
    pub fn memory() -> Self {
        Self(Arc::new(Memory::default()))
    }

    #[cfg(test)]
    pub(crate) fn over(driver: impl Driver + 'static) -> Self {
        Self(Arc::new(driver))
    }

    /// What to call it in messages.
    pub fn place(&self) -> String {
        self.0.place()
    }

    /// The power to add.
    pub fn append(&self) -> Append {
        Append(Arc::clone(&self.0))
    }

    /// The power to look.
    pub fn reader(&self) -> Read {
        Read(Arc::clone(&self.0))
    }

    /// The power to delete.
    pub fn remover(&self) -> Remove {
        Remove(Arc::clone(&self.0))
    }

    /// How many requests were sent again since the start.
    pub fn retries(&self) -> u64 {
        self.0.retries()
    }
}

impl Append {
    /// A look at one object; `None` if it is not there.
    ///
    /// # Errors
    /// The store did not say.
    pub async fn stat(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.0.stat(key).await
    }

    /// The bytes of an object, from byte `from` on.
    ///
    /// # Errors
    /// `NotFound`, and whatever keeps it from being read; an early end comes as an error in the stream.
    pub async fn read(&self, key: &str, from: u64) -> Result<ByteStream, StoreError> {
        self.0.read(key, from).await
    }

    /// Writes a small object that must not exist.
    ///
    /// # Errors
    /// `AlreadyExists` if it does.
    pub async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        self.0.create(key, bytes).await
    }

    /// Begins to upload an object.
    ///
    /// # Errors
    /// Options that no store takes; a store that does not begin.
    pub async fn upload(&self, key: &str, options: UploadOptions) -> Result<Upload, StoreError> {
        Upload::begin(Arc::clone(&self.0), key, options).await
    }
}

impl Read {
    /// A look at one object; `None` if it is not there.
    ///
    /// # Errors
    /// The store did not say.
    pub async fn stat(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.0.stat(key).await
    }

    /// The bytes of an object, from byte `from` on.
    ///
    /// # Errors
    /// As for [`Append::read`].
    pub async fn read(&self, key: &str, from: u64) -> Result<ByteStream, StoreError> {
        self.0.read(key, from).await
    }

    /// A small object whole.
    ///
    /// # Errors
    /// More than `bytes_max` bytes is `Damaged`: it is not what it was taken for.
    pub async fn read_small(&self, key: &str, bytes_max: u64) -> Result<Bytes, StoreError> {
        let mut stream = self.0.read(key, 0).await?;
        let mut whole = BytesMut::new();
        while let Some(bytes) = stream.try_next().await? {
            whole.extend_from_slice(&bytes);
            if whole.len() as u64 > bytes_max {
                let doing = format!("{key} is larger than the {bytes_max} bytes that it may have");
                return Err(StoreError::new(StoreErrorKind::Damaged, doing));
            }
        }
        Ok(whole.freeze())
    }

    /// Every object whose key starts with `prefix`, in the order of keys.
    ///
    /// # Errors
    /// A listing is whole or an error; a part of one is never returned.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        self.0.list(prefix).await
    }
}

impl Remove {
    /// Deletes; false if nothing was there.
    ///
    /// # Errors
    /// The store refused (object lock, permissions) or did not answer.
    pub async fn remove(&self, key: &str) -> Result<bool, StoreError> {
        self.0.remove(key).await
    }

    /// Uploads below `prefix` that are neither completed nor aborted.
    ///
    /// # Errors
    /// As for a listing.
    pub async fn open_uploads(&self, prefix: &str) -> Result<Vec<OpenUpload>, StoreError> {
        self.0.open_uploads(prefix).await
    }

    /// Drops one of them; one that is gone is no error.
    ///
    /// # Errors
    /// The store refused or did not answer.
    pub async fn abort_open_upload(&self, upload: &OpenUpload) -> Result<(), StoreError> {
        self.0.abort_open_upload(upload).await
    }
}
