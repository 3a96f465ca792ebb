//! The stored form. What derives serde here is a promise to every later version.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    CRITICAL_FLAGS, Contents, Evidence, FORMAT_VERSION, MANIFEST_BYTES_MAX, Manifest, ManifestError, Plain, Source,
    Stored, Tool,
};
use crate::{BackupId, Recipients};

/// Read first, alone: a newer manifest may have any shape.
#[derive(Deserialize)]
struct Head {
    format_version: u32,
    #[serde(default)]
    critical_flags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ManifestV1 {
    format_version: u32,
    critical_flags: Vec<String>,
    id: String,
    cluster: String,
    taken_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    tool: Tool,
    source: Source,
    plain: Plain,
    stored: Stored,
    compression: CompressionV1,
    encryption: EncryptionV1,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contents: Option<Contents>,
    evidence: Vec<EvidenceV1>,
}

#[derive(Serialize, Deserialize)]
struct CompressionV1 {
    algorithm: String,
    level: i32,
}

#[derive(Serialize, Deserialize)]
struct EncryptionV1 {
    algorithm: String,
    recipients: Vec<String>,
    #[serde(default)]
    read_back_stanza: bool,
}

#[derive(Serialize, Deserialize)]
struct EvidenceV1 {
    /// Text: a later version may know more levels, and its backups are no worse for that.
    level: String,
    at: DateTime<Utc>,
    by: Tool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    detail: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct EvidenceObjectV1 {
    format_version: u32,
    critical_flags: Vec<String>,
    id: String,
    evidence: EvidenceV1,
}

impl From<&Evidence> for EvidenceV1 {
    fn from(evidence: &Evidence) -> Self {
        let Evidence { level, at, by, detail } = evidence.clone();
        Self { level: level.to_string(), at, by, detail }
    }
}

impl EvidenceV1 {
    /// `None` if the level is not known here: it then proves nothing to this reader.
    fn understood(self) -> Option<Evidence> {
        let Self { level, at, by, detail } = self;
        Some(Evidence { level: level.parse().ok()?, at, by, detail })
    }
}

impl From<&Manifest> for ManifestV1 {
    fn from(manifest: &Manifest) -> Self {
        // Destructured whole: a new field that is not written does not compile.
        let Manifest {
            id,
            tool,
            source,
            plain,
            stored,
            zstd_level,
            recipients,
            read_back_stanza,
            contents,
            evidence,
            label,
        } = manifest.clone();
        Self {
            format_version: FORMAT_VERSION,
            critical_flags: Vec::new(),
            id: id.to_string(),
            cluster: id.cluster().to_string(),
            taken_at: id.taken_at(),
            label,
            tool,
            source,
            plain,
            stored,
            compression: CompressionV1 { algorithm: "zstd".to_owned(), level: zstd_level },
            encryption: EncryptionV1 { algorithm: "age".to_owned(), recipients, read_back_stanza },
            contents,
            evidence: evidence.iter().map(EvidenceV1::from).collect(),
        }
    }
}

pub(super) fn read(json: &[u8]) -> Result<Manifest, ManifestError> {
    check_head(json)?;
    let wire: ManifestV1 = serde_json::from_slice(json).map_err(ManifestError::Damaged)?;
    let id: BackupId = wire.id.parse().map_err(|_| ManifestError::Field("id"))?;
    if wire.cluster != id.cluster().as_str() {
        return Err(ManifestError::Field("cluster"));
    }
    if wire.taken_at != id.taken_at() {
        return Err(ManifestError::Field("taken_at"));
    }
    if wire.compression.algorithm != "zstd" {
        return Err(ManifestError::Field("compression.algorithm"));
    }
    if wire.encryption.algorithm != "age" || wire.encryption.recipients.is_empty() {
        return Err(ManifestError::Field("encryption"));
    }
    if wire.evidence.is_empty() {
        return Err(ManifestError::Field("evidence"));
    }
    Ok(Manifest {
        id,
        tool: wire.tool,
        source: wire.source,
        plain: wire.plain,
        stored: wire.stored,
        zstd_level: wire.compression.level,
        recipients: wire.encryption.recipients,
        read_back_stanza: wire.encryption.read_back_stanza,
        contents: wire.contents,
        evidence: wire.evidence.into_iter().filter_map(EvidenceV1::understood).collect(),
        label: wire.label,
    })
}

pub(super) fn evidence_to_json(evidence: &Evidence, id: &BackupId) -> Vec<u8> {
    let wire = EvidenceObjectV1 {
        format_version: FORMAT_VERSION,
        critical_flags: Vec::new(),
        id: id.to_string(),
        evidence: EvidenceV1::from(evidence),
    };
    let mut json = serde_json::to_vec_pretty(&wire).expect("text, numbers and maps with text keys always serialise");
    json.push(b'\n');
    json
}

pub(super) fn evidence_from_json(json: &[u8]) -> Result<(BackupId, Evidence), ManifestError> {
    check_head(json)?;
    let wire: EvidenceObjectV1 = serde_json::from_slice(json).map_err(ManifestError::Damaged)?;
    let id = wire.id.parse().map_err(|_| ManifestError::Field("id"))?;
    let evidence = wire.evidence.understood().ok_or(ManifestError::Field("evidence.level"))?;
    Ok((id, evidence))
}

fn check_head(json: &[u8]) -> Result<(), ManifestError> {
    let bytes = json.len() as u64;
    if bytes > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLarge(bytes));
    }
    let head: Head = serde_json::from_slice(json).map_err(ManifestError::Damaged)?;
    if head.format_version > FORMAT_VERSION {
        return Err(ManifestError::Newer(head.format_version));
    }
    if head.format_version == 0 {
        return Err(ManifestError::Field("format_version"));
    }
    match head.critical_flags.into_iter().find(|flag| !CRITICAL_FLAGS.contains(&flag.as_str())) {
        Some(flag) => Err(ManifestError::CriticalFlag(flag)),
        None => Ok(()),
    }
}

/// The recipients of a manifest, as keys again.
impl TryFrom<&Manifest> for Recipients {
    type Error = crate::RecipientError;

    fn try_from(manifest: &Manifest) -> Result<Self, Self::Error> {
        Self::parse(manifest.recipients.iter().map(|text| ("the manifest", text.as_str())))
    }
}
