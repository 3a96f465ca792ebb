//! Which member a snapshot is taken from.
//!
//! Invariant: asking never fails a backup. Every question is optional, all of them together cost at most a few deadlines,
//! and the decision itself is a pure function over what was learned. Pinning a node matters: a learner and a member cut
//! off from the rest both hand out snapshots, only old ones.

mod decide;

use futures::future::join_all;

pub use decide::decide;

use crate::endpoint::Endpoint;
use crate::error::TalosError;
use crate::node::Node;
use crate::questions::{Alarm, Answer, Member, MemberId, MemberSource, MemberStatus, Questions, Version};

/// What was learned, or why it was not.
pub type Learned<T> = Result<T, String>;

/// Everything that the decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The connected endpoint.
    pub endpoint: Endpoint,
    /// The member list.
    pub members: Learned<Vec<Member>>,
    /// One entry per listed member, in the list's order.
    pub statuses: Vec<Observation>,
    /// Status of the connected endpoint itself, asked without a node header.
    pub here: Learned<MemberStatus>,
    /// Raised alarms.
    pub alarms: Learned<Vec<Alarm>>,
}

/// One member as it was found.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Its entry in the member list.
    pub member: Member,
    /// The node value that it answered under, or the first that was tried.
    pub node: Option<Node>,
    /// Its status.
    pub status: Learned<MemberStatus>,
}

/// The member that a snapshot is taken from, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The node header; without one the connected endpoint answers.
    pub node: Option<Node>,
    /// Why this one, in one clause.
    pub why: String,
    /// What is not as it should be.
    pub warnings: Vec<String>,
    /// What was learned about it, for the manifest.
    pub facts: MemberFacts,
}

/// What is known about the source of a snapshot. Every field is optional: roles and versions differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberFacts {
    /// Member id.
    pub member_id: Option<MemberId>,
    /// Name of the member, which is its host name.
    pub name: Option<String>,
    /// etcd's status of itself.
    pub status: Option<MemberStatus>,
    /// Alarms raised in the cluster; `None` when nobody could be asked.
    pub alarms: Option<Vec<Alarm>>,
    /// Number of members.
    pub members: Option<usize>,
    /// Talos version of the node.
    pub talos_version: Option<String>,
}

/// Asks what may be asked and chooses; with `node` given, only looks at that one.
pub async fn choose_member(questions: &Questions, node: Option<&Node>) -> Choice {
    let mut choice = match node {
        Some(node) => look_at(questions, node).await,
        None => decide(&observe(questions).await),
    };
    if let Ok(version) = learned(questions.version(choice.node.as_ref()).await) {
        let Version { talos, .. } = version;
        choice.facts.talos_version = Some(talos).filter(|talos| !talos.is_empty());
    }
    choice
}

/// An explicit node is taken as it is; what speaks against it becomes a warning.
async fn look_at(questions: &Questions, node: &Node) -> Choice {
    let (status, members, alarms) = tokio::join!(
        questions.etcd_status(Some(node)),
        questions.member_list(Some(node), MemberSource::ThatNode),
        questions.alarm_list(Some(node)),
    );
    decide::explicit(node, learned(status), learned(members), learned(alarms))
}

async fn observe(questions: &Questions) -> Observed {
    let (members, here, alarms) = tokio::join!(
        questions.member_list(None, MemberSource::AnyMember),
        questions.etcd_status(None),
        questions.alarm_list(None),
    );
    let members = learned(members);
    // All at once, so that their raft indexes can be compared.
    let statuses = join_all(members.iter().flatten().map(|member| observe_member(questions, member))).await;
    Observed { endpoint: questions.endpoint().clone(), members, statuses, here: learned(here), alarms: learned(alarms) }
}

async fn observe_member(questions: &Questions, member: &Member) -> Observation {
    let mut why = Vec::new();
    // A dual-stack member has two addresses, of which the endpoint may be able to reach one.
    for node in &member.nodes {
        match learned(questions.etcd_status(Some(node)).await) {
            Ok(status) => return Observation { member: member.clone(), node: Some(node.clone()), status: Ok(status) },
            Err(reason) => why.push(reason),
        }
    }
    if why.is_empty() {
        why.push("it has no address".to_owned());
    }
    Observation { member: member.clone(), node: member.nodes.first().cloned(), status: Err(why.join("; ")) }
}

fn learned<T>(answer: Result<Answer<T>, TalosError>) -> Learned<T> {
    match answer {
        Ok(Answer::Known(answer)) => Ok(answer),
        Ok(Answer::NotAllowed(why)) => Err(format!("not allowed ({why})")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
