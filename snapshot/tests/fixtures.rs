//! Every fixture is called what it is, with the numbers that etcd's own tools give.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use bronzenail_snapshot::{AlarmKind, Report, Trailer, Verdict};
use serde_json::Value;
use support::{check, fixture, fixtures_dir};

/// Fixtures whose recorded verdict is that of a simpler reader; the README says why.
const SHARPER: [(&str, &str); 2] =
    [("damaged-trailing-garbage.snap", "lengthened"), ("damaged-truncated-page.snap", "truncated")];

fn truths() -> serde_json::Map<String, Value> {
    let text = std::fs::read(fixtures_dir().join("TRUTHS.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap().as_object().unwrap().clone()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn expected_verdict<'a>(name: &str, truth: &'a Value) -> &'a str {
    let sharper = SHARPER.iter().find(|(sharper, _)| *sharper == name).map(|(_, verdict)| *verdict);
    sharper.unwrap_or_else(|| truth["verdict"].as_str().unwrap())
}

#[test]
fn every_fixture_gets_its_verdict() {
    for (name, truth) in truths() {
        let report = check(&fixture(&name));
        assert_eq!(report.verdict.name(), expected_verdict(&name, &truth), "{name}: {:?}", report.problems);
        let is_good = report.verdict.name().starts_with("ok");
        assert_eq!(report.is_proven(), is_good, "{name}");
    }
}

#[test]
fn every_fixture_has_its_length_hash_and_trailer() {
    for (name, truth) in truths() {
        let report = check(&fixture(&name));
        assert_eq!(report.bytes, truth["bytes"].as_u64().unwrap(), "{name}");
        assert_eq!(hex(&report.sha256), truth["sha256"].as_str().unwrap(), "{name}");
        assert_eq!(report.trailer == Trailer::Matches, truth["trailer_ok"].as_bool().unwrap(), "{name}");
    }
}

/// Wherever etcdutl could give numbers and the whole tree could be read, they are the same, damaged or not.
#[test]
fn numbers_are_those_of_etcdutl() {
    let mut compared = BTreeSet::new();
    for (name, truth) in truths() {
        let status = &truth["etcdutl_3_5_status"];
        let report = check(&fixture(&name));
        let (Some(hash), Some(contents)) = (status["hash"].as_u64(), report.contents) else { continue };
        assert_eq!(u64::from(contents.status_hash), hash, "{name}");
        assert_eq!(contents.revision, status["revision"].as_i64().unwrap(), "{name}");
        assert_eq!(contents.pairs, status["totalKey"].as_u64().unwrap(), "{name}");
        let data_bytes = contents.pages * u64::from(contents.page_size_bytes);
        assert_eq!(data_bytes, status["totalSize"].as_u64().unwrap(), "{name}");
        compared.insert(name);
    }
    let accepted_by_both: BTreeSet<String> = truths()
        .into_iter()
        .filter(|(_, truth)| truth["etcdutl_3_5_status"]["hash"].is_u64())
        .map(|(name, _)| name)
        .collect();
    assert_eq!(compared, accepted_by_both);
}

#[test]
fn live_keys_are_those_that_a_started_etcd_counts() {
    let mut compared = 0;
    for (name, truth) in truths() {
        let Some(live_keys) = truth["live_keys"].as_u64() else { continue };
        let contents = check(&fixture(&name)).contents.unwrap();
        assert_eq!(contents.live_keys, Some(live_keys), "{name}");
        compared += 1;
    }
    assert!(compared >= 11, "only {compared} were compared");
}

#[test]
fn members_are_counted_from_their_bucket() {
    let mut compared = 0;
    for (name, truth) in truths() {
        let Some(members) = truth["members"].as_u64() else { continue };
        assert_eq!(check(&fixture(&name)).contents.unwrap().members, members, "{name}");
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} were compared");
}

#[test]
fn no_fixture_is_left_untested() {
    let known: BTreeSet<String> = truths().into_iter().map(|(name, _)| name).collect();
    let found: BTreeSet<String> = std::fs::read_dir(fixtures_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !matches!(name.as_str(), "README.md" | "TRUTHS.json"))
        .map(|name| name.trim_end_matches(".zst").to_owned())
        .collect();
    assert_eq!(found, known);
    assert!(!found.is_empty());
}

#[test]
fn a_kubernetes_snapshot_tells_versions_compaction_and_index() {
    let contents = check(&fixture("kubernetes-3.5.1.snap")).contents.unwrap();
    assert_eq!(contents.compact_revision, Some(694));
    assert_eq!(contents.restored_revision(), 734);
    assert_eq!(contents.cluster_version.as_deref(), Some("3.5.0"));
    assert_eq!(contents.storage_version, None);
    assert!(contents.consistent_index.unwrap() > 700);
    assert!(contents.term.unwrap() >= 1);
    assert!(!contents.auth_enabled);
    assert_eq!(contents.alarms, []);
    assert!(contents.tombstones > 0);
    let names: Vec<_> = contents.buckets.iter().map(|bucket| bucket.name.as_str()).collect();
    assert_eq!(
        names,
        ["alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members", "members_removed", "meta"]
    );
    assert_eq!(contents.buckets.iter().map(|bucket| bucket.pairs).sum::<u64>(), contents.pairs);
}

#[test]
fn a_nospace_alarm_leases_and_access_control_are_seen() {
    let contents = check(&fixture("leases-nospace-alarm-3.5.1.snap")).contents.unwrap();
    assert_eq!(contents.alarms.len(), 1);
    assert_eq!(contents.alarms[0].kind, AlarmKind::NoSpace);
    assert_ne!(contents.alarms[0].member_id, 0);
    assert_eq!(contents.leases, 5);

    let contents = check(&fixture("auth-enabled-3.5.1.snap")).contents.unwrap();
    assert!(contents.auth_enabled);
    assert_eq!((contents.auth_users, contents.auth_roles), (1, 1));
}

#[test]
fn an_empty_store_is_at_revision_one_after_a_restore() {
    let contents = check(&fixture("empty-3.5.1.snap")).contents.unwrap();
    assert_eq!((contents.revision, contents.restored_revision(), contents.live_keys), (0, 1, Some(0)));
    assert_eq!(contents.compact_revision, None);
}

fn b01(cut_bytes: usize) -> Report {
    let whole = fixture("kubernetes-3.5.1.snap");
    check(&whole[..whole.len() - cut_bytes])
}

#[test]
fn b01_snapshot_without_trailer_is_refused() {
    let report = b01(32);
    assert_eq!((report.verdict, report.trailer), (Verdict::NoTrailer, Trailer::Absent));
    assert!(!report.is_proven());
}

#[test]
fn b01_snapshot_cut_by_40_000_bytes_is_refused() {
    let report = b01(40_000);
    assert_eq!(report.verdict, Verdict::Truncated);
    assert!(!report.is_proven());
    assert_eq!(report.problems, ["there are 799712 bytes, but the database alone has 839680"]);
}

#[test]
fn b06_a_free_list_that_frees_a_live_page_is_damage() {
    let report = check(&fixture("damaged-freelist-claims-root-resealed.snap"));
    assert_eq!((report.verdict, report.trailer), (Verdict::StructurallyDamaged, Trailer::Matches));
    assert_eq!(
        report.problems,
        ["page 88 is in use, but the free list calls it free", "page 2 is neither in use nor on the free list"]
    );
}

#[test]
fn b10_a_raw_copy_says_that_it_has_no_trailing_hash() {
    let report = check(&fixture("raw-copy-3.5.1.db"));
    assert_eq!(report.verdict, Verdict::NoTrailer);
    assert!(report.verdict.to_string().starts_with("there is no trailing hash, so this looks like a raw copy"));
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(!report.is_proven());
}

/// bbolt lets its file grow in steps of 16 MiB.
#[test]
fn b10_a_raw_copy_may_end_in_unused_pages() {
    let mut raw = fixture("raw-copy-3.5.1.db");
    raw.resize(raw.len() + 16 * 4096, 0);
    assert_eq!(check(&raw).verdict, Verdict::NoTrailer);
    raw.push(0);
    assert_eq!(check(&raw).verdict, Verdict::Lengthened);
    raw.pop();
    *raw.last_mut().unwrap() = 1;
    assert_eq!(check(&raw).verdict, Verdict::Lengthened);
}

#[test]
fn a_damaged_raw_copy_is_damaged_and_not_merely_without_a_trailer() {
    let damaged = fixture("damaged-zero-page-resealed.snap");
    let report = check(&damaged[..damaged.len() - 32]);
    assert_eq!((report.verdict, report.trailer), (Verdict::StructurallyDamaged, Trailer::Absent));
    assert!(report.problems[0].contains("page 145"), "{:?}", report.problems);
    assert_eq!(report.contents, None);
}

#[test]
fn a_snapshot_with_an_older_meta_page_loses_nothing() {
    let older = check(&fixture("damaged-newest-meta-resealed.snap"));
    let whole = check(&fixture("kubernetes-3.5.1.snap"));
    let (older_contents, whole_contents) = (older.contents.clone().unwrap(), whole.contents.unwrap());
    assert!(older.is_proven());
    assert_eq!(older_contents.transaction_id + 1, whole_contents.transaction_id);
    assert_eq!(older_contents.status_hash, whole_contents.status_hash);
    assert_eq!(older.problems, ["meta page 0 is broken; meta page 1 names the tree"]);
}

#[test]
fn verdict_names_are_the_same_in_json() {
    for verdict in [Verdict::Ok, Verdict::OkOlderMeta, Verdict::StructurallyDamaged, Verdict::NotASnapshot] {
        assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
    }
}
