//! A multipart upload.

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_s3::types::{
    CompletedMultipartUpload, CompletedPart, ObjectLockLegalHoldStatus, ServerSideEncryption, StorageClass,
};
use bytes::Bytes;

use super::{Shared, aws_time, base64_of, unquoted};
use super::{errors, lock};
use crate::driver::{Part, PartSink};
use crate::upload::md5_of;
use crate::{StoreError, StoreErrorKind};

#[derive(Debug)]
pub(super) struct S3Upload {
    shared: Arc<Shared>,
    key: String,
    id: String,
}

impl S3Upload {
    pub(super) async fn begin(shared: Arc<Shared>, key: &str) -> Result<Self, StoreError> {
        let options = &shared.options;
        let lock = options.object_lock.as_ref();
        let begun = shared
            .client
            .create_multipart_upload()
            .bucket(&options.bucket)
            .key(key)
            .content_type("application/octet-stream")
            .set_storage_class(options.storage_class.as_deref().map(StorageClass::from))
            .set_server_side_encryption(options.sse_type())
            .set_ssekms_key_id(options.kms_key())
            .set_object_lock_mode(lock.map(|lock| lock.mode.into()))
            .set_object_lock_retain_until_date(lock.map(|lock| aws_time(lock.retain_until)))
            .set_object_lock_legal_hold_status(options.legal_hold.then_some(ObjectLockLegalHoldStatus::On))
            .send()
            .await
            .map_err(|error| shared.failed(format!("could not begin the upload of {key}"), error))?;
        let Some(id) = begun.upload_id().map(str::to_owned) else {
            let doing = format!("the store began the upload of {key} without naming it");
            return Err(StoreError::new(StoreErrorKind::Damaged, doing));
        };
        Ok(Self { shared, key: key.to_owned(), id })
    }
}

#[async_trait]
impl PartSink for S3Upload {
    async fn part(&self, number: u32, _offset: u64, bytes: Bytes) -> Result<Part, StoreError> {
        let md5 = md5_of(&bytes);
        let part_bytes = bytes.len() as u64;
        let doing = || format!("could not send part {number} of {}", self.key);
        let sent = self
            .shared
            .client
            .upload_part()
            .bucket(&self.shared.options.bucket)
            .key(&self.key)
            .upload_id(&self.id)
            .part_number(i32::try_from(number).unwrap_or(i32::MAX))
            // The store checks the part against it on arrival; object lock demands it.
            .content_md5(base64_of(&md5))
            .body(bytes.into())
            .send()
            .await
            .map_err(|error| self.shared.failed(doing(), error))?;
        // Under a KMS key an ETag is no MD5, though it may look like one.
        let plain = !matches!(
            sent.server_side_encryption(),
            Some(ServerSideEncryption::AwsKms | ServerSideEncryption::AwsKmsDsse)
        );
        let etag = unquoted(sent.e_tag());
        if etag.is_none() {
            return Err(StoreError::new(StoreErrorKind::Damaged, doing()).because("the store took it without an ETag"));
        }
        let md5 = if plain { md5 } else { [0; 16] };
        Ok(Part { number, bytes: part_bytes, md5, etag })
    }

    async fn complete(&self, parts: &[Part]) -> Result<(), StoreError> {
        let list = parts.iter().map(|part| {
            let number = i32::try_from(part.number).unwrap_or(i32::MAX);
            CompletedPart::builder().part_number(number).set_e_tag(part.etag.clone()).build()
        });
        let doing = || format!("could not complete the upload of {}", self.key);
        let done = self
            .shared
            .client
            .complete_multipart_upload()
            .bucket(&self.shared.options.bucket)
            .key(&self.key)
            .upload_id(&self.id)
            .multipart_upload(CompletedMultipartUpload::builder().set_parts(Some(list.collect())).build())
            .send()
            .await
            .map_err(|error| self.shared.failed(doing(), error))?;
        // An empty or cut body parses to nothing. The object itself will be asked, so this is only worth a line.
        if done.e_tag().is_none() {
            tracing::warn!(key = self.key, "the store completed the upload without saying what it made");
        }
        Ok(())
    }

    async fn settle(&self) -> Result<(), StoreError> {
        lock::ensure(&self.shared, &self.key).await
    }

    async fn abort(&self) -> Result<(), StoreError> {
        abort(&self.shared, &self.key, &self.id).await
    }
}

pub(super) async fn abort(shared: &Shared, key: &str, id: &str) -> Result<(), StoreError> {
    let request = shared.client.abort_multipart_upload().bucket(&shared.options.bucket).key(key).upload_id(id);
    let Err(error) = request.send().await else { return Ok(()) };
    match errors::failed(format!("could not abort the upload of {key}"), error, &shared.options) {
        // Aborted or completed before: nothing is left of it.
        failure if failure.kind() == StoreErrorKind::NotFound => Ok(()),
        failure => Err(failure),
    }
}
