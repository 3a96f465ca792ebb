//! etcd's own API, generated from the lab's minimal .proto file.

#![allow(missing_docs, clippy::all, clippy::unwrap_used, reason = "generated code")]

tonic::include_proto!("etcdserverpb");
