//! What may go wrong in a snapshot, and in the other calls.
//!
//! Places are counts of bytes of this one stream, before the fault.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tonic::Code;

/// A fault of `EtcdSnapshot`.
#[derive(Clone)]
pub enum Fault {
    /// Ends with OK after so many bytes: what Talos does when etcd fails under it.
    TruncateOk(u64),
    /// Leaves out the last bytes and ends with OK.
    DropLastOk(usize),
    /// Ends with a status.
    Status {
        /// Bytes that are sent before.
        after_bytes: u64,
        /// The status code.
        code: Code,
        /// The status message.
        message: String,
    },
    /// Resets the TCP connection after so many bytes.
    Reset(u64),
    /// After so many bytes the connection is silent, without an end.
    Blackhole(u64),
    /// The reply does not begin.
    HangFirst,
    /// Sends a few bytes at a time.
    Trickle {
        /// Bytes of one message, 1,024 at most.
        bytes: usize,
        /// Time between two messages.
        every: Duration,
    },
    /// Stops for a time, then goes on.
    PauseAt {
        /// Bytes that are sent before.
        after_bytes: u64,
        /// How long nothing comes.
        pause: Duration,
    },
    /// Sends empty messages without end after so many bytes.
    EmptyForever(u64),
    /// Sends an error inside a message after so many bytes, and ends with OK.
    InBandError(u64),
    /// Turns one bit in the byte at this place.
    FlipBit(u64),
    /// Sends so many bytes of junk after the end.
    Extra(usize),
    /// Does something once, after so many bytes, and goes on with what etcd still gives.
    Then {
        /// Bytes that are sent before.
        after_bytes: u64,
        /// What is done, such as to kill the etcd.
        action: Arc<dyn Fn() + Send + Sync>,
    },
}

impl Fault {
    /// Kills an etcd (or does anything else) after so many bytes.
    pub fn kill_etcd(after_bytes: u64, action: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Then { after_bytes, action: Arc::new(action) }
    }

    /// The place at which something happens, if it is one place.
    pub(super) fn at_bytes(&self) -> Option<u64> {
        match self {
            Self::TruncateOk(at) | Self::Reset(at) | Self::Blackhole(at) | Self::EmptyForever(at) => Some(*at),
            Self::InBandError(at) => Some(*at),
            Self::Status { after_bytes, .. } | Self::PauseAt { after_bytes, .. } | Self::Then { after_bytes, .. } => {
                Some(*after_bytes)
            }
            _ => None,
        }
    }
}

/// A fault of a call other than `EtcdSnapshot`, or of its beginning.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Answers with this status.
    Status(Code, String),
    /// Does not answer.
    Hang,
}

/// Which faults hold at present.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) always: Option<Fault>,
    /// By number of the snapshot call, from 1.
    pub(super) nth: HashMap<u64, Fault>,
    pub(super) refusals: HashMap<String, Refusal>,
    pub(super) pace_bytes_per_second: Option<u64>,
    pub(super) snapshots: u64,
}

impl Faults {
    /// The fault of the snapshot call that begins now.
    pub(super) fn next(&mut self) -> Option<Fault> {
        self.snapshots += 1;
        self.nth.get(&self.snapshots).cloned().or_else(|| self.always.clone())
    }
}
