//! What the front saw: one record for each request, for assertions about what really went over the wire.

use http::HeaderMap;

use super::operation::{Operation, Target};

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// Still being handled.
    Pending,
    /// The store answered, and the client was sent an answer with this status.
    Forwarded(u16),
    /// The front answered with this status; the store never saw the request.
    Answered(u16),
    /// The connection was cut, and the store never saw the request.
    CutBeforeStore,
    /// The store did what was asked, but the client never heard of it.
    CutAfterStore,
    /// The client went away before its request was whole.
    ClientGone,
    /// The store could not be reached or broke off.
    StoreFailed,
}

/// One request as it came in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Seen {
    /// Its place in the log, from 0.
    pub index: usize,
    /// The HTTP method.
    pub method: String,
    /// The path as it was sent.
    pub path: String,
    /// The query as it was sent, without its question mark.
    pub query: String,
    /// What it asked for.
    pub operation: Operation,
    /// The bucket, if one was named.
    pub bucket: Option<String>,
    /// The key, unescaped, if one was named.
    pub key: Option<String>,
    /// Of UploadPart.
    pub part_number: Option<u32>,
    /// Of every operation on an unfinished upload.
    pub upload_id: Option<String>,
    /// Whether the bucket was named by the host.
    pub virtual_host: bool,
    /// Whether a listing goes on from an earlier page.
    pub continued: bool,
    /// How many bytes of body came in.
    pub body_bytes: u64,
    /// All headers as they came.
    pub headers: HeaderMap,
    /// What became of it.
    pub fate: Fate,
}

impl Seen {
    pub(crate) fn new(index: usize, parts: &http::request::Parts, target: &Target) -> Self {
        Self {
            index,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            operation: target.operation,
            bucket: target.bucket.clone(),
            key: target.key.clone(),
            part_number: target.part_number,
            upload_id: target.upload_id.clone(),
            virtual_host: target.virtual_host,
            continued: target.continued,
            body_bytes: 0,
            headers: parts.headers.clone(),
            fate: Fate::Pending,
        }
    }

    /// A header's value, if it was sent and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the request was signed in a header.
    pub fn is_signed(&self) -> bool {
        self.headers.contains_key("authorization")
    }

    /// The access key with which the request was signed.
    pub fn access_key(&self) -> Option<&str> {
        let credential = self.header("authorization")?.split("Credential=").nth(1)?;
        credential.split('/').next()
    }

    /// The region for which the request was signed.
    pub fn region(&self) -> Option<&str> {
        let credential = self.header("authorization")?.split("Credential=").nth(1)?;
        credential.split('/').nth(2)
    }

    /// The session token that came with temporary keys.
    pub fn session_token(&self) -> Option<&str> {
        self.header("x-amz-security-token")
    }

    /// `If-None-Match`, by which a write asks to create only.
    pub fn if_none_match(&self) -> Option<&str> {
        self.header("if-none-match")
    }

    /// `Content-Length` as it was sent.
    pub fn content_length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// The names of everything that asks the store to understand the newer checksums.
    pub fn checksum_headers(&self) -> Vec<String> {
        super::store_traits::checksum_headers(&self.headers)
    }

    /// Whether the store may have acted on the request.
    pub fn reached_store(&self) -> bool {
        matches!(self.fate, Fate::Forwarded(_) | Fate::CutAfterStore)
    }

    /// How many bytes of the object the request carried: without the framing of signed chunks.
    pub(crate) fn payload_bytes(&self) -> u64 {
        let decoded = self.header("x-amz-decoded-content-length").and_then(|bytes| bytes.parse().ok());
        decoded.unwrap_or(self.body_bytes)
    }
}
