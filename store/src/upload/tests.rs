//! What an upload makes of stores that are not what they say.

use std::sync::atomic::Ordering;

use super::*;
use crate::Store;
use crate::faulty::{Fault, Faulty};

const TWO_PARTS_AND_A_BYTE: usize = 2 * PART_BYTES_MIN as usize + 1;

fn options() -> UploadOptions {
    UploadOptions { part_size_bytes: PART_BYTES_MIN, ..UploadOptions::default() }
}

async fn send(store: &Faulty, bytes: usize) -> Result<Uploaded, StoreError> {
    let mut upload = Store::over(store.clone()).append().upload("key", options()).await?;
    upload.write(&vec![1; bytes]).await?;
    upload.complete().await
}

async fn failure(fault: Fault) -> (StoreError, Faulty) {
    let store = Faulty::new(fault);
    (send(&store, TWO_PARTS_AND_A_BYTE).await.expect_err("nothing may be called stored"), store)
}

#[tokio::test]
async fn what_the_store_has_is_compared_by_size_and_checksum() {
    let uploaded = send(&Faulty::new(Fault::None), TWO_PARTS_AND_A_BYTE).await.unwrap();
    assert_eq!((uploaded.bytes, uploaded.parts), (TWO_PARTS_AND_A_BYTE as u64, 3));
    assert_eq!(uploaded.checksum, ChecksumProof::EtagMd5);
}

#[tokio::test]
async fn b29_a_store_that_says_yes_and_has_something_else_is_caught() {
    let table = [
        (Fault::KeepsNothing, "the store confirmed key but does not have it"),
        (Fault::KeepsLess, "the store has 10485760 bytes of key, 10485761 were sent"),
        (Fault::KeepsOther, "the store's checksum of key is not that of what was sent"),
        (Fault::CountsOtherwise, "the store made key of 4 parts, 3 were sent"),
    ];
    for (fault, words) in table {
        let (error, store) = failure(fault).await;
        assert_eq!((error.kind(), error.to_string().as_str()), (StoreErrorKind::Damaged, words));
        assert_eq!(store.log.aborts.load(Ordering::SeqCst), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn b29_a_completion_that_failed_and_left_nothing_is_its_own_reason() {
    let (error, _) = failure(Fault::RefusesCompletion).await;
    assert_eq!(error.to_string(), "RefusesCompletion");
}

#[tokio::test]
async fn b28_a_completion_whose_reply_is_lost_is_believed_if_the_checksum_says_so() {
    let uploaded = send(&Faulty::new(Fault::LosesReply), TWO_PARTS_AND_A_BYTE).await.unwrap();
    assert_eq!(uploaded.checksum, ChecksumProof::EtagMd5);
    let (error, _) = failure(Fault::LosesReplyAndHasNoMd5).await;
    assert_eq!(error.to_string(), "LosesReplyAndHasNoMd5", "an older object of that size could be there");
}

#[tokio::test]
async fn what_cannot_be_asked_about_is_not_called_stored() {
    let (error, _) = failure(Fault::HidesObjects).await;
    assert_eq!(error.to_string(), "HidesObjects");
}

#[tokio::test]
async fn b34_no_part_is_under_way_when_an_upload_is_aborted() {
    let store = Faulty::new(Fault::RefusesPart);
    let mut upload = Store::over(store.clone()).append().upload("key", options()).await.unwrap();
    upload.write(&vec![1; PART_BYTES_MIN as usize + 1]).await.unwrap();
    let error = upload.complete().await.unwrap_err();
    assert_eq!(error.to_string(), "RefusesPart");
    assert_eq!(store.log.aborts.load(Ordering::SeqCst), 1);
    assert_eq!(store.log.parts_under_way_at_abort.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn b34_a_store_that_also_refuses_to_abort_does_not_hide_the_reason() {
    let store = Faulty::new(Fault::RefusesAbort);
    let mut upload = Store::over(store.clone()).append().upload("key", options()).await.unwrap();
    upload.write(b"x").await.unwrap();
    let error = upload.complete().await.unwrap_err();
    assert_eq!(error.to_string(), "RefusesAbort");
    assert_eq!(store.log.aborts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn memory_is_bounded_by_the_parts_in_flight() {
    for parts_in_flight in [1, 2, 3] {
        let store = Faulty::new(Fault::None);
        let options = UploadOptions { parts_in_flight, ..options() };
        let mut upload = Store::over(store.clone()).append().upload("key", options).await.unwrap();
        for _ in 0..6 {
            upload.write(&vec![1; PART_BYTES_MIN as usize]).await.unwrap();
        }
        upload.complete().await.unwrap();
        assert_eq!(store.log.parts_under_way_max.load(Ordering::SeqCst), parts_in_flight);
    }
}

#[tokio::test]
async fn b31_a_part_size_below_the_minimum_is_refused_before_anything_is_sent() {
    let store = Faulty::new(Fault::None);
    let options = UploadOptions { part_size_bytes: PART_BYTES_MIN - 1, ..UploadOptions::default() };
    let error = Store::over(store.clone()).append().upload("key", options).await.unwrap_err();
    assert_eq!((error.kind(), error.hint()), (StoreErrorKind::Config, Some("S3 takes parts of 5 MiB and more")));
    assert!(Store::over(store).remover().open_uploads("").await.unwrap().is_empty());
}

#[tokio::test]
async fn b31_a_stream_that_meets_the_limit_of_parts_is_explained() {
    let store = Faulty::new(Fault::None);
    let options = UploadOptions { parts_max: 1, ..options() };
    let mut upload = Store::over(store).append().upload("key", options).await.unwrap();
    let error = upload.write(&vec![1; TWO_PARTS_AND_A_BYTE]).await.unwrap_err();
    assert_eq!(error.to_string(), "key does not fit into 1 parts");
    assert_eq!(error.hint(), Some("choose a larger part size"));
    upload.abort().await.unwrap();
}

#[tokio::test]
async fn an_upload_can_be_aborted_from_elsewhere_after_it_was_dropped() {
    let store = Faulty::new(Fault::None);
    let mut upload = Store::over(store.clone()).append().upload("key", options()).await.unwrap();
    upload.write(b"x").await.unwrap();
    let handle = upload.abort_handle();
    drop(upload);
    handle.abort().await.unwrap();
    handle.abort().await.unwrap();
    assert!(Store::over(store).remover().open_uploads("").await.unwrap().is_empty());
}
