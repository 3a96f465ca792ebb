//! bbolt's two meta pages: where the tree starts and how long the file has to be.
//!
//! Invariant: a [`Meta`] exists only if its magic, version and checksum were right and its page size is one that bbolt
//! can have written. The search keeps 80 bytes at a time, whatever page size the file claims.

/// A meta page needs its header and fields only; the rest of the page is slack.
pub(crate) const META_BYTES: usize = 80;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const META_FLAG: u16 = 0x04;
/// In the free-list field: this file carries no free list.
const NO_FREE_LIST: u64 = u64::MAX;

/// bbolt looks for its second meta page at 1024 << k for k in 0..=14: the page sizes that it can have.
const SMALLEST_PAGE_BYTES: u64 = 1024;
const LARGEST_PAGE_BYTES: u64 = 1024 << 14;

/// The fields of a meta page that held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_bytes: u64,
    pub(crate) root_page: u64,
    pub(crate) free_list_page: Option<u64>,
    /// The first page number that is not in use: the number of pages of the file.
    pub(crate) high_water: u64,
    pub(crate) transaction_id: u64,
}

impl Meta {
    /// Reads a meta page from its first 80 bytes, or says nothing if it does not hold.
    pub(crate) fn parse(page: &[u8; META_BYTES]) -> Option<Self> {
        if u32_at(page, 16) != MAGIC || u32_at(page, 20) != VERSION || u64_at(page, 72) != fnv1a(&page[16..72]) {
            return None;
        }
        let page_bytes = u64::from(u32_at(page, 24));
        if !page_bytes.is_power_of_two() || !(SMALLEST_PAGE_BYTES..=LARGEST_PAGE_BYTES).contains(&page_bytes) {
            return None;
        }
        let free_list = u64_at(page, 48);
        Some(Meta {
            page_bytes,
            root_page: u64_at(page, 32),
            free_list_page: (free_list != NO_FREE_LIST).then_some(free_list),
            high_water: u64_at(page, 56),
            transaction_id: u64_at(page, 64),
        })
    }

    /// The length of the database without a trailer. Wide, because a hostile file can claim anything.
    pub(crate) fn data_bytes(&self) -> u128 {
        u128::from(self.high_water) * u128::from(self.page_bytes)
    }
}

/// Whether the first bytes of a file look like a bbolt database at all, intact or not.
///
/// Damage spares at least one of the marks more often than not; a web page or a text has none of them.
pub(crate) fn looks_like_bbolt(head: &[u8]) -> bool {
    let magic = head.len() >= 20 && head[16..20] == MAGIC.to_le_bytes();
    let header = head.len() >= 10 && head[..8] == [0; 8] && head[8..10] == META_FLAG.to_le_bytes();
    magic || header
}

/// What the search for the meta pages found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metas {
    pub(crate) first: Option<Meta>,
    pub(crate) second: Option<Meta>,
}

impl Metas {
    /// The one that bbolt would use: the valid one with the higher transaction id.
    pub(crate) fn chosen(&self) -> Option<Meta> {
        match (self.first, self.second) {
            (Some(first), Some(second)) if second.transaction_id > first.transaction_id => Some(second),
            (first, second) => first.or(second),
        }
    }
}

/// Finds the meta pages as the stream goes by.
pub(crate) struct MetaSearch {
    head: [u8; META_BYTES],
    head_len: usize,
    window: [u8; META_BYTES],
    window_len: usize,
    /// The offset of the window: 0, then the second page.
    window_at: u64,
    metas: Metas,
}

/// How far the search is.
pub(crate) enum Progress {
    /// It needs more of the stream.
    Searching,
    /// Both places were looked at, and at least one meta page holds. Always said before the third page begins.
    Found,
    /// No page size leads to a meta page that holds.
    Nothing,
}

impl MetaSearch {
    pub(crate) fn new() -> Self {
        MetaSearch {
            head: [0; META_BYTES],
            head_len: 0,
            window: [0; META_BYTES],
            window_len: 0,
            window_at: 0,
            metas: Metas { first: None, second: None },
        }
    }

    pub(crate) fn metas(&self) -> Metas {
        self.metas
    }

    /// The first bytes of the file, as many of the first 80 as have come.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    /// Takes bytes that start at `offset` of the stream.
    pub(crate) fn update(&mut self, bytes: &[u8], offset: u64) -> Progress {
        let end = offset + bytes.len() as u64;
        loop {
            let wanted_from = self.window_at + self.window_len as u64;
            if wanted_from >= end {
                return Progress::Searching;
            }
            // Cannot go below zero: whatever came before `offset` was taken by an earlier call.
            let skip = wanted_from.saturating_sub(offset) as usize;
            let taken = (META_BYTES - self.window_len).min(bytes.len() - skip);
            self.window[self.window_len..self.window_len + taken].copy_from_slice(&bytes[skip..skip + taken]);
            self.window_len += taken;
            if self.window_at == 0 {
                self.head = self.window;
                self.head_len = self.window_len;
            }
            if self.window_len < META_BYTES {
                return Progress::Searching;
            }
            match self.judge_window() {
                Progress::Searching => self.window_len = 0,
                decided => return decided,
            }
        }
    }

    /// Looks at a full window and either decides or moves it on.
    fn judge_window(&mut self) -> Progress {
        let meta = Meta::parse(&self.window);
        if self.window_at == 0 {
            self.metas.first = meta;
            self.window_at = meta.map_or(SMALLEST_PAGE_BYTES, |meta| meta.page_bytes);
            return Progress::Searching;
        }
        // A meta page that speaks of another page size than the one that led here is a stale one, or a trap.
        self.metas.second = meta.filter(|meta| meta.page_bytes == self.window_at);
        if self.metas.chosen().is_some() {
            return Progress::Found;
        }
        if self.window_at == LARGEST_PAGE_BYTES {
            return Progress::Nothing;
        }
        self.window_at *= 2;
        Progress::Searching
    }
}

/// FNV-1a, 64 bits: bbolt's checksum of the meta fields.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn u32_at(page: &[u8; META_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes of a fixed array"))
}

fn u64_at(page: &[u8; META_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes of a fixed array"))
}
