//! Joining CRC-32Cs: the checksum of a long text from those of its parts.
//!
//! Pages go by in file order, but etcd's status hash runs over the pairs in key order. A CRC is linear: appending n bytes
//! multiplies it by a matrix that depends on n alone, so the parts can be joined later, without their content. The
//! matrices for all powers of two are tables here, which makes a join some 30 ns; squaring them anew each time
//! costs microseconds, and there is one join per page.

use std::sync::LazyLock;

/// The Castagnoli polynomial, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// One per bit of a length.
const POWERS: usize = u32::BITS as usize;

static POWERS_OF_TWO: LazyLock<Vec<Tables>> = LazyLock::new(powers_of_two);

/// What a run of 2^k zero bytes does to a CRC, as four tables of 256.
type Tables = [[u32; 256]; 4];

/// The CRC of the text of `first` followed by the `second_bytes` long text of `second`.
pub(crate) fn join(first: u32, second: u32, second_bytes: u32) -> u32 {
    let powers = &*POWERS_OF_TWO;
    let mut crc = first;
    let mut rest = second_bytes;
    while rest != 0 {
        crc = apply(&powers[rest.trailing_zeros() as usize], crc);
        rest &= rest - 1;
    }
    crc ^ second
}

fn powers_of_two() -> Vec<Tables> {
    let mut powers = Vec::with_capacity(POWERS);
    let mut columns = one_zero_byte();
    for _ in 0..POWERS {
        let tables = tabulate(&columns);
        columns = columns.map(|column| apply(&tables, column));
        powers.push(tables);
    }
    powers
}

/// The matrix for one zero byte: eight steps of the shift register, for each bit that can be set.
fn one_zero_byte() -> [u32; 32] {
    std::array::from_fn(|bit| {
        let mut crc = 1u32 << bit;
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
        }
        crc
    })
}

fn tabulate(columns: &[u32; 32]) -> Tables {
    let mut tables = [[0; 256]; 4];
    for (position, table) in tables.iter_mut().enumerate() {
        for (byte, entry) in table.iter_mut().enumerate() {
            *entry = (0..8).filter(|bit| byte >> bit & 1 == 1).fold(0, |sum, bit| sum ^ columns[position * 8 + bit]);
        }
    }
    tables
}

fn apply(tables: &Tables, crc: u32) -> u32 {
    let [a, b, c, d] = crc.to_le_bytes();
    tables[0][a as usize] ^ tables[1][b as usize] ^ tables[2][c as usize] ^ tables[3][d as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_parts_have_the_crc_of_the_whole() {
        let text: Vec<u8> = (0..70_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for cut in [0, 1, 17, 4096, 65_535, 65_536, 69_999, 70_000] {
            let (first, second) = text.split_at(cut);
            let joined = join(crc32c::crc32c(first), crc32c::crc32c(second), second.len() as u32);
            assert_eq!(joined, crc32c::crc32c(&text), "cut at {cut}");
        }
    }
}
