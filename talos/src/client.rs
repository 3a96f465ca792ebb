//! A connection to a cluster: the first endpoint that proves itself.
//!
//! Invariant: endpoints are tried in the order given, each with its own channel and its own server name, and nothing is
//! shared among them. When all fail, the error holds one reason for each. The client itself can do nothing to a node: it
//! hands out capabilities, and what is handed a [`SnapshotSource`] can ask and read, and no more.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tonic::transport::Channel;

use crate::config::{ClientCertificate, ConfigError, Context};
use crate::connect::{Connect, EndpointFailure};
use crate::endpoint::Endpoint;
use crate::error::TalosError;
use crate::questions::Questions;
use crate::snapshot::SnapshotSource;

/// How to connect. There is no limit on a whole snapshot: deadlines count lack of progress.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// For each endpoint: name resolution, TCP and TLS together.
    pub connect_timeout: Duration,
    /// For each question. A node whose etcd is down does not answer with an error; it does not answer.
    pub question_timeout: Duration,
    /// How long a TCP connection may be silent before the kernel probes it.
    pub tcp_keepalive: Duration,
    /// The time at which the client certificate must be good; `None` leaves the judgement to the node.
    pub certificate_must_hold_at: Option<DateTime<Utc>>,
}

impl ConnectOptions {
    /// Defaults; `now` is when the client certificate is checked.
    pub fn new(now: DateTime<Utc>) -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            question_timeout: Duration::from_secs(10),
            tcp_keepalive: Duration::from_secs(30),
            certificate_must_hold_at: Some(now),
        }
    }
}

/// A proven connection to one endpoint of a cluster.
///
/// Its certificate stays the one of the context that it was made from. Where a short-lived one rotates, load the
/// talosconfig again and connect again.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    endpoint: Endpoint,
    passed_over: Vec<EndpointFailure>,
    certificate: Option<ClientCertificate>,
    question_timeout: Duration,
}

impl Client {
    /// Connects to the first endpoint of the context that works.
    pub async fn connect(context: &Context, options: &ConnectOptions) -> Result<Self, TalosError> {
        let certificate = match options.certificate_must_hold_at {
            Some(now) => Some(context.client_certificate(now)?),
            None => None,
        };
        if context.endpoints().is_empty() {
            let (origin, context) = (context.origin().to_owned(), context.name().to_owned());
            return Err(ConfigError::NoEndpoints { origin, context }.into());
        }
        let connect = Connect::new(context, options.connect_timeout, options.tcp_keepalive)?;

        let mut failures: Vec<EndpointFailure> = Vec::new();
        for endpoint in context.endpoints() {
            // The deprecated `target` often repeats an endpoint.
            if failures.iter().any(|failure| failure.endpoint == *endpoint) {
                continue;
            }
            match connect.channel(endpoint).await {
                Ok(channel) => {
                    tracing::debug!(%endpoint, "connected to the Talos API");
                    return Ok(Self {
                        channel,
                        endpoint: endpoint.clone(),
                        passed_over: failures,
                        certificate,
                        question_timeout: options.question_timeout,
                    });
                }
                Err(reason) => {
                    tracing::debug!(%endpoint, %reason, "endpoint passed over");
                    failures.push(EndpointFailure { endpoint: endpoint.clone(), reason });
                }
            }
        }
        Err(TalosError::NoEndpoint { context: context.name().to_owned(), failures })
    }

    /// The endpoint that is connected.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Endpoints before it that failed, with their reasons: worth a warning, since they are configured and do not work.
    pub fn passed_over(&self) -> &[EndpointFailure] {
        &self.passed_over
    }

    /// What the client certificate says, when it was checked.
    pub fn certificate(&self) -> Option<&ClientCertificate> {
        self.certificate.as_ref()
    }

    /// The questions that a backup asks.
    pub fn questions(&self) -> Questions {
        Questions::new(self.channel.clone(), self.endpoint.clone(), self.question_timeout)
    }

    /// The capability to ask questions and to take snapshots, and nothing else.
    pub fn snapshot_source(&self) -> SnapshotSource {
        SnapshotSource::new(self.channel.clone(), self.questions())
    }
}
