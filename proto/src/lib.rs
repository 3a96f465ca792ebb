//! The part of the Talos machine API that bronzenail speaks: messages, clients, and (for the lab) servers.
//!
//! Invariant: no logic. Everything here is generated from the .proto files beside this crate, which were written from the
//! field numbers of the public API and are wire-compatible with Talos 1.6 and later. Fields that we do not read are left
//! out; a decoder skips what it does not know.

#![allow(missing_docs, reason = "generated code; the .proto files carry the comments")]

/// Package `common`: metadata and byte chunks.
pub mod common {
    #![allow(clippy::all, clippy::unwrap_used, reason = "generated")]
    tonic::include_proto!("common");
}

/// Package `machine`: the node's own service.
pub mod machine {
    #![allow(clippy::all, clippy::unwrap_used, reason = "generated")]
    tonic::include_proto!("machine");
}

/// Package `cosi.resource`: the resource API, read side.
pub mod cosi {
    #![allow(clippy::all, clippy::unwrap_used, reason = "generated")]
    tonic::include_proto!("cosi.resource");
}

/// Largest message that a Talos node accepts or sends: 32 MiB on both sides, in every version since 1.6.
///
/// tonic's own default of 4 MiB is too small for machine configurations and image lists.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
