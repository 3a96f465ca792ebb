//! What the tests of this folder share: a server with a bucket, a front before it, a client through it.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::complete_multipart_upload::CompleteMultipartUploadOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bronzenail_lab::front::{Front, FrontOptions, Rule};
use bronzenail_lab::s3::{S3Keys, S3Options, S3Server, client};

pub(crate) const BUCKET: &str = "stage";
pub(crate) const MIB: usize = 1024 * 1024;
/// The smallest part that may have a successor.
pub(crate) const PART: usize = 5 * MIB;
/// How long a test waits for what must come; none waits so long when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    pub(crate) server: S3Server,
    pub(crate) front: Front,
    pub(crate) client: Client,
    pub(crate) keys: S3Keys,
}

/// A server and a front with these rules.
pub(crate) async fn stage(rules: impl IntoIterator<Item = Rule>) -> Stage {
    let keys = S3Keys::fresh();
    let options = S3Options { keys: vec![keys.clone()], buckets: vec![BUCKET.to_owned()], ..S3Options::default() };
    let server = S3Server::start(options).await.unwrap();
    let mut options = FrontOptions::before(server.address()).keys(keys.clone());
    options.rules.extend(rules);
    let front = Front::start(options).await.unwrap();
    let client = client(&front.endpoint(), &keys);
    Stage { server, front, client, keys }
}

/// Bytes that are nowhere alike.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

pub(crate) fn body(bytes: impl Into<Vec<u8>>) -> ByteStream {
    ByteStream::from(bytes.into())
}

/// The S3 code and the status of a failed call.
pub(crate) fn refusal<E: ProvideErrorMetadata>(error: &SdkError<E>) -> (String, u16) {
    let status = error.raw_response().map_or(0, |response| response.status().as_u16());
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default();
    (code.to_owned(), status)
}

/// Whether a call failed without any answer.
pub(crate) fn was_cut<E>(error: &SdkError<E>) -> bool {
    matches!(error, SdkError::DispatchFailure(_) | SdkError::ResponseError(_))
}

impl Stage {
    pub(crate) async fn begin(&self, key: &str) -> String {
        let created = self.client.create_multipart_upload().bucket(BUCKET).key(key).send().await.unwrap();
        created.upload_id.unwrap()
    }

    pub(crate) async fn part(&self, key: &str, upload: &str, number: i32, bytes: Vec<u8>) -> CompletedPart {
        let call = self.client.upload_part().bucket(BUCKET).key(key).upload_id(upload).part_number(number);
        let sent = call.body(body(bytes)).send().await.unwrap();
        CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag).build()
    }

    pub(crate) async fn complete(
        &self,
        key: &str,
        upload: &str,
        parts: Vec<CompletedPart>,
    ) -> Result<
        CompleteMultipartUploadOutput,
        SdkError<aws_sdk_s3::operation::complete_multipart_upload::CompleteMultipartUploadError>,
    > {
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let call = self.client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(upload);
        call.multipart_upload(parts).send().await
    }

    /// Uploads parts of these sizes, completes, and gives what the completion said.
    pub(crate) async fn upload(
        &self,
        key: &str,
        sizes: &[usize],
    ) -> Result<
        CompleteMultipartUploadOutput,
        SdkError<aws_sdk_s3::operation::complete_multipart_upload::CompleteMultipartUploadError>,
    > {
        let upload = self.begin(key).await;
        let mut parts = Vec::new();
        for (number, bytes) in (1..).zip(sizes) {
            parts.push(self.part(key, &upload, number, pattern(*bytes)).await);
        }
        self.complete(key, &upload, parts).await
    }
}
