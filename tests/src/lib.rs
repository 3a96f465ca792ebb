//! The lab: everything that stands around the real programs when they are tested.
//!
//! A Talos API emulator over mutual TLS before a real etcd, S3 servers kind and unkind, and the means to run our own
//! programs as processes. Invariant: nothing here is kinder than the real thing; where a real node or store misbehaves,
//! the lab can be told to do the same.

pub mod bench;
pub mod ceph;
pub mod demo;
pub mod emulator;
pub mod etcd;
pub mod front;
pub mod pki;
pub mod process;
pub mod rig;
pub mod s3;
pub mod skip;

pub use skip::skip;
