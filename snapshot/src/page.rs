//! Reading one bbolt page: its header, its elements, and nothing outside its bounds.
//!
//! Invariant: total over bytes. Every position is checked in 64 bits before it is used, and the elements of a page may
//! not claim more bytes than the page has, so that the work on a page is linear in its length.

/// The header before the elements.
pub(crate) const HEADER_BYTES: usize = 16;
const ELEMENT_BYTES: usize = 16;

pub(crate) const BRANCH_FLAG: u16 = 0x01;
pub(crate) const LEAF_FLAG: u16 = 0x02;
pub(crate) const FREE_LIST_FLAG: u16 = 0x10;

/// In a leaf element: the value is a bucket.
const BUCKET_FLAG: u32 = 0x01;

/// In a free-list page: the count did not fit, and the first id is the real one.
const COUNT_IN_BODY: u16 = 0xFFFF;

/// The first 16 bytes of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) id: u64,
    pub(crate) flags: u16,
    pub(crate) count: u16,
    pub(crate) overflow: u32,
}

impl Header {
    pub(crate) fn read(page: &[u8]) -> Option<Self> {
        let header = page.get(..HEADER_BYTES)?;
        Some(Header {
            id: u64_at(header, 0),
            flags: u16::from_le_bytes([header[8], header[9]]),
            count: u16::from_le_bytes([header[10], header[11]]),
            overflow: u32_at(header, 12),
        })
    }
}

/// Why a page cannot be read, or not be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageFault {
    /// Its table of elements is longer than the page.
    TableOutside,
    /// An element lies in the table or outside the page.
    ElementOutside,
    /// The elements together claim more bytes than the page has.
    ElementsOverlap,
    /// A branch without children.
    EmptyBranch,
    /// Its keys do not ascend.
    KeyOrder,
}

impl PageFault {
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            PageFault::TableOutside => "has a table of elements that is longer than the page",
            PageFault::ElementOutside => "has an element outside the page",
            PageFault::ElementsOverlap => "has elements that lie over each other",
            PageFault::EmptyBranch => "is a branch without children",
            PageFault::KeyOrder => "has keys that do not ascend",
        }
    }
}

/// A pair of a leaf page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) is_bucket: bool,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Where the key starts in the page; the value follows it.
    pub(crate) start: usize,
}

/// A child of a branch page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch<'a> {
    pub(crate) separator: &'a [u8],
    pub(crate) child: u64,
}

/// The elements of a page, each checked as it is reached.
struct Table<'a> {
    extent: &'a [u8],
    count: usize,
    next: usize,
    claimed_bytes: u64,
}

impl<'a> Table<'a> {
    fn open(extent: &'a [u8], count: u16) -> Result<Self, PageFault> {
        let count = usize::from(count);
        if HEADER_BYTES + ELEMENT_BYTES * count > extent.len() {
            return Err(PageFault::TableOutside);
        }
        Ok(Table { extent, count, next: 0, claimed_bytes: 0 })
    }

    /// The next element's 16 bytes and its number.
    fn advance(&mut self) -> Option<(&'a [u8], usize)> {
        if self.next == self.count {
            return None;
        }
        let at = HEADER_BYTES + ELEMENT_BYTES * self.next;
        self.next += 1;
        Some((&self.extent[at..at + ELEMENT_BYTES], at))
    }

    /// The bytes of an element whose table entry lies at `at`.
    fn content(&mut self, at: usize, position: u32, bytes: u64) -> Result<(&'a [u8], usize), PageFault> {
        let table_end = (HEADER_BYTES + ELEMENT_BYTES * self.count) as u64;
        let start = at as u64 + u64::from(position);
        if start < table_end || start + bytes > self.extent.len() as u64 {
            return Err(PageFault::ElementOutside);
        }
        self.claimed_bytes += bytes;
        if table_end + self.claimed_bytes > self.extent.len() as u64 {
            return Err(PageFault::ElementsOverlap);
        }
        let start = start as usize;
        Ok((&self.extent[start..start + bytes as usize], start))
    }
}

/// Calls `each` with the pairs of a leaf, in order, until the page or `each` finds a fault.
pub(crate) fn for_each_pair<'a>(
    extent: &'a [u8],
    count: u16,
    mut each: impl FnMut(Pair<'a>) -> Result<(), PageFault>,
) -> Result<(), PageFault> {
    let mut table = Table::open(extent, count)?;
    while let Some((element, at)) = table.advance() {
        let (key_bytes, value_bytes) = (u32_at(element, 8), u32_at(element, 12));
        let total_bytes = u64::from(key_bytes) + u64::from(value_bytes);
        let (content, start) = table.content(at, u32_at(element, 4), total_bytes)?;
        let (key, value) = content.split_at(key_bytes as usize);
        each(Pair { is_bucket: u32_at(element, 0) & BUCKET_FLAG != 0, key, value, start })?;
    }
    Ok(())
}

/// Calls `each` with the children of a branch, in order, until the page or `each` finds a fault.
pub(crate) fn for_each_child<'a>(
    extent: &'a [u8],
    count: u16,
    mut each: impl FnMut(Branch<'a>) -> Result<(), PageFault>,
) -> Result<(), PageFault> {
    if count == 0 {
        return Err(PageFault::EmptyBranch);
    }
    let mut table = Table::open(extent, count)?;
    while let Some((element, at)) = table.advance() {
        let (separator, _) = table.content(at, u32_at(element, 0), u64::from(u32_at(element, 4)))?;
        each(Branch { separator, child: u64_at(element, 8) })?;
    }
    Ok(())
}

/// The page ids of a free-list page, or nothing if they do not fit into it.
pub(crate) fn free_ids(extent: &[u8], count: u16) -> Option<impl Iterator<Item = u64>> {
    let body = extent.get(HEADER_BYTES..)?;
    let (count, ids) = match count {
        COUNT_IN_BODY => (u64_at(body.get(..8)?, 0), &body[8..]),
        count => (u64::from(count), body),
    };
    let bytes = usize::try_from(count.checked_mul(8)?).ok()?;
    Some(ids.get(..bytes)?.chunks_exact(8).map(|id| u64_at(id, 0)))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
}
