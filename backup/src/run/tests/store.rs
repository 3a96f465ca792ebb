//! The store fails, lies, or changes under the run.

use std::path::PathBuf;

use bronzenail_store::StoreErrorKind;
use futures::StreamExt;

use super::*;

/// Names of the files in the cluster's folder, in order.
pub(super) fn names(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join("etcd/homelab")) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A backup into a directory whose data `change` gets its hands on between completion and read-back.
async fn with_data_changed(read_back: bool, change: impl Fn(&Path) + Sync) -> (RunError, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::directory(folder.path()).await.unwrap();
    let calls = Mutex::new(0);
    let clock = || {
        let mut calls = calls.lock().unwrap();
        *calls += 1;
        if *calls == 2 {
            let data = names(folder.path()).into_iter().find(|name| name.ends_with(".age")).unwrap();
            change(&folder.path().join("etcd/homelab").join(data));
        }
        noon()
    };
    let making = Making { read_back, ..making(&Key::new()) };
    let error = make_with(making, stream::iter(pieces(&whole())), &store, &clock).await.unwrap_err();
    let left = names(folder.path());
    (error, left)
}

#[tokio::test]
async fn what_does_not_come_back_as_it_was_sent_is_not_committed() {
    let flip = |at: fn(usize) -> usize| {
        move |path: &Path| {
            let mut bytes = std::fs::read(path).unwrap();
            let at = at(bytes.len());
            bytes[at] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
    };
    let cut = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    };
    let lengthen = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, [bytes, vec![0]].concat()).unwrap();
    };
    let replace = |path: &Path| std::fs::write(path, whole()).unwrap();
    let empty = |path: &Path| std::fs::write(path, "").unwrap();

    type Change<'a> = (&'a str, &'a (dyn Fn(&Path) + Sync));
    let changes: [Change<'_>; 7] = [
        ("a bit of the header", &flip(|_| 30)),
        ("a bit in the middle", &flip(|bytes| bytes / 2)),
        ("a bit at the end", &flip(|bytes| bytes - 1)),
        ("the last byte missing", &cut),
        ("a byte more", &lengthen),
        ("the plain snapshot instead", &replace),
        ("nothing at all", &empty),
    ];
    for (what, change) in changes {
        let (error, left) = with_data_changed(true, change).await;
        assert!(matches!(error, RunError::ReadBack { .. }), "{what}: {error}");
        assert_eq!(error.exit(), Exit::Failed);
        assert!(!left.iter().any(|name| name.ends_with(".json")), "{what}: {left:?}");
    }
}

#[tokio::test]
async fn data_that_is_gone_at_read_back_is_not_committed() {
    let (error, left) = with_data_changed(true, |path: &Path| std::fs::remove_file(path).unwrap()).await;
    assert!(matches!(error, RunError::ReadBack { .. }), "{error}");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_manifest_that_is_there_already_is_not_replaced() {
    let squat = |data: &Path| {
        let mut manifest = data.as_os_str().to_owned();
        manifest.push(".json");
        std::fs::write(PathBuf::from(manifest), "another's").unwrap();
    };
    for read_back in [true, false] {
        let (error, left) = with_data_changed(read_back, squat).await;
        let RunError::Commit { key, source } = error else { panic!("{error}") };
        assert_eq!(source.kind(), StoreErrorKind::AlreadyExists);
        assert_eq!(left.len(), 2);
        assert!(key.ends_with(&left[0]));
    }
}

#[tokio::test]
async fn a_store_that_cannot_complete_makes_nothing_visible() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::directory(folder.path()).await.unwrap();
    // The first time is after the bytes have passed and before they are made visible.
    let clock = || {
        let _ = std::fs::remove_dir_all(folder.path().join("etcd"));
        noon()
    };
    let error = make_with(making(&Key::new()), stream::iter(pieces(&whole())), &store, &clock).await.unwrap_err();
    assert!(matches!(error, RunError::Store(_)), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[tokio::test]
async fn a_store_that_cannot_begin_is_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::directory(folder.path()).await.unwrap();
    std::fs::write(folder.path().join("etcd"), "a file where the folder should be").unwrap();
    let error = make_of(&whole(), &store).await.unwrap_err();
    assert!(matches!(error, RunError::Store(_)), "{error}");
}

/// Larger than a part however well it compresses, and no snapshot.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut noise = Vec::with_capacity(bytes);
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise
}

#[tokio::test]
async fn b34_a_part_that_cannot_be_sent_ends_the_run_at_once_and_is_the_reason() {
    let store = Store::memory();
    let remover = store.remover();
    // The store forgets the upload while it is under way; the source then falls silent without an end.
    let forget = stream::once(async move {
        for upload in remover.open_uploads("").await.unwrap() {
            remover.abort_open_upload(&upload).await.unwrap();
        }
        Ok(Bytes::from_static(b"more"))
    });
    let source = stream::iter([Ok(Bytes::from_static(b"begins"))])
        .chain(forget)
        .chain(stream::iter(pieces(&noise(20 << 20))))
        .chain(stream::pending());
    let making = Making {
        upload: UploadOptions { part_size_bytes: 5 << 20, ..UploadOptions::default() },
        ..making(&Key::new())
    };
    let error = make_with(making, source, &store, &noon).await.unwrap_err();
    assert!(matches!(error, RunError::Store(_)), "{error}");
    assert_empty(&store).await;
}

#[tokio::test]
async fn when_both_sides_fail_the_source_is_the_reason() {
    let store = Store::memory();
    let remover = store.remover();
    let fail = stream::once(async move {
        for upload in remover.open_uploads("").await.unwrap() {
            remover.abort_open_upload(&upload).await.unwrap();
        }
        Err(failed(Code::Unavailable, 1))
    });
    let source = stream::iter(pieces(&noise(12 << 20))).chain(fail);
    let error = make_with(making(&Key::new()), source, &store, &noon).await.unwrap_err();
    assert!(matches!(error, RunError::Talos(_)), "{error}");
    assert_empty(&store).await;
}
