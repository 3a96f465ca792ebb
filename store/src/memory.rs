//! Objects in memory, for tests. As strict as the others: it passes the same suite.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::Utc;
use futures::stream;

use crate::driver::{ByteStream, Created, Driver, Object, OpenUpload, Part, PartSink};
use crate::upload::md5_of;
use crate::{StoreError, StoreErrorKind};

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, (Object, Bytes)>,
    uploads: BTreeMap<u64, (String, BTreeMap<u32, Bytes>)>,
    next_upload: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn object(key: &str, bytes: &Bytes) -> Object {
    Object { key: key.to_owned(), bytes: bytes.len() as u64, modified: Some(Utc::now()), etag: None }
}

impl State {
    fn create(&mut self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        if self.objects.contains_key(key) {
            return Err(StoreError::new(StoreErrorKind::AlreadyExists, format!("{key} exists already")));
        }
        self.objects.insert(key.to_owned(), (object(key, &bytes), bytes));
        Ok(())
    }
}

#[async_trait]
impl Driver for Memory {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    async fn stat(&self, key: &str) -> Result<Option<Object>, StoreError> {
        Ok(self.state().objects.get(key).map(|(object, _)| object.clone()))
    }

    async fn read(&self, key: &str, from: u64) -> Result<ByteStream, StoreError> {
        let found = self.state().objects.get(key).map(|(_, bytes)| bytes.clone());
        let bytes = found.ok_or_else(|| StoreError::new(StoreErrorKind::NotFound, format!("{key} does not exist")))?;
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        Ok(Box::pin(stream::iter([Ok(bytes.slice(from..))])))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        let state = self.state();
        let below = state.objects.values().map(|(object, _)| object);
        Ok(below.filter(|object| object.key.starts_with(prefix)).cloned().collect())
    }

    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        self.state().create(key, bytes)?;
        Ok(Created::Enforced)
    }

    async fn begin(&self, key: &str) -> Result<Box<dyn PartSink>, StoreError> {
        let mut state = self.state();
        let id = state.next_upload;
        state.next_upload += 1;
        state.uploads.insert(id, (key.to_owned(), BTreeMap::new()));
        Ok(Box::new(MemoryUpload { memory: self.clone(), id }))
    }

    async fn remove(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.state().objects.remove(key).is_some())
    }

    async fn open_uploads(&self, prefix: &str) -> Result<Vec<OpenUpload>, StoreError> {
        let state = self.state();
        let below = state.uploads.iter().filter(|(_, (key, _))| key.starts_with(prefix));
        Ok(below.map(|(id, (key, _))| OpenUpload { key: key.clone(), id: id.to_string(), begun: None }).collect())
    }

    async fn abort_open_upload(&self, upload: &OpenUpload) -> Result<(), StoreError> {
        if let Ok(id) = upload.id.parse() {
            self.state().uploads.remove(&id);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryUpload {
    memory: Memory,
    id: u64,
}

impl MemoryUpload {
    fn gone(&self) -> StoreError {
        StoreError::new(StoreErrorKind::NotFound, format!("upload {} was completed or aborted", self.id))
    }
}

#[async_trait]
impl PartSink for MemoryUpload {
    async fn part(&self, number: u32, _offset: u64, bytes: Bytes) -> Result<Part, StoreError> {
        let part = Part { number, bytes: bytes.len() as u64, md5: md5_of(&bytes), etag: None };
        let mut state = self.memory.state();
        let (_, parts) = state.uploads.get_mut(&self.id).ok_or_else(|| self.gone())?;
        parts.insert(number, bytes);
        Ok(part)
    }

    async fn complete(&self, parts: &[Part]) -> Result<(), StoreError> {
        let mut state = self.memory.state();
        let (key, held) = state.uploads.remove(&self.id).ok_or_else(|| self.gone())?;
        let whole: Vec<u8> = parts.iter().filter_map(|part| held.get(&part.number)).flatten().copied().collect();
        state.create(&key, whole.into())
    }

    async fn abort(&self) -> Result<(), StoreError> {
        self.memory.state().uploads.remove(&self.id);
        Ok(())
    }
}
