//! The one door to storage: S3, a directory, or memory.
//!
//! Callers see [`Store`] and its views, never a driver. A view is a capability: [`Append`] can add objects and look at them,
//! [`Read`] can look and list, and only [`Remove`] can delete. Invariant: an object is not visible under its key before it is
//! whole, `create` never replaces, and timeouts count lack of progress, never total time. Every driver passes the same
//! suite in [`conformance`].

pub mod catalogue;
pub mod conformance;
pub mod error;
pub mod parts;
pub mod s3;
pub mod upload;

mod directory;
mod driver;
#[cfg(test)]
mod faulty;
mod memory;
mod views;

pub use driver::{ByteStream, Created, Object, OpenUpload};
pub use error::{StoreError, StoreErrorKind};
pub use s3::{Addressing, ChecksumMode, ObjectLock, ObjectLockMode, S3Options, ServerSideEncryption};
pub use upload::{AbortHandle, ChecksumProof, Upload, UploadOptions, Uploaded};
pub use views::{Append, Read, Remove, Store};
