//! Seal and open: what went in comes out, and nothing that is not whole does.

#![allow(clippy::unwrap_used)]

use std::io::{self, Read, Write};

use bronzenail_format::seal::{LEVEL_DEFAULT, LEVEL_MAX, LEVEL_MIN};
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

/// Takes a few bytes at a time, and is interrupted in between.
#[derive(Default)]
struct Picky {
    bytes: Vec<u8>,
    calls: u32,
}

impl Write for Picky {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let taken = bytes.len().min(7);
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn b64_a_sink_that_takes_little_at_a_time_gets_all_of_it() {
    let (key, public) = a_key();
    let plain = some_bytes(142_860);
    let recipients = recipients(&public);
    let options = SealOptions { recipients: &recipients, one_time: None, level: 3, workers: 0 };
    let mut stored = Picky::default();
    let report = seal(plain.as_slice(), &mut stored, &options).unwrap();
    assert_eq!(report.stored_bytes, stored.bytes.len() as u64);
    assert_eq!(report.stored_sha256, Sha256Digest(Sha256::digest(&stored.bytes).into()));

    let identities = Identities::parse("a test", &key).unwrap();
    let mut back = Picky::default();
    let opened = open(stored.bytes.as_slice(), &mut back, &identities, &OpenOptions::default()).unwrap();
    assert!(back.bytes == plain);
    assert_eq!(opened.plain_bytes, 142_860);
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
    let behind = [zstd::encode_all(&b"first"[..], 3).unwrap(), frame_with_window(29)].concat();
    let error = opened(&behind, &key).unwrap_err();
    assert_eq!(error.to_string(), "the backup needs a zstd window of more than the 128 MiB that are allowed");
    let identities = Identities::default();
    assert!(open(frame_with_window(28).as_slice(), io::sink(), &identities, &allowed).is_ok());
}

#[test]
fn b67_a_header_that_asks_for_2_gib_costs_nothing_even_when_sealed_to_us() {
    let (key, public) = a_key();
    match opened(&encrypt(&public, &frame_with_window(31)), &key) {
        Err(OpenError::WindowTooLarge { needed_bytes: Some(needed), window_log_max: 27 }) => {
            assert_eq!(needed, 1 << 31)
        }
        other => panic!("{other:?}"),
    }
    // A limit that zstd itself does not know is no damage of the backup.
    let identities = Identities::default();
    for window_log_max in [0, 64] {
        let odd = OpenOptions { window_log_max };
        let small = frame_with_window(10);
        open(small.as_slice(), io::sink(), &identities, &odd).unwrap();
    }
}

/// The window that the only frame of a sealed backup asks for, and whether it carries a checksum.
fn frame_facts(stored: &[u8], key: &str) -> (u64, bool) {
    let identity: age::x25519::Identity = key.parse().unwrap();
    let frame = age::decrypt(&identity, stored).unwrap();
    assert_eq!(frame[4] & 0b0010_0000, 0, "a stream has a window, no single segment");
    let exponent = 10 + (frame[5] >> 3);
    ((1u64 << exponent) + (1u64 << exponent) / 8 * u64::from(frame[5] & 7), frame[4] & 0b100 != 0)
}

#[test]
fn b67_every_level_asks_for_8_mib_at_most_and_has_a_checksum() {
    let (key, public) = a_key();
    for level in LEVEL_MIN..=LEVEL_MAX {
        for workers in [0, 1] {
            let (stored, _) = sealed(&some_bytes(2_000), &public, level, workers);
            let (window_bytes, checksum) = frame_facts(&stored, &key);
            assert!(window_bytes <= 8 * 1024 * 1024, "level {level}: {window_bytes}");
            assert!(checksum, "level {level}, {workers} workers");
        }
    }
}

#[test]
fn a_sealed_backup_is_one_frame_and_nothing_else() {
    let (key, public) = a_key();
    let plain = some_bytes(5_000_000);
    for workers in [0, 2] {
        let (stored, _) = sealed(&plain, &public, 3, workers);
        let frame = age::decrypt(&key.parse::<age::x25519::Identity>().unwrap(), &stored).unwrap();
        assert_eq!(zstd::zstd_safe::find_frame_compressed_size(&frame), Ok(frame.len()), "{workers} workers");
    }
}

#[test]
fn levels_out_of_range_are_refused_before_a_byte_is_read() {
    let (_, public) = a_key();
    let recipients = recipients(&public);
    for level in [LEVEL_MIN - 1, -7, LEVEL_MAX + 1, i32::MAX] {
        let options = SealOptions { recipients: &recipients, one_time: None, level, workers: 0 };
        match seal(Broken(0), Broken(0), &options) {
            Err(SealError::Level(found)) => assert_eq!(found, level),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn b67_our_highest_level_stays_within_default_windows() {
    let (key, public) = a_key();
    // Longer than the window, so that all of it is needed.
    let plain = some_bytes(9 * 1024 * 1024);
    let (stored, _) = sealed(&plain, &public, LEVEL_MAX, 2);
    let identities = Identities::parse("a test", &key).unwrap();
    let strict = OpenOptions { window_log_max: 23 };
    let opened = open(stored.as_slice(), io::sink(), &identities, &strict).unwrap();
    assert_eq!(opened.plain_bytes, plain.len() as u64);
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
fn b70_a_wrong_key_is_called_a_wrong_key_before_a_byte_is_written() {
    let (_, public) = a_key();
    let (stored, _) = sealed(&some_bytes(300_000), &public, 3, 0);
    let wrong = OneTimeIdentity::generate().identities();
    match open(stored.as_slice(), Broken(0), &wrong, &OpenOptions::default()) {
        Err(error @ OpenError::NoIdentity { .. }) => {
            assert_eq!(error.to_string(), "none of the given identities opens the backup");
            assert!(error.hint().unwrap().contains("manifest"), "{:?}", error.hint());
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        open(stored.as_slice(), io::sink(), &Identities::default(), &OpenOptions::default()),
        Err(OpenError::NoIdentity { .. })
    ));
}

#[test]
fn b70_a_sealed_backup_that_is_cut_and_opened_with_a_wrong_key_is_still_a_wrong_key() {
    // The header is whole: what can be said for certain is said first.
    let (_, public) = a_key();
    let (stored, _) = sealed(&some_bytes(300_000), &public, 3, 0);
    let wrong = OneTimeIdentity::generate().identities();
    let cut = &stored[..stored.len() - 1];
    assert!(matches!(open(cut, io::sink(), &wrong, &OpenOptions::default()), Err(OpenError::NoIdentity { .. })));
}

#[test]
fn a_passphrase_or_a_newer_age_is_not_supported_rather_than_damaged() {
    let (key, _) = a_key();
    let scrypt = "age-encryption.org/v1\n-> scrypt 9bVDPnlMyQzdSHgnKkjrSw 1\ngUjEymFKMVXQEKdMMHL24oYexjE3TIC0O0zGSqJ2aUY\n--- IBnm8gHYbUZVdYzHbDcHQUfCFKnfCmNJxbcVOuOxUbU\n0123456789abcdef";
    for stored in [scrypt, "age-encryption.org/v2\nsomething else"] {
        assert!(matches!(opened(stored.as_bytes(), &key), Err(OpenError::Unsupported(_))), "{stored}");
    }
    let error = opened(b"age-encryption.org/v1\r\n-> X25519 x\r\n", &key).unwrap_err();
    assert!(matches!(error, OpenError::Encrypted(_)), "{error:?}");
}

#[test]
fn a_hostile_header_is_given_up_soon() {
    struct Endless;
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'a');
            Ok(buffer.len())
        }
    }
    let stored = (&b"age-encryption.org/v1\n-> "[..]).chain(Endless);
    let identities = OneTimeIdentity::generate().identities();
    let error = open(stored, io::sink(), &identities, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "the encrypted backup is truncated or corrupt");
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
fn b71_no_flipped_bit_gives_a_sealed_backup() {
    let (key, public) = a_key();
    let (stored, _) = sealed(b"a small snapshot", &public, 3, 0);
    let identities = Identities::parse("a test", &key).unwrap();
    for at in 0..stored.len() {
        for bit in [0, 5] {
            let mut flipped = stored.clone();
            flipped[at] ^= 1 << bit;
            match open(flipped.as_slice(), io::sink(), &identities, &OpenOptions::default()) {
                Err(_) => {}
                // Without its magic bytes it is no age file, and says so: it is taken for a plain one.
                Ok(opened) => assert!(at < 19 && !opened.encrypted, "byte {at}, bit {bit}"),
            }
        }
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

#[test]
fn opening_names_the_side_that_failed_too() {
    let (key, public) = a_key();
    let (stored, _) = sealed(&some_bytes(2_000_000), &public, 3, 0);
    let identities = Identities::parse("a test", &key).unwrap();
    let cut_off = stored[..20_000].chain(Broken(0));
    match open(cut_off, io::sink(), &identities, &OpenOptions::default()) {
        Err(OpenError::ReadStored { stored_bytes: 20_000, source }) => {
            assert_eq!(source.to_string(), "the node went away");
        }
        other => panic!("{other:?}"),
    }
    match open(stored.as_slice(), Broken(1_000), &identities, &OpenOptions::default()) {
        Err(OpenError::WritePlain { plain_bytes: 1_000, source }) => {
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        }
        other => panic!("{other:?}"),
    }
}

/// Takes everything and finds out only when flushed that it could not.
struct LateLiar;

impl Write for LateLiar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_sink_that_fails_when_flushed_has_failed() {
    let (key, public) = a_key();
    let recipients = recipients(&public);
    let options = SealOptions { recipients: &recipients, one_time: None, level: 3, workers: 0 };
    assert!(matches!(seal(&b"plain"[..], LateLiar, &options), Err(SealError::WriteStored { .. })));
    let (stored, _) = sealed(b"plain", &public, 3, 0);
    let identities = Identities::parse("a test", &key).unwrap();
    let result = open(stored.as_slice(), LateLiar, &identities, &OpenOptions::default());
    assert!(matches!(result, Err(OpenError::WritePlain { .. })), "{result:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

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
