//! `run`: one backup, from the connection to the commit.

mod interrupt;
mod job;
mod record;
mod source;
mod stopwatch;

#[cfg(test)]
mod tests;

use bronzenail_cli::progress::Progress;
use bronzenail_format::manifest::{Plain, Stored};
use bronzenail_format::{ClusterName, Manifest, OneTimeIdentity, Prefix, Recipients, Sha256Digest};
use bronzenail_store::{Store, UploadOptions, Uploaded};
use bronzenail_talos::TalosError;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::Stream;

pub use interrupt::{GRACE, Interrupt};
pub use source::{Begun, Origin, Snapshot};

use crate::config::{Compression, Config};
use crate::error::RunError;
use crate::outcome::Outcome;
use crate::pipeline::{Passed, Sealing};
use job::Job;
use stopwatch::Stopwatch;

/// The wall clock; a parameter so that tests can hold it still.
pub type Clock<'a> = &'a (dyn Fn() -> DateTime<Utc> + Sync);

/// Takes one backup.
///
/// # Errors
/// Anything but a committed backup. What was uploaded has then been aborted, as far as the store allowed.
pub async fn run(
    config: Config,
    progress: &Progress,
    interrupt: &Interrupt,
    clock: Clock<'_>,
) -> Result<Outcome, RunError> {
    // Destructured whole: a setting that nothing uses does not compile.
    let Config { cluster, prefix, label, recipients, talos, target, upload, compression, read_back, notes } = config;
    let store = target.open().await?;
    let mut stopwatch = Stopwatch::new();
    let Begun { snapshot, mut origin } = source::begin(talos, clock, |stage| progress.stage(stage)).await?;
    stopwatch.lap("connect");
    origin.warnings.splice(0..0, notes);

    let making = Making { cluster, prefix, label, recipients, upload, compression, read_back };
    make(making, snapshot, origin, &store, Around { progress, interrupt, clock, stopwatch }).await
}

/// What a backup is to be, wherever its bytes come from.
struct Making {
    cluster: ClusterName,
    prefix: Prefix,
    label: Option<String>,
    recipients: Recipients,
    upload: UploadOptions,
    compression: Compression,
    read_back: bool,
}

/// What goes on around it.
struct Around<'a> {
    progress: &'a Progress,
    interrupt: &'a Interrupt,
    clock: Clock<'a>,
    stopwatch: Stopwatch,
}

/// Makes a backup of a snapshot that has begun. The manifest is the last thing that is written.
async fn make(
    making: Making,
    snapshot: impl Stream<Item = Result<Bytes, TalosError>>,
    origin: Origin,
    store: &Store,
    around: Around<'_>,
) -> Result<Outcome, RunError> {
    let Making { cluster, prefix, label, recipients, upload, compression, read_back } = making;
    let Origin { taken_at, source, why, mut warnings } = origin;
    let Around { progress, interrupt, clock, mut stopwatch } = around;
    let job = Job::new(store.append(), prefix, (cluster, taken_at), rand::random, interrupt).await?;

    tracing::info!(id = %job.id, key = job.data_key(), place = store.place(), "the snapshot has begun");

    let one_time = read_back.then(OneTimeIdentity::generate);
    let recipients_text = recipients.canonical();
    let sealing = Sealing { recipients, one_time: one_time.clone(), compression };
    let options = UploadOptions { expected_bytes: source.db_size_bytes, ..upload };
    let (open_upload, passed) = job.stream(snapshot, sealing, options, |bytes| progress.bytes(bytes)).await?;
    stopwatch.lap("stream");

    if let Err(not_proven) = record::proven(&passed.report) {
        job.abort(open_upload).await;
        return Err(not_proven);
    }
    tracing::info!(bytes = passed.report.bytes, verdict = passed.report.verdict.name(), "the snapshot is whole");
    let mut evidence = vec![record::streamed(&passed.report, clock())];
    progress.stage("asking the store what it has");
    let uploaded = job.complete(open_upload).await?;
    evidence.push(record::stored(&uploaded, clock()));
    tracing::info!(bytes = uploaded.bytes, parts = uploaded.parts, checksum = ?uploaded.checksum, "the store has it");
    stopwatch.lap("complete");

    if let Some(one_time) = &one_time {
        progress.stage("reading it back");
        job.read_back(one_time, &passed, |bytes| progress.bytes(bytes)).await?;
        tracing::info!("it came back as it was sent");
        evidence.push(record::read_back(&passed, clock()));
        stopwatch.lap("read_back");
    }

    let manifest = Manifest {
        id: job.id.clone(),
        tool: record::tool(),
        source,
        plain: Plain { bytes: passed.report.bytes, sha256: Sha256Digest(passed.report.sha256) },
        stored: stored(&passed, &uploaded),
        zstd_level: compression.level,
        recipients: recipients_text,
        read_back_stanza: one_time.is_some(),
        contents: record::contents(&passed.report),
        evidence,
        label,
    };
    progress.stage("committing");
    let created = job.commit(&manifest).await?;
    tracing::info!(key = job.manifest_key(), retries = store.retries(), "committed");
    stopwatch.lap("commit");

    warnings.extend(record::doubts(&passed.report, created));
    Ok(Outcome {
        data_key: job.data_key(),
        manifest_key: job.manifest_key(),
        place: store.place(),
        retries: store.retries(),
        manifest,
        choice: why,
        durations: stopwatch.finish(),
        warnings,
    })
}

fn stored(passed: &Passed, uploaded: &Uploaded) -> Stored {
    Stored {
        bytes: passed.sealed.stored_bytes,
        sha256: passed.sealed.stored_sha256,
        etag: uploaded.etag.clone(),
        checksum: None,
        parts: Some(uploaded.parts),
    }
}
