//! What a bucket is and how to talk to it. Validated once; the rest may rely on it.

use std::time::Duration;

use aws_sdk_s3::types;
use chrono::{DateTime, Utc};
use url::Url;

use crate::{StoreError, StoreErrorKind};

/// All settings of the S3 driver. Credentials are not among them: they come from the SDK's own chain.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// Name of the bucket, and nothing but the name.
    pub bucket: String,
    /// URL of a store that is not AWS.
    pub endpoint: Option<String>,
    /// Region; found by the SDK if not given, and `us-east-1` for a custom endpoint.
    pub region: Option<String>,
    /// How the bucket stands in URLs.
    pub addressing: Addressing,
    /// Certificates (PEM) to trust beside the system's, and where they came from. For this store only.
    pub ca: Option<(String, String)>,
    /// Whether requests carry the SDK's own checksums.
    pub checksums: Option<ChecksumMode>,
    /// Storage class of the data object.
    pub storage_class: Option<String>,
    /// Encryption at the store, beside ours.
    pub sse: Option<ServerSideEncryption>,
    /// Retention under object lock.
    pub object_lock: Option<ObjectLock>,
    /// Legal hold under object lock.
    pub legal_hold: bool,
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// How long no byte may move while a request is sent or a reply read.
    pub idle_timeout: Duration,
    /// How long the store may think once it has the whole request.
    pub reply_timeout: Duration,
    /// How often a request is sent, the first time included.
    pub attempts_max: u32,
}

impl S3Options {
    /// The defaults for a bucket.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            endpoint: None,
            region: None,
            addressing: Addressing::Auto,
            ca: None,
            checksums: None,
            storage_class: None,
            sse: None,
            object_lock: None,
            legal_hold: false,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            reply_timeout: Duration::from_secs(300),
            attempts_max: 6,
        }
    }

    pub(crate) fn validate(mut self) -> Result<Self, StoreError> {
        check_bucket(&self.bucket)?;
        if let Some(endpoint) = &self.endpoint {
            self.endpoint = Some(normal_endpoint(endpoint)?);
        }
        Ok(self)
    }

    /// Custom endpoints rarely have a DNS name per bucket, and a dotted bucket breaks the wildcard certificate.
    pub(crate) fn path_style(&self) -> bool {
        match self.addressing {
            Addressing::Path => true,
            Addressing::VirtualHost => false,
            Addressing::Auto => self.endpoint.is_some() || self.bucket.contains('.'),
        }
    }

    pub(crate) fn sse_type(&self) -> Option<types::ServerSideEncryption> {
        Some(match self.sse.as_ref()? {
            ServerSideEncryption::Aes256 => types::ServerSideEncryption::Aes256,
            ServerSideEncryption::Kms { .. } => types::ServerSideEncryption::AwsKms,
        })
    }

    pub(crate) fn kms_key(&self) -> Option<String> {
        match self.sse.as_ref()? {
            ServerSideEncryption::Kms { key_id } => key_id.clone(),
            ServerSideEncryption::Aes256 => None,
        }
    }
}

fn config_error(doing: String, hint: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Config, doing).with_hint(hint)
}

fn check_bucket(bucket: &str) -> Result<(), StoreError> {
    if bucket.contains('@') {
        // Not repeated: what stands before it may be a secret.
        return Err(config_error(
            "the bucket has an `@` in it".to_owned(),
            "it is a name alone; credentials go into the environment",
        ));
    }
    if let Some(rest) = bucket.strip_prefix("s3://") {
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let right = right_way(name, prefix);
        return Err(config_error(format!("bucket `{bucket}` is a URL, not a name"), &right));
    }
    if let Some((name, prefix)) = bucket.split_once('/') {
        let right = right_way(name, prefix);
        return Err(config_error(format!("bucket `{bucket}` has a folder in it"), &right));
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-:".contains(&b);
    if bucket.is_empty() || bucket.len() > 255 || !bucket.bytes().all(allowed) {
        let hint = "a bucket's name has letters, digits, `.`, `_` and `-`";
        return Err(config_error(format!("`{}` is not the name of a bucket", bucket.escape_debug()), hint));
    }
    Ok(())
}

fn right_way(name: &str, prefix: &str) -> String {
    match prefix.trim_matches('/') {
        "" => format!("write --bucket {name}"),
        prefix => format!("write --bucket {name} --prefix {prefix}"),
    }
}

/// With or without a trailing slash it is the same endpoint; with a path it would be another.
fn normal_endpoint(endpoint: &str) -> Result<String, StoreError> {
    let hint = "an endpoint looks like https://s3.example.org:9000";
    if endpoint.contains('@') {
        // Not repeated, whatever else is wrong with it: what stands before the `@` may be a secret.
        let hint = "credentials go into the environment; an endpoint looks like https://s3.example.org:9000";
        return Err(config_error("the S3 endpoint has credentials in it".to_owned(), hint));
    }
    let wrong = |why: &str| config_error(format!("S3 endpoint `{endpoint}` {why}"), hint);
    let url = Url::parse(endpoint).map_err(|_| wrong("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("is not an http or https URL"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a query in it"));
    }
    Ok(endpoint.trim_end_matches('/').to_owned())
}

/// How a bucket stands in URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// Path style for custom endpoints and dotted buckets, else virtual host.
    Auto,
    /// `https://endpoint/bucket/key`
    Path,
    /// `https://bucket.endpoint/key`
    VirtualHost,
}

/// Whether requests carry the checksums that newer SDKs add. Many stores refuse them; ours carry Content-MD5 in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumMode {
    /// Only where the operation demands one. The default.
    WhenRequired,
    /// Wherever the operation allows one.
    WhenSupported,
}

/// Encryption that the store adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSideEncryption {
    /// With a key of the store's.
    Aes256,
    /// With a key of a key-management service.
    Kms {
        /// Which; the account's default if not given.
        key_id: Option<String>,
    },
}

/// Retention under object lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLock {
    /// Who may shorten it.
    pub mode: ObjectLockMode,
    /// Until when.
    pub retain_until: DateTime<Utc>,
}

/// Who may shorten a retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectLockMode {
    /// Those with a special permission.
    Governance,
    /// Nobody.
    Compliance,
}

impl From<ObjectLockMode> for types::ObjectLockMode {
    fn from(mode: ObjectLockMode) -> Self {
        match mode {
            ObjectLockMode::Governance => Self::Governance,
            ObjectLockMode::Compliance => Self::Compliance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint_for(bucket: &str) -> String {
        let error = S3Options::new(bucket).validate().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Config);
        error.hint().unwrap_or_default().to_owned()
    }

    #[test]
    fn b42_a_bucket_with_a_folder_or_a_scheme_is_refused_with_the_right_way() {
        assert_eq!(hint_for("b/etcd/"), "write --bucket b --prefix etcd");
        assert_eq!(hint_for("b/"), "write --bucket b");
        assert_eq!(hint_for("s3://b/etcd/prod"), "write --bucket b --prefix etcd/prod");
        assert_eq!(hint_for("s3://b"), "write --bucket b");
        assert!(S3Options::new("").validate().is_err());
        assert!(S3Options::new("a b").validate().is_err());
    }

    #[test]
    fn an_endpoint_is_the_same_with_and_without_a_trailing_slash() {
        for endpoint in ["https://s3.example.org", "https://s3.example.org/"] {
            let options = S3Options { endpoint: Some(endpoint.to_owned()), ..S3Options::new("b") };
            assert_eq!(options.validate().unwrap().endpoint.as_deref(), Some("https://s3.example.org"));
        }
        for endpoint in ["s3.example.org", "ftp://x", "https://x/?a=b"] {
            let options = S3Options { endpoint: Some(endpoint.to_owned()), ..S3Options::new("b") };
            assert!(options.validate().is_err(), "{endpoint}");
        }
    }

    #[test]
    fn a_secret_that_stands_in_an_endpoint_or_a_bucket_is_never_repeated() {
        for text in ["https://user:secret@x", "https://user:secret@", "ftp://user:secret@x", "user:secret@x:9000"] {
            for options in [
                S3Options { endpoint: Some(text.to_owned()), ..S3Options::new("b") },
                S3Options::new(text),
                S3Options::new(text.replace("https", "s3")),
            ] {
                let error = options.validate().unwrap_err();
                assert!(!format!("{error} {error:?} {:?}", error.hint()).contains("secret"), "{error:?}");
            }
        }
    }

    #[test]
    fn b38_b39_addressing_is_chosen_unless_it_is_set() {
        let custom = S3Options { endpoint: Some("http://localhost:1".to_owned()), ..S3Options::new("b") };
        assert!(custom.path_style());
        assert!(!S3Options::new("b").path_style());
        assert!(S3Options::new("my.dotted.bucket").path_style());
        assert!(!S3Options { addressing: Addressing::VirtualHost, ..custom }.path_style());
        assert!(S3Options { addressing: Addressing::Path, ..S3Options::new("b") }.path_style());
    }
}
