//! The questions that a backup asks a node, each of them optional.
//!
//! Invariant: every question has its own deadline, and a question that the role or the version does not allow is an
//! answer, not an error. Which roles may ask what has changed between Talos versions, and no backup may fail over it.
//! A node that is no control-plane node is an error: nothing else would work there either.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bronzenail_proto::common::Metadata;
use bronzenail_proto::machine::machine_service_client::MachineServiceClient;
use bronzenail_proto::{MESSAGE_BYTES_MAX, machine};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::endpoint::Endpoint;
use crate::error::{Call, TalosError};
use crate::node::Node;

/// Our own deadline ends first; the one on the wire makes the node stop waiting for its etcd too.
const WIRE_DEADLINE_SLACK: Duration = Duration::from_secs(2);

/// An answer, or why there may be none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// The node answered.
    Known(T),
    /// The role or the version does not allow the question; the node's own words.
    NotAllowed(String),
}

impl<T> Answer<T> {
    /// Changes the answer, if there is one.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Known(answer) => Answer::Known(change(answer)),
            Self::NotAllowed(why) => Answer::NotAllowed(why),
        }
    }

    /// The answer, if there is one.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(answer) => Some(answer),
            Self::NotAllowed(_) => None,
        }
    }
}

/// An etcd member's id, shown as 16 hexadecimal digits like everywhere in Talos.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemberId({self})")
    }
}

/// What runs on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Talos version, such as `v1.13.9`.
    pub talos: String,
    /// Processor architecture.
    pub arch: String,
    /// Platform, such as `metal`.
    pub platform: Option<String>,
    /// Whether roles are enforced; unknown before the node is configured.
    pub rbac: Option<bool>,
}

/// etcd's own view of itself on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The member that answered.
    pub member_id: MemberId,
    /// etcd's server version.
    pub etcd_version: String,
    /// Storage version, from Talos 1.11 on.
    pub storage_version: Option<String>,
    /// Size of the database file: about what a snapshot will have.
    pub db_size_bytes: u64,
    /// The part of it that is in use.
    pub db_in_use_bytes: u64,
    /// The leader as this member knows it; none when it knows none.
    pub leader: Option<MemberId>,
    /// Raft log index.
    pub raft_index: u64,
    /// Raft index applied to the database: how far a snapshot would go.
    pub applied_index: u64,
    /// Raft term.
    pub raft_term: u64,
    /// What etcd complains about, raised alarms among it.
    pub errors: Vec<String>,
    /// A learner is still catching up and answers snapshots all the same.
    pub is_learner: bool,
}

/// One entry of the member list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Id.
    pub id: MemberId,
    /// Host name of the node.
    pub name: String,
    /// Where its node can be reached, from the client URLs and then the peer URLs.
    pub nodes: Vec<Node>,
    /// Whether it is still catching up.
    pub is_learner: bool,
}

/// A raised alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Whose.
    pub member_id: MemberId,
    /// Which.
    pub kind: AlarmKind,
}

/// The alarms that etcd knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlarmKind {
    /// The database has reached its quota; the cluster takes no writes.
    NoSpace,
    /// The member's data differ from the others': a snapshot of it is a snapshot of damage.
    Corrupt,
    /// One that is newer than this program.
    Other(i32),
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace => f.write_str("NOSPACE"),
            Self::Corrupt => f.write_str("CORRUPT"),
            Self::Other(number) => write!(f, "alarm {number}"),
        }
    }
}

/// Asks nodes through one endpoint.
#[derive(Clone, Debug)]
pub struct Questions {
    client: MachineServiceClient<Channel>,
    endpoint: Endpoint,
    timeout: Duration,
}

impl Questions {
    pub(crate) fn new(channel: Channel, endpoint: Endpoint, timeout: Duration) -> Self {
        Self { client: client(channel), endpoint, timeout }
    }

    /// The endpoint that the questions go through.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Which Talos runs there. Needs `os:reader` or more; `os:etcd:backup` alone may not ask.
    pub async fn version(&self, node: Option<&Node>) -> Result<Answer<Version>, TalosError> {
        let send = |mut client: MachineServiceClient<Channel>, request| async move { client.version(request).await };
        let reply = self.ask("Version", node, (), send).await?;
        self.answer("Version", node, reply.map(|r| r.messages), |m| m.metadata.as_ref()).map(|a| a.map(to_version))
    }

    /// How etcd is on that node. Hangs, and so runs into its deadline, while etcd is down.
    pub async fn etcd_status(&self, node: Option<&Node>) -> Result<Answer<MemberStatus>, TalosError> {
        let send =
            |mut client: MachineServiceClient<Channel>, request| async move { client.etcd_status(request).await };
        let reply = self.ask("EtcdStatus", node, (), send).await?;
        self.answer("EtcdStatus", node, reply.map(|r| r.messages), |m| m.metadata.as_ref())
            .map(|a| a.map(|m| to_status(m.member_status.unwrap_or_default())))
    }

    /// The members of the cluster.
    pub async fn member_list(
        &self,
        node: Option<&Node>,
        asked: MemberSource,
    ) -> Result<Answer<Vec<Member>>, TalosError> {
        let query = machine::EtcdMemberListRequest { query_local: asked == MemberSource::ThatNode };
        let send =
            |mut client: MachineServiceClient<Channel>, request| async move { client.etcd_member_list(request).await };
        let reply = self.ask("EtcdMemberList", node, query, send).await?;
        self.answer("EtcdMemberList", node, reply.map(|r| r.messages), |m| m.metadata.as_ref())
            .map(|a| a.map(|m| m.members.into_iter().map(to_member).collect()))
    }

    /// Alarms that are raised anywhere in the cluster.
    pub async fn alarm_list(&self, node: Option<&Node>) -> Result<Answer<Vec<Alarm>>, TalosError> {
        let send =
            |mut client: MachineServiceClient<Channel>, request| async move { client.etcd_alarm_list(request).await };
        let reply = self.ask("EtcdAlarmList", node, (), send).await?;
        self.answer("EtcdAlarmList", node, reply.map(|r| r.messages), |m| m.metadata.as_ref())
            .map(|a| a.map(|m| m.member_alarms.into_iter().filter_map(to_alarm).collect()))
    }

    fn call(&self, method: &'static str, node: Option<&Node>) -> Call {
        Call { method, endpoint: self.endpoint.clone(), node: node.cloned(), received_bytes: None }
    }

    /// Sends one question and waits for the reply until its deadline.
    async fn ask<Q, R, F>(
        &self,
        method: &'static str,
        node: Option<&Node>,
        query: Q,
        send: impl FnOnce(MachineServiceClient<Channel>, Request<Q>) -> F,
    ) -> Result<Answer<R>, TalosError>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let mut request = request(query, node);
        request.set_timeout(self.timeout + WIRE_DEADLINE_SLACK);
        match tokio::time::timeout(self.timeout, send(self.client.clone(), request)).await {
            Ok(Ok(reply)) => Ok(Answer::Known(reply.into_inner())),
            Ok(Err(status)) => match TalosError::from_status(self.call(method, node), &status) {
                error if error.is_not_allowed() => {
                    Ok(Answer::NotAllowed(format!("{:?}: {}", status.code(), status.message())))
                }
                error => Err(error),
            },
            Err(_) => Err(TalosError::NoAnswer { call: self.call(method, node), waited: self.timeout }),
        }
    }

    /// The one message of a reply. Talos repeats messages per node; with `node` there is one, and any error in it counts.
    fn answer<M>(
        &self,
        method: &'static str,
        node: Option<&Node>,
        reply: Answer<Vec<M>>,
        metadata: impl Fn(&M) -> Option<&Metadata>,
    ) -> Result<Answer<M>, TalosError> {
        let messages = match reply {
            Answer::Known(messages) => messages,
            Answer::NotAllowed(why) => return Ok(Answer::NotAllowed(why)),
        };
        let call = self.call(method, node);
        if let Some(error) = messages.iter().find_map(|message| TalosError::in_band(&call, metadata(message))) {
            return Err(error);
        }
        match messages.into_iter().next() {
            Some(message) => Ok(Answer::Known(message)),
            None => Err(TalosError::EmptyReply { call }),
        }
    }
}

/// Whose member list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberSource {
    /// Any control-plane node's etcd.
    AnyMember,
    /// Only the etcd of the node that is asked.
    ThatNode,
}

/// A client with the limits of the Talos API.
pub(crate) fn client(channel: Channel) -> MachineServiceClient<Channel> {
    MachineServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// A request for one node: `node`, and never `nodes`.
pub(crate) fn request<Q>(query: Q, node: Option<&Node>) -> Request<Q> {
    let mut request = Request::new(query);
    if let Some(node) = node {
        request.metadata_mut().insert("node", node.header());
    }
    request
}

fn to_version(message: machine::Version) -> Version {
    let info = message.version.unwrap_or_default();
    Version {
        talos: info.tag,
        arch: info.arch,
        platform: message.platform.map(|platform| platform.name).filter(|name| !name.is_empty()),
        rbac: message.features.map(|features| features.rbac),
    }
}

fn to_status(status: machine::EtcdMemberStatus) -> MemberStatus {
    MemberStatus {
        member_id: MemberId(status.member_id),
        etcd_version: status.protocol_version,
        storage_version: Some(status.storage_version).filter(|version| !version.is_empty()),
        db_size_bytes: u64::try_from(status.db_size).unwrap_or(0),
        db_in_use_bytes: u64::try_from(status.db_size_in_use).unwrap_or(0),
        leader: (status.leader != 0).then_some(MemberId(status.leader)),
        raft_index: status.raft_index,
        applied_index: status.raft_applied_index,
        raft_term: status.raft_term,
        errors: status.errors,
        is_learner: status.is_learner,
    }
}

fn to_member(member: machine::EtcdMember) -> Member {
    let mut nodes: Vec<Node> = Vec::new();
    // Both URLs name the same node; a member that has not started yet has no client URL.
    for node in member.client_urls.iter().chain(&member.peer_urls).filter_map(|url| node_of_url(url)) {
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    Member { id: MemberId(member.id), name: member.hostname, nodes, is_learner: member.is_learner }
}

/// The host of an etcd URL such as `https://[fd00::1]:2379`.
fn node_of_url(url: &str) -> Option<Node> {
    let url: http::Uri = url.parse().ok()?;
    let host = url.host()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn to_alarm(alarm: machine::EtcdMemberAlarm) -> Option<Alarm> {
    use machine::etcd_member_alarm::AlarmType;
    let kind = match AlarmType::try_from(alarm.alarm) {
        Ok(AlarmType::None) => return None,
        Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
        Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
        Err(_) => AlarmKind::Other(alarm.alarm),
    };
    Some(Alarm { member_id: MemberId(alarm.member_id), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_a_member_is_the_host_of_its_urls() {
        let urls = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect();
        let member = to_member(machine::EtcdMember {
            id: 0x1f,
            hostname: "cp-1".to_owned(),
            client_urls: urls(&["https://10.0.0.1:2379", "https://[fd00::1]:2379", "nonsense url"]),
            peer_urls: urls(&["https://10.0.0.1:2380"]),
            is_learner: false,
        });
        let nodes: Vec<&str> = member.nodes.iter().map(Node::as_str).collect();
        assert_eq!(nodes, ["10.0.0.1", "fd00::1"]);
        assert_eq!(member.id.to_string(), "000000000000001f");
    }

    #[test]
    fn an_alarm_that_is_newer_than_us_is_kept() {
        let alarm = |alarm| to_alarm(machine::EtcdMemberAlarm { member_id: 1, alarm }).map(|alarm| alarm.kind);
        assert_eq!((alarm(0), alarm(2), alarm(9)), (None, Some(AlarmKind::Corrupt), Some(AlarmKind::Other(9))));
    }
}
