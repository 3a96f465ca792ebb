//! What retention knows of one backup: nothing that a store could have made up, such as when an object was modified.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use crate::Version;

/// How much was seen of a backup. Ordered: each level is stronger than those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Level {
    /// Trailer and page structure held while it streamed by.
    Streamed,
    /// The store confirmed what was sent.
    Stored,
    /// The stored object was fetched again and opened by the process that wrote it.
    ReadBack,
    /// It was opened with the operator's own identity.
    Opened,
    /// A real etcd was started from it.
    Restored,
}

impl Level {
    /// Every level, weakest first.
    pub const ALL: [Self; 5] = [Self::Streamed, Self::Stored, Self::ReadBack, Self::Opened, Self::Restored];

    /// The name in manifests, settings and tables.
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

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A level of evidence that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no level of evidence: streamed, stored, read-back, opened or restored")]
pub struct UnknownLevel(pub String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let wanted = text.trim();
        Self::ALL.into_iter().find(|level| level.as_str() == wanted).ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

/// One backup as a listing of one cluster shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Backup<Id> {
    /// Its name. Breaks ties between backups of the same instant, so that the order of a listing decides nothing.
    pub id: Id,
    /// When it was taken, as its name says.
    pub taken_at: DateTime<Utc>,
    /// The strongest evidence that it is good. `None`: its manifest cannot be read, so nothing is known. A check that
    /// failed later belongs here too: give the level that still stands.
    pub evidence: Option<Level>,
    /// Whether a drill brought up an etcd from it. [`Level::Restored`] says so too.
    pub restored_by_drill: bool,
    /// Why somebody holds it, if so.
    pub held: Option<String>,
    /// Whether it was taken because an upgrade was about to start.
    pub before_upgrade: bool,
    /// The version that the cluster ran; tells when an upgrade has proved itself.
    pub version: Option<Version>,
    /// The size of the plain snapshot.
    pub plain_bytes: Option<u64>,
    /// How many keys the snapshot holds.
    pub keys: Option<u64>,
}

impl<Id> Backup<Id> {
    /// A backup of which only the name, the time and the evidence are known.
    pub fn new(id: Id, taken_at: DateTime<Utc>, evidence: Option<Level>) -> Self {
        Self {
            id,
            taken_at,
            evidence,
            restored_by_drill: false,
            held: None,
            before_upgrade: false,
            version: None,
            plain_bytes: None,
            keys: None,
        }
    }

    pub(crate) fn was_drilled(&self) -> bool {
        self.restored_by_drill || self.evidence == Some(Level::Restored)
    }
}
