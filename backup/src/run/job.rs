//! The steps of a backup that touch the store, in the hands of something that can only append.

use bronzenail_format::{BackupId, ClusterName, Manifest, OneTimeIdentity, Prefix, Sha256Digest};
use bronzenail_store::{Append, Created, StoreErrorKind, Upload, UploadOptions, Uploaded};
use bronzenail_talos::TalosError;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::Stream;
use tokio::time::Instant;

use super::interrupt::{self, GRACE, Interrupt, Stage};
use crate::error::RunError;
use crate::pipeline::{self, Passed, Sealing};
use crate::read_back::{self, Expected};

/// Names to try. Two of one second are equal once in 16 million times.
const NAMES_MAX: usize = 4;

/// What is the same at every step.
pub(super) struct Job<'a> {
    pub(super) append: Append,
    pub(super) prefix: Prefix,
    pub(super) id: BackupId,
    pub(super) interrupt: &'a Interrupt,
}

impl<'a> Job<'a> {
    /// Finds a name that is free.
    pub(super) async fn new(
        append: Append,
        prefix: Prefix,
        (cluster, taken_at): (ClusterName, DateTime<Utc>),
        random: impl Fn() -> [u8; 3],
        interrupt: &'a Interrupt,
    ) -> Result<Self, RunError> {
        for _ in 0..NAMES_MAX {
            let id = BackupId::new(cluster.clone(), taken_at, random());
            let job = Self { append: append.clone(), prefix: prefix.clone(), id, interrupt };
            if job.is_free().await? {
                return Ok(job);
            }
        }
        Err(RunError::NoName { cluster: cluster.to_string(), names: NAMES_MAX })
    }

    async fn is_free(&self) -> Result<bool, RunError> {
        match self.append.stat(&self.data_key()).await {
            Ok(found) => Ok(found.is_none()),
            // Without the permission to list, S3 says 403 for what is not there, and an answer to HEAD never says why. If
            // something is really wrong, the upload will be told so in a moment, with a reason.
            Err(error)
                if matches!(error.kind(), StoreErrorKind::Denied | StoreErrorKind::Config | StoreErrorKind::Other) =>
            {
                Ok(true)
            }
            Err(error) => Err(RunError::Store(error)),
        }
    }

    pub(super) fn data_key(&self) -> String {
        self.id.data_key(&self.prefix)
    }

    pub(super) fn manifest_key(&self) -> String {
        self.id.manifest_key(&self.prefix)
    }

    /// Moves the snapshot into an upload, which stays invisible.
    pub(super) async fn stream(
        &self,
        snapshot: impl Stream<Item = Result<Bytes, TalosError>>,
        sealing: Sealing,
        options: UploadOptions,
        progress: impl FnMut(u64),
    ) -> Result<(Upload, Passed), RunError> {
        self.interrupt.set(Stage::Beginning);
        let begun = self.append.upload(&self.data_key(), options).await.map_err(RunError::Store);
        self.interrupt.set(match &begun {
            Ok(upload) => Stage::Uploading(upload.abort_handle()),
            Err(_) => Stage::NothingOpen,
        });
        let mut upload = begun?;
        match pipeline::run(snapshot, &mut upload, sealing, progress).await {
            Ok(passed) => Ok((upload, passed)),
            Err(error) => {
                self.abort(upload).await;
                Err(error)
            }
        }
    }

    /// Drops an upload whose bytes are not to be kept.
    pub(super) async fn abort(&self, upload: Upload) {
        interrupt::abort(upload.abort(), Instant::now() + GRACE).await;
        self.interrupt.set(Stage::NothingOpen);
    }

    /// Makes the data visible, and asks the store what it has. Without a manifest it is not a backup yet.
    pub(super) async fn complete(&self, upload: Upload) -> Result<Uploaded, RunError> {
        let uploaded = upload.complete().await.map_err(RunError::Store);
        self.interrupt.set(Stage::NothingOpen);
        uploaded
    }

    /// Fetches the data again and opens it.
    pub(super) async fn read_back(
        &self,
        one_time: &OneTimeIdentity,
        passed: &Passed,
        progress: impl FnMut(u64),
    ) -> Result<(), RunError> {
        let expected = Expected {
            stored_bytes: passed.sealed.stored_bytes,
            stored_sha256: passed.sealed.stored_sha256,
            plain_bytes: passed.report.bytes,
            plain_sha256: Sha256Digest(passed.report.sha256),
        };
        read_back::run(&self.append, &self.data_key(), one_time, expected, progress).await
    }

    /// Writes the manifest. This makes the backup.
    pub(super) async fn commit(&self, manifest: &Manifest) -> Result<Created, RunError> {
        // It stays so: what follows a commit is not cut either, or a backup would be reported as interrupted.
        self.interrupt.set(Stage::Committing);
        let created = self.append.create(&self.manifest_key(), manifest.to_json().into()).await;
        created.map_err(|source| RunError::Commit { key: self.data_key(), source })
    }
}
