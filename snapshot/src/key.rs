//! Keys that outlive their page, and the one buffer that holds whatever does not fit beside them.
//!
//! Invariant: memory is capped. Revision keys (17 or 18 bytes, nearly all there are) live inside [`Key`] itself; longer
//! keys and the children of branches share an [`Arena`], which refuses to grow beyond its cap.

use std::cmp::Ordering;

use crate::schema::{REVISION_BYTES, SEPARATOR};

/// The longest key that needs no room in the arena: a tombstone's.
const INLINE_BYTES: usize = 18;

/// Stands in the length of a key that lies in the arena.
const IN_ARENA: u8 = u8::MAX;

/// All long keys and all children of branches, live and stale, may take this much, and something for each page that
/// has come by: the number of stale branches grows with the file. A child costs about 7 bytes.
const ARENA_CAP_BYTES: u64 = 128 << 20;
const ARENA_CAP_PER_PAGE_BYTES: u64 = 48;

/// A key that was copied out of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    len: u8,
    bytes: [u8; INLINE_BYTES],
}

impl Key {
    /// The key that is smaller than all others.
    pub(crate) const EMPTY: Key = Key { len: 0, bytes: [0; INLINE_BYTES] };

    /// Copies a short key.
    fn inline(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; INLINE_BYTES];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Key { len: key.len() as u8, bytes })
    }

    /// Names a key that lies in the arena.
    fn in_arena(offset: u32, len: u32) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        bytes[..4].copy_from_slice(&offset.to_le_bytes());
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        Key { len: IN_ARENA, bytes }
    }

    /// The bytes of the key.
    pub(crate) fn get<'a>(&'a self, arena: &'a Arena) -> &'a [u8] {
        if self.len != IN_ARENA {
            return &self.bytes[..usize::from(self.len)];
        }
        let [a, b, c, d, e, f, g, h] = self.bytes[..8].try_into().expect("eight bytes of a fixed array");
        let offset = u32::from_le_bytes([a, b, c, d]) as usize;
        let len = u32::from_le_bytes([e, f, g, h]) as usize;
        &arena.bytes[offset..offset + len]
    }

    pub(crate) fn compare(&self, other: &Key, arena: &Arena) -> Ordering {
        self.get(arena).cmp(other.get(arena))
    }
}

/// The arena is at its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaFull;

/// Grows only, up to its cap.
pub(crate) struct Arena {
    bytes: Vec<u8>,
    cap_bytes: usize,
}

impl Default for Arena {
    fn default() -> Self {
        Arena { bytes: Vec::new(), cap_bytes: ARENA_CAP_BYTES as usize }
    }
}

impl Arena {
    /// Raises the cap to what a file of so many pages may need. Offsets have 32 bits.
    pub(crate) fn allow_for(&mut self, pages: u64) {
        let cap_bytes = ARENA_CAP_BYTES.saturating_add(ARENA_CAP_PER_PAGE_BYTES.saturating_mul(pages));
        self.cap_bytes = cap_bytes.min(u64::from(u32::MAX)) as usize;
    }

    /// Keeps a key for the end of the stream.
    pub(crate) fn keep(&mut self, key: &[u8]) -> Result<Key, ArenaFull> {
        if let Some(key) = Key::inline(key) {
            return Ok(key);
        }
        let offset = self.make_room(key.len())?;
        self.bytes.extend_from_slice(key);
        Ok(Key::in_arena(offset, key.len() as u32))
    }

    /// Where the next thing will be written.
    pub(crate) fn mark(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Forgets what was written since `mark`.
    pub(crate) fn rewind(&mut self, mark: u32) {
        self.bytes.truncate(mark as usize);
    }

    fn make_room(&mut self, bytes: usize) -> Result<u32, ArenaFull> {
        if self.bytes.len() + bytes > self.cap_bytes {
            return Err(ArenaFull);
        }
        Ok(self.mark())
    }

    fn put_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn number_at(&self, at: &mut usize) -> u64 {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = self.bytes[*at];
            *at += 1;
            number |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }
}

/// How a separator was written down.
const AS_REVISION: u64 = 0;
/// Numbers from here on are 1 + the length of a key that is written as it is.
const AS_BYTES: u64 = 1;

/// Writes the children of one branch, packed: separators are nearly always neighbouring revisions.
///
/// Stale branches are as many as commits since the last compaction, and each names a hundred children: this is what
/// decides how much memory a busy database needs.
#[derive(Default)]
pub(crate) struct ChildWriter {
    revision: u64,
    child: u64,
}

impl ChildWriter {
    pub(crate) fn put(&mut self, arena: &mut Arena, separator: &[u8], child: u64) -> Result<(), ArenaFull> {
        // Two numbers of at most 10 bytes each, one of 10 for the length, and the key.
        arena.make_room(separator.len() + 30)?;
        arena.put_number(zigzag(child.wrapping_sub(self.child)));
        self.child = child;
        match plain_revision(separator) {
            Some((main, sub)) => {
                arena.put_number(AS_REVISION);
                arena.put_number(zigzag(main.wrapping_sub(self.revision)));
                arena.put_number(sub);
                self.revision = main;
            }
            None => {
                arena.put_number(AS_BYTES + separator.len() as u64);
                arena.bytes.extend_from_slice(separator);
            }
        }
        Ok(())
    }
}

/// Reads back what a [`ChildWriter`] wrote.
pub(crate) struct ChildReader<'a> {
    arena: &'a Arena,
    at: usize,
    left: u16,
    revision: u64,
    child: u64,
}

impl<'a> ChildReader<'a> {
    pub(crate) fn new(arena: &'a Arena, mark: u32, count: u16) -> Self {
        ChildReader { arena, at: mark as usize, left: count, revision: 0, child: 0 }
    }
}

impl Iterator for ChildReader<'_> {
    type Item = (Key, u64);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.child = self.child.wrapping_add(unzigzag(self.arena.number_at(&mut self.at)));
        let form = self.arena.number_at(&mut self.at);
        if form == AS_REVISION {
            self.revision = self.revision.wrapping_add(unzigzag(self.arena.number_at(&mut self.at)));
            let sub = self.arena.number_at(&mut self.at);
            return Some((revision_key(self.revision, sub), self.child));
        }
        let len = (form - AS_BYTES) as usize;
        let bytes = &self.arena.bytes[self.at..self.at + len];
        let key = Key::inline(bytes).unwrap_or_else(|| Key::in_arena(self.at as u32, len as u32));
        self.at += len;
        Some((key, self.child))
    }
}

/// The two numbers of a 17-byte revision key.
fn plain_revision(key: &[u8]) -> Option<(u64, u64)> {
    let key: &[u8; REVISION_BYTES] = key.try_into().ok()?;
    let (main, rest) = key.split_first_chunk::<8>()?;
    let (separator, sub) = rest.split_first()?;
    let sub = sub.first_chunk::<8>()?;
    (*separator == SEPARATOR).then(|| (u64::from_be_bytes(*main), u64::from_be_bytes(*sub)))
}

fn revision_key(main: u64, sub: u64) -> Key {
    let mut bytes = [0; INLINE_BYTES];
    bytes[..8].copy_from_slice(&main.to_be_bytes());
    bytes[8] = SEPARATOR;
    bytes[9..17].copy_from_slice(&sub.to_be_bytes());
    Key { len: REVISION_BYTES as u8, bytes }
}

/// Small differences in either direction become small numbers.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_come_back_as_they_were_written() {
        let revision = |main: u64, sub: u64| revision_key(main, sub).get(&Arena::default()).to_vec();
        let children = [
            (revision(5, 0), 7),
            (revision(u64::MAX, u64::MAX), u64::MAX),
            (revision(2, 9), 3),
            (b"".to_vec(), 0),
            (b"short".to_vec(), 1 << 63),
            (vec![b'l'; 300], 12),
        ];
        let mut arena = Arena::default();
        arena.keep(&[1; 40]).unwrap();
        let mark = arena.mark();
        let mut writer = ChildWriter::default();
        for (separator, child) in &children {
            writer.put(&mut arena, separator, *child).unwrap();
        }
        let read: Vec<_> = ChildReader::new(&arena, mark, children.len() as u16)
            .map(|(key, child)| (key.get(&arena).to_vec(), child))
            .collect();
        assert_eq!(read, children);
    }

    #[test]
    fn a_full_arena_refuses_long_keys_and_still_takes_short_ones() {
        let mut arena = Arena { bytes: vec![0; 1000], cap_bytes: 1000 };
        assert_eq!(arena.keep(&[0; 19]).unwrap_err(), ArenaFull);
        assert!(arena.keep(&[0; 18]).is_ok());
        assert_eq!(ChildWriter::default().put(&mut arena, b"", 0), Err(ArenaFull));
        arena.allow_for(1);
        assert!(arena.keep(&[0; 19]).is_ok());
        arena.allow_for(u64::MAX);
        assert_eq!(arena.cap_bytes, u32::MAX as usize);
    }
}
