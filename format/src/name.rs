//! Names of backups and of their objects.
//!
//! `[<prefix>/]<cluster>/<cluster>-<YYYYMMDD>T<HHMMSS>Z-<6 hex>.snap.zst.age`, and beside it the same name + `.json`, the
//! manifest. Invariant: a key that is not exactly of one of the known forms is a stranger; a cluster never sees the objects
//! of another, however alike their names are.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDateTime, Utc};

use crate::Prefix;
use crate::digest::hex_value;

/// What follows the id in the key of the sealed snapshot.
pub const DATA_SUFFIX: &str = ".snap.zst.age";
/// What follows the data key in the key of its manifest.
pub const MANIFEST_SUFFIX: &str = ".json";
const CLUSTER_BYTES_MAX: usize = 100;
const STAMP_FORMAT: &str = "%Y%m%dT%H%M%SZ";
/// `20261130T020000Z`
const STAMP_BYTES: usize = 16;

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Not a cluster name.
    #[error("{0:?} is not a cluster name")]
    Cluster(String),
    /// Not a backup id.
    #[error("{0:?} is not a backup id")]
    Id(String),
}

impl NameError {
    /// What a right name looks like.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Cluster(_) => {
                "a cluster name has 1 to 100 letters, digits, `.`, `_`, `@` or `-`, and starts with a letter or a digit"
            }
            Self::Id(_) => "an id looks like `homelab-20261130T020000Z-1a2b3c`",
        }
    }
}

/// The name of a cluster, safe as one segment of an object key and of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._@-".contains(&b));
        if !first || !rest || text.len() > CLUSTER_BYTES_MAX {
            return Err(NameError::Cluster(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of one backup: cluster, second, and three random bytes that tell two of the same second apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackupId {
    cluster: ClusterName,
    taken_at: DateTime<Utc>,
    random: [u8; 3],
}

impl BackupId {
    /// An id; fractions of a second are cut, because the name does not carry them.
    ///
    /// Names hold years of four digits; a clock outside of them is not one to take backups by.
    pub fn new(cluster: ClusterName, taken_at: DateTime<Utc>, random: [u8; 3]) -> Self {
        // Through the timestamp: chrono keeps a leap second as a fraction above one, and would write it as `60`.
        let whole_second = DateTime::from_timestamp(taken_at.timestamp(), 0).unwrap_or(taken_at);
        Self { cluster, taken_at: whole_second, random }
    }

    /// The cluster that was backed up.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// When the snapshot was begun.
    pub fn taken_at(&self) -> DateTime<Utc> {
        self.taken_at
    }

    /// Key of the sealed snapshot.
    pub fn data_key(&self, prefix: &Prefix) -> String {
        prefix.join(&format!("{}/{self}{DATA_SUFFIX}", self.cluster))
    }

    /// Key of the manifest, whose existence makes the backup.
    pub fn manifest_key(&self, prefix: &Prefix) -> String {
        self.data_key(prefix) + MANIFEST_SUFFIX
    }

    /// Key of evidence that was gathered later: an object of its own, because nothing is ever rewritten.
    pub fn evidence_key(&self, prefix: &Prefix, at: DateTime<Utc>, random: [u8; 3]) -> String {
        let [a, b, c] = random;
        let stamp = at.format(STAMP_FORMAT);
        self.data_key(prefix) + &format!(".evidence-{stamp}-{a:02x}{b:02x}{c:02x}{MANIFEST_SUFFIX}")
    }
}

/// Key prefix under which all objects of one cluster lie.
pub fn cluster_folder(prefix: &Prefix, cluster: &ClusterName) -> String {
    prefix.join(&format!("{cluster}/"))
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.random;
        write!(f, "{}-{}-{a:02x}{b:02x}{c:02x}", self.cluster, self.taken_at.format(STAMP_FORMAT))
    }
}

impl FromStr for BackupId {
    type Err = NameError;

    // Read from the right: the cluster's name may itself look like a date and six digits.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::Id(text.to_owned());
        let (rest, hex) = text.rsplit_once('-').ok_or_else(wrong)?;
        let (cluster, stamp) = rest.rsplit_once('-').ok_or_else(wrong)?;
        let taken_at = parse_stamp(stamp).ok_or_else(wrong)?;
        let random = parse_random(hex).ok_or_else(wrong)?;
        let cluster = cluster.parse().map_err(|_| wrong())?;
        Ok(Self { cluster, taken_at, random })
    }
}

/// By time first: the order in which an operator thinks of backups.
impl Ord for BackupId {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |id: &Self| (id.taken_at, id.cluster.clone(), id.random);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for BackupId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn parse_stamp(text: &str) -> Option<DateTime<Utc>> {
    if text.len() != STAMP_BYTES {
        return None;
    }
    let time = NaiveDateTime::parse_from_str(text, STAMP_FORMAT).ok()?.and_utc();
    // One instant has one spelling: chrono also takes signs, spaces and the 60th second.
    let plain_second = time.timestamp_subsec_nanos() == 0;
    (plain_second && time.format(STAMP_FORMAT).to_string() == text).then_some(time)
}

fn parse_random(text: &str) -> Option<[u8; 3]> {
    let digits: [u8; 6] = text.as_bytes().try_into().ok()?;
    let mut random = [0; 3];
    for (byte, pair) in random.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_value(pair[0])? << 4 | hex_value(pair[1])?;
    }
    Some(random)
}

/// What an object key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedKey {
    /// A sealed snapshot of ours.
    Data(BackupId),
    /// A manifest of ours.
    Manifest(BackupId),
    /// Evidence that was gathered later.
    Evidence {
        /// The backup that it is about.
        id: BackupId,
        /// When it was gathered.
        at: DateTime<Utc>,
    },
    /// An object that siderolabs/talos-backup wrote: readable, but never counted among ours.
    TalosBackup(TalosBackup),
    /// Anything else: never counted, never deleted.
    Stranger,
}

/// What the name of an object of siderolabs/talos-backup says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalosBackup {
    /// The cluster, as that tool was told.
    pub cluster: ClusterName,
    /// When it was taken; that tool writes local time with its offset.
    pub taken_at: DateTime<Utc>,
    /// Whether the name says that it is compressed. Magic bytes decide, names do not.
    pub compressed: bool,
    /// Whether the name says that it is encrypted.
    pub encrypted: bool,
}

/// Says what `key` is, seen from `prefix`.
pub fn parse_key(prefix: &Prefix, key: &str) -> ParsedKey {
    let Some(rest) = prefix.strip(key) else { return ParsedKey::Stranger };
    parse_ours(rest).or_else(|| parse_talos_backup(rest)).unwrap_or(ParsedKey::Stranger)
}

fn parse_ours(rest: &str) -> Option<ParsedKey> {
    let (folder, name) = rest.split_once('/')?;
    // From the right: a cluster's name may contain it too.
    let at = name.rfind(DATA_SUFFIX)?;
    let id: BackupId = name[..at].parse().ok()?;
    if id.cluster.as_str() != folder {
        return None;
    }
    match &name[at + DATA_SUFFIX.len()..] {
        "" => Some(ParsedKey::Data(id)),
        MANIFEST_SUFFIX => Some(ParsedKey::Manifest(id)),
        tail => {
            let tail = tail.strip_prefix(".evidence-")?.strip_suffix(MANIFEST_SUFFIX)?;
            let (stamp, hex) = tail.split_once('-')?;
            parse_random(hex)?;
            Some(ParsedKey::Evidence { id, at: parse_stamp(stamp)? })
        }
    }
}

fn parse_talos_backup(rest: &str) -> Option<ParsedKey> {
    // `[<prefix or cluster>/]<name>`: with our prefix taken off, at most the cluster's folder is left.
    let (folder, name) = rest.rsplit_once('/').unwrap_or(("", rest));
    let (stem, encrypted) = name.strip_suffix(".age").map_or((name, false), |stem| (stem, true));
    let (stem, compressed) = stem.strip_suffix(".zst").map_or((stem, false), |stem| (stem, true));
    let stem = stem.strip_suffix(".snap")?;
    // The instant has dashes of its own; the shortest is 20 bytes (`2026-01-01T00:00:00Z`), the longest 25 (with an offset).
    let (cluster, taken_at) = [20, 25].into_iter().find_map(|bytes| {
        let at = stem.len().checked_sub(bytes)?;
        let taken_at = parse_rfc3339(stem.get(at..)?)?;
        let cluster: ClusterName = stem.get(..at)?.strip_suffix('-')?.parse().ok()?;
        Some((cluster, taken_at))
    })?;
    if !folder.is_empty() && folder != cluster.as_str() {
        return None;
    }
    Some(ParsedKey::TalosBackup(TalosBackup { cluster, taken_at, compressed, encrypted }))
}

/// An instant as that tool spells it: whole seconds, `Z` or an offset.
fn parse_rfc3339(text: &str) -> Option<DateTime<Utc>> {
    let instant = DateTime::parse_from_rfc3339(text).ok()?;
    // RFC 3339 allows more spellings (`t`, a space, fractions, the 60th second) than that tool has.
    let offset = if text.ends_with('Z') { "Z" } else { "%:z" };
    let spelled = instant.format(&format!("%Y-%m-%dT%H:%M:%S{offset}")).to_string();
    let plain_second = instant.timestamp_subsec_nanos() == 0;
    (plain_second && spelled == text).then(|| instant.to_utc())
}
