//! How the stream is cut into writes changes nothing, and no bytes at all make the check panic.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::sync::LazyLock;

use bronzenail_snapshot::StreamCheck;
use proptest::prelude::*;
use support::*;

static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let names = [
        "kubernetes-3.5.1.snap",
        "leases-nospace-alarm-3.5.1.snap",
        "synthetic-freelist-page.snap",
        "synthetic-page-16384.snap",
        "three-members-3.5.1.snap",
        "damaged-newest-meta-resealed.snap",
        "damaged-page-twice-resealed.snap",
        "damaged-truncated-60.snap",
        "damaged-trailing-garbage.snap",
        "raw-copy-3.5.1.db",
    ];
    names.map(fixture).to_vec()
});

fn piece_sizes() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![1..100usize, 1..5000usize, Just(4096), Just(16_384), 1..1_048_576usize];
    proptest::collection::vec(size, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_report_does_not_depend_on_the_pieces(file in 0..10usize, sizes in piece_sizes()) {
        let bytes = &FILES[file];
        let mut sizes = sizes.into_iter().cycle();
        prop_assert_eq!(check_in_pieces(bytes, || sizes.next().unwrap()), check(bytes));
    }

    /// Damage of all sorts below a right trailer, so that the structure is what decides.
    #[test]
    fn damaged_pages_give_the_same_report_in_any_pieces(
        edits in proptest::collection::vec((0..20_480usize, any::<u8>()), 1..12),
        sizes in piece_sizes(),
    ) {
        let mut bytes = fixture("auth-enabled-3.5.1.snap");
        for (at, value) in edits {
            bytes[at] = value;
        }
        reseal(&mut bytes);
        let mut sizes = sizes.into_iter().cycle();
        prop_assert_eq!(check_in_pieces(&bytes, || sizes.next().unwrap()), check(&bytes));
    }

    /// Pages with plausible headers and wild contents, in a tree that reaches them.
    #[test]
    fn pages_of_any_content_never_panic(
        pages in proptest::collection::vec((0..4u16, 0..9u16, 0..6u32, proptest::collection::vec(any::<u16>(), 0..64)), 1..12),
        sizes in piece_sizes(),
    ) {
        let mut bytes = database(1024, 3 + pages.len() as u64, 3);
        for (number, (flags, count, overflow, words)) in pages.into_iter().enumerate() {
            let page = &mut bytes[(3 + number) * 1024..(4 + number) * 1024];
            write_header(page, 3 + number as u64, flags, count, overflow);
            for (at, word) in words.into_iter().enumerate() {
                // Small numbers are the ones that get past the checks of bounds.
                page[16 + 4 * at..18 + 4 * at].copy_from_slice(&(word % 1100).to_le_bytes());
            }
        }
        let bytes = sealed(bytes);
        let mut sizes = sizes.into_iter().cycle();
        prop_assert_eq!(check_in_pieces(&bytes, || sizes.next().unwrap()), check(&bytes));
    }
}

#[test]
fn one_byte_at_a_time_is_the_same_as_all_at_once() {
    for bytes in FILES.iter() {
        assert_eq!(check_in_pieces(bytes, || 1), check(bytes));
    }
}

#[test]
fn empty_writes_change_nothing_and_bytes_are_counted() {
    let bytes = &FILES[4];
    let mut stream = StreamCheck::default();
    stream.write_all(&[]).unwrap();
    stream.write_all(&bytes[..5]).unwrap();
    stream.update(&[]);
    assert_eq!(stream.bytes_so_far(), 5);
    stream.write_all(&bytes[5..]).unwrap();
    stream.flush().unwrap();
    assert_eq!(stream.bytes_so_far(), bytes.len() as u64);
    assert_eq!(stream.finish(), check(bytes));
}

#[test]
fn a_check_can_be_handed_to_another_thread() {
    let mut stream = StreamCheck::new();
    stream.update(&FILES[4]);
    let report = std::thread::spawn(move || stream.finish()).join().unwrap();
    assert_eq!(report, check(&FILES[4]));
}
