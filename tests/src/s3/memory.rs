//! The objects and uploads of the embedded server, and the S3 operations over them.
//!
//! Invariant: an object changes in one step under one lock, so that a reader sees the whole old object or the whole new
//! one, and of two conditional writers exactly one wins.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use md5::{Digest as _, Md5};
use s3s::dto::*;
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, TrailingHeaders, s3_error};

/// S3 refuses to complete an upload in which a part other than the last is smaller (UploadPart's documented limit).
const MIN_PART_BYTES: usize = 5 * 1024 * 1024;
/// S3's documented largest part number.
const MAX_PART_NUMBER: i32 = 10_000;
/// S3's documented page length of every listing.
const MAX_PAGE: usize = 1000;

#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    buckets: BTreeMap<String, Bucket>,
    uploads_begun: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    objects: BTreeMap<String, Stored>,
    uploads: BTreeMap<String, Upload>,
}

#[derive(Debug, Clone)]
struct Stored {
    bytes: Bytes,
    etag: String,
    modified: SystemTime,
    kept: Kept,
}

/// What a client may attach to an object and gets back with it.
#[derive(Debug, Clone, Default)]
struct Kept {
    metadata: Option<Metadata>,
    content_type: Option<ContentType>,
}

#[derive(Debug)]
struct Upload {
    key: String,
    begun: SystemTime,
    kept: Kept,
    parts: BTreeMap<i32, Part>,
}

#[derive(Debug)]
struct Part {
    bytes: Bytes,
    md5: [u8; 16],
    modified: SystemTime,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held is a bug of ours that the panic itself reports.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn make_bucket(&self, bucket: &str) {
        self.lock().buckets.entry(bucket.to_owned()).or_default();
    }

    pub(crate) fn objects(&self, bucket: &str) -> BTreeMap<String, Bytes> {
        let state = self.lock();
        let Some(bucket) = state.buckets.get(bucket) else { return BTreeMap::new() };
        bucket.objects.iter().map(|(key, stored)| (key.clone(), stored.bytes.clone())).collect()
    }

    pub(crate) fn metadata(&self, bucket: &str, key: &str) -> Option<HashMap<String, String>> {
        let state = self.lock();
        let stored = state.buckets.get(bucket)?.objects.get(key)?;
        Some(stored.kept.metadata.clone().unwrap_or_default().into_iter().collect())
    }

    pub(crate) fn put(&self, bucket: &str, key: &str, bytes: Bytes) {
        let stored = Stored::whole(bytes, Kept::default());
        self.lock().buckets.entry(bucket.to_owned()).or_default().objects.insert(key.to_owned(), stored);
    }

    pub(crate) fn unfinished_uploads(&self, bucket: &str) -> Vec<String> {
        let state = self.lock();
        state.buckets.get(bucket).map(|b| b.uploads.values().map(|u| u.key.clone()).collect()).unwrap_or_default()
    }

    fn find(&self, bucket: &str, key: &str) -> S3Result<Stored> {
        let mut state = self.lock();
        state.bucket(bucket)?.objects.get(key).cloned().ok_or_else(|| s3_error!(NoSuchKey, "no object has this key"))
    }
}

impl State {
    fn bucket(&mut self, name: &str) -> S3Result<&mut Bucket> {
        self.buckets.get_mut(name).ok_or_else(|| s3_error!(NoSuchBucket, "no bucket has this name"))
    }
}

impl Bucket {
    fn upload(&mut self, id: &str, key: &str) -> S3Result<&mut Upload> {
        let upload = self.uploads.get_mut(id).filter(|upload| upload.key == key);
        upload.ok_or_else(|| s3_error!(NoSuchUpload, "no upload has this id, or it is completed or aborted"))
    }

    /// Holds a write to its conditions. The lock that lent `self` is held until the write is done.
    fn check(&self, key: &str, none: Option<&ETagCondition>, matching: Option<&ETagCondition>) -> S3Result<()> {
        let found = self.objects.get(key).map(|stored| stored.etag.as_str());
        let matches = |condition: &ETagCondition| match condition.as_etag() {
            None => found.is_some(),
            Some(etag) => found == Some(etag.value()),
        };
        if none.is_some_and(matches) || matching.is_some_and(|condition| !matches(condition)) {
            return Err(s3_error!(PreconditionFailed, "the condition of this write does not hold"));
        }
        Ok(())
    }
}

impl Stored {
    /// An object that came in one piece: its ETag is its MD5.
    fn whole(bytes: Bytes, kept: Kept) -> Self {
        let etag = hex(&Md5::digest(&bytes));
        Self { bytes, etag, modified: SystemTime::now(), kept }
    }

    /// An object of parts: its ETag is the MD5 of the parts' MD5s, and their number.
    fn of_parts(parts: &[&Part], kept: Kept) -> Self {
        let mut bytes = BytesMut::with_capacity(parts.iter().map(|part| part.bytes.len()).sum());
        let mut digests = Md5::new();
        for part in parts {
            bytes.extend_from_slice(&part.bytes);
            digests.update(part.md5);
        }
        let etag = format!("{}-{}", hex(&digests.finalize()), parts.len());
        Self { bytes: bytes.freeze(), etag, modified: SystemTime::now(), kept }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn strong(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

/// Reads a request's body to its end and holds it to every digest that came with it.
async fn receive(
    body: Option<StreamingBlob>,
    length: Option<i64>,
    content_md5: Option<&str>,
    trailers: Option<&TrailingHeaders>,
    headers: &http::HeaderMap,
) -> S3Result<(Bytes, [u8; 16])> {
    let Some(body) = body else { return Err(s3_error!(IncompleteBody, "the request has no body")) };
    let bytes = body
        .try_fold(BytesMut::new(), |mut all, chunk| async move {
            all.extend_from_slice(&chunk);
            Ok(all)
        })
        .await
        .map_err(|error| S3Error::with_source(s3s::S3ErrorCode::IncompleteBody, error))?
        .freeze();
    if length.is_some_and(|length| usize::try_from(length) != Ok(bytes.len())) {
        return Err(s3_error!(IncompleteBody, "the body is not as long as announced"));
    }
    let md5: [u8; 16] = Md5::digest(&bytes).into();
    if content_md5.is_some_and(|sent| sent != STANDARD.encode(md5)) {
        return Err(s3_error!(BadDigest, "the body does not have the announced Content-MD5"));
    }
    check_checksums(&bytes, headers)?;
    if let Some(checked) = trailers.and_then(|trailers| trailers.read(|sent| check_checksums(&bytes, sent))) {
        checked?;
    }
    Ok((bytes, md5))
}

fn check_checksums(bytes: &[u8], headers: &http::HeaderMap) -> S3Result<()> {
    use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
    let holds = |name: &str, digest: &dyn Fn() -> String| {
        headers.get(name).is_none_or(|sent| sent.as_bytes() == digest().as_bytes())
    };
    let all = holds("x-amz-checksum-crc32", &|| STANDARD.encode(Crc32::checksum(bytes)))
        && holds("x-amz-checksum-crc32c", &|| STANDARD.encode(Crc32c::checksum(bytes)))
        && holds("x-amz-checksum-crc64nvme", &|| STANDARD.encode(Crc64Nvme::checksum(bytes)))
        && holds("x-amz-checksum-sha1", &|| STANDARD.encode(Sha1::checksum(bytes)))
        && holds("x-amz-checksum-sha256", &|| STANDARD.encode(Sha256::checksum(bytes)));
    match all {
        true => Ok(()),
        false => Err(s3_error!(BadDigest, "the body does not have the announced checksum")),
    }
}

/// The token of the page after `key`. Opaque to clients, as S3's is.
fn page_token(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

fn key_of_token(token: &str) -> S3Result<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| s3_error!(InvalidArgument, "the continuation token is not one of ours"))
}

fn page_length(asked: Option<i32>) -> usize {
    asked.and_then(|asked| usize::try_from(asked).ok()).unwrap_or(MAX_PAGE).min(MAX_PAGE)
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn size(bytes: &Bytes) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

#[async_trait::async_trait]
impl S3 for Memory {
    async fn create_bucket(&self, req: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
        let input = req.input;
        if input.object_lock_enabled_for_bucket == Some(true) {
            return Err(s3_error!(NotImplemented, "this server has no object lock"));
        }
        if self.lock().buckets.contains_key(&input.bucket) {
            return Err(s3_error!(BucketAlreadyOwnedByYou));
        }
        self.make_bucket(&input.bucket);
        Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{}", input.bucket)) }))
    }

    async fn head_bucket(&self, req: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        self.lock().bucket(&req.input.bucket)?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn put_object(&self, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = req.input;
        let (bytes, _) = receive(
            input.body.or_else(|| Some(StreamingBlob::from(s3s::Body::empty()))),
            input.content_length,
            input.content_md5.as_deref(),
            req.trailing_headers.as_ref(),
            &req.headers,
        )
        .await?;
        let stored = Stored::whole(bytes, Kept { metadata: input.metadata, content_type: input.content_type });
        let etag = strong(&stored.etag);
        let mut state = self.lock();
        let bucket = state.bucket(&input.bucket)?;
        bucket.check(&input.key, input.if_none_match.as_ref(), input.if_match.as_ref())?;
        bucket.objects.insert(input.key, stored);
        Ok(S3Response::new(PutObjectOutput { e_tag: Some(etag), ..Default::default() }))
    }

    async fn get_object(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = req.input;
        let stored = self.find(&input.bucket, &input.key)?;
        let matches = |condition: &ETagCondition| condition.as_etag().is_none_or(|etag| etag.value() == stored.etag);
        if input.if_match.as_ref().is_some_and(|condition| !matches(condition)) {
            return Err(s3_error!(PreconditionFailed, "the object is not the one that was asked for"));
        }
        let whole_bytes = stored.bytes.len();
        let (body, content_range) = match input.range {
            None => (stored.bytes.clone(), None),
            Some(range) => {
                let range = range.check(whole_bytes as u64)?;
                let text = format!("bytes {}-{}/{whole_bytes}", range.start, range.end - 1);
                // Both ends were checked against the length of bytes that are in memory.
                (stored.bytes.slice(range.start as usize..range.end as usize), Some(text))
            }
        };
        let output = GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(size(&body)),
            content_range,
            content_type: stored.kept.content_type,
            e_tag: Some(strong(&stored.etag)),
            last_modified: Some(stored.modified.into()),
            metadata: stored.kept.metadata,
            body: Some(StreamingBlob::from(s3s::Body::from(body))),
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let stored = self.find(&req.input.bucket, &req.input.key)?;
        let output = HeadObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(size(&stored.bytes)),
            content_type: stored.kept.content_type,
            e_tag: Some(strong(&stored.etag)),
            last_modified: Some(stored.modified.into()),
            metadata: stored.kept.metadata,
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    async fn delete_object(&self, req: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        // S3 does not tell whether there was anything to delete.
        self.lock().bucket(&req.input.bucket)?.objects.remove(&req.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(&self, req: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let mut state = self.lock();
        let bucket = state.bucket(&req.input.bucket)?;
        let mut deleted = Vec::new();
        for object in req.input.delete.objects {
            bucket.objects.remove(&object.key);
            deleted.push(DeletedObject { key: Some(object.key), ..Default::default() });
        }
        Ok(S3Response::new(DeleteObjectsOutput { deleted: Some(deleted), ..Default::default() }))
    }

    async fn list_objects_v2(&self, req: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = req.input;
        if input.delimiter.as_deref().is_some_and(|delimiter| !delimiter.is_empty()) {
            return Err(s3_error!(NotImplemented, "this server lists without a delimiter only"));
        }
        if input.encoding_type.is_some() {
            return Err(s3_error!(NotImplemented, "this server lists without an encoding only"));
        }
        let after = match &input.continuation_token {
            Some(token) => Some(key_of_token(token)?),
            None => input.start_after.clone(),
        };
        let prefix = input.prefix.clone().unwrap_or_default();
        let page = page_length(input.max_keys);
        let mut state = self.lock();
        let bucket = state.bucket(&input.bucket)?;
        let mut left = bucket
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix) && after.as_ref().is_none_or(|after| *key > after));
        let contents: Vec<Object> = left
            .by_ref()
            .take(page)
            .map(|(key, stored)| Object {
                key: Some(key.clone()),
                size: Some(size(&stored.bytes)),
                e_tag: Some(strong(&stored.etag)),
                last_modified: Some(stored.modified.into()),
                storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
                ..Default::default()
            })
            .collect();
        let more = left.next().is_some();
        let last = contents.last().and_then(|object| object.key.as_deref()).filter(|_| more);
        let output = ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: input.prefix,
            max_keys: Some(count(page)),
            key_count: Some(count(contents.len())),
            continuation_token: input.continuation_token,
            start_after: input.start_after,
            is_truncated: Some(last.is_some()),
            next_continuation_token: last.map(page_token),
            contents: Some(contents),
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = req.input;
        let mut state = self.lock();
        state.bucket(&input.bucket)?;
        state.uploads_begun += 1;
        // A counter keeps ids in the order of their beginning, the random part keeps them from being guessed by a test.
        let id = format!("{:08}-{:016x}", state.uploads_begun, rand::random::<u64>());
        let upload = Upload {
            key: input.key.clone(),
            begun: SystemTime::now(),
            kept: Kept { metadata: input.metadata, content_type: input.content_type },
            parts: BTreeMap::new(),
        };
        state.bucket(&input.bucket)?.uploads.insert(id.clone(), upload);
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..Default::default()
        }))
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let input = req.input;
        if !(1..=MAX_PART_NUMBER).contains(&input.part_number) {
            return Err(s3_error!(InvalidArgument, "part numbers are 1 to 10000"));
        }
        let (bytes, md5) = receive(
            input.body,
            input.content_length,
            input.content_md5.as_deref(),
            req.trailing_headers.as_ref(),
            &req.headers,
        )
        .await?;
        let mut state = self.lock();
        let upload = state.bucket(&input.bucket)?.upload(&input.upload_id, &input.key)?;
        upload.parts.insert(input.part_number, Part { bytes, md5, modified: SystemTime::now() });
        Ok(S3Response::new(UploadPartOutput { e_tag: Some(strong(&hex(&md5))), ..Default::default() }))
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = req.input;
        let mut state = self.lock();
        let bucket = state.bucket(&input.bucket)?;
        let upload = bucket.upload(&input.upload_id, &input.key)?;
        let asked = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let stored = Stored::of_parts(&chosen_parts(upload, &asked)?, upload.kept.clone());
        bucket.check(&input.key, input.if_none_match.as_ref(), input.if_match.as_ref())?;
        bucket.uploads.remove(&input.upload_id);
        let etag = strong(&stored.etag);
        bucket.objects.insert(input.key.clone(), stored);
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            location: Some(format!("/{}/{}", input.bucket, input.key)),
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(etag),
            ..Default::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let mut state = self.lock();
        let bucket = state.bucket(&req.input.bucket)?;
        bucket.upload(&req.input.upload_id, &req.input.key)?;
        bucket.uploads.remove(&req.input.upload_id);
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }

    async fn list_parts(&self, req: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        let input = req.input;
        let page = page_length(input.max_parts);
        let after = input.part_number_marker.unwrap_or(0);
        let mut state = self.lock();
        let upload = state.bucket(&input.bucket)?.upload(&input.upload_id, &input.key)?;
        let mut left = upload.parts.range(after.saturating_add(1)..);
        let parts: Vec<s3s::dto::Part> = left
            .by_ref()
            .take(page)
            .map(|(number, part)| s3s::dto::Part {
                part_number: Some(*number),
                size: Some(size(&part.bytes)),
                e_tag: Some(strong(&hex(&part.md5))),
                last_modified: Some(part.modified.into()),
                ..Default::default()
            })
            .collect();
        let more = left.next().is_some();
        Ok(S3Response::new(ListPartsOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            max_parts: Some(count(page)),
            part_number_marker: Some(after),
            is_truncated: Some(more),
            next_part_number_marker: parts.last().and_then(|part| part.part_number).filter(|_| more),
            parts: Some(parts),
            ..Default::default()
        }))
    }

    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = req.input;
        if input.delimiter.as_deref().is_some_and(|delimiter| !delimiter.is_empty()) {
            return Err(s3_error!(NotImplemented, "this server lists without a delimiter only"));
        }
        let prefix = input.prefix.clone().unwrap_or_default();
        let page = page_length(input.max_uploads);
        let mark = (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone().unwrap_or_default());
        let mut state = self.lock();
        let bucket = state.bucket(&input.bucket)?;
        // S3 lists by key, and the uploads of one key by their beginning, which is the order of our ids.
        let by_key: BTreeMap<_, _> =
            bucket.uploads.iter().map(|(id, u)| ((u.key.clone(), id.clone()), u.begun)).collect();
        let mut left = by_key.into_iter().filter(|(at, _)| at.0.starts_with(&prefix) && is_after(at, &mark));
        let uploads: Vec<MultipartUpload> = left
            .by_ref()
            .take(page)
            .map(|((key, id), begun)| MultipartUpload {
                key: Some(key),
                upload_id: Some(id),
                initiated: Some(begun.into()),
                ..Default::default()
            })
            .collect();
        let last = uploads.last().cloned().filter(|_| left.next().is_some());
        Ok(S3Response::new(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            prefix: input.prefix,
            max_uploads: Some(count(page)),
            key_marker: input.key_marker,
            upload_id_marker: input.upload_id_marker,
            is_truncated: Some(last.is_some()),
            next_key_marker: last.as_ref().and_then(|upload| upload.key.clone()),
            next_upload_id_marker: last.and_then(|upload| upload.upload_id),
            uploads: Some(uploads),
            ..Default::default()
        }))
    }
}

/// Whether a listing that goes on after `mark` shows the upload at `at`. A key marker alone leaves out its whole key.
fn is_after(at: &(String, String), mark: &(String, String)) -> bool {
    match mark.1.is_empty() {
        true => at.0 > mark.0 || mark.0.is_empty(),
        false => at > mark,
    }
}

/// The parts that a completion asks for, held to S3's rules about them.
fn chosen_parts<'a>(upload: &'a Upload, asked: &[CompletedPart]) -> S3Result<Vec<&'a Part>> {
    if asked.is_empty() {
        return Err(s3_error!(MalformedXML, "a completion names at least one part"));
    }
    if !asked.is_sorted_by(|a, b| a.part_number < b.part_number) {
        return Err(s3_error!(InvalidPartOrder, "the parts are not in ascending order"));
    }
    let mut parts = Vec::with_capacity(asked.len());
    for wanted in asked {
        let part = wanted.part_number.and_then(|number| upload.parts.get(&number));
        let part = part.filter(|part| wanted.e_tag.as_ref().is_some_and(|etag| etag.value() == hex(&part.md5)));
        parts.push(part.ok_or_else(|| s3_error!(InvalidPart, "a part was not uploaded, or has another ETag"))?);
    }
    if parts[..parts.len() - 1].iter().any(|part| part.bytes.len() < MIN_PART_BYTES) {
        return Err(s3_error!(EntityTooSmall, "a part other than the last is smaller than 5 MiB"));
    }
    Ok(parts)
}
