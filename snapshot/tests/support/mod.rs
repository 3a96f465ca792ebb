//! What the tests of this crate share: the fixtures, and snapshots that are made or broken on the spot.
#![allow(clippy::unwrap_used, dead_code)]

use std::path::PathBuf;

use bronzenail_snapshot::{Report, StreamCheck};
use sha2::{Digest, Sha256};

pub fn fixtures_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A fixture by its plain name.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = fixtures_dir().join(name);
    if path.exists() {
        return std::fs::read(path).unwrap();
    }
    let compressed = std::fs::read(fixtures_dir().join(format!("{name}.zst"))).unwrap();
    zstd::decode_all(&compressed[..]).unwrap()
}

pub fn check(bytes: &[u8]) -> Report {
    let mut check = StreamCheck::new();
    check.update(bytes);
    check.finish()
}

pub fn check_in_pieces(bytes: &[u8], mut piece_bytes: impl FnMut() -> usize) -> Report {
    let mut check = StreamCheck::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(piece_bytes().clamp(1, rest.len()));
        check.update(piece);
        rest = left;
    }
    check.finish()
}

/// Makes the trailer anew, for a file that has one.
pub fn reseal(bytes: &mut [u8]) {
    let end = bytes.len() - 32;
    let trailer = Sha256::digest(&bytes[..end]);
    bytes[end..].copy_from_slice(&trailer);
}

pub fn sealed(mut database: Vec<u8>) -> Vec<u8> {
    database.extend_from_slice(&[0; 32]);
    reseal(&mut database);
    database
}

/// The fields of a meta page.
#[derive(Clone, Copy)]
pub struct MetaFields {
    pub page_bytes: usize,
    pub root: u64,
    pub free_list: u64,
    pub high_water: u64,
    pub transaction_id: u64,
}

/// Writes a whole meta page with a right checksum.
pub fn write_meta(page: &mut [u8], number: u64, fields: MetaFields) {
    page[..8].copy_from_slice(&number.to_le_bytes());
    page[8..16].copy_from_slice(&[4, 0, 0, 0, 0, 0, 0, 0]);
    page[16..20].copy_from_slice(&0xED0C_DAEDu32.to_le_bytes());
    page[20..24].copy_from_slice(&2u32.to_le_bytes());
    page[24..28].copy_from_slice(&(fields.page_bytes as u32).to_le_bytes());
    page[28..32].fill(0);
    for (at, value) in
        [(32, fields.root), (40, 0), (48, fields.free_list), (56, fields.high_water), (64, fields.transaction_id)]
    {
        page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    reseal_meta(page);
}

/// Makes the checksum of a meta page anew.
pub fn reseal_meta(page: &mut [u8]) {
    let sum = page[16..72]
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    page[72..80].copy_from_slice(&sum.to_le_bytes());
}

pub fn write_header(page: &mut [u8], id: u64, flags: u16, count: u16, overflow: u32) {
    page[..8].copy_from_slice(&id.to_le_bytes());
    page[8..10].copy_from_slice(&flags.to_le_bytes());
    page[10..12].copy_from_slice(&count.to_le_bytes());
    page[12..16].copy_from_slice(&overflow.to_le_bytes());
}

pub const BRANCH: u16 = 1;
pub const LEAF: u16 = 2;
pub const NO_FREE_LIST: u64 = u64::MAX;

/// Writes a leaf page as bbolt does: table first, then keys and values one behind the other.
pub fn write_leaf(page: &mut [u8], id: u64, overflow: u32, pairs: &[(&[u8], &[u8], bool)]) {
    write_header(page, id, LEAF, pairs.len() as u16, overflow);
    let mut content = 16 + 16 * pairs.len();
    for (number, (key, value, is_bucket)) in pairs.iter().enumerate() {
        let at = 16 + 16 * number;
        for (offset, field) in
            [(0, u32::from(*is_bucket)), (4, (content - at) as u32), (8, key.len() as u32), (12, value.len() as u32)]
        {
            page[at + offset..at + offset + 4].copy_from_slice(&field.to_le_bytes());
        }
        page[content..content + key.len()].copy_from_slice(key);
        content += key.len();
        page[content..content + value.len()].copy_from_slice(value);
        content += value.len();
    }
}

pub fn write_branch(page: &mut [u8], id: u64, overflow: u32, children: &[(&[u8], u64)]) {
    write_header(page, id, BRANCH, children.len() as u16, overflow);
    let mut content = 16 + 16 * children.len();
    for (number, (separator, child)) in children.iter().enumerate() {
        let at = 16 + 16 * number;
        page[at..at + 4].copy_from_slice(&((content - at) as u32).to_le_bytes());
        page[at + 4..at + 8].copy_from_slice(&(separator.len() as u32).to_le_bytes());
        page[at + 8..at + 16].copy_from_slice(&child.to_le_bytes());
        page[content..content + separator.len()].copy_from_slice(separator);
        content += separator.len();
    }
}

/// A revision key of the `key` bucket.
pub fn revision(main: u64) -> Vec<u8> {
    [&main.to_be_bytes()[..], b"_", &[0; 8]].concat()
}

/// A KeyValue message with a key, a revision and a value.
pub fn key_value(key: &[u8], main: u64, value: &[u8]) -> Vec<u8> {
    let mut message = vec![0x0A];
    put_varint(&mut message, key.len() as u64);
    message.extend_from_slice(key);
    message.push(0x18);
    put_varint(&mut message, main);
    message.push(0x2A);
    put_varint(&mut message, value.len() as u64);
    message.extend_from_slice(value);
    message
}

fn put_varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

/// The value of a bucket whose pages start at `root`.
pub fn bucket_at(root: u64) -> Vec<u8> {
    [root.to_le_bytes(), [0; 8]].concat()
}

/// The value of an empty inline bucket.
pub fn empty_bucket() -> Vec<u8> {
    let mut value = vec![0; 32];
    write_header(&mut value[16..], 0, LEAF, 0, 0);
    value
}

/// The value of an inline bucket with these pairs.
pub fn inline_bucket(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let content_bytes: usize = pairs.iter().map(|(key, value)| 16 + key.len() + value.len()).sum();
    let mut value = vec![0; 16 + 16 + content_bytes];
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, *value, false)).collect();
    write_leaf(&mut value[16..], 0, 0, &pairs);
    value
}

/// A database of empty pages whose root, page 2, holds the buckets `key` (at `key_root`) and `meta` (empty).
pub fn database(page_bytes: usize, pages: u64, key_root: u64) -> Vec<u8> {
    let mut bytes = vec![0; page_bytes * pages as usize];
    let fields = MetaFields { page_bytes, root: 2, free_list: NO_FREE_LIST, high_water: pages, transaction_id: 8 };
    for number in 0..2 {
        let page = &mut bytes[page_bytes * number..page_bytes * (number + 1)];
        write_meta(page, number as u64, MetaFields { transaction_id: 8 - number as u64, ..fields });
    }
    write_leaf(
        &mut bytes[2 * page_bytes..3 * page_bytes],
        2,
        0,
        &[(b"key", &bucket_at(key_root), true), (b"meta", &empty_bucket(), true)],
    );
    bytes
}
