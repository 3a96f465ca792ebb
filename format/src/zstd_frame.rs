//! What the first bytes of a zstd stream say, read without a decoder (RFC 8878, section 3.1).

/// The magic number of a frame, little-endian.
const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A frame, or a skippable frame before it (0x184D2A50 to 0x184D2A5F, little-endian).
pub(crate) fn is_zstd(start: &[u8]) -> bool {
    match start.first_chunk::<4>() {
        Some(magic) => *magic == FRAME_MAGIC || (magic[0] & 0xf0 == 0x50 && magic[1..] == [0x2a, 0x4d, 0x18]),
        None => false,
    }
}

/// How many bytes of memory the frame at the very start asks a decoder to hold; `None` if it is not there or cut.
pub(crate) fn window_bytes(start: &[u8]) -> Option<u64> {
    let header = start.strip_prefix(&FRAME_MAGIC)?;
    let (descriptor, rest) = header.split_first()?;
    let single_segment = descriptor & 0b0010_0000 != 0;
    if !single_segment {
        let window = rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 0b111));
    }
    // A single segment: the window is the content, whose size stands behind the dictionary's id.
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 0b11)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let field = rest.get(dictionary_bytes..)?.get(..size_bytes)?;
    let size = field.iter().rev().fold(0u64, |size, byte| size << 8 | u64::from(*byte));
    // A two-byte field starts where the one-byte field ends.
    Some(if size_bytes == 2 { size + 256 } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_as_the_library_writes_them() {
        let sized = |len: usize| zstd::bulk::compress(&vec![7; len], 3).unwrap();
        for len in [100, 1_000, 100_000] {
            assert_eq!(window_bytes(&sized(len)), Some(len as u64), "a single segment of {len} bytes");
        }
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(23).unwrap();
        std::io::Write::write_all(&mut encoder, &[7; 100]).unwrap();
        std::io::Write::flush(&mut encoder).unwrap();
        assert_eq!(window_bytes(&encoder.finish().unwrap()), Some(1 << 23));
    }

    #[test]
    fn what_is_no_frame_has_no_window() {
        for start in [&b""[..], b"age-encryption.org/", &[0x50, 0x2a, 0x4d, 0x18, 0, 0], &FRAME_MAGIC, &[0x28, 0xb5]] {
            assert_eq!(window_bytes(start), None, "{start:?}");
        }
    }
}
