//! Object lock, asked for and looked after.
//!
//! A lock that was asked for must be there: some stores take the headers of a multipart upload and forget them. So the
//! object is looked at afterwards, and what is missing is set by its own request. Where that fails too, the write failed.

use aws_sdk_s3::types::{ObjectLockLegalHold, ObjectLockLegalHoldStatus, ObjectLockRetention, ObjectLockRetentionMode};

use super::{ObjectLockMode, Shared, aws_time};
use crate::StoreError;

/// Makes sure that `key` has the retention and the legal hold that the options ask for.
pub(super) async fn ensure(shared: &Shared, key: &str) -> Result<(), StoreError> {
    let options = &shared.options;
    if options.object_lock.is_none() && !options.legal_hold {
        return Ok(());
    }
    let doing = || format!("could not lock {key} as it was asked for");
    let head = shared.client.head_object().bucket(&options.bucket).key(key).send().await;
    // Who may not read a lock may still set one.
    let (has_mode, has_hold) = head
        .map(|head| {
            let hold = head.object_lock_legal_hold_status() == Some(&ObjectLockLegalHoldStatus::On);
            (head.object_lock_mode().is_some(), hold)
        })
        .unwrap_or_default();

    if let Some(lock) = options.object_lock.filter(|_| !has_mode) {
        let mode = match lock.mode {
            ObjectLockMode::Governance => ObjectLockRetentionMode::Governance,
            ObjectLockMode::Compliance => ObjectLockRetentionMode::Compliance,
        };
        let retention =
            ObjectLockRetention::builder().mode(mode).retain_until_date(aws_time(lock.retain_until)).build();
        let request = shared.client.put_object_retention().bucket(&options.bucket).key(key).retention(retention);
        request.send().await.map_err(|error| shared.failed(doing(), error))?;
    }
    if options.legal_hold && !has_hold {
        let hold = ObjectLockLegalHold::builder().status(ObjectLockLegalHoldStatus::On).build();
        let request = shared.client.put_object_legal_hold().bucket(&options.bucket).key(key).legal_hold(hold);
        request.send().await.map_err(|error| shared.failed(doing(), error))?;
    }
    Ok(())
}
