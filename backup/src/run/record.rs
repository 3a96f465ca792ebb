//! From what was seen to what the manifest says.

use std::collections::BTreeMap;

use bronzenail_format::manifest::{Contents, Tool};
use bronzenail_format::{Evidence, EvidenceLevel, Sha256Digest};
use bronzenail_snapshot::{Report, Verdict};
use bronzenail_store::{ChecksumProof, Created, Uploaded};
use chrono::{DateTime, Utc};

use crate::error::{NotProven, RunError};
use crate::pipeline::Passed;

/// Refuses what is not proven to be a whole snapshot.
pub(super) fn proven(report: &Report) -> Result<(), RunError> {
    if report.is_proven() {
        return Ok(());
    }
    let details = report.problems.first().map(|problem| format!(" ({problem})")).unwrap_or_default();
    let source = NotProven { bytes: report.bytes, verdict: report.verdict, details };
    Err(RunError::NotProven { source })
}

/// What is true of a good backup, and should be looked at all the same.
pub(super) fn doubts(report: &Report, created: Created) -> Vec<String> {
    let mut doubts = Vec::new();
    for alarm in report.contents.iter().flat_map(|contents| &contents.alarms) {
        doubts.push(format!("etcd has the alarm {}, and a restore brings it back", alarm.kind));
    }
    if report.verdict == Verdict::OkOlderMeta {
        doubts.push(report.verdict.to_string());
    }
    if created == Created::LookedFirst {
        doubts.push("the store does not enforce that an object is written only once".to_owned());
    }
    doubts
}

/// Who did it.
pub(super) fn tool() -> Tool {
    Tool { name: "bronzenail-backup".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn evidence(level: EvidenceLevel, at: DateTime<Utc>, detail: BTreeMap<String, String>) -> Evidence {
    Evidence { level, at, by: tool(), detail }
}

fn detail<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The first level.
pub(super) fn streamed(report: &Report, at: DateTime<Utc>) -> Evidence {
    let seen = detail([("verdict", report.verdict.name().to_owned()), ("trailer", "sha256 matches".to_owned())]);
    evidence(EvidenceLevel::Streamed, at, seen)
}

/// The second.
pub(super) fn stored(uploaded: &Uploaded, at: DateTime<Utc>) -> Evidence {
    let checksum = match uploaded.checksum {
        ChecksumProof::EtagMd5 => "etag equals the MD5 of what was sent",
        ChecksumProof::SizeOnly => "none that could be compared",
    };
    let seen = detail([("bytes", uploaded.bytes.to_string()), ("checksum", checksum.to_owned())]);
    evidence(EvidenceLevel::Stored, at, seen)
}

/// The third.
pub(super) fn read_back(passed: &Passed, at: DateTime<Utc>) -> Evidence {
    let plain = Sha256Digest(passed.report.sha256).to_string();
    let seen = detail([("stored_sha256", passed.sealed.stored_sha256.to_string()), ("plain_sha256", plain)]);
    evidence(EvidenceLevel::ReadBack, at, seen)
}

/// What the snapshot holds.
pub(super) fn contents(report: &Report) -> Option<Contents> {
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
