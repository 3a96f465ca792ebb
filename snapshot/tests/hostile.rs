//! Damaged and hostile files: a verdict for each, never a panic, never called proven, and bounded work.
#![allow(clippy::unwrap_used)]

mod support;

use bronzenail_snapshot::{Report, Trailer, Verdict};
use support::*;

const PAGE: usize = 1024;

/// Checks a database with a right trailer.
fn check_sealed(database: Vec<u8>) -> Report {
    check(&sealed(database))
}

fn page_of(database: &mut [u8], number: usize) -> &mut [u8] {
    &mut database[number * PAGE..(number + 1) * PAGE]
}

fn assert_damaged(report: &Report, sentence: &str) {
    assert_eq!((report.verdict, report.trailer), (Verdict::StructurallyDamaged, Trailer::Matches), "{report:?}");
    assert!(report.problems.iter().any(|problem| problem.contains(sentence)), "{:?}", report.problems);
    assert!(!report.is_proven());
}

/// Whole, with three pairs in one leaf: the measure of what the tests below break.
fn small() -> Vec<u8> {
    let mut bytes = database(PAGE, 4, 3);
    let value = key_value(b"/registry/pods/a", 2, b"x");
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = vec![
        (revision(2), value),
        (revision(3), key_value(b"/registry/pods/b", 3, b"y")),
        ([revision(4), b"t".to_vec()].concat(), vec![0x0A, 1, b'c']),
    ];
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (&key[..], &value[..], false)).collect();
    write_leaf(page_of(&mut bytes, 3), 3, 0, &pairs);
    bytes
}

/// As `small`, with one pair of the `key` bucket.
fn with_pair(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = database(PAGE, 4, 3);
    write_leaf(page_of(&mut bytes, 3), 3, 0, &[(key, value, false)]);
    bytes
}

#[test]
fn the_small_database_is_whole() {
    let report = check_sealed(small());
    assert!(report.is_proven(), "{report:?}");
    assert_eq!(report.problems, Vec::<String>::new());
    let contents = report.contents.unwrap();
    assert_eq!((contents.revision, contents.pairs, contents.tombstones, contents.live_keys), (4, 3, 1, Some(2)));
    assert_eq!((contents.page_size_bytes, contents.pages, contents.transaction_id), (1024, 4, 8));
}

#[test]
fn every_prefix_of_a_snapshot_is_called_cut() {
    let whole = fixture("empty-3.4.23.snap");
    for len in 0..whole.len() {
        let report = check(&whole[..len]);
        let expected = match len {
            0 => Verdict::Empty,
            // Too short to show any mark of a database.
            1..10 => Verdict::NotASnapshot,
            20_480 => Verdict::NoTrailer,
            _ => Verdict::Truncated,
        };
        assert_eq!(report.verdict, expected, "{len} bytes");
        assert!(!report.is_proven());
        assert_eq!(report.bytes, len as u64);
    }
}

#[test]
fn every_flipped_bit_is_a_hash_mismatch() {
    let mut bytes = fixture("empty-3.4.23.snap");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            let report = check(&bytes);
            assert_eq!(report.verdict, Verdict::HashMismatch, "bit {bit} of byte {at}");
            assert!(!report.is_proven());
            bytes[at] ^= 1 << bit;
        }
    }
}

/// The trailer hides nothing here: whatever the bit did to the structure is met by the walk.
#[test]
fn a_flipped_bit_below_a_new_trailer_never_panics() {
    let mut bytes = fixture("auth-enabled-3.5.1.snap");
    for at in 0..bytes.len() - 32 {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        reseal(&mut bytes);
        let report = check(&bytes);
        assert!(
            matches!(report.verdict, Verdict::Ok | Verdict::OkOlderMeta | Verdict::StructurallyDamaged),
            "byte {at}: {report:?}"
        );
        bytes[at] ^= bit;
    }
}

/// Page headers, element tables, metas: where a bit does most harm, all eight of them.
#[test]
fn every_bit_of_live_headers_and_tables_may_flip_below_a_new_trailer() {
    let mut bytes = sealed(small());
    for at in (0..80).chain(1024..1104).chain(2048..2200).chain(3072..3200) {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            reseal(&mut bytes);
            let report = check(&bytes);
            assert!(report.trailer == Trailer::Matches && report.problems.len() <= 21, "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn b07_garbage_is_named_and_never_panics() {
    let mut noise = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = |len: usize| -> Vec<u8> {
        let mut next = || {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise as u8
        };
        (0..len).map(|_| next()).collect()
    };
    assert_eq!(check(&[]).verdict, Verdict::Empty);
    for len in [1, 31, 32, 33, 512, 544, 100_000] {
        let report = check(&random(len));
        assert_eq!(report.verdict, Verdict::NotASnapshot, "{len} random bytes");
        assert!(!report.is_proven());
        assert_eq!(report.problems.len(), 1);
    }
    let text = "backup failed: connection refused\n".repeat(300);
    let page = "<!DOCTYPE html><html><body><h1>503 Service Unavailable</h1></body></html>";
    for body in [&text, page, &format!("{page:4096}"), &format!("{page:4128}")] {
        assert_eq!(check(body.as_bytes()).verdict, Verdict::NotASnapshot);
    }
    assert_eq!(check(&[0; 8192]).verdict, Verdict::NotASnapshot);
}

#[test]
fn a_hash_inside_the_last_page_is_no_trailer() {
    let mut bytes = small();
    reseal(&mut bytes);
    let report = check(&bytes);
    assert_eq!((report.verdict, report.trailer), (Verdict::NoTrailer, Trailer::Absent));
    assert!(!report.is_proven());
}

#[test]
fn tail_pages_lost_before_the_trailer_was_made_are_damage() {
    let mut bytes = small();
    for number in 0..2 {
        let transaction_id = 8 - number as u64;
        let fields = MetaFields { page_bytes: PAGE, root: 2, free_list: NO_FREE_LIST, high_water: 9, transaction_id };
        write_meta(page_of(&mut bytes, number), number as u64, fields);
    }
    assert_damaged(&check_sealed(bytes), "but the database alone has 9216");
}

#[test]
fn a_meta_page_can_claim_any_length() {
    for high_water in [0, 1, 2, 3, 5, u64::from(u32::MAX), 1 << 54, u64::MAX] {
        for root in [0, 1, 2, high_water, u64::MAX] {
            let mut bytes = small();
            for number in 0..2 {
                let transaction_id = 8 - number as u64;
                let fields = MetaFields { page_bytes: PAGE, root, free_list: 0, high_water, transaction_id };
                write_meta(page_of(&mut bytes, number), number as u64, fields);
            }
            assert!(!check_sealed(bytes.clone()).is_proven(), "{high_water} pages, root {root}");
            assert!(!check(&bytes).is_proven(), "{high_water} pages, root {root}");
        }
    }
}

#[test]
fn a_raw_copy_uses_the_newer_meta_wherever_it_lies() {
    let mut bytes = small();
    let fields =
        MetaFields { page_bytes: PAGE, root: 1 << 40, free_list: NO_FREE_LIST, high_water: 4, transaction_id: 6 };
    write_meta(page_of(&mut bytes, 0), 0, fields);
    let report = check(&bytes);
    assert_eq!(report.verdict, Verdict::NoTrailer, "{report:?}");
    assert_eq!(report.contents.unwrap().transaction_id, 7);
}

#[test]
fn a_broken_first_meta_is_replaced_at_every_page_size() {
    for page_bytes in [1024, 4096, 65_536, 1 << 20] {
        let mut bytes = database(page_bytes, 4, 3);
        write_leaf(&mut bytes[3 * page_bytes..], 3, 0, &[]);
        assert_eq!(check_sealed(bytes.clone()).verdict, Verdict::Ok, "{page_bytes}");
        bytes[16] ^= 1;
        assert_eq!(check_sealed(bytes.clone()).verdict, Verdict::OkOlderMeta, "{page_bytes}");
        bytes[page_bytes + 16] ^= 1;
        assert_damaged(&check_sealed(bytes), "neither of the two meta pages holds");
    }
}

#[test]
fn a_cycle_ends_the_walk() {
    let mut bytes = database(PAGE, 5, 3);
    write_branch(page_of(&mut bytes, 3), 3, 0, &[(&revision(2), 4)]);
    write_branch(page_of(&mut bytes, 4), 4, 0, &[(&revision(2), 3)]);
    assert_damaged(&check_sealed(bytes.clone()), "page 3 is reached twice");
    write_branch(page_of(&mut bytes, 4), 4, 0, &[(&revision(2), 2)]);
    assert_damaged(&check_sealed(bytes), "page 2 is reached twice");
}

#[test]
fn a_depth_bomb_ends_the_walk() {
    let pages = 5000;
    let mut bytes = database(PAGE, pages, 3);
    for number in 3..pages - 1 {
        write_branch(page_of(&mut bytes, number as usize), number, 0, &[(&revision(2), number + 1)]);
    }
    write_leaf(page_of(&mut bytes, pages as usize - 1), pages - 1, 0, &[]);
    assert_damaged(&check_sealed(bytes), "more than 64 levels deep");
}

#[test]
fn a_thousand_times_the_same_child_gives_few_problems() {
    let mut bytes = database(1 << 16, 4, 3);
    let keys: Vec<_> = (0..1000).map(revision).collect();
    let children: Vec<_> = keys.iter().map(|key| (&key[..], 3)).collect();
    write_branch(&mut bytes[3 << 16..], 3, 0, &children);
    let report = check_sealed(bytes);
    assert_damaged(&report, "page 3 is reached twice");
    assert_eq!(report.problems.len(), 21);
    assert_eq!(report.problems[20], "and 980 more problems");
}

/// Each page claims all pages after it, and its one value claims their bytes: read as claimed, that is 128 GiB.
#[test]
fn nested_wide_claims_cost_bounded_work() {
    let pages = 16_384;
    let mut bytes = database(PAGE, pages, pages - 2);
    for number in 3..pages - 1 {
        let at = number as usize * PAGE;
        let overflow = pages - 1 - number;
        write_leaf(&mut bytes[at..at + PAGE], number, overflow as u32, &[(&revision(2), b"", false)]);
        let value_bytes = (pages - number) as usize * PAGE - 16 - 16 - 17;
        bytes[at + 28..at + 32].copy_from_slice(&(value_bytes as u32).to_le_bytes());
    }
    let report = check_sealed(bytes);
    assert_eq!(report.verdict, Verdict::TooLargeToJudge);
    assert_eq!(report.problems, ["page 16382 and its continuation are too large to judge"]);
    assert_eq!(report.contents, None);
    assert!(!report.is_proven());
}

#[test]
fn a_page_wider_than_the_cap_is_not_called_whole() {
    let page_bytes = 1 << 20;
    let pages = 70;
    let mut bytes = database(page_bytes, pages, 3);
    let value = key_value(b"k", 2, b"v");
    write_leaf(&mut bytes[3 * page_bytes..], 3, 66, &[(&revision(2), &value, false)]);
    assert_eq!(check_sealed(bytes.clone()).verdict, Verdict::TooLargeToJudge);
    // The same page not in use harms nobody.
    write_leaf(&mut bytes[4 * page_bytes..], 4, 0, &[(&revision(2), &value, false)]);
    write_leaf(
        &mut bytes[2 * page_bytes..3 * page_bytes],
        2,
        0,
        &[(b"key", &bucket_at(4), true), (b"meta", &empty_bucket(), true)],
    );
    assert_eq!(check_sealed(bytes).verdict, Verdict::Ok);
}

#[test]
fn elements_outside_their_page_are_damage() {
    let table = "has a table of elements that is longer than the page";
    let outside = "has an element outside the page";
    // Offsets in page 3: count 10, first element's pos 20, key size 24, value size 28.
    for (at, value, sentence) in [
        (10, vec![0xFF, 0xFF], table),
        (20, u32::MAX.to_le_bytes().to_vec(), outside),
        (20, 4u32.to_le_bytes().to_vec(), outside),
        (24, u32::MAX.to_le_bytes().to_vec(), outside),
        (28, u32::MAX.to_le_bytes().to_vec(), outside),
    ] {
        let mut bytes = small();
        let at = 3 * PAGE + at;
        bytes[at..at + value.len()].copy_from_slice(&value);
        let report = check_sealed(bytes);
        assert_damaged(&report, sentence);
        assert_eq!(report.contents, None, "sums over a part would look like data loss");
    }
}

#[test]
fn elements_over_each_other_are_damage() {
    let mut bytes = small();
    for number in 0..3 {
        let at = 3 * PAGE + 16 + 16 * number;
        bytes[at + 12..at + 16].copy_from_slice(&500u32.to_le_bytes());
    }
    assert_damaged(&check_sealed(bytes), "has elements that lie over each other");
}

#[test]
fn a_leaf_outside_its_parents_bounds_is_damage() {
    let build = |first: u64, second: u64| {
        let mut bytes = database(PAGE, 6, 3);
        write_branch(page_of(&mut bytes, 3), 3, 0, &[(&revision(2), 4), (&revision(10), 5)]);
        for (page, main) in [(4, first), (5, second)] {
            let value = key_value(b"k", main, b"v");
            write_leaf(page_of(&mut bytes, page), page as u64, 0, &[(&revision(main), &value, false)]);
        }
        check_sealed(bytes)
    };
    assert!(build(2, 10).is_proven());
    assert!(build(9, 11).is_proven());
    for (first, second) in [(1, 10), (10, 11), (2, 9)] {
        assert_damaged(&build(first, second), "has keys that its parent page places elsewhere");
    }
}

#[test]
fn branches_without_children_or_out_of_order_are_damage() {
    let mut bytes = small();
    write_branch(page_of(&mut bytes, 3), 3, 0, &[]);
    assert_damaged(&check_sealed(bytes), "is a branch without children");

    let mut bytes = database(PAGE, 6, 3);
    write_branch(page_of(&mut bytes, 3), 3, 0, &[(&revision(9), 4), (&revision(2), 5)]);
    write_leaf(page_of(&mut bytes, 4), 4, 0, &[]);
    write_leaf(page_of(&mut bytes, 5), 5, 0, &[]);
    assert_damaged(&check_sealed(bytes), "page 3 has keys that do not ascend");
}

#[test]
fn pairs_that_a_newer_etcd_refuses_are_damage() {
    let value = key_value(b"k", 2, b"v");
    let dashed = [&2u64.to_be_bytes()[..], b"-", &[0; 8]].concat();
    let negative = [&[0xFF; 8][..], b"_", &[0; 8]].concat();
    let negative_sub = [&2u64.to_be_bytes()[..], b"_", &[0xFF; 8]].concat();
    let odd_mark = [revision(2), b"x".to_vec()].concat();
    for (key, value, sentence) in [
        (&revision(2)[..16], &value[..], "neither 17 nor 18 bytes long"),
        (&dashed, &value, "without the separator '_'"),
        (&negative, &value, "below zero"),
        (&negative_sub, &value, "below zero"),
        (&odd_mark, &value, "does not end in 't'"),
        (&revision(2), b"\xFF", "no KeyValue message"),
        (&revision(2), &[0x0A, 200, b'k'], "no KeyValue message"),
    ] {
        assert_damaged(&check_sealed(with_pair(key, value)), sentence);
    }
}

#[test]
fn live_keys_are_not_guessed_where_keys_are_no_revisions() {
    let contents = check_sealed(with_pair(b"short", b"")).contents.unwrap();
    assert_eq!((contents.pairs, contents.live_keys), (1, None));
}

#[test]
fn the_same_key_twice_is_damage() {
    let mut bytes = database(PAGE, 4, 3);
    write_leaf(page_of(&mut bytes, 3), 3, 0, &[(&revision(2), b"", false), (&revision(2), b"", false)]);
    assert_damaged(&check_sealed(bytes), "page 3 has keys that do not ascend");
}

#[test]
fn a_page_that_names_another_number_is_damage() {
    let mut bytes = small();
    bytes[3 * PAGE] = 2;
    assert_damaged(&check_sealed(bytes), "page 3 should be part of the tree, but its header is not");
}

/// A meta page that is right in itself, at a place where its own page size does not put it.
#[test]
fn a_meta_page_in_the_wrong_place_is_passed_over() {
    let mut bytes = database(4096, 4, 3);
    write_leaf(&mut bytes[3 * 4096..], 3, 0, &[]);
    bytes[16] ^= 1;
    let decoy =
        MetaFields { page_bytes: 4096, root: 1 << 30, free_list: NO_FREE_LIST, high_water: 4, transaction_id: 99 };
    write_meta(&mut bytes[1024..], 1, decoy);
    assert_eq!(check_sealed(bytes).verdict, Verdict::OkOlderMeta);

    let mut bytes = small();
    write_meta(page_of(&mut bytes, 1), 1, MetaFields { high_water: 1, ..decoy });
    let report = check_sealed(bytes);
    assert_eq!(report.verdict, Verdict::Ok);
    assert_eq!(report.problems, ["meta page 1 is broken; meta page 0 names the tree"]);
}

/// `etcdutl snapshot restore --mark-compacted` leaves a pair without any value.
#[test]
fn a_pair_without_a_value_is_accepted() {
    let report = check_sealed(with_pair(&revision(1000), b""));
    assert!(report.is_proven(), "{report:?}");
    assert_eq!(report.contents.unwrap().revision, 1000);
}

#[test]
fn a_value_of_another_revision_is_told_and_not_refused() {
    let report = check_sealed(with_pair(&revision(2), &key_value(b"k", 7, b"v")));
    assert!(report.is_proven());
    assert_eq!(report.problems, ["1 pages have pairs whose value names another revision than their key does"]);
}

#[test]
fn a_bbolt_file_that_is_not_etcds_is_damage() {
    let mut bytes = small();
    write_leaf(page_of(&mut bytes, 2), 2, 0, &[(b"photos", &empty_bucket(), true)]);
    assert_damaged(&check_sealed(bytes.clone()), "there is no bucket \"key\"");
    write_leaf(page_of(&mut bytes, 2), 2, 0, &[]);
    assert_damaged(&check_sealed(bytes.clone()), "there is no bucket \"meta\"");
    write_leaf(page_of(&mut bytes, 2), 2, 0, &[(b"key", b"value", false)]);
    assert_damaged(&check_sealed(bytes.clone()), "pairs outside of any bucket");
    write_leaf(page_of(&mut bytes, 2), 2, 0, &[(b"key", b"short", true), (b"meta", &empty_bucket(), true)]);
    assert_damaged(&check_sealed(bytes), "bucket \"key\" has no root");
}

#[test]
fn a_bucket_inside_a_bucket_is_damage() {
    let mut bytes = small();
    write_leaf(page_of(&mut bytes, 3), 3, 0, &[(&revision(2), &empty_bucket(), true)]);
    assert_damaged(&check_sealed(bytes), "a bucket inside a bucket");
}

#[test]
fn a_broken_inline_bucket_is_damage() {
    let mut broken = empty_bucket();
    broken[16 + 10] = 9;
    for (value, sentence) in [
        (broken, "the page inside of bucket \"meta\" has a table"),
        (vec![0; 32], "bucket \"meta\" is inline, but it is no leaf page"),
        (vec![0; 17], "bucket \"meta\" is inline, but it is no leaf page"),
    ] {
        let mut bytes = small();
        write_leaf(page_of(&mut bytes, 2), 2, 0, &[(b"key", &bucket_at(3), true), (b"meta", &value, true)]);
        let report = check_sealed(bytes);
        assert_damaged(&report, sentence);
        assert_eq!(report.contents, None);
    }
}

/// Ten buckets with much inline content do not fit into one page: then the root is a branch.
#[test]
fn a_root_of_two_leaves_is_read_whole() {
    let mut bytes = database(PAGE, 7, 6);
    write_branch(page_of(&mut bytes, 2), 2, 0, &[(b"key", 4), (b"members", 5)]);
    write_leaf(page_of(&mut bytes, 3), 3, 0, &[(b"key", &bucket_at(3), true)]);
    write_leaf(page_of(&mut bytes, 4), 4, 0, &[(b"key", &bucket_at(6), true)]);
    write_leaf(page_of(&mut bytes, 5), 5, 0, &[(b"members", &empty_bucket(), true), (b"meta", &empty_bucket(), true)]);
    let value = key_value(b"k", 2, b"v");
    write_leaf(page_of(&mut bytes, 6), 6, 0, &[(&revision(2), &value, false)]);
    let report = check_sealed(bytes);
    assert!(report.is_proven(), "{report:?}");
    let expected = [&b"key"[..], &revision(2), &value, b"members", b"meta"].concat();
    assert_eq!(report.contents.unwrap().status_hash, crc32c::crc32c(&expected));
}

/// As above, but the leaves come by before the root, next to a stale one.
#[test]
fn a_root_that_comes_after_its_leaves_is_read_whole() {
    let mut bytes = database(PAGE, 8, 6);
    let fields = MetaFields { page_bytes: PAGE, root: 7, free_list: NO_FREE_LIST, high_water: 8, transaction_id: 9 };
    write_meta(page_of(&mut bytes, 0), 0, fields);
    write_leaf(page_of(&mut bytes, 4), 4, 0, &[(b"key", &bucket_at(6), true)]);
    write_leaf(page_of(&mut bytes, 5), 5, 0, &[(b"meta", &empty_bucket(), true)]);
    write_leaf(page_of(&mut bytes, 6), 6, 0, &[(&revision(2), &key_value(b"k", 2, b"v"), false)]);
    write_branch(page_of(&mut bytes, 7), 7, 0, &[(b"key", 4), (b"meta", 5)]);
    let report = check_sealed(bytes);
    assert!(report.is_proven(), "{report:?}");
    assert_eq!(report.contents.unwrap().live_keys, Some(1));
}

/// What etcd 3.6 writes into `meta`, and a compaction under way.
#[test]
fn versions_index_and_compactions_are_read_from_the_meta_bucket() {
    let meta = inline_bucket(&[
        (b"consistent_index", &77u64.to_be_bytes()),
        (b"finishedCompactRev", &revision(5)),
        (b"scheduledCompactRev", &revision(9)),
        (b"storageVersion", b"3.6.0"),
        (b"term", &3u64.to_be_bytes()),
    ]);
    let cluster = inline_bucket(&[(b"clusterVersion", b"3.6.0")]);
    let mut bytes = small();
    let buckets: [(&[u8], &[u8], bool); 3] =
        [(b"cluster", &cluster, true), (b"key", &bucket_at(3), true), (b"meta", &meta, true)];
    write_leaf(page_of(&mut bytes, 2), 2, 0, &buckets);
    let report = check_sealed(bytes);
    assert!(report.is_proven(), "{report:?}");
    let contents = report.contents.unwrap();
    assert_eq!((contents.consistent_index, contents.term), (Some(77), Some(3)));
    assert_eq!((contents.compact_revision, contents.scheduled_compact_revision), (Some(5), Some(9)));
    assert_eq!((contents.revision, contents.restored_revision()), (4, 9));
    assert_eq!(contents.storage_version.as_deref(), Some("3.6.0"));
    assert_eq!(contents.cluster_version.as_deref(), Some("3.6.0"));
}

/// A bucket that is too large to be inline: its details are read from its own page.
#[test]
fn alarms_on_a_page_of_their_own_are_read() {
    let mut bytes = database(PAGE, 5, 3);
    write_leaf(page_of(&mut bytes, 3), 3, 0, &[]);
    write_leaf(page_of(&mut bytes, 4), 4, 0, &[(&[8, 1, 16, 1], b"", false), (&[8, 2, 16, 2], b"", false)]);
    write_leaf(
        page_of(&mut bytes, 2),
        2,
        0,
        &[(b"alarm", &bucket_at(4), true), (b"key", &bucket_at(3), true), (b"meta", &empty_bucket(), true)],
    );
    let report = check_sealed(bytes);
    assert!(report.is_proven(), "{report:?}");
    assert_eq!(report.contents.unwrap().alarms.len(), 2);
}

/// A live value over many pages, with what lies inside looking like pages of a tree, and before it a stale page that
/// claims the live one.
#[test]
fn readings_that_overlap_do_not_disturb_each_other() {
    let pages = 40;
    let mut bytes = database(PAGE, pages, 4);
    write_leaf(page_of(&mut bytes, 3), 3, 20, &[(b"stale", b"stale", false)]);
    let value = key_value(b"large", 2, &vec![b'v'; 30 * PAGE - 200]);
    let extent = &mut bytes[4 * PAGE..34 * PAGE];
    write_leaf(extent, 4, 29, &[(&revision(2), &value, false)]);
    for number in [5, 9, 20] {
        write_leaf(&mut extent[(number - 4) * PAGE..], number as u64, 12, &[(b"inside", b"", false)]);
    }
    write_header(&mut extent[26 * PAGE..], 30, LEAF, 0xFFFF, 3);
    let report = check_sealed(bytes.clone());
    assert!(report.is_proven(), "{report:?}");
    let leaf_content = &bytes[4 * PAGE + 32..4 * PAGE + 32 + 17 + value.len()];
    let expected = [&b"key"[..], leaf_content, b"meta"].concat();
    let whole = report.contents.clone().unwrap();
    assert_eq!(whole.status_hash, crc32c::crc32c(&expected));
    let bytes = sealed(bytes);
    for piece_bytes in [1, 700, 1024, 1500, 10_000] {
        assert_eq!(check_in_pieces(&bytes, || piece_bytes), report, "{piece_bytes}");
    }
}

/// A free list longer than 65,534 pages has its count in its body.
fn with_free_list(ids: impl Iterator<Item = u64>) -> Vec<u8> {
    let ids: Vec<_> = ids.collect();
    let list_pages = (16 + 8 + 8 * ids.len()).div_ceil(PAGE);
    let high_water = 4 + list_pages as u64 + 66_000;
    let mut bytes = database(PAGE, high_water, 3);
    write_leaf(page_of(&mut bytes, 3), 3, 0, &[]);
    for number in 0..2 {
        let transaction_id = 8 - number as u64;
        let fields = MetaFields { page_bytes: PAGE, root: 2, free_list: 4, high_water, transaction_id };
        write_meta(page_of(&mut bytes, number), number as u64, fields);
    }
    let list = &mut bytes[4 * PAGE..];
    write_header(list, 4, 0x10, 0xFFFF, list_pages as u32 - 1);
    list[16..24].copy_from_slice(&(ids.len() as u64).to_le_bytes());
    for (number, id) in ids.iter().enumerate() {
        let page = 4 + list_pages as u64 + id;
        list[24 + 8 * number..32 + 8 * number].copy_from_slice(&page.to_le_bytes());
    }
    bytes
}

#[test]
fn a_free_list_with_its_count_in_the_body_is_read() {
    let bytes = with_free_list(0..66_000);
    let report = check_sealed(bytes.clone());
    assert!(report.is_proven(), "{report:?}");

    let mut endless = bytes;
    endless[4 * PAGE + 16..4 * PAGE + 24].fill(0xFF);
    assert_damaged(&check_sealed(endless), "the free list on page 4 is longer than its page");
}

#[test]
fn free_lists_that_name_pages_twice_or_not_at_all_are_damage() {
    let twice = check_sealed(with_free_list((0..65_999).chain([5])));
    assert_damaged(&twice, "twice");
    assert_damaged(&twice, "is neither in use nor on the free list");
    let beyond = check_sealed(with_free_list((0..66_000).chain([1 << 40])));
    assert_damaged(&beyond, "which does not exist");
}

#[test]
fn a_free_list_that_is_not_there_is_damage() {
    for free_list in [1, 3, 4, 1 << 50] {
        let mut bytes = small();
        for number in 0..2 {
            let transaction_id = 8 - number as u64;
            let fields = MetaFields { page_bytes: PAGE, root: 2, free_list, high_water: 4, transaction_id };
            write_meta(page_of(&mut bytes, number), number as u64, fields);
        }
        assert_damaged(&check_sealed(bytes), "should be the free list, but it is not");
    }
}
