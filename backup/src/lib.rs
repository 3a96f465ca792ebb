//! The program that runs unattended in the cluster: takes a snapshot, proves it, seals it, stores it, and commits it.
//!
//! Invariant: it holds no power to delete or overwrite and no private key. Plain bytes exist only in memory. A backup exists
//! once its manifest is written, and that is the last thing that happens.

pub mod arguments;
pub mod config;
pub mod error;
pub mod outcome;
pub mod pipeline;
pub mod read_back;
pub mod run;
pub mod settings;

pub use config::Config;
pub use error::RunError;
pub use outcome::Outcome;
