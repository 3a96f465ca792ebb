//! Everything that bronzenail says to a Talos node: who we are (`talosconfig`), where it listens, what it may be asked,
//! and the snapshot itself.
//!
//! Invariant: power is a type. A [`SnapshotSource`] can ask and read; nothing that changes a node can be reached from it.
//! Nothing here prints, exits, reads the environment by itself, or creates a file.

mod choose;
mod client;
pub mod config;
mod connect;
mod endpoint;
mod error;
mod node;
mod questions;
mod snapshot;

pub use choose::{Choice, Learned, MemberFacts, Observation, Observed, choose_member, decide};
pub use client::{Client, ConnectOptions};
pub use config::{CaFingerprint, ClientCertificate, ConfigError, Context, TalosConfig};
pub use connect::{ConnectReason, EndpointFailure};
pub use endpoint::{DEFAULT_PORT, Endpoint, EndpointError};
pub use error::{Call, TalosError};
pub use node::{Node, NodeError};
pub use questions::{Alarm, AlarmKind, Answer, Member, MemberId, MemberSource, MemberStatus, Questions, Version};
pub use snapshot::{Deadlines, SnapshotSource, SnapshotStream};
/// The codes of gRPC, which [`TalosError`] reports.
pub use tonic::Code;

#[cfg(test)]
#[path = "../tests/pki/mod.rs"]
mod pki;
