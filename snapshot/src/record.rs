//! What is remembered of each page that might be part of the tree, once its bytes have gone by.
//!
//! Invariant: a [`Record`] costs some 70 bytes and everything else is capped, so that memory depends on the number of
//! pages and not on what a hostile file puts into them. Whatever a cap leaves out is remembered as unjudged, never as
//! good. Free pages keep stale content that looks like the real thing: nothing here is damage until the walk reaches it.

use std::collections::BTreeMap;

use crate::key::{Arena, ArenaFull, ChildWriter, Key};
use crate::page::{self, BRANCH_FLAG, FREE_LIST_FLAG, LEAF_FLAG, PageFault};
use crate::schema::{self, SchemaFault};

/// Live keys are counted up to this many pairs, stale ones included: 8 bytes each here, and 12 more at the end.
pub(crate) const MARKS_CAP: usize = 4 << 20;

/// Leaves that may turn out to be the root's. The root page itself is always kept.
const BUCKET_LEAVES_CAP_BYTES: usize = 32 << 20;

/// Leaves of small buckets, stale ones included; without them only details are unknown.
const DETAIL_LEAVES_CAP_BYTES: usize = 8 << 20;

/// Widest run of pages that is looked at as one page. etcd refuses requests above 1.5 MiB unless told otherwise, and a
/// leaf holds at most a few values of that size.
pub(crate) const EXTENT_CAP_BYTES: u64 = 64 << 20;

/// A hostile file can nest wide pages in one another so that each byte would be read thousands of times. Honest ones
/// stay far below this: their stale wide pages overlap a few deep.
const WORK_PER_BYTE: u64 = 16;
const WORK_FREE_BYTES: u64 = 1 << 30;

/// What kind of page a record speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Branch,
    Leaf,
    FreeList,
    /// It ran into one of the caps: nobody can say.
    Unjudged,
}

/// One page, or one inline bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) page: u32,
    pub(crate) overflow: u32,
    /// CRC-32C over key and value of all pairs, and how many bytes those are.
    pub(crate) crc: u32,
    pub(crate) pair_bytes: u32,
    /// Of a branch: where its children lie in the arena. Of a leaf: where its pairs' marks start.
    notes: u32,
    pub(crate) count: u16,
    pub(crate) tombstones: u16,
    pub(crate) first: Key,
    pub(crate) last: Key,
    pub(crate) kind: Kind,
    pub(crate) fault: Option<PageFault>,
    /// Matters only in the `key` bucket.
    pub(crate) schema_fault: Option<SchemaFault>,
    pub(crate) has_buckets: bool,
    pub(crate) has_plain_pairs: bool,
    pub(crate) is_astray: bool,
    has_marks: bool,
}

impl Record {
    fn new(page: u32, overflow: u32, count: u16, kind: Kind) -> Self {
        Record {
            page,
            overflow,
            crc: 0,
            pair_bytes: 0,
            notes: 0,
            count,
            tombstones: 0,
            first: Key::EMPTY,
            last: Key::EMPTY,
            kind,
            fault: None,
            schema_fault: None,
            has_buckets: false,
            has_plain_pairs: false,
            is_astray: false,
            has_marks: false,
        }
    }

    /// Where a branch's children lie in the arena.
    pub(crate) fn children(&self) -> u32 {
        self.notes
    }

    /// Whether the page's content could be read to its end. Wrong order is damage, but it can be read.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.fault, None | Some(PageFault::KeyOrder))
    }
}

/// Pages whose content is kept for the end.
#[derive(Default)]
struct KeptPages {
    extents: BTreeMap<u32, Box<[u8]>>,
    bytes: usize,
}

impl KeptPages {
    /// Keeps a page, if it does not go beyond the cap.
    fn keep(&mut self, page: u32, extent: &[u8], cap_bytes: usize) -> Result<(), ArenaFull> {
        if self.bytes + extent.len() > cap_bytes {
            return Err(ArenaFull);
        }
        self.bytes += extent.len();
        self.extents.insert(page, extent.into());
        Ok(())
    }
}

/// The persisted free list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FreeList {
    /// The meta page names one, and none has come by.
    Missing,
    /// Its ids do not fit into it.
    Unreadable,
    Ids(Vec<u64>),
}

/// Everything that is remembered.
pub(crate) struct Ledger {
    pub(crate) records: Vec<Record>,
    pub(crate) arena: Arena,
    pub(crate) free_list: Option<FreeList>,
    marks: Vec<u64>,
    bucket_leaves: KeptPages,
    detail_leaves: KeptPages,
    root_page: u64,
    is_root_a_seen_leaf: bool,
    work_bytes: u64,
}

impl Ledger {
    pub(crate) fn new(root_page: u64, free_list_page: Option<u64>) -> Self {
        Ledger {
            records: Vec::new(),
            arena: Arena::default(),
            free_list: free_list_page.map(|_| FreeList::Missing),
            marks: Vec::new(),
            bucket_leaves: KeptPages::default(),
            detail_leaves: KeptPages::default(),
            root_page,
            is_root_a_seen_leaf: false,
            work_bytes: 0,
        }
    }

    /// Remembers a page that is too wide, or one too many, to be looked at.
    pub(crate) fn leave_unjudged(&mut self, page: u32, overflow: u32) {
        self.push(Record::new(page, overflow, 0, Kind::Unjudged));
    }

    /// Looks at a page whose bytes are complete, overflow included. `bytes_seen` is how much of the stream has passed.
    pub(crate) fn judge(&mut self, page: u32, header: page::Header, extent: &[u8], bytes_seen: u64) {
        self.arena.allow_for(u64::from(page));
        if header.overflow > 0 {
            self.work_bytes += extent.len() as u64;
            if self.work_bytes > WORK_FREE_BYTES + WORK_PER_BYTE * bytes_seen {
                return self.leave_unjudged(page, header.overflow);
            }
        }
        let record = match header.flags {
            LEAF_FLAG => self.judge_leaf(page, header.overflow, header.count, extent).and_then(|leaf| {
                self.keep_if_needed(&leaf, extent)?;
                Ok(leaf)
            }),
            BRANCH_FLAG => self.judge_branch(page, header.overflow, header.count, extent),
            FREE_LIST_FLAG => {
                let ids = page::free_ids(extent, header.count);
                self.free_list = Some(ids.map_or(FreeList::Unreadable, |ids| FreeList::Ids(ids.collect())));
                Ok(Record::new(page, header.overflow, 0, Kind::FreeList))
            }
            _ => return,
        };
        match record {
            Ok(record) => self.push(record),
            Err(ArenaFull) => self.leave_unjudged(page, header.overflow),
        }
    }

    /// Looks at a leaf, or at the page inside an inline bucket.
    pub(crate) fn judge_leaf(
        &mut self,
        page: u32,
        overflow: u32,
        count: u16,
        extent: &[u8],
    ) -> Result<Record, ArenaFull> {
        let mut leaf = Record::new(page, overflow, count, Kind::Leaf);
        let marks_from = self.marks.len();
        let can_mark = marks_from + usize::from(count) <= MARKS_CAP;
        let mut run = Run::default();
        let mut previous: Option<&[u8]> = None;
        let mut first: &[u8] = &[];
        let mut has_order_fault = false;
        let marks = &mut self.marks;

        let outcome = page::for_each_pair(extent, count, |pair| {
            run.add(extent, pair.start, pair.key.len() + pair.value.len());
            match previous {
                None => first = pair.key,
                Some(previous) => has_order_fault |= previous >= pair.key,
            }
            previous = Some(pair.key);
            if pair.is_bucket {
                leaf.has_buckets = true;
                leaf.schema_fault = leaf.schema_fault.or(Some(SchemaFault::NestedBucket));
                return Ok(());
            }
            leaf.has_plain_pairs = true;
            let judged = schema::judge_pair(pair.key, pair.value);
            leaf.tombstones += u16::from(judged.is_tombstone);
            leaf.schema_fault = leaf.schema_fault.or(judged.fault);
            leaf.is_astray |= judged.is_astray;
            if can_mark {
                marks.extend(judged.mark);
            }
            Ok(())
        });
        (leaf.crc, leaf.pair_bytes) = run.finish(extent);
        leaf.fault = outcome.err().or(has_order_fault.then_some(PageFault::KeyOrder));
        // All or nothing: the marks of a leaf are found by its count.
        leaf.has_marks = self.marks.len() - marks_from == usize::from(count);
        if leaf.has_marks {
            leaf.notes = marks_from as u32;
        } else {
            self.marks.truncate(marks_from);
        }
        leaf.first = self.arena.keep(first)?;
        leaf.last = self.arena.keep(previous.unwrap_or_default())?;
        Ok(leaf)
    }

    fn judge_branch(&mut self, page: u32, overflow: u32, count: u16, extent: &[u8]) -> Result<Record, ArenaFull> {
        let mut branch = Record::new(page, overflow, count, Kind::Branch);
        branch.notes = self.arena.mark();
        let mut writer = ChildWriter::default();
        let mut previous: Option<&[u8]> = None;
        let mut has_order_fault = false;
        let mut is_full = false;
        let arena = &mut self.arena;

        let outcome = page::for_each_child(extent, count, |child| {
            has_order_fault |= previous.is_some_and(|previous| previous >= child.separator);
            previous = Some(child.separator);
            is_full |= is_full || writer.put(arena, child.separator, child.child).is_err();
            Ok(())
        });
        branch.fault = outcome.err().or(has_order_fault.then_some(PageFault::KeyOrder));
        if is_full || !branch.is_readable() {
            // Its children will never be asked for.
            self.arena.rewind(branch.notes);
        }
        if is_full { Err(ArenaFull) } else { Ok(branch) }
    }

    /// Keeps the content of leaves that the end will read again.
    ///
    /// A busy database is full of stale copies of its root: once the root itself has come by as a leaf, no other leaf of
    /// buckets can be part of the tree.
    fn keep_if_needed(&mut self, leaf: &Record, extent: &[u8]) -> Result<(), ArenaFull> {
        if u64::from(leaf.page) == self.root_page {
            self.is_root_a_seen_leaf = true;
            self.bucket_leaves = KeptPages::default();
            return self.bucket_leaves.keep(leaf.page, extent, usize::MAX);
        }
        if leaf.has_buckets {
            let is_out = self.is_root_a_seen_leaf;
            return if is_out { Ok(()) } else { self.bucket_leaves.keep(leaf.page, extent, BUCKET_LEAVES_CAP_BYTES) };
        }
        // Members, alarms and the like have keys of other lengths than revisions (17, 18) and leases (8).
        let first_len = leaf.first.get(&self.arena).len();
        if leaf.overflow == 0 && leaf.count > 0 && !matches!(first_len, 8 | 17 | 18) {
            // The census says so if it misses one.
            let _ = self.detail_leaves.keep(leaf.page, extent, DETAIL_LEAVES_CAP_BYTES);
        }
        Ok(())
    }

    /// The content of a leaf of a small bucket, if it was kept.
    pub(crate) fn details(&self, page: u32) -> Option<&[u8]> {
        self.detail_leaves.extents.get(&page).map(|extent| &**extent)
    }

    /// Takes the content of a leaf of the root out, so that the ledger can be written to while it is read.
    pub(crate) fn take_bucket_leaf(&mut self, page: u32) -> Option<Box<[u8]>> {
        self.bucket_leaves.extents.remove(&page)
    }

    /// The marks of a leaf's pairs, in key order, if all of them have one.
    pub(crate) fn marks(&self, leaf: &Record) -> Option<&[u64]> {
        let from = leaf.notes as usize;
        leaf.has_marks.then(|| &self.marks[from..from + usize::from(leaf.count)])
    }

    /// The record of a page. Only after [`Ledger::close`].
    pub(crate) fn record(&self, page: u64) -> Option<&Record> {
        let page = u32::try_from(page).ok()?;
        let at = self.records.binary_search_by_key(&page, |record| record.page).ok()?;
        self.records.get(at)
    }

    /// Makes the records searchable: wide pages are complete later than the pages that start inside them.
    pub(crate) fn close(&mut self) {
        self.records.sort_unstable_by_key(|record| record.page);
    }

    /// Adds a record, growing by a quarter: doubling would cost twice the memory at the worst moment.
    fn push(&mut self, record: Record) {
        if self.records.len() == self.records.capacity() {
            self.records.reserve_exact((self.records.len() / 4).max(1024));
        }
        self.records.push(record);
    }
}

/// The CRC over pairs that nearly always lie one behind the other: one long run instead of many short ones.
#[derive(Default)]
struct Run {
    crc: u32,
    bytes: u32,
    from: usize,
    to: usize,
}

impl Run {
    fn add(&mut self, extent: &[u8], start: usize, bytes: usize) {
        if start != self.to {
            self.flush(extent);
            self.from = start;
        }
        self.to = start + bytes;
    }

    fn flush(&mut self, extent: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, &extent[self.from..self.to]);
        self.bytes += (self.to - self.from) as u32;
        self.from = self.to;
    }

    fn finish(mut self, extent: &[u8]) -> (u32, u32) {
        self.flush(extent);
        (self.crc, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u32 = 9;

    fn ledger() -> Ledger {
        Ledger::new(u64::from(ROOT), None)
    }

    /// One pair whose key and value follow the table of one element.
    fn leaf_extent(flag: u32, key: &[u8], extent_bytes: usize) -> Vec<u8> {
        let mut extent = vec![0; extent_bytes];
        extent[8] = LEAF_FLAG as u8;
        extent[10] = 1;
        for (at, field) in [(16, flag), (20, 16), (24, key.len() as u32), (28, 0)] {
            extent[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        extent[32..32 + key.len()].copy_from_slice(key);
        extent
    }

    fn judge(ledger: &mut Ledger, page: u32, extent: &[u8]) -> Record {
        let header = page::Header::read(extent).unwrap();
        ledger.judge(page, header, extent, u64::MAX / 32);
        *ledger.records.last().unwrap()
    }

    #[test]
    fn a_record_stays_small() {
        assert!(size_of::<Record>() <= 72, "{} bytes", size_of::<Record>());
    }

    #[test]
    fn beyond_the_cap_a_leaf_has_no_marks() {
        let extent = leaf_extent(0, b"\0\0\0\0\0\0\0\x02_\0\0\0\0\0\0\0\0", 64);
        let mut ledger = ledger();
        ledger.marks = vec![0; MARKS_CAP - 1];
        let last = judge(&mut ledger, 2, &extent);
        assert_eq!(ledger.marks(&last).unwrap().len(), 1);
        let beyond = judge(&mut ledger, 3, &extent);
        assert_eq!(beyond.fault, None);
        assert_eq!(ledger.marks(&beyond), None);
    }

    #[test]
    fn a_leaf_that_cannot_be_read_leaves_no_marks_behind() {
        let mut extent = leaf_extent(0, &[0; 17], 128);
        // A second element, all zeros, that points into the table; the first one's key lies behind both.
        extent[10] = 2;
        extent[20] = 32;
        let mut ledger = ledger();
        let leaf = judge(&mut ledger, 2, &extent);
        assert_eq!(leaf.fault, Some(PageFault::ElementOutside));
        assert_eq!((ledger.marks(&leaf), ledger.marks.len()), (None, 0));
    }

    #[test]
    fn stale_copies_of_the_root_are_forgotten_when_the_root_comes_by() {
        let extent = leaf_extent(1, b"key", 4096);
        let mut ledger = ledger();
        judge(&mut ledger, 3, &extent);
        judge(&mut ledger, ROOT, &extent);
        judge(&mut ledger, 10, &extent);
        assert!(ledger.take_bucket_leaf(3).is_none() && ledger.take_bucket_leaf(10).is_none());
        assert!(ledger.take_bucket_leaf(ROOT).is_some());
    }

    #[test]
    fn a_leaf_of_buckets_beyond_the_cap_is_unjudged_and_the_root_is_not() {
        let extent = leaf_extent(1, b"key", 20 << 20);
        let mut ledger = ledger();
        assert_eq!(judge(&mut ledger, 2, &extent).kind, Kind::Leaf);
        assert_eq!(judge(&mut ledger, 3, &extent).kind, Kind::Unjudged);
        assert_eq!(judge(&mut ledger, ROOT, &extent).kind, Kind::Leaf);
    }

    #[test]
    fn details_beyond_the_cap_are_left_out() {
        let extent = leaf_extent(0, b"member", 5 << 20);
        let mut ledger = ledger();
        assert_eq!(judge(&mut ledger, 2, &extent).kind, Kind::Leaf);
        assert_eq!(judge(&mut ledger, 3, &extent).kind, Kind::Leaf);
        assert!(ledger.details(2).is_some() && ledger.details(3).is_none());
    }
}
