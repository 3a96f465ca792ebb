//! A front that stands before any S3 server and misbehaves on demand.
//!
//! It forwards requests as they came (path, query, headers, body, and `Host`, so that signatures still hold) and the
//! answers as they came back, but for what a list of [`Rule`]s says. Everything it saw is in its log.
//!
//! Invariant: faults happen on the wire and not in a client, so that the code under test meets them as it would meet a
//! failing store; and what a rule says that the store never saw, the store never saw.
//!
//! Rules are asked in their order. Every rule that matches and is still due acts: those that only hinder (a delay, a
//! slow drain) let the request go on to the next rule, the first that answers or cuts ends it.

mod fault;
mod forward_proxy;
mod log;
mod operation;
mod proxy;
mod rule;
mod store_traits;
mod upstream;
mod xml;

pub use forward_proxy::{ForwardProxy, ProxySeen};
pub use log::{Fate, Seen};
pub use operation::Operation;
pub use proxy::{Front, FrontOptions};
pub use rule::{Action, Gate, Lie, Moment, Refusal, Rule, StoreTrait};
