//! The manifest: small JSON beside the data, written last. Its existence makes the backup.
//!
//! Invariant: [`Manifest`] is the working form and [`wire`] the stored one, with one conversion each way. A reader skips
//! fields that it does not know, and refuses a newer format version or a critical flag that it does not know.

mod evidence;
mod wire;

use serde::{Deserialize, Serialize};

pub use evidence::{Evidence, EvidenceLevel, UnknownLevel};

use crate::{BackupId, Sha256Digest};

/// The format version that this code writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// No reader takes more than this from a store in the belief that it is a manifest.
pub const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;
/// Flags that this code understands: none yet.
const CRITICAL_FLAGS: [&str; 0] = [];

/// All that is known of a backup when it is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Which backup.
    pub id: BackupId,
    /// The program that made it, and its version.
    pub tool: Tool,
    /// Where the snapshot came from.
    pub source: Source,
    /// The snapshot as etcd sent it, trailer included.
    pub plain: Plain,
    /// The object in the store.
    pub stored: Stored,
    /// zstd level.
    pub zstd_level: i32,
    /// Who can open it, as canonical public keys.
    pub recipients: Vec<String>,
    /// The header has one more stanza, for a key that was forgotten when the run ended.
    pub read_back_stanza: bool,
    /// What the snapshot holds.
    pub contents: Option<Contents>,
    /// What was seen, in the order in which it was.
    pub evidence: Vec<Evidence>,
    /// Free text by the operator, such as `pre-upgrade`.
    pub label: Option<String>,
}

/// A program and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Where a snapshot came from. Every field is optional: what may be asked depends on role and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// The endpoint that the connection went to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The node that was asked through it; none means the endpoint itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// etcd member id, 16 lower-case hex digits: JSON numbers end at 2^53.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,
    /// etcd member name (the node's hostname).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_name: Option<String>,
    /// Version of the etcd server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
    /// etcd's storage version (3.6 and later).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_version: Option<String>,
    /// Version of Talos.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub talos_version: Option<String>,
    /// Size of the database file before the snapshot, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_size_bytes: Option<u64>,
    /// Raft index that the member had applied, as decimal text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raft_applied_index: Option<String>,
    /// Raft term, as decimal text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raft_term: Option<String>,
    /// The member was the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_leader: Option<bool>,
    /// The member was a learner, which may lag behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_learner: Option<bool>,
    /// SHA-256 of each CA certificate (DER) in the talosconfig: which cluster's secrets this backup belongs to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub talos_ca_sha256: Vec<Sha256Digest>,
}

/// The plain side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plain {
    /// Size in bytes, the 32-byte trailer included.
    pub bytes: u64,
    /// Digest of all of it.
    pub sha256: Sha256Digest,
}

/// The stored side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of the object: lets the stored side be verified without a key.
    pub sha256: Sha256Digest,
    /// The store's own name for the content, as it gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The store's own checksum, as `<algorithm>:<value>` in the store's spelling, such as `CRC64NVME:rosUhgp5mIg=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// In how many parts it was uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
}

/// What the snapshot holds, as the check saw it stream by.
///
/// What a restore is compared with has no default: a revision that is missing must not read as revision 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The last revision in it.
    pub revision: i64,
    /// The last finished compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_revision: Option<i64>,
    /// Pairs of all buckets: `totalKey` of `etcdutl snapshot status` 3.4 and 3.5.
    pub pairs: u64,
    /// Keys alive: `totalKey` of 3.6 and later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_keys: Option<u64>,
    /// Deletions that are still recorded.
    pub tombstones: u64,
    /// `hash` of `etcdutl snapshot status`, 8 lower-case hex digits.
    pub status_hash: String,
    /// Rows of the members bucket.
    pub members: u64,
    /// Alarms that a restore would bring back, such as `NOSPACE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
    /// Storage version recorded in the file (3.6 and later).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_version: Option<String>,
    /// Cluster version recorded in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_version: Option<String>,
    /// Authentication is on.
    pub auth_enabled: bool,
    /// Page size in bytes.
    pub page_size_bytes: u32,
    /// Pages.
    pub pages: u64,
}

/// Why bytes are not a manifest that may be acted on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Not JSON of the right shape.
    #[error("the manifest is damaged")]
    Damaged(#[source] serde_json::Error),
    /// A newer format.
    #[error("the manifest has format version {0}, this program reads up to {FORMAT_VERSION}")]
    Newer(u32),
    /// A flag whose meaning a reader must know.
    #[error("the manifest has the critical flag `{0}`, which this program does not know")]
    CriticalFlag(String),
    /// A field whose value cannot be.
    #[error("the manifest's field `{0}` is wrong")]
    Field(&'static str),
    /// More bytes than any manifest has.
    #[error("the manifest is {0} bytes long, more than any has")]
    TooLarge(u64),
}

impl ManifestError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Newer(_) | Self::CriticalFlag(_) => Some("use a newer version of this program"),
            _ => None,
        }
    }
}

impl Manifest {
    /// The strongest evidence in the manifest itself.
    pub fn level(&self) -> Option<EvidenceLevel> {
        self.evidence.iter().map(|evidence| evidence.level).max()
    }

    /// The stored form: stable, indented JSON with a newline at the end.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(&wire::ManifestV1::from(self))
            .expect("no map with keys that are not text, nothing that fails to serialise");
        json.push(b'\n');
        json
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Damage, and everything that must not be acted on.
    pub fn from_json(json: &[u8]) -> Result<Self, ManifestError> {
        wire::read(json)
    }
}
