//! Manifests: what a reader skips, and what it must refuse.

#![allow(clippy::unwrap_used)]

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
fn the_golden_example_means_what_it_says() {
    let golden = include_bytes!("../golden/v1/manifest.json");
    assert_eq!(Manifest::from_json(golden).unwrap(), example(), "a golden file is never edited");
    assert_eq!(example().to_json(), golden);
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
fn contents_without_a_revision_are_damage_and_not_revision_0() {
    for field in ["revision", "pairs", "status_hash", "pages"] {
        let error = with(|j| drop(j["contents"].as_object_mut().unwrap().remove(field))).unwrap_err();
        assert!(matches!(error, ManifestError::Damaged(_)), "{field}: {error}");
    }
}

#[test]
fn evidence_of_a_level_that_is_not_known_proves_nothing_and_harms_nothing() {
    let manifest = with(|j| j["evidence"][2]["level"] = "sworn".into()).unwrap();
    assert_eq!(manifest.evidence.len(), 2);
    assert_eq!(manifest.level(), Some(EvidenceLevel::Stored));

    let json = String::from_utf8(example().evidence[2].to_json(&example().id)).unwrap();
    let later = Evidence::from_json(json.replace("read-back", "sworn").as_bytes());
    assert!(matches!(later, Err(ManifestError::Field("evidence.level"))), "{later:?}");
}

#[test]
fn levels_are_read_as_they_are_written() {
    for level in EvidenceLevel::ALL {
        assert_eq!(level.to_string().parse(), Ok(level));
    }
    let error = "Restored".parse::<EvidenceLevel>().unwrap_err();
    assert!(error.to_string().contains("streamed, stored, read-back, opened, restored"), "{error}");
}

#[test]
fn a_manifest_with_a_field_twice_is_damage() {
    let json = String::from_utf8(example().to_json()).unwrap();
    let twice = json.replacen("\"plain\"", "\"cluster\": \"other\",\n  \"plain\"", 1);
    assert!(matches!(Manifest::from_json(twice.as_bytes()), Err(ManifestError::Damaged(_))));
}

#[test]
fn numbers_beyond_two_to_the_53_are_text() {
    let json: serde_json::Value = serde_json::from_slice(&example().to_json()).unwrap();
    for field in ["member_id", "raft_applied_index", "raft_term"] {
        assert!(json["source"][field].is_string(), "{field}");
    }
}

#[test]
fn b77_the_manifest_names_the_certificate_authority_of_the_cluster() {
    let manifest = Manifest::from_json(&example().to_json()).unwrap();
    assert_eq!(manifest.source.talos_ca_sha256, [Sha256Digest([0x11; 32])]);
    let two = with(|j| j["source"]["talos_ca_sha256"] = serde_json::json!(["aa".repeat(32), "bb".repeat(32)])).unwrap();
    assert_eq!(two.source.talos_ca_sha256.len(), 2);
}

#[test]
fn b79_the_manifest_names_the_versions_that_a_restore_must_match() {
    let Manifest { source, contents, .. } = Manifest::from_json(&example().to_json()).unwrap();
    assert_eq!(source.etcd_version.as_deref(), Some("3.6.12"));
    assert_eq!(source.talos_version.as_deref(), Some("v1.13.9"));
    assert_eq!(source.storage_version.as_deref(), Some("3.6.0"));
    assert_eq!(contents.unwrap().cluster_version.as_deref(), Some("3.5.0"));
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
