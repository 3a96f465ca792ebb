//! What is taken for a backup, and above all what is not.

use bronzenail_format::manifest::{Plain, Source, Stored, Tool};
use bronzenail_format::{EvidenceLevel, Sha256Digest};
use bytes::Bytes;

use super::*;
use crate::Store;
use crate::faulty::{Fault, Faulty};

const A: &str = "prod-20260101T000000Z-00000a";
const B: &str = "prod-20260102T000000Z-00000b";
const EU: &str = "prod-eu-20260103T000000Z-00000c";

fn tool() -> Tool {
    Tool { name: "test".to_owned(), version: "1".to_owned() }
}

fn evidence(level: EvidenceLevel) -> Evidence {
    Evidence { level, at: "2026-01-01T00:00:00Z".parse().unwrap(), by: tool(), detail: BTreeMap::new() }
}

fn manifest(id: &str, stored_bytes: u64) -> Manifest {
    Manifest {
        id: id.parse().unwrap(),
        tool: tool(),
        source: Source::default(),
        plain: Plain { bytes: 1_056, sha256: Sha256Digest([1; 32]) },
        stored: Stored { bytes: stored_bytes, sha256: Sha256Digest([2; 32]), etag: None, checksum: None, parts: None },
        zstd_level: 3,
        recipients: vec!["age1fl8zrqmfvxnudmgch7qh7h8vyz7x8k9ks2uzvr7gdxcjzywn3qzqd4dh0k".to_owned()],
        read_back_stanza: false,
        contents: None,
        evidence: vec![evidence(EvidenceLevel::Stored)],
        label: None,
    }
}

struct Place {
    store: Store,
    prefix: Prefix,
}

impl Place {
    fn new(prefix: &str) -> Self {
        Self { store: Store::memory(), prefix: prefix.parse().unwrap() }
    }

    async fn put(&self, key: &str, bytes: impl Into<Bytes>) {
        self.store.append().create(key, bytes.into()).await.unwrap();
    }

    async fn data(&self, id: &str, bytes: usize) {
        let id: BackupId = id.parse().unwrap();
        self.put(&id.data_key(&self.prefix), vec![0; bytes]).await;
    }

    async fn manifest(&self, id: &str, json: impl Into<Bytes>) {
        let id: BackupId = id.parse().unwrap();
        self.put(&id.manifest_key(&self.prefix), json).await;
    }

    async fn backup(&self, id: &str) {
        self.data(id, 10).await;
        self.manifest(id, manifest(id, 10).to_json()).await;
    }

    async fn read(&self, cluster: Option<&str>) -> Catalogue {
        let cluster = cluster.map(|name| name.parse().unwrap());
        read(&self.store.reader(), &self.prefix, cluster.as_ref()).await.unwrap()
    }
}

fn ids(catalogue: &Catalogue) -> Vec<String> {
    catalogue.entries.iter().map(|entry| entry.id().to_string()).collect()
}

#[tokio::test]
async fn b53_backups_are_found_at_any_place_oldest_first_and_of_one_cluster_or_all() {
    for prefix in ["", "a/b/c"] {
        let place = Place::new(prefix);
        for id in [EU, B, A] {
            place.backup(id).await;
        }
        assert_eq!(ids(&place.read(None).await), [A, B, EU]);
        assert_eq!(ids(&place.read(Some("prod")).await), [A, B], "prod-eu is another cluster");
        assert_eq!(ids(&place.read(Some("prod-eu")).await), [EU]);
        assert!(ids(&place.read(Some("pro")).await).is_empty());
    }
}

#[tokio::test]
async fn data_without_a_manifest_is_an_orphan_and_no_backup() {
    let place = Place::new("p");
    place.backup(A).await;
    place.data(B, 10).await;
    let catalogue = place.read(None).await;
    assert_eq!(ids(&catalogue), [A]);
    assert_eq!(catalogue.orphans.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(), [B]);
}

#[tokio::test]
async fn a_manifest_that_is_not_that_of_what_is_there_is_torn() {
    let id = A;
    let table: [(&str, Option<usize>, Bytes); 6] = [
        ("its data is missing", None, manifest(id, 10).to_json().into()),
        ("its data has 9 bytes, the manifest says 10", Some(9), manifest(id, 10).to_json().into()),
        ("its manifest cannot be used", Some(10), Bytes::from_static(b"{\"id\":")),
        ("its manifest cannot be used", Some(10), Bytes::new()),
        ("its manifest cannot be used", Some(10), vec![b' '; MANIFEST_BYTES_MAX as usize + 1].into()),
        ("its manifest is that of prod-20260102T000000Z-00000b", Some(10), manifest(B, 10).to_json().into()),
    ];
    for (words, data, json) in table {
        let place = Place::new("p");
        if let Some(bytes) = data {
            place.data(id, bytes).await;
        }
        place.manifest(id, json).await;
        let catalogue = place.read(None).await;
        assert!(catalogue.entries.is_empty() && catalogue.orphans.is_empty(), "{words}: {catalogue:?}");
        assert_eq!(catalogue.torn.iter().map(|torn| torn.why.to_string()).collect::<Vec<_>>(), [words]);
        assert_eq!(catalogue.torn[0].id.to_string(), id);
    }
}

#[tokio::test]
async fn evidence_counts_for_the_backup_that_it_is_about_and_for_no_other() {
    let place = Place::new("p");
    let (a, b): (BackupId, BackupId) = (A.parse().unwrap(), B.parse().unwrap());
    place.backup(A).await;
    place.backup(B).await;
    let at = "2026-02-01T00:00:00Z".parse().unwrap();
    let opened = evidence(EvidenceLevel::Opened);
    place.put(&a.evidence_key(&place.prefix, at, [1, 1, 1]), opened.to_json(&a)).await;
    // Under the name of one and about the other; cut; of a backup that is gone.
    place.put(&b.evidence_key(&place.prefix, at, [2, 2, 2]), evidence(EvidenceLevel::Restored).to_json(&a)).await;
    place.put(&b.evidence_key(&place.prefix, at, [3, 3, 3]), Bytes::from_static(b"{")).await;
    let gone: BackupId = EU.parse().unwrap();
    place.put(&gone.evidence_key(&place.prefix, at, [4, 4, 4]), opened.to_json(&gone)).await;

    let catalogue = place.read(None).await;
    assert_eq!(ids(&catalogue), [A, B]);
    assert_eq!(catalogue.entries[0].later_evidence, [opened]);
    assert_eq!(catalogue.entries[0].level(), Some(EvidenceLevel::Opened));
    assert!(catalogue.entries[1].later_evidence.is_empty());
    assert_eq!(catalogue.entries[1].level(), Some(EvidenceLevel::Stored));
}

#[tokio::test]
async fn b51_strangers_are_set_apart_and_stop_nothing() {
    let place = Place::new("p");
    place.backup(A).await;
    let strangers = [
        "p/README.txt",
        "p/prod/pki.bundle.tar.gz",
        "p/prod/prod-latest",
        "p/prod/prod-2026-13-45T99:99:99Z.snap.age",
        "p/prod/new\nline",
        "p/prod/a%2Fb",
        "p/prod-eu/prod-20260101T000000Z-00000a.snap.zst.age",
        "p/prod/prod-20260101T000000Z-00000a.snap.zst.age.json.bak",
    ];
    for key in strangers {
        place.put(key, Bytes::from_static(b"?")).await;
    }
    // Beside the prefix, and alike.
    place.put("p-other/prod/prod-20260101T000000Z-00000d.snap.zst.age", Bytes::new()).await;
    let catalogue = place.read(None).await;
    assert_eq!(ids(&catalogue), [A]);
    assert!(catalogue.orphans.is_empty() && catalogue.torn.is_empty());
    let mut expected = strangers.to_vec();
    expected.sort_unstable();
    assert_eq!(catalogue.strangers.iter().map(|object| object.key.as_str()).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn backups_of_talos_backup_are_seen_and_never_counted_among_ours() {
    let place = Place::new("p");
    place.put("p/prod-2026-01-01T02:00:00+02:00.snap.age", Bytes::from_static(b"x")).await;
    place.put("p/prod/prod-2026-01-02T00:00:00Z.snap.zst.age", Bytes::from_static(b"x")).await;
    let catalogue = place.read(None).await;
    assert!(catalogue.entries.is_empty() && catalogue.orphans.is_empty() && catalogue.strangers.is_empty());
    assert_eq!(catalogue.talos_backups.len(), 2);
    assert_eq!(catalogue.talos_backups[0].0.taken_at.to_rfc3339(), "2026-01-01T00:00:00+00:00");
}

#[tokio::test]
async fn b74_what_cannot_be_listed_or_fetched_is_an_error_and_not_an_empty_catalogue() {
    let faulty = Faulty::new(Fault::None);
    let place = Place { store: Store::over(faulty.clone()), prefix: "p".parse().unwrap() };
    place.backup(A).await;
    assert_eq!(ids(&place.read(None).await), [A]);
    for fault in [Fault::RefusesListing, Fault::RefusesReading] {
        let store = Store::over(faulty.turned(fault));
        let error = read(&store.reader(), &place.prefix, None).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{fault:?}"));
    }
}

#[tokio::test]
async fn more_backups_than_are_fetched_at_once_are_all_read() {
    let place = Place::new("");
    for n in 0..3 * FETCHES_MAX {
        place.backup(&format!("prod-20260101T0000{:02}Z-00000a", n % 60)).await;
    }
    assert_eq!(place.read(None).await.entries.len(), 3 * FETCHES_MAX);
}
