//! What is in a store: backups, and apart from them everything that is not one.
//!
//! Invariant: a backup is a manifest that can be read and an object of the size that it names. Data without a manifest is an
//! orphan, a manifest without its data is torn; neither is ever listed as a backup. A listing that fails is an error, never
//! an empty catalogue.

use std::collections::BTreeMap;

use bronzenail_format::manifest::MANIFEST_BYTES_MAX;
use bronzenail_format::name::{ParsedKey, TalosBackup, cluster_folder, parse_key};
use bronzenail_format::{BackupId, ClusterName, Evidence, EvidenceLevel, Manifest, ManifestError, Prefix};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{Object, Read, StoreError, StoreErrorKind};

/// Manifests that are fetched at once.
const FETCHES_MAX: usize = 16;

/// A backup: whole as far as names and sizes tell.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its data.
    pub data: Object,
    /// Evidence gathered after it was made.
    pub later_evidence: Vec<Evidence>,
}

impl Entry {
    /// Its id.
    pub fn id(&self) -> &BackupId {
        &self.manifest.id
    }

    /// The strongest evidence, whenever it was gathered.
    pub fn level(&self) -> Option<EvidenceLevel> {
        self.manifest.level().max(self.later_evidence.iter().map(|evidence| evidence.level).max())
    }
}

/// A manifest that is no backup.
#[derive(Debug)]
pub struct Torn {
    /// Which it would be.
    pub id: BackupId,
    /// What is wrong.
    pub why: TornBecause,
}

/// Why a manifest is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TornBecause {
    /// The data is not there.
    #[error("its data is missing")]
    NoData,
    /// The data is of another size.
    #[error("its data has {found} bytes, the manifest says {expected}")]
    Size {
        /// What the manifest says.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// The manifest cannot be read or must not be acted on.
    #[error("its manifest cannot be used")]
    Manifest(#[source] ManifestError),
    /// The manifest is that of another backup.
    #[error("its manifest is that of {0}")]
    Swapped(BackupId),
}

/// All that lies below a prefix.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// Backups, oldest first.
    pub entries: Vec<Entry>,
    /// Manifests that are no backup.
    pub torn: Vec<Torn>,
    /// Data without a manifest: a run that is under way, or that ended early.
    pub orphans: Vec<(BackupId, Object)>,
    /// Objects of siderolabs/talos-backup.
    pub talos_backups: Vec<(TalosBackup, Object)>,
    /// Everything else.
    pub strangers: Vec<Object>,
}

/// Reads what lies below `prefix`, of one cluster or of all.
///
/// # Errors
/// A listing or a manifest that could not be fetched; a manifest that is damaged is no error, but an entry of `torn`.
pub async fn read(store: &Read, prefix: &Prefix, cluster: Option<&ClusterName>) -> Result<Catalogue, StoreError> {
    let below = match cluster {
        Some(cluster) => cluster_folder(prefix, cluster),
        None => prefix.join(""),
    };
    let mut catalogue = Catalogue::default();
    let mut data = BTreeMap::new();
    let mut manifests = Vec::new();
    let mut evidence = Vec::new();
    for object in store.list(&below).await? {
        match parse_key(prefix, &object.key) {
            ParsedKey::Data(id) => drop(data.insert(id, object)),
            ParsedKey::Manifest(id) => manifests.push((id, object.key)),
            ParsedKey::Evidence { id, .. } => evidence.push((id, object.key)),
            ParsedKey::TalosBackup(named) => catalogue.talos_backups.push((named, object)),
            ParsedKey::Stranger => catalogue.strangers.push(object),
        }
    }

    let mut later = fetch_evidence(store, evidence).await?;
    for (id, manifest) in fetch_manifests(store, manifests).await? {
        let data = data.remove(&id);
        match judge(&id, manifest, data) {
            Ok((manifest, data)) => {
                let later_evidence = later.remove(&id).unwrap_or_default();
                catalogue.entries.push(Entry { manifest, data, later_evidence });
            }
            Err(why) => catalogue.torn.push(Torn { id, why }),
        }
    }
    catalogue.entries.sort_by(|a, b| a.id().cmp(b.id()));
    catalogue.orphans = data.into_iter().collect();
    Ok(catalogue)
}

fn judge(
    id: &BackupId,
    manifest: Result<Manifest, ManifestError>,
    data: Option<Object>,
) -> Result<(Manifest, Object), TornBecause> {
    let manifest = manifest.map_err(TornBecause::Manifest)?;
    if manifest.id != *id {
        return Err(TornBecause::Swapped(manifest.id));
    }
    let data = data.ok_or(TornBecause::NoData)?;
    if data.bytes != manifest.stored.bytes {
        return Err(TornBecause::Size { expected: manifest.stored.bytes, found: data.bytes });
    }
    Ok((manifest, data))
}

type Fetched = Vec<(BackupId, Result<Manifest, ManifestError>)>;

async fn fetch_manifests(store: &Read, keys: Vec<(BackupId, String)>) -> Result<Fetched, StoreError> {
    let fetches = keys.into_iter().map(|(id, key)| async move {
        Ok(fetch_small(store, &key).await?.map(|json| {
            let manifest = match json {
                Ok(json) => Manifest::from_json(&json),
                Err(bytes) => Err(ManifestError::TooLarge(bytes)),
            };
            (id, manifest)
        }))
    });
    stream::iter(fetches)
        .buffer_unordered(FETCHES_MAX)
        .try_filter_map(|found| async move { Ok(found) })
        .try_collect()
        .await
}

async fn fetch_evidence(
    store: &Read,
    keys: Vec<(BackupId, String)>,
) -> Result<BTreeMap<BackupId, Vec<Evidence>>, StoreError> {
    let fetches = keys.into_iter().map(|(id, key)| async move { Ok((id, fetch_small(store, &key).await?)) });
    // In the order of keys, which is that of time.
    let found: Vec<_> = stream::iter(fetches).buffered(FETCHES_MAX).try_collect().await?;
    let mut by_id: BTreeMap<BackupId, Vec<Evidence>> = BTreeMap::new();
    for (id, json) in found {
        // Evidence that cannot be read, or is about another backup than its name says, proves nothing, and takes nothing
        // away either.
        let Some(Ok(json)) = json else { continue };
        match Evidence::from_json(&json) {
            Ok((about, evidence)) if about == id => by_id.entry(id).or_default().push(evidence),
            _ => tracing::debug!(backup = %id, "evidence that proves nothing is passed over"),
        }
    }
    Ok(by_id)
}

/// `None` if it was deleted since the listing; `Err(bytes)` inside if it is larger than any manifest.
async fn fetch_small(store: &Read, key: &str) -> Result<Option<Result<bytes::Bytes, u64>>, StoreError> {
    match store.read_small(key, MANIFEST_BYTES_MAX).await {
        Ok(json) => Ok(Some(Ok(json))),
        Err(error) if error.kind() == StoreErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == StoreErrorKind::Damaged => Ok(Some(Err(MANIFEST_BYTES_MAX + 1))),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
