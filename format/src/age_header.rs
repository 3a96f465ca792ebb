//! Reading an age header before age does, so that it is bounded and its recipients' kinds are known.
//!
//! Invariant: whatever the store holds, at most [`HEADER_BYTES_MAX`] bytes and [`HEADER_LINES_MAX`] lines are taken for a
//! header. The age crate reads a header line by line and parses all of it anew after each: without a limit, one long line
//! fills the memory, and many short ones take the square of their number in time.

use std::io::{self, BufRead, Read};

/// Room for hundreds of RSA recipients and a thousand others.
const HEADER_BYTES_MAX: usize = 256 * 1024;
const HEADER_LINES_MAX: usize = 4096;
const VERSION_LINE: &[u8] = b"age-encryption.org/v1\n";
/// Kinds that are worth telling; a header made to annoy may have any number.
const KINDS_MAX: usize = 16;
const KIND_BYTES_MAX: usize = 32;

/// The header's own bytes, and what its stanzas are.
pub(crate) struct AgeHeader {
    /// As read; the age crate gets them once more.
    pub(crate) bytes: Vec<u8>,
    /// Distinct kinds of recipients, in the header's order, such as `X25519` and `ssh-ed25519`.
    pub(crate) kinds: Vec<String>,
}

/// Reads up to the end of the header and not a byte further.
///
/// Says nothing about whether the header is right: that is the age crate's to judge.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<AgeHeader> {
    let mut header = AgeHeader { bytes: Vec::new(), kinds: Vec::new() };
    if *next_line(from, &mut header)? != *VERSION_LINE {
        // Another version may have another shape: its first line is all there is to know.
        return match header.bytes.ends_with(b"\r\n") {
            true => Err(damaged("its line ends were changed, as by a transfer in text mode")),
            false => Ok(header),
        };
    }
    for _ in 1..HEADER_LINES_MAX {
        let line = next_line(from, &mut header)?.to_vec();
        if line.starts_with(b"---") {
            return Ok(header);
        }
        if let Some(stanza) = line.strip_prefix(b"-> ") {
            header.note_kind(stanza);
        }
    }
    Err(damaged("its header has no end"))
}

fn next_line<'h>(from: &mut impl BufRead, header: &'h mut AgeHeader) -> io::Result<&'h [u8]> {
    let start = header.bytes.len();
    let left = HEADER_BYTES_MAX - start;
    from.by_ref().take(left as u64).read_until(b'\n', &mut header.bytes)?;
    let line = &header.bytes[start..];
    match line.ends_with(b"\n") {
        true => Ok(line),
        false if line.len() == left => Err(damaged("its header has no end")),
        false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within the header")),
    }
}

impl AgeHeader {
    fn note_kind(&mut self, stanza: &[u8]) {
        let word = stanza.split(|byte| matches!(byte, b' ' | b'\n')).next().unwrap_or_default();
        // It comes from outside and goes into messages.
        let plain = !word.is_empty() && word.len() <= KIND_BYTES_MAX && word.iter().all(u8::is_ascii_graphic);
        let Some(kind) = std::str::from_utf8(word).ok().filter(|_| plain) else { return };
        // age writers add a stanza of nonsense, so that readers learn to skip what they do not know.
        let known = kind.ends_with("-grease") || self.kinds.iter().any(|other| other == kind);
        if !known && self.kinds.len() < KINDS_MAX {
            self.kinds.push(kind.to_owned());
        }
    }
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> io::Result<Vec<String>> {
        read(&mut text.as_bytes()).map(|header| header.kinds)
    }

    #[test]
    fn kinds_are_named_once_and_nonsense_is_not() {
        let text = "age-encryption.org/v1\n-> X25519 aa\nbb\n-> X25519 cc\ndd\n-> x-grease y\n\n-> ssh-rsa zz\n\n--- mac\nrest";
        assert_eq!(kinds(text).unwrap(), ["X25519", "ssh-rsa"]);
    }

    #[test]
    fn not_a_byte_is_read_beyond_the_header() {
        let mut from = &b"age-encryption.org/v1\n-> X25519 aa\nbb\n--- mac\nrest"[..];
        read(&mut from).unwrap();
        assert_eq!(from, b"rest");
    }

    #[test]
    fn a_header_without_an_end_is_given_up() {
        let long_line = format!("age-encryption.org/v1\n-> {}", "a".repeat(10 * HEADER_BYTES_MAX));
        let many_lines = format!("age-encryption.org/v1\n{}", "-> a\n\n".repeat(10 * HEADER_LINES_MAX));
        for text in [long_line, many_lines] {
            assert_eq!(kinds(&text).unwrap_err().to_string(), "its header has no end");
        }
        assert_eq!(kinds("age-encryption.org/v1\n-> X2").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_header_with_changed_line_ends_says_so() {
        let error = kinds("age-encryption.org/v1\r\n-> X25519 aa\r\n").unwrap_err();
        assert!(error.to_string().contains("text mode"), "{error}");
    }
}
