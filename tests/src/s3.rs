//! S3 without an installation: a server in memory, its clients, and a security token service that knows no secrets.
//!
//! For the demo, and for tests that want a healthy and fast S3. It is real where a client can tell: requests must be
//! signed with granted keys, ETags are made as S3 makes them (`-N` for N parts), `If-None-Match: *` is honoured on
//! PutObject and on CompleteMultipartUpload, ranges and listing pages work, an unfinished upload is invisible.
//!
//! It is honest about its limits: no versions, no object lock, no copies, no ACL or policy (any granted key may do
//! anything), no checksums other than ETags kept or returned, and everything is gone when it is dropped. What it does
//! not know it answers with `NotImplemented`, never with a friendly success. For the rest there is [`crate::ceph`].

mod client;
pub(crate) mod listener;
mod memory;
mod server;
mod sts;

pub use client::{ClientOptions, client, client_with};
pub use server::{S3Keys, S3Options, S3Server};
pub(crate) use sts::unescape;
pub use sts::{Sts, StsCredentials, TokenSeen};
