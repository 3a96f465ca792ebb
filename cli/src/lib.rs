//! Manners that bronzenail's programs share: exit codes, errors with hints, layered configuration, logging, progress.
//!
//! Invariant: the rooms below never print and never exit; here an error chain becomes text and a number. Data goes to
//! standard output, talk to standard error.

pub mod config;
pub mod exit;
pub mod log;
pub mod output;
pub mod progress;
pub mod report;
pub mod termination;
pub mod units;

pub use config::{ConfigError, Origin, Setting, Values};
pub use exit::Exit;
