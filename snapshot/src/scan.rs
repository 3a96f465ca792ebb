//! Finds the pages in the stream and hands each to the ledger once it is complete.
//!
//! Invariant: what is judged, and in which order, depends on the bytes alone and never on how they were cut into writes.
//! A page that lies wholly inside one write is judged in place; only what straddles two writes is copied.
//!
//! Pages that continue over others have a header on the first one only, and stale pages claim to continue over live ones.
//! So every position is read as a possible head, also inside another page's continuation, and both readings are
//! kept: the walk decides at the end.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::meta::Meta;
use crate::page::{BRANCH_FLAG, FREE_LIST_FLAG, HEADER_BYTES, Header, LEAF_FLAG};
use crate::record::{EXTENT_CAP_BYTES, Ledger};

/// Two meta pages come before the first page of the tree.
const FIRST_PAGE: u64 = 2;

/// Looks for pages in a stream whose meta page is known.
pub(crate) struct PageScan {
    meta: Meta,
    ledger: Ledger,
    /// The page that is looked at next.
    next_page: u64,
    open: OpenPages,
    /// Bytes of earlier writes that are still needed; those before `carry_head` are not.
    carry: Vec<u8>,
    carry_head: usize,
    /// The offset in the stream of what comes next.
    offset: u64,
}

/// Wide pages whose end has not come by.
#[derive(Default)]
struct OpenPages {
    by_end: BinaryHeap<Reverse<(u64, u64)>>,
    starts: BTreeSet<u64>,
}

impl PageScan {
    /// Starts anywhere in the second page.
    pub(crate) fn new(meta: Meta, offset: u64) -> Self {
        PageScan {
            meta,
            ledger: Ledger::new(meta.root_page, meta.free_list_page),
            next_page: FIRST_PAGE,
            open: OpenPages::default(),
            carry: Vec::new(),
            carry_head: 0,
            offset,
        }
    }

    pub(crate) fn finish(mut self) -> Ledger {
        self.ledger.close();
        self.ledger
    }

    /// Takes the next bytes of the stream, none of them behind the last page.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        self.skip_second_page(&mut rest);
        while !rest.is_empty() && !self.carry.is_empty() {
            self.top_up(&mut rest);
        }
        if rest.is_empty() {
            return;
        }
        let from = self.offset;
        self.offset += rest.len() as u64;
        let needed_from = self.scan(rest, from);
        self.carry.extend_from_slice(&rest[(needed_from - from) as usize..]);
    }

    fn skip_second_page(&mut self, rest: &mut &[u8]) {
        let missing = (FIRST_PAGE * self.meta.page_bytes).saturating_sub(self.offset);
        let skipped = usize::try_from(missing).unwrap_or(usize::MAX).min(rest.len());
        *rest = &rest[skipped..];
        self.offset += skipped as u64;
    }

    /// Completes the next page in the carry, and empties the carry as soon as nothing in it is needed.
    fn top_up(&mut self, rest: &mut &[u8]) {
        let page_end = (self.next_page + 1) * self.meta.page_bytes;
        let missing = usize::try_from(page_end - self.offset).unwrap_or(usize::MAX);
        let (taken, left) = rest.split_at(missing.min(rest.len()));
        self.carry.extend_from_slice(taken);
        self.offset += taken.len() as u64;
        *rest = left;
        if taken.len() < missing {
            return;
        }
        let carry = std::mem::take(&mut self.carry);
        let from = self.offset - (carry.len() - self.carry_head) as u64;
        let needed_from = self.scan(&carry[self.carry_head..], from);
        self.carry = carry;
        self.carry_head += (needed_from - from) as usize;
        self.drop_unneeded();
    }

    /// Moving the rest to the front at every page would be quadratic, so a part that is no longer needed may stay.
    fn drop_unneeded(&mut self) {
        let needed = self.carry.len() - self.carry_head;
        if needed == 0 {
            self.carry.clear();
            self.carry_head = 0;
        } else if self.carry_head > (needed / 4).max(1 << 18) {
            self.carry.drain(..self.carry_head);
            self.carry_head = 0;
        }
    }

    /// Looks at all pages that are complete in `window`, which starts at `from`; says from where on it is still needed.
    fn scan(&mut self, window: &[u8], from: u64) -> u64 {
        let page_bytes = self.meta.page_bytes;
        let end = from + window.len() as u64;
        while self.next_page < self.meta.high_water && (self.next_page + 1) * page_bytes <= end {
            let page = self.next_page;
            self.next_page += 1;
            self.look_at_head(page, &window[(page * page_bytes - from) as usize..][..page_bytes as usize]);
            while let Some(start) = self.open.pop_ending_at(self.next_page) {
                let extent =
                    &window[(start * page_bytes - from) as usize..(self.next_page * page_bytes - from) as usize];
                self.judge(start, extent);
            }
        }
        self.open.earliest().unwrap_or(self.next_page).min(self.next_page) * page_bytes
    }

    fn look_at_head(&mut self, page: u64, bytes: &[u8]) {
        let Some(header) = Header::read(bytes) else { return };
        let is_free_list = header.flags == FREE_LIST_FLAG && self.meta.free_list_page == Some(page);
        let is_tree = matches!(header.flags, BRANCH_FLAG | LEAF_FLAG);
        let end = page + 1 + u64::from(header.overflow);
        if header.id != page || !(is_tree || is_free_list) || end > self.meta.high_water {
            return;
        }
        if header.overflow == 0 {
            return self.judge(page, bytes);
        }
        if (end - page) * self.meta.page_bytes > EXTENT_CAP_BYTES {
            if let Ok(page) = u32::try_from(page) {
                self.ledger.leave_unjudged(page, header.overflow);
            }
            return;
        }
        self.open.push(page, end);
    }

    fn judge(&mut self, page: u64, extent: &[u8]) {
        debug_assert!(extent.len() >= HEADER_BYTES);
        // A number beyond 32 bits would need a file of 4 TiB; the walk will not find it, and will say so.
        if let (Some(header), Ok(page)) = (Header::read(extent), u32::try_from(page)) {
            self.ledger.judge(page, header, extent, self.next_page * self.meta.page_bytes);
        }
    }
}

impl OpenPages {
    fn push(&mut self, start: u64, end: u64) {
        self.by_end.push(Reverse((end, start)));
        self.starts.insert(start);
    }

    /// The start of an open page that ends where page `end` begins.
    fn pop_ending_at(&mut self, end: u64) -> Option<u64> {
        let Reverse((first_end, start)) = *self.by_end.peek()?;
        if first_end != end {
            return None;
        }
        self.by_end.pop();
        self.starts.remove(&start);
        Some(start)
    }

    fn earliest(&self) -> Option<u64> {
        self.starts.first().copied()
    }
}
