//! `run`: one backup, from the connection to the commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bronzenail_cli::progress::Progress;
use bronzenail_format::manifest::{Contents, Plain, Source, Stored, Tool};
use bronzenail_format::{BackupId, Evidence, EvidenceLevel, Manifest, OneTimeIdentity, Prefix, Sha256Digest};
use bronzenail_snapshot::Report;
use bronzenail_store::{
    AbortHandle, Append, ChecksumProof, Created, Store, StoreErrorKind, Upload, UploadOptions, Uploaded,
};
use bronzenail_talos::{Choice, Client, Context, Node, SnapshotSource, choose_member};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{Stream, StreamExt, stream};

use crate::config::{Config, TalosOptions};
use crate::error::{NotProven, RunError};
use crate::outcome::Outcome;
use crate::pipeline::{self, Passed, Sealing};
use crate::read_back::{self, Expected};

/// Within the 30 seconds that Kubernetes gives a pod by default, with some left for the last words.
const ABORT_TIMEOUT: Duration = Duration::from_secs(20);

/// What a signal must know of a run: whether an upload is open, and whether the commit has begun.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Mutex<Stage>>);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    NothingStored,
    Uploading(AbortHandle),
    Committing,
}

impl Interrupt {
    fn set(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    /// True once the commit has begun: a few requests later it is done, and then it should be.
    pub fn is_committing(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), Stage::Committing)
    }

    /// Drops an open upload, within the pod's grace time. The run must have been dropped before.
    pub async fn abort(&self) {
        let stage = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let Stage::Uploading(handle) = stage else { return };
        match tokio::time::timeout(ABORT_TIMEOUT, handle.abort()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "could not abort the upload; the store may hold parts of it"),
            Err(_) => tracing::warn!("the store did not abort the upload in time; it may hold parts of it"),
        }
    }
}

/// The wall clock; a parameter so that tests can hold it still.
pub type Clock = fn() -> DateTime<Utc>;

/// Takes one backup.
///
/// # Errors
/// Anything but a committed backup. What was uploaded has then been aborted, as far as the store allowed.
pub async fn run(
    config: Config,
    progress: &Progress,
    interrupt: &Interrupt,
    clock: Clock,
) -> Result<Outcome, RunError> {
    // Destructured whole: a setting that nothing uses does not compile.
    let Config { cluster, prefix, label, recipients, talos, target, upload, compression, read_back, notes } = config;
    let store = target.open().await?;
    let mut stopwatch = Stopwatch::new();

    progress.stage("connecting to Talos");
    let connected = connect(talos, notes).await?;
    stopwatch.lap("connect");

    let taken_at = clock();
    let id = BackupId::new(cluster, taken_at, rand::random());
    let job = Job { append: store.append(), id, prefix, interrupt, progress };
    job.refuse_existing().await?;

    progress.stage("taking the snapshot");
    let snapshot = first_bytes(&connected).await?;
    let one_time = read_back.then(OneTimeIdentity::generate);
    let recipients_text = recipients.canonical();
    let sealing = Sealing { recipients, one_time: one_time.clone(), compression };
    let options = UploadOptions { expected_bytes: connected.db_size_bytes(), ..upload };
    let (open_upload, passed) = job.stream(snapshot, sealing, options).await?;
    stopwatch.lap("stream");

    if let Err(not_proven) = proven(&passed.report) {
        job.abort(open_upload).await;
        return Err(not_proven);
    }
    let mut evidence = vec![streamed(&passed.report, clock())];
    progress.stage("asking the store what it has");
    let uploaded = job.complete(open_upload).await?;
    evidence.push(stored(&uploaded, clock()));
    stopwatch.lap("complete");

    if let Some(one_time) = &one_time {
        job.read_back(one_time, &passed).await?;
        evidence.push(read_back_evidence(&passed, clock()));
        stopwatch.lap("read_back");
    }

    let manifest = Manifest {
        id: job.id.clone(),
        tool: tool(),
        source: connected.source(),
        plain: Plain { bytes: passed.report.bytes, sha256: Sha256Digest(passed.report.sha256) },
        stored: Stored {
            bytes: passed.sealed.stored_bytes,
            sha256: passed.sealed.stored_sha256,
            etag: uploaded.etag.clone(),
            checksum: None,
            parts: Some(uploaded.parts),
        },
        zstd_level: compression.level,
        recipients: recipients_text,
        read_back_stanza: one_time.is_some(),
        contents: contents(&passed.report),
        evidence,
        label,
    };
    let created = job.commit(&manifest).await?;
    stopwatch.lap("commit");

    let mut warnings = connected.warnings;
    warnings.extend(doubts(&passed.report, created));
    Ok(job.outcome(manifest, &store, connected.choice.why, stopwatch.finish(), warnings))
}

/// What is the same at every step that touches the store.
struct Job<'a> {
    append: Append,
    id: BackupId,
    prefix: Prefix,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
}

impl Job<'_> {
    fn data_key(&self) -> String {
        self.id.data_key(&self.prefix)
    }

    /// Two runs in one second differ by 24 random bits; should those be equal too, the later one steps back here.
    async fn refuse_existing(&self) -> Result<(), RunError> {
        match self.append.stat(&self.data_key()).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(RunError::Usage {
                what: format!("{} exists already", self.data_key()),
                hint: "run again: the next name will be another".to_owned(),
            }),
            // Without the permission to list, S3 says 403 for what is not there. If the power is really missing, the upload
            // will say so in a moment.
            Err(error) if error.kind() == StoreErrorKind::Denied => Ok(()),
            Err(error) => Err(RunError::Store(error)),
        }
    }

    async fn stream(
        &self,
        snapshot: impl Stream<Item = Result<Bytes, bronzenail_talos::TalosError>>,
        sealing: Sealing,
        options: UploadOptions,
    ) -> Result<(Upload, Passed), RunError> {
        let mut upload = self.append.upload(&self.data_key(), options).await.map_err(RunError::Store)?;
        self.interrupt.set(Stage::Uploading(upload.abort_handle()));
        match pipeline::run(snapshot, &mut upload, sealing, |bytes| self.progress.bytes(bytes)).await {
            Ok(passed) => Ok((upload, passed)),
            Err(error) => {
                self.abort(upload).await;
                Err(error)
            }
        }
    }

    /// The reason for it is the news; that the store also refused to clean up is a line in the log.
    async fn abort(&self, upload: Upload) {
        match tokio::time::timeout(ABORT_TIMEOUT, upload.abort()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "could not abort the upload; the store may hold parts of it"),
            Err(_) => tracing::warn!("the store did not abort the upload in time; it may hold parts of it"),
        }
        self.interrupt.set(Stage::NothingStored);
    }

    async fn complete(&self, upload: Upload) -> Result<Uploaded, RunError> {
        let uploaded = upload.complete().await.map_err(RunError::Store);
        self.interrupt.set(Stage::NothingStored);
        uploaded
    }

    async fn read_back(&self, one_time: &OneTimeIdentity, passed: &Passed) -> Result<(), RunError> {
        self.progress.stage("reading it back");
        let expected = Expected {
            stored_bytes: passed.sealed.stored_bytes,
            stored_sha256: passed.sealed.stored_sha256,
            plain_bytes: passed.report.bytes,
            plain_sha256: Sha256Digest(passed.report.sha256),
        };
        read_back::run(&self.append, &self.data_key(), one_time, expected, |bytes| self.progress.bytes(bytes)).await
    }

    async fn commit(&self, manifest: &Manifest) -> Result<Created, RunError> {
        self.interrupt.set(Stage::Committing);
        let key = self.id.manifest_key(&self.prefix);
        self.append.create(&key, manifest.to_json().into()).await.map_err(RunError::Commit)
    }

    fn outcome(
        &self,
        manifest: Manifest,
        store: &Store,
        choice: String,
        durations: Vec<(&'static str, Duration)>,
        warnings: Vec<String>,
    ) -> Outcome {
        Outcome {
            data_key: self.data_key(),
            manifest_key: self.id.manifest_key(&self.prefix),
            place: store.place(),
            retries: store.retries(),
            manifest,
            choice,
            durations,
            warnings,
        }
    }
}

/// A connection, and what was learned about the source.
struct Connected {
    source: SnapshotSource,
    node: Option<Node>,
    choice: Choice,
    context: Context,
    deadlines: bronzenail_talos::Deadlines,
    warnings: Vec<String>,
}

async fn connect(options: TalosOptions, notes: Vec<String>) -> Result<Connected, RunError> {
    let TalosOptions { context, node, connect, deadlines } = options;
    let client = Client::connect(&context, &connect).await.map_err(RunError::from)?;
    let source = client.snapshot_source();
    let choice = choose_member(source.questions(), node.as_ref()).await;

    let mut warnings = notes;
    warnings.extend(context.warnings().iter().cloned());
    warnings.extend(client.certificate().map(|certificate| certificate.warnings.clone()).unwrap_or_default());
    warnings.extend(client.passed_over().iter().map(|failure| format!("passed over an endpoint: {failure}")));
    warnings.extend(choice.warnings.iter().cloned());
    Ok(Connected { source, node: node.or_else(|| choice.node.clone()), choice, context, deadlines, warnings })
}

impl Connected {
    fn db_size_bytes(&self) -> Option<u64> {
        self.choice.facts.status.as_ref().map(|status| status.db_size_bytes)
    }

    fn source(&self) -> Source {
        let facts = &self.choice.facts;
        let status = facts.status.as_ref();
        let some_text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Source {
            endpoint: Some(self.source.endpoint().to_string()),
            node: self.node.as_ref().map(ToString::to_string),
            member_id: facts.member_id.map(|id| id.to_string()),
            member_name: facts.name.clone(),
            etcd_version: status.and_then(|status| some_text(&status.etcd_version)),
            storage_version: status.and_then(|status| status.storage_version.clone()),
            talos_version: facts.talos_version.clone(),
            db_size_bytes: self.db_size_bytes(),
            raft_applied_index: status.map(|status| status.applied_index.to_string()),
            raft_term: status.map(|status| status.raft_term.to_string()),
            is_leader: status.map(|status| status.leader == Some(status.member_id)),
            is_learner: status.map(|status| status.is_learner),
            talos_ca_sha256: self
                .context
                .ca_fingerprints()
                .iter()
                .filter_map(|ca| ca.to_string().parse().ok())
                .collect(),
        }
    }
}

/// Waits for the snapshot to begin, so that what fails before leaves no upload behind.
async fn first_bytes(
    connected: &Connected,
) -> Result<impl Stream<Item = Result<Bytes, bronzenail_talos::TalosError>> + use<>, RunError> {
    let snapshot = connected.source.snapshot(connected.node.as_ref(), connected.deadlines).await;
    let mut snapshot = Box::pin(snapshot.map_err(RunError::from)?);
    let first = match snapshot.next().await {
        Some(first) => Some(first.map_err(RunError::from)?),
        None => None,
    };
    Ok(stream::iter(first.map(Ok)).chain(snapshot))
}

fn proven(report: &Report) -> Result<(), RunError> {
    if report.is_proven() {
        return Ok(());
    }
    let details = report.problems.first().map(|problem| format!(" ({problem})")).unwrap_or_default();
    let source = NotProven { bytes: report.bytes, verdict: report.verdict.to_string(), details };
    Err(RunError::NotProven { source })
}

/// What is true of a good backup, and should be looked at all the same.
fn doubts(report: &Report, created: Created) -> Vec<String> {
    let mut doubts = Vec::new();
    for alarm in report.contents.iter().flat_map(|contents| &contents.alarms) {
        doubts.push(format!("etcd has the alarm {}, and a restore brings it back", alarm.kind));
    }
    if report.verdict == bronzenail_snapshot::Verdict::OkOlderMeta {
        doubts.push(report.verdict.to_string());
    }
    if created == Created::LookedFirst {
        doubts.push("the store does not enforce that an object is written only once".to_owned());
    }
    doubts
}

fn tool() -> Tool {
    Tool { name: "bronzenail-backup".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn evidence(level: EvidenceLevel, at: DateTime<Utc>, detail: BTreeMap<String, String>) -> Evidence {
    Evidence { level, at, by: tool(), detail }
}

fn detail<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn streamed(report: &Report, at: DateTime<Utc>) -> Evidence {
    let seen = detail([("verdict", report.verdict.name().to_owned()), ("trailer", "sha256 matches".to_owned())]);
    evidence(EvidenceLevel::Streamed, at, seen)
}

fn stored(uploaded: &Uploaded, at: DateTime<Utc>) -> Evidence {
    let checksum = match uploaded.checksum {
        ChecksumProof::EtagMd5 => "etag equals the MD5 of what was sent",
        ChecksumProof::SizeOnly => "none that could be compared",
    };
    let seen = detail([("bytes", uploaded.bytes.to_string()), ("checksum", checksum.to_owned())]);
    evidence(EvidenceLevel::Stored, at, seen)
}

fn read_back_evidence(passed: &Passed, at: DateTime<Utc>) -> Evidence {
    let plain = Sha256Digest(passed.report.sha256).to_string();
    let seen = detail([("stored_sha256", passed.sealed.stored_sha256.to_string()), ("plain_sha256", plain)]);
    evidence(EvidenceLevel::ReadBack, at, seen)
}

fn contents(report: &Report) -> Option<Contents> {
    let contents = report.contents.as_ref()?;
    Some(Contents {
        revision: contents.revision,
        compact_revision: contents.compact_revision,
        pairs: contents.pairs,
        live_keys: contents.live_keys,
        tombstones: contents.tombstones,
        status_hash: format!("{:08x}", contents.status_hash),
        members: contents.members,
        alarms: contents.alarms.iter().map(|alarm| alarm.kind.to_string()).collect(),
        storage_version: contents.storage_version.clone(),
        cluster_version: contents.cluster_version.clone(),
        auth_enabled: contents.auth_enabled,
        page_size_bytes: contents.page_size_bytes,
        pages: contents.pages,
    })
}

/// Durations of stages.
struct Stopwatch {
    begun: Instant,
    last: Instant,
    laps: Vec<(&'static str, Duration)>,
}

impl Stopwatch {
    fn new() -> Self {
        let now = Instant::now();
        Self { begun: now, last: now, laps: Vec::new() }
    }

    fn lap(&mut self, stage: &'static str) {
        let now = Instant::now();
        self.laps.push((stage, now - self.last));
        self.last = now;
    }

    fn finish(mut self) -> Vec<(&'static str, Duration)> {
        self.laps.push(("total", self.begun.elapsed()));
        self.laps
    }
}
