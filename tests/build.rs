//! Compiles the lab's etcd client from our minimal .proto file, in pure Rust.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/etcd.proto");
    let descriptors = protox::compile(["etcd.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".etcdserverpb.SnapshotResponse")
        .compile_fds(descriptors)?;
    Ok(())
}
