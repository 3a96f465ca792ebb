//! The decision itself: pure, so that every case is a row in a table.
//!
//! Invariant: the best member that answered is taken, even when none is good. A cluster without a quorum is where a
//! backup is wanted most, so what is wrong becomes a warning and never a refusal.

use std::cmp::Reverse;

use super::{Choice, Learned, MemberFacts, Observation, Observed};
use crate::node::Node;
use crate::questions::{Alarm, AlarmKind, Member, MemberId, MemberStatus};

/// A member this many raft entries behind the best one is not up to date. Statuses are asked at slightly different times
/// while the cluster goes on writing, so a small distance means nothing.
const LAG_ENTRIES_MAX: u64 = 1_000;

/// Chooses among the members that answered.
pub fn decide(observed: &Observed) -> Choice {
    let alarms = observed.alarms.as_deref().unwrap_or_default();
    let answered: Vec<Candidate<'_>> = observed.statuses.iter().filter_map(Candidate::new).collect();
    let Some(best) = best(&answered, alarms) else {
        return without_statuses(observed);
    };

    let field = Field::of(&answered);
    let mut warnings = best.complaints(&field, alarms);
    for silent in &observed.statuses {
        if let Err(why) = &silent.status {
            warnings.push(format!("member {} did not answer: {why}", named(&silent.member)));
        }
    }
    warnings.extend(alarm_warnings(alarms));

    let state = if best.complaints(&field, alarms).is_empty() { "healthy and up to date" } else { "the best there is" };
    let part = if best.is_leader() { "the leader" } else { "a follower" };
    Choice {
        node: Some(best.node.clone()),
        why: format!(
            "member {} is {part}, {state} ({} of {} members answered)",
            named(best.member),
            answered.len(),
            observed.statuses.len()
        ),
        warnings,
        facts: facts(Some(best.member), Some(best.status), observed),
    }
}

/// What is known about a node that was named by hand.
pub(super) fn explicit(
    node: &Node,
    status: Learned<MemberStatus>,
    members: Learned<Vec<Member>>,
    alarms: Learned<Vec<Alarm>>,
) -> Choice {
    let mut warnings = Vec::new();
    match &status {
        Ok(status) => warnings.extend(own_complaints(status)),
        Err(why) => warnings.push(format!("whether etcd on {node} is healthy is not known: {why}")),
    }
    warnings.extend(alarm_warnings(alarms.as_deref().unwrap_or_default()));
    let member = members.as_ref().ok().and_then(|members| {
        members.iter().find(|member| match &status {
            Ok(status) => member.id == status.member_id,
            Err(_) => member.nodes.contains(node),
        })
    });
    let facts = MemberFacts {
        member_id: status.as_ref().ok().map(|s| s.member_id).or(member.map(|m| m.id)),
        name: member.map(|member| member.name.clone()),
        status: status.ok(),
        alarms: alarms.ok(),
        members: members.as_ref().ok().map(Vec::len),
        talos_version: None,
    };
    Choice { node: Some(node.clone()), why: "it was asked for".to_owned(), warnings, facts }
}

/// A member that answered under a node value.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    member: &'a Member,
    node: &'a Node,
    status: &'a MemberStatus,
}

/// The best of the field, to measure the others against.
struct Field {
    applied_index: u64,
    raft_term: u64,
}

impl Field {
    fn of(candidates: &[Candidate<'_>]) -> Self {
        Self {
            applied_index: candidates.iter().map(|c| c.status.applied_index).max().unwrap_or(0),
            raft_term: candidates.iter().map(|c| c.status.raft_term).max().unwrap_or(0),
        }
    }
}

impl<'a> Candidate<'a> {
    fn new(observation: &'a Observation) -> Option<Self> {
        let status = observation.status.as_ref().ok()?;
        Some(Self { member: &observation.member, node: observation.node.as_ref()?, status })
    }

    fn is_learner(&self) -> bool {
        self.status.is_learner || self.member.is_learner
    }

    fn is_leader(&self) -> bool {
        self.status.leader == Some(self.status.member_id)
    }

    fn is_corrupt(&self, alarms: &[Alarm]) -> bool {
        alarms.iter().any(|alarm| alarm.kind == AlarmKind::Corrupt && alarm.member_id == self.status.member_id)
    }

    fn is_close(&self, field: &Field) -> bool {
        field.applied_index - self.status.applied_index <= LAG_ENTRIES_MAX
    }

    fn is_current_term(&self, field: &Field) -> bool {
        self.status.raft_term == field.raft_term
    }

    /// What speaks against it, in words.
    fn complaints(&self, field: &Field, alarms: &[Alarm]) -> Vec<String> {
        let mut complaints = own_complaints(self.status);
        if self.member.is_learner && !self.status.is_learner {
            complaints.push(LEARNER.to_owned());
        }
        if self.is_corrupt(alarms) {
            complaints.push("the member has raised the CORRUPT alarm: its data differ from the others'".to_owned());
        }
        if !self.is_current_term(field) {
            complaints.push("the member is in an older raft term than others: it may be cut off".to_owned());
        }
        if !self.is_close(field) {
            let behind = field.applied_index - self.status.applied_index;
            complaints.push(format!("the member is {behind} raft entries behind the most advanced one"));
        }
        complaints
    }
}

const LEARNER: &str = "the member is a learner: it is still catching up, and its snapshot may be old";

fn own_complaints(status: &MemberStatus) -> Vec<String> {
    let mut complaints = Vec::new();
    if status.is_learner {
        complaints.push(LEARNER.to_owned());
    }
    if status.leader.is_none() {
        complaints
            .push("the member knows no leader: the cluster has lost its quorum, or the member is cut off".to_owned());
    }
    if !status.errors.is_empty() {
        complaints.push(format!("etcd reports: {}", status.errors.join("; ")));
    }
    complaints
}

/// The order of preference; the first difference decides.
fn best<'a>(candidates: &[Candidate<'a>], alarms: &[Alarm]) -> Option<Candidate<'a>> {
    let field = Field::of(candidates);
    candidates.iter().copied().max_by_key(|candidate| {
        let has_leader = candidate.status.leader.is_some();
        (
            !candidate.is_learner(),
            !candidate.is_corrupt(alarms),
            has_leader,
            candidate.is_current_term(&field),
            candidate.is_close(&field),
            candidate.status.errors.is_empty(),
            // A snapshot holds a read transaction open and costs its member disk and network: spare the leader.
            !candidate.is_leader(),
            // Without a leader nothing is being written, and every entry more is one less lost.
            if has_leader { 0 } else { candidate.status.applied_index },
            // The same cluster gives the same choice.
            Reverse(candidate.status.member_id),
        )
    })
}

/// Nobody's status is known. The endpoint is connected, so it is the one node that surely answers; it is left only when
/// the member list says that it is a learner.
fn without_statuses(observed: &Observed) -> Choice {
    let alarms = observed.alarms.as_deref().unwrap_or_default();
    let members = observed.members.as_deref().unwrap_or_default();
    let is_here = |member: &&Member| {
        let by_id = observed.here.as_ref().is_ok_and(|here| here.member_id == member.id);
        by_id || member.nodes.iter().any(|node| node.as_str() == observed.endpoint.host())
    };
    let here = members.iter().find(is_here);

    if here.is_some_and(|member| member.is_learner)
        && let Some(other) = members.iter().find(|member| !member.is_learner && !member.nodes.is_empty())
    {
        return Choice {
            node: other.nodes.first().cloned(),
            why: format!("member {} is no learner, and the connected endpoint is one", named(other)),
            warnings: vec!["the health of the members could not be asked".to_owned()],
            facts: facts(Some(other), None, observed),
        };
    }

    let mut warnings = Vec::new();
    let why_not = match (&observed.members, &observed.here) {
        (Err(why), _) => format!("the members could not be asked for: {why}"),
        (Ok(members), _) if members.is_empty() => "the member list is empty".to_owned(),
        (Ok(_), _) => match observed.statuses.iter().find_map(|o| o.status.as_ref().err()) {
            Some(why) => format!("no member's status could be asked for: {why}"),
            None => "no member has an address".to_owned(),
        },
    };
    match &observed.here {
        Ok(status) => warnings.extend(own_complaints(status)),
        Err(_) => warnings.push("whether the member is healthy and up to date is not known".to_owned()),
    }
    warnings.extend(alarm_warnings(alarms));
    Choice {
        node: None,
        why: format!("{} is connected ({why_not})", observed.endpoint),
        warnings,
        facts: facts(here, observed.here.as_ref().ok(), observed),
    }
}

fn facts(member: Option<&Member>, status: Option<&MemberStatus>, observed: &Observed) -> MemberFacts {
    MemberFacts {
        member_id: status.map(|status| status.member_id).or(member.map(|member| member.id)),
        name: member.map(|member| member.name.clone()),
        status: status.cloned(),
        alarms: observed.alarms.as_ref().ok().cloned(),
        members: observed.members.as_ref().ok().map(Vec::len),
        talos_version: None,
    }
}

fn alarm_warnings(alarms: &[Alarm]) -> impl Iterator<Item = String> {
    alarms
        .iter()
        .map(|Alarm { member_id: MemberId(id), kind }| format!("etcd member {id:016x} has raised the {kind} alarm"))
}

fn named(member: &Member) -> String {
    match member.nodes.first() {
        Some(node) => format!("{} ({node})", member.name),
        None if member.name.is_empty() => member.id.to_string(),
        None => member.name.clone(),
    }
}
