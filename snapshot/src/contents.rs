//! What is in an etcd snapshot: revisions, counts, members, alarms.
//!
//! Invariant: the numbers are those of etcd's own tools, under names that say which one is meant: `etcdutl snapshot
//! status` counts something else as "total keys" since 3.6 than before. They are given only if the whole tree was
//! read; a sum over a part would look like data loss, or hide it.

use serde::Serialize;

use crate::crc;
use crate::meta::Meta;
use crate::page::{self, HEADER_BYTES, Header, LEAF_FLAG};
use crate::protobuf::{Fields, Value};
use crate::record::{Kind, Ledger, Record};
use crate::schema;
use crate::walk::{Findings, Walk};

/// Root page number and sequence number come before an inline bucket's page.
const BUCKET_HEADER_BYTES: usize = 16;

/// etcd has ten buckets and a handful of alarms; lists in the report end here.
const LIST_CAP: usize = 64;

/// Versions are like "3.6.0".
const VERSION_CAP_BYTES: usize = 64;

/// What the snapshot contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The page size of the machine that wrote the database.
    pub page_size_bytes: u32,
    /// The length of the database in pages.
    pub pages: u64,
    /// bbolt's transaction id, that of the meta page in use.
    pub transaction_id: u64,
    /// The main revision of the last pair: what `etcdutl snapshot status` calls the revision. 0 if there is no pair.
    pub revision: i64,
    /// Up to where a compaction was finished. None if there never was one.
    pub compact_revision: Option<i64>,
    /// Up to where a compaction was started: above `compact_revision`, a restored etcd goes on with it.
    pub scheduled_compact_revision: Option<i64>,
    /// The hash of `etcdutl snapshot status`: CRC-32C over all buckets.
    pub status_hash: u32,
    /// Pairs of all buckets: "total keys" of `etcdutl snapshot status` up to 3.5.
    pub pairs: u64,
    /// User keys that are alive: "total keys" of `etcdutl snapshot status` since 3.6. None beyond some four million
    /// pairs (stale ones included): counting them would need more memory than this check allows itself.
    pub live_keys: Option<u64>,
    /// Pairs that are deletions.
    pub tombstones: u64,
    /// Rows of the `members` bucket. A snapshot of a restored 3.4 can have old rows there too.
    pub members: u64,
    /// Leases.
    pub leases: u64,
    /// Users and roles of etcd's own access control.
    pub auth_users: u64,
    /// See `auth_users`.
    pub auth_roles: u64,
    /// Whether etcd asks for a password: it still does after a restore.
    pub auth_enabled: bool,
    /// Alarms that are raised: they survive a restore.
    pub alarms: Vec<Alarm>,
    /// The version of the storage schema, since etcd 3.6.
    pub storage_version: Option<String>,
    /// The version that the members agreed upon.
    pub cluster_version: Option<String>,
    /// The index of the last raft entry that is in the database.
    pub consistent_index: Option<u64>,
    /// The raft term of that entry, since etcd 3.5.
    pub term: Option<u64>,
    /// All buckets in their order.
    pub buckets: Vec<Bucket>,
}

impl Contents {
    /// The revision that a server restored from this snapshot would be at.
    pub fn restored_revision(&self) -> i64 {
        let compacted = self.compact_revision.max(self.scheduled_compact_revision).unwrap_or_default();
        self.revision.max(compacted).max(1)
    }
}

/// A bucket and how many pairs it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Its name; what is not text is replaced.
    pub name: String,
    /// How many pairs it has.
    pub pairs: u64,
}

/// An alarm that a member has raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// The member, by its id before any restore.
    pub member_id: u64,
    /// What it is about.
    pub kind: AlarmKind,
}

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AlarmKind {
    /// The database has reached its quota: etcd takes no more writes.
    NoSpace,
    /// Members hold different data.
    Corrupt,
    /// One that this version does not know, by its number.
    Other(u64),
}

/// The names that etcd's own tools use.
impl std::fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSpace => f.write_str("NOSPACE"),
            Self::Corrupt => f.write_str("CORRUPT"),
            Self::Other(number) => write!(f, "number {number}"),
        }
    }
}

/// Walks all buckets and sums up. Findings go to the walk; contents come back only if all of the tree was read.
pub(crate) fn census(walk: &mut Walk, ledger: &mut Ledger, meta: &Meta) -> Option<Contents> {
    let mut census = Census::new(meta);
    let mut root_leaves = Vec::new();
    walk.leaves(ledger, meta.root_page, |_, leaf| root_leaves.push(*leaf));
    for leaf in root_leaves {
        census.root_leaf(walk, ledger, &leaf);
    }
    for name in ["key", "meta"] {
        if !census.names.contains(&name) && !walk.findings.is_incomplete {
            walk.findings.damage(format!("there is no bucket {name:?}, so this is no database of etcd's"));
        }
    }
    walk.free_list(ledger);
    if census.astray_pages > 0 {
        let pages = census.astray_pages;
        walk.findings.note(format!("{pages} pages have pairs whose value names another revision than their key does"));
    }
    (!walk.findings.is_incomplete).then(|| census.finish())
}

/// The sums while the walk goes on.
struct Census {
    contents: Contents,
    /// The names among "key" and "meta" that came by.
    names: Vec<&'static str>,
    /// The marks of all pairs of `key`, in key order.
    marks: Option<Vec<u64>>,
    astray_pages: u64,
}

impl Census {
    fn new(meta: &Meta) -> Self {
        let contents = Contents {
            page_size_bytes: meta.page_bytes as u32,
            pages: meta.high_water,
            transaction_id: meta.transaction_id,
            ..Contents::default()
        };
        Census { contents, names: Vec::new(), marks: Some(Vec::new()), astray_pages: 0 }
    }

    /// Goes over the buckets of one leaf of the root.
    fn root_leaf(&mut self, walk: &mut Walk, ledger: &mut Ledger, leaf: &Record) {
        if leaf.has_plain_pairs {
            walk.findings.damage(format!("page {} has pairs outside of any bucket", leaf.page));
        }
        let Some(extent) = ledger.take_bucket_leaf(leaf.page) else {
            if leaf.count > 0 {
                walk.findings.lose(format!("page {} should hold buckets, but it holds none", leaf.page));
            }
            return;
        };
        // The page was read to its end before, so no fault can come of it now.
        let _ = page::for_each_pair(&extent, leaf.count, |pair| {
            self.contents.status_hash = crc32c::crc32c_append(self.contents.status_hash, pair.key);
            if pair.is_bucket {
                self.bucket(walk, ledger, pair.key, pair.value);
            }
            Ok(())
        });
    }

    fn bucket(&mut self, walk: &mut Walk, ledger: &mut Ledger, name: &[u8], value: &[u8]) {
        self.names.extend(["key", "meta"].iter().filter(|known| known.as_bytes() == name));
        let shown = String::from_utf8_lossy(&name[..name.len().min(LIST_CAP)]).into_owned();
        let pairs_before = self.contents.pairs;
        let root =
            value.first_chunk::<8>().filter(|_| value.len() >= BUCKET_HEADER_BYTES).map(|r| u64::from_le_bytes(*r));
        match root {
            None => walk.findings.lose(format!("bucket {shown:?} has no root")),
            Some(0) => self.inline_bucket(walk, ledger, name, &shown, &value[BUCKET_HEADER_BYTES..]),
            Some(root) => walk.leaves(ledger, root, |findings, leaf| {
                self.leaf(findings, ledger, name, leaf);
                if let Some(extent) = ledger.details(leaf.page) {
                    self.details(name, extent, leaf.count);
                } else if has_details(name) {
                    findings.note(format!("bucket {shown:?} is too large for its details to be kept"));
                }
            }),
        }
        let pairs = self.contents.pairs - pairs_before;
        match name {
            b"members" => self.contents.members = pairs,
            b"lease" => self.contents.leases = pairs,
            b"authUsers" => self.contents.auth_users = pairs,
            b"authRoles" => self.contents.auth_roles = pairs,
            _ => {}
        }
        if self.contents.buckets.len() < LIST_CAP {
            self.contents.buckets.push(Bucket { name: shown, pairs });
        }
    }

    /// A small bucket: its one page lies in the value itself.
    fn inline_bucket(&mut self, walk: &mut Walk, ledger: &mut Ledger, name: &[u8], shown: &str, extent: &[u8]) {
        let header = Header::read(extent).filter(|header| header.flags == LEAF_FLAG);
        let Some(header) = header else {
            return walk.findings.lose(format!("bucket {shown:?} is inline, but it is no leaf page"));
        };
        debug_assert!(extent.len() >= HEADER_BYTES);
        let Ok(leaf) = ledger.judge_leaf(0, 0, header.count, extent) else {
            return walk.findings.give_up(format!("bucket {shown:?} is too large to judge"));
        };
        if let Some(fault) = leaf.fault {
            walk.findings.damage(format!("the page inside of bucket {shown:?} {}", fault.sentence()));
        }
        if !leaf.is_readable() {
            walk.findings.is_incomplete = true;
            return;
        }
        self.leaf(&mut walk.findings, ledger, name, &leaf);
        self.details(name, extent, leaf.count);
    }

    /// Adds one leaf of a bucket.
    fn leaf(&mut self, findings: &mut Findings, ledger: &Ledger, name: &[u8], leaf: &Record) {
        debug_assert_eq!(leaf.kind, Kind::Leaf);
        let contents = &mut self.contents;
        contents.status_hash = crc::join(contents.status_hash, leaf.crc, leaf.pair_bytes);
        contents.pairs += u64::from(leaf.count);
        if name != b"key" {
            if leaf.has_buckets {
                findings.damage(format!("page {} has a bucket inside a bucket, which etcd never makes", leaf.page));
            }
            return;
        }
        contents.tombstones += u64::from(leaf.tombstones);
        self.astray_pages += u64::from(leaf.is_astray);
        if let Some(fault) = leaf.schema_fault {
            findings.damage(format!("page {} {}", leaf.page, fault.sentence()));
        }
        if leaf.count > 0 {
            contents.revision = schema::main_revision(leaf.last.get(&ledger.arena)).unwrap_or(contents.revision);
        }
        match (&mut self.marks, ledger.marks(leaf)) {
            (Some(all), Some(marks)) => all.extend_from_slice(marks),
            (all, _) => *all = None,
        }
    }

    /// Reads the pairs of the small buckets one by one.
    fn details(&mut self, bucket: &[u8], extent: &[u8], count: u16) {
        if !has_details(bucket) {
            return;
        }
        // What cannot be read was reported when the page was judged.
        let _ = page::for_each_pair(extent, count, |pair| {
            self.detail(bucket, pair.key, pair.value);
            Ok(())
        });
    }

    fn detail(&mut self, bucket: &[u8], key: &[u8], value: &[u8]) {
        let contents = &mut self.contents;
        match (bucket, key) {
            (b"meta", b"consistent_index") => contents.consistent_index = big_endian(value),
            (b"meta", b"term") => contents.term = big_endian(value),
            (b"meta", b"storageVersion") => contents.storage_version = version(value),
            (b"meta", b"finishedCompactRev") => contents.compact_revision = schema::main_revision(value),
            (b"meta", b"scheduledCompactRev") => contents.scheduled_compact_revision = schema::main_revision(value),
            (b"cluster", b"clusterVersion") => contents.cluster_version = version(value),
            (b"auth", b"authEnabled") => contents.auth_enabled = value == [1],
            (b"alarm", alarm) if contents.alarms.len() < LIST_CAP => contents.alarms.extend(read_alarm(alarm)),
            _ => {}
        }
    }

    fn finish(self) -> Contents {
        Contents { live_keys: self.marks.map(count_live), ..self.contents }
    }
}

/// The buckets whose pairs are read one by one.
fn has_details(bucket: &[u8]) -> bool {
    matches!(bucket, b"meta" | b"cluster" | b"auth" | b"alarm")
}

fn big_endian(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_be_bytes)
}

fn version(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    (text.len() <= VERSION_CAP_BYTES && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// The alarm is the key itself: member id (field 1) and kind (field 2).
fn read_alarm(key: &[u8]) -> Option<Alarm> {
    let (mut member_id, mut kind) = (0, 0);
    for field in Fields::of(key) {
        match field.ok()? {
            (1, Value::Number(number)) => member_id = number,
            (2, Value::Number(number)) => kind = number,
            _ => {}
        }
    }
    let kind = match kind {
        1 => AlarmKind::NoSpace,
        2 => AlarmKind::Corrupt,
        other => AlarmKind::Other(other),
    };
    Some(Alarm { member_id, kind })
}

/// How many keys are alive: those whose last mark is not a deletion's.
///
/// The sort is stable, so that the marks of one key stay in the order of their revisions.
fn count_live(mut marks: Vec<u64>) -> u64 {
    marks.sort_by_key(|mark| mark >> 1);
    let live = marks.chunk_by(|one, next| one >> 1 == next >> 1).filter_map(|same| same.last());
    live.filter(|mark| **mark & 1 == 0).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_alive_if_its_last_pair_is_no_deletion() {
        let (put, delete) = (|key: u64| key << 1, |key: u64| key << 1 | 1);
        assert_eq!(count_live(vec![]), 0);
        assert_eq!(count_live(vec![put(9), put(3), delete(9), put(3)]), 1);
        assert_eq!(count_live(vec![put(9), delete(9), put(9), delete(3), delete(3)]), 1);
    }

    #[test]
    fn an_alarm_is_read_from_its_key() {
        let alarm = read_alarm(&[0x08, 0x96, 0x01, 0x10, 0x01]).unwrap();
        assert_eq!((alarm.member_id, alarm.kind), (150, AlarmKind::NoSpace));
        assert_eq!(read_alarm(&[0x08]), None);
    }

    #[test]
    fn a_version_is_short_text_or_nothing() {
        assert_eq!(version(b"3.6.0").as_deref(), Some("3.6.0"));
        assert_eq!(version(b"\x1b[2J"), None);
        assert_eq!(version(&[b'3'; 65]), None);
        assert_eq!(version(&[0xFF]), None);
    }
}
