//! Compiles our .proto files in pure Rust: no `protoc` on the machine is needed, and none is asked.

use std::error::Error;
use std::path::Path;

const FILES: [&str; 3] = ["common.proto", "machine.proto", "state.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new("proto");
    for file in FILES {
        println!("cargo::rerun-if-changed={}", folder.join(file).display());
    }

    let descriptors = protox::compile(FILES, [folder])?;
    tonic_prost_build::configure()
        // `Bytes` hands a received chunk on without copying it: a snapshot arrives in half a million of them.
        .bytes(".common.Data")
        .compile_fds(descriptors)?;
    Ok(())
}
