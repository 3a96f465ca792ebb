//! What can go wrong between us and a Talos node.
//!
//! Invariant: the original gRPC status code and message stay in the text, and whether to try again and what to do about
//! it are decided here, once, from the code, the message and the call.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use bronzenail_proto::common::Metadata;
use tonic::{Code, Status};

use crate::config::ConfigError;
use crate::connect::{ConnectReason, EndpointFailure};
use crate::endpoint::Endpoint;
use crate::node::{Node, NodeError};

/// One call to the Talos API, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the RPC.
    pub method: &'static str,
    /// The endpoint that it went through.
    pub endpoint: Endpoint,
    /// The node that it was for; without one, the endpoint itself.
    pub node: Option<Node>,
    /// Bytes that a stream had delivered by then.
    pub received_bytes: Option<u64>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{} on node {node} (through {})", self.method, self.endpoint)?,
            None => write!(f, "{} on {}", self.method, self.endpoint)?,
        }
        match self.received_bytes {
            Some(bytes) if bytes > 0 => write!(f, " after {bytes} bytes"),
            _ => Ok(()),
        }
    }
}

/// Why a question or a snapshot failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TalosError {
    /// The talosconfig cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A node value that Talos would refuse.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// No endpoint could be reached; each with its own reason.
    #[error("none of the {} endpoints of context `{context}` can be used: {}", failures.len(), listed(failures))]
    NoEndpoint {
        /// The context.
        context: String,
        /// Every endpoint that was tried, in order.
        failures: Vec<EndpointFailure>,
    },
    /// The node answered with a gRPC status.
    #[error("{call} failed with {code:?}: {message}")]
    Status {
        /// Which call.
        call: Call,
        /// The status code.
        code: Code,
        /// The node's own words.
        message: String,
    },
    /// The connection broke, or could not be made again, during a call.
    #[error("{call} failed with {code:?}: {reason}")]
    Connection {
        /// Which call.
        call: Call,
        /// The code that gRPC gives to it.
        code: Code,
        /// Why.
        reason: ConnectReason,
    },
    /// A question was not answered in time.
    #[error("{call} was not answered within {waited:?}")]
    NoAnswer {
        /// Which call.
        call: Call,
        /// The deadline.
        waited: Duration,
    },
    /// A snapshot did not begin in time.
    #[error("{call} sent no data within {waited:?}")]
    NoFirstByte {
        /// Which call.
        call: Call,
        /// The deadline.
        waited: Duration,
    },
    /// A snapshot stalled. Empty messages do not count as progress.
    #[error("{call} stalled: no data for {waited:?}")]
    Stalled {
        /// Which call.
        call: Call,
        /// The deadline between two non-empty chunks.
        waited: Duration,
    },
    /// The node sends messages without data, one after the other.
    #[error("{call} sent {messages} messages in a row without any data")]
    OnlyEmptyMessages {
        /// Which call.
        call: Call,
        /// How many.
        messages: u32,
    },
    /// The node said OK but sent no message.
    #[error("{call} answered with nothing")]
    EmptyReply {
        /// Which call.
        call: Call,
    },
}

fn listed(failures: &[EndpointFailure]) -> String {
    let listed: Vec<String> = failures.iter().map(ToString::to_string).collect();
    listed.join("; ")
}

/// The message of a worker's refusal ends so, whatever the API.
const NOT_A_CONTROL_PLANE: &str = "only available on control plane nodes";
/// A worker as endpoint has no certificate to forward with. It looks like a missing role and is none.
const NO_FORWARDING: &str = "no request forwarding";
/// A machine that has no configuration yet.
const NO_MACHINE_TYPE: &str = "machine type is not set";

impl TalosError {
    /// Sorts a failed call: did the node say no, or did the connection break?
    pub(crate) fn from_status(call: Call, status: &Status) -> Self {
        // A status from the wire has no source; tonic attaches one to those that it makes up itself.
        if let Some(source) = status.source() {
            let reason = ConnectReason::dig(source);
            let reason = match reason {
                ConnectReason::Other(detail) if !status.message().contains(&detail) => {
                    ConnectReason::Other(format!("{} ({detail})", status.message()))
                }
                ConnectReason::Other(_) => ConnectReason::Other(status.message().to_owned()),
                reason => reason,
            };
            return Self::Connection { call, code: status.code(), reason };
        }
        Self::Status { call, code: status.code(), message: status.message().to_owned() }
    }

    /// An error inside a message of a call that itself is OK: the way proxied nodes report theirs.
    pub(crate) fn in_band(call: &Call, metadata: Option<&Metadata>) -> Option<Self> {
        let metadata = metadata?;
        let status = metadata.status.as_ref().filter(|status| status.code != 0);
        if metadata.error.is_empty() && status.is_none() {
            return None;
        }
        let code = status.map_or(Code::Unknown, |status| Code::from_i32(status.code));
        let message = match status {
            _ if !metadata.error.is_empty() => metadata.error.clone(),
            Some(status) => status.message.clone(),
            None => String::new(),
        };
        Some(Self::Status { call: call.clone(), code, message })
    }

    /// The gRPC status code, where there was one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status { code, .. } | Self::Connection { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The node is a worker, so it has no etcd.
    pub fn is_not_control_plane(&self) -> bool {
        matches!(self, Self::Status { code: Code::Unimplemented, message, .. } if message.contains(NOT_A_CONTROL_PLANE))
    }

    /// The endpoint is a worker, so it forwards nothing.
    pub fn is_no_forwarding(&self) -> bool {
        matches!(self, Self::Status { message, .. } if message.contains(NO_FORWARDING))
    }

    /// The certificate's role or the node's version does not allow the call; neither will change by trying again.
    pub(crate) fn is_not_allowed(&self) -> bool {
        let Self::Status { code, message, .. } = self else {
            return false;
        };
        match code {
            Code::PermissionDenied => !self.is_no_forwarding(),
            Code::Unimplemented => !self.is_not_control_plane() && !message.contains(NO_MACHINE_TYPE),
            _ => false,
        }
    }

    /// Whether the same call may succeed later without anybody changing the configuration.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Config(_) | Self::Node(_) => false,
            Self::NoEndpoint { failures, .. } => failures.iter().any(|failure| failure.reason.is_passing()),
            Self::Connection { reason, .. } => reason.is_passing(),
            Self::Status { code, message, .. } => match code {
                Code::Internal => !message.contains("invalid target"),
                Code::Unknown
                | Code::Unavailable
                | Code::DeadlineExceeded
                | Code::ResourceExhausted
                | Code::Aborted
                | Code::Cancelled => true,
                _ => false,
            },
            Self::NoAnswer { .. }
            | Self::NoFirstByte { .. }
            | Self::Stalled { .. }
            | Self::OnlyEmptyMessages { .. }
            | Self::EmptyReply { .. } => true,
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Node(error) => error.hint(),
            Self::NoEndpoint { failures, .. } if failures.is_empty() => None,
            Self::NoEndpoint { failures, .. } => {
                let mut hints: Vec<&str> = Vec::new();
                for hint in failures.iter().filter_map(|failure| failure.reason.hint()) {
                    if !hints.contains(&hint) {
                        hints.push(hint);
                    }
                }
                (!hints.is_empty()).then(|| hints.join("; "))
            }
            Self::Connection { reason, .. } => reason.hint().map(str::to_owned),
            Self::Status { call, code, message } => status_hint(call, *code, message),
            Self::NoAnswer { .. } | Self::NoFirstByte { .. } => Some(
                "calls hang while etcd on that node is down: look at `talosctl service etcd`, or name another node"
                    .to_owned(),
            ),
            Self::Stalled { .. } | Self::OnlyEmptyMessages { .. } => {
                Some("the node or the network stopped in the middle; try again, or name another node".to_owned())
            }
            Self::EmptyReply { .. } => None,
        }
    }
}

fn status_hint(call: &Call, code: Code, message: &str) -> Option<String> {
    let endpoint = &call.endpoint;
    let hint = match code {
        _ if message.contains(NO_FORWARDING) => {
            format!("the endpoint {endpoint} is a worker, which forwards nothing; use a control-plane node as endpoint")
        }
        Code::PermissionDenied if call.method == "EtcdSnapshot" => {
            "the client certificate needs the role os:etcd:backup (os:operator and os:admin may too)".to_owned()
        }
        Code::PermissionDenied => "the client certificate lacks the role for this call".to_owned(),
        Code::Unimplemented if message.contains(NOT_A_CONTROL_PLANE) => {
            "that node is a worker and has no etcd; use a control-plane node".to_owned()
        }
        Code::Unimplemented if message.contains(NO_MACHINE_TYPE) => {
            "that node has no machine configuration yet".to_owned()
        }
        Code::Unimplemented => "this version of Talos does not have the call".to_owned(),
        Code::Internal if message.contains("invalid target") => {
            "a node is an IP address or a name, without port and brackets".to_owned()
        }
        Code::Unavailable if call.node.is_some() => {
            format!("{endpoint} could not reach that node: is it up, and is the name one that {endpoint} can resolve?")
        }
        Code::DeadlineExceeded => "etcd on that node may be down, or the network too slow; try another node".to_owned(),
        _ => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &'static str, code: Code, message: &str) -> TalosError {
        let endpoint = "10.0.0.1".parse().unwrap();
        let call = Call { method, endpoint, node: Some("10.0.0.5".parse().unwrap()), received_bytes: None };
        TalosError::from_status(call, &Status::new(code, message))
    }

    #[test]
    fn b03_the_original_status_stays_in_the_message() {
        let error = status("EtcdSnapshot", Code::DeadlineExceeded, "context deadline exceeded");
        assert_eq!(
            error.to_string(),
            "EtcdSnapshot on node 10.0.0.5 (through 10.0.0.1:50000) failed with DeadlineExceeded: context deadline exceeded"
        );
        assert!(error.is_retryable());
    }

    #[test]
    fn b22_permission_denied_names_the_role_and_is_not_retried() {
        let error = status("EtcdSnapshot", Code::PermissionDenied, "not authorized");
        assert!(error.hint().unwrap().contains("os:etcd:backup"));
        assert!(!error.is_retryable() && error.is_not_allowed());
    }

    #[test]
    fn a_worker_is_told_apart_from_a_missing_role_and_an_old_version() {
        let forwarding = status("EtcdStatus", Code::PermissionDenied, "no request forwarding");
        assert!(forwarding.is_no_forwarding() && !forwarding.is_not_allowed());
        assert!(forwarding.hint().unwrap().contains("is a worker"));

        let worker = status("EtcdStatus", Code::Unimplemented, "etcd status is only available on control plane nodes");
        assert!(worker.is_not_control_plane() && !worker.is_not_allowed());
        assert!(worker.hint().unwrap().contains("use a control-plane node"));

        let blank = status("EtcdStatus", Code::Unimplemented, "machine type is not set, cannot use etcd status API");
        assert!(!blank.is_not_allowed());

        let old =
            status("EtcdStatus", Code::Unimplemented, "unknown method EtcdStatus for service machine.MachineService");
        assert!(old.is_not_allowed() && old.hint().unwrap().contains("version"));
    }

    #[test]
    fn only_what_may_pass_by_itself_is_retryable() {
        for (code, message, retryable) in [
            (Code::Unavailable, "", true),
            (Code::Internal, "failed proxying s2c", true),
            (Code::Internal, "invalid target \"x:1\"", false),
            (Code::ResourceExhausted, "", true),
            (Code::InvalidArgument, "", false),
            (Code::FailedPrecondition, "", false),
            (Code::Unauthenticated, "", false),
            (Code::Unimplemented, "", false),
        ] {
            assert_eq!(status("EtcdSnapshot", code, message).is_retryable(), retryable, "{code:?} {message}");
        }
    }

    #[test]
    fn b15_every_endpoint_is_listed_with_its_own_reason() {
        let failure = |endpoint: &str, reason| EndpointFailure { endpoint: endpoint.parse().unwrap(), reason };
        let error = TalosError::NoEndpoint {
            context: "prod".to_owned(),
            failures: vec![
                failure("10.0.0.1", ConnectReason::Refused),
                failure("[fd00::2]:6000", ConnectReason::ConnectTimeout(Duration::from_secs(10))),
            ],
        };
        assert_eq!(
            error.to_string(),
            "none of the 2 endpoints of context `prod` can be used: 10.0.0.1:50000: connection refused; [fd00::2]:6000: no connection within 10s"
        );
        assert!(error.is_retryable());
    }
}
