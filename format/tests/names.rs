//! Names: what is ours, what is another tool's, and what is a stranger.

#![allow(clippy::unwrap_used)]

use bronzenail_format::name::{ParsedKey, TalosBackup, cluster_folder, parse_key};
use bronzenail_format::{BackupId, ClusterName, Prefix};
use chrono::{DateTime, Utc};
use proptest::prelude::*;

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn id(text: &str) -> BackupId {
    text.parse().unwrap()
}

fn at(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

#[test]
fn keys_are_spelled_as_the_format_says() {
    let id = BackupId::new("homelab".parse().unwrap(), at("2026-11-30T02:00:00.75Z"), [0x1a, 0x2b, 0x3c]);
    assert_eq!(id.to_string(), "homelab-20261130T020000Z-1a2b3c");
    assert_eq!(id.data_key(&prefix("/etcd/")), "etcd/homelab/homelab-20261130T020000Z-1a2b3c.snap.zst.age");
    assert_eq!(id.manifest_key(&prefix("")), "homelab/homelab-20261130T020000Z-1a2b3c.snap.zst.age.json");
}

#[test]
fn all_of_our_objects_are_recognised() {
    let p = prefix("a/b");
    let id = id("homelab-20261130T020000Z-1a2b3c");
    assert_eq!(parse_key(&p, &id.data_key(&p)), ParsedKey::Data(id.clone()));
    assert_eq!(parse_key(&p, &id.manifest_key(&p)), ParsedKey::Manifest(id.clone()));
    let seen_at = at("2026-12-01T03:00:00Z");
    assert_eq!(parse_key(&p, &id.evidence_key(&p, seen_at, [1, 2, 3])), ParsedKey::Evidence { id, at: seen_at });
}

#[test]
fn b51_strangers_are_never_taken_for_ours() {
    for key in [
        "README.txt",
        "pki.bundle.tar.gz",
        "prod-latest",
        "prod/prod-2026-13-45T99:99:99Z.snap.age",
        "prod/prod-20261345T020000Z-1a2b3c.snap.zst.age",
        "prod/prod-20261130T020060Z-1a2b3c.snap.zst.age",
        "prod/prod-20261130T020000Z-1A2B3C.snap.zst.age",
        "prod/prod-20261130T020000Z-1a2b3.snap.zst.age",
        "prod/prod-20261130T020000Z-1a2b3c.snap.zst.age.part",
        "prod/prod-20261130T020000Z-1a2b3c.snap.zst.age.json.json",
        "prod/prod-20261130T020000Z-1a2b3c.snap.age",
        "other/prod-20261130T020000Z-1a2b3c.snap.zst.age",
        "prod/deep/prod-20261130T020000Z-1a2b3c.snap.zst.age",
        "prod/prod-20261130T020000Z-1a2b3c.snap.zst.age\n",
        "prod%2Fprod-20261130T020000Z-1a2b3c.snap.zst.age",
        "prod-20261130T020000Z-1a2b3c.snap.zst.age",
        "",
        "/",
    ] {
        assert_eq!(parse_key(&prefix(""), key), ParsedKey::Stranger, "{key:?}");
    }
}

#[test]
fn b55_names_of_talos_backup_are_read_with_any_offset() {
    let known = |rest: &str, taken_at: &str, compressed, encrypted| {
        let cluster = "my-cluster".parse().unwrap();
        let expected = ParsedKey::TalosBackup(TalosBackup { cluster, taken_at: at(taken_at), compressed, encrypted });
        assert_eq!(parse_key(&prefix("x"), &format!("x/{rest}")), expected, "{rest}");
    };
    known("my-cluster-2026-01-01T00:00:00Z.snap.age", "2026-01-01T00:00:00Z", false, true);
    known("my-cluster/my-cluster-2026-01-01T02:00:00+02:00.snap.zst.age", "2026-01-01T00:00:00Z", true, true);
    known("my-cluster-2025-12-31T19:00:00-05:00.snap", "2026-01-01T00:00:00Z", false, false);
    known("my-cluster-2026-01-01T00:00:00Z.snap.zst", "2026-01-01T00:00:00Z", true, false);
}

#[test]
fn ids_sort_by_instant_before_name() {
    let mut ids = [id("b-20260101T000000Z-000000"), id("a-20260102T000000Z-000000"), id("a-20250102T000000Z-ffffff")];
    ids.sort();
    assert_eq!(ids.map(|id| id.to_string())[0], "a-20250102T000000Z-ffffff");
}

#[test]
fn a_cluster_name_that_looks_like_an_id_is_no_other_cluster() {
    for odd in ["prod-20260101T000000Z-abcdef", "prod-20260101T000000Z-abcdef.snap.zst.age"] {
        let id = BackupId::new(odd.parse().unwrap(), at("2026-11-30T02:00:00Z"), [1, 2, 3]);
        let p = prefix("");
        assert_eq!(parse_key(&p, &id.data_key(&p)), ParsedKey::Data(id.clone()));
        assert_eq!(parse_key(&p, &id.manifest_key(&p)), ParsedKey::Manifest(id.clone()));
        assert_eq!(id.to_string().parse::<BackupId>().unwrap().cluster().as_str(), odd);
    }
}

#[test]
fn cluster_names_are_safe_as_a_path_segment() {
    for bad in ["", ".", "..", "-a", "a/b", "a b", "a\n", "ä", &"a".repeat(101)] {
        assert!(bad.parse::<ClusterName>().is_err(), "{bad:?}");
    }
    for good in ["a", "admin@homelab", "prod.eu_1-x"] {
        assert!(good.parse::<ClusterName>().is_ok(), "{good}");
    }
}

#[test]
fn b53_backups_in_a_nested_folder_are_all_found_in_one_place() {
    let ids = ["rack-7.prod-20260101T000000Z-00000a", "rack-7.prod-20260102T000000Z-00000b"].map(id);
    for odd in ["a/b/c", "/a/b/c/", "a//b/c"] {
        let place = prefix(odd);
        for id in &ids {
            let key = id.data_key(&prefix("a/b/c"));
            assert!(key.starts_with(&cluster_folder(&place, id.cluster())), "{key}");
            assert_eq!(parse_key(&place, &key), ParsedKey::Data(id.clone()), "{odd}");
        }
    }
    assert_eq!(parse_key(&prefix("a/b"), &ids[0].data_key(&prefix("a/b/c"))), ParsedKey::Stranger);
}

#[test]
fn b55_another_spelling_of_an_instant_is_a_stranger() {
    for instant in [
        "1767225600",
        "20260101T000000Z",
        "2026-01-01t00:00:00z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00.5Z",
        "2026-01-01T00:00:00.0001Z",
        "2026-01-01T00:00:00+0200",
        "2026-01-01T00:00:00+25:00",
        "2026-02-30T00:00:00Z",
        "2026-01-01T00:00:60Z",
    ] {
        let key = format!("prod-{instant}.snap.zst.age");
        assert_eq!(parse_key(&prefix(""), &key), ParsedKey::Stranger, "{key}");
    }
}

#[test]
fn b62_two_backups_of_the_same_second_have_two_names() {
    let one = BackupId::new("prod".parse().unwrap(), at("2026-01-01T00:00:00.1Z"), [0, 0, 1]);
    let two = BackupId::new("prod".parse().unwrap(), at("2026-01-01T00:00:00.9Z"), [0, 0, 2]);
    assert_eq!(one.taken_at(), two.taken_at());
    assert_ne!(one.data_key(&prefix("")), two.data_key(&prefix("")));
    assert!(one < two, "and an order that does not change");
}

#[test]
fn a_leap_second_has_a_name_that_reads_back() {
    let leap = at("2016-12-31T23:59:60Z");
    let id = BackupId::new("prod".parse().unwrap(), leap, [1, 2, 3]);
    assert_eq!(id.to_string(), "prod-20161231T235959Z-010203");
    assert_eq!(id.to_string().parse::<BackupId>().unwrap(), id);
}

#[test]
fn the_folder_of_a_cluster_is_not_the_start_of_its_neighbours() {
    let place = prefix("etcd");
    for (one, other) in [("prod", "prod-eu"), ("prod", "prod-20260101T000000Z-abcdef"), ("a", "a.b")] {
        let id = BackupId::new(other.parse().unwrap(), at("2026-01-01T00:00:00Z"), [1, 2, 3]);
        let folder = cluster_folder(&place, &one.parse().unwrap());
        assert!(!id.data_key(&place).starts_with(&folder), "{one} and {other}");
    }
}

#[test]
fn a_name_in_an_error_cannot_break_the_line() {
    let error = "a\nb".parse::<ClusterName>().unwrap_err();
    assert_eq!(error.to_string(), r#""a\nb" is not a cluster name"#);
    assert!(error.hint().contains("letters, digits"), "{}", error.hint());
}

proptest! {
    #[test]
    fn every_name_reads_back_as_itself(
        cluster in "[A-Za-z0-9][A-Za-z0-9._@-]{0,40}",
        folder in "[a-z/]{0,12}",
        second in 0i64..4_000_000_000,
        random: [u8; 3],
    ) {
        let id = BackupId::new(cluster.parse().unwrap(), DateTime::from_timestamp(second, 0).unwrap(), random);
        let p = prefix(&folder);
        prop_assert_eq!(parse_key(&p, &id.data_key(&p)), ParsedKey::Data(id.clone()));
        prop_assert_eq!(parse_key(&p, &id.manifest_key(&p)), ParsedKey::Manifest(id.clone()));
        let evidence = ParsedKey::Evidence { id: id.clone(), at: id.taken_at() };
        prop_assert_eq!(parse_key(&p, &id.evidence_key(&p, id.taken_at(), random)), evidence);
        prop_assert_eq!(id.to_string().parse::<BackupId>().unwrap(), id);
    }

    #[test]
    fn alike_clusters_never_see_each_other(
        stem in "[a-z][a-z0-9.-]{0,6}",
        tail in "(-|\\.|-eu|-20260101T000000Z-abcdef|\\.snap\\.zst\\.age|@x|_|0)",
        second in 0i64..4_000_000_000,
    ) {
        let p = prefix("x");
        let taken_at = DateTime::from_timestamp(second, 0).unwrap();
        let one: ClusterName = stem.parse().unwrap();
        let other: ClusterName = format!("{stem}{tail}").parse().unwrap();
        for (mine, theirs) in [(&one, &other), (&other, &one)] {
            let id = BackupId::new(mine.clone(), taken_at, [7, 8, 9]);
            prop_assert!(!id.data_key(&p).starts_with(&cluster_folder(&p, theirs)));
            match parse_key(&p, &id.data_key(&p)) {
                ParsedKey::Data(found) => prop_assert_eq!(found.cluster(), mine),
                strange => prop_assert!(false, "{:?}", strange),
            }
        }
    }

    #[test]
    fn no_key_makes_the_parser_panic(key in "\\PC{0,80}", cut in "[a-z0-9TZ:.+-]{0,60}") {
        parse_key(&prefix(""), &key);
        parse_key(&prefix(""), &format!("prod-{cut}.snap.zst.age"));
        parse_key(&prefix(""), &format!("prod/prod-{cut}.snap"));
    }
}
