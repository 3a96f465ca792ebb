//! The main job, from a node to a committed backup.

use bronzenail_format::EvidenceLevel;
use bronzenail_lab::rig::{self, Rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_into_a_directory_is_whole_and_opens_to_the_same_bytes() {
    let snapshot = rig::fixture_snapshot();
    let rig = Rig::of_bytes(snapshot.clone()).await;
    let output = rig.backup_to_directory().run().await.unwrap();
    output.assert_code(0);

    let catalogue = rig::catalogue(&rig.directory().await).await;
    assert_eq!((catalogue.entries.len(), catalogue.orphans.len(), catalogue.torn.len()), (1, 0, 0));
    let entry = &catalogue.entries[0];
    assert_eq!(entry.manifest, output.manifest(), "the document is the manifest that was written");
    assert_eq!(entry.level(), Some(EvidenceLevel::ReadBack));
    let contents = entry.manifest.contents.as_ref().unwrap();
    assert_eq!((contents.revision, contents.live_keys, contents.pairs), (734, Some(538), 606));
    assert_eq!(contents.status_hash, format!("{:08x}", 672_756_842));

    let stored = std::fs::read(rig.path("store").join(&entry.data.key)).unwrap();
    let (plain, report) = rig.open(&stored);
    assert!(plain == snapshot && report.is_proven());
}
