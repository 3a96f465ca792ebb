//! Evidence: what was seen of a backup, how much that proves, by whom and when.
//!
//! Invariant: levels are ordered, and each says no more than what was really looked at. Evidence that was gathered after the
//! commit is an object of its own, because nothing is ever rewritten.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use super::{ManifestError, Tool, wire};
use crate::BackupId;

/// How much was seen. Ordered: each level is stronger than those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvidenceLevel {
    /// Trailer and page structure held while it streamed by.
    Streamed,
    /// The store, asked afterwards, has the size (and where it tells, the checksum) that was sent.
    Stored,
    /// The stored object was fetched again and opened with a key of the process that wrote it, and gave the same digest.
    ReadBack,
    /// It was opened with the operator's identity, and trailer and structure held.
    Opened,
    /// A real etcd was started from it, and its revision, key count and hash equal the manifest's.
    Restored,
}

impl EvidenceLevel {
    /// Every level, weakest first.
    pub const ALL: [Self; 5] = [Self::Streamed, Self::Stored, Self::ReadBack, Self::Opened, Self::Restored];

    /// The name in manifests, on the command line and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Streamed => "streamed",
            Self::Stored => "stored",
            Self::ReadBack => "read-back",
            Self::Opened => "opened",
            Self::Restored => "restored",
        }
    }
}

impl fmt::Display for EvidenceLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for EvidenceLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The text names no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an evidence level (streamed, stored, read-back, opened, restored)")]
pub struct UnknownLevel(pub String);

impl FromStr for EvidenceLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

/// One thing that was seen, by whom and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// How strong it is.
    pub level: EvidenceLevel,
    /// When it was seen.
    pub at: DateTime<Utc>,
    /// Who saw it.
    pub by: Tool,
    /// What exactly was compared, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<String, String>,
}

impl Evidence {
    /// The stored form of evidence that was gathered later.
    pub fn to_json(&self, id: &BackupId) -> Vec<u8> {
        wire::evidence_to_json(self, id)
    }

    /// Reads evidence that was gathered later, and which backup it is about.
    ///
    /// # Errors
    /// As for a manifest, and a level that this program does not know.
    pub fn from_json(json: &[u8]) -> Result<(BackupId, Self), ManifestError> {
        wire::evidence_from_json(json)
    }
}
