//! The lab's own S3 side: a server that is as strict as the real one, and a front whose every fault happens on the wire.
//!
//! A fake that is kinder than the real thing proves nothing, and a fault that does not happen proves even less.

#![allow(clippy::unwrap_used)]

mod lab_s3 {
    mod around;
    mod faults;
    mod rgw;
    mod server;
    mod spoiled;
    mod stage;
    mod traits;
}
