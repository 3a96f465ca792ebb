//! What can be wrong with a talosconfig, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::certificate::CertificateProblem;
use crate::endpoint::EndpointError;

/// Why there is no usable Talos configuration. No variant ever holds a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The path that was given does not exist or may not be read.
    #[error("cannot use the talosconfig {}", path.display())]
    ExplicitMissing {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No place of the search order has a file.
    #[error("there is no talosconfig; looked at {}", tried.join(", "))]
    NotFound {
        /// The places, in order, with what named each.
        tried: Vec<String>,
    },
    /// The file exists but cannot be read.
    #[error("cannot read the talosconfig {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Not the YAML that a talosconfig is. The parser's own words are withheld, since they quote the file.
    #[error("the talosconfig {origin} is not valid{}", place(*line, *column))]
    Yaml {
        /// Which file.
        origin: String,
        /// Line, counted from 1; 0 when unknown.
        line: u64,
        /// Column, counted from 1.
        column: u64,
    },
    /// No context at all in it.
    #[error("the talosconfig {origin} has no contexts")]
    Empty {
        /// Which file.
        origin: String,
    },
    /// No current context is set and none was asked for.
    #[error("the talosconfig {origin} names no current context; it has {}", existing.join(", "))]
    NoCurrentContext {
        /// Which file.
        origin: String,
        /// The contexts that exist.
        existing: Vec<String>,
    },
    /// The context that was asked for, or that is current, does not exist.
    #[error("the talosconfig {origin} has no context `{name}`; it has {}", existing.join(", "))]
    UnknownContext {
        /// Which file.
        origin: String,
        /// The context that was wanted.
        name: String,
        /// The contexts that exist.
        existing: Vec<String>,
    },
    /// A certificate or key field that cannot be used.
    #[error("`{field}` of context `{context}` in {origin} cannot be used: {why}")]
    Field {
        /// Which file.
        origin: String,
        /// Which context.
        context: String,
        /// `ca`, `crt` or `key`.
        field: &'static str,
        /// The reason, without the value.
        why: String,
    },
    /// A certificate authority in X.509 version 1, which the TLS library does not accept.
    #[error(
        "the CA `{subject}` in `ca` of context `{context}` in {origin} is an X.509 v1 certificate, which is not supported"
    )]
    CaVersion1 {
        /// Which file.
        origin: String,
        /// Which context.
        context: String,
        /// Subject of that certificate.
        subject: String,
    },
    /// The context has no client certificate; Talos knows a client by nothing else.
    #[error("context `{context}` in {origin} has no client certificate (`crt` and `key`){}", if *signed_requests { "; it is for signed requests (auth.siderov1), which are not supported" } else { "" })]
    NoClientCertificate {
        /// Which file.
        origin: String,
        /// Which context.
        context: String,
        /// Whether it is an Omni configuration.
        signed_requests: bool,
    },
    /// The client certificate would be refused by every node.
    #[error("the client certificate of context `{context}` in {origin} will be refused by Talos")]
    ClientCertificate {
        /// Which file.
        origin: String,
        /// Which context.
        context: String,
        /// What is wrong with it.
        #[source]
        problem: CertificateProblem,
    },
    /// An endpoint that cannot be parsed.
    #[error("an endpoint of context `{context}` in {origin} cannot be used")]
    Endpoint {
        /// Which file.
        origin: String,
        /// Which context.
        context: String,
        /// Which one, and why.
        #[source]
        source: EndpointError,
    },
    /// Nothing to connect to.
    #[error("context `{context}` in {origin} has no endpoints")]
    NoEndpoints {
        /// Which file.
        origin: String,
        /// Which context.
        context: String,
    },
    /// The context has no `ca` and this machine has no roots either.
    #[error(
        "context `{context}` in {origin} has no `ca`, and the system's certificate authorities cannot be used: {why}"
    )]
    SystemRoots {
        /// Which file.
        origin: String,
        /// Which context.
        context: String,
        /// What the system said.
        why: String,
    },
}

fn place(line: u64, column: u64) -> String {
    if line == 0 { String::new() } else { format!(" near line {line}, column {column}") }
}

impl ConfigError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::ExplicitMissing { .. } => "check the path; it is never created".to_owned(),
            Self::NotFound { .. } => {
                "give the file's path, set TALOSCONFIG, or mount the secret of a Talos service account at /var/run/secrets/talos.dev".to_owned()
            }
            Self::Read { .. } => "the file has to be readable by the user that this runs as".to_owned(),
            Self::Yaml { .. } | Self::Empty { .. } => "compare it with what `talosctl config info` expects".to_owned(),
            Self::NoCurrentContext { .. } | Self::UnknownContext { .. } => "choose one of the existing contexts by name".to_owned(),
            Self::Field { .. } => "write the talosconfig again with `talosctl config new` or `talosctl gen config`".to_owned(),
            Self::CaVersion1 { .. } => "reissue that CA as an X.509 v3 certificate with basicConstraints CA:TRUE".to_owned(),
            Self::NoClientCertificate { signed_requests: true, .. } => {
                "an Omni talosconfig cannot be used; issue one from the cluster with `talosctl config new --roles os:etcd:backup <file>`, \
                 or use a Talos service account"
                    .to_owned()
            }
            Self::NoClientCertificate { .. } => {
                "issue a talosconfig with a client certificate: `talosctl config new --roles os:etcd:backup <file>`".to_owned()
            }
            Self::ClientCertificate { problem, .. } => problem.hint(),
            Self::Endpoint { .. } => "write host, host:port or [ipv6]:port".to_owned(),
            Self::NoEndpoints { .. } => "add one with `talosctl config endpoint <address>`, or give endpoints explicitly".to_owned(),
            Self::SystemRoots { .. } => "put the cluster's CA into `ca` of the context".to_owned(),
        };
        Some(hint)
    }
}
