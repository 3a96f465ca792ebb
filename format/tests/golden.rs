//! Golden files: what was ever written must always be read, byte for byte the same.
//!
//! A file in golden/ is never edited. A change of the format that a released reader would misread gets a new version and a
//! folder of its own; the meta-test fails if a golden file is read by no test.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bronzenail_format::name::{ParsedKey, parse_key};
use bronzenail_format::{
    Evidence, EvidenceLevel, Identities, Manifest, OpenError, OpenOptions, Prefix, Recipients, Sha256Digest, open,
};
use sha2::{Digest, Sha256};

const MANIFESTS: [&str; 4] = [
    "v1/manifest.json",
    "v1/manifest-full.json",
    "v1/manifest-least.json",
    "v1/backup/golden-20261201T020000Z-0a1b2c.snap.zst.age.json",
];
const EVIDENCE: &str = "v1/backup/golden-20261201T020000Z-0a1b2c.snap.zst.age.evidence-20261202T030000Z-0d0e0f.json";
const DATA: &str = "v1/backup/golden-20261201T020000Z-0a1b2c.snap.zst.age";
const IDENTITY: &str = "v1/backup/identity.txt";
const ID: &str = "golden-20261201T020000Z-0a1b2c";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(root().join(name)).unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(read(name)).unwrap()
}

fn manifest(name: &str) -> Manifest {
    Manifest::from_json(&read(name)).unwrap()
}

#[test]
fn every_golden_file_is_read_by_a_test() {
    fn walk(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.insert(path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&root(), &mut found);
    let known = MANIFESTS.into_iter().chain([EVIDENCE, DATA, IDENTITY, ".gitattributes"]);
    assert_eq!(found, known.map(str::to_owned).collect());
}

#[test]
fn golden_manifests_are_written_again_as_they_were() {
    for name in MANIFESTS {
        assert_eq!(String::from_utf8(manifest(name).to_json()).unwrap(), text(name), "{name}");
    }
}

#[test]
fn a_golden_manifest_with_every_field_keeps_every_field() {
    let full = manifest("v1/manifest-full.json");
    assert_eq!(full.stored.checksum.as_deref(), Some("CRC64NVME:rosUhgp5mIg="));
    assert_eq!(full.source.raft_applied_index.as_deref(), Some("18446744073709551615"));
    assert_eq!(full.contents.unwrap().status_hash, "2819a1ea");
    assert_eq!(full.label.as_deref(), Some("pre-upgrade"));
    let least = manifest("v1/manifest-least.json");
    assert_eq!((least.contents, least.label, least.source), (None, None, Default::default()));
}

#[test]
fn golden_names_are_names_still() {
    let keys = [DATA, MANIFESTS[3], EVIDENCE].map(|name| format!("golden/{}", name.rsplit_once('/').unwrap().1));
    let [data, manifest, evidence] = keys.map(|key| parse_key(&Prefix::default(), &key));
    assert_eq!(data, ParsedKey::Data(ID.parse().unwrap()));
    assert_eq!(manifest, ParsedKey::Manifest(ID.parse().unwrap()));
    assert!(matches!(evidence, ParsedKey::Evidence { id, .. } if id.to_string() == ID));
}

#[test]
fn golden_evidence_is_about_the_golden_backup() {
    let (id, evidence) = Evidence::from_json(&read(EVIDENCE)).unwrap();
    assert_eq!((id.to_string().as_str(), evidence.level), (ID, EvidenceLevel::Opened));
    assert_eq!(String::from_utf8(evidence.to_json(&id)).unwrap(), text(EVIDENCE));
}

/// What the golden backup was made of: 2,200 lines of digests, which zstd can halve and no more.
fn golden_plain() -> Vec<u8> {
    let line = |n: u32| format!("{}\n", Sha256Digest(Sha256::digest(n.to_string()).into()));
    (0..2_200).map(line).collect::<String>().into_bytes()
}

#[test]
fn the_golden_backup_opens_with_each_of_its_keys_and_its_manifest_is_right() {
    let manifest = manifest(MANIFESTS[3]);
    let keys = [
        ("identity.txt", text(IDENTITY)),
        ("ed25519", include_str!("keys/ed25519").to_owned()),
        ("rsa", include_str!("keys/rsa").to_owned()),
    ];
    for (name, key) in keys {
        let identities = Identities::parse(name, &key).unwrap();
        assert!(manifest.recipients.contains(&identities.public_keys()[0]), "{name}");
        let mut plain = Vec::new();
        let opened = open(read(DATA).as_slice(), &mut plain, &identities, &OpenOptions::default()).unwrap();
        assert!(plain == golden_plain(), "{name}");
        assert_eq!((opened.stored_bytes, opened.stored_sha256), (manifest.stored.bytes, manifest.stored.sha256));
        assert_eq!(opened.plain_bytes, manifest.plain.bytes);
        assert_eq!(Sha256Digest(Sha256::digest(&plain).into()), manifest.plain.sha256);
    }
    assert_eq!(Recipients::try_from(&manifest).unwrap().canonical(), manifest.recipients);
}

#[test]
fn a_key_that_does_not_fit_the_golden_backup_is_told_what_would() {
    let stranger = Identities::parse("k", include_str!("keys/ed25519")).unwrap();
    let damaged = read(DATA);
    // Another key's tag stands in the header: as if the SSH recipient were someone else.
    let at = damaged.windows(15).position(|window| window == b"-> ssh-ed25519 ").unwrap() + 15;
    let mut other = damaged.clone();
    other[at] = if other[at] == b'A' { b'B' } else { b'A' };
    match open(other.as_slice(), std::io::sink(), &stranger, &OpenOptions::default()) {
        Err(OpenError::NoIdentity { recipient_kinds }) => {
            assert_eq!(recipient_kinds, ["X25519", "ssh-ed25519", "ssh-rsa"]);
        }
        other => panic!("{other:?}"),
    }
}
