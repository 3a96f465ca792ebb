//! The contract of a store as a suite that every driver must pass. For tests; it panics with the rule that was broken.
//!
//! Each rule works below a folder of its own, so that the suite may run against a bucket that is in use.

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::join_all;

use crate::parts::PART_BYTES_MIN;
use crate::{Store, StoreErrorKind, UploadOptions};

/// Runs every rule against `store`, below `folder`.
///
/// # Panics
/// If the store breaks a rule.
pub async fn run_all(store: &Store, folder: &str) {
    create_never_replaces(store, &format!("{folder}/create")).await;
    create_has_one_winner(store, &format!("{folder}/race")).await;
    odd_keys_are_kept_as_they_are(store, &format!("{folder}/odd")).await;
    uploads_show_only_when_complete(store, &format!("{folder}/upload")).await;
    aborted_uploads_leave_nothing(store, &format!("{folder}/abort")).await;
    uploads_keep_every_byte(store, &format!("{folder}/bytes")).await;
    reads_start_anywhere(store, &format!("{folder}/range")).await;
    what_is_missing_is_missing(store, &format!("{folder}/missing")).await;
    listings_are_whole_sorted_and_exact(store, &format!("{folder}/list")).await;
    removing_twice_is_no_error(store, &format!("{folder}/remove")).await;
}

fn ok<T, E: std::fmt::Debug>(rule: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{rule}: {error:?}"))
}

async fn whole(store: &Store, key: &str, from: u64) -> Vec<u8> {
    let stream = ok("read", store.reader().read(key, from).await);
    ok("read to the end", stream.try_collect::<Vec<Bytes>>().await).concat()
}

fn some_bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn options() -> UploadOptions {
    UploadOptions { part_size_bytes: PART_BYTES_MIN, ..UploadOptions::default() }
}

async fn create_never_replaces(store: &Store, folder: &str) {
    let key = format!("{folder}/once");
    ok("create", store.append().create(&key, Bytes::from_static(b"first")).await);
    let again = store.append().create(&key, Bytes::from_static(b"second")).await;
    assert_eq!(again.expect_err("create must not replace").kind(), StoreErrorKind::AlreadyExists);
    assert_eq!(whole(store, &key, 0).await, b"first");
    // Not even by the same bytes: who is told that it created, did.
    let same = store.append().create(&key, Bytes::from_static(b"first")).await;
    assert_eq!(same.expect_err("the same bytes are another object").kind(), StoreErrorKind::AlreadyExists);
}

async fn create_has_one_winner(store: &Store, folder: &str) {
    let key = format!("{folder}/contested");
    let tries = (0..8u8).map(|n| {
        let (append, key) = (store.append(), key.clone());
        async move { append.create(&key, Bytes::from(vec![n; 100])).await }
    });
    let results = join_all(tries).await;
    let winners: Vec<usize> = results.iter().enumerate().filter(|(_, r)| r.is_ok()).map(|(n, _)| n).collect();
    assert_eq!(winners.len(), 1, "exactly one create wins, {winners:?} did");
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        assert_eq!(error.kind(), StoreErrorKind::AlreadyExists, "{error:?}");
    }
    assert_eq!(whole(store, &key, 0).await, vec![winners[0] as u8; 100], "the winner's bytes stay");
}

async fn uploads_show_only_when_complete(store: &Store, folder: &str) {
    let key = format!("{folder}/late");
    let mut upload = ok("upload", store.append().upload(&key, options()).await);
    ok("write", upload.write(&some_bytes(PART_BYTES_MIN as usize + 1)).await);
    assert_eq!(ok("stat", store.reader().stat(&key).await), None, "an upload under way is not visible");
    assert!(ok("list", store.reader().list(folder).await).is_empty(), "nor listed");
    let open = ok("open uploads", store.remover().open_uploads(folder).await);
    assert_eq!(open.iter().map(|open| open.key.as_str()).collect::<Vec<_>>(), [key.as_str()]);

    let uploaded = ok("complete", upload.complete().await);
    assert_eq!((uploaded.bytes, uploaded.parts), (PART_BYTES_MIN + 1, 2));
    assert!(ok("open uploads", store.remover().open_uploads(folder).await).is_empty());
    assert_eq!(ok("stat", store.reader().stat(&key).await).map(|object| object.bytes), Some(PART_BYTES_MIN + 1));
}

async fn aborted_uploads_leave_nothing(store: &Store, folder: &str) {
    let key = format!("{folder}/never");
    let mut upload = ok("upload", store.append().upload(&key, options()).await);
    ok("write", upload.write(&some_bytes(PART_BYTES_MIN as usize * 2)).await);
    ok("abort", upload.abort().await);
    assert_eq!(ok("stat", store.reader().stat(&key).await), None);
    assert!(ok("open uploads", store.remover().open_uploads(folder).await).is_empty());

    let upload = ok("upload", store.append().upload(&key, options()).await);
    let open = ok("open uploads", store.remover().open_uploads(folder).await);
    ok("abort from outside", store.remover().abort_open_upload(&open[0]).await);
    ok("abort what is gone", store.remover().abort_open_upload(&open[0]).await);
    assert!(upload.complete().await.is_err(), "an upload that was aborted from outside cannot be completed");
    assert_eq!(ok("stat", store.reader().stat(&key).await), None);
}

async fn uploads_keep_every_byte(store: &Store, folder: &str) {
    let part = PART_BYTES_MIN as usize;
    for len in [0, 1, 7_919, part - 1, part, part + 1, 2 * part + 7_919] {
        let key = format!("{folder}/{len}");
        let bytes = some_bytes(len);
        let mut upload = ok("upload", store.append().upload(&key, options()).await);
        for piece in bytes.chunks(7_919) {
            ok("write", upload.write(piece).await);
        }
        let uploaded = ok("complete", upload.complete().await);
        assert_eq!(uploaded.bytes, len as u64);
        assert_eq!(uploaded.parts as usize, len.div_ceil(part).max(1), "{len} bytes");
        assert!(whole(store, &key, 0).await == bytes, "{len} bytes come back as they went");
    }
}

async fn reads_start_anywhere(store: &Store, folder: &str) {
    let key = format!("{folder}/object");
    ok("create", store.append().create(&key, Bytes::from_static(b"0123456789")).await);
    for from in [0usize, 1, 9, 10, 11] {
        let expected = b"0123456789".get(from..).unwrap_or_default();
        assert_eq!(whole(store, &key, from as u64).await, expected, "from {from}");
    }
    let empty = format!("{folder}/empty");
    ok("create", store.append().create(&empty, Bytes::new()).await);
    assert_eq!(whole(store, &empty, 0).await, b"");
    let small = store.reader().read_small(&key, 9).await;
    assert_eq!(small.expect_err("more than it may have").kind(), StoreErrorKind::Damaged);
}

async fn what_is_missing_is_missing(store: &Store, folder: &str) {
    let key = format!("{folder}/nothing");
    assert_eq!(ok("stat", store.reader().stat(&key).await), None);
    let Err(error) = store.reader().read(&key, 0).await else { panic!("what is missing cannot be read") };
    assert_eq!(error.kind(), StoreErrorKind::NotFound);
    assert!(ok("list", store.reader().list(folder).await).is_empty());
}

async fn listings_are_whole_sorted_and_exact(store: &Store, folder: &str) {
    let mut keys: Vec<String> = (0..1_050).map(|n| format!("{folder}/prod/object-{n:04}")).collect();
    keys.extend(["a b", "a+b", "a%2Fb", "a=b&c", "ä", "x,y"].map(|odd| format!("{folder}/prod/odd {odd}")));
    let neighbours = ["prod-eu/x", "prod.eu/x", "prodx", "pro/x"].map(|near| format!("{folder}/{near}"));
    for keys in keys.chunks(32) {
        join_all(keys.iter().map(|key| create_x(store, key))).await;
    }
    for key in &neighbours {
        create_x(store, key).await;
    }
    keys.sort();
    let listed = ok("list", store.reader().list(&format!("{folder}/prod/")).await);
    let found: Vec<&str> = listed.iter().map(|object| object.key.as_str()).collect();
    assert!(found == keys.iter().map(String::as_str).collect::<Vec<_>>(), "a listing is whole, exact and sorted");
    assert_eq!(ok("list", store.reader().list(&format!("{folder}/")).await).len(), keys.len() + neighbours.len());
}

/// Keys of strangers, above all: a catalogue must see them as they are, and a sweep must find them again.
async fn odd_keys_are_kept_as_they_are(store: &Store, folder: &str) {
    let odd =
        ["a b", "a\nb", "a\tb", "a+b", "a%2Fb", "a%b", "a=b&c", "a<b>", "a\"b'c", "a?b#c", "\u{e4}\u{1f512}", "x,y"];
    for name in odd {
        let (key, unfinished) = (format!("{folder}/done/{name}"), format!("{folder}/open/{name}"));
        create_x(store, &key).await;
        assert_eq!(whole(store, &key, 0).await, b"x", "{name:?}");
        // Dropped and neither completed nor aborted.
        drop(ok("upload", store.append().upload(&unfinished, options()).await));
    }
    let sorted = |below: &str| {
        let mut keys: Vec<String> = odd.iter().map(|name| format!("{folder}/{below}/{name}")).collect();
        keys.sort();
        keys
    };
    let listed = ok("list", store.reader().list(&format!("{folder}/")).await);
    assert_eq!(listed.into_iter().map(|object| object.key).collect::<Vec<_>>(), sorted("done"));
    let open = ok("open uploads", store.remover().open_uploads(&format!("{folder}/")).await);
    for upload in &open {
        ok("abort", store.remover().abort_open_upload(upload).await);
    }
    let mut found: Vec<String> = open.into_iter().map(|upload| upload.key).collect();
    found.sort();
    assert_eq!(found, sorted("open"));
    assert!(ok("open uploads", store.remover().open_uploads(&format!("{folder}/")).await).is_empty());
    for key in sorted("done") {
        assert!(ok("remove", store.remover().remove(&key).await), "{key:?}");
    }
}

async fn removing_twice_is_no_error(store: &Store, folder: &str) {
    let key = format!("{folder}/object");
    create_x(store, &key).await;
    assert!(ok("remove", store.remover().remove(&key).await));
    assert!(!ok("remove again", store.remover().remove(&key).await));
    assert_eq!(ok("stat", store.reader().stat(&key).await), None);
}

async fn create_x(store: &Store, key: &str) {
    ok("create", store.append().create(key, Bytes::from_static(b"x")).await);
}
