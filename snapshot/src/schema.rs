//! What etcd puts into the `key` bucket, and what an etcd would refuse there.
//!
//! bbolt does not know what a revision is, and etcd up to 3.5 does not look: such a file starts today and panics after
//! the upgrade to 3.6. So each pair is held to etcd's schema here, on the pages that belong to the bucket.

use std::hash::{DefaultHasher, Hasher};

use crate::protobuf::{Fields, Malformed, Value};

/// The length of a revision key: main revision, separator, sub revision.
pub(crate) const REVISION_BYTES: usize = 17;
/// A deletion has one byte more.
pub(crate) const TOMBSTONE_BYTES: usize = 18;
pub(crate) const SEPARATOR: u8 = b'_';
const TOMBSTONE_MARK: u8 = b't';

/// What is wrong with a pair of the `key` bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SchemaFault {
    /// The key is neither 17 nor 18 bytes long.
    KeyLength,
    /// The byte between the two numbers is not `_`.
    Separator,
    /// A revision below zero.
    NegativeRevision,
    /// The 18th byte is not `t`.
    TombstoneMark,
    /// The value is no KeyValue message.
    Value,
    /// A bucket where a pair should be.
    NestedBucket,
}

impl SchemaFault {
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            SchemaFault::KeyLength => "has a key that is no revision: neither 17 nor 18 bytes long",
            SchemaFault::Separator => "has a revision without the separator '_', on which etcd 3.6 and later panic",
            SchemaFault::NegativeRevision => "has a revision below zero",
            SchemaFault::TombstoneMark => "has an 18-byte revision that does not end in 't'",
            SchemaFault::Value => "has a value that is no KeyValue message",
            SchemaFault::NestedBucket => "has a bucket inside a bucket, which etcd never makes",
        }
    }
}

/// What one pair of the `key` bucket is, fault or not.
pub(crate) struct Judged {
    pub(crate) is_tombstone: bool,
    /// A hash of the user key, its lowest bit saying whether this is a tombstone. None if there is no revision at all.
    pub(crate) mark: Option<u64>,
    pub(crate) fault: Option<SchemaFault>,
    /// The value names another revision than the key does.
    pub(crate) is_astray: bool,
}

/// The main revision of a key of the `key` bucket.
pub(crate) fn main_revision(key: &[u8]) -> Option<i64> {
    key.first_chunk::<8>().filter(|_| key.len() >= REVISION_BYTES).map(|main| i64::from_be_bytes(*main))
}

/// Holds one pair to the schema of the `key` bucket.
pub(crate) fn judge_pair(key: &[u8], value: &[u8]) -> Judged {
    let is_tombstone = key.len() == TOMBSTONE_BYTES && key[TOMBSTONE_BYTES - 1] == TOMBSTONE_MARK;
    let mut fault = key_fault(key);
    let mut judged = Judged { is_tombstone, mark: None, fault, is_astray: false };
    if fault == Some(SchemaFault::KeyLength) {
        return judged;
    }
    // The pair of `--mark-compacted` has an empty value, which reads as an empty key and no revision.
    let (user_key, mod_revision) = match key_value(value) {
        Ok(found) => found,
        Err(Malformed) => {
            fault = fault.or(Some(SchemaFault::Value));
            (&[][..], None)
        }
    };
    judged.fault = fault;
    judged.mark = Some(hash(user_key) & !1 | u64::from(is_tombstone));
    judged.is_astray = !is_tombstone && mod_revision.is_some() && mod_revision != main_revision(key);
    judged
}

fn key_fault(key: &[u8]) -> Option<SchemaFault> {
    if !matches!(key.len(), REVISION_BYTES | TOMBSTONE_BYTES) {
        return Some(SchemaFault::KeyLength);
    }
    if key[8] != SEPARATOR {
        return Some(SchemaFault::Separator);
    }
    if key[0] & 0x80 != 0 || key[9] & 0x80 != 0 {
        return Some(SchemaFault::NegativeRevision);
    }
    (key.len() == TOMBSTONE_BYTES && key[TOMBSTONE_BYTES - 1] != TOMBSTONE_MARK).then_some(SchemaFault::TombstoneMark)
}

/// The user key (field 1) and the revision of the last change (field 3) of a KeyValue.
fn key_value(message: &[u8]) -> Result<(&[u8], Option<i64>), Malformed> {
    let mut key = &[][..];
    let mut mod_revision = None;
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(bytes)) => key = bytes,
            (3, Value::Number(number)) => mod_revision = Some(number as i64),
            (5, Value::Bytes(_)) | (2 | 4 | 6, Value::Number(_)) => {}
            (0..=6, _) => return Err(Malformed),
            // Whatever a newer etcd adds.
            _ => {}
        }
    }
    Ok((key, mod_revision))
}

fn hash(user_key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(user_key);
    hasher.finish()
}
