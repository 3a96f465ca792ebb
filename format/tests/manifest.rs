//! Manifests: golden files of every released version, and what a reader must refuse.

use bronzenail_format::manifest::{Contents, Plain, Source, Stored, Tool};
use bronzenail_format::{Evidence, EvidenceLevel, Manifest, ManifestError, Recipients, Sha256Digest};

fn example() -> Manifest {
    let tool = Tool { name: "bronzenail-backup".to_owned(), version: "0.1.0".to_owned() };
    let evidence = |level, at: &str| Evidence {
        level,
        at: at.parse().unwrap(),
        by: tool.clone(),
        detail: [("bytes".to_owned(), "839712".to_owned())].into(),
    };
    Manifest {
        id: "homelab-20261130T020000Z-1a2b3c".parse().unwrap(),
        tool: tool.clone(),
        source: Source {
            endpoint: Some("10.0.0.2:50000".to_owned()),
            node: Some("10.0.0.3".to_owned()),
            member_id: Some("8e9e05c52164694d".to_owned()),
            member_name: Some("cp-2".to_owned()),
            etcd_version: Some("3.6.12".to_owned()),
            storage_version: Some("3.6.0".to_owned()),
            talos_version: Some("v1.13.9".to_owned()),
            db_size_bytes: Some(839_680),
            raft_applied_index: Some("18446744073709551615".to_owned()),
            raft_term: Some("7".to_owned()),
            is_leader: Some(false),
            is_learner: Some(false),
            talos_ca_sha256: vec![Sha256Digest([0x11; 32])],
        },
        plain: Plain { bytes: 839_712, sha256: Sha256Digest([0x22; 32]) },
        stored: Stored {
            bytes: 291_733,
            sha256: Sha256Digest([0x33; 32]),
            etag: Some("\"ab-1\"".to_owned()),
            checksum: None,
            parts: Some(1),
        },
        zstd_level: 3,
        recipients: vec!["age1fl8zrqmfvxnudmgch7qh7h8vyz7x8k9ks2uzvr7gdxcjzywn3qzqd4dh0k".to_owned()],
        read_back_stanza: true,
        contents: Some(Contents {
            revision: 734,
            compact_revision: Some(714),
            pairs: 606,
            live_keys: Some(538),
            tombstones: 20,
            status_hash: "2819a1ea".to_owned(),
            members: 1,
            alarms: vec!["NOSPACE".to_owned()],
            storage_version: None,
            cluster_version: Some("3.5.0".to_owned()),
            auth_enabled: false,
            page_size_bytes: 4096,
            pages: 205,
        }),
        evidence: vec![
            evidence(EvidenceLevel::Streamed, "2026-11-30T02:00:04Z"),
            evidence(EvidenceLevel::Stored, "2026-11-30T02:00:05Z"),
            evidence(EvidenceLevel::ReadBack, "2026-11-30T02:00:06Z"),
        ],
        label: Some("pre-upgrade".to_owned()),
    }
}

#[test]
fn a_manifest_reads_back_as_itself() {
    let manifest = example();
    assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
    assert_eq!(manifest.level(), Some(EvidenceLevel::ReadBack));
}

#[test]
fn golden_manifests_of_every_version_are_read_and_written_the_same() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v1");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let json = std::fs::read(&path).unwrap();
        match name.as_str() {
            "manifest.json" => {
                assert_eq!(Manifest::from_json(&json).unwrap(), example(), "a golden file is never edited");
                assert_eq!(String::from_utf8(example().to_json()), String::from_utf8(json));
            }
            other => panic!("golden/v1/{other} is read by no test"),
        }
        seen.push(name);
    }
    assert_eq!(seen, ["manifest.json"]);
}

fn with(edit: impl FnOnce(&mut serde_json::Value)) -> Result<Manifest, ManifestError> {
    let mut json: serde_json::Value = serde_json::from_slice(&example().to_json()).unwrap();
    edit(&mut json);
    Manifest::from_json(json.to_string().as_bytes())
}

#[test]
fn unknown_fields_are_skipped_and_unknown_critical_flags_are_not() {
    assert_eq!(with(|json| json["colour"] = "blue".into()).unwrap(), example());
    assert_eq!(with(|json| json["source"]["rack"] = 7.into()).unwrap(), example());
    let error = with(|json| json["critical_flags"] = serde_json::json!(["chunked"])).unwrap_err();
    assert!(matches!(&error, ManifestError::CriticalFlag(flag) if flag == "chunked"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_newer_version_is_refused_whatever_its_shape() {
    let json = br#"{"format_version": 2, "backup": "has another shape"}"#;
    assert!(matches!(Manifest::from_json(json), Err(ManifestError::Newer(2))));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    assert!(matches!(with(|j| j["cluster"] = "other".into()), Err(ManifestError::Field("cluster"))));
    assert!(matches!(with(|j| j["taken_at"] = "2026-11-30T02:00:01Z".into()), Err(ManifestError::Field("taken_at"))));
    assert!(matches!(with(|j| j["id"] = "x".into()), Err(ManifestError::Field("id"))));
    assert!(matches!(with(|j| j["evidence"] = serde_json::json!([])), Err(ManifestError::Field("evidence"))));
    assert!(matches!(with(|j| j["plain"]["sha256"] = "short".into()), Err(ManifestError::Damaged(_))));
}

#[test]
fn no_cut_of_a_manifest_is_taken_for_one() {
    let json = example().to_json();
    for cut in 0..json.len() - 2 {
        assert!(Manifest::from_json(&json[..cut]).is_err(), "cut at {cut}");
    }
    let large = vec![b' '; 2 * 1024 * 1024];
    assert!(matches!(Manifest::from_json(&large), Err(ManifestError::TooLarge(_))));
}

#[test]
fn later_evidence_names_its_backup() {
    let evidence = example().evidence[2].clone();
    let id = example().id;
    assert_eq!(Evidence::from_json(&evidence.to_json(&id)).unwrap(), (id, evidence));
}

#[test]
fn levels_are_ordered_by_strength() {
    use EvidenceLevel::{Opened, ReadBack, Restored, Stored, Streamed};
    assert!(Streamed < Stored && Stored < ReadBack && ReadBack < Opened && Opened < Restored);
}

#[test]
fn the_recipients_of_a_manifest_are_keys_again() {
    let mut manifest = example();
    manifest.recipients = vec![age::x25519::Identity::generate().to_public().to_string()];
    assert_eq!(Recipients::try_from(&manifest).unwrap().canonical(), manifest.recipients);
}
