//! Where backups go: a bucket, with all that can be said about it, or a directory.

use std::path::PathBuf;

use bronzenail_cli::{Values, units};
use bronzenail_store::{Addressing, ChecksumMode, ObjectLock, ObjectLockMode, S3Options, ServerSideEncryption, Store};
use chrono::{DateTime, Utc};

use super::{Env, number, read, usage};
use crate::error::RunError;

/// Where backups go.
#[derive(Clone, Debug)]
pub enum Target {
    /// A bucket.
    S3(Box<S3Options>),
    /// A directory.
    Directory(PathBuf),
}

impl Target {
    /// Opens it. Sends nothing.
    ///
    /// # Errors
    /// It cannot work.
    pub async fn open(self) -> Result<Store, RunError> {
        let opened = match self {
            Self::S3(options) => Store::s3(*options).await,
            Self::Directory(path) => Store::directory(&path).await,
        };
        opened.map_err(RunError::Store)
    }
}

pub(super) fn target(values: &Values, env: Env<'_>, now: DateTime<Utc>) -> Result<Target, RunError> {
    match (values.text("bucket"), values.text("dir")) {
        (Some(bucket), None) => Ok(Target::S3(Box::new(s3(values, bucket, env, now)?))),
        (None, Some(dir)) if !dir.is_empty() => Ok(Target::Directory(dir.into())),
        (Some(_), Some(_)) => {
            let origins: Vec<String> =
                ["bucket", "dir"].iter().filter_map(|name| values.origin(name)).map(ToString::to_string).collect();
            Err(usage(format!("both {} are set", origins.join(" and ")), "a backup goes to a bucket or to a directory"))
        }
        _ => Err(usage(
            "nowhere to store: neither a bucket nor a directory is set",
            "give --bucket NAME (or BRONZENAIL_BUCKET, or BUCKET), or --dir PATH; `bronzenail-backup run --help` lists everything",
        )),
    }
}

fn s3(values: &Values, bucket: &str, env: Env<'_>, now: DateTime<Utc>) -> Result<S3Options, RunError> {
    let mut options = S3Options::new(bucket);
    options.endpoint = values.text("s3-endpoint").map(str::to_owned);
    options.region = values.text("s3-region").map(str::to_owned).or_else(|| region_beside_an_empty_one(env, &options));
    options.storage_class = values.text("s3-storage-class").map(str::to_owned);
    if let Some(addressing) = values.with("s3-addressing", addressing)? {
        options.addressing = addressing;
    }
    options.checksums = values.with("s3-checksums", checksums)?;
    if let Some(path) = values.text("s3-ca-file") {
        options.ca = Some((path.to_owned(), read("the CA file", path)?));
    }
    let key_id = values.text("s3-sse-kms-key").map(str::to_owned);
    options.sse = values.with("s3-sse", |text| sse(text, key_id.clone()))?;
    if key_id.is_some() && !matches!(options.sse, Some(ServerSideEncryption::Kms { .. })) {
        return Err(usage("--s3-sse-kms-key is set without --s3-sse aws:kms", "set both, or neither"));
    }
    options.object_lock = object_lock(values, now)?;
    options.legal_hold = values.switch("object-lock-legal-hold")?;
    options.connect_timeout = values.duration("s3-connect-timeout", options.connect_timeout)?;
    options.idle_timeout = values.duration("s3-idle-timeout", options.idle_timeout)?;
    options.reply_timeout = values.duration("s3-reply-timeout", options.reply_timeout)?;
    options.attempts_max = number(values, "s3-attempts", 1..=100)?.unwrap_or(options.attempts_max);
    Ok(options)
}

/// An empty AWS_REGION is an unset one. The SDK would take it for a region whose name is nothing.
fn region_beside_an_empty_one(env: Env<'_>, options: &S3Options) -> Option<String> {
    let text = |name: &str| env(name).and_then(|value| value.into_string().ok()).map(|text| text.trim().to_owned());
    if text("AWS_REGION")?.is_empty() {
        let other = text("AWS_DEFAULT_REGION").filter(|region| !region.is_empty());
        return other.or_else(|| options.endpoint.is_some().then(|| "us-east-1".to_owned()));
    }
    None
}

fn addressing(text: &str) -> Result<Addressing, String> {
    match text {
        "auto" => Ok(Addressing::Auto),
        "path" => Ok(Addressing::Path),
        "virtual-host" => Ok(Addressing::VirtualHost),
        _ => Err(format!("`{text}` is not one of auto, path, virtual-host")),
    }
}

fn checksums(text: &str) -> Result<ChecksumMode, String> {
    match text {
        "when-required" => Ok(ChecksumMode::WhenRequired),
        "when-supported" => Ok(ChecksumMode::WhenSupported),
        _ => Err(format!("`{text}` is not one of when-required, when-supported")),
    }
}

fn sse(text: &str, key_id: Option<String>) -> Result<ServerSideEncryption, String> {
    match text {
        "AES256" | "aes256" => Ok(ServerSideEncryption::Aes256),
        "aws:kms" => Ok(ServerSideEncryption::Kms { key_id }),
        _ => Err(format!("`{text}` is not one of AES256, aws:kms")),
    }
}

fn object_lock(values: &Values, now: DateTime<Utc>) -> Result<Option<ObjectLock>, RunError> {
    let mode = values.with("object-lock-mode", |text| match text.to_ascii_lowercase().as_str() {
        "governance" => Ok(ObjectLockMode::Governance),
        "compliance" => Ok(ObjectLockMode::Compliance),
        _ => Err(format!("`{text}` is not one of governance, compliance")),
    })?;
    let lock_for = values.with("object-lock-for", units::parse_duration)?;
    match (mode, lock_for) {
        (None, None) => Ok(None),
        (Some(mode), Some(lock_for)) => Ok(Some(ObjectLock { mode, retain_until: now + lock_for })),
        _ => Err(usage("--object-lock-mode and --object-lock-for go together", "set both, or neither")),
    }
}
