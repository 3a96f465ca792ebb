//! What is inside an etcd snapshot, found out in one pass while it streams by.
//!
//! Invariant: the bytes are untrusted. Nothing in them can make this crate panic, loop, or use more memory than some 90
//! bytes per page and a few fixed caps, and nothing unproven is ever called proven. It works on the stream and not on a
//! file, because on the backup side the plain snapshot never touches a disk.
//!
//! etcd's own tools look at either the trailer or the structure, and crash on some damage. [`StreamCheck`] looks at all
//! of it: the SHA-256 trailer, the length, bbolt's pages and tree, and etcd's schema.

mod contents;
mod crc;
mod key;
mod meta;
mod page;
mod protobuf;
mod record;
mod report;
mod scan;
mod schema;
mod trailer;
mod walk;

use std::io;

pub use contents::{Alarm, AlarmKind, Bucket, Contents};
pub use report::{Report, Verdict};
pub use trailer::Trailer;

use meta::{MetaSearch, Progress};
use report::Seen;
use scan::PageScan;
use trailer::TrailerHash;

/// Checks an etcd snapshot that is written to it, in pieces of any size.
///
/// ```
/// let mut check = bronzenail_snapshot::StreamCheck::new();
/// std::io::copy(&mut &b"<html>busy, try again</html>"[..], &mut check)?;
/// assert_eq!(check.finish().verdict, bronzenail_snapshot::Verdict::NotASnapshot);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct StreamCheck {
    hash: TrailerHash,
    search: MetaSearch,
    stage: Stage,
    is_surplus_zero: bool,
}

/// What the bytes are looked at for.
enum Stage {
    Metas,
    Pages { scan: Box<PageScan>, end: u64 },
    Nothing,
}

impl StreamCheck {
    /// A check that has seen nothing yet.
    pub fn new() -> Self {
        StreamCheck { hash: TrailerHash::new(), search: MetaSearch::new(), stage: Stage::Metas, is_surplus_zero: true }
    }

    /// How many bytes have come by.
    pub fn bytes_so_far(&self) -> u64 {
        self.hash.bytes()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut offset = self.hash.bytes();
        self.hash.update(bytes);
        let mut rest = bytes;
        if matches!(self.stage, Stage::Metas) {
            let taken = self.look_for_metas(rest, offset);
            rest = &rest[taken..];
            offset += taken as u64;
        }
        if let Stage::Pages { scan, end } = &mut self.stage {
            let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let (pages, surplus) = rest.split_at(left.min(rest.len()));
            scan.update(pages);
            self.is_surplus_zero = self.is_surplus_zero && is_zero(surplus);
        }
    }

    /// Takes what belongs to the search for the meta pages; the rest goes to the scan, if there is one afterwards.
    fn look_for_metas(&mut self, bytes: &[u8], offset: u64) -> usize {
        match self.search.update(bytes, offset) {
            Progress::Searching => return bytes.len(),
            Progress::Nothing => self.stage = Stage::Nothing,
            Progress::Found => {
                let Some(meta) = self.search.metas().chosen() else { return bytes.len() };
                // The scan starts in the second page, behind what is known to have come by before this write: it skips
                // the rest of that page itself.
                let end = u64::try_from(meta.data_bytes()).unwrap_or(u64::MAX);
                self.stage = Stage::Pages { scan: Box::new(PageScan::new(meta, offset)), end };
            }
        }
        0
    }

    /// Says what it was.
    pub fn finish(self) -> Report {
        let seen = Seen {
            metas: self.search.metas(),
            head: self.search.head().to_vec(),
            ledger: match self.stage {
                Stage::Pages { scan, .. } => Some(scan.finish()),
                Stage::Metas | Stage::Nothing => None,
            },
            is_surplus_zero: self.is_surplus_zero,
        };
        report::judge(self.hash.finish(), seen)
    }
}

impl Default for StreamCheck {
    fn default() -> Self {
        Self::new()
    }
}

/// Never fails, so that a check can stand anywhere in a pipeline.
impl io::Write for StreamCheck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
