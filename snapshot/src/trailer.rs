//! The SHA-256 that etcd appends to a snapshot, checked in one pass.
//!
//! Invariant: the hasher has seen every byte but the last 32, so that at the end one clone answers both questions: what
//! the bytes before the trailer hash to, and what the whole file hashes to. Hashing twice would halve the speed.

use sha2::{Digest, Sha256};

/// The length of etcd's trailer: one SHA-256.
pub(crate) const TRAILER_BYTES: usize = 32;

/// bbolt pages are multiples of a disk sector, so a remainder of 32 is what a trailer leaves behind. It is the rule of
/// etcd's own client, and it says only that a trailer is *there*, never that it is right.
const SECTOR_BYTES: u64 = 512;

/// What the end of the file says about the bytes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trailer {
    /// There is no trailer, judging by the length of the file.
    Absent,
    /// The last 32 bytes are the SHA-256 of everything before them.
    Matches,
    /// The length says that there is a trailer, but it is not the SHA-256 of what comes before it.
    Mismatch {
        /// What the last 32 bytes say.
        expected: [u8; 32],
        /// What the bytes before them hash to.
        found: [u8; 32],
    },
}

/// Hashes a stream while holding its last 32 bytes back.
pub(crate) struct TrailerHash {
    hasher: Sha256,
    held: [u8; TRAILER_BYTES],
    held_len: usize,
    bytes: u64,
}

/// Both answers, at the end of the stream.
pub(crate) struct Hashed {
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
    pub(crate) trailer: Trailer,
}

impl TrailerHash {
    pub(crate) fn new() -> Self {
        TrailerHash { hasher: Sha256::new(), held: [0; TRAILER_BYTES], held_len: 0, bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if bytes.len() >= TRAILER_BYTES {
            let (body, tail) = bytes.split_at(bytes.len() - TRAILER_BYTES);
            self.hasher.update(&self.held[..self.held_len]);
            self.hasher.update(body);
            self.held.copy_from_slice(tail);
            self.held_len = TRAILER_BYTES;
            return;
        }
        let released = (self.held_len + bytes.len()).saturating_sub(TRAILER_BYTES);
        self.hasher.update(&self.held[..released]);
        self.held.copy_within(released..self.held_len, 0);
        let kept = self.held_len - released;
        self.held[kept..kept + bytes.len()].copy_from_slice(bytes);
        self.held_len = kept + bytes.len();
    }

    pub(crate) fn finish(mut self) -> Hashed {
        let before: [u8; 32] = self.hasher.clone().finalize().into();
        self.hasher.update(&self.held[..self.held_len]);
        let sha256 = self.hasher.finalize().into();
        // A hash in the last 32 bytes of a page is no trailer, even if it is right: etcd would not look for it there.
        let trailer = if self.bytes % SECTOR_BYTES != TRAILER_BYTES as u64 {
            Trailer::Absent
        } else if before == self.held {
            Trailer::Matches
        } else {
            Trailer::Mismatch { expected: self.held, found: before }
        };
        Hashed { bytes: self.bytes, sha256, trailer }
    }
}
