//! Writes a large, whole snapshot for measurements: `grow FILE MIB [VALUE_BYTES]`.
//!
//! The pages are laid out as bbolt does it, with a third of them free and full of stale leaves, since that is what the
//! check has to carry along in a real database.

use std::io::Write;

use sha2::{Digest, Sha256};

const PAGE_BYTES: usize = 4096;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(mib)) = (arguments.next(), arguments.next().and_then(|mib| mib.parse::<u64>().ok())) else {
        return Err(std::io::Error::other("usage: grow FILE MIB [VALUE_BYTES]"));
    };
    let value_bytes: usize = arguments.next().and_then(|bytes| bytes.parse().ok()).unwrap_or(900);
    let leaves = mib * (1 << 20) / PAGE_BYTES as u64;

    let mut file = Sealing { file: std::io::BufWriter::new(std::fs::File::create(path)?), hasher: Sha256::new() };
    // Branches come last, so that their number is known when the root is written: it lies behind them.
    let mut level = Vec::new();
    let mut branches = Vec::new();
    let mut id = 2 + leaves;
    let mut revision = 1;
    let mut pages = Vec::new();
    for leaf in 2..2 + leaves {
        let first = revision + 1;
        let page = leaf_page(leaf, &mut revision, value_bytes);
        if leaf % 3 != 0 {
            level.push((revision_key(first), leaf));
        }
        pages.push((leaf, first, page.len()));
    }
    while level.len() > 1 || branches.is_empty() {
        let mut above = Vec::new();
        for children in level.chunks(100) {
            branches.push(branch_page(id, children));
            above.push((children[0].0.clone(), id));
            id += 1;
        }
        level = above;
    }
    let key_root = id - 1;
    let root = id;
    let high_water = id + 1;

    for transaction in [9, 8] {
        file.put(&meta_page(root, high_water, transaction))?;
    }
    for (leaf, first, _) in pages {
        let mut revision = first - 1;
        file.put(&leaf_page(leaf, &mut revision, value_bytes))?;
    }
    for branch in branches {
        file.put(&branch)?;
    }
    file.put(&root_page(root, key_root))?;
    file.seal()
}

struct Sealing {
    file: std::io::BufWriter<std::fs::File>,
    hasher: Sha256,
}

impl Sealing {
    fn put(&mut self, page: &[u8]) -> std::io::Result<()> {
        self.hasher.update(page);
        self.file.write_all(page)
    }

    fn seal(mut self) -> std::io::Result<()> {
        self.file.write_all(&self.hasher.finalize())?;
        self.file.flush()
    }
}

fn revision_key(main: u64) -> Vec<u8> {
    [&main.to_be_bytes()[..], b"_", &[0; 8]].concat()
}

fn header(id: u64, flags: u16, count: usize) -> Vec<u8> {
    let mut page = id.to_le_bytes().to_vec();
    page.extend_from_slice(&flags.to_le_bytes());
    page.extend_from_slice(&(count as u16).to_le_bytes());
    page.extend_from_slice(&[0; 4]);
    page
}

fn leaf_page(id: u64, revision: &mut u64, value_bytes: usize) -> Vec<u8> {
    let mut pairs = Vec::new();
    let mut left = PAGE_BYTES - 16;
    loop {
        let main = *revision + 1;
        let name = format!("/registry/pods/team-{}/worker-{main:08}", main % 97);
        let mut value = vec![0x0A, name.len() as u8];
        value.extend_from_slice(name.as_bytes());
        value.push(0x18);
        varint(&mut value, main);
        value.push(0x2A);
        varint(&mut value, value_bytes as u64);
        value.extend((0..value_bytes).map(|n| (n as u64).wrapping_mul(main) as u8));
        let needed = 16 + 17 + value.len();
        if needed > left {
            break;
        }
        left -= needed;
        pairs.push((revision_key(main), value));
        *revision = main;
    }
    assert!(!pairs.is_empty(), "a value has to fit into a page");
    leaf_of(id, &pairs, 0)
}

fn leaf_of(id: u64, pairs: &[(Vec<u8>, Vec<u8>)], flag: u32) -> Vec<u8> {
    let mut page = header(id, 2, pairs.len());
    let mut content = 16 + 16 * pairs.len();
    for (number, (key, value)) in pairs.iter().enumerate() {
        for field in [flag, (content - 16 - 16 * number) as u32, key.len() as u32, value.len() as u32] {
            page.extend_from_slice(&field.to_le_bytes());
        }
        content += key.len() + value.len();
    }
    for (key, value) in pairs {
        page.extend_from_slice(key);
        page.extend_from_slice(value);
    }
    page.resize(PAGE_BYTES, 0);
    page
}

fn branch_page(id: u64, children: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let mut page = header(id, 1, children.len());
    let mut content = 16 + 16 * children.len();
    for (number, (separator, child)) in children.iter().enumerate() {
        page.extend_from_slice(&((content - 16 - 16 * number) as u32).to_le_bytes());
        page.extend_from_slice(&(separator.len() as u32).to_le_bytes());
        page.extend_from_slice(&child.to_le_bytes());
        content += separator.len();
    }
    children.iter().for_each(|(separator, _)| page.extend_from_slice(separator));
    page.resize(PAGE_BYTES, 0);
    page
}

fn root_page(id: u64, key_root: u64) -> Vec<u8> {
    let key = [key_root.to_le_bytes(), [0; 8]].concat();
    let meta = [vec![0; 16], header(0, 2, 0)].concat();
    leaf_of(id, &[(b"key".to_vec(), key), (b"meta".to_vec(), meta)], 1)
}

fn meta_page(root: u64, high_water: u64, transaction: u64) -> Vec<u8> {
    let mut page = header(9 - transaction, 4, 0);
    for word in [0xED0C_DAED, 2, PAGE_BYTES as u32, 0] {
        page.extend_from_slice(&word.to_le_bytes());
    }
    for field in [root, 0, u64::MAX, high_water, transaction] {
        page.extend_from_slice(&field.to_le_bytes());
    }
    let sum = page[16..72]
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    page.extend_from_slice(&sum.to_le_bytes());
    page.resize(PAGE_BYTES, 0);
    page
}

fn varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}
