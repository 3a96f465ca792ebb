//! The verdict on a file that claims to be an etcd snapshot.
//!
//! Invariant: a snapshot is proven only if its trailer matches, its length is what its meta page says, and its whole tree
//! was walked without damage. The order of the questions gives one right answer: length before hash, so that a cut file
//! is called cut, and hash before structure, so that changed bytes are not blamed on etcd.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contents::{self, Contents};
use crate::meta::{META_BYTES, Meta, Metas, looks_like_bbolt};
use crate::record::Ledger;
use crate::trailer::{Hashed, TRAILER_BYTES, Trailer};
use crate::walk::{Findings, Walk};

/// One word on the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// Trailer, length, structure and schema hold.
    Ok,
    /// As `Ok`, but the newest meta page is broken: bbolt falls back to the older one.
    OkOlderMeta,
    /// No trailer: a raw copy of `member/snap/db`, whose structure holds.
    NoTrailer,
    /// The bytes are not those that were sealed by the trailer.
    HashMismatch,
    /// The end is missing.
    Truncated,
    /// There is more than etcd wrote.
    Lengthened,
    /// Pages are broken; if the trailer matches, they were broken before it was made.
    StructurallyDamaged,
    /// A part could not be looked at within the memory and time that this check allows itself.
    TooLargeToJudge,
    /// There is nothing in the file.
    Empty,
    /// Something else entirely.
    NotASnapshot,
}

impl Verdict {
    /// The name of the verdict in the manifest and in reports for programs.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::OkOlderMeta => "ok-older-meta",
            Verdict::NoTrailer => "no-trailer",
            Verdict::HashMismatch => "hash-mismatch",
            Verdict::Truncated => "truncated",
            Verdict::Lengthened => "lengthened",
            Verdict::StructurallyDamaged => "structurally-damaged",
            Verdict::TooLargeToJudge => "too-large-to-judge",
            Verdict::Empty => "empty",
            Verdict::NotASnapshot => "not-a-snapshot",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Ok => "the snapshot is whole: its SHA-256 trailer matches and its structure holds",
            Verdict::OkOlderMeta => "the snapshot is whole, but its newest meta page is broken and the older one counts",
            Verdict::NoTrailer => {
                "there is no trailing hash, so this looks like a raw copy of member/snap/db and nothing vouches for its bytes"
            }
            Verdict::HashMismatch => "the SHA-256 trailer does not match: bytes were changed after etcd sent them",
            Verdict::Truncated => "the file is cut short: it ends before the database does",
            Verdict::Lengthened => "the file is longer than the database and its trailer: something was appended",
            Verdict::StructurallyDamaged => "the database inside is damaged",
            Verdict::TooLargeToJudge => "a part of the database is too large to be judged, so it is not called whole",
            Verdict::Empty => "the file is empty",
            Verdict::NotASnapshot => "this is not an etcd snapshot",
        })
    }
}

/// Everything that one pass over the file has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The length of the whole file, trailer included.
    pub bytes: u64,
    /// SHA-256 of the whole file, trailer included.
    pub sha256: [u8; 32],
    /// What the end of the file says about the rest.
    pub trailer: Trailer,
    /// One word on all of it.
    pub verdict: Verdict,
    /// Details in plain sentences, the first twenty or so. A good snapshot can have some too.
    pub problems: Vec<String>,
    /// What is in it, if all of its tree could be read. Believe it only as far as the verdict allows.
    pub contents: Option<Contents>,
}

impl Report {
    /// Whether this is a whole snapshot, sealed by etcd, that a restore would take.
    pub fn is_proven(&self) -> bool {
        matches!(self.verdict, Verdict::Ok | Verdict::OkOlderMeta) && self.trailer == Trailer::Matches
    }
}

/// What was seen of the database while it went by.
pub(crate) struct Seen {
    pub(crate) metas: Metas,
    /// The first bytes of the file, 80 at most.
    pub(crate) head: Vec<u8>,
    pub(crate) ledger: Option<Ledger>,
    /// Whether what lies behind the last page is all zeros.
    pub(crate) is_surplus_zero: bool,
}

/// Asks the questions in their order.
pub(crate) fn judge(hashed: Hashed, seen: Seen) -> Report {
    let Hashed { bytes, sha256, trailer } = hashed;
    let mut findings = Findings::default();
    let report = |verdict, problems, contents| Report { bytes, sha256, trailer, verdict, problems, contents };

    let Some(meta) = seen.metas.chosen() else {
        let verdict = judge_without_meta(bytes, trailer, &seen.head, &mut findings);
        return report(verdict, findings.into_problems(), None);
    };
    if let Some(verdict) = judge_length(bytes, trailer, &meta, seen.is_surplus_zero, &mut findings) {
        return report(verdict, findings.into_problems(), None);
    }
    let Some(mut ledger) = seen.ledger else {
        findings.damage(format!("the meta page claims {} pages, which is too few for a tree", meta.high_water));
        return report(Verdict::StructurallyDamaged, findings.into_problems(), None);
    };
    match (seen.metas.first, seen.metas.second) {
        (None, _) => findings.note("meta page 0 is broken; meta page 1 names the tree".to_owned()),
        (_, None) => findings.note("meta page 1 is broken; meta page 0 names the tree".to_owned()),
        _ => {}
    }

    let mut walk = Walk::new(meta, findings);
    let contents = contents::census(&mut walk, &mut ledger, &meta);
    let findings = walk.findings;
    let verdict = match trailer {
        Trailer::Mismatch { .. } => Verdict::HashMismatch,
        _ if findings.is_damaged => Verdict::StructurallyDamaged,
        _ if findings.is_too_large => Verdict::TooLargeToJudge,
        Trailer::Absent => Verdict::NoTrailer,
        // etcd makes both meta pages of a snapshot from one transaction, the first of them with the higher id.
        Trailer::Matches if seen.metas.first.is_none() => Verdict::OkOlderMeta,
        Trailer::Matches => Verdict::Ok,
    };
    report(verdict, findings.into_problems(), contents)
}

/// No meta page holds: is it a broken database, the beginning of one, or something else?
fn judge_without_meta(bytes: u64, trailer: Trailer, head: &[u8], findings: &mut Findings) -> Verdict {
    if bytes == 0 {
        return Verdict::Empty;
    }
    if !looks_like_bbolt(head) && trailer != Trailer::Matches {
        findings.note(format!("none of the marks of a bbolt database are in its {bytes} bytes"));
        return Verdict::NotASnapshot;
    }
    if bytes < META_BYTES as u64 {
        findings.note(format!("there are {bytes} bytes, not even a meta page"));
        return Verdict::Truncated;
    }
    findings.note("neither of the two meta pages holds".to_owned());
    Verdict::StructurallyDamaged
}

/// The database is exactly as long as its meta page says; nothing but the trailer may follow.
fn judge_length(
    bytes: u64,
    trailer: Trailer,
    meta: &Meta,
    is_surplus_zero: bool,
    findings: &mut Findings,
) -> Option<Verdict> {
    let data_bytes = meta.data_bytes();
    let surplus_bytes = u128::from(bytes).checked_sub(data_bytes);
    let Some(surplus_bytes) = surplus_bytes else {
        findings.note(format!("there are {bytes} bytes, but the database alone has {data_bytes}"));
        // A trailer that matches was made after the end was lost: nothing was cut on the way here.
        return Some(if trailer == Trailer::Matches { Verdict::StructurallyDamaged } else { Verdict::Truncated });
    };
    if surplus_bytes == 0 || surplus_bytes == TRAILER_BYTES as u128 {
        return None;
    }
    if surplus_bytes < TRAILER_BYTES as u128 {
        findings.note(format!("only {surplus_bytes} of the 32 bytes of the trailer are there"));
        return Some(Verdict::Truncated);
    }
    // bbolt lets its own file grow in steps, so a raw copy may end in pages that were never used.
    if trailer == Trailer::Absent && is_surplus_zero && surplus_bytes.is_multiple_of(u128::from(meta.page_bytes)) {
        return None;
    }
    let too_many = surplus_bytes;
    findings.note(format!("{too_many} bytes follow the {data_bytes} of the database, where a trailer has 32"));
    Some(Verdict::Lengthened)
}
