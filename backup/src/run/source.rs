//! From the endpoints to a snapshot that has begun.
//!
//! Invariant: nothing is asked of the store before the first bytes are here, and until then every endpoint gets its turn:
//! one that connects but cannot give a snapshot is passed over like one that does not connect. Once bytes have come there is
//! no other try; a second snapshot is a second run.

use std::pin::Pin;

use bronzenail_format::manifest::Source;
use bronzenail_talos::{Choice, Client, Context, Deadlines, Endpoint, Node, SnapshotSource, TalosError, choose_member};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{Stream, StreamExt, stream};

use super::Clock;
use crate::config::TalosOptions;
use crate::error::RunError;

/// The bytes of a snapshot.
pub type Snapshot = Pin<Box<dyn Stream<Item = Result<Bytes, TalosError>> + Send>>;

/// A snapshot that has begun, and what is known of where it comes from.
pub struct Begun {
    /// Its bytes, from the first on.
    pub snapshot: Snapshot,
    /// Where it comes from.
    pub origin: Origin,
}

/// What is known of a snapshot before it is here.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// When it was asked for.
    pub taken_at: DateTime<Utc>,
    /// For the manifest.
    pub source: Source,
    /// Why this member.
    pub why: String,
    /// What is not as it should be.
    pub warnings: Vec<String>,
}

/// Connects to the endpoints in their order until one gives the first bytes of a snapshot.
///
/// # Errors
/// The reason of the only endpoint, or of each.
pub async fn begin(options: TalosOptions, clock: Clock<'_>, stage: impl Fn(&str)) -> Result<Begun, RunError> {
    let TalosOptions { context, node, connect, deadlines } = options;
    let mut left = context.endpoints().to_vec();
    let mut tried = Tried::default();
    loop {
        stage("connecting to Talos");
        let client = match Client::connect(&context.clone().with_endpoints(left.clone()), &connect).await {
            Ok(client) => client,
            Err(error) => return Err(tried.and(None, error)),
        };
        let endpoint = client.endpoint().clone();
        let passed_over = client.passed_over().iter().map(ToString::to_string);
        tried.reasons.extend(passed_over);
        left = after(left, &endpoint);

        stage("taking the snapshot");
        let attempt = Attempt { context: &context, client, asked_for: node.as_ref(), deadlines };
        match attempt.begin(clock).await {
            Ok(mut begun) => {
                let mut warnings = context.warnings().to_vec();
                warnings.extend(tried.reasons.iter().map(|reason| format!("passed over an endpoint: {reason}")));
                warnings.append(&mut begun.origin.warnings);
                begun.origin.warnings = warnings;
                return Ok(begun);
            }
            Err(error) if left.is_empty() || !is_worth_another(&error, node.as_ref()) => {
                return Err(tried.and(Some(&endpoint), error));
            }
            Err(error) => {
                tracing::info!(%endpoint, reason = %error, "the snapshot did not begin; trying the next endpoint");
                tried.add(Some(&endpoint), &error);
            }
        }
    }
}

/// The endpoints behind `endpoint`, it and its repetitions left out.
fn after(endpoints: Vec<Endpoint>, endpoint: &Endpoint) -> Vec<Endpoint> {
    let behind = endpoints.into_iter().skip_while(|other| other != endpoint);
    behind.filter(|other| other != endpoint).collect()
}

/// Whether the reason lies with the endpoint, or may.
fn is_worth_another(error: &TalosError, asked_for: Option<&Node>) -> bool {
    match error {
        // That node's own etcd is silent. It would be, through any endpoint, and each would cost the whole deadline.
        TalosError::NoFirstByte { .. } => asked_for.is_none(),
        error => error.is_retryable() || error.is_no_forwarding() || error.is_not_control_plane(),
    }
}

/// Endpoints that gave no snapshot.
#[derive(Debug, Default)]
struct Tried {
    reasons: Vec<String>,
    hints: Vec<String>,
}

impl Tried {
    fn add(&mut self, endpoint: Option<&Endpoint>, error: &TalosError) {
        match (error, endpoint) {
            (TalosError::NoEndpoint { failures, .. }, _) => {
                self.reasons.extend(failures.iter().map(ToString::to_string));
            }
            (error, Some(endpoint)) => self.reasons.push(format!("{endpoint}: {error}")),
            (error, None) => self.reasons.push(error.to_string()),
        }
        if let Some(hint) = error.hint().filter(|hint| !self.hints.contains(hint)) {
            self.hints.push(hint);
        }
    }

    /// The error for all of them.
    fn and(mut self, endpoint: Option<&Endpoint>, error: TalosError) -> RunError {
        if self.reasons.is_empty() {
            return error.into();
        }
        self.add(endpoint, &error);
        let hint = (!self.hints.is_empty()).then(|| self.hints.join("; "));
        RunError::NoSnapshot { reasons: self.reasons.join("; "), hint }
    }
}

/// One try through one endpoint.
struct Attempt<'a> {
    context: &'a Context,
    client: Client,
    asked_for: Option<&'a Node>,
    deadlines: Deadlines,
}

impl Attempt<'_> {
    async fn begin(self, clock: Clock<'_>) -> Result<Begun, TalosError> {
        let source = self.client.snapshot_source();
        let choice = choose_member(source.questions(), self.asked_for).await;
        let node = self.asked_for.or(choice.node.as_ref());
        tracing::info!(endpoint = %source.endpoint(), why = choice.why, "chose a member");

        let taken_at = clock();
        let snapshot = first_bytes(&source, node, self.deadlines).await?;
        let certificate = self.client.certificate();
        let mut warnings = certificate.map(|certificate| certificate.warnings.clone()).unwrap_or_default();
        warnings.extend(choice.warnings.iter().cloned());
        let described = describe(self.context, source.endpoint(), node, &choice);
        Ok(Begun { snapshot, origin: Origin { taken_at, source: described, why: choice.why, warnings } })
    }
}

/// Waits for the snapshot to begin, so that what fails before leaves no upload behind.
async fn first_bytes(
    source: &SnapshotSource,
    node: Option<&Node>,
    deadlines: Deadlines,
) -> Result<Snapshot, TalosError> {
    let mut snapshot = Box::pin(source.snapshot(node, deadlines).await?);
    match snapshot.next().await {
        Some(first) => Ok(Box::pin(stream::iter([Ok(first?)]).chain(snapshot))),
        None => Ok(snapshot),
    }
}

fn describe(context: &Context, endpoint: &Endpoint, node: Option<&Node>, choice: &Choice) -> Source {
    let facts = &choice.facts;
    let status = facts.status.as_ref();
    let some_text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Source {
        endpoint: Some(endpoint.to_string()),
        node: node.map(ToString::to_string),
        member_id: facts.member_id.map(|id| id.to_string()),
        member_name: facts.name.clone(),
        etcd_version: status.and_then(|status| some_text(&status.etcd_version)),
        storage_version: status.and_then(|status| status.storage_version.clone()),
        talos_version: facts.talos_version.clone(),
        db_size_bytes: status.map(|status| status.db_size_bytes),
        raft_applied_index: status.map(|status| status.applied_index.to_string()),
        raft_term: status.map(|status| status.raft_term.to_string()),
        is_leader: status.map(|status| status.leader == Some(status.member_id)),
        is_learner: status.map(|status| status.is_learner),
        talos_ca_sha256: context.ca_fingerprints().iter().filter_map(|ca| ca.to_string().parse().ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bronzenail_talos::{Call, Code};

    use super::*;

    fn endpoints(texts: &[&str]) -> Vec<Endpoint> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn call() -> Call {
        Call { method: "EtcdSnapshot", endpoint: "10.0.0.1".parse().unwrap(), node: None, received_bytes: None }
    }

    fn status(code: Code, message: &str) -> TalosError {
        TalosError::Status { call: call(), code, message: message.to_owned() }
    }

    #[test]
    fn every_endpoint_gets_one_turn() {
        let all = endpoints(&["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3"]);
        let left = after(all, &"10.0.0.1".parse().unwrap());
        assert_eq!(left, endpoints(&["10.0.0.2", "10.0.0.3"]));
        // Those before the connected one have been passed over.
        let left = after(left, &"10.0.0.3".parse().unwrap());
        assert!(left.is_empty());
    }

    #[test]
    fn only_what_may_lie_with_the_endpoint_is_tried_through_another() {
        let node: Node = "10.0.0.9".parse().unwrap();
        let silent = TalosError::NoFirstByte { call: call(), waited: Duration::from_secs(60) };
        for (error, without_node, with_node) in [
            (status(Code::Unavailable, "connection refused"), true, true),
            (status(Code::PermissionDenied, "no request forwarding"), true, true),
            (status(Code::Unimplemented, "etcd snapshot is only available on control plane nodes"), true, true),
            (status(Code::PermissionDenied, "not authorized"), false, false),
            (status(Code::InvalidArgument, ""), false, false),
            (silent, true, false),
        ] {
            assert_eq!(is_worth_another(&error, None), without_node, "{error}");
            assert_eq!(is_worth_another(&error, Some(&node)), with_node, "{error}");
        }
    }

    #[test]
    fn b15_when_all_fail_each_endpoint_is_listed_with_its_own_reason() {
        let mut tried = Tried::default();
        tried.add(Some(&"10.0.0.1".parse().unwrap()), &status(Code::PermissionDenied, "no request forwarding"));
        let error = tried.and(Some(&"10.0.0.2".parse().unwrap()), status(Code::Unavailable, "etcd is down"));
        assert_eq!(
            bronzenail_cli::report::error_text(&error, None),
            "error: none of the endpoints gave a snapshot: \
             10.0.0.1:50000: EtcdSnapshot on 10.0.0.1:50000 failed with PermissionDenied: no request forwarding; \
             10.0.0.2:50000: EtcdSnapshot on 10.0.0.1:50000 failed with Unavailable: etcd is down\n"
        );
        assert!(error.hint().unwrap().contains("is a worker"));
        // With one endpoint there is nothing to list.
        let only = Tried::default().and(Some(&"10.0.0.1".parse().unwrap()), status(Code::Unavailable, "down"));
        assert!(matches!(only, RunError::Talos(_)));
    }
}
