//! Buckets, through the SDK that AWS maintains.
//!
//! What the SDK's defaults get wrong for backups is set here: no checksum trailers unless asked for, no throughput minimum
//! (a source may pause, a store may think), a custom endpoint means path style, and every attempt is watched for progress.

mod client;
mod errors;
mod listing;
mod lock;
mod options;
mod trust;
mod upload;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::{EncodingType, ObjectLockLegalHoldStatus};
use base64::Engine;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{TryStreamExt, stream};

pub use options::{Addressing, ChecksumMode, ObjectLock, ObjectLockMode, S3Options, ServerSideEncryption};

use crate::driver::{ByteStream, Created, Driver, Object, OpenUpload, PartSink};
use crate::upload::md5_of;
use crate::{StoreError, StoreErrorKind};
use errors::failed;
use listing::{Pages, key_below, plain};

/// A bucket.
#[derive(Debug)]
pub(crate) struct S3 {
    shared: Arc<Shared>,
    retries: Arc<AtomicU64>,
}

/// What uploads need too.
#[derive(Debug)]
struct Shared {
    client: aws_sdk_s3::Client,
    options: S3Options,
}

impl S3 {
    pub(crate) async fn open(options: S3Options) -> Result<Self, StoreError> {
        let options = options.validate()?;
        let retries = Arc::new(AtomicU64::new(0));
        let client = client::build(&options, Arc::clone(&retries)).await?;
        Ok(Self { shared: Arc::new(Shared { client, options }), retries })
    }

    fn client(&self) -> &aws_sdk_s3::Client {
        &self.shared.client
    }

    fn bucket(&self) -> &str {
        &self.shared.options.bucket
    }
}

impl Shared {
    fn failed<E>(&self, doing: String, error: aws_sdk_s3::error::SdkError<E>) -> StoreError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        failed(doing, error, &self.options)
    }
}

fn time(time: Option<&aws_sdk_s3::primitives::DateTime>) -> Option<DateTime<Utc>> {
    time.and_then(|time| DateTime::from_timestamp(time.secs(), time.subsec_nanos()))
}

fn aws_time(time: DateTime<Utc>) -> aws_sdk_s3::primitives::DateTime {
    aws_sdk_s3::primitives::DateTime::from_secs(time.timestamp())
}

fn unquoted(etag: Option<&str>) -> Option<String> {
    etag.map(|etag| etag.trim_matches('"').to_owned())
}

fn size(bytes: Option<i64>) -> u64 {
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}

fn base64_of(md5: &[u8; 16]) -> String {
    base64::engine::general_purpose::STANDARD.encode(md5)
}

#[async_trait]
impl Driver for S3 {
    fn place(&self) -> String {
        match &self.shared.options.endpoint {
            Some(endpoint) => format!("bucket {} at {endpoint}", self.bucket()),
            None => format!("bucket {}", self.bucket()),
        }
    }

    fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    async fn stat(&self, key: &str) -> Result<Option<Object>, StoreError> {
        match self.client().head_object().bucket(self.bucket()).key(key).send().await {
            Ok(head) => Ok(Some(Object {
                key: key.to_owned(),
                bytes: size(head.content_length()),
                modified: time(head.last_modified()),
                etag: unquoted(head.e_tag()),
            })),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_not_found()) => Ok(None),
            Err(error) => {
                let failure = self.shared.failed(format!("could not look at {key}"), error);
                match failure.kind() {
                    StoreErrorKind::NotFound => Ok(None),
                    _ => Err(failure),
                }
            }
        }
    }

    async fn read(&self, key: &str, from: u64) -> Result<ByteStream, StoreError> {
        let range = (from > 0).then(|| format!("bytes={from}-"));
        let sent = self.client().get_object().bucket(self.bucket()).key(key).set_range(range).send().await;
        let got = match sent {
            Ok(got) => got,
            Err(error) => {
                // Nothing is left behind the last byte: that is an end, not an error.
                if error.raw_response().is_some_and(|raw| raw.status().as_u16() == 416) {
                    return Ok(Box::pin(stream::empty()));
                }
                return Err(self.shared.failed(format!("could not read {key}"), error));
            }
        };
        let doing = format!("could not read {key} to its end");
        let expected_bytes = got.content_length().and_then(|bytes| u64::try_from(bytes).ok());
        let body = stream::try_unfold((got.body, 0u64), move |(mut body, bytes)| {
            let doing = doing.clone();
            async move {
                match body.next().await {
                    Some(Ok(chunk)) => {
                        let bytes = bytes + chunk.len() as u64;
                        Ok(Some((chunk, (body, bytes))))
                    }
                    Some(Err(error)) => Err(errors::body_failed(doing, &error)),
                    // A gateway in between can end a reply early without an error.
                    None if expected_bytes.is_some_and(|expected| expected != bytes) => {
                        let cut = format!("the store ended after {bytes} of {} bytes", expected_bytes.unwrap_or(0));
                        Err(StoreError::new(StoreErrorKind::Network, doing).because(cut))
                    }
                    None => Ok(None),
                }
            }
        });
        Ok(Box::pin(body))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        let doing = || format!("could not list {}", if prefix.is_empty() { "the bucket" } else { prefix });
        let (mut pages, mut token) = (Pages::default(), None);
        let mut objects = Vec::new();
        loop {
            let request = self.client().list_objects_v2().bucket(self.bucket()).prefix(prefix);
            let request = request.encoding_type(EncodingType::Url).set_continuation_token(token);
            let page = request.send().await.map_err(|error| self.shared.failed(doing(), error))?;
            objects.extend(page.contents().iter().filter_map(|object| {
                Some(Object {
                    key: key_below(prefix, object.key()?, page.encoding_type())?,
                    bytes: size(object.size()),
                    modified: time(object.last_modified()),
                    etag: unquoted(object.e_tag()),
                })
            }));
            if page.is_truncated() != Some(true) {
                objects.sort_by(|a, b| a.key.cmp(&b.key));
                return no_repeats(objects, doing());
            }
            let next = pages.next(page.next_continuation_token().map(str::to_owned));
            token = Some(next.ok_or_else(|| repeated(doing()))?);
        }
    }

    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        // Some stores take the condition and forget it: a look first keeps them from replacing what was there before.
        self.expect_nothing_at(key).await?;
        if self.create_once(key, &bytes, true).await? {
            return Ok(Created::Enforced);
        }
        // The store does not know the condition. A look first is all that is left; our names are unique by themselves.
        match self.stat(key).await? {
            Some(_) => Err(exists(key)),
            None => self.create_once(key, &bytes, false).await.map(|_| Created::LookedFirst),
        }
    }

    async fn begin(&self, key: &str) -> Result<Box<dyn PartSink>, StoreError> {
        Ok(Box::new(upload::S3Upload::begin(Arc::clone(&self.shared), key).await?))
    }

    async fn remove(&self, key: &str) -> Result<bool, StoreError> {
        // S3 itself says 204 whether or not something was there.
        let was_there = self.stat(key).await?.is_some();
        match self.client().delete_object().bucket(self.bucket()).key(key).send().await {
            Ok(_) => Ok(was_there),
            Err(error) => match self.shared.failed(format!("could not remove {key}"), error) {
                failure if failure.kind() == StoreErrorKind::NotFound => Ok(false),
                failure => Err(failure),
            },
        }
    }

    async fn open_uploads(&self, prefix: &str) -> Result<Vec<OpenUpload>, StoreError> {
        let doing = || format!("could not list the unfinished uploads below {prefix}");
        let (mut pages, mut mark) = (Pages::default(), (None, None));
        let mut uploads = Vec::new();
        loop {
            let request = self.client().list_multipart_uploads().bucket(self.bucket()).prefix(prefix);
            // No encoding is asked for: Ceph 16 then encodes, and does not say that it did.
            let request = request.set_key_marker(mark.0).set_upload_id_marker(mark.1);
            let page = request.send().await.map_err(|error| self.shared.failed(doing(), error))?;
            uploads.extend(page.uploads().iter().filter_map(|upload| {
                let key = key_below(prefix, upload.key()?, page.encoding_type())?;
                Some(OpenUpload { key, id: upload.upload_id()?.to_owned(), begun: time(upload.initiated()) })
            }));
            if page.is_truncated() != Some(true) {
                return Ok(uploads);
            }
            let key = page.next_key_marker().map(|key| plain(key, page.encoding_type()));
            let next = key.map(|key| (Some(key), page.next_upload_id_marker().map(str::to_owned)));
            mark = pages.next(next).ok_or_else(|| repeated(doing()))?;
        }
    }

    async fn abort_open_upload(&self, upload: &OpenUpload) -> Result<(), StoreError> {
        upload::abort(&self.shared, &upload.key, &upload.id).await
    }
}

impl S3 {
    /// `AlreadyExists` if something is there. A look that is refused says nothing: without the permission to list, S3 says
    /// 403 for what is not there, and an answer to HEAD has no reason. The put that follows is told one.
    async fn expect_nothing_at(&self, key: &str) -> Result<(), StoreError> {
        use StoreErrorKind::{Config, Denied, Other};
        match self.stat(key).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(exists(key)),
            Err(error) if matches!(error.kind(), Denied | Config | Other) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// False if the store does not know the condition.
    async fn create_once(&self, key: &str, bytes: &Bytes, conditional: bool) -> Result<bool, StoreError> {
        let options = &self.shared.options;
        let lock = options.object_lock.as_ref();
        let mut request = self.client().put_object().bucket(self.bucket()).key(key).body(bytes.clone().into());
        request = request
            .content_md5(base64_of(&md5_of(bytes)))
            .content_type("application/json")
            .set_server_side_encryption(options.sse_type())
            .set_ssekms_key_id(options.kms_key())
            .set_object_lock_mode(lock.map(|lock| lock.mode.into()))
            .set_object_lock_retain_until_date(lock.map(|lock| aws_time(lock.retain_until)))
            .set_object_lock_legal_hold_status(options.legal_hold.then_some(ObjectLockLegalHoldStatus::On));
        if conditional {
            request = request.if_none_match("*");
        }
        let retries_before = self.retries();
        let Err(error) = request.send().await else {
            lock::ensure(&self.shared, key).await?;
            return Ok(true);
        };
        let status = error.raw_response().map(|raw| raw.status().as_u16());
        if conditional && status == Some(501) {
            return Ok(false);
        }
        if !matches!(status, Some(409 | 412)) {
            return Err(self.shared.failed(format!("could not create {key}"), error));
        }
        // A put whose reply was lost is sent again, and then finds itself. One that was sent once found another's, even
        // one of the same bytes.
        if self.retries() != retries_before && self.has(key, bytes).await? {
            lock::ensure(&self.shared, key).await?;
            return Ok(true);
        }
        Err(exists(key).because(self.shared.failed(format!("the store refused to create {key}"), error)))
    }

    /// Whether exactly these bytes are there.
    async fn has(&self, key: &str, bytes: &Bytes) -> Result<bool, StoreError> {
        match self.stat(key).await? {
            Some(object) if object.bytes == bytes.len() as u64 => {}
            _ => return Ok(false),
        }
        let found: Vec<Bytes> = self.read(key, 0).await?.try_collect().await?;
        Ok(found.concat() == bytes[..])
    }
}

fn exists(key: &str) -> StoreError {
    StoreError::new(StoreErrorKind::AlreadyExists, format!("{key} exists already"))
}

fn repeated(doing: String) -> StoreError {
    StoreError::new(StoreErrorKind::Damaged, doing).because("the store's listing repeats itself")
}

/// A page that comes twice under another token would count every backup in it twice.
fn no_repeats(objects: Vec<Object>, doing: String) -> Result<Vec<Object>, StoreError> {
    match objects.windows(2).any(|two| two[0].key == two[1].key) {
        true => Err(repeated(doing)),
        false => Ok(objects),
    }
}

#[cfg(test)]
mod tests;
