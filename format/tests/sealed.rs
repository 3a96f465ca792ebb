//! Seal and open: what went in comes out, and nothing that is not whole does.

use std::io::{self, Read, Write};

use bronzenail_format::seal::{LEVEL_DEFAULT, LEVEL_MAX};
use bronzenail_format::{
    Identities, OneTimeIdentity, OpenError, OpenOptions, Recipients, SealError, SealOptions, Sealed, Sha256Digest,
    open, seal,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn a_key() -> (String, String) {
    use age::secrecy::ExposeSecret;
    let key = age::x25519::Identity::generate();
    (key.to_string().expose_secret().to_owned(), key.to_public().to_string())
}

fn recipients(text: &str) -> Recipients {
    Recipients::parse([("a test", text)]).unwrap()
}

fn sealed(plain: &[u8], public: &str, level: i32, workers: u32) -> (Vec<u8>, Sealed) {
    let mut stored = Vec::new();
    let recipients = recipients(public);
    let options = SealOptions { recipients: &recipients, one_time: None, level, workers };
    let report = seal(plain, &mut stored, &options).unwrap();
    (stored, report)
}

fn opened(stored: &[u8], key: &str) -> Result<Vec<u8>, OpenError> {
    let mut plain = Vec::new();
    let identities = Identities::parse("a test", key).unwrap();
    open(stored, &mut plain, &identities, &OpenOptions::default()).map(|_| plain)
}

/// Text that compresses, but not to nothing.
fn some_bytes(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 20).to_le_bytes()).take(len).collect()
}

fn encrypt(public: &str, inner: &[u8]) -> Vec<u8> {
    let key: age::x25519::Recipient = public.parse().unwrap();
    age::encrypt(&key, inner).unwrap()
}

#[test]
fn b64_every_length_around_a_buffer_comes_back_whole() {
    let (key, public) = a_key();
    for len in [0, 1, 131_071, 131_072, 131_073, 142_860, 262_144, 1_048_577] {
        for workers in [0, 2] {
            let plain = some_bytes(len);
            let (stored, report) = sealed(&plain, &public, LEVEL_DEFAULT, workers);
            assert_eq!(report.plain_bytes, len as u64);
            assert_eq!(report.stored_bytes, stored.len() as u64);
            assert_eq!(report.stored_sha256, Sha256Digest(Sha256::digest(&stored).into()));
            assert!(opened(&stored, &key).unwrap() == plain, "{len} bytes, {workers} workers");
        }
    }
}

#[test]
fn the_report_of_opening_equals_that_of_sealing() {
    let (key, public) = a_key();
    let plain = some_bytes(300_000);
    let (stored, report) = sealed(&plain, &public, 1, 0);
    let identities = Identities::parse("a test", &key).unwrap();
    let opened = open(stored.as_slice(), io::sink(), &identities, &OpenOptions::default()).unwrap();
    assert_eq!((opened.stored_bytes, opened.stored_sha256), (report.stored_bytes, report.stored_sha256));
    assert_eq!(opened.plain_bytes, 300_000);
    assert!(opened.encrypted && opened.compressed);
}

#[test]
fn a_one_time_identity_opens_and_so_does_the_recipient() {
    let (key, public) = a_key();
    let one_time = OneTimeIdentity::generate();
    let recipients = recipients(&public);
    let options = SealOptions { recipients: &recipients, one_time: Some(&one_time), level: 3, workers: 0 };
    let mut stored = Vec::new();
    seal(&b"plain"[..], &mut stored, &options).unwrap();

    let mut plain = Vec::new();
    open(stored.as_slice(), &mut plain, &one_time.identities(), &OpenOptions::default()).unwrap();
    assert_eq!(plain, b"plain");
    assert_eq!(opened(&stored, &key).unwrap(), b"plain");

    let other = OneTimeIdentity::generate().identities();
    assert!(
        matches!(open(stored.as_slice(), io::sink(), &other, &OpenOptions::default()), Err(OpenError::NoIdentity { recipient_kinds }) if recipient_kinds == ["X25519"])
    );
}

#[test]
fn ssh_keys_can_be_sealed_to_and_opened_with() {
    for (public, private) in [
        (include_str!("keys/ed25519.pub"), include_str!("keys/ed25519")),
        (include_str!("keys/rsa.pub"), include_str!("keys/rsa")),
    ] {
        let (stored, _) = sealed(b"plain", public, 3, 0);
        assert_eq!(opened(&stored, private).unwrap(), b"plain");
        assert_eq!(opened(&stored, &private.replace('\n', "\r\n")).unwrap(), b"plain");
        assert!(!recipients(public).canonical()[0].contains("comment"), "SSH comments stay out of the manifest");
    }
}

#[test]
fn b65_a_frame_without_its_end_is_refused() {
    let (key, public) = a_key();
    let frame = zstd::encode_all(some_bytes(400_000).as_slice(), 3).unwrap();
    let stored = encrypt(&public, &frame[..frame.len() - 10]);
    assert!(matches!(opened(&stored, &key), Err(OpenError::Compressed(_))));
}

#[test]
fn b66_several_and_skippable_frames_are_read_whole_and_junk_is_refused() {
    let (key, public) = a_key();
    let frame = |text: &[u8]| zstd::encode_all(text, 3).unwrap();
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
    let good: [Vec<Vec<u8>>; 4] = [
        vec![frame(b"one "), frame(b"two")],
        vec![skippable.clone(), frame(b"one "), frame(b"two")],
        vec![frame(b"one "), skippable.clone(), frame(b"two")],
        vec![frame(b"one "), frame(b"two"), skippable],
    ];
    for pieces in good {
        assert_eq!(opened(&encrypt(&public, &pieces.concat()), &key).unwrap(), b"one two");
    }
    for junk in [&b"x"[..], &b"junk behind"[..], &[0u8; 64][..]] {
        let stored = encrypt(&public, &[frame(b"one two"), junk.to_vec()].concat());
        assert!(matches!(opened(&stored, &key), Err(OpenError::Compressed(_))), "{junk:?}");
    }
}

/// A frame header that asks for a window of `1 << log` bytes, and one empty last block.
fn frame_with_window(log: u8) -> Vec<u8> {
    vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (log - 10) << 3, 0x01, 0x00, 0x00]
}

#[test]
fn b67_a_large_window_is_refused_by_name_and_can_be_allowed() {
    let (key, _) = a_key();
    assert!(opened(&frame_with_window(27), &key).is_ok());
    let error = opened(&frame_with_window(28), &key).unwrap_err();
    assert_eq!(error.to_string(), "the backup needs a zstd window of 256 MiB, and 128 MiB are allowed");
    let allowed = OpenOptions { window_log_max: 31 };
    let identities = Identities::default();
    assert!(open(frame_with_window(28).as_slice(), io::sink(), &identities, &allowed).is_ok());
}

#[test]
fn b67_our_highest_level_stays_within_default_windows() {
    let (key, public) = a_key();
    let plain = some_bytes(40 * 1024 * 1024);
    for workers in [0, 2] {
        let (stored, _) = sealed(&plain, &public, LEVEL_MAX, workers);
        let identities = Identities::parse("a test", &key).unwrap();
        let strict = OpenOptions { window_log_max: 23 };
        let opened = open(stored.as_slice(), io::sink(), &identities, &strict).unwrap();
        assert_eq!(opened.plain_bytes, plain.len() as u64, "{workers} workers");
        if cfg!(debug_assertions) {
            break; // the slow half runs in release builds
        }
    }
}

#[test]
fn b71_every_cut_and_every_flip_is_called_damage_and_not_a_wrong_key() {
    let (key, public) = a_key();
    let noise: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // Stored without compression, so that places in the age file are where the arithmetic says.
    let whole = encrypt(&public, &noise);
    let header = whole.len() - (16 + noise.len() + 16 * noise.len().div_ceil(65_536));
    let mut bad: Vec<(String, Vec<u8>)> = Vec::new();
    for cut in [20, header / 2, header, header + 16, header + 15, whole.len() - 1, whole.len() - 16] {
        bad.push((format!("cut at {cut}"), whole[..cut].to_vec()));
    }
    for chunk in 1..=3 {
        let cut = header + 16 + chunk * (65_536 + 16);
        bad.push((format!("cut after chunk {chunk}"), whole[..cut].to_vec()));
    }
    let mut flipped = whole.clone();
    let last = flipped.len() - 5;
    flipped[last] ^= 1;
    bad.push(("a bit in the last chunk".to_owned(), flipped));
    bad.push(("a byte more".to_owned(), [whole.clone(), vec![0]].concat()));

    assert_eq!(opened(&whole, &key).unwrap(), noise);
    for (what, stored) in bad {
        let error = opened(&stored, &key).expect_err(&what);
        assert!(error.to_string().contains("truncated or corrupt"), "{what}: {error}");
    }
}

#[test]
fn b71_no_prefix_of_a_sealed_backup_opens() {
    let (key, public) = a_key();
    let (stored, _) = sealed(b"a small snapshot", &public, 3, 0);
    for cut in 0..stored.len() {
        assert!(opened(&stored[..cut], &key).is_err(), "cut at {cut}");
    }
}

#[test]
fn layers_are_told_by_magic_bytes() {
    let (key, public) = a_key();
    let plain = some_bytes(5_000);
    let frame = zstd::encode_all(plain.as_slice(), 3).unwrap();
    for stored in [plain.clone(), frame.clone(), encrypt(&public, &plain), encrypt(&public, &frame)] {
        assert_eq!(opened(&stored, &key).unwrap(), plain);
    }
    assert!(matches!(opened(b"", &key), Err(OpenError::Empty)));
    assert!(matches!(opened(b"-----BEGIN AGE ENCRYPTED FILE-----\n", &key), Err(OpenError::Unsupported(_))));
}

/// Hands out one byte at a time: magic numbers arrive in pieces.
struct Dribble<'a>(&'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let one = buffer.len().min(1);
        self.0.read(&mut buffer[..one])
    }
}

#[test]
fn a_source_of_single_bytes_changes_nothing() {
    let (key, public) = a_key();
    let (stored, _) = sealed(b"plain", &public, 3, 0);
    let identities = Identities::parse("a test", &key).unwrap();
    let mut plain = Vec::new();
    open(Dribble(&stored), &mut plain, &identities, &OpenOptions::default()).unwrap();
    assert_eq!(plain, b"plain");
}

/// Fails after so many bytes.
struct Broken(u64);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the node went away"));
        }
        let len = buffer.len().min(self.0 as usize);
        self.0 -= len as u64;
        Ok(len)
    }
}

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the store is full"));
        }
        let len = bytes.len().min(self.0 as usize);
        self.0 -= len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_name_the_side_that_failed() {
    let (_, public) = a_key();
    let recipients = recipients(&public);
    let options = SealOptions { recipients: &recipients, one_time: None, level: 3, workers: 2 };
    match seal(Broken(1_000_000), io::sink(), &options) {
        Err(SealError::ReadPlain { plain_bytes: 1_000_000, source }) => {
            assert_eq!(source.to_string(), "the node went away");
        }
        other => panic!("{other:?}"),
    }
    match seal(some_bytes(2_000_000).as_slice(), Broken(1_000), &options) {
        Err(SealError::WriteStored { stored_bytes: 1_000, source }) => {
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_goes_in_comes_out(plain in proptest::collection::vec(any::<u8>(), 0..200_000), workers in 0u32..3) {
        let (key, public) = a_key();
        let (stored, _) = sealed(&plain, &public, 1, workers);
        prop_assert!(opened(&stored, &key).unwrap() == plain);
    }

    #[test]
    fn no_stored_bytes_make_open_panic(stored in proptest::collection::vec(any::<u8>(), 0..2_000), magic in 0usize..4) {
        let magics: [&[u8]; 4] = [b"", b"age-encryption.org/v1\n", &[0x28, 0xb5, 0x2f, 0xfd], &[0x50, 0x2a, 0x4d, 0x18]];
        let identities = OneTimeIdentity::generate().identities();
        let _ = open([magics[magic], &stored].concat().as_slice(), io::sink(), &identities, &OpenOptions::default());
    }
}
