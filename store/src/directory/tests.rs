//! What only a file system can get wrong. The contract itself is in the conformance suite.

use super::*;
use crate::{Store, UploadOptions};

async fn fresh() -> (tempfile::TempDir, PathBuf, Store) {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("store");
    let store = Store::directory(&root).await.unwrap();
    (outside, root, store)
}

fn x() -> Bytes {
    Bytes::from_static(b"x")
}

#[tokio::test]
async fn keys_never_lead_out_of_the_root() {
    let (outside, _, store) = fresh().await;
    for key in ["../x", "a/../../x", "/x", "a//x", "a/", "", ".", "a/.", "nul\0", "x.part", "a.part/x"] {
        let error = store.append().create(key, x()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Config, "{key:?}");
        assert!(error.to_string().contains("cannot be the name of a file here"), "{error}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    let elsewhere = OpenUpload { key: "x".to_owned(), id: "../.x.00112233.part".to_owned(), begun: None };
    fs::write(outside.path().join(".x.00112233.part"), "").unwrap();
    assert!(store.remover().abort_open_upload(&elsewhere).await.is_err());
    assert!(outside.path().join(".x.00112233.part").exists());
}

#[tokio::test]
async fn b80_leftovers_are_never_listed_as_objects_but_can_be_swept() {
    let (_outside, root, store) = fresh().await;
    fs::create_dir(root.join("prod")).unwrap();
    fs::write(root.join("prod/.prod-1.snap.zst.age.0011aabb.part"), "half").unwrap();
    assert!(store.reader().list("").await.unwrap().is_empty());
    let open = store.remover().open_uploads("prod/").await.unwrap();
    assert_eq!(open.iter().map(|open| open.key.as_str()).collect::<Vec<_>>(), ["prod/prod-1.snap.zst.age"]);
    assert!(open[0].begun.is_some(), "a sweep goes by age");
    assert!(store.remover().open_uploads("prod-eu/").await.unwrap().is_empty());
    store.remover().abort_open_upload(&open[0]).await.unwrap();
    assert_eq!(fs::read_dir(root.join("prod")).unwrap().count(), 0);
}

#[tokio::test]
async fn completing_an_upload_never_replaces() {
    let (_outside, root, store) = fresh().await;
    let mut upload = store.append().upload("a", UploadOptions::default()).await.unwrap();
    upload.write(b"late").await.unwrap();
    store.append().create("a", x()).await.unwrap();
    assert_eq!(upload.complete().await.unwrap_err().kind(), StoreErrorKind::AlreadyExists);
    assert_eq!(fs::read(root.join("a")).unwrap(), b"x");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing is left of the upload");
}

#[tokio::test]
async fn a_file_that_was_cut_behind_our_back_is_not_published() {
    let (_outside, root, store) = fresh().await;
    let mut upload = store.append().upload("a", UploadOptions::default()).await.unwrap();
    upload.write(&vec![1; 9 * 1024 * 1024]).await.unwrap();
    let temporary = fs::read_dir(&root).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&temporary).unwrap();
    let error = upload.complete().await.unwrap_err();
    assert!(error.to_string().starts_with("could not complete"), "{error}");
    assert!(store.reader().list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn b74_a_root_that_went_away_is_an_error_and_not_an_empty_listing() {
    let (_outside, root, store) = fresh().await;
    fs::remove_dir(&root).unwrap();
    assert_eq!(store.reader().list("").await.unwrap_err().kind(), StoreErrorKind::NoSuchPlace);
    assert_eq!(store.reader().list("prod/").await.unwrap_err().kind(), StoreErrorKind::NoSuchPlace);
    assert_eq!(store.remover().open_uploads("").await.unwrap_err().kind(), StoreErrorKind::NoSuchPlace);
}

#[tokio::test]
async fn a_file_in_the_place_of_a_folder_is_not_the_object_itself() {
    let (_outside, _, store) = fresh().await;
    store.append().create("a", x()).await.unwrap();
    for key in ["a/b", "a/b/c"] {
        let error = store.append().create(key, x()).await.unwrap_err();
        assert_ne!(error.kind(), StoreErrorKind::AlreadyExists, "{key} is not there");
        assert_eq!(store.reader().stat(key).await.unwrap(), None);
        assert!(!store.remover().remove(key).await.unwrap());
    }
    assert!(store.reader().list("a/").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_folder_is_no_object() {
    let (_outside, root, store) = fresh().await;
    store.append().create("a/b", x()).await.unwrap();
    assert_eq!(store.reader().stat("a").await.unwrap(), None);
    assert_eq!(store.reader().read_small("a", 10).await.unwrap_err().kind(), StoreErrorKind::NotFound);
    assert!(!store.remover().remove("a").await.unwrap());
    assert!(root.join("a/b").exists());
}

#[tokio::test]
async fn b80_a_full_disk_is_named_and_leaves_nothing() {
    // /dev/full cannot hold a folder, so the words are tested where they are made.
    let error = failed("could not write x".to_owned(), io::ErrorKind::StorageFull.into());
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert_eq!(error.hint(), Some("free some room on that file system"));
}
